"""Channels last inside: convolutions become nhwc, and permutes sink until they cancel.

    %c = graph.conv(%x, %w) {..., layout = "nchw"} : tensor<1x8x4x4xf32>
    %r = graph.exp(%c) : tensor<1x8x4x4xf32>

becomes

    %t = graph.permute(%x) {perm = [0, 2, 3, 1]} : tensor<1x4x4x3xf32>
    %c = graph.conv(%t, %v) {..., layout = "nhwc"} : tensor<1x4x4x8xf32>
    %e = graph.exp(%c) : tensor<1x4x4x8xf32>
    %r = graph.permute(%e) {perm = [0, 3, 1, 2]} : tensor<1x8x4x4xf32>

Requires: canonicalize. Ensures: no nchw convolution; a permute is left only where the order of elements that
a consumer or the caller sees demands one. Algorithm, in one sweep over the ops in order:

1. Each op is seen with operands that may be `permute(z)`, z being how the value is stored.
2. A rule `op(permute z) = permute(op' z)` computes on z. Elementwise ops and concats whose operands are stored in
   different orders take the one that moves the fewest elements; constants and broadcasts adapt for free.
3. An nchw convolution is `permute(nhwc convolution(permute x))`; the inner permute meets the one x may be under.
4. What nothing reads in the permuted order is dead.
"""

from __future__ import annotations

from graphfuse.dialects import graph
from graphfuse.fusion.simplify.fold_constants import array_of, constant
from graphfuse.fusion.simplify.patterns import Uses, is_op, made_by, once_with_uses, operand_of, rule_of
from graphfuse.fusion.simplify.simplify_movement import (
    ELEMENTWISE,
    Perm,
    Shape,
    absorbs_permute,
    contract_of_permute,
    inverse,
    is_identity,
    matched_groups,
    moves_only_ones,
    permuted,
    reshaped,
)
from graphfuse.ir.core import Func, Op, Params, Value, attr_dims, attr_int, attr_ints, remade, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, Rule, RuleWith, rule, rule_with
from graphfuse.symbolic import evaluate, product, static, symbols

TYPICAL_DIM = 32
"""What a symbolic dim counts as when the cost of a permute is estimated."""


def _stored(v: Value) -> tuple[Value, Perm] | None:
    """(z, perm) when `v` is permute(z)."""
    moved = made_by(v, graph.permute)
    return None if moved is None else _unmoved(moved)


def _unmoved(permute: Op) -> tuple[Value, Perm]:
    """(z, perm) of permute(z)."""
    return permute.operands[0], attr_ints(permute, "perm")


def _under(v: Value | Op, perm: Perm) -> Value:
    """permute(v), kept as an op of its own so that it goes on sinking."""
    value = v.result if isinstance(v, Op) else v
    return value if is_identity(perm) else graph.permute(value, perm=perm).result


def _reordered(values: Shape, perm: Perm) -> Shape:
    """One entry per dim of permute(z), as one entry per dim of z."""
    return tuple(values[i] for i in inverse(perm))


# convolution


@rule(graph.conv)
def channels_last(op: Op) -> Replacement | None:
    """conv nchw(x, w) = permute(conv nhwc(permute x, permute w))."""
    if op.attrs.get("layout", "nchw") != "nchw":
        return None
    x, w = op.operands
    rank = tensor_of(x).rank
    spatial = tuple(range(2, rank))
    new = remade(op, permuted(x, (0, *spatial, 1)), permuted(w, (*spatial, 1, 0)), layout="nhwc")
    return _under(new, (0, rank - 1, *range(1, rank - 1)))


# ops that compute in any order of dims


@rule_with(*ELEMENTWISE)
def sink_elementwise(op: Op, uses: Uses) -> Replacement | None:
    """f(permute x, permute y) = permute f(x, y)."""
    perm = _cheapest_order(op.operands, uses)
    if perm is None:
        return None
    undo = inverse(perm)
    return _under(remade(op, *(permuted(v, undo) for v in op.operands)), perm)


def _cheapest_order(values: tuple[Value, ...], uses: Uses) -> Perm | None:
    """The perm under which to store all values, or None for as they are. Where it is all the same, sink."""
    stored = [s[1] for v in values if (s := _stored(v)) is not None]
    if not stored:
        return None
    identity = tuple(range(len(stored[0])))
    best = identity
    least = sum(_cost(v, identity, uses) for v in values)
    if not least:
        return None
    for perm in dict.fromkeys(stored):
        cost = sum(_cost(v, perm, uses) for v in values)
        if cost < least or (cost == least and best == identity):
            best, least = perm, cost
    return None if best == identity else best


