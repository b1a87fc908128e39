"""Emits calls of hand-written kernels, with the elementwise work around them inside.

    store_view(%c, %base, %acc, %m, %n)          epilogue: the tile is what `%c` would hold, so the work goes on with it
    %x = load_view(%a, %base, %m, %k)            prologue: the tile is what computing `%a` there gives

Both need all accesses through a pointer to be views of its tensor (`dense_views.py`): then every other operand of the
work can be read at the same index. That a result is stored once, or whole, need not be proved: what the kernel stores
last is what counts with and without the work, and what it leaves out has no value either way. A kernel that reads a
result back, adds to it or scatters it is left alone, and the ledger has the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from graphfuse.blockgen.dense_views import NoViewError, Numbers, View, numbers_of, view_of
from graphfuse.blockgen.evaluate import Lane
from graphfuse.blockgen.index import Index, IndexSpace, reshape_index
from graphfuse.blockgen.kernel import Kernel
from graphfuse.blockgen.movement import shape_of
from graphfuse.dialects import block, control, graph
from graphfuse.dialects.call import function_of
from graphfuse.ir.core import (
    Attr,
    Block,
    Func,
    Op,
    OpDef,
    Params,
    Value,
    attr_dim,
    attr_dims,
    attr_number,
    attr_strs,
    dims_of,
    made_of,
    tensor_of,
    tile_of,
    walk,
)
from graphfuse.ir.types import I64, Ptr, Scalar, Tile
from graphfuse.symbolic import INF, Dim, substitute, sym, symbols
from graphfuse.targets.profiles.cpus import CoreCosts

# whether work may move in


def why_not_graft(ranges: Mapping[str, tuple[int, int]], *, copies_tiles: bool = False) -> Callable[..., str | None]:
    """Whether elementwise work may be done inside a called kernel: see `fusion.regions.rules.WhyNotGraft`.

    `copies_tiles`: products get their operands copied as they are in memory.
    """

    def why(call: Op, index: int, *, before: bool) -> str | None:
        if before and copies_tiles and _feeds_product(call, index):
            return "a product of the kernel reads it, which copies tiles as they are in memory"
        if before:
            return _why_not(call, index, ranges, block.load_view)
        return _why_not(call, len(call.operands) + index, ranges, block.store_view)

    return why


def _feeds_product(call: Op, index: int) -> bool:
    """Whether a tile of the operand is an operand of a dot as it is."""
    loaded = {op.result for op in walk(call.body) if op.types and call.body.params.values[index] in op.operands}
    return any(op.kind is block.dot and not loaded.isdisjoint(op.operands[:2]) for op in walk(call.body))


_DOES = {
    block.load_view: "loads from", block.load: "gathers from",
    block.store_view: "stores to", block.store: "scatters to",
}  # fmt: skip


def _why_not(call: Op, position: int, ranges: Mapping[str, tuple[int, int]], kind: OpDef) -> str | None:
    """Every access through the pointer is a view of the tensor and of this kind, and there is one."""
    func = function_of(call)
    scalars = [t for t in func.body.params.types if isinstance(t, Scalar)]
    if len(attr_dims(call, "grid")) != 1 or any(t != I64 for t in scalars):
        return "its addresses are not worked out"
    pointer = func.params[position]
    tensors = [*(tensor_of(v) for v in call.operands), *(tensor_of(v) for v in call.results)]
    space = IndexSpace(ranges)
    numbers = numbers_of(func, call, space, lambda _, low, high: space.fresh("v", low, high))
    accesses = [op for op in _in_order(func.body, numbers) if pointer in op.operands]
    for op in accesses:
        if op.kind is not kind:
            return f"the kernel {_DOES.get(op.kind, f'hands to {op.kind.name}')} it"
        try:
            view_of(op, tensors[position].shape, numbers, space)
        except NoViewError as e:
            return f"the kernel {_DOES[kind]} other tiles than those of the tensor: {e}"
    return None if accesses else f"the kernel never {_DOES[kind]} it"


def _in_order(body: Block, numbers: Numbers) -> Iterator[Op]:
    """Every op, the bounds of a loop's counter noted before its body."""
    for op in body.ops:
        if op.kind is control.for_:
            numbers.counter(op)
        yield op
        for inner in op.bodies:
            yield from _in_order(inner, numbers)


