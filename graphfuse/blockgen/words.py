"""Products of halves by words: two that follow along k are one word, of which tiles are multiplied (`block.dot_words`).

    lhs [rows, K], dense along k and even     rows of words as they are
    lhs otherwise                             packed as [tile, row, K / 2]
    rhs                                       packed as [panel, K / 2, column]

A half that has no neighbour, at the end of an odd innermost dim of k, has a 0 beside it on both sides. Sums of a tile
are more than registers hold: they are in program-local memory, and the epilogue takes a few rows of them at a time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from graphfuse.blockgen.access import Accesses
from graphfuse.blockgen.evaluate import Lane, Leaf, lane_over
from graphfuse.blockgen.evaluate_ops import place_of
from graphfuse.blockgen.index import Index, coefficient
from graphfuse.blockgen.kernel import Kernel, element_of
from graphfuse.blockgen.loops import Carried, nest
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.products import Change, Depth, Product
from graphfuse.blockgen.tiling import Slabs, slabs_of
from graphfuse.dialects import block, graph
from graphfuse.ir.core import Op, Params, Value
from graphfuse.ir.types import F32, I32, U16, Scalar, Tensor
from graphfuse.symbolic import Dim, exact_div, floordiv, product, static, substitute, sym

if TYPE_CHECKING:
    from graphfuse.blockgen.contraction import ContractionKernel

PAIR = 2
"""Halves of a word."""
SIDE = 16
"""Words that are packed together: a square of so many is turned in registers."""
# The following were chosen by `python -m benchmarks.cpu_products --dtype bfloat16`; the least rows from 4 to 64.

EPILOGUE = 8
"""Vectors of sums that an epilogue takes at once."""
FASTER = 8
"""Times as many products in the time of those of f32, roughly."""
LEAST_ROWS = 8
"""Rows, of all outer dims, for which a panel is packed: 16 take half the time of vectors, 4 more (1024x3072)."""
SLAB_HALVES = 256
"""Of a column of a slab: 32 columns are 16 KB, a third of the first-level cache."""
LEAST_ROWS_APART = 512
"""Rows for which a panel is packed whose halves are read one by one: a guess."""


@dataclass(frozen=True)
class Words:
    """How a contraction's halves are read as words."""

    along_k: bool
    """Whether rhs is dense along k, not along columns."""
    rows_along_k: bool
    """The same of lhs, and rows."""
    is_even: tuple[bool, bool]
    """Whether all of lhs, or of rhs, that is dense along k is memory of words, none of which begins between two."""
    packs_rows: bool
    """Whether rows are packed; else their memory is read as words."""
    slabs: Slabs | None


def choose_words(contraction: ContractionKernel, lhs: Accesses) -> Words | None:
    """Where there are instructions for words of both factors, sizes are known, and there are rows enough."""
    work, rhs = contraction.work, contraction.rhs_reads
    elems = {element_of(work.lhs).name, element_of(work.rhs).name}
    if len(elems) > 1 or not elems <= contraction.kernel.machine.word_elems or not _has_rows(contraction, LEAST_ROWS):
        return None
    if (
        len(lhs.offsets) != 1
        or len(rhs.offsets) != 1
        or (work.lhs.op is not None and graph.pads_positions(work.lhs.op))
    ):
        return None
    names, depth = contraction.names, static(contraction.extents[-1])
    last = contraction.k_names[contraction.k_dims[-1].last]
    (left,), (right,) = lhs.offsets, rhs.offsets
    along_k, rows_along_k = coefficient(right, last) == 1, coefficient(left, last) == 1
    row = contraction.row_dim
    rows_are_dense = row is not None and coefficient(left, names[contraction.dims[row].last]) == 1
    is_dense = along_k or contraction.contiguous
    if not (is_dense or _has_rows(contraction, LEAST_ROWS_APART)) or not (rows_along_k or rows_are_dense):
        return None

    left_even, right_even = (are_words(offset, last, depth, PAIR) for offset in (left, right))
    slabs, packs_rows = None, not (rows_along_k and left_even)
    if contraction.has_slabs(packs=True):
        slabs = slabs_of(contraction.extents, SLAB_HALVES) or Slabs.whole(contraction.extents)
        slabs = slabs.whole_words(PAIR)
        apart = [
            coefficient(left, names[d.last])
            for d, used in zip(contraction.dims, contraction.in_lhs, strict=True)
            if used
        ]
        in_lines = all(isinstance(step, int) and step % (PAIR * SIDE) == 0 for step in apart)
        packs_rows |= not in_lines and static(contraction.columns) > contraction.width
    if packs_rows and slabs is None:
        return None
    return Words(along_k, rows_along_k, (left_even, right_even), packs_rows, slabs)


def _has_rows(contraction: ContractionKernel, least: int) -> bool:
    """Whether all sizes of a tile are known, and panels are packed for so many rows at least."""
    sizes = (contraction.rows, contraction.columns, *contraction.extents)
    shared = zip(contraction.dims[:-1], contraction.in_rhs, strict=False)
    rows = product([d.extent for d, in_rhs in shared if not in_rhs])
    return all(isinstance(d, int) and d for d in sizes) and (not isinstance(rows, int) or rows >= least)


def are_words(offset: Dim, last: str, depth: int, per: int) -> bool:
    """Whether `depth` elements along dim `last` of k, dense there, are words of memory, `per` elements each."""
    return depth % per == 0 and exact_div(substitute(offset, {last: per * sym(last)}), per) is not None


