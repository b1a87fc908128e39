"""Tile shapes, chosen analytically from extents, element and machine: pure functions, no trial runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphfuse.dialects import graph
from graphfuse.ir.core import Op
from graphfuse.ir.types import Scalar
from graphfuse.symbolic import Dim, Ranges, bounds, floordiv, static
from graphfuse.targets.machine import Machine
from graphfuse.targets.profiles.cpus import CoreCosts

TRANSCENDENTAL = frozenset(
    f"graph.{n}" for n in (
        "exp", "exp2", "expm1", "log", "log2", "log1p", "tanh", "erf", "sigmoid", "sin", "cos", "tan", "asin", "acos",
        "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "pow", "atan2",
    )
)  # fmt: skip

SHORT = frozenset(("graph.exp", "graph.exp2", "graph.sigmoid", "graph.tanh"))
"""Those of which four vectors at once fit 32 registers, constants included; together they hide each other's latency."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of tiles along one dim: `count` tiles of `width` lanes from `start`; the last is cut at `limit`, if any."""

    start: Dim
    count: Dim
    width: int
    limit: Dim | None = None


def pieces(extent: Dim, width: int, vector: int) -> list[Piece]:
    """Cover `0..extent` by tiles of `width` lanes, then by single vectors, the last one masked.

    A static extent below one vector is one tile of exactly that many lanes; there is no tile of none.
    """
    if extent == 0:
        return []
    if isinstance(extent, int):
        if extent <= vector:
            return [Piece(0, 1, extent)]
        out: list[Piece] = []
        start = 0
        while width >= vector and start < extent:
            if count := (extent - start) // width:
                out.append(Piece(start, count, width))
                start += count * width
            width //= 2
        if start < extent:
            out.append(Piece(start, 1, vector, extent))
        return out
    whole = floordiv(extent, width)
    tail = extent - whole * width
    return [Piece(0, whole, width), Piece(whole * width, floordiv(tail + vector - 1, vector), vector, extent)]


