"""Fragments that are read a slice ahead, on the emulator beside the interpreter: trips, stages, masks, elements."""

from __future__ import annotations

import re

import numpy as np
import pytest

from benchmarks.gemm_kernels import Gemm
from graphfuse.dialects import control, gpu
from graphfuse.gpu.pipeline import transformed
from graphfuse.ir.parser import parse
from graphfuse.targets import Target
from tests.gpu.launching import SM_80, check, compiled, numbers
from tests.gpu.test_hopper import compiled as compiled_product
from tests.gpu.test_pipeline_loads import count, matmul


def ahead(*args, **options):
    """A product that asks for its fragments ahead."""
    return matmul(*args, **options).replace("warps = ", "prefetch = true, warps = ")


def run(tile, size, elem="f16", acc="f32", *, trips=None, seed=0, tolerance=1e-4, **options):
    (m, n, k), trips = size, -(-size[2] // tile[2]) if trips is None else trips
    rng = np.random.default_rng(seed)
    x = numbers(rng, (k, m) if options.get("left") else (m, k), elem)
    y = numbers(rng, (n, k) if options.get("right") else (k, n), elem)

    def near(a, b):
        np.testing.assert_allclose(a, b, rtol=tolerance if acc[0] == "f" else 0, atol=tolerance if acc[0] == "f" else 0)

    text = ahead(tile, size, elem, acc, **options)
    return check(text, [x, y], [((m, n), acc)], symbols={"t": trips}, seed=seed, equal=near)


def slices(text, target=SM_80):
    """How many products each iteration makes of its one."""
    made = transformed(parse(text), target)
    loops = [op for op in made.walk() if op.kind is control.for_]
    return [sum(op.kind.name == "block.dot" for op in loop.body.ops) for loop in loops]


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("trips", [0, 1, 2, 3, 5])
def test_any_number_of_trips(stages, trips):
    report = run((32, 32, 32), (32, 32, 160), stages=stages, trips=trips, seed=trips)
    assert report.instructions.get("bar.sync", 0) == 4 * (trips + 1), "one barrier an iteration, and one before"
    assert not report.conflicts


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_masks_and_transpositions(left, right):
    report = run((32, 32, 64), (40, 56, 136), left=left, right=right)
    assert count(report, "ldmatrix") > 0
    assert count(report, "ld.shared") == 0
    assert not report.conflicts


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("elem", "acc", "dot", "tolerance"),
    [
        ("bf16", "f32", "", 1e-4), ("f32", "f32", ' {precision = "tf32"}', 3e-2),
        ("f32", "f32", ' {precision = "tf32x3"}', 1e-4),
    ],
)  # fmt: skip
@pytest.mark.parametrize("right", [False, True])
def test_elements(elem, acc, dot, tolerance, right):
    tile = (32, 32, 64)
    assert slices(ahead(tile, (48, 40, 144), elem, acc, dot=dot, right=right)) > [1]
    run(tile, (48, 40, 144), elem, acc, dot=dot, right=right, tolerance=tolerance)


@pytest.mark.parametrize("seed", range(3))
def test_a_loop_in_a_loop(seed):
    """The second time round the first copies must not overtake the last reads."""
    run((32, 32, 32), (32, 32, 96), outer=3, seed=seed, tolerance=1e-3)


@pytest.mark.parametrize(
    ("tile", "options", "ahead_is_default"),
    [
        ((128, 128, 32), {"warps": 8}, True),
        ((128, 128, 32), {"warps": 4}, True),
        ((128, 64, 32), {"warps": 4}, False),
        ((64, 64, 64), {"warps": 4}, False),
        ((64, 64, 64), {"warps": 4, "stages": 4}, True),
        ((64, 64, 64), {"warps": 4, "stages": 2}, False),
    ],
    ids=["registers", "half of the registers", "a third", "a quarter", "shared memory", "a fifth of it"],
)
def test_by_default_where_few_blocks_fit(tile, options, ahead_is_default):
    size = (4096, 4096, 4096)
    text = matmul(tile, size, **options)
    assert (slices(text) > [1]) == ahead_is_default
    assert slices(ahead(tile, size, **options)) > [1]
    assert slices(text.replace("warps = ", "prefetch = false, warps = ")) == [1]


def test_other_parts_have_room_for_more_blocks():
    text = matmul((64, 64, 64), (4096, 4096, 4096), warps=4, stages=4)
    assert slices(text, SM_80) > [1]
    assert slices(text, Target.parse("cuda:sm_90")) == [1]


@pytest.mark.parametrize(
    "text",
    [
        matmul((32, 32, 32), (64, 64, 64)),
        ahead((32, 32, 16), (64, 64, 64)),
        ahead((32, 32, 32), (64, 64, 64), acc="f16"),
        ahead((32, 32, 32), (64, 64, 64), "f32"),
        ahead((32, 32, 64), (64, 64, 64), "i8", "i32"),
        ahead((128, 256, 32), (4096, 4096, 4096), warps=4),
        ahead((32, 32, 32), (64, 64, 64), stages=1),
    ],
    ids=["not asked", "one slice", "rounded sums", "fused multiply-adds", "bytes", "no registers", "no ring"],
)
def test_declines(text):
    assert slices(text) == [1]


def test_wgmma_is_left_alone():
    plain, asked = (compiled_product(Gemm(128, 128, 256, attrs=attrs))[2] for attrs in ((), (("prefetch", "true"),)))
    assert "wgmma" in plain
    assert asked == plain


def test_the_loop_of_a_large_tile():
    """As many loads as without; those of the next tiles lie between the barrier and the last slice's instructions."""
    ptx, kernel = compiled(ahead((128, 128, 32), (4096, 4096, 4096), warps=8, right=True))
    assert kernel.shared_bytes == 3 * 2 * 128 * 32 * 2
    body = max(re.findall(r"(?ms)^\$L\w+:.*?\bbra\b", ptx), key=lambda part: part.count("mma.sync"))
    wanted = {"mma.sync": 32, "ldmatrix": 12, "cp.async.cg": 4, "bar.sync": 1, "cp.async.wait_group": 1}
    assert {name: body.count(name) for name in wanted} == wanted
    after = body[body.index("bar.sync") :]
    assert after.count("mma.sync") == 16
    assert after.count("ldmatrix") == 6
    made = transformed(parse(ahead((128, 128, 32), (4096, 4096, 4096), warps=8, right=True)), SM_80)
    (loop,) = (op for op in made.walk() if op.kind is control.for_)
    assert sum(op.kind is gpu.load_shared for op in loop.body.ops) == 4
