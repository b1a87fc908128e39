"""Attention that ONNX Runtime's CPU kernels execute: masks, caches, biases, grouped queries."""

from __future__ import annotations

import numpy as np

from tests.frontends.microsoft.support import I32, case, f32, half, i8, integers, u8, unsigned, weights
from tests.frontends.support import Array, floats

TOKENS = floats(2, 5, 16)
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], I32)
LEFT = MASK[:, ::-1].copy()
STEP = [floats(4, 1, 24, seed=i) for i in range(3)]
BUFFERS = [floats(4, 3, 9, 8, seed=i) for i in (3, 4)]
BEAMS = integers(0, 2, 2, 2, 9)
STEP_MASK = np.array([[1, 0, 1, 1, 0, 1], [1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1], [1, 1, 1, 1, 1, 0]], I32)
PAST = floats(2, 2, 4, 3, 4, seed=9)


def in_place(mask=None, added=None, *, past, beams=None, bias=None, outputs=3, error=1e-4, **attributes):
    """Attention of one step to buffers, of which `past` steps are used."""
    given = (
        np.array([past], I32),
        *((None, None) if beams is None else (np.array([beams.shape[1]], I32), beams)),
        bias,
    )
    return case("DecoderMaskedMultiHeadAttention", *STEP, mask, added, *BUFFERS, *given, num_heads=3,
                past_present_share_buffer=1, outputs=outputs, error=error, **attributes)  # fmt: skip


ATTENTION = [
    case("Attention", TOKENS, floats(16, 48), floats(48), num_heads=4, error=1e-4),
    case("Attention", TOKENS, floats(16, 48), floats(48), MASK, num_heads=4, error=1e-4),
    case("Attention", TOKENS, floats(16, 48), floats(48), LEFT, num_heads=4, unidirectional=1, error=1e-4),
    case("Attention", TOKENS, floats(16, 48), floats(48), MASK, num_heads=4, mask_filter_value=-5.0, scale=0.3,
         error=1e-4),
    case("Attention", TOKENS, floats(16, 48), floats(48), np.array([3, 5], I32), num_heads=4, error=1e-4),
    case("Attention", TOKENS, floats(16, 48), floats(48), np.array([3, 5, 1, 2], I32), num_heads=4, error=1e-4),
    case("Attention", TOKENS, floats(16, 48), floats(48), integers(0, 2, 2, 5, 5), num_heads=4, error=1e-4),
    case("Attention", TOKENS, floats(16, 48), floats(48), integers(0, 2, 2, 5, 8), PAST, num_heads=4, outputs=2,
         unidirectional=1, error=1e-4),
    case("Attention", TOKENS, floats(16, 48), floats(48), None, None, floats(1, 4, 5, 5), num_heads=4, error=1e-4),
    case("Attention", TOKENS, floats(16, 40), floats(40), qkv_hidden_sizes=[16, 16, 8], num_heads=4, outputs=1,
         error=1e-4),
    case("MultiHeadAttention", TOKENS, floats(2, 7, 16), floats(2, 7, 24), num_heads=4),
    case("MultiHeadAttention", TOKENS, TOKENS + 1, TOKENS - 1, floats(48), MASK, num_heads=4, unidirectional=1),
    case("MultiHeadAttention", TOKENS, TOKENS + 1, TOKENS - 1, None, np.array([3, 5], I32), num_heads=4),
    case("MultiHeadAttention", TOKENS, TOKENS + 1, TOKENS - 1, None, integers(0, 2, 2, 8), floats(2, 4, 5, 8),
         PAST[0], PAST[1], num_heads=4, outputs=3, unidirectional=1),
    case("MultiHeadAttention", TOKENS, TOKENS + 1, TOKENS - 1, None, integers(0, 2, 2, 5, 5), num_heads=4,
         outputs=4, scale=0.3),
    case("MultiHeadAttention", TOKENS, floats(2, 4, 7, 4), floats(2, 4, 7, 4, seed=1), num_heads=4),
    case("DecoderMaskedMultiHeadAttention", floats(2, 1, 16), floats(2, 4, 7, 4), floats(2, 4, 7, 4, seed=1),
         num_heads=4),
    in_place(past=5),
    in_place(past=0, scale=0.3),
    in_place(past=8, bias=floats(72)),
    in_place(STEP_MASK, floats(1, 3, 1, 6), past=5, bias=floats(72), mask_filter_value=-20.0, output_qk=1, outputs=4),
    in_place(None, floats(4, 1, 1, 6), past=5, output_qk=1, outputs=4),
    in_place(past=5, beams=BEAMS),
    in_place(STEP_MASK, past=5, beams=BEAMS, bias=floats(72), mask_filter_value=-20.0, output_qk=1, outputs=4),
    in_place(None, floats(4, 3, 1, 6), past=5, beams=BEAMS),
    in_place(None, floats(1, 1, 1, 6), past=5, beams=BEAMS.reshape(1, 4, 9)),
    case("QAttention", unsigned(2, 5, 16), weights(16, 48), floats(48), f32(0.01), f32(0.01), MASK, u8(120),
         i8(2), num_heads=4, error=1e-4),
    case("QAttention", unsigned(2, 5, 16), unsigned(16, 48), floats(48), f32(0.01), np.abs(floats(48)) / 99, None,
         u8(120), unsigned(48), PAST, num_heads=4, unidirectional=1, outputs=2, error=1e-4),
]  # fmt: skip


