"""A region lowered to block programs for a GPU computes what the interpreter says, in tiles that a GPU can hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphfuse.blockgen.lower import GPU_EMITTERS, others_of
from graphfuse.dialects import control, graph
from graphfuse.fusion.regions.outline import outline
from graphfuse.fusion.regions.rules import Rules
from graphfuse.ir.core import Func, Op
from graphfuse.ir.rewrite import rebuild
from graphfuse.ir.types import Tile
from graphfuse.ir.verifier import verify
from graphfuse.targets.machine import GpuMachine
from tests.blockgen.cases import ALL, softmax
from tests.blockgen.gpu_cases import GPU_CASES
from tests.blockgen.support import Case, check_blocks, graph_func, region_ops

GPU = GpuMachine()

ROWS = [name for name, case in {**ALL, **GPU_CASES}.items() if {"reduction", "pointwise"} & set(case.kinds)]


def regions(case: Case) -> Func:
    """The function in regions; weights stay as they are."""
    if case.whole:
        return case.func
    func, _ = outline(case.func)
    verify(func)
    return func


def check(case: Case) -> list[Func]:
    """Compare all regions at all sizes."""
    func = regions(case)
    return [k for values in case.sizes for k in check_blocks(func, case.arrays(values), GPU)]


@pytest.mark.parametrize("name", ALL)
def test_blocks_equal_the_graph(name: str) -> None:
    check(ALL[name])


@pytest.mark.parametrize("name", GPU_CASES)
def test_large_blocks_equal_the_graph(name: str) -> None:
    for kernel in check(GPU_CASES[name]):
        assert kernel.attrs["warps"] in (1, 2, 4, 8, 16, 32)
        for op in kernel.walk():
            for type_ in op.types:
                if isinstance(type_, Tile):
                    assert type_.shape == type_.padded_shape, type_


@pytest.mark.some(62)
@pytest.mark.parametrize("name", ROWS)
def test_what_is_made_where_registers_are_few_equals_the_graph(name: str) -> None:
    case = ALL.get(name) or GPU_CASES[name]
    func = regions(case)
    rows = [op for op in region_ops(func) if op.attrs["kind"] in ("reduction", "pointwise")]
    for way in {w: None for op in rows for w in others_of(op, func.ranges, GPU, GPU_EMITTERS)}:

        def asked(op: Op, way: str = way) -> Op | None:
            return replace(op, attrs={**op.attrs, "schedule": way}) if op.kind is graph.region else None

        check_blocks(rebuild(func, asked), case.arrays(case.sizes[-1]), GPU)


ONE = 's = reduce(x) {axes = [1], keepdims = true, kind = "sum"}; b = broadcast(s) {shape = [3, 20000]}; r = sub(x, b)'
TWO = """p = exp(x); q = mul(x, y); s = reduce(p) {axes = [1], keepdims = true, kind = "sum"}
    t = reduce(q) {axes = [1], keepdims = true, kind = "sum"}; b = broadcast(s) {shape = [3, 20000]}
    c = broadcast(t) {shape = [3, 20000]}; d = sub(p, b); e = sub(q, c); r = mul(d, e)"""


@pytest.mark.parametrize(("body", "walks"), [(ONE, 0), (TWO, 2)])
def test_rows_are_held_in_registers_if_all_that_waits_for_sums_fits(body: str, walks: int) -> None:
    """Of two tiles that wait, rows of more than half as many elements are walked: once for sums, once for results."""
    func = graph_func("x: 3x20000xf32, y: 3x20000xf32", " ".join(f"{body}; return(r)".replace("\n", "; ").split()))
    regions, _ = outline(func)
    (kernel,) = check_blocks(regions, Case("held", (), func).arrays({}), GPU)
    assert sum(op.kind is control.for_ for op in kernel.walk()) == walks


@pytest.mark.parametrize(
    ("shape", "axis", "perm"),
    [
        ("8, 300", 0, (1, 0)),
        ("40, 7", 1, (1, 0)),
        ("3, 5, 70", 1, (2, 0, 1)),
        ("70, 3, 33", 2, (2, 1, 0)),
        ("3, 40000", 1, (1, 0)),
        ("5, 5", 0, (1, 0)),
    ],
)
def test_rows_are_written_in_the_order_that_is_returned(shape: str, axis: int, perm: tuple[int, ...]) -> None:
    body = softmax(axis, shape).replace("return(y)", f"t = permute(y) {{perm = {list(perm)}}}; return(t)")
    func = graph_func(f"x: {shape.replace(', ', 'x')}xf32", body)
    regions, _ = outline(func, Rules(turns_rows=True))
    assert [op.attrs["kind"] for op in region_ops(regions)] == ["reduction"]
    check_blocks(regions, Case("turned", (), func).arrays({}), GPU)
    apart, _ = outline(func)
    assert [op.attrs["kind"] for op in region_ops(apart)] == ["reduction", "pointwise"]


@pytest.mark.parametrize(
    ("shape", "axis", "perm", "count"),
    [
        ("1024, 136", 1, (1, 0), 2),  # each row's results far apart
        ("1024, 136", 0, (1, 0), 1),  # a row's side by side
        ("4, 264, 136", 2, (1, 0, 2), 1),
        ("4, 264, 136", 2, (0, 2, 1), 2),
        ("4, 264, 136", 1, (0, 2, 1), 1),
        ("960, 136", 1, (1, 0), 1),  # few
    ],
)
def test_many_rows_are_not_written_across_their_order(shape: str, axis: int, perm: tuple[int, ...], count: int) -> None:
    body = softmax(axis, shape).replace("return(y)", f"t = permute(y) {{perm = {list(perm)}}}; return(t)")
    func, _ = outline(graph_func(f"x: {shape.replace(', ', 'x')}xf16", body), Rules(turns_rows=True))
    assert len(list(region_ops(func))) == count


@pytest.mark.parametrize(
    ("elem", "row", "held"), [("f16", 12, 256), ("f32", 12, 128), ("f16", 100, 32), ("f16", 700, 1)]
)
def test_very_many_short_rows_are_in_programs_of_many(elem: str, row: int, held: int) -> None:
    """Two multiprocessors have eight programs each at least."""
    body = 's = reduce(x) {axes = [1], kind = "sum"}; return(s)'
    func = graph_func(f"x: 4099x{row}x{elem}", body)
    regions, _ = outline(func)
    (kernel,) = check_blocks(regions, Case("many", (), func).arrays({}), replace(GPU, multiprocessors=2))
    assert kernel.attrs["grid"] == -(-4099 // held)


@pytest.mark.parametrize("channels", [3, 64])
def test_convolutions_read_through_padding(channels: int) -> None:
    """Padding in front of a convolution is no kernel of its own: loads are masked."""
    func = graph_func(f"x: 2x9x10x{channels}xf16, w: 3x3x{channels}x40xf16", """
        p = pad(x) {low = [0, 1, 2, 0], high = [0, 1, 0, 0]}
        y = conv(p, w) {strides = [2, 1], low = ZERO, high = ZERO, dilation = [1, 1], input_dilation = [1, 1], LAYOUT}
        return(y)""".replace("ZERO", "[0, 0]").replace("LAYOUT", 'layout = "nhwc"'))  # fmt: skip
    regions, _ = outline(func, Rules(reads_padded=True))
    assert [op.attrs["kind"] for op in region_ops(regions)] == ["contraction"]
    check_blocks(regions, Case("padded", (), func).arrays({}), GPU)
    apart, _ = outline(func)
    assert [op.attrs["kind"] for op in region_ops(apart)] == ["pointwise", "contraction"]
