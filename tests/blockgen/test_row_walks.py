"""How often a reduction's kernel walks its rows, and what it does on the way."""

from __future__ import annotations

import pytest

from graphfuse.blockgen import reduction
from graphfuse.blockgen.lower import lower_region
from graphfuse.dialects import block
from graphfuse.ir.core import Func, tile_of
from graphfuse.ir.types import Tile
from graphfuse.targets.machine import Machine
from tests.blockgen.support import AVX512, MACHINES, Case, check_blocks, graph_func, lowered, region_ops


def kernel_of(func: Func, machine: Machine = AVX512, **symbols: int) -> Func:
    """The block function of the only region, which is right."""
    case = Case("case", (), func)
    (kernel,) = check_blocks(lowered(case, machine), case.arrays(symbols), machine)
    return kernel


def widths(kernel: Func) -> set[int]:
    """Lanes of what is loaded."""
    return {tile_of(op.result).shape[-1] for op in kernel.walk() if op.kind is block.load_view}


@pytest.mark.parametrize("shape", ["5x16", "5x40x16"])
def test_independent_reductions_share_a_walk_that_stores_what_waits_for_none(shape: str) -> None:
    kernel = kernel_of(graph_func(f"x: {shape}xf32", """
        e = exp(x); s = reduce(e) {axes = [1], kind = "sum", keepdims = true}
        q = mul(x, x); t = reduce(q) {axes = [1], kind = "sum", keepdims = true}; return(e, s, t)"""))  # fmt: skip
    assert sum(op.kind is block.load_view for op in kernel.walk()) == 1
    assert sum(op.kind is block.ELEMENTWISE["exp"] for op in kernel.walk()) == 1


def group_norm(groups: int | str, channels: int, elem: str, dims: str = "") -> Func:
    """Of images with channels last: of their own mean and mean square, weighed by channel."""
    shape, kept = f"2, 37, {groups}, {channels}", f"2, 1, {groups}, 1"
    return graph_func(f"x: {shape.replace(', ', 'x')}x{elem}, w: {groups}x{channels}xf32", f"""
        f = cast(x) {{to = f32}}; s = reduce(f) {{axes = [1, 3], keepdims = true, kind = "sum"}}
        n = full() {{elem = f32, shape = [{kept}], value = {37.0 * channels}}}; m = div(s, n)
        mb = broadcast(m) {{shape = [{shape}]}}; c = sub(f, mb); q = mul(c, c)
        t = reduce(q) {{axes = [1, 3], keepdims = true, kind = "sum"}}; tb = broadcast(t) {{shape = [{shape}]}}
        y = div(c, tb); wb = broadcast(w) {{shape = [{shape}]}}; z = mul(y, wb); e = exp(z)
        return(m, e)""", dims)  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("elem", ["f32", "f16"])
