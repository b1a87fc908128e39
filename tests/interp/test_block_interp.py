"""The block interpreter: kernels give numpy's answers, and checks name the op and the program."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.errors import GraphfuseError, InputError
from graphfuse.interp import block as interp
from graphfuse.ir.core import REGISTRY
from graphfuse.ir.parser import parse
from graphfuse.ir.verifier import verify

EXP = """func @k(%x: ptr<f32>, %out: ptr<f32>, %n_1: i64) {grid = (floordiv(n_1 + 3, 4))} {
  %pid = block.program_id() : i64
  %base = block.index(%pid) {expr = (4*p), names = ["p"]} : i64
  %left = block.index(%pid) {expr = (-4*p + n_1), names = ["p"]} : i64
  %t = block.load_view(%x, %base, %left) {limited = [0], shape = [4], strides = [1]} : tile<4xf32>
  %e = block.neg(%t) : tile<4xf32>
  block.store_view(%out, %base, %e, %left) {limited = [0], strides = [1]}
  return()
}"""

MATMUL = """func @mm(%a: ptr<bf16>, %b: ptr<bf16>, %c: ptr<f32>, %k: i64) {grid = 1} {
  %z = block.const() {elem = i64, value = 0} : i64
  %init = block.const() {elem = f32, shape = [2, 3], value = 0.0} : tile<2x3xf32>
  %acc = for(%z, %k, %init) {step = 4} do (%i: i64, %sum: tile<2x3xf32>) {
    %left = block.index(%i) {expr = (-i + k), names = ["i"]} : i64
    %brow = block.index(%i) {expr = (3*i), names = ["i"]} : i64
    %ta = block.load_view(%a, %i, %left) {limited = [1], shape = [2, 4], strides = [(k), 1]} : tile<2x4xbf16>
    %tb = block.load_view(%b, %brow, %left) {limited = [0], shape = [4, 3], strides = [3, 1]} : tile<4x3xbf16>
    %next = block.dot(%ta, %tb, %sum) : tile<2x3xf32>
    yield(%next)
  } : tile<2x3xf32>
  block.store_view(%c, %z, %acc) {strides = [3, 1]}
  return()
}"""


def kernel(text):
    func = parse(text)
    verify(func)
    return func


def test_every_block_op_has_a_meaning():
    ops = {op for name, op in REGISTRY.items() if name.startswith("block.")}
    assert ops <= interp.SEMANTICS.keys()


@pytest.mark.parametrize("n", [0, 1, 4, 6])
def test_limits_mask_the_last_program(n):
    x, out = np.arange(1, n + 1, dtype=np.float32), np.zeros(n, np.float32)
    interp.launch(kernel(EXP), [x, out], {"n_1": n})
    np.testing.assert_array_equal(out, -x)


def test_dot_over_a_loop():
    import ml_dtypes

    rng = np.random.default_rng(0)
    a = rng.standard_normal((2, 10)).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((10, 3)).astype(ml_dtypes.bfloat16)
    c = np.zeros((2, 3), np.float32)
    interp.launch(kernel(MATMUL), [a, b, c], {"k": 10})
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-5)


def test_out_of_bounds_names_op_and_program():
    func = kernel(EXP.replace("-4*p + n_1", "-4*p + n_1 + 1"))
    with pytest.raises(GraphfuseError) as e:
        interp.launch(func, [np.zeros(6, np.float32), np.zeros(6, np.float32)], {"n_1": 6})
    assert e.value.message == "block.load_view: program 1: element 6 is outside of x, which has 6"
    assert e.value.loc.line == 5


UNINITIALISED = """func @k() {
  %m = block.alloc() {count = 4, elem = f32} : ptr<f32>
  %z = block.const() {elem = i64, value = 0} : i64
  %one = block.const() {elem = f32, value = 1.0} : f32
  block.store(%m, %z, %one)
  %v = block.load_view(%m, %z) {shape = [2], strides = [1]} : tile<2xf32>
  return(%v)
}"""


def test_reads_of_uninitialised_memory():
    with pytest.raises(GraphfuseError, match="program 3: read of uninitialised element 1"):
        interp.run_program(kernel(UNINITIALISED), [], {}, 3)
    (got,) = interp.run_program(kernel(UNINITIALISED), [], {}, 0, checks=False)
    assert got[0] == 1
    assert np.isnan(got[1])


WORDS = """func @k() {{
  %m = block.alloc() {{count = 8, elem = i8}} : ptr<i8>
  %w = block.pointer_cast(%m) {{to = i32}} : ptr<i32>
  %z = block.const() {{elem = i64, value = {place}}} : i64
  %x = block.const() {{elem = {elem}, value = 7}} : {elem}
  block.store({pointer}, %z, %x)
  %v = block.load_view({other}, %z) {{shape = [{count}], strides = [1]}} : tile<{count}x{read}>
  return(%v)
}}"""


def test_local_memory_of_bytes_as_words():
    words = WORDS.format(place=0, elem="i32", pointer="%w", other="%m", count=4, read="i8")
    (got,) = interp.run_program(kernel(words), [], {}, 0)
    np.testing.assert_array_equal(got, [7, 0, 0, 0])
    one_byte = WORDS.format(place=1, elem="i8", pointer="%m", other="%w", count=1, read="i32")
    with pytest.raises(GraphfuseError, match="read of uninitialised element 1"):
        interp.run_program(kernel(one_byte), [], {}, 0)


def test_nothing_is_read_of_local_memory():
    nothing = UNINITIALISED.replace("%m, %z)", "%m, %z, %z)").replace("shape = [2]", "limited = [0], shape = [2]")
    (got,) = interp.run_program(kernel(nothing), [], {}, 0)
    assert got.shape == (2,)


def test_negative_addresses_do_not_wrap_around():
    text = EXP.replace("(4*p)", "(4*p - 1)")
    with pytest.raises(GraphfuseError, match="element -1 is outside"):
        interp.launch(kernel(text), [np.zeros(6, np.float32)] * 2, {"n_1": 6})


def test_arguments_that_do_not_fit():
    x = np.zeros(4, np.float32)
    with pytest.raises(InputError, match="@k: expected 2 arrays, got 1"):
        interp.launch(kernel(EXP), [x], {"n_1": 4})
    with pytest.raises(InputError, match="symbol 'n_1' has no value"):
        interp.launch(kernel(EXP), [x, x], {})
    with pytest.raises(InputError, match="parameter 0 must be a contiguous f32 array, got f64"):
        interp.launch(kernel(EXP), [np.zeros(4), x], {"n_1": 4})


def test_memory_is_changed_in_place():
    x, out = np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)
    interp.launch(kernel(EXP), [x, out], {"n_1": 4})
    np.testing.assert_array_equal(out, -x)
