"""Attention in Triton by the algorithm of its tutorial (online softmax, blocks on the diagonal last): a peer."""

from typing import Any

import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"rows": rows, "keys": keys}, num_warps=warps, num_stages=stages)
    for rows, keys, warps, stages in (
        (128, 64, 4, 3), (128, 64, 8, 3), (128, 128, 8, 2),
    )
]  # fmt: skip
"""What is tried on each shape."""


@triton.autotune(configs=CONFIGS, key=["length", "depth", "causal"])
@triton.jit
def _kernel(  # noqa: ANN202
    q, k, v, out, q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row, o_batch, o_head, o_row,  # noqa: ANN001
    heads, length, scale,  # noqa: ANN001
    depth: tl.constexpr, causal: tl.constexpr, rows: tl.constexpr, keys: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = (tl.program_id(1) % heads).to(tl.int64)
    m = tile * rows + tl.arange(0, rows)
    n = tl.arange(0, keys)
    d = tl.arange(0, depth)
    there = m[:, None] < length
    query = tl.load(q + batch * q_batch + head * q_head + m[:, None] * q_row + d[None, :], mask=there, other=0.0)
    k += batch * k_batch + head * k_head
    v += batch * v_batch + head * v_head
    largest = tl.full([rows], -float("inf"), tl.float32)
    total = tl.zeros([rows], tl.float32)
    acc = tl.zeros([rows, depth], tl.float32)
    factor = scale * 1.4426950408889634
    whole = length // keys * keys
    end = length
    if causal:
        whole = tl.minimum(tile * rows // keys * keys, whole)
        end = tl.minimum((tile + 1) * rows, length)
    for start in tl.range(0, whole, keys):
        at = start + n
        key = tl.load(k + at[None, :] * k_row + d[:, None])
        scores = tl.dot(query, key) * factor
        larger = tl.maximum(largest, tl.max(scores, 1))
        p = tl.exp2(scores - larger[:, None])
        correction = tl.exp2(largest - larger)
        total = total * correction + tl.sum(p, 1)
        value = tl.load(v + at[:, None] * v_row + d[None, :])
        acc = tl.dot(p.to(value.dtype), value, acc * correction[:, None])
        largest = larger
    for start in tl.range(whole, end, keys):
        at = start + n
        key = tl.load(k + at[None, :] * k_row + d[:, None], mask=at[None, :] < length, other=0.0)
        seen = at[None, :] < length
        if causal:
            seen = seen & (m[:, None] >= at[None, :])
        scores = tl.where(seen, tl.dot(query, key) * factor, -float("inf"))
        larger = tl.maximum(largest, tl.max(scores, 1))
        p = tl.exp2(scores - larger[:, None])
        correction = tl.exp2(largest - larger)
        total = total * correction + tl.sum(p, 1)
        value = tl.load(v + at[:, None] * v_row + d[None, :], mask=at[:, None] < length, other=0.0)
        acc = tl.dot(p.to(value.dtype), value, acc * correction[:, None])
        largest = larger
    acc = acc / total[:, None]
    to = out + batch * o_batch + head * o_head + m[:, None] * o_row + d[None, :]
    tl.store(to, acc.to(out.dtype.element_ty), mask=there)


def attention(q: Any, k: Any, v: Any, out: Any, *, causal: bool) -> None:
    """softmax(q k' / sqrt(depth)) v for [batch, heads, length, depth], contiguous along depth."""
    batch, heads, length, depth = q.shape
    strides = [s for x in (q, k, v, out) for s in x.stride()[:3]]

    def grid(meta: dict[str, int]) -> tuple[int, int]:
        return triton.cdiv(length, meta["rows"]), batch * heads

    _kernel[grid](q, k, v, out, *strides, heads, length, depth**-0.5, depth=depth, causal=causal)
