"""`block.load_box` as the loads of machines that copy no boxes: a strided view, or a masked gather of windows.

    %a = load_box(%x, %b, %row, %k) {shape = [64, 32], dims = [B, M, K], strides = [M*K, K, 1]}

is

    %a = load_view(%x, b*M*K + row*K + k, M - row, K - k) {shape = [64, 32], strides = [K, 1], limited = [0, 1]}
"""

from __future__ import annotations

from graphfuse.dialects import block
from graphfuse.ir.core import Op, Value, attr_dim, attr_dims, attr_ints, tile_of
from graphfuse.ir.types import I64
from graphfuse.symbolic import Dim, floordiv, mod, sym, symbols


def expand_box(op: Op) -> Op:
    """The load that a box is."""
    pointer, *at = op.operands
    dims, strides = attr_dims(op, "dims"), attr_dims(op, "strides")
    names = _names(len(at) + 1, op)
    if attr_ints(op, "steps", ()):
        return _gather(op, names)
    start = [sym(n) for n in names[:-1]]

    def number(dim: Dim) -> Value:
        return block.index(*at, expr=dim, names=tuple(names[:-1])).result

    base = attr_dim(op, "offset", 0)
    for place, stride in zip(start, strides, strict=True):
        base = base + place * stride
    limits = [number(n - place) for n, place in zip(dims[-2:], start[-2:], strict=True)]
    shape = tile_of(op.result).shape
    return block.load_view(
        pointer, number(base), *limits, shape=shape, strides=strides[-2:], limited=(0, 1), loc=op.loc
    )


def _names(count: int, op: Op) -> list[str]:
    """Of coordinates and of a tile's rows, none of which is a symbol of the op's."""
    dims = (*attr_dims(op, "dims"), *attr_dims(op, "strides"), attr_dim(op, "offset", 0))
    taken, prefix = frozenset[str]().union(*map(symbols, dims)), "at"
    while any(name.startswith(prefix) for name in taken):
        prefix += "_"
    return [f"{prefix}{i}" for i in range(count)]


def _gather(op: Op, names: list[str]) -> Op:
    """Rows that are positions of a filter: where they are, and whether that is in the image."""
    pointer, *at = op.operands
    dims, strides = attr_dims(op, "dims"), attr_dims(op, "strides")
    shape = tile_of(op.result).shape
    image, *inner, channel = (sym(n) for n in names[: len(dims)])
    taps = (sym(n) for n in names[len(dims) : -1])
    corners = zip(*(attr_ints(op, name)[::-1] for name in ("lower", "upper", "steps")), dims[1:-1], strict=True)
    axes = [
        (first, tap, lower, step, floordiv(n - 1 + upper - lower, step) + 1)
        for first, tap, (lower, upper, step, n) in zip(inner, taps, corners, strict=True)
    ]
    flat: Dim = sym(names[-1])
    size: Dim = 1
    for first, _, lower, step, count in reversed(axes):
        flat, size = flat + floordiv(first - lower, step) * size, size * count
    places: list[Dim] = []
    for _, tap, lower, step, count in reversed(axes):
        places.insert(0, lower + mod(flat, count) * step + tap)
        flat = floordiv(flat, count)
    places.insert(0, image + flat)

    def numbers(expr: Dim, along: int) -> Op:
        """One for each row, or for each column."""
        size = shape[along]
        lanes = block.reshape(block.arange(start=0, end=size), shape=(size, 1) if along == 0 else (1, size))
        return block.index(*at, lanes, expr=expr, names=tuple(names))

    def within(place: Dim, extent: Dim, along: int) -> Op:
        here, beyond = numbers(place, along), numbers(place - extent, along)
        zero = block.const(value=0, elem=I64, shape=tile_of(here.result).shape)
        return block.and_(block.ge(here, zero), block.lt(beyond, zero))

    column = channel + sym(names[-1])
    rows, *more = (within(place, n, 0) for place, n in zip(places, dims[:-1], strict=True))
    for test in more:
        rows = block.and_(rows, test)
    start = attr_dim(op, "offset", 0)
    for place, stride in zip(places, strides[:-1], strict=True):
        start = start + place * stride
    offsets = block.add(*(block.broadcast(x, shape=shape) for x in (numbers(start, 0), numbers(column, 1))))
    mask = block.and_(*(block.broadcast(x, shape=shape) for x in (rows, within(column, dims[-1], 1))))
    return block.load(pointer, offsets, mask, loc=op.loc)
