"""Products of bytes in lanes of four: exact on every kind of processor, and by which instructions."""

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

TARGETS = host_and("cpu:x86-64", "cpu:haswell", "cpu:skylake-avx512", "cpu:icelake-server")
TILE = """
func @product(%a: ptr<{a}>, %b: ptr<{b}>, %c: ptr<i32>) {{grid = 1}} {{
  %z = block.const() {{elem = i64, value = 0}} : i64
  %acc = block.load_view(%c, %z) {{shape = [{m}, {n}], strides = [{n}, 1]}} : tile<{m}x{n}xi32>
  %x = block.load_view(%a, %z) {{shape = [{m}, {k}], strides = [{k}, 1]}} : tile<{m}x{k}x{a}>
  %y = block.load_view(%b, %z) {{shape = [{k}, {n}], strides = [1, 4]}} : tile<{k}x{n}x{b}>
  %d = block.dot(%x, %y, %acc) : tile<{m}x{n}xi32>
  block.store_view(%c, %z, %d) {{strides = [{n}, 1]}}
  return()
}}
"""


def tile(a: str, b: str, n: int = 32, m: int = 3, k: int = 4) -> str:
    return TILE.format(a=a, b=b, m=m, n=n, k=k)


def extremes(elem: str, count: int, seed: int) -> np.ndarray:
    """Mostly the ends of the range: sums of two products are past 16 bits."""
    info = np.iinfo(numpy_dtype(scalar(elem)))
    rng = np.random.default_rng(seed)
    ends = rng.choice([info.min, info.max], count)
    return np.where(rng.random(count) < 0.7, ends, rng.integers(info.min, info.max + 1, count)).astype(info.dtype)


@pytest.mark.some(10)
@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("a", ["u8", "i8"])
@pytest.mark.parametrize("b", ["u8", "i8"])
def test_products_are_exact_and_sums_wrap(a: str, b: str, target: Target) -> None:
    for n in (4, 8, 16, 32, 40, 3):  # whole vectors of several widths; the last is no whole one
        text = tile(a, b, n)
        left, right = extremes(a, 3 * 4, n), extremes(b, 4 * n, n + 1)
        native = np.full(3 * n, 2**31 - 60_000, np.int32)
        expected = native.copy()
        launch(parse(text), [left, right, expected], {})
        Native(text, target).run([left, right, native], {}, (1,))
        columns = right[: 4 * n].reshape(n, 4).astype(np.int64)
        sums = left.reshape(3, 4).astype(np.int64) @ columns.T + 2**31 - 60_000
        np.testing.assert_array_equal(native, sums.astype(np.int32).reshape(-1))
        np.testing.assert_array_equal(native, expected)


@pytest.mark.parametrize(
    ("name", "a", "instruction"),
    [
        ("cpu:znver4", "u8", "vpdpbusd"),
        ("cpu:cascadelake", "u8", "vpdpbusd"),
        ("cpu:znver4", "i8", "vpdpbusd"),
        ("cpu:skylake-avx512", "i8", "vpmaddwd"),
        ("cpu:haswell", "u8", "vpmaddwd"),
        ("cpu:x86-64", "u8", "pmaddwd"),
    ],
)
def test_which_instruction(name: str, a: str, instruction: str) -> None:
    text = emit_assembly(lower([parse(tile(a, "i8"))], Target.parse(name)))
    assert f"\t{instruction}\t" in text
    assert "pmaddubsw" not in text  # it saturates


def test_by_lanes_where_there_is_no_instruction() -> None:
    text = emit_assembly(lower([parse(tile("u8", "i8"))], Target.parse("cpu:neoverse-n1")))
    assert "\tmul\t" in text or "\tmla\t" in text
