"""Fewer conversions, and narrower ones.

    convert(convert(x))               ->  convert(x), or x
    convert(cast(x)), a wider element ->  cast(convert(x)); past broadcasts too
    cast(convert(x)), a narrower one  ->  convert(cast(x)); past reductions too
    add(convert(x), convert(y))       ->  convert(add(x, y))
    for: { c = convert(x) }           ->  c = convert(x); for: { }, where x comes from outside
    for %x in A: { c = convert(%x) }  ->  for %x in B: { }, where the loop converts less so

A move is made where it costs less: what `convert.plan` says of conversions (renamed registers are free, shuffles cheap,
shared memory dear), and instructions for the ops that then have more registers to do. Every move makes the sum smaller,
so they end.

Requires: layouts. Ensures: the same values; sums of floats may be added up in another order, as layouts decide anyway.
"""

from __future__ import annotations

from collections.abc import Iterable

from graphfuse.dialects import block, control, gpu
from graphfuse.gpu.analysis.registers import registers_per_thread
from graphfuse.gpu.kernel import layout_of
from graphfuse.gpu.properties import laid_out
from graphfuse.gpu.transforms.assign_layouts import FREE, operand_layout
from graphfuse.gpu.transforms.rematerialise import conversion, instructions, remade_in
from graphfuse.ir.core import Block, Func, Op, Params, Value, attr_int, tile_of, walk
from graphfuse.ir.layout import LANE, REGISTER, WARP, LinearLayout
from graphfuse.ir.passes import passing
from graphfuse.ir.remake import Remaker
from graphfuse.ir.rewrite import Replacement, dead_code, readers, rebuild, use_counts
from graphfuse.ir.types import Tile

ROUNDS = 8
"""At most: each makes room for the next, and real kernels need two or three."""
HOISTED_REGISTERS = 64
"""Most registers of a thread that conversions taken out of a loop may hold as long as it runs."""
OUTSIDE = 1 / 8
"""What a conversion beside a loop counts for against one in it."""
_SHUFFLE_LATENCY, _MEETING = 24.0, 90.0
"""Cycles of a shuffle that others wait for, and of an exchange between warps."""


@passing("gpu", requires=(laid_out,))
def remove_conversions(func: Func) -> Func:
    """Fold, move and hoist the conversions of a function until nothing gets cheaper."""
    for _ in range(ROUNDS):
        if not any(op.kind is gpu.convert_layout for op in func.walk()):
            break
        before = func
        func = dead_code(_Moves(func).run())
        func = _carried_otherwise(_hoisted(func))
        if func is before:
            break
    return func


def converted(value: Value, want: LinearLayout, at: Op | None = None) -> Value:
    """The tile in a layout."""
    if layout_of(tile_of(value)) == want:
        return value
    return gpu.convert_layout.build([value], {"layout": want}, loc=at.loc if at else None).result


def _cycles(value: Value, want: LinearLayout) -> float:
    """Of bringing a tile to a layout; what costs nothing is made again."""
    if tile_of(value).layout == want or (value.op is not None and value.op.kind in FREE):
        return 0.0
    return conversion(value, want).cycles


def _work(op: Op, layout: LinearLayout) -> float:
    """Instructions of all warps for an op whose result, or operand if it is reduced, is held so."""
    each = 1 if op.kind is block.reduce else instructions(op)
    total = float(each * layout.distinct_registers().size(REGISTER) * layout.size(WARP))
    if op.kind is block.reduce:
        kept = layout.slice(attr_int(op, "axis"))
        below = sum(b for _, b in layout.outs[attr_int(op, "axis") + 1 :])
        mask = (1 << layout.outs[attr_int(op, "axis")][1]) - 1 << below
        steps = sum(bool(b & mask) for b in layout.bases(LANE))
        total += steps * (kept.distinct_registers().size(REGISTER) * layout.size(WARP) + _SHUFFLE_LATENCY)
        if across := sum(bool(b & mask) for b in layout.bases(WARP)):
            shared_out = min(across, kept.bases(LANE).count(0))  # lanes that hold the same read some parts each
            read = kept.distinct_registers().size(REGISTER) << across - shared_out
            total += _MEETING + read * layout.size(WARP)
    return total


