"""How often a reduction's kernel walks its rows, and what it does on the way."""

from __future__ import annotations

import pytest

from graphfuse.dialects import block
from graphfuse.ir.core import Func
from tests.blockgen.support import AVX512, Case, check_blocks, graph_func, lowered


def kernel_of(func: Func) -> Func:
    """The block function of the only region, which is right."""
    case = Case("case", (), func)
    (kernel,) = check_blocks(lowered(case, AVX512), case.arrays({}), AVX512)
    return kernel


@pytest.mark.parametrize("shape", ["5x16", "5x40x16"])
def test_independent_reductions_share_a_walk_that_stores_what_waits_for_none(shape: str) -> None:
    kernel = kernel_of(graph_func(f"x: {shape}xf32", """
        e = exp(x); s = reduce(e) {axes = [1], kind = "sum", keepdims = true}
        q = mul(x, x); t = reduce(q) {axes = [1], kind = "sum", keepdims = true}; return(e, s, t)"""))  # fmt: skip
    assert sum(op.kind is block.load_view for op in kernel.walk()) == 1
    assert sum(op.kind is block.ELEMENTWISE["exp"] for op in kernel.walk()) == 1
