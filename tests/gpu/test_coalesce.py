"""Loads and stores each in the layout that memory likes, with conversions between."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.gpu.pipeline import transformed
from graphfuse.ir.parser import parse
from graphfuse.ir.printer import to_text
from tests.gpu.launching import SM_90A, check, numbers

TRANSPOSE = """
func @k(%x: ptr<ELEM>, %out: ptr<ELEM>) {grid = 6, warps = 4} {
  %p = block.program_id() : i64
  %from = block.index(%p) {expr = (64*mod(p, 2) + 8192*floordiv(p, 2)), names = ["p"]} : i64
  %to = block.index(%p) {expr = (12288*mod(p, 2) + 64*floordiv(p, 2)), names = ["p"]} : i64
  %t = block.load_view(%x, %from) {shape = [64, 64], strides = [1, 128]} : tile<64x64xELEM>
  block.store_view(%out, %to, %t) {strides = [192, 1]}
  return()
}
"""
BOTH_WAYS = """
func @k(%x: ptr<f32>, %y: ptr<f32>, %out: ptr<f32>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {shape = [64, 64], strides = [64, 1]} : tile<64x64xf32>
  %b = block.load_view(%y, %zero) {shape = [64, 64], strides = [1, 64]} : tile<64x64xf32>
  %s = block.add(%a, %b) : tile<64x64xf32>
  block.store_view(%out, %zero, %s) {strides = [64, 1]}
  return()
}
"""


@pytest.mark.parametrize("elem", ["f32", "f16", "u8", "i64"])
def test_a_transposition_reads_and_writes_whole_sectors(elem: str) -> None:
    x = numbers(np.random.default_rng(0), (192, 128), elem)
    report = check(TRANSPOSE.replace("ELEM", elem), [x], [((128, 192), elem)], target=SM_90A)
    assert not report.uncoalesced
    assert not report.conflicts


def test_two_directions_meet() -> None:
    rng = np.random.default_rng(0)
    report = check(BOTH_WAYS, [numbers(rng, (64, 64), "f32") for _ in "xy"], [((64, 64), "f32")], target=SM_90A)
    assert not report.uncoalesced


def test_one_direction_converts_nothing() -> None:
    text = to_text(transformed(parse(BOTH_WAYS.replace("[1, 64]", "[64, 1]")), SM_90A))
    assert "convert_layout" not in text
