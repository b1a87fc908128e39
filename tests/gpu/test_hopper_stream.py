"""Products whose last waves are dealt out in steps (stream-K), in the emulator with its checks, and assembled."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from benchmarks.gemm_kernels import Gemm
from benchmarks.gemm_regions import product
from graphfuse.blockgen import gpu_matmul_tile
from graphfuse.blockgen.gpu_wgmma_tile import WgmmaTile
from graphfuse.compiler import Options, build
from graphfuse.gpu.assembler import assemble
from graphfuse.gpu.emulator import EmulatorError
from graphfuse.gpu.emulator.driver import EmulatedDriver
from graphfuse.runtime.gfx import load, save
from graphfuse.runtime.gpu.session import GpuSession
from graphfuse.targets import Target
from tests.gpu.test_hopper import check, compiled, drop, inputs, run

MOST_SPILLED = 32
"""Bytes, stored and loaded again."""
STREAM = (("schedule", '"stream"'),)
SMALL = Gemm(128, 128, 512, (64, 64, 64), attrs=STREAM)
ONE = replace(SMALL, m=64, n=64)


@pytest.mark.some(6)
@pytest.mark.parametrize(
    ("gemm", "blocks"),
    [
        (SMALL, 1),
        (SMALL, 3),
        (SMALL, 4),
        (SMALL, 7),
        (replace(SMALL, n=192), 4),
        (ONE, 2),
        (ONE, 4),
        (replace(SMALL, m=192, n=64, k=320, symbolic=True), 2),
        (replace(SMALL, m=200, n=136, k=520, bias=True, gelu=True), 5),
        (replace(SMALL, m=130, n=72, tb=False, residual=True, out="f32"), 4),
        (replace(SMALL, m=256, n=256, k=256, tile=(128, 128, 64)), 3),
    ],
    ids=str,
)
def test_numbers(gemm, blocks):
    """Blocks fewer, equal and more than tiles; two and four blocks for a tile; whole waves before."""
    _, kernel = check(gemm, blocks=blocks)
    assert kernel.flags
    assert kernel.split == -(-gemm.k // gemm.tile[2]) // 2


def test_the_result_is_the_same_whoever_comes_first():
    _, _, ptx, kernel = compiled(SMALL)
    arrays = inputs(SMALL)
    first, *others = (run(SMALL, ptx, kernel, arrays, blocks=7, seed=s).view(np.int16) for s in range(3))
    for other in others:
        np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize(
    ("gemm", "flags"),
    [
        (replace(SMALL, k=128), 0),
        (replace(SMALL, attrs=(*STREAM, ("split", "2"))), 0),
        (replace(SMALL, gate=True, m=64, n=64), 0),
    ],
    ids=["two steps", "split", "two sums"],
)
def test_not_dealt_out(gemm, flags):
    _, kernel = check(gemm, blocks=4)
    assert kernel.flags == flags


WAIT = r"WAIT:\nld\.acquire\.gpu[^}]*DONE:"


@pytest.mark.parametrize(
    "change",
    [
        drop(WAIT),
        lambda ptx: ptx.replace("ld.acquire.gpu", "ld.relaxed.gpu"),
        lambda ptx: ptx.replace("st.release.gpu", "st.relaxed.gpu"),
    ],
    ids=["no wait", "no acquire", "no release"],
)
def test_mistakes_are_found(change):
    _, _, ptx, kernel = compiled(ONE)
    assert change(ptx) != ptx
    with pytest.raises(EmulatorError, match="no release and acquire"):
        run(ONE, change(ptx), kernel, inputs(ONE), blocks=4)


def test_flags_are_set_back():
    """Else the next launch would not wait."""
    _, _, ptx, kernel = compiled(ONE)
    kept = drop(r"@p st\.relaxed\.gpu[^;]*;")(ptx)
    assert kept != ptx
    with pytest.raises(AssertionError, match="left set"):
        run(ONE, kept, kernel, inputs(ONE), blocks=4)


@pytest.mark.parametrize("tile", [(128, 256, 64), (128, 192, 64), (128, 128, 64), (256, 128, 64), (64, 256, 64)])
def test_nothing_is_serialised(tile):
    _, _, ptx, _ = compiled(Gemm(2048, 2048, 2048, tile, bias=True, gelu=True, attrs=STREAM))
    done = assemble(ptx.rstrip("\0\n") + "\n", "sm_90a")
    if done is None:
        pytest.skip("no assembler")
    assert not done.warnings
    (found,) = done.resources.values()
    assert 0 <= found.spill_bytes <= MOST_SPILLED


def test_from_a_graph_to_the_driver(tmp_path):
    """A session has memory for tiles and flags, and launches that follow one another find the flags clean."""
    gemm = Gemm(64, 192, 512)
    tile = WgmmaTile(64, 64, stream=True)
    with patch.object(gpu_matmul_tile, "wgmma_tiles", lambda *_, **__: [tile]):
        executable = build(product(gemm), Target.parse("cuda:sm_90a"), Options())
    save(executable, tmp_path / "m.gfx")
    executable = load(tmp_path / "m.gfx")
    (kernel,) = (k for k in executable.kernels if k.launch)
    assert kernel.launch.flags == 4
    session = GpuSession(executable, EmulatedDriver("sm_90a"))
    for seed in range(3):
        a, b = inputs(gemm, seed)
        want = a.astype(np.float32) @ b.astype(np.float32).T
        got = session.run({"a": a, "b": b})["out"].astype(np.float32)
        np.testing.assert_allclose(got, want, rtol=2.0**-8, atol=2.0**-12 * np.abs(want).max())
