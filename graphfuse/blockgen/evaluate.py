"""Evaluates graph values at symbolic indices, emitting block ops: the heart of every emitter.

An `Evaluator` holds the block under construction, the variables in scope, and the *lanes*: variables that run
over a tile instead of a loop. `value(v, index)` emits code for the element(s) of `v` at `index`; its result
has one tile dim per lane, of size 1 where it does not vary, or is a scalar when it varies along none.
Any op of a region can be evaluated; schedules (pointwise, reduction, contraction ...) decide only where loops
and lanes run and which values are computed ahead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from graphfuse.blockgen.index import Index, IndexSpace, coefficient, linear, strides_of
from graphfuse.blockgen.movement import Source, shape_of, sources
from graphfuse.dialects import block, control, graph
from graphfuse.ir.core import (
    Attr,
    Block,
    Builder,
    Op,
    Params,
    Trait,
    Value,
    attr_int,
    attr_ints,
    attr_number,
    dims_of,
    tensor_of,
)
from graphfuse.ir.types import BF16, BOOL, F16, F32, F64, I64, Ptr, Scalar, Tile, Type
from graphfuse.symbolic import Dim, Expr, exact_div, floordiv, mod, product, static, substitute, symbols


@dataclass(frozen=True, slots=True)
class Lane:
    """A variable that runs over one tile dim; lanes at or past `limit` (if any) do not exist."""

    name: str
    extent: int
    limit: Dim | None = None
    bounded: bool = False
    """Whether the variable's bounds end at the limit: what is proved of it says nothing of lanes past the limit."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """Where a value lives in memory: element `index` is at `pointer[offset + index . strides]`."""

    pointer: Value
    strides: Index
    shape: tuple[Dim, ...]
    offset: Dim = 0
    stream_elems: int = 0
    """When stores should go past the cache: elements of a vector register, else 0."""
    ahead: int = 0
    """When loads should prefetch: how many elements further on, else 0."""


def _divides(n: int, dim: Dim) -> bool:
    """Whether `dim` is a multiple of n whatever its symbols are."""
    return exact_div(dim, n) is not None


NEUTRAL_INT = {"sum": 0, "prod": 1}


def neutral(kind: str, elem: Scalar) -> bool | float:
    """The value that changes nothing under a reduction of that kind."""
    if kind in ("any", "all"):
        return kind == "all"
    if kind in NEUTRAL_INT:
        return float(NEUTRAL_INT[kind]) if elem.is_float else NEUTRAL_INT[kind]
    if elem.is_float:
        return -math.inf if kind == "max" else math.inf
    top = (1 << (elem.bits - (1 if elem.is_signed else 0))) - 1
    low = -top - 1 if elem.is_signed else 0
    return low if kind == "max" else top


COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}


def accumulator(elem: Scalar) -> Scalar:
    """The element sums are made in: f32 for half precision, else the element itself."""
    return F32 if elem in (F16, BF16) else elem


def running_elem(kind: str, elem: Scalar) -> Scalar:
    """The element that running sums and products are carried in: f64, for a line has no blocks to sum one by one."""
    return F64 if kind in ("sum", "prod") and elem.is_float else elem


