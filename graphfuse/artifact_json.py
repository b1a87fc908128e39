"""The exact JSON of an executable: all but weights, code, IR and ledger. What is read may be hostile.

A `Form` is how a value is written and how it is read back: both come from one description of the data class.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, NoReturn, TypeVar, cast

from graphfuse.artifact import (
    BUFFER_KINDS,
    ELEMS,
    HOST_VALUES,
    KERNEL_DIMS,
    MAX_SHARED_BYTES,
    Arg,
    Buffer,
    Code,
    Executable,
    Im2col,
    Json,
    KernelMeta,
    Launch,
    Loop,
    Plan,
    Pointer,
    Scalar,
    Signature,
    Step,
    TensorMap,
    TensorSpec,
    Weight,
)
from graphfuse.artifact_rules import check
from graphfuse.constraints import KINDS, Constraint
from graphfuse.errors import ArtifactError, ParseError
from graphfuse.symbolic import INF, Dim, bounds, parse_dim
from graphfuse.value_checks import Check

T = TypeVar("T")

MAX_DIM_TEXT = 2048
"""Longest text of a symbolic dim; real ones have a few dozen characters."""
MAX_SPLIT = 1 << 16
"""More blocks than make any program; times a grid they stay within 64 bits."""
MAX_LOOPS = 8
"""Loops in loops."""


class Node:
    """A JSON value and the path that leads to it, so that an error says where it is."""

    __slots__ = ("key", "parent", "value")

    def __init__(self, value: Any, key: str | int = "", parent: Node | None = None) -> None:
        self.value, self.key, self.parent = value, key, parent

    @property
    def path(self) -> str:
        """Such as `plan.steps[3].args[0]`."""
        if self.parent is None:
            return str(self.key)
        if isinstance(self.key, int):
            return f"{self.parent.path}[{self.key}]"
        return f"{self.parent.path}.{self.key}".lstrip(".")

    def fail(self, wanted: str) -> NoReturn:
        """Raise: this value is not what it has to be."""
        found = repr(self.value)
        found = found if len(found) <= 60 else found[:57] + "..."
        raise ArtifactError(f"{self.path}: expected {wanted}, found {found}")

    def __getitem__(self, key: str) -> Node:
        if not isinstance(self.value, dict) or key not in self.value:
            self.fail(f"an object with the key {key!r}")
        return Node(self.value[key], key, self)

    def __contains__(self, key: str) -> bool:
        return key in self.object()

    def items(self, least: int = 0, most: int | None = None) -> list[Node]:
        """The elements of a list."""
        if not isinstance(self.value, list):
            self.fail("a list")
        values = cast("list[Any]", self.value)
        if not least <= len(values) <= (len(values) if most is None else most):
            self.fail(f"{least} to {most} elements" if most != least else f"{least} elements")
        return [Node(v, i, self) for i, v in enumerate(values)]

    def text(self) -> str:
        """A string."""
        if not isinstance(self.value, str):
            self.fail("text")
        return self.value

    def one_of(self, words: Sequence[str]) -> str:
        """A string out of a fixed set."""
        if not isinstance(self.value, str) or self.value not in words:
            self.fail(f"one of {', '.join(words)}")
        return self.value

    def integer(self, lo: int = 0, hi: int = INF) -> int:
        """An integer inside inclusive bounds."""
        if type(self.value) is not int or not lo <= self.value <= hi:
            self.fail(f"an integer in {lo}..{hi}")
        return self.value

    def dim(self) -> Dim:
        """A dim: an integer, or the text of an expression."""
        if type(self.value) is int:
            return self.integer(-INF)
        try:
            return read_dim(self.text())
        except ArtifactError:
            self.fail("a dim")

    def object(self) -> dict[str, Any]:
        """An object with any keys."""
        if not isinstance(self.value, dict):
            self.fail("an object")
        return cast("dict[str, Any]", self.value)


@functools.lru_cache(maxsize=8192)
def read_dim(text: str) -> Dim:
    """Parse a dim that may be hostile: whatever is wrong with it is an ArtifactError."""
    try:
        if len(text) > MAX_DIM_TEXT:
            raise ParseError(f"dim of {len(text)} characters")
        dim = parse_dim(text)
        if not -INF < bounds(dim, {})[1] <= INF:
            raise ParseError(f"dim {text!r}: out of range")
    # nesting, division by a constant 0, numbers of thousands of digits
    except (ParseError, RecursionError, ArithmeticError, ValueError, IndexError) as e:
        raise ArtifactError(f"malformed dim {text[:60]!r}: {e}") from None
    return dim


# forms


@dataclass(frozen=True)
class Form(Generic[T]):
    """How a value is written as JSON, and read back. What `may_lack` is left out of an object where it is empty."""

    write: Callable[[T], Any]
    read: Callable[[Node], T]
    may_lack: bool = False


def _same(value: Any) -> Json:
    return value


# dims are numbers when static, their text when not; both come back exactly
DIM = Form[Dim](lambda dim: int(dim) if isinstance(dim, int) else str(dim), Node.dim)
TEXT = Form[str](_same, Node.text)
FLAG = Form[Any](bool, lambda node: node.value is True)
OBJECT = Form["Mapping[str, Json]"](_same, Node.object)


def integer(lo: int = 0, hi: int = INF) -> Form[int]:
    """One inside inclusive bounds."""
    return Form(_same, lambda node: node.integer(lo, hi))


def one_of(words: Sequence[str]) -> Form[Any]:
    """A text out of a fixed set."""
    return Form(_same, lambda node: node.one_of(words))


def optional(form: Form[T]) -> Form[T]:
    """What an object may lack: then the field has its default, which is empty, 0 or None."""
    return replace(form, may_lack=True)


def listed(form: Form[T], least: int = 0, most: int | None = None) -> Form[tuple[T, ...]]:
    """A tuple of any length between these."""
    return Form(
        lambda values: [form.write(v) for v in values],
        lambda node: tuple([form.read(n) for n in node.items(least, most)]),
    )


def row(*forms: Form[Any], least: int | None = None) -> Form[tuple[Any, ...]]:
    """A tuple with a form for each element, or for the first `least` and more."""
    most = len(forms)
    return Form(
        lambda values: [f.write(v) for f, v in zip(forms, values, strict=False)],
        lambda node: tuple([f.read(n) for f, n in zip(forms, node.items(least or most, most), strict=False)]),
    )


def in_order(kind: Callable[..., T], *forms: Form[Any]) -> Form[T]:
    """A data class as a list of its fields, in their order."""
    named, of = list(zip([f.name for f in fields(cast("Any", kind))], forms, strict=True)), row(*forms)
    return Form(lambda value: [f.write(getattr(value, name)) for name, f in named], lambda node: kind(*of.read(node)))


def written(value: object, forms: Mapping[str, Form[Any]]) -> dict[str, Json]:
    """An object of some fields of a value."""
    found = ((name, form, getattr(value, name)) for name, form in forms.items())
    return {name: form.write(v) for name, form, v in found if v or not form.may_lack}


def given(node: Node, forms: Mapping[str, Form[Any]]) -> dict[str, Any]:
    """The fields that an object has."""
    return {name: form.read(node[name]) for name, form in forms.items() if not form.may_lack or name in node}


def record(kind: Callable[..., T], /, **forms: Form[Any]) -> Form[T]:
    """A data class as an object with a key for each field."""
    return Form(lambda value: written(value, forms), lambda node: kind(**given(node, forms)))


def either(key: str, kind: type, form: Form[Any], other: Form[Any]) -> Form[Any]:
    """One of two objects: those of a `kind` have this key."""
    return Form(
        lambda value: (form if isinstance(value, kind) else other).write(value),
        lambda node: (form if key in node else other).read(node),
    )


def nested(form: Callable[[], Form[T]], what: str, key: str, most: int) -> Form[T]:
    """A form that is declared later, as it has others like it in the list `key`, so deep at most."""

    def read(node: Node) -> T:
        if node.path.count(f"{key}[") > most:
            node.fail(f"{what} nested at most {most} deep")
        return form().read(node)

    return Form(lambda value: form().write(value), read)


# what an executable is made of

_SPEC = record(TensorSpec, name=TEXT, elem=one_of((*ELEMS, *HOST_VALUES)), shape=listed(DIM))

SIGNATURE = record(
    Signature,
    dims=listed(row(TEXT, integer(), integer())),
    inputs=listed(_SPEC),
    outputs=listed(_SPEC),
    constraints=optional(listed(in_order(Constraint, one_of(KINDS), DIM, DIM, TEXT, TEXT))),
    names=optional(listed(row(TEXT, TEXT))),
)


def _read_arg(node: Node) -> Arg:
    *buffer, dim = node.items(1, 2)
    return Pointer(buffer[0].integer(), dim.dim()) if buffer else Scalar(dim.dim())


_ARG = Form[Arg](
    lambda arg: [arg.buffer, DIM.write(arg.offset)] if isinstance(arg, Pointer) else [DIM.write(arg.value)], _read_arg
)
_STEP = record(Step, kernel=TEXT, args=listed(_ARG), grid=DIM, work=DIM, label=TEXT)
_ANY_STEP = either("symbol", Loop, nested(lambda: _LOOP, "loops", "steps", MAX_LOOPS), _STEP)
_LOOP: Form[Loop] = record(Loop, symbol=TEXT, count=DIM, steps=listed(_ANY_STEP))
_BUFFER = in_order(Buffer, one_of(BUFFER_KINDS), DIM, integer(), integer(), integer())

PLAN = record(Plan, buffers=listed(_BUFFER), steps=listed(_ANY_STEP))


def _of_box(ndim: int) -> Form[Im2col]:
    """Corners and steps of as many dims; how far a corner may lie outside depends on their number."""
    most = 1 << 16 // max(ndim, 1) - 1
    corner = listed(integer(-most, most - 1), ndim, ndim)
    return record(Im2col, lower=corner, upper=corner, steps=listed(integer(1, 8), ndim, ndim))


def _map(rank: int, *, by_im2col: bool) -> Form[TensorMap]:
    sizes = 2 if by_im2col else rank
    return record(
        TensorMap,
        param=integer(),
        elem=one_of(ELEMS),
        offset=DIM,
        dims=listed(DIM, 1, 5),
        strides=listed(DIM, rank - 1, rank - 1),
        box=listed(integer(1, 256), sizes, sizes),
        swizzle=integer(0, 128),
        im2col=optional(_of_box(rank - 2)),
    )


_MAP = Form[TensorMap](
    lambda m: _map(len(m.dims), by_im2col=m.im2col is not None).write(m),
    lambda node: _map(len(node["dims"].items(1, 5)), by_im2col="im2col" in node).read(node),
)

_LAUNCH = record(
    Launch,
    threads=integer(1, 1024),
    shared_bytes=integer(0, MAX_SHARED_BYTES),
    cluster=integer(1, 16),
    split=integer(1, MAX_SPLIT),
    persistent=integer(0, 32),
    overlaps=FLAG,
    registers=integer(-1),
    spill_bytes=integer(-1),
    static_shared_bytes=integer(-1),
    flags=optional(integer(1, 32)),
    symbols=listed(TEXT),
    tensor_maps=listed(_MAP, 0, 64),
)

_KERNEL = record(
    KernelMeta,
    **dict.fromkeys(("name", "params", "kind", "label"), TEXT),
    **dict.fromkeys(KERNEL_DIMS, DIM),
    launch=optional(_LAUNCH),
)

_CHECK_ROW = row(TEXT, TEXT, TEXT, DIM, DIM, least=3)


def _read_check(node: Node) -> Check:
    if len(found := _CHECK_ROW.read(node)) == 4:
        node.fail("a range or none")
    return Check(*found)


_PROGRAM: dict[str, Form[Any]] = {
    "signature": SIGNATURE,
    "plan": PLAN,
    "kernels": listed(_KERNEL),
    "target": TEXT,
    "meta": OBJECT,
    "checks": optional(listed(Form[Check](lambda check: _CHECK_ROW.write(check.attr), _read_check))),
    "shared": optional(listed(row(integer(), integer()))),
    "over": optional(listed(row(integer(), integer()))),
}


def program_to_json(executable: Executable) -> dict[str, Json]:
    """Everything about an executable but its weights' bytes, its code, its IR and its ledger."""
    return written(executable, _PROGRAM)


def program_from_json(root: Node, weights: tuple[Weight, ...], code: Mapping[str, Code], **lazy: Any) -> Executable:
    """Read what `program_to_json` wrote and check it; `lazy` gives `ir` and `ledger`."""
    executable = Executable(**given(root, _PROGRAM), weights=weights, code=code, **lazy)
    check(executable)
    return executable
