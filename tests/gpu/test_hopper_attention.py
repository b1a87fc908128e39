"""Attention for sm_90a, in the emulator with its checks, beside the block interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.attention_regions import Attention, compiled
from graphfuse.dialects import gpu
from graphfuse.gpu.lower import emit_ptx, lower
from graphfuse.gpu.pipeline import transformed
from graphfuse.gpu.transforms.hopper.attention import FALLBACK
from graphfuse.interp.block import launch
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.types import scalar
from graphfuse.ir.verifier import verify
from graphfuse.target import Target
from tests.gpu.test_hopper import emulate

TARGET = Target.parse("cuda:sm_90a")
ULP = {"f16": 2.0**-11, "bf16": 2.0**-8}


def inputs(attention, seed=0):
    rng = np.random.default_rng(seed)
    out = []
    for name, elem, shape in attention.inputs:
        if elem == "bool":
            real = rng.random(shape) < 0.7
            real[0, :] = False  # a batch that attends to nothing
            out.append(real)
            continue
        array = rng.standard_normal(shape).astype(np.float32)
        if name == "mask":
            array[rng.random(shape) < 0.3] = -np.inf
        out.append(array.astype(numpy_dtype(scalar(elem))))
    return out


def check(attention, **attrs):
    func, _ = compiled(attention)
    func = type(func)(func.name, func.body, {**func.attrs, **attrs}, func.dims)
    roles = transformed(func, TARGET)
    verify(roles)
    assert any(op.kind is gpu.wgmma for op in roles.walk()), func.attrs.get(FALLBACK)
    lowered = lower([roles], TARGET)
    arrays, dtype = inputs(attention), numpy_dtype(scalar(attention.elem))
    want, got = np.zeros(attention.output, dtype), np.zeros(attention.output, dtype)
    symbols = {"q": attention.queries, "k": attention.keys} if attention.symbolic else {}
    launch(func, [*(a.reshape(-1) for a in arrays), want.reshape(-1)], symbols)
    emulate(emit_ptx(lowered), lowered.kernels[0], arrays, [got], symbols)
    # probabilities are rounded to halves, which a unit's difference in an exponential may move by one
    np.testing.assert_allclose(
        got.astype(float), want.astype(float), rtol=4 * ULP[attention.elem], atol=2 * ULP[attention.elem]
    )
    return roles


SMALL = Attention(1, 2, 128, 128, 64)


@pytest.mark.parametrize("attention", [SMALL, Attention(1, 2, 256, 384, 64, causal=True, layout="bshd")], ids=str)
def test_attention(attention):
    check(attention)
