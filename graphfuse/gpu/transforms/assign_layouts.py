"""Give every tile a layout, and insert conversions where an op needs another one than its operand has.

Ops with an opinion are seeds: products want the layout of their instruction, memory ops want each warp to touch
adjacent addresses. Seeds speak in order of importance, and what they say spreads along ops that keep elements in their
place (elementwise, broadcasts, transpositions, reductions, loops) until it meets a value that has a layout already.
Then every op is rebuilt, and operands with another layout than the op wants are converted. What need not be moved
because it is cheap to make again is `rematerialise`'s to say.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from graphfuse.dialects import block, control, effects, gpu, moves
from graphfuse.dialects.elementwise import DEAR_KINDS
from graphfuse.dialects.gpu import ROWS_ACROSS
from graphfuse.gpu.alignment import pointer_alignments
from graphfuse.gpu.analysis.axis_facts import AxisInfo
from graphfuse.gpu.analysis.axis_info import Facts, access_info, axis_info
from graphfuse.gpu.kernel import WARP_SIZE
from graphfuse.gpu.transforms import code_layouts, dot_layouts
from graphfuse.gpu.transforms.scan_layouts import owners, scan_layout
from graphfuse.ir.core import Attr, Block, Func, Op, Params, Trait, Value, attr_dims, attr_int, attr_ints, tile_of
from graphfuse.ir.layout import LANE, REGISTER, WARP, LinearLayout, tile_outs
from graphfuse.ir.layout_families import Blocked
from graphfuse.ir.passes import passing
from graphfuse.ir.remake import Remaker
from graphfuse.ir.rewrite import readers
from graphfuse.ir.types import Tile, Type

VECTOR_BYTES = 16
"""Of one thread's access at most."""
SHORT_ROW_BYTES, FEW_VECTORS = 48, 4
"""From one row to the next that is reduced and not stored, and its vectors: a thread has as much of it as it has
elements, which caches have when it reads the next one, and lanes exchange few."""
LOOPS = (control.for_, control.while_)
ATOMICS = (effects.atomic, effects.atomic_cas)
FREE = (block.const, block.arange, block.splat)
"""Ops whose result costs nothing in any layout."""


@passing("gpu", needed=True)
def assign_layouts(func: Func) -> Func:
    """Layouts for `func.attrs["warps"]` warps (default 4). A function whose tiles have layouts keeps them."""
    if all(t.layout for op in func.walk() for t in op.types if isinstance(t, Tile)):
        return func
    wanted = _Wanted(func, attr_int(func, "warps", 4), axis_info(func, pointer_alignments(func)))
    wanted.settle()
    return _Typer(func, wanted.layouts).run()


@dataclass(frozen=True, slots=True)
class Seed:
    """A value and the layout an op would like it to have; higher weights speak first."""

    weight: float
    value: Value
    layout: LinearLayout


