"""Long sums of floats are made in runs: in one sum of thousands, small terms meet a large total."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from graphfuse import compiler
from graphfuse.dialects import graph
from graphfuse.fusion.products.split_long_sums import Programs, scan_in_parts, split_long_reductions
from graphfuse.interp.arrays import COMBINE
from graphfuse.interp.graph import run
from graphfuse.ir.rewrite import sweep
from graphfuse.knobs import Options
from graphfuse.runtime.session import Session
from tests.blockgen.support import graph_func
from tests.machine import HOST

ONE_SUM = 6e-8
"""Half an ulp: what each addition rounds by, at most, relative to its result."""


def results(func, **inputs):
    func = replace(func, attrs={"inputs": tuple(inputs), "outputs": ("y",)})
    (got,) = Session(compiler.build(func, HOST, Options())).run(inputs).values()
    return got


@pytest.mark.parametrize("dims", ["", "n in 1..8192"])
def test_a_sum_over_outer_axes(dims):
    rows = "(n)" if dims else "4099"
    func = graph_func(
        f"x: 2x{rows}x4x2xf32", 'y = reduce(x) {axes = [1, 3], keepdims = false, kind = "sum"}; return(y)', dims
    )
    x = np.random.default_rng(0).uniform(1, 2, (2, 4099, 4, 2)).astype(np.float32)
    want = x.sum((1, 3), dtype=np.float64)
    assert np.abs(results(func, x=x) / want - 1).max() <= 12 * ONE_SUM


def test_a_convolution_whose_depth_is_split_by_its_window():
    func = graph_func(
        "x: 1x128x14x14xf32, w: 64x128x3x3xf32",
        "y = conv(x, w) {dilation = [1, 1], groups = 1, high = [1, 1], input_dilation = [1, 1], low = [1, 1], "
        "strides = [1, 1]}; return(y)",
    )
    rng = np.random.default_rng(0)
    x, w = (rng.uniform(1, 2, s).astype(np.float32) for s in ((1, 128, 14, 14), (64, 128, 3, 3)))
    got = results(func, x=x, w=w)[0, :, 1:-1, 1:-1]
    windows = np.lib.stride_tricks.sliding_window_view(x[0].astype(np.float64), (3, 3), (1, 2))
    want = np.einsum("chwij,ocij->ohw", windows, w.astype(np.float64))
    assert np.abs(got / want - 1).max() <= 12 * ONE_SUM


DEPTHWISE = (
    "y = conv(x, w) {dilation = [1, 1], groups = 8, high = [0, 0], input_dilation = [1, 1], low = [0, 0], "
    "strides = [1, 1]}; return(y)"
)


def contract(spec):
    return f'y = contract(x, w) {{spec = "{spec}"}}; return(y)'


PRODUCTS = {
    "unknown depth": ("x: 3x(k)xf32, w: (k)x40xf32", contract("mk,kn->mn"), "mk,kn->mn"),
    "unknown depth, one row": ("x: 1x(k)xf32, w: (k)x40xf32", contract("mk,kn->mn"), "mk,kn->mn"),
    "unknown depth of rows": ("x: 3x(k)xf32, w: 40x(k)xf32", contract("mk,nk->mn"), "mk,nk->mn"),
    "a vector": ("x: 3x(k)xf32, w: (k)xf32", contract("mk,k->m"), "mk,k->m"),
    "many dots": ("x: 3x8192xf32, w: 3x8192xf32", contract("mk,mk->m"), "mk,mk->m"),
    "two dims, one unknown": ("x: 3x(k)x2xf32, w: 2x(k)x5xf32", contract("mkj,jkn->mn"), "mkj,jkn->mn"),
    "a wide window of each channel": ("x: 1x8x91x91xf32, w: 8x1x91x91xf32", DEPTHWISE, "aoij,obij->ao"),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name):
    given, ops, spec = PRODUCTS[name]
    dims = "k in 1..8192" if "(k)" in given else ""
    func = graph_func(given, ops, dims)
    rng = np.random.default_rng(0)
    shapes = [t.split(": ")[1].removesuffix("xf32").replace("(k)", "8191").split("x") for t in given.split(", ")]
    x, w = (rng.uniform(1, 2, [int(d) for d in s]).astype(np.float32) for s in shapes)
    want = np.einsum(spec, x.astype(np.float64), w.astype(np.float64))
    assert np.abs(results(func, x=x, w=w).reshape(want.shape) / want - 1).max() <= 12 * ONE_SUM


@pytest.mark.parametrize(("kind", "low", "high"), [("sum", 1, 2), ("prod", 1, 1.0001), ("logaddexp", -80, 80)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_running_sums(kind, low, high, axis):
    shape = tuple(1 << 17 if i == axis else d for i, d in enumerate((2, 3, 1)))
    func = graph_func(
        f"x: {'x'.join(map(str, shape))}xf32", f'y = cumulate(x) {{axis = {axis}, kind = "{kind}"}}; return(y)'
    )
    x = np.random.default_rng(0).uniform(low, high, shape).astype(np.float32)
    want = COMBINE[kind].accumulate(x, axis, dtype=np.float64)
    assert np.abs(results(func, x=x) / want - 1).max() <= ONE_SUM


def test_running_sums_of_halves_inside_another_kernel():
    func = graph_func("x: 6000xf16", 'r = cumulate(x) {axis = 0, kind = "sum"}; y = neg(r); return(y)')
    x = np.random.default_rng(0).uniform(0, 0.1, 6000).astype(np.float16)
    want = -np.cumsum(x, dtype=np.float64)
    assert np.abs(results(func, x=x) / want - 1).max() <= 2.0**-11


@pytest.mark.parametrize("how", ["", ", reverse = true", ", exclusive = true"])
def test_a_scan_of_many_parts_scans_their_totals_in_parts(how):
    func = graph_func("x: 1000x2xi32", f'y = cumulate(x) {{axis = 0, kind = "sum"{how}}}; return(y)')
    rule = scan_in_parts[0].given(Programs(132, {}, scanned=16))
    split, fired = sweep(func, [rule])
    assert fired == ["scan_in_parts"]
    assert [op.attrs.get("part") for op in split.walk() if op.kind is graph.cumulate] == [None, 8, 8]
    x = np.arange(2000, dtype=np.int32).reshape(1000, 2)
    np.testing.assert_array_equal(*run(func, x), *run(split, x))


DEEP = {
    "mk,kn->mn": ("50x4608", "4608x48"),
    "km,kn->mn": ("5003x49", "5003x51"),  # a prime: a product of what is left over
    "mk,nk->mn": ("65x6000", "48x6000"),
    "bmk,bkn->bmn": ("2x48x5001", "2x5001x70"),
    "mak,akn->mn": ("48x3x1600", "3x1600x50"),
}


@pytest.mark.parametrize("elem", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("spec", DEEP)
def test_a_product_along_a_deep_dim(spec, elem):
    shapes = DEEP[spec]
    a, b = (f"{n}: {s}x{elem}" for n, s in zip("ab", shapes, strict=True))
    func = graph_func(f"{a}, {b}", f'p = contract(a, b) {{spec = "{spec}"}}; y = neg(p); return(y)')
    rng, dtype = np.random.default_rng(0), {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}[elem]
    a, b = (rng.uniform(0, 1, tuple(map(int, s.split("x")))).astype(dtype) for s in shapes)
    want = -np.einsum(spec, a.astype(np.float64), b.astype(np.float64))
    unit = {"f32": 12 * ONE_SUM, "f16": 2.0**-10, "bf16": 2.0**-7}[elem]
    assert np.abs(results(func, a=a, b=b).astype(np.float64) / want - 1).max() <= unit


@pytest.mark.parametrize(
    ("shapes", "parts"),
    [
        (("64x9216", "9216x64"), [6]),  # 1,536 of each
        (("64x5003", "5003x64"), [4]),  # and three of a product of their own
        (("64x4607", "4607x64"), []),
        (("47x9216", "9216x64"), []),  # too few rows to read a panel again
        (("64x9216", "9216x47"), []),
        (("129x9216", "9216x128"), []),  # results enough to share out
    ],
)
def test_a_product_is_split_where_few_programs_make_the_result(shapes, parts):
    a, b = shapes
    func = graph_func(f"a: {a}xf32, b: {b}xf32", 'y = contract(a, b) {spec = "mk,kn->mn"}; return(y)')
    split = split_long_reductions(func)
    made = [op.operands[0].type.shape for op in split.walk() if op.kind is graph.reduce]
    assert [shape[0] for shape in made] == parts
