"""Values computed on flattened dims, computed on the dims themselves.

    %v = graph.reshape(%x) {shape = [2, 4, 128]} : tensor<2x4x128xf32>
    %m = graph.reduce(%v) {axes = [2], keepdims = true, kind = "sum"} : tensor<2x4x1xf32>

where %x is 2x8x8x8 becomes

    %v = graph.reshape(%x) {shape = [2, 4, 2, 8, 8]} : tensor<2x4x2x8x8xf32>
    %r = graph.reduce(%v) {axes = [2, 3, 4], keepdims = true, kind = "sum"} : tensor<2x4x1x1x1xf32>
    %m = graph.reshape(%r) {shape = [2, 4, 1]} : tensor<2x4x1xf32>

Two reshapes start such a finer form, which spreads through elementwise ops, reductions, broadcasts and the rows
of contractions until another reshape ends it:

1. One that splits a dim and merges a part of it with others, as a norm over groups of channels does. It keeps
   elements in an order that channels-last values do not have; with the parts apart, layout can reorder them.
2. One that flattens everything but the last dim into the rows of a matrix, as linear layers are exported. Without
   it the layer, its bias and the residual around it have one shape.

Requires: canonicalize. Ensures: nothing where there is no such reshape; finer forms that do not end in a reshape
merge again in canonicalize. Cost: one sweep.
"""

from __future__ import annotations

from graphfuse.dialects import graph
from graphfuse.fusion.simplify.fold_constants import array_of
from graphfuse.fusion.simplify.patterns import is_op, made_by, operand_of
from graphfuse.fusion.simplify.simplify_movement import ELEMENTWISE, Shape, matched_groups, reshaped
from graphfuse.ir.core import Func, Op, Value, attr_ints, remade, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, RuleWith, dead_code, first_of, given, rebuild, rule_with
from graphfuse.symbolic import Dim, exact_div

Fine = dict[Shape, tuple[Shape, tuple[int, ...]]]
"""Shapes that have a finer form: that form, and how many of its dims each dim became."""


def _finer(v: Value, fine: Fine) -> Value | None:
    """z when `v` is reshape(z) and z has the finer form of v's shape, or what a reduction left of it."""
    if (z := operand_of(v, graph.reshape)) is None:
        return None
    shape = tensor_of(v).shape
    for whole, (parts, widths) in fine.items():
        if _left_of(shape, whole) and tensor_of(z).shape == _expanded_shape(shape, parts, widths):
            return z
    return None


def _left_of(shape: Shape, whole: Shape) -> bool:
    """Whether `shape` is `whole` with some dims reduced to 1."""
    return len(shape) == len(whole) and all(d in (1, w) for d, w in zip(shape, whole, strict=True))


def _expanded_shape(shape: Shape, parts: Shape, widths: tuple[int, ...]) -> Shape:
    """`shape` with each dim as its parts, or as ones where it is 1."""
    return tuple(parts[i] if d != 1 else 1 for axis, d in enumerate(shape) for i in _range(widths, axis))


def _range(widths: tuple[int, ...], axis: int) -> range:
    start = sum(widths[:axis])
    return range(start, start + widths[axis])


def flattened_rows(source: Shape, target: Shape) -> tuple[Shape, tuple[int, ...]] | None:
    """The finer form of `target` when it is the matrix `(a b ..) c` and the source `a b .. c`."""
    if len(target) != 2 or len(source) < 3 or source[-1] != target[-1] or not {0, 1}.isdisjoint(target):
        return None
    return source, (len(source) - 1, 1)


def split_shape(source: Shape, target: Shape) -> tuple[Shape, tuple[int, ...]] | None:
    """The finer form of `target` when one group of dims `c s..` becomes `g k`, with c divisible by g."""
    groups = matched_groups(source, target)
    if groups is None or any(d == 1 for d in target):
        return None
    fine: list[Dim] = []
    widths: list[int] = []
    mixed = 0
    for g in groups:
        if len(g.source) < 2 or len(g.target) != 2:
            if len(g.source) > 1 and len(g.target) > 1:
                return None
            fine += [target[i] for i in g.target]
            widths += [1] * len(g.target)
            continue
        channels, first = source[g.source[0]], target[g.target[0]]
        part = exact_div(channels, first)
        if part is None:
            return None
        mixed += 1
        fine += [first, part, *(source[i] for i in g.source[1:])]
        widths += [1, len(g.source)]
    return (tuple(fine), tuple(widths)) if mixed == 1 else None


