"""Products for sm_90a by clusters of blocks, in the emulator with its checks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.gemm_kernels import Gemm
from graphfuse.compiler import Options, build
from graphfuse.gpu.emulator import EmulatorError
from graphfuse.gpu.emulator.driver import EmulatedDriver
from graphfuse.ir.core import Func
from graphfuse.runtime.gpu.session import GpuSession
from graphfuse.targets import Target
from tests.blockgen.support import graph_func
from tests.gpu.test_hopper import PINGPONG, check, compiled, drop, inputs, run


def split(n):
    return (("split", str(n)),)


SPLIT = Gemm(128, 128, 256, (64, 64, 64), attrs=split(2))


@pytest.mark.some(7)
@pytest.mark.parametrize(
    "gemm",
    [
        SPLIT,
        replace(SPLIT, tb=False, ta=True, bias=True, gelu=True),
        replace(SPLIT, out="f32", residual=True),
        Gemm(200, 136, 328, (128, 128, 64), bias=True, attrs=split(2)),
        Gemm(72, 136, 584, (64, 128, 64), attrs=split(4)),
        Gemm(130, 64, 320, (64, 64, 64), symbolic=True, attrs=split(4)),
        Gemm(130, 32, 320, (64, 32, 64), bias=True, gelu=True, attrs=split(4)),
        Gemm(72, 24, 200, (64, 32, 64), out="f32", attrs=split(4)),
        Gemm(72, 16, 200, (64, 32, 64), attrs=split(2)),
        Gemm(128, 128, 320, (128, 128, 64), attrs=(*split(2), ("persistent", "2"))),
        Gemm(256, 128, 384, (256, 128, 64), attrs=split(2)),
    ],
    ids=str,
)
def test_sums_are_split(gemm):
    ptx, kernel = check(gemm, blocks=4)
    assert kernel.cluster == kernel.split == int(dict(gemm.attrs)["split"])
    assert f".reqnctapercluster {kernel.cluster}" in ptx


@pytest.mark.parametrize("seed", range(3))
def test_any_schedule_of_warps_and_number_of_clusters(seed):
    check(replace(SPLIT, m=192, attrs=(*SPLIT.attrs, ("ring", "2"))), seed=seed, blocks=2 * (1 + seed))


def test_the_result_is_the_same_whoever_comes_first():
    _, _, ptx, kernel = compiled(replace(SPLIT, attrs=split(4)))
    arrays = inputs(SPLIT)
    first, second = (run(SPLIT, ptx, kernel, arrays, blocks=8, seed=s) for s in (1, 2))
    np.testing.assert_array_equal(first.view(np.int16), second.view(np.int16))


@pytest.mark.parametrize(
    "gemm",
    [
        Gemm(128, 128, 64, (64, 64, 64), attrs=split(2)),
        Gemm(128, 128, 256, (64, 64, 64), attrs=(*split(2), *PINGPONG)),
        Gemm(128, 96, 256, (64, 96, 64), attrs=split(2)),
    ],
    ids=["one step", "pingpong", "columns no power of two"],
)
def test_not_split(gemm):
    _, kernel = check(gemm)
    assert kernel.cluster == kernel.split == 1


@pytest.mark.parametrize(
    "gemm",
    [
        Gemm(16, 128, 256, (64, 64, 64)),
        Gemm(13, 128, 256, (64, 64, 64), attrs=split(2)),
        Gemm(16, 128, 200, (128, 64, 64), bias=True),
        Gemm(128, 24, 192, (128, 64, 64)),
        Gemm(72, 136, 24, (64, 64, 64), tb=False),
    ],
    ids=str,
)
def test_few_rows_are_copied_as_they_are(gemm):
    _, kernel = check(gemm, blocks=4)
    least = min(-(-n // 8) * 8 for n in (gemm.m, gemm.n, gemm.k) if n < 64)
    assert least in {m.box[1] for m in kernel.tensor_maps if m.param < 2}


def test_rows_that_were_not_copied_are_0():
    gemm = Gemm(16, 128, 256, (64, 64, 64))
    _, _, ptx, kernel = compiled(gemm)
    with pytest.raises(EmulatorError, match="written|initialised"):
        run(gemm, drop(r"st\.shared\.v4\.b32 \[[^;]*;")(ptx), kernel, inputs(gemm))
    with pytest.raises(EmulatorError):
        run(gemm, drop(r"fence\.proxy\.async\.shared::cta;")(ptx), kernel, inputs(gemm))


@pytest.mark.full
def test_from_a_graph_to_the_driver():
    """The compiler splits the sum, the runtime launches whole clusters."""
    m, n, k = 72, 264, 4096
    x, w = (f"{rows}x{k}xf16" for rows in (m, n))
    func = graph_func(f"x: {x}, w: {w}", 'y = contract(x, w) {spec = "mk,nk->mn"}; return(y)')
    func = Func(func.name, func.body, {"inputs": ("x", "w"), "outputs": ("y",)}, func.dims)
    executable = build(func, Target.parse("cuda:sm_90a"), Options())
    (kernel,) = (k for k in executable.kernels if k.launch)
    assert kernel.launch.cluster == kernel.launch.split == 4
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, k)).astype(np.float16) for rows in (m, n))
    got = GpuSession(executable, EmulatedDriver("sm_90a")).run({"x": a, "w": b})["y"]
    want = a.astype(np.float32) @ b.astype(np.float32).T
    np.testing.assert_allclose(got.astype(np.float32), want, rtol=2.0**-11, atol=2.0**-12 * np.abs(want).max())
