"""Called kernels touch what they were given and nothing else, whatever their IR says.

    graph.call(%x) do (%a, %y, %N) { ... store_view(%y, %at, %v, %left) {strides = [1], limited = [0]} }

stays as it is if every element of the tile is proved to be one of the tensor: `at >= 0` and `left = N - at`. Else it
becomes

    store(%y, %offsets, %v, and(%mask, and(ge(%offsets, 0), lt(%offsets, %size))))

An access by offsets always gets such a mask, and one through `offset` is one of what that began at. A kernel that
writes an operand, or that chooses between pointers, is refused. What kernels promise (`assume`, `nsw`) is to be
forgotten first, so that nothing is concluded from it.

Requires: kernels whose addresses have been worked out (`blockopt/calls.py`). Ensures: nothing outside of tensors and of
program-local memory is read or written; not that a kernel ends.

The proof is one over integers, what runs computes modulo 2^64. Both agree on sums and products that end in a tensor,
but not on what is divided, or compared, on the way: only index arithmetic that stays below 2^62 there has a proof.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from graphfuse.blockgen.dense_views import NoViewError, Numbers, accessed, numbers_of, view_of
from graphfuse.blockgen.index import IndexSpace
from graphfuse.constraints import Constraint, listening
from graphfuse.dialects import block, control, effects, graph
from graphfuse.dialects.call import arguments_of, call_like, function_of
from graphfuse.errors import ArtifactError
from graphfuse.ir.core import (
    Attr,
    Func,
    Op,
    OpDef,
    Params,
    Value,
    attr_dim,
    attr_dims,
    attr_ints,
    attr_number,
    attr_strs,
    tensor_of,
)
from graphfuse.ir.remake import Remaker
from graphfuse.ir.rewrite import Replacement, rebuild
from graphfuse.ir.types import I64, Ptr, Tile
from graphfuse.symbolic import INF, Call, Dim, bounds, exact_div, maximum, product, substitute, sym

_BY_OFFSETS = (block.load, block.store, effects.atomic, effects.atomic_cas)
_VIEWS = (block.load_view, block.store_view)
_POINTERS = (block.offset, block.pointer_cast)
_READS = (*_BY_OFFSETS, *_VIEWS, *_POINTERS, block.pointer_diff, block.address)
MOST_STEP = 1 << 31
"""Of a loop: with more, a counter could pass 2^63."""


def forget_promises(func: Func) -> Func:
    """Nothing is promised any more: of dims by whoever made the function, of numbers by the kernels that it calls."""

    def visit(op: Op) -> Replacement | None:
        if op.kind is not graph.call:
            return None
        return call_like(op, _Forgetful(function_of(op)).run(), attr_dims(op, "grid"), tuple(arguments_of(op).values()))

    attrs = {n: a for n, a in func.attrs.items() if n != "promised"}
    return rebuild(replace(func, attrs=attrs), visit)


def check_loops(func: Func) -> None:
    """Refuse a loop in which an op needs of the dim that counts what is not proved; nothing checks that as it runs."""
    space = IndexSpace(func.ranges)
    names = set(func.ranges)

    def check(op: Op, counters: Mapping[str, Dim]) -> None:
        def hear(c: Constraint) -> None:
            if c.symbols & counters.keys() and not _is_proved(c, counters, space):
                raise ArtifactError(f"{op.kind} cannot be rebuilt from its IR: not proved in a loop: {c}", op.loc)

        with listening(hear):
            op.kind.result_types(op.operands, op.attrs, op.bodies)
        if op.kind is graph.loop:
            name = str(op.attrs["symbol"])
            if name in names:
                raise ArtifactError(f"graph.loop cannot be rebuilt from its IR: {name!r} has another meaning", op.loc)
            names.add(name)
            last = substitute(attr_dim(op, "count"), counters) - 1
            counters = {**counters, name: space.fresh("i", 0, last)}
        for inner in (o for b in op.bodies for o in b.ops if op.kind is not graph.call):
            check(inner, counters)

    for op in func.body.ops:
        check(op, {})


def _is_proved(c: Constraint, counters: Mapping[str, Dim], space: IndexSpace) -> bool:
    a, b = (space.simplify(substitute(d, counters)) for d in (c.a, c.b))
    if c.kind == "at_most":
        return space.nonnegative(b - a)
    if c.kind == "divides":
        return space.nonnegative(a - 1) and exact_div(b, a) is not None
    return a == b or (c.kind == "stretches" and a == 1)


def confine_calls(func: Func) -> Func:
    """Keep every kernel that the function calls inside of its tensors."""
    loops = {str(op.attrs["symbol"]): (0, (1 << 31) - 1) for op in func.walk() if op.kind is graph.loop}
    ranges = {**func.ranges, **loops}

    def visit(op: Op) -> Replacement | None:
        return _confined(op, ranges) if op.kind is graph.call else None

    return rebuild(func, visit)


class _Forgetful(Remaker):
    """Without promises."""

    def op(self, op: Op) -> None:
        if op.kind is block.assume:
            self.values[op.result] = self.new(op.operands[0])
        elif "nsw" in op.attrs:
            made = self.copy(replace(op, attrs={n: a for n, a in op.attrs.items() if n != "nsw"}))
            self.values[op.result] = made.result
        else:
            self.copy(op)


def _confined(op: Op, ranges: Mapping[str, tuple[int, int]]) -> Op:
    called, args = function_of(op), arguments_of(op)
    shapes = [tensor_of(v).shape for v in (*op.operands, *op.results)]
    names = _fresh("elements", len(shapes), args)
    old = called.body.params
    params = Params((*old.types, *(I64 for _ in names)), (*old.hints, *names))
    made = _Confiner(called, op, params, dict(zip(names, shapes, strict=True)), ranges).run()
    return call_like(op, made, attr_dims(op, "grid"), (*args.values(), *map(product, shapes)))


def _fresh(what: str, count: int, taken: Container[str]) -> list[str]:
    numbers = (n for i in itertools.count() if (n := f"{what}{i}") not in taken)
    return list(itertools.islice(numbers, count))


def _divides_much(dim: Dim, ranges: Mapping[str, tuple[int, int]]) -> bool:
    """Whether an argument of a function in `dim` may not be below 2^62."""
    if isinstance(dim, int):
        return False
    calls = [atom for monomial, _ in dim.terms for atom, _ in monomial if isinstance(atom, Call)]
    args = [a for c in calls for a in c.args]
    return any(max(map(abs, bounds(a, ranges))) >= INF or _divides_much(a, ranges) for a in args)


def _refused(op: Op, why: str) -> ArtifactError:
    return ArtifactError(f"kernel {str(op.attrs['name'])!r} cannot be rebuilt from its IR: {why}", op.loc)


class _Confiner(Remaker):
    def __init__(
        self,
        func: Func,
        call: Op,
        params: Params,
        shapes: Mapping[str, tuple[Dim, ...]],
        ranges: Mapping[str, tuple[int, int]],
    ) -> None:
        super().__init__(func)
        self.call, self.params = call, params
        self.values.update(zip(func.params, params.values, strict=False))
        pointers = func.params[: len(shapes)]
        self.shapes = dict(zip(pointers, shapes.values(), strict=True))
        """Of what a pointer begins at, as the caller knows it; of program-local memory, in the kernel's symbols."""
        self.sizes: dict[Value, Dim] = dict(zip(pointers, map(sym, shapes), strict=True))
        """How many elements that has, in the kernel's symbols."""
        self.read_only = set(pointers[: len(call.operands)])
        self.begins: dict[Value, tuple[Value, Value | None]] = {}
        """What other pointers began at, and how many elements further on they are."""
        self.space = IndexSpace(ranges)
        self.reach = dict(ranges)
        """Numeric bounds of symbols and variables."""
        self.numbers: Numbers = numbers_of(func, call, self.space, self._variable)
        for op in func.walk():
            if op.kind is control.for_:
                self.numbers.counter(op)
            if op.kind is block.index and self._wraps(op):
                self.numbers.known[op.result] = self.space.fresh("wrapped", -INF, INF)

    def run(self) -> Func:
        body = self.body(self.func.body, self.params)
        return Func(self.func.name, body, self.func.attrs, self.func.dims)

    def _variable(self, value: Value, low: Dim, high: Dim) -> Dim:
        made = self.space.fresh("v", low, high)
        self.reach[str(made)] = bounds(low, self.reach)[0], bounds(high, self.reach)[1]
        return made

    def _wraps(self, op: Op) -> bool:
        """Whether what is divided, or compared, may be more than 62 bits hold: as it stands, which is what runs."""
        names = attr_strs(op, "names", ())
        inner = dict(zip(names, (self.numbers.dim(v) for v in op.operands), strict=True))
        return self._may_wrap(attr_dim(op, "expr"), inner)

    def _may_wrap(self, dim: Dim, inner: Mapping[str, Dim]) -> bool:
        values = {**arguments_of(self.call), **inner}
        return _divides_much(dim, {name: bounds(d, self.reach) for name, d in values.items()})

    def op(self, op: Op) -> None:
        self.builder.loc = op.loc
        if op.kind in _VIEWS:
            self._view(op)
        elif op.kind in _BY_OFFSETS:
            mask_at = {block.load: 2, effects.atomic_cas: 4}.get(op.kind, 3)
            mask = self.new(op.operands[mask_at]) if len(op.operands) > mask_at else None
            self._by_offsets(op, op.kind, self.new(op.operands[1]), mask, op.operands[2:mask_at], op.attrs)
        elif op.kind in _POINTERS:
            self._pointer(op)
        elif op.kind is block.alloc:
            count = maximum(attr_dim(op, "count"), 0)
            if self._may_wrap(count, {}):
                raise _refused(self.call, f"how much memory it takes: {count}")
            self.values[op.result] = self.builder(block.alloc, elem=op.attrs["elem"], count=count)
            self.sizes[op.result], self.shapes[op.result] = count, (self.numbers.substituted(count),)
        else:
            self._other(op)

    def _other(self, op: Op) -> None:
        if op.kind not in _READS and any(isinstance(v.type, Ptr) for v in (*op.operands, *op.results)):
            raise _refused(self.call, "its pointers are chosen as it runs")
        if op.kind is control.for_ and (step := attr_number(op, "step")) > MOST_STEP:
            raise _refused(self.call, f"expected steps of up to {MOST_STEP}, found {step}")
        self.copy(op)

    def _pointer(self, op: Op) -> None:
        source = op.operands[0]
        began, further = self.begins.get(source, (source, None))
        if op.kind is block.offset:
            by = self.new(op.operands[1])
            further = by if further is None else self.builder(block.add, further, by)
        elif op.result.type != source.type:
            raise _refused(self.call, f"it takes {source.type} for {op.result.type}")
        self.begins[op.result] = began, further
        self.copy(op)

    def _view(self, op: Op) -> None:
        """Keep it where the proof holds, else make it an access by offsets."""
        began, further = self.begins.get(op.operands[0], (op.operands[0], None))
        if further is None and self._is_inside(op, began):
            self._check_written(op, began)
            self.copy(op)
            return
        load, tile = op.kind is block.load_view, accessed(op)
        value = () if load else (op.operands[2],)
        limited = attr_ints(op, "limited", ())
        limits = dict(zip(limited, op.operands[2 + len(value) :], strict=False))  # masks may follow
        at = [self._counted(tile, d) for d in range(len(tile.shape))]
        names = ("base", *(f"i{d}" for d in range(len(at))))
        expr = sum((sym(n) * s for n, s in zip(names[1:], attr_dims(op, "strides"), strict=True)), sym("base"))
        offsets = self.builder(block.index, self.new(op.operands[1]), *at, expr=expr, names=names)
        mask: Value | None = None
        for d, limit in limits.items():
            below = self.builder(block.lt, at[d], self._filled(self.new(limit), at[d]))
            mask = below if mask is None else self.builder(block.and_, mask, below)
        attrs = {n: a for n, a in op.attrs.items() if n in ("other", "cache")}
        self._by_offsets(op, block.load if load else block.store, offsets, mask, value, attrs)

    def _counted(self, tile: Tile, dim: int) -> Value:
        """0, 1, ... along a dim of a tile."""
        size = tile.shape[dim]
        line = self.builder(block.arange, start=0, end=size)
        unit = tuple(size if d == dim else 1 for d in range(len(tile.shape)))
        return self.builder(block.broadcast, self.builder(block.reshape, line, shape=unit), shape=tile.shape)

    def _filled(self, number: Value, like: Value) -> Value:
        return self.builder(block.splat, number, shape=like.type.shape) if isinstance(like.type, Tile) else number

    def _is_inside(self, op: Op, began: Value) -> bool:
        if (shape := self.shapes.get(began)) is None:
            return False
        if any(self._may_wrap(s, {}) for s in attr_dims(op, "strides")):
            return False
        try:
            view = view_of(op, shape, self.numbers, self.space)
        except NoViewError:
            return False
        tile = accessed(op)
        for size, at, k in zip(view.shape, view.start, view.along, strict=True):
            extent = 1 if k is None else tile.shape[k]
            ends = k is not None and k in view.limits  # there it is `size - at`
            if not self.space.nonnegative(at) or not (ends or self.space.nonnegative(size - at - extent)):
                return False
        return True

    def _by_offsets(
        self,
        op: Op,
        kind: OpDef,
        offsets: Value,
        mask: Value | None,
        values: Sequence[Value],
        attrs: Mapping[str, Attr],
    ) -> None:
        began, further = self.begins.get(op.operands[0], (op.operands[0], None))
        if (size := self.sizes.get(began)) is None:
            raise _refused(self.call, "its pointers are chosen as it runs")
        self._check_written(op, began)
        if further is not None:
            offsets = self.builder(block.add, offsets, self._filled(further, offsets))
        end = self._filled(self.builder(block.index, expr=size, names=()), offsets)
        zero = self._filled(self.builder(block.const, value=0, elem=I64), offsets)
        inside = self.builder(block.and_, self.builder(block.ge, offsets, zero), self.builder(block.lt, offsets, end))
        mask = inside if mask is None else self.builder(block.and_, mask, inside)
        made = kind.build((self.new(began), offsets, *map(self.new, values), mask), dict(attrs), loc=op.loc)
        self.values.update(zip(op.results, made.results, strict=True))
        self.builder.append(made)

    def _check_written(self, op: Op, began: Value) -> None:
        if began in self.read_only and op.kind not in (block.load, block.load_view):
            raise _refused(self.call, f"it writes operand {self.func.params.index(began)}")
