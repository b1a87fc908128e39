"""The choice of tiles for `wgmma`, beside what was measured on an H200 (bf16, x @ w.T)."""

from __future__ import annotations

from typing import Any

import pytest

from graphfuse.blockgen.gpu_epilogue_cost import epilogue_ns
from graphfuse.blockgen.gpu_matmul_tile import boxed_tiles
from graphfuse.blockgen.gpu_wgmma_tile import TILES, Product, WgmmaTile, microseconds, wgmma_tile
from graphfuse.blockgen.kernel import Kernel
from graphfuse.blockgen.lower import GPU_EMITTERS, lower_region
from graphfuse.dialects import graph
from graphfuse.fusion.regions.outline import outline
from graphfuse.fusion.regions.rules import Rules
from graphfuse.ir.types import scalar
from graphfuse.targets.machine import GpuMachine
from tests.blockgen.cases import case
from tests.blockgen.gpu_cases import contract, linear

H200 = GpuMachine()
GELU_NS = 0.133
MEASURED = {
    (4096, 4096, 4096): {"256x128": 204.2, "256x128 2 columns": 204.6, "128x256 2 rows": 205.2,
                         "128x128": 212.5, "p64x256": 218.8, "p128x192": 219.1, "64x256": 219.0,
                         "p128x128": 221.1, "128x192": 225.4, "128x256": 232.4, "64x128": 236.4, "64x64": 353.2},
    (2048, 2048, 2048): {"256x128": 25.57, "128x256": 26.14, "128x128": 26.88, "p128x128": 26.95, "64x256": 27.48,
                         "p64x256": 27.99, "p64x128": 28.45, "p64x192": 30.03, "p128x192": 32.88, "64x64": 36.35},
    (16384, 768, 768): {"p128x192": 34.39, "p128x128": 34.59, "256x128": 34.82, "p64x192": 35.52, "p64x256": 35.70,
                        "128x192": 36.00, "128x256": 36.02, "128x128": 36.69, "64x128": 39.60, "64x64": 48.20},
    (512, 1024, 1024): {"64x64x2": 4.03, "64x64": 4.12, "64x128x2": 4.62, "64x128": 4.85, "64x32x2": 4.92,
                        "p64x128": 5.04, "p64x192": 6.31, "128x128": 7.16, "64x256": 7.17, "p64x256": 7.23,
                        "p128x128": 7.24},
    (1024, 1024, 4096): {"64x128": 14.42, "p64x128": 14.50, "64x128x2": 16.09, "128x128 split 2": 16.40,
                         "64x64": 18.43, "p64x192": 20.38, "128x128": 20.80, "p64x256": 20.87, "p128x128": 20.88,
                         "64x256": 21.01, "64x128 split 2": 24.37, "64x64x2": 24.70, "64x32": 29.27, "128x192": 30.08,
                         "p128x192": 30.70, "64x64 split 2": 31.51, "64x32x2": 34.35, "128x128 split 4": 39.40,
                         "256x128": 39.64, "128x256": 39.84},
    (1024, 768, 768): {"64x96": 4.27, "64x128": 4.38, "64x128x2": 4.47, "p64x128": 4.51, "64x64x2": 4.79, "64x64": 5.16,
                       "p64x192": 5.51, "64x32": 6.06, "64x256": 6.09, "128x128": 6.09, "64x32x2": 6.11,
                       "p64x256": 6.14, "p128x128": 6.17, "128x128 split 2": 6.60, "64x128 split 2": 7.89,
                       "128x192": 7.95, "p128x192": 8.60, "64x64 split 2": 9.80, "256x128": 9.92, "128x256": 10.07,
                       "128x128 split 4": 14.67, "64x128 split 4": 20.66},
    (512, 512, 16384): {"128x128 split 4": 25.27, "64x64": 28.52, "64x32": 28.73, "64x128 split 2": 29.84,
                        "64x64 split 2": 31.28, "64x32x2": 33.63, "64x128 split 4": 35.70, "64x64x2": 39.12,
                        "64x128": 39.26, "p64x128": 39.44, "128x128 split 2": 41.58, "64x64 split 4": 46.28},
    (4096, 4104, 1000): {"p128x192 2 rows": 63.7, "128x256 2 rows": 66.3, "256x128 2 columns": 66.6, "256x128": 68.5,
                         "p128x192": 76.3, "128x256": 78.4},
    (8192, 8192, 8192): {"128x256 2 rows": 1597.8, "p128x192 2 rows": 1602.7, "256x128": 1608.3,
                         "256x128 2 columns": 1650.8},
    (4096, 14336, 4096): {"128x256 2 rows": 713.5, "p128x192 2 rows": 721.9, "256x128 2 columns": 723.4,
                          "256x128": 742.7},
    (2048, 768, 3072): {"128x96": 15.6, "p64x192": 15.9, "p128x128": 17.6, "64x128": 18.4, "64x96": 19.3},
    (2048, 3072, 768): {"p128x192": 15.4, "128x192": 16.3, "p128x128": 16.6, "128x256": 18.9, "256x128": 19.1,
                        "128x96": 18.4, "p128x192 2 rows": 16.7},
}  # fmt: skip
"""Microseconds by tile, the best of two runs; `p` is pingpong, `x2` two blocks on a multiprocessor."""
NARROW = {
    (3004, 808, 4224): {"p128x176": 36.3, "p128x192": 39.2, "p128x192 2 rows": 39.6, "128x208": 42.3, "128x192": 46.6,
                        "128x256": 47.0, "256x128": 49.1, "128x144": 54.5, "128x128": 54.7, "p128x128": 54.9,
                        "128x160": 57.7, "128x96": 61.2, "p64x192": 61.9, "64x256": 84.2},
    (6056, 824, 4096): {"p128x176": 69.7, "128x192": 72.7, "p128x192": 76.8, "p128x192 2 rows": 78.6, "p128x128": 88.1,
                        "128x128": 88.5, "128x208": 88.6, "128x144": 89.9, "128x256": 94.2, "128x160": 102.3,
                        "256x128": 103.8, "128x96": 114.2, "p64x192": 141.7, "64x256": 148.2},
    (5000, 808, 2048): {"128x144": 31.8, "p128x192 2 rows": 36.5, "128x160": 36.9, "p128x192": 38.6, "p128x176": 39.4,
                        "128x128": 39.6, "p128x128": 39.7, "128x208": 42.2, "128x192": 42.2, "128x96": 42.4,
                        "256x128": 47.4, "p64x192": 49.2, "128x256": 49.3, "64x256": 71.3},
    (2560, 2560, 2560): {"128x208": 54.7, "128x144": 60.6, "128x256": 63.0, "128x128": 63.3, "128x160": 63.8,
                         "p128x128": 63.9, "128x96": 65.3, "256x128": 65.4, "p128x192": 66.4, "64x256": 67.7,
                         "p128x192 2 rows": 68.6, "p128x176": 68.9, "128x192": 72.3, "p64x192": 75.3},
    (1500, 1500, 1504): {"128x144": 13.7, "p128x176": 14.4, "128x192": 14.9, "p128x192": 15.0, "128x160": 15.1,
                         "p128x192 2 rows": 16.6, "128x208": 17.1, "256x128": 18.4, "128x256": 18.5, "p128x128": 18.6,
                         "128x128": 19.4, "p64x192": 19.5, "64x256": 20.2, "128x96": 20.4},
    (4096, 1600, 1600): {"128x208": 34.8, "128x256": 38.8, "256x128": 39.0, "128x256 2 rows": 40.2,
                         "256x128 2 columns": 40.2, "p128x176": 41.2, "128x160": 41.4, "p128x128": 41.9,
                         "p128x192": 43.5, "p128x192 2 rows": 43.7, "128x192": 45.8},
    (8192, 640, 2048): {"128x160": 39.1, "128x128": 44.7, "p128x128": 45.9, "p128x192": 47.1, "p128x192 2 rows": 48.3,
                        "p128x176": 49.9, "128x192": 51.3, "128x256": 54.1, "256x128": 56.3, "128x144": 57.1,
                        "128x208": 59.3, "128x96": 59.7, "64x256": 71.4, "p64x192": 81.7},
}  # fmt: skip
"""The same of f16 on an H100, whose clock falls with what it multiplies: through `torch.compile`, medians of one run.
`benchmarks.gpu_gemm --elem f16 --shapes 3004x808x4224 --tiles every` times such kernels by themselves."""