class Evaluator:
    """Emits the code of one kernel; see the module docstring."""

    def __init__(self, space: IndexSpace) -> None:
        self.space = space
        self.builder = Builder()
        self.lanes: tuple[Lane, ...] = ()
        self.leaves: dict[Value, Leaf] = {}
        self.tiles: dict[Value, tuple[Dim, Value]] = {}
        """Values held in registers: the row-major position they stand for, and their code."""
        self._env: dict[str, Value] = {}
        self._memo: list[dict[object, Value]] = [{}]
        self._mask: Value | None = None

    # scopes

    def emit(self, kind: Callable[..., Op], /, *operands: Value, **attrs: Attr) -> Value:
        """Append an op and return its only result."""
        return self.builder.append(kind(*operands, **attrs)).result

    def cast(self, x: Value, elem: Scalar) -> Value:
        """A scalar's or a tile's elements converted; nothing where they are such."""
        return x if block.elem_of(x.type) == elem else self.emit(block.cast, x, to=elem)

    @contextmanager
    def _scope(self) -> Generator[None, None, None]:
        outer = self.builder
        self.builder = Builder(outer.loc)
        self._memo.append({})
        try:
            yield
        finally:
            self._memo.pop()
            self.builder = outer

    @contextmanager
    def lanes_as(self, *lanes: Lane) -> Generator[None, None, None]:
        """Evaluate with these lanes; values memoised for other lanes are not seen inside."""
        outer, self.lanes = self.lanes, lanes
        self._memo.append({})
        try:
            yield
        finally:
            self._memo.pop()
            self.lanes = outer

    def remember(self, value: Value, index: Index, code: Value) -> None:
        """Declare that `code` is `value` at `index` for the rest of this scope."""
        self._memo[-1][value, self._key(index)] = code

    def _key(self, index: Index) -> Index:
        return tuple(self.space.simplify(i) for i in index)

    def bind(self, hint: str, lo: Dim, hi: Dim, code: Value) -> Expr:
        """A new variable whose value is computed by `code` (an i64 scalar or tile)."""
        var = self.space.fresh(hint, lo, hi)
        self._env[str(var)] = code
        return var

    def loop(
        self,
        hint: str,
        count: Dim,
        body: Callable[[Dim, tuple[Value, ...]], Sequence[Value]],
        carried: Sequence[Value] = (),
        start: Dim = 0,
        *,
        inline: bool = True,
    ) -> tuple[Value, ...]:
        """`for var in start..count`: `body(var, carried)` emits an iteration and gives the next carried values.

        A loop of one iteration or none is no loop, unless `inline` is false.
        """
        if inline and isinstance(count, int) and isinstance(start, int) and count - start <= 1:
            return tuple(carried) if count <= start else tuple(body(start, tuple(carried)))
        lower, upper = self.index(start), self.index(count)
        var = self.space.fresh(hint, start, count - 1)
        params = Params((I64, *(v.type for v in carried)), (str(var), *(v.hint or "acc" for v in carried)))
        self._env[str(var)] = params.values[0]
        with self._scope():
            out = body(var, params.values[1:])
            self.builder.op(control.yield_, *out)
            inner = self.builder.block(params)
        return self.builder.op(control.for_, lower, upper, *carried, bodies=(inner,)).results

    def branch(
        self,
        condition: Value,
        then: Callable[[], Sequence[Value]],
        other: Callable[[tuple[Type, ...]], Sequence[Value]],
    ) -> tuple[Value, ...]:
        """`if condition`: `then()` and `other(types)` emit the branches; `other` is told what to yield."""
        with self._scope():
            yielded = tuple(then())
            self.builder.op(control.yield_, *yielded)
            first = self.builder.block(Params(()))
        with self._scope():
            self.builder.op(control.yield_, *other(tuple(v.type for v in yielded)))
            second = self.builder.block(Params(()))
        return self.builder.op(control.if_, condition, bodies=(first, second)).results

    def body(self, params: Params, fill: Callable[[], Sequence[Value]]) -> Block:
        """A body under these parameters; `fill` emits it and gives what it yields."""
        with self._scope():
            self.builder.op(control.yield_, *fill())
            return self.builder.block(params)

    # scalars and index arithmetic

    def const(self, value: bool | float, elem: Scalar, shape: tuple[int, ...] | None = None) -> Value:
        """A literal."""
        if shape is None:
            return self.emit(block.const, value=value, elem=elem)
        return self.emit(block.const, value=value, elem=elem, shape=shape)

    def index(self, dim: Dim) -> Value:
        """An index expression as an i64 scalar, or as a tile when it depends on lanes or on tile variables."""
        dim = self.space.simplify(dim)
        if isinstance(dim, int):
            return self.const(dim, I64)
        key = ("index", dim)
        for memo in reversed(self._memo):
            if key in memo:
                return memo[key]
        names = tuple(sorted(n for n in symbols(dim) if n in self._env or self._lane(n) is not None))
        operands = [self._variable(n) for n in names]
        shape = self._joint_shape([v.type for v in operands])
        if shape is not None:
            operands = [self.shaped(v, shape) if isinstance(v.type, Tile) else v for v in operands]
        code = self.emit(block.index, *operands, expr=dim, names=names)
        self._memo[-1][key] = code
        return code

    def _lane(self, name: str) -> int | None:
        return next((i for i, lane in enumerate(self.lanes) if lane.name == name), None)

    def _variable(self, name: str) -> Value:
        at = self._lane(name)
        if at is None:
            return self._env[name]
        lane = self.lanes[at]
        tile = self.emit(block.arange, start=0, end=lane.extent)
        shape = tuple(lane.extent if i == at else 1 for i in range(len(self.lanes)))
        return tile if shape == (lane.extent,) else self.emit(block.reshape, tile, shape=shape)

    # shapes of tiles

    def _joint_shape(self, types: Sequence[Type]) -> tuple[int, ...] | None:
        shapes = [t.shape for t in types if isinstance(t, Tile)]
        if not shapes:
            return None
        return tuple(max(sizes) for sizes in zip(*shapes, strict=True))

    def shaped(self, value: Value, shape: tuple[int, ...]) -> Value:
        """`value` repeated to a tile of that shape."""
        if not isinstance(value.type, Tile):
            return self.emit(block.splat, value, shape=shape)
        return value if value.type.shape == shape else self.emit(block.broadcast, value, shape=shape)

    def unified(self, values: Sequence[Value]) -> list[Value]:
        """All values with one shape, the smallest that holds each."""
        shape = self._joint_shape([v.type for v in values])
        return list(values) if shape is None else [self.shaped(v, shape) for v in values]

    def full_shape(self) -> tuple[int, ...]:
        """The tile shape of a value that varies along every lane."""
        return tuple(lane.extent for lane in self.lanes)

    def varying_shape(self, dims: Sequence[Dim]) -> tuple[int, ...] | None:
        """The tile shape of a value that depends on these dims; None for a scalar."""
        names = frozenset[str]().union(*(symbols(d) for d in dims))
        tiles = [self._env[n].type for n in names if n in self._env and isinstance(self._env[n].type, Tile)]
        shape = [lane.extent if lane.name in names else 1 for lane in self.lanes]
        for t in tiles:
            assert isinstance(t, Tile)
            shape = [max(a, b) for a, b in zip(shape, t.shape, strict=True)]
        return tuple(shape) if any(lane.name in names for lane in self.lanes) or tiles else None

    # memory

    def load(self, leaf: Leaf, index: Index) -> Value:
        """The element(s) of `leaf` at `index`: one strided view if the offset is affine in the lanes, else gathered."""
        offset = self.space.simplify(linear(index, leaf.strides) + leaf.offset)
        strides = self._lane_strides(offset)
        if strides is None or (self._mask is not None and any(s != 0 for s in strides)):
            return self._gather(leaf, offset)
        base = self.index(substitute(offset, {lane.name: 0 for lane in self.lanes}))
        if all(s == 0 for s in strides):
            if self._mask is not None:
                return self._gather(leaf, offset)
            return self.emit(block.load, leaf.pointer, base)
        shape = tuple(lane.extent if s != 0 else 1 for lane, s in zip(self.lanes, strides, strict=True))
        limited = tuple(
            i for i, (lane, s) in enumerate(zip(self.lanes, strides, strict=True))
            if s != 0 and lane.limit is not None and not self._stays_inside(leaf, index, lane)
        )  # fmt: skip
        limits = [self.index(self._limit(i)) for i in limited]
        attrs: dict[str, Attr] = {"limited": limited} if limited else {}
        if leaf.ahead and strides[-1] == 1:
            attrs["ahead"] = leaf.ahead
        return self.emit(block.load_view, leaf.pointer, base, *limits, shape=shape, strides=strides, **attrs)

    def _limit(self, lane: int) -> Dim:
        limit = self.lanes[lane].limit
        assert limit is not None
        return limit

    def _stays_inside(self, leaf: Leaf, index: Index, lane: Lane) -> bool:
        """Whether even the lanes past the limit read inside the leaf (padded panels are made for that)."""
        return not lane.bounded and all(
            lane.name not in symbols(i) or (self.space.nonnegative(i) and self.space.below(i, d))
            for i, d in zip(index, leaf.shape, strict=True)
        )

    def _lane_strides(self, offset: Dim) -> tuple[Dim, ...] | None:
        """The offset's coefficient of each lane, or None when it is not affine in them."""
        if any(isinstance(self._env[n].type, Tile) for n in symbols(offset) if n in self._env):
            return None
        out: list[Dim] = []
        for lane in self.lanes:
            c = coefficient(offset, lane.name)
            if c is None or any(n in self._env or self._lane(n) is not None for n in symbols(c)):
                return None
            out.append(c)
        return tuple(out)

    def _gather(self, leaf: Leaf, offset: Dim) -> Value:
        shape = self.varying_shape([offset])
        mask = self._mask
        if mask is not None and isinstance(mask.type, Tile):
            shape = self._joint_shape([mask.type, *([Tile(shape, I64)] if shape else [])])
        live = self._inside_limits(shape)
        if live is not None:
            mask = live if mask is None else self.emit(block.and_, *self.unified([mask, live]))
        offsets = self.index(offset)
        if shape is not None:
            offsets = self.shaped(offsets, shape)
            mask = None if mask is None else self.shaped(mask, shape)
        return self.emit(block.load, leaf.pointer, offsets, *([] if mask is None else [mask]))

    def _inside_limits(self, shape: tuple[int, ...] | None) -> Value | None:
        """A mask of the lanes that exist, for a tile of that shape; None when all do."""
        out: Value | None = None
        for i, lane in enumerate(self.lanes):
            if lane.limit is None or shape is None or shape[i] == 1:
                continue
            here = self._variable(lane.name)
            assert isinstance(here.type, Tile)
            test = self.emit(block.lt, here, self.shaped(self.index(lane.limit), here.type.shape))
            out = test if out is None else self.emit(block.and_, *self.unified([out, test]))
        return out

    def live_lanes(self) -> Value | None:
        """A mask over the whole tile of the lanes that exist; None when all do."""
        mask = self._inside_limits(self.full_shape())
        return None if mask is None else self.shaped(mask, self.full_shape())

    def store(self, leaf: Leaf, index: Index, value: Value) -> None:
        """Write the element(s) at `index`; lanes past their limit are not written."""
        offset = self.space.simplify(linear(index, leaf.strides) + leaf.offset)
        if not self.lanes:
            self.builder.op(block.store, leaf.pointer, self.index(offset), value)
            return
        value = self.shaped(value, self.full_shape())
        strides = self._lane_strides(offset)
        if strides is None:
            offsets = self.shaped(self.index(offset), self.full_shape())
            live = self.live_lanes()
            self.builder.op(block.store, leaf.pointer, offsets, value, *([] if live is None else [live]))
            return
        base = self.index(substitute(offset, {lane.name: 0 for lane in self.lanes}))
        limited = tuple(
            i for i, lane in enumerate(self.lanes)
            if lane.limit is not None and not self._stays_inside(leaf, index, lane)
        )  # fmt: skip
        attrs: dict[str, Attr] = {"strides": strides}
        if limited:
            attrs["limited"] = limited
        limits = [self.index(self._limit(i)) for i in limited]
        start = substitute(offset, {lane.name: 0 for lane in self.lanes})
        if leaf.stream_elems and all(_divides(leaf.stream_elems, d) for d in (start, *strides[:-1])):
            attrs["stream"] = True
        operands = [leaf.pointer, base, value, *limits]
        self.builder.append(block.store_view.build(operands, attrs, loc=self.builder.loc))

    # values

    def value(self, value: Value, index: Index) -> Value:
        """Code for `value` at `index`; see the module docstring for its type."""
        key = (value, self._key(index))
        for memo in reversed(self._memo):
            if key in memo:
                return memo[key]
        code = self._compute(value, key[1])
        self._memo[-1][key] = code
        return code

    def _compute(self, value: Value, index: Index) -> Value:
        if value in self.leaves:
            return self.load(self.leaves[value], index)
        if value in self.tiles:
            position, code = self.tiles[value]
            asked = self.space.position(index, shape_of(value))
            assert asked == position, f"the tile in registers is at {position}, asked for {asked}"
            return code
        op = value.owner
        assert isinstance(op, Op), f"{value} is neither in memory nor computed in the region"
        if op.has(Trait.ELEMENTWISE):
            return self._elementwise(op, index)
        if (found := sources(op, index, self.space)) is not None:
            return self._moved(op, found)
        return _HANDLERS[op.kind](self, op, index)

    def _elementwise(self, op: Op, index: Index) -> Value:
        args = self.unified([self.value(v, index) for v in op.operands])
        if op.kind is graph.select:
            return self.emit(block.select, *args)
        if op.kind in (graph.cast, graph.bitcast):
            kind = block.cast if op.kind is graph.cast else block.bitcast
            return self.builder.append(kind.build(args, op.attrs)).result
        return self.emit(block.ELEMENTWISE[op.kind.name.removeprefix("graph.")], *args)

    def _moved(self, op: Op, found: tuple[Source, ...]) -> Value:
        elem = tensor_of(op.result).elem
        fill = attr_number(op, "value")
        code: Value | None = None
        for source in reversed(found):
            code = self.guarded(source, elem, fill, code)
        return self.const(fill, elem) if code is None else code

    def guarded(self, source: Source, elem: Scalar, fill: bool | float, other: Value | None) -> Value:
        """`source` where its conditions hold; elsewhere `other`, or the fill value."""
        if not source.where:
            return self.value(source.value, source.index)
        if any(self.space.below(at, lo) or self.space.nonnegative(at - hi) for lo, at, hi in source.where):
            return self.const(fill, elem) if other is None else other
        condition: Value | None = None
        for lo, at, hi in source.where:
            here = self.index(at)
            for test, dim in ((block.ge, lo), (block.lt, hi)):
                holds = self.space.nonnegative(at - lo) if test is block.ge else self.space.below(at, hi)
                if holds:
                    continue
                pair = self.unified([here, self.index(dim)])
                got = self.emit(test, *pair)
                condition = got if condition is None else self.emit(block.and_, *self.unified([condition, got]))
        if condition is None:
            return self.value(source.value, source.index)
        if not isinstance(condition.type, Tile) and self._mask is None:
            return self._branched(condition, source, elem, fill, other)
        outer, self._mask = self._mask, condition
        if outer is not None:
            self._mask = self.emit(block.and_, *self.unified([outer, condition]))
        self._memo.append({})  # values under the mask must not be reused outside it
        inside = self.value(source.value, source.index)
        self._memo.pop()
        self._mask = outer
        rest = self.const(fill, elem) if other is None else other
        return self.emit(block.select, *self.unified([condition, inside, rest]))

    def _branched(
        self, condition: Value, source: Source, elem: Scalar, fill: bool | float, other: Value | None
    ) -> Value:
        def rest(types: tuple[Type, ...]) -> list[Value]:
            (t,) = types
            shape = t.shape if isinstance(t, Tile) else None
            if other is None:
                return [self.const(fill, elem, shape)]
            return [other if shape is None else self.shaped(other, shape)]

        def inside() -> list[Value]:
            got = self.value(source.value, source.index)
            return self.unified([got, other])[:1] if other is not None else [got]

        (code,) = self.branch(condition, inside, rest)
        return code

    # reductions evaluated in place

    def reduction(
        self, kind: str, elem: Scalar, dims: Sequence[Dim], term: Callable[[tuple[Dim, ...]], Value], index: Index,
        unroll: int = 1,
    ) -> Value:  # fmt: skip
        """Combine `term(vars)` over nested loops of the given extents; the result varies as `index` does."""
        acc_elem = accumulator(elem) if kind in ("sum", "prod") else elem
        shape = self.varying_shape(index)
        start = self.const(neutral(kind, acc_elem), acc_elem, shape)

        def nest(left: Sequence[Dim], at: tuple[Dim, ...], acc: Value) -> Value:
            if not left:
                got = term(at)
                if acc_elem != elem:
                    got = self.emit(block.cast, got, to=acc_elem)
                got = got if shape is None else self.shaped(got, shape)
                return self.emit(block.ELEMENTWISE[COMBINE[kind]], acc, got)
            first, *rest = left
            if isinstance(first, int) and first <= unroll:
                for i in range(first):
                    acc = nest(rest, (*at, i), acc)
                return acc
            run = _run_of(first, rest) if kind == "sum" and acc_elem.is_float else None
            if run is None:
                return along(first, rest, at, 0, acc)
            count = floordiv(first, run)

            def plus_run(of: Dim, n: Dim, total: Value) -> Value:
                return self.emit(block.add, total, along(n, rest, at, of, start))

            (acc,) = self.loop("r", count, lambda var, carried: [plus_run(var * run, run, carried[0])], [acc])
            left_over = mod(first, run)
            return acc if left_over == 0 else plus_run(count * run, left_over, acc)

        def along(count: Dim, rest: Sequence[Dim], at: tuple[Dim, ...], of: Dim, acc: Value) -> Value:
            (out,) = self.loop("r", count, lambda var, carried: [nest(rest, (*at, of + var), carried[0])], [acc])
            return out

        out = nest(list(dims), (), start)
        return out if acc_elem == elem else self.emit(block.cast, out, to=elem)