class _Wanted:
    """Decides the layout of every tile value."""

    def __init__(self, func: Func, warps: int, facts: Facts) -> None:
        self.func, self.warps, self.facts = func, warps, facts
        self.layouts: dict[Value, LinearLayout] = {}
        self.users = readers(func)
        self.loops: dict[Params, Op] = {}
        self.yields: dict[Op, Op] = {}
        for op in func.walk():
            for body in op.bodies:
                self.loops[body.params] = op
                self.yields[body.terminator] = op

    def settle(self) -> None:
        """Let the seeds speak, then give what nobody spoke for a default."""
        for op in self.func.walk():
            for v in op.results:
                if isinstance(v.type, Tile) and v.type.layout is not None:
                    self._spread(v, v.type.layout)
        seeds = sorted(self._seeds(), key=lambda s: -s.weight)
        for seed in seeds:
            if seed.weight == math.inf:
                self._spread(seed.value, seed.layout)
        self._operands_in_shared_memory()
        for seed in seeds:
            self._spread(seed.value, seed.layout)
        for op in self.func.walk():
            for v in (*op.operands, *op.results):
                if isinstance(v.type, Tile) and v not in self.layouts:
                    self._spread(v, self._repeated(v) or default_layout(v.type, self.warps))

    def _repeated(self, value: Value) -> LinearLayout | None:
        """Of a tile whose elements stand side by side a few times: the copies in registers of who has the element."""
        op = value.op
        if op is None or op.kind is not block.broadcast or op.operands[0] not in self.layouts:
            return None
        source, layout = tile_of(op.operands[0]).padded_shape, self.layouts[op.operands[0]]
        grown = [d for d, (a, b) in enumerate(zip(source, tile_of(value).padded_shape, strict=True)) if a != b]
        return _side_by_side(layout, grown[0]) if len(grown) == 1 and tile_of(value).shape[grown[0]] == 2 else None

    def _seeds(self) -> Iterator[Seed]:
        """What ops would like, in the order of the text."""
        for op in self.func.walk():
            if op.kind is block.dot:
                wanted = dot_layouts.accumulator_layout(op, self.warps, dot_layouts.reached(op.result, self.users))
                yield Seed(math.inf, op.result, wanted)
            elif op.kind is block.dot_codes:
                yield from map(partial(Seed, math.inf), op.operands, code_layouts.layouts(op, self.warps))
            elif op.kind is block.scan:
                yield Seed(math.inf, op.result, self._scanned(op))
            elif op.kind in (block.load, block.load_view):
                yield from self._memory_seed(op, op.result, 1.0)
            elif op.kind in (block.store, block.store_view, *ATOMICS):
                yield from self._memory_seed(op, op.operands[2], 0.9)

    def _scanned(self, op: Op) -> LinearLayout:
        """With vectors as wide as memory has them; of steps that are dear, a thread does as few as can be."""
        t, axis = tile_of(op.result), attr_int(op, "axis")
        shape = t.padded_shape
        if op.attrs["kind"] in DEAR_KINDS and axis < len(shape) - 1:
            return scan_layout(shape, axis, 1, self.warps)
        width = min(shape[-1], VECTOR_BYTES // t.elem.bytes)
        width = max(1, min(width, math.prod(shape) // (WARP_SIZE * self.warps)))
        return scan_layout(shape, axis, width, self.warps)

    def _operands_in_shared_memory(self) -> None:
        """What products read from shared memory, any thread can read: in the layout that the product needs."""
        for op in self.func.walk():
            for i in range(2 if op.kind is block.dot else 0):
                wanted = dot_layouts.operand_layout(op, i, self.layouts[op.result], shared=True)
                if wanted and dot_layouts.comes_from_shared_memory(op.operands[i]):
                    self._spread(op.operands[i], wanted)

    def _memory_seed(self, op: Op, value: Value, factor: float) -> Iterator[Seed]:
        t = value.type
        if isinstance(t, Tile):
            weight = t.elements * t.elem.bytes * factor
            if op.kind is block.load and (_is_repeated(self.facts[op.operands[1]]) or self._is_outvoted(op, t)):
                weight = 0.0
            yield Seed(weight, value, coalesced(self.func, op, t, self.warps, self.facts))

    def _is_outvoted(self, op: Op, type_: Tile) -> bool:
        """Whether no two elements of a load are known to be neighbours, and most accesses of such tiles have some."""
        if max(self.facts[op.operands[1]].contiguity) > 1:
            return False
        vectors = self._vectors[type_.shape]
        return 2 * sum(vectors) > len(vectors)

    @functools.cached_property
    def _vectors(self) -> Mapping[tuple[int, ...], list[bool]]:
        """By the shape of a tile: of each access, whether neighbours are known to be."""
        found: dict[tuple[int, ...], list[bool]] = {}
        for op in self.func.walk():
            if op.kind in (block.load, block.load_view, block.store, block.store_view):
                t = (op.operands[2] if op.kind in (block.store, block.store_view) else op.result).type
                if isinstance(t, Tile):
                    is_vector = max(access_info(self.func, op, self.facts).contiguity) > 1
                    found.setdefault(t.shape, []).append(is_vector)
        return found

    # spreading

    def _spread(self, start: Value, layout: LinearLayout) -> None:
        stack = [(start, layout)]
        while stack:
            value, wanted = stack.pop()
            if value in self.layouts or not isinstance(value.type, Tile):
                continue
            self.layouts[value] = wanted
            stack += self._neighbours(value, wanted)

    def _neighbours(self, value: Value, layout: LinearLayout) -> Iterator[tuple[Value, LinearLayout]]:
        """Values that would best have a layout that follows from this one's."""
        owner = value.owner
        if isinstance(owner, Op):
            yield from self._operands(owner, value, layout)
            if owner.kind is moves.sort:
                yield from ((v, layout) for v in owner.results)
        elif owner in self.loops and (loop := self.loops[owner]).kind in LOOPS:
            first = 1 if loop.kind is control.for_ else 0
            yield from self._loop(loop, value.index - first, layout)
        for op in self.users.get(value, ()):
            yield from self._user(op, value, layout)

    def _loop(self, loop: Op, i: int, layout: LinearLayout) -> Iterator[tuple[Value, LinearLayout]]:
        *head, body = loop.bodies
        ahead, counters = (2, 1) if loop.kind is control.for_ else (0, 0)
        carried = [loop.results[i], loop.operands[ahead + i]]
        for condition in head:
            carried += [condition.params.values[i], condition.terminator.operands[1 + i]]
        carried += [body.params.values[counters + i], body.terminator.operands[i]]
        yield from ((v, layout) for v in carried)

    def _operands(self, op: Op, value: Value, layout: LinearLayout) -> Iterator[tuple[Value, LinearLayout]]:
        """From a result to the operands."""
        wanted = layout if op.kind in (block.load, block.scan, *ATOMICS) else operand_layout(op, layout)
        if wanted is not None:
            yield from ((v, wanted) for v in op.operands)
        elif op.kind in LOOPS:
            yield from self._loop(op, value.index, layout)
        elif op.kind is control.if_:
            yield from ((b.terminator.operands[value.index], layout) for b in op.bodies)
        elif op.kind in (block.dot, block.dot_codes):
            yield op.operands[2], layout

    def _user(self, op: Op, value: Value, layout: LinearLayout) -> Iterator[tuple[Value, LinearLayout]]:
        """From an operand to results and to the other operands."""
        if op.has(Trait.ELEMENTWISE) or op.kind in (block.index, block.load, block.store, effects.print_, *ATOMICS):
            yield from ((v, layout) for v in (*op.results, *op.operands) if _same_shape(v.type, value.type))
        elif op.kind is block.trans:
            yield op.result, layout.transpose(attr_ints(op, "perm"))
        elif op.kind is block.reshape and _reshapes(op):
            yield op.result, layout.reshape(tile_of(op.result).padded_shape)
        elif op.kind is block.reduce and isinstance(op.result.type, Tile):
            if not _is_across_warps(layout, attr_int(op, "axis")):
                yield op.result, layout.slice(attr_int(op, "axis"))
        elif op.kind in LOOPS:
            first = 2 if op.kind is control.for_ else 0
            yield from self._loop(op, op.operands.index(value) - first, layout)
        elif op.kind is control.yield_ and op in self.yields:
            owner = self.yields[op]
            i = op.operands.index(value) - yields_before(owner, op)
            yield owner.results[i], layout
            if owner.kind in LOOPS:
                yield from self._loop(owner, i, layout)
        elif op.kind in (block.dot, block.dot_codes) and value == op.operands[2]:
            yield op.result, layout


def _is_across_warps(layout: LinearLayout, axis: int) -> bool:
    """Whether warps alone tell apart what is reduced, four or more: if each had all results, all would read all."""
    bits = layout.outs[axis][1]
    others = (v[axis] for name in (REGISTER, LANE) for v in layout.vectors(name))
    return bits > 1 and not any(others) and sum(v[axis] != 0 for v in layout.vectors(WARP)) == bits


def _stacked(result: LinearLayout, axis: int, operand: Tile) -> LinearLayout:
    """The layout of an operand whose results are where they are wanted: each thread has all that it adds up."""
    return _with_more_registers(result, sum(b for _, b in result.outs[axis:]), operand.padded_shape)


def yields_before(owner: Op, terminator: Op) -> int:
    """How many values a body yields ahead of its op's results: the bool of a condition."""
    return 1 if owner.kind is control.while_ and owner.bodies[0].terminator is terminator else 0


# layouts


def _is_repeated(offsets: AxisInfo) -> bool:
    """Whether neighbours are read from one place: vectors of what else is read have these elements once as well."""
    return max(offsets.contiguity) == 1 < max(offsets.constancy)


def default_layout(type_: Tile, warps: int) -> LinearLayout:
    """A layout for a tile that nobody has an opinion of: rows along lanes."""
    return blocked(type_.padded_shape, tuple(reversed(range(len(type_.shape)))), 1, warps)


def coalesced(func: Func, op: Op, type_: Tile, warps: int, facts: Facts) -> LinearLayout:
    """The layout in which warps touch adjacent addresses, in vectors as wide as facts and size allow."""
    info = access_info(func, op, facts)
    rank = len(type_.shape)
    order = sorted(range(rank), key=lambda d: (-info.contiguity[d], -d))
    fast = order[0]
    width = info.vector(fast, type_.elem.bytes)
    threads = WARP_SIZE * warps
    most = max(1, math.prod(type_.padded_shape) // threads)
    width = min(width, VECTOR_BYTES // type_.elem.bytes or 1, type_.padded_shape[fast])
    if most < width:  # rather idle threads than narrow accesses, but for what the smallest access is
        width = max(most, min(width, max(1, 4 // type_.elem.bytes)))
    outer, extent = tuple(order), type_.padded_shape[fast]
    # a row stays within a warp as far as there are rows for the warps
    if _is_reduced(func, type_, fast) and not func.attrs.get(ROWS_ACROSS, False):
        outer = tuple(reversed(order))
        if FEW_VECTORS * width <= extent and _has_short_rows(op, type_, fast) and not _is_stored(func, type_):
            width = max(width, min(most, extent))
    return blocked(type_.padded_shape, tuple(order), width, warps, outer)


def _has_short_rows(op: Op, type_: Tile, axis: int) -> bool:
    """Whether a tile of two dims has its rows side by side in memory, few bytes each."""
    if op.kind is not block.load_view or len(type_.shape) != 2:
        return False
    pitch = attr_dims(op, "strides")[1 - axis]
    return isinstance(pitch, int) and 0 < pitch * type_.elem.bytes <= SHORT_ROW_BYTES


def _is_stored(func: Func, type_: Tile) -> bool:
    """Whether a tile of this shape is stored."""
    return any(_same_shape(op.operands[2].type, type_) for op in _stores(func))


@functools.lru_cache(maxsize=1)
def _stores(func: Func) -> tuple[Op, ...]:
    return tuple(op for op in func.walk() if op.kind in (block.store, block.store_view, *ATOMICS))


def _is_reduced(func: Func, type_: Tile, axis: int) -> bool:
    """Whether a tile of this shape is reduced along an axis."""
    return any(attr_int(op, "axis") == axis and _same_shape(op.operands[0].type, type_) for op in _reductions(func))


@functools.lru_cache(maxsize=1)
def _reductions(func: Func) -> tuple[Op, ...]:
    """Every access asks for them."""
    return tuple(op for op in func.walk() if op.kind is block.reduce)


def blocked(
    shape: Sequence[int], order: Sequence[int], width: int, warps: int, outer: Sequence[int] = ()
) -> LinearLayout:
    """`width` elements of the fastest dim per thread, then lanes along `order`, then warps; the rest in registers.

    Warps go along `outer`, which is `order` if it is not given.
    """
    rank = len(shape)
    per_thread, lanes, groups = [1] * rank, [1] * rank, [1] * rank
    per_thread[order[0]] = min(width, shape[order[0]])
    left = [n // p for n, p in zip(shape, per_thread, strict=True)]
    for sizes, count, dims in ((lanes, WARP_SIZE, order), (groups, warps, outer or order)):
        for d in dims:
            sizes[d] = min(left[d], count)
            left[d] //= sizes[d]
            count //= sizes[d]
        sizes[order[-1]] *= count  # more threads than elements: copies
    return Blocked(tuple(per_thread), tuple(lanes), tuple(groups), tuple(order)).linear(shape)


def project(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """`layout` without what differs along dims that have size 1 in `shape`."""
    return flattened(layout, shape).distinct_registers()


def flattened(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """As `project`, with the same registers: what differed becomes copies."""
    for d, (n, have) in enumerate(zip(shape, layout.shape, strict=True)):
        if n != have:
            layout = layout.reduce(d).expand(d)
    return layout


def _side_by_side(layout: LinearLayout, axis: int) -> LinearLayout:
    """A layout with a dim of 1 made one of 2, which the lowest bit of the registers moves along."""
    shape = tuple(2 if d == axis else n for d, n in enumerate(layout.shape))
    return _with_more_registers(layout, sum(b for _, b in layout.outs[axis + 1 :]), shape)


def _with_more_registers(layout: LinearLayout, below: int, shape: Sequence[int]) -> LinearLayout:
    """A layout of a larger shape: its further bits, above so many of an element's number, are the lowest registers'."""
    outs = tile_outs(shape)
    bits = sum(outs.values()) - layout.out_bits

    def moved(base: int) -> int:
        return base >> below << below + bits | base & (1 << below) - 1

    ins = {name: [*map(moved, layout.bases(name))] for name in (REGISTER, LANE, WARP)}
    ins[REGISTER] = [*(1 << below + i for i in range(bits)), *ins[REGISTER]]
    return LinearLayout.of(ins, outs)


def operand_layout(op: Op, want: LinearLayout) -> LinearLayout | None:
    """The layout of its operands in which an op has its result where it is wanted; None if it moves elements."""
    if op.kind in FREE or op.kind is block.index or op.has(Trait.ELEMENTWISE):
        return want
    if op.kind is block.broadcast:
        return project(want, tile_of(op.operands[0]).padded_shape)
    if op.kind is block.reshape and _reshapes(op):
        return want.reshape(tile_of(op.operands[0]).padded_shape)
    if op.kind is block.words:
        return _with_more_registers(want, 0, tile_of(op.operands[0]).padded_shape)
    if op.kind is block.trans:
        perm = attr_ints(op, "perm")
        return want.transpose([perm.index(i) for i in range(len(perm))])
    return None


def _same_shape(a: Type, b: Type) -> bool:
    return isinstance(a, Tile) and isinstance(b, Tile) and a.shape == b.shape


def _reshapes(op: Op) -> bool:
    """Whether a reshape keeps elements in their place in the padded tiles too."""
    a, b = tile_of(op.operands[0]), tile_of(op.result)
    return math.prod(a.padded_shape) == math.prod(b.padded_shape)


# rebuilding


class _Typer(Remaker):
    """Makes the function again with layouts in its types."""

    def __init__(self, func: Func, layouts: dict[Value, LinearLayout]) -> None:
        super().__init__(func)
        self.layouts = layouts
        self._known: list[dict[tuple[Value, LinearLayout], Value]] = [{}]
        """Conversions at hand, for each block that is open."""
        self._owners: dict[Op, Op] = {}
        """Whose body a terminator ends."""

    def op(self, op: Op) -> None:
        operands = [self._operand(op, i) for i in range(len(op.operands))]
        attrs: dict[str, Attr] = dict(op.attrs)
        if "layout" in op.kind.takes.attrs and isinstance(op.types[0], Tile):
            attrs["layout"] = self.layouts[op.results[0]]
        self._owners |= {b.terminator: op for b in op.bodies}
        bodies = tuple(self._body(b) for b in op.bodies)
        hint = op.hints[0] if op.hints else ""
        new = self.builder.append(op.kind.build(operands, attrs, hint=hint, loc=op.loc, bodies=bodies))
        for old, value in zip(op.results, new.results, strict=True):
            self.values[old] = self._converted(value, self.layouts[old]) if isinstance(old.type, Tile) else value

    def end(self, last: Op) -> None:
        owner = self._owners[last]
        before = yields_before(owner, last)
        operands = [self.new(v) for v in last.operands]
        for i, v in enumerate(operands):
            if isinstance(v.type, Tile):
                operands[i] = self._converted(v, self.layouts[owner.results[i - before]])
        self.builder.append(last.kind.build(operands, last.attrs, loc=last.loc))

    def _body(self, body: Block) -> Block:
        params = Params(tuple(self._typed(v) for v in body.params.values), body.params.hints)
        self.values.update(zip(body.params.values, params.values, strict=True))
        self._known.append({})
        done = self.body(body, params)
        self._known.pop()
        return done

    def _typed(self, value: Value) -> Type:
        t = value.type
        return Tile(t.shape, t.elem, self.layouts[value]) if isinstance(t, Tile) else t

    def _operand(self, op: Op, i: int) -> Value:
        """Operand i in the layout that `op` needs."""
        old = op.operands[i]
        value = self.new(old)
        if not isinstance(old.type, Tile):
            return value
        wanted = self._needs(op, i)
        return value if wanted is None else self._converted(value, wanted)

    def _needs(self, op: Op, i: int) -> LinearLayout | None:
        """The layout of operand i that the op's result, or the other operands, ask for."""
        if op.kind in (block.broadcast, block.words):
            return operand_layout(op, self.layouts[op.result])
        if op.kind in LOOPS:
            return self.layouts[op.results[i - 2 if op.kind is control.for_ else i]]
        if op.kind is effects.print_:
            return next(self.layouts[v] for v in op.operands if isinstance(v.type, Tile))
        if op.kind is block.dot:
            return dot_layouts.operand_layout(op, i, dot_layouts.usable(op, self.layouts[op.result]))
        if op.kind is block.reduce and isinstance(op.result.type, Tile):
            axis = attr_int(op, "axis")
            across = _is_across_warps(self.layouts[op.operands[0]], axis)
            return _stacked(self.layouts[op.result], axis, tile_of(op.operands[0])) if across else None
        if op.kind is block.dot_codes:
            return code_layouts.layouts(op, self.layouts[op.result].size(WARP))[i]
        if op.kind is moves.sort:
            return self.layouts[op.operands[0]]
        if op.kind is block.scan:
            layout, axis = self.layouts[op.result], attr_int(op, "axis")
            return layout if owners(layout, axis) else scan_layout(layout.shape, axis, 1, layout.size(WARP))
        if op.has(Trait.ELEMENTWISE) or op.kind in (block.index, block.load, *ATOMICS):
            return self.layouts.get(op.result)
        if op.kind is block.store:
            return self.layouts[op.operands[2]]
        return None

    def _converted(self, value: Value, layout: LinearLayout) -> Value:
        if tile_of(value).layout == layout:
            return value
        key = (value, layout)
        for known in self._known:
            if key in known:
                return known[key]
        new = self.builder(gpu.convert_layout, value, layout=layout)
        self._known[-1][key] = new
        return new
