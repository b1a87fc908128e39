"""`block.load_box` as the loads of machines that copy no boxes: a strided view, or a masked gather of windows.

    %a = load_box(%x, %b, %row, %k) {shape = [64, 32], dims = [B, M, K], strides = [M*K, K, 1]}

is

    %a = load_view(%x, b*M*K + row*K + k, M - row, K - k) {shape = [64, 32], strides = [K, 1], limited = [0, 1]}
"""

from __future__ import annotations

from graphfuse.dialects import block
from graphfuse.ir.core import Op, Value, attr_dim, attr_dims, attr_ints, tile_of
from graphfuse.symbolic import Dim, floordiv, mod, sym, symbols


def expand_box(op: Op) -> Op:
    """The load that a box is."""
    pointer, *at = op.operands
    dims, strides = attr_dims(op, "dims"), attr_dims(op, "strides")
    names = _names(len(at) + 1, op)
    start = [sym(n) for n in names[:-1]]
    if "steps" in op.attrs:
        return _gather(op, names)

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

    def tile(expr: Dim, along: int) -> Value:
        size = shape[along]
        lanes = block.reshape(block.arange(start=0, end=size), shape=(size, 1) if along == 0 else (1, size))
        found = block.index(*at, lanes, expr=expr, names=tuple(names))
        return block.broadcast(found, shape=shape).result

    where: Dim = attr_dim(op, "offset", 0)
    inside: Op | None = None
    for i, (place, n, stride) in enumerate(zip((*places, channel + sym(names[-1])), dims, strides, strict=True)):
        along = 1 if i == len(dims) - 1 else 0
        zero = block.const(value=0, elem=block.elem_of(at[0].type), shape=shape).result
        tests = (block.ge(tile(place, along), zero), block.lt(tile(place - n, along), zero))
        for test in tests:
            inside = test if inside is None else block.and_(inside.result, test.result)
        where = where + place * stride if along == 0 else where
    assert inside is not None
    offsets = block.add(tile(where, 0), tile(channel + sym(names[-1]), 1))
    return block.load(pointer, offsets.result, inside.result, loc=op.loc)
