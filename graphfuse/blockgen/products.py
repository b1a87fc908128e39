"""Sums of products with affine indices: what a contraction and an unpadded channels-last convolution have in common.

`accumulate` emits a register tile of one, `pack_panel` makes an operand's lanes contiguous, `store_results` ends a tile
with the region's epilogue. Contractions and attention are built of these.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from graphfuse.blockgen.evaluate import Evaluator, Lane, Leaf, accumulator, lane_over
from graphfuse.blockgen.evaluate_ops import place_of
from graphfuse.blockgen.index import Index, linear, strides_of
from graphfuse.blockgen.kernel import Kernel, element_of
from graphfuse.blockgen.loops import Carried, nest
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.tiling import RUN
from graphfuse.dialects import block, graph
from graphfuse.ir.core import Op, Value, attr_int, dims_of
from graphfuse.ir.types import BOOL, I32
from graphfuse.symbolic import Dim, ceildiv, floordiv, minimum, product, static


@dataclass(frozen=True)
class Product:
    """`out[o] = sum over k of lhs[lhs_at(o, k)] * rhs[rhs_at(o, k)]`, o over `domain`: the result's shape, or finer."""

    result: Value
    lhs: Value
    rhs: Value
    domain: tuple[Dim, ...]
    depth: tuple[Dim, ...]
    lhs_at: Callable[[Index, Index], Index]
    rhs_at: Callable[[Index, Index], Index]
    terms: tuple[tuple[Value, Value], ...] = ()
    """Factors of the products whose sum this is, smallest first; lhs and rhs are of the last, all are indexed alike."""
    scale: Value | None = None
    """What rhs is multiplied by: one number for each of its rows and `block` columns."""
    block: int = 1

    @property
    def pairs(self) -> tuple[tuple[Value, Value], ...]:
        """What is multiplied."""
        return self.terms or ((self.lhs, self.rhs),)

    def scale_at(self, o: Index, k: Index) -> Index:
        """Where the scale of an element of rhs is."""
        row, column = self.rhs_at(o, k)
        return (row, floordiv(column, self.block))

    def swapped(self) -> Product:
        """The same product with its operands exchanged."""
        terms = tuple((b, a) for a, b in self.terms)
        return Product(self.result, self.rhs, self.lhs, self.domain, self.depth, self.rhs_at, self.lhs_at, terms)


def product_of(op: Op) -> Product:
    """The index functions of a contraction or of an unpadded channels-last convolution."""
    if op.kind is graph.contract:
        return _contract(op, *op.operands)
    if op.kind is graph.contract_blocks:
        return _contract_blocks(op)
    return _contract_parts(op) if op.kind is graph.contract_parts else _conv(op)


