"""Ops that need more than their operands at the same index: sums, windows, products, look-ups, scans.

Each is code for one element, or a tile of them, at a symbolic index (`evaluate`); what is worth a schedule has one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphfuse.blockgen.evaluate import Evaluator, accumulator
from graphfuse.blockgen.index import Index
from graphfuse.blockgen.movement import Source, place, reduced_at, shape_of
from graphfuse.blockgen.ordering import is_better
from graphfuse.blockgen.scans import Scan
from graphfuse.dialects import block, graph
from graphfuse.dialects.elementwise import neutral
from graphfuse.ir.core import Op, OpDef, Value, attr_int, attr_ints, attr_number, dims_of, tensor_of
from graphfuse.ir.types import BOOL, I64, Scalar, Tile
from graphfuse.symbolic import Dim, Expr, floordiv, static, symbols


def _full(ev: Evaluator, op: Op, index: Index) -> Value:
    value, elem = op.attrs["value"], tensor_of(op.result).elem
    return ev.cast(ev.index(value), elem) if isinstance(value, Expr) else ev.const(attr_number(op, "value"), elem)


def _iota(ev: Evaluator, op: Op, index: Index) -> Value:
    return ev.cast(ev.index(index[attr_int(op, "axis")]), tensor_of(op.result).elem)


def _reduce(ev: Evaluator, op: Op, index: Index) -> Value:
    (x,) = op.operands
    axes = attr_ints(op, "axes")
    sizes = [d for i, d in enumerate(shape_of(x)) if i in axes]

    def term(at: tuple[Dim, ...]) -> Value:
        return ev.value(x, reduced_at(op, index, at))

    return ev.reduction(str(op.attrs["kind"]), tensor_of(x).elem, sizes, term, index)


def _reduce_window(ev: Evaluator, op: Op, index: Index) -> Value:
    (x,) = op.operands
    kind, elem = str(op.attrs["kind"]), tensor_of(x).elem
    window, strides, dilation, low = (dims_of(op.attrs[n]) for n in ("window", "strides", "dilation", "low"))
    spaces = list(zip(shape_of(x), low, dims_of(op.attrs["high"]), strict=True))

    def term(at: tuple[Dim, ...]) -> Value:
        inside = tuple(i * s + k * d - lo for i, s, k, d, lo in zip(index, strides, at, dilation, low, strict=True))
        where = tuple((0, i, d) for i, (d, lo, hi) in zip(inside, spaces, strict=True) if lo != 0 or hi != 0)
        return ev.guarded(Source(x, inside, where), elem, neutral(kind, elem), None)

    return ev.reduction(kind, elem, window, term, index, unroll=ev.unrolled_taps)


def _contract(ev: Evaluator, op: Op, index: Index) -> Value:
    a, b = op.operands
    lhs, rhs, out = graph.parse_spec(str(op.attrs["spec"]))
    sizes = dict(zip(lhs + rhs, (*shape_of(a), *shape_of(b)), strict=True))
    summed = [c for c in sizes if c not in out]
    elem = tensor_of(op.result).elem

    def term(at: tuple[Dim, ...]) -> Value:
        where = dict(zip(out, index, strict=True)) | dict(zip(summed, at, strict=True))
        factors = [ev.value(v, tuple(where[c] for c in labels)) for v, labels in ((a, lhs), (b, rhs))]
        return _product(ev, factors, accumulator(elem))

    return ev.cast(ev.reduction("sum", accumulator(elem), [sizes[c] for c in summed], term, index), elem)


def _product(ev: Evaluator, factors: list[Value], elem: Scalar) -> Value:
    return ev.emit(block.mul, *ev.unified([ev.cast(f, elem) for f in factors]))


def _conv(ev: Evaluator, op: Op, index: Index) -> Value:
    x, w = op.operands
    first = op.attrs.get("layout", "nchw") == "nchw"
    groups = attr_int(op, "groups", 1)
    xs, ws = shape_of(x), shape_of(w)
    size, kernel = (xs[2:], ws[2:]) if first else (xs[1:-1], ws[:-2])
    per_group, out = (ws[1], ws[0]) if first else (ws[-2], ws[-1])
    strides, low, high, dilation, up = (
        dims_of(op.attrs[n]) for n in ("strides", "low", "high", "dilation", "input_dilation")
    )
    n, o = index[0], index[1] if first else index[-1]
    spatial = index[2:] if first else index[1:-1]
    group = ev.space.simplify(o // (out // groups)) if groups > 1 else 0
    elem = tensor_of(op.result).elem

    def term(at: tuple[Dim, ...]) -> Value:
        *window, c = at
        inside: list[Dim] = []
        where: list[tuple[Dim, Dim, Dim]] = []
        for i, s, k, dl, lo, hi, u, d in zip(spatial, strides, window, dilation, low, high, up, size, strict=True):
            position = i * s + k * dl - lo
            if u != 1:
                where.append((0, position % u, 1))
                position = position // u
            if u != 1 or lo != 0 or hi != 0:
                where.append((0, position, d))
            inside.append(position)
        channel = group * per_group + c
        xi = (n, channel, *inside) if first else (n, *inside, channel)
        wi = (o, c, *window) if first else (*window, c, o)
        factors = [ev.guarded(Source(x, xi, tuple(where)), elem, 0, None), ev.value(w, wi)]
        return _product(ev, factors, accumulator(elem))

    return ev.cast(ev.reduction("sum", accumulator(elem), [*kernel, per_group], term, index), elem)


def _looked_up(ev: Evaluator, indices: Value, at: Index, size: Dim) -> Dim:
    """An index of positions; else a variable that holds it, counted from the end when negative and kept in bounds."""
    if (found := place(indices, at, size, ev.space)) is not None:
        return found

    def clamped() -> Value:
        code = from_the_end(ev, ev.value(indices, at), size)
        zero, last = (_number_like(ev, d, code) for d in (0, size - 1))
        # out-of-range indices are the caller's error: clamping keeps them from reading foreign memory, if there is some
        return ev.emit(block.max_, ev.emit(block.min_, code, last), zero)

    return ev.bind_once("g", size, (indices, at), clamped)


def from_the_end(ev: Evaluator, code: Value, size: Dim) -> Value:
    """An index read from memory as i64, counted from the end when negative; it may be out of range."""
    code = ev.cast(code, I64)
    zero, d = (_number_like(ev, n, code) for n in (0, size))
    return ev.emit(block.select, ev.emit(block.lt, code, zero), ev.emit(block.add, code, d), code)


def _number_like(ev: Evaluator, dim: Dim, code: Value) -> Value:
    value = ev.index(dim)
    return ev.shaped(value, code.type.shape) if isinstance(code.type, Tile) else value


def place_of(ev: Evaluator, op: Op, index: Index) -> Dim:
    """Where a `take` looks up, along its axis."""
    x, indices = op.operands
    axis, rank = attr_int(op, "axis"), tensor_of(indices).rank
    return _looked_up(ev, indices, index[axis : axis + rank], shape_of(x)[axis])


def _take(ev: Evaluator, op: Op, index: Index) -> Value:
    x, indices = op.operands
    axis, rank = attr_int(op, "axis"), tensor_of(indices).rank
    at = place_of(ev, op, index)
    return _picked(ev, x, (*index[:axis], at, *index[axis + rank :]), (shape_of(x)[axis],))


def _picked(ev: Evaluator, x: Value, index: Index, sizes: Sequence[Dim]) -> Value:
    """x at `index`; 0 if a dim that it was looked up in has no elements."""
    return ev.guarded(Source(x, index, tuple((0, 0, d) for d in sizes)), tensor_of(x).elem, 0, None)


def _take_along(ev: Evaluator, op: Op, index: Index) -> Value:
    x, indices = op.operands
    axis = attr_int(op, "axis")
    at = _looked_up(ev, indices, index, shape_of(x)[axis])
    return _picked(ev, x, (*index[:axis], at, *index[axis + 1 :]), (shape_of(x)[axis],))


def _gather_nd(ev: Evaluator, op: Op, index: Index) -> Value:
    x, indices = op.operands
    batch = attr_int(op, "batch_dims", 0)
    depth = static(shape_of(indices)[-1])
    lead = tensor_of(indices).rank - 1
    sizes = shape_of(x)[batch : batch + depth]
    found = [_looked_up(ev, indices, (*index[:lead], k), sizes[k]) for k in range(depth)]
    return _picked(ev, x, (*index[:batch], *found, *index[lead:]), sizes)


def _arg_reduce(ev: Evaluator, op: Op, index: Index) -> Value:
    (x,) = op.operands
    axis, kind, elem = attr_int(op, "axis"), str(op.attrs["kind"]), tensor_of(x).elem
    keep, last = bool(op.attrs.get("keepdims", False)), bool(op.attrs.get("last", False))
    rest = (*index[:axis], *index[axis + (1 if keep else 0) :])
    shape = ev.varying_shape(rest)

    def at(i: Dim) -> Value:
        return ev.shaped(ev.value(x, (*rest[:axis], i, *rest[axis:])), shape)

    def step(var: Dim, carried: tuple[Value, ...]) -> list[Value]:
        best, where = carried
        here = at(var)
        better = is_better(ev, kind, here, best, last=last)
        i = ev.shaped(ev.index(var), shape)
        return [ev.emit(block.select, better, here, best), ev.emit(block.select, better, i, where)]

    worst = ev.const(neutral(kind, elem), elem, shape)
    return ev.loop("r", shape_of(x)[axis], step, [worst, ev.const(0, I64, shape)])[1]


def _cumulate(ev: Evaluator, op: Op, index: Index) -> Value:
    """Each element by its own loop: right for any index; the scan schedule is what makes it linear."""
    scan, (x, *_) = Scan.of(op), op.operands
    i, at = index[scan.axis], (*index[: scan.axis], *index[scan.axis + 1 :])
    part = floordiv(scan.size - 1 - i if scan.reverse else i, scan.part) if scan.parts != 1 else 0
    first = scan.places(part)[0]
    more = 0 if scan.exclusive else 1
    lo, hi = (i + 1 - more, scan.size - first) if scan.reverse else (first, i + more)
    shape = ev.varying_shape(index)
    is_apart = any(lane.name in symbols(i) for lane in ev.lanes)  # each lane has its own bounds

    def step(var: Dim, carried: tuple[Value, ...]) -> list[Value]:
        got = ev.cast(ev.value(x, (*at[: scan.axis], var, *at[scan.axis :])), scan.elem)
        if is_apart:
            mask = _between(ev, lo, var, hi, shape)
            got = ev.emit(block.select, *ev.unified([mask, got, ev.const(neutral(scan.kind, scan.elem), scan.elem)]))
        return [ev.emit(scan.combine, carried[0], ev.shaped(got, shape))]

    start, end = (0, scan.size) if is_apart else (lo, hi)
    found = ev.loop("r", end, step, [ev.shaped(scan.start(ev, at, part), shape)], start=start)
    return ev.cast(found[0], tensor_of(op.result).elem)


def _between(ev: Evaluator, lo: Dim, at: Dim, hi: Dim, shape: tuple[int, ...] | None) -> Value:
    here = ev.index(at)
    tests = [
        ev.emit(block.le, *ev.unified([ev.index(lo), here])),
        ev.emit(block.lt, *ev.unified([here, ev.index(hi)])),
    ]
    assert all(block.elem_of(t.type) == BOOL for t in tests)
    return ev.emit(block.and_, *ev.unified(tests))


HANDLERS: dict[OpDef, Callable[[Evaluator, Op, Index], Value]] = {
    graph.full: _full,
    graph.iota: _iota,
    graph.reduce: _reduce,
    graph.reduce_window: _reduce_window,
    graph.contract: _contract,
    graph.conv: _conv,
    graph.take: _take,
    graph.take_along: _take_along,
    graph.gather_nd: _gather_nd,
    graph.arg_reduce: _arg_reduce,
    graph.cumulate: _cumulate,
}
