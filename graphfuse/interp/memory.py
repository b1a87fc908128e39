"""Memory as block programs see it: pointers into numpy arrays, checked accesses, and what a program knows of itself."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# numpy's stubs leave most results partly unknown

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from graphfuse.errors import InputError
from graphfuse.findings import About, CheckError, Who
from graphfuse.interp import elementwise as ew
from graphfuse.interp.elementwise import Array
from graphfuse.interp.races import Races, Shadow, Where, bits
from graphfuse.interp.roles import Place
from graphfuse.ir.core import Func, Op
from graphfuse.ir.dense import scalar_of
from graphfuse.symbolic import Dim, evaluate


@dataclass(frozen=True, slots=True, eq=False)
class Pointer:
    """Element `offset` of a flat array. `written` marks initialised elements of local memory, or parts of them."""

    array: Array
    offset: int = 0
    written: Array | None = None
    shadow: Shadow | None = None
    """Of an array that programs share, where races are looked for."""
    name: str = ""
    """Of the parameter that it is, or points into."""
    nowhere: str = ""
    """Of an address in memory that is of no array of the launch: what it is."""

    @property
    def address(self) -> int:
        """In bytes."""
        start = 0 if self.nowhere else int(self.array.ctypes.data)
        return start + self.offset * self.array.dtype.itemsize

    def error(self, kind: str, message: str, element: int, more: str = "") -> CheckError:
        """What is wrong with an element."""
        of = f" of {self.name or 'memory of the program'}"
        return CheckError(f"{message.format(element)}{of}{more}", about=About(kind, self.name, element))


Semantics: TypeAlias = Callable[..., Any]
"""What an op computes: (context, op, operands) to its results."""


def elementwise(name: str) -> Semantics:
    """Of an op that is a function of the shared table."""
    return lambda _context, _op, *operands: ew.apply(name, *operands)


@dataclass(frozen=True, slots=True)
class Symbols:
    """The values of symbols."""

    symbols: Mapping[str, int]

    def dim(self, dim: Dim) -> int:
        """The number a dim is."""
        try:
            return evaluate(dim, self.symbols)
        except KeyError as e:
            raise InputError(f"dim {e.args[0]!r} has no value") from None

    def dims(self, dims: Sequence[Dim]) -> tuple[int, ...]:
        """The numbers several dims are."""
        return tuple(self.dim(d) for d in dims)


@dataclass(frozen=True, slots=True)
class Context(Symbols):
    """One program: its number, the grid, the symbols' values, and whether memory is checked."""

    program: int
    checks: bool
    grid: tuple[int, ...] = (1,)
    debug: bool = False
    """Whether `block.print` and `block.assert` do something."""
    out: Callable[[str], object] = print
    """What takes the lines that are printed."""
    place: Place = field(default_factory=Place)
    races: Races | None = None
    reached: Sequence[Pointer] = ()
    """The arrays that addresses in memory may be of: those of the launch."""

    def size(self, axis: int) -> int:
        """How many programs there are along an axis of the grid."""
        return self.grid[axis] if axis < len(self.grid) else 1

    @property
    def who(self) -> Who:
        """Which program this is."""
        return Who(tuple(self.position(axis) for axis in range(len(self.grid))))

    def position(self, axis: int) -> int:
        """Which program this is along an axis of the grid; axis 0 moves fastest."""
        at = self.program // math.prod(self.grid[:axis])
        return at % self.size(axis) if axis + 1 < len(self.grid) else at if axis < len(self.grid) else 0


def attr(of: Op | Func, name: str, default: Any = None) -> Any:
    """An attribute, whose type the verifier has checked."""
    return of.attrs.get(name, default)


def read(context: Context, pointer: Pointer, where: Array, mask: Array, other: Any) -> Array:
    """`pointer[where]`, and `other` where the mask is false."""
    elem = scalar_of(pointer.array.dtype)
    assert elem is not None
    out = np.full(where.shape, ew.literal(other, elem))
    index = addresses(context, pointer, where, mask)
    if context.checks and pointer.written is not None:
        written = pointer.written[index]
        written = written.all(axis=-1) if written.ndim > index.ndim else written
        if not written.all():
            raise pointer.error("uninitialised", "read of uninitialised element {}", int(index[~written][0]))
    if pointer.shadow is not None:
        pointer.shadow.read(_touched(index, mask), pointer.array.itemsize)
    out[mask] = pointer.array[index]
    return out


def write(
    context: Context, pointer: Pointer, where: Array, mask: Array, value: Array, *, relaxed: bool = False
) -> None:
    """`pointer[where] = value` where the mask is true."""
    index = addresses(context, pointer, where, mask)
    old = pointer.array[index] if context.races is not None else None
    pointer.array[index] = value[mask]
    if pointer.written is not None:
        pointer.written[index] = True
    if context.races is None or old is None:
        return
    new = pointer.array[index]
    context.races.changes += bool((bits(old) != bits(new)).any())
    if pointer.shadow is not None:
        pointer.shadow.write(_touched(index, mask), value[mask], old, new, relaxed=relaxed)


def _touched(index: Array, mask: Array) -> Where:
    return Where(index, np.flatnonzero(mask), mask.shape)


def addresses(context: Context, pointer: Pointer, where: Array, mask: Array) -> Array:
    """The elements of the array that an access touches."""
    index = where[mask] + pointer.offset
    if pointer.nowhere and index.size:
        raise CheckError(f"access through {pointer.nowhere}", about=About("out-of-bounds"))
    if context.checks and index.size:
        bad = index[(index < 0) | (index >= pointer.array.size)]
        if bad.size:
            raise pointer.error(
                "out-of-bounds", "element {} is outside", int(bad[0]), f", which has {pointer.array.size}"
            )
    return index
