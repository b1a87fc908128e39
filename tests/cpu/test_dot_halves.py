"""Products of halves: bf16 in pairs where there is an instruction for it, else widened once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphfuse.cpu.lower import emit_assembly, lower
from graphfuse.interp.block import launch
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.parser import parse
from graphfuse.ir.types import scalar
from graphfuse.targets import Target
from tests.cpu.test_programs import Native
from tests.machine import HOST, host_and

TARGETS = host_and("cpu:x86-64", "cpu:haswell", "cpu:skylake-avx512", "cpu:znver4")
SIZES = ((1, 32, 37), (3, 8, 5), (3, 3, 2), (14, 40, 16), (14, 32, 1))
TILE = """
func @product(%a: ptr<{a}>, %b: ptr<{b}>, %c: ptr<f32>, %rows: i64, %depth: i64) {{grid = 1}} {{
  %z = block.const() {{elem = i64, value = 0}} : i64
  %acc = block.load_view(%c, %z) {{shape = [{m}, {n}], strides = [{n}, 1]}} : tile<{m}x{n}xf32>
  %x = block.load_view(%a, %z{limits}) {{{limited}shape = [{m}, {k}], strides = {strides}}} : tile<{m}x{k}x{a}>
  %y = block.load_view(%b, %z) {{shape = [{k}, {n}], strides = [{n}, 1]}} : tile<{k}x{n}x{b}>
  %d = block.dot(%x, %y, %acc) : tile<{m}x{n}xf32>
  block.store_view(%c, %z, %d) {{strides = [{n}, 1]}}
  return()
}}
"""


def tile(
    a: str, b: str, m: int = 3, n: int = 32, k: int = 6, *, turned: bool = False, limited: tuple[int, ...] = ()
) -> str:
    names = ", ".join(("%rows", "%depth")[d] for d in limited)
    return TILE.format(
        a=a, b=b, m=m, n=n, k=k, strides=[1, m] if turned else [k, 1],
        limits=f", {names}" if limited else "", limited=f"limited = {list(limited)}, " if limited else "",
    )  # fmt: skip


def both(text: str, target: Target, a: np.ndarray, b: np.ndarray, c: np.ndarray, **dims: int) -> list[np.ndarray]:
    """What the interpreter and the processor leave in `c`."""
    dims = {"rows": 0, "depth": 0} | dims
    expected, native = c.copy(), c.copy()
    launch(parse(text), [a, b, expected], dims)
    Native(text, target).run([a, b, native], dims, (1,))
    return [expected, native]


@pytest.mark.some(20)
@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize(("a", "b"), [("bf16", "bf16"), ("f16", "f16"), ("bf16", "f16"), ("f8e4m3", "bf16")])
@pytest.mark.parametrize("turned", [False, True])
def test_sums_are_of_exact_products(a: str, b: str, turned: bool, target: Target) -> None:
    rng = np.random.default_rng(0)
    for m, n, k in SIZES:
        left, right = (rng.standard_normal(size).astype(numpy_dtype(scalar(e))) for size, e in ((m * k, a), (k * n, b)))
        start = rng.standard_normal(m * n).astype(np.float32)
        expected, native = both(tile(a, b, m, n, k, turned=turned), target, left, right, start)
        np.testing.assert_allclose(native, expected, rtol=1e-5, atol=2e-6 * k, err_msg=f"{m}x{n}x{k}")


@pytest.mark.parametrize("elem", ["bf16", "f16"])
@pytest.mark.parametrize("limited", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("turned", [False, True])
def test_what_is_past_a_limit_is_not_read(elem: str, limited: tuple[int, ...], turned: bool) -> None:
    m, n, k, rows, depth = 5, 32, 19, 3, 13
    rng = np.random.default_rng(0)
    left = rng.standard_normal((m, k)).astype(numpy_dtype(scalar(elem)))
    if 0 in limited:
        left[rows:] = np.nan
    if 1 in limited:
        left[:, depth:] = np.nan
    given = np.ascontiguousarray(left.T if turned else left).reshape(-1)
    right = rng.standard_normal(k * n).astype(given.dtype)
    text = tile(elem, elem, m, n, k, turned=turned, limited=limited)
    expected, native = both(text, HOST, given, right, np.zeros(m * n, np.float32), rows=rows, depth=depth)
    np.testing.assert_allclose(native, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "elem", "pairs"),
    [
        ("cpu:znver4", "bf16", True),
        ("cpu:sapphirerapids", "bf16", False),
        ("cpu:znver4", "f16", False),
        ("cpu:skylake-avx512", "bf16", False),
        ("cpu:haswell", "bf16", False),
    ],
)
def test_which_instruction(name: str, elem: str, pairs: bool) -> None:
    func = parse(tile(elem, elem))
    text = emit_assembly(lower([func], Target.parse(name)))
    assert ("\tvdpbf16ps\t" in text) == pairs
    strict = replace(func, attrs={**func.attrs, "numerics": "strict"})
    assert "vdpbf16ps" not in emit_assembly(lower([strict], Target.parse(name)))


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_subnormal_factors_count_if_strict(target: Target) -> None:
    text = tile("bf16", "bf16", 1, 8, 2).replace("grid = 1", 'grid = 1, numerics = "strict"')
    elem = numpy_dtype(scalar("bf16"))
    left, right = np.full(2, 1e-39, elem), np.full(2 * 8, 1.0, elem)
    expected, native = both(text, target, left, right, np.zeros(8, np.float32))
    np.testing.assert_array_equal(native, expected)
    assert (native > 0).all()
