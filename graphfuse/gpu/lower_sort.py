"""`block.sort`: a bitonic network, whose pairs meet in registers; in lanes, where a thread has one element.

Elements have numbers along the axis, in any order at first. Runs of 2, 4, 8, ... of them become sorted by comparing
those that differ in one bit of their numbers, from the highest bit of a run down; neighbouring runs rise and fall in
turns. A run that falls is one that rises of keys whose bits are inverted. Of two sorted runs of as many as are wanted,
one rising and one falling, the lesser of each pair of elements are the least of both.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from graphfuse.codegen.kernel import integer, literal, register_type
from graphfuse.dialects import moves
from graphfuse.gpu.convert import Conversion, plan
from graphfuse.gpu.kernel import Kernel, ThreadTile, layout_of, lowers
from graphfuse.gpu.lower_convert import convert
from graphfuse.gpu.lower_reduce import masked
from graphfuse.gpu.transforms.scan_layouts import scan_layout
from graphfuse.gpu.words import butterfly, shuffled
from graphfuse.ir.core import Op, attr_int, tile_of
from graphfuse.ir.layout import LANE, REGISTER, WARP, LinearLayout, tile_outs
from graphfuse.ir.types import Scalar
from graphfuse.llvm.module import Reg

Place = tuple[str, int]
"""A bit of the number of a register, lane or warp."""
ALL = -1
"""Stands for a bit that all numbers have."""


@lowers(moves.sort)
def lower_sort(kernel: Kernel, op: Op) -> None:
    """Each operand's registers, sorted together, in the layout of the results."""
    axis, tiles = attr_int(op, "axis"), [kernel.tile(v) for v in op.operands]
    keys = [masked(kernel, t, axis, t.vectors, _most(t.elem)) for t in tiles]
    network = _Network(kernel, tiles, keys, axis)
    network.run((attr_int(op, "count") - 1).bit_length(), ALL if op.attrs.get("falling") else None)
    for value, registers in zip(op.results, network.in_layout(layout_of(tile_of(op.results[0]))), strict=True):
        kernel.values[value] = kernel.make(value.type, registers)


def _most(elem: Scalar) -> Reg:
    """What lies beyond the axis comes last."""
    return Reg(literal(elem.limits[1], elem), register_type(elem))


