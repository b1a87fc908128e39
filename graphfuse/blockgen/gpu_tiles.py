"""Tiles of programs for GPUs: sizes that are powers of two, positions within an extent, and a branch for whole tiles.

A tile that may stick out of its extent is emitted twice: without limits for programs whose tile is whole, so that
vectors are as wide as alignment allows, and with limits for the programs at the edges.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from graphfuse.blockgen.access import Merged
from graphfuse.blockgen.evaluate import Lane, Yielded, lane_over
from graphfuse.blockgen.index import Index, IndexSpace, unravel
from graphfuse.blockgen.kernel import Kernel
from graphfuse.blockgen.loops import Carried, programs
from graphfuse.dialects import block
from graphfuse.ir.core import Value
from graphfuse.ir.types import I64, Scalar
from graphfuse.symbolic import Dim, Ranges, bounds, ceildiv, exact_div, floordiv, minimum, mod, product, static
from graphfuse.targets.machine import WARP

AtChunk = Callable[[Lane, Dim, Carried], Yielded]
"""Emits what happens in a chunk of a dim, given its lane and position, and gives the next carried values."""
AtPlaces = Callable[[Index, Mapping[int, Lane], Carried], Yielded]
"""The same at an index, some of whose dims lanes run over, the last in any case."""

VECTOR_BYTES = 16
"""What one thread moves with one instruction at most."""
SECTOR_BYTES = 32
"""The least that memory moves."""
COLUMNS = 8
"""Of a program at least, where most multiprocessors would idle; fewer where fewer programs than this would have them.
Argmax of 3,000 rows of 1,000 halves takes 14.5 us with 32, 5.2 with 8, 7.9 with 4; softmax of 1,024 x 520 f32 3.9 with
8, 5.3 with 4 (H100: `benchmarks.gpu_constants --only columns`)."""
LINE = 32
"""Neighbours in memory that a tile has at least, if there are so many, where rows are not contiguous."""
GROUP = 8
"""Tiles of rows whose programs go through the columns together."""


@dataclass(frozen=True, slots=True)
class Share:
    """A thread has one in so many of the elements that it should have."""

    of: int

    def __str__(self) -> str:
        return f"1/{self.of} of a thread's elements"


SHARES = (Share(1), Share(2), Share(4))
"""What is tried where registers do not hold what a thread has."""


def power_of_two(n: int) -> int:
    """The least power of two that is not below n (1 for n below 1)."""
    return 1 << (max(n, 1) - 1).bit_length()


def at_most(extent: Dim, ranges: Ranges) -> int:
    """An upper bound of an extent."""
    return max(0, bounds(extent, ranges)[1])


def vector(elem: Scalar) -> int:
    """Elements of one access of `VECTOR_BYTES`."""
    return max(1, VECTOR_BYTES // max(1, elem.bytes))


def fitting(extent: Dim, least: int, most: int, ranges: Ranges, slack: float = 0.1) -> int:
    """The largest power of two in least..most whose tiles cover `extent` with few elements to spare.

    Few: not over `slack` more than the size that wastes least. Never more than twice the extent.
    """
    cap = min(most, power_of_two(at_most(extent, ranges)))
    if not isinstance(extent, int):
        return cap
    sizes = [1 << i for i in range(cap.bit_length()) if 1 << i >= min(least, cap)]
    covered = {n: -(-extent // n) * n for n in sizes}
    best = min(covered.values())
    return max(n for n in sizes if covered[n] <= best * (1 + slack))


def short_tail(dims: Sequence[Merged], axes: Collection[int]) -> Sequence[Merged]:
    """The kept dims behind all reduced ones, where the last has fewer than `LINE` neighbours, and they are several.

    One lane over their positions reads what lanes over each would read a few neighbours at a time.
    """
    behind = next((i for i in range(len(dims), 0, -1) if dims[i - 1].first in axes), 0)
    tail = dims[behind:] if behind else ()
    if len(tail) < 2 or not all(isinstance(d.extent, int) for d in tail):
        return ()
    return tail if static(tail[-1].extent) < LINE else ()


def as_one(tail: Sequence[Merged]) -> Merged:
    """The dim whose positions have the positions of several as digits."""
    return Merged(tail[0].first, tail[-1].last, product([d.extent for d in tail]))


def apart(tail: Sequence[Merged], position: Dim, space: IndexSpace) -> Index:
    """The positions along several dims at a position along `as_one` of them."""
    return unravel(position, [d.extent for d in tail], space)


def warps_for(elements: int, per_thread: int, most: int = 8) -> int:
    """How many warps hold `elements` at about `per_thread` each."""
    return max(1, min(most, power_of_two(-(-elements // (WARP * per_thread)))))


def whole_tiles(extent: Dim, width: Dim) -> bool:
    """Whether tiles of `width` cover the extent exactly, whatever the symbols are."""
    return exact_div(extent, width) is not None


def lines_of_program(kernel: Kernel, lines: Dim, size: int, wanted: int, least: int = 0) -> int:
    """Lines of so many elements for a program with `wanted`; where there are few lines fewer, but over `least`."""
    height, total = max(1, wanted // size), at_most(lines, kernel.space.ranges)
    while height > 1 and height * size > least and total < height * kernel.machine.multiprocessors:
        height //= 2
    return height


def neighbours(kernel: Kernel, lines: Dim, most: int, least: int = 1) -> int:
    """Lines side by side in memory for a program, up to whole sectors; fewer where multiprocessors would idle."""
    total = at_most(lines, kernel.space.ranges)
    while most > least and total < most * kernel.machine.multiprocessors:
        most //= 2
    return most


def columns_of_program(kernel: Kernel, columns: Dim, most: int, whole: int) -> int:
    """Columns side by side in memory: `whole` where multiprocessors would idle otherwise, fewer where most would."""
    total, most = at_most(columns, kernel.space.ranges), neighbours(kernel, columns, most, whole)
    least = max(1, min(COLUMNS, total // COLUMNS))
    while most > least and 2 * total <= most * kernel.machine.multiprocessors:
        most //= 2
    return most


def grouped(kernel: Kernel, place: Dim, rows: Dim, columns: Dim) -> tuple[Dim, Dim]:
    """(Row tile, column tile) of the program at `place`: groups of row tiles go through the columns together."""
    ev, ranges = kernel.ev, kernel.space.ranges
    if rows == 1 or columns == 1:
        return (0, place) if rows == 1 else (place, 0)
    if at_most(rows, ranges) <= GROUP:
        r, c = mod(place, rows), floordiv(place, rows)
    else:
        first = floordiv(place, columns * GROUP) * GROUP
        inside = mod(place, columns * GROUP)
        even = isinstance(rows, int) and rows % GROUP == 0
        height = GROUP if even else ev.bind("h", 1, GROUP, ev.index(minimum(rows - first, GROUP)))
        r, c = first + mod(inside, height), floordiv(inside, height)
    return ev.bind("m", 0, rows - 1, ev.index(r)), ev.bind("n", 0, columns - 1, ev.index(c))


def lane_along(kernel: Kernel, extent: Dim, width: int, first: Dim) -> tuple[Lane, Dim]:
    """A lane over `first .. first + width` of a dim, and the position that it stands for."""
    if extent == width or (first != 0 and whole_tiles(extent, width)):
        return lane_over(kernel.space, width, first)
    var = kernel.space.fresh("l", 0, extent - first - 1)
    return Lane(str(var), width, extent - first, bounded=True), first + var


def tiled_programs(
    kernel: Kernel, extents: Sequence[Dim], widths: Mapping[int, int]
) -> tuple[Dim, list[Lane], list[Dim]]:
    """A program for each tile of the extents, `widths` wide along some: the grid, lanes, the position under them."""
    grid, place = programs(kernel, tile_counts(extents, widths))
    return grid, *tile_at(kernel, extents, widths, place)


def tile_counts(extents: Sequence[Dim], widths: Mapping[int, int]) -> list[Dim]:
    """How many tiles there are along each of the extents."""
    return [ceildiv(e, widths.get(i, 1)) for i, e in enumerate(extents)]


def tile_at(
    kernel: Kernel, extents: Sequence[Dim], widths: Mapping[int, int], place: Index
) -> tuple[list[Lane], list[Dim]]:
    """The lanes of the tile at a place among tiles, and the position under them."""
    lanes: list[Lane] = []
    at = list(place)
    for i, extent in enumerate(extents):
        if (width := widths.get(i, 1)) > 1:
            lane, at[i] = lane_along(kernel, extent, width, at[i] * width)
            lanes.append(lane)
    return lanes, at


def in_whole_or_part(kernel: Kernel, lanes: Sequence[Lane], body: Callable[[], object]) -> None:
    """Emit `body` under the lanes: where their limits cut nothing off without them, elsewhere with them."""
    ev = kernel.ev

    def with_lanes(*chosen: Lane) -> None:
        with ev.lanes_as(*chosen):
            body()

    def ever_whole(lane: Lane) -> bool:
        assert lane.limit is not None
        return not kernel.space.below(kernel.space.simplify(lane.limit), lane.extent)

    cut = {lane: lane.limit for lane in lanes if lane.limit is not None and ever_whole(lane)}
    condition: Value | None = None
    for lane, limit in cut.items():
        condition = ev.both(condition, ev.emit(block.ge, ev.index(limit), ev.const(lane.extent, I64)))
    if condition is None:
        with_lanes(*lanes)
        return
    whole = [replace(lane, limit=None) if lane in cut else lane for lane in lanes]
    ev.branch(condition, lambda: with_lanes(*whole), lambda _: with_lanes(*lanes))


def in_chunks(
    kernel: Kernel, extent: Dim, width: int, step: AtChunk, carried: Carried, *, backwards: bool = False
) -> Carried:
    """Carry values over the chunks of a dim: whole ones in a loop, then the one that is cut by the end, if any.

    Backwards, the cut one comes first, and then the whole ones from the last on.
    """

    def chunk(first: Dim, values: Carried, *, whole: bool) -> Yielded:
        lane, position = lane_along(kernel, extent, width, first)
        return step(Lane(lane.name, width) if whole else lane, position, values)

    count = floordiv(extent, width)
    left = kernel.space.simplify(ceildiv(extent, width) - count)

    def cut(values: Carried) -> Carried:
        return kernel.ev.loop("t", left, lambda t, c: chunk((count + t) * width, c, whole=False), values)

    if backwards:
        return kernel.ev.loop("t", count, lambda t, c: chunk((count - 1 - t) * width, c, whole=True), cut(carried))
    return cut(kernel.ev.loop("t", count, lambda t, c: chunk(t * width, c, whole=True), carried))


def over_tiles(
    kernel: Kernel,
    extents: Sequence[Dim],
    widths: Sequence[int],
    step: AtPlaces,
    carried: Carried,
    *,
    backwards: bool = False,
) -> Carried:
    """Carry values over all of the extents: nested loops, the last over chunks, others over tiles if they are wide."""
    last = len(extents) - 1

    def over(at: Index, lanes: Mapping[int, Lane], values: Carried) -> Carried:
        i = len(at)
        extent, width = extents[i], widths[i]

        def chunk(lane: Lane, position: Dim, values: Carried) -> Yielded:
            return step((*at, position), {**lanes, i: lane}, values)

        def tile(t: Dim, values: Carried) -> Carried:
            if width == 1:
                return over((*at, t), lanes, values)
            lane, position = lane_along(kernel, extent, width, t * width)
            return over((*at, position), {**lanes, i: lane}, values)

        if i == last:
            return in_chunks(kernel, extent, width, chunk, values, backwards=backwards)
        return kernel.ev.loop("r", ceildiv(extent, width), tile, values)

    return over((), {}, carried)
