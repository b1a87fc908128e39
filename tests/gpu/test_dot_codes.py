"""`block.dot_codes` on the emulator beside the interpreter: codes of 2, 4 and 8 bits, shapes, zero points, warps."""

import math

import numpy as np
import pytest

from graphfuse.errors import TargetError
from graphfuse.targets import Target
from tests.gpu.launching import SM_80, check, compiled, numbers

SM_90A = Target.parse("cuda:sm_90a")


def load(name, pointer, shape, elem):
    strides = ", ".join(str(math.prod(shape[i:])) for i in range(1, len(shape) + 1))
    dims, type_ = ", ".join(map(str, shape)), "x".join(map(str, shape))
    return (
        f"%{name} = block.load_view(%{pointer}, %z) {{shape = [{dims}], strides = [{strides}]}} : tile<{type_}x{elem}>"
    )


def program(batch, rows, words, columns, bits, zero, elem, warps):
    k = words * 32 // bits
    return f"""
func @f(%x: ptr<{elem}>, %w: ptr<i32>, %c: ptr<f32>, %o: ptr<f32>) {{grid = 1, warps = {warps}}} {{
  %z = block.const() {{value = 0, elem = i64}} : i64
  {load("a", "x", (batch, rows, k), elem)}
  {load("b", "w", (batch, words, columns), "i32")}
  {load("s", "c", (batch, rows, columns), "f32")}
  %p = block.words(%a) : tile<{batch}x{rows}x{k // 2}xi32>
  %d = block.dot_codes(%p, %b, %s) {{bits = {bits}, elem = {elem}, zero = {zero}}} : tile<{batch}x{rows}x{columns}xf32>
  block.store_view(%o, %z, %d) {{strides = [{rows * columns}, {columns}, 1]}}
  return()
}}
"""


@pytest.mark.parametrize("target", [SM_80, SM_90A], ids=str)
@pytest.mark.parametrize("elem", ["f16", "bf16"])
@pytest.mark.parametrize(
    ("bits", "zero", "batch", "rows", "words", "columns", "warps"),
    [
        (4, 8, 1, 8, 4, 32, 1),
        (4, 0, 4, 8, 8, 64, 4),
        (8, 128, 2, 16, 4, 32, 2),
        (2, 1, 2, 32, 4, 32, 4),
        (4, 7, 8, 16, 16, 128, 2),
    ],
)
def test_codes_are_multiplied_as_they_are_stored(target, elem, bits, zero, batch, rows, words, columns, warps):
    rng = np.random.default_rng(0)
    x = numbers(rng, (batch, rows, words * 32 // bits), elem)
    inputs = [x, numbers(rng, (batch, words, columns), "i32"), numbers(rng, (batch, rows, columns), "f32")]
    text = program(batch, rows, words, columns, bits, zero, elem, warps)

    def near(got, want):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())

    report = check(text, inputs, [((batch, rows, columns), "f32")], target=target, equal=near)
    assert any(name.startswith("mma.sync") for name in report.instructions)
    assert not any(name.startswith("st.shared") for name in report.instructions), "nothing moves between lanes"


@pytest.mark.parametrize(("rows", "words", "columns"), [(4, 4, 32), (8, 4, 16)])
def test_what_no_instruction_fits_is_refused(rows, words, columns):
    with pytest.raises(TargetError, match="dot_codes: expected powers of two"):
        compiled(program(1, rows, words, columns, 4, 8, "f16", 1))
