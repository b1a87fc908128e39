"""What outlining makes of edge cases, as text."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.dialects import graph
from graphfuse.fusion.regions.outline import outline
from graphfuse.fusion.regions.rules import Rules
from graphfuse.interp import graph as interp
from graphfuse.ir.core import Func
from graphfuse.ir.parser import parse
from graphfuse.ir.printer import to_text
from graphfuse.ir.verifier import verify


def outlined(text: str) -> Func:
    func, _ = outline(parse(text))
    verify(func)
    return func


def kinds(func: Func) -> list[str]:
    return [str(op.attrs["kind"]) for op in func.body.ops if op.kind is graph.region]


def test_a_region_reads_through_views_and_keeps_generators_inside() -> None:
    func = outlined("""func @main(%x: tensor<4x6xf32>) {
  %p = graph.permute(%x) {perm = [1, 0]} : tensor<6x4xf32>
  %c = graph.full() {elem = f32, shape = [6, 4], value = 2.0} : tensor<6x4xf32>
  %y = graph.mul(%p, %c) : tensor<6x4xf32>
  return(%y)
}
""")
    want = """func @main(%x: tensor<4x6xf32>) {
  %y = graph.region(%x) {kernel = "pointwise_0", kind = "pointwise"} do (%v0: tensor<4x6xf32>) {
    %v1 = graph.permute(%v0) {perm = [1, 0]} : tensor<6x4xf32>
    %v2 = graph.full() {elem = f32, shape = [6, 4], value = 2.0} : tensor<6x4xf32>
    %v3 = graph.mul(%v1, %v2) : tensor<6x4xf32>
    yield(%v3)
  } : tensor<6x4xf32>
  return(%y)
}
"""
    assert to_text(func) == want


def test_a_function_that_computes_nothing_copies() -> None:
    func = outlined("func @main(%x: tensor<4xf32>) {\n  return(%x, %x)\n}\n")
    assert kinds(func) == ["pointwise", "pointwise"]
    x = np.arange(4, dtype=np.float32)
    assert all(np.array_equal(y, x) for y in interp.run(func, x))


@pytest.mark.parametrize(
    ("view", "shape", "more", "count"),
    [
        ("reshape(%e) {shape = [24]}", "24", "", 1),
        ("permute(%e) {perm = [1, 0]}", "6x4", "", 1),  # written in that order
        ("permute(%e) {perm = [1, 0]}", "6x4", "%e, ", 2),
        ("permute(%e) {perm = [1, 0]}", "6x4", "%v, ", 3),
        ("slice(%e) {sizes = [4, 1], starts = [0, 2], steps = [1, 1]}", "4x1", "", 2),
    ],
)
def test_returned_views(view: str, shape: str, more: str, count: int) -> None:
    func = outlined(f"""func @main(%x: tensor<4x6xf32>) {{
  %e = graph.exp(%x) : tensor<4x6xf32>
  %v = graph.{view} : tensor<{shape}xf32>
  return({more}%v)
}}
""")
    assert len(kinds(func)) == count
    x = np.arange(24, dtype=np.float32).reshape(4, 6) / 24
    assert interp.run(func, x)[-1].shape == tuple(map(int, shape.split("x")))


@pytest.mark.parametrize(("times", "count"), [(4, 1), (5, 2)])
@pytest.mark.parametrize("function", ["exp", "neg"])
def test_what_is_returned_a_few_times_over_is_computed_as_often(function: str, times: int, count: int) -> None:
    text = f"""func @main(%x: tensor<4x6xf32>) {{
  %e = graph.{function}(%x) : tensor<4x6xf32>
  %r = graph.reshape(%e) {{shape = [4, 1, 6]}} : tensor<4x1x6xf32>
  %b = graph.broadcast(%r) {{shape = [4, {times}, 6]}} : tensor<4x{times}x6xf32>
  %y = graph.reshape(%b) {{shape = [{4 * times}, 6]}} : tensor<{4 * times}x6xf32>
  return(%y)
}}
"""
    x = np.arange(24, dtype=np.float32).reshape(4, 6) / 24
    want = (np.exp if function == "exp" else np.negative)(np.repeat(x, times, axis=0))
    for rules, kernels in ((Rules(turns_rows=True), count), (Rules(), 2 if function == "exp" else count)):
        func, _ = outline(parse(text), rules)
        verify(func)
        assert len(kinds(func)) == kernels
        np.testing.assert_allclose(interp.run(func, x)[0], want, rtol=1e-6)


@pytest.mark.parametrize(("function", "times", "count"), [("neg", 4, 1), ("neg", 5, 2), ("exp", 4, 2)])
def test_cheap_work_is_done_again_where_few_read_it(function: str, times: int, count: int) -> None:
    func = outlined(f"""func @main(%x: tensor<64x256xf32>, %y: tensor<64x256x{times}xf32>) {{
  %e = graph.{function}(%x) : tensor<64x256xf32>
  %r = graph.reshape(%e) {{shape = [64, 256, 1]}} : tensor<64x256x1xf32>
  %b = graph.broadcast(%r) {{shape = [64, 256, {times}]}} : tensor<64x256x{times}xf32>
  %z = graph.add(%b, %y) : tensor<64x256x{times}xf32>
  return(%z)
}}
""")
    assert len(kinds(func)) == count


def test_times_that_work_is_done_again_are_not_multiplied() -> None:
    body = "%e0 = graph.neg(%x) : tensor<64xf32>\n"
    size = 64
    for i in range(3):
        body += f"""%r{i} = graph.reshape(%e{i}) {{shape = [{size}, 1]}} : tensor<{size}x1xf32>
  %b{i} = graph.broadcast(%r{i}) {{shape = [{size}, 4]}} : tensor<{size}x4xf32>
  %f{i} = graph.reshape(%b{i}) {{shape = [{4 * size}]}} : tensor<{4 * size}xf32>
  %e{i + 1} = graph.add(%f{i}, %y{i}) : tensor<{4 * size}xf32>
