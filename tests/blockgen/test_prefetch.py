"""Where kernels ask memory for what they read next, and how wide their tiles are then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphfuse.blockgen.lower import lower_region
from graphfuse.blockgen.tiling import pointwise_width
from graphfuse.dialects import block
from graphfuse.ir.core import Func, Op
from graphfuse.ir.types import F32
from graphfuse.targets.machine import Machine
from tests.blockgen.cases import attention
from tests.blockgen.support import AVX2, AVX512, Case, check_blocks, graph_func, lowered, region_ops

SMALL_CACHE = replace(AVX512, stream_bytes=4096, l2_bytes=8192)
"""A machine for whose cache 32 rows of 128 f32 are too much, and on which four such rows fit the second level."""


def softmax(rows: str, columns: int) -> Func:
    """Row-wise softmax: its first pass reads x, its second reads it again, its third reads the kept powers."""
    dims = "batch in 1..64" if "batch" in rows else ""
    return graph_func(f"x: {rows}x{columns}xf32", f"""
        m = reduce(x) {{axes = [1], kind = "max", keepdims = true}}; mb = broadcast(m) {{shape = [{rows}, {columns}]}}
        c = sub(x, mb); e = exp(c); t = reduce(e) {{axes = [1], kind = "sum", keepdims = true}}
        tb = broadcast(t) {{shape = [{rows}, {columns}]}}; y = div(e, tb); return(y)""", dims)  # fmt: skip


def centred(rows: int, columns: int) -> Func:
    """x less its row's sum, times a gain: one reduction, and a pass that reads x and a small tensor."""
    return graph_func(f"x: {rows}x{columns}xf32, g: {columns}xf32", f"""
        s = reduce(x) {{axes = [1], kind = "sum", keepdims = true}}; sb = broadcast(s) {{shape = [{rows}, {columns}]}}
        c = sub(x, sb); gb = broadcast(g) {{shape = [{rows}, {columns}]}}; y = mul(c, gb); return(y)""")  # fmt: skip


def vector_by(matrix: str, read: str, rows: int, columns: int) -> Func:
    """The products of a vector with `rows` rows of a matrix, as `read` from its memory."""
    return graph_func(f"v: {columns}xf32, w: {matrix}xf32", f"""
        {read}; vb = broadcast(v) {{shape = [{rows}, {columns}]}}; p = mul(vb, r)
        y = reduce(p) {{axes = [1], kind = "sum", keepdims = false}}; return(y)""")  # fmt: skip


def kernel_of(func: Func, machine: Machine = SMALL_CACHE) -> Func:
    """The block function of the only region."""
    func = lowered(Case("case", (), func), machine)
    (region,) = region_ops(func)
    return lower_region(region, "k", func.ranges, machine)


def hints(func: Func, machine: Machine = SMALL_CACHE) -> list[tuple[str, object]]:
    """The parameter that each view load reads, and how far ahead it asks."""
    loads = [op for op in kernel_of(func, machine).walk() if op.kind is block.load_view]
    return [(op.operands[0].hint, op.attrs.get("ahead", 0)) for op in loads if op.operands[0].hint]


def test_a_pointwise_kernel_asks_a_little_ahead_of_large_inputs() -> None:
    func = graph_func("x: 32x128xf32, g: 128xf32", """
        b = broadcast(g) {shape = [32, 128]}; y = mul(x, b); return(y)""")  # fmt: skip
    assert set(hints(func)) == {("in0", 256), ("in1", 0)}


def test_elements_of_another_size_are_as_many_bytes_ahead() -> None:
    assert set(hints(graph_func("x: 32x128xf16", "y = neg(x); return(y)"))) == {("in0", 512)}


def test_inputs_that_a_cache_holds_are_left_alone() -> None:
    assert set(hints(graph_func("x: 4x128xf32", "y = neg(x); return(y)"))) == {("in0", 0)}


def test_so_are_inputs_of_unknown_size() -> None:
    assert {ahead for _, ahead in hints(softmax("(batch)", 128))} == {0}


def test_passes_after_the_first_ask_for_the_next_row() -> None:
    assert hints(softmax("32", 128)) == [("in0", 0), ("in0", 128)]


def test_the_last_pass_asks_if_there_is_one_reduction() -> None:
    assert hints(centred(32, 128)) == [("in0", 0), ("in0", 128), ("in1", 0)]


def test_rows_that_would_crowd_the_cache_are_not_asked_for() -> None:
    assert hints(softmax("8", 512)) == [("in0", 0), ("in0", 512)]
    assert hints(softmax("8", 1024))[1:] == [("in0", 0)]


def test_the_only_walk_asks_for_rows_that_lie_behind_one_another() -> None:
    assert set(hints(vector_by("300x75", "r = neg(w)", 300, 75), AVX512)) == {("in0", 1024), ("in1", 0)}


def test_it_leaves_alone_what_the_nearest_cache_holds() -> None:
    assert {ahead for _, ahead in hints(vector_by("90x75", "r = neg(w)", 90, 75), AVX512)} == {0}


@pytest.mark.parametrize(
    ("matrix", "read", "columns", "ahead"),
    [
        ("300x200", "r = slice(w) {sizes = [300, 75], starts = [0, 100], steps = [1, 1]}", 75, 13 * 200),
        ("600x75", "r = slice(w) {sizes = [300, 75], starts = [0, 0], steps = [2, 1]}", 75, 13 * 150),
        ("300x2000", "r = slice(w) {sizes = [300, 1501], starts = [0, 3], steps = [1, 1]}", 1501, 4 * 2000),
    ],
)
def test_as_many_rows_ahead_as_a_page_has_or_a_walk(matrix: str, read: str, columns: int, ahead: int) -> None:
    assert {found for _, found in hints(vector_by(matrix, read, 300, columns), AVX512)} == {0, ahead}


@pytest.mark.parametrize(("queries", "ahead"), [("1", 2048), ("8", 2048), ("9", 0)])
def test_few_queries_ask_for_keys_and_values(queries: str, ahead: int) -> None:
    """Rows of 32 f32 for each of two heads: what is asked for is 32 of them on."""
    found = dict(hints(attention("few", "2", queries, "333", 2, 32).func, AVX512))
    assert found["in1"] == found["in2"] == ahead
    assert not found["in0"]


@pytest.mark.parametrize(
    "func",
    [softmax("32", 128), softmax("33", 75), centred(32, 128), vector_by("300x75", "r = neg(w)", 300, 75)],
)
def test_results_are_those_of_the_interpreter(func: Func) -> None:
    case = Case("case", ("reduction",), func)
    (kernel,) = check_blocks(lowered(case, SMALL_CACHE), case.arrays({}), SMALL_CACHE)
    assert any(op.attrs.get("ahead") for op in kernel.walk())


def ops_of(body: str) -> list[Op]:
    """The ops of a function over x, less its return."""
    return list(graph_func("x: 64xf32", f"{body}; return(y)").body.ops[:-1])


def test_one_short_function_gets_four_vectors_where_registers_are_many() -> None:
    assert pointwise_width(AVX512, F32, ops_of("y = sigmoid(x)"), 1) == 64
    assert pointwise_width(AVX2, F32, ops_of("y = sigmoid(x)"), 1) == 16


@pytest.mark.parametrize("body", ["y = sin(x)", "e = exp(x); y = tanh(e)"])
def test_long_or_several_functions_get_two(body: str) -> None:
    assert pointwise_width(AVX512, F32, ops_of(body), 1) == 32


def test_plain_arithmetic_gets_four() -> None:
    assert pointwise_width(AVX2, F32, ops_of("y = neg(x)"), 1) == 32
