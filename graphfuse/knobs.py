"""The `GRAPHFUSE_*` environment variables: typed, documented, scoped. Nothing else reads the environment.

Each knob is a descriptor of `Knobs`; `settings.threads` is its value now: what `scope` says, else the
environment, else the default. A variable that no knob has is warned of, so a typo never goes unseen: it may be
another program's, such as those that Kubernetes makes for a service called `graphfuse`.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import math
import os
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar, cast, get_args, overload

from graphfuse.errors import UsageError, meant

T = TypeVar("T")
PREFIX = "GRAPHFUSE_"

_scoped: ContextVar[Mapping[str, Any]] = ContextVar("graphfuse_knobs", default=MappingProxyType({}))


class Knob(Generic[T]):
    """One variable: how to read its text, its value when unset, and what it does.

    `changes_code` says that two values give two artifacts, so that it belongs in the cache key.
    """

    def __init__(self, read: Callable[[str], T], default: T, values: str, doc: str, changes_code: bool = False) -> None:
        self.read, self.default, self.values, self.doc = read, default, values, doc
        self.changes_code = changes_code
        self.name = self.variable = ""
        """As an attribute of `Knobs`, and the environment variable's."""
        self.key: Any = ""
        """The variable as the environment has it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self.variable = name, PREFIX + name.upper()
        self.key = os.environ.encodekey(self.variable)

    @overload
    def __get__(self, instance: None, owner: type) -> Knob[T]: ...
    @overload
    def __get__(self, instance: Knobs, owner: type) -> T: ...
    def __get__(self, instance: Knobs | None, owner: type) -> Knob[T] | T:
        if instance is None:
            return self
        scoped = _scoped.get()
        if self.name in scoped:
            return scoped[self.name]
        # most are unset, for which `os.environ` raises and catches an error: a microsecond in each call of a model
        known = getattr(os.environ, "_data", (self.key,))
        text = os.environ.get(self.variable) if self.key in known else None
        return self.default if text is None else self.parse(text)

    def parse(self, text: str) -> T:
        """Read a value, or say what was expected."""
        try:
            return self.read(text.strip())
        except ValueError:
            raise UsageError(f"{self.variable}: expected {self.values}, got {text!r}") from None


def _between(text: str, least: int, most: float) -> int:
    if not least <= int(text) <= most:
        raise ValueError
    return int(text)


def _level(text: str) -> int:
    return _between(text, 0, 4)


def _count(text: str) -> int | None:
    return _between(text, 0, math.inf) if text else None


def _threads(text: str) -> int | None:
    return _between(text, 1, 1024) if text not in ("", "auto") else None


def _flag(text: str) -> bool:
    words = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}
    if text.lower() not in words:
        raise ValueError
    return words[text.lower()]


def _words(text: str) -> tuple[str, ...]:
    return tuple(w.strip() for w in text.split(",") if w.strip())


WeightMode = Literal["checked", "unchecked", "mapped"]
WEIGHTS: tuple[WeightMode, ...] = get_args(WeightMode)


def _weight_mode(text: str) -> WeightMode | None:
    return WEIGHTS[WEIGHTS.index(cast("WeightMode", text))]


class Knobs:
    """All of them: about the limit, another needs a reason written down (ADR 0015 and 0017 have those of the last)."""

    debug = Knob(_level, 0, "0..4", "1 kernels and times, 2 + decisions, 3 + IR after each stage, 4 + after each pass")
    dump = Knob(str, "", "a folder", "write the IR after each stage and each pass there, as numbered files")
    override = Knob(str, "", "a folder", "files of a dump that replace what passes make")
    print_after = Knob(_words, (), "pass names", "print the IR after these passes to stderr")
    stop_after = Knob(_count, None, "a number from 0 on", "make so many rewrites only, to find which is at fault")
    interpret = Knob(_flag, default=False, values="0 or 1", doc="run models in the numpy interpreter, not compiled")
    verify = Knob(_flag, default=True, values="0 or 1", doc="verify the IR after each pass (0 turns it off)")
    check = Knob(_flag, default=False, values="0 or 1", doc="compare the outputs of each run with the interpreter")
    torch_check = Knob(
        _flag, default=False, values="0 or 1", doc="compare what torch.compile's graphs return with what was promised"
    )
    log = Knob(_words, (), "logger names", "log these packages, such as `fusion,+cpu`; `+` means debug messages too")
    cache = Knob(str, "", "a folder, or 0", "where compiled models are kept (0: nowhere), if only the user may write")
    target = Knob(str, "", "a target", "what to compile for by default, such as `cpu:x86-64-v3`", changes_code=True)
    # to tell a fault of one kernel from one between two, and to measure what overlapping brings
    pdl = Knob(_flag, default=True, values="0 or 1", doc="let a GPU's kernel begin while the one before it still runs")
    weights: Knob[WeightMode | None] = Knob(
        _weight_mode, None, ", ".join(WEIGHTS),
        "weights of an artifact are read and checked, read, or mapped and checked, in less time and memory, for files "
        "that nobody changes (default: checked; `graphfuse generate`: mapped)",
    )  # fmt: skip
    threads = Knob(
        _threads, None, "1..1024",
        "how many threads run a model, and cores compile it for a GPU (default: those this process may use)",
    )  # fmt: skip


settings = Knobs()


def all_knobs() -> tuple[Knob[Any], ...]:
    """Every knob, in the order of their declaration."""
    found: list[Knob[Any]] = [k for k in vars(Knobs).values() if isinstance(k, Knob)]
    return tuple(found)


def check_environment(environment: Mapping[str, str] = os.environ) -> None:
    """Refuse a value that a knob does not take, and warn once of `GRAPHFUSE_*` variables that are no knobs."""
    known = {k.variable: k for k in all_knobs()}
    foreign: list[str] = []
    for variable, text in environment.items():
        if variable in known:
            known[variable].parse(text)
        elif variable.startswith(PREFIX):
            own = [k.removeprefix(PREFIX) for k in known]  # a prefix that all have would make all of them alike
            close = difflib.get_close_matches(variable.removeprefix(PREFIX), own, n=1)
            foreign.append(f"{variable} (did you mean {PREFIX}{close[0]}?)" if close else variable)
    if foreign:
        _warn_once(f"unknown environment variables: {', '.join(sorted(foreign))}")


@functools.cache
def _warn_once(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=1)


def are_passes_watched() -> bool:
    """Whether somebody looks at what passes do, or changes it: then they run, here and now."""
    s = settings
    return bool(s.dump or s.override or s.print_after or s.debug >= 4) or s.stop_after is not None


@contextlib.contextmanager
def scope(**values: Any) -> Generator[None]:
    """Give knobs other values inside a `with`, in this thread or task only: `with knobs.scope(debug=1): ...`.

    Names are those of the environment variables, without `GRAPHFUSE_` and in lower case; values are Python's, not
    texts. Raises UsageError for a name that is none.
    """
    known = {k.name: k for k in all_knobs()}
    for name in values:
        if name not in known:
            raise UsageError(f"unknown knob {name!r}{meant(name, known)}")
    token = _scoped.set({**_scoped.get(), **values})
    try:
        yield
    finally:
        _scoped.reset(token)


def code_key() -> dict[str, str]:
    """The values that change what the compiler emits, for the cache key."""
    return {k.name: str(getattr(settings, k.name)) for k in all_knobs() if k.changes_code}


def table() -> str:
    """The knobs as a Markdown table: `docs/knobs.md` is this."""
    rows = ["| variable | values | default | does |", "|---|---|---|---|"]
    for k in all_knobs():
        default = {True: "1", False: "0", None: "auto", (): "", "": ""}.get(k.default, k.default)
        rows.append(f"| `{k.variable}` | {k.values} | {default} | {k.doc} |")
    return "\n".join(rows)


Numerics = Literal["strict", "eager", "fast"]
NUMERICS: tuple[Numerics, ...] = get_args(Numerics)
"""From the least freedom to the most: each may do what those before it may."""


Precision = Literal["f32", "f16", "bf16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)

Named = TypeVar("Named", bound=str)


def numerics_of(text: str) -> Numerics:
    """The numerics of that name."""
    return _named("numerics", text, NUMERICS)


def precision_of(text: str) -> Precision:
    """The precision of that name."""
    return _named("precision", text, PRECISIONS)


def _named(what: str, text: str, known: Sequence[Named]) -> Named:
    for name in known:
        if text == name:
            return name
    text = str(text)
    hint = meant(text, known) or f"; expected one of {', '.join(known)}"
    raise UsageError(f"unknown {what} {text!r}{hint}")


@dataclass(frozen=True, slots=True)
class Tuning:
    """Where `Options.tuning` tries kernels: a device by its name, with so many threads if it is this processor."""

    device: str = "cpu"
    threads: int = 0
    """0: all cores that this process may use."""


@dataclass(frozen=True, slots=True)
class Options:
    """What one compilation may choose. All of it enters the cache key.

    `fuse=False` makes every op a region of its own, to show what fusion does. `numerics` is how far results may be
    from those of the model's ops done one by one: `strict` rounds as they do, `eager` takes the liberties of eager
    frameworks, `fast` more (docs/numerics.md). `precision` is what an f32 model multiplies and stores: `f32` is the
    model's own, `f16` and `bf16` halves (docs/precision.md). `check_indices` says whether
    indices, lengths and divisors of integers that do not fit are errors on a CPU (docs/onnx.md). `tuning` says where
    the ways to make each kernel are tried, if they are (docs/tuning.md).
    """

    fuse: bool = True
    numerics: Numerics = "eager"
    precision: Precision = "f32"
    check_indices: bool = True
    tuning: Tuning | None = None

    def __post_init__(self) -> None:
        numerics_of(self.numerics)  # a caller without a type checker may pass any text
        precision_of(self.precision)