# emission


def emit(kernel: Kernel) -> Func:
    """The called kernel, with the rest of the region computed where it stores and loads."""
    (call,) = (op for op in kernel.body.ops if op.kind is graph.call)
    return _Emitter(kernel, call).func()


class _Emitter:
    """Copies the called function into the region's; `values` are new for old."""

    def __init__(self, kernel: Kernel, call: Op) -> None:
        self.kernel, self.ev, self.call = kernel, kernel.ev, call
        self.called = function_of(call)
        self.values: dict[Value, Value] = {}
        self.numbers = numbers_of(self.called, call, kernel.space, self._variable)
        self.computed: dict[Value, Value] = {}
        """Pointers of the function to operands that the region computes."""
        self.grafted: dict[Value, Value] = {}
        """Pointers of the function to results that the region works on."""

    def func(self) -> Func:
        """The function of the region."""
        kernel, call = self.kernel, self.call
        inputs = dict(zip(kernel.body.params.values, kernel.params.values, strict=False))
        outputs = dict(zip(kernel.outputs, kernel.params.values[len(inputs) :], strict=False))
        pointers = iter(v for v in self.called.params if isinstance(v.type, Ptr))
        for v in call.operands:
            pointer = next(pointers)
            if v in inputs:
                self.values[pointer] = inputs[v]
            else:
                self.computed[pointer] = v
        read = {v for op in kernel.body.ops[:-1] for v in op.operands}
        for v in call.results:
            pointer = next(pointers)
            if v in read:
                self.grafted[pointer] = v
            else:
                self.values[pointer] = outputs[v]
        self._ops(self.called.body.ops[:-1])
        (grid,) = attr_dims(call, "grid")
        attrs: dict[str, Attr] = {n: a for n, a in self.called.attrs.items() if n in block.LAUNCH_ATTRS}
        if "axes" in self.called.attrs:
            attrs["axes"] = tuple(self.numbers.substituted(d) for d in dims_of(self.called.attrs["axes"]))
        return kernel.finish(grid, _work(self.called, self.numbers, kernel.machine.core), attrs)

    # numbers

    def _variable(self, value: Value, low: Dim, high: Dim) -> Dim:
        """A scalar of the function that is no arithmetic."""
        if value.op is not None and value.op.kind is block.program_id and value not in self.values:
            self.values[value] = self.ev.emit(block.program_id)
        return self.ev.bind(value.hint or "v", low, high, self.values[value])

    def _new(self, value: Value) -> Value:
        """What stands for a value."""
        if value not in self.values and value.type == I64:
            return self.ev.index(self.numbers.dim(value))
        return self.values[value]

    # ops

    def _ops(self, ops: Sequence[Op]) -> None:
        for op in ops:
            self.ev.builder.loc = op.loc
            self._op(op)

    def _op(self, op: Op) -> None:
        if op.kind is block.program_id:
            self.values[op.result] = self.ev.emit(block.program_id)
        elif op.kind in (block.index, block.const) and op.result.type == I64:
            return  # made where it is read
        elif op.kind is block.store_view and op.operands[0] in self.grafted:
            self._store(op)
        elif op.kind is block.load_view and op.operands[0] in self.computed:
            self._load(op)
        else:
            self._copy(op)

    def _copy(self, op: Op) -> None:
        operands = [self._new(v) for v in op.operands]
        attrs = dict(op.attrs)
        if "strides" in attrs:
            attrs["strides"] = tuple(self.numbers.substituted(s) for s in attr_dims(op, "strides"))
        if "count" in attrs:
            attrs["count"] = self.numbers.substituted(attr_dim(op, "count"))
        if op.kind is block.index:  # of tiles
            fresh = [str(self.kernel.space.fresh("t", -INF, INF)) for _ in op.operands]
            inner = dict(zip(attr_strs(op, "names"), map(sym, fresh), strict=True))
            expr = substitute(attr_dim(op, "expr"), {**self.numbers.arguments, **inner})
            attrs |= {"names": tuple(fresh), "expr": expr}
        bodies = tuple(self._body(b, op) for b in op.bodies)
        made = self.ev.builder.append(Op(op.kind, tuple(operands), attrs, op.types, bodies, op.hints, op.loc))
        self.values.update(zip(op.results, made.results, strict=True))

    def _body(self, old: Block, owner: Op) -> Block:
        params = Params(old.params.types, old.params.hints)
        self.values.update(zip(old.params.values, params.values, strict=True))

        def fill() -> list[Value]:
            if owner.kind is control.for_:
                self.numbers.counter(owner)
            self._ops(old.ops[:-1])
            return [self._new(v) for v in old.terminator.operands]

        return self.ev.body(params, fill)

    # grafts

    def _lanes(self, view: View, tile: Sequence[int]) -> tuple[list[Lane], Index]:
        """A lane for each dim of the tile, and the tensor's index (as `view.shape` has it) in terms of them."""
        lanes: list[Lane] = []
        for k, n in enumerate(tile):
            limit = view.limits.get(k)
            var = self.kernel.space.fresh("l", 0, n - 1 if limit is None else limit - 1)
            lanes.append(Lane(str(var), n, limit, bounded=limit is not None))
        index = [at if k is None else at + sym(lanes[k].name) for at, k in zip(view.start, view.along, strict=True)]
        return lanes, tuple(index)

    def _store(self, op: Op) -> None:
        """Instead of storing the tile, compute the outputs from it and store them."""
        kernel, ev, space = self.kernel, self.ev, self.kernel.space
        result, tile = self.grafted[op.operands[0]], self._new(op.operands[2])
        view = view_of(op, shape_of(result), self.numbers, space)
        lanes, index = self._lanes(view, tile_of(tile).shape)
        position = space.position(tuple(index), view.shape)
        with ev.lanes_as(*lanes):
            ev.tiles[result] = (position, tile)
            kernel.store_outputs(index, view.shape, [v for v in kernel.outputs if result in made_of(v)])
            del ev.tiles[result]

    def _load(self, op: Op) -> None:
        """Instead of loading the tile, compute it; elements that the mask leaves out are what they were."""
        ev, space = self.ev, self.kernel.space
        value, tile = self.computed[op.operands[0]], tile_of(op.result)
        view = view_of(op, shape_of(value), self.numbers, space)
        lanes, index = self._lanes(view, tile.shape)
        with ev.lanes_as(*lanes):
            where = reshape_index(index, view.shape, shape_of(value), space)
            made = ev.shaped(ev.value(value, where), tile.shape)
            if (live := ev.live_lanes()) is not None:
                other = ev.const(attr_number(op, "other"), tile.elem, tile.shape)
                made = ev.emit(block.select, live, made, other)
        self.values[op.result] = made


