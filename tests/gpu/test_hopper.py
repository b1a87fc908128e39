"""Matrix products for sm_90a: TMA, wgmma and warps with roles, in the emulator with its checks."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.gemm_kernels import STATISTICS, Gemm, split_text, text
from graphfuse.blockgen.gpu_wgmma_tile import WgmmaTile
from graphfuse.blockgen.lower import GPU_EMITTERS, lower_region
from graphfuse.dialects import gpu, graph
from graphfuse.fusion.regions.outline import outline
from graphfuse.gpu.emulator import EmulatorError
from graphfuse.gpu.lower import emit_ptx, lower
from graphfuse.gpu.pipeline import transformed
from graphfuse.interp.block import launch
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.parser import parse
from graphfuse.ir.printer import to_text
from graphfuse.ir.types import scalar
from graphfuse.ir.verifier import verify
from graphfuse.targets import Target
from graphfuse.targets.machine import GpuMachine
from tests.blockgen.cases import case
from tests.blockgen.gpu_cases import contract, linear
from tests.blockgen.support import launched
from tests.gpu import launching

TARGET = Target.parse("cuda:sm_90a")
PINGPONG = (("schedule", '"pingpong"'),)
ULP = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-22, "i32": 0.0}


def compiled(gemm):
    """The block function, its form with roles, PTX, and how to launch it."""
    func = parse(text(gemm))
    verify(func)
    roles = transformed(func, TARGET)
    verify(roles)
    lowered = lower([roles], TARGET)
    return func, roles, emit_ptx(lowered), lowered.kernels[0]


def inputs(gemm, seed=0):
    rng = np.random.default_rng(seed)
    dtype = numpy_dtype(scalar(gemm.elem))
    if gemm.elem == "i8":
        return [rng.integers(-128, 128, shape).astype(dtype) for _, shape in gemm.inputs]
    elems = [np.float32 if name in STATISTICS else dtype for name, _ in gemm.inputs]
    return [rng.standard_normal(shape).astype(e) for e, (_, shape) in zip(elems, gemm.inputs, strict=True)]


def emulate(ptx, kernel, arrays, outs, symbols, *, blocks=3, seed=0):
    """Run a kernel that writes `outs`."""
    launching.emulate(ptx, kernel, [*arrays, *launching.results(outs)], symbols=symbols, blocks=blocks, seed=seed)


def run(gemm, ptx, kernel, arrays, **options):
    """What the kernel stores."""
    out = np.zeros((gemm.m, gemm.n), numpy_dtype(scalar(gemm.out)))
    emulate(ptx, kernel, arrays, [out], {"m": gemm.m} if gemm.symbolic else {}, **options)
    return out


def wanted(gemm, func, arrays):
    """What the interpreter stores, before it is rounded."""
    wide = parse(text(replace(gemm, out=gemm.sum)))
    out = np.zeros((gemm.m, gemm.n), numpy_dtype(scalar(gemm.sum)))
    launch(wide, [*(a.reshape(-1) for a in arrays), out.reshape(-1)], {"m": gemm.m} if gemm.symbolic else {})
    return out


def check(gemm, **options):
    func, roles, ptx, kernel = compiled(gemm)
    assert any(op.kind is gpu.wgmma for op in roles.walk())
    arrays = inputs(gemm)
    want = wanted(gemm, func, arrays).astype(np.float64)
    got = run(gemm, ptx, kernel, arrays, **options).astype(np.float64)
    # f32 sums in another order: a few units of their size; then one rounding to the result
    slack = 0 if gemm.sum == "i32" else 2.0**-21 * gemm.k**0.5 * np.abs(want).max()
    np.testing.assert_allclose(got, want, rtol=ULP[gemm.out], atol=slack)
    return ptx, kernel


SMALL = Gemm(200, 136, 72)


@pytest.mark.parametrize("seed", [1, 3])
def test_turns_of_one_step(seed):
    """Nothing but its turn keeps a warp back: one that is late must not miss it."""
    check(Gemm(64 * 24, 64, 40, (64, 64, 64), attrs=PINGPONG), blocks=1, seed=seed)


@pytest.mark.some(4)
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("elem", ["bf16", "f16"])
def test_layouts(ta, tb, elem):
    check(replace(SMALL, ta=ta, tb=tb, elem=elem, out=elem, bias=True))


@pytest.mark.some(12)
@pytest.mark.some(5)
@pytest.mark.parametrize(
    "gemm",
    [
        Gemm(256, 256, 192),
        replace(SMALL, tile=(64, 64, 32)),
        replace(SMALL, tile=(64, 64, 32), ta=True, tb=False),
        replace(SMALL, tile=(64, 128, 64), gelu=True, bias=True, out="f32"),
        Gemm(300, 520, 200, (128, 256, 64), elem="f16", out="f16", bias=True),
        Gemm(300, 520, 200, (128, 192, 64), bias=True, residual=True),
        Gemm(300, 520, 200, (128, 192, 64), bias=True, attrs=PINGPONG),
        Gemm(300, 520, 136, (64, 256, 64), tb=False, attrs=PINGPONG),
        Gemm(300, 264, 200, (256, 128, 64), tb=False),
        Gemm(300, 264, 200, (128, 96, 64), tb=False, bias=True),
        Gemm(300, 264, 200, (64, 192, 64), symbolic=True, attrs=PINGPONG),
        Gemm(256, 250, 192, bias=True),
        Gemm(256, 256, 192, elem="i8", out="i32", sum="i32"),
        Gemm(256, 256, 192, (128, 128, 128), elem="f8e4m3"),
        Gemm(256, 256, 320, (128, 128, 128), tb=False),
        Gemm(100, 64, 64, (64, 16, 64)),
        Gemm(256, 256, 192, attrs=(("persistent", "2"),)),
        Gemm(200, 136, 136, norm=True, bias=True),
        Gemm(256, 128, 192, (128, 64, 64), gate=True),
        Gemm(200, 136, 72, tb=False, gate=True),
        Gemm(200, 136, 72, (64, 64, 64), gate=True, attrs=PINGPONG),
        Gemm(200, 136, 136, parts=3, out="f32"),
        Gemm(200, 136, 72, (64, 64, 32), parts=3, out="f32", attrs=PINGPONG),
        Gemm(200, 136, 72, (128, 64, 32), ta=True, tb=False, parts=2, out="f32"),
    ],
    ids=str,
)
def test_tiles(gemm):
    check(gemm)


@pytest.mark.some(3)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("attrs", [(), PINGPONG])
def test_any_schedule_of_warps_and_number_of_blocks(seed, attrs):
    check(Gemm(192, 320, 320, (64, 64, 64), attrs=(*attrs, ("ring", "3"))), seed=seed, blocks=1 + seed)


def test_text_of_roles_parses_back():
    _, roles, _, _ = compiled(Gemm(256, 256, 192, bias=True))
    assert to_text(parse(to_text(roles))) == to_text(roles)


def by_parts(a, b):
    """f32 [m, k] times f32 [n, k], split and multiplied by kernels."""
    parts = []
    for x in (a, b):
        _, ptx, kernel = parts_of(x)
        out = np.zeros((3, *x.shape), numpy_dtype(scalar("bf16")))
        emulate(ptx, kernel, [x], [out], {}, blocks=1 << 10)
        parts.append(out)
        np.testing.assert_allclose(out.astype(np.float64).sum(0), x, rtol=2.0**-28)
    gemm = Gemm(len(a), len(b), a.shape[1], (64, 64, 32), parts=3, out="f32")
    _, _, ptx, kernel = compiled(gemm)
    return run(gemm, ptx, kernel, parts).astype(np.float64)


def test_f32_by_parts_is_nearer_than_f32_sums():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((64, 1024)).astype(np.float32) for _ in range(2))
    want = a.astype(np.float64) @ b.T.astype(np.float64)
    one_by_one = np.zeros((64, 64), np.float32)
    for k in range(a.shape[1]):
        one_by_one += a[:, k, None] * b[:, k]
    assert np.linalg.norm(by_parts(a, b) - want) < 0.7 * np.linalg.norm(one_by_one - want)


def test_f32_by_parts_of_any_magnitude():
    """Every sum is near to what its terms allow; infinities and NaN come out as they should."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((64, 256)) * np.exp(3 * rng.standard_normal((64, 256))) for _ in range(2))
    a, b = a.astype(np.float32), b.astype(np.float32)
    a[0, :3], a[1, 0], b[:3, 0] = [np.inf, 0, np.nan], -np.inf, [1.0, np.inf, 0]
    got = by_parts(a, b)
    with np.errstate(invalid="ignore"):
        want, size = (f(a).astype(np.float64) @ f(b).T.astype(np.float64) for f in (np.asarray, np.abs))
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite])
    assert (np.abs(got[finite] - want[finite]) / size[finite]).max() < 2.0**-20


