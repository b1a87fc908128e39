"""The gallery's products (`models/kernels`) on CPUs and on the emulator, beside float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphfuse.dialects import gpu
from graphfuse.gpu.pipeline import transformed
from graphfuse.ir.core import OpDef
from graphfuse.kernels.api import kernel
from graphfuse.kernels.kernel import Kernel
from graphfuse.kernels.specialise import Facts, specialised
from graphfuse.kernels.tuner import TunedKernel
from graphfuse.targets import Target
from tests.kernels.products import (
    FOLDER,
    SMALLEST,
    Case,
    attention,
    blocksparse,
    blocksparse_softmax,
    conv,
    dequantise,
    grouped,
    int4,
)

SM_90A = Target.parse("cuda:sm_90a")

CPU = {
    "attention odd": lambda: attention(2, 1, 77, 131, 64, 32, 32, lse=True, heads_last=True),
    "attention causal odd": lambda: attention(1, 2, 100, 70, 64, 32, 64, causal=True, type_="float"),
    "attention fewer keys than a block": lambda: attention(1, 1, 5, 3, 16, 16, 16, lse=True),
    "conv odd": lambda: conv(2, 5, 7, 9, 11, 3, 3, 2, 1, (32, 16, 16), type_="float"),
    "conv nchw": lambda: conv(1, 8, 8, 6, 16, 3, 3, 1, 1, (32, 16, 16), nchw=True),
    "conv 1x1, no padding": lambda: conv(3, 24, 5, 5, 8, 1, 1, 2, 0, (16, 16, 32)),
    "conv 5x5 nchw, stride 2": lambda: conv(1, 3, 11, 9, 4, 5, 5, 2, 2, (16, 16, 16), nchw=True, type_="float"),
    "sdd, odd depth": lambda: blocksparse("SDD", 2, 2, 96, 64, 50, 32, 32),
    "sdd 16": lambda: blocksparse("SDD", 1, 1, 48, 64, 16, 16, 16, "float"),
    "dsd, odd columns": lambda: blocksparse("DSD", 2, 2, 64, 50, 96, 32, 32),
    "dds, odd rows": lambda: blocksparse("DDS", 1, 3, 50, 64, 64, 16, 32, "float"),
    "softmax": lambda: blocksparse_softmax(2, 2, 48, 80, 16, bias=True),
    "softmax f32": lambda: blocksparse_softmax(1, 3, 64, 96, 32, type_="float"),
    "softmax backward": lambda: blocksparse_softmax(2, 2, 48, 80, 16, backward=True),
    "int4, odd rows and columns": lambda: int4(7, 50, 96, 32, 16, 32),
    "int4 in full": lambda: dequantise(50, 128, 32, 32),
    "int4, many rows": lambda: int4(70, 64, 128, 64, 32, 64),
    "grouped gelu": lambda: grouped((5, 0, 33, 1), 50, 30, (16, 32, 16), "gelu"),
    "grouped silu, no bias": lambda: grouped((0, 17), 16, 64, (16, 16, 32), "silu", bias=False, type_="float"),
}
LARGE = {
    "attention": lambda: attention(2, 4, 500, 700, 128, 64, 64, causal=True, lse=True),
    "conv": lambda: conv(4, 64, 28, 28, 96, 3, 3, 1, 1, (64, 64, 32)),
    "dsd": lambda: blocksparse("DSD", 2, 4, 512, 128, 512, 64, 64),
    "softmax": lambda: blocksparse_softmax(2, 4, 256, 1024, 32, bias=True),
    "int4": lambda: int4(100, 512, 1024, 128, 64, 64),
    "grouped": lambda: grouped((100, 3, 0, 250, 77), 256, 320, (64, 64, 32), "gelu"),
}


@pytest.mark.some(12)
@pytest.mark.parametrize("case", CPU.values(), ids=CPU)
def test_cpu(case: Callable[[], Case]) -> None:
    case().run("cpu")


@pytest.mark.full
@pytest.mark.parametrize("case", LARGE.values(), ids=LARGE)
def test_cpu_large(case: Callable[[], Case]) -> None:
    case().run("cpu")


@pytest.mark.parametrize("case", SMALLEST.values(), ids=SMALLEST)
def test_emulator(case: Callable[[], Case]) -> None:
    case().run("emulator")


def kinds(k: Kernel | TunedKernel, axes: int) -> set[OpDef]:
    """What it is made of for a Hopper GPU."""
    assert isinstance(k, Kernel)
    func = specialised(k.func, k.parameters, Facts(axes, ((16, True),) * len(k.parameters)))
    return {op.kind for op in transformed(func, SM_90A).walk()}


@pytest.mark.parametrize(("mode", "side"), [("SDD", "TK"), ("DSD", "TN"), ("DDS", "TM")])
def test_blocks_are_copied_ahead(mode: str, side: str) -> None:
    """Also those that a table in memory tells of."""
    k = kernel(FOLDER / "blocksparse_matmul.tc", TYPE="half", BLOCK=32, **{mode: 1, side: 32})
    assert gpu.copy_async in kinds(k, 3)


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("macros", [{}, {"CAUSAL": 1}, {"CAUSAL": 1, "WRITE_LSE": 1}], ids=str)
def test_attention_takes_warpgroups(d: int, macros: dict[str, int]) -> None:
    assert gpu.wgmma in kinds(kernel(FOLDER / "attention.tc", TYPE="half", D=d, TM=128, TN=128, **macros), 3)


def conv_kinds(old: str, new: str, **macros: Any) -> set[OpDef]:
    """Of a 3x3 convolution, with a line of its source replaced."""
    text = (FOLDER / "conv.tc").read_text()
    assert old in text
    sizes = {"TYPE": "half", "R": 3, "S": 3, "STRIDE": 1, "PAD": 1, "TM": 128, "TN": 128, "TK": 64, **macros}
    return kinds(kernel(text.replace(old, new), **sizes), 2)


OUTER = """
    int steps = cdiv(C, TK), r = k / steps / S, s = k / steps % S;
    int c[TK] = k % steps * TK + rc;
