"""`block.dot_words` by Intel's AMX: registers of tiles, of up to 16 rows of 64 bytes.

Two registers of a, 32 rows, meet two of b, 32 columns, in four of sums:

    for each step of up to 16 words along k:
      b0, b1 <- 16 words x 16 columns;  a0, a1 <- 16 rows x 16 words
      c00 += a0 b0;  c10 += a1 b0;  c11 += a1 b1;  c01 += a0 b1

Sums stay in registers over all dims of k and are left in memory. What the words leave over along the innermost dim of k
is a step of other sizes, with registers of its own. Sizes are set by a configuration, which takes longer than many a
step: there is one for a whole kernel where all its products have registers enough together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphfuse.codegen.control import emit_loop
from graphfuse.codegen.index import emit_dim
from graphfuse.codegen.kernel import integer, vector_type, width_of
from graphfuse.cpu.kernel import Kernel, TileValue, lowers
from graphfuse.cpu.lower_memory import View, load_tile, reserve_tile, spilled
from graphfuse.dialects import block
from graphfuse.ir.core import Op, Value, attr_scalar, tile_of
from graphfuse.ir.types import BF16, F16, F32, I32
from graphfuse.llvm.module import Reg

REGISTERS = 8
"""Of tiles."""
SIDE = 16
"""Rows of a register, and words or sums in a row."""
ACROSS = 2
"""Registers of rows, and of columns, that meet at once."""
INSTRUCTIONS = {BF16: "tdpbf16ps", F16: "tdpfp16ps"}


@lowers(block.words)
def lower_words(kernel: Kernel, op: Op) -> None:
    """The same bits, of which two vectors fill one."""
    tile = kernel.tile(op.operands[0])
    parts = [kernel.recast(v, vector_type("i32", width_of(v.type) // 2)) for v in tile.vectors]
    held = [span.valid // 2 for span in tile.spans] * tile.rows
    sources = [(part, lane) for part, count in zip(parts, held, strict=True) for lane in range(count)]
    kernel.set(op, kernel.regroup(tile_of(op.result), sources))


@lowers(block.dot_words)
def lower_dot_words(kernel: Kernel, op: Op) -> None:
    """Block by block of what the registers hold; at once, or where the sums are stored."""

    def multiply(sums: View) -> None:
        _multiply(kernel, op, sums)

    if op.result in kernel.deferred:
        kernel.products[op.result] = multiply
        return
    sums = reserve_tile(kernel, tile_of(op.result).shape, F32)
    multiply(sums)
    kernel.set(op, load_tile(kernel, sums, 0))


def _multiply(kernel: Kernel, op: Op, sums: View) -> None:
    """Leave the sums there."""
    left, right, acc = op.operands
    blocks = list(itertools.product(*map(_groups, tile_of(acc).shape)))
    is_zero = acc.op is not None and acc.op.kind is block.const and acc.op.attrs["value"] == 0
    # blocks may have rows in common: they begin with what was there before the first of them
    start = None if is_zero else _view(kernel, acc) if len(blocks) == 1 else spilled(kernel, _tile(kernel, acc))
    a, b = _view(kernel, left), _view(kernel, right)
    registers = kernel.tiles
    if registers is None:
        registers = TileRegisters.of([op])
        assert registers is not None, "one product fits"
        registers.configure(kernel)
    name = INSTRUCTIONS[attr_scalar(op, "elem", BF16)]
    for rows, columns in blocks:
        _Block(kernel, registers, a, b, [r.start for r in rows], [r.start for r in columns], name).multiply(start, sums)


def begin(kernel: Kernel) -> None:
    """Ahead of all programs: the one configuration that all products have, if there is one."""
    products = [op for op in kernel.func.walk() if op.kind is block.dot_words]
    kernel.uses_tiles = bool(products)
    kernel.tiles = TileRegisters.of(products) if products else None
    if kernel.tiles is not None:
        kernel.tiles.configure(kernel)


def release(kernel: Kernel) -> None:
    """Leave the registers as one who does not use them finds them."""
    _call(kernel, "tilerelease")


def _view(kernel: Kernel, value: Value) -> View:
    """A tile in memory, all of it there, with rows that are dense."""
    view = kernel.views.get(value)
    if view is None or view.limits or view.strides[-1] != 1:
        return spilled(kernel, _tile(kernel, value))
    return view


def _tile(kernel: Kernel, value: Value) -> TileValue:
    """The same in registers."""
    if value not in kernel.views:
        return kernel.tile(value)
    return kernel.make(value.type, load_tile(kernel, kernel.views[value], 0))


def _groups(extent: int) -> list[list[range]]:
    """Parts of one size that meet at once; the last one begins with some of the one before where they do not fit."""
    count = -(-extent // SIDE)
    size = -(-extent // count)
    parts = [range(start, start + size) for start in (min(i * size, extent - size) for i in range(count))]
    return [parts[i : i + ACROSS] for i in range(0, count, ACROSS)]


@dataclass(frozen=True)
class TileRegisters:
    """Which registers hold what: sums from 0 on, then for each number of words those of a and of b."""

    rows: int
    columns: int
    across: tuple[int, int]
    """Parts of rows, and of columns, that meet at once."""
    factors: Mapping[int, tuple[Sequence[int], Sequence[int]]]

    @staticmethod
    def of(products: Sequence[Op]) -> TileRegisters | None:
        """What all of them have in common; None where they have too little."""
        sizes, across, words = set[tuple[int, int]](), (0, 0), dict[int, None]()
        for op in products:
            groups = [_groups(n) for n in tile_of(op.result).shape]
            sizes.add((len(groups[0][0][0]), len(groups[1][0][0])))
            across = max(across[0], len(groups[0][0])), max(across[1], len(groups[1][0]))
            words |= dict.fromkeys(_words(tile_of(op.operands[0]).shape[-1]))
        room = (REGISTERS - math.prod(across)) // len(words)
        if len(sizes) > 1 or room < 2:
            return None
        free = iter(range(math.prod(across), REGISTERS))
        counts = across if sum(across) <= room else (1, 1)
        factors = {n: ([next(free) for _ in range(counts[0])], [next(free) for _ in range(counts[1])]) for n in words}
        return TileRegisters(*sizes.pop(), across, factors)

    def configure(self, kernel: Kernel) -> None:
        """Set the sizes of all registers."""
        sizes = dict.fromkeys(range(math.prod(self.across)), (self.rows, self.columns))
        for words, (left, right) in self.factors.items():
            sizes |= dict.fromkeys(left, (self.rows, words)) | dict.fromkeys(right, (words, self.columns))
        sized = [sizes.get(register, (0, 0)) for register in range(2 * REGISTERS)]
        raw = bytes((1, *[0] * 15))
        raw += b"".join((wide * I32.bytes).to_bytes(2, "little") for _, wide in sized)
        raw += bytes(high for high, _ in sized)
        name, text = f"@tiles_{raw.hex()}", "".join(f"\\{x:02x}" for x in raw)
        kernel.text.module.entity(f'{name} = internal constant [{len(raw)} x i8] c"{text}", align 64')
        _call(kernel, "ldtilecfg", Reg(name, "ptr"))


def _words(depth: int) -> list[int]:
    """The words of steps along k, and of what is left: lines of a cache begin with a step, which is loaded faster."""
    words = min(SIDE, depth)
    return [words, depth % words] if depth % words else [words]


class _Block:
    """Rows and columns of which the sums are in registers together."""

    def __init__(
        self, kernel: Kernel, registers: TileRegisters, a: View, b: View, rows: list[int], columns: list[int], name: str
    ) -> None:
        self.kernel, self.registers, self.a, self.b, self.name = kernel, registers, a, b, name
        self.rows, self.columns = rows, columns
        self.sums = dict(enumerate(itertools.product(rows, columns)))

    def multiply(self, start: View | None, sums: View) -> None:
        """All of k, from the sums at `start`, if there are any."""
        for register, at in self.sums.items():
            if start is None:
                _call(self.kernel, "tilezero", integer(register, "i8"))
            else:
                self._move("tileloadd64", register, start, at)
        self._along(self.a, self.b, len(self.a.shape) - 2)
        for register, at in self.sums.items():
            self._move("tilestored64", register, sums, at)

    def _along(self, a: View, b: View, outer: int) -> None:
        """Loops over the dims of k, so many of them outside of the innermost."""
        dim = len(a.shape) - 1 - outer
        whole, *rest = _words(a.shape[-1])
        count, size = (a.shape[dim], 1) if outer else (a.shape[dim] // whole, whole)

        def one(k: Reg, _: Sequence[Reg] = ()) -> list[Reg]:
            at = self.kernel.binary("mul", k, size)
            inside = a.moved(dim, at), b.moved(dim - 1, at)
            if outer:
                self._along(*inside, outer - 1)
            else:
                self._update(*inside, whole)
            return []

        if count == 1:
            one(integer(0))
        else:
            emit_loop(self.kernel, integer(0), integer(count), 1, [], one, is_certain=True)
        if rest and not outer:
            at = integer(count * size)
            self._update(a.moved(dim, at), b.moved(dim - 1, at), *rest)

    def _update(self, a: View, b: View, words: int) -> None:
        """The products of one step; a register that holds what comes next is not loaded again."""
        lefts, rights = self.registers.factors[words]
        held: dict[int, int] = {}
        lead = (0,) * (len(a.shape) - 2)
        order = list(range(len(self.rows)))
        for j, column in enumerate(self.columns):
            right = rights[j % len(rights)]
            self._move("tileloadd64", right, b, (*lead, 0, column))
            for i in order:
                left = lefts[i % len(lefts)]
                if held.get(left) != i:
                    self._move("tileloadd64", left, a, (self.rows[i], *lead, 0), along=0)
                    held[left] = i
                register = i * len(self.columns) + j
                _call(self.kernel, self.name, *(integer(r, "i8") for r in (register, left, right)))
            order.reverse()

    def _move(self, name: str, register: int, view: View, at: Sequence[int], *, along: int = -2) -> None:
        """Load or store a register, whose rows follow one another along a dim."""
        stride = emit_dim(self.kernel, view.strides[along] * view.elem.bytes)
        _call(self.kernel, name, integer(register, "i8"), view.address(at), stride)


def _call(kernel: Kernel, name: str, *operands: Reg) -> None:
    """An instruction; numbers of registers are immediate."""
    kernel.declare("void", f"@llvm.x86.{name}", operands)
    kernel.text.line(f"call void @llvm.x86.{name}({', '.join(map(str, operands))})")
