"""Halves two by two, neighbours in their rows: sums, differences and products, and what loops do not keep widened.

The assembler finds such pairs by itself, but takes them apart again by more instructions than it saves.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphfuse.codegen import arith
from graphfuse.dialects import block, gpu
from graphfuse.gpu.kernel import Kernel, lowers
from graphfuse.gpu.math import NATIVE
from graphfuse.gpu.words import shuffled
from graphfuse.ir.core import Op
from graphfuse.ir.types import Tile
from graphfuse.llvm.module import Reg

_INSTRUCTIONS = {block.add: "fadd", block.sub: "fsub", block.mul: "fmul"}


@lowers(*_INSTRUCTIONS)
def lower_packed(kernel: Kernel, op: Op) -> None:
    """Rounded as an f32 result that is rounded again, which for these ops is the same."""
    type_ = op.result.type
    if not isinstance(type_, Tile) or type_.elem not in NATIVE or len(kernel.tile(op.operands[0]).vectors) % 2:
        arith.lower_elementwise(kernel, op)
        return
    half = NATIVE[type_.elem]
    a, b = (_pairs(kernel, kernel.tile(v).vectors, half) for v in op.operands)
    out: list[Reg] = []
    for x, y in zip(a, b, strict=True):
        both = kernel.elements(kernel.binary(_INSTRUCTIONS[op.kind], x, y))
        out += [kernel.convert("bitcast", one, "i16") for one in both]
    kernel.set(op, out)


@lowers(gpu.anew)
def lower_anew(kernel: Kernel, op: Op) -> None:
    """Words in which a thread has neighbours, through an instruction of which the compiler knows nothing."""
    turn = kernel.scalar(op.operands[1])

    def moved(word: Reg) -> Reg:
        (out,) = kernel.assembly("mov.b32 $0, $1;", word, turn, gives=[word.type], effects=False)
        return out

    kernel.set(op, shuffled(kernel, kernel.tile(op.operands[0]).vectors, moved))


def _pairs(kernel: Kernel, values: Sequence[Reg], half: str) -> list[Reg]:
    pairs = (values[i : i + 2] for i in range(0, len(values), 2))
    return [kernel.joined([kernel.convert("bitcast", x, half) for x in pair]) for pair in pairs]
