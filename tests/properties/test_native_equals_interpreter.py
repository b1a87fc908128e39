"""Random programs, compiled whole and run by the runtime, give the interpreter's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphfuse import compiler
from graphfuse.blockgen import loops
from graphfuse.blockgen.evaluate import Evaluator, neutral
from graphfuse.dialects import block
from graphfuse.fusion.regions import plan
from graphfuse.interp import elementwise as ew
from graphfuse.interp import graph as interp
from graphfuse.ir.core import Func
from graphfuse.ir.parser import parse
from graphfuse.ir.types import Tensor
from graphfuse.knobs import Options
from graphfuse.runtime.session import Session
from graphfuse.symbolic import evaluate
from tests.interp.inputs import random_array
from tests.machine import HOST
from tests.properties.fusion_programs import fusion_programs

Array = np.ndarray[Any, Any]
COMPILED = settings(max_examples=12, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))


def named(func: Func) -> Func:
    """With the names of inputs and outputs that a signature needs."""
    inputs = tuple(v.hint for v in func.params)
    outputs = tuple(f"out{i}" for i in range(len(func.outputs)))
    return Func(func.name, func.body, {"inputs": inputs, "outputs": outputs}, func.dims)


def inputs_of(func: Func, values: Mapping[str, int], seed: int = 0) -> list[Array]:
    """Random inputs at these symbol values."""
    rng = np.random.default_rng(seed)
    out: list[Array] = []
    for v in func.params:
        assert isinstance(v.type, Tensor)
        out.append(random_array(rng, tuple(evaluate(d, values) for d in v.type.shape), v.type.elem))
    return out


def native_equals_interpreter(text: str, sizes: Sequence[Mapping[str, int]], threads: int = 1) -> None:
    """Compile once, run at all sizes: errors are at most 64 times those of the interpreter's own order."""
    func = named(parse(text))
    with Session(compiler.build(func, HOST, Options()), threads) as session:
        for values in sizes:
            arrays = inputs_of(func, values)
            got = session.run(dict(zip(func.attrs["inputs"], arrays, strict=True)))  # type: ignore[arg-type]
            want = interp.run(func, *arrays, symbols=values)
            wide = interp.run(func, *(_widened(a) for a in arrays), wide=True, symbols=values)
            for g, w, e in zip(got.values(), want, wide, strict=True):
                assert_explained(g, w, e)


def _widened(array: Array) -> Array:
    return array.astype(np.float64) if ew.elem_of(array.dtype).is_float else array


def assert_explained(got: Array, want: Array, exact: Array) -> None:
    """Non-finite numbers in the same places; finite ones as near to f64 as rounding in another order allows."""
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if not ew.elem_of(want.dtype).is_float:
        np.testing.assert_array_equal(got, want)
        return
    finite = np.isfinite(exact) & np.isfinite(want)
    error = np.max(np.abs(want[finite] - exact[finite]), initial=0.0)
    limit = 64 * error + 2.0**-19 * np.max(np.abs(exact[finite]), initial=1.0)
    same = np.isfinite(want) & ~np.isfinite(exact)  # overflow that only f32 has
    np.testing.assert_array_equal(np.isnan(got)[~same], np.isnan(want)[~same])
    np.testing.assert_allclose(got[finite], want[finite], rtol=0, atol=limit)


@COMPILED
@given(fusion_programs(least=4, most=10))
def test_random_programs(text: str) -> None:
    native_equals_interpreter(text, [{"n": 1}, {"n": 5}, {"n": 8}])


@pytest.mark.full
@settings(COMPILED, max_examples=100)
@given(fusion_programs(least=6, most=20), st.integers(1, 4))
def test_many_random_programs(text: str, threads: int) -> None:
    native_equals_interpreter(text, [{"n": n} for n in (1, 2, 3, 7, 8)], threads)


