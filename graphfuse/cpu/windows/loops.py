"""Rewrite a function whose tiles do not fit in registers.

    %x = load_view(%p, %0) {shape = [128, 128], strides = [128, 1]}
    %y = exp(%x)
    store_view(%q, %0, %y) {strides = [128, 1]}

becomes

    for %i = 0 to 128 step 1:
      for %j = 0 to 128 step 64:
        %x = load_view(%p, 128 i + j) {shape = [1, 64], strides = [128, 1]}
        %y = exp(%x)
        store_view(%q, 128 i + j, %y) {strides = [128, 1]}

Roots (see `plan.py`) become loops, tiles between them are computed window by window. Products update their accumulator
in place where nothing else reads it; what loops carry is memory.

Requires: tiles have no layouts. Ensures: every tile fits in registers, or is read by a product from memory.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence

from graphfuse.blockopt.forms import Forms
from graphfuse.blockopt.limits import Limits
from graphfuse.codegen.arith import compute_elem
from graphfuse.codegen.expand_moves import expand_moves
from graphfuse.cpu.lower_dot import deferrable
from graphfuse.cpu.windows.plan import is_virtual, plan, readable_by_product, tiles
from graphfuse.cpu.windows.sort import LongSort
from graphfuse.cpu.windows.sources import Kept, Sources, is_turned, row_major, swapped
from graphfuse.cpu.windows.together import side_by_side
from graphfuse.cpu.windows.window import Inside, Start, Window, window_shape
from graphfuse.dialects import block, control, moves
from graphfuse.dialects.elementwise import COMBINE, ROUNDED_KINDS, neutral
from graphfuse.ir.core import Attr, Block, Builder, Func, Op, OpDef, Params, Trait, Value, attr_dims, attr_int, tile_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import common_subexpressions, dead_code
from graphfuse.ir.types import BOOL, I64, Scalar, Tile
from graphfuse.symbolic import Dim, divisor, floordiv, maximum, minimum, sym

VECTORS = 4
"""Vectors of a window, of 32-bit elements: enough that arithmetic is not a chain, few enough for long expressions."""
LARGE, LARGE_BY_HAND = 64, 16
"""Tiles of more vectors make a function one of loops; blockgen knows what more than there are registers is good for."""
DEEP = 8
"""Steps of a product without a loop around them: of more, LLVM keeps what rows have in common on the stack."""


@passing("block", needed=True)
def loop_over_windows(func: Func, *, vector_bytes: int = 32, registers: int = 16) -> Func:
    """Loops over windows in place of tiles that do not fit in registers; other functions stay as they are.

    So do those with products of words, which leave their sums in memory.
    """
    if any(op.kind is block.dot_words for op in func.walk()):
        return func
    lanes = max(1, vector_bytes // 4)
    in_memory = deferrable(func)
    most = LARGE_BY_HAND if "assume" in func.attrs else LARGE
    for op in func.walk():
        if any(isinstance(v.type, Tile) and _vectors(v.type, lanes) > most for v in op.results if v not in in_memory):
            func = side_by_side(expand_moves(func))  # elements move through memory
            return dead_code(common_subexpressions(_Maker(func, registers, lanes).run()))
    return func


def _vectors(tile: Tile, lanes: int) -> int:
    return math.prod(tile.shape[:-1]) * -(-(tile.shape[-1] if tile.shape else 1) // lanes)


class _Maker(Sources):
    """Makes a function again, op by op."""

    def __init__(self, func: Func, registers: int, lanes: int) -> None:
        super().__init__(func.ranges)
        self.func, self.lanes, self.plan = func, lanes, plan(func)
        self.rows, self.vectors = (8, 2) if registers >= 32 else (4, 2)
        self.in_place: dict[Value, Kept] = {}
        """Where a product leaves its sums, if that is decided before."""
        self.counters: set[Value] = set()
        """Of the loops over windows that are open."""
        self.masks = Limits(Forms(func))
        self.roots: dict[OpDef, Callable[[Op], None]] = {
            block.reduce: self._reduce, block.arg_reduce: self._arg_reduce, block.scan: self._scan,
            block.dot: self._dot, block.reshape: self._reshape, moves.sort: self._sort,
            control.for_: self._for, control.while_: self._while, control.if_: self._if,
        }  # fmt: skip

    def run(self) -> Func:
        """The whole function."""
        self.ops(self.func.body.ops)
        return Func(self.func.name, self.builder.block(self.func.body.params), self.func.attrs, self.func.dims)

    def ops(self, ops: Sequence[Op]) -> None:
        """Roots as loops, virtual tiles when they are read, the rest as it is."""
        for op in ops:
            self.builder.loc = op.loc
            if is_virtual(op):
                self._virtual_op(op)
            elif (root := self.roots.get(op.kind)) is not None:
                root(op)
            elif op.kind is control.yield_:
                pass  # whoever opened the block hands its values over
            elif any(True for _ in tiles(op.operands)):
                self._write(op)
            else:
                assert not op.bodies, f"no loops over windows for {op.kind}"
                new = op.kind.build([self.scalar(v) for v in op.operands], op.attrs, loc=op.loc)
                self.builder.append(new)
                self.scalars.update(zip(op.results, new.results, strict=True))

    # loops

    def over(self, shape: Sequence[int], window: Sequence[int], body: Callable[[Window], None]) -> None:
        """Run a body for every window of a shape."""

        def level(starts: tuple[Start, ...]) -> None:
            d = len(starts)
            if d == len(shape):
                body(Window(starts, tuple(window)))
            elif shape[d] == window[d]:
                level((*starts, 0))
            else:
                self.loop(shape[d], window[d], lambda i, _: level((*starts, i)) or ())

        level(())

    def loop(
        self, stop: int, step: int, body: Callable[[Value, tuple[Value, ...]], Sequence[Value]],
        carried: Sequence[Value] = (), *, start: int = 0,
    ) -> tuple[Value, ...]:  # fmt: skip
        """A loop over windows, carrying values: without masks where all lanes are inside, then the rest."""
        lower, upper = (self.builder(block.const, value=v, elem=I64) for v in (start, stop))
        counter, code, asked = self._body(step, body, carried)
        asked = [i for i in asked if i.start == counter or isinstance(i.start, int) or i.start in self.counters]
        if asked and not any(op.bodies for op in code.ops):
            whole = self._whole(asked, counter, start, stop, step)
            _, inside, _ = self._body(step, body, carried, asked, counter)
            carried = self.builder.op(control.for_, lower, whole, *carried, step=step, bodies=(inside,)).results
            lower = whole
        return self.builder.op(control.for_, lower, upper, *carried, step=step, bodies=(code,)).results

    def _body(
        self, step: int, body: Callable[[Value, tuple[Value, ...]], Sequence[Value]], carried: Sequence[Value],
        met: Sequence[Inside] = (), counted: Value | None = None,
    ) -> tuple[Value, Block, list[Inside]]:  # fmt: skip
        """The counter and the code of a loop in which `met` holds of `counted`; and what else it asks for."""
        params = Params((I64, *(v.type for v in carried)), ("w", *("" for _ in carried)))
        first, *rest = params.values
        outside = self.asked, self.met
        self.asked = {}
        self.met |= {i._replace(start=first) if i.start == counted else i for i in met}
        self.counters.add(first)
        with self.scope() as inner:
            inner.op(control.yield_, *body(first, tuple(rest)))
            code = inner.block(params)
        self.counters.remove(first)
        asked = list(self.asked)
        self.asked, self.met = outside
        return first, code, asked

    def _whole(self, asked: Sequence[Inside], counter: Value, start: int, stop: int, step: int) -> Value:
        """Where windows no longer are inside of all limits: at the start if one holds for none."""
        ends: dict[Value, None] = {}
        for i in asked:
            if i.start == counter:
                ends[self.position([(i.size - step, -1)], i.limit)] = None
            else:
                room = self.position([(i.start, -1), (i.size, -1)], i.limit)
                expr = stop + (stop - start) * maximum(minimum(sym(self.names[0]), 0), -1)
                ends[self.builder(block.index, room, expr=expr, names=(self.names[0],))] = None
        end = functools.reduce(lambda a, b: self.builder(block.min_, a, b), ends)
        left = minimum(sym(self.names[0]), stop) - start
        expr = start + step * floordiv(maximum(left, 0), step)
        return self.builder(block.index, end, expr=expr, names=(self.names[0],))

    # tiles in memory

    def room(self, shape: Sequence[int], elem: Scalar) -> Kept:
        """Memory for a tile."""
        return Kept(self.builder(block.alloc, elem=elem, count=math.prod(shape)), elem, row_major(shape))

    def fill(self, kept: Kept, value: Value) -> None:
        """Compute a whole tile."""
        tile = tile_of(value)
        self.over(tile.shape, self._window([value]), lambda w: self.store(kept, w, self.at(value, w)))

    def _window(self, values: Sequence[Value], *, turned: bool = False) -> tuple[int, ...]:
        """The window of tiles of one shape that are computed together; `turned` if rows of it go to columns."""
        square = turned or any(self._is_turned(v) for v in values)
        return window_shape(tile_of(values[0]).shape, self.lanes, VECTORS, square=square)

    def _is_turned(self, value: Value) -> bool:
        """Whether rows of it come from columns of something else."""
        if value in self.kept or value.op is None:
            return False
        op = value.op
        if op.kind is block.load_view:
            return is_turned(attr_dims(op, "strides"))
        return op.kind is block.trans or (is_virtual(op) and any(self._is_turned(v) for v in tiles(op.operands)))

    def _virtual_op(self, op: Op) -> None:
        value = op.result
        if tile_of(value).elem == BOOL and (limits := self.masks.least(value)):
            self.limits[value] = [(d, self._emit(limit)) for d, limit in limits]
        if (elem := self.plan.kept.get(value)) is not None:
            kept = self.room(tile_of(value).shape, elem)
            self.fill(kept, value)
            self.kept[value] = kept

    def _emit(self, dim: Dim) -> Value:
        """A dim of what the old function has, as a new value."""
        value = self.masks.forms.emit(dim, scratch := Builder(self.builder.loc))
        for op in scratch.ops:
            made = self.builder.append(op.kind.build([self.scalar(v) for v in op.operands], op.attrs, loc=op.loc))
            self.scalars[op.result] = made.result
        return self.scalar(value)

    def _reshape(self, op: Op) -> None:
        kept = self._in_memory(op.operands[0])
        self.kept[op.result] = Kept(kept.pointer, kept.elem, row_major(tile_of(op.result).shape))

    def _in_memory(self, value: Value, elem: Scalar | None = None) -> Kept:
        """A tile in memory, in its element or another."""
        elem = elem or tile_of(value).elem
        if value in self.kept and self.kept[value].elem == elem:
            return self.kept[value]
        kept = self.room(tile_of(value).shape, elem)
        self.fill(kept, value)
        if elem == tile_of(value).elem:
            self.kept[value] = kept
        return kept

    # roots

    def _write(self, op: Op) -> None:
        """An op on windows: a store, or what returns a tile of what was there."""
        shaped = list(tiles(op.operands))
        shape = tile_of(shaped[0]).shape
        results = {v: self.room(shape, tile_of(v).elem) for v in op.results if self.plan.roots.get(v)}

        def body(w: Window) -> None:
            operands = [self.at(v, w) if isinstance(v.type, Tile) else self.scalar(v) for v in op.operands]
            if op.kind is block.store_view:
                self._store_view(op, w, operands)
                return
            new = self.builder.append(op.kind.build(operands, op.attrs, loc=op.loc))
            for old, made in zip(op.results, new.results, strict=True):
                if old in results:
                    self.store(results[old], w, made)

        turned = op.kind is block.store_view and is_turned(attr_dims(op, "strides"))
        self.over(shape, self._window(shaped, turned=turned), body)
        self.kept.update(results)

    def _sort(self, op: Op) -> None:
        """Whole lines: one along lanes, else as many side by side as a vector has lanes; long ones in parts."""
        shape, axis, count = tile_of(op.operands[0]).shape, attr_int(op, "axis"), attr_int(op, "count")
        part = LARGE_BY_HAND * self.lanes >> len(op.operands) - 1
        if shape[axis] > part and not op.attrs.get("falling"):
            long = LongSort(self, self.loop, op, part, self.lanes)
            for kept, value in zip(long.keys, op.operands, strict=True):
                self.fill(kept, value)
            long.run()
            self.kept.update(zip(op.results, long.keys, strict=True))
            return
        lanes = shape[-1] if shape[-1] % self.lanes else self.lanes
        window = [1] * (len(shape) - 1) + [lanes]
        window[axis] = shape[axis]
        results = [self.room(tile_of(v).shape, tile_of(v).elem) for v in op.results]

        def body(w: Window) -> None:
            new = self.builder.append(op.kind.build([self.at(v, w) for v in op.operands], op.attrs, loc=op.loc))
            first = Window(w.starts, (*w.shape[:axis], count, *w.shape[axis + 1 :]))
            for kept, made in zip(results, new.results, strict=True):
                self.store(kept, first, made)

        self.over(shape, window, body)
        self.kept.update(zip(op.results, results, strict=True))

    def _store_view(self, op: Op, window: Window, operands: list[Value]) -> None:
        """To a view whose columns are contiguous, not its rows, the transposed window is stored."""
        pointer, base, value, *limits = operands
        strides = attr_dims(op, "strides")
        where, limited, here = self.moved(op, window, base, limits)
        perm = swapped(strides, window)
        attrs: dict[str, Attr] = {
            "strides": tuple(strides[p] for p in perm),
            "limited": tuple(perm.index(d) for d in limited),
        }
        new = [pointer, where, self.transposed(value, perm), *here]
        self.builder.append(op.kind.build(new, {**op.attrs, **attrs}, loc=op.loc))

    def _reduce(self, op: Op) -> None:
        """Tiles of partial results that walk along the axis, then a reduction of each; the first of a walk does it."""
        if (walk := self.plan.walks.get(op)) is None:
            return
        xs, axis = [op.operands[0] for op in walk], attr_int(walk[0], "axis")
        kinds = [str(op.attrs["kind"]) for op in walk]
        old = [tile_of(x).elem for x in xs]
        elems = [compute_elem(e) if kind in ROUNDED_KINDS else e for kind, e in zip(kinds, old, strict=True)]
        size, window = tile_of(xs[0]).shape[axis], self._along(xs, axis)

        def parts(outer: Window, at: Start) -> list[Value]:
            got = [self.at(x, outer.insert(axis, at, window[axis])) for x in xs]
            return [self._as(x, elem) for x, elem in zip(got, elems, strict=True)]

        def reduced(outer: Window) -> list[Value]:
            totals = parts(outer, 0) if window[axis] == size else walked(outer)
            out = [self.builder(block.reduce, t, axis=axis, kind=k) for t, k in zip(totals, kinds, strict=True)]
            return [self._as(x, elem) for x, elem in zip(out, old, strict=True)]

        def walked(outer: Window) -> Sequence[Value]:
            def step(at: Value, carried: tuple[Value, ...]) -> list[Value]:
                pairs = zip(kinds, carried, parts(outer, at), strict=True)
                return [self.builder(block.ELEMENTWISE[COMBINE[k]], before, here) for k, before, here in pairs]

            shape = outer.insert(axis, 0, window[axis]).shape
            nothing = [self._nothing(kind, elem, shape) for kind, elem in zip(kinds, elems, strict=True)]
            return self.loop(size, window[axis], step, nothing)

        self._collect(walk, window, axis, reduced)

    def _as(self, x: Value, elem: Scalar) -> Value:
        return x if block.elem_of(x.type) == elem else self.builder(block.cast, x, to=elem)

    def _arg_reduce(self, op: Op) -> None:
        """The extreme of every window and where it is; a later one counts if it is better, NaN the best of all."""
        (x,), axis, kind = op.operands, attr_int(op, "axis"), str(op.attrs["kind"])
        tile = tile_of(x)
        window = self._along([x], axis)
        index = block.elem_of(op.types[0])
        beats = block.ELEMENTWISE["gt" if kind == "max" else "lt"]

        def best(outer: Window, at: Start) -> list[Value]:
            got = self.at(x, outer.insert(axis, at, window[axis]))
            where = self.builder(block.arg_reduce, got, axis=axis, kind=kind, elem=index)
            if at != 0:
                first = self.position([(at, 1)])
                first = first if index == I64 else self.builder(block.cast, first, to=index)
                if isinstance(where.type, Tile):
                    first = self.builder(block.splat, first, shape=where.type.shape)
                where = self.builder(block.add, where, first)
            return [self.builder(block.reduce, got, axis=axis, kind=kind), where]

        def reduced(outer: Window) -> list[Value]:
            def step(at: Start, carried: tuple[Value, ...]) -> list[Value]:
                new = best(outer, at)
                better = self.builder(beats, new[0], carried[0])
                if tile.elem.is_float:
                    is_nan, was_nan = (self.builder(block.ELEMENTWISE["isnan"], v) for v in (new[0], carried[0]))
                    first = self.builder(block.and_, is_nan, self.builder(block.ELEMENTWISE["not"], was_nan))
                    better = self.builder(block.or_, better, first)
                return [self.builder(block.select, better, n, c) for n, c in zip(new, carried, strict=True)]

            first = best(outer, 0)
            return [self.loop(tile.shape[axis], window[axis], step, first, start=window[axis])[1]]

        self._collect([op], window, axis, reduced)

    def _scan(self, op: Op) -> None:
        """Window by window along the axis, with what all windows before came to."""
        (x,), axis, kind = op.operands, attr_int(op, "axis"), str(op.attrs["kind"])
        tile = tile_of(x)
        window = self._along([x], axis)
        kept = self.room(tile.shape, tile.elem)
        combine = block.ELEMENTWISE[COMBINE[kind]]
        size, step = tile.shape[axis], window[axis]

        def scanned(outer: Window) -> None:
            def part(at: Start, before: Value) -> Value:
                if op.attrs.get("reverse", False):
                    at = self.position([(at, -1), (size - step, 1)])
                w = outer.insert(axis, at, step)
                got = self.at(x, w)
                out, total = self._again(op, [got]), self.builder(block.reduce, got, axis=axis, kind=kind)
                self.store(kept, w, self.builder(combine, self._spread(before, axis, w.shape), out))
                return self.builder(combine, before, total)

            nothing = self._nothing(kind, tile.elem, outer.shape)
            self.loop(size, step, lambda at, carried: [part(at, carried[0])], [nothing])

        outer = [(d, w) for i, (d, w) in enumerate(zip(tile.shape, window, strict=True)) if i != axis]
        self.over([d for d, _ in outer], [w for _, w in outer], scanned)
        self.kept[op.result] = kept

    def _nothing(self, kind: str, elem: Scalar, shape: tuple[int, ...]) -> Value:
        """What a reduction begins with."""
        none = self.builder(block.const, value=neutral(kind, elem), elem=elem)
        return self.builder(block.splat, none, shape=shape) if shape else none

    def _spread(self, x: Value, axis: int, shape: tuple[int, ...]) -> Value:
        """A tile, or a number, repeated along an axis that it does not have."""
        if not isinstance(x.type, Tile):
            return self.builder(block.splat, x, shape=shape)
        thin = self.builder(block.reshape, x, shape=(*shape[:axis], 1, *shape[axis + 1 :]))
        return self.builder(block.broadcast, thin, shape=shape)

    def _along(self, values: Sequence[Value], axis: int) -> tuple[int, ...]:
        """A window to walk along an axis with: one element of it, unless it is the contiguous one."""
        window = self._window(values)
        return window if axis == len(window) - 1 else (*window[:axis], 1, *window[axis + 1 :])

    def _collect(
        self, ops: Sequence[Op], window: Sequence[int], axis: int, at: Callable[[Window], Sequence[Value]]
    ) -> None:
        """Keep tiles without the axis, window by window; or the numbers that are left of vectors."""
        results = [op.result for op in ops]
        if not isinstance(ops[0].types[0], Tile):
            self.scalars.update(zip(results, at(Window((), ())), strict=True))
            return
        shape = tile_of(results[0]).shape
        rooms = [self.room(shape, block.elem_of(v.type)) for v in results]

        def body(w: Window) -> None:
            for room, x in zip(rooms, at(w), strict=True):
                self.store(room, w, x)

        self.over(shape, [w for d, w in enumerate(window) if d != axis], body)
        self.kept.update(zip(results, rooms, strict=True))

    def _dot(self, op: Op) -> None:
        """Windows of the result, each the whole sum over k or a part of it, with factors read from memory."""
        a, b, acc = op.operands
        out = tile_of(op.result)
        elem = compute_elem(out.elem)
        factors = [self._factor(op, v, elem) for v in (a, b)]
        kept = self.in_place.get(op.result) or self.room(out.shape, out.elem)
        m, n = out.shape[-2:]
        depth = divisor(tile_of(a).shape[-1], DEEP)
        window = (*(1 for _ in out.shape[:-2]), divisor(m, self.rows), divisor(n, self.lanes * self.vectors))

        def body(w: Window) -> None:
            def step(k: Value, carried: tuple[Value, ...]) -> list[Value]:
                left = factors[0](Window((*w.starts[:-1], k), (*w.shape[:-1], depth)))
                right = factors[1](Window((*w.starts[:-2], k, w.starts[-1]), (*w.shape[:-2], depth, w.shape[-1])))
                return [self._again(op, [left, right, *carried])]

            (total,) = self.loop(tile_of(a).shape[-1], depth, step, [self._matrix(self.at(acc, w))])
            if len(out.shape) > 2:
                total = self.builder(block.reshape, total, shape=w.shape)
            self.store(kept, w, total)

        self.over(out.shape, window, body)
        self.kept[op.result] = kept

    def _matrix(self, tile: Value) -> Value:
        """The one matrix of a batch of one."""
        shape = tile_of(tile).shape
        return tile if len(shape) == 2 else self.builder(block.reshape, tile, shape=shape[-2:])

    def _factor(self, op: Op, value: Value, elem: Scalar) -> Callable[[Window], Value]:
        """How a product loads a window of a factor."""
        source = value.op
        if value not in self.kept and source is not None and readable_by_product(source, op, elem):
            return lambda w: self._factor_view(source, w)
        kept = self._in_memory(value, elem)

        def load(w: Window) -> Value:
            where = self.position(list(zip(w.starts, kept.strides, strict=True)))
            return self.builder(block.load_view, kept.pointer, where, shape=w.shape[-2:], strides=kept.strides[-2:])

        return load

    def _factor_view(self, source: Op, w: Window) -> Value:
        pointer, base, *limits = (self.scalar(v) for v in source.operands)
        where, limited, here = self.moved(source, w, base, limits)
        return self._again(source, [pointer, where, *here], shape=w.shape, limited=limited)

    # structured control flow

    def _for(self, op: Op) -> None:
        lower, upper, *carried = op.operands
        params = op.body.params
        rooms: dict[int, Kept] = {}
        for i, v in enumerate(carried):
            if isinstance(v.type, Tile):
                rooms[i] = self.room(v.type.shape, v.type.elem)
                self.fill(rooms[i], v)
        values = list(params.values[1:])
        yielded = op.body.terminator.operands
        for i, room in rooms.items():
            self.kept[values[i]] = room
            if self._updates(yielded[i], values[i], op.body):
                self.in_place[yielded[i]] = room
        plain = [i for i in range(len(carried)) if i not in rooms]
        new = Params((I64, *(carried[i].type for i in plain)), ("i", *("" for _ in plain)))
        with self.scope() as inner:
            self.scalars[params.values[0]] = new.values[0]
            self.scalars.update((values[i], v) for i, v in zip(plain, new.values[1:], strict=True))
            self.ops(op.body.ops)
            self._hand_over({yielded[i]: (values[i], room) for i, room in rooms.items()})
            inner.op(control.yield_, *(self.scalar(yielded[i]) for i in plain))
            code = inner.block(new)
        self._made(op, [lower, upper, *(carried[i] for i in plain)], plain, rooms, code)

    def _while(self, op: Op) -> None:
        """What the condition hands on lies in memory of its own, unless it is what came in."""
        condition, body = op.bodies
        rooms = {i: self.room(t.shape, t.elem) for i, t in enumerate(op.types) if isinstance(t, Tile)}
        for i, room in rooms.items():
            self.fill(room, op.operands[i])
        handed = condition.terminator.operands[1:]
        came = condition.params.values
        passed = {i: r if handed[i] == came[i] else self.room(tile_of(came[i]).shape, r.elem) for i, r in rooms.items()}
        plain = [i for i in range(len(op.types)) if i not in rooms]

        def block_of(
            code: Block, into: dict[int, Kept], to: dict[int, Kept], values: Sequence[Value], first: int
        ) -> Block:
            new = Params(tuple(op.types[i] for i in plain), tuple("" for _ in plain))
            with self.scope() as inner:
                self.scalars.update((code.params.values[i], v) for i, v in zip(plain, new.values, strict=True))
                self.kept.update((code.params.values[i], room) for i, room in into.items())
                self.ops(code.ops)
                self._hand_over({values[i]: (code.params.values[i], room) for i, room in to.items()})
                lead = [self.scalar(v) for v in code.terminator.operands[:first]]
                inner.op(control.yield_, *lead, *(self.scalar(values[i]) for i in plain))
                return inner.block(new)

        asks = block_of(condition, rooms, passed, handed, 1)
        does = block_of(body, passed, rooms, body.terminator.operands, 0)
        self._made(op, [op.operands[i] for i in plain], plain, passed, asks, does)

    def _updates(self, new: Value, old: Value, body: Block) -> bool:
        """Whether a product may leave what a loop carries where it was: nothing else reads the old value."""
        op = new.op
        if op is None or op.kind is not block.dot or op not in body.ops or self.plan.roots.get(old) != frozenset((op,)):
            return False
        return self._reads_alike(op.operands[2], {old}) and not any(self._reads(v, {old}) for v in op.operands[:2])

    def _reads(self, value: Value, what: set[Value]) -> bool:
        """Whether a window of a value is computed from any of the given tiles."""
        if value in what:
            return True
        if value in self.kept or value in self.plan.kept or value.op is None or not is_virtual(value.op):
            return False
        return any(self._reads(v, what) for v in tiles(value.op.operands))

    def _reads_alike(self, value: Value, what: set[Value]) -> bool:
        """Whether it reads of them nothing but the same window."""
        if value in what or not self._reads(value, what):
            return True
        assert value.op is not None, "it reads something"
        return value.op.has(Trait.ELEMENTWISE) and all(self._reads_alike(v, what) for v in tiles(value.op.operands))

    def _hand_over(self, yielded: dict[Value, tuple[Value, Kept]]) -> None:
        """At the end of a body: all new values are computed before an old one that they read is overwritten."""
        old = {v for v, _ in yielded.values()}
        left = {v: (p, room) for v, (p, room) in yielded.items() if self.kept.get(v) != room}
        for v in left:
            if not self._reads_alike(v, old):
                self._in_memory(v)
        for _, group in itertools.groupby(sorted(left, key=lambda v: tile_of(v).shape), key=lambda v: tile_of(v).shape):
            together = list(group)

            def body(w: Window, together: list[Value] = together) -> None:
                new = [self.at(v, w) for v in together]
                for v, tile in zip(together, new, strict=True):
                    self.store(left[v][1], w, tile)

            self.over(tile_of(together[0]).shape, self._window(together), body)

    def _if(self, op: Op) -> None:
        rooms = {i: self.room(t.shape, t.elem) for i, t in enumerate(op.types) if isinstance(t, Tile)}
        plain = [i for i in range(len(op.types)) if i not in rooms]
        bodies: list[Block] = []
        for body in op.bodies:
            with self.scope() as inner:
                self.ops(body.ops)
                yielded = body.terminator.operands
                for i, room in rooms.items():
                    self.fill(room, yielded[i])
                inner.op(control.yield_, *(self.scalar(yielded[i]) for i in plain))
                bodies.append(inner.block(Params(())))
        self._made(op, op.operands, plain, rooms, *bodies)

    def _made(
        self, op: Op, operands: Sequence[Value], plain: Sequence[int], rooms: Mapping[int, Kept], *bodies: Block
    ) -> None:
        """The op again: what is no tile is its result, tiles are in their rooms."""
        made = op.kind.build([self.scalar(v) for v in operands], op.attrs, bodies=bodies, loc=self.builder.loc)
        self.builder.append(made)
        self.scalars.update((op.results[i], v) for i, v in zip(plain, made.results, strict=True))
        self.kept.update((op.results[i], room) for i, room in rooms.items())
