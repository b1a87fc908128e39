"""Results whose rows TMA cannot write: lanes are neighbours in memory, whatever the width and what comes before."""

from __future__ import annotations

import pytest

from benchmarks.gemm_kernels import Gemm
from benchmarks.gemm_regions import region_text
from graphfuse.gpu.assembler import assemble
from graphfuse.gpu.convert import plan
from graphfuse.gpu.lower import emit_ptx, lower
from graphfuse.gpu.pipeline import transformed
from graphfuse.gpu.transforms.hopper.lines import lines_of
from graphfuse.ir.layout import LANE, WARP
from graphfuse.ir.layout_families import Wgmma
from graphfuse.ir.parser import parse
from tests.blockgen.support import graph_func
from tests.gpu.test_fused_products import HOPPER, outcome
from tests.gpu.test_hopper_assembles import MOST_SPILLED

PRODUCT = """
    s = slice(w) {starts = [0, 0], sizes = [64, COLUMNS], steps = [1, 1]}; p = contract(x, s) {spec = "mk,kn->mn"}
    """


def made(elem, columns, rest):
    params, body = "x: 70x64xELEM, w: 64x104xELEM", PRODUCT.replace("COLUMNS", str(columns)) + rest
    return outcome(graph_func(params.replace("ELEM", elem), body)).code[str(HOPPER)].ptx


@pytest.mark.parametrize(
    ("elem", "columns", "rest"),
    [
        ("bf16", 99, "return(p)"),
        ("f16", 98, "return(p)"),
        ("bf16", 101, "f = cast(p) {to = f32}; e = exp(p); return(e, f)"),
    ],
)
def test_odd_rows(elem, columns, rest):
    ptx = made(elem, columns, rest)
    assert "wgmma" in ptx
    assert "shfl.sync.bfly" in ptx


def test_rows_of_whole_sectors_go_by_tma():
    ptx = made("bf16", 96, "return(p)")
    assert "cp.async.bulk.tensor.2d.global" in ptx
    assert "shfl.sync.bfly" not in ptx


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize(("columns", "warps"), [(16, 4), (32, 4), (32, 8), (64, 8)])
def test_lanes_are_neighbours(columns, warps, pairs):
    layout = Wgmma(columns, (warps, 1)).linear((16 * warps, columns))
    lines = lines_of(layout, pairs=pairs)
    assert lines.is_bijective
    assert lines.bases(WARP) == layout.bases(WARP)
    assert plan(layout, lines, 16, "shuffle").steps
    apart = {lines.flat(lane=lane) for lane in range(lines.size(LANE))}
    rows = {at // columns for at in apart}
    assert len(rows) == max(1, 32 * (1 + pairs) // columns)


@pytest.mark.parametrize("kind", [{}, {"residual": True}, {"bias": True, "gelu": True}], ids=str)
def test_hardly_anything_spills(kind):
    ptx = emit_ptx(lower([transformed(parse(region_text(Gemm(4095, 4097, 1000, **kind))), HOPPER)], HOPPER))
    if (done := assemble(ptx.rstrip("\0\n") + "\n", "sm_90a")) is None:
        pytest.skip("no assembler")
    (found,) = done.resources.values()
    assert not done.warnings
    assert found.spill_bytes <= MOST_SPILLED