def parts_of(x):
    """The kernel that splits an array."""
    func = parse(split_text(x.shape))
    verify(func)
    lowered = lower([transformed(func, TARGET)], TARGET)
    return func, emit_ptx(lowered), lowered.kernels[0]


def test_sums_of_a_step_are_read_when_its_products_are_done():
    gemm = Gemm(128, 128, 192, (128, 64, 32), parts=2, out="f32")
    _, _, ptx, kernel = compiled(gemm)
    with pytest.raises(EmulatorError):
        run(gemm, drop(r"wgmma\.wait_group\.sync\.aligned 0;")(ptx), kernel, inputs(gemm))


def test_instructions():
    ptx, kernel = check(Gemm(256, 256, 192))
    assert ptx.count("wgmma.mma_async") == 4
    assert ptx.count("cp.async.bulk.tensor.2d.shared::cluster") == 2
    assert ptx.count("stmatrix") == 8
    assert "setmaxnreg.inc.sync.aligned.u32 232" in ptx
    assert kernel.threads == 384
    assert kernel.persistent == 1
    assert kernel.shared_bytes <= 227 << 10


REGIONS = {
    "whole tiles": linear("whole", "256", "192", "768", "mk,nk->mn"),
    "rest after the loop": linear("rest", "256", "192", "200", "mk,kn->mn"),
    "everything cut off": linear("cut", "200", "136", "200", "km,kn->mn"),
    "unknown rows": linear("rows", "(n)", "256", "192", "mk,nk->mn", dims="n in 1..4096", sizes=({"n": 300},)),
    "one step of K": contract("step", "mk,nk->mn", "x: 256x64xf16, w: 128x64xf16"),
    "heads": contract("heads", "bsnd,btnd->bnst", "x: 2x128x4x64xf16, w: 2x128x4x64xf16"),
    "sums of parts": case(
        "contraction",
        "parts",
        ", ".join(f"{v}{i}: {n}x192xbf16" for v, n in (("x", 200), ("w", 136)) for i in range(3)),
        'y = contract_parts(x0, x1, x2, w0, w1, w2) {spec = "mk,nk->mn"}; z = neg(y); return(z)',
    ),
    "several results": case(
        "contraction",
        "results",
        "x: 512x64xf16, w: 384x64xf16",
        'y = contract(x, w) {spec = "mk,nk->mn"}; z = neg(y); e = tanh(y); h = abs(y); return(z, e, h)',
    ),
    "batch": contract("batch", "bmk,bkn->bmn", "x: 5x256x64xbf16, w: 5x64x256xbf16"),
    "a number for each part of the rows": case(
        "contraction",
        "parts of rows",
        "x: 300x64xf16, w: 320x64xf16, t: 3x320xf16, b: 3xf16, g: 1xf16",
        """y = contract(x, w) {spec = "mk,nk->mn"}; p = reshape(y) {shape = [3, 100, 320]}
        r = reshape(t) {shape = [3, 1, 320]}; u = broadcast(r) {shape = [3, 100, 320]}; s = add(p, u)
        c = reshape(b) {shape = [3, 1, 1]}; v = broadcast(c) {shape = [3, 100, 320]}; m = mul(s, v)
        h = reshape(g) {shape = [1, 1, 1]}; f = broadcast(h) {shape = [3, 100, 320]}; o = mul(m, f); return(o)""",
    ),
    "numbers that columns share, beside the product": case(
        "contraction",
        "heads",
        "x: 300x64xf16, w: 320x64xf16, c: 300x64xf16",
        """y = contract(x, w) {spec = "mk,nk->mn"}; p = reshape(y) {shape = [300, 5, 64]}
        r = reshape(c) {shape = [300, 1, 64]}; u = broadcast(r) {shape = [300, 5, 64]}; s = mul(p, u)
        return(p, s)""",
    ),
}
SHARED = (WgmmaTile(64, 128, rows=2), WgmmaTile(64, 128, columns=2))
ODD = (WgmmaTile(128, 144), WgmmaTile(128, 208), WgmmaTile(128, 176, pingpong=True))
"""Of columns that are no multiple of a line of shared memory."""


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("name", "tile"),
    [*((n, None) for n in REGIONS), *((n, t) for n in REGIONS if "number" in n for t in (*SHARED, *ODD))],
    ids=str,
)
def test_regions(name, tile, monkeypatch):
    """Products as blockgen writes them."""
    if tile:
        monkeypatch.setattr("graphfuse.blockgen.gpu_wgmma_tile.TILES", (tile,))
    case = REGIONS[name]
    func, _ = outline(case.func)
    (region,) = (op for op in func.walk() if op.kind is graph.region)
    kernel = lower_region(
        region, "product", func.ranges, GpuMachine(multiprocessors=1, has_wgmma=tile is not None), GPU_EMITTERS
    )
    for values in case.sizes:
        roles = transformed(kernel, TARGET)
        verify(roles)
        assert any(op.kind is gpu.wgmma for op in roles.walk())
        arrays = case.arrays(values)
        lowered = lower([roles], TARGET)
        wants = launched(kernel, region, arrays, values)
        gots = [np.zeros_like(want) for want in wants]
        emulate(emit_ptx(lowered), lowered.kernels[0], arrays, gots, values, blocks=2)
        for got, want in zip(gots, wants, strict=True):
            # one rounding of the sum, and the sum before it in another order
            wide = want.astype(np.float64)
            np.testing.assert_allclose(got.astype(np.float64), wide, rtol=2.0**-7, atol=2.0**-9 * np.abs(wide).max())


