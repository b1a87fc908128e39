"""Bytes that are stored in any case are widened where they are read, not stored a second time four times as large."""

from __future__ import annotations

from graphfuse.dialects import graph
from graphfuse.fusion.regions.outline import outline
from graphfuse.ir.core import Func, Op
from graphfuse.ir.parser import parse

BLOCK = """
func @f(%x: tensor<6x8xu8>, %w: tensor<8x8xi8>, %v: tensor<8x8xi8>) {{
  %a = graph.contract(%x, %w) {{elem = i32, spec = "mk,kn->mn"}} : tensor<6x8xi32>
  %b = graph.cast(%a) {{to = f32}} : tensor<6x8xf32>
  %q = graph.cast(%b) {{to = u8}} : tensor<6x8xu8>
  %i = graph.cast(%q) {{to = i32}} : tensor<6x8xi32>
  %z = graph.full() {{elem = i32, shape = [6, 8], value = 7}} : tensor<6x8xi32>
  %j = graph.sub(%i, %z) : tensor<6x8xi32>
  %d = graph.cast(%j) {{to = f32}} : tensor<6x8xf32>
  %s = graph.full() {{elem = f32, shape = [6, 8], value = 0.25}} : tensor<6x8xf32>
  %e = graph.mul(%d, %s) : tensor<6x8xf32>
  {rest}
}}
"""
RESIDUAL = """%c = graph.contract(%q, %v) {elem = i32, spec = "mk,kn->mn"} : tensor<6x8xi32>
  %f = graph.cast(%c) {to = f32} : tensor<6x8xf32>
  %y = graph.add(%f, %e) : tensor<6x8xf32>
  return(%y)"""
ALONE = """%y = graph.exp(%e) : tensor<6x8xf32>
  return(%y)"""
BESIDE = """%y = graph.exp(%e) : tensor<6x8xf32>
  return(%y, %q)"""


def regions(rest: str) -> list[Op]:
    func: Func = outline(parse(BLOCK.format(rest=rest)))[0]
    return [op for op in func.walk() if op.kind is graph.region]


def test_a_residual_is_read_as_bytes() -> None:
    first, second = regions(RESIDUAL)
    assert [str(t) for t in first.types] == ["tensor<6x8xu8>"]
    assert [str(t) for t in second.types] == ["tensor<6x8xf32>"]
    assert first.result in second.operands


def test_bytes_that_nothing_stores_stay_in_registers() -> None:
    (only,) = regions(ALONE)
    assert [str(t) for t in only.types] == ["tensor<6x8xf32>"]


def test_what_goes_on_in_the_same_kernel_stays_there() -> None:
    (only,) = regions(BESIDE)
    assert sorted(str(t) for t in only.types) == ["tensor<6x8xf32>", "tensor<6x8xu8>"]
