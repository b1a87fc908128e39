"""Results whose rows TMA cannot write: staged as they will lie, written in whole sectors and their ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.gemm_kernels import Gemm
from benchmarks.gemm_regions import region_text
from graphfuse.gpu.assembler import assemble
from graphfuse.gpu.lower import emit_ptx, lower
from graphfuse.gpu.pipeline import transformed
from graphfuse.gpu.transforms.hopper.config import LINE, line_width
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.parser import parse
from graphfuse.ir.printer import to_text
from graphfuse.ir.types import scalar
from tests.blockgen.support import graph_func
from tests.gpu import launching
from tests.gpu.test_fused_products import HOPPER, outcome
from tests.gpu.test_hopper import PINGPONG, check, compiled, inputs
from tests.gpu.test_hopper_assembles import MOST_SPILLED

PRODUCT = """
    s = slice(w) {starts = [0, 0], sizes = [64, COLUMNS], steps = [1, 1]}; p = contract(x, s) {spec = "mk,kn->mn"}
    """
COPY = "cp.async.bulk.global"


def made(elem, columns, rest):
    params, body = "x: 70x64xELEM, w: 64x104xELEM", PRODUCT.replace("COLUMNS", str(columns)) + rest
    return outcome(graph_func(params.replace("ELEM", elem), body)).code[str(HOPPER)].ptx


@pytest.mark.parametrize(
    ("elem", "columns", "rest"),
    [
        ("bf16", 99, "return(p)"),
        ("f16", 98, "return(p)"),
        ("bf16", 101, "f = cast(p) {to = f32}; e = exp(p); return(e, f)"),
        ("f16", 99, "b = lt(p, p); return(b)"),
    ],
)
def test_odd_rows(elem, columns, rest):
    ptx = made(elem, columns, rest)
    assert "wgmma" in ptx
    assert COPY in ptx
    assert "shfl.sync.bfly" not in ptx


def test_rows_of_whole_units_go_by_tma():
    ptx = made("bf16", 96, "return(p)")
    assert "cp.async.bulk.tensor.2d.global" in ptx
    assert COPY + "." not in ptx.replace("cp.async.bulk.tensor", "")


@pytest.mark.some(6)
@pytest.mark.some(3)
@pytest.mark.parametrize(
    "gemm",
    [
        Gemm(77, 50, 64, (64, 64, 64)),
        Gemm(130, 65, 64, (64, 64, 64), elem="f16", out="f16"),
        Gemm(64, 1, 64, (64, 64, 64)),  # all of a row in one sector
        Gemm(64, 7, 64, (64, 64, 64)),
        Gemm(200, 137, 72, out="f32"),
        Gemm(130, 97, 64, (64, 96, 64), elem="f16", out="f32"),  # 384 bytes a line
        Gemm(130, 193, 64, (64, 192, 64), bias=True),
        Gemm(130, 289, 64, (128, 192, 64), elem="f16", out="f32", attrs=PINGPONG),  # two lines of 96
        Gemm(300, 261, 200, (128, 192, 64), bias=True, residual=True),
        Gemm(256, 255, 192, elem="i8", out="i32", sum="i32"),
        Gemm(300, 131, 64, (64, 64, 64), symbolic=True),
    ],
    ids=lambda g: f"{g.n} {g.out} {g.tile[1]}",
)
def test_numbers(gemm):
    assert "stage_lines" in to_text(compiled(gemm)[1])
    check(gemm)


def test_a_tensor_may_begin_anywhere():
    """Of a result that lies in another one, what is before and behind it stays."""
    gemm = Gemm(130, 67, 64, (64, 64, 64))
    func, _, _, _ = compiled(gemm)
    roles = transformed(replace(func, attrs={**func.attrs, "alignments": (16, 16, 2)}), HOPPER)
    lowered = lower([roles], HOPPER)
    arrays = inputs(gemm)
    for ahead in (1, 3, 8, 13):
        memory = np.full(ahead + gemm.m * gemm.n + 40, 7, numpy_dtype(scalar(gemm.out)))
        out = memory[ahead : ahead + gemm.m * gemm.n].reshape(gemm.m, gemm.n)
        launching.emulate(emit_ptx(lowered), lowered.kernels[0], [*arrays, out])
        want = arrays[0].astype(np.float64) @ arrays[1].astype(np.float64).T
        np.testing.assert_allclose(out.astype(np.float64), want, rtol=2.0**-8, atol=1e-4)
        assert (memory[:ahead] == 7).all()
        assert (memory[ahead + gemm.m * gemm.n :] == 7).all()


@pytest.mark.parametrize(("columns", "elem_bytes"), [(256, 2), (256, 4), (192, 4), (96, 2), (8, 4), (40, 1), (12, 2)])
def test_a_line_is_as_wide_as_can_be(columns, elem_bytes):
    width = line_width(columns, elem_bytes)
    assert columns % width == 0
    assert width % min(16, columns & -columns) == 0
    assert width * elem_bytes <= LINE
    assert width == columns or columns * elem_bytes > LINE


@pytest.mark.some(4)
@pytest.mark.parametrize("kind", [{}, {"bias": True}, {"residual": True}, {"bias": True, "gelu": True}], ids=str)
@pytest.mark.parametrize("columns", [4097, 4098])
def test_hardly_anything_spills(columns, kind):
    ptx = emit_ptx(lower([transformed(parse(region_text(Gemm(4095, columns, 1000, **kind))), HOPPER)], HOPPER))
    assert COPY in ptx
    if (done := assemble(ptx.rstrip("\0\n") + "\n", "sm_90a")) is None:
        pytest.skip("no assembler")
    (found,) = done.resources.values()
    assert not done.warnings
    assert 0 <= found.spill_bytes <= MOST_SPILLED


def test_two_results_share_the_room_of_one():
    ptx = made("f16", 101, "f = cast(p) {to = f32}; e = tanh(f); g = cast(e) {to = f16}; return(e, g)")
    assert ptx.count(COPY) >= 2
