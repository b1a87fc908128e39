"""Operands of matrix instructions: small integers, so that products are exact in any type and order."""

from __future__ import annotations

import ml_dtypes
import numpy as np

KINDS = {
    "f16": np.dtype("f2"),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "tf32": np.dtype("f4"),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "s8": np.dtype("i1"),
    "u8": np.dtype("u1"),
}


def matrix(rng, shape, kind):
    """Random elements of a kind; of an integer's, all there are."""
    if kind in ("s8", "u8"):
        return rng.integers(0, 256, shape, np.uint8).view(KINDS[kind])
    return rng.integers(-4, 5, shape).astype(np.float32).astype(KINDS[kind])
