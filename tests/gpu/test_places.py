"""Integers whose bounds are known are computed in 32 bits on a GPU where they fit; numbers stay those of 64."""

from __future__ import annotations

import random

import numpy as np
import pytest

from graphfuse.codegen.narrow import bounds_of
from graphfuse.gpu.emulator import Buffer
from graphfuse.interp.block import launch
from graphfuse.ir.parser import parse
from tests.gpu.launching import compiled, emulate

NUMBERS = (-(1 << 63), -(1 << 32), -(1 << 31), -7, -1, 0, 1, 3, 44, (1 << 31) - 1, 1 << 31, 1 << 62, (1 << 63) - 1)
TWO = ("add", "sub", "mul", "min", "max", "floordiv", "floormod")
TILE = "tile<32xi64>"


def chain(seed: int) -> str:
    """A kernel of random arithmetic on places and numbers, some of which wraps."""
    rng = random.Random(seed)
    lines = [f"%v0 = block.arange() {{end = 32, start = 0}} : {TILE}"]
    for i in range(1, 12):
        if i < 4:
            lines.append(f"%v{i} = block.const() {{elem = i64, shape = [32], value = {rng.choice(NUMBERS)}}} : {TILE}")
        elif rng.random() < 0.2:
            a, b, c = (f"%v{rng.randrange(i)}" for _ in range(3))
            lines.append(f"%c{i} = block.lt({a}, {b}) : tile<32xbool>")
            lines.append(f"%v{i} = block.select(%c{i}, {c}, {a}) : {TILE}")
        elif rng.random() < 0.2:
            lines.append(f"%v{i} = block.{rng.choice(('neg', 'abs'))}(%v{rng.randrange(i)}) : {TILE}")
        else:
            a, b = (rng.randrange(max(0, i - 5), i) for _ in range(2))
            lines.append(f"%v{i} = block.{rng.choice(TWO)}(%v{a}, %v{b}) : {TILE}")
    lines.append("block.store(%y, %v0, %v11)")
    return "func @kernel(%y: ptr<i64>) {grid = 1, warps = 1} {\n  " + "\n  ".join(lines) + "\n  return()\n}\n"


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, of what wraps
def test_random_arithmetic(seed: int) -> None:
    text = chain(seed)
    got, want = np.zeros(32, np.int64), np.zeros(32, np.int64)
    emulate(*compiled(text), [Buffer(got)])
    launch(parse(text), [want], {})
    np.testing.assert_array_equal(got, want, text)


def test_what_wraps_has_no_bounds() -> None:
    text = """func @kernel(%y: ptr<i64>) {grid = 1, warps = 1} {
  %c = block.const() {elem = i64, shape = [32], value = 4611686018427387904} : tile<32xi64>
  %f = block.const() {elem = i64, shape = [32], value = 5} : tile<32xi64>
  %i = block.arange() {end = 32, start = 0} : tile<32xi64>
  %s = block.add(%c, %c) : tile<32xi64>
  %m = block.min(%s, %f) : tile<32xi64>
  %d = block.add(%m, %i) : tile<32xi64>
  block.store(%y, %i, %d)
  return()
}
"""
    got = np.zeros(32, np.int64)
    emulate(*compiled(text), [Buffer(got)])
    np.testing.assert_array_equal(got, np.iinfo(np.int64).min + np.arange(32))


@pytest.mark.parametrize("name", [*TWO, "neg", "abs"])
def test_bounds_hold(name: str) -> None:
    """Of every pair of small ranges, every element."""
    ranges = [(-5, -2), (-3, 4), (0, 0), (0, 6), (2, 3), (1, 7)]
    functions = {
        "add": int.__add__, "sub": int.__sub__, "mul": int.__mul__, "min": min, "max": max,
        "floordiv": int.__floordiv__, "floormod": int.__mod__, "neg": int.__neg__, "abs": abs,
    }  # fmt: skip
    for a in ranges:
        for b in ranges if name in TWO else [()]:
            if (found := bounds_of(name, [a, b] if b else [a])) is None:
                assert name in ("floordiv", "floormod")
                assert b[0] < 1
                continue
            pairs = ((x, y) for x in range(a[0], a[1] + 1) for y in range(b[0], b[1] + 1)) if b else None
            values = (
                [functions[name](*p) for p in pairs] if pairs else [functions[name](x) for x in range(a[0], a[1] + 1)]
            )
            assert found[0] <= min(values)
            assert max(values) <= found[1]
