"""The passes of every level by name, and the one place where they run: checked, timed, printed, dumped, counted.

A pass is a function from IR to IR. `passing` gives it a level, options and what it requires:

    @passing("graph", after=("canonicalize",))
    def lower_precision(func: Func, *, to: Scalar = F16) -> Func: ...

is `lower-precision` in a pipeline's text, or `lower-precision {to = bf16}`: options are written as attributes of ops
are. A pass does none of what `run` does around it.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from graphfuse.errors import UsageError, VerifyError, meant
from graphfuse.ir import snapshots
from graphfuse.ir.core import Attr, Func, Op
from graphfuse.ir.limit import allows, are_counted
from graphfuse.ir.parser import parse_calls
from graphfuse.ir.printer import attrs_text
from graphfuse.ir.verifier import verify
from graphfuse.knobs import settings

log = logging.getLogger(__name__)

Level: TypeAlias = Literal["any", "graph", "regions", "kernel", "block", "gpu"]
"""What a pass takes: anything, a graph, one of regions, a hand-written kernel, a block function, one for a GPU."""

_DIALECTS: dict[Level, tuple[str, ...]] = {
    "graph": ("graph",), "regions": ("graph",), "kernel": ("block",), "block": ("block",), "gpu": ("block", "gpu"),
}  # fmt: skip
"""Of which dialects ops are, besides control flow, which has no name."""

Property: TypeAlias = Callable[[Func], "str | None"]
"""Tells what of a function is not as it should be, or None."""


@dataclass(frozen=True, slots=True)
class Pass:
    """A function from IR to IR, with the values of its options."""

    name: str
    apply: Callable[..., Func]
    level: Level
    requires: tuple[Property, ...] = ()
    after: tuple[str, ...] = ()
    """Passes that may not run later than this one in a pipeline that has both."""
    needed: bool = False
    """What comes after cannot do without it: it runs whatever `GRAPHFUSE_STOP_AFTER` says."""
    options: Mapping[str, Attr] = field(default_factory=dict[str, Attr])

    def __call__(self, func: Func, **options: Attr) -> Func:
        """The function after it."""
        return self.apply(func, **{**self.options, **options})

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return f"{self.name}{attrs_text(self.options)}"

    def given(self, **options: Attr) -> Pass:
        """The same pass with values for options.

        Raises UsageError for a name or a type that it does not have.
        """
        known = self.defaults
        for name, value in options.items():
            if name not in known:
                expected = f"one of {', '.join(known)}" if known else "none"
                raise UsageError(f"pass {self.name!r}: unknown option {name!r}: expected {expected}")
            if type(value) is not type(known[name]):
                what = type(known[name]).__name__.lower()
                raise UsageError(f"pass {self.name!r}: option {name!r}: expected a value of type {what}, found {value}")
        return replace(self, options={**self.options, **options})

    def of_its_level(self, func: Func) -> str | None:
        """Every op is of a dialect that it takes; those in bodies are what their owner says."""
        dialects = _DIALECTS.get(self.level)
        for op in func.body.ops:
            dialect, dot, _ = op.kind.name.partition(".")
            if dot and dialects and dialect not in dialects:
                return f"expected a function of the level {self.level!r}, found {op.kind}"
        return None

    @property
    def doc(self) -> str:
        """What it does, in a line."""
        return (inspect.getdoc(self.apply) or "").partition("\n")[0]

    @property
    def defaults(self) -> dict[str, Attr]:
        """Its options, and what they are where nobody says."""
        return {p.name: p.default for p in _parameters(self.apply)}


@functools.cache
def _parameters(apply: Callable[..., Func]) -> list[inspect.Parameter]:
    return [p for p in inspect.signature(apply).parameters.values() if p.kind is p.KEYWORD_ONLY]


PASSES: dict[str, Pass] = {}
"""Every pass whose module has been imported, by name; `graphfuse.pipelines` imports them all."""


def passing(
    level: Level, *, requires: tuple[Property, ...] = (), after: tuple[str, ...] = (), needed: bool = False
) -> Callable[[Callable[..., Func]], Pass]:
    """Make a pass of a function whose options are its keyword-only parameters, each with a default."""

    def make(apply: Callable[..., Func]) -> Pass:
        name = apply.__name__.replace("_", "-")
        assert name not in PASSES, f"two passes are called {name}"
        PASSES[name] = Pass(name, apply, level, requires, after, needed)
        return PASSES[name]

    return make


def run(func: Func, passes: Sequence[Pass], stage: str) -> Func:
    """Run passes in order; `stage` names the folder of what is dumped of them.

    Raises VerifyError for IR that a pass may not be given, and, unless `GRAPHFUSE_VERIFY=0`, for IR that one leaves.
    """
    _check_order(passes)
    known = set[Op]()
    checked, watched, limited = settings.verify, snapshots.wanted(), are_counted()
    for i, pass_ in enumerate(passes):
        if limited and not pass_.needed and not allows(f"{stage} @{func.name}: {pass_}"):
            continue
        where = snapshots.Place(stage, func.name, i, pass_.name)
        start = time.perf_counter()
        before = func
        try:
            func = _checked(pass_, before, known) if checked else pass_(before)
        except Exception as e:
            snapshots.leave_repro(before, pass_, where, e)
            raise
        seconds = time.perf_counter() - start
        for clock in _clocks.get():
            clock[pass_.name] = clock.get(pass_.name, 0.0) + seconds
        log.debug("%s: %.1f ms", pass_.name, seconds * 1e3)
        if watched:
            func = snapshots.after(func, where)
    return func


def _checked(pass_: Pass, func: Func, known: set[Op]) -> Func:
    for required in (pass_.of_its_level, *pass_.requires):
        if (found := required(func)) is not None:
            raise VerifyError(f"pass {pass_.name!r} of @{func.name}: {found}")
    made = pass_(func)
    if made is not func or not known:  # the first pass is given what nobody has looked at
        verify(made, known)
    return made


def _check_order(passes: Sequence[Pass]) -> None:
    names = [p.name for p in passes]
    for i, pass_ in enumerate(passes):
        for other in pass_.after:
            if other in names[i + 1 :] and other not in names[:i]:
                raise UsageError(f"pass {pass_.name!r} runs after {other!r}: found it before")


def parse_pipeline(text: str) -> tuple[Pass, ...]:
    """`canonicalize, lower-precision {to = bf16}` as passes."""
    return tuple(_named(name).given(**options) for name, options in parse_calls(text))


def pipeline_text(passes: Sequence[Pass]) -> str:
    """What `parse_pipeline` reads."""
    return ", ".join(map(str, passes))


def _named(name: str) -> Pass:
    if name not in PASSES:
        hint = meant(name, PASSES, ": ") or f": expected one of {', '.join(sorted(PASSES))}"
        raise UsageError(f"unknown pass {name!r}{hint}")
    return PASSES[name]


def check_names(variable: str, names: Sequence[str]) -> None:
    """Refuse what a variable names if there is no such pass."""
    for name in names:
        try:
            _named(name)
        except UsageError as e:
            raise UsageError(f"{variable}: {e.message}") from None


_clocks: ContextVar[tuple[dict[str, float], ...]] = ContextVar("graphfuse_clocks", default=())


@contextlib.contextmanager
def timing() -> Generator[dict[str, float]]:
    """Seconds of each pass that runs in this thread meanwhile, by its name."""
    seconds: dict[str, float] = {}
    token = _clocks.set((*_clocks.get(), seconds))
    try:
        yield seconds
    finally:
        _clocks.reset(token)
