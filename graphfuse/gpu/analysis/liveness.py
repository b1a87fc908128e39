"""Liveness: from which op to which each tile must be kept, and how many registers that takes.

Ops are numbered in textual order. A value used in a loop body but defined outside lives until the loop ends, for
the next iteration wants it again; a value carried out of a loop occupies the registers of its successor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graphfuse.dialects import control
from graphfuse.ir.core import Block, Func, Value
from graphfuse.ir.layout import REGISTER, LinearLayout
from graphfuse.ir.types import Ptr, Tile, Type

REGISTER_BITS = 32


@dataclass(frozen=True, slots=True)
class Range:
    """Positions of the first and the last op at which a value is needed, both included."""

    start: int
    end: int

    def overlaps(self, other: Range) -> bool:
        """Whether some position is in both."""
        return self.start <= other.end and other.start <= self.end


@dataclass(frozen=True, slots=True)
class Liveness:
    """Live ranges of all values. A value is born after the op that makes it and dies at its last reader."""

    ranges: Mapping[Value, Range]
    positions: int
    """How many ops there are."""

    def live_at(self, position: int) -> tuple[Value, ...]:
        """Values that are needed across or by the op at `position`, its results included."""
        return tuple(v for v, r in self.ranges.items() if r.start <= position <= r.end)

    def pressure(self, threads: int, layouts: Mapping[Value, LinearLayout] | None = None) -> tuple[int, ...]:
        """Registers per thread at each position.

        A tile with a layout takes what the layout gives a thread, any other its even share.
        """
        change = [0] * (self.positions + 1)
        for value, r in self.ranges.items():
            registers = registers_per_thread(value.type, threads, (layouts or {}).get(value))
            change[r.start] += registers
            change[r.end + 1] -= registers
        out: list[int] = []
        total = 0
        for delta in change[:-1]:
            total += delta
            out.append(total)
        return tuple(out)


def registers_per_thread(t: Type, threads: int, layout: LinearLayout | None = None) -> int:
    """32-bit registers that one thread needs for its part of a value."""
    if isinstance(t, Tile):
        elements = layout.distinct_registers().size(REGISTER) if layout else -(-t.elements // threads)
        return -(-elements * t.elem.bits // REGISTER_BITS)
    if isinstance(t, Ptr):
        return 64 // REGISTER_BITS
    return -(-getattr(t, "bits", 64) // REGISTER_BITS)


def liveness(func: Func) -> Liveness:
    """Live ranges of every value of a block function."""
    walk = _Walk()
    walk.block(func.body)
    return Liveness({v: Range(s, walk.end.get(v, s)) for v, s in walk.start.items()}, walk.position)


class _Walk:
    def __init__(self) -> None:
        self.position = 0
        self.start: dict[Value, int] = {}
        self.end: dict[Value, int] = {}

    def block(self, code: Block) -> None:
        for param in code.params.values:
            self.start[param] = self.position
        for op in code.ops:
            here = self.position
            for value in op.operands:
                self.end[value] = here
            self.position += 1
            before = set(self.start)
            for body in op.bodies:
                self.block(body)
            last = self.position - 1
            if op.kind is control.for_:
                inner = (v for v, end in self.end.items() if v in before and end > here)
                for value in list(inner):
                    self.end[value] = last
                # the upper bound is compared with in every iteration
                self.end[op.operands[1]] = last
                induction = op.body.params.values[0]
                self.end[induction] = last
            for value in op.results:
                self.start[value] = last
