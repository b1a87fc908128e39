"""Grouped queries that are not whole beside ONNX Runtime's CPU kernels: padded chunks, caches of f8."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.frontends.microsoft.attention_cases import COS, PAST_K, PAST_V, SIN, K, Q, V, grouped, kinds, total
from tests.frontends.microsoft.support import I32, f32, interpreted
from tests.frontends.support import Array, floats, onnxruntime_reference


@pytest.mark.parametrize("capacity", [12, 16])
@pytest.mark.parametrize("rotary", [0, 1])
def test_chunks_that_are_filled_up(capacity: int, rotary: int) -> None:
    """Five tokens, of which each sequence has as many as are said: what is behind them is nobody's."""
    past = [np.pad(x, ((0, 0), (0, 0), (0, capacity - x.shape[2]), (0, 0))) for x in (PAST_K, PAST_V)]
    held, new = np.array([6, 2], I32), np.array([2, 5], I32)
    tables = (COS, SIN) if rotary else (None, None)
    given = (held + new - 1).astype(I32), total(capacity), *tables, *(None,) * 7, new
    c = grouped(Q, K, V, *past, *given, do_rotary=rotary)
    want = onnxruntime_reference(*c.model())
    got = interpreted(c, want)
    for i, (n, length) in enumerate(zip(new, held + new, strict=True)):
        np.testing.assert_allclose(got[0][i, :n], want[0][i, :n], rtol=1e-4, atol=1e-4)
        for g, w in zip(got[1:], want[1:], strict=True):
            np.testing.assert_allclose(g[i, :, :length], w[i, :, :length], rtol=1e-5, atol=1e-5)


def test_floats_of_eight_bits() -> None:
    """New keys and values are rounded to them, times the scale; nothing is said of values beyond the largest."""
    e4m3 = np.dtype(ml_dtypes.float8_e4m3fn)
    q, k, v = (x[:1, :1].copy() for x in (Q, K, V))
    past = [floats(1, 2, 6, 16, seed=i).astype(e4m3) for i in (1, 2)]
    c = grouped(q, k, v, *past, np.array([6], I32), total(7), *(None,) * 5, f32(0.5).reshape(1), f32(0.25).reshape(1),
                **kinds("PER_TENSOR", 8))  # fmt: skip
    y, keys, values = interpreted(c)

    def joined(old: Array, new: Array, scale: float) -> Array:
        rounded = (new.reshape(1, 2, 1, 16) / scale).astype(e4m3)
        return np.concatenate([old, rounded], 2)

    wanted = [joined(past[0], k, 0.5), joined(past[1], v, 0.25)]
    for got, want in zip((keys, values), wanted, strict=True):
        assert (got.astype(np.float32) == want.astype(np.float32)).all()
    real_k, real_v = (np.repeat(x.astype(np.float32) * s, 2, 1) for x, s in zip(wanted, (0.5, 0.25), strict=True))
    scores = q.reshape(1, 4, 1, 16) @ real_k.swapaxes(2, 3) / 4
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(
        y.reshape(1, 4, 1, 16), powers / powers.sum(-1, keepdims=True) @ real_v, rtol=1e-4, atol=1e-5
    )
