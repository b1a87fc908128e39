"""`block.dot` on the emulator beside the block interpreter: elements, shapes, paddings, precisions, chains."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphfuse.errors import VerifyError
from graphfuse.ir.parser import parse
from graphfuse.ir.verifier import verify
from tests.gpu.launching import check, compiled, emulate, numbers

LAWS = settings(max_examples=15, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
TENSOR_CORES = [
    ("f16", "f16", "f32"), ("bf16", "bf16", "f32"), ("f16", "f16", "f16"), ("bf16", "bf16", "bf16"),
    ("i8", "i8", "i32"), ("u8", "i8", "i32"), ("f8e4m3", "f8e5m2", "f32"), ("f8e4m3", "f8e4m3", "f16"),
]  # fmt: skip
MULTIPLY_ADD = [
    ("f32", "f32", "f32"), ("f64", "f64", "f64"), ("i32", "i32", "i32"), ("i64", "i64", "i64"), ("f16", "f16", "f64"),
    ("i8", "i8", "i8"), ("f16", "bf16", "f32"),
]  # fmt: skip
TOLERANCE = {"f32": 1e-5, "f64": 1e-13, "f16": 2e-3, "bf16": 1e-2}


def program(shape, elems, *, warps=4, attrs="", transposed=False):
    (m, n, k), (ea, eb, ec) = shape, elems
    strides = f"[1, {k}]" if transposed else f"[{n}, 1]"
    return f"""
