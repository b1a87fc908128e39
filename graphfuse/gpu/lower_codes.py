"""Codes are widened to halves in the registers that have their words, and go to `mma.sync` or to `wgmma`.

Bits of two codes, one in each half of a word, are put into the mantissas of two numbers whose unit is 1; these less the
number without them, and less the zero point, are the codes as halves, without rounding.
"""

from __future__ import annotations

from graphfuse.codegen.convert import cast_all
from graphfuse.codegen.kernel import integer, literal, register_type
from graphfuse.dialects import block
from graphfuse.dialects.codes import HALVES, LINE_WORDS, PANEL, SIDE, WORD_BITS, code_bit
from graphfuse.errors import TargetError
from graphfuse.gpu.convert import holders
from graphfuse.gpu.kernel import Kernel, ThreadTile, layout_of, lowers
from graphfuse.gpu.lower_dot import matrices, mma
from graphfuse.gpu.math import NATIVE
from graphfuse.gpu.transforms import code_layouts
from graphfuse.gpu.words import gather_words
from graphfuse.ir.core import Op, attr_int, attr_scalar, tile_of
from graphfuse.ir.layout import REGISTER, WARP, log2
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


@lowers(block.widen_codes)
def lower_widen_codes(kernel: Kernel, op: Op) -> None:
    """Of each word a lane has just the steps that it has of the result."""
    (rows, steps), blocks = tile_of(op.result).shape, tile_of(op.operands[1]).shape[0]
    tiles, layout = [kernel.tile(v) for v in op.operands], layout_of(tile_of(op.result))
    warps = layout.size(WARP)
    of_numbers = code_layouts.of_numbers(rows, blocks, warps)
    wanted = [code_layouts.of_lines(rows, warps), *(of_numbers for _ in tiles[1:])]
    if layout != code_layouts.of_products(rows, steps, warps) or [t.layout for t in tiles] != wanted:
        raise TargetError(f"{op.kind.name}: codes are widened by themselves only where `wgmma` multiplies by them")
    codes, out = _Codes(kernel, op), dict[int, Reg]()
    words, (scales, *points) = _held(tiles[0]), (_in_pairs(kernel, t, codes.elem) for t in tiles[1:])
    for at, word in words.items():
        four, row = divmod(at, LINE_WORDS * PANEL // 2)
        for i, pair in enumerate(codes.halves(word)):
            step = four * steps // 2 + 8 * i
            number = step * blocks // steps * rows + row
            for point in points:
                pair = kernel.binary("fsub", pair, point[number])
            first = row * steps + step
            scaled = kernel.binary("fmul", pair, scales[number])
            out[first], out[first + 1] = kernel.elements(kernel.recast(scaled, f"<2 x {register_type(codes.elem)}>"))
    kernel.set(op, [out[layout.flat(register=r)] for r in range(layout.size(REGISTER))])


def _in_pairs(kernel: Kernel, tile: ThreadTile, elem: Scalar) -> dict[int, Reg]:
    """Each number twice, by the number of the element that the first lane has there."""
    cast = cast_all(kernel, tile.vectors, tile.elem, elem)
    type_ = f"<2 x {NATIVE[elem]}>"
    return {at: kernel.recast(kernel.joined([cast[r]] * 2), type_) for at, r in holders(tile.layout).items()}


class _Codes:
    """How an op's words are widened."""

    def __init__(self, kernel: Kernel, op: Op) -> None:
        self.kernel = kernel
        self.bits, self.zero, self.elem = attr_int(op, "bits"), attr_int(op, "zero", 0), attr_scalar(op, "elem")

    def halves(self, word: Reg) -> list[Reg]:
        """The codes of a word less the zero point, in pairs."""
        kernel, (pattern, unit, mantissa) = self.kernel, _ONE_UNIT[self.elem]
        pairs = (code_bit(i, self.bits, HALVES) for i in range(0, WORD_BITS // self.bits, 2))
        if self.bits <= mantissa:
            put = (_inserted(kernel, word, at, self.bits, pattern) for at in pairs)
            return [_less(kernel, x, unit + self.zero, self.elem) for x in put]
        out: list[Reg] = []
        for at in pairs:  # more bits than the mantissa has are two numbers
            low, high = (_inserted(kernel, word, at + b, self.bits // 2, pattern) for b in (0, self.bits // 2))
            high, low = _less(kernel, high, unit, self.elem), _less(kernel, low, unit + self.zero, self.elem)
            out.append(kernel.intrinsic("fma", high.type, high, _both(kernel, 1 << self.bits // 2, self.elem), low))
        return out


class _Product:
    """Of one matrix of codes: registers by the number of the element that the first lane has in them."""

    def __init__(self, kernel: Kernel, op: Op, x: dict[int, Reg], codes: dict[int, Reg], acc: dict[int, Reg]) -> None:
        self.kernel, self.x, self.codes, self.acc = kernel, x, codes, acc
        self.rows = tile_of(op.operands[0]).shape[-2]
        self.count, self.columns = tile_of(op.operands[1]).shape[-2:]
        self.widened = _Codes(kernel, op)
        self.per = WORD_BITS // self.widened.bits // 2

    def sums(self) -> list[Reg]:
        """The accumulator with the products."""
        total, n, elem = dict(self.acc), log2(self.columns), self.widened.elem
        for word in range(0, self.count, SIDE):
            for column in (c + pair for c in range(0, self.columns, 32) for pair in (0, _COLUMNS)):
                pairs = [self._halves(self.codes[word << n | column + i]) for i in range(_COLUMNS)]
                for first in range(0, self.per, _STEPS):
                    a = [pairs[i][first + j] for j in range(_STEPS) for i in range(_COLUMNS)]
                    for row in range(0, self.rows, _ROWS):
                        where = [row + r << n | column + c for c in range(_COLUMNS) for r in range(2)]
                        b, sums = self._steps(row, word, first), [total[w] for w in where]
                        got = mma(self.kernel, elem, elem, elem, a, b, sums)
                        total.update(zip(where, got, strict=True))
        return list(total.values())

    def _steps(self, row: int, word: int, first: int) -> list[Reg]:
        """What an instruction takes of eight rows of x."""
        k = log2(self.count * self.per)
        return [self.x[row << k | word * self.per + SIDE * (first + j)] for j in range(_STEPS)]

    def _halves(self, word: Reg) -> list[Reg]:
        """Of a word, as instructions take them."""
        return [self.kernel.recast(pair, "i32") for pair in self.widened.halves(word)]


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
