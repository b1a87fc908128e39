"""Running sums across registers, lanes and warps."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from graphfuse.gpu.transforms.scan_layouts import owners, scan_layout
from tests.gpu.launching import SM_80, SM_90A, check, numbers

SCAN = """
func @k(%x: ptr<ELEM>, %out: ptr<ELEM>) {grid = 1, warps = WARPS} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %t = block.load_view(%x, %zero) {shape = [SHAPE], strides = [STRIDES]} : tile<TILExELEM>
  %s = block.scan(%t) {axis = AXIS, exclusive = EXCLUSIVE, kind = "KIND"} : tile<TILExELEM>
  block.store_view(%out, %zero, %s) {strides = [STRIDES]}
  return()
}
"""
CLOSE = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-3)


def run(shape, axis, *, elem="f32", kind="sum", warps=4, exclusive=False, equal=CLOSE, target=SM_90A):
    """The emulator's result is the interpreter's; the report of the launch."""
    strides = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    words = {
        "ELEM": elem, "WARPS": warps, "SHAPE": ", ".join(map(str, shape)), "STRIDES": ", ".join(map(str, strides)),
        "TILE": "x".join(map(str, shape)), "AXIS": axis, "EXCLUSIVE": str(exclusive).lower(), "KIND": kind,
    }  # fmt: skip
    text = SCAN
    for word, value in words.items():
        text = text.replace(word, str(value))
    return check(text, [numbers(np.random.default_rng(0), shape, elem)], [(shape, elem)], equal=equal, target=target)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis", "warps"),
    [
        ((1024,), 0, 4), ((8192,), 0, 16), ((64,), 0, 1), ((16,), 0, 2), ((100,), 0, 4), ((3000,), 0, 8),
        ((8, 64), 1, 4), ((64, 8), 0, 4), ((4, 512), 1, 4), ((32, 33), 0, 4), ((2, 8, 32), 1, 2), ((1, 2), 1, 1),
    ],
)  # fmt: skip
def test_shapes(shape, axis, warps, exclusive) -> None:
    run(shape, axis, warps=warps, exclusive=exclusive)


@pytest.mark.some(23)
@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min", "logaddexp"])
@pytest.mark.parametrize("elem", ["i8", "u8", "i32", "i64", "u64", "f16", "bf16", "f32", "f64"])
def test_elements(elem, kind) -> None:
    if kind == "logaddexp" and elem[0] in "iu":
        return
    close = functools.partial(np.testing.assert_allclose, rtol=1e-2, atol=1e-2)
    exact = elem[0] in "iu" or kind in ("max", "min")
    equal = np.testing.assert_array_equal if exact else lambda a, b: close(a.astype(float), b.astype(float))
    run((300,), 0, elem=elem, kind=kind, equal=equal, target=SM_80)


def test_a_line_is_read_and_written_in_whole_sectors() -> None:
    report = run((8192,), 0, warps=16)
    assert not report.uncoalesced
    assert not report.conflicts


@pytest.mark.parametrize("shape", [(4096,), (16, 64), (64, 16), (1, 8), (2, 2, 2)])
@pytest.mark.parametrize("warps", [1, 4, 32])
def test_layouts_hold_every_element(shape, warps) -> None:
    for axis in range(len(shape)):
        layout = scan_layout(shape, axis, 1, warps)
        assert layout.is_surjective
        assert layout.shape == shape
        assert owners(layout, axis) is not None
