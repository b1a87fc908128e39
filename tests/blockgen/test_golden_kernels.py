"""The text of three small kernels, so that a change of schedule is seen in review. `--update` rewrites the files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graphfuse.blockgen.lower import lower_region
from graphfuse.ir.core import Func
from graphfuse.ir.printer import to_text
from tests.blockgen.support import AVX2, Case, check_blocks, graph_func, lowered, region_ops

HERE = Path(__file__).parent

EXAMPLES = {
    "kernel_bias_relu": Case("bias_relu", ("pointwise",), graph_func("x: (batch)x20xf32, w: 20xf32", """
        b = broadcast(w) {shape = [(batch), 20]}; s = add(x, b)
        z = full() {shape = [(batch), 20], elem = f32, value = 0.0}; r = max(s, z); return(r)
        """, "batch in 1..8"), ({"batch": 3},)),
    "kernel_softmax": Case("softmax", ("reduction",), graph_func("x: (batch)x40xf32", """
        m = reduce(x) {axes = [1], kind = "max", keepdims = true}; mb = broadcast(m) {shape = [(batch), 40]}
        c = sub(x, mb); e = exp(c); t = reduce(e) {axes = [1], kind = "sum", keepdims = true}
        tb = broadcast(t) {shape = [(batch), 40]}; y = div(e, tb); return(y)
        """, "batch in 1..8"), ({"batch": 3},)),
    "kernel_matmul": Case("matmul", ("contraction",), graph_func("x: 6x8xf32, w: 8x12xf32, b: 12xf32", """
        y = contract(x, w) {spec = "mk,kn->mn"}; c = broadcast(b) {shape = [6, 12]}; s = add(y, c)
        return(s)"""), ({},)),
}  # fmt: skip


def kernel_of(case: Case) -> Func:
    """The block function of the only region, for AVX2."""
    func = lowered(case, AVX2)
    (region,) = region_ops(func)
    return lower_region(region, case.name, func.ranges, AVX2)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_text_is_the_golden_one(name: str, pytestconfig: pytest.Config) -> None:
    """The files are `.gf` tests too: their text reads back as itself."""
    path = HERE / f"{name}.gf"
    text = to_text(kernel_of(EXAMPLES[name]))
    if pytestconfig.getoption("--update"):
        head = re.match(r"(//[^\n]*\n)*", path.read_text() if path.exists() else "// RUN:\n")
        assert head
        path.write_text(head[0] + text)
    assert re.sub(r"^//.*\n", "", path.read_text(), flags=re.MULTILINE) == text


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_golden_kernels_compute(name: str) -> None:
    case = EXAMPLES[name]
    for values in case.sizes:
        check_blocks(lowered(case, AVX2), case.arrays(values), AVX2)


def test_the_text_does_not_change_from_one_lowering_to_the_next() -> None:
    for case in EXAMPLES.values():
        assert to_text(kernel_of(case)) == to_text(kernel_of(case))
