"""`block.sort`: a bitonic network of vectors, in which the lesser of a pair always goes to the lower place.

Runs of 2, 4, 8, ... elements become sorted: each element meets its mirror image in the run, which leaves two halves
that are bitonic, then those half as far away, and so on. Where the axis is that of the lanes, those of one vector meet
by shuffles; else a vector holds neighbours of as many lines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphfuse.codegen.arith import elementwise
from graphfuse.codegen.kernel import constant, element_type, literal, register_type, width_of
from graphfuse.cpu.kernel import Kernel, TileValue, lowers
from graphfuse.dialects import moves
from graphfuse.ir.core import Op, attr_int, tile_of
from graphfuse.ir.types import Scalar, Tile
from graphfuse.llvm.module import Reg


@lowers(moves.sort)
def lower_sort(kernel: Kernel, op: Op) -> None:
    """Line by line, or as many lines at once as a vector has lanes."""
    tiles = [kernel.tile(v) for v in op.operands]
    axis, count = attr_int(op, "axis"), attr_int(op, "count")
    order = range(count)[:: -1 if op.attrs.get("falling") else 1]
    sort = _rows if axis == len(tiles[0].shape) - 1 else _columns
    for result, vectors in zip(op.results, sort(kernel, tiles, axis, order), strict=True):
        kernel.values[result] = kernel.make(tile_of(result), vectors)


def _rows(kernel: Kernel, tiles: Sequence[TileValue], axis: int, order: range) -> list[list[Reg]]:
    """Lines that lie along lanes; `order` is which of the sorted elements are kept."""
    n = tiles[0].shape[axis]
    size = 1 << (n - 1).bit_length()
    out: list[list[Reg]] = [[] for _ in tiles]
    for row in range(tiles[0].rows):
        lines: list[list[Reg]] = []
        for t in tiles:
            most = constant(_most(t.elem), register_type(t.elem))
            elements = [*(t.locate(row * n + i) for i in range(n)), *[(most, 0)] * (size - n)]
            lines.append([*t.row(row)] if size == n else kernel.regroup(Tile((size,), t.elem), elements))
        network = _Network(kernel, [t.elem for t in tiles], lines)
        network.run()
        width = width_of(network.keys[0][0].type)
        for vectors, t, key in zip(out, tiles, network.keys, strict=True):
            kept = [(key[i // width], i % width) for i in order]
            is_all = len(order) == size and order.step > 0
            vectors += key if is_all else kernel.regroup(Tile((len(order),), t.elem), kept)
    return out


def _columns(kernel: Kernel, tiles: Sequence[TileValue], axis: int, order: range) -> list[list[Reg]]:
    """Lines that lie across vectors."""
    shape = tiles[0].shape
    n, inner = shape[axis], math.prod(shape[axis + 1 : -1]) * len(tiles[0].spans)
    size = 1 << (n - 1).bit_length()
    out: list[list[Reg]] = [[] for _ in tiles]
    for outer in range(math.prod(shape[:axis])):
        lines: list[list[list[Reg]]] = []
        for j in range(inner):
            keys = [[t.vectors[(outer * n + i) * inner + j] for i in range(n)] for t in tiles]
            for t, key in zip(tiles, keys, strict=True):
                key += [constant(_most(t.elem), element_type(key[0].type), width_of(key[0].type))] * (size - n)
            network = _Network(kernel, [t.elem for t in tiles], keys, along_lanes=False)
            network.run()
            lines.append(network.keys)
        for number, vectors in enumerate(out):
            vectors += [line[number][i] for i in order for line in lines]
    return out


def _most(elem: Scalar) -> str:
    return literal(elem.limits[1], elem)


class _Network:
    """The keys of as many elements as a power of two, in vectors or one to each."""

    def __init__(
        self, kernel: Kernel, elems: Sequence[Scalar], keys: Sequence[Sequence[Reg]], *, along_lanes: bool = True
    ) -> None:
        self.kernel, self.elems = kernel, elems
        self.keys = [[*x] for x in keys]
        self.width = width_of(keys[0][0].type) if along_lanes else 1
        """Elements of a register."""

    def run(self) -> None:
        """Sort all."""
        bits = (len(self.keys[0]) * self.width - 1).bit_length()
        for run in range(1, bits + 1):
            self._compare((1 << run) - 1)
            for bit in reversed(range(run - 1)):
                self._compare(1 << bit)

    def _compare(self, apart: int) -> None:
        """Elements whose numbers differ by these bits meet."""
        far, near = divmod(apart, self.width)
        top = 1 << apart.bit_length() - 1
        for r in range(len(self.keys[0])):
            if r > r ^ far:
                continue
            here = [x[r] for x in self.keys]
            there = [self._exchanged(x[r ^ far], near) for x in self.keys]
            less, more = self._sorted(here, there)
            for x, low, high in zip(self.keys, less, more, strict=True):
                if far:
                    x[r], x[r ^ far] = low, self._exchanged(high, near)
                else:
                    lanes = [i + self.width * bool(i & top) for i in range(self.width)]
                    x[r] = self.kernel.shuffle(low, high, lanes)

    def _exchanged(self, x: Reg, near: int) -> Reg:
        return self.kernel.shuffle(x, None, [i ^ near for i in range(self.width)]) if near else x

    def _sorted(self, a: Sequence[Reg], b: Sequence[Reg]) -> tuple[list[Reg], list[Reg]]:
        """The lesser and the larger of two elements, by all their keys."""
        kernel, elems = self.kernel, self.elems
        if len(elems) == 1:
            less, more = (elementwise(kernel, name, elems[0], [a[0], b[0]]) for name in ("min", "max"))
            return [less], [more]
        is_more = kernel.compare("icmp slt", b[-1], a[-1])
        for x, y in [*zip(a, b, strict=True)][-2::-1]:
            same = kernel.compare("icmp eq", x, y)
            is_more = kernel.choose(same, is_more, kernel.compare("icmp slt", y, x))
        pairs = [*zip(a, b, strict=True)]
        return [kernel.choose(is_more, y, x) for x, y in pairs], [kernel.choose(is_more, x, y) for x, y in pairs]
