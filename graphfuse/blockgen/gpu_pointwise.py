"""Emits pointwise regions for GPUs: one tile of the result per program.

The tile runs along every dim that some memory is contiguous along: one dim as a rule, two when the region transposes
(then loads and stores each touch whole lines, and elements change threads in between). Short dims are joined by the
dims outside them, as lanes of their own or, when rows would leave lanes idle or accesses unaligned, as one flat lane
whose digits are the dims' positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from graphfuse.blockgen import gpu_axis_reduction
from graphfuse.blockgen.access import Walk, merged_index
from graphfuse.blockgen.gpu_tiles import (
    SECTOR_BYTES,
    SHARES,
    at_most,
    fitting,
    in_whole_or_part,
    power_of_two,
    tile_at,
    tile_counts,
    vector,
    warps_for,
)
from graphfuse.blockgen.index import Index, coefficient, unravel
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.loops import by_turns, programs
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.pointwise import walked
from graphfuse.blockgen.tiling import cost_per_element
from graphfuse.dialects import graph
from graphfuse.ir.core import Attr, Func, attr_ints
from graphfuse.symbolic import Dim, exact_div
from graphfuse.targets.machine import SCHEDULERS, WARP

TURNED = 64
"""Side of a tile whose loads and stores run along different dims."""
LEAST_TURNED = 16
"""The same where there would not be a program for every multiprocessor, or a sector."""
RUN_BYTES = 2 * SECTOR_BYTES
"""Of neighbours of such a tile at least: longer sides may have more to spare (74 images of 88 x 144 bf16, where one
operand is turned, take 5.2 us in tiles of 128 x 64 and 3.8 in those of 32 x 32 on an H200: `benchmarks.population`)."""
WORD_BYTES = 4
"""What a thread has of the outputs at least."""
SPARE = 1.2
"""Rows are flattened when tiles of whole rows would have more lanes than elements by this factor."""
SPARE_REPEATED = 1.4
"""The same where every row reads one row again, as of a bias: a tile of rows has its elements once, lanes along a flat
position have one for each element, that no vector loads."""
SPARE_DIGITS = 2.0
"""The same where more than addresses is made of a position's digits: masks, windows, look-ups."""
LONG_FUNCTIONS = frozenset(f"graph.{name}" for name in ("sin", "cos", "tan"))
"""Those with a second way, for large arguments, which takes many registers: of 16 elements a thread, a gradient of sin
takes 28 us where it takes 23 of 4 (3205824 of bf16 on an H100, `benchmarks.population`)."""
FEW = 4
"""Elements of a thread that has such functions of each, where there is plenty to do."""
TAPS = 5
"""Of a window along one dim, at most, that are code of their own: a loop moves what it carries between registers."""