def _cost(v: Value, perm: Perm, uses: Uses) -> int:
    """How many elements move to store `v` under `perm`."""
    stored = _stored(v)
    z = stored[0] if stored else v
    if z.op is not None and (z.op.kind in _ADAPTS or (z.op.kind is graph.broadcast and _is_small(z.op.operands[0]))):
        return 0
    undo = inverse(perm)
    if stored is not None:
        undo = tuple(stored[1][i] for i in undo)
    if moves_only_ones(tensor_of(z).shape, undo):
        return 0 if stored is None or is_identity(undo) else 1
    # a contraction writes its result in any order, for as long as the permute stays beside it
    return 1 if stored is not None and absorbs_permute(z, uses, undo) else elements_of(v)


_ADAPTS = frozenset({graph.constant, graph.full, graph.iota})


def _is_small(source: Value) -> bool:
    """Whether what is broadcast is permuted for next to nothing: known, a row, or about to cancel a permute."""
    source = operand_of(source, graph.reshape) or source
    known = is_op(source, graph.constant) or _stored(source) is not None
    return known or sum(d != 1 for d in tensor_of(source).shape) <= 1


def elements_of(v: Value) -> int:
    """Elements of a value, with a guess for symbolic dims."""
    count = product(tensor_of(v).shape)
    if isinstance(count, int):
        return count
    return evaluate(count, dict.fromkeys(symbols(count), TYPICAL_DIM))


@rule_of(graph.reduce, of=graph.permute)
def sink_reduce(op: Op, moved: Op) -> Replacement | None:
    """reduce(permute z) = permute(reduce z) over the same dims."""
    z, perm = _unmoved(moved)
    axes = tuple(sorted(perm[a] for a in attr_ints(op, "axes")))
    new = remade(op, z, axes=axes)
    return _under(new, perm if op.attrs.get("keepdims", False) else _without(perm, axes))


def _without(perm: Perm, gone: tuple[int, ...]) -> Perm:
    """The order of the dims that are left when dims of z go."""
    left = [p for p in perm if p not in gone]
    rank = {p: i for i, p in enumerate(sorted(left))}
    return tuple(rank[p] for p in left)


@rule_of(graph.arg_reduce, graph.cumulate, graph.topk, of=graph.permute)
def sink_along_axis(op: Op, moved: Op) -> Replacement | None:
    """f(permute z, axis) = permute f(z, axis of z), for ops that work along one dim."""
    z, perm = _unmoved(moved)
    axis = perm[attr_int(op, "axis")]
    new = remade(op, z, axis=axis)
    if op.kind is graph.arg_reduce and not op.attrs.get("keepdims", False):
        return _under(new, _without(perm, (axis,)))
    return tuple(_under(v, perm) for v in new.results)


_PER_DIM = {
    graph.reduce_window: ("window", "strides", "low", "high", "dilation"),
    graph.slice_: ("starts", "sizes", "steps"),
    graph.pad: ("low", "high"),
}


@rule_of(*_PER_DIM, of=graph.permute)
def sink_per_dim(op: Op, moved: Op) -> Replacement | None:
    """f(permute z) = permute f(z), for ops with attributes that have an entry per dim."""
    z, perm = _unmoved(moved)
    attrs = {n: _reordered(attr_dims(op, n), perm) for n in _PER_DIM[op.kind]}
    return _under(remade(op, z, **attrs), perm)


@rule_of(graph.flip, of=graph.permute)
def sink_flip(op: Op, moved: Op) -> Replacement | None:
    """flip(permute z) = permute(flip z)."""
    z, perm = _unmoved(moved)
    axes = tuple(sorted(perm[a] for a in attr_ints(op, "axes")))
    return _under(graph.flip(z, axes=axes, loc=op.loc), perm)


@rule_of(graph.broadcast, of=graph.permute)
def sink_broadcast(op: Op, moved: Op) -> Replacement | None:
    """broadcast(permute z) = permute(broadcast z); if nothing cancels it, canonicalize moves it back."""
    z, perm = _unmoved(moved)
    shape = tensor_of(op.result).shape
    lead = len(shape) - len(perm)
    full_perm = (*range(lead), *(lead + p for p in perm))
    return _under(graph.broadcast(z, shape=_reordered(shape, full_perm), loc=op.loc), full_perm)


@rule_with(graph.concat)
def sink_concat(op: Op, uses: Uses) -> Replacement | None:
    """concat(permute x, permute y) = permute(concat(x, y))."""
    if any(isinstance(v.owner, Params) for v in op.operands):
        return None  # a cache keeps the order in which the caller holds it
    if all((stored := _stored(v)) is not None and absorbs_permute(stored[0], uses) for v in op.operands):
        return None
    perm = _cheapest_order(op.operands, uses)
    if perm is None:
        return None
    parts = [permuted(v, inverse(perm)) for v in op.operands]
    return _under(graph.concat(*parts, axis=perm[attr_int(op, "axis")], loc=op.loc), perm)


