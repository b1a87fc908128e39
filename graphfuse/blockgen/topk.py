"""Emits sorted selections for CPUs: a heap of the best elements of a line.

Elements become integers that order like them. Reading a line of n takes n comparisons with the top of the heap, and a
walk down for each element that is better; the k that are left are sorted by walks down, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphfuse.blockgen.evaluate import Evaluator
from graphfuse.blockgen.index import Index
from graphfuse.blockgen.kernel import Kernel, element_of
from graphfuse.blockgen.loops import Carried, programs
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.ordering import key_elem, ordered
from graphfuse.dialects import block, control, graph
from graphfuse.ir.core import Func, Params, Value, attr_int
from graphfuse.ir.types import I64, Scalar
from graphfuse.symbolic import Dim, floordiv


def emit(kernel: Kernel) -> Func:
    """A program per line: a heap of the k best so far, the last of them by value, then index, on top; then in order."""
    (op,) = (op for op in kernel.body.ops if op.kind is graph.topk)
    (x,) = op.operands
    shape, axis = shape_of(x), attr_int(op, "axis")
    ev = kernel.ev
    grid, at = programs(kernel, (*shape[:axis], *shape[axis + 1 :]))
    count = shape_of(op.results[0])[axis]
    heap = _Heap(ev, key_elem(element_of(x)), count)

    def index(i: Dim) -> Index:
        return (*at[:axis], i, *at[axis:])

    def key(i: Dim) -> Value:
        rising = ordered(ev, ev.value(x, index(i)))
        return rising if op.attrs.get("largest", True) else ev.emit(block.ELEMENTWISE["not"], rising)

    def fill(i: Dim, _: Carried) -> None:
        heap.store(ev.index(i), (key(i), ev.index(i)))

    def order(i: Dim, _: Carried) -> None:
        place = ev.index(floordiv(count, 2) - 1 - i)
        heap.sink(place, ev.index(count), heap.load(place))

    def offer(i: Dim, _: Carried) -> None:
        found, top = (key(i), ev.index(i)), ev.const(0, I64)
        ev.branch(heap.before(found, heap.load(top)), lambda: heap.sink(top, ev.index(count), found))

    def sort(i: Dim, _: Carried) -> None:
        end, top = ev.index(count - 1 - i), ev.const(0, I64)
        last = heap.load(end)
        heap.store(end, heap.load(top))
        heap.sink(top, end, last)

    stored = dict(zip(kernel.outputs, kernel.stores, strict=True))

    def give(rank: Dim, _: Carried) -> None:
        number = heap.load(ev.index(rank))[1]
        where = ev.bind("g", 0, shape[axis] - 1, number)
        for value, code in zip(op.results, (lambda: ev.value(x, index(where)), lambda: number), strict=True):
            if value in stored:
                ev.store(stored[value], index(rank), code())

    ev.loop("i", count, fill, inline=False)
    ev.loop("h", floordiv(count, 2), order, inline=False)
    some = ev.emit(block.lt, ev.const(0, I64), ev.index(count))
    ev.branch(some, lambda: ev.loop("r", shape[axis], offer, start=count, inline=False))
    ev.loop("s", count - 1, sort, inline=False)
    ev.loop("o", count, give, inline=False)
    return kernel.finish(grid, shape[axis] * 2 + count * 32)


class _Heap:
    """Keys and the numbers of their elements in memory of the program's own; each comes after those below it."""

    def __init__(self, ev: Evaluator, elem: Scalar, count: Dim) -> None:
        self.ev = ev
        self.parts = tuple(ev.emit(block.alloc, elem=e, count=count) for e in (elem, I64))

    def load(self, at: Value) -> tuple[Value, Value]:
        """The key and the number at a place."""
        key, number = (self.ev.emit(block.load, p, at) for p in self.parts)
        return key, number

    def store(self, at: Value, item: Sequence[Value]) -> None:
        """Put a key and a number to a place."""
        for pointer, value in zip(self.parts, item, strict=True):
            self.ev.builder.op(block.store, pointer, at, value)

    def before(self, a: Sequence[Value], b: Sequence[Value]) -> Value:
        """Whether one is chosen before the other: its key is larger, or as large and its number less."""
        ev, fn = self.ev, block.ELEMENTWISE
        same = ev.emit(fn["and"], ev.emit(fn["eq"], a[0], b[0]), ev.emit(fn["lt"], a[1], b[1]))
        return ev.emit(fn["or"], ev.emit(fn["gt"], a[0], b[0]), same)

    def sink(self, at: Value, size: Value, item: Sequence[Value]) -> None:
        """Put an item to a place, or further down, where all below it come before it."""
        ev, fn = self.ev, block.ELEMENTWISE
        one = ev.const(1, I64)
        last = ev.emit(fn["sub"], size, one)
        carried = (at, at, *item)
        types, hints = tuple(v.type for v in carried), ("at", "child", "key", "number")
        first, second = Params(types, hints), Params(types, hints)

        def goes_on() -> list[Value]:
            left = ev.emit(fn["add"], ev.emit(fn["add"], first.values[0], first.values[0]), one)
            places = [ev.emit(fn["min"], n, last) for n in (left, ev.emit(fn["add"], left, one))]
            a, b = (self.load(place) for place in places)
            later = self.before(a, b)
            pairs = zip((places[0], *a), (places[1], *b), strict=True)
            child, *found = (ev.emit(block.select, later, y, x) for x, y in pairs)
            there = ev.emit(fn["lt"], left, size)
            return [ev.emit(fn["and"], there, self.before(item, found)), first.values[0], child, *found]

        def up() -> list[Value]:
            place, child, *found = second.values
            self.store(place, found)
            return [child, child, *found]

        bodies = ev.body(first, goes_on), ev.body(second, up)
        self.store(ev.builder.op(control.while_, *carried, bodies=bodies).results[0], item)
