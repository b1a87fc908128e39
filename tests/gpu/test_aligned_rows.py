"""Products whose operands have odd rows go by TMA for sm_90a, after a copy of these, and the emulator computes them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from benchmarks.gemm_kernels import Gemm
from benchmarks.gemm_regions import ROWS, kernels_of
from graphfuse.blockgen import gpu_product_costs
from graphfuse.compiler import stages
from graphfuse.dialects import control, graph
from graphfuse.gpu.assembler import assemble
from graphfuse.gpu.lower import emit_ptx, lower
from graphfuse.gpu.pipeline import transformed
from graphfuse.ir.core import Builder, Func, Params
from graphfuse.ir.dense import Dense, numpy_dtype
from graphfuse.ir.parser import parse
from graphfuse.ir.types import BF16, Tensor
from graphfuse.knobs import Options
from graphfuse.symbolic import evaluate
from tests.blockgen.support import graph_func
from tests.gpu.test_fused_products import HOPPER, outcome

LAYOUTS = {
    "nt": ("x: 72x75xELEM, w: 99x75xELEM", "mk,nk->mn"),
    "nn": ("x: 72x75xELEM, w: 75x99xELEM", "mk,kn->mn"),
    "tn": ("x: 75x72xELEM, w: 75x99xELEM", "km,kn->mn"),
    "tt": ("x: 75x71xELEM, w: 99x75xELEM", "km,nk->mn"),
}
EPILOGUES = {
    "alone": ("", "return(p)"),
    "bias and GELU": ("c: 99xELEM", """
        d = broadcast(c) {shape = [M, 99]}; b = add(p, d); v = cast(b) {to = f32}
        k = full() {elem = f32, shape = [M, 99], value = 0.7071067811865476}; u = mul(v, k); e = erf(u)
        o = full() {elem = f32, shape = [M, 99], value = 1.0}; s = add(e, o); t = mul(v, s)
        h = full() {elem = f32, shape = [M, 99], value = 0.5}; q = mul(t, h); y = cast(q) {to = ELEM}; return(y)"""),
    "residual": ("r: Mx99xELEM", "y = add(p, r); return(y)"),
}  # fmt: skip
COPIES = {"nt": 2, "nn": 2, "tn": 1, "tt": 2}
"""Operands of odd rows."""


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """However small."""
    monkeypatch.setattr(gpu_product_costs, "_loads_us", lambda *_, **__: 1e9)


def multiplied(layout, epilogue="alone", elem="bf16"):
    params, spec = LAYOUTS[layout]
    more, body = EPILOGUES[epilogue]
    rows = re.findall(r"\d+", params)[layout[0] == "t"]
    body = f'p = contract(x, w) {{spec = "{spec}"}};' + body
    params = ", ".join(s for s in (params, more) if s)
    return graph_func(*(s.replace("ELEM", elem).replace("M", rows) for s in (params, body)))


CASES = [
    *((layout, "alone", elem) for layout, elem in zip(LAYOUTS, ("bf16", "f16", "bf16", "f16"), strict=True)),
    ("nn", "bias and GELU", "bf16"), ("tt", "bias and GELU", "f16"), ("tn", "residual", "bf16"),
    ("nt", "residual", "f16"),
]  # fmt: skip


def copies(executable, dims=None):
    """How many operands are copied, all in one launch before that of the product, at these values of dims."""
    found = executable.ir["regions"].count("graph.pad(")
    assert sum(evaluate(step.grid, dims or {}) > 0 for step in executable.plan.steps) == 1 + (found > 0)
    return found


@pytest.mark.some(4)
@pytest.mark.parametrize(("layout", "epilogue", "elem"), CASES)
def test_layouts(layout, epilogue, elem):
    executable = outcome(multiplied(layout, epilogue, elem))
    assert copies(executable) == COPIES[layout]
    assert "wgmma" in executable.code[str(HOPPER)].ptx


FORMS = {
    "a batch": ("x: 3x40x75xbf16, w: 3x75x96xbf16", "bmk,bkn->bmn", 1),
    "a batch, both": ("x: 3x75x41xbf16, w: 3x45x75xbf16", "bkm,bnk->bmn", 2),
    "rows of two dims": ("x: 2x20x75xbf16, w: 75x96xbf16", "bmk,kn->bmn", 1),
    "rows of two dims, contiguous": ("x: 80x3x15xbf16, w: 80x96xbf16", "kbm,kn->bmn", 1),
    "a depth of two dims": ("x: 40x5x15xbf16, w: 5x15x96xbf16", "mkl,kln->mn", 1),
    "a dim of one": ("x: 40x75x1xbf16, w: 75x96xbf16", "mko,kn->mon", 1),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name):
    params, spec, wanted = FORMS[name]
    executable = outcome(graph_func(params, f'p = contract(x, w) {{spec = "{spec}"}}; return(p)'))
    assert copies(executable) == wanted
    assert "wgmma" in executable.code[str(HOPPER)].ptx


CUT = "{starts = [0, START], sizes = [75, 96], steps = [1, 1]}"


@pytest.mark.parametrize(("columns", "start", "wanted"), [(200, 16, 0), (200, 3, 1), (201, 0, 1)])
def test_slices_are_copied_where_they_begin_or_go_on_at_odd_addresses(columns, start, wanted):
    body = f"v = slice(w) {CUT.replace('START', str(start))}; " + 'p = contract(x, v) {spec = "mk,kn->mn"}; return(p)'
    executable = outcome(graph_func(f"x: 40x80xbf16, w: 80x{columns}xbf16", body.replace("75", "80")))
    assert copies(executable) == wanted
    assert "wgmma" in executable.code[str(HOPPER)].ptx


PLAIN = 'p = contract(x, w) {spec = "mk,kn->mn"}; return(p)'


def test_symbolic_rows():
    func = graph_func("x: (n)x75xbf16, w: 75x99xbf16", PLAIN, "n in 1..512")
    assert copies(outcome(func, {"n": 40}), {"n": 40}) == 2


def test_rows_of_unknown_length_stay():
    func = graph_func("x: 40x(n)xbf16, w: (n)x96xbf16", PLAIN, "n in 1..512")
    executable = outcome(func, {"n": 75})
    assert len(executable.plan.steps) == 1
    assert "wgmma" not in executable.code[str(HOPPER)].ptx


def test_what_is_computed_before_is_written_in_such_rows():
    executable = outcome(graph_func("x: 40x75xbf16, w: 75x96xbf16", """
        e = exp(x); p = contract(e, w) {spec = "mk,kn->mn"}; return(p)"""))  # fmt: skip
    assert len(executable.plan.steps) == 2, "exp and the copy are one kernel"


BY_HAND = """
    v = pad(x) {high = [0, 5], low = [0, 0], value = nan}
    s = slice(v) {starts = [0, 0], sizes = [40, K], steps = [1, 1]}
    p = contract(s, w) {spec = "mk,kn->mn"}; return(p)"""


def test_what_is_added_is_never_multiplied():
    executable = outcome(graph_func("x: 40x75xbf16, w: 75x96xbf16", BY_HAND.replace("K", "75")))
    assert [len(executable.plan.steps), "wgmma" in executable.code[str(HOPPER)].ptx] == [2, True]
    with pytest.raises(AssertionError):  # one column of it would show
        outcome(graph_func("x: 40x75xbf16, w: 76x96xbf16", BY_HAND.replace("K", "76")))


def test_weights_are_copied_when_compiling():
    b = Builder()
    params = Params((Tensor((40, 80), BF16),), ("x",))
    weight = np.random.default_rng(1).standard_normal((80, 99)).astype(numpy_dtype(BF16))
    cut = b(graph.slice_, b(graph.constant, value=Dense(weight)), starts=(0, 1), sizes=(80, 97), steps=(1, 1))
    b.append(control.return_(b(graph.contract, params.values[0], cut, spec="mk,kn->mn")))
    executable = outcome(Func("main", b.block(params), {}, ()))
    assert len(executable.plan.steps) == 1
    assert [w.array.shape for w in executable.weights] == [(80, 112)]
    assert "wgmma" in executable.code[str(HOPPER)].ptx


@pytest.mark.some(3)
@pytest.mark.parametrize("kind", [{}, {"residual": True}, {"bias": True, "gelu": True}], ids=str)
@pytest.mark.parametrize("layout", ["nn", "tn", "tt"])
def test_what_passes_registers_does_not_spill(layout, kind):
    gemm = Gemm(4095, 4097, 1000, ta=layout[0] == "t", tb=layout[1] == "t", **kind)
    with ROWS["as stored"]:
        (text,) = kernels_of(gemm).values()
    ptx = emit_ptx(lower([transformed(parse(text), HOPPER)], HOPPER)).rstrip("\0\n") + "\n"
    if (done := assemble(ptx, "sm_90a")) is None:
        pytest.skip("no assembler")
    (found,) = done.resources.values()
    assert "mma.sync" in ptx
    assert found.spill_bytes == 0


def test_attention_is_left_alone():
    func = graph_func("q: 64x75xbf16, k: 64x75xbf16, v: 64x75xbf16", """
        s = contract(q, k) {spec = "md,nd->mn"}; m = reduce(s) {axes = [1], keepdims = true, kind = "max"}
        n = broadcast(m) {shape = [64, 64]}; d = sub(s, n); e = exp(d)
        t = reduce(e) {axes = [1], keepdims = true, kind = "sum"}; u = broadcast(t) {shape = [64, 64]}; p = div(e, u)
        o = contract(p, v) {spec = "mn,nd->md"}; return(o)""")  # fmt: skip
    assert list(stages(func, HOPPER, Options()).kernels) == ["attention_0"]


AROUND = "p = pad(x) {low = [0, 1, 1, 0], high = [0, 1, 1, 0], value = 0.0}"
IMAGES = {
    "channels apart": (
        "x: 2x64x10x10xf16, w: 40x64x3x3xf16",
        f"t = permute(x) {{perm = [0, 2, 3, 1]}}; f = permute(w) {{perm = [2, 3, 1, 0]}}; {AROUND.replace('x', 't')}",
        "conv(p, f) {groups = 1, strides = [1, 1]",
    ),
    "odd channels": ("x: 2x10x10x33xf16, w: 3x3x33x65xf16", AROUND, "conv(p, w) {groups = 1, strides = [1, 1]"),
    "steps of two, nothing around": (
        "x: 2x13x11x9xbf16, w: 3x3x9x17xbf16",
        "",
        "conv(x, w) {groups = 1, strides = [2, 2]",
    ),
    "groups": (
        "x: 2x32x10x10xf16, w: 3x3x16x64xf16",
        "t = permute(x) {perm = [0, 2, 3, 1]}",
        "conv(t, w) {groups = 2, strides = [1, 1]",
    ),
    "odd groups": (
        "x: 2x10x10x27xf16, w: 3x3x9x48xf16",
        AROUND,
        "conv(p, w) {groups = 3, strides = [1, 1]",
    ),
}


@pytest.mark.parametrize("name", IMAGES)
def test_images_are_copied_and_read_in_windows(name):
    params, before, conv = IMAGES[name]
    more = 'low = [0, 0], high = [0, 0], dilation = [1, 1], input_dilation = [1, 1], layout = "nhwc"}'
    executable = outcome(graph_func(params, f"{before}; y = {conv}, {more}; return(y)"))
    code = executable.code["cuda:sm_90a"].ptx
    assert "wgmma.mma_async" in code
    assert "im2col" in code
