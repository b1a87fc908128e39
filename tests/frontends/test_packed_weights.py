"""Weights packed in blocks, beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

import graphfuse
from graphfuse.compiler import stages
from graphfuse.dialects import graph
from graphfuse.dialects.gpu import WITHOUT_WGMMA
from graphfuse.errors import UnsupportedError
from graphfuse.frontends.onnx import import_model
from graphfuse.frontends.onnx.ops.microsoft.contract import unpacked
from graphfuse.ir.core import tensor_of
from graphfuse.knobs import Options
from graphfuse.targets import Target
from tests.frontends.support import check, declare, one_op, onnxruntime_reference


def packed(rows, n, k, bits, block, *, zero=False, bias=False, fractions=False, groups="", level=0):
    """A model of one product, its inputs, and what ONNX Runtime makes of them."""
    rng = np.random.default_rng(0)
    blocks = -(-k // block)
    arrays = [
        rng.standard_normal((rows, k)).astype(np.float32),
        rng.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8),
        (rng.random(n * blocks) / 64).astype(np.float32),
        rng.integers(0, 256, n * -(-blocks * bits // 8)).astype(np.uint8) if zero else None,
        None,
        rng.standard_normal(n).astype(np.float32) if bias else None,
    ]
    if fractions:
        arrays[3] = (rng.random((n, blocks)) * (1 << bits)).astype(np.float32)
    if groups:
        of_each = np.arange(k) // block if groups == "whole" else rng.integers(0, blocks, k)
        arrays[4] = rng.permutation(of_each).astype(np.int32)
    while arrays[-1] is None:
        arrays.pop()
    known = [i for i, a in enumerate(arrays) if i and a is not None]
    attrs = {"K": k, "N": n, "bits": bits, "block_size": block} | ({"accuracy_level": level} if level else {})
    model, fed = one_op("MatMulNBits", arrays, known=known, opset=21, domain="com.microsoft", **attrs)
    model.opset_import.add(domain="com.microsoft", version=1)
    if zero and groups:  # whose zero points ONNX Runtime 1.32 takes from other places than the schema says
        return model, fed, [exact(arrays, n, k, bits, block)]
    return model, fed, onnxruntime_reference(model, fed)


def exact(arrays, n, k, bits, block):
    x, q, scale, zero, group = arrays
    blocks = -(-k // block)
    scale, zero = scale.reshape(n, blocks), unpacked(zero.reshape(n, -1), bits)[:, :blocks].astype(np.float64)
    w = (unpacked(q, bits).reshape(n, -1)[:, :k] - zero[:, group]) * scale[:, group]
    return (x @ w.T).astype(np.float32)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize(
    ("k", "block", "options"), [(64, 16, {}), (128, 32, {"zero": True}), (72, 32, {}), (96, 32, {"bias": True})]
)
def test_products_of_few_bits(bits, k, block, options):
    model, fed, want = packed(5, 24, k, bits, block, **options)
    check(model, fed, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bits", [2, 4])
def test_zero_points_may_be_fractions(bits):
    model, fed, want = packed(5, 24, 72, bits, 32, fractions=True)
    check(model, fed, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize(
    ("bits", "k", "n", "block", "options"),
    [
        (4, 512, 250, 32, {}),
        (4, 256, 400, 16, {"zero": True}),
        (2, 512, 256, 64, {"zero": True, "bias": True}),
        (8, 1024, 70, 128, {}),
        (4, 528, 128, 32, {"zero": True}),
        (2, 512, 200, 32, {"fractions": True}),
        (4, 512, 200, 64, {"groups": "whole", "zero": True}),
    ],
)
@pytest.mark.parametrize("rows", [1, 6, 40])
def test_a_cpu_multiplies_them_as_stored(level, bits, k, n, block, options, rows, tmp_path):
    model, fed, want = packed(rows, n, k, bits, block, level=level, **options)
    declare(model, want)
    compiled = graphfuse.compile(model)
    got = next(iter(compiled(fed).values()))
    # x is rounded to 127ths of the largest element of a block where the model allows that, mostly by both
    by_both = not options.keys() & {"fractions", "groups"}
    limit = np.std(want[0]) * (1e-5 if not level else 2e-3 if by_both else 5e-2)
    np.testing.assert_allclose(got, want[0], rtol=0, atol=limit)
    compiled.save(tmp_path / "m.gfx")
    stored = model.ByteSize() * -(-n // PANEL) * PANEL / n  # what the last panel lacks is stored as well
    assert (tmp_path / "m.gfx").stat().st_size < 1.05 * stored + OVERHEAD


PANEL, OVERHEAD = 32, 60_000
"""Columns of a panel with AVX-512; bytes of an artifact besides weights: code, for the most part."""


@pytest.mark.parametrize("rows", [16, 300])
def test_a_gpu_has_codes(rows):
    model = import_model(packed(rows, 256, 512, 4, 128)[0])
    done = stages(model, Target.parse("cuda:sm_90a"), Options(precision="bf16"))
    (product,) = (op for op in done.regions.walk() if op.kind is graph.contract_packed)
    assert [tensor_of(v).elem.name for v in product.operands[:2]] == ["bf16", "i32"]
    assert tensor_of(product.operands[2]).shape == (4, 256)
    assert not any(WITHOUT_WGMMA in f.attrs for f in done.kernels.values())


def test_an_older_gpu_has_bytes():
    model, fed, want = packed(32, 256, 512, 4, 128)
    declare(model, want)
    got = graphfuse.compile(model)(fed)
    np.testing.assert_allclose(next(iter(got.values())), want[0], rtol=1e-4, atol=1e-4)
    done = stages(import_model(model), Target.parse("cuda:sm_80"), Options(precision="bf16"))
    (product,) = (op for op in done.regions.walk() if op.kind is graph.contract_blocks)
    assert [tensor_of(v).elem.name for v in product.operands[:2]] == ["bf16", "i8"]
    assert tensor_of(product.operands[2]).shape == (256, 4)


@pytest.mark.parametrize("target", ["cpu:skylake-avx512", "cuda:sm_90a"])
def test_large_weights_are_made_floats_when_compiling(target):
    """Scales of blocks, repeated, are larger than any constant should be; times the weights they are not."""
    model, _, _ = packed(128, 512, 1024, 4, 32)
    model.graph.output[0].type.tensor_type.elem_type = 1
    regions = stages(import_model(model), Target.parse(target), Options(numerics="strict")).regions
    assert [op.attrs["kind"] for op in regions.walk() if op.kind is graph.region] == ["contraction"]


@pytest.mark.parametrize("options", [{}, {"zero": True}, {"fractions": True}])
@pytest.mark.parametrize("k", [96, 104])
def test_groups_may_be_of_any_size(k, options):
    model, fed, want = packed(5, 24, k, 4, 32, groups="drawn", **options)
    check(model, fed, want, rtol=1e-4, atol=1e-4)


def test_other_widths_are_an_error():
    arrays = [np.zeros((2, 32), np.float32), np.zeros((4, 1, 12), np.uint8), np.zeros(4, np.float32)]
    model, _ = one_op("MatMulNBits", arrays, known=[1, 2], domain="com.microsoft", K=32, N=4, bits=3, block_size=32)
    model.opset_import.add(domain="com.microsoft", version=1)
    with pytest.raises(UnsupportedError, match="bits must be 2, 4 or 8, got 3"):
        import_model(model)
