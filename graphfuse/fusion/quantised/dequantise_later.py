"""Products with quantised weights read them as they are stored; their scales go to the result.

    %f = graph.cast(%q) {to = f32} : tensor<4096x4096xf32>                   // %q: constant, i8
    %d = graph.mul(%f, %scales) : tensor<4096x4096xf32>                      // one for each column
    %w = graph.cast(%d) {to = bf16} : tensor<4096x4096xbf16>
    %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<16x4096xbf16>

becomes, with the constant laid out along k,

    %p = graph.contract(%x, %q) {elem = f32, spec = "mk,nk->mn"} : tensor<16x4096xf32>
    %y = graph.cast(%p * %scales) {to = bf16} : tensor<16x4096xbf16>

The kernel converts what it loads: bytes and all their differences are exact in halves. Scales for blocks of k are an
operand of the product instead (`contract_blocks`). With few rows such a product takes as long as its weights take to
load. With more, tensor cores wait for the conversion, and halves made once, when compiling, are faster: then the
weights are left to `fold_constants`, as they are where a zero point leaves no byte.

Requires: `fold_all_but_weights`. Ensures: every product that was chosen rounds less often. Cost: one sweep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from graphfuse.dialects import graph
from graphfuse.fusion.quantised.multiply_bytes import fits_byte, narrow
from graphfuse.fusion.simplify.fold_constants import Array, aligned, array_of, constant, fold_all_but
from graphfuse.fusion.simplify.patterns import made_by, operand_of
from graphfuse.fusion.simplify.simplify_movement import broadcasted, inverse
from graphfuse.ir.core import Func, Op, Value, attr_ints, tensor_of
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, dead_code, rebuild
from graphfuse.ir.types import BF16, F16, F32, Scalar
from graphfuse.symbolic import Dim, Ranges, bounds, product, static

LEAST_ELEMENTS = 1 << 16
"""Of a matrix that stays as it is; smaller ones are in the cache anyway."""
LEAST_BLOCK = 32
"""Elements along k that share a scale."""
MOST_ROWS = 64
"""Of what is multiplied by it: beyond, tensor cores are what takes time."""
TYPICAL = 2048
"""What an unknown number of rows is taken to be, within its range."""
FLOATS = (F32, F16, BF16)


@passing("graph")
def fold_all_but_weights(func: Func) -> Func:
    """Evaluate ops whose operands are known, but for large constants of bytes, which stay what they are."""
    return fold_all_but(func, _widens)


def _widens(op: Op) -> bool:
    if op.kind is not graph.cast or (array := array_of(op.operands[0])) is None:
        return False
    return fits_byte(tensor_of(op.operands[0]).elem) and array.size >= LEAST_ELEMENTS


@dataclass(frozen=True)
class Quantised:
    """Constants: bytes, what is subtracted of them, and what they are then multiplied by; all of one rank."""

    bytes: Array
    zero: Array | None = None
    """Integers, or floats."""
    scale: Array | None = None


@passing("graph")
def dequantise_later(func: Func) -> Func:
    """Multiply by bytes, then by their scales."""
    return dead_code(rebuild(func, partial(_later, ranges=func.ranges)))


@dataclass(frozen=True)
class ByMatrix:
    """A product of floats whose columns are those of a matrix: `lhs,rhs->out`, `n` being these and `k` summed."""

    x: Value
    w: Value
    """The matrix, before what permutes it."""
    lhs: str
    rhs: str
    out: str
    n: str
    k: str

    @staticmethod
    def of(op: Op) -> ByMatrix | None:
        """What an op is, if it is one."""
        if op.kind is not graph.contract or not {tensor_of(v).elem for v in (op.operands[0], op.result)} <= {*FLOATS}:
            return None
        x, w = op.operands
        lhs, rhs, out = graph.parse_spec(str(op.attrs["spec"]))
        if (moved := made_by(w, graph.permute)) is not None:
            rhs = "".join(rhs[i] for i in inverse(attr_ints(moved, "perm")))
            (w,) = moved.operands
        n, k = [c for c in rhs if c not in lhs], [c for c in rhs if c in lhs]
        if len(n) != 1 or len(k) != 1 or k[0] in out or out[-1:] != n[0]:
            return None
        return ByMatrix(x, w, lhs, rhs, out, n[0], k[0])

    def least_rows(self, ranges: Ranges) -> int:
        """Of x."""
        return bounds(self._rows, ranges)[0]

    def typical_rows(self, ranges: Ranges) -> int:
        """Of x, where their number is not known what they are taken to be."""
        least, most = bounds(self._rows, ranges)
        return max(least, min(most, TYPICAL))

    @property
    def _rows(self) -> Dim:
        return product([d for c, d in zip(self.lhs, tensor_of(self.x).shape, strict=True) if c != self.k])

    @property
    def is_of_rows(self) -> bool:
        """Whether k is the last dim of x, and the others are the result's as they are."""
        return self.lhs[-1] == self.k and self.out == self.lhs[:-1] + self.n


