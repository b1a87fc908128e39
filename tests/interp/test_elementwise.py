"""What the shared functions give is the same on every processor: numpy's vector code and its scalar code differ."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graphfuse.interp import elementwise as ew
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.types import scalar

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, of NaN and overflow
SIGNALLING = {
    "f16": np.array([0x7C01, 0xFDFF], np.uint16),
    "bf16": np.array([0x7F81, 0xFFBF], np.uint16),
    "f32": np.array([0x7F800001, 0xFFBFFFFF], np.uint32),
    "f64": np.array([0x7FF0000000000001, 0xFFF7FFFFFFFFFFFF], np.uint64),
}
ALONE = [n for n in ew.TRANSCENDENTAL if hasattr(math, n) and n not in ("pow", "atan2", "hypot")]
"""Functions of one operand that the C library has."""


@pytest.mark.parametrize("elem", SIGNALLING)
def test_powers_of_signalling_nan(elem):
    nan = SIGNALLING[elem].view(numpy_dtype(scalar(elem)))
    one, zero = np.ones_like(nan), np.zeros_like(nan)
    assert (ew.apply("pow", nan, zero) == 1).all()
    assert (ew.apply("pow", one, nan) == 1).all()
    assert np.isnan(ew.apply("pow", nan, one).astype(np.float64)).all()


@pytest.mark.parametrize("name", ALONE)
def test_functions_of_every_half_are_those_of_the_c_library(name):
    """Bit by bit: a few units in the last place of f64 are never seen in f16."""
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    x = x[np.isfinite(x)]
    want = np.array([value(getattr(math, name), v) for v in x.tolist()])
    known = ~np.isnan(want)
    got, want = ew.apply(name, x), want.astype(np.float16)
    np.testing.assert_array_equal(got.view(np.uint16)[known], want.view(np.uint16)[known])


def value(function, x):
    """NaN where Python raises for a pole or overflow."""
    try:
        return function(x)
    except (ValueError, OverflowError):
        return math.nan


@pytest.mark.parametrize("name", ["log", "log2", "asin", "acos", "acosh", "atanh"])
@pytest.mark.parametrize("elem", ["f16", "f32", "f64", "f4e2m1"])
def test_every_nan_is_the_same(name, elem):
    """In a type without NaN it becomes a zero, whose sign would be NaN's."""
    dtype = numpy_dtype(scalar(elem))
    x = np.full(31, -6.0).astype(dtype)  # enough for vectors and a rest
    want = np.full(31, np.nan).astype(dtype)
    assert ew.apply(name, x).tobytes() == want.tobytes()
