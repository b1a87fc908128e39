"""Pointwise kernels over dims of a few elements: lanes are whole runs, of values of each element or of each run."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.blockgen.lower import lower_region
from graphfuse.dialects import block
from graphfuse.ir.core import Func, tile_of
from graphfuse.ir.types import Tile
from tests.blockgen.support import MACHINES, Case, check_blocks, graph_func, launched, lowered, region_ops


def stored_and_gathered(func: Func, machine: str, **symbols: int) -> tuple[int, int]:
    """The widest tile that is stored, and loads of elements one by one, by a kernel that is right."""
    case = Case("case", (), func)
    made = lowered(case, MACHINES[machine])
    (kernel,) = check_blocks(made, case.arrays(symbols), MACHINES[machine])
    stored = [tile_of(op.operands[2]).shape[-1] for op in kernel.walk() if op.kind is block.store_view]
    gathers = [op for op in kernel.walk() if op.kind is block.load and isinstance(op.result.type, Tile)]
    return max(stored), len(gathers)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("elem", ["f32", "bf16"])
@pytest.mark.parametrize(("rows", "few"), [(501, 3), (33, 2), (7, 5), (50, 7), (1000, 1)])
def test_a_value_of_each_of_a_few_channels(machine: str, elem: str, rows: int, few: int) -> None:
    shape = f"{rows}, {few}"
    func = graph_func(
        f"x: {rows}x{few}x{elem}, s: {few}x{elem}",
        f"b = broadcast(s) {{shape = [{shape}]}}; p = mul(x, b); y = abs(p); return(y)",
    )
    widest, gathers = stored_and_gathered(func, machine)
    lanes = MACHINES[machine].vector_bytes // 4
    assert widest >= min(rows * few, lanes) // few * few
    assert not gathers


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("elem", ["f32", "bf16"])
@pytest.mark.parametrize(("rows", "few", "wide"), [(501, 3, 4), (33, 2, 7), (7, 5, 6), (50, 7, 100)])
def test_a_few_columns_of_wider_rows(machine: str, elem: str, rows: int, few: int, wide: int) -> None:
    func = graph_func(
        f"x: {rows}x{wide}x{elem}, y: {rows}x{few}x{elem}",
        f"c = slice(x) {{starts = [0, 1], sizes = [{rows}, {few}], steps = [1, 1]}}; p = mul(c, y); return(p)",
    )
    widest, gathers = stored_and_gathered(func, machine)
    assert widest >= min(rows * few, MACHINES[machine].vector_bytes // 4) // few * few
    assert not gathers


@pytest.mark.parametrize("rows", [1, 2, 30, 100])
def test_rows_of_unknown_number(rows: int) -> None:
    func = graph_func(
        "x: (r)x3xf32, s: 3xf32",
        "b = broadcast(s) {shape = [(r), 3]}; y = add(x, b); return(y)",
        "r in 1..4096",
    )
    assert stored_and_gathered(func, "avx512", r=rows) == (48, 0)


def test_values_of_each_of_both_dims() -> None:
    """Of a channel, of a run, and of both."""
    func = graph_func(
        "x: 9x40x6xf32, s: 6xf32, t: 40xf32",
        "b = broadcast(s) {shape = [9, 40, 6]}; r = reshape(t) {shape = [40, 1]}; "
        "c = broadcast(r) {shape = [9, 40, 6]}; p = mul(x, b); y = add(p, c); return(y)",
    )
    widest, gathers = stored_and_gathered(func, "avx512")
    assert widest % 6 == 0
    assert not gathers


def test_a_row_of_whole_vectors_is_not_joined_with_the_next() -> None:
    func = graph_func("x: 50x16xf32, s: 16xf32", "b = broadcast(s) {shape = [50, 16]}; y = add(x, b); return(y)")
    assert stored_and_gathered(func, "avx512") == (16, 0)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("rows", "more"), [(9000, 5), (300, 5), (31, 1)])
def test_what_lies_behind_values_that_repeat_is_padding(machine: str, rows: int, more: int) -> None:
    func = graph_func(
        "s: 2xf32",
        f"b = broadcast(s) {{shape = [{rows}, 2]}}; q = reshape(b) {{shape = [{2 * rows}]}}; "
        f"p = pad(q) {{low = [0], high = [{more}], value = 0.0}}; y = neg(p); return(y)",
    )
    assert stored_and_gathered(func, machine)


@pytest.mark.parametrize("rows", [1, 8, 30])
def test_a_run_that_is_cut_off(rows: int) -> None:
    func = graph_func(
        "x: (r)xf32",
        "e = reshape(x) {shape = [(r), 1]}; b = broadcast(e) {shape = [(r), 2]}; q = reshape(b) {shape = [(2*r)]}; "
        "c = slice(q) {starts = [0], sizes = [(2*r - 1)], steps = [1]}; "
        "p = pad(c) {low = [0], high = [4], value = 0.0}; y = neg(p); return(y)",
        "r in 1..64",
    )
    assert stored_and_gathered(func, "avx512", r=rows)


@pytest.mark.parametrize("columns", [16, 40, 72, 100])
def test_columns_that_are_alike_have_alike_sums(columns: int) -> None:
    """Whatever tile they are in: softmax of equal logits is not to depend on where they lie."""
    func = graph_func(
        f"x: 1x13x13x{columns}xf32, w: 1x1x1x{columns}xf32",
        """r = reduce(x) {axes = [1, 2], keepdims = true, kind = "sum"}; y = mul(r, w); return(y)""",
    )
    machine = MACHINES["avx512"]
    column = np.random.default_rng(1).normal(size=(1, 13, 13, 1)).astype(np.float32) * 1e3
    arrays = [np.repeat(column, columns, 3), np.ones((1, 1, 1, columns), np.float32)]
    made = lowered(Case("alike", (), func), machine)
    (region,) = region_ops(made)
    kernel = lower_region(region, "k", {}, machine)
    (got,) = launched(kernel, region, arrays, {})
    assert len(np.unique(got)) == 1
