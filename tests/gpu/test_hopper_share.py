"""Tiles that two blocks of a cluster make together, in the emulator."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from benchmarks.gemm_kernels import Gemm
from graphfuse.dialects import gpu
from graphfuse.gpu.emulator import EmulatorError
from tests.gpu.test_hopper import PINGPONG, check, compiled, inputs, run

ROWS, COLUMNS = (("share", "[2, 1]"),), (("share", "[1, 2]"),)


@pytest.mark.some(4)
@pytest.mark.some(1)
@pytest.mark.parametrize(
    "gemm",
    [
        Gemm(300, 136, 200, (256, 128, 64), bias=True, residual=True, attrs=ROWS),
        Gemm(300, 264, 200, (128, 128, 64), bias=True, residual=True, attrs=COLUMNS),
        Gemm(300, 264, 200, (256, 128, 64), tb=False, attrs=(*ROWS, *PINGPONG)),
        Gemm(304, 264, 200, (256, 128, 64), ta=True, tb=False, attrs=ROWS),
        Gemm(304, 264, 200, (128, 128, 64), ta=True, attrs=COLUMNS),
        Gemm(40, 264, 328, (64, 128, 64), attrs=COLUMNS),
        Gemm(300, 263, 200, (256, 128, 64), gelu=True, bias=True, attrs=ROWS),
    ],
    ids=str,
)
def test_tiles(gemm):
    ptx, kernel = check(gemm, blocks=4)
    assert "multicast::cluster" in ptx
    assert (kernel.cluster, kernel.split) == (2, 2)


@pytest.mark.parametrize(
    ("tile", "attrs", "part"),
    [
        ((256, 256, 64), (), (128, 256)),
        ((128, 128, 64), (("ctas", "2"),), (64, 128)),
        ((128, 256, 64), (("ctas", "2"),), (128, 128)),
        ((256, 192, 64), (("ctas", "2"), *PINGPONG), (128, 192)),
        ((128, 128, 64), (("ctas", "1"),), None),
        ((64, 48, 64), (("ctas", "2"),), (64, 24)),
        ((64, 24, 64), (("ctas", "2"),), None),
    ],
)
def test_who_makes_a_tile(tile, attrs, part):
    _, roles, _, kernel = compiled(Gemm(300, 264, 200, tile, attrs=attrs))
    (made,) = {op.result.type.shape for op in roles.walk() if op.kind is gpu.wgmma}
    assert made == (part or tile[:2])
    assert kernel.cluster == (2 if part else 1)


@pytest.mark.full
def test_a_large_tile_by_itself():
    check(Gemm(300, 264, 136, (256, 256, 64), bias=True), blocks=4)


@pytest.mark.parametrize("seed", range(2))
def test_few_buffers_in_any_order(seed):
    check(Gemm(300, 128, 320, (128, 64, 64), attrs=(*ROWS, ("ring", "2"))), seed=seed, blocks=2)


def test_buffers_are_empty_when_both_blocks_have_read_them():
    gemm = Gemm(256, 64, 640, (128, 64, 64), attrs=(*ROWS, ("ring", "2")))
    _, _, ptx, kernel = compiled(gemm)
    own = re.sub(r"mapa\.shared::cluster\.u32 (%r\d+), (%r\d+), %r\d+;", r"mov.b32 \1, \2;", ptx)
    assert own != ptx
    with pytest.raises(EmulatorError, match="race|in flight|read"):
        run(gemm, own, kernel, inputs(gemm), blocks=2)


def test_a_tile_that_has_no_half_is_declined():
    _, roles, _, _ = compiled(replace(Gemm(256, 64, 128, (64, 64, 64)), attrs=ROWS))
    assert not any(op.kind is gpu.wgmma for op in roles.walk())
