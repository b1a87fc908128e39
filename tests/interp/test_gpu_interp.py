"""The gpu dialect in the interpreter: kernels whose warps have roles compute what they are made of, or say why not."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.gemm_kernels import Gemm, text
from graphfuse.dialects import gpu
from graphfuse.errors import InputError
from graphfuse.gpu.transforms.hopper.matmul_pass import hopper_matmul
from graphfuse.interp.block import launch
from graphfuse.interp.gpu import Deal
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.parser import parse
from graphfuse.ir.types import scalar
from graphfuse.ir.verifier import verify

SMALL = Gemm(64, 64, 64, (64, 16, 16), out="f32")


@pytest.mark.parametrize(
    "gemm",
    [
        SMALL,
        replace(SMALL, m=60, n=56, k=40, bias=True),
        replace(SMALL, attrs=(("schedule", '"pingpong"'),)),
        replace(SMALL, n=48, attrs=(("schedule", '"stream"'),)),
        replace(SMALL, n=80, attrs=(("schedule", '"stream"'),)),
        replace(SMALL, tile=(64, 32, 16), attrs=(("split", "2"),)),
        replace(SMALL, m=256, n=128, tile=(128, 64, 64), attrs=(("share", "[2, 1]"),)),
        replace(SMALL, m=200, tile=(128, 64, 64), gate=True, out="bf16"),
        replace(SMALL, k=128, tile=(64, 16, 64), elem="i8", out="i32", sum="i32"),
    ],
    ids=str,
)
def test_products_of_warpgroups(gemm: Gemm) -> None:
    before = parse(text(gemm))
    after = hopper_matmul(before)
    verify(after)
    assert any(op.kind is gpu.wgmma for op in after.walk())
    rng, outs = np.random.default_rng(0), []
    arrays = [rng.integers(-4, 5, shape).astype(numpy_dtype(scalar(gemm.elem))).ravel() for _, shape in gemm.inputs]
    for func in (before, after):
        outs.append(np.full(gemm.m * gemm.n, -1, numpy_dtype(scalar(gemm.out))))
        launch(func, [*arrays, outs[-1]], {})
    np.testing.assert_array_equal(*outs)


@pytest.mark.parametrize(("programs", "steps", "blocks"), [(1, 4, 2), (3, 4, 2), (7, 5, 3), (6, 3, 6), (2, 9, 5)])
def test_every_step_is_dealt_out_once(programs: int, steps: int, blocks: int) -> None:
    deal = Deal(programs, steps, blocks)
    dealt = [(p, s) for block in range(blocks) for p, first, end in deal.pieces(block) for s in range(first, end)]
    assert sorted(dealt) == [(p, s) for p in range(programs) for s in range(steps)]


ROLES = """
func @k(%x: ptr<f16>) {{grid = 1, warps = 8}} {{
  %ring = gpu.shared_alloc() {{elem = f16, shape = [2, 8, 16], swizzle = 32}} : shared<2x8x16xf16, swizzle 32>
  %full = gpu.barriers() {{arrivals = 1, count = 2}} : shared<2xi64>
  gpu.warp_specialize() {{groups = [1, 1], single = [1], warps = [{warps}, 4]}} do (%g: i64) {{
    %slot = block.const() {{elem = i32, value = 0}} : i32
    %zero = block.const() {{elem = i64, value = 0}} : i64
    {consumer}
    yield()
  }} do (%h: i64) {{
    %s = block.const() {{elem = i32, value = 0}} : i32
    %z = block.const() {{elem = i64, value = 0}} : i64
    {producer}
    yield()
  }}
  return()
}}
"""
WAIT = "gpu.wait(%full, %slot)"
ARRIVE = "gpu.arrive(%full, %s)"
EXPECT = "gpu.expect(%full, %s) {nbytes = 256}"
LOAD = "gpu.tma_load(%x, %ring, %s, %full, %z, %z) {dims = [8, 16], offset = 0, strides = [16, 1]}"
READ = "%t = gpu.load_shared(%ring, %zero) : tile<8x16xf16>"


@pytest.mark.parametrize(
    ("consumer", "producer", "warps", "message"),
    [
        ([WAIT, READ], [EXPECT, LOAD], 4, None),
        ([WAIT], [ARRIVE], 4, None),
        ([WAIT], [], 4, "1 of 2 roles wait for what nobody does"),
        ([WAIT], [EXPECT], 4, "1 of 2 roles wait for what nobody does"),
        ([READ], [EXPECT, LOAD], 4, "gpu.load_shared: program 0: read of buffer 0, which nobody wrote"),
        (["gpu.arrive(%full, %slot) {every_warp = true}"], [], 4, "expected 1 arrivals of a phase, found 4"),
        (["%w = gpu.warpgroup() : i64"], [], 8, "warpgroups of one role that do different things have no meaning here"),
        (["%w = gpu.warpgroup() : i64"], [], 4, None),
    ],
)  # fmt: skip
def test_roles_hand_over(consumer: list[str], producer: list[str], warps: int, message: str | None) -> None:
    lines = {"consumer": "\n".join(consumer), "producer": "\n".join(producer)}
    func = parse(ROLES.format(warps=warps, **lines))
    verify(func)
    memory = [np.ones(128, np.float16)]
    if message is None:
        launch(func, memory, {})
        return
    with pytest.raises(InputError, match=re.escape(message)):
        launch(func, memory, {})
