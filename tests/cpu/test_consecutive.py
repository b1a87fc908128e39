"""Loads and stores at computed offsets: vectors where those follow one another, else lane by lane."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.cpu.lower import emit_assembly, lower
from graphfuse.interp.block import launch
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.parser import parse
from graphfuse.ir.types import scalar
from graphfuse.targets import Target
from tests.cpu.test_programs import Native
from tests.machine import host_and

TARGETS = host_and("cpu:x86-64", "cpu:haswell", "cpu:skylake-avx512")
COPY = """
func @copy(%a: ptr<{elem}>, %b: ptr<{elem}>, %n: i64) {{grid = 2}} {{
  %p = block.program_id() : i64
  %l = block.arange() {{end = 20, start = 0}} : tile<20xi64>
  %r = block.arange() {{end = 2, start = 0}} : tile<2xi64>
  %l1 = block.reshape(%l) {{shape = [1, 20]}} : tile<1x20xi64>
  %r1 = block.reshape(%r) {{shape = [2, 1]}} : tile<2x1xi64>
  %l2 = block.broadcast(%l1) {{shape = [2, 20]}} : tile<2x20xi64>
  %r2 = block.broadcast(%r1) {{shape = [2, 20]}} : tile<2x20xi64>
  %from = block.index(%l2, %r2, %p) {{expr = ({expr}), names = ["l", "r", "p"]}} : tile<2x20xi64>
  %to = block.index(%l2, %r2, %p) {{expr = (l + 20*r + 40*p), names = ["l", "r", "p"]}} : tile<2x20xi64>
  %z = block.const() {{elem = i64, value = 0}} : i64
  %zero = block.splat(%z) {{shape = [2, 20]}} : tile<2x20xi64>
  %end = block.splat(%n) {{shape = [2, 20]}} : tile<2x20xi64>
  %low = block.ge(%from, %zero) : tile<2x20xbool>
  %high = block.lt(%from, %end) : tile<2x20xbool>
  %in = block.and(%low, %high) : tile<2x20xbool>
  %x = block.load(%a, %from, %in) {{other = {other}}} : tile<2x20x{elem}>
  block.store(%b, %to, %x{mask})
  return()
}}
"""
EXPRESSIONS = {
    "l + 21*r + 40*p - 3": True,
    "l + floordiv(r + p, 2) - 3": True,
    "2*l + r + 3*p": False,
    "floordiv(l, 2) + 3*r": False,
    "20*p + r - 4": False,
}


def text(elem: str, expr: str, *, masked: bool = False) -> str:
    return COPY.format(elem=elem, expr=expr, other="1.5" if "f" in elem else "7", mask=", %in" if masked else "")


@pytest.mark.some(80)
@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("elem", ["f32", "f16", "u8", "i64"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("expr", EXPRESSIONS)
def test_what_is_outside_is_not_touched(expr: str, masked: bool, elem: str, target: Target) -> None:
    a = np.arange(1, 41).astype(numpy_dtype(scalar(elem)))
    expected, native = (np.zeros(80, a.dtype) for _ in range(2))
    made = text(elem, expr, masked=masked)
    launch(parse(made), [a, expected], {"n": 40})
    Native(made, target).run([a, native], {"n": 40}, (2,))
    np.testing.assert_array_equal(native, expected)


@pytest.mark.parametrize("expr", EXPRESSIONS)
def test_which_are_vectors(expr: str) -> None:
    made = emit_assembly(lower([parse(text("f32", expr))], Target.parse("cpu:skylake-avx512")))
    assert ("gather" not in made) == EXPRESSIONS[expr]
    assert "scatter" not in made


NARROW = """
func @k(%a: ptr<{elem}>, %b: ptr<{elem}>) {{grid = 3}} {{
  %p = block.program_id() : i64
  %from = block.index(%p) {{expr = ({lanes}*p), names = ["p"]}} : i64
  %x = block.load_view(%a, %from) {{shape = [{lanes}], strides = [1]}} : tile<{lanes}x{elem}>
  block.store_view(%b, %from, %x) {{strides = [1]}}
  return()
}}
"""


@pytest.mark.some(57)
@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("elem", ["f32", "f16", "u8", "i64", "bool"])
@pytest.mark.parametrize("lanes", [3, 5, 6, 7, 11, 29])
def test_short_rows_are_stored_by_whole_vectors(lanes: int, elem: str, target: Target) -> None:
    a = (np.arange(4 * lanes) % 3).astype(numpy_dtype(scalar(elem)))
    b, made = np.ones_like(a), NARROW.format(elem=elem, lanes=lanes)
    Native(made, target).run([a, b], {}, (3,))
    np.testing.assert_array_equal(b, np.concatenate([a[: 3 * lanes], np.ones(lanes, a.dtype)]))
    if (str(target), elem) == ("cpu:haswell", "f32"):
        stores = [
            s for s in emit_assembly(lower([parse(made)], target)).splitlines() if "maskmov" in s and "), %" not in s
        ]
        assert not stores
