"""Every element type through every kind of region, as block programs and natively."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse import compiler
from graphfuse.checking import verify_regions
from graphfuse.interp import graph as interp
from graphfuse.ir.core import Func
from graphfuse.knobs import Options
from graphfuse.runtime.session import Session
from tests.blockgen.cases import ELEMS
from tests.blockgen.support import MACHINES, Case, check_blocks, graph_func, lowered, tolerance, widened
from tests.machine import HOST

NUMBERS = """
    s = add(x, y); d = sub(s, z)
    p = mul(d, x); a = max(p, y); b = min(a, z); c = lt(b, x); q = select(c, b, y)
    n = neg(q)
    i = iota() {shape = [5, 19], elem = ELEM, axis = 1}; j = add(n, i); k = cast(j) {to = f32}
    most = reduce(x) {axes = [1], kind = "max"}; least = reduce(y) {axes = [1], kind = "min"}
    total = reduce(z) {axes = [1], kind = "sum"}; all = reduce(u) {axes = [0, 1], kind = "prod"}
    m = contract(x, y) {spec = "mk,nk->mn"}; h = contract(x, y) {spec = "mk,mk->m"}
    w = cumulate(x) {axis = 0, kind = "sum"}; v = cumulate(x) {axis = 1, kind = "max", reverse = true}
    o = scatter_along(x, ia, r) {axis = 0, kind = "max"}; t, ti = topk(y) {k = 3, axis = 1}
    g = take(x, ib) {axis = 0}; e = pad(x) {low = [1, 0], high = [0, 2], value = 3}; f = concat(x, y) {axis = 1}
    l = reduce_window(y) {kind = "max", window = [1, 3], strides = [1, 2], PADDED, dilation = [1, 1]}
    ar = arg_reduce(x) {axis = 1, kind = "min"}
    return(n, j, k, most, least, total, all, m, h, w, v, o, t, ti, g, e, f, l, ar)
"""
BOOLS = """
    a = and(x, y); o = xor(a, z); n = not(o); q = select(n, x, y); k = cast(q) {to = f32}
    any = reduce(x) {axes = [1], kind = "any"}; all = reduce(y) {axes = [1], kind = "all"}
    some = reduce(z) {axes = [0], kind = "any"}
    s = scatter_along(x, ia, r) {axis = 0}; g = take(x, ib) {axis = 0}
    p = pad(x) {low = [1, 0], high = [0, 2], value = true}
    f = concat(x, y) {axis = 1}; i = cast(x) {to = i8}; b = cast(i) {to = bool}
    return(q, k, any, all, some, s, g, p, f, i, b)
"""


def function_of(elem: str) -> Func:
    """All kinds of regions over one element."""
    params = f"x: 5x19x{elem}, y: 5x19x{elem}, z: 5x19x{elem}, u: 3x2x{elem}, r: 2x19x{elem}, ia: 2x19xi64, ib: 7xi64"
    return graph_func(
        params,
        (BOOLS if elem == "bool" else NUMBERS).replace("ELEM", elem).replace("PADDED", "low = [0, 1], high = [0, 1]"),
    )


@pytest.mark.parametrize(("machine", "elem"), [
    pytest.param(machine, elem, marks=() if i % 3 == j else pytest.mark.full)
    for i, elem in enumerate((*ELEMS, "bool")) for j, machine in enumerate(MACHINES)
])  # fmt: skip
def test_blocks_equal_the_graph(machine: str, elem: str) -> None:
    case = Case(elem, (), function_of(elem), indices=5)
    check_blocks(lowered(case, MACHINES[machine]), case.arrays({}), MACHINES[machine])


@pytest.mark.parametrize("elem", [*ELEMS, "bool"])
def test_regions_are_right_natively(elem: str) -> None:
    case = Case(elem, (), function_of(elem), indices=5)
    for check in verify_regions(case.func, HOST, case.arrays({})):
        assert not check.is_suspect, check
        assert check.maximum <= 16 * check.reference + (1e-5 if elem != "f64" else 1e-12), check


@pytest.mark.full
@pytest.mark.parametrize("elem", [*ELEMS, "bool"])
def test_the_whole_function_runs(elem: str) -> None:
    """End to end, where integers must be equal to the last bit."""
    case = Case(elem, (), function_of(elem), indices=5)
    func = named(case.func)
    inputs = case.arrays({}, seed=1)
    want = interp.run(func, *inputs)
    exact = interp.run(func, *map(widened, inputs), wide=True)
    with Session(compiler.build(func, HOST, Options()), 1) as session:
        got = session.run(dict(zip(func.attrs["inputs"], inputs, strict=True)))
    for g, w, e in zip(got.values(), want, exact, strict=True):
        np.testing.assert_allclose(g.astype(np.float64), w.astype(np.float64), rtol=0, atol=tolerance(w, e))


def named(func: Func) -> Func:
    """With the names of inputs and outputs that a signature needs."""
    inputs = tuple(v.hint for v in func.params)
    outputs = tuple(f"out{i}" for i in range(len(func.outputs)))
    return Func(func.name, func.body, {"inputs": inputs, "outputs": outputs}, func.dims)