FEW = {
    (16, 4096, 14336): {"64x32": 59.5, "64x64 split 2": 60.1, "64x128 split 2": 63.2, "64x64": 63.7,
                        "64x128 split 4": 79.7},
    (16, 4096, 4096): {"64x32": 52.9, "64x64 split 2": 53.2, "64x128 split 2": 54.0, "64x64": 55.3,
                       "64x128 split 4": 83.3},
    (16, 6144, 4096): {"64x64": 58.4, "64x128 split 2": 62.7, "64x32": 63.2, "64x64 split 2": 63.6,
                       "64x128 split 4": 74.0},
    (16, 3072, 8192): {"64x32": 58.7, "64x64 split 2": 62.0, "64x128 split 4": 63.6, "64x128 split 2": 64.4,
                       "64x64": 66.1},
    (16, 3072, 3072): {"64x32": 58.1, "64x64 split 2": 62.1, "64x64": 63.5, "64x128 split 2": 66.0,
                       "64x128 split 4": 74.0},
    (16, 1024, 4096): {"64x64": 86.6, "64x32": 94.0, "64x64 split 4": 109.1, "64x128 split 4": 109.1,
                       "64x128 split 2": 119.4, "64x64 split 2": 132.7},
}  # fmt: skip
"""The same of as many products in a row as no cache has weights of: `benchmarks.gpu_constants --quick --only few`."""
WINDOWS = {
    (100352, 64, 64): {"256x64": 18.9, "p128x64": 19.7, "128x64": 20.0, "64x64": 21.4, "64x64x2": 22.9},
    (25088, 128, 128): {"64x128": 14.1, "p64x128": 14.7, "p128x128": 15.2, "256x128": 15.3, "128x128": 15.8,
                        "p128x64": 17.1, "128x64": 17.2, "128x128 split 2": 19.2, "64x64x2": 19.5},
    (6272, 256, 256): {"p128x128": 14.7, "128x128": 15.0, "64x128": 15.8, "p64x128": 16.0, "64x64": 18.9,
                       "128x128 split 2": 19.5, "256x64": 19.6, "64x128 split 2": 19.7, "64x64x2": 20.0},
    (1568, 512, 512): {"64x128": 15.3, "p64x128": 15.4, "128x128 split 2": 17.1, "128x64": 21.0, "p128x64": 21.0},
    (196, 256, 256): {"64x64 split 4": 5.5, "64x32": 5.7, "64x64": 5.8, "64x64 split 2": 5.9, "64x128 split 4": 6.4},
    (49, 512, 512): {"64x64 split 4": 6.8, "64x32 split 4": 6.9, "64x128 split 4": 8.4, "64x64 split 2": 8.6,
                    "64x64": 9.3, "64x32": 9.5},
}  # fmt: skip
"""The same of 3x3 convolutions in f16: positions, results, channels. `64x32 split 4` is by its ratio to `64x64 split 4`
on an H100, 8.2 to 8.1: `benchmarks.gpu_conv --quick --only "b1 7^2 512->512" --tiles "64x32 split=4,64x64 split=4"`."""


