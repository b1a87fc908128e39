"""`block.scan`: a chain of vectors along the axis; in a vector, lanes meet that are 1, 2, 4, ... apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

from graphfuse.codegen.arith import compute_elem, elementwise
from graphfuse.codegen.convert import float_to_float
from graphfuse.codegen.kernel import constant, element_type, literal, register_type, width_of
from graphfuse.cpu.kernel import Kernel, Span, lowers
from graphfuse.dialects import block
from graphfuse.dialects.elementwise import COMBINE, neutral
from graphfuse.ir.core import Op, attr_int
from graphfuse.ir.types import Scalar
from graphfuse.llvm.module import Reg

T = TypeVar("T")


@lowers(block.scan)
def lower_scan(kernel: Kernel, op: Op) -> None:
    """Narrow floats are combined in f32 and rounded once."""
    tile, axis = kernel.tile(op.operands[0]), attr_int(op, "axis")
    line = _Line(kernel, op, tile.elem)
    n = len(tile.spans)
    if axis == len(tile.shape) - 1:
        rows = [tile.vectors[at : at + n] for at in range(0, tile.rows * n, n)]
        kernel.set(op, [x for row in rows for x in line.lanes(row, tile.spans)])
        return
    inner = math.prod(tile.shape[axis + 1 : -1]) * n
    size = tile.shape[axis]
    out = list(tile.vectors)
    for outer in range(math.prod(tile.shape[:axis])):
        for j in range(inner):
            places = [(outer * size + i) * inner + j for i in range(size)]
            for place, x in zip(places, line.vectors([tile.vectors[p] for p in places]), strict=True):
                out[place] = x
    assert all(r.type.endswith(register_type(tile.elem) + (">" if width_of(r.type) > 1 else "")) for r in out)
    kernel.set(op, out)


class _Line:
    """Scans what follows one another, of one element type."""

    def __init__(self, kernel: Kernel, op: Op, elem: Scalar) -> None:
        self.kernel, self.elem, self.wide = kernel, elem, compute_elem(elem)
        self.kind = str(op.attrs["kind"])
        self.is_exclusive, self.is_reverse = bool(op.attrs.get("exclusive")), bool(op.attrs.get("reverse"))

    def vectors(self, xs: Sequence[Reg]) -> list[Reg]:
        """The running combination of registers, lane by lane."""
        total: Reg | None = None
        out: list[Reg] = []
        for x in map(self._widened, self._turned(xs)):
            before, total = total, self._after(total, x)
            if self.is_exclusive:
                out.append(self._nothing(x) if before is None else before)
            else:
                out.append(total)
        return self._turned([self._narrowed(x) for x in out])

    def lanes(self, xs: Sequence[Reg], spans: Sequence[Span]) -> list[Reg]:
        """The running combination of all lanes of the vectors of a row."""
        before: Reg | None = None
        out: list[Reg] = []
        for x, span in zip(self._turned(xs), self._turned(spans), strict=True):
            sums = self._within(self._widened(x), span)
            before = None if before is None else self._everywhere(before, 0, span.width)
            out.append(self._after(before, self._moved(sums, 1) if self.is_exclusive else sums))
            last = 0 if self.is_reverse else span.width - 1
            before = self._after(before, self._everywhere(sums, last, span.width))
        return self._turned([self._narrowed(x) for x in out])

    def _within(self, x: Reg, span: Span) -> Reg:
        """The running combination of the lanes of one vector."""
        if self.is_reverse and span.valid < span.width:  # padding would come first
            keep = [i if i < span.valid else span.width + i for i in range(span.width)]
            x = self.kernel.shuffle(x, self._nothing(x), keep)
        apart = 1
        while apart < span.width:
            x = self._after(self._moved(x, apart), x)
            apart *= 2
        return x

    def _moved(self, x: Reg, by: int) -> Reg:
        """Every lane as many further along, nothing in front."""
        width, none = width_of(x.type), self._nothing(x)
        if width == 1:
            return none
        by = -by if self.is_reverse else by
        return self.kernel.shuffle(x, none, [i - by if 0 <= i - by < width else width + i for i in range(width)])

    def _everywhere(self, x: Reg, lane: int, width: int) -> Reg:
        """One lane in all lanes of a vector."""
        if width_of(x.type) == 1:
            return self.kernel.splat_here(x, width)
        return self.kernel.shuffle(x, None, [lane] * width)

    def _nothing(self, like: Reg) -> Reg:
        """What changes nothing; 0 + -0 is not -0."""
        is_sum = self.kind == "sum" and self.elem.is_float and not self.is_exclusive
        none = -0.0 if is_sum else neutral(self.kind, self.elem)
        return constant(literal(none, self.wide), element_type(like.type), width_of(like.type))

    def _after(self, before: Reg | None, x: Reg) -> Reg:
        return x if before is None else elementwise(self.kernel, COMBINE[self.kind], self.wide, [before, x])

    def _turned(self, xs: Sequence[T]) -> list[T]:
        """In the order of the scan, and back."""
        return list(reversed(xs)) if self.is_reverse else list(xs)

    def _widened(self, x: Reg) -> Reg:
        return float_to_float(self.kernel, x, self.elem, self.wide) if self.wide != self.elem else x

    def _narrowed(self, x: Reg) -> Reg:
        return float_to_float(self.kernel, x, self.wide, self.elem) if self.wide != self.elem else x
