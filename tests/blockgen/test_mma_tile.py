"""The choice of tiles for `mma.sync`: what limits a multiprocessor, and what was measured on an H200."""

from __future__ import annotations

import pytest

from graphfuse.blockgen.gpu_mma_tile import SHAPES, MmaTile, clocks, mma_tile
from graphfuse.target import GPU_SIZES

PARTS = sorted(set(GPU_SIZES.values()))
H200 = GPU_SIZES["sm_90"]


def test_what_warps_read():
    """Of 64x64 each: half of what they read of 32x64 is read for twice the products."""
    assert MmaTile(128, 128, 4, 64, 3).read == 4 * (64 + 64)
    assert MmaTile(128, 128, 8, 64, 3).read == 8 * (64 + 32)
    assert MmaTile(128, 256, 8, 64, 3).read == 8 * (64 + 64)
    assert MmaTile(16, 128, 4, 64, 3).read == 4 * (16 + 32), "a warp has 16 rows at least"


@pytest.mark.parametrize(
    ("tile", "shared_bytes", "blocks"),
    [
        (MmaTile(128, 128, 4, 64, 3), 227 << 10, 2),
        (MmaTile(128, 128, 8, 64, 3), 227 << 10, 1),
        (MmaTile(128, 256, 8, 128, 3), 227 << 10, 1),
        (MmaTile(128, 128, 4, 128, 3), 227 << 10, 2),
        (MmaTile(128, 128, 4, 128, 3), 163 << 10, 1),
        (MmaTile(128, 128, 4, 128, 4), 99 << 10, 0),
        (MmaTile(128, 256, 4, 64, 3), 227 << 10, 0),
    ],
    ids=["registers of two", "of one", "of one", "memory of two", "of one", "of none", "registers of none"],
)
def test_blocks_of_a_multiprocessor(tile, shared_bytes, blocks):
    assert tile.resident(shared_bytes) == blocks


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_large_products_have_large_tiles(part):
    tile = mma_tile(*part, 8192, 8192, 8192)
    assert tile.m * tile.n == 64 * 64 * tile.warps
    assert tile.stages > 2 or tile.step == 128


@pytest.mark.parametrize("part", PARTS, ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 1), (16, 16, 16), (64, 4096, 4096), (4095, 4097, 1000), (50304, 8, 768)])
def test_every_shape_has_a_tile(part, shape):
    m, n, k = shape
    tile = mma_tile(*part, m, n, 2 * k)
    assert tile.resident(part[1])
    assert (tile.m, tile.n, tile.warps) in SHAPES


def test_every_multiprocessor_has_a_tile_where_that_pays():
    tile = mma_tile(*H200, 1024, 1024, 8192)
    assert H200[0] / 2 < (1024 // tile.m) * (1024 // tile.n) <= H200[0]


def test_largest():
    tile = mma_tile(*H200, 8192, 8192, 8192, 1, 64 * 128)
    assert tile.m * tile.n == 64 * 128


def test_four_warps_of_64x64_and_eight_of_32x64():
    """On an H200 at 4096^3 they reach 425 and 266 TFLOP/s."""
    four, eight = (clocks(MmaTile(128, 128, warps, 64, 3), *H200, 4096, 4096, 8192) for warps in (4, 8))
    assert eight / four == pytest.approx(425 / 266, rel=0.15)
