"""`block.dot_words`: two halves of k in each word, by AMX where it is, else as products of what is in each place."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.cpu.lower import emit_assembly, lower
from graphfuse.errors import VerifyError
from graphfuse.interp.block import launch
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.parser import parse
from graphfuse.ir.types import scalar
from graphfuse.ir.verifier import verify
from graphfuse.targets import Target
from tests.cpu.test_programs import Native
from tests.machine import host_and

TARGETS = host_and("cpu:x86-64", "cpu:haswell", "cpu:skylake-avx512", "cpu:sapphirerapids")
SHAPES = ((32, (16,), 32), (29, (45,), 32), (14, (23,), 16), (1, (1,), 5), (40, (3, 7), 48), (17, (2, 2, 20), 9))
TILE = """
func @product(%a: ptr<i32>, %b: ptr<i32>, %c: ptr<f32>) {{grid = 1}} {{
  %z = block.const() {{elem = i64, value = 0}} : i64
  %acc = {acc} : tile<{m}x{n}xf32>
  %x = block.load_view(%a, %z) {{shape = [{m}, {k}], strides = {lefts}}} : tile<{m}x{kx}xi32>
  %y = block.load_view(%b, %z) {{shape = [{k}, {n}], strides = {rights}}} : tile<{kx}x{n}xi32>
  %d = block.dot_words(%x, %y, %acc) {{elem = {elem}}} : tile<{m}x{n}xf32>
  block.store_view(%c, %z, %d) {{strides = [{n}, 1]}}
  return()
}}
"""


def kernel(m: int, ks: tuple[int, ...], n: int, elem: str, *, adds: bool, turned: bool = False) -> str:
    sizes = (m, *ks) if turned else ks
    steps = [int(np.prod(sizes[i + 1 :])) for i in range(len(sizes))]
    depth = int(np.prod(ks))
    lefts = [1, *(m * int(np.prod(ks[i + 1 :])) for i in range(len(ks)))] if turned else [depth, *steps]
    rights = [int(np.prod(ks[i + 1 :])) * n for i in range(len(ks))] + [1]
    loaded = f"block.load_view(%c, %z) {{shape = [{m}, {n}], strides = [{n}, 1]}}"
    acc = loaded if adds else f"block.const() {{elem = f32, shape = [{m}, {n}], value = 0.0}}"
    k, kx = ", ".join(map(str, ks)), "x".join(map(str, ks))
    return TILE.format(m=m, n=n, k=k, kx=kx, elem=elem, acc=acc, lefts=lefts, rights=rights)


@pytest.mark.some(16)
@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("elem", ["bf16", "f16"])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_sums_are_of_exact_products(elem: str, adds: bool, turned: bool, target: Target) -> None:
    rng = np.random.default_rng(0)
    dtype = numpy_dtype(scalar(elem))
    for m, ks, n in SHAPES:
        depth = int(np.prod(ks))
        left = rng.standard_normal((m, 2 * depth)).astype(dtype)
        right = rng.standard_normal((2 * depth, n)).astype(dtype)
        words = np.ascontiguousarray(right.reshape(depth, 2, n).transpose(0, 2, 1)).view(np.int32)[..., 0]
        rows = left.view(np.int32)
        given = [np.ascontiguousarray(x).reshape(-1) for x in (rows.T if turned else rows, words)]
        start = rng.standard_normal(m * n).astype(np.float32)
        text = kernel(m, ks, n, elem, adds=adds, turned=turned)
        exact = left.astype(np.float64) @ right.astype(np.float64) + (start.reshape(m, n) if adds else 0)
        expected, native = start.copy(), start.copy()
        launch(parse(text), [*given, expected], {})
        Native(text, target).run([*given, native], {}, (1,))
        for got in (expected, native):
            np.testing.assert_allclose(got.reshape(m, n), exact, rtol=1e-5, atol=2e-6 * depth, err_msg=f"{m}x{ks}x{n}")


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("columns", [2, 10, 16, 38])
def test_words_are_neighbours(columns: int, target: Target) -> None:
    text = f"""
    func @join(%x: ptr<bf16>, %y: ptr<i32>) {{grid = 1}} {{
      %z = block.const() {{elem = i64, value = 0}} : i64
      %t = block.load_view(%x, %z) {{shape = [3, {columns}], strides = [{columns}, 1]}} : tile<3x{columns}xbf16>
      %w = block.words(%t) : tile<3x{columns // 2}xi32>
      block.store_view(%y, %z, %w) {{strides = [{columns // 2}, 1]}}
      return()
    }}
    """
    halves = np.random.default_rng(0).standard_normal(3 * columns).astype(numpy_dtype(scalar("bf16")))
    expected, native = (np.zeros(3 * columns // 2, np.int32) for _ in range(2))
    launch(parse(text), [halves, expected], {})
    Native(text, target).run([halves, native], {}, (1,))
    for words in (expected, native):
        np.testing.assert_array_equal(words.view(np.uint16), halves.view(np.uint16))


def test_tiles_are_multiplied_and_released() -> None:
    text = kernel(29, (45,), 32, "bf16", adds=False)
    assembly = emit_assembly(lower([parse(text)], Target.parse("cpu:sapphirerapids")))
    assert "tdpbf16ps" in assembly
    assert assembly.count("tilerelease") == 1
    assert "tdpbf16ps" not in emit_assembly(lower([parse(text)], Target.parse("cpu:skylake-avx512")))


def test_what_is_no_product_of_words_is_refused() -> None:
    wide = (
        kernel(4, (3,), 5, "bf16", adds=False).replace("shape = [3, 5]", "shape = [3, 6]").replace("3x5xi32", "3x6xi32")
    )
    for text, message in ((kernel(4, (3,), 5, "f32", adds=False), "words"), (wide, "do not fit")):
        with pytest.raises(VerifyError, match=message):
            verify(parse(text))
