"""How selections and searches for extremes compare elements: one by one, or as integers that order like them."""

from __future__ import annotations

from graphfuse.blockgen.evaluate import Evaluator, accumulator
from graphfuse.dialects import block
from graphfuse.ir.core import Value
from graphfuse.ir.types import I32, I64, Scalar, Tile


def key_elem(elem: Scalar) -> Scalar:
    """The integer that elements are ordered by."""
    return I64 if elem.bits > 32 or elem.name == "u32" else I32


def ordered(ev: Evaluator, x: Value) -> Value:
    """Signed integers in the order of the elements; equal zeros are equal, and NaN is the largest."""
    fn, elem = block.ELEMENTWISE, block.elem_of(x.type)
    shape = x.type.shape if isinstance(x.type, Tile) else None
    key = key_elem(elem)
    if not elem.is_float:
        if elem.name == "u64":
            return ev.emit(fn["xor"], ev.emit(block.bitcast, x, to=I64), ev.const(-(1 << 63), I64, shape))
        return ev.cast(x, key)
    wide = accumulator(elem)
    x = ev.cast(x, wide)
    positive_zero = ev.emit(fn["add"], x, ev.const(0.0, wide, shape))
    bits = ev.emit(block.bitcast, positive_zero, to=key)
    turned = ev.emit(fn["xor"], bits, ev.const((1 << key.bits - 1) - 1, key, shape))
    out = ev.emit(block.select, ev.emit(block.lt, bits, ev.const(0, key, shape)), turned, bits)
    return ev.emit(block.select, ev.emit(fn["isnan"], x), ev.const((1 << key.bits - 1) - 1, key, shape), out)


def is_better(ev: Evaluator, kind: str, here: Value, best: Value, *, last: bool) -> Value:
    """Whether a later element is to be taken instead of the best so far; the first (or last) NaN is the extreme."""
    fn, is_float = block.ELEMENTWISE, block.elem_of(here.type).is_float
    compare = {("max", False): "gt", ("max", True): "ge", ("min", False): "lt", ("min", True): "le"}[kind, last]
    if is_float and not last:  # not below or equal: above, or one of them is NaN
        above = ev.emit(fn["not"], ev.emit(fn["le" if kind == "max" else "ge"], here, best))
        return ev.emit(block.and_, above, ev.emit(fn["not"], ev.emit(fn["isnan"], best)))
    better = ev.emit(fn[compare], here, best)
    return ev.emit(block.or_, better, ev.emit(fn["isnan"], here)) if is_float else better
