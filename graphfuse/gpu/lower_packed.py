"""Sums, differences and products of halves: one instruction for two that are neighbours in their rows.

The assembler finds such pairs by itself, but takes them apart again by more instructions than it saves.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphfuse.codegen import arith
from graphfuse.dialects import block
from graphfuse.gpu.kernel import Kernel, lowers
from graphfuse.ir.core import Op
from graphfuse.ir.types import BF16, F16, Tile
from graphfuse.llvm.module import Reg

_INSTRUCTIONS = {block.add: "fadd", block.sub: "fsub", block.mul: "fmul"}
_TYPES = {F16: "half", BF16: "bfloat"}


@lowers(*_INSTRUCTIONS)
def lower_packed(kernel: Kernel, op: Op) -> None:
    """Rounded as an f32 result that is rounded again, which for these ops is the same."""
    type_ = op.result.type
    if not isinstance(type_, Tile) or type_.elem not in _TYPES or len(kernel.tile(op.operands[0]).vectors) % 2:
        arith.lower_elementwise(kernel, op)
        return
    half = _TYPES[type_.elem]
    a, b = (_pairs(kernel, kernel.tile(v).vectors, half) for v in op.operands)
    out: list[Reg] = []
    for x, y in zip(a, b, strict=True):
        both = kernel.text.emit(x.type, f"{_INSTRUCTIONS[op.kind]} {x}, {y.text}")
        for i in range(2):
            one = kernel.text.emit(half, f"extractelement {both}, i32 {i}")
            out.append(kernel.convert("bitcast", one, "i16"))
    kernel.set(op, out)


def _pairs(kernel: Kernel, values: Sequence[Reg], half: str) -> list[Reg]:
    out: list[Reg] = []
    for start in range(0, len(values), 2):
        pair = Reg("poison", f"<2 x {half}>")
        for i, x in enumerate(values[start : start + 2]):
            pair = kernel.text.emit(pair.type, f"insertelement {pair}, {kernel.convert('bitcast', x, half)}, i32 {i}")
        out.append(pair)
    return out
