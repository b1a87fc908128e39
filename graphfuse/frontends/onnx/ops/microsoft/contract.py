"""Products with transposed operands, scales, activations, packed weights; distances, inverses, complex products."""

from __future__ import annotations

import numpy as np

from graphfuse.dialects import graph
from graphfuse.frontends.compositions import gelu_of
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.host_values import Array
from graphfuse.frontends.onnx.node import MICROSOFT, Node, one_of, onnx_op
from graphfuse.frontends.onnx.ops.contract import gemm, matmul_of, pivoted, square_matrices
from graphfuse.frontends.onnx.ops.control import loop_of
from graphfuse.frontends.onnx.ops.microsoft.activation import activated, named_parameters
from graphfuse.ir.core import Value
from graphfuse.ir.types import F32, I32, I64
from graphfuse.symbolic import Dim


def _operand(e: Emitter, node: Node, i: int, name: str) -> Value:
    """Input `i` as numpy's matmul wants it: batches before rows, the last two dims swapped where asked for."""
    x = node.value(e, i)
    rank = tensor(x).rank
    if rank < 2:
        return x
    perm = list(range(rank))
    if node.attr_int(f"transBatch{name}", 0):
        perm = [*range(1, rank - 1), 0, rank - 1]
    if node.attr_int(f"trans{name}", 0):
        perm[-2:] = perm[:-3:-1]
    return e.permute(x, perm)


@onnx_op("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", domain=MICROSOFT)
def fused_matmul(e: Emitter, node: Node) -> Value:
    """alpha * A' B', then an activation if the operator has one."""
    y = matmul_of(e, _operand(e, node, 0, "A"), _operand(e, node, 1, "B"))
    alpha = node.attr_float("alpha", 1.0)
    y = e.map(graph.mul, y, alpha) if alpha != 1.0 else y
    return activated(e, node, y, named_parameters(node))


@onnx_op("FusedGemm", domain=MICROSOFT)
def fused_gemm(e: Emitter, node: Node, a: Value, b: Value, c: Value | None = None) -> Value:
    """An activation of alpha * A' B' + beta * C."""
    return activated(e, node, gemm(e, node, a, b, c), named_parameters(node))


@onnx_op("GemmFastGelu", domain=MICROSOFT)
def gemm_fast_gelu(e: Emitter, node: Node, x: Value, w: Value, bias: Value | None = None) -> Value:
    """gelu(x w [+ bias]), by tanh."""
    y = matmul_of(e, x, w)
    return gelu_of(e, y if bias is None else e.map(graph.add, y, bias), by_tanh=True)


@onnx_op("MatMulInteger16", domain=MICROSOFT)
def matmul_integer16(e: Emitter, node: Node, a: Value, b: Value) -> Value:
    """The product of 16-bit matrices in i32."""
    return matmul_of(e, e.cast(a, I32), e.cast(b, I32))


@onnx_op("CDist", domain=MICROSOFT)
def cdist(e: Emitter, node: Node, a: Value, b: Value) -> Value:
    """Distances of all rows of A from all rows of B: |a|^2 - 2 a b + |b|^2, not below 0, or its root."""
    metric = one_of("metric", node.attr_str("metric", "sqeuclidean"), ("euclidean", "sqeuclidean"), node.unsupported)
    norm_a, norm_b = (e.reduce(e.map(graph.mul, x, x), "sum", [1], keepdims=False) for x in (a, b))
    cross = e.map(graph.mul, e.contract(a, b, "mk,nk->mn"), -2.0)
    square = e.map(graph.add, e.map(graph.add, cross, e.unsqueeze(norm_a, 1)), norm_b)
    square = e.map(graph.max_, square, 0.0)
    return e.map(graph.sqrt, square) if metric == "euclidean" else square