"""
INNER = """
    int r = k % (R * S) / S;
    int s = k % S;
    int c[TK] = k / (R * S) * TK + rc;
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        (INNER, OUTER),
        ("h + r >= 0 && h + r < H", "h + r > -1 && h + r <= H - 1"),
        ("int n[TM] = rm / (P * Q);", "int n[TM] = rm / Q / P;"),
        ("? *(X", "? *((X - 0) "),
    ],
    ids=["as it is", "taps outside", "other comparisons", "other divisions", "nothing is subtracted"],
)
def test_convolutions_read_windows(old: str, new: str) -> None:
    assert gpu.wgmma in conv_kinds(old, new)


@pytest.mark.parametrize(
    ("old", "new", "macros"),
    [
        ("", "", {"NCHW": 1}),
        ("int x[TM]", "unsigned x[TM]", {}),
        ("h + r < H", "h + r < H - n", {}),
        ("w + s >= 0 &&", "", {}),
        ("pq % Q * STRIDE", "pq % (Q + 1) * STRIDE", {}),
    ],
    ids=["channels apart", "may wrap", "a limit of an image", "no limit", "no digit"],
)
def test_what_are_no_windows(old: str, new: str, macros: dict[str, int]) -> None:
    assert gpu.wgmma not in conv_kinds(old, new, **macros)


# the same walk as others write it: one loop, exp, scores that carry the scale, sums in an order of their own
WALK = """
__global__ void walk(half *Q __noalias __readonly __aligned(16), half *K __noalias __readonly __aligned(16),
                     half *V __noalias __readonly __aligned(16), float *O __noalias __aligned(16),
                     float scale, int M, int N, int skip) {
  int rm[64] = get_program_id(0) * 64 + 0 ... 64;
  int rn[64] = 0 ... 64;
  int rd[64] = 0 ... 64;
  half *pk[64, 64] = K + rd[:, newaxis] + rn[newaxis, :] * 64;
  half *pv[64, 64] = V + rn[:, newaxis] * 64 + rd[newaxis, :];
  half q[64, 64] = *?((rm < M)[:, newaxis])(Q + rm[:, newaxis] * 64 + rd[newaxis, :]);
  float m[64] = -F32_INFINITY;
  float l[64] = 0;
  float acc[64, 64] = 0;
  // programs from `skip` on have no keys at all
  int end = get_program_id(0) < skip ? N : 0;
  for (int n = 0; n < END; n += 64) {
    half k[64, 64] = n + rn[newaxis, :] < N ? *pk : 0;
    float s[64, 64] = 0;
    s += q @ k;
    s *= scale;
    s = n + rn[newaxis, :] < N ? s : -F32_INFINITY;
    float top[64] = max(s[:, max], m);
    float p[64, 64] = exp(s - top[:, newaxis]);
    float alpha[64] = exp(m - top);
    m = top;
    l *= alpha;
    l += p[:, +];
    acc *= alpha[:, newaxis];
    half v[64, 64] = n + rn[:, newaxis] < N ? *pv : 0;
    acc += (half)p @ v;
    pk += 64 * 64;
    pv += 64 * 64;
  }
  float out[64, 64] = l[:, newaxis] > 0 ? acc / l[:, newaxis] : 7;
  *?((rm < M)[:, newaxis])(O + rm[:, newaxis] * 64 + rd[newaxis, :]) = out;
}
"""


@pytest.mark.parametrize(("end", "skip"), [("N", 3), ("end", 1), ("end", 3)])
def test_attention_as_others_write_it(end: str, skip: int) -> None:
    m, n, scale = 150, 100, 0.3
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((s, 64)).astype(np.float16) for s in (m, n, n))
    out = np.empty((m, 64), np.float32)
    walk = kernel(WALK, device="emulator", END=end)
    assert gpu.wgmma in kinds(walk, 1)
    walk[3](q, k, v, out, scale, m, n, skip)
    s = scale * (q.astype(np.float64) @ k.astype(np.float64).T)
    p = np.exp(s - s.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    want, sizes = p @ v.astype(np.float64), p @ np.abs(v.astype(np.float64))
    if end == "end":
        want[64 * skip :] = 7
    assert np.all(np.abs(out - want) <= 2.0**-10 * sizes)