class _Moves:
    """One sweep, operands first."""

    def __init__(self, func: Func) -> None:
        self.func = func
        self.uses = use_counts(func)
        self.blocks: list[set[Op]] = []
        """Ops of the blocks that are being made, outermost first."""

    def run(self) -> Func:
        """The function with moves made wherever they pay."""
        return rebuild(
            self.func, self._visit, enter=lambda _: self.blocks.append(set()), leave=self._leave, uses=self.uses
        )

    def _leave(self) -> None:
        self.blocks.pop()

    def _visit(self, op: Op) -> Replacement | None:
        self.blocks[-1].add(op)
        if op.kind is gpu.convert_layout:
            return self._folded(op) or self._before(op)
        return self._after(op)

    def _only_here(self, value: Value) -> Op | None:
        """The op of this block whose result nobody else reads."""
        op = value.op
        return op if op in self.blocks[-1] and self.uses.get(value, 1) == 1 else None

    def _folded(self, op: Op) -> Value | None:
        """convert(convert(x)) = convert(x); a tile that is where it is wanted is not moved."""
        (value,), want = op.operands, layout_of(tile_of(op.result))
        if tile_of(value).layout == want:
            return value
        inner = value.op
        if inner is None or inner.kind is not gpu.convert_layout:
            return None
        (source,) = inner.operands
        shared = 0.0 if self._only_here(value) is None else _cycles(source, layout_of(tile_of(value)))
        return converted(source, want, op) if _cycles(source, want) <= _cycles(value, want) + shared else None

    def _before(self, op: Op) -> Value | None:
        """convert(f(x)) = f(convert(x)) where that moves less."""
        want = layout_of(tile_of(op.result))
        inner = self._only_here(op.operands[0])
        wanted = operand_layout(inner, want) if inner and inner.kind not in FREE else None
        if inner is None or wanted is None or inner.kind is gpu.convert_layout:
            return None
        have = layout_of(tile_of(inner.result))
        tiles = {v for v in inner.operands if isinstance(v.type, Tile)}
        before, after = _cycles(inner.result, want), sum(_cycles(v, wanted) for v in tiles)
        if after >= before or after + _work(inner, want) >= before + _work(inner, have):
            return None
        return remade_in(inner, _all_converted(inner.operands, wanted, op), want, op)

    def _after(self, op: Op) -> Value | None:
        """f(convert(x)) = convert(f(x)) where that moves less."""
        if len(op.types) != 1 or op.bodies:
            return None
        sources = [v for v in map(self._converted_only_here, op.operands) if v is not None]
        if not sources:
            return None
        if op.kind is block.reduce:
            return self._reduced_before(op, sources[0])
        if not isinstance(op.result.type, Tile) or op.kind is block.broadcast:
            return None
        have = layout_of(op.result.type)
        if operand_layout(op, have) is None:
            return None
        before, work = self._taken_away(op), _work(op, have)
        best: Value | None = None
        for layout in dict.fromkeys(layout_of(tile_of(v)) for v in sources):
            if (made := self._done_in(op, layout)) is not None:
                out, cycles = made
                after = cycles + _cycles(out, have)
                less = _work(op, layout_of(tile_of(out)))
                if after < before and after + less < before + work:
                    before, work, best = after, less, converted(out, have, op)
        return best

    def _converted_only_here(self, value: Value) -> Value | None:
        """What a value was converted from, if nobody else reads it so."""
        inner = self._only_here(value) if isinstance(value.type, Tile) else None
        return inner.operands[0] if inner and inner.kind is gpu.convert_layout else None

    def _taken_away(self, op: Op) -> float:
        """What the conversions cost that nobody but this op reads."""
        pairs = [(self._converted_only_here(v), v) for v in set(op.operands)]
        return sum(_cycles(s, layout_of(tile_of(v))) for s, v in pairs if s is not None)

    def _done_in(self, op: Op, operand: LinearLayout) -> tuple[Value, float] | None:
        """The op with its operands in a layout, and what they are converted for."""
        plain = {v: s if (s := self._converted_only_here(v)) is not None else v for v in op.operands}
        tiles = {v for v in plain.values() if isinstance(v.type, Tile)}
        operands = _all_converted([plain[v] for v in op.operands], operand, op)
        attrs = {n: a for n, a in op.attrs.items() if n != "layout"}
        out = op.kind.build(operands, attrs, loc=op.loc).result
        layout = tile_of(out).layout
        if layout is None or tile_of(out).shape != tile_of(op.result).shape:
            return None
        return out, sum(_cycles(v, operand) for v in tiles)

    def _reduced_before(self, op: Op, source: Value) -> Value | None:
        have, held = layout_of(tile_of(source)), layout_of(tile_of(op.operands[0]))
        value = out = op.kind.build([source], op.attrs, loc=op.loc).result
        before, after = self._taken_away(op), 0.0
        if isinstance(op.result.type, Tile):
            want = layout_of(op.result.type)
            value, after = converted(out, want, op), _cycles(out, want)
        return value if after < before and after + _work(op, have) < before + _work(op, held) else None


def _all_converted(operands: Iterable[Value], want: LinearLayout, at: Op) -> list[Value]:
    """Tiles in one layout, each converted once; scalars as they are."""
    made: dict[Value, Value] = {}
    for v in operands:
        made[v] = made[v] if v in made else converted(v, want, at) if isinstance(v.type, Tile) else v
    return [made[v] for v in operands]


# out of loops


def _hoisted(func: Func) -> Func:
    loops = [op for op in func.walk() if op.kind in (control.for_, control.while_)]
    if not any(_invariant(op) for op in loops):
        return func
    return _Hoister(func).run()


