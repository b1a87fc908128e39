"""Tiles of matrix products by `wgmma`: from shapes, by a model of the time (`targets/profiles/h200.py`); no trial runs.

A step is 128 bytes of K. It takes as long as the slowest of the tensor cores, the way from the cache to shared memory,
and the barriers. The whole product takes as long as the multiprocessor with most tiles; and, as large products run at
the limit of power, no less than its energy does. Both limits round each other off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphfuse.blockgen.gpu_tiles import power_of_two
from graphfuse.targets.machine import Machine

STEP_BYTES = 128
"""Of K: a line of swizzled shared memory."""
LEAST_BYTES = 32
"""The least of K that one `wgmma` multiplies, and that shared memory swizzles."""
MOST_SPLIT = 4
"""Blocks that share a tile."""
ROWS = 64
"""Of the smallest tile: what one `wgmma` takes."""
_LINE = 64
"""Columns of 2 bytes in a line of swizzled shared memory."""


@dataclass(frozen=True, slots=True)
class Product:
    """`batch` products [m, k] x [k, n], or sums of `terms` of them; `results` at once share the operand of m rows."""

    m: int
    n: int
    k_bytes: int
    batch: int = 1
    terms: int = 0
    results: int = 1
    aligned: bool = True
    """Rows in memory are whole sectors."""
    windows: bool = False
    """The operand of m rows is an image that is read in windows."""
    step_bytes: int = STEP_BYTES
    """Of K in a step: fewer where taps of an image have fewer."""
    in_lines: bool = False
    """Memory runs along the n columns: tiles of 96 would be copied in thirds of half a line."""
    by_threads: bool = False
    """Threads see to rows that are no boxes of TMA's, which takes registers beside the accumulators and the epilogue's
    (`gpu/lower_lines.py`)."""
    epilogue_ns: float = 0.0
    """What one warpgroup takes for an element besides storing it."""

    @property
    def steps(self) -> int:
        """Along K, of all terms."""
        return -(-self.k_bytes // self.step_bytes) * max(self.terms, 1)


@dataclass(frozen=True, slots=True)
class WgmmaTile:
    """A tile [m, n] of the result: `split` blocks share its K; `per_multiprocessor` blocks run side by side.

    `rows` and `columns` blocks make as many such tiles together and load what they have in common once.
    """

    m: int
    n: int
    pingpong: bool = False
    per_multiprocessor: int = 1
    split: int = 1
    rows: int = 1
    columns: int = 1
    stream: bool = False
    """The steps of the tiles of the last waves are dealt out to all blocks. None of `TILES` does: docs/adr/0011."""

    @property
    def shared(self) -> int:
        """Blocks of a cluster that load together."""
        return self.rows * self.columns

    @property
    def schedule(self) -> str:
        """The attribute of the function."""
        return "pingpong" if self.pingpong else "stream" if self.stream else "cooperative"

    def __str__(self) -> str:
        more = f" persistent={self.per_multiprocessor}" if self.per_multiprocessor > 1 else ""
        more += f" split={self.split}" if self.split > 1 else ""
        more += f" share={self.rows}x{self.columns}" if self.shared > 1 else ""
        return f"{'p' if self.pingpong else ''}{self.m}x{self.n}{more}{' stream=1' if self.stream else ''}"


TILES = (
    WgmmaTile(128, 192, pingpong=True), WgmmaTile(128, 256, rows=2), WgmmaTile(128, 192, pingpong=True, rows=2),
    WgmmaTile(256, 128), WgmmaTile(256, 128, columns=2), WgmmaTile(128, 256), WgmmaTile(128, 192),
    WgmmaTile(128, 208), WgmmaTile(128, 176, pingpong=True), WgmmaTile(128, 160), WgmmaTile(128, 144),
    WgmmaTile(128, 128), WgmmaTile(128, 128, pingpong=True), WgmmaTile(64, 256, pingpong=True),
    WgmmaTile(64, 192, pingpong=True), WgmmaTile(128, 96), WgmmaTile(64, 128), WgmmaTile(64, 128, pingpong=True),
    WgmmaTile(64, 128, per_multiprocessor=2), WgmmaTile(64, 96), WgmmaTile(64, 64, per_multiprocessor=2),
    WgmmaTile(64, 64), WgmmaTile(64, 32), WgmmaTile(128, 32), WgmmaTile(64, 32, per_multiprocessor=2),
    WgmmaTile(64, 256),
    *(WgmmaTile(m, n, split=s) for s in (2, 4) for m, n in ((128, 128), (64, 128), (64, 64))),
)  # fmt: skip
"""Of those that take about the same time the first is chosen."""
FOR_SEVERAL = (
    *(t for t in TILES if t.m > ROWS or not t.pingpong),
    WgmmaTile(128, 64, pingpong=True),
    WgmmaTile(128, 64),
)
"""Where products that share an operand are made at once: as many accumulators."""
FOR_WINDOWS = (
    *(t for t in TILES if t.shared == 1), WgmmaTile(256, 64), WgmmaTile(128, 64, pingpong=True), WgmmaTile(128, 64),
    WgmmaTile(64, 32, split=2), WgmmaTile(64, 32, split=4),
)  # fmt: skip
"""For convolutions, whose results are often of 64 channels or few, and whose steps are short."""
GAIN = 1.1
"""At least, where a model says that something else is faster: models are not exact."""
_ABOUT = 1.01
"""Times the least time: closer than that the model cannot tell tiles apart, and the order of `TILES` decides."""
_MOST_BY_THREADS = 128
"""Accumulators of a thread that stores an epilogue's results itself."""


def wgmma_tile(machine: Machine, p: Product) -> WgmmaTile:
    """The tile that takes least time."""
    return wgmma_tiles(machine, p)[0]


