"""Per-channel scales fold into the constant weights of the convolution or contraction next to them.

    %c = graph.contract(%x, %w) {spec = "nk,ko->no"} : tensor<(n)x8xf32>
    %s = graph.broadcast(%scale) {shape = [(n), 8]} : tensor<(n)x8xf32>
    %y = graph.mul(%c, %s) : tensor<(n)x8xf32>

becomes `graph.contract(%x, %w2)` with the columns of the constant %w2 scaled. Shifts stay, as a bias.

Requires: canonicalize and fold_constants (known operands stand right). Ensures: nothing is computed twice: a
value is only folded into when it is read once. Merging `(x s + t) u + v` reassociates, so results may differ in
the last bits. Cost: one sweep.
"""

from __future__ import annotations

import math

import numpy as np

from graphfuse.dialects import graph
from graphfuse.fusion.simplify.fold_constants import Array, aligned, array_of, constant, elementwise, materialised
from graphfuse.fusion.simplify.patterns import Uses, made_by, once_with_uses
from graphfuse.ir.core import Func, Op, OpDef, Value, remade, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, RuleWith, rule_with


def _known_right(op: Op) -> tuple[Value, Array] | None:
    """(x, c) for `f(x, known c)` over floats."""
    x, c = op.operands
    if not tensor_of(x).elem.is_float or aligned(x) is not None:
        return None
    array = aligned(c)
    return None if array is None else (x, array)


def _known_inside(v: Value, kind: OpDef, uses: Uses) -> tuple[Value, Array] | None:
    """(x, c) when `v` is `kind(x, known c)` over floats, and read once."""
    op = made_by(v, kind)
    return None if op is None or uses.get(v, 1) != 1 else _known_right(op)


def _is_finite(a: Array) -> bool:
    return bool(np.isfinite(a.astype(np.float64)).all())


def _compute(kind: OpDef, a: Array, b: Array, like: Op) -> Array | None:
    """Elementwise arithmetic on aligned arrays, in the interpreter; None where a row and a column make a matrix."""
    if math.prod(np.broadcast_shapes(a.shape, b.shape)) > max(a.size, b.size):
        return None
    op = like if like.kind is kind else kind(*like.operands)
    return elementwise(op, [a, b])


# after a contraction or convolution


def scaled(v: Value, scale: Array, uses: Uses) -> Value | None:
    """`v * scale`, when it costs nothing: scaled weights below bias adds, each read once."""
    op = v.op
    if op is None or uses.get(v, 1) != 1 or not _is_finite(scale):
        return None
    if (known := _known_inside(v, graph.add, uses)) is not None:
        x, bias = known
        if (y := scaled(x, scale, uses)) is None or (shift := _compute(graph.mul, bias, scale, op)) is None:
            return None
        return graph.add(y, materialised(shift, tensor_of(v)), loc=op.loc).result
    if op.kind is graph.contract:
        return _scaled_contract(op, scale)
    if op.kind is graph.conv:
        return _scaled_conv(op, scale)
    return None


def _scaled_contract(op: Op, scale: Array) -> Value | None:
    """contract(a, w) * s = contract(a, w * s) where s varies along dims of w only."""
    lhs, rhs, out = graph.parse_spec(str(op.attrs["spec"]))
    varies = {out[i] for i, d in enumerate(scale.shape) if d != 1}
    for i, labels in ((1, rhs), (0, lhs)):
        w = array_of(op.operands[i])
        if w is None or not varies <= set(labels) or tensor_of(op.operands[i]).elem != tensor_of(op.result).elem:
            continue
        factor = by_labels(scale, out, labels)
        if (weights := _times(w, factor, op.operands[i])) is None:
            return None
        operands = list(op.operands)
        operands[i] = weights
        return remade(op, *operands).result
    return None


def by_labels(array: Array, have: str, want: str) -> Array:
    """An aligned array over labels `have`, as one over `want`; it does not vary along labels it lacks."""
    kept = [c for c in want if c in have]
    gone = [i for i, c in enumerate(have) if c not in kept]
    core = np.squeeze(array, tuple(gone)) if gone else array
    left = [c for c in have if c in kept]
    core = core.transpose([left.index(c) for c in kept])
    sizes = dict(zip(kept, core.shape, strict=True))
    return core.reshape([sizes.get(c, 1) for c in want])


def _times(w: Array, factor: Array, like: Value) -> Value | None:
    """Weights scaled, rounded once to their own element; None where that is too small for them."""
    wide = np.result_type(w.dtype, np.float32) if w.dtype.itemsize >= 4 else np.float32
    with np.errstate(over="ignore"):
        scaled = (w.astype(wide) * factor.astype(wide)).astype(w.dtype)
    return constant(scaled, like.op) if _is_finite(scaled) or not _is_finite(w) else None


def _scaled_conv(op: Op, scale: Array) -> Value | None:
    """conv(x, w) * s = conv(x, w * s) where s varies along output channels only."""
    x, weights = op.operands
    w, factor = array_of(weights), _along_weights(op, scale, of_input=False)
    new = None if w is None or factor is None else _times(w, factor, weights)
    return remade(op, x, new).result if new else None


