"""The choice of tiles for `mma.sync`: what limits a multiprocessor, and what was measured on an H200."""

from __future__ import annotations

import pytest

from graphfuse.blockgen.gpu_matmul_tile import LEAST_SIDE, MOST_ADDRESSES, product_tiles
from graphfuse.blockgen.gpu_mma_tile import SHAPES, MmaTile, clocks, mma_tiles
from graphfuse.blockgen.gpu_wgmma_tile import Product
from graphfuse.ir.types import F16
from graphfuse.targets.machine import WARP
from graphfuse.targets.profiles.nvidia import GPUS

PARTS = {name: p.machine for name, p in GPUS.items()}
H200 = PARTS["sm_90a"]


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


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_large_products_have_large_tiles(part):
    tile = mma_tiles(part, 8192, 8192, 8192)[0]
    assert tile.m * tile.n == 64 * 64 * tile.warps
    assert tile.stages > 2 or tile.step == 128


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (16, 16, 16), (64, 4096, 4096), (4095, 4097, 1000), (50304, 8, 768)])
def test_every_shape_has_a_tile(part, shape):
    m, n, k = shape
    tile = mma_tiles(part, m, n, 2 * k)[0]
    assert tile.resident(part.shared_bytes)
    assert (tile.m, tile.n, tile.warps) in SHAPES


def test_every_multiprocessor_has_a_tile_where_that_pays():
    tile = mma_tiles(H200, 1024, 1024, 8192)[0]
    assert H200.multiprocessors / 2 < (1024 // tile.m) * (1024 // tile.n) <= H200.multiprocessors


def test_largest():
    tile = mma_tiles(H200, 8192, 8192, 8192, 1, 64 * 128)[0]
    assert tile.m * tile.n == 64 * 128


MEASURED = {
    (4096, 4096, 4096): {"128x256 w8": 340.6, "128x128 w4": 348.2, "256x128 w8": 353.6, "128x128 w8": 404.0,
                         "64x128 w2": 409.2, "64x128 w4": 454.5, "64x64 w2": 502.9, "64x64 w4": 531.8,
                         "32x64 w2": 635.8},
    (2048, 3072, 768): {"128x128 w4": 30.0, "64x128 w2": 32.9, "128x128 w8": 33.1, "64x128 w4": 35.0,
                        "128x256 w8": 38.3, "64x64 w2": 38.8, "64x64 w4": 40.9, "32x64 w2": 45.0},
    (1024, 1024, 4096): {"64x128 w4": 26.6, "64x64 w2": 29.3, "64x64 w4": 32.7, "32x64 w2": 34.2, "64x128 w2": 40.7,
                         "128x128 w4": 41.1, "128x128 w8": 45.5, "128x256 w8": 71.3},
}  # fmt: skip
"""Microseconds of f16 x @ w.T by tile and warps, in steps of 128 bytes, most with fragments ahead."""
NEAR = 1.3
"""Of clocks to nanoseconds, the largest by the least: the clock itself is lower at the limit of power."""


def by_name(name):
    m, n, warps = map(int, name.replace(" w", "x").split("x"))
    return MmaTile(m, n, warps, 128, 3 if m * n == 128 * 128 else 4)


@pytest.mark.parametrize("shape", MEASURED, ids=str)
def test_the_choice_is_the_best_measured(shape):
    m, n, k = shape
    tile, best = mma_tiles(H200, m, n, 2 * k)[0], by_name(next(iter(MEASURED[shape])))
    assert (tile.m, tile.n, tile.warps, tile.step) == (best.m, best.n, best.warps, best.step)


@pytest.mark.parametrize("shape", MEASURED, ids=str)
def test_the_model_is_near(shape):
    m, n, k = shape
    rates = [clocks(by_name(name), H200, m, n, 2 * k) / 1e3 / us for name, us in MEASURED[shape].items()]
    assert max(rates) / min(rates) < NEAR


@pytest.mark.parametrize("apart", [False, True])
def test_a_thread_holds_the_addresses_of_a_step(apart):
    """Of odd channels, whose rows begin anywhere; k is taps and channels, or one dim."""
    for m, n, k in ((14000, 13, 117), (32768, 13, 117), (4096, 100, 900), (100, 7, 63)):
        tile = product_tiles(H200, F16, Product(m, n, 2 * k), by_registers=True, apart=apart)[0]
        loaded = (tile.m + tile.n) * tile.k // (WARP * tile.warps)
        assert not apart or loaded <= MOST_ADDRESSES or tile.k == LEAST_SIDE
        assert apart or tile.k == min(64, 1 << (k - 1).bit_length())
