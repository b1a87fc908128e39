"""What a graph has around its products is one kernel for sm_90a, and the emulator computes it."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.compiler import build
from graphfuse.gpu.emulator.driver import EmulatedDriver
from graphfuse.interp.graph import run as interpret
from graphfuse.ir.core import Func, tensor_of
from graphfuse.ir.dense import numpy_dtype
from graphfuse.knobs import Options
from graphfuse.runtime.gpu.session import GpuSession
from graphfuse.symbolic import evaluate
from graphfuse.targets import Target
from tests.blockgen.support import graph_func
from tests.fusion.test_dequantise_later import dequantised
from tests.fusion.test_normalise_later import norm

HOPPER = Target.parse("cuda:sm_90a")
SILU = "s = sigmoid(a); t = mul(a, s); y = mul(t, b); return(y)"


def cut(name, rows, start, columns):
    return f"{name} = slice(p) {{starts = [0, {start}], sizes = [{rows}, {columns}], steps = [1, 1]}}"


def outcome(func: Func, symbols=(), options=None, indices=None):
    """The executable, whose results on the emulator are the interpreter's; `indices` are below such numbers."""
    names = tuple(v.hint for v in func.params)
    outs = tuple(f"out{i}" for i in range(len(func.outputs)))
    func = Func(func.name, func.body, {"inputs": names, "outputs": outs}, func.dims)
    executable = build(func, HOPPER, options or Options())
    rng = np.random.default_rng(0)
    sizes = dict(symbols)
    given = {}
    for v in func.params:
        t = tensor_of(v)
        shape = [d if isinstance(d, int) else sizes[str(d)] for d in t.shape]
        dtype = numpy_dtype(t.elem)
        low, high = (0, indices[v.hint]) if indices and v.hint in indices else (-90, 90)
        numbers = rng.integers(low, high, shape) if t.elem.is_integer else rng.standard_normal(shape)
        given[v.hint] = numbers.astype(dtype)
    got = GpuSession(executable, EmulatedDriver("sm_90a")).run(given)
    want = interpret(func, *(given[n] for n in names))
    for name, w in zip(outs, want, strict=True):
        g, w = got[name].astype(np.float64), w.astype(np.float64)
        assert np.abs(g - w).max() <= 2.0**-6 * np.abs(w).max()
    return executable


EPILOGUES = {
    "bias and residual": ("r: 72x96xbf16", "y = add(z, r); return(y)"),
    "a residual, the same in every row": ("r: 1x96xbf16", "e = broadcast(r) {SHAPE}; y = add(e, z); return(y)"),
    "a residual, the same in every column": ("r: 72x1xbf16", "e = broadcast(r) {SHAPE}; y = sub(z, e); return(y)"),
    "a residual computed of others": ("r: 72x96xbf16, s: 72x96xbf16", "e = mul(r, s); y = add(z, e); return(y)"),
    "a residual with another number of dims": (
        "r: 2x36x96xbf16", "e = reshape(z) {shape = [2, 36, 96]}; y = add(e, r); return(y)"),
    "bias and SiLU": ("r: 72x96xbf16", "g = sigmoid(z); y = mul(z, g); return(y)"),
    "bias and GELU by erf": ("r: 72x96xbf16", """
        v = cast(z) {to = f32}; c = full() {elem = f32, SHAPE, value = 0.7071067811865476}; u = mul(v, c)
        e = erf(u); o = full() {elem = f32, SHAPE, value = 1.0}; w1 = add(e, o)
        h = full() {elem = f32, SHAPE, value = 0.5}; x1 = mul(v, h); x2 = mul(x1, w1)
        y = cast(x2) {to = bf16}; return(y)"""),
    "bias and GELU by tanh": ("r: 72x96xbf16", """
        v = cast(z) {to = f32}; c = full() {elem = f32, SHAPE, value = 0.044715}; s2 = mul(v, v); s3 = mul(s2, v)
        a = mul(s3, c); b1 = add(v, a); k = full() {elem = f32, SHAPE, value = 0.7978845608028654}
        u = mul(b1, k); t = tanh(u); o = full() {elem = f32, SHAPE, value = 1.0}; w1 = add(t, o)
        h = full() {elem = f32, SHAPE, value = 0.5}; x1 = mul(v, h); x2 = mul(x1, w1)
        y = cast(x2) {to = bf16}; return(y)"""),
    "a number for each part of the rows": ("r: 2x96xbf16", """
        p3 = reshape(z) {shape = [2, 36, 96]}; r3 = reshape(r) {shape = [2, 1, 96]}
        e = broadcast(r3) {shape = [2, 36, 96]}; y = mul(p3, e); return(y)"""),
    "a factor that heads share, beside the product": ("r: 72x32xbf16", """
        h = reshape(z) {shape = [72, 3, 32]}; r3 = reshape(r) {shape = [72, 1, 32]}
        e = broadcast(r3) {shape = [72, 3, 32]}; y = mul(h, e); return(h, y)"""),
    "one number": ("r: 1x1xbf16", "e = broadcast(r) {SHAPE}; y = mul(z, e); return(y)"),
    "two results": ("r: 72x96xbf16", "y = add(z, r); n = neg(z); return(y, n)"),
}  # fmt: skip