LOOPS = {
    "lstm": """func @main(
  %x: tensor<(n)x2x6xf32>, %h: tensor<2x4xf32>, %c: tensor<2x4xf32>, %w: tensor<6x16xf32>, %r: tensor<4x16xf32>
) dims (n in 0..64) {
  %hn, %cn, %all = graph.loop(%h, %c) {count = (n), symbol = "t"} do (%h0: tensor<2x4xf32>, %c0: tensor<2x4xf32>) {
    %s = graph.slice(%x) {sizes = [1, 2, 6], starts = [(t), 0, 0], steps = [1, 1, 1]} : tensor<1x2x6xf32>
    %x0 = graph.reshape(%s) {shape = [2, 6]} : tensor<2x6xf32>
    %gx = graph.contract(%x0, %w) {spec = "mk,kn->mn"} : tensor<2x16xf32>
    %gh = graph.contract(%h0, %r) {spec = "mk,kn->mn"} : tensor<2x16xf32>
    %g = graph.add(%gx, %gh) : tensor<2x16xf32>
    %gi = graph.slice(%g) {sizes = [2, 4], starts = [0, 0], steps = [1, 1]} : tensor<2x4xf32>
    %gf = graph.slice(%g) {sizes = [2, 4], starts = [0, 4], steps = [1, 1]} : tensor<2x4xf32>
    %gc = graph.slice(%g) {sizes = [2, 4], starts = [0, 8], steps = [1, 1]} : tensor<2x4xf32>
    %go = graph.slice(%g) {sizes = [2, 4], starts = [0, 12], steps = [1, 1]} : tensor<2x4xf32>
    %i = graph.sigmoid(%gi) : tensor<2x4xf32>
    %f = graph.sigmoid(%gf) : tensor<2x4xf32>
    %u = graph.tanh(%gc) : tensor<2x4xf32>
    %o = graph.sigmoid(%go) : tensor<2x4xf32>
    %fc = graph.mul(%f, %c0) : tensor<2x4xf32>
    %iu = graph.mul(%i, %u) : tensor<2x4xf32>
    %c1 = graph.add(%fc, %iu) : tensor<2x4xf32>
    %tc = graph.tanh(%c1) : tensor<2x4xf32>
    %h1 = graph.mul(%o, %tc) : tensor<2x4xf32>
    yield(%h1, %c1, %h1)
  } : tensor<2x4xf32>, tensor<2x4xf32>, tensor<(n)x2x4xf32>
  %e = graph.exp(%all) : tensor<(n)x2x4xf32>
  return(%hn, %cn, %all, %e)
}
""",
    "carried values that change places": """func @main(
  %a: tensor<3x5xf32>, %b: tensor<3x5xf32>, %k: tensor<(n)xf32>
) dims (n in 0..64) {
  %p, %q, %d, %s = graph.loop(%a, %b, %a) {count = (n), symbol = "t"} do (
    %x: tensor<3x5xf32>, %y: tensor<3x5xf32>, %z: tensor<3x5xf32>
  ) {
    %u = graph.add(%x, %y) : tensor<3x5xf32>
    yield(%y, %x, %z, %u)
  } : tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>, tensor<(n)x3x5xf32>
  %m = graph.sub(%p, %q) : tensor<3x5xf32>
  return(%p, %q, %d, %s, %m)
}
""",
    "a loop in a loop": """func @main(%a: tensor<4xf32>, %k: tensor<(n)x4xf32>) dims (n in 0..64) {
  %e = graph.exp(%a) : tensor<4xf32>
  %r, %s = graph.loop(%e) {count = (n), symbol = "t"} do (%x: tensor<4xf32>) {
    %y, %h = graph.loop(%x) {count = 3, symbol = "u"} do (%z: tensor<4xf32>) {
      %i = graph.full() {elem = f32, shape = [4], value = (t + u)} : tensor<4xf32>
      %j = graph.add(%z, %i) : tensor<4xf32>
      %l = graph.mul(%j, %e) : tensor<4xf32>
      %v = graph.tanh(%l) : tensor<4xf32>
      yield(%v, %j)
    } : tensor<4xf32>, tensor<3x4xf32>
    %b = graph.slice(%k) {sizes = [1, 4], starts = [(t), 0], steps = [1, 1]} : tensor<1x4xf32>
    %c = graph.reshape(%b) {shape = [4]} : tensor<4xf32>
    %w = graph.add(%y, %c) : tensor<4xf32>
    yield(%w, %h)
  } : tensor<4xf32>, tensor<(n)x3x4xf32>
  %o = graph.reduce(%s) {axes = [0, 1, 2], kind = "sum"} : tensor<f32>
  return(%r, %s, %o, %e)
}
""",
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_at_every_count(name: str) -> None:
    """None, one, an even and an odd number of turns: carried values end in either half of their buffer."""
    native_equals_interpreter(LOOPS[name], [{"n": n} for n in (3, 0, 1, 2, 7, 0)], threads=2)


# planted bugs

MINIMUM = """func @main(%a: tensor<(n)x21xf32>) dims (n in 1..8) {
  %p = graph.abs(%a) : tensor<(n)x21xf32>
  %e = graph.exp(%p) : tensor<(n)x21xf32>
  %m = graph.reduce(%e) {axes = [1], kind = "min"} : tensor<(n)xf32>
  return(%m)
}
"""
TALL = """func @main(%a: tensor<(n)x21xf32>, %w: tensor<21x40xf32>) dims (n in 1..64) {
  %m = graph.contract(%a, %w) {spec = "mk,kn->mn"} : tensor<(n)x40xf32>
  return(%m)
}
"""


def bites(text: str, *sizes: int) -> None:
    with pytest.raises(AssertionError):
        native_equals_interpreter(text, [{"n": n} for n in sizes])


def test_the_law_finds_a_wrong_neutral_element(monkeypatch: pytest.MonkeyPatch) -> None:
    native_equals_interpreter(MINIMUM, [{"n": 3}])
    monkeypatch.setattr(loops, "neutral", lambda kind, elem: 0.0 if kind == "min" else neutral(kind, elem))
    bites(MINIMUM, 3)


def test_the_law_finds_a_missing_lane_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes past the end hold exp(0), which is less than any exp(|a|)."""
    monkeypatch.setattr(Evaluator, "live_lanes", lambda self: None)
    bites(MINIMUM, 3)


def test_the_law_finds_a_last_tile_moved_too_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that do not fill a tile: the last tile moves back, and one row further leaves the last one unwritten."""
    native_equals_interpreter(TALL, [{"n": 17}])
    real = Evaluator.bind

    def off_by_one(self: Any, hint: str, lo: Any, hi: Any, code: Any) -> Any:
        if hint == "m":
            one, zero = self.const(1, code.type), self.const(0, code.type)
            code = self.emit(block.max_, self.emit(block.sub, code, one), zero)
        return real(self, hint, lo, hi, code)

    monkeypatch.setattr(Evaluator, "bind", off_by_one)
    bites(TALL, 17)


def test_the_law_finds_halves_that_do_not_alternate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Carried values read and written in one place: the exchange of two values loses one."""
    monkeypatch.setattr(plan, "mod", lambda t, n: 0)
    bites(LOOPS["carried values that change places"], 3)
