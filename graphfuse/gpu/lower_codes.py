"""`block.dot_codes`: codes are widened to halves in the registers that have their words, and go to `mma.sync`.

Bits of two codes, one in each half of a word, are put into the mantissas of two numbers whose unit is 1; these less the
number without them, and less the zero point, are the codes as halves, without rounding.
"""

from __future__ import annotations

from graphfuse.codegen.kernel import integer, literal
from graphfuse.dialects import block
from graphfuse.dialects.codes import HALVES, SIDE, WORD_BITS, code_bit
from graphfuse.gpu.convert import holders
from graphfuse.gpu.kernel import Kernel, ThreadTile, lowers
from graphfuse.gpu.lower_dot import matrices, mma
from graphfuse.gpu.math import NATIVE
from graphfuse.gpu.words import gather_words
from graphfuse.ir.core import Op, attr_int, attr_scalar, tile_of
from graphfuse.ir.layout import log2
from graphfuse.ir.types import BF16, F16, Scalar
from graphfuse.llvm.module import Reg

_ONE_UNIT = {F16: (0x6400, 1024, 10), BF16: (0x4300, 128, 7)}
"""Of an element: the bits of a number whose last bit is worth 1, that number, and the bits behind it."""
_ROWS, _COLUMNS, _STEPS = 8, 2, 2
"""Of an instruction: rows of x, neighbours of a lane's columns, and words of a lane's steps."""


@lowers(block.words)
def lower_words(kernel: Kernel, op: Op) -> None:
    """Neighbours of a thread's registers."""
    halves = kernel.tile(op.operands[0]).vectors
    kernel.set(op, [gather_words(kernel, halves[i : i + 2])[0] for i in range(0, len(halves), 2)])


@lowers(block.dot_codes)
def lower_dot_codes(kernel: Kernel, op: Op) -> None:
    """Instructions in the order of k for each tile of sums."""
    out: list[Reg] = []
    for parts in zip(*(matrices(kernel.tile(v)) for v in op.operands), strict=True):
        out += _Product(kernel, op, *map(_held, parts)).sums()
    kernel.set(op, out)


class _Product:
    """Of one matrix of codes: registers by the number of the element that the first lane has in them."""

    def __init__(self, kernel: Kernel, op: Op, x: dict[int, Reg], codes: dict[int, Reg], acc: dict[int, Reg]) -> None:
        self.kernel, self.x, self.codes, self.acc = kernel, x, codes, acc
        self.rows = tile_of(op.operands[0]).shape[-2]
        self.count, self.columns = tile_of(op.operands[1]).shape[-2:]
        self.bits, self.zero, self.elem = attr_int(op, "bits"), attr_int(op, "zero", 0), attr_scalar(op, "elem")
        self.per = WORD_BITS // self.bits // 2

    def sums(self) -> list[Reg]:
        """The accumulator with the products."""
        total, n = dict(self.acc), log2(self.columns)
        for word in range(0, self.count, SIDE):
            for column in (c + pair for c in range(0, self.columns, 32) for pair in (0, _COLUMNS)):
                pairs = [self._halves(self.codes[word << n | column + i]) for i in range(_COLUMNS)]
                for first in range(0, self.per, _STEPS):
                    a = [pairs[i][first + j] for j in range(_STEPS) for i in range(_COLUMNS)]
                    for row in range(0, self.rows, _ROWS):
                        where = [row + r << n | column + c for c in range(_COLUMNS) for r in range(2)]
                        b, sums = self._steps(row, word, first), [total[w] for w in where]
                        got = mma(self.kernel, self.elem, self.elem, self.elem, a, b, sums)
                        total.update(zip(where, got, strict=True))
        return list(total.values())

    def _steps(self, row: int, word: int, first: int) -> list[Reg]:
        """What an instruction takes of eight rows of x."""
        k = log2(self.count * self.per)
        return [self.x[row << k | word * self.per + SIDE * (first + j)] for j in range(_STEPS)]

    def _halves(self, word: Reg) -> list[Reg]:
        """The codes of a word less the zero point, as words of two halves each."""
        pattern, unit, mantissa = _ONE_UNIT[self.elem]
        pairs = (code_bit(i, self.bits, HALVES) for i in range(0, WORD_BITS // self.bits, 2))
        if self.bits <= mantissa:
            put = (_inserted(self.kernel, word, at, self.bits, pattern) for at in pairs)
            return [self.kernel.recast(_less(self.kernel, x, unit + self.zero, self.elem), "i32") for x in put]
        out: list[Reg] = []
        for at in pairs:  # more bits than the mantissa has are two numbers
            low, high = (_inserted(self.kernel, word, at + b, self.bits // 2, pattern) for b in (0, self.bits // 2))
            high, low = _less(self.kernel, high, unit, self.elem), _less(self.kernel, low, unit + self.zero, self.elem)
            by = _both(self.kernel, 1 << self.bits // 2, self.elem)
            out.append(self.kernel.recast(self.kernel.intrinsic("fma", high.type, high, by, low), "i32"))
        return out


def _held(tile: ThreadTile) -> dict[int, Reg]:
    """A matrix' registers, in their order, by the number of the element that the first lane has there."""
    return {at: tile.vectors[r] for at, r in reversed(holders(tile.layout).items())}


def _inserted(kernel: Kernel, word: Reg, at: int, bits: int, pattern: int) -> Reg:
    """The bits from `at` on of both halves of a word, behind a pattern."""
    both = 1 << 16 | 1
    moved = kernel.binary("lshr", word, at) if at else word
    mask, above = (integer(n * both, "i32") for n in ((1 << bits) - 1, pattern))
    # written so, as the assembler takes two instructions for two constants
    (out,) = kernel.assembly("lop3.b32 $0, $1, $2, $3, 0xEA;", moved, mask, above, gives=["i32"], effects=False)
    return out


def _less(kernel: Kernel, word: Reg, minus: int, elem: Scalar) -> Reg:
    """Two halves less a number."""
    pair = kernel.recast(word, f"<2 x {NATIVE[elem]}>")
    return kernel.binary("fsub", pair, _both(kernel, minus, elem))


def _both(kernel: Kernel, value: int, elem: Scalar) -> Reg:
    """A number twice."""
    bits = int(literal(value, elem)) & 0xFFFF
    return kernel.recast(integer(bits << 16 | bits, "i32"), f"<2 x {NATIVE[elem]}>")
