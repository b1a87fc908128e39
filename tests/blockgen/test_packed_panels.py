"""Panels that a program packs: for rows of several images at once, and steps of k that do not divide it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphfuse import compiler
from graphfuse.blockgen.lower import lower_region
from graphfuse.ir.core import Func
from graphfuse.knobs import Options
from graphfuse.runtime.session import Session
from graphfuse.targets.machine import Machine
from tests.blockgen.support import AVX2, AVX512, Array, Case, check_blocks, graph_func, lowered, region_ops
from tests.machine import HOST

ROUNDING = {"bf16": 2**-8, "f16": 2**-11, "f32": 2**-23}
PLAIN = "low = [0, 0], high = [0, 0], dilation = [1, 1], input_dilation = [1, 1]"
IMAGES = {"wide": ("3x9x7x5", "37x3x3x5", 1), "few": ("2x40x20x3", "16x3x3x3", 2), "one": ("1x8x300x4", "48x3x3x4", 1)}


def convolution(images: str, taps: str, step: int, elem: str) -> Func:
    return graph_func(f"x: {images}x{elem}, v: {taps}x{elem}", f"""
        w = permute(v) {{perm = [1, 2, 3, 0]}}
        y = conv(x, w) {{strides = [{step}, 1], {PLAIN}, layout = "nhwc"}}
        return(y)""")  # fmt: skip


@pytest.mark.some(9)
@pytest.mark.parametrize("elem", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("machine", [AVX512, AVX2], ids=["avx512", "avx2"])
@pytest.mark.parametrize("name", IMAGES)
def test_a_panel_serves_rows_of_several_images(name: str, machine: Machine, elem: str) -> None:
    case = Case(name, ("contraction",), convolution(*IMAGES[name], elem), ({},))
    check_blocks(lowered(case, machine), case.arrays({}), machine)


def test_few_programs_pack_one_panel() -> None:
    """Of 256 rows or so each."""
    func = convolution("6x34x34x8", "64x3x3x8", 1, "f32")
    made = lowered(Case("taps", ("contraction",), func), AVX512)
    (region,) = region_ops(made)
    assert lower_region(region, "taps", made.ranges, AVX512).attrs["grid"] == 2 * (6 * 32 // 8)


@pytest.mark.some(8)
@pytest.mark.parametrize("elem", ["bf16", "f16", "f32"])
@pytest.mark.parametrize("depth", [1, 2, 127, 129, 353])
def test_depths_that_steps_do_not_divide(depth: int, elem: str) -> None:
    for spec, left, right in (("mk,kn->mn", f"5x{depth}", f"{depth}x48"), ("km,nk->mn", f"{depth}x5", f"40x{depth}")):
        func = graph_func(f"a: {left}x{elem}, b: {right}x{elem}", f'y = contract(a, b) {{spec = "{spec}"}}; return(y)')
        a, b = Case("depth", (), func).arrays({})
        named = replace(func, attrs={"inputs": ("a", "b"), "outputs": ("y",)})
        (got,) = Session(compiler.build(named, HOST, Options())).run({"a": a, "b": b}).values()
        want: Array = a.astype(np.float64) @ b if spec == "mk,kn->mn" else a.astype(np.float64).T @ b.T
        limit = ROUNDING[elem] * float(np.abs(want).max()) + 3e-7 * depth
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=0, atol=limit)
