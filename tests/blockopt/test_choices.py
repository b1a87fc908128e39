"""Choices between loads and constants, and what is known of numbers that come from memory."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.dialects import block
from graphfuse.ir.core import Func
from graphfuse.kernels.api import kernel
from graphfuse.kernels.kernel import Kernel
from graphfuse.kernels.specialise import general, specialised

CHOOSE = """
__global__ void choose(float *x, float *y, int n) {
  int at[32] = get_program_id(0) * 32 + 0 ... 32;
  float loaded[32] = *?(at < n)(x + at);
  float v[32] = EXPRESSION;
  *(y + at) = v;
}
"""


def optimised(k: Kernel) -> Func:
    return specialised(k.func, k.parameters, general(k.parameters, 1))


@pytest.mark.parametrize(
    ("expression", "choices", "want"),
    [
        ("at < n ? *(x + at) : 0", 0, lambda x, there: np.where(there, x, 0)),
        ("at < n ? *(x + at) : 7.5f", 0, lambda x, there: np.where(there, x, 7.5)),
        ("at < n ? *(x + at) + 1 : 7", 1, lambda x, there: np.where(there, x + 1, 7)),
        ("(at < n ? loaded : 7) + loaded", 1, lambda x, there: np.where(there, 2 * x, 7)),
    ],
)
def test_choices(expression, choices, want) -> None:
    k = kernel(CHOOSE, EXPRESSION=expression, device="cpu")
    assert isinstance(k, Kernel)
    kinds = [op.kind for op in optimised(k).walk()]
    assert kinds.count(block.select) == choices
    assert block.load not in kinds
    x = np.arange(1, 65, dtype=np.float32)
    y = np.empty(64, np.float32)
    k[2](x, y, 40)
    np.testing.assert_array_equal(y, want(x, np.arange(64) < 40))


def test_a_wide_mask_of_one_row() -> None:
    """The condition has one row, the load's mask is that row for all."""
    source = """
    __global__ void rows(float *x, float *y, int n) {
      int r[4] = 0 ... 4;
      int c[8] = 0 ... 8;
      float v[4, 8] = (c < n)[newaxis, :] ? *(x + r[:, newaxis] * 8 + c[newaxis, :]) : -1;
      *(y + r[:, newaxis] * 8 + c[newaxis, :]) = v;
    }
    """
    k = kernel(source, device="cpu")
    assert isinstance(k, Kernel)
    assert all(op.kind is not block.select for op in optimised(k).walk())
    x, y = np.arange(32, dtype=np.float32), np.empty(32, np.float32)
    k[1](x, y, 5)
    np.testing.assert_array_equal(y, np.where(np.arange(32) % 8 < 5, x, -1))


@pytest.mark.parametrize("first", [-7, -1, 0, 9])
def test_numbers_from_memory_may_be_negative(first: int) -> None:
    source = """
    __global__ void walk(float *x, int *first, float *y) {
      *(y + 0 ... 8) = *(x + (*first / 4 + 3) + 0 ... 8);
    }
    """
    x, y = np.arange(32, dtype=np.float32), np.empty(8, np.float32)
    k = kernel(source, device="cpu")
    k[1](x, np.array([first], np.int32), y)
    begin = int(first / 4) + 3
    np.testing.assert_array_equal(y, x[begin : begin + 8])