def _later(op: Op, ranges: Ranges) -> Replacement | None:
    if (by := ByMatrix.of(op)) is None:
        return None
    x, w = by.x, by.w
    found = quantised(w) if by.typical_rows(ranges) <= MOST_ROWS else None
    stored = None if found is None else _stored(found)
    if found is None or stored is None:
        return None
    axis = by.rhs.index(by.n)
    scale = np.ones((1, 1), np.float32) if found.scale is None else found.scale.reshape((-1, *found.scale.shape)[-2:])
    if axis == 1:
        stored, scale = stored.T, scale.T
    matrix = constant(np.ascontiguousarray(stored), w.op)
    spec = f"{by.lhs},{by.n}{by.k}->{by.out}"
    if scale.shape[1] == 1:
        made = graph.contract(x, matrix, spec=spec, elem=F32, loc=op.loc)
        column = np.ascontiguousarray(np.broadcast_to(scale[:, 0].astype(np.float32), stored.shape[:1]))
        scales = broadcasted(constant(column, w.op), tensor_of(op.result).shape)
        scaled = graph.mul(made, scales, loc=op.loc)
    else:
        size = block_of(scale)
        if size < LEAST_BLOCK or not by.is_of_rows:
            return None
        few = np.broadcast_to(scale[:, ::size], (stored.shape[0], stored.shape[1] // size))
        few = narrowest(np.ascontiguousarray(few), [tensor_of(x).elem])
        scaled = graph.contract_blocks(x, matrix, constant(few, w.op), spec=spec, loc=op.loc)
    elem = tensor_of(op.result).elem
    return scaled if elem == F32 else graph.cast(scaled, to=elem, loc=op.loc)


def block_of(scale: Array) -> int:
    """How many neighbours along the last dim are equal: a power of two that divides it."""
    changes = np.flatnonzero((scale[:, 1:] != scale[:, :-1]).any(0)) + 1
    common = int(np.gcd.reduce(changes, initial=scale.shape[1]))
    return common & -common


def narrowest(scale: Array, elems: Sequence[Scalar] = (F16, BF16)) -> Array:
    """Scales in the first of these elements that loses nothing, at most f32."""
    if scale.dtype.itemsize <= 2:
        return scale
    narrow = (scale.astype(numpy_dtype(elem)) for elem in elems if elem != F32)
    return next((a for a in narrow if np.array_equal(a.astype(scale.dtype), scale)), scale.astype(np.float32))


def quantised(v: Value) -> Quantised | None:
    """What a matrix is made of, roundings aside."""
    if (x := operand_of(v, graph.cast)) is not None:
        if tensor_of(x).elem in FLOATS:
            return quantised(x)
        return _integers(x) if tensor_of(v).elem in FLOATS else None
    if (op := made_by(v, graph.sub)) is not None and tensor_of(v).elem in FLOATS:
        inner, zero = quantised(op.operands[0]), _known(op.operands[1])
        if inner is None or zero is None or inner.zero is not None or inner.scale is not None:
            return None
        return replace(inner, zero=zero)
    if (op := made_by(v, graph.mul)) is None:
        return None
    a, b = op.operands if _known(op.operands[1]) is not None else op.operands[::-1]
    inner, scale = quantised(a), _known(b)
    return None if inner is None or inner.scale is not None or scale is None else replace(inner, scale=scale)


def _integers(v: Value) -> Quantised | None:
    """Bytes, or what is left of them after a zero point."""
    op = v.op
    if op is None or tensor_of(v).rank != 2:
        return None
    if op.kind is graph.cast and fits_byte(tensor_of(op.operands[0]).elem):
        return _integers(op.operands[0])
    if op.kind in (graph.sub, graph.add) and (zero := _known(op.operands[1])) is not None:
        inner = _integers(op.operands[0])
        zero = zero.astype(np.int32) * (1 if op.kind is graph.sub else -1)
        return None if inner is None or inner.zero is not None else replace(inner, zero=zero)
    array = array_of(v)
    return None if array is None or not fits_byte(tensor_of(v).elem) else Quantised(array)


def _known(v: Value) -> Array | None:
    """A known operand, of size 1 along dims that it does not vary along; no pass has tidied its broadcast up yet."""
    if (array := aligned(v)) is not None or v.op is None:
        return array
    if v.op.kind is graph.cast:
        inner = _known(v.op.operands[0])
        return None if inner is None else inner.astype(numpy_dtype(tensor_of(v).elem))
    if v.op.kind is graph.broadcast:
        inner = aligned(v.op.operands[0])
        return None if inner is None else inner.reshape((1,) * (tensor_of(v).rank - inner.ndim) + inner.shape)
    if v.op.kind is graph.reshape:  # what is repeated for each block
        (x,) = v.op.operands
        if (inner := _known(x)) is not None and tensor_of(x).is_static and tensor_of(v).is_static:
            whole, shape = ([static(d) for d in tensor_of(u).shape] for u in (x, v))
            return np.broadcast_to(inner, whole).reshape(shape)
    return None


def _stored(found: Quantised) -> Array | None:
    """The bytes that are left after the zero point; None where a byte has no room for one, or none is there."""
    if found.zero is not None and found.zero.dtype.kind == "f":
        return None
    centred = found.bytes.astype(np.int32) - (0 if found.zero is None else found.zero)
    elem = narrow(centred) if centred.size else None
    return None if elem is None else centred.astype(elem)