@onnx_op("ComplexMul", "ComplexMulConj", domain=MICROSOFT)
def complex_mul(e: Emitter, node: Node, a: Value, b: Value) -> Value:
    """a * b, or a * conj(b), of complex numbers whose parts are the last dim."""
    for x in (a, b):
        if shape_of(x)[-1] != 2:
            raise node.error(f"the last dim must hold two parts, got {x.type}")
    ar, ai = e.split(a, (1, 1), -1)
    br, bi = e.split(b, (1, 1), -1)
    bi = e.map(graph.neg, bi) if node.op == "ComplexMulConj" else bi
    real = e.map(graph.sub, e.map(graph.mul, ar, br), e.map(graph.mul, ai, bi))
    imaginary = e.map(graph.add, e.map(graph.mul, ar, bi), e.map(graph.mul, ai, br))
    return e.concat([real, imaginary], tensor(real).rank - 1)


@onnx_op("Inverse", domain=MICROSOFT)
def inverse(e: Emitter, node: Node, x: Value) -> Value:
    """Inverses of matrices by Gauss-Jordan elimination with row pivoting: [A | I] becomes [I | inverse]."""
    wide = square_matrices(e, node, x)
    count, n, _ = shape_of(wide)
    unit = e.map(graph.eq, e.iota((n, n), 0), e.iota((n, n), 1))
    unit = e.select(unit, e.full((n, n), elem_of(wide), 1.0), 0.0)
    rows = e.iota((1, n), 1)

    def step(at: Dim, carried: tuple[Value, ...]) -> list[Value]:
        (a,) = carried
        here = e.full((), I64, at)
        a, _ = pivoted(e, a, at)
        row = e.slice(a, 1, at, 1)
        row = e.map(graph.div, row, e.slice(row, 2, at, 1))
        cleared = e.map(graph.sub, a, e.map(graph.mul, e.slice(a, 2, at, 1), row))
        return [e.select(e.unsqueeze(e.map(graph.eq, rows, here), 2), row, cleared)]

    joined = e.concat([wide, e.broadcast(unit, (count, n, n))], 2)
    (out,) = loop_of(e, n, [joined], step)
    return e.reshape(e.cast(e.slice(out, 2, n, n), elem_of(x)), shape_of(x))


# weights packed in blocks of a few bits


FP4 = (0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4)
"""What bitsandbytes' four-bit floats stand for; the codes from 8 on are their negatives."""

NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
"""Quantiles of a normal distribution, scaled to -1..1 (Dettmers et al., QLoRA, appendix E)."""


COARSEST = 4
"""The accuracy level at which a product may round its left operand to 8 bits."""


