"""Sorting across registers, lanes and warps."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.types import Scalar
from tests.gpu.launching import SM_80, SM_90A, check

SORT = """
func @k(PARAMS, OUTS) {grid = 1, warps = WARPS} {
  %zero = block.const() {elem = i64, value = 0} : i64
  LOADS
  RESULTS = block.sort(KEYS) {axis = AXIS, count = COUNT, falling = FALLING} : TYPES
  STORES
  return()
}
"""


def run(shape, axis, *, elems=("i32",), count=None, warps=4, falling=False, few=0, target=SM_90A):
    """The emulator's result is the interpreter's."""
    count = count or shape[axis]
    short = tuple(count if i == axis else n for i, n in enumerate(shape))

    def strides(dims):
        return ", ".join(str(int(np.prod(dims[i + 1 :]))) for i in range(len(dims)))

    def tile(dims, elem):
        return f"tile<{'x'.join(map(str, dims))}x{elem}>"

    numbered = list(enumerate(elems))
    words = {
        "PARAMS": ", ".join(f"%x{i}: ptr<{e}>" for i, e in numbered), "WARPS": warps, "AXIS": axis, "COUNT": count,
        "OUTS": ", ".join(f"%o{i}: ptr<{e}>" for i, e in numbered), "FALLING": str(falling).lower(),
        "LOADS": "\n".join(
            f"%t{i} = block.load_view(%x{i}, %zero) {{shape = {list(shape)}, strides = [{strides(shape)}]}}"
            f" : {tile(shape, e)}" for i, e in numbered),
        "RESULTS": ", ".join(f"%s{i}" for i, _ in numbered), "KEYS": ", ".join(f"%t{i}" for i, _ in numbered),
        "TYPES": ", ".join(tile(short, e) for e in elems),
        "STORES": "\n".join(
            f"block.store_view(%o{i}, %zero, %s{i}) {{strides = [{strides(short)}]}}" for i, _ in numbered),
    }  # fmt: skip
    text = SORT
    for word, value in words.items():
        text = text.replace(word, str(value))
    rng = np.random.default_rng(0)
    inputs = []
    for n, elem in numbered:
        low, high = Scalar(elem).limits
        wide = rng.integers(low, high, shape, dtype=np.int64, endpoint=True)
        inputs.append((wide % few if few and not n else wide).astype(numpy_dtype(Scalar(elem))))
    return check(text, inputs, [(short, e) for e in elems], target=target)


@pytest.mark.some(10)
@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((1024,), 0), ((64,), 0), ((16,), 0), ((2,), 0), ((1, 1), 1), ((8, 64), 1), ((64, 8), 0), ((2, 8, 32), 1),
     ((32, 16), 1), ((1024, 2), 0)],
)  # fmt: skip
def test_shapes(shape, axis, warps) -> None:
    run(shape, axis, warps=warps)


@pytest.mark.some(10)
@pytest.mark.parametrize("count", [1, 2, 16, 64, 512])
@pytest.mark.parametrize(
    ("shape", "axis", "warps"), [((2048,), 0, 4), ((4, 512), 1, 2), ((512, 4), 0, 8), ((512,), 0, 16)]
)
def test_the_least(shape, axis, warps, count) -> None:
    run(shape, axis, count=count, warps=warps)
    run(shape, axis, count=count, warps=warps, falling=True, target=SM_80)


@pytest.mark.parametrize("elems", [("i64",), ("i64", "i32"), ("i32", "i64", "i32")])
def test_later_keys_decide_where_those_before_are_equal(elems) -> None:
    run((256,), 0, elems=elems, few=5, warps=2)
    run((4, 64), 1, elems=elems, few=3, count=8, warps=1, falling=True)


def test_a_long_line_goes_through_memory_without_conflicts() -> None:
    report = run((8192,), 0, warps=16)
    assert not report.uncoalesced
    assert not report.conflicts