def _contract_blocks(op: Op) -> Product:
    x, q, s = op.operands
    return replace(_contract(op, x, q), scale=s, block=static(shape_of(q)[1]) // static(shape_of(s)[1]))


def _contract_parts(op: Op) -> Product:
    count = len(op.operands) // 2
    lhs, rhs = op.operands[:count], op.operands[count:]
    terms = tuple((lhs[i], rhs[total - i]) for total in reversed(range(count)) for i in range(total + 1))
    return replace(_contract(op, lhs[0], rhs[0]), terms=terms)


def _contract(op: Op, a: Value, b: Value) -> Product:
    lhs, rhs, out = graph.parse_spec(str(op.attrs["spec"]))
    sizes = dict(zip(lhs + rhs, (*shape_of(a), *shape_of(b)), strict=True))
    summed = [c for c in sizes if c not in out]

    def at(labels: str) -> Callable[[Index, Index], Index]:
        def index(o: Index, k: Index) -> Index:
            where = dict(zip(out, o, strict=True)) | dict(zip(summed, k, strict=True))
            return tuple(where[c] for c in labels)

        return index

    return Product(op.result, a, b, shape_of(op.result), tuple(sizes[c] for c in summed), at(lhs), at(rhs))


def _conv(op: Op) -> Product:
    x, w = op.operands
    assert op.attrs["layout"] == "nhwc"
    assert not any((*dims_of(op.attrs["low"]), *dims_of(op.attrs["high"])))
    strides, dilation = dims_of(op.attrs["strides"]), dims_of(op.attrs["dilation"])
    groups = attr_int(op, "groups", 1)
    *kernel, per_group, out = shape_of(w)
    group_out = out // groups
    # channels of several groups are two dims, group and channel in it: all outputs of a group read the same inputs
    split = groups > 1 and group_out != 1

    def x_at(o: Index, k: Index) -> Index:
        n, *spatial, channel = o[:-1] if split else o
        *window, c = k
        where = [i * s + j * d for i, s, j, d in zip(spatial, strides, window, dilation, strict=True)]
        return (n, *where, channel * per_group + c if groups > 1 else c)

    def w_at(o: Index, k: Index) -> Index:
        return (*k, o[-2] * group_out + o[-1] if split else o[-1])

    outer = shape_of(op.result)[:-1]
    domain = (*outer, groups, group_out) if split else (*outer, out)
    return Product(op.result, x, w, domain, (*kernel, per_group), x_at, w_at)


def look_up(kernel: Kernel, works: Sequence[Product], o: Index) -> None:
    """Look up which matrices an index picks: where only other dims of it change they are as memory from here on."""
    for work in works:
        for value, at in ((work.lhs, work.lhs_at), (work.rhs, work.rhs_at)):
            if value in kernel.picked:
                assert value.op is not None
                place_of(kernel.ev, value.op, at(o, (0,) * len(work.depth)))


FOUR = 4
"""Bytes of a lane of 32 bits: what a processor multiplies and adds at once."""


def are_bytes(op: Op) -> bool:
    """Whether a product is of 8-bit integers, and its sums are i32."""
    elems = [element_of(v) for v in op.operands]
    return element_of(op.result) == I32 and all(e.is_integer and e.bits == 8 and e != BOOL for e in elems)


def in_fours(work: Product) -> Product | None:
    """A product of bytes with four steps of its innermost depth as a dim of their own; None where they do not divide.

    So weights that hold the four beside one another, for each column (`pack_weights`), are read at affine indices.
    """
    assert isinstance(work.result.owner, Op)
    if not work.depth or not are_bytes(work.result.owner):
        return None
    *outer, last = work.depth
    if not isinstance(last, int) or last % FOUR:
        return None

    def joined(at: Callable[[Index, Index], Index]) -> Callable[[Index, Index], Index]:
        return lambda o, k: at(o, (*k[:-2], FOUR * k[-2] + k[-1]))

    return replace(work, depth=(*outer, last // FOUR, FOUR), lhs_at=joined(work.lhs_at), rhs_at=joined(work.rhs_at))


@dataclass(frozen=True)
class Depth:
    """The loops over k: their extents, how a loop position indexes the product's depth, and the innermost step.

    Where that does not divide the innermost extent, what is left is a step of its own.
    """

    extents: tuple[Dim, ...]
    to_index: Callable[[Index], Index]
    step: int = 1
    per: int = 1
    """Places of the innermost loop that are packed as one; what is left is one, too."""
    line: int = 1
    """What is packed of an innermost loop takes room for a multiple of so many."""

    @property
    def packed(self) -> tuple[Dim, ...]:
        """The extents of what is packed."""
        return (*self.extents[:-1], ceildiv(self.extents[-1], self.per)) if self.extents else ()

    @property
    def room(self) -> tuple[Dim, ...]:
        """The same with what is left free at the end of lines."""
        return (*self.packed[:-1], ceildiv(self.packed[-1], self.line) * self.line) if self.extents else ()

    @property
    def total(self) -> Dim:
        """How much room each row or column takes."""
        return product(self.room)

    def flat(self, at: Index) -> Dim:
        """Where in it what is packed of a loop position is."""
        last = (floordiv(at[-1], self.per),) if at else ()
        return linear((*at[:-1], *last), strides_of(self.room))


def in_chunks(kernel: Kernel, depth: Depth, size: int, body: Callable[[Depth, Dim], None]) -> None:
    """`body(steps, first)` for so many steps of the innermost loop at a time, from flat step `first` on."""
    *outer, last = depth.extents

    def chunk(at: Index, start: Dim, count: int) -> None:
        def to_index(k: Index) -> Index:
            return depth.to_index((*at, start + k[0]))

        body(replace(depth, extents=(count,), to_index=to_index), depth.flat((*at, start)))

    def line(at: Index, _: Carried) -> None:
        assert isinstance(last, int)
        kernel.ev.loop("c", last // size, lambda c, _: chunk(at, c * size, size))
        if rest := last % size:
            chunk(at, last - rest, rest)

    nest(kernel.ev, outer, line)


MOST_RUN = 4 * RUN
"""Loops that have no more terms together are one run."""


def sum_in_runs(
    ev: Evaluator, loops: Sequence[Dim], step: int, start: Value, term: Callable[[Index, Value], Value]
) -> Value:
    """`term(at, sum)` over nested loops, the innermost of `step` terms each, from `start`, which is 0; floats in runs.

    A run is what one of the loops makes of some of its steps, all of the loops inside it included.
    """
    if not loops:
        return term((), start)

    def terms(level: int) -> Dim:
        return product(loops[level:]) * step

    last = len(loops) - 1
    level = last
    while level and isinstance(inside := terms(level), int) and inside < RUN:
        level -= 1
    inside = terms(level + 1)
    assert isinstance(inside, int)

    def some(at: Index, first: Dim, count: Dim, total: Value) -> Value:
        def one(k: Dim, carried: Carried) -> Carried:
            return nest(ev, loops[level + 1 :], lambda rest, c: [term((*at, first + k, *rest), c[0])], carried)

        return ev.loop("k", count, one, (total,))[0]

    count, run = loops[level], max(1, RUN // inside)
    together = terms(level)
    is_one = isinstance(together, int) and (together <= 2 * RUN or (level < last and together <= MOST_RUN))
    if not block.elem_of(start.type).is_float or (is_one and not level):
        return nest(ev, loops[:level], lambda at, c: [some(at, 0, count, c[0])], (start,))[0]

    def plus(at: Index, first: Dim, count: Dim, total: Value) -> Value:
        return ev.emit(block.add, total, some(at, first, count, start))

    def line(at: Index, carried: Carried) -> list[Value]:
        if is_one:
            return [plus(at, 0, count, carried[0])]
        if not isinstance(count, int):  # the first run by itself: it may be the only one, and short
            total = (plus if level else some)(at, 0, minimum(run, count), carried[0])
            runs = ceildiv(count, run)

            def more(r: Dim, c: Carried) -> list[Value]:
                return [plus(at, r * run, minimum(run, count - r * run), c[0])]

            return list(ev.loop("r", runs, more, [total], start=1))
        (total,) = ev.loop("r", count // run, lambda r, c: [plus(at, r * run, run, c[0])], carried)
        return [plus(at, count - count % run, count % run, total) if count % run else total]

    return nest(ev, loops[:level], line, (start,))[0]


def sum_in_steps(
    ev: Evaluator, loops: Sequence[Dim], step: int, start: Value, terms: Callable[[Index, int, Value], Value]
) -> Value:
    """`terms(at, count, sum)` over nested loops: `step` places from `at` along the innermost, then those left there."""
    if not loops:
        return terms((), 1, start)
    *outer, last = loops
    rest = last % step if isinstance(last, int) else 0
    steps = (*outer, floordiv(last, step))
    total = sum_in_runs(ev, steps, step, start, lambda at, c: terms((*at[:-1], at[-1] * step), step, c))
    if not rest:
        return total
    if not outer:
        return terms((last - rest,), rest, total)
    left = sum_in_runs(ev, outer, rest, start, lambda at, c: terms((*at, last - rest), rest, c))
    return ev.emit(block.add, total, left)


def accumulate(
    kernel: Kernel, work: Product, index: Index, rows: Lane, lanes: Lane, depth: Depth,
    packed: Callable[[Dim], tuple[Leaf, Index]] | None = None,
    packed_rows: Callable[[Dim], tuple[Leaf, Index]] | None = None,
) -> Value:  # fmt: skip
    """The tile [rows, lanes] of the product at `index`, accumulated in registers over all of k.

    `packed(k)` says where the panel of rhs at flat depth k is, when it was copied to program-local memory, and
    `packed_rows(k)` where the rows of lhs are.
    """
    ev, space = kernel.ev, kernel.space
    acc_elem = accumulator(element_of(work.result))
    start = ev.const(0.0 if acc_elem.is_float else 0, acc_elem, (rows.extent, lanes.extent))

    def multiply(at: Index, step: int, carried: Value) -> Value:
        kk = space.fresh("kk", 0, step - 1) if step > 1 else None
        where = (*at[:-1], at[-1] + (kk or 0)) if at else ()
        k_lane = Lane(str(kk), step) if kk is not None else Lane("", 1)
        k = depth.to_index(where)
        with ev.lanes_as(rows, k_lane):
            if packed_rows is None:
                a = ev.value(work.lhs, work.lhs_at(index, k))
            else:
                a = ev.load(*packed_rows(depth.flat(where)))
            a = ev.shaped(a, (rows.extent, step))
        with ev.lanes_as(k_lane, lanes):
            b = ev.value(work.rhs, work.rhs_at(index, k)) if packed is None else ev.load(*packed(depth.flat(where)))
            b = ev.shaped(b, (step, lanes.extent))
        return ev.emit(block.dot, *of_one_element(kernel, a, b), carried)

    return sum_in_steps(ev, depth.extents, depth.step, start, multiply)


def of_one_element(kernel: Kernel, a: Value, b: Value) -> tuple[Value, Value]:
    """Both factors, integers as the floats that the other is of: weights that are stored as bytes."""
    ev, (left, right) = kernel.ev, (block.elem_of(a.type), block.elem_of(b.type))
    if left == right or left.is_float == right.is_float:
        return a, b
    return (a, ev.emit(block.cast, b, to=left)) if left.is_float else (ev.emit(block.cast, a, to=right), b)


Change = Callable[[Evaluator, Value], Value]
"""Of a tile of what is packed."""
FEW = 4
"""A square of so many rows and columns is turned in registers."""


def pack_panel(
    kernel: Kernel, work: Product, index: Index, lane: Lane, depth: Depth, to: Callable[[Dim], tuple[Leaf, Index]],
    order: Sequence[int] = (), together: int = 0, *, beside: bool = False, through: Change | None = None,
) -> None:  # fmt: skip
    """Copy the panel of rhs at `index` (lanes along its last dim) to program-local memory; missing lanes as 0.

    `order` is that of the loops over k, outermost first, if not that of the depth. The innermost takes so many steps
    `together`: where rhs is dense along it, or where they are `beside` one another for each lane in the panel.
    What is stored goes `through` a change.
    """
    ev, space = kernel.ev, kernel.space
    order = list(order or range(len(depth.extents)))
    last = depth.extents[order[-1]] if order else 0
    stored = Lane(lane.name, lane.extent)

    def position(walked: Index) -> Index:
        return tuple(walked[order.index(i)] for i in range(len(walked)))

    def block_of_rows(walked: Index, start: int, size: int) -> None:
        kk = space.fresh("kk", 0, size - 1)
        at = position((*walked[:-1], start + walked[-1] * size + kk))
        steps = Lane(str(kk), size)
        with ev.lanes_as(*((lane, steps) if beside else (steps, lane))):
            got = ev.shaped(ev.value(work.rhs, work.rhs_at(index, depth.to_index(at))), ev.full_shape())
        with ev.lanes_as(*((stored, steps) if beside else (steps, stored))):
            leaf, where = to(depth.flat(at))
            ev.store(leaf, where, changed(got, leaf))

    def row(walked: Index, start: int) -> None:
        at = position((*walked[:-1], walked[-1] + start) if start else walked)
        with ev.lanes_as(lane):
            got = ev.shaped(ev.value(work.rhs, work.rhs_at(index, depth.to_index(at))), (lane.extent,))
        with ev.lanes_as(stored):
            leaf, where = to(depth.flat(at))
            ev.store(leaf, where, changed(got, leaf))

    def changed(got: Value, leaf: Leaf) -> Value:
        return ev.cast(got, block.pointed_to(leaf.pointer)) if through is None else through(ev, got)

    outer, done = [depth.extents[i] for i in order[:-1]], 0
    for size in dict.fromkeys((together, min(together, FEW))):
        if size and isinstance(last, int) and (beside or lane.limit is None) and (count := (last - done) // size):
            nest(ev, [*outer, count], lambda at, _, size=size, start=done: block_of_rows(at, start, size))
            done += count * size
    if not order or last != done:
        nest(ev, [*outer, *([last - done] if order else [])], lambda at, _: row(at, done))


def store_results(
    kernel: Kernel, work: Product, index: Index, lanes: Sequence[Lane], acc: Value,
    beside: Sequence[tuple[Product, Value]] = (), only: Collection[Value] | None = None,
) -> None:  # fmt: skip
    """Evaluate the region's outputs, or `only` some, from the tile, and those of products `beside` it, and store."""
    ev, space = kernel.ev, kernel.space
    domain = work.domain
    position = space.position(tuple(index), domain)
    made = [(work, acc), *beside]
    rounded = [ev.cast(total, element_of(each.result)) for each, total in made]
    with ev.lanes_as(*lanes):
        ev.tiles.update({each.result: (position, total) for (each, _), total in zip(made, rounded, strict=True)})
        kernel.store_outputs(index, domain, only)
        for each, _ in made:
            del ev.tiles[each.result]


def column_lane(kernel: Kernel, columns: Dim, width: int, start: Dim) -> tuple[Lane, Dim]:
    """The lane over a tile of columns from `start` on, and its column; some may not exist unless tiles always fit."""
    limit = None if isinstance(columns, int) and columns % width == 0 else columns - start
    return lane_over(kernel.space, width, start, limit)
