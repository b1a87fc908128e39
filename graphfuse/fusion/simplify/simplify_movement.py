"""Movement ops: the cheapest op that moves elements so, and contractions that absorb permutes.

Owns the constructors that every pass uses to permute, reshape, broadcast and slice a value (they look through
the movement that is already there), the rules about movement ops alone, and the pass that turns permutes
around contractions into labels:

    %t = graph.permute(%k) {perm = [0, 2, 1, 3]} : tensor<2x8x16x64xf32>
    %s = graph.contract(%q, %t) {spec = "bhqd,bhkd->bhqk"} : tensor<2x8x16x16xf32>

becomes

    %s = graph.contract(%q, %k) {spec = "bhqd,bkhd->bhqk"} : tensor<2x8x16x16xf32>

Requires nothing. Ensures: no contraction reads a permute, and no permute is the only reader of a contraction,
directly or through elementwise ops. Cost: one sweep.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from graphfuse.dialects import graph
from graphfuse.fusion.simplify.fold_constants import aligned, array_of, constant, full, number, splat_of
from graphfuse.fusion.simplify.patterns import Uses, is_op, made_by, once_with_uses, operand_of, rule_of
from graphfuse.ir.core import Func, Op, OpDef, Trait, Value, attr_dims, attr_int, attr_ints, remade, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, Rule, rule, rule_with
from graphfuse.symbolic import Dim, exact_div, static

Perm = tuple[int, ...]
Shape = tuple[Dim, ...]

FEW = 4
"""Elements of a line for each that is taken, so that what makes them is worth less done for those alone."""
ELEMENTWISE: tuple[OpDef, ...] = (*graph.ELEMENTWISE.values(), graph.select, graph.cast, graph.bitcast)
"""Every op that maps elements at one index to the element at that index."""


def inverse(perm: Perm) -> Perm:
    """The permutation that undoes `perm`."""
    out = [0] * len(perm)
    for i, p in enumerate(perm):
        out[p] = i
    return tuple(out)


def is_identity(perm: Perm) -> bool:
    """Whether `perm` moves nothing."""
    return all(i == p for i, p in enumerate(perm))


def moves_only_ones(shape: Shape, perm: Perm) -> bool:
    """Whether the dims that are not 1 keep their order, so that a reshape does the same."""
    order = [p for p in perm if shape[p] != 1]
    return all(a < b for a, b in itertools.pairwise(order))


# constructors


def permuted(x: Value, perm: Perm) -> Value:
    """`x` with result dim i being dim `perm[i]`, looking through permutes, constants and broadcasts."""
    if is_identity(perm):
        return x
    t = tensor_of(x)
    shape = tuple(t.shape[p] for p in perm)
    if x.op is not None:
        op = x.op
        if op.kind is graph.permute:
            inner = attr_ints(op, "perm")
            return permuted(op.operands[0], tuple(inner[p] for p in perm))
        if op.kind is graph.broadcast:
            return broadcasted(permuted(_aligned_rank(op.operands[0], t.rank), perm), shape)
        if (array := array_of(x)) is not None:
            return constant(array.transpose(perm), op)
        if op.kind is graph.full:
            return remade(op, shape=shape).result
        if op.kind is graph.iota:
            return graph.iota(shape=shape, elem=t.elem, axis=perm.index(attr_int(op, "axis"))).result
        if op.kind is graph.reshape and (lifted := _permuted_reshape(op, perm)) is not None:
            return lifted
    if moves_only_ones(t.shape, perm):
        return reshaped(x, shape)
    return graph.permute(x, perm=perm).result


def _aligned_rank(x: Value, rank: int) -> Value:
    t = tensor_of(x)
    return reshaped(x, (1,) * (rank - t.rank) + t.shape)


def _permuted_reshape(op: Op, perm: Perm) -> Value | None:
    """permute(reshape(permute z)) = reshape(permute z'), where the reshape only merges dims or moves ones."""
    z = op.operands[0]
    if not is_op(z, graph.permute):
        return None
    source, target = tensor_of(z).shape, tensor_of(op.result).shape
    groups = matched_groups(source, target)
    if groups is None or any(len(g.target) > 1 for g in groups):
        return None
    by_target = {g.target[0]: g.source for g in groups}
    order = [i for p in perm if target[p] != 1 for i in by_target[p]]
    ones = [i for i, d in enumerate(source) if d == 1]
    return reshaped(permuted(z, (*ones, *order)), tuple(target[p] for p in perm))


def reshaped(x: Value, shape: Shape) -> Value:
    """`x` under another shape, looking through reshapes, constants and fulls."""
    t = tensor_of(x)
    if t.shape == shape:
        return x
    if x.op is not None:
        op = x.op
        if op.kind is graph.reshape:
            return reshaped(op.operands[0], shape)
        if (array := array_of(x)) is not None and all(isinstance(d, int) for d in shape):
            return constant(array.reshape([static(d) for d in shape]), op)
        if op.kind is graph.full:
            return remade(op, shape=shape).result
        if op.kind is graph.permute and moves_only_ones(tensor_of(op.operands[0]).shape, attr_ints(op, "perm")):
            return reshaped(op.operands[0], shape)
    return graph.reshape(x, shape=shape).result


def _narrows(op: Op) -> bool:
    """Whether a broadcast makes 1 of a dim that has to be 1 when it runs: what repeats then is the result alone."""
    have, made = tensor_of(op.operands[0]).shape, tensor_of(op.result).shape
    return any(m == 1 != d for d, m in zip(have, made[len(made) - len(have) :], strict=True))


def broadcasted(x: Value, shape: Shape) -> Value:
    """`x` repeated to `shape`; a constant or a reshape is without leading dims of 1 that repeat anyway."""
    t = tensor_of(x)
    if t.shape == shape:
        return x
    if x.op is not None:
        if x.op.kind is graph.broadcast and not _narrows(x.op):
            return broadcasted(x.op.operands[0], shape)
        if x.op.kind is graph.full:
            return remade(x.op, shape=shape).result
    lead = next((i for i, d in enumerate(t.shape) if d != 1), t.rank)
    if lead and is_op(x, graph.constant, graph.reshape):
        x = reshaped(x, t.shape[lead:])
    return graph.broadcast(x, shape=shape).result


def grown(x: Value, high: Shape) -> Value:
    """`x` with so many zeros behind it along each dim; padding by zeros that it has already is part of that."""
    low: Shape = (0,) * len(high)
    pad = made_by(x, graph.pad)
    if pad is not None and (pad.attrs.get("mode", "constant"), pad.attrs.get("value", 0)) == ("constant", 0):
        low, high = attr_dims(pad, "low"), tuple(a + b for a, b in zip(attr_dims(pad, "high"), high, strict=True))
        (x,) = pad.operands
    return graph.pad(x, low=low, high=high, value=0.0).result


def sliced(x: Value, axis: int, start: Dim, size: Dim) -> Value:
    """`size` elements of `x` along one dim."""
    shape = tensor_of(x).shape
    return graph.slice_(
        x,
        starts=tuple(start if i == axis else 0 for i in range(len(shape))),
        sizes=tuple(size if i == axis else d for i, d in enumerate(shape)),
        steps=(1,) * len(shape),
    ).result


# how a reshape regroups dims


@dataclass(frozen=True, slots=True)
class Group:
    """Adjacent source dims that hold the same elements as adjacent target dims; none is 1."""

    source: tuple[int, ...]
    target: tuple[int, ...]


def matched_groups(source: Shape, target: Shape) -> list[Group] | None:
    """The finest grouping of a reshape, or None where sizes cannot be compared."""
    left = [i for i, d in enumerate(source) if d != 1]
    right = [i for i, d in enumerate(target) if d != 1]
    out: list[Group] = []
    i = j = 0
    while i < len(left) and j < len(right):
        i0, j0 = i, j
        a, b = source[left[i]], target[right[j]]
        i, j = i + 1, j + 1
        while a != b:
            # the first product that both come to is a multiple of all before it on either side: neither passes it
            if i < len(left) and exact_div(b, a) is not None:
                a, i = a * source[left[i]], i + 1
            elif j < len(right):
                b, j = b * target[right[j]], j + 1
            else:
                return None
        out.append(Group(tuple(left[i0:i]), tuple(right[j0:j])))
    return out if i == len(left) and j == len(right) else None


# rules about movement alone


@rule(graph.reshape)
def merge_reshape(op: Op) -> Replacement | None:
    """reshape(reshape x) = reshape x; reshape to the same shape = x; of a constant or full: folded."""
    return _changed(reshaped(op.operands[0], tensor_of(op.result).shape), op)


@rule(graph.permute)
def merge_permute(op: Op) -> Replacement | None:
    """permute(permute x) = permute x; identity = x; only dims of 1 move: reshape; broadcasts are permuted below.

    A permuted constant is left to fold_constants, which knows who else reads it.
    """
    if is_op(op.operands[0], graph.constant) and not is_identity(attr_ints(op, "perm")):
        return None
    return _changed(permuted(op.operands[0], attr_ints(op, "perm")), op)


@rule_of(graph.permute, of=graph.take)
def permute_of_take(op: Op, taken: Op) -> Replacement | None:
    """permute(take(c, i)) = take(permute c, i) for a constant c, where the dims of i stay together."""
    table, indices = taken.operands
    axis = attr_int(taken, "axis")
    perm, count = attr_ints(op, "perm"), tensor_of(indices).rank
    inside = [i for i, p in enumerate(perm) if axis <= p < axis + count]
    if array_of(table) is None or not count or [perm[i] for i in inside] != list(range(axis, axis + count)):
        return None
    if inside != list(range(inside[0], inside[0] + count)):
        return None
    order = [p if p < axis else p - count + 1 for i, p in enumerate(perm) if i not in inside[1:]]
    order[inside[0]] = axis
    return graph.take(permuted(table, tuple(order)), indices, axis=inside[0], loc=op.loc)


@rule(graph.broadcast)
def merge_broadcast(op: Op) -> Replacement | None:
    """broadcast(broadcast x) = broadcast x; of a full = full; to the same shape = x; leading ones are implied."""
    return _changed(broadcasted(op.operands[0], tensor_of(op.result).shape), op)


@rule_of(graph.broadcast, of=graph.reshape)
def broadcast_of_reshape(op: Op, reshape: Op) -> Replacement | None:
    """broadcast(reshape x) = broadcast x, where the reshape only adds leading ones."""
    (x,) = reshape.operands
    t, have = tensor_of(x), tensor_of(reshape.result)
    if have.shape != (1,) * (have.rank - t.rank) + t.shape:
        return None
    return broadcasted(x, tensor_of(op.result).shape)


def _changed(got: Value, op: Op) -> Value | None:
    """What a constructor made, unless it is what is there."""
    same = made_by(got, op.kind)
    return got if same is None or same.operands != op.operands else None


@rule(graph.slice_)
def slice_of_all(op: Op) -> Replacement | None:
    """A slice of everything is the operand: one as large, by steps of 1, begins at 0."""
    (x,) = op.operands
    is_all = tensor_of(x).shape == op.attrs["sizes"] and all(s == 1 for s in attr_ints(op, "steps"))
    return x if is_all else None


@rule_of(graph.slice_, of=graph.slice_)
def slice_of_slice(op: Op, inner: Op) -> Replacement | None:
    """x[a::s][b::t] = x[a + b s :: s t]."""
    outer_starts, inner_starts = attr_dims(op, "starts"), attr_dims(inner, "starts")
    outer_steps, inner_steps = attr_ints(op, "steps"), attr_ints(inner, "steps")
    return graph.slice_(
        inner.operands[0],
        starts=tuple(a + b * s for a, b, s in zip(inner_starts, outer_starts, inner_steps, strict=True)),
        sizes=op.attrs["sizes"],
        steps=tuple(s * t for s, t in zip(inner_steps, outer_steps, strict=True)),
    )


@rule_of(graph.slice_, of=graph.concat)
def slice_of_concat(op: Op, parts: Op) -> Replacement | None:
    """A slice that stays inside one operand of a concat is a slice of that operand."""
    axis = attr_int(parts, "axis")
    starts, sizes, steps = attr_dims(op, "starts"), attr_dims(op, "sizes"), attr_ints(op, "steps")
    offset: Dim = 0
    for v in parts.operands:
        d = tensor_of(v).shape[axis]
        after = starts[axis] - offset
        room = d - after - ((sizes[axis] - 1) * steps[axis] + 1)
        if isinstance(after, int) and isinstance(room, int) and after >= 0 and room >= 0:
            return graph.slice_(
                v, starts=tuple(after if i == axis else s for i, s in enumerate(starts)), sizes=sizes, steps=steps
            )
        offset = offset + d
    return None


@rule_of(graph.slice_, of=graph.pad)
def slice_of_pad(op: Op, pad: Op) -> Replacement | None:
    """A slice that leaves out all that was padded is a slice of the operand."""
    (x,) = pad.operands
    steps, sizes = attr_ints(op, "steps"), attr_dims(op, "sizes")
    starts = tuple(s - low for s, low in zip(attr_dims(op, "starts"), attr_dims(pad, "low"), strict=True))
    ends = (s + (n - 1) * step for s, n, step in zip(starts, sizes, steps, strict=True))
    room = (d - 1 - end for d, end in zip(tensor_of(x).shape, ends, strict=True))
    if not all(isinstance(d, int) and d >= 0 for d in (*starts, *room)):
        return None
    return graph.slice_(x, starts=starts, sizes=sizes, steps=steps)


@rule_of(graph.slice_, of=graph.full)
def slice_of_uniform(op: Op, whole: Op) -> Replacement:
    """A slice of a full is a full."""
    return remade(whole, shape=op.attrs["sizes"])


@rule_of(graph.slice_, of=graph.broadcast)
def slice_of_broadcast(op: Op, repeat: Op) -> Replacement | None:
    """A slice of a broadcast is a broadcast of the slice along the dims that do not repeat."""
    (x,) = repeat.operands
    t, out = tensor_of(x), tensor_of(op.result)
    skip = out.rank - t.rank
    wide = tensor_of(repeat.result).shape[skip:]
    keep = [d != 1 or w == 1 for d, w in zip(t.shape, wide, strict=True)]
    starts, steps, sizes = attr_dims(op, "starts")[skip:], attr_ints(op, "steps")[skip:], out.shape[skip:]
    part = graph.slice_(
        x,
        starts=tuple(s if k else 0 for s, k in zip(starts, keep, strict=True)),
        sizes=tuple(s if k else 1 for s, k in zip(sizes, keep, strict=True)),
        steps=tuple(s if k else 1 for s, k in zip(steps, keep, strict=True)),
    )
    return broadcasted(part.result, out.shape)


@rule(graph.pad)
def pad_of_nothing(op: Op) -> Replacement | None:
    """Padding by zero everywhere is the operand; a full padded with its own value is a full."""
    (x,) = op.operands
    if all(p == 0 for p in (*attr_dims(op, "low"), *attr_dims(op, "high"))):
        return x
    t = tensor_of(x)
    value = number(op.attrs.get("value", 0), t.elem)
    # as text: 0.0 is not -0.0
    return full(tensor_of(op.result).shape, t.elem, value) if str(splat_of(x)) == str(value) else None


@rule_of(graph.pad, of=graph.pad)
def pad_of_pad(op: Op, inner: Op) -> Replacement | None:
    """pad(pad x) with one value adds up."""
    how, inside = ((o.attrs.get("mode", "constant"), str(o.attrs.get("value", 0))) for o in (op, inner))
    if how != inside or how[0] != "constant":
        return None
    low, high = (
        tuple(a + b for a, b in zip(attr_dims(op, n), attr_dims(inner, n), strict=True)) for n in ("low", "high")
    )
    return remade(op, inner.operands[0], low=low, high=high)


@rule(graph.concat)
def concat_of_one(op: Op) -> Replacement | None:
    """Empty operands join nothing; a concat of one is that one."""
    axis = attr_int(op, "axis")
    kept = [v for v in op.operands if tensor_of(v).shape[axis] != 0] or list(op.operands[:1])
    if len(kept) == 1:
        return kept[0]
    return graph.concat(*kept, axis=axis) if len(kept) < len(op.operands) else None


MOST_JOINED = 1024
"""Pieces up to which nested concats become one: a tensor that is joined to itself over and over has 2^n."""


@rule(graph.concat)
def concat_of_concat(op: Op) -> Replacement | None:
    """Nested concats along one axis are one."""
    axis = attr_int(op, "axis")
    inner = [made_by(v, graph.concat) for v in op.operands]
    parts = [p.operands if p is not None and p.attrs["axis"] == axis else None for p in inner]
    if all(p is None for p in parts) or sum(len(p or (0,)) for p in parts) > MOST_JOINED:
        return None
    flat = [u for v, p in zip(op.operands, parts, strict=True) for u in ((v,) if p is None else p)]
    return graph.concat(*flat, axis=axis)


@rule(graph.concat)
def concat_of_slices(op: Op) -> Replacement | None:
    """x[a:b] next to x[b:c] is x[a:c]."""
    axis = attr_int(op, "axis")
    out: list[Value] = []
    for v in op.operands:
        joined = _joined(out[-1], v, axis) if out else None
        if joined is None:
            out.append(v)
        else:
            out[-1] = joined
    return graph.concat(*out, axis=axis) if len(out) < len(op.operands) else None


def _joined(a: Value, b: Value, axis: int) -> Value | None:
    p, q = made_by(a, graph.slice_), made_by(b, graph.slice_)
    if p is None or q is None:
        return None
    if p.operands != q.operands or p.attrs["steps"] != q.attrs["steps"] or attr_ints(p, "steps")[axis] != 1:
        return None
    starts, sizes = attr_dims(p, "starts"), attr_dims(p, "sizes")
    other_starts, other_sizes = attr_dims(q, "starts"), attr_dims(q, "sizes")
    if other_starts[axis] != starts[axis] + sizes[axis]:
        return None
    if any(starts[i] != other_starts[i] for i in range(len(starts)) if i != axis):
        return None
    total = tuple(s + t if i == axis else s for i, (s, t) in enumerate(zip(sizes, other_sizes, strict=True)))
    return graph.slice_(p.operands[0], starts=starts, sizes=total, steps=p.attrs["steps"]).result


@rule(graph.flip)
def flip_of_flip(op: Op) -> Replacement | None:
    """flip(flip x) = x over the axes they share; dims of 1 and fulls do not change."""
    (x,) = op.operands
    axes = {a for a in attr_ints(op, "axes") if tensor_of(x).shape[a] != 1}
    if is_op(x, graph.full):
        return x
    if (inner := made_by(x, graph.flip)) is not None:
        axes ^= set(attr_ints(inner, "axes"))
        (x,) = inner.operands
    if not axes:
        return x
    same = x == op.operands[0] and len(axes) == len(attr_ints(op, "axes"))
    return None if same else graph.flip(x, axes=tuple(sorted(axes)))


@rule_of(graph.slice_, graph.take, graph.take_along, graph.gather_nd, graph.reduce_window, of=graph.cast)
def widen_what_was_looked_up(op: Op, cast: Op) -> Replacement | None:
    """f(cast x) = cast(f x) where the cast widens, for what picks elements: fewer bytes are read."""
    (x,) = cast.operands
    elem, to = tensor_of(x).elem, tensor_of(cast.result).elem
    picks = op.kind is not graph.reduce_window or op.attrs["kind"] == "max"
    if op.operands[0] != cast.result or not picks or not (elem.is_float and to.is_float and elem.bits < to.bits):
        return None
    return graph.cast(remade(op, x, *op.operands[1:]).result, to=to)


@rule(graph.take_along)
def take_few_of_elementwise(op: Op) -> Replacement | None:
    """take_along(f(x, y), i) = f(take_along(x, i), take_along(y, i)), where f is worth far fewer times.

    Not where f ends a product: its sums, too, would be stored.
    """
    x, i = op.operands
    f = (operand_of(x, graph.reshape) or x).op
    if f is None or f.kind not in ELEMENTWISE or not _takes_few(op) or _ends_product(f):
        return None
    shape = tensor_of(x).shape
    return remade(f, *(remade(op, reshaped(v, shape), i).result for v in f.operands))


def _ends_product(f: Op) -> bool:
    """Whether elementwise work makes something of a product, which nothing of its rows was computed for."""
    widens = f.kind is graph.cast and tensor_of(f.result).elem.bits > tensor_of(f.operands[0]).elem.bits
    if widens or any(is_op(_of_row(v), graph.reduce) for v in f.operands):
        return False
    return any(
        v.op is not None
        and (v.op.kind in (graph.contract, graph.conv) or (v.op.kind in ELEMENTWISE and _ends_product(v.op)))
        for v in map(_viewed, f.operands)
    )


def _of_row(v: Value) -> Value:
    """What numbers of rows are made of, as the logarithm of a sum."""
    v = _viewed(v)
    while v.op is not None and v.op.kind in ELEMENTWISE and len(v.op.operands) == 1:
        v = _viewed(v.op.operands[0])
    return v


def _viewed(v: Value) -> Value:
    """What is read through reshapes and broadcasts."""
    while v.op is not None and v.op.kind in (graph.reshape, graph.broadcast):
        v = v.op.operands[0]
    return v


def _takes_few(op: Op) -> bool:
    axis = attr_int(op, "axis")
    have, want = (tensor_of(v).shape[axis] for v in op.operands)
    return isinstance(have, int) and isinstance(want, int) and want * FEW <= have


@rule(graph.take_along)
def take_of_equals(op: Op) -> Replacement | None:
    """take_along(full, i) = full; take_along(broadcast x, i) = broadcast x, where x has one element along the axis."""
    (x, i), axis = op.operands, attr_int(op, "axis")
    shape, taken = tensor_of(x).shape, tensor_of(i).shape
    if (whole := made_by(x, graph.full)) is not None:
        return remade(whole, shape=taken)
    source = operand_of(x, graph.broadcast)
    if source is None or (*shape[:axis], *shape[axis + 1 :]) != (*taken[:axis], *taken[axis + 1 :]):
        return None
    source = _aligned_rank(source, len(shape))
    return broadcasted(source, taken) if tensor_of(source).shape[axis] == 1 else None


@rule(graph.reduce)
def reduce_of_nothing(op: Op) -> Replacement | None:
    """Reducing dims of 1, or none, is a reshape."""
    (x,) = op.operands
    t = tensor_of(x)
    axes = attr_ints(op, "axes")
    ones = [a for a in axes if t.shape[a] == 1]
    if len(ones) == len(axes):
        return reshaped(x, tensor_of(op.result).shape)
    return None


@rule(graph.reduce)
def reduce_across_ones(op: Op) -> Replacement | None:
    """Dims of 1 are reduced with what lies around them, where that makes a row of what is reduced."""
    (x,) = op.operands
    shape, axes = tensor_of(x).shape, attr_ints(op, "axes")
    first = min((a for a in axes if shape[a] != 1), default=len(shape))
    row = tuple(range(first, len(shape)))
    is_row = sorted(axes) == [*range(len(shape) - len(axes), len(shape))]
    if not row or is_row or any(shape[i] != 1 for i in row if i not in axes):
        return None
    return reshaped(remade(op, x, axes=row).result, tensor_of(op.result).shape)


MOVEMENT_RULES: tuple[Rule, ...] = (
    *merge_reshape, *merge_permute, *permute_of_take,
    *broadcast_of_reshape, *merge_broadcast,
    *slice_of_all, *slice_of_uniform, *slice_of_slice, *slice_of_concat, *slice_of_broadcast, *slice_of_pad,
    *pad_of_nothing, *pad_of_pad, *concat_of_one, *concat_of_concat, *concat_of_slices, *flip_of_flip,
    *reduce_of_nothing, *reduce_across_ones, *widen_what_was_looked_up, *take_few_of_elementwise, *take_of_equals,
)  # fmt: skip


# contractions and permutes


@rule(graph.contract)
def contract_of_permute(op: Op) -> Replacement | None:
    """contract(permute a, b) = contract(a, b) with the labels of a in a's order."""
    labels = list(graph.parse_spec(str(op.attrs["spec"])))
    operands = list(op.operands)
    for i, v in enumerate(op.operands):
        if (moved := made_by(v, graph.permute)) is not None:
            labels[i] = "".join(labels[i][j] for j in inverse(attr_ints(moved, "perm")))
            (operands[i],) = moved.operands
    if operands == list(op.operands):
        return None
    spec = f"{labels[0]},{labels[1]}->{labels[2]}"
    return remade(op, *operands, spec=spec)


def absorbs_permute(v: Value, uses: Uses, perm: Perm | None = None) -> bool:
    """Whether a permute of `v` costs nothing: a contraction read once, seen through elementwise ops read once.

    But not a `perm` by which neighbours in memory would be of different products.
    """
    op = v.op
    if op is None or uses.get(v, 1) != 1:
        return False
    if op.kind is graph.contract:
        return perm is None or not _parts_products(op, perm)
    if op.kind is graph.permute:
        inner = attr_ints(op, "perm")
        return absorbs_permute(op.operands[0], uses, perm and tuple(inner[p] for p in perm))
    if not op.has(Trait.ELEMENTWISE):
        return False
    hard = [u for u in op.operands if not moves_freely(u)]
    return len(hard) == 1 and absorbs_permute(hard[0], uses, perm)


def _parts_products(op: Op, perm: Perm) -> bool:
    """Whether the last dim of a contraction's result would be one that both operands have, and that is not now."""
    lhs, rhs, out = graph.parse_spec(str(op.attrs["spec"]))
    long = [p for p in perm if tensor_of(op.result).shape[p] != 1]
    return bool(long) and out[long[-1]] in set(lhs) & set(rhs) and out[-1] not in set(lhs) & set(rhs)


def moves_freely(v: Value) -> bool:
    """Whether a permuted form of `v` is as cheap as `v`: constants, fulls, and broadcasts of fewer dims."""
    if aligned(v) is not None or is_op(v, graph.full, graph.iota):
        return True
    x = operand_of(v, graph.broadcast)
    return x is not None and sum(d != 1 for d in tensor_of(x).shape) <= 1


def _absorbed(v: Value, perm: Perm) -> Value:
    op = v.op
    assert op is not None
    if op.kind is graph.contract:
        lhs, rhs, out = graph.parse_spec(str(op.attrs["spec"]))
        spec = f"{lhs},{rhs}->{''.join(out[p] for p in perm)}"
        return remade(op, *op.operands, spec=spec).result
    if op.kind is graph.permute:
        inner = attr_ints(op, "perm")
        return _absorbed(op.operands[0], tuple(inner[p] for p in perm))
    operands = [permuted(u, perm) if moves_freely(u) else _absorbed(u, perm) for u in op.operands]
    return remade(op, *operands).result


@rule_with(graph.permute)
def permute_of_contract(op: Op, uses: Uses) -> Replacement | None:
    """permute(contract(a, b)) writes its labels in the permuted order, through elementwise ops in between."""
    (x,) = op.operands
    perm = attr_ints(op, "perm")
    return _absorbed(x, perm) if absorbs_permute(x, uses, perm) else None


@passing("graph")
def simplify_movement(func: Func) -> Func:
    """Absorb permutes around contractions into their labels."""
    return once_with_uses(func, permute_of_contract, (*contract_of_permute, *merge_permute))
