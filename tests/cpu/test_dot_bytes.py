"""`block.dot_bytes`: the bytes of words multiplied and added, by the one instruction, by pairs, and one by one."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.interp.block import launch
from graphfuse.ir.parser import parse
from graphfuse.targets import Target
from tests.cpu.test_programs import Native
from tests.machine import host_and

TARGETS = host_and("cpu:x86-64", "cpu:haswell", "cpu:skylake-avx512", "cpu:sapphirerapids")
TEXT = """
func @f(%a: ptr<i32>, %b: ptr<i32>, %c: ptr<i32>) {{grid = 1}} {{
  %z = block.const() {{elem = i64, value = 0}} : i64
  %x = block.load_view(%a, %z) {{shape = [{n}], strides = [1]}} : tile<{n}xi32>
  %w = block.load(%b, %z) : i32
  %y = block.splat(%w) {{shape = [{n}]}} : tile<{n}xi32>
  %s = block.load_view(%c, %z) {{shape = [{n}], strides = [1]}} : tile<{n}xi32>
  %d = block.dot_bytes(%x, %y, %s) {{bits = {bits}}} : tile<{n}xi32>
  block.store_view(%c, %z, %d) {{strides = [1]}}
  return()
}}
"""


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("n", [1, 5, 16, 40])
@pytest.mark.parametrize("bits", [4, 7, 8])
def test_sums_are_exact_and_wrap(bits: int, n: int, target: Target) -> None:
    rng = np.random.default_rng(n)
    for extreme in (False, True):
        left = np.full((n, 4), (1 << bits) - 1, np.uint8) if extreme else rng.integers(0, 1 << bits, (n, 4), np.uint8)
        right = np.full(4, -128, np.int8) if extreme else rng.integers(-128, 128, 4).astype(np.int8)
        start = np.full(n, -(1 << 31), np.int32) if extreme else rng.integers(-999, 999, n).astype(np.int32)
        want = (start + left.astype(np.int64) @ right.astype(np.int64)).astype(np.int32)
        expected, native = start.copy(), start.copy()
        given = [left.view(np.int32).reshape(-1), right.view(np.int32)]
        launch(parse(TEXT.format(n=n, bits=bits)), [*given, expected], {})
        Native(TEXT.format(n=n, bits=bits), target).run([*given, native], {}, (1,))
        np.testing.assert_array_equal(expected, want)
        np.testing.assert_array_equal(native, want)