def _work(func: Func, numbers: Numbers, core: CoreCosts) -> Dim:
    """An estimate of one program's time on a CPU, in nanoseconds: loops count as often as they run, branches once."""

    def block_ns(body: Block) -> Dim:
        total: Dim = 0
        for op in body.ops:
            inner: Dim = 0
            for b in op.bodies:
                inner = inner + block_ns(b)
            if op.kind is control.for_:
                low, high = (numbers.dim(v) for v in op.operands[:2])
                trips = high - low
                inner = inner * trips if _is_fixed(trips, numbers) else inner * TYPICAL_TRIPS
            total = total + inner + _op_ns(op, core)
        return total

    return block_ns(func.body) + 1


TYPICAL_TRIPS = 16
"""Of a loop whose trips only the call knows."""


def _is_fixed(dim: Dim, numbers: Numbers) -> bool:
    return symbols(dim).isdisjoint(numbers.space.var_bounds)


def _op_ns(op: Op, core: CoreCosts) -> int:
    if op.kind is block.dot:
        depth = tile_of(op.operands[0]).shape[-1]
        return round(tile_of(op.result).elements * depth * core.product_ns)
    tiles = [t for t in (*op.types, *(v.type for v in op.operands)) if isinstance(t, Tile)]
    return round(max((t.elements for t in tiles), default=0) * core.tile_ns)