def label(tile):
    split = f" split {tile.split}" if tile.split > 1 else ""
    shared = " 2 rows" * (tile.rows > 1) + " 2 columns" * (tile.columns > 1)
    return f"{'p' * tile.pingpong}{tile.m}x{tile.n}{'x2' if tile.per_multiprocessor == 2 else ''}{split}{shared}"


def by_label(name):
    return next(t for t in TILES if label(t) == name)


def bf16(m: int, n: int, k: int, **how: Any) -> Product:
    return Product(m, n, 2 * k, **how)


def is_aligned(k):
    return 2 * k % 32 == 0


@pytest.mark.parametrize("shape", MEASURED)
def test_the_chosen_tile_is_about_the_fastest(shape):
    m, n, k = shape
    times = MEASURED[shape]
    chosen = wgmma_tile(H200, bf16(m, n, k, aligned=is_aligned(k)))
    assert times[label(chosen)] < 1.03 * min(times.values())


@pytest.mark.parametrize("shape", FEW)
def test_few_rows_are_multiplied_by_what_comes_from_memory(shape):
    m, n, k = shape
    times = FEW[shape]
    assert times[label(wgmma_tile(H200, bf16(m, n, k)))] < 1.09 * min(times.values())


@pytest.mark.parametrize("shape", NARROW)
def test_columns_that_fill_no_wide_tiles_take_narrower_ones(shape):
    m, n, k = shape
    times = NARROW[shape]
    assert times[label(wgmma_tile(H200, bf16(m, n, k)))] < 1.09 * min(times.values())


