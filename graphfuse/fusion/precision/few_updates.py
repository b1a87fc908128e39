"""Combines few updates of halves in f32 where they land alone: the rest of a large tensor is copied, not widened.

    %w = graph.cast(%x) {to = f32} : tensor<65536x96xf32>
    %s = graph.scatter_nd(%w, %i, %u) {kind = "add"} : tensor<65536x96xf32>
    %y = graph.cast(%s) {to = f16} : tensor<65536x96xf16>

becomes

    %e = graph.empty() {elem = f32, shape = [65536, 96]} : tensor<65536x96xf32>
    %a = graph.cast(graph.gather_nd(%x, %i)) {to = f32} : tensor<8x96xf32>
    %b = graph.scatter_nd(%e, %i, %a) : tensor<65536x96xf32>                      // what is there, where updates land
    %s = graph.scatter_nd(%b, %i, %u) {kind = "add"} : tensor<65536x96xf32>
    %t = graph.cast(graph.gather_nd(%s, %i)) {to = f16} : tensor<8x96xf16>
    %y = graph.scatter_nd(%x, %i, %t) : tensor<65536x96xf16>

Updates of one place store one number there, so their order is free. Very few are combined with one another before:

    %q = graph.eq(%i, %i) : tensor<8x8x96xbool>                                   // of each two, whether they meet
    %c = graph.reduce(graph.select(%q, %u, 0.0)) {axes = [1], kind = "sum"} : tensor<8x96xf32>
    %t = graph.cast(graph.add(%a, %c)) {to = f16} : tensor<8x96xf16>

Requires: nothing that finds equal values runs afterwards, or two would write to one `empty`. Ensures: the same values.
Cost: one sweep.
"""

from __future__ import annotations

from graphfuse.dialects import graph
from graphfuse.dialects.elementwise import neutral
from graphfuse.fusion.regions.dataflow import Dataflow
from graphfuse.fusion.simplify.fold_constants import full, splat_of
from graphfuse.fusion.simplify.patterns import operand_of
from graphfuse.fusion.simplify.simplify_movement import broadcasted, reshaped
from graphfuse.ir.core import Func, Op, Value, attr_int, remade, tensor_of
from graphfuse.ir.rewrite import Replacement, dead_code, rebuild
from graphfuse.ir.types import BF16, F16, F32, Scalar
from graphfuse.symbolic import product
from graphfuse.targets.machine import KernelCosts

SECTOR_BYTES = 32
"""What an update of one element touches."""
FEW = 32
"""Updates along an axis, each of which looks at all."""
MORE_LAUNCHES, MORE_PASSES = 3, 4
"""Of this over the widened tensor: launches, and times that each update's place is touched."""


def narrow_updates(func: Func, costs: KernelCosts) -> Func:
    """Combine updates of halves in a tensor of f32 that has nothing but them, where that takes less time."""
    uses = Dataflow(func.body).uses

    def visit(old: Op, new: Op) -> Replacement | None:
        scatter = old.operands[0].op if old.kind is graph.cast else None
        if scatter is None or scatter.kind not in graph.SCATTERS or uses[scatter.result] != [old]:
            return None
        made = new.operands[0].op
        assert made is not None, "it is remade"
        return _narrow(new, made, costs)

    return dead_code(rebuild(func, visit_pair=visit))


def _narrow(cast: Op, scatter: Op, costs: KernelCosts) -> Value | None:
    """The scatter into halves, if it pays."""
    (wide, at, updates), half = scatter.operands, tensor_of(cast.result).elem
    x = _halves(wide, half)
    if x is None or half not in (F16, BF16) or tensor_of(wide).elem != F32:
        return None
    if (combined := _met(scatter, x)) is None and _pays(scatter, costs):
        empty = graph.empty(shape=tensor_of(wide).shape, elem=F32, loc=scatter.loc).result
        begun = remade(scatter, empty, at, _there(scatter, x), kind="set").result
        combined = _looked_up(scatter, remade(scatter, begun, at, updates).result)
    if combined is None:
        return None
    narrow = graph.cast(combined, to=half, loc=cast.loc).result
    return remade(scatter, x, at, narrow, kind="set", ordered=False).result


