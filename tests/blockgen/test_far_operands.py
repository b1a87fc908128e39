"""Products of operands whose elements lie far apart along k, or of a deep k: what is packed, slab by slab."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphfuse import compiler
from graphfuse.blockgen.lower import lower_region
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.types import scalar
from graphfuse.knobs import Options
from graphfuse.runtime.session import Session
from graphfuse.targets import Target
from tests.blockgen.support import AVX512, Case, graph_func, lowered, region_ops
from tests.machine import HOST, host_and

TARGETS = host_and("cpu:haswell")

SIZES = {
    "whole tiles": (96, 128, 640),
    "no whole tiles": (115, 133, 643),
    "several blocks": (600, 160, 1024),
    "many rows": (2603, 133, 128),
}
"""Rows, columns, depth."""


def product(rows: int, columns: int, depth: int) -> str:
    return f"a: {depth}x{rows}xf32, b: {depth}x{columns}xf32"


@pytest.mark.parametrize("name", SIZES)
def test_a_transposed_left_operand(name: str) -> None:
    rows, columns, depth = SIZES[name]
    func = graph_func(product(rows, columns, depth), 'y = contract(a, b) {spec = "km,kn->mn"}; return(y)')
    func = replace(func, attrs={"inputs": ("a", "b"), "outputs": ("y",)})
    session = Session(compiler.build(func, HOST, Options()))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((depth, n), np.float32) for n in (rows, columns))
    (got,) = session.run({"a": a, "b": b}).values()
    want = a.astype(np.float64).T @ b
    # what a long sum loses in f32 grows with its terms; sums of short runs stay near to what BLAS makes
    assert np.abs(got - want).max() <= 3 * np.abs(a.T @ b - want).max() + 1e-6 * want.std()


SPECS = ("mk,kn->mn", "km,kn->mn", "mk,nk->mn", "bkm,kn->bmn", "mak,nak->mn")
DEPTHS = {"one slab": 300, "slabs that divide": 640, "a prime": 1031}


@pytest.mark.some(60)
@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("columns", [22, 150])
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("elem", ["f32", "f16", "bf16"])
def test_slabs_of_any_layout(elem: str, spec: str, depth: str, columns: int, target: Target) -> None:
    sizes = {"m": 131, "n": columns, "k": DEPTHS[depth], "a": 3, "b": 2}
    left, right = (tuple(sizes[c] for c in labels) for labels in spec.partition("->")[0].split(","))
    a, b = (f"{name}: {'x'.join(map(str, shape))}x{elem}" for name, shape in zip("ab", (left, right), strict=True))
    func = graph_func(f"{a}, {b}", f'p = contract(a, b) {{spec = "{spec}"}}; y = abs(p); return(y)')
    func = replace(func, attrs={"inputs": ("a", "b"), "outputs": ("y",)})
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape, np.float32).astype(numpy_dtype(scalar(elem))) for shape in (left, right))
    (got,) = Session(compiler.build(func, target, Options())).run({"a": x, "b": w}).values()
    want = np.abs(np.einsum(spec, x.astype(np.float64), w.astype(np.float64)))
    unit = {"f32": 2.0**-20, "f16": 2.0**-10, "bf16": 2.0**-7}[elem]
    assert np.abs(got.astype(np.float64) - want).max() <= unit * want.max()


def test_what_is_packed() -> None:
    allocations = {
        "near": _allocations("a: 64x96xf32, b: 64x128xf32"),
        "far": _allocations("a: 256x600xf32, b: 256x600xf32"),
        "far, and slabs": _allocations("a: 640x600xf32, b: 640x600xf32"),
        "rows of a known, few": _allocations("a: 640x4xf32, b: 640x600xf32"),
        "panels of a, few": _allocations("a: 256x600xf32, b: 256x64xf32"),
        "rows a page apart": _allocations("a: 300x1024xf32, b: 1024x256xf32", "mk,kn->mn"),
        "not quite a page apart": _allocations("a: 300x1000xf32, b: 1000x256xf32", "mk,kn->mn"),
    }
    lanes = 32
    assert allocations == {
        "near": [],
        "far": [154 * 256, 256 * lanes],  # 11 tiles of 14 rows, and a panel
        "far, and slabs": [154 * 7 * lanes, 154 * 160, 160 * lanes],  # sums of seven panels before them
        "rows of a known, few": [],
        "panels of a, few": [],
        "rows a page apart": [108 * 4 * lanes, 108 * 256, 256 * lanes],
        "not quite a page apart": [60 * 4 * lanes],
    }


def _allocations(params: str, spec: str = "km,kn->mn") -> list[object]:
    func = graph_func(params, f'y = contract(a, b) {{spec = "{spec}"}}; return(y)')
    made = lowered(Case("far", ("contraction",), func, ({},)), AVX512)
    (region,) = region_ops(made)
    ops = lower_region(region, "far", made.ranges, AVX512).walk()
    return [op.attrs["count"] for op in ops if op.kind.name == "block.alloc"]