@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogues_are_one_kernel(name):
    params, body = EPILOGUES[name]
    body = body.replace("SHAPE", "shape = [72, 96]")
    product = 'p = contract(x, w) {spec = "mk,kn->mn"}; d = broadcast(c) {shape = [72, 96]}; z = add(p, d);'
    executable = outcome(graph_func(f"x: 72x128xbf16, w: 128x96xbf16, c: 96xbf16, {params}", product + body))
    assert multiplies(executable) == [1, 1]
    assert "wgmma" in executable.code[str(HOPPER)].ptx


def test_another_tile_is_chosen_where_memory_is_nothing_for_wgmma():
    """Rows that begin 2 bytes behind a multiple of 16; who reads the ledger sees why."""
    cut_off = "a = slice(x) {starts = [0, 1], sizes = [64, 256], steps = [1, 1]};"
    product = 'y = contract(a, w) {spec = "mk,kn->mn"}; return(y)'
    executable = outcome(graph_func("x: 64x264xf16, w: 256x512xf16", cut_off + product))
    (why,) = (d for d in executable.ledger if d["producer"] == "wgmma")
    assert why["consumer"] == "contraction_0"
    assert "begins 1 elements into memory" in why["reason"]
    ptx = executable.code[str(HOPPER)].ptx
    assert "mma.sync" in ptx
    assert "wgmma" not in ptx
    (kernel,) = (k for k in executable.kernels if k.launch)
    assert kernel.launch.threads < 256, "the tile of a product by mma.sync"


CODES, CODED = "p: 1x3x16x4x4xi32", "contract_packed(x, p, s) {bits = 4, columns = 70}"
MISSED = {
    "no multiple of 16 bytes": ("x: 64x250xf16, w: 250x64xf16", 'y = contract(x, w) {spec = "mk,kn->mn"}'),
    "multiply f32 by f32": ("x: 64x256xf32, w: 256x64xf32", 'y = contract(x, w) {spec = "mk,kn->mn"}'),
    "not contiguous along k": ("x: 64x256xi8, w: 256x64xi8", 'y = contract(x, w) {spec = "mk,kn->mn", elem = i32}'),
    "channels of the image do not lie side by side": (
        "x: 1x16x6x6xf16, w: 3x3x16x32xf16",
        ("v = permute(x) {perm = [0, 2, 3, 1]}; y = conv(v, w) {strides = [1, 1], low = [1, 1], high = [1, 1],"
        ' dilation = [1, 1], input_dilation = [1, 1], groups = 1, layout = "nhwc"}')),
    "f32 is multiplied as halves": (f"x: 64x64xf32, {CODES}, s: 2x96xf32", f"y = {CODED}"),
    "200 is no zero point": (
        f"x: 64x32xf16, {CODES}, s: 1x96xf16", "y = contract_packed(x, p, s) {bits = 8, columns = 70, zero = 200}"),
    "scales are computed": (f"x: 64x64xf16, {CODES}, t: 3x96xf16",
        f"s = slice(t) {{starts = [1, 0], sizes = [2, 96], steps = [1, 1]}}; y = {CODED}"),
}  # fmt: skip


@pytest.mark.parametrize("why", MISSED)
def test_what_misses_wgmma_says_why(why):
    params, body = MISSED[why]
    executable = outcome(graph_func(params, f"{body}; return(y)"), options=Options(numerics="strict"))
    (said,) = (d for d in executable.ledger if d["producer"] == "wgmma")
    assert why in said["reason"]
    assert "wgmma" not in executable.code[str(HOPPER)].ptx