@pytest.mark.parametrize("shape", WINDOWS)
def test_the_tile_of_a_convolution_is_about_the_fastest(shape):
    m, n, channels = shape
    times = WINDOWS[shape]
    assert times[label(wgmma_tile(H200, bf16(m, n, 9 * channels, windows=True)))] < 1.05 * min(times.values())


@pytest.mark.parametrize("shape", MEASURED)
def test_the_model_is_near_the_measured_times(shape):
    m, n, k = shape
    for name, us in MEASURED[shape].items():
        said = microseconds(by_label(name), H200, bf16(m, n, k, aligned=is_aligned(k)))
        assert 0.75 < said / us < 1.25, name


def test_few_tiles_and_a_deep_sum_are_split():
    assert wgmma_tile(H200, bf16(512, 512, 16384)).split > 1
    assert wgmma_tile(H200, bf16(4096, 4096, 4096)).split == 1
    assert wgmma_tile(H200, bf16(64, 64, 128)).split == 1, "too short"


def test_rows_that_are_few_or_cut_off_take_the_smallest_tile():
    assert wgmma_tile(H200, bf16(3, 4096, 512)).m == 64
    assert wgmma_tile(H200, bf16(64, 16, 512)).n == 32


def test_a_batch_fills_the_machine():
    assert wgmma_tile(H200, bf16(128, 128, 4096)).split > 1
    large = (WgmmaTile(128, 128), WgmmaTile(128, 128, pingpong=True))
    assert wgmma_tile(H200, bf16(128, 128, 4096, batch=1024)) in large


def test_columns_that_lie_side_by_side_are_copied_in_whole_lines():
    """2048x768x3072 with weights [k, n]: 20.8 us by 128x96, 15.9 by 64x192."""
    assert wgmma_tile(H200, bf16(2048, 768, 3072)).n == 96
    assert wgmma_tile(H200, bf16(2048, 768, 3072, in_lines=True)).n % 64 == 0
    assert wgmma_tile(H200, bf16(64, 4096, 4096, in_lines=True)).n == 32


def test_small_tiles_go_deeper():
    """1024x768x768 by 64x96: 291 TFLOP/s by 256 bytes of K, 284 by 128; 2048x768x3072 by 128x96: 570 and 621."""
    deep = [
        boxed_tiles(GpuMachine(), scalar("bf16"), bf16(*shape))[0].k for shape in ((1024, 768, 768), (64, 4096, 4096))
    ]
    assert deep == [128, 128]
    shallow = ((2048, 768, 3072), (1024, 768, 768 + 64), (64, 4096, 256))
    assert {boxed_tiles(GpuMachine(), scalar("bf16"), bf16(*shape))[0].k for shape in shallow} == {64}


def test_narrow_elements_go_deeper():
    elems = (scalar("bf16"), scalar("f8e4m3"))
    assert [boxed_tiles(GpuMachine(), e, Product(4096, 4096, 4096 * e.bytes))[0].k for e in elems] == [64, 128]


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
    kernel = lower_region(region, "product", func.ranges, GpuMachine(has_wgmma=True), GPU_EMITTERS)
    assert ("schedule" in kernel.attrs) == boxed
    assert "schedule" not in lower_region(region, "product", func.ranges, GpuMachine(), GPU_EMITTERS).attrs