@rule_with(graph.reshape)
def reshape_to_parts(op: Op, fine: Fine) -> Replacement | None:
    """reshape(x) = reshape(reshape x to the parts), where the parts are what starts or ends a finer form."""
    (x,) = op.operands
    target = tensor_of(op.result).shape
    if (z := _finer(x, fine)) is not None:
        return graph.reshape(z, shape=target, loc=op.loc)
    source = tensor_of(x).shape
    if (got := split_shape(source, target) or flattened_rows(source, target)) is None:
        return None
    if got[0] == source:
        fine[target] = got
        return None
    fine[target] = got
    return graph.reshape(graph.reshape(x, shape=got[0], loc=op.loc), shape=target, loc=op.loc)


@rule_with(graph.contract)
def contract_parts(op: Op, fine: Fine) -> Replacement | None:
    """contract(reshape z, w) = reshape(contract(z, w)), the rows of z under a label each."""
    labels = list(graph.parse_spec(str(op.attrs["spec"])))
    x, w = op.operands
    z = _finer(x, fine)
    if z is None or len(labels[0]) != 2 or tensor_of(x).shape not in fine:
        return None
    _, widths = fine[tensor_of(x).shape]
    row = labels[0][0]
    if widths[1] != 1 or row in labels[1] or not labels[2].startswith(row) or len(labels[2]) != 2:
        return None
    free = [c for c in "abcdefghijklmnopqrstuvwxyz" if c not in "".join(labels)][: widths[0]]
    rows = "".join(free)
    spec = f"{rows}{labels[0][1]},{labels[1]}->{rows}{labels[2][1]}"
    new = remade(op, z, w, spec=spec)
    target = tensor_of(op.result).shape
    fine[target] = (tensor_of(new.result).shape, widths)
    return graph.reshape(new, shape=target, loc=op.loc)


@rule_with(graph.reduce)
def reduce_parts(op: Op, fine: Fine) -> Replacement | None:
    """reduce(reshape z) = reshape(reduce z) over the parts of each dim."""
    (x,) = op.operands
    z = _finer(x, fine)
    if z is None:
        return None
    widths = next(w for whole, (_, w) in fine.items() if _left_of(tensor_of(x).shape, whole))
    axes = tuple(a for axis in sorted(attr_ints(op, "axes")) for a in _range(widths, axis))
    new = remade(op, z, axes=axes)
    return graph.reshape(new, shape=tensor_of(op.result).shape, loc=op.loc)


@rule_with(graph.broadcast)
def broadcast_parts(op: Op, fine: Fine) -> Replacement | None:
    """broadcast(reshape z) = reshape(broadcast z)."""
    shape = tensor_of(op.result).shape
    z = _finer(op.operands[0], {shape: fine[shape]}) if shape in fine else None
    if z is None:
        return None
    return graph.reshape(graph.broadcast(z, shape=fine[shape][0], loc=op.loc), shape=shape, loc=op.loc)


@rule_with(*ELEMENTWISE)
def map_parts(op: Op, fine: Fine) -> Replacement | None:
    """f(reshape z, y) = reshape f(z, y in parts)."""
    finest = next((z for v in op.operands if (z := _finer(v, fine)) is not None), None)
    if finest is None:
        return None
    shape = tensor_of(finest).shape
    operands = [u for v in op.operands if (u := _expanded(v, shape, fine)) is not None]
    if len(operands) < len(op.operands):
        return None
    return graph.reshape(remade(op, *operands), shape=tensor_of(op.result).shape, loc=op.loc)


def _expanded(v: Value, shape: Shape, fine: Fine) -> Value | None:
    """`v` in the finer form `shape`, for values that have one."""
    if (z := _finer(v, fine)) is not None:
        return z if tensor_of(z).shape == shape else None
    if is_op(v, graph.full) or array_of(v) is not None:
        return reshaped(v, shape)
    whole = tensor_of(v).shape
    if (repeat := made_by(v, graph.broadcast)) is None or whole not in fine:
        return None
    (source,) = repeat.operands
    dims = tensor_of(source).shape
    dims = (1,) * (len(whole) - len(dims)) + dims
    return graph.broadcast(reshaped(source, _expanded_shape(dims, *fine[whole])), shape=shape, loc=repeat.loc).result


RULES: tuple[RuleWith[Fine], ...] = (
    *reshape_to_parts, *contract_parts, *reduce_parts, *broadcast_parts, *map_parts,
)  # fmt: skip


@passing("graph")
def recognise_flattening(func: Func) -> Func:
    """Compute on the dims themselves what was written on flattened ones."""
    fine: Fine = {}
    return dead_code(rebuild(func, first_of(given(RULES, fine))))