func @f(%x: ptr<{ea}>, %y: ptr<{eb}>, %c: ptr<{ec}>, %o: ptr<{ec}>) {{grid = 1, warps = {warps}}} {{
  %z = block.const() {{value = 0, elem = i64}} : i64
  %a = block.load_view(%x, %z) {{shape = [{m}, {k}], strides = [{k}, 1]}} : tile<{m}x{k}x{ea}>
  %b = block.load_view(%y, %z) {{shape = [{k}, {n}], strides = {strides}}} : tile<{k}x{n}x{eb}>
  %s = block.load_view(%c, %z) {{shape = [{m}, {n}], strides = [{n}, 1]}} : tile<{m}x{n}x{ec}>
  %d = block.dot(%a, %b, %s){attrs} : tile<{m}x{n}x{ec}>
  block.store_view(%o, %z, %d) {{strides = [{n}, 1]}}
  return()
}}
"""


def operands(rng, shape, elems):
    m, n, k = shape
    return [numbers(rng, (m, k), elems[0]), numbers(rng, (k, n), elems[1]), numbers(rng, (m, n), elems[2])]


def near(elem, tolerance=0.0):
    """Equal integers; floats that differ by roundings of sums of a few dozen terms."""
    if elem[0] not in "fb":
        return np.testing.assert_array_equal
    tolerance = tolerance or TOLERANCE[elem]
    return lambda a, b: np.testing.assert_allclose(
        a.astype(np.float64), b.astype(np.float64), rtol=tolerance, atol=20 * tolerance
    )


def run(shape, elems, *, seed=0, tolerance=0.0, **options):
    m, n, _ = shape
    inputs = operands(np.random.default_rng(seed), shape, elems)
    text = program(shape, elems, **options)
    return check(text, inputs, [((m, n), elems[2])], equal=near(elems[2], tolerance), seed=seed)


def count(report, prefix):
    return sum(n for name, n in report.instructions.items() if name.startswith(prefix))


@pytest.mark.some(12)
@pytest.mark.parametrize("elems", TENSOR_CORES)
@pytest.mark.parametrize(("shape", "warps"), [((64, 64, 32), 4), ((16, 8, 64), 2), ((70, 40, 50), 8)])
def test_tensor_cores(elems, shape, warps):
    report = run(shape, elems, warps=warps)
    assert count(report, "mma.sync") > 0
    assert count(report, "fma") == 0


@pytest.mark.some(12)
@pytest.mark.parametrize("elems", MULTIPLY_ADD)
@pytest.mark.parametrize(("shape", "warps"), [((32, 64, 16), 4), ((13, 20, 7), 2), ((1, 64, 16), 4)])
def test_multiply_add(elems, shape, warps):
    report = run(shape, elems, warps=warps)
    assert count(report, "mma.sync") == 0


@pytest.mark.parametrize("elems", [("f16", "f16", "f32"), ("f32", "f32", "f32")])
def test_what_no_instruction_fits_is_multiplied_and_added(elems):
    for shape in ((8, 8, 8), (1, 16, 32), (16, 4, 16)):
        assert count(run(shape, elems, warps=1), "mma.sync") == 0


def test_precision_of_f32():
    """f32 operands keep all their bits unless an op says otherwise; three tf32 products are as good."""
    shape, elems = (64, 32, 64), ("f32", "f32", "f32")
    inputs = operands(np.random.default_rng(0), shape, elems)
    exact = inputs[0].astype(np.float64) @ inputs[1].astype(np.float64) + inputs[2]
    errors, used = {}, {}
    for precision in ("ieee", "tf32", "tf32x3"):
        ptx, kernel = compiled(program(shape, elems, attrs=f' {{precision = "{precision}"}}'))
        out = np.zeros((64, 32), np.float32)
        used[precision] = count(emulate(ptx, kernel, [*inputs, out]), "mma.sync") // 4
        errors[precision] = np.abs(out - exact).max()
    assert used == {"ieee": 0, "tf32": 32, "tf32x3": 96}
    assert errors["tf32"] > 1e-4
    assert errors["ieee"] < 2e-5
    assert errors["tf32x3"] < 2e-5


def test_an_unknown_precision_is_refused():
    with pytest.raises(VerifyError, match="precision must be one of"):
        verify(parse(program((16, 16, 16), ("f32", "f32", "f32"), attrs=' {precision = "half"}')))


@pytest.mark.parametrize("elems", [("f16", "f16", "f32"), ("i8", "i8", "i32"), ("f32", "f32", "f32")])
def test_transposed_operand(elems):
    shape = m, n, _ = 64, 32, 64
    x, y, c = operands(np.random.default_rng(0), shape, elems)
    check(
        program(shape, elems, transposed=True),
        [x, np.ascontiguousarray(y.T), c],
        [((m, n), elems[2])],
        equal=near(elems[2]),
    )


CHAIN = """
func @f(%q: ptr<f16>, %k: ptr<f16>, %v: ptr<f16>, %o: ptr<f32>) {grid = 1, warps = 4} {
  %z = block.const() {value = 0, elem = i64} : i64
  %a = block.load_view(%q, %z) {shape = [64, 32], strides = [32, 1]} : tile<64x32xf16>
  %b = block.load_view(%k, %z) {shape = [32, 64], strides = [1, 32]} : tile<32x64xf16>
  %c = block.load_view(%v, %z) {shape = [64, 32], strides = [32, 1]} : tile<64x32xf16>
  %zero = block.const() {value = 0.0, elem = f32, shape = [64, 64]} : tile<64x64xf32>
  %s = block.dot(%a, %b, %zero) : tile<64x64xf32>
  %m = block.reduce(%s) {axis = 1, kind = "max"} : tile<64xf32>
  %m1 = block.reshape(%m) {shape = [64, 1]} : tile<64x1xf32>
  %mm = block.broadcast(%m1) {shape = [64, 64]} : tile<64x64xf32>
  %d = block.sub(%s, %mm) : tile<64x64xf32>
  %e = block.exp(%d) : tile<64x64xf32>
  %p = block.cast(%e) {to = f16} : tile<64x64xf16>
  %zo = block.const() {value = 0.0, elem = f32, shape = [64, 32]} : tile<64x32xf32>
  %r = block.dot(%p, %c, %zo) : tile<64x32xf32>
  block.store_view(%o, %z, %r) {strides = [32, 1]}
  return()
}
"""


def test_attention_keeps_scores_in_registers():
    """Warps hold whole rows of scores: their maximum needs no barrier, and they feed the next product as they are."""
    rng = np.random.default_rng(0)
    inputs = [numbers(rng, (64, 32), "f16") for _ in range(3)]
    report = check(CHAIN, inputs, [((64, 32), "f32")], equal=near("f32", 2e-3))
    assert count(report, "shfl") == 4 * 2 * 2
    # three operands and the result go through shared memory: store, barrier, load, and a barrier between two of them
    assert report.instructions["bar.sync"] == 4 * (4 + 3)


@given(data=st.data())
@LAWS
def test_random_shapes(data):
    shape = tuple(data.draw(st.sampled_from([1, 3, 8, 16, 17, 32])) for _ in range(3))
    elems = data.draw(st.sampled_from([*TENSOR_CORES, *MULTIPLY_ADD]))
    run(shape, elems, warps=data.draw(st.sampled_from([1, 2, 4])), seed=data.draw(st.integers(0, 3)))
