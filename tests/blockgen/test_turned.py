"""Operands that lie turned around: tiles are squares, loaded along memory and turned in registers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from graphfuse import compiler
from graphfuse.blockgen.lower import GPU_EMITTERS, lower_region
from graphfuse.dialects import block, control
from graphfuse.fusion.regions.outline import outline
from graphfuse.ir.core import Func, Op, tile_of, walk
from graphfuse.ir.types import Tile
from graphfuse.knobs import Options
from graphfuse.runtime.session import Session
from graphfuse.targets import Target
from graphfuse.targets.backend import backend_of
from graphfuse.targets.machine import Machine
from tests.blockgen.support import AVX2, AVX512, Case, check_blocks, graph_func, lowered, region_ops
from tests.machine import HOST, host_and

TARGETS = host_and("cpu:x86-64-v3")


Array = np.ndarray[Any, Any]


def run(func: Func, target: Target, **inputs: Array) -> Array:
    named = replace(func, attrs={"inputs": tuple(inputs), "outputs": ("z",)})
    return Session(compiler.build(named, target, Options())).run(inputs)["z"]


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("elem", ["f32", "f64", "i32"])
def test_a_sum_with_a_transposed_matrix(target: Target, elem: str) -> None:
    func = graph_func(f"x: 96x64x{elem}, y: 64x96x{elem}", "t = permute(x) {perm = [1, 0]}; z = add(t, y); return(z)")
    rng = np.random.default_rng(0)
    dtype = {"f32": np.float32, "f64": np.float64, "i32": np.int32}[elem]
    x, y = (rng.integers(-99, 99, size).astype(dtype) for size in ((96, 64), (64, 96)))
    np.testing.assert_array_equal(run(func, target, x=x, y=y), x.T + y)


@pytest.mark.parametrize(("rows", "columns"), [(16, 17), (33, 100), (131, 996), (1, 5), (9001, 19)])
def test_a_last_square_is_moved_back(rows: int, columns: int) -> None:
    text = f"x: 2x{rows}x{columns}xf32, y: 2x{columns}x{rows}xf32"
    func = graph_func(text, "t = permute(x) {perm = [0, 2, 1]}; z = add(t, y); return(z)")
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((2, *size), np.float32) for size in ((rows, columns), (columns, rows)))
    np.testing.assert_array_equal(run(func, HOST, x=x, y=y), x.swapaxes(1, 2) + y)


@pytest.mark.parametrize("perm", [(0, 2, 1), (1, 2, 0), (2, 1, 0)])
def test_permutations_of_three_dims(perm: tuple[int, ...]) -> None:
    shape = tuple(48 if i == 0 else 32 if i == 1 else 16 for i in range(3))
    func = graph_func(
        f"x: {'x'.join(map(str, shape))}xf32", f"t = permute(x) {{perm = {list(perm)}}}; z = exp(t); return(z)"
    )
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    np.testing.assert_allclose(run(func, HOST, x=x), np.exp(x.transpose(perm)), rtol=1e-6)


@pytest.mark.parametrize("shape", [(8, 63, 40), (40, 63, 8), (5, 21, 33), (33, 7, 4), (4, 9, 5)])
def test_dims_shorter_than_a_vector_are_turned_in_registers(shape: tuple[int, ...]) -> None:
    text = f"x: {'x'.join(map(str, shape))}xf32, y: {'x'.join(map(str, shape[::-1]))}xf32"
    func = graph_func(text, "t = permute(x) {perm = [2, 1, 0]}; z = add(t, y); return(z)")
    case = Case("turned", ("pointwise",), func)
    made = lowered(case, AVX512)
    (kernel,) = check_blocks(made, case.arrays({}), AVX512)
    loads = [op for op in kernel.walk() if op.kind is block.load_view]
    assert {tile_of(op.result).shape for op in loads} == {(min(16, shape[2]), min(16, shape[0]))}


@pytest.mark.parametrize(
    ("rows", "columns", "depth"), [(8, 64, 48), (33, 70, 37), (8, 32, 16), (1, 100, 33), (17, 31, 64)]
)
def test_a_product_whose_right_operand_is_transposed(rows: int, columns: int, depth: int) -> None:
    func = graph_func(
        f"x: {rows}x{depth}xf32, w: {columns}x{depth}xf32", 'z = contract(x, w) {spec = "mk,nk->mn"}; return(z)'
    )
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((n, depth), np.float32) for n in (rows, columns))
    np.testing.assert_allclose(run(func, HOST, x=x, w=w), x @ w.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("columns", [64, 70])
def test_a_transposed_right_operand_is_packed_in_squares(columns: int) -> None:
    func = graph_func(f"x: 8x64xf32, w: {columns}x64xf32", 'z = contract(x, w) {spec = "mk,nk->mn"}; return(z)')
    made = lowered(Case("turned", ("contraction",), func), AVX512)
    (region,) = region_ops(made)
    ops = lower_region(region, "turned", made.ranges, AVX512).walk()
    assert (16, 32) in {tile_shape(op) for op in ops if op.kind.name == "block.load_view"}


@pytest.mark.parametrize(
    ("params", "squares"), [("x: 64x96xf32", True), ("x: 70x99xf32", True), ("x: 64x9xf32", False)]
)
def test_loads_are_squares_where_both_dims_have_a_vector(params: str, squares: bool) -> None:
    func = graph_func(params, "t = permute(x) {perm = [1, 0]}; z = exp(t); return(z)")
    made = lowered(Case("turned", ("pointwise",), func), AVX512)
    (region,) = region_ops(made)
    ops = lower_region(region, "turned", made.ranges, AVX512).walk()
    shapes = {tile_shape(op) for op in ops if op.kind.name == "block.load_view"}
    assert {len(s) for s in shapes} == {2 if squares else 1}


def tile_shape(op: Op) -> tuple[int, ...]:
    (type_,) = op.types
    assert isinstance(type_, Tile)
    return type_.shape


UNPADDED = "low = [0, 0], high = [0, 0], dilation = [1, 1], input_dilation = [1, 1]"


@pytest.mark.parametrize("machine", [AVX512, AVX2], ids=["avx512", "avx2"])
@pytest.mark.parametrize(("channels", "groups", "kinds"), [(19, 19, 2), (8, 1, 1), (8, 4, 1)])
def test_images_are_turned_once_for_depthwise_windows(channels: int, groups: int, kinds: int, machine: Machine) -> None:
    """Each of their elements is read for each tap; of others panels are packed, whose channels may lie anywhere."""
    func = graph_func(f"x: 2x{channels}x9x10xf32, w: 3x3x{channels // groups}x{channels}xf32", f"""
        t = permute(x) {{perm = [0, 2, 3, 1]}}
        y = conv(t, w) {{strides = [2, 1], {UNPADDED}, groups = {groups}, layout = "nhwc"}}
        return(y)""")  # fmt: skip
    regions, _ = outline(func)
    assert [op.attrs["kind"] for op in region_ops(regions)] == ["pointwise", "contraction"][-kinds:]
    check_blocks(regions, Case("turned", (), func).arrays({}), machine)


@pytest.mark.parametrize("machine", [AVX512, AVX2], ids=["avx512", "avx2"])
@pytest.mark.parametrize(("behind", "kernels"), [([0, 1, 1, 0], 1), ([0, 1, 1, 3], 2)])
def test_windows_read_through_padding_where_vectors_lie_along_other_dims(
    behind: list[int], kernels: int, machine: Machine
) -> None:
    moves = "window = [1, 3, 2, 1], strides = [1, 2, 1, 1], dilation = [1, 1, 1, 1]"
    func = graph_func("x: 2x9x10x19xf32", f"""
        p = pad(x) {{low = [0, 1, 1, 0], high = {behind}, value = -1.0}}
        y = reduce_window(p) {{{moves}, low = [0, 0, 0, 0], high = [0, 0, 0, 0], kind = "max"}}
        return(y)""")  # fmt: skip
    regions, _ = outline(func)
    assert len(list(region_ops(regions))) == kernels
    check_blocks(regions, Case("padded", (), func).arrays({}), machine)


SQUARE, DYNAMIC = "2x20x21x19", "2x(h)x(h)x19"


@pytest.mark.some(5)
@pytest.mark.parametrize("machine", [AVX512, AVX2], ids=["avx512", "avx2"])
@pytest.mark.parametrize(
    ("image", "low", "high", "strides", "dilation", "branches"),
    [
        (SQUARE, [1, 1], [1, 0], [1, 1], [1, 1], 1), (SQUARE, [2, 1], [0, 3], [1, 2], [2, 1], 1),
        (SQUARE, [0, 1], [0, 1], [1, 1], [1, 1], 1), ("2x4x4x19", [2, 2], [2, 2], [1, 1], [1, 1], 0),
        (DYNAMIC, [1, 1], [1, 1], [1, 1], [1, 1], 1),
    ],
)  # fmt: skip
def test_depthwise_windows_read_through_padding(
    image: str, low: list[int], high: list[int], strides: list[int], dilation: list[int], branches: int,
    machine: Machine,
) -> None:  # fmt: skip
    """Tiles that reach no padding have no masks, where there are any."""
    moves = f"strides = {strides}, low = [0, 0], high = [0, 0], dilation = {dilation}, input_dilation = [1, 1]"
    func = graph_func(f"x: {image}xf32, w: 3x3x1x19xf32", f"""
        p = pad(x) {{low = {[0, *low, 0]}, high = {[0, *high, 0]}}}
        y = conv(p, w) {{{moves}, groups = 19, layout = "nhwc"}}
        return(y)""", "h in 5..99" if image is DYNAMIC else "")  # fmt: skip
    regions, _ = outline(func)
    sizes: list[dict[str, int]] = [{"h": 5}, {"h": 16}] if image is DYNAMIC else [{}]
    kernels = [check_blocks(regions, Case("padded", (), func).arrays(size), machine) for size in sizes]
    (kernel,) = kernels[-1]
    whole = [op for op in kernel.walk() if op.kind is control.if_ and not op.types]
    assert len(whole) == branches
    masked = {op.kind.name for body in whole for op in walk(body.bodies[0])}
    assert "block.load_view" in masked or not branches
    assert not masked & {"block.load", "if", "block.select"}


@pytest.mark.parametrize("machine", [AVX512, AVX2], ids=["avx512", "avx2"])
def test_channels_with_several_windows_are_padded_first(machine: Machine) -> None:
    """These are products of each group: panels would be packed of masked loads."""
    func = graph_func("x: 2x9x10x7xf32, w: 3x3x1x14xf32", f"""
        p = pad(x) {{low = [0, 1, 1, 0], high = [0, 1, 1, 0]}}
        y = conv(p, w) {{strides = [1, 1], {UNPADDED}, groups = 7, layout = "nhwc"}}
        return(y)""")  # fmt: skip
    regions, _ = outline(func)
    assert [op.attrs["kind"] for op in region_ops(regions)] == ["pointwise", "contraction"]
    check_blocks(regions, Case("padded", (), func).arrays({}), machine)


@pytest.mark.parametrize("machine", [AVX512, AVX2], ids=["avx512", "avx2"])
@pytest.mark.parametrize("shape", ["4D", "3D"])
def test_images_are_turned_and_padded_at_once(shape: str, machine: Machine) -> None:
    """For depthwise windows, also where a line is an image of one row."""
    params, turned = {
        "4D": ("x: 2x19x9x10xf32, w: 3x3x1x19xf32", "q = permute(x) {perm = [0, 2, 3, 1]}"),
        "3D": ("x: 2x19x90xf32, w: 1x3x1x19xf32",
               "t = permute(x) {perm = [0, 2, 1]}; q = reshape(t) {shape = [2, 1, 90, 19]}"),
    }[shape]  # fmt: skip
    func = graph_func(
        params,
        f"""
        {turned}
        p = pad(q) {{low = [0, {int(shape == "4D")}, 1, 0], high = [0, {int(shape == "4D")}, 1, 0]}}
        y = conv(p, w) {{strides = [1, 1], {UNPADDED}, groups = 19, layout = "nhwc"}}
        return(y)""",
    )
    regions, _ = outline(func)
    assert [op.attrs["kind"] for op in region_ops(regions)] == ["pointwise", "contraction"]
    check_blocks(regions, Case("padded", (), func).arrays({}), machine)


@pytest.mark.parametrize("machine", [AVX512, AVX2], ids=["avx512", "avx2"])
@pytest.mark.parametrize("shape", [(2, 19, 9, 10), (1, 3, 40, 33), (2, 50, 5, 16), (1, 2, 3, 4)])
def test_no_tile_of_what_is_turned_has_a_mask(shape: tuple[int, ...], machine: Machine) -> None:
    """Ends of lines have tiles of their own; lines above and below are branches."""
    func = graph_func(
        f"x: {'x'.join(map(str, shape))}xf32",
        "q = permute(x) {perm = [0, 2, 3, 1]}; p = pad(q) {low = [0, 1, 2, 0], high = [0, 2, 1, 0], value = 1.5}; "
        "y = neg(p); return(y)",
    )
    regions = lowered(Case("padded", ("pointwise",), func), machine)
    (kernel,) = check_blocks(regions, Case("padded", (), func).arrays({}), machine)
    assert not [op for op in kernel.walk() if op.kind is block.load and isinstance(op.result.type, Tile)]


def test_a_line_is_turned_once_for_depthwise_windows() -> None:
    func = graph_func(
        "x: 2x19x90xf32, w: 1x3x1x19xf32",
        f"""
        t = permute(x) {{perm = [0, 2, 1]}}
        q = reshape(t) {{shape = [2, 1, 90, 19]}}
        y = conv(q, w) {{strides = [1, 1], {UNPADDED}, groups = 19, layout = "nhwc"}}
        return(y)""",
    )
    regions, _ = outline(func)
    assert [op.attrs["kind"] for op in region_ops(regions)] == ["pointwise", "contraction"]
    check_blocks(regions, Case("turned", (), func).arrays({}), AVX2)


@pytest.mark.parametrize(("rows", "columns"), [(88, 144), (200, 200), (1000, 1000), (300, 31)])
def test_tiles_of_a_gpu_have_little_to_spare(rows: int, columns: int) -> None:
    batch = (1 << 22) // (rows * columns)
    text = f"x: {batch}x{rows}x{columns}xbf16, y: {batch}x{columns}x{rows}xbf16"
    func, _ = outline(graph_func(text, "t = permute(x) {perm = [0, 2, 1]}; z = add(t, y); return(z)"))
    (region,) = region_ops(func)
    kernel = lower_region(region, "k", {}, backend_of(Target.parse("cuda:sm_90a")).machine, GPU_EMITTERS)
    (tile,) = {op.operands[2].type for op in walk(kernel.body) if op.kind is block.store_view}
    assert isinstance(tile, Tile)
    grid = kernel.attrs["grid"]
    assert isinstance(grid, int)
    assert grid * math.prod(tile.shape) < 1.3 * batch * rows * columns
