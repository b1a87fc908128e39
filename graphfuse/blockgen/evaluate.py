"""Evaluates graph values at symbolic indices, emitting block ops: the heart of every emitter.

An `Evaluator` holds the block under construction, the variables in scope, and the *lanes*: variables that run
over a tile instead of a loop. `value(v, index)` emits code for the element(s) of `v` at `index`; its result
has one tile dim per lane, of size 1 where it does not vary, or is a scalar when it varies along none.
Any op of a region can be evaluated; schedules (pointwise, reduction, contraction ...) decide only where loops
and lanes run and which values are computed ahead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from graphfuse.blockgen.index import Index, IndexSpace, coefficient, linear, strides_of
from graphfuse.blockgen.movement import Source, shape_of, sources
from graphfuse.dialects import block, control, effects, graph
from graphfuse.dialects.elementwise import COMBINE, ROUNDED_KINDS, neutral
from graphfuse.ir.core import Attr, Block, Builder, Op, OpDef, Params, Trait, Value, attr_number, tensor_of, tile_of
from graphfuse.ir.types import BF16, F16, F32, I64, Ptr, Scalar, Tile, Type
from graphfuse.symbolic import Call, Dim, Expr, ceildiv, exact_div, floordiv, minimum, mod, product, substitute, symbols


@dataclass(frozen=True, slots=True)
class Lane:
    """A variable that runs over one tile dim; lanes at or past `limit` (if any) do not exist."""

    name: str
    extent: int
    limit: Dim | None = None
    bounded: bool = False
    """Whether the variable's bounds end at the limit: what is proved of it says nothing of lanes past the limit."""

    @property
    def is_all_or_none(self) -> bool:
        """Whether a limit leaves nothing, or all: places need not name a variable that is always 0."""
        return self.bounded and self.extent == 1


def lane_over(space: IndexSpace, width: int, first: Dim = 0, limit: Dim | None = None) -> tuple[Lane, Dim]:
    """A lane over so many positions of a dim, and the position that it stands for: from `first` on."""
    var = space.fresh("l", 0, width - 1)
    return Lane(str(var), width, limit), first + var


@dataclass(frozen=True, slots=True)
class Leaf:
    """Where a value lives in memory: element `index` is at `pointer[offset + index . strides]`."""

    pointer: Value
    strides: Index
    shape: tuple[Dim, ...]
    offset: Dim = 0
    stream_elems: int = 0
    """When stores should go past the cache: elements of a vector register, else 0."""
    relaxed: bool = False
    """Whether several programs may store there, and any of them be the last."""
    ahead: int = 0
    """When loads should prefetch: how many elements further on, else 0."""


def _divisors(dim: Dim, name: str) -> Iterator[int]:
    """The numbers that a variable is divided by in a dim."""
    atoms = (atom for term, _ in dim.terms for atom, _ in term) if isinstance(dim, Expr) else ()
    for atom in atoms:
        if isinstance(atom, Call) and atom.fn in ("floordiv", "mod") and name in symbols(atom.args[0]):
            by = atom.args[1]
            if isinstance(by, int):
                yield by


def _divides(n: int, dim: Dim) -> bool:
    """Whether `dim` is a multiple of n whatever its symbols are."""
    return exact_div(dim, n) is not None


def accumulator(elem: Scalar) -> Scalar:
    """The element sums are made in: f32 for half precision, else the element itself."""
    return F32 if elem in (F16, BF16) else elem


Handler = Callable[["Evaluator", Op, Index], Value]
"""Code for an op's result at an index."""
Yielded = Sequence[Value] | None
"""What a body hands on; None is nothing."""
Sum = tuple[str, Scalar, Callable[[Index], Value]]
"""A kind of reduction, the element of its result, and its terms."""