@rule_of(graph.take, of=graph.permute)
def sink_take(op: Op, moved: Op) -> Replacement | None:
    """take(permute z, i) = permute(take(z, i)); the dims of i stay together."""
    z, perm = _unmoved(moved)
    at, count = perm[attr_int(op, "axis")], tensor_of(op.operands[1]).rank
    new = graph.take(z, op.operands[1], axis=at, loc=op.loc)

    def place(p: int) -> list[int]:
        if p == at:
            return list(range(at, at + count))
        return [p if p < at else p + count - 1]

    return _under(new, tuple(i for p in perm for i in place(p)))


@rule_of(graph.reshape, of=graph.permute)
def sink_reshape(op: Op, moved: Op) -> Replacement | None:
    """reshape(permute z) = permute(reshape z') where groups of merged or split dims can be brought together.

    z' is z when each group is adjacent in z already. Otherwise the dims are regrouped, which moves elements once,
    but groups keep the order in which z ends in them: channels stay last through a channel shuffle.
    """
    z, perm = _unmoved(moved)
    source, target = tensor_of(moved.result).shape, tensor_of(op.result).shape
    groups = matched_groups(source, target)
    if groups is None:
        return None
    groups = sorted(groups, key=lambda g: max(perm[i] for i in g.source))
    ones = [p for i, p in enumerate(perm) if source[i] == 1]
    order = [perm[i] for g in groups for i in g.source]
    z = permuted(z, (*ones, *order))
    # a dim of 1 in the target goes where the dim before it goes; the first and the last ones stay first and last
    end = max((i for i, d in enumerate(target) if d != 1), default=-1) + 1
    after: dict[int, list[int]] = {}
    last = -1
    for i, d in enumerate(target[:end]):
        if d == 1:
            after.setdefault(last, []).append(i)
        else:
            last = i
    dims = list(after.get(-1, []))
    for g in groups:
        for i in g.target:
            dims += [i, *after.get(i, [])]
    dims += range(end, len(target))
    out = reshaped(z, tuple(target[i] for i in dims))
    return _under(out, inverse(tuple(dims)))


@rule_of(graph.contract, of=graph.reshape)
def unflatten_into_weights(op: Op, flatten: Op) -> Replacement | None:
    """contract(reshape(permute z), w) = contract(reshape z, w'), the rows of the constant w in z's order.

    The reshape merges dims into one contracted dim, as the flatten before a classifier does.
    """
    (x, w) = op.operands
    lhs, rhs, out = graph.parse_spec(str(op.attrs["spec"]))
    if (array := array_of(w)) is None or (stored := _stored(flatten.operands[0])) is None:
        return None
    z, perm = stored
    source, target = tensor_of(flatten.operands[0]).shape, tensor_of(x).shape
    groups = matched_groups(source, target)
    if groups is None:
        return None
    merged = [g for g in groups if len(g.source) > 1]
    if len(merged) != 1 or any(len(g.target) > 1 for g in groups):
        return None
    (group,) = merged
    label = lhs[group.target[0]]
    if label in out or label not in rhs or any(not isinstance(source[i], int) for i in group.source):
        return None
    inside = sorted(group.source, key=lambda i: perm[i])
    order = [perm[i] for g in groups for i in (inside if g is group else g.source)]
    ones = [p for i, p in enumerate(perm) if source[i] == 1]
    new_x = permuted(z, (*ones, *order))
    if is_op(new_x, graph.permute):
        return None  # other dims moved as well: nothing is gained
    at = rhs.index(label)
    split = tuple(static(source[i]) for i in group.source)
    k = len(split)
    axes = (*range(at), *(at + group.source.index(i) for i in inside), *range(at + k, array.ndim + k - 1))
    rows = array.reshape(*array.shape[:at], *split, *array.shape[at + 1 :]).transpose(axes).reshape(array.shape)
    return remade(op, reshaped(new_x, target), constant(rows, w.op))


@rule_of(graph.permute, of=graph.permute)
def sink_permute(op: Op, moved: Op) -> Replacement | None:
    """permute(permute z) = permute z, as an op of its own so that it goes on sinking."""
    z, perm = _unmoved(moved)
    return _under(z, tuple(perm[p] for p in attr_ints(op, "perm")))


RULES: tuple[Rule, ...] = (
    *sink_permute, *channels_last, *contract_of_permute, *unflatten_into_weights, *sink_reduce, *sink_along_axis,
    *sink_per_dim, *sink_flip, *sink_broadcast, *sink_take, *sink_reshape,
)  # fmt: skip
ORDER_RULES: tuple[RuleWith[Uses], ...] = (*sink_elementwise, *sink_concat)
"""Rules that weigh the orders in which their operands are stored."""


@passing("graph")
def layout(func: Func) -> Func:
    """Make convolutions nhwc and cancel the permutes around them."""
    return once_with_uses(func, ORDER_RULES, RULES)