BACKWARD = {
    "rows": ("x: 96x128xf16, w: 128x96xf16", 'v = flip(x) {axes = [0]}; y = contract(v, w) {spec = "mk,kn->mn"}'),
    "depth": ("x: 96x128xf16, w: 128x96xf16", 'v = flip(w) {axes = [0]}; y = contract(x, v) {spec = "mk,kn->mn"}'),
    "batch": ("x: 3x96x128xf16, w: 128x96xf16",
              'v = flip(x) {axes = [0]}; y = contract(v, w) {spec = "bmk,kn->bmn"}'),
    "unknown rows": ("x: (n)x128xf16, w: 128x96xf16",
                     'v = flip(x) {axes = [0]}; y = contract(v, w) {spec = "mk,kn->mn"}'),
    "an image": ("x: 2x8x8x64xf16, w: 3x3x64x64xf16",
                 ("v = flip(x) {axes = [0]}; y = conv(v, w) {strides = [1, 1], low = [0, 0], high = [0, 0], "
                  'dilation = [1, 1], input_dilation = [1, 1], layout = "nhwc"}')),
    "keys": ("q: 2x70x64xf16, k: 2x150x64xf16, v: 2x150x64xf16", """
        b = flip(k) {axes = [1]}; s = contract(q, b) {spec = "bqd,bkd->bqk"}; f = cast(s) {to = f32}
        m = reduce(f) {axes = [2], kind = "max", keepdims = true}; g = broadcast(m) {shape = [2, 70, 150]}
        c = sub(f, g); e = exp(c); t = reduce(e) {axes = [2], kind = "sum", keepdims = true}
        u = broadcast(t) {shape = [2, 70, 150]}; d = div(e, u); p = cast(d) {to = f16}
        y = contract(p, v) {spec = "bqk,bkd->bqd"}"""),
}  # fmt: skip


@pytest.mark.parametrize("name", BACKWARD)
def test_tensors_that_run_backward_are_no_boxes(name):
    """TMA has no strides below 0."""
    params, body = BACKWARD[name]
    is_unknown = "(n)" in params
    outcome(graph_func(params, f"{body}; return(y)", "n in 1..512" * is_unknown), {"n": 70} if is_unknown else ())


BY_CODES = {
    "heads": ("x: 2x4x70x64xf16", "t = permute(x) {perm = [0, 2, 1, 3]}; v = reshape(t) {shape = [2, 70, 256]}", 1),
    "heads of unknown rows": (
        "x: 1x4x(n)x64xf16", "t = permute(x) {perm = [0, 2, 1, 3]}; v = reshape(t) {shape = [1, (n), 256]}", 1),
    "short heads, copied": (
        "x: 2x8x70x32xf16", "t = permute(x) {perm = [0, 2, 1, 3]}; v = reshape(t) {shape = [2, 70, 256]}", 2),
    "odd rows, copied": ("x: 70x259xf16", "v = slice(x) {starts = [0, 2], sizes = [70, 256], steps = [1, 1]}", 2),
    "turned, copied": ("x: 256x70xf16", "v = permute(x) {perm = [1, 0]}", 2),
}  # fmt: skip


@pytest.mark.parametrize("case", BY_CODES)
def test_rows_that_codes_multiply_are_boxes_or_copied(case):
    params, view, launches = BY_CODES[case]
    body = f"{view}; p = contract_packed(v, q, s) {{bits = 4, columns = 70, zero = 8}}; y = neg(p); return(y)"
    is_unknown = "(n)" in params
    func = graph_func(f"{params}, q: 4x3x16x4x4xi32, s: 8x96xf16", body, "n in 65..512" * is_unknown)
    executable = outcome(func, {"n": 70} if is_unknown else ())
    assert multiplies(executable, {"n": 70}) == [0, launches]
    assert "wgmma" in executable.code[str(HOPPER)].ptx


def multiplies(executable, dims=None) -> list[int]:
    """How many products there are, and how many launches, at these values of dims."""
    launched = [step for step in executable.plan.steps if evaluate(step.grid, dims or {})]
    return [executable.ir["regions"].count("graph.contract("), len(launched)]


GATES = {
    "two matrices": ("x: 72x128xbf16, w: 128x96xbf16, v: 128x96xbf16",
                     'a = contract(x, w) {spec = "mk,kn->mn"}; b = contract(x, v) {spec = "mk,kn->mn"};' + SILU),
    "two of [n, k]": ("x: 72x128xf16, w: 96x128xf16, v: 96x128xf16",
                      'a = contract(x, w) {spec = "mk,nk->mn"}; b = contract(x, v) {spec = "mk,nk->mn"};' + SILU),
    "packed": ("x: 72x128xbf16, w: 128x192xbf16",
               f'p = contract(x, w) {{spec = "mk,kn->mn"}};{cut("a", 72, 0, 96)};{cut("b", 72, 96, 96)};' + SILU),
    "packed, with biases": ("x: 72x128xbf16, w: 192x128xbf16, c: 192xbf16",
                            'q = contract(x, w) {spec = "mk,nk->mn"}; e = broadcast(c) {shape = [72, 192]}; '
                            f'p = add(q, e); {cut("b", 72, 0, 96)};{cut("a", 72, 96, 96)};' + SILU),
    "a depth that is no whole step": (
        "x: 72x104xbf16, w: 104x96xbf16, v: 104x96xbf16",
        'a = contract(x, w) {spec = "mk,kn->mn"}; b = contract(x, v) {spec = "mk,kn->mn"};' + SILU),
}  # fmt: skip


