"""Grids given at launch, flattened."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.blockopt.grid import AXES, flat_grid
from graphfuse.interp.block import launch
from graphfuse.ir.parser import parse
from graphfuse.ir.verifier import verify

WHERE = """
func @where(%out: ptr<i64>) {GRID} {
  %p = block.program_id() : i64
  %q = block.program_id() {axis = 1} : i64
  %r = block.program_id() {axis = 2} : i64
  %u = block.num_programs() : i64
  %v = block.num_programs() {axis = 1} : i64
  %at = block.index(%p, %q, %r, %u, %v) {expr = (((r*v) + q)*u + p), names = ["p", "q", "r", "u", "v"]} : i64
  %x = block.index(%p, %q, %r) {expr = (p + 100*q + 10000*r), names = ["p", "q", "r"]} : i64
  block.store(%out, %at, %x)
  return()
}
"""


@pytest.mark.parametrize("sizes", [(7,), (3, 5), (4, 3, 2), (1, 1, 6)])
def test_every_program_keeps_its_place(sizes: tuple[int, ...]) -> None:
    full = (*sizes, 1, 1)[:3]
    want, got = (np.full(int(np.prod(sizes)), -1) for _ in range(2))
    launch(parse(WHERE.replace("GRID", f"grid = {list(full)}")), [want], {})
    flat = flat_grid(parse(WHERE.replace(" {GRID}", "")), len(sizes))
    verify(flat)
    launch(flat, [got], dict(zip(AXES, sizes, strict=False)))
    np.testing.assert_array_equal(got, want)


SHOW = """
func @show(%n: i32) {debug = true} {
  %t = block.arange() {elem = i32, end = 2, start = 0} : tile<2xi32>
  %zero = block.const() {elem = i64, value = 0} : i64
  %one = block.const() {elem = i64, value = 1} : i64
  block.print(%n) {text = "%d"}
  for(%zero, %one) do (%k: i64) {
    block.print(%t, %n) {text = "%d of %d"}
    yield()
  }
  return()
}
"""


@pytest.mark.parametrize("sizes", [(3,), (1, 2), (2, 3), (2, 1, 2)])
def test_lines_name_the_program_by_the_grid_there_was(sizes: tuple[int, ...]) -> None:
    want: list[str] = []
    got: list[str] = []
    launch(parse(SHOW), [], {"n": 5}, grid=sizes, out=want.append)
    flat = flat_grid(parse(SHOW), len(sizes))
    verify(flat)
    launch(flat, [], {"n": 5, **dict(zip(AXES, sizes, strict=False))}, out=got.append)
    assert got == want
    assert got[-1] == f"({', '.join(str(s - 1) for s in (*sizes, 1, 1)[:3])}) [1] 1 of 5"


def test_a_grid_of_its_own_stays() -> None:
    func = parse(WHERE.replace("GRID", "grid = 3"))
    assert flat_grid(func, 2) is func
