"""Conversions that are not made, or made elsewhere: on the emulator beside the interpreter, and counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphfuse.codegen.expand import expand
from graphfuse.dialects import control, gpu
from graphfuse.gpu.pipeline import transformed
from graphfuse.gpu.transforms.assign_layouts import assign_layouts
from graphfuse.gpu.transforms.coalesce import coalesce
from graphfuse.gpu.transforms.rematerialise import conversion, rematerialise, tile_of
from graphfuse.ir.core import walk
from graphfuse.ir.parser import parse, parse_module
from graphfuse.ir.printer import module_text
from graphfuse.ir.types import Ptr
from tests.gpu.launching import SM_80, check, numbers
from tests.gpu.sweep_cases import SweepCase
from tests.gpu.test_sweep import block_function

FILES = ("rematerialise", "remove_conversions")
ELEMENTS = 64 * 64 * 4
EXAMPLES = {
    f"{name}-{func.name}": func
    for name in FILES
    for func in parse_module(Path(__file__).with_name(f"{name}.gf").read_text().split("// -----\n")[0])
}


def routes(func):
    """How the conversions of a function move their tiles."""
    ops = [op for op in func.walk() if op.kind is gpu.convert_layout]
    return [conversion(op.operands[0], tile_of(op.result).layout).route for op in ops]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_on_the_emulator(name):
    func = EXAMPLES[name]
    rng = np.random.default_rng(0)
    pointers = [p.type for p in func.params if isinstance(p.type, Ptr)]
    if any(not isinstance(p.type, Ptr) and p.hint not in func.ranges for p in func.params):
        pytest.skip("takes a scalar")
    symbols = {n: min(3, high) for n, (_, high) in func.ranges.items()}
    inputs = [numbers(rng, ELEMENTS, t.elem.name) for t in pointers[:-1]]
    stored = max(tile_of(op.operands[2]).elements for op in func.walk() if op.kind.name == "block.store_view")
    check(module_text([func]), inputs, [((stored,), pointers[-1].elem.name)], symbols=symbols)


QUERIES = """
func @f(%q: ptr<f16>, %k: ptr<f16>, %o: ptr<f32>, %n: i64) {grid = 1, warps = 4, stages = 1} dims (n in 0..8) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %none = block.const() {elem = f32, shape = [64, 32], value = 0.0} : tile<64x32xf32>
  %a = block.load_view(%q, %zero) {shape = [64, 32], strides = [32, 1]} : tile<64x32xf16>
  %r = for(%zero, %n, %none) {step = 1} do (%i: i64, %sum: tile<64x32xf32>) {
    %at = block.index(%i) {expr = (1024*i), names = ["i"]} : i64
    %b = block.load_view(%k, %at) {shape = [32, 32], strides = [1, 32]} : tile<32x32xf16>
    %d = block.dot(%a, %b, %sum) : tile<64x32xf32>
    yield(%d)
  } : tile<64x32xf32>
  block.store_view(%o, %zero, %r) {strides = [32, 1]}
  return()
}
"""


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_queries_are_converted_once(trips):
    """Not for each block of keys, which alone goes through shared memory in the loop."""
    made = transformed(parse(QUERIES), SM_80)
    (loop,) = (op for op in made.walk() if op.kind is control.for_)
    (inside,) = (op for op in walk(loop.body) if op.kind is gpu.convert_layout)
    assert tile_of(inside.result).shape == (32, 32)
    rng = np.random.default_rng(trips)
    inputs = [numbers(rng, n, "f16") for n in (64 * 32, 3 * 32 * 32)]
    report = check(QUERIES, inputs, [((64, 32), "f32")], symbols={"n": trips}, equal=near)
    assert report.instructions.get("bar.sync", 0) <= 4 * (1 + 2 * trips)


def near(a, b):
    """The order of sums differs."""
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_addresses_of_a_gather_stay_in_their_threads():
    """What a convolution computes of ranges alone is made again where that costs less than two barriers."""
    _, func = block_function(SweepCase("convolution", "u16", "plain", "symbolic", "sm_80"))
    moved = coalesce(assign_layouts(expand(func)))
    made = rematerialise(moved)
    assert routes(made).count("shared") <= routes(moved).count("shared") - 4