def emit(kernel: Kernel) -> Func:
    """A tile of the outputs per program; a region that reduces has a schedule of its own."""
    if (reduction := gpu_axis_reduction.find(kernel)) is not None:
        return gpu_axis_reduction.emit(kernel, reduction)
    domain = shape_of(kernel.outputs[0])
    widest = max(element_of(v).bytes for v in (*kernel.outputs, *kernel.body.params.values))
    walk, joined = walked(kernel, domain).apart(SECTOR_BYTES // widest)

    def store(index: Index) -> None:
        kernel.store_outputs(joined(index), domain)

    count = _looked_up(kernel)
    # neighbours share what they look up
    return Tiling(kernel, walk, store, reads=_reads(kernel), spreads=count <= 1, looks_up=count == 1).emit()


def _looked_up(kernel: Kernel) -> int:
    return sum(op.kind in (graph.take, graph.gather_nd) for op in kernel.body.ops)


def _reads(kernel: Kernel) -> int:
    """What is read for an element elsewhere than where it is: taps of windows, and more look-ups than resizes have.

    Slices are taps, too: of the largest of a window with its place each is code of its own.
    """
    looked_up, ops = _looked_up(kernel), kernel.body.ops
    taps = sum(math.prod(attr_ints(op, "window")) for op in ops if op.kind is graph.reduce_window)
    taps += sum(op.kind is graph.slice_ for op in ops)
    return taps + (looked_up if looked_up > LONG else 0)


def held_of_row(kernel: Kernel, row: Dim) -> int:
    """Neighbours in a row that a thread has where it has several rows: a vector, or one where vectors do not fit."""
    length = vector(element_of(kernel.outputs[0]))
    return length if isinstance(row, int) and row % length == 0 else 1


LONG, MANY = 16, 4
"""Terms of an element's sum, and reads of each elsewhere, from which on threads are worth more than wide stores."""


class Tiling:
    """The choice of tile for one region, and its emission; `compute(index)` does the work at an index of the domain.

    `walk` is of what that reads and writes, at the first of several `places` that an index may stand for. Where there
    are `sharing` programs at most, each computes tiles by turns. An element is a sum of `terms` that are read for it,
    or has `reads` elsewhere than where it is. One that `spreads` gives threads less than a vector where there is little
    to do; updates of memory are as many as there are vectors.
    """

    def __init__(
        self,
        kernel: Kernel,
        walk: Walk,
        compute: Callable[[Index], None],
        *,
        places: int = 1,
        sharing: int | None = None,
        terms: int = 1,
        reads: int = 0,
        spreads: bool = False,
        looks_up: bool = False,
    ) -> None:
        self.kernel, self.domain, self.compute = kernel, walk.shape, compute
        self.places, self.sharing, self.is_long_sum = places, sharing, terms >= LONG or reads >= MANY
        self.is_pointwise = terms == 1 and sharing is None
        self.spreads, self.looks_up = spreads, looks_up
        kernel.ev.unrolled_taps = TAPS
        self.names, found = walk.names, walk.found
        self.opaque = found.opaque
        self.dims = walk.merge()
        self.extents = [d.extent for d in self.dims]
        self.ops = kernel.work
        self.strides = [[coefficient(o, self.names[d.last]) for d in self.dims] for o in found.offsets]
        self.elem_bytes = max(element_of(v).bytes for v in (*kernel.outputs, *kernel.body.params.values))
        self.least_bytes = min(element_of(v).bytes for v in kernel.outputs)

    def emit(self) -> Func:
        """The kernel."""
        return self.kernel.finish(*self.emit_tiles())

    def emit_tiles(self) -> tuple[Dim, int, dict[str, Attr]]:
        """Its tiles alone, and what finishes it."""
        if not self.dims:
            self.compute((0,) * len(self.domain))
            return 1, 10, {"warps": 1}
        per_thread, elements = self._amount()
        fast = self._fast_dims()
        widths = self._widths(fast, elements)
        if len(fast) == 1 and self._flattens(widths):
            grid, tile = self._emit_flat(elements, per_thread)
        else:
            grid, tile = self._emit_tile(widths)
        work = 1 + round(tile * cost_per_element(self.kernel.machine.core, self.ops)) // 64
        most = 16 if len(fast) > 1 and self._holds_much() else 8
        return grid, work, {"warps": warps_for(tile, per_thread, most)}

    def _amount(self) -> tuple[int, int]:
        """(Elements per thread, elements of a tile).

        Two vectors in flight per operand that is not a line of numbers, fewer where there would not be a program for
        every multiprocessor; less than a vector where a scheduler would not have a warp: what a thread does to its
        elements one after another is the time.
        """
        machine = self.kernel.machine
        if self.places > 1:
            held = held_of_row(self.kernel, self.domain[-1])
            return held, held * WARP * 4
        least = vector(element_of(self.kernel.outputs[0])) if not self.is_long_sum else 1
        per_thread = max(4 if self.elem_bytes <= 4 else 2, min(least, 16))
        if not self._holds_much() and per_thread * self.elem_bytes <= 32:
            per_thread *= 2
        warps = 4 if self.sharing is None else 8
        total = at_most(positions(self.domain), self.kernel.space.ranges)
        most = FEW if any(op.kind.name in LONG_FUNCTIONS for op in self.ops) else per_thread
        while per_thread > most and total >= per_thread * 32 * warps * 2 * machine.multiprocessors:
            per_thread //= 2
        while per_thread > least and total < per_thread * 32 * warps * 2 * machine.multiprocessors:
            per_thread //= 2
        while warps > 1 and total < per_thread * 32 * warps * machine.multiprocessors // 2:
            warps //= 2
        word = max(1, WORD_BYTES // self.least_bytes) if self.spreads else per_thread
        while per_thread > word and total < per_thread * 32 * SCHEDULERS * machine.multiprocessors:
            per_thread, warps = per_thread // 2, warps * 2
        per_thread = max(1, per_thread // self.kernel.chosen(SHARES[:1], SHARES[1:]).of)
        return per_thread, per_thread * 32 * warps

    def _holds_much(self) -> bool:
        """Whether a thread has so many values of each element that it has few elements."""
        whole = [v for v in self.kernel.body.params.values if sum(d != 1 for d in shape_of(v)) > 1]
        return len(self.ops) > 24 or len(whole) + len(self.kernel.outputs) > 5

    def _fast_dims(self) -> list[int]:
        """Dims that neighbours in memory run along, the innermost first: at most two."""
        last = len(self.dims) - 1
        out = [last]
        for strides in self.strides:
            if strides[last] in (0, 1, -1, None):
                continue
            unit = [d for d in range(last) if strides[d] in (1, -1)]
            out += [d for d in unit if d not in out]
        return out[:2]

    def _widths(self, fast: Sequence[int], elements: int) -> list[int]:
        """Lanes along each dim."""
        ranges = self.kernel.space.ranges
        widths = [1] * len(self.dims)
        line = max(1, 4 * SECTOR_BYTES // self.least_bytes)
        if len(fast) == 2:
            sides = [TURNED, TURNED * (2 if self.elem_bytes <= 2 and not self._holds_much() else 1)]
            most = TURNED * TURNED // (2 if self.elem_bytes > 4 else 1)
            total = at_most(positions(self.domain), ranges)
            least = max(LEAST_TURNED, SECTOR_BYTES // self.least_bytes)
            while math.prod(sides) > least**2 and total < most * self.kernel.machine.multiprocessors:
                sides[sides.index(max(sides))] //= 2
                most = min(most, math.prod(sides))
            elements = max(elements, most)
            run = RUN_BYTES // self.least_bytes
            for d, side in zip(fast, sides, strict=True):
                widths[d] = fitting(self.extents[d], min(run, side), side, ranges)
            for d in fast:  # a short side lets the other be longer
                other = math.prod(w for i, w in enumerate(widths) if i != d)
                if widths[d] >= min(sides):
                    widths[d] = fitting(self.extents[d], widths[d], max(widths[d], elements // other), ranges)
        else:
            least, slack = (line, 0.1) if self._aligned() else (min(line, WARP // 2), 0.15)
            widths[-1] = fitting(self.extents[-1], min(least, elements), elements, ranges, slack)
        for d in reversed(range(len(self.dims))):
            left = elements // math.prod(widths)
            if widths[d] == 1 and left > 1:
                widths[d] = fitting(self.extents[d], 1, left, ranges)
        return widths

    def _flattens(self, widths: Sequence[int]) -> bool:
        """Whether one lane over the flat position is better than a lane per dim."""
        inner = self.extents[1:]
        if len(self.dims) == 1 or not all(isinstance(d, int) for d in inner):
            return False
        if self.looks_up:
            return True
        covered = wanted = 1.0
        for extent, width in zip(self.extents, widths, strict=True):
            if isinstance(extent, int):
                covered, wanted = covered * (-(-extent // width) * width), wanted * extent
        if not self._aligned():
            if self._has_digits():
                return covered > wanted * SPARE_DIGITS
            return covered > wanted * SPARE_REPEATED or not self._repeats()
        return covered > wanted * SPARE

    def _aligned(self) -> bool:
        """Whether rows of the outputs begin where vectors do."""
        row = self.extents[-1]
        return isinstance(row, int) and row % vector(element_of(self.kernel.outputs[0])) == 0

    def _repeats(self) -> bool:
        """Whether rows of a sector and more read a row of some array each again, or an element for all of a row."""
        return self._is_long() and any(
            (s[-1] == 1 and not any(s[:-1])) or (s[-1] == 0 and any(s[:-1])) for s in self.strides
        )

    def _has_digits(self) -> bool:
        """Whether more than addresses is made of positions in rows of a sector and more."""
        return self.is_pointwise and self._is_long() and any(self.names[d.last] in self.opaque for d in self.dims)

    def _is_long(self) -> bool:
        """Whether rows have a sector or more."""
        row = self.extents[-1]
        return not isinstance(row, int) or row * self.least_bytes >= SECTOR_BYTES

    # emission

    def _emit_tile(self, widths: Sequence[int]) -> tuple[Dim, int]:
        grid = self._over(self.extents, dict(enumerate(widths)), lambda at: at)
        return grid, math.prod(widths)

    def _emit_flat(self, elements: int, per_thread: int) -> tuple[Dim, int]:
        """A lane along positions; where rows are whole vectors one of these, so that each has its digits once."""
        space, row = self.kernel.space, self.extents[-1]
        length = min(per_thread, vector(element_of(self.kernel.outputs[0]))) if self._aligned() else 1
        vectors = [*self.extents[:-1], exact_div(row, length) or row]
        total = positions(vectors)
        width = min(elements // length, power_of_two(at_most(total, space.ranges)))

        def unmerged(at: Index) -> Index:
            *outer, last = unravel(at[0], vectors, space)
            return (*outer, last * length + at[1])

        return self._over([total, length], {0: width, 1: length}, unmerged), width * length

    def _over(self, extents: Sequence[Dim], widths: Mapping[int, int], unmerged: Callable[[Index], Index]) -> Dim:
        """Compute every tile of extents, given where positions of these are along the dims; the grid."""
        kernel, counts = self.kernel, tile_counts(extents, widths)

        def tile(place: Index) -> None:
            lanes, at = tile_at(kernel, extents, widths, place)
            index = merged_index(len(self.domain), self.dims, unmerged(tuple(at)))
            in_whole_or_part(kernel, lanes, lambda: self.compute(index))

        if self.sharing is not None:
            return by_turns(kernel, counts, self.sharing, tile)
        grid, place = programs(kernel, counts)
        tile(place)
        return grid