def _along_weights(op: Op, scale: Array, *, of_input: bool) -> Array | None:
    """A scale as it lies along the weights of a convolution, if it varies along its input or output channels only."""
    first = op.attrs.get("layout", "nchw") == "nchw"
    channel = 1 if first else scale.ndim - 1
    if any(d != 1 for i, d in enumerate(scale.shape) if i != channel):
        return None
    axis = int(of_input) if first else scale.ndim - 1 - of_input
    return scale.reshape([-1 if i == axis else 1 for i in range(scale.ndim)])


@rule_with(graph.mul)
def scale_after(op: Op, uses: Uses) -> Replacement | None:
    """(conv(x, w) + b) * s = conv(x, w s) + b s."""
    if (known := _known_right(op)) is None:
        return None
    return scaled(known[0], known[1], uses)


@rule_with(graph.div)
def quotient_after(op: Op, uses: Uses) -> Replacement | None:
    """(conv(x, w) + b) / s = conv(x, w / s) + b / s, for a finite 1 / s."""
    if (known := _known_right(op)) is None:
        return None
    x, divisor = known
    with np.errstate(all="ignore"):
        scale = np.asarray(1.0 / divisor.astype(np.float64)).astype(divisor.dtype)
    return scaled(x, scale, uses)


# chains of affine ops


@rule_with(graph.add, graph.sub)
def shift_after_shift(op: Op, uses: Uses) -> Replacement | None:
    """(x + t) + v = x + (t + v); x - t = x + -t."""
    if (known := _known_right(op)) is None:
        return None
    x, shift = known
    if op.kind is graph.sub:
        return graph.add(x, materialised(np.negative(shift), tensor_of(op.result)), loc=op.loc)
    return _merged(op, x, shift, uses)


@rule_with(graph.mul)
def scale_after_scale(op: Op, uses: Uses) -> Replacement | None:
    """(x s) u = x (s u); (x s + t) u = x (s u) + t u."""
    if (known := _known_right(op)) is None:
        return None
    x, scale = known
    if (merged := _merged(op, x, scale, uses)) is not None:
        return merged
    if (below := _known_inside(x, graph.add, uses)) is None:
        return None
    y, shift = below
    if (bottom := _known_inside(y, graph.mul, uses)) is None:
        return None
    z, first = bottom
    both, moved = (_compute(graph.mul, a, scale, op) for a in (first, shift))
    if both is None or moved is None:
        return None
    t = tensor_of(op.result)
    return graph.add(graph.mul(z, materialised(both, t), loc=op.loc), materialised(moved, t), loc=op.loc)


def _merged(op: Op, x: Value, last: Array, uses: Uses) -> Op | None:
    if (below := _known_inside(x, op.kind, uses)) is None:
        return None
    y, first = below
    both = _compute(op.kind, first, last, op)
    if both is None:
        return None
    return op.kind(y, materialised(both, tensor_of(op.result)), loc=op.loc)


# before a contraction or convolution


@rule_with(graph.contract)
def scale_before_contract(op: Op, uses: Uses) -> Replacement | None:
    """contract(x * s, w) = contract(x, w * s) where s varies along dims of w only."""
    labels = graph.parse_spec(str(op.attrs["spec"]))
    for i, j in ((0, 1), (1, 0)):
        v, w = op.operands[i], array_of(op.operands[j])
        if w is None or (known := _known_inside(v, graph.mul, uses)) is None:
            continue
        x, scale = known
        if not _is_finite(scale) or not tensor_of(op.result).elem.is_float:
            continue
        varies = {labels[i][k] for k, d in enumerate(scale.shape) if d != 1}
        if not varies <= set(labels[j]) or tensor_of(v).elem != tensor_of(op.operands[j]).elem:
            continue
        factor = by_labels(scale, labels[i], labels[j])
        if (weights := _times(w, factor, op.operands[j])) is None:
            continue
        operands = list(op.operands)
        operands[i], operands[j] = x, weights
        return remade(op, *operands)
    return None


@rule_with(graph.conv)
def scale_before_conv(op: Op, uses: Uses) -> Replacement | None:
    """conv(x * s, w) = conv(x, w * s) where s varies along input channels only (padding is 0, which scales to 0)."""
    x, weights = op.operands
    w = array_of(weights)
    if w is None or (known := _known_inside(x, graph.mul, uses)) is None:
        return None
    if not tensor_of(op.result).elem.is_float:
        return None  # floats whose products are made of integers are cut first
    y, scale = known
    factor = _along_weights(op, scale, of_input=True)
    if factor is None or not _is_finite(scale) or (op.attrs.get("groups", 1) != 1 and scale.size != 1):
        return None
    new = _times(w, factor, weights)
    return remade(op, y, new) if new else None


RULES: tuple[RuleWith[Uses], ...] = (
    *scale_after, *scale_after_scale, *quotient_after, *shift_after_shift, *scale_before_contract, *scale_before_conv,
)  # fmt: skip


@passing("graph")
def fold_batch_norm(func: Func) -> Func:
    """Fold scales into neighbouring constant weights and merge affine chains."""
    return once_with_uses(func, RULES)
