"""`block.reduce` on the emulator beside the block interpreter: kinds, elements, layouts, paddings, loops."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphfuse.gpu import lower
from graphfuse.gpu.emulator import Buffer
from graphfuse.interp.arrays import reduce_array
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.parser import parse
from graphfuse.ir.types import Scalar
from tests.gpu.launching import SM_80, check, emulate, numbers
from tests.gpu.layouts.strategies import any_map, distributed

LAWS = settings(max_examples=25, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
NUMBERS = ("f32", "f16", "bf16", "f64", "i32", "u32", "i8", "u16", "i64", "u64", "i4")
CASES = [(kind, elem) for kind in ("sum", "max", "min", "prod") for elem in NUMBERS] + [
    ("any", "bool"),
    ("all", "bool"),
]


def close(elem, kind):
    """Sums and products of floats are in another order; narrow ones round once at the end."""
    if not Scalar(elem).is_float or kind in ("max", "min"):
        return np.testing.assert_array_equal
    tolerance = {"f16": 2e-3, "bf16": 1e-2, "f32": 1e-5, "f64": 1e-13}[elem]
    return lambda a, b: np.testing.assert_allclose(
        a.astype(np.float64), b.astype(np.float64), rtol=tolerance, atol=10 * tolerance
    )


def program(shape, elem, axis, kind, warps):
    m, n = shape
    left = shape[1 - axis]
    return f"""
func @f(%x: ptr<{elem}>, %o: ptr<{elem}>) {{grid = 1, warps = {warps}}} {{
  %z = block.const() {{value = 0, elem = i64}} : i64
  %v = block.load_view(%x, %z) {{shape = [{m}, {n}], strides = [{n}, 1]}} : tile<{m}x{n}x{elem}>
  %w = block.reduce(%v) {{axis = {axis}, kind = "{kind}"}} : tile<{left}x{elem}>
  block.store_view(%o, %z, %w) {{strides = [1]}}
  return()
}}
"""


@pytest.mark.some(24)
@pytest.mark.parametrize(("kind", "elem"), CASES)
def test_kinds_and_elements(kind, elem):
    rng = np.random.default_rng(0)
    for shape, axis, warps in (((7, 100), 1, 4), ((70, 12), 0, 2), ((32, 64), 0, 8)):
        report = check(
            program(shape, elem, axis, kind, warps),
            [numbers(rng, shape, elem)],
            [((shape[1 - axis],), elem)],
            equal=close(elem, kind),
        )
        assert not report.conflicts


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["max", "min", "sum"])
def test_special_values(kind, value):
    x = np.random.default_rng(1).standard_normal((16, 100)).astype(np.float32)
    x[np.arange(16), np.arange(16) * 6] = value
    check(program((16, 100), "f32", 1, kind, 4), [x], [((16,), "f32")], equal=close("f32", kind))


@pytest.mark.parametrize(("elem", "kind", "n"), [("f32", "sum", 1000), ("i32", "max", 1024), ("bool", "any", 3)])
def test_a_line_gives_a_scalar(elem, kind, n):
    """Every thread gets it: all elements of a tile are divided by it, or compared with it."""
    text = f"""
