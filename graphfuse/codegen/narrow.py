"""What integers of 64 bits can be, and arithmetic on those that fit 32 bits.

Places in a tensor are i64. A GPU makes 64-bit arithmetic of several instructions each, a minimum of five: where
operands and result are known to fit, it is done in i32 and widened, which costs nothing where an address is made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from graphfuse.codegen.kernel import Kernel, constant, width_of
from graphfuse.ir.core import Op, Value
from graphfuse.ir.types import I64, Scalar, Tile
from graphfuse.llvm.module import Reg

Bounds = tuple[int, int]
"""Inclusive."""

_CORNERS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "max": max,
    "min": min,
    "floordiv": lambda a, b: a // b,
}
"""Functions that are largest and least at bounds of their operands; divisors are positive."""


def note_bounds(kernel: Kernel, op: Op, name: str) -> None:
    """Note what an elementwise function of integers can be, where that is known and it does not wrap."""
    known = [kernel.bounds[v] for v in op.operands if v in kernel.bounds]
    if len(known) < len(op.operands) or (found := bounds_of(name, known)) is None:
        return
    low, high = _elem(op.result).limits
    if low <= found[0] and found[1] <= high:
        kernel.bounds[op.result] = found


def bounds_of(name: str, operands: Sequence[Bounds]) -> Bounds | None:
    """What an elementwise function of integers is, as if none had an end; None if nobody says."""
    if name == "neg":
        return bounds_of("sub", [(0, 0), *operands])
    if name == "abs":
        ((low, high),) = operands
        return max(low, -high, 0), max(-low, high)
    if name in ("floordiv", "floormod") and operands[1][0] < 1:
        return None
    if name == "floormod":
        (low, high), (least, most) = operands
        return (max(0, low), high) if low >= 0 and high < least else (0, most - 1)
    if (at := _CORNERS.get(name)) is None:
        return None
    found = [at(a, b) for a, b in product(*operands)]
    return min(found), max(found)


def narrowed(kernel: Kernel, op: Op, operands: Sequence[Value]) -> list[list[Reg]] | None:
    """The registers of operands of i64 in i32, if they and the result fit that and 64 bits are dear; else None."""
    if kernel.instructions.long_integers or any(kernel.registers(v).elem != I64 for v in operands):
        return None
    known = [kernel.bounds.get(v) for v in (*operands, *(v for v in op.results if _elem(v) == I64))]
    if any(b is None or b[0] < -(1 << 31) or b[1] >= 1 << 31 for b in known):
        return None
    return [[_short(kernel, x, kernel.bounds[v]) for x in kernel.registers(v).vectors] for v in operands]


def _short(kernel: Kernel, x: Reg, bounds: Bounds) -> Reg:
    low, high = bounds
    return constant(str(low), "i32", width_of(x.type)) if low == high else kernel.convert("trunc", x, "i32")


def _elem(value: Value) -> Scalar:
    elem = value.type.elem if isinstance(value.type, Tile) else value.type
    assert isinstance(elem, Scalar), f"{value} is a pointer"
    return elem