class Evaluator:
    """Emits the code of one kernel; see the module docstring."""

    def __init__(self, space: IndexSpace, handlers: Mapping[OpDef, Handler]) -> None:
        self._handlers = handlers
        """For ops that need more than their operands at the same index."""
        self.space = space
        self.builder = Builder()
        self.lanes: tuple[Lane, ...] = ()
        self.leaves: dict[Value, Leaf] = {}
        self.tiles: dict[Value, tuple[Dim, Value]] = {}
        """Values held in registers: the row-major position they stand for, and their code."""
        self._env: dict[str, Value] = {}
        self._variables: dict[Value, Expr] = {}
        """What `bind_once` bound, by its code."""
        self._memo: list[dict[object, Value]] = [{}]
        self._mask: Value | None = None
        self.unrolled_taps = 4
        """Of a window along one dim, at most: more are a loop."""
        self.chains = 1
        """Partial results of a sum's innermost loop: one number for all tiles, so columns alike have sums alike."""

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

    @contextmanager
    def where(self, condition: Value | None) -> Generator[None, None, None]:
        """Touch memory only where a condition holds; values memoised under it are not seen outside."""
        outer = self._mask
        self._mask = outer if condition is None else self.both(outer, condition)
        self._memo.append({})
        try:
            yield
        finally:
            self._memo.pop()
            self._mask = outer

    def remember(self, value: Value, index: Index, code: Value) -> None:
        """Declare that `code` is `value` at `index` for the rest of this scope."""
        self._memo[-1][value, self._key(index)] = code

    def _once(self, key: object, make: Callable[[], Value]) -> Value:
        """The code for something, which this scope or one around it may have."""
        for memo in reversed(self._memo):
            if key in memo:
                return memo[key]
        self._memo[-1][key] = code = make()
        return code

    def _key(self, index: Index) -> Index:
        return tuple(self.space.simplify(i) for i in index)

    def bind(self, hint: str, lo: Dim, hi: Dim, code: Value) -> Expr:
        """A new variable whose value is computed by `code` (an i64 scalar or tile)."""
        var = self.space.fresh(hint, lo, hi)
        self._env[str(var)] = code
        return var

    def bind_once(self, hint: str, size: Dim, what: tuple[Value, Index], make: Callable[[], Value]) -> Dim:
        """A variable of 0..size that tells `what` a value has at an index; the same one wherever that is in scope."""
        value, index = what
        code = self._once((hint, size, value, self._key(index)), make)
        if code not in self._variables:
            self._variables[code] = self.bind(hint, 0, size - 1, code)
        return self._variables[code]

    def loop(
        self,
        hint: str,
        count: Dim,
        body: Callable[[Dim, tuple[Value, ...]], Yielded],
        carried: Sequence[Value] = (),
        start: Dim = 0,
        *,
        inline: bool = True,
    ) -> tuple[Value, ...]:
        """`for var in start..count`: `body(var, carried)` emits an iteration and gives the next carried values.

        A loop of one iteration or none is no loop, unless `inline` is false.
        """
        if inline and isinstance(count, int) and isinstance(start, int) and count - start <= 1:
            return tuple(carried) if count <= start else tuple(body(start, tuple(carried)) or ())
        lower, upper = self.index(start), self.index(count)
        var = self.space.fresh(hint, start, count - 1)
        params = Params((I64, *(v.type for v in carried)), (str(var), *(v.hint or "acc" for v in carried)))
        self._env[str(var)] = params.values[0]
        inner = self.body(params, lambda: body(var, params.values[1:]))
        return self.builder.op(control.for_, lower, upper, *carried, bodies=(inner,)).results

    def branch(
        self,
        condition: Value,
        then: Callable[[], Yielded],
        other: Callable[[tuple[Type, ...]], Yielded] = lambda _: None,
    ) -> tuple[Value, ...]:
        """`if condition`: `then()` and `other(types)` emit the branches; `other` is told what to yield."""
        first = self.body(Params(()), then)
        types = tuple(v.type for v in first.terminator.operands)
        second = self.body(Params(()), lambda: other(types))
        return self.builder.op(control.if_, condition, bodies=(first, second)).results

    def body(self, params: Params, fill: Callable[[], Yielded]) -> Block:
        """A body under these parameters; `fill` emits it and gives what it yields."""
        with self._scope():
            self.builder.op(control.yield_, *(fill() or ()))
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
        return self._once(("index", dim), lambda: self._indexed(dim))

    def _indexed(self, dim: Dim) -> Value:
        names = tuple(sorted(n for n in symbols(dim) if n in self._env or self._lane(n) is not None))
        operands = [self._variable(n) for n in names]
        shape = self._joint_shape([v.type for v in operands])
        if shape is not None:
            operands = [self.shaped(v, shape) if isinstance(v.type, Tile) else v for v in operands]
        return self.emit(block.index, *operands, expr=dim, names=names)

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

    def shaped(self, value: Value, shape: tuple[int, ...] | None) -> Value:
        """`value` repeated to a tile of that shape; None is that of a scalar, which it is then."""
        if shape is None:
            return value
        if not isinstance(value.type, Tile):
            return self.emit(block.splat, value, shape=shape)
        return value if value.type.shape == shape else self.emit(block.broadcast, value, shape=shape)

    def unified(self, values: Sequence[Value]) -> list[Value]:
        """All values with one shape, the smallest that holds each."""
        shape = self._joint_shape([v.type for v in values])
        return [self.shaped(v, shape) for v in values]

    def both(self, a: Value | None, b: Value) -> Value:
        """Where two conditions hold; None always does."""
        return b if a is None else self.emit(block.and_, *self.unified([a, b]))

    def full_shape(self) -> tuple[int, ...]:
        """The tile shape of a value that varies along every lane."""
        return tuple(lane.extent for lane in self.lanes)

    def varying_shape(self, dims: Sequence[Dim]) -> tuple[int, ...] | None:
        """The tile shape of a value that depends on these dims; None for a scalar."""
        names = frozenset[str]().union(*(symbols(d) for d in dims))
        tiles = [t for n in names if n in self._env and isinstance(t := self._env[n].type, Tile)]
        shape = [lane.extent if lane.name in names else 1 for lane in self.lanes]
        for t in tiles:
            shape = [max(a, b) for a, b in zip(shape, t.shape, strict=True)]
        return tuple(shape) if any(lane.name in names for lane in self.lanes) or tiles else None

    # memory

    def load(self, leaf: Leaf, index: Index) -> Value:
        """The element(s) of `leaf` at `index`: one strided view if the offset is affine in the lanes, else gathered."""
        offset = self.space.simplify(linear(index, leaf.strides) + leaf.offset)
        strides = self._lane_strides(offset)
        if strides is None and (repeated := self._load_repeated(leaf, index, offset)) is not None:
            return repeated
        if strides is None or self._mask is not None:
            return self._gather(leaf, offset)
        base = self.index(self._start(offset))
        lanes = [i for i, (n, s) in enumerate(zip(self.lanes, strides, strict=True)) if s != 0 or n.is_all_or_none]
        if not lanes:
            return self.emit(block.load, leaf.pointer, base)
        shape = tuple(lane.extent if s != 0 else 1 for lane, s in zip(self.lanes, strides, strict=True))
        limits, attrs = self._limits(leaf, index, lanes, room=True)
        if leaf.ahead and strides[-1] == 1:
            attrs["ahead"] = leaf.ahead
        return self.emit(block.load_view, leaf.pointer, base, *limits, shape=shape, strides=strides, **attrs)

    def _load_repeated(self, leaf: Leaf, index: Index, offset: Dim) -> Value | None:
        """What lanes read that are runs: one element for each run, or the same ones for all. None for other memory."""
        if len(self.lanes) != 1 or self._mask is not None or self.lanes[0].bounded:  # what lies past a bound is 0
            return None
        if leaf.strides == strides_of(leaf.shape):  # digits that go together are one number there
            leaf, index = replace(leaf, strides=(1,), shape=(product(leaf.shape),), offset=0), (offset,)
        (lane,), index = self.lanes, self._key(index)
        for times in dict.fromkeys(n for i in index for n in _divisors(i, lane.name)):
            if (
                times > 1
                and lane.extent % times == 0
                and (found := self._load_runs(leaf, index, lane, times)) is not None
            ):
                return found
        return None

    def _load_runs(self, leaf: Leaf, index: Index, lane: Lane, times: int) -> Value | None:
        limit = None if lane.limit is None else ceildiv(lane.limit, times)
        run, number = lane_over(self.space, lane.extent // times, 0, limit)
        one, within = lane_over(self.space, times)
        index = tuple(self.space.simplify(substitute(i, {lane.name: number * times + within})) for i in index)
        names = frozenset[str]().union(*map(symbols, index))
        if any(isinstance(self._env[n].type, Tile) for n in names if n in self._env):
            return None  # places that were looked up, for all lanes
        if one.name not in names:
            with self.lanes_as(run):
                return self.repeated(self.load(leaf, index), times)
        if run.name not in names and run.extent > 1:
            with self.lanes_as(one):
                return self.repeated(self.load(leaf, index), run.extent, whole=True)
        offset = self.space.simplify(linear(index, leaf.strides) + leaf.offset)
        with self.lanes_as(run, one):
            strides = self._lane_strides(offset)
            if strides is None or strides[0] == 0 or strides[1] != 1:
                return None
            return self.emit(block.reshape, self.load(leaf, index), shape=(lane.extent,))  # runs that lie apart

    def repeated(self, tile: Value, times: int, *, whole: bool = False) -> Value:
        """Each element of a tile of one dim, or the `whole` tile, so many times, one after the other."""
        (size,) = tile_of(tile).shape
        one, shape = ((1, size), (times, size)) if whole else ((size, 1), (size, times))
        square = self.emit(block.broadcast, self.emit(block.reshape, tile, shape=one), shape=shape)
        return self.emit(block.reshape, square, shape=(size * times,))

    def _start(self, offset: Dim) -> Dim:
        """Where the first lanes are."""
        return substitute(offset, {lane.name: 0 for lane in self.lanes})

    def _limits(
        self, leaf: Leaf, index: Index, lanes: Iterable[int], *, room: bool
    ) -> tuple[list[Value], dict[str, Attr]]:
        """The limits of a view's lanes, and the attribute that says which they are.

        Where lanes past them have `room`, as all that is read and what is only the program's, those that may leave the
        leaf: what is stored past a limit within a result is another element of it.
        """
        found = [(i, self.lanes[i]) for i in lanes]
        cut = {
            i: n.limit for i, n in found if n.limit is not None and not (room and self._stays_inside(leaf, index, n))
        }
        return [self.index(limit) for limit in cut.values()], {"limited": tuple(cut)} if cut else {}

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
            mask = self.both(mask, live)
        offsets = self.index(offset)
        if shape is not None:
            offsets = self.shaped(offsets, shape)
            mask = None if mask is None else self.shaped(mask, shape)
        return self.emit(block.load, leaf.pointer, offsets, *([] if mask is None else [mask]))

    def _inside_limits(self, shape: tuple[int, ...] | None) -> Value | None:
        """A mask of the lanes that exist, for a tile of that shape; None when all do."""
        out: Value | None = None
        for i, lane in enumerate(self.lanes):
            if lane.limit is None or shape is None or (shape[i] == 1 and not lane.is_all_or_none):
                continue
            here = self._variable(lane.name)
            out = self.both(out, self.emit(block.lt, here, self.shaped(self.index(lane.limit), tile_of(here).shape)))
        return out

    def live_lanes(self) -> Value | None:
        """A mask over the whole tile of the lanes that exist; None when all do."""
        mask = self._inside_limits(self.full_shape())
        return None if mask is None else self.shaped(mask, self.full_shape())

    def store(self, leaf: Leaf, index: Index, value: Value) -> None:
        """Write the element(s) at `index`; lanes past their limit are not written."""
        offset = self.space.simplify(linear(index, leaf.strides) + leaf.offset)
        strides, relaxed = self._lane_strides(offset), {"relaxed": True} if leaf.relaxed else {}
        if not self.lanes or strides is None or self._mask is not None:
            operands = [leaf.pointer, *self._places(offset, value)]
            self.builder.append(block.store.build(operands, relaxed, loc=self.builder.loc))
            return
        value = self.shaped(value, self.full_shape())
        start = self._start(offset)
        base = self.index(start)
        own = leaf.pointer.op is not None and leaf.pointer.op.kind is block.alloc
        limits, attrs = self._limits(leaf, index, range(len(self.lanes)), room=own)
        attrs = {"strides": strides, **attrs, **relaxed}
        if leaf.stream_elems and all(_divides(leaf.stream_elems, d) for d in (start, *strides[:-1])):
            attrs["stream"] = True
        operands = [leaf.pointer, base, value, *limits]
        self.builder.append(block.store_view.build(operands, attrs, loc=self.builder.loc))

    def atomic(self, leaf: Leaf, index: Index, value: Value, kind: str) -> None:
        """Combine the element(s) at `index` with `value`, each at once; lanes past their limit are left alone."""
        offset = self.space.simplify(linear(index, leaf.strides) + leaf.offset)
        self.builder.op(effects.atomic, leaf.pointer, *self._places(offset, value), kind=kind)

    def _places(self, offset: Dim, value: Value) -> list[Value]:
        """Offsets, a value, and the mask, if any, of what changes memory at all lanes."""
        shape = self.full_shape() or None
        value, offsets, mask = self.shaped(value, shape), self.shaped(self.index(offset), shape), self._mask
        if shape is not None and (live := self._inside_limits(shape)) is not None:
            mask = self.both(mask, live)
        return [offsets, value, *([] if mask is None else [self.shaped(mask, shape)])]

    # values

    def value(self, value: Value, index: Index) -> Value:
        """Code for `value` at `index`; see the module docstring for its type."""
        index = self._key(index)
        return self._once((value, index), lambda: self._compute(value, index))

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
        return self._handlers[op.kind](self, op, index)

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
        return code or self.const(fill, elem)

    def guarded(self, source: Source, elem: Scalar, fill: bool | float, other: Value | None) -> Value:
        """`source` where its conditions hold; elsewhere `other`, or the fill value."""
        if not source.where:
            return self.value(source.value, source.index)
        if any(self.space.below(at, lo) or self.space.nonnegative(at - hi) for lo, at, hi in source.where):
            return self.const(fill, elem) if other is None else other
        if fill == 0 and other is None and (view := self._ending(source)) is not None:
            return view
        condition: Value | None = None
        for lo, at, hi in source.where:
            here = self.index(at)
            for test, dim in ((block.ge, lo), (block.lt, hi)):
                holds = self.space.nonnegative(at - lo) if test is block.ge else self.space.below(at, hi)
                if not holds:
                    condition = self.both(condition, self.emit(test, *self.unified([here, self.index(dim)])))
        if condition is None:
            return self.value(source.value, source.index)
        if not isinstance(condition.type, Tile) and self._mask is None:
            return self._branched(condition, source, elem, fill, other)
        with self.where(condition):
            inside = self.value(source.value, source.index)
        rest = self.const(fill, elem) if other is None else other
        return self.emit(block.select, *self.unified([condition, inside, rest]))

    def _ending(self, source: Source) -> Value | None:
        """Memory of which a lane runs over the end, as a view that is 0 from there on; None for other sources."""
        value, index = source.value, source.index
        while value not in self.leaves:
            found = sources(value.op, index, self.space) if value.op is not None else None
            if found is None or len(found) != 1 or found[0].where:
                return None
            value, index = found[0].value, found[0].index
        if self._mask is not None or len(source.where) != 1:
            return None
        ((low, at, end),) = source.where
        crossed = [i for i, lane in enumerate(self.lanes) if lane.name in symbols(at)]
        if len(crossed) != 1 or not self.space.nonnegative(at - low):
            return None
        lane = self.lanes[crossed[0]]
        if coefficient(at, lane.name) != 1:
            return None
        left = end - substitute(at, {lane.name: 0})
        limit = left if lane.limit is None else minimum(lane.limit, left)
        with self.lanes_as(*(replace(n, limit=limit, bounded=True) if n is lane else n for n in self.lanes)):
            return self.load(self.leaves[value], index)

    def _branched(
        self, condition: Value, source: Source, elem: Scalar, fill: bool | float, other: Value | None
    ) -> Value:
        def rest(types: tuple[Type, ...]) -> list[Value]:
            (t,) = types
            shape = t.shape if isinstance(t, Tile) else None
            if other is None:
                return [self.const(fill, elem, shape)]
            return [self.shaped(other, shape)]

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
        (out,) = self.reductions([(kind, elem, term)], dims, index, unroll)
        return out

    def reductions(self, sums: Sequence[Sum], dims: Sequence[Dim], index: Index, unroll: int = 1) -> list[Value]:
        """Several of them in the same loops."""
        kinds = [kind for kind, _, _ in sums]
        elems = [accumulator(elem) if kind in ROUNDED_KINDS else elem for kind, elem, _ in sums]
        shape = self.varying_shape(index)
        start = [self.const(neutral(k, e), e, shape) for k, e in zip(kinds, elems, strict=True)]
        has_runs = any(k == "sum" and e.is_float for k, e in zip(kinds, elems, strict=True))

        def combined(a: Sequence[Value], b: Iterable[Value]) -> list[Value]:
            return [self.emit(block.ELEMENTWISE[COMBINE[k]], x, y) for k, x, y in zip(kinds, a, b, strict=True)]

        def nest(left: Sequence[Dim], at: tuple[Dim, ...], acc: Sequence[Value]) -> Sequence[Value]:
            if not left:
                found = zip(sums, elems, strict=True)
                return combined(acc, (self.shaped(self.cast(term(at), e), shape) for (_, _, term), e in found))
            first, *rest = left
            if isinstance(first, int) and first <= unroll:
                for i in range(first):
                    acc = nest(rest, (*at, i), acc)
                return acc
            run = _run_of(first, rest) if has_runs else None
            if run is None:
                return along(first, rest, at, 0, acc)
            count = floordiv(first, run)

            def plus_run(of: Dim, n: Dim, total: Sequence[Value]) -> Sequence[Value]:
                return combined(total, along(n, rest, at, of, start))

            acc = self.loop("r", count, lambda var, carried: plus_run(var * run, run, carried), acc)
            left_over = mod(first, run)
            return acc if left_over == 0 else plus_run(count * run, left_over, acc)

        chains = self.chains

        def chain(carried: Sequence[Value]) -> list[Sequence[Value]]:
            return [carried[i : i + len(sums)] for i in range(0, len(carried), len(sums))]

        def along(
            count: Dim, rest: Sequence[Dim], at: tuple[Dim, ...], of: Dim, acc: Sequence[Value]
        ) -> Sequence[Value]:
            done: Dim = 0
            if chains > 1 and not rest and isinstance(count, int) and count >= 2 * chains:
                done = count - count % chains

                def together(var: Dim, carried: Sequence[Value]) -> list[Value]:
                    return [v for i, c in enumerate(chain(carried)) for v in nest((), (*at, of + var * chains + i), c)]

                acc, *others = chain(self.loop("r", count // chains, together, [*acc, *start * (chains - 1)]))
                for other in others:
                    acc = combined(acc, other)
            return self.loop("r", count, lambda var, carried: nest(rest, (*at, of + var), carried), acc, start=done)

        totals = nest(list(dims), (), start)
        return [self.cast(total, elem) for total, (_, elem, _) in zip(totals, sums, strict=True)]


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


def leaf_of(pointer: Value, shape: tuple[Dim, ...]) -> Leaf:
    """A dense row-major tensor behind a pointer."""
    assert isinstance(pointer.type, Ptr)
    return Leaf(pointer, strides_of(shape), shape)