def test_rows_that_are_no_whole_sectors_want_large_tiles_that_blocks_share():
    cut = bf16(4096, 4104, 1000, aligned=False)
    times = {t: microseconds(by_label(t), H200, cut) for t in ("256x128", "128x128", "64x64")}
    assert times["256x128"] < times["128x128"] < times["64x64"]
    assert wgmma_tile(H200, bf16(4096, 4104, 1000, aligned=False)).shared == 2
    assert wgmma_tile(H200, bf16(4096, 4104, 1000, aligned=False, windows=True)).shared == 1


FUSED = {
    (1024, 3072, 768): {"128x192": 10.7, "p128x192": 11.3, "p128x128": 11.7, "256x128": 12.3, "64x96": 13.0},
    (2048, 3072, 768): {"p128x128": 17.8, "p128x192": 18.6, "128x192": 19.2, "256x128": 22.7, "64x96": 24.6},
    (1024, 768, 768): {"64x96": 4.9, "64x128": 5.2, "p128x128": 7.5, "128x192": 9.8, "p128x192": 10.9},
    (8192, 8192, 1024): {"p128x192": 212.2, "p128x192 2 rows": 213.5, "p128x128": 223.2, "256x128": 243.0},
    (2048, 50304, 768): {"p128x192": 265.1, "p128x128": 269.0, "256x128": 295.4, "128x192": 316.8},
    (16384, 768, 768): {"p128x192": 37.0, "p128x192 2 rows": 36.9, "p128x128": 37.8, "256x128": 39.7, "128x192": 40.5},
}  # fmt: skip
"""With bias and GELU."""


@pytest.mark.parametrize("shape", FUSED)
def test_what_follows_the_product_counts(shape):
    m, n, k = shape
    times = FUSED[shape]
    chosen = wgmma_tile(H200, bf16(m, n, k, epilogue_ns=GELU_NS))
    assert times[label(chosen)] < 1.04 * min(times.values())
    for name, us in times.items():
        said = microseconds(by_label(name), H200, bf16(m, n, k, epilogue_ns=GELU_NS))
        assert 0.75 < said / us < 1.25, name


def test_the_image_of_a_convolution_is_not_read_again_after_it():
    """Even if it is as large as the result: 32x7x7x512, 3x3 to 512, was made in 21.0 us by 128x64, not 15.3."""

    steps = "strides = [1, 1], low = [0, 0], high = [0, 0], dilation = [1, 1], input_dilation = [1, 1]"

    def ns(added):
        padded = case("contraction", "padded", "x: 2x8x8x64xf16, w: 3x3x64x64xf16, r: 2x8x8x64xf16", f"""
            p = pad(x) {{low = [0, 1, 1, 0], high = [0, 1, 1, 0], value = 0.0}}
            y = conv(p, w) {{{steps}, layout = "nhwc"}}; a = abs({added}); s = add(y, a); return(s)
            """)  # fmt: skip
        func, _ = outline(padded.func, Rules(reads_padded=True))
        (region,) = (op for op in func.walk() if op.kind is graph.region)
        (product,) = (op for op in region.body.ops if op.kind is graph.conv)
        return epilogue_ns(Kernel(region, "conv", {}, GpuMachine()), product.operands)

    assert ns("y") < ns("x") == ns("r")


@pytest.mark.parametrize(("m", "n", "k"), [(4095, 4097, 1000), (8191, 8193, 4096), (500, 1001, 768)])
def test_results_that_threads_store_leave_registers(m: int, n: int, k: int) -> None:
    plain, stored = wgmma_tile(H200, bf16(m, n, k)), wgmma_tile(H200, bf16(m, n, k, by_threads=True))
    threads = 128 if stored.pingpong or stored.m == 64 else 256
    assert stored.m * stored.n <= 128 * threads
    lost = [microseconds(tile, H200, bf16(m, n, k)) for tile in (stored, plain)]
    assert lost[0] < 1.3 * lost[1]
