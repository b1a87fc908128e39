"""Grouped queries that are not whole beside ONNX Runtime's CPU kernels: padded chunks, caches of f8 and that slide."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import graphfuse
from tests.frontends.microsoft.attention_cases import (
    BYTES_K,
    BYTES_V,
    COS,
    PAST_K,
    PAST_V,
    SCALES,
    SIN,
    K,
    Q,
    V,
    grouped,
    kinds,
    total,
)
from tests.frontends.microsoft.support import F64, I32, Case, f32, half, interpreted
from tests.frontends.support import Array, declare, floats, onnxruntime_reference


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


def slid(
    past: tuple[int, int], new: int = 5, window: int = 4, *rest: Array | None, batch: int = 2, **attributes
) -> Case:
    """New tokens after so many of each sequence, of which a cache of six has the last ones."""
    arrays = [x[:batch, :new].copy() for x in (Q, K, V)] + [x[:batch] for x in (PAST_K, PAST_V)]
    lengths = np.array(past[:batch], I32) + new
    longest = total(int(lengths.max()))
    return grouped(*arrays, lengths - 1, longest, *rest, local_window_size=window, sliding_window_cache=1, **attributes)


CHUNK = (None,) * 9
SLID = {
    "a prompt": slid((0, 0), 4),
    "a prompt that is longer": slid((0, 0), 5, 3),
    "a token": slid((3, 11), 1),
    "a token after a full cache": slid((6, 5), 1),
    "no room but for the window": slid((6, 13), 1, 6),
    "a window of one": slid((7, 8), 1, 1),
    "a chunk": slid((8, 0), batch=1),
    "rotary": slid((9, 0), 5, 4, COS, SIN, batch=1, do_rotary=1),
    "a bias by position": slid((9, 0), 5, 4, None, None, None, floats(1, 4, 5, 14), batch=1, softcap=2.0),
    "a bias and a sink": slid((3, 11), 1, 4, None, None, None, floats(2, 1, 1, 12), floats(4)),
    "integers": grouped(*(x[:1] for x in (Q, K, V, BYTES_K, BYTES_V)), np.array([11], I32), total(12), *(None,) * 5,
                        SCALES, SCALES, local_window_size=4, sliding_window_cache=1, **kinds("PER_CHANNEL", 8)),
    "halves": grouped(*(half(x) for x in (Q[:, :1], K[:, :1], V[:, :1], PAST_K, PAST_V)), np.array([9, 3], I32),
                      total(10), local_window_size=4, sliding_window_cache=1, error=5e-3),
    "padded chunks": grouped(Q, K, V, PAST_K, PAST_V, np.array([9, 3], I32), total(14), *CHUNK, np.array([2, 4], I32),
                             local_window_size=4, sliding_window_cache=1),
    "a sequence that waits": grouped(Q, K, V, PAST_K, PAST_V, np.array([9, 3], I32), total(10), *CHUNK,
                                     np.array([0, 4], I32), local_window_size=5, sliding_window_cache=1),
}  # fmt: skip


def check_slid(c: Case, got: list[Array], want: list[Array]) -> None:
    """What tokens that are new give, and the rows of a cache that it has."""
    window, capacity = c.attributes["local_window_size"], want[1].shape[2]
    for i, last in enumerate(c.arrays[5]):
        new = c.arrays[16][i] if len(c.arrays) > 16 else c.arrays[0].shape[1]
        room, length = capacity - window + 1, last + 1
        kept = length if length <= capacity else length + (capacity - length) // room * room
        pairs = [(got[0][i, :new], want[0][i, :new])]
        pairs += [(g[i, :, :kept], w[i, :, :kept]) for g, w in zip(got[1:], want[1:], strict=True)]
        for g, w in pairs:
            assert g.dtype == w.dtype
            np.testing.assert_allclose(g.astype(F64), w.astype(F64), rtol=c.error, atol=c.error)


@pytest.mark.parametrize("name", SLID)
def test_caches_that_slide(name: str) -> None:
    c = SLID[name]
    want = onnxruntime_reference(*c.model())
    check_slid(c, interpreted(c, want), want)


@pytest.mark.parametrize("device", ["cpu", "emulator"])
@pytest.mark.parametrize("name", ["a bias by position", "padded chunks"])
def test_caches_that_slide_compiled(name: str, device: str) -> None:
    c = SLID[name]
    model, fed = c.model()
    want = onnxruntime_reference(model, fed)
    declare(model, want)
    got = graphfuse.compile(model, device=device)(fed)
    check_slid(c, [np.asarray(got[o.name]) for o in model.graph.output], want)