@pytest.mark.parametrize(("groups", "channels"), [(32, 2), (7, 3), (5, 5), (40, 7), (3, 16)])
def test_groups_of_few_channels_are_normalised_side_by_side(
    machine: str, elem: str, groups: int, channels: int
) -> None:
    kernel = kernel_of(group_norm(groups, channels, elem), MACHINES[machine])
    lanes = MACHINES[machine].vector_bytes // 4
    assert min(widths(kernel)) >= min(groups * channels, lanes // 2)


def test_groups_of_unknown_number() -> None:
    func = group_norm("(g)", 4, "f32", "g in 1..64")
    assert {kernel_of(func, g=g).attrs["grid"] for g in (1, 3, 16, 33)}


@pytest.mark.parametrize("columns", [2, 3, 4, 8])
def test_short_rows_are_side_by_side(columns: int) -> None:
    kernel = kernel_of(graph_func(f"x: 67x{columns}xf32", f"""
        e = exp(x); s = reduce(e) {{axes = [1], keepdims = true, kind = "sum"}}
        sb = broadcast(s) {{shape = [67, {columns}]}}; y = div(e, sb); return(y)"""))  # fmt: skip
    assert min(widths(kernel)) > 8


@pytest.mark.parametrize(("groups", "channels"), [(32, 2), (7, 3), (40, 5), (33, 4), (4099, 2), (3, 16)])
def test_what_groups_of_channels_have_in_common_is_read_once_for_each(groups: int, channels: int) -> None:
    shape, each = f"3, 5, {groups}, {channels}", f"{groups}x{channels}xf32"
    kernel = kernel_of(graph_func(f"x: 3x5x{each}, m: 3x1x{groups}x1xf32, w: {each}", f"""
        mb = broadcast(m) {{shape = [{shape}]}}; c = sub(x, mb)
        wb = broadcast(w) {{shape = [{shape}]}}; y = mul(c, wb); return(y)"""))  # fmt: skip
    assert not any(op.kind is block.load and isinstance(op.result.type, Tile) for op in kernel.walk())
    assert max(widths(kernel)) >= min(16, groups * channels)


def gated(rows: int, columns: int, elem: str) -> Func:
    """Two sums of products for each row, one of which is a gate."""
    shape = f"{rows}, {columns}"
    return graph_func(f"v: {columns}x{elem}, w: {rows}x{columns}x{elem}, u: {rows}x{columns}x{elem}", f"""
        vb = broadcast(v) {{shape = [{shape}]}}; p = mul(vb, w); q = mul(vb, u)
        s = reduce(p) {{axes = [1], kind = "sum"}}; t = reduce(q) {{axes = [1], kind = "sum"}}
        g = sigmoid(s); y = mul(g, t); return(y, s)""")  # fmt: skip


def summed(batch: int, rows: int, columns: int, elem: str) -> Func:
    """Products of a vector of each batch with rows of a matrix in common."""
    shape = f"{batch}, {rows}, {columns}"
    return graph_func(f"v: {batch}x{columns}x{elem}, w: {rows}x{columns}x{elem}", f"""
        a = reshape(v) {{shape = [{batch}, 1, {columns}]}}; vb = broadcast(a) {{shape = [{shape}]}}
        b = reshape(w) {{shape = [1, {rows}, {columns}]}}; wb = broadcast(b) {{shape = [{shape}]}}; p = mul(vb, wb)
        y = reduce(p) {{axes = [2], kind = "sum"}}; return(y)""")  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("elem", ["f32", "bf16"])
@pytest.mark.parametrize(("rows", "columns", "together"), [(8, 515, 4), (6, 640, 2), (5, 515, 1)])
def test_long_rows_are_walked_together(
    machine: str, elem: str, rows: int, columns: int, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reduction, "LEAST_PROGRAMS", 2)
    registers = MACHINES[machine].registers
    kernel = kernel_of(summed(2, rows, columns, elem), MACHINES[machine])
    assert kernel.attrs["grid"] == 2 * rows // min(together, registers // 8)
    kernel = kernel_of(gated(rows, columns, elem), MACHINES[machine])
    assert kernel.attrs["grid"] == rows // min(together, max(1, registers // 16))


@pytest.mark.parametrize(
    ("function", "rows", "columns", "grid"),
    [
        ("neg", 256, 256, 64),
        ("neg", 254, 256, 127),
        ("neg", 126, 256, 126),
        ("neg", 256, 255, 256),
        ("exp", 256, 256, 256),
    ],
)
def test_rows_are_walked_one_by_one_where_that_is_better(function: str, rows: int, columns: int, grid: int) -> None:
    func = lowered(Case("case", (), graph_func(f"w: {rows}x{columns}xf32", f"""
        e = {function}(w); s = reduce(e) {{axes = [1], kind = "sum"}}; return(s)""")), AVX512)  # fmt: skip
    (region,) = region_ops(func)
    assert lower_region(region, "k", func.ranges, AVX512).attrs["grid"] == grid
