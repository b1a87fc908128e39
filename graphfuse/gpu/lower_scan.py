"""`block.scan`: prefixes within a thread's vector, across lanes by doubling, then across warps by their totals.

The axis is gone through bit by bit from the lowest. What a bit joins are two neighbours of equal size: the upper one's
prefixes take in the lower one's total. Registers do that by themselves, lanes by an exchange. Bits of warps are joined
all at once: every thread reads the totals of all warps, and takes in those of the warps before its own.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from graphfuse.codegen.arith import elementwise
from graphfuse.codegen.kernel import integer
from graphfuse.dialects import block
from graphfuse.dialects.elementwise import COMBINE
from graphfuse.gpu.convert import plan
from graphfuse.gpu.kernel import Kernel, lowers
from graphfuse.gpu.lower_convert import convert
from graphfuse.gpu.lower_reduce import masked, narrow, nothing, wide_elem, widen
from graphfuse.gpu.transforms.scan_layouts import owners
from graphfuse.gpu.words import butterfly, shuffled
from graphfuse.ir.core import Op, attr_int
from graphfuse.ir.layout import LANE, REGISTER, WARP, LinearLayout, tile_outs
from graphfuse.ir.types import Scalar
from graphfuse.llvm.module import Reg

PAIRED = frozenset({"sum", "prod"})
"""What loses less where neighbours are combined first; of others fewer combinations are made."""


@lowers(block.scan)
def lower_scan(kernel: Kernel, op: Op) -> None:
    """Halves are combined in f32 and rounded once."""
    tile, kind = kernel.tile(op.operands[0]), str(op.attrs["kind"])
    wide = wide_elem(tile.elem)
    values = [widen(kernel, v, tile.elem, wide) for v in tile.vectors]
    scan = _Scan(kernel, kind, wide, tile.layout, attr_int(op, "axis"), tile.elem)
    if op.attrs.get("reverse"):
        scan.first = 1
        values = masked(kernel, tile, attr_int(op, "axis"), values, scan.neutral)
    found = scan.run(values, exclusive=bool(op.attrs.get("exclusive", False)))
    kernel.set(op, [narrow(kernel, v, wide, tile.elem) for v in found])


class _Scan:
    """One scan. `total` is by group, a group being registers whose elements are joined already."""

    def __init__(self, kernel: Kernel, kind: str, wide: Scalar, layout: LinearLayout, axis: int, elem: Scalar) -> None:
        self.kernel, self.kind, self.wide, self.layout = kernel, kind, wide, layout
        steps = owners(layout, axis)
        assert steps is not None, f"{layout} is no layout for a scan along {axis}"
        self.steps = steps
        self.lowest = 1 << sum(b for _, b in layout.outs[axis + 1 :])
        """The next bit of the axis, as part of an image."""
        self.gone = 0
        """The bits before it."""
        self.neutral = nothing(kind, elem)
        self.total: dict[int, Reg] = {}
        self.first = 0
        """Which half of two neighbours comes first: 0 the lower."""

    def run(self, values: Sequence[Reg], *, exclusive: bool) -> list[Reg]:
        """The scanned elements."""
        own: dict[int, Reg | None] = {r: None if exclusive else v for r, v in enumerate(values)}
        self.total = dict(enumerate(values))
        joined = 0
        if self.kind not in PAIRED:
            joined = self._follow(own, exclusive=exclusive)
        while self.steps and self.steps[0][0] == REGISTER:
            joined |= self._join(own, joined)
        carried: dict[int, Reg | None] = dict.fromkeys(self.total)
        done = joined
        while self.steps:
            if self.steps[0][0] == REGISTER:
                done |= self._join(carried, done)
            elif self.steps[0][0] == LANE:
                self._lanes(carried, done)
            else:
                self._warps(carried, done)
        found = [self._combined(carried[r & ~joined], own[r]) for r in range(len(values))]
        return [self.neutral if x is None else x for x in found]

    def _next(self) -> int:
        """The bit of its owner that comes next, which is then gone from what is apart."""
        _, i = self.steps.pop(0)
        self.gone |= self.lowest
        self.lowest <<= 1
        return i

    def _combine(self, a: Reg, b: Reg) -> Reg:
        return elementwise(self.kernel, COMBINE[self.kind], self.wide, [a, b])

    def _combined(self, a: Reg | None, b: Reg | None) -> Reg | None:
        """None changes nothing."""
        if a is None or b is None:
            return b if a is None else a
        return self._combine(a, b)

    def _follow(self, prefixes: dict[int, Reg | None], *, exclusive: bool) -> int:
        """Registers one after the other: the fewest combinations."""
        bits = list[int]()
        while self.steps and self.steps[0][0] == REGISTER:
            bits.append(1 << self._next())
        joined, places = sum(bits), [sum(b for i, b in enumerate(bits) if n >> i & 1) for n in range(1 << len(bits))]
        for c in [c for c in self.total if not c & joined]:
            total: Reg | None = None
            for place in reversed(places) if self.first else places:
                before, total = total, self._combined(total, self.total[c | place])
                prefixes[c | place] = before if exclusive else total
            assert total is not None
            self.total[c] = total
        self.total = {c: t for c, t in self.total.items() if not c & joined}
        return joined

    def _join(self, prefixes: dict[int, Reg | None], done: int) -> int:
        """Registers that differ in the next bit; `done` are the bits joined before."""
        bit = 1 << self._next()
        before = bit if self.first else 0
        for r, x in prefixes.items():
            if r & bit != before:
                prefixes[r] = self._combined(self.total[r & ~done & ~bit | before], x)
        self.total = {c: self._combine(t, self.total[c | bit]) for c, t in self.total.items() if not c & bit}
        return bit

    def _lanes(self, prefixes: dict[int, Reg | None], done: int) -> None:
        kernel, i = self.kernel, self._next()
        moved = shuffled(kernel, list(self.total.values()), butterfly(kernel, 1 << i))
        got = dict(zip(self.total, moved, strict=True))
        upper = kernel.test("eq" if self.first else "ne", kernel.operate("and", kernel.lane, 1 << i), 0)
        before = {c: kernel.choose(upper, t, self.neutral) for c, t in got.items()}
        for r, x in prefixes.items():
            prefixes[r] = self._combined(before[r & ~done], x)
        self.total = {c: self._combine(t, got[c]) for c, t in self.total.items()}

    def _warps(self, prefixes: dict[int, Reg | None], done: int) -> None:
        kernel, bits = self.kernel, list[int]()
        while self.steps and self.steps[0][0] == WARP:
            bits.append(self._next())
        columns = 1 << len(bits)
        parts = self._totals_of_warps(bits, done)
        mine = integer(0, "i32")
        for column, i in enumerate(bits):
            bit = kernel.operate("and", kernel.operate("lshr", kernel.warp, i), 1)
            bit = kernel.operate("shl", bit, column) if column else bit
            mine = kernel.operate("or", mine, bit) if column else bit
        others = range(columns - 1, 0, -1) if self.first else range(columns - 1)
        later = [kernel.test("ult" if self.first else "ugt", mine, w) for w in others]
        before: dict[int, Reg | None] = {}
        for g, c in enumerate(list(self.total)):
            of_group = parts[g * columns : (g + 1) * columns][:: -1 if self.first else 1]
            before[c] = None
            for seen, total in zip(later, of_group, strict=False):
                before[c] = self._combined(before[c], kernel.choose(seen, total, self.neutral))
            self.total[c] = functools.reduce(self._combine, of_group)
        for r, x in prefixes.items():
            prefixes[r] = self._combined(before[r & ~done], x)

    def _totals_of_warps(self, bits: Sequence[int], done: int) -> list[Reg]:
        """All that warps hold, group after group: a tile [what is still apart, warps along the axis] changes layout."""
        layout, count = self.layout, len(bits)
        names = (REGISTER, LANE, WARP)
        apart = {n: [b & ~self.gone for b in layout.bases(n)] for n in names}
        used = [i for i in range(layout.out_bits) if any(b >> i & 1 for n in names for b in apart[n])]

        def row(image: int) -> int:
            return sum((image >> i & 1) << n for n, i in enumerate(used)) << count

        registers = [row(b) for i, b in enumerate(apart[REGISTER]) if not done >> i & 1]
        lanes, warps = [row(b) for b in apart[LANE]], [row(b) for b in apart[WARP]]
        own = [1 << bits.index(i) if i in bits else b for i, b in enumerate(warps)]
        outs = tile_outs((1 << len(used), 1 << count))
        have = LinearLayout.of({REGISTER: registers, LANE: lanes, WARP: own}, outs)
        every = [1 << i for i in range(count)]
        want = LinearLayout.of({REGISTER: [*every, *registers], LANE: lanes, WARP: warps}, outs)
        return convert(self.kernel, list(self.total.values()), plan(have, want, self.wide.bits))