def grouped(*arrays, heads=4, groups=2, outputs=3, error=1e-4, **attributes):
    return case(
        "GroupQueryAttention",
        *arrays,
        known=(6,),
        outputs=outputs,
        error=error,
        num_heads=heads,
        kv_num_heads=groups,
        **attributes,
    )


SIZE = 16
Q, K, V = (floats(2, 5, n * SIZE, seed=i) for i, n in enumerate((4, 2, 2)))
Q1, K1, V1 = (x[:, :1].copy() for x in (Q, K, V))
PAST_K, PAST_V = floats(2, 2, 6, SIZE, seed=3), floats(2, 2, 6, SIZE, seed=4)
COS, SIN = floats(20, SIZE // 2, seed=5), floats(20, SIZE // 2, seed=6)
BYTES_K, BYTES_V = (integers(-127, 128, 2, 2, 6, SIZE, seed=i).astype(np.int8) for i in (3, 4))
HALVES_K, HALVES_V = (integers(0, 256, 2, 2, 6, SIZE // 2, seed=i).astype(np.uint8) for i in (3, 4))
SCALES = np.abs(floats(1, 2, 1, SIZE, seed=8)) / 30 + 0.01
PROMPT, RAGGED = np.array([4, 4], I32), np.array([6, 3], I32)


def total(n: int) -> Array:
    return np.array(n, I32)


def kinds(kind: str, bits: int) -> dict[str, object]:
    """Attributes of a cache of integers."""
    return {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits}


GROUPED = [
    grouped(Q, K, V, None, None, PROMPT, total(5)),
    grouped(np.concatenate([Q, K, V], -1), None, None, None, None, PROMPT, total(5)),
    grouped(Q, K, V, None, None, PROMPT, total(5), softcap=2.0, scale=0.3, local_window_size=2),
    grouped(Q1, K1, V1, PAST_K, PAST_V, RAGGED, total(7)),
    grouped(Q1, K1, V1, PAST_K, PAST_V, RAGGED - 1, total(6), local_window_size=3),
    grouped(Q1, K1, V1, PAST_K, PAST_V, RAGGED, total(7), COS, SIN, do_rotary=1),
    grouped(Q, K, V, None, None, PROMPT, total(5), COS, SIN, do_rotary=1, rotary_interleaved=1),
    grouped(Q, K, V, None, None, PROMPT, total(5), COS, SIN, np.tile(np.arange(5), (2, 1)), do_rotary=1),
    grouped(Q[:1], K[:1], V[:1], PAST_K[:1], PAST_V[:1], np.array([10], I32), total(11), COS, SIN, do_rotary=1),
    grouped(Q, K, V, None, None, PROMPT, total(5), None, None, None, floats(1, 4, 5, 5)),
    grouped(Q, K, V, None, None, PROMPT, total(5), None, None, None, floats(2, 1, 5, 5), floats(4), softcap=1.5),
    grouped(Q1, K1, V1, PAST_K, PAST_V, RAGGED, total(7), None, None, None, floats(1, 1, 1, 7)),
    grouped(Q, K, V, None, None, PROMPT, total(5), smooth_softmax=1),
    grouped(Q, K, V, None, None, PROMPT, total(5), causal=0),
    grouped(
        Q, K, V, None, None, PROMPT, total(5), None, None, None, floats(2, 1, 5, 5), softcap=1.5, qk_output=1, outputs=4
    ),
    grouped(Q, K, V, None, None, PROMPT, total(5), qk_output=2, outputs=4),
    grouped(*map(half, (Q, K, V)), None, None, PROMPT, total(5), half(COS), half(SIN), do_rotary=1, error=5e-3),
    grouped(*map(half, (Q1, K1, V1, PAST_K, PAST_V)), RAGGED, total(7), error=5e-3),
    *(grouped(*(x[:b] for x in (*new, *past)), lengths, total(n), *(None,) * 5, scale, scale * 2, **kinds(kind, bits),
              error=2e-4)
      for kind, scale in (("PER_TENSOR", f32(0.03).reshape(1)), ("PER_CHANNEL", SCALES))
      for bits, past in ((8, (BYTES_K, BYTES_V)), (4, (HALVES_K, HALVES_V)))
      for b, new, lengths, n in ((2, (Q1, K1, V1), RAGGED, 7), (1, (Q, K, V), RAGGED[:1] + 4, 11))),
    grouped(Q1, K1, V1, *(floats(2, 2, 12, SIZE, seed=i) for i in (3, 4)), RAGGED, total(7)),
]  # fmt: skip

GATES = floats(2, 5, 4, seed=3)
LINEAR = [
    *(case("LinearAttention", TOKENS, TOKENS / 4, TOKENS + 1, floats(2, 4, 4, 4) if past else None,
           -np.abs(GATES) if "gated" in rule else None, np.abs(GATES) / 3 if "delta" in rule else None,
           q_num_heads=4, kv_num_heads=4, update_rule=rule, outputs=2, error=1e-4)
      for rule in ("linear", "gated", "delta", "gated_delta") for past in (False, True)),
    case("LinearAttention", TOKENS, TOKENS[:, :, :8] / 4, TOKENS[:, :, :6].copy(), None, -np.abs(floats(2, 5, 8)),
         np.abs(GATES[:, :, :1]), q_num_heads=4, kv_num_heads=2, scale=0.7, outputs=2, error=1e-4),
    case("LinearAttention", TOKENS[:, :, :8].copy(), TOKENS / 4, TOKENS, None, -np.abs(GATES), np.abs(GATES),
         q_num_heads=2, kv_num_heads=4, outputs=2, error=1e-4),
    case("LinearAttention", *(x[:, :1].copy() for x in (TOKENS, TOKENS / 4, TOKENS)), floats(2, 4, 4, 4),
         -np.abs(GATES[:, :1]), np.abs(GATES[:, :1]), q_num_heads=4, kv_num_heads=4, outputs=2, error=1e-4),
    case("LinearAttentionGate", GATES, floats(4), -np.abs(floats(4, seed=1)), GATES + 1, outputs=2),
    case("LinearAttentionGate", GATES, floats(4), -np.abs(floats(4, seed=1))),
    case("LinearAttentionGate", half(GATES), floats(4), -np.abs(floats(4, seed=1)), half(GATES), outputs=2,
         error=3e-3),
    case("CausalConvWithState", floats(2, 6, 9), floats(6, 1, 4), floats(6), floats(2, 6, 3), outputs=2),
    case("CausalConvWithState", floats(2, 6, 2), floats(6, 1, 4), None, None, activation="silu", outputs=2),
    case("CausalConvWithState", floats(2, 6, 9), floats(6, 1, 3), floats(6), floats(2, 6, 4), dilation=2,
         activation="swish", outputs=2),
    case("CausalConvWithState", floats(2, 9, 2, 3), floats(6, 1, 4), floats(6), floats(2, 3, 2, 3), channels_last=1,
         outputs=2),
    case("GatedRMSNorm", TOKENS, floats(4), TOKENS + 1),
    case("GatedRMSNorm", half(TOKENS), half(floats(16)), half(TOKENS + 1), activation="sigmoid", error=5e-3),
    case("GatedAdd", TOKENS, TOKENS + 1, GATES[:, :, :1].copy()),
]  # fmt: skip