def runs_width(times: int, vector: int, most: int) -> int:
    """Lanes of a tile of whole runs, each `times` long: those that leave the fewest lanes of its vectors empty.

    0 if two runs are more than there may be at `most`.
    """
    widths = range(times, most + 1, times) if 2 * times <= most else ()
    return max(widths, key=lambda width: width / -(-width // vector), default=0)


def pointwise_width(machine: Machine, elem: Scalar, ops: list[Op], inputs: int) -> int:
    """Lanes of a pointwise tile: fewer vectors when many values are alive at once or the maths is heavy."""
    functions = [op.kind.name for op in ops if op.kind.name in TRANSCENDENTAL]
    is_light = not functions or (machine.registers >= 32 and len(functions) == 1 and functions[0] in SHORT)
    is_small = len(ops) + inputs <= machine.registers // 2
    return machine.lanes(elem) * (4 if is_light and is_small else 2)


def cost_per_element(core: CoreCosts, ops: list[Op]) -> float:
    """Nanoseconds one element costs, roughly: memory traffic and arithmetic on one core at vector speed."""
    cost = core.element_ns
    for op in ops:
        if op.kind.name in TRANSCENDENTAL:
            cost += core.function_ns
        elif op.kind in (graph.take, graph.take_along, graph.gather_nd):
            cost += core.look_up_ns
        else:
            cost += core.op_ns
    return cost


@dataclass(frozen=True, slots=True)
class MatmulTile:
    """Register tile of a contraction: `rows` x (`vectors` x lanes), K advanced by `k_step`."""

    rows: int
    vectors: int
    k_step: int

    def __str__(self) -> str:
        return f"{self.rows}x{self.vectors} k={self.k_step}"


@dataclass(frozen=True, slots=True)
class Slabs:
    """Steps of k that are multiplied together before the next: `size` places of loop `level`, and all loops inside."""

    extents: tuple[int, ...]
    level: int
    size: int

    @staticmethod
    def whole(extents: Sequence[Dim]) -> Slabs:
        """All there is, as one slab."""
        known = tuple(static(d) for d in extents)
        return Slabs(known, 0, known[0])

    def whole_words(self, per: int) -> Slabs:
        """Slabs that end between words, which are `per` places of the innermost loop each."""
        if self.is_one or self.level < len(self.extents) - 1:
            return self
        return replace(self, size=-(-self.size // per) * per)

    @property
    def depth(self) -> int:
        """All steps of k."""
        return math.prod(self.extents)

    @property
    def total(self) -> int:
        """Steps of a slab."""
        return self.size * math.prod(self.extents[self.level + 1 :])

    @property
    def innermost(self) -> int:
        """Places of the innermost loop that are in a slab."""
        return self.size if self.level == len(self.extents) - 1 else self.extents[-1]

    @property
    def is_one(self) -> bool:
        """Whether a slab is all there is."""
        return self.total == self.depth


def slabs_of(extents: Sequence[Dim], most: int) -> Slabs | None:
    """Loops over k in slabs of `most` steps, or of somewhat fewer where those divide; None if there is hardly one."""
    known = [d for d in extents if isinstance(d, int)]
    if len(known) < len(extents) or 2 * math.prod(known) <= 3 * most or not known:
        return None
    level = 0
    while (inside := math.prod(known[level + 1 :])) > most:
        level += 1
    extent = known[level]
    least = -(-extent // max(1, most // inside))
    parts = next((n for n in range(least, 2 * least) if extent % n == 0), least)
    return Slabs(tuple(known), level, -(-extent // parts))


def panel_vectors(machine: Machine, elem: Scalar, rows: Dim, columns: Dim) -> int:
    """Vectors side by side in one panel of B: two, or four when a single row must hide the latency alone.

    Three where more of what two panels of two hold would not exist.
    """
    most = 4 if rows == 1 else 2
    if not isinstance(columns, int):
        return most
    vectors = max(1, -(-columns // machine.lanes(elem)))
    if most == 2 and -(-vectors // 3) * 3 < -(-vectors // 2) * 2:
        return 3
    return min(most, vectors)


ALIAS_BYTES = 4096
"""Addresses this far apart fall into one set of a first-level cache of 64 sets with 64-byte lines."""
CACHE_WAYS = 8
"""Lines one such set holds, on the smallest common first-level cache."""
RUN = 128
"""So many products are summed by themselves, and these sums then: in one long sum small terms meet a large total."""
DYNAMIC_ROWS = 8
"""Tile height when nothing is known of the number of rows."""


def matmul_tiles(
    machine: Machine,
    elem: Scalar,
    rows: Dim,
    vectors: int,
    depth: Dim,
    ranges: Ranges | None = None,
    row_stride: Dim = 0,
) -> list[MatmulTile]:
    """Tiles whose accumulators plus one B row and one broadcast fit the registers; the fastest height first.

    Symbolic rows are judged at the symbols' lower bounds: `49*batch` is usually a few times 49. Rows of A that lie a
    multiple of `ALIAS_BYTES` apart (`row_stride`, in elements) share one cache set: no more of them than it has ways.
    """
    budget = machine.registers - vectors - 1
    most = max(1, min(14, budget // vectors))
    if isinstance(row_stride, int) and row_stride and row_stride * elem.bytes % ALIAS_BYTES == 0:
        most = min(most, CACHE_WAYS)
    steps = [k for k in (4, 2) if isinstance(depth, int) and depth % k == 0] or [1]

    def tile(height: int, step: int) -> MatmulTile:  # steps of a large one are a loop anyway
        return MatmulTile(height, vectors, step if 2 * height * vectors <= machine.registers else 1)

    if not isinstance(rows, int):
        least = bounds(rows, ranges or {})[0]
        if least < DYNAMIC_ROWS:
            return [tile(min(DYNAMIC_ROWS, most), steps[0])]
        rows = least
    return list(dict.fromkeys(tile(r, k) for k in steps for r in _by_time(rows, most)))


def long_step(depth: Dim) -> int:
    """Steps of k at once, of factors in memory that are narrower than their sums: as many as are summed in one run.

    Even, so that they are pairs, and nearly the same number each time.
    """
    if not isinstance(depth, int) or depth < 2:
        return 1
    return min(depth, 2 * -(-depth // (2 * -(-depth // RUN))))


def word_tiles(rows: Dim, vectors: int) -> list[MatmulTile]:
    """Tiles whose sums are in registers of AMX, for so many vectors of columns: 32 rows of two, or 16 of three.

    The least that cover all rows first.
    """
    most, across = (16, 3) if vectors == 3 else (32, min(vectors, 2))
    known = static(rows)
    least = -(-known // most)
    return [MatmulTile(-(-known // n), across, 1) for n in (least, 2 * least) if n <= known]


def _by_time(rows: int, most: int) -> list[int]:
    """Tile heights up to `most`, first those that cover `rows` in the least time; ties go to the taller.

    A step along K takes a tile as long as one row more: `benchmarks/cpu_microkernel.py` with AVX-512, 89 and 91 % of
    the peak by 8 and 14 rows of 32. Without, the microkernel alone asks for more (66 and 81 % by 4 and 6 rows of 16).
    """
    if rows <= most:
        return [rows]
    return sorted(range(max(1, most // 2), most + 1), key=lambda r: (-(-rows // r) * (r + 1), -r))
