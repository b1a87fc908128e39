"""f32 products by bf16 parts: as near as f32 sums, special values as they should be, and only where it pays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphfuse.dialects import graph
from graphfuse.errors import VerifyError
from graphfuse.fusion.precision.split_f32 import split_products
from graphfuse.fusion.regions.outline import outline
from graphfuse.fusion.simplify.fold_constants import fold_constants
from graphfuse.interp import graph as interp
from graphfuse.ir.parser import parse
from graphfuse.ir.printer import to_text
from graphfuse.ir.verifier import verify
from graphfuse.targets.machine import GpuMachine
from graphfuse.targets.profiles.h200 import H200
from tests.blockgen.cases import softmax
from tests.blockgen.support import check_blocks, graph_func

PRODUCT = 'y = contract(x, w) {spec = "mk,kn->mn"}; return(y)'


def kinds(func):
    return [op.kind for op in func.walk()]


FREE = replace(H200.parts, launch_us=0.0, split_per_us=1e30)
"""Splitting costs nothing, so that small products are split."""


@pytest.mark.parametrize(
    ("params", "spec"),
    [
        ("x: 70x64xf32, w: 64x72xf32", "mk,kn->mn"),
        ("x: 64x72xf32, w: 80x72xf32", "mk,nk->mn"),
        ("x: 64x72xf32, w: 64x80xf32", "km,kn->mn"),
        ("x: 2x40x64xf32, w: 64x72xf32", "bsk,kn->bsn"),
    ],
)
def test_is_as_near_as_f32(params, spec):
    func = graph_func(params, f'y = contract(x, w) {{spec = "{spec}"}}; e = tanh(y); n = neg(y); return(n, e)')
    split = split_products(func, FREE)
    verify(split)
    assert graph.contract_parts in kinds(split)
    assert to_text(parse(to_text(split))) == to_text(split)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal([int(d) for d in v.type.shape]).astype(np.float32) for v in func.params]
    exact = interp.run(func, *(a.astype(np.float64) for a in arrays), wide=True)
    for got, plain, want in zip(interp.run(split, *arrays), interp.run(func, *arrays), exact, strict=True):
        assert np.linalg.norm(got - want) < 1.5 * np.linalg.norm(plain - want)
    regions, _ = outline(split)
    for machine in (GpuMachine(), GpuMachine(has_wgmma=True)):
        check_blocks(regions, arrays, machine)


def test_infinities_and_nan():
    func = graph_func("x: 64x64xf32, w: 64x64xf32", PRODUCT)
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((64, 64)).astype(np.float32) for _ in range(2))
    x[0, :3], x[1, 0], w[0, :3] = [np.inf, 0, np.nan], -np.inf, [1.0, np.inf, 0]
    x[2, 5], x[3, 0], w[5] = 3e38, 2.0**-60, 1e-7
    with np.errstate(invalid="ignore"):
        (want,), (got,) = interp.run(func, x, w), interp.run(split_products(func, FREE), x, w)
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_parts_of_constants_are_constants():
    func = graph_func("x: 64x64xf32, w: 64x64xf32", PRODUCT)
    text = to_text(func).replace(", %w: tensor<64x64xf32>", "")
    values = " ".join(str(i / 7) for i in range(64))
    text = text.replace(
        " {\n",
        f" {{\n  %c = graph.constant() {{value = dense<64xf32, [{values}]>}} : tensor<64xf32>\n"
        "  %w = graph.broadcast(%c) {shape = [64, 64]} : tensor<64x64xf32>\n",
        1,
    )
    split = fold_constants(split_products(fold_constants(parse(text)), FREE))
    verify(split)
    (product,) = (op for op in split.walk() if op.kind is graph.contract_parts)
    assert all(v.op is not None and v.op.kind in (graph.constant, graph.broadcast) for v in product.operands[3:])


@pytest.mark.parametrize(
    ("params", "body"),
    [
        ("x: 512x512xf32, w: 512x512xf32", PRODUCT),  # does not pay
        ("x: 4096x4096xbf16, w: 4096x4096xbf16", PRODUCT),
        ("x: 4096x4094xf32, w: 4094x4096xf32", PRODUCT),  # TMA copies whole 16 bytes
        ("x: 8x1024x1024xf32, w: 8x1024x1024xf32", 'y = contract(x, w) {spec = "bmk,bkn->bmn"}; return(y)'),
        ("x: 16x4096xf32, w: 4096x4096xf32", PRODUCT),
    ],
)
def test_declines(params, body):
    assert graph.contract_parts not in kinds(split_products(graph_func(params, body), H200.parts))


def test_takes_large_products():
    func = graph_func("x: 1024x1024xf32, w: 1024x1024xf32", PRODUCT)
    assert graph.contract_parts in kinds(split_products(func, H200.parts))


def test_bad_operands():
    with pytest.raises(VerifyError, match="terms of two sums"):
        graph_func("x: 8x8xbf16", 'y = contract_parts(x, x, x) {spec = "mk,kn->mn"}; return(y)')


def test_leaves_attention_alone():
    steps = softmax(1, "64, 64").replace("(x", "(s").replace("return(y)", "")
    func = graph_func(
        "q: 64x64xf32, k: 64x64xf32, v: 64x64xf32",
        f's = contract(q, k) {{spec = "qd,kd->qk"}}; {steps}; o = contract(y, v) {{spec = "qk,kd->qd"}}; return(o)',
    )
    assert graph.contract_parts not in kinds(split_products(func, FREE))