def wgmma_tiles(machine: Machine, p: Product) -> list[WgmmaTile]:
    """All that there is room for, the one that takes least time first."""
    tiles = _candidates(p.n, p.steps, FOR_WINDOWS if p.windows else TILES if p.results == 1 else FOR_SEVERAL)
    tiles = (t for t in tiles if (not p.terms or _has_room_for_sums(t)) and (p.results == 1 or _has_room(t, p.results)))
    tiles = (t for t in tiles if t.shared == 1 or not (p.terms or p.results > 1))
    tiles = (t for t in tiles if not p.by_threads or t.m * t.n <= _MOST_BY_THREADS * _threads(t))
    tiles = (t for t in tiles if not p.in_lines or t.n <= _LINE or t.n % _LINE == 0)
    times = {t: microseconds(t, machine, p) for t in tiles}
    least = min(times.values())
    best = next(t for t, us in times.items() if us <= least * _ABOUT)
    return sorted(times, key=lambda t: (t != best, times[t]))


def step_bytes(machine: Machine, tile: WgmmaTile, k_bytes: int) -> int:
    """Of K in one step: two lines where the barriers of a step take longer than all else in it, if K is so long.

    A part of a line where that is all of K: what is beyond the end takes a copy longer than what is there.
    """
    if k_bytes <= STEP_BYTES // 2:
        return max(LEAST_BYTES, power_of_two(k_bytes))
    small = tile.m * tile.n <= machine.gpu.wgmma.few and tile.per_multiprocessor == 1
    deep = 2 * STEP_BYTES
    return deep if small and k_bytes % deep == 0 and k_bytes >= 4 * deep * tile.split else STEP_BYTES


def _has_room_for_sums(tile: WgmmaTile) -> bool:
    """Whether two accumulators fit in registers, and two steps of three parts of both operands in shared memory."""
    threads = _threads(tile)
    alone = tile.split == 1 and tile.per_multiprocessor == 1
    return alone and tile.m * tile.n <= 64 * threads and tile.m + tile.n <= 256


def _has_room(tile: WgmmaTile, results: int) -> bool:
    """Whether so many accumulators fit in registers, and leave some to the epilogue; a sum in clusters has one."""
    return tile.split == 1 and tile.m * tile.n * results * tile.per_multiprocessor <= 128 * _threads(tile)


def _threads(tile: WgmmaTile) -> int:
    """That share the accumulators of a tile."""
    return 128 if tile.pingpong or tile.m == ROWS else 256


def _candidates(n: int, steps: int, tiles: Sequence[WgmmaTile] = TILES) -> Iterator[WgmmaTile]:
    widest = max(32, 1 << (n - 1).bit_length())
    for tile in tiles:
        if tile.n * tile.columns <= widest and steps >= 4 * tile.split * (tile.split > 1):
            yield tile


def microseconds(tile: WgmmaTile, machine: Machine, p: Product) -> float:
    """What the model says."""
    costs, multiprocessors = machine.gpu.wgmma, machine.multiprocessors
    steps = p.steps
    tiles = -(-p.m // (tile.m * tile.rows)) * -(-p.n // (tile.n * tile.columns)) * p.batch
    area, part = tile.m * tile.n * p.results, p.step_bytes / STEP_BYTES
    # boxes are cut off where the matrix ends, in groups of eight rows
    nbytes = (min(tile.m, -(-p.m // 8) * 8) / tile.columns + tile.n * p.results / tile.rows) * p.step_bytes
    together = tile.split * tile.shared
    # clusters do not span parts of the machine, so that fewer of them run at once
    at_once = max(1, multiprocessors if together == 1 else int(multiprocessors * dict(costs.clusters)[together]))
    rounds = -(-tiles // at_once)
    way = nbytes * costs.byte_ns * (1 if p.aligned else costs.unaligned)
    uncached = p.m <= tile.m * tile.rows  # columns are read once, and so from memory
    if uncached:
        way = max(way, tile.n * p.results / tile.rows * p.step_bytes * costs.memory_ns)
    # it was to share its multiprocessor, and has half of the memory although it is alone there
    if rounds < tile.per_multiprocessor and steps > costs.short:
        way *= costs.half_ring
    if tile.split > 1:
        way = max(way, min(tiles, at_once) * tile.split * nbytes * costs.apart_ns)
    mma = area * part * costs.element_ns * (costs.narrow if p.results > 1 and tile.n < costs.wide else 1)
    step = max(mma, way, costs.step_ns if tile.shared == 1 else costs.shared_step_ns)
    if tile.pingpong and tile.shared > 1 and area <= costs.small:
        step *= costs.pingpong_shared
    one = tile.pingpong or tile.m == ROWS
    epilogue = area * (machine.gpu.epilogue.store_ns + p.epilogue_ns) / tile.split / (1 if one else 2)
    between = epilogue * costs.overlapped if tile.pingpong else epilogue + costs.turn_ns
    busy = (rounds * -(-steps // tile.split) * step + (rounds - 1) * between + epilogue) / 1e3 + costs.fill_us
    energy = tiles * tile.shared * steps * (area * part * costs.element_energy_us + nbytes * costs.byte_energy_us)
    exchange = 0.0
    if tile.split > 1:
        exchange = dict(costs.windows_exchange_us if p.windows else costs.exchange_us)[tile.split]
        exchange += area * (tile.split - 1) / tile.split * costs.exchange_ns / 1e3
        exchange *= costs.uncached_exchange if uncached else 1
    launch = costs.launch_us + (costs.cluster_us if tile.shared > 1 else 0)
    return launch + (busy**costs.sharpness + energy**costs.sharpness) ** (1 / costs.sharpness) + rounds * exchange