class _Network:
    """What moves which bit of the elements' numbers, and the keys as they are held."""

    def __init__(self, kernel: Kernel, tiles: Sequence[ThreadTile], keys: Sequence[Sequence[Reg]], axis: int) -> None:
        self.kernel = kernel
        self.bits = [t.elem.bits for t in tiles]
        layout = tiles[0].layout
        start = layout.distinct_registers()
        used = [b for b in start.columns if b]
        if any(b & b - 1 for b in used) or len(set(used)) < len(used):
            start = scan_layout(layout.shape, axis, 1, layout.size(WARP)).distinct_registers()
        self.keys = self._moved(keys, layout, start)
        below = sum(b for _, b in layout.outs[axis + 1 :])
        self.first, self.count = 1 << below, layout.outs[axis][1]
        self.images: dict[Place, int] = {(n, i): b for n, bases in start.ins for i, b in enumerate(bases)}
        along = ((1 << self.count) - 1) * self.first
        own = [p for p, image in self.images.items() if image & along]
        self.images |= {p: self.first << i for i, p in enumerate(own)}
        self.inverted: int | None = None
        """The bit of the numbers of elements whose keys are inverted."""

    def run(self, kept: int, last: int | None) -> None:
        """Sort runs of 2^kept, and keep the least of all."""
        left = range(kept, self.count)
        # what is compared, run after run; before each, what of it is inverted; a bit that is left goes first
        runs = [(None, size, size) for size in range(1, kept)]
        runs += [(None, kept, next(iter(left), last)), *((bit, kept, bit + 1) for bit in left)]
        runs = [(b, n, last if i == len(runs) - 1 else turned) for i, (b, n, turned) in enumerate(runs)]
        order = [b for left_bit, n, _ in runs for b in ([] if left_bit is None else [left_bit]) + [*reversed(range(n))]]
        for left_bit, size, turned in runs:
            if left_bit is not None:
                self._invert(None)
                self._bring(order)
                self._halve(order.pop(0))
            self._invert(turned if size else None)
            for _ in range(size):
                self._bring(order)
                self._compare(order.pop(0))
        self._invert(None)

    def in_layout(self, layout: LinearLayout) -> list[list[Reg]]:
        """The keys as results are wanted."""
        have = self._layout(self.images)
        want = LinearLayout(layout.ins, have.outs)
        return self._moved(self.keys, have, want)

    def _moved(self, keys: Sequence[Sequence[Reg]], have: LinearLayout, want: LinearLayout) -> list[list[Reg]]:
        if have == want or not have.out_bits:
            return [[*x] for x in keys]
        return [convert(self.kernel, x, _planned(have, want, n)) for x, n in zip(keys, self.bits, strict=True)]

    def _layout(self, images: dict[Place, int]) -> LinearLayout:
        """Of the elements that are left, which have consecutive numbers."""
        used = sorted(b for b in images.values() if b)
        names = {n: [images[p] for p in sorted(images) if p[0] == n] for n in (REGISTER, LANE, WARP)}
        ins = {n: [1 << used.index(b) if b else 0 for b in bases] for n, bases in names.items()}
        return LinearLayout.of(ins, tile_outs((1 << len(used),)))

    def _place(self, bit: int) -> Place:
        return next(p for p, image in self.images.items() if image == self.first << bit)

    @property
    def _near(self) -> list[Place]:
        """Where pairs are compared."""
        found = {n: [p for p in self.images if p[0] == n] for n in (REGISTER, LANE)}
        return found[REGISTER] or found[LANE]

    # moving

    def _bring(self, order: Sequence[int]) -> None:
        """Move what the next bit needs, and maybe those after it, to where they are compared."""
        near = self._near
        if self._place(order[0]) in near:
            return
        uses = {self.first << bit: -i for i, bit in reversed([*enumerate(order)])}

        def brought(bits: Sequence[int]) -> tuple[dict[Place, int], float]:
            away = [p for b in bits if (p := self._place(b)) not in near]
            away.sort(key=lambda p: p[0] != WARP)
            kept = {self.first << b for b in bits}
            free = [p for p in near if self.images[p] not in kept]
            free.sort(key=lambda p: uses.get(self.images[p], -len(order)))
            images = dict(self.images)
            for here, there in zip(free, away, strict=False):
                images[here], images[there] = images[there], images[here]
            have, want = self._layout(self.images), self._layout(images)
            return images, sum(_planned(have, want, n).cycles for n in self.bits) / len(away)

        soon = list(dict.fromkeys(order))[: len(near)]
        images, _ = min((brought(soon[:n]) for n in {1, len(soon)}), key=lambda way: way[1])
        self.keys = self._moved(self.keys, self._layout(self.images), self._layout(images))
        self.images = images

    # comparing

    def _compare(self, bit: int) -> None:
        name, i = self._place(bit)
        keys = [list(x) for x in self.keys]
        if name == REGISTER:
            for r in range(len(keys[0])):
                if not r >> i & 1:
                    pairs = self._sorted([x[r] for x in keys], [x[r | 1 << i] for x in keys])
                    for x, pair in zip(keys, pairs, strict=True):
                        x[r], x[r | 1 << i] = pair
        else:
            others = self._others(i)
            upper = self.kernel.test("ne", self.kernel.operate("and", self.kernel.lane, 1 << i), 0)
            for r in range(len(keys[0])):
                pairs = self._sorted([x[r] for x in keys], [x[r] for x in others])
                for x, (less, more) in zip(keys, pairs, strict=True):
                    x[r] = self.kernel.choose(upper, more, less)
        self.keys = keys

    def _halve(self, bit: int) -> None:
        """Keep the lesser of pairs, of lanes in both."""
        name, i = place = self._place(bit)
        count = len(self.keys[0])
        low = [r for r in range(count) if name != REGISTER or not r >> i & 1]
        others = self._others(i) if name != REGISTER else [[x[r ^ 1 << i] for r in range(count)] for x in self.keys]
        kept = [self._sorted([x[r] for x in self.keys], [x[r] for x in others]) for r in low]
        self.keys = [[pairs[n][0] for pairs in kept] for n in range(len(self.keys))]
        if name != REGISTER:
            self.images[place] = 0
            return
        del self.images[place]
        self.images = {(n, j - (n == REGISTER and j > i)): b for (n, j), b in self.images.items()}

    def _others(self, lane_bit: int) -> list[list[Reg]]:
        return [shuffled(self.kernel, x, butterfly(self.kernel, 1 << lane_bit)) for x in self.keys]

    def _sorted(self, a: Sequence[Reg], b: Sequence[Reg]) -> list[tuple[Reg, Reg]]:
        """The lesser and the larger of two elements, for each of their keys."""
        if len(a) == 1 and a[0].type == "i32":
            less, more = (self.kernel.intrinsic(name, "i32", a[0], b[0]) for name in ("smin", "smax"))
            return [(less, more)]
        is_more = self.kernel.compare("icmp slt", b[-1], a[-1])
        for x, y in [*zip(a, b, strict=True)][-2::-1]:
            same = self.kernel.compare("icmp eq", x, y)
            is_more = self.kernel.choose(same, is_more, self.kernel.compare("icmp slt", y, x))
        choose = self.kernel.choose
        return [(choose(is_more, y, x), choose(is_more, x, y)) for x, y in zip(a, b, strict=True)]

    def _invert(self, bit: int | None) -> None:
        """Invert the keys of those elements, and those that were inverted back."""
        masks = [m for m in (self.inverted, bit) if m is not None]
        if self.inverted == bit:
            return
        self.inverted = bit
        kernel = self.kernel
        fixed, threads = [0] * len(self.keys[0]), list[Reg]()
        for m in masks:
            name, i = self._place(m) if m != ALL else (REGISTER, -1)
            if name == REGISTER:
                fixed = [f ^ (1 if i < 0 else r >> i & 1) for r, f in enumerate(fixed)]
                continue
            of = kernel.operate("lshr", kernel.lane if name == LANE else kernel.warp, i)
            threads.append(kernel.operate("sub", integer(0, "i32"), kernel.operate("and", of, 1)))
        mask = functools.reduce(lambda x, y: kernel.operate("xor", x, y), threads) if threads else integer(0, "i32")
        turned = kernel.operate("xor", mask, -1) if threads else integer(-1, "i32")
        for n, x in enumerate(self.keys):
            type_ = x[0].type
            choices = [self._widened(m, type_) for m in (mask, turned)]
            self.keys[n] = [
                kernel.text.emit(type_, f"xor {v}, {choices[f].text}") if threads or f else v
                for v, f in zip(x, fixed, strict=True)
            ]

    def _widened(self, mask: Reg, type_: str) -> Reg:
        if mask.type == type_ or not mask.text.startswith("%"):
            return Reg(mask.text, type_)
        return self.kernel.text.pure(type_, f"sext {mask} to {type_}", mask)


@functools.lru_cache(maxsize=1024)
def _planned(have: LinearLayout, want: LinearLayout, bits: int) -> Conversion:
    """Networks of one shape repeat conversions."""
    return plan(have, want, bits)
