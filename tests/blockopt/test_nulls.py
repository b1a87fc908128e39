"""Optional arrays: what a kernel asks of its pointers is decided before anything else sees it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphfuse.blockopt.nulls import decide_nulls
from graphfuse.dialects import block, control
from graphfuse.frontends.tc import compile_text
from graphfuse.ir.verifier import verify
from graphfuse.kernels.kernel import Kernel

SOURCE = """
__global__ void f(float *x, float *bias, float *scale, float *y, int n) {
  int i[64] = get_program_id(0) * 64 + 0 ... 64;
  float v[64] = *?(i < n)(x + i);
  if (bias && n > 2) v += *?(i < n)(bias + i);
  v *= (!scale || n < 2) ? 2 : 3;
  if (bias == 0) v = v + 1;
  *?(i < n)(y + i) = scale ? v + *?(i < n)(scale + i) : v;
}
"""


def expected(x: Any, bias: Any, scale: Any) -> Any:
    v = x + (0 if bias is None else bias)
    v = v * (2 if scale is None else 3) + (bias is None)
    return v if scale is None else v + scale


@pytest.mark.parametrize("device", ["", "emulator"])
def test_optional_arrays(device: str) -> None:
    (found,) = compile_text(SOURCE)
    k = Kernel(found.func, device=device)
    x, some = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    cases = [(None, None), (some, None), (None, some), (some, some)]
    for bias, scale in cases:
        k[2](x, bias, scale, y := np.zeros(100, np.float32), 100)
        np.testing.assert_array_equal(y, expected(x, bias, scale))
    assert len(k.compiled) == len(cases), "one for each set of arrays"


@pytest.mark.parametrize("bias", [False, True, None])
@pytest.mark.parametrize("scale", [False, True, None])
def test_no_test_of_a_known_pointer_is_left(bias: bool | None, scale: bool | None) -> None:
    """None: nothing is known."""
    (found,) = compile_text(SOURCE)
    null = {name: is_null for name, is_null in (("bias", bias), ("scale", scale)) if is_null is not None}
    made = decide_nulls(found.func, null)
    verify(made)
    asked = {op.operands[0].hint for op in made.walk() if op.kind is block.address}
    assert asked == {"bias", "scale"} - set(null)
    read = {op.operands[0].hint for op in made.walk() if op.kind is block.load}
    assert read == {"x", *(name for name in ("bias", "scale") if not null.get(name))}
    branches = sum(op.kind is control.if_ for op in made.walk())
    assert branches == {None: 2, False: 1, True: 0}[bias], "n > 2 is still asked if there is a bias"