func @f(%x: ptr<{elem}>, %o: ptr<{elem}>) {{grid = 1, warps = 4}} {{
  %z = block.const() {{value = 0, elem = i64}} : i64
  %v = block.load_view(%x, %z) {{shape = [{n}], strides = [1]}} : tile<{n}x{elem}>
  %s = block.reduce(%v) {{axis = 0, kind = "{kind}"}} : {elem}
  %t = block.splat(%s) {{shape = [256]}} : tile<256x{elem}>
  block.store_view(%o, %z, %t) {{strides = [1]}}
  return()
}}
"""
    x = numbers(np.random.default_rng(2), (n,), elem)
    check(text, [x], [((256,), elem)], equal=close(elem, kind))


def test_full_warps_of_integers_use_redux():
    report = check(
        program((4, 32), "i32", 1, "sum", 4), [numbers(np.random.default_rng(0), (4, 32), "i32")], [((4,), "i32")]
    )
    assert report.instructions["redux.sync.add.s32"] == 4
    assert not any(name.startswith("shfl") for name in report.instructions)


SOFTMAX = """
func @f(%x: ptr<f32>, %o: ptr<f32>, %n: i64) {grid = (n), warps = 4} dims (n in 1..100) {
  %p = block.program_id() : i64
  %z = block.index(%p) {expr = (1000*p), names = ["p"]} : i64
  %v = block.load_view(%x, %z) {shape = [1000], strides = [1]} : tile<1000xf32>
  %m = block.reduce(%v) {axis = 0, kind = "max"} : f32
  %t = block.splat(%m) {shape = [1000]} : tile<1000xf32>
  %d = block.sub(%v, %t) : tile<1000xf32>
  %e = block.exp(%d) : tile<1000xf32>
  %s = block.reduce(%e) {axis = 0, kind = "sum"} : f32
  %u = block.splat(%s) {shape = [1000]} : tile<1000xf32>
  %q = block.div(%e, %u) : tile<1000xf32>
  block.store_view(%o, %z, %q) {strides = [1]}
  return()
}
"""


@pytest.mark.parametrize("seed", range(3))
def test_softmax(seed):
    x = numbers(np.random.default_rng(seed), (5, 1000), "f32")
    report = check(
        SOFTMAX, [x], [((5, 1000), "f32")], seed=seed, symbols={"n": 5},
        equal=lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5),
    )  # fmt: skip
    assert report.instructions["bar.sync"] == 5 * 4 * BARRIERS_OF_TWO


LOOP = """
func @f(%x: ptr<f32>, %o: ptr<f32>, %n: i64) {grid = 1, warps = 4} dims (n in 0..100) {
  %zero = block.const() {value = 0, elem = i64} : i64
  %start = block.const() {value = 0, elem = f32, shape = [8]} : tile<8xf32>
  %r = for(%zero, %n, %start) {step = 1} do (%i: i64, %a: tile<8xf32>) {
    %b = block.index(%i) {expr = (1024*i), names = ["i"]} : i64
    %v = block.load_view(%x, %b) {shape = [8, 128], strides = [128, 1]} : tile<8x128xf32>
    %m = block.reduce(%v) {axis = 1, kind = "max"} : tile<8xf32>
    %k = block.reduce(%v) {axis = 1, kind = "min"} : tile<8xf32>
    %d = block.sub(%m, %k) : tile<8xf32>
    %c = block.add(%a, %d) : tile<8xf32>
    yield(%c)
  } : tile<8xf32>
  block.store_view(%o, %zero, %r) {strides = [1]}
  return()
}
"""


@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_in_a_loop(trips):
    x = numbers(np.random.default_rng(trips), (max(trips, 1), 8, 128), "f32")
    check(
        LOOP, [x], [((8,), "f32")], seed=trips, symbols={"n": trips},
        equal=lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5),
    )  # fmt: skip


@given(data=st.data())
@LAWS
def test_any_layout(data):
    """Axes spread over any mixture of registers, lanes and warps, with copies."""
    shape = data.draw(st.sampled_from([(16, 32), (8, 8), (64, 32)]))
    layout = data.draw(any_map(shape)) if data.draw(st.booleans()) else data.draw(distributed((64, 32)))
    axis, elem = data.draw(st.sampled_from([0, 1])), data.draw(st.sampled_from(["i32", "i64", "i8", "f32"]))
    m, n = shape = layout.shape
    left = shape[1 - axis]
    lowered = lower.lower([parse(f"""
layout #l = {layout.text}
layout #r = {layout.slice(axis).text}
func @f(%x: ptr<{elem}>, %o: ptr<{elem}>) {{grid = 1, warps = 4}} {{
  %z = block.const() {{value = 0, elem = i64}} : i64
  %v = block.load_view(%x, %z) {{shape = [{m}, {n}], strides = [{n}, 1], layout = #l}} : tile<{m}x{n}x{elem}, #l>
  %w = block.reduce(%v) {{axis = {axis}, kind = "sum"}} : tile<{left}x{elem}, #r>
  block.store_view(%o, %z, %w) {{strides = [1]}}
  return()
}}
""")], SM_80)  # fmt: skip
    x = numbers(np.random.default_rng(0), shape, elem)
    out = np.zeros(left, numpy_dtype(Scalar(elem)))
    seed = data.draw(st.integers(0, 2))
    emulate(lower.emit_ptx(lowered), lowered.kernels[0], [x, Buffer(out, initialised=False)], seed=seed)
    close(elem, "sum")(out, reduce_array(x, (axis,), "sum"))


BARRIERS_OF_TWO = 2
"""Two reductions across warps, one after another: store, barrier, load, elsewhere store, barrier, load."""
