"""`block.scan`: a chain along the axis, of vectors where the axis is not the last, else of elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphfuse.codegen.arith import compute_elem, elementwise
from graphfuse.codegen.convert import float_to_float
from graphfuse.codegen.kernel import constant, element_type, literal, register_type, width_of
from graphfuse.cpu.kernel import Kernel, lowers
from graphfuse.cpu.lower_shape import FUNCTION, neutral
from graphfuse.dialects import block
from graphfuse.ir.core import Op, attr_int
from graphfuse.ir.types import Tile
from graphfuse.llvm.module import Reg


@lowers(block.scan)
def lower_scan(kernel: Kernel, op: Op) -> None:
    """Narrow floats are combined in f32 and rounded once."""
    tile, axis, kind = kernel.tile(op.operands[0]), attr_int(op, "axis"), str(op.attrs["kind"])
    type_ = op.types[0]
    assert isinstance(type_, Tile), "checked by the type rule"
    wide = compute_elem(tile.elem)
    order = -1 if op.attrs.get("reverse") else 1
    first = literal(neutral(kind, tile.elem), wide)

    def line(xs: Sequence[Reg]) -> list[Reg]:
        """The running combination of registers that follow one another."""
        total: Reg | None = None
        out: list[Reg] = []
        for x in xs[::order]:
            before, total = total, x if total is None else elementwise(kernel, FUNCTION[kind], wide, [total, x])
            if op.attrs.get("exclusive"):
                none = constant(first, element_type(x.type), width_of(x.type))
                out.append(none if before is None else before)
            else:
                out.append(total)
        return out[::order]

    def widened(x: Reg) -> Reg:
        return float_to_float(kernel, x, tile.elem, wide) if wide != tile.elem else x

    def narrowed(x: Reg) -> Reg:
        return float_to_float(kernel, x, wide, tile.elem) if wide != tile.elem else x

    if axis == len(tile.shape) - 1:
        found: list[Reg] = []
        for row in range(tile.rows):
            elements = [kernel.element(tile, row * tile.columns + i) for i in range(tile.columns)]
            found += [narrowed(x) for x in line([widened(x) for x in elements])]
        kernel.set(op, kernel.regroup(type_, [(x, 0) for x in found]), dict(enumerate(found)))
        return
    inner = math.prod(tile.shape[axis + 1 : -1]) * len(tile.spans)
    size = tile.shape[axis]
    out = list(tile.vectors)
    for outer in range(math.prod(tile.shape[:axis])):
        for j in range(inner):
            places = [(outer * size + i) * inner + j for i in range(size)]
            for place, x in zip(places, line([widened(tile.vectors[p]) for p in places]), strict=True):
                out[place] = narrowed(x)
    assert all(r.type.endswith(register_type(tile.elem) + (">" if width_of(r.type) > 1 else "")) for r in out)
    kernel.set(op, out)