def _met(scatter: Op, x: Value) -> Value | None:
    """What there is where updates land, combined with each that lands there, if all look at all in little time."""
    _, at, updates = scatter.operands
    shape, size = tensor_of(updates).shape, tensor_of(x).shape
    axis = attr_int(scatter, "axis", 0)
    count, length, whole, part = *((d[axis] if d else 0) for d in (shape, size)), product(size), product(shape)
    if not (isinstance(count, int) and isinstance(length, int) and isinstance(whole, int) and isinstance(part, int)):
        return None
    if not 0 < count <= FEW or count * part > 2 * whole:
        return None
    if scatter.kind is graph.scatter_nd:
        if len(tensor_of(at).shape) != 2 or tensor_of(at).shape[1] != 1:
            return None
        at = broadcasted(reshaped(at, (count, *(1 for _ in shape[1:]))), shape)
    elem, kind = tensor_of(at).elem, str(scatter.attrs["kind"])
    below = graph.lt(at, full(shape, elem, 0))
    at = graph.select(below, graph.add(at, full(shape, elem, length)), at).result
    each = (*shape[:axis], count, *shape[axis:])

    def spread(v: Value, one: int) -> Value:
        return broadcasted(reshaped(v, (*each[:one], 1, *each[one + 1 :])), each)

    meet = graph.eq(spread(at, axis + 1), spread(at, axis))
    how = {"add": "sum", "mul": "prod"}.get(kind, kind)
    chosen = graph.select(meet, spread(updates, axis), full(each, F32, neutral(how, F32)))
    others = graph.reduce(chosen, axes=(axis + 1,), kind=how)
    return graph.ELEMENTWISE[kind](_there(scatter, x), others, loc=scatter.loc).result


def _halves(wide: Value, half: Scalar) -> Value | None:
    """What was widened, or 0."""
    x = operand_of(wide, graph.cast)
    if x is not None and tensor_of(x).elem == half:
        return x
    return full(tensor_of(wide).shape, half, 0) if splat_of(wide) == 0 else None


def _there(scatter: Op, x: Value) -> Value:
    """Halves at the places of the updates, in f32."""
    return graph.cast(_looked_up(scatter, x), to=F32, loc=scatter.loc).result


def _looked_up(scatter: Op, x: Value) -> Value:
    """What is at the places of the updates; anything for those that are dropped."""
    at = scatter.operands[1]
    if scatter.kind is graph.scatter_along:
        return graph.take_along(x, at, axis=scatter.attrs["axis"], clips=True, loc=scatter.loc).result
    return graph.gather_nd(x, at, clips=True, loc=scatter.loc).result


def _pays(scatter: Op, costs: KernelCosts) -> bool:
    """Whether f32 of everything, written and read, take longer than to touch the places of the updates."""
    whole, part = (product(tensor_of(v).shape) for v in (scatter.result, scatter.operands[2]))
    if not isinstance(whole, int) or not isinstance(part, int) or part == 0:
        return False
    touched = F32.bytes if has_rows(scatter) else SECTOR_BYTES
    saved = 2 * F32.bytes * whole - MORE_PASSES * touched * part
    return saved * costs.byte > MORE_LAUNCHES * costs.launch


def has_rows(scatter: Op) -> bool:
    """Whether an index is for several elements side by side."""
    x, at, _ = scatter.operands
    if scatter.kind is graph.scatter_nd:
        return tensor_of(at).shape[-1] != len(tensor_of(x).shape)
    spread = operand_of(at, graph.broadcast)
    return spread is not None and tensor_of(spread).shape[-1:] in ((), (1,))