@onnx_op("MatMulNBits", domain=MICROSOFT)
def matmul_nbits(e: Emitter, node: Node, x: Value) -> Value:
    """x @ w.T, w of integers of 2, 4 or 8 bits in blocks along k: each less its zero point, times its block's scale.

    Where k ends within a block, it is x that is filled up. Elements of k that are grouped by an index (GPTQ's order of
    activations) are sorted by it, in x as in w.
    """
    k, n, block, bits = (node.attr_int(name) for name in ("K", "N", "block_size", "bits"))
    if bits not in (2, 4, 8):
        raise node.unsupported(f"bits must be 2, 4 or 8, got {bits}")
    blocks = -(-k // block)
    q = unpacked(node.constant(1, "weights").reshape(n, blocks, block * bits // 8), bits).reshape(n, blocks * block)
    group = in_order = np.arange(blocks * block) // block
    if missing := blocks * block - k:
        x = e.pad(x, -1, 0, missing)
    if node.has(4):
        x, q, group = _sorted_groups(e, node, x, q, group, k)
    zero: Array | None = np.full((), 1 << (bits - 1), np.int32)
    fraction: Value | None = None
    if node.has(3) and node.type(3).elem.is_float:
        zero, fraction = None, node.value(e, 3)
    elif node.has(3):
        points = node.constant(3, "zero points")
        if points.dtype != np.uint8:
            raise node.unsupported(f"zero points must be bytes or floats, got {points.dtype}")
        zero = unpacked(points.reshape(n, -1), bits)[:, :blocks].astype(np.int32)
    integers = e.cast(e.constant(q), I32)

    def spread(v: Value) -> Value:
        v = e.reshape(v, (n, blocks, 1))
        if (group != in_order).any():
            return e(graph.take, e.reshape(v, (n, blocks)), e.constant(group), axis=1)
        return e.reshape(e.broadcast(v, (n, blocks, block)), (n, blocks * block))

    if zero is not None:
        points = e.constant(zero)
        integers = e.map(graph.sub, integers, spread(points) if zero.ndim else points)
    floats = e.cast(integers, F32)
    if fraction is not None:
        floats = e.map(graph.sub, floats, spread(e.wide(fraction)))
    w = e.cast(e.map(graph.mul, floats, spread(e.wide(node.value(e, 2)))), elem_of(x))
    rounded = block if node.attr_int("accuracy_level", 0) == COARSEST else 0
    y = matmul_of(e, x, e.permute(w, (1, 0)), rounded_block=rounded)
    return e.map(graph.add, y, node.value(e, 5)) if node.has(5) else y


def _sorted_groups(e: Emitter, node: Node, x: Value, q: Array, group: Array, k: int) -> tuple[Value, Array, Array]:
    """x, codes and the number of the block of each element of k, sorted by these; padding stays behind them."""
    index = node.constant(4, "groups")
    if index.shape not in ((k,), (len(group),)) or index.dtype != np.int32:
        raise node.error(f"expected the group of each of {k} elements in int32, got {index.dtype}{list(index.shape)}")
    if index[:k].min() < 0 or index[:k].max() > group[-1]:
        raise node.error(f"groups must be in 0..{group[-1]}, got {index[:k].min()}..{index[:k].max()}")
    order = np.concatenate([np.argsort(index[:k], kind="stable"), np.arange(k, len(group))])
    sorted_x = e(graph.take, x, e.constant(order), axis=tensor(x).rank - 1)
    return sorted_x, q[:, order], np.append(index[:k], group[k:])[order]


@onnx_op("MatMulBnb4", domain=MICROSOFT)
def matmul_bnb4(e: Emitter, node: Node, x: Value) -> Value:
    """x @ w.T (or x @ w), w [N, K] of codes of 4 bits, the high ones first: a table's entry times the block's scale."""
    k, n, block, kind = (node.attr_int(name) for name in ("K", "N", "block_size", "quant_type"))
    if kind not in (0, 1):
        raise node.error(f"quant_type must be 0 (FP4) or 1 (NF4), got {kind}")
    packed, scale = node.constant(1, "weights").reshape(-1), e.wide(node.value(e, 2))
    blocks = -(-n * k // block)
    if packed.size != -(-n * k // 2) or shape_of(scale) != (blocks,):
        raise node.error(f"expected {-(-n * k // 2)} bytes and {blocks} scales, got {packed.size} and {scale.type}")
    codes = np.stack([packed >> 4, packed & 15], axis=-1).reshape(-1)
    table = np.array(NF4 if kind else (*FP4, *(-v for v in FP4)), np.float32)
    rows = np.pad(table[codes][: n * k], (0, blocks * block - n * k)).reshape(blocks, block)
    w = e.reshape(e.map(graph.mul, e.constant(rows), e.unsqueeze(scale, 1)), (blocks * block,))
    w = e.cast(e.reshape(e.slice(w, 0, 0, n * k), (n, k)), elem_of(x))
    return matmul_of(e, x, e.permute(w, (1, 0)) if node.attr_int("transB", 1) else w)


def unpacked(packed: Array, bits: int) -> Array:
    """Bytes as integers of so many bits along the last dim, the low ones first."""
    parts = [packed >> i & ((1 << bits) - 1) for i in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(*packed.shape[:-1], -1)
