"""Which stores of a loop must wait for those of the iteration before."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gpu.launching import check, compiled, numbers

LOOP = """
func @k(%x: ptr<f32>, %out: ptr<f32>) {grid = 1, warps = 2} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %end = block.const() {elem = i64, value = 5} : i64
  for(%zero, %end) do (%i: i64) {
    %from = block.index(%i) {expr = (128*i), names = ["i"]} : i64
    %to = block.index(%i) {expr = (TO), names = ["i"]} : i64
    %t = block.load_view(%x, %from) {shape = [128], strides = [1]} : tile<128xf32>
    block.store_view(%out, %to, %t) {strides = [STRIDE]}
    yield()
  }
  return()
}
"""


@pytest.mark.parametrize(
    ("to", "stride", "waits"),
    [
        ("128*i", 1, 0),
        ("512 - 128*i", 1, 0),
        ("124*i", 1, 1),
        ("127*i", 1, 2),
        ("64", 1, 1),
        ("i", 5, 1),
        ("640*i", 5, 0),
    ],
)
def test_only_stores_that_may_meet_wait(to: str, stride: int, waits: int) -> None:
    text = LOOP.replace("TO", to).replace("STRIDE", str(stride))
    ptx, _ = compiled(text)
    assert ptx.count("bar.sync") == waits
    written = np.zeros(5 * 128 * 5, bool)
    for i in range(5):
        start = eval(to, {"i": i})  # an expression of this file
        written[start : start + 128 * stride : stride] = True
    size = int(written.nonzero()[0].max()) + 1
    check(text, [numbers(np.random.default_rng(0), (640,), "f32")], [((size,), "f32")])


BRANCH = """
func @k(%x: ptr<f32>, %out: ptr<f32>, %n: i64) {grid = 1, warps = 2} dims (n in 0..2) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %t = block.load_view(%x, %zero) {shape = [128], strides = [1]} : tile<128xf32>
  %some = block.lt(%zero, %n) : bool
  if(%some) do () {
    block.store_view(%out, %zero, %t) {strides = [1]}
    yield()
  } do () {
    %s = block.neg(%t) : tile<128xf32>
    block.store_view(%out, %zero, %s) {strides = [1]}
    yield()
  }AFTER
  return()
}
"""
AFTER = """
  %one = block.const() {elem = i64, value = 1} : i64
  %again = block.load_view(%out, %one) {shape = [64], strides = [1]} : tile<64xf32>
  block.store_view(%out, %zero, %again) {strides = [1]}"""


@pytest.mark.parametrize(("after", "waits"), [("", 0), (AFTER, 2)])
@pytest.mark.parametrize("n", [0, 1])
def test_the_sides_of_a_branch_do_not_wait_for_each_other(after: str, waits: int, n: int) -> None:
    text = BRANCH.replace("AFTER", after)
    ptx, _ = compiled(text)
    assert ptx.count("bar.sync") == waits
    check(text, [numbers(np.random.default_rng(0), (128,), "f32")], [((128,), "f32")], symbols={"n": n})
