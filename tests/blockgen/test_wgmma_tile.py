"""The choice of tiles for `wgmma`, beside what was measured on an H200 (bf16, x @ w.T, one block sums all of K)."""

from __future__ import annotations

import pytest

from graphfuse.blockgen.gpu_matmul_tile import boxed_tile
from graphfuse.blockgen.gpu_wgmma_tile import TILES, WgmmaTile, microseconds, wgmma_tile
from graphfuse.blockgen.kernel import GpuMachine
from graphfuse.blockgen.lower import lower_region
from graphfuse.dialects import graph
from graphfuse.fusion.outline import outline
from graphfuse.ir.types import scalar
from tests.blockgen.gpu_cases import contract, linear

SMS = 132
MEASURED = {
    (4096, 4096, 4096): {"256x128": 204.2, "128x128": 212.5, "p64x256": 218.8, "p128x192": 219.1, "64x256": 219.0,
                         "p128x128": 221.1, "128x192": 225.4, "128x256": 232.4, "64x128": 236.4, "64x64": 353.2},
    (2048, 2048, 2048): {"256x128": 25.57, "128x256": 26.14, "128x128": 26.88, "p128x128": 26.95, "64x256": 27.48,
                         "p64x256": 27.99, "p64x128": 28.45, "p64x192": 30.03, "p128x192": 32.88, "64x64": 36.35},
    (16384, 768, 768): {"p128x192": 34.39, "p128x128": 34.59, "256x128": 34.82, "p64x192": 35.52, "p64x256": 35.70,
                        "128x192": 36.00, "128x256": 36.02, "128x128": 36.69, "64x128": 39.60, "64x64": 48.20},
    (64, 4096, 4096): {"64x32x2": 8.93, "64x64": 9.21, "64x64x2": 9.43, "64x128": 13.48, "p64x128": 13.69,
                       "p64x192": 17.68, "128x128": 20.79, "64x256": 21.26, "128x192": 30.45, "256x128": 39.17},
    (512, 1024, 1024): {"64x64x2": 4.03, "64x64": 4.12, "64x128x2": 4.62, "64x128": 4.85, "p64x128": 5.04,
                        "64x32x2": 4.92, "p64x192": 6.31, "128x128": 7.16, "64x256": 7.17, "256x128": 12.21},
    (1024, 1024, 4096): {"64x128x2": 16.14, "64x128": 16.47, "p64x128": 16.58, "p64x192": 20.38, "128x128": 20.80,
                         "64x64": 21.36, "64x32x2": 36.42, "128x192": 30.21, "256x128": 39.64},
}  # fmt: skip
"""Microseconds by tile; `p` is pingpong, `x2` two blocks on a multiprocessor."""


def label(tile):
    return f"{'p' * tile.pingpong}{tile.m}x{tile.n}{'x2' if tile.per_multiprocessor == 2 else ''}"


def by_label(name):
    return next(t for t in TILES if label(t) == name and t.split == 1)


@pytest.mark.parametrize("shape", MEASURED)
def test_the_chosen_tile_is_about_the_fastest(shape):
    m, n, k = shape
    times = MEASURED[shape]
    chosen = min(times, key=lambda name: microseconds(by_label(name), SMS, m, n, k // 64))
    assert times[chosen] < 1.03 * min(times.values())


@pytest.mark.parametrize("shape", MEASURED)
def test_the_model_is_near_the_measured_times(shape):
    m, n, k = shape
    for name, us in MEASURED[shape].items():
        assert 0.75 < microseconds(by_label(name), SMS, m, n, k // 64) / us < 1.25, name


def test_few_tiles_and_a_deep_sum_are_split():
    assert wgmma_tile(SMS, 512, 512, 2 * 16384).split > 1
    assert wgmma_tile(SMS, 4096, 4096, 2 * 4096).split == 1
    assert wgmma_tile(SMS, 64, 64, 2 * 128).split == 1, "too short"


def test_rows_that_are_few_or_cut_off_take_the_smallest_tile():
    assert wgmma_tile(SMS, 3, 4096, 2 * 512).m == 64
    assert wgmma_tile(SMS, 64, 16, 2 * 512).n == 32


def test_a_batch_fills_the_machine():
    assert wgmma_tile(SMS, 128, 128, 2 * 1024).split > 1
    assert wgmma_tile(SMS, 128, 128, 2 * 1024, batch=1024) in (WgmmaTile(128, 128), WgmmaTile(128, 128, pingpong=True))


def test_narrow_elements_go_deeper():
    assert [boxed_tile(GpuMachine(), scalar(e), 4096, 4096, 4096).k for e in ("bf16", "f8e4m3")] == [64, 128]


BOXED = {
    "weights [n, k]": (linear("nt", "256", "192", "768", "mk,nk->mn"), True),
    "weights [k, n]": (linear("nn", "256", "192", "768", "mk,kn->mn"), True),
    "rows of 16 bytes": (linear("cut", "200", "136", "200", "km,kn->mn"), True),
    "rows of 18 bytes": (linear("odd", "256", "192", "9", "mk,nk->mn"), False),
    "heads": (contract("heads", "bsnd,btnd->bnst", "x: 2x128x4x64xf16, w: 2x128x4x64xf16"), True),
    "doubles": (contract("f64", "mk,kn->mn", "x: 128x64xf64, w: 64x128xf64"), False),
    "bytes along n": (contract("i8", "mk,kn->mn", "x: 128x64xi8, w: 64x128xi8"), False),
}


@pytest.mark.parametrize("name", BOXED)
def test_what_boxes_can_be_copied_of(name):
    case, boxed = BOXED[name]
    func, _ = outline(case.func)
    (region,) = (op for op in func.walk() if op.kind is graph.region)
    kernel = lower_region(region, "product", func.ranges, GpuMachine(has_wgmma=True))
    assert ("schedule" in kernel.attrs) == boxed
    assert "schedule" not in lower_region(region, "product", func.ranges, GpuMachine()).attrs


def test_rows_that_are_no_whole_sectors_want_large_tiles():
    """Measured: 256x128 77.8 us, 128x256 88.5, 128x128 100.1, 64x128 148.4, 64x64 188.5."""
    times = {t: microseconds(by_label(t), SMS, 4096, 4104, 16, aligned=False) for t in ("256x128", "128x128", "64x64")}
    assert times["256x128"] < times["128x128"] < times["64x64"]
    assert 0.85 < times["256x128"] / 77.8 < 1.15
    assert wgmma_tile(SMS, 4096, 4104, 2 * 1000, aligned=False) == WgmmaTile(256, 128)