def _invariant(loop: Op) -> list[Op]:
    """Conversions that a loop makes again and again of one value, for ops that do something else each time.

    Where what follows from the tile does not change either, LLVM would take all that out of the loop with it, which
    may be many more registers: a gather's addresses, of the index of each row.
    """
    inside: set[Value] = {v for body in loop.bodies for v in body.params.values}
    ops = [op for body in loop.bodies for op in walk(body)]
    for op in ops:
        inside.update(op.results, *(b.params.values for b in op.bodies))
    found = {
        op.result: op
        for body in loop.bodies
        for op in body.ops
        if op.kind is gpu.convert_layout and op.operands[0] not in inside
    }
    changing = inside.difference(found)
    for op in ops:
        if changing.isdisjoint(op.operands):
            for v in op.operands:
                found.pop(v, None)
    out: list[Op] = []
    left = HOISTED_REGISTERS
    for op in found.values():
        left -= registers_per_thread(tile_of(op.result))
        out += [op] if left >= 0 else []
    return out


class _Hoister(Remaker):
    """Puts what a loop does not change in front of it."""

    def op(self, op: Op) -> None:
        """An op, and before a loop what it keeps converting."""
        if op.kind in (control.for_, control.while_):
            for inner in _invariant(op):
                self.copy(inner)
        if all(v in self.values for v in op.results) and op.kind is gpu.convert_layout:
            return
        self.copy(op)


# what loops carry


def _carried_otherwise(func: Func) -> Func:
    """Loops that carry tiles in the layout in which they convert least."""
    uses = readers(func)
    changes = {op: found for op in func.walk() if op.kind is control.for_ and (found := _better(op, uses))}
    return dead_code(_Carrier(func, changes).run()) if changes else func


def _better(loop: Op, uses: dict[Value, list[Op]]) -> dict[int, LinearLayout]:
    """For each carried tile that had better have another layout: which."""
    tiles = [i for i, result in enumerate(loop.results) if isinstance(result.type, Tile)]
    best = {i: _best(loop, i, uses) for i in tiles}
    return {i: layout for i, layout in best.items() if layout != layout_of(tile_of(loop.results[i]))}


def _best(loop: Op, i: int, uses: dict[Value, list[Op]]) -> LinearLayout:
    """The layout in which a carried tile is converted least."""
    result, param, last = loop.results[i], loop.body.params.values[1 + i], loop.body.terminator.operands[i]
    readers = [op for op in uses.get(param, ()) if op is not loop.body.terminator]
    turned = last.op is not None and last.op.kind is gpu.convert_layout and len(uses[last]) == 1
    source = last.op.operands[0] if turned and last.op is not None else last
    have = layout_of(tile_of(result))
    wanted, beside = _layouts_read(readers, have), _layouts_read(uses.get(result, ()), have)

    def cycles(carried: LinearLayout) -> float:
        held = gpu.undefined(shape=tile_of(source).shape, elem=tile_of(source).elem, layout=carried).result
        each = sum(_cycles(held, w) for w in wanted) + (0.0 if last == param else _cycles(source, carried))
        once = sum(_cycles(held, w) for w in beside) + _cycles(loop.operands[2 + i], carried)
        return each + OUTSIDE * once

    return min((have, *sorted({*wanted, layout_of(tile_of(source))} - {have}, key=str)), key=cycles)


def _layouts_read(readers: Iterable[Op], have: LinearLayout) -> set[LinearLayout]:
    """What a tile in a layout is converted to, and that layout if it is read as it is."""
    return {layout_of(tile_of(op.result)) if op.kind is gpu.convert_layout else have for op in readers}


class _Carrier(Remaker):
    """Changes the layouts that loops carry tiles in; the folds that follow take out what meets."""

    def __init__(self, func: Func, changes: dict[Op, dict[int, LinearLayout]]) -> None:
        super().__init__(func)
        self.changes = changes

    def op(self, op: Op) -> None:
        """An op, or a loop that carries other layouts."""
        change = self.changes.get(op)
        if change is None:
            self.copy(op)
            return
        lower, upper, *carried = map(self.new, op.operands)
        start = [self._placed(v, change.get(i)) for i, v in enumerate(carried)]
        params = Params((op.body.params.types[0], *(v.type for v in start)), op.body.params.hints)
        body = self._turned(op.body, params, change)
        made = Op(control.for_, (lower, upper, *start), op.attrs, params.types[1:], (body,), op.hints, op.loc)
        self.builder.append(made)
        for i, (old, new) in enumerate(zip(op.results, made.results, strict=True)):
            self.values[old] = self._placed(new, layout_of(tile_of(old)) if i in change else None)

    def _turned(self, old: Block, params: Params, change: dict[int, LinearLayout]) -> Block:
        outer, self.builder = self.builder, type(self.builder)(self.builder.loc)
        for i, (was, now) in enumerate(zip(old.params.values, params.values, strict=True)):
            self.values[was] = self._placed(now, layout_of(tile_of(was)) if i - 1 in change else None)
        for op in old.ops[:-1]:
            self.op(op)
        yielded = [self._placed(self.new(v), change.get(i)) for i, v in enumerate(old.terminator.operands)]
        self.builder.append(Op(control.yield_, tuple(yielded), loc=old.terminator.loc))
        done, self.builder = self.builder.block(params), outer
        return done

    def _placed(self, value: Value, want: LinearLayout | None) -> Value:
        if want is None or tile_of(value).layout == want:
            return value
        return self.builder(gpu.convert_layout, value, layout=want)
