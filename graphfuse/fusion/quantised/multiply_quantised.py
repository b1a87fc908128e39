"""Products of dequantised bytes are products of the bytes, scaled; what is quantised again is rounded once.

    %d = graph.mul(cast f32 (x - zero of x), %sx)                  // DequantizeLinear of activations, and of weights
    %e = graph.mul(cast f32 (w), %sw)
    %y = graph.contract(%d, %e) {spec = "mk,kn->mn"} : tensor<8x32xf32>
    %q = graph.cast(clamp(round(relu(%y + %b) / %sy) + %z)) {to = u8}      // QuantizeLinear

becomes

    %s = graph.contract(...) : tensor<8x32xi32>                    // as `multiply_bytes` makes it
    %t = graph.mul(cast f32 (%s), %c)                              // c = sx sw / sy, known
    %q = graph.cast(clamp(round(relu(%t + %d) + ...)) {to = u8}    // d = b / sy

Sums of integers are exact, those of floats were not; one multiplication stands for three, so a quotient within rounding
of half an integer may be rounded to the other one. That is what ONNX Runtime does too.

Rules, in this order:

1. Movement, and the largest of a window, of dequantised bytes are dequantised after it.
2. A product of dequantised bytes is scaled afterwards.
3. What is divided by a scale and rounded is divided where scales are known: through sums, maxima with 0, and products.
4. Bytes that are dequantised and quantised alike are the bytes.

Requires: `fold_all_but_bytes`, a target with products of bytes. Cost: one sweep.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphfuse.dialects import graph
from graphfuse.dialects.graph import ELEMENTWISE
from graphfuse.fusion.quantised.multiply_bytes import Centred, byte_product, centred_of, is_byte
from graphfuse.fusion.simplify.fold_constants import Array, aligned, array_of, constant, materialised, splat_of, uniform
from graphfuse.fusion.simplify.patterns import Uses, made_by, once_with_uses, operand_of
from graphfuse.ir.core import Func, Op, OpDef, Value, attr_ints, remade, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, dead_code, first_of, rebuild, rule, rule_with
from graphfuse.ir.types import F32, I32, Tensor


@dataclass(frozen=True)
class _Dequantised:
    """`(bytes - zero) * scale` in f32, and the difference in i32."""

    centred: Centred
    scale: Value
    integers: Value


def _dequantised(v: Value) -> _Dequantised | None:
    if (op := made_by(v, graph.mul)) is None or tensor_of(v).elem != F32:
        return None
    x, scale = op.operands
    integers = operand_of(x, graph.cast)
    if integers is None or tensor_of(integers).elem != I32 or (centred := centred_of(integers)) is None:
        return None
    return _Dequantised(centred, scale, integers)


def _uniform(v: Value | None) -> float | None:
    """The number that every element is; None if that is not known."""
    if v is None:
        return 0
    if (number := splat_of(v)) is not None:
        return number
    array = aligned(v)
    return None if array is None else uniform(array)


# movement


@rule(graph.reshape, graph.permute, graph.slice_, graph.reduce_window)
def dequantise_moved(op: Op) -> Replacement | None:
    """move(dequantise x) = dequantise(move x), of one zero point and one positive scale, and so for the largest.

    Of known x permuted the zero points and scales may differ.
    """
    (v,) = op.operands
    if (found := _dequantised(v)) is None:
        return None
    if op.kind is graph.permute and array_of(found.centred.bytes) is not None:
        return _dequantised_in_order(op, found)
    zero, scale = _uniform(found.centred.zero), _uniform(found.scale)
    if zero is None or scale is None or not scale > 0:
        return None
    if op.kind is graph.reduce_window and str(op.attrs["kind"]) != "max":
        return None
    zeros = None if found.centred.zero is None else np.asarray(int(zero), np.int32)
    return _dequantised_again(op, remade(op, found.centred.bytes).result, zeros, np.asarray(scale, np.float32))


def _dequantised_in_order(op: Op, found: _Dequantised) -> Op | None:
    """Known bytes dequantised in another order of dims, their zero points and scales in that order too."""
    perm = attr_ints(op, "perm")
    array, scale = array_of(found.centred.bytes), aligned(found.scale)
    zero = None if found.centred.zero is None else aligned(found.centred.zero)
    if array is None or scale is None or (found.centred.zero is not None and zero is None):
        return None
    moved = constant(np.ascontiguousarray(array.transpose(perm)), op)
    return _dequantised_again(op, moved, None if zero is None else zero.transpose(perm), scale.transpose(perm))


def _dequantised_again(op: Op, moved: Value, zero: Array | None, scale: Array) -> Op:
    """What takes the place of `op`: moved bytes, dequantised."""
    shape = tensor_of(moved).shape
    wide = graph.cast(moved, to=I32)
    if zero is not None:
        wide = graph.sub(wide, materialised(zero, Tensor(shape, I32)))
    return graph.mul(graph.cast(wide, to=F32), materialised(scale, Tensor(shape, F32)), loc=op.loc)


# products


@rule(graph.contract, graph.conv)
def scale_product_of_bytes(op: Op) -> Replacement | None:
    """product(dequantise x, dequantise w) = product(x, w) * scales, w known with at most a scale for each output."""
    x, w = (_dequantised(v) for v in op.operands)
    t = tensor_of(op.result)
    if x is None or w is None or t.elem != F32 or (per_tensor := aligned(x.scale)) is None or per_tensor.size != 1:
        return None
    scales = _by_output(op, w.scale)
    if scales is None:
        return None
    sums = byte_product(remade(op, x.integers, w.integers), x.centred, w.centred)
    if sums is None:
        return None
    factor = materialised(scales * per_tensor.reshape(-1)[0], t)
    return graph.mul(graph.cast(sums, to=F32, loc=op.loc), factor, loc=op.loc)


def _by_output(op: Op, scale: Value) -> Array | None:
    """The scales of the weights as they lie along the result, which they may vary along once."""
    array = aligned(scale)
    if array is None:
        return None
    rank = tensor_of(op.result).rank
    axis = next((i for i, d in enumerate(array.shape) if d != 1), None)
    if axis is None:
        return array.reshape((1,) * rank)
    if array.size != array.shape[axis]:
        return None
    if op.kind is graph.conv:
        at = 1 if axis == 0 else None
    else:
        _, rhs, out = graph.parse_spec(str(op.attrs["spec"]))
        at = out.index(rhs[axis]) if rhs[axis] in out else None
    return None if at is None else array.reshape([array.size if i == at else 1 for i in range(rank)])


# quantised again


@dataclass(frozen=True)
class _Quantised:
    """`saturate(round(x / scale) + zero)`, of bytes."""

    x: Value
    scale: float
    zero: float


def _quantised(op: Op) -> _Quantised | None:
    """What a cast to bytes quantises."""
    elem = tensor_of(op.result).elem
    if not is_byte(elem):
        return None
    low, high = (-128, 127) if elem.is_signed else (0, 255)
    v: Value | None = _without(op.operands[0], graph.min_, high)
    v = None if v is None else _without(v, graph.max_, low)
    if v is None:
        return None
    zero: float | None = 0.0
    if (total := made_by(v, graph.add)) is not None:
        v, added = total.operands
        zero = _uniform(added)
    rounded = operand_of(v, ELEMENTWISE["round"])
    if zero is None or rounded is None or (quotient := made_by(rounded, graph.div)) is None:
        return None
    x, divisor = quotient.operands
    scale = _uniform(divisor)
    if scale is None or not 0 < scale < np.inf or tensor_of(x).elem != F32:
        return None
    return _Quantised(x, scale, zero)


def _without(v: Value, kind: OpDef, number: float) -> Value | None:
    """`x` when `v` is `kind(x, number)`."""
    op = made_by(v, kind)
    return None if op is None or _uniform(op.operands[1]) != number else op.operands[0]


@rule(graph.cast)
def quantise_as_it_was(op: Op) -> Replacement | None:
    """quantise(dequantise x) = x, of the same scale and zero point."""
    if (found := _quantised(op)) is None or (was := _dequantised(found.x)) is None:
        return None
    if tensor_of(was.centred.bytes).elem != tensor_of(op.result).elem:
        return None
    same = _uniform(was.scale) == found.scale and _uniform(was.centred.zero) == found.zero
    return was.centred.bytes if same else None


@rule_with(ELEMENTWISE["round"])
def divide_scales(op: Op, uses: Uses) -> Replacement | None:
    """round(v / s) = round(v with its scales divided by s), where v is sums of scaled integers."""
    quotient = made_by(op.operands[0], graph.div)
    if quotient is None or tensor_of(quotient.result).elem != F32:
        return None
    v, divisor = quotient.operands
    scale = _uniform(divisor)
    if scale is None or not scale > 0:
        return None
    divided = _divided(v, np.float32(scale), uses)
    return None if divided is None else op.kind(divided, loc=op.loc)


def _divided(v: Value, by: np.float32, uses: Uses) -> Value | None:
    """v / by, the division done where numbers are known; None where some term has no known factor."""
    op = v.op
    if op is None:
        return None
    if op.kind is graph.mul and _is_integral(op.operands[0]):
        factor = _quotient(op.operands[1], by)
        return None if factor is None else graph.mul(op.operands[0], factor, loc=op.loc).result
    if uses.get(v, 1) > 1:
        return None
    if op.kind is graph.max_ and _uniform(op.operands[1]) == 0:
        inner = _divided(op.operands[0], by, uses)
        return None if inner is None else graph.max_(inner, op.operands[1], loc=op.loc).result
    if op.kind is graph.add:
        parts = [_divided_term(x, by, uses) for x in op.operands]
        return None if parts[0] is None or parts[1] is None else graph.add(parts[0], parts[1], loc=op.loc).result
    return None


def _divided_term(v: Value, by: np.float32, uses: Uses) -> Value | None:
    return _divided(v, by, uses) if aligned(v) is None else _quotient(v, by)


def _quotient(v: Value, by: np.float32) -> Value | None:
    """v / by of known v; None where f32 does not hold it."""
    if (array := aligned(v)) is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        quotient = (array.astype(np.float64) / float(by)).astype(np.float32)
    return materialised(quotient, tensor_of(v)) if np.isfinite(quotient).all() else None


def _is_integral(v: Value) -> bool:
    x = operand_of(v, graph.cast)
    return x is not None and tensor_of(x).elem == I32


@passing("graph")
def multiply_quantised(func: Func) -> Func:
    """Multiply bytes where a model dequantises them first, and scale once."""
    first = (*dequantise_moved, *scale_product_of_bytes, *quantise_as_it_was)
    return once_with_uses(dead_code(rebuild(func, first_of(first))), divide_scales)
