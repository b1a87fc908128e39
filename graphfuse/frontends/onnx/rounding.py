"""Rounds matrices to integers of a few bits, in blocks along k, as `MatMulNBits` reads them.

Knows no models: numpy arrays in, numpy arrays out, some rows at a time, as they fit into a cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from graphfuse.frontends.host_values import Array
from graphfuse.frontends.onnx.ops.microsoft.contract import unpacked

FRACTIONS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)
"""Of a block's largest magnitude: what may be the largest after rounding. What is beyond is clipped."""
_AT_ONCE = 1 << 18
"""Elements that are looked at together."""
_LEAST_STEP = float(np.finfo(np.float32).tiny)
"""Steps below have no inverse; such blocks are zeros."""


@dataclass(frozen=True)
class Scheme:
    """How weights are rounded."""

    bits: int
    block: int
    """Elements along k that have a scale of their own; the last block of a row is filled up with zeros."""
    symmetric: bool = True
    """Whether the code of zero is always the middle one, else there is one for each block."""

    def blocks(self, k: int) -> int:
        """How many a row of k elements has."""
        return -(-k // self.block)

    def nbytes(self, n: int, k: int, elem_bytes: int) -> int:
        """What a matrix takes."""
        blocks = self.blocks(k)
        zeros = 0 if self.symmetric else -(-blocks * self.bits // 8)
        return n * (blocks * (self.block * self.bits // 8 + elem_bytes) + zeros)


@dataclass(frozen=True)
class Rounded:
    """A matrix [n, k] in codes, and what rounding it lost."""

    scheme: Scheme
    k: int
    codes: Array
    """u8[n, blocks, block * bits / 8], the low bits first."""
    scales: Array
    """[n, blocks] of the matrix's type."""
    zeros: Array | None
    """u8[n, blocks * bits / 8, rounded up]: codes that stand for zero, packed along a row."""
    lost: float
    """The sum of the squares of what was taken off or added."""
    total: float
    """The sum of the squares of the matrix."""

    @property
    def nbytes(self) -> int:
        """Of all arrays."""
        return sum(a.nbytes for a in (self.codes, self.scales, self.zeros) if a is not None)

    def rows(self, some: slice) -> Array:
        """What some rows stand for: f32[rows, k]."""
        scheme, codes = self.scheme, self.codes[some]
        q = unpacked(codes, scheme.bits).astype(np.float32)
        zero = np.float32(1 << (scheme.bits - 1))
        if self.zeros is not None:
            zero = unpacked(self.zeros[some], scheme.bits)[:, : codes.shape[1], None]
        return ((q - zero) * self.scales[some].astype(np.float32)[..., None]).reshape(len(codes), -1)[:, : self.k]


def runs_of_rows(n: int, k: int) -> Iterator[slice]:
    """The rows of a matrix, as many at a time as a cache holds."""
    step = max(1, _AT_ONCE // max(k, 1))
    return (slice(i, min(i + step, n)) for i in range(0, n, step))


def rounded(w: Array, scheme: Scheme) -> Rounded:
    """Round a matrix f32, f16 or bf16 [n, k] of finite numbers to the nearest codes.

    Of the steps that `FRACTIONS` give, each block has the one with the least squared error.
    """
    n, k = w.shape
    blocks = scheme.blocks(k)
    codes = np.empty((n, blocks, scheme.block * scheme.bits // 8), np.uint8)
    scales = np.empty((n, blocks), w.dtype)
    zeros = None if scheme.symmetric else np.empty((n, -(-blocks * scheme.bits // 8)), np.uint8)
    lost = total = 0.0
    for some in runs_of_rows(n, k):
        x = np.zeros((some.stop - some.start, blocks * scheme.block), np.float32)
        x[:, :k] = w[some]
        x = x.reshape(-1, blocks, scheme.block)
        step, zero, error = _steps(x, scheme, w.dtype)
        codes[some] = _packed(_nearest(x, step, zero, scheme.bits) + zero[..., None], scheme.bits)
        scales[some] = step
        if zeros is not None:
            zeros[some] = _packed(zero, scheme.bits)
        lost += float(error.sum(dtype=np.float64))
        total += float(np.square(x, dtype=np.float64).sum())
    return Rounded(scheme, k, codes, scales, zeros, lost, total)


def _steps(x: Array, scheme: Scheme, dtype: np.dtype[np.generic]) -> tuple[Array, Array, Array]:
    """Of blocks f32[rows, blocks, block]: the steps between codes, the codes of zero, and the squared errors."""
    low: Array = x.min(axis=-1)
    high: Array = x.max(axis=-1)
    widest: Array
    half, top = 1 << (scheme.bits - 1), (1 << scheme.bits) - 1
    if scheme.symmetric:
        # there is one code more below zero than above: the largest magnitude, of either sign, is the lowest code
        widest, zero = np.where(high > -low, high, low) / np.float32(-half), np.full(low.shape, half, np.float32)
        fractions = (*FRACTIONS, half / (half - 1))  # by the last one it would be the highest
    else:
        low, high = np.minimum(low, 0), np.maximum(high, 0)
        widest = (high / np.float32(top)) - (low / np.float32(top))
        zero = np.clip(np.rint(-low * _inverse(widest)), 0, top)
        fractions = FRACTIONS
    best, least = np.zeros_like(widest), np.full_like(widest, np.inf)
    for fraction in fractions:
        step = (widest * np.float32(fraction)).astype(dtype).astype(np.float32)
        q = _nearest(x, step, zero, scheme.bits)
        q *= step[..., None]
        q -= x
        error = np.einsum("rbi,rbi->rb", q, q)
        is_better = error < least
        np.copyto(best, step, where=is_better)
        np.copyto(least, error, where=is_better)
    return best, zero, least


def _nearest(x: Array, step: Array, zero: Array, bits: int) -> Array:
    """The multiples of a block's step that are nearest, of those that codes of so many bits stand for."""
    q = x * _inverse(step)[..., None]
    np.rint(q, out=q)
    return np.clip(q, -zero[..., None], ((1 << bits) - 1) - zero[..., None], out=q)


def _inverse(step: Array) -> Array:
    return np.divide(np.float32(1), step, out=np.zeros_like(step), where=np.abs(step) >= _LEAST_STEP)


def _packed(codes: Array, bits: int) -> Array:
    """Codes as bytes along the last dim, the low bits first, zeros behind."""
    each = 8 // bits
    q = codes.astype(np.uint8)
    if odd := -q.shape[-1] % each:
        q = np.pad(q, [(0, 0)] * (q.ndim - 1) + [(0, odd)])
    q = q.reshape(*q.shape[:-1], -1, each)
    out = q[..., 0]
    for i in range(1, each):
        out = out | q[..., i] << (bits * i)
    return out
