"""Searches a row for its extreme by two reductions, each a walk of vectors: the value, then the place where it is.

    %i = graph.arg_reduce(%x) {axis = 1, kind = "max"} : tensor<4xi64>          // x: 4 x 1000

becomes

    %m = graph.reduce(%x) {axes = [1], kind = "max"} : tensor<4xf32>
    %p = graph.select(eq(%x, broadcast %m) or isnan(%x), iota, 1000) : tensor<4x1000xi32>
    %i = graph.cast(graph.reduce(%p) {axes = [1], kind = "min"}) : tensor<4xi64>

A value that is asked for as well is the same reduction. NaN counts as extreme: where a row has one, nothing equals %m.

Requires: nothing. Ensures: the same places; the axis has an element. Cost: one sweep.
"""

from __future__ import annotations

from graphfuse.dialects import graph
from graphfuse.fusion.simplify.fold_constants import cast_to, full
from graphfuse.fusion.simplify.simplify_movement import broadcasted, reshaped
from graphfuse.ir.core import Func, Op, attr_int, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, common_subexpressions, given, rule_with, sweep
from graphfuse.ir.types import BOOL, I32
from graphfuse.symbolic import Ranges, bounds

SHORTEST = 32
"""Elements of a row of which lanes make less work than rows side by side."""
LONGEST = (1 << 31) - 1
"""Elements of a row whose places are i32."""


@rule_with(graph.arg_reduce)
def place_of_extreme(op: Op, ranges: Ranges) -> Replacement | None:
    """arg_reduce(x) = the first (or last) i where x[i] is reduce(x), or NaN."""
    (x,) = op.operands
    t, axis = tensor_of(x), attr_int(op, "axis")
    kind, keep, last = str(op.attrs["kind"]), bool(op.attrs.get("keepdims")), bool(op.attrs.get("last"))
    least, most = bounds(t.shape[axis], ranges)
    if t.elem == BOOL or any(d != 1 for d in t.shape[axis + 1 :]) or least < SHORTEST or most > LONGEST:
        return None
    value = graph.reduce(x, axes=(axis,), kind=kind, keepdims=keep, loc=op.loc).result
    kept = tuple(1 if i == axis else d for i, d in enumerate(t.shape))
    found = graph.eq(x, broadcasted(reshaped(value, kept), t.shape)).result
    if t.elem.is_float:
        found = graph.or_(found, graph.isnan(x)).result
    places = graph.iota(shape=t.shape, elem=I32, axis=axis).result
    nowhere = full(t.shape, I32, -1 if last else LONGEST)
    place = graph.select(found, places, nowhere).result
    where = graph.reduce(place, axes=(axis,), kind="max" if last else "min", keepdims=keep, loc=op.loc)
    return cast_to(where.result, tensor_of(op.result).elem)


@passing("graph")
def search_rows(func: Func) -> Func:
    """Make places of extremes along rows reductions."""
    made, fired = sweep(func, given(place_of_extreme, func.ranges))
    return common_subexpressions(made) if fired else func
