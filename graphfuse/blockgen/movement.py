"""How indices pass through movement ops: the element at an index of the result is which element of which operand.

`sources` is the one place that knows; the evaluator and the access analysis share it. So they do `place`: an index that
is computed from positions alone is one of the region's indices, as if a movement op had made it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from graphfuse.blockgen.index import Index, IndexSpace, reshape_index
from graphfuse.dialects import graph
from graphfuse.ir.core import Op, OpDef, Value, attr_dim, attr_int, attr_ints, dims_of, tensor_of
from graphfuse.ir.types import I64
from graphfuse.symbolic import Dim, floordiv, maximum, minimum, mod


@dataclass(frozen=True, slots=True)
class Source:
    """Operand `value` at `index`, valid where every `lo <= x < hi` of `where` holds.

    Bounds that are sure to hold are there too: they hold for variables within their dims, not for merged ones.
    """

    value: Value
    index: Index
    where: tuple[tuple[Dim, Dim, Dim], ...] = ()


def shape_of(value: Value) -> tuple[Dim, ...]:
    """The shape of a tensor value."""
    return tensor_of(value).shape


def reduced_at(op: Op, index: Index, along: Iterable[Dim]) -> Index:
    """The index into what a `graph.reduce` reduces: `along` its axes, else that of the result."""
    axes, keep = attr_ints(op, "axes"), bool(op.attrs.get("keepdims", False))
    inner, outer = iter(along), (i for d, i in enumerate(index) if not (keep and d in axes))
    return tuple(next(inner) if d in axes else next(outer) for d in range(tensor_of(op.operands[0]).rank))


def sources(op: Op, index: Index, space: IndexSpace) -> tuple[Source, ...] | None:
    """Where the element at `index` of a movement op's result comes from, or None for other ops.

    Several sources (concat) are tried in order; outside all of them the element is the fill value (pad).
    """
    match op.kind:
        case graph.reshape:
            (x,) = op.operands
            return (Source(x, reshape_index(index, shape_of(op.result), shape_of(x), space)),)
        case graph.permute:
            (x,) = op.operands
            out: list[Dim] = [0] * len(index)
            for i, p in enumerate(attr_ints(op, "perm")):
                out[p] = index[i]
            return (Source(x, tuple(out)),)
        case graph.broadcast:
            (x,) = op.operands
            shape = shape_of(x)
            tail = index[len(index) - len(shape) :]
            return (Source(x, tuple(0 if d == 1 else i for i, d in zip(tail, shape, strict=True))),)
        case graph.stretch:
            (x,) = op.operands
            dims = zip(index, shape_of(x), shape_of(op.result), strict=True)
            return (Source(x, tuple(i if d == want else i * minimum(d - 1, 1) for i, d, want in dims)),)
        case graph.slice_:
            (x,) = op.operands
            starts, steps = dims_of(op.attrs["starts"]), dims_of(op.attrs["steps"])
            return (Source(x, tuple(s + i * t for i, s, t in zip(index, starts, steps, strict=True))),)
        case graph.flip:
            (x,) = op.operands
            axes, dims = attr_ints(op, "axes"), enumerate(zip(index, shape_of(x), strict=True))
            return (Source(x, tuple(d - 1 - i if a in axes else i for a, (i, d) in dims)),)
        case graph.pad:
            return (_pad(op, index, space),)
        case graph.concat:
            return _concat(op, index, space)
        case _:
            return None


_ARITHMETIC: dict[OpDef, Callable[[Any, Any], Dim]] = {
    graph.add: operator.add,
    graph.sub: operator.sub,
    graph.mul: operator.mul,
    graph.floordiv_: floordiv,
    graph.max_: maximum,
    graph.min_: minimum,
}


def place(indices: Value, index: Index, size: Dim, space: IndexSpace) -> Dim | None:
    """Which of `size` elements an element of `indices` chooses, if that is arithmetic of positions; else None."""
    found = _number(indices, index, space)
    found = None if found is None else space.simplify(found)
    return found if found is not None and space.nonnegative(found) and space.below(found, size) else None


def _number(value: Value, index: Index, space: IndexSpace) -> Dim | None:
    op = value.op
    if op is None or tensor_of(value).elem != I64:
        return None
    if op.kind is graph.iota:
        return index[attr_int(op, "axis")]
    if op.kind is graph.full:
        return attr_dim(op, "value")
    if op.kind in _ARITHMETIC:
        a, b = (_number(v, index, space) for v in op.operands)
        if a is None or b is None or (op.kind is graph.floordiv_ and not (isinstance(b, int) and b > 0)):
            return None
        return _ARITHMETIC[op.kind](a, b)
    match sources(op, index, space):
        case (source,) if all(space.nonnegative(at - lo) and space.below(at, hi) for lo, at, hi in source.where):
            return _number(source.value, source.index, space)
        case _:
            return None


def _pad(op: Op, index: Index, space: IndexSpace) -> Source:
    (x,) = op.operands
    low, mode = dims_of(op.attrs["low"]), op.attrs.get("mode", "constant")
    inner: list[Dim] = []
    where: list[tuple[Dim, Dim, Dim]] = []
    for i, lo, d, out in zip(index, low, shape_of(x), shape_of(op.result), strict=True):
        at = i - lo
        if d == out:
            pass
        elif mode == "constant":
            where.append((0, at, d))
        elif mode == "edge":
            at = maximum(0, minimum(at, d - 1))
        elif mode == "wrap":
            at = mod(at, d)
        else:  # reflect, however far: fold a triangle wave of period 2(d - 1)
            period = maximum(2 * (d - 1), 1)
            at = mod(at, period)
            at = minimum(at, period - at) if d != 1 else 0
        inner.append(space.simplify(at))
    return Source(x, tuple(inner), tuple(where))


def _concat(op: Op, index: Index, space: IndexSpace) -> tuple[Source, ...]:
    axis = attr_int(op, "axis")
    out: list[Source] = []
    start: Dim = 0
    for x in op.operands:
        size = shape_of(x)[axis]
        at = index[axis] - start
        inner = (*index[:axis], at, *index[axis + 1 :])
        if space.nonnegative(at) and space.below(at, size):
            return (Source(x, inner, ((0, at, size),)),)
        if not (space.below(at, 0) or space.nonnegative(at - size)):
            out.append(Source(x, inner, ((0, at, size),)))
        start = start + size
    return tuple(out)
