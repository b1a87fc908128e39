"""Tiles of matrix products by `wgmma`: from shapes, by a model of the time that was fitted to an H200; no trial runs.

A step is 128 bytes of K. It takes as long as the slowest of the tensor cores, the way from the cache to shared memory,
and the barriers. The whole product takes as long as the multiprocessor with most tiles; and, as large products run at
the limit of power, no less than its energy does. Both limits round each other off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

STEP_BYTES = 128
"""Of K: a line of swizzled shared memory."""
MOST_SPLIT = 4
"""Blocks that share a tile."""
ROWS = 64
"""Of the smallest tile: what one `wgmma` takes."""
_LAUNCH_US = 0.7
"""Of a kernel without work, as the other numbers here fitted to times by `python -m benchmarks.gpu_gemm`."""
_CLUSTER_US = 0.67
"""More, of clusters."""
_FILL_US = 1.22
"""Until the first step's operands are there, and from the last store to the end."""
_MMA_NS = 0.487 / 32
"""Of a step, for each element of the tile: about 4096 multiplied bytes a clock."""
_BYTE_NS = 0.00587
"""Of a step, for each byte of its operands that a block loads."""
_UNALIGNED = 2.7
"""Times that, where rows in memory are no whole sectors of 32 bytes."""
_HALF_RING = 1.12
"""Times that, where a block is alone on its multiprocessor with half the shared memory, and the sum is not short."""
_SHORT = 16
"""Steps."""
_STEP_NS = 92.0
"""Of a step at least."""
_SHARED_STEP_NS = 142.0
"""That, where blocks wait for each other."""
_PINGPONG_SHARED = 1.12
"""Times a step of small tiles of two blocks, whose groups of warps take turns in both."""
_SMALL = 128 * 128
"""Elements of such a tile at most."""
_LINE = 64
"""Columns of 2 bytes in a line of swizzled shared memory."""
_FEW = 64 * 96
"""Elements of a tile whose steps are bound by barriers."""
_EPILOGUE_NS = 0.056
"""For each element of a tile, by one warpgroup."""
_OVERLAPPED = 0.22
"""Share of it that is left where another group multiplies meanwhile."""
_TURN_NS = 350.0
"""From a tile to the next where none does."""
WIDE, _NARROW = 128, 1.1
"""Where several products share rows, each reads them from shared memory again: times that, for fewer columns."""
_MMA_ENERGY, _BYTE_ENERGY = 0.448e-5 / 32, 0.063e-7
"""In microseconds at the limit of power: of a step, for each element of the tile and for each byte of its operands."""
_SHARPNESS = 2.0
"""Exponent of the norm that joins the two limits."""
_EXCHANGE_US, _EXCHANGE_NS = {2: 1.2, 4: 2.0}, 0.12
"""Of a sum over so many blocks of a cluster, and of each element that a block sends."""
_WINDOWS_EXCHANGE_US = {2: 1.6, 4: 2.5}
"""The same where blocks read other taps of an image."""
_CLUSTERS = {2: 0.5, 4: 30 / 132}
"""Tiles that clusters of so many blocks make at once, for each multiprocessor (cuOccupancyMaxActiveClusters): clusters
do not span parts of the machine."""
_APART_NS = 1 / 12000
"""Of a step of a split sum, for each byte of all blocks that run at once, as neighbours load other parts of K."""


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
    in_lines: bool = False
    """Memory runs along the n columns: tiles of 96 would be copied in thirds of half a line."""
    exchanges: bool = False
    """Lanes exchange what they store, which takes registers beside the accumulators and the epilogue's
    (`gpu/transforms/hopper/lines.py`)."""
    epilogue_ns: float = 0.0
    """What one warpgroup takes for an element besides storing it."""

    @property
    def steps(self) -> int:
        """Along K, of all terms."""
        return -(-self.k_bytes // STEP_BYTES) * max(self.terms, 1)


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


TILES = (
    WgmmaTile(128, 192, pingpong=True), WgmmaTile(128, 256, rows=2), WgmmaTile(128, 192, pingpong=True, rows=2),
    WgmmaTile(256, 128), WgmmaTile(256, 128, columns=2), WgmmaTile(128, 256), WgmmaTile(128, 192),
    WgmmaTile(128, 128), WgmmaTile(128, 128, pingpong=True), WgmmaTile(64, 256, pingpong=True),
    WgmmaTile(64, 192, pingpong=True), WgmmaTile(128, 96), WgmmaTile(64, 128), WgmmaTile(64, 128, pingpong=True),
    WgmmaTile(64, 128, per_multiprocessor=2), WgmmaTile(64, 96), WgmmaTile(64, 64, per_multiprocessor=2),
    WgmmaTile(64, 64), WgmmaTile(64, 32), WgmmaTile(64, 32, per_multiprocessor=2), WgmmaTile(64, 256),
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
)  # fmt: skip
"""For convolutions, whose results are often of 64 channels."""
_ABOUT = 1.01
"""Times the least time: closer than that the model cannot tell tiles apart, and the order of `TILES` decides."""
_MOST_EXCHANGING = 128
"""Accumulators of a thread, where an epilogue's results are exchanged among lanes."""


def wgmma_tile(multiprocessors: int, p: Product) -> WgmmaTile:
    """The tile that takes least time."""
    tiles = _candidates(p.n, p.steps, FOR_WINDOWS if p.windows else TILES if p.results == 1 else FOR_SEVERAL)
    tiles = (t for t in tiles if (not p.terms or _has_room_for_sums(t)) and (p.results == 1 or _has_room(t, p.results)))
    tiles = (t for t in tiles if t.shared == 1 or not (p.terms or p.results > 1))
    tiles = (t for t in tiles if not p.exchanges or t.m * t.n <= _MOST_EXCHANGING * _threads(t))
    tiles = (t for t in tiles if not p.in_lines or t.n <= _LINE or t.n % _LINE == 0)
    times = {t: microseconds(t, multiprocessors, p) for t in tiles}
    least = min(times.values())
    return next(t for t, us in times.items() if us <= least * _ABOUT)


def step_bytes(tile: WgmmaTile, k_bytes: int) -> int:
    """Of K in one step: two lines where the barriers of a step take longer than all else in it, if K is so long."""
    small = tile.m * tile.n <= _FEW and tile.per_multiprocessor == 1
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


def microseconds(tile: WgmmaTile, multiprocessors: int, p: Product) -> float:
    """What the model says."""
    steps = p.steps
    tiles = -(-p.m // (tile.m * tile.rows)) * -(-p.n // (tile.n * tile.columns)) * p.batch
    area = tile.m * tile.n * p.results
    # boxes are cut off where the matrix ends, in groups of eight rows
    nbytes = (min(tile.m, -(-p.m // 8) * 8) / tile.columns + tile.n * p.results / tile.rows) * STEP_BYTES
    together = tile.split * tile.shared
    # clusters do not span parts of the machine, so that fewer of them run at once
    at_once = max(1, multiprocessors if together == 1 else int(multiprocessors * _CLUSTERS[together]))
    rounds = -(-tiles // at_once)
    way = nbytes * _BYTE_NS * (1 if p.aligned else _UNALIGNED)
    # it was to share its multiprocessor, and has half of the memory although it is alone there
    if rounds < tile.per_multiprocessor and steps > _SHORT:
        way *= _HALF_RING
    if tile.split > 1:
        way = max(way, min(tiles, at_once) * tile.split * nbytes * _APART_NS)
    mma = area * _MMA_NS * (_NARROW if p.results > 1 and tile.n < WIDE else 1)
    step = max(mma, way, _STEP_NS if tile.shared == 1 else _SHARED_STEP_NS)
    if tile.pingpong and tile.shared > 1 and area <= _SMALL:
        step *= _PINGPONG_SHARED
    one = tile.pingpong or tile.m == ROWS
    epilogue = area * (_EPILOGUE_NS + p.epilogue_ns) / tile.split / (1 if one else 2)
    between = epilogue * _OVERLAPPED if tile.pingpong else epilogue + _TURN_NS
    busy = (rounds * -(-steps // tile.split) * step + (rounds - 1) * between + epilogue) / 1e3 + _FILL_US
    energy = tiles * tile.shared * steps * (area * _MMA_ENERGY + nbytes * _BYTE_ENERGY)
    exchange = 0.0
    if tile.split > 1:
        exchange = (_WINDOWS_EXCHANGE_US if p.windows else _EXCHANGE_US)[tile.split]
        exchange += area * (tile.split - 1) / tile.split * _EXCHANGE_NS / 1e3
    launch = _LAUNCH_US + (_CLUSTER_US if tile.shared > 1 else 0)
    return launch + (busy**_SHARPNESS + energy**_SHARPNESS) ** (1 / _SHARPNESS) + rounds * exchange
