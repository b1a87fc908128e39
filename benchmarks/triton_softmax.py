"""Softmax in Triton, one row a program, as its tutorial has it: a peer."""

from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl

LONGEST = 65536
"""A longer row does not fit the registers of a block."""
WARPS = (4, 8, 16, 32)


@triton.jit
def _kernel(out, x, columns, block: tl.constexpr):  # noqa: ANN001, ANN202  # Triton reads annotations
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, block)
    values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    numerator = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + at, numerator / tl.sum(numerator, axis=0), mask=at < columns)


def softmaxes(x: Any, out: Any) -> dict[int, Callable[[], Any]]:
    """Softmax of x [rows, columns] f32 into `out`, by number of warps; empty where a row is too long."""
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    if columns > LONGEST:
        return {}

    def runner(warps: int) -> Callable[[], Any]:
        return lambda: _kernel[(rows,)](out, x, columns, block=block, num_warps=warps)

    return {w: runner(w) for w in WARPS if block >= 32 * w or w == WARPS[0]}
