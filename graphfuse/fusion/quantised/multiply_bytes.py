"""Products of centred bytes multiply the bytes as they are, and take the zero points off the sums.

    %a = graph.cast(%x) {to = i32} : tensor<8x64xi32>             // x: 8x64xu8
    %c = graph.sub(%a, %z) : tensor<8x64xi32>                     // z: one number, known or not
    %b = graph.cast(%w) {to = i32} : tensor<64x32xi32>            // w: a constant of i8
    %y = graph.contract(%c, %b) {spec = "mk,kn->mn"} : tensor<8x32xi32>

becomes

    %s = graph.contract(%x, %w) {elem = i32, spec = "mk,kn->mn"} : tensor<8x32xi32>
    %y = graph.sub(%s, %t) : tensor<8x32xi32>                     // t: z times the sums of the columns of w

    sum over k of (x - z) w = sum of x w - z * sum of w

Activations are made u8 and weights i8, which is what processors multiply (`cpu/lower_dot_bytes.py`): bytes of the other
kind move by 128, and the zero point with them. What is around an image counts as the zero point, so that is what it is
padded with; a zero point that is not known is taken off where the weights meet the image only. Channels are made a
multiple of four. Where no byte has room for weights less their zero point, what is left of it times the sums of rows of
x is taken off as well.

Requires: constants of bytes are still bytes (`fold_all_but_bytes`). Ensures: the same integers, also where they wrap.
Declines products of two values that are not known. Cost: one sweep.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphfuse.dialects import graph
from graphfuse.fusion.conv.decompose_conv import padded
from graphfuse.fusion.conv.fold_batch_norm import by_labels
from graphfuse.fusion.simplify.fold_constants import Array, aligned, array_of, constant, evaluate, fold_all_but, full
from graphfuse.fusion.simplify.patterns import made_by, operand_of, rule_of
from graphfuse.fusion.simplify.simplify_movement import broadcasted, permuted, reshaped
from graphfuse.ir.core import Attr, Func, Op, Value, attr_dims, attr_ints, remade, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, dead_code, rebuild, sweep
from graphfuse.ir.types import I32, U8, Scalar
from graphfuse.symbolic import Dim, static

FOUR = 4
"""Bytes that are multiplied and added at once."""
MIDDLE = 128
"""How far signed and unsigned bytes are apart."""


@passing("graph")
def fold_all_but_bytes(func: Func) -> Func:
    """Evaluate ops whose operands are known, but leave matrices of bytes what they are; nothing without those."""
    return fold_all_but(func, _widens) if any(_widens(op) for op in func.walk()) else func


def _widens(op: Op) -> bool:
    if op.kind is not graph.cast or array_of(op.operands[0]) is None:
        return False
    t = tensor_of(op.operands[0])
    return sum(d != 1 for d in t.shape) > 1 and fits_byte(t.elem)  # and no vector of zero points


def fits_byte(elem: Scalar) -> bool:
    """Whether an element is an integer of 8 bits or fewer."""
    return elem.is_integer and elem.bits <= 8


def is_byte(elem: Scalar) -> bool:
    """Whether an element is an integer of 8 bits."""
    return elem.is_integer and elem.bits == 8


@dataclass(frozen=True)
class Centred:
    """`bytes - zero` in i32; `zero` is None, or i32 of the same shape."""

    bytes: Value
    zero: Value | None = None

    def known(self) -> Array | None:
        """The difference, if both are known."""
        array = array_of(self.bytes)
        zero = np.int32(0) if self.zero is None else aligned(self.zero)
        return None if array is None or zero is None else np.asarray(array.astype(np.int32) - zero)


def centred_of(v: Value) -> Centred | None:
    """The bytes that `v`, of i32, is made of."""
    x = operand_of(v, graph.cast)
    if x is not None and tensor_of(v).elem == I32 and is_byte(tensor_of(x).elem):
        return Centred(x)
    if (difference := made_by(v, graph.sub)) is None:
        return None
    x, zero = difference.operands
    found = centred_of(x)
    return None if found is None or found.zero is not None else Centred(found.bytes, zero)


@passing("graph")
def multiply_bytes(func: Func) -> Func:
    """Multiply bytes wherever a product of i32 is one of bytes less their zero points."""
    return dead_code(rebuild(func, _visit))


def _visit(op: Op) -> Replacement | None:
    if op.kind not in (graph.contract, graph.conv) or any(tensor_of(v).elem != I32 for v in (*op.operands, op.result)):
        return None
    x, w = (centred_of(v) for v in op.operands)
    return None if x is None or w is None else byte_product(op, x, w)


def byte_product(op: Op, x: Centred, w: Centred) -> Value | None:
    """The contraction or convolution `op` of centred bytes in i32, `w` known; None where bytes are not to be used."""
    weights = w.known()
    number = _Number.of(x.zero)
    if weights is None or number is None:
        return None
    if (elem := narrow(weights)) is None:
        return _in_two_parts(op, x, w) if op.kind is graph.contract else None
    stored = weights.astype(elem)
    if tensor_of(x.bytes).elem.is_signed:
        lifted = graph.add(graph.cast(x.bytes, to=I32), full(tensor_of(x.bytes).shape, I32, MIDDLE))
        x, number = Centred(graph.cast(lifted, to=U8).result), number.plus(MIDDLE)
    made = _contract if op.kind is graph.contract else _conv
    return made(op, x.bytes, stored, number)


def narrow(array: Array) -> type[np.int8 | np.uint8] | None:
    """The bytes that have room for all numbers of an array."""
    least, most = (int(array.min()), int(array.max())) if array.size else (0, 0)
    for elem in (np.int8, np.uint8):
        if np.iinfo(elem).min <= least and most <= np.iinfo(elem).max:
            return elem
    return None


@dataclass(frozen=True)
class _Number:
    """A zero point for all elements: a number, and a value of rank 0 where it is not known."""

    known: int
    value: Value | None = None

    @staticmethod
    def of(zero: Value | None) -> _Number | None:
        """What is subtracted everywhere; None if it varies."""
        if zero is None:
            return _Number(0)
        if (array := aligned(zero)) is not None:
            return _Number(int(array.reshape(-1)[0])) if array.size and (array == array.reshape(-1)[0]).all() else None
        source = operand_of(zero, graph.broadcast)
        if source is None or any(d != 1 for d in tensor_of(source).shape):
            return None
        return _Number(0, reshaped(source, ()))

    def plus(self, more: int) -> _Number:
        """A zero point further on."""
        return _Number(self.known + more, self.value)

    def times(self, sums: Array, shape: tuple[Dim, ...]) -> Value | None:
        """The products with sums of weights, repeated to a shape; None for nothing."""
        known = constant((self.known * sums.astype(np.int64)).astype(np.int32))
        out = broadcasted(known, shape) if self.known else None
        if self.value is None:
            return out
        each = graph.mul(broadcasted(self.value, shape), broadcasted(constant(sums), shape)).result
        return each if out is None else graph.add(each, out).result


def _less(op: Op, made: Op, taken: Value | None) -> Value:
    return made.result if taken is None else graph.sub(made, taken, loc=op.loc).result


# contractions


def _contract(op: Op, x: Value, w: Array, zero: _Number) -> Value | None:
    """Requires that the weights have the last label of the result, and no label that the result shares with x."""
    spec = str(op.attrs["spec"])
    lhs, rhs, out = graph.parse_spec(spec)
    summed = [c for c in dict.fromkeys(lhs + rhs) if c not in out]
    if not summed or any(c not in lhs or c not in rhs for c in summed):
        return None
    if out[-1:] not in rhs or any(c in lhs for c in rhs if c in out):
        return None
    last = summed[-1]
    more = -w.shape[rhs.index(last)] % FOUR
    if more:
        w = np.pad(w, [(0, more if c == last else 0) for c in rhs])
        x = padded(x, (0,) * len(lhs), tuple(more if c == last else 0 for c in lhs), 0)
    made = graph.contract(x, constant(w, op), spec=spec, elem=I32, loc=op.loc)
    sums = w.astype(np.int64).sum(axis=tuple(rhs.index(c) for c in summed)).astype(np.int32)
    columns = _along(sums, "".join(c for c in rhs if c in out), out)
    return _less(op, made, zero.times(columns, tensor_of(op.result).shape))


def _along(array: Array, labels: str, out: str) -> Array:
    """An array over some labels as one over those of the result, without leading dims of size 1."""
    moved = by_labels(array, labels, out)
    lead = next((i for i, d in enumerate(moved.shape) if d != 1), moved.ndim)
    return moved.reshape(moved.shape[lead:])


def _in_two_parts(op: Op, x: Centred, w: Centred) -> Value | None:
    """sum of x (w - z) = sum of x w - z * sum of x, for a zero point that does not vary along k."""
    lhs, rhs, out = graph.parse_spec(str(op.attrs["spec"]))
    array, zero = array_of(w.bytes), None if w.zero is None else aligned(w.zero)
    summed = [c for c in dict.fromkeys(lhs + rhs) if c not in out]
    kept = [c for c in lhs if c in out]
    if array is None or zero is None or any(zero.shape[rhs.index(c)] != 1 for c in summed if c in rhs):
        return None
    if kept != [c for c in out if c in lhs] or any(c in rhs for c in kept):
        return None
    away = 0 if array.dtype == np.int8 else MIDDLE
    made = byte_product(op, x, Centred(constant((array.astype(np.int32) - away).astype(np.int8), op)))
    if made is None:
        return None
    axes = tuple(i for i, c in enumerate(lhs) if c not in kept)
    rows = graph.reduce(op.operands[0], axes=axes, kind="sum", keepdims=False)
    t = tensor_of(op.result)
    column = reshaped(rows.result, tuple(d if c in lhs else 1 for c, d in zip(out, t.shape, strict=True)))
    left = np.squeeze(zero.astype(np.int32) - away, tuple(rhs.index(c) for c in summed))
    zeros = constant(_along(np.ascontiguousarray(left), "".join(c for c in rhs if c in out), out))
    taken = graph.mul(broadcasted(column, t.shape), broadcasted(zeros, t.shape), loc=op.loc)
    return graph.sub(made, taken, loc=op.loc).result


# convolutions


def _conv(op: Op, x: Value, w: Array, zero: _Number) -> Value | None:
    if op.attrs.get("layout", "nchw") != "nchw" or any(u != 1 for u in attr_ints(op, "input_dilation")):
        return None
    spatial = w.ndim - 2
    low, high = attr_ints(op, "low"), attr_ints(op, "high")
    shape = tensor_of(op.result).shape
    sums: Array | None = w.astype(np.int64).sum(axis=tuple(range(1, w.ndim)), keepdims=True).astype(np.int32)[:, 0]
    attrs: dict[str, Attr] = {"elem": I32}
    if zero.value is None:
        least = -128 if tensor_of(x).elem.is_signed else 0
        if any((*low, *high)) and not least <= zero.known < least + 256:
            return None  # no byte to pad with
        x = padded(x, (0, 0, *low), (0, 0, *high), zero.known)
        attrs |= {"low": (0,) * spatial, "high": (0,) * spatial}
    elif any((*low, *high)):
        sums = _sums_inside(op, x, w)
    if sums is None:
        return None
    more = -w.shape[1] % FOUR
    if more and op.attrs.get("groups", 1) == 1:
        w = np.pad(w, [(0, more if i == 1 else 0) for i in range(w.ndim)])
        x = padded(x, (0,) * w.ndim, tuple(more if i == 1 else 0 for i in range(w.ndim)), 0)
    return _less(op, remade(op, x, constant(w, op), **attrs), zero.times(sums, shape))


def _sums_inside(op: Op, x: Value, w: Array) -> Array | None:
    """For each output, the sum of the weights that meet the image; None where its size is not known."""
    size = tensor_of(x).shape[2:]
    if not all(isinstance(d, int) for d in size):
        return None
    ones = np.ones((1, 1, *(static(d) for d in size)), np.int32)
    columns = w.astype(np.int32).sum(axis=1, keepdims=True, dtype=np.int32)
    (sums,) = evaluate(remade(op, constant(ones), constant(columns), groups=1), [ones, columns])
    return sums.reshape(sums.shape[1:])


# memory


@rule_of(graph.conv, graph.contract, of=graph.permute)
def pad_channels_last(op: Op, moved: Op) -> Replacement | None:
    """product(permute(pad z)) = product(pad(permute z)): what is written is dense along the bytes that go together."""
    (z,), perm = moved.operands, attr_ints(moved, "perm")
    pads: list[Op] = []
    while (pad := made_by(z, graph.pad)) is not None:
        pads.append(pad)
        (z,) = pad.operands
    if not is_byte(tensor_of(z).elem) or not pads or perm[-1] == len(perm) - 1:
        return None
    z = permuted(z, perm)
    for pad in reversed(pads):
        ends = {name: tuple(attr_dims(pad, name)[p] for p in perm) for name in ("low", "high")}
        z = remade(pad, z, **ends).result
    return remade(op, z, op.operands[1])


@passing("graph")
def bytes_along_channels(func: Func) -> Func:
    """Padding of what bytes are multiplied with writes it channels last."""
    return dead_code(sweep(func, pad_channels_last)[0])
