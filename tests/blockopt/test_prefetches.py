"""Tiles loaded ahead by hand: where they may be loaded when they are read, and where not."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.blockopt.pipeline import optimized
from graphfuse.dialects import block, control
from graphfuse.frontends.tc import compile_text
from graphfuse.interp.block import launch
from graphfuse.ir.core import Func
from graphfuse.ir.types import Tile
from graphfuse.ir.verifier import verify

SUM = """
__global__ void total(float *x, float *y, int n) {{
  int at[16] = 0 ... 16;
  float *p[16] = x + at;
  float s[16] = 0;
  float a[16] = {first};
  for (int k = n; k > 0; k -= 16) {{
    s += a;
    {body}
  }}
  *(y + at) = s{after};
}}
"""
AHEAD = "p += 16; a = *p;"
"""Reads a tile past the end."""
LIMITED = "p += 16; bool more = k > 16; a = more ? *p : 0;"
CUT = "p += 16; a = at < k - 16 ? *p : 0;"


def compiled(first: str, body: str, after: str = "") -> tuple[Func, Func]:
    """As it is written, and optimised."""
    (kernel,) = compile_text(SUM.format(first=first, body=body, after=after), "k.tc")
    out = optimized(kernel.func)
    verify(out)
    return kernel.func, out


def carried(func: Func) -> int:
    """How many tiles its loop carries."""
    (loop,) = [op for op in func.walk() if op.kind is control.for_]
    return sum(isinstance(v.type, Tile) for v in loop.results)


def loads(func: Func) -> int:
    """How many loads it has."""
    return sum(op.kind in (block.load, block.load_view) for op in func.walk())


@pytest.mark.parametrize(
    ("first", "body"),
    [("*p", AHEAD), ("*p", LIMITED), ("at < n ? *p : 0", CUT), ("*p", "bool more = k > 16; p += 16; a = *?(more)p;")],
)
@pytest.mark.parametrize("n", [16, 48])
def test_loaded_where_read(first: str, body: str, n: int) -> None:
    source, made = compiled(first, body)
    assert (carried(source), carried(made), loads(made)) == (3, 1, 1)
    x = np.arange(n, dtype=np.float32)
    room = np.zeros(16 * (body == AHEAD), np.float32)
    y = np.zeros(16, np.float32)
    launch(source, [np.concatenate([x, room]), y], {"n": n}, grid=(1,))
    np.testing.assert_array_equal(y, x.reshape(-1, 16).sum(0))
    again = np.zeros(16, np.float32)
    launch(made, [x, again], {"n": n}, grid=(1,))  # without room: nothing past the end is read
    np.testing.assert_array_equal(again, y)


def test_a_rest_is_cut_off() -> None:
    _, made = compiled("at < n ? *p : 0", CUT)
    x, y = np.arange(37, dtype=np.float32), np.zeros(16, np.float32)
    launch(made, [x, y], {"n": 37}, grid=(1,))
    np.testing.assert_array_equal(y, np.pad(x, (0, 11)).reshape(-1, 16).sum(0))


@pytest.mark.parametrize(
    ("first", "body", "after"),
    [
        ("*p", AHEAD, " + a"),  # the last is read behind the loop
        ("*p", "p += 16; a = *p; *(y + at) = s;", ""),  # what is loaded may have been written
        ("*(p + 1)", AHEAD, ""),  # begins somewhere else
        ("*p", "p += 16; a = at < 8 ? *p : 0;", ""),  # the first round loads more
        ("*p", "p += 16; bool more = k > 32; a = more ? *p : 0;", ""),  # the last round loads nothing
        ("at < n ? *p : 0", LIMITED, ""),
        ("*p", "p += 16; a = *p + 1;", ""),
    ],
)
def test_stays_ahead(first: str, body: str, after: str) -> None:
    source, made = compiled(first, body, after)
    assert carried(made) == 2
    x, got, want = np.arange(100, dtype=np.float32), *np.zeros((2, 16), np.float32)
    launch(source, [x, want], {"n": 48}, grid=(1,))
    launch(made, [x, got], {"n": 48}, grid=(1,))
    np.testing.assert_array_equal(got, want)