RUN = 64
"""So many terms are added by themselves, and these sums then: in one long sum small terms meet a large total."""


def _run_of(first: Dim, rest: Sequence[Dim]) -> Dim | None:
    """How many steps of the outermost of nested loops make a run of a sum; None if all of them may be one."""
    inner = product(rest)
    if not isinstance(inner, int) or inner >= RUN:
        return 1
    steps = RUN // max(inner, 1)
    if not isinstance(first, int):
        return steps
    if first <= 2 * steps:
        return None
    # both sums are short where a run has as many terms as there are runs
    most = max(steps, math.isqrt(first // max(inner, 1)))
    return next((n for n in range(most, steps // 2, -1) if first % n == 0), most)


# ops that need more than their operands at the same index


def _full(ev: Evaluator, op: Op, index: Index) -> Value:
    value, elem = op.attrs["value"], op.attrs["elem"]
    assert isinstance(elem, Scalar)
    if isinstance(value, Expr):
        code = ev.index(value)
        return code if elem == I64 else ev.emit(block.cast, code, to=elem)
    assert isinstance(value, bool | int | float)
    return ev.const(value, elem)


def _iota(ev: Evaluator, op: Op, index: Index) -> Value:
    elem = op.attrs["elem"]
    assert isinstance(elem, Scalar)
    code = ev.index(index[attr_int(op, "axis")])
    return code if elem == I64 else ev.emit(block.cast, code, to=elem)


def _reduce(ev: Evaluator, op: Op, index: Index) -> Value:
    (x,) = op.operands
    axes, kind = attr_ints(op, "axes"), str(op.attrs["kind"])
    keep = bool(op.attrs.get("keepdims", False))
    shape = shape_of(x)

    def term(at: tuple[Dim, ...]) -> Value:
        inner, outer = iter(at), iter(index)
        full: list[Dim] = []
        for i in range(len(shape)):
            if i in axes:
                full.append(next(inner))
                if keep:
                    next(outer)
            else:
                full.append(next(outer))
        return ev.value(x, tuple(full))

    return ev.reduction(kind, tensor_of(x).elem, [shape[i] for i in range(len(shape)) if i in axes], term, index)


def _reduce_window(ev: Evaluator, op: Op, index: Index) -> Value:
    (x,) = op.operands
    kind, elem = str(op.attrs["kind"]), tensor_of(x).elem
    window, strides, dilation, low = (dims_of(op.attrs[n]) for n in ("window", "strides", "dilation", "low"))
    spaces = list(zip(shape_of(x), low, dims_of(op.attrs["high"]), strict=True))

    def term(at: tuple[Dim, ...]) -> Value:
        inside = tuple(i * s + k * d - lo for i, s, k, d, lo in zip(index, strides, at, dilation, low, strict=True))
        where = tuple((0, i, d) for i, (d, lo, hi) in zip(inside, spaces, strict=True) if lo != 0 or hi != 0)
        return ev.guarded(Source(x, inside, where), elem, neutral(kind, elem), None)

    return ev.reduction(kind, elem, window, term, index, unroll=4)


def _contract(ev: Evaluator, op: Op, index: Index) -> Value:
    a, b = op.operands
    spec = op.attrs["spec"]
    assert isinstance(spec, str)
    lhs, rhs, out = graph.parse_spec(spec)
    sizes = dict(zip(lhs + rhs, (*shape_of(a), *shape_of(b)), strict=True))
    summed = [c for c in sizes if c not in out]
    elem = tensor_of(op.result).elem

    def term(at: tuple[Dim, ...]) -> Value:
        where = dict(zip(out, index, strict=True)) | dict(zip(summed, at, strict=True))
        factors = [ev.value(v, tuple(where[c] for c in labels)) for v, labels in ((a, lhs), (b, rhs))]
        return _product(ev, factors, accumulator(elem))

    got = ev.reduction("sum", accumulator(elem), [sizes[c] for c in summed], term, index)
    return got if accumulator(elem) == elem else ev.emit(block.cast, got, to=elem)


def _product(ev: Evaluator, factors: list[Value], elem: Scalar) -> Value:
    wide = [f if block.elem_of(f.type) == elem else ev.emit(block.cast, f, to=elem) for f in factors]
    return ev.emit(block.mul, *ev.unified(wide))


def _conv(ev: Evaluator, op: Op, index: Index) -> Value:
    x, w = op.operands
    first = op.attrs.get("layout", "nchw") == "nchw"
    groups = op.attrs.get("groups", 1)
    assert isinstance(groups, int)
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

    got = ev.reduction("sum", accumulator(elem), [*kernel, per_group], term, index)
    return got if accumulator(elem) == elem else ev.emit(block.cast, got, to=elem)


def _looked_up(ev: Evaluator, indices: Value, at: Index, size: Dim) -> Dim:
    """A variable holding an index read from memory, counted from the end when negative and kept in bounds."""
    code = ev.value(indices, at)
    if block.elem_of(code.type) != I64:
        code = ev.emit(block.cast, code, to=I64)
    shape = code.type.shape if isinstance(code.type, Tile) else None

    def number(dim: Dim) -> Value:
        value = ev.index(dim)
        return value if shape is None else ev.shaped(value, shape)

    zero, d = number(0), number(size)
    wrapped = ev.emit(block.select, ev.emit(block.lt, code, zero), ev.emit(block.add, code, d), code)
    # out-of-range indices are the caller's error; clamping keeps them from reading foreign memory, where there is some
    safe = ev.emit(block.max_, ev.emit(block.min_, wrapped, number(size - 1)), zero)
    return ev.bind("g", 0, size - 1, safe)


def _take(ev: Evaluator, op: Op, index: Index) -> Value:
    x, indices = op.operands
    axis, rank = attr_int(op, "axis"), tensor_of(indices).rank
    at = _looked_up(ev, indices, index[axis : axis + rank], shape_of(x)[axis])
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
    batch = op.attrs.get("batch_dims", 0)
    assert isinstance(batch, int)
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
        got = ev.value(x, (*rest[:axis], i, *rest[axis:]))
        return got if shape is None else ev.shaped(got, shape)

    def step(var: Dim, carried: tuple[Value, ...]) -> list[Value]:
        best, where = carried
        here = at(var)
        compare = {("max", False): "gt", ("max", True): "ge", ("min", False): "lt", ("min", True): "le"}
        better = ev.emit(block.ELEMENTWISE[compare[kind, last]], here, best)
        if elem.is_float:  # the first (or last) NaN is the extreme
            nan = ev.emit(block.ELEMENTWISE["isnan"], here)
            if not last:
                held = ev.emit(block.ELEMENTWISE["isnan"], best)
                nan = ev.emit(block.and_, nan, ev.emit(block.ELEMENTWISE["not"], held))
            better = ev.emit(block.or_, better, nan)
        i = ev.index(var)
        i = i if shape is None else ev.shaped(i, shape)
        return [ev.emit(block.select, better, here, best), ev.emit(block.select, better, i, where)]

    worst = ev.const(neutral(kind, elem), elem, shape)
    return ev.loop("r", shape_of(x)[axis], step, [worst, ev.const(0, I64, shape)])[1]


def _cumulate(ev: Evaluator, op: Op, index: Index) -> Value:
    """Each element by its own loop: right for any index; the scan schedule is what makes it linear."""
    (x,) = op.operands
    axis, kind, elem = attr_int(op, "axis"), str(op.attrs["kind"]), tensor_of(x).elem
    wide = running_elem(kind, elem)
    size = shape_of(x)[axis]
    i = index[axis]
    exclusive, reverse = bool(op.attrs.get("exclusive", False)), bool(op.attrs.get("reverse", False))
    lo, hi = (i + (1 if exclusive else 0), size) if reverse else (0, i + (0 if exclusive else 1))
    shape = ev.varying_shape(index)

    def step(var: Dim, carried: tuple[Value, ...]) -> list[Value]:
        got = ev.cast(ev.value(x, (*index[:axis], var, *index[axis + 1 :])), wide)
        if any(lane.name in symbols(i) for lane in ev.lanes):  # each lane has its own bounds
            mask = _between(ev, lo, var, hi, shape)
            got = ev.emit(block.select, *ev.unified([mask, got, ev.const(neutral(kind, wide), wide)]))
        got = got if shape is None else ev.shaped(got, shape)
        return [ev.emit(block.ELEMENTWISE[COMBINE[kind]], carried[0], got)]

    start = ev.const(neutral(kind, wide), wide, shape)
    if any(lane.name in symbols(i) for lane in ev.lanes):
        lo_all, hi_all = 0, size
    else:
        lo_all, hi_all = lo, hi
    return ev.cast(ev.loop("r", hi_all, step, [start], start=lo_all)[0], elem)


def _between(ev: Evaluator, lo: Dim, at: Dim, hi: Dim, shape: tuple[int, ...] | None) -> Value:
    here = ev.index(at)
    tests = [
        ev.emit(block.le, *ev.unified([ev.index(lo), here])),
        ev.emit(block.lt, *ev.unified([here, ev.index(hi)])),
    ]
    assert all(block.elem_of(t.type) == BOOL for t in tests)
    return ev.emit(block.and_, *ev.unified(tests))


_HANDLERS: dict[object, Callable[[Evaluator, Op, Index], Value]] = {
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


def leaf_of(pointer: Value, shape: tuple[Dim, ...]) -> Leaf:
    """A dense row-major tensor behind a pointer."""
    assert isinstance(pointer.type, Ptr)
    return Leaf(pointer, strides_of(shape), shape)


def limited(lane: Lane, limit: Dim | None) -> Lane:
    """The same lane with another limit."""
    return replace(lane, limit=limit)
