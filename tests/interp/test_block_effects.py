"""Grids, atomics, loops without a count, printing and assertions in the block interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.errors import GraphfuseError
from graphfuse.interp.block import launch, run_program
from graphfuse.ir.parser import parse
from graphfuse.ir.verifier import verify
from tests.blocks import IDS


def kernel(text):
    func = parse(text)
    verify(func)
    return func


def test_a_grid_is_given_at_launch():
    out = np.zeros((2, 3, 4), np.int64)
    launch(kernel(IDS), [out], {}, grid=(4, 3, 2))
    z, y, x = np.indices(out.shape)
    np.testing.assert_array_equal(out, 100 * z + 10 * y + x)


HISTOGRAM = """func @histogram(%x: ptr<i32>, %counts: ptr<i32>, %last: ptr<i32>) {grid = 3} {
  %pid = block.program_id() : i64
  %i = block.arange() {end = 8, start = 0} : tile<8xi64>
  %at = block.index(%i, %i) {expr = (i), names = ["i", "j"]} : tile<8xi64>
  %v = block.load(%x, %at) : tile<8xi32>
  %bin = block.cast(%v) {to = i64} : tile<8xi64>
  %one = block.const() {elem = i32, shape = [8], value = 1} : tile<8xi32>
  %two = block.const() {elem = i64, shape = [8], value = 6} : tile<8xi64>
  %some = block.lt(%i, %two) : tile<8xbool>
  %old = block.atomic(%counts, %bin, %one, %some) {kind = "add"} : tile<8xi32>
  block.store(%last, %i, %old)
  return()
}"""


def test_atomics_that_meet_all_count():
    x = np.array([1, 1, 0, 2, 1, 1, 3, 3], np.int32)
    counts, last = np.zeros(4, np.int32), np.full(8, -1, np.int32)
    launch(kernel(HISTOGRAM), [x, counts, last], {})
    np.testing.assert_array_equal(counts, [3, 12, 3, 0])
    np.testing.assert_array_equal(last, [8, 9, 2, 2, 10, 11, 0, 0])


def test_compare_and_swap_looks_at_bits():
    text = """func @cas(%x: ptr<f32>) {
      %i = block.arange() {end = 3, start = 0} : tile<3xi64>
      %zero = block.const() {elem = f32, shape = [3], value = 0.0} : tile<3xf32>
      %one = block.const() {elem = f32, shape = [3], value = 1.0} : tile<3xf32>
      %old = block.atomic_cas(%x, %i, %zero, %one) : tile<3xf32>
      return(%old)
    }"""
    x = np.array([0.0, -0.0, 2.0], np.float32)
    (old,) = run_program(kernel(text), [x], {}, 0)
    np.testing.assert_array_equal(x, [1, 0, 2])
    assert np.signbit(old[1])


SHOW = """func @show(%v: i32, %x: f32) {debug = true, grid = [1, 2]} {
  %t = block.arange() {elem = i32, end = 1, start = -1} : tile<2xi32>
  block.print(%v, %x) {text = "v = %ld, x = %5.2f, 100%%"}
  block.print(%t, %t, %v) {text = "%d %x of %d"}
  return()
}"""


def test_lines_name_the_program_and_the_element():
    lines = []
    launch(kernel(SHOW), [], {"v": 7, "x": 1.5}, out=lines.append)
    assert lines[:3] == [
        "(0, 0, 0) v = 7, x =  1.50, 100%",
        "(0, 0, 0) [0] -1 ffffffffffffffff of 7",
        "(0, 0, 0) [1] 0 0 of 7",
    ]
    assert lines[3] == "(0, 1, 0) v = 7, x =  1.50, 100%"
    launch(kernel(SHOW.replace("debug = true, ", "")), [], {"v": 7, "x": 1.5}, out=lines.append)
    assert len(lines) == 6


def test_assertions():
    text = """func @f(%n: i32) {debug = true} {
      %i = block.arange() {elem = i32, end = 4, start = 0} : tile<4xi32>
      %n4 = block.splat(%n) {shape = [4]} : tile<4xi32>
      %small = block.lt(%i, %n4) : tile<4xbool>
      block.assert(%small) {message = "all are below n"}
      return()
    }"""
    launch(kernel(text), [], {"n": 4})
    with pytest.raises(GraphfuseError, match=r"assertion failed at \[2\]: all are below n") as e:
        launch(kernel(text), [], {"n": 2})
    assert e.value.loc.line == 5
    launch(kernel(text.replace("{debug = true} ", "")), [], {"n": 2})


def test_promises_are_checked():
    text = """func @f(%n: i32) {
      %m = block.assume(%n) {multiple_of = 8} : i32
      return(%m)
    }"""
    assert run_program(kernel(text), [], {"n": 16}, 0) == (16,)
    with pytest.raises(GraphfuseError, match="12 is no multiple of 8"):
        run_program(kernel(text), [], {"n": 12}, 0)


def test_extremes_and_nan():
    text = """func @f(%p: ptr<f32>) {
      %z = block.const() {elem = i64, value = 0} : i64
      %x = block.load_view(%p, %z) {shape = [3, 4], strides = [4, 1]} : tile<3x4xf32>
      %max = block.reduce(%x) {axis = 1, kind = "max"} : tile<3xf32>
      %num = block.reduce(%x) {axis = 1, kind = "maxnum"} : tile<3xf32>
      %low = block.reduce(%x) {axis = 1, kind = "minnum"} : tile<3xf32>
      %at = block.arg_reduce(%x) {axis = 1, kind = "max"} : tile<3xi64>
      return(%max, %num, %low, %at)
    }"""
    nan = np.nan
    x = np.array([[1, 3, 3, 2], [1, nan, 5, nan], [nan, nan, nan, nan]], np.float32)
    top, num, low, at = run_program(kernel(text), [x], {}, 0)
    np.testing.assert_array_equal(top, [3, nan, nan])
    np.testing.assert_array_equal(num, [3, 5, nan])
    np.testing.assert_array_equal(low, [1, 1, nan])
    np.testing.assert_array_equal(at, [1, 1, 0])