DECLINED = {
    "a factor is no box: lines lie 33 elements apart, no multiple of 16 bytes": Gemm(128, 128, 33),
    "its loop is no product of boxes that TMA copies": Gemm(128, 128, 64, elem="f32"),
    "i8 operands must be contiguous along K": Gemm(128, 128, 64, elem="i8", sum="i32", out="i32", tb=False),
    "no wgmma for a tile of 32x64": Gemm(128, 128, 64, (32, 64, 64)),
    "no wgmma on buffers of 128x8": Gemm(128, 128, 64, (128, 128, 8)),
    "shared memory has room for less than 2 stages of 196608 bytes": Gemm(128, 256, 512, (128, 256, 256)),
    "256 accumulators in a thread": Gemm(256, 256, 64, (256, 256, 64), attrs=(("share", "[1, 1]"),)),
}


@pytest.mark.parametrize("why", DECLINED)
def test_declined(why):
    from graphfuse.gpu.transforms.hopper.matmul_pass import hopper_matmul

    asked = DECLINED[why]
    func = parse(text(replace(asked, attrs=(*asked.attrs, ("schedule", '"cooperative"')))))
    left = hopper_matmul(func)
    assert left.body is func.body
    assert left.attrs[gpu.WITHOUT_WGMMA] == why


def drop(pattern, count=1, after=""):
    """PTX without the first instructions that match (after some text)."""

    def change(ptx):
        start = ptx.index(after) if after else 0
        new, n = re.subn(pattern, "", ptx[start:], count=count)
        assert n == count, f"{pattern} is there {n} times"
        return ptx[:start] + new

    return change