@pytest.mark.parametrize("name", GATES)
def test_gated_products_are_one_kernel(name):
    executable = outcome(graph_func(*GATES[name]))
    assert multiplies(executable) == [2, 1]
    assert "wgmma" in executable.code[str(HOPPER)].ptx


def test_rows_may_be_symbolic():
    params, body = GATES["two matrices"]
    func = graph_func(params.replace("72x", "(n)x"), body, "n in 1..512")
    assert multiplies(outcome(func, {"n": 40}), {"n": 40}) == [2, 1]


def test_queries_keys_and_values_are_one_launch():
    lines = []
    for out, w, c in (("q", "u", "d"), ("k", "v", "e"), ("l", "w", "f")):
        lines.append(f'p{out} = contract(x, {w}) {{spec = "mk,kn->mn"}}; b{out} = broadcast({c}) {{shape = [72, 96]}}')
        lines.append(f"{out} = add(p{out}, b{out})")
    matrices, biases = (
        ", ".join(f"{n}: {shape}xbf16" for n in names) for names, shape in (("uvw", "128x96"), ("def", "96"))
    )
    func = graph_func(f"x: 72x128xbf16, {matrices}, {biases}", "; ".join([*lines, "return(q, k, l)"]))
    assert multiplies(outcome(func)) == [3, 1]


@pytest.mark.parametrize(("mean", "numerics"), [(False, "eager"), (True, "fast")])
def test_norms_follow_their_products(mean, numerics):
    executable = outcome(norm(mean=mean, rows=72), options=Options(numerics=numerics))
    assert multiplies(executable) == [1, 2]


@pytest.mark.parametrize("case", [{}, {"rows": 17}, {"transposed": True}, {"elem": "f32"}, {"block": 96}], ids=str)
def test_weights_are_converted_on_the_way(case):
    executable = outcome(dequantised(**case))
    stored = "i8" if case.get("elem") == "f32" else "i32"  # bytes, or codes in words
    assert stored in {w.elem for w in executable.weights}


PICKED = {
    "by tiles": ("x: 4x70x128xf16, w: 2x96x128xf16", 'y = contract(x, p) {spec = "tmk,tnk->tmn"}; return(y)'),
    "columns in lines": ("x: 4x70x128xf16, w: 2x128x96xf16", 'y = contract(x, p) {spec = "tmk,tkn->tmn"}; return(y)'),
    "two matrices": (
        "x: 4x70x128xf16, w: 2x96x128xf16, v: 2x96x128xf16", """
        q = take(v, i) {axis = 0}; a = contract(x, p) {spec = "tmk,tnk->tmn"};
        b = contract(x, q) {spec = "tmk,tnk->tmn"};""" + SILU),
    "keys": (
        "x: 4x70x64xf16, w: 2x150x64xf16", """
        s = contract(x, p) {spec = "tqd,tkd->tqk"}; f = cast(s) {to = f32}
        m = reduce(f) {axes = [2], kind = "max", keepdims = true}; g = broadcast(m) {shape = [4, 70, 150]}
        c = sub(f, g); e = exp(c); t = reduce(e) {axes = [2], kind = "sum", keepdims = true}
        u = broadcast(t) {shape = [4, 70, 150]}; d = div(e, u); h = cast(d) {to = f16}
        y = contract(h, p) {spec = "tqk,tkd->tqd"}; return(y)"""),
}  # fmt: skip


@pytest.mark.parametrize("name", PICKED)
def test_matrices_that_are_looked_up_are_copied_from_where_they_lie(name):
    """By TMA, whose box begins where the look-up says; one kernel."""
    params, body = PICKED[name]
    func = graph_func(f"{params}, i: 4xi32", f"p = take(w, i) {{axis = 0}}; {body}")
    executable = outcome(func, indices={"i": 2})
    assert multiplies(executable)[1] == 1
    assert "wgmma" in executable.code[str(HOPPER)].ptx
