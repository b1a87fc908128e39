"""Products with weights packed in blocks of a few bits: ONNX Runtime's `com.microsoft` operators."""

from __future__ import annotations

import numpy as np

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of, shape_of
from graphfuse.frontends.host_values import Array
from graphfuse.frontends.onnx.node import MICROSOFT, Node, onnx_op
from graphfuse.frontends.onnx.ops.contract import matmul_of
from graphfuse.ir.core import Value
from graphfuse.ir.types import F32

FP4 = (0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4)
"""What bitsandbytes' four-bit floats stand for; the codes from 8 on are their negatives."""

NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
"""Quantiles of a normal distribution, scaled to -1..1 (Dettmers et al., QLoRA, appendix E)."""


@onnx_op("MatMulNBits", domain=MICROSOFT)
def matmul_nbits(e: Emitter, node: Node, x: Value) -> Value:
    """x @ w.T, w of integers of 2, 4 or 8 bits in blocks along k: each less its zero point, times its block's scale."""
    k, n, block, bits = (node.attr_int(name) for name in ("K", "N", "block_size", "bits"))
    if bits not in (2, 4, 8):
        raise node.unsupported(f"bits must be 2, 4 or 8, got {bits}")
    if node.has(4):
        raise node.unsupported("groups by an index are not compiled")
    blocks = -(-k // block)
    packed = node.constant(1, "weights").reshape(n, blocks, block * bits // 8)
    q = unpacked(packed, bits).astype(np.int16)
    zero: Array = np.full((n, blocks), 1 << (bits - 1), np.int16)
    fraction: Value | None = None
    if node.has(3) and node.type(3).elem.is_float:
        fraction = node.value(e, 3)
        zero = np.zeros_like(zero)
    elif node.has(3):
        zero = node.constant(3, "zero points")
        if zero.dtype != np.uint8:
            raise node.unsupported(f"zero points must be bytes or floats, got {zero.dtype}")
        zero = unpacked(zero.reshape(n, -1), bits)[:, :blocks].astype(np.int16)
    q = (q - zero[:, :, None]).reshape(n, blocks * block)
    fits = q.min(initial=0) >= -128 and q.max(initial=0) <= 127
    integers = e.cast(e.constant(np.ascontiguousarray(q.astype(np.int8) if fits else q)), F32)

    def spread(v: Value) -> Value:
        v = e.wide(e.reshape(v, (n, blocks, 1)))
        return e.reshape(e.broadcast(v, (n, blocks, block)), (n, blocks * block))

    if fraction is not None:
        integers = e.map(graph.sub, integers, spread(fraction))
    w = e.cast(e.map(graph.mul, integers, spread(node.value(e, 2))), elem_of(x))
    if blocks * block != k:
        w = e.slice(w, 1, 0, k)
    y = matmul_of(e, x, e.permute(w, (1, 0)))
    return e.map(graph.add, y, node.value(e, 5)) if node.has(5) else y


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