def words_of(kernel: Kernel, work: Product, per: int = PAIR) -> Product:
    """The product with rhs as the words of its memory; an index of k is that of a word's first element."""
    base = work.rhs
    while base not in kernel.ev.leaves:
        assert isinstance(base.owner, Op)
        base = base.owner.operands[0]  # of a look-up the table
    whole = kernel.ev.leaves[base]
    count = floordiv(product(shape_of(base)), per)
    view = Params((Tensor((count,), I32),)).values[0]
    kernel.ev.leaves[view] = Leaf(kernel.ev.emit(block.pointer_cast, whole.pointer, to=I32), (1,), (count,))

    def at(o: Index, k: Index) -> Index:
        (offset,) = kernel.reads(work.rhs, work.rhs_at(o, k), functools.partial(place_of, kernel.ev)).offsets
        word = exact_div(offset, per)
        assert word is not None, "all strides but that of k are of words"
        return (word,)

    return replace(work, rhs=view, rhs_at=at)


def multiply_words(
    kernel: Kernel, work: Product, elem: Scalar, index: Index, rows: Lane, lanes: Lane, depth: Depth,
    packed: Callable[[Dim], tuple[Leaf, Index]], packed_rows: Callable[[Dim], tuple[Leaf, Index]] | None,
    start: Value | None = None,
) -> Value:  # fmt: skip
    """The tile [rows, lanes] of the product of words of `elem` over all of k, added to `start`; as `accumulate`."""
    ev = kernel.ev
    steps = [lane_over(kernel.space, static(n)) for n in depth.packed]
    at = tuple(k for _, k in steps)
    k_lanes = [lane for lane, _ in steps]
    halves = (*at[:-1], PAIR * at[-1])
    with ev.lanes_as(rows, *k_lanes):
        if packed_rows is None:
            a = ev.value(work.lhs, work.lhs_at(index, depth.to_index(halves)))
        else:
            a = ev.load(*packed_rows(in_lines(depth).flat(halves)))
        a = ev.shaped(a, ev.full_shape())
    with ev.lanes_as(*k_lanes, lanes):
        b = ev.shaped(ev.load(*packed(depth.flat(halves))), ev.full_shape())
    start = ev.const(0.0, F32, (rows.extent, lanes.extent)) if start is None else start
    return ev.emit(block.dot_words, a, b, start, elem=elem)


def in_lines(depth: Depth) -> Depth:
    """Steps of which packed rows begin at lines of the cache: those of registers are loaded much faster there."""
    return replace(depth, line=SIDE)


def pack_words(
    kernel: Kernel, work: Product, index: Index, lane: Lane, depth: Depth, to: Callable[[Dim], tuple[Leaf, Index]],
    through: Change | None = None, *, along_k: bool, rows_first: bool,
) -> None:  # fmt: skip
    """Copy rhs, halves or words, at `index` (lanes along its last dim) as words of `depth.per`; missing lanes as 0.

    It is dense `along_k`, or along lanes; words that follow along k are beside one another where `rows_first`.
    What is stored goes `through` a change.
    """
    ev, space, per = kernel.ev, kernel.space, depth.per
    is_words = element_of(work.rhs) == I32
    *outer, last = depth.extents
    assert isinstance(last, int)
    together = SIDE if along_k or rows_first else 1

    def read(at: Index) -> Value:
        return ev.shaped(ev.value(work.rhs, work.rhs_at(index, depth.to_index(at))), ev.full_shape())

    def some(at: Index, start: Dim, count: int, *, odd: bool = False) -> None:
        words, k = lane_over(space, count)
        if is_words:
            with ev.lanes_as(lane, words):
                made = read((*at, start + per * k))
        elif along_k:
            extent = per * count
            one = space.fresh("kk", 0, extent - 1 - odd)
            steps = Lane(str(one), extent, extent - odd if odd else None, bounded=odd)
            with ev.lanes_as(lane, steps):
                made = ev.emit(block.words, read((*at, start + one)))
        else:
            with ev.lanes_as(words, lane):
                first = start + per * k
                low = read((*at, first))
                high = None if odd else read((*at, first + 1))
                made = _joined(kernel, low, high)
        if along_k != rows_first:
            made = ev.emit(block.trans, made, perm=(1, 0))
        stored = Lane(lane.name, lane.extent)
        with ev.lanes_as(*((stored, words) if rows_first else (words, stored))):
            leaf, where = to(depth.flat((*at, start + per * k)))
            ev.store(leaf, where, made if through is None else through(ev, made))

    def line(at: Index, _: Carried) -> None:
        pairs = last // per
        whole = pairs // together
        ev.loop("w", whole, lambda w, _: some(at, w * (per * together), together))
        if rest := pairs % together:
            some(at, per * whole * together, rest)
        if last % per:
            some(at, last - 1, 1, odd=True)

    nest(ev, outer, line)


def _joined(kernel: Kernel, low: Value, high: Value | None) -> Value:
    """Words of two tiles of halves."""
    ev = kernel.ev

    def bits(x: Value) -> Value:
        return ev.emit(block.cast, ev.emit(block.bitcast, x, to=U16), to=I32)

    if high is None:
        return bits(low)
    shape = ev.full_shape()
    return ev.emit(block.or_, ev.emit(block.ELEMENTWISE["shl"], bits(high), ev.const(16, I32, shape)), bits(low))
