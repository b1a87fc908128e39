"""Searches a row for its extreme by two reductions, each a walk of vectors: the value, then the place where it is.

    %i = graph.arg_reduce(%x) {axis = 1, kind = "max"} : tensor<4xi64>          // x: 4 x 1000

becomes

    %m = graph.reduce(%x) {axes = [1], kind = "max"} : tensor<4xf32>
    %p = graph.select(eq(%x, broadcast %m) or isnan(%x), iota, 1000) : tensor<4x1000xi32>
    %i = graph.cast(graph.reduce(%p) {axes = [1], kind = "min"}) : tensor<4xi64>

A value that is asked for as well is the same reduction. NaN counts as extreme: where a row has one, nothing equals %m.

A GPU has a schedule for a search alone, which walks a row once; where registers hold a row, or its value is wanted as
well, the two reductions are one kernel that reads it once.

Requires: common-subexpressions. Ensures: the same places; the axis has an element. Cost: one sweep.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from graphfuse.dialects import graph
from graphfuse.fusion.simplify.fold_constants import cast_to, full
from graphfuse.fusion.simplify.simplify_movement import broadcasted, reshaped
from graphfuse.ir.core import Func, Op, Value, attr_int, attr_ints, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, common_subexpressions, given, rule_with, sweep
from graphfuse.ir.types import BOOL, I32
from graphfuse.symbolic import Ranges, bounds, product

SHORTEST = 32
"""Elements of a row of which the lanes of a CPU make less work than rows side by side."""
LONGEST = (1 << 31) - 1
"""Elements of a row whose places are i32."""
LINE = 32
"""Rows side by side that registers hold at least, where they are not contiguous."""


@dataclass(frozen=True, slots=True)
class Searches:
    """What is known of a function, and how many elements a GPU's program holds in registers: 0 for a CPU."""

    ranges: Ranges
    held: int
    valued: Collection[tuple[Value, tuple[int, ...], str]]
    """What is reduced along which axes to its extreme of a kind."""

    def are_reductions(self, x: Value, axis: int, kind: str) -> bool:
        """Whether a search along an axis is less work as reductions."""
        shape = tensor_of(x).shape
        least, most = bounds(shape[axis], self.ranges)
        inner = bounds(product(shape[axis + 1 :]), self.ranges)[1]
        if not self.held:
            return least >= SHORTEST and all(d == 1 for d in shape[axis + 1 :])
        return least >= 1 and (most * min(inner, LINE) <= self.held or (x, (axis,), kind) in self.valued)


@rule_with(graph.arg_reduce)
def place_of_extreme(op: Op, searches: Searches) -> Replacement | None:
    """arg_reduce(x) = the first (or last) i where x[i] is reduce(x), or NaN."""
    (x,) = op.operands
    t, axis = tensor_of(x), attr_int(op, "axis")
    kind, keep, last = str(op.attrs["kind"]), bool(op.attrs.get("keepdims")), bool(op.attrs.get("last"))
    is_long = bounds(t.shape[axis], searches.ranges)[1] > LONGEST
    if t.elem == BOOL or is_long or not searches.are_reductions(x, axis, kind):
        return None
    value = graph.reduce(x, axes=(axis,), kind=kind, keepdims=keep, loc=op.loc).result
    places = graph.iota(shape=t.shape, elem=I32, axis=axis).result
    return cast_to(place_of(x, value, places, axis, keepdims=keep, last=last), tensor_of(op.result).elem)


def place_of(x: Value, extreme: Value, places: Value, axis: int, *, keepdims: bool, last: bool) -> Value:
    """The least (or greatest) of the places along an axis where x is its extreme, or NaN."""
    t, elem = tensor_of(x), tensor_of(places).elem
    rows = tuple(1 if i == axis else d for i, d in enumerate(t.shape))
    found = graph.eq(x, broadcasted(reshaped(extreme, rows), t.shape)).result
    if t.elem.is_float:
        found = graph.or_(found, graph.isnan(x)).result
    place = graph.select(found, places, full(t.shape, elem, -1 if last else elem.limits[1])).result
    return graph.reduce(place, axes=(axis,), kind="max" if last else "min", keepdims=keepdims).result


@passing("graph")
def search_rows(func: Func, *, held: int = 0) -> Func:
    """Make places of extremes along rows reductions."""
    reduces = (op for op in func.walk() if op.kind is graph.reduce)
    valued = {(op.operands[0], attr_ints(op, "axes"), str(op.attrs["kind"])) for op in reduces}
    made, fired = sweep(func, given(place_of_extreme, Searches(func.ranges, held, valued)))
    return common_subexpressions(made) if fired else func
