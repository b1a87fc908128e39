"""What is written into a view and with that into its tensor, as one scatter into the tensor.

    k = cache[0]                                select = select(cache, 0, 0)
    k.index_copy_(2, at, new)           ->      index_copy = index_copy(select, 2, at, new)
                                                cache' = select_scatter(cache, index_copy, 0, 0)

is a scatter of `new` into `cache` with an index more. Else all of the view would be copied, there and back. What is
written along a dim of a tensor whose dims are permuted is written along one of the tensor.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, Shape, shape_of
from graphfuse.ir.core import Attr, Op, Value, attr_int, attr_ints
from graphfuse.ir.types import I64
from graphfuse.symbolic import Dim, static


def written_along(e: Emitter, x: Value, axis: int, at: Value, src: Value, **how: Attr) -> Value:
    """Slices of `src` along one dim of x, each where its index says."""
    if x.op is not None and x.op.kind is graph.permute:
        perm = attr_ints(x.op, "perm")
        src = e.permute(src, [perm.index(i) for i in range(len(perm))])
        return e.permute(written_along(e, x.op.operands[0], perm[axis], at, src, **how), perm)
    places = e.broadcast(e.along(at, axis, len(shape_of(src))), shape_of(src))
    return e(graph.scatter_along, x, places, src, axis=axis, **how)


def written_through(e: Emitter, x: Value, src: Value, dim: int, begin: Dim) -> Value | None:
    """`src` in the place of elements of x along `dim`, where it is a scatter into just these, under any shape."""
    shape, count, write = shape_of(x), shape_of(src)[dim], _unshaped(src).op
    if write is None or write.kind not in graph.SCATTERS:
        return None
    into = write.operands[0]
    lead, rest = shape_of(into)[: dim + 1], shape_of(into)[dim + 1 :]
    is_one = lead != (*shape[:dim], count)  # the dim is not there
    if is_one:
        lead, rest = lead[:dim], (*lead[dim:], *rest)
    if lead[:dim] != shape[:dim] or (is_one and count != 1) or not _is_alike(into, e.slice(x, dim, begin, count)):
        return None
    places = _Places.of(e, write)
    if is_one:
        places.reach(dim)
        places.along.insert(dim, e.full(places.outer, I64, begin))
    else:
        places.reach(dim + 1)
        places.along[dim] = _shifted(e, places.along[dim], count, begin, shape[dim])
    how = {k: v for k, v in write.attrs.items() if k != "axis"}
    x = e.reshape(x, (*shape[: dim + 1], *rest))
    return e.reshape(e(graph.scatter_nd, x, places.joined(), write.operands[2], **how), shape)


def _unshaped(x: Value) -> Value:
    while x.op is not None and x.op.kind is graph.reshape:
        (x,) = x.op.operands
    return x


def _is_alike(a: Value, b: Value) -> bool:
    """Whether two values are one, or the same views of one, up to their shapes."""
    a, b = _unshaped(a), _unshaped(b)
    if a == b or a.op is None or b.op is None:
        return a == b
    is_slice = a.op.kind is b.op.kind and a.op.kind is graph.slice_ and a.op.attrs == b.op.attrs
    (of,), (other,) = (a.op.operands, b.op.operands) if is_slice else ((a,), (b,))
    return is_slice and shape_of(of) == shape_of(other) and _is_alike(of, other)


def _shifted(e: Emitter, at: Value, count: Dim, begin: Dim, size: Dim) -> Value:
    """Indices into `count` elements as indices into the `size` that these are part of, none where they are none."""
    counted = e.select(e.map(graph.lt, at, 0), e.map(graph.add, at, count), at)
    fits = e(graph.and_, e.map(graph.ge, counted, 0), e.map(graph.lt, counted, count))
    return e.select(fits, e.map(graph.add, counted, begin), size)


@dataclass
class _Places:
    """Where slices are written: their indices along the first dims, each of the shape `outer`."""

    e: Emitter
    outer: Shape
    along: list[Value]
    rest: Shape
    """Of a slice."""

    @staticmethod
    def of(e: Emitter, write: Op) -> _Places:
        """Those of a scatter."""
        into, at, updates = write.operands
        if write.kind is graph.scatter_nd:
            *outer, depth = shape_of(at)
            parts = [e.squeeze(part, -1) for part in e.split(e.cast(at, I64), [1] * static(depth), -1)]
            return _Places(e, tuple(outer), parts, shape_of(into)[len(parts) :])
        axis, whole, written = attr_int(write, "axis"), shape_of(into), shape_of(updates)
        if at.op is not None and at.op.kind is graph.broadcast and len(shape_of(at.op.operands[0])) == len(whole):
            at = at.op.operands[0]
        depth = len(whole)
        while depth > axis + 1 and shape_of(at)[depth - 1] == 1 and written[depth - 1] == whole[depth - 1]:
            depth -= 1  # slices go to one place
        outer = written[:depth]
        at = e.broadcast(e.reshape(e.cast(at, I64), shape_of(at)[:depth]), outer)
        return _Places(e, outer, [at if i == axis else e.iota(outer, i) for i in range(depth)], whole[depth:])

    def reach(self, depth: int) -> None:
        """Have indices along at least the first `depth` dims."""
        while len(self.along) < depth:
            more = (*self.outer, self.rest[0])
            self.along = [self.e.broadcast(self.e.unsqueeze(i, -1), more) for i in self.along]
            self.along.append(self.e.iota(more, len(self.outer)))
            self.outer, self.rest = more, self.rest[1:]

    def joined(self) -> Value:
        """As one tensor whose last dim is a place."""
        return self.e.concat([self.e.unsqueeze(i, -1) for i in self.along], len(self.outer))
