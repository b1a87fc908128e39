"""Layers the models share, each in a form some exporter writes.

Owns the spelling of linear, norm, activation and attention as ONNX nodes; no model's wiring.
"""

from __future__ import annotations

import math

import numpy as np

from models._builder import INT64, Builder, Value


def linear(g: Builder, x: Value, n_in: int, n_out: int, stem: str, *, bias: bool = True) -> Value:
    """`x @ W + b` with W stored [in, out]: torch's Linear on an input of rank 3 or more."""
    with g.scope(stem):
        y = x @ g.weight(n_in, n_out, fan_in=n_in)
        return y + g.bias(n_out) if bias else y


def gemm(g: Builder, x: Value, n_in: int, n_out: int, stem: str) -> Value:
    """Gemm with W stored [out, in]: torch's Linear on a matrix."""
    with g.scope(stem):
        return g.Gemm(x, g.weight(n_out, n_in, fan_in=n_in), g.bias(n_out), transB=1)


def conv(
    g: Builder,
    x: Value,
    c_in: int,
    c_out: int,
    kernel: int,
    *,
    stride: int = 1,
    pad: int | None = None,
    groups: int = 1,
    bias: bool = False,
    stem: str = "conv",
) -> Value:
    """Square 2-D convolution; `pad` defaults to "same" for odd kernels."""
    pad = kernel // 2 if pad is None else pad
    fan_in = c_in // groups * kernel * kernel
    with g.scope(stem):
        weight = g.weight(c_out, c_in // groups, kernel, kernel, fan_in=fan_in, gain=1.4)
        operands = [x, weight, g.bias(c_out)] if bias else [x, weight]
        return g.Conv(
            *operands,
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[pad] * 4,
            dilations=[1, 1],
            group=groups,
        )


def layer_norm(g: Builder, x: Value, width: int, stem: str, *, epsilon: float = 1e-5) -> Value:
    """The LayerNormalization operator (opset 17 and later)."""
    with g.scope(stem):
        gain, bias = g.gain(width), g.bias(width)
        return g.LayerNormalization(x, gain, bias, axis=-1, epsilon=epsilon)


def layer_norm_decomposed(g: Builder, x: Value, width: int, stem: str, *, epsilon: float = 1e-12) -> Value:
    """(x - mean) / sqrt(mean((x - mean)^2) + epsilon) * gain + bias, one node per operation."""
    with g.scope(stem):
        centred = x - g.reduce_mean(x, [-1])
        variance = g.reduce_mean(g.Pow(centred, 2.0), [-1])
        return centred / g.Sqrt(variance + epsilon) * g.gain(width) + g.bias(width)


def rms_norm(g: Builder, x: Value, width: int, stem: str, *, epsilon: float = 1e-5) -> Value:
    """gain * (x * rsqrt(mean(x^2) + epsilon)), as exported from transformers."""
    with g.scope(stem):
        variance = g.reduce_mean(g.Pow(x, 2.0), [-1])
        return g.gain(width) * (x * g.Reciprocal(g.Sqrt(variance + epsilon)))


def gelu_erf(g: Builder, x: Value) -> Value:
    """x * (1 + erf(x / sqrt 2)) * 0.5."""
    return x * (g.Erf(x / math.sqrt(2.0)) + 1.0) * 0.5


def gelu_tanh(g: Builder, x: Value) -> Value:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    cubic = x + g.Pow(x, 3.0) * 0.044715
    return (x * 0.5) * (g.Tanh(cubic * math.sqrt(2.0 / math.pi)) + 1.0)


def silu(g: Builder, x: Value) -> Value:
    """x * sigmoid(x), as two nodes."""
    return x * g.Sigmoid(x)


def heads(g: Builder, x: Value, batch: Value | int, seq: Value | int, n_heads: int, head_dim: int) -> Value:
    """[B, S, H * D] -> [B, H, S, D]."""
    return g.Transpose(g.reshape(x, batch, seq, n_heads, head_dim), perm=[0, 2, 1, 3])


def merge_heads(g: Builder, x: Value, batch: Value | int, seq: Value | int, width: int) -> Value:
    """[B, H, S, D] -> [B, S, H * D]."""
    return g.reshape(g.Transpose(x, perm=[0, 2, 1, 3]), batch, seq, width)


def token_ids(rng: np.random.Generator, batch: int, seq: int, vocab: int) -> np.ndarray:
    """Random token ids, int64 [batch, seq]."""
    return rng.integers(0, vocab, (batch, seq), dtype=INT64)


def padding_mask(rng: np.random.Generator, batch: int, seq: int, *, left: bool = False) -> np.ndarray:
    """A mask of ones, with some padding in every row but the first; int64 [batch, seq]."""
    mask = np.ones((batch, seq), INT64)
    for row in range(1, batch):
        padded = int(rng.integers(0, max(1, seq // 2)))
        if padded:
            mask[row, slice(0, padded) if left else slice(seq - padded, seq)] = 0
    return mask
