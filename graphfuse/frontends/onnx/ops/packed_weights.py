"""Products with weights packed in blocks of a few bits: ONNX Runtime's `com.microsoft` operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of
from graphfuse.frontends.onnx.node import Node, onnx_op
from graphfuse.frontends.onnx.ops.contract import matmul_of
from graphfuse.ir.core import Value
from graphfuse.ir.types import F32

Array = np.ndarray[Any, Any]


@onnx_op("MatMulNBits", domain="com.microsoft")
def matmul_nbits(e: Emitter, node: Node) -> Value:
    """x @ w.T, w of integers of 4 or 8 bits in blocks along k: each less its zero point, times its block's scale."""
    x = node.value(e, 0)
    k, n, block, bits = (node.attr_int(name) for name in ("K", "N", "block_size", "bits"))
    if bits not in (4, 8):
        raise node.unsupported(f"bits must be 4 or 8, got {bits}")
    if node.has(4):
        raise node.unsupported("groups by an index are not compiled")
    blocks = -(-k // block)
    packed = node.constant(1, "weights").reshape(n, blocks, block * bits // 8)
    q = unpacked(packed, bits).astype(np.int16)
    zero: Array = np.full((n, blocks), 1 << (bits - 1), np.int16)
    if node.has(3):
        zero = node.constant(3, "zero points")
        if zero.dtype != np.uint8:
            raise node.unsupported(f"zero points must be bytes, got {zero.dtype}")
        zero = unpacked(zero.reshape(n, -1), bits)[:, :blocks].astype(np.int16)
    q = (q - zero[:, :, None]).reshape(n, blocks * block)
    fits = q.min(initial=0) >= -128 and q.max(initial=0) <= 127
    integers = e.cast(e.constant(np.ascontiguousarray(q.astype(np.int8) if fits else q)), F32)
    scale = e.wide(e.reshape(node.value(e, 2), (n, blocks, 1)))
    scales = e.reshape(e.broadcast(scale, (n, blocks, block)), (n, blocks * block))
    w = e.cast(e.map(graph.mul, integers, scales), elem_of(x))
    if blocks * block != k:
        w = e.slice(w, 1, 0, k)
    y = matmul_of(e, x, e.permute(w, (1, 0)))
    return e.map(graph.add, y, node.value(e, 5)) if node.has(5) else y


def unpacked(packed: Array, bits: int) -> Array:
    """Bytes as integers of so many bits along the last dim, the low ones first."""
    if bits == 8:
        return packed
    both = np.stack([packed & 15, packed >> 4], axis=-1)
    return both.reshape(*packed.shape[:-1], -1)