"""
        size *= 4
    params = ", ".join(f"%y{i}: tensor<{64 * 4 ** (i + 1)}xf32>" for i in range(3))
    func = outlined(f"func @main(%x: tensor<64xf32>, {params}) {{\n  {body}  return(%e3)\n}}\n")
    assert len(kinds(func)) == 2


def test_dead_work_is_no_kernel() -> None:
    func = outlined("""func @main(%x: tensor<4xf32>) {
  %e = graph.exp(%x) : tensor<4xf32>
  %c = graph.cumulate(%e) {axis = 0, kind = "sum"} : tensor<4xf32>
  %n = graph.neg(%x) : tensor<4xf32>
  return(%n)
}
""")
    assert kinds(func) == ["pointwise"]


def test_a_region_yields_what_later_regions_read() -> None:
    func = outlined("""func @main(%x: tensor<4xf32>) {
  %e = graph.exp(%x) : tensor<4xf32>
  %n = graph.neg(%e) : tensor<4xf32>
  %c = graph.cumulate(%e) {axis = 0, kind = "sum"} : tensor<4xf32>
  return(%n, %c)
}
""")
    first = next(op for op in func.body.ops if op.kind is graph.region)
    assert len(first.types) == 2


def test_kernels_of_equal_regions_are_one_and_names_count_up() -> None:
    func = outlined("""func @main(%x: tensor<4xf32>, %y: tensor<5xf32>) {
  %a = graph.cumulate(%x) {axis = 0, kind = "sum"} : tensor<4xf32>
  %b = graph.cumulate(%a) {axis = 0, kind = "sum"} : tensor<4xf32>
  %c = graph.cumulate(%y) {axis = 0, kind = "sum"} : tensor<5xf32>
  return(%b, %c)
}
""")
    names = [str(op.attrs["kernel"]) for op in func.body.ops if op.kind is graph.region]
    assert sorted(names) == ["scan_0", "scan_0", "scan_1"]


@pytest.mark.parametrize("carried", ["%x", "%k", "%p"])
def test_a_loop_yields_memory_that_its_body_wrote(carried: str) -> None:
    """A parameter, a value from outside, a view: each is copied by a region in the body."""
    func = outlined(f"""func @main(%a: tensor<3x3xf32>, %b: tensor<3x3xf32>) {{
  %k = graph.exp(%b) : tensor<3x3xf32>
  %r = graph.loop(%a) {{count = 2, symbol = "t"}} do (%x: tensor<3x3xf32>) {{
    %p = graph.permute(%x) {{perm = [1, 0]}} : tensor<3x3xf32>
    yield({carried})
  }} : tensor<3x3xf32>
  return(%r)
}}
""")
    (loop,) = (op for op in func.body.ops if op.kind is graph.loop)
    assert [op.kind for op in loop.body.ops[:-1]] == [graph.region]
