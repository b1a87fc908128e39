"""Kernels that are launched together do what they do one by one, on the emulator: their parts are drawn."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from graphfuse import compiler
from graphfuse.dialects import graph
from graphfuse.fusion.regions.dataflow import regions_of
from graphfuse.gpu.emulator.driver import EmulatedDriver
from graphfuse.ir.core import Func, attr_int, tensor_of
from graphfuse.ir.printer import to_text
from graphfuse.knobs import Options
from graphfuse.runtime.gpu.session import GpuSession
from graphfuse.symbolic import static, substitute
from graphfuse.targets import Target
from tests.blockgen.support import graph_func, random_array
from tests.gpu.random_regions import RandomCase, outcomes

SIZES = (1, 2, 3, 7, 16, 31, 64, 100, 257, 640)
FEW, MANY = 6, 60
TARGET = Target.parse("cuda:sm_90a")


def drawn(seed: int) -> RandomCase:
    """Two to six parts that have a vector in common, or nothing."""
    draw = random.Random(seed)
    elem, length = draw.choice(("f32", "bf16", "f16")), draw.choice(SIZES[3:])
    params, lines, results = [f"x: 1x{length}x{elem}"], list[str](), list[str]()
    for i in range(draw.randint(2, 6)):
        n, m = draw.choice(SIZES), draw.choice(SIZES)
        kind = draw.choice(("product", "gated", "pointwise", "turned", "rows", "columns"))
        if kind == "product":
            params.append(f"a{i}: {n}x{length}x{elem}")
            lines.append(f'y{i} = contract(x, a{i}) {{spec = "mk,nk->mn"}}')
        elif kind == "gated":
            params += [f"a{i}: {n}x{length}x{elem}", f"b{i}: {n}x{length}x{elem}"]
            lines += [
                f'p{i} = contract(x, a{i}) {{spec = "mk,nk->mn"}}',
                f'q{i} = contract(x, b{i}) {{spec = "mk,nk->mn"}}',
            ]
            lines += [f"s{i} = sigmoid(p{i})", f"t{i} = mul(p{i}, s{i})", f"y{i} = mul(t{i}, q{i})"]
        elif kind == "pointwise":
            n = draw.choice((n, "(n)"))
            params.append(f"a{i}: {n}x{m}x{elem}")
            lines += [f"p{i} = sigmoid(a{i})", f"y{i} = mul(p{i}, a{i})"]
        elif kind == "turned":
            params.append(f"a{i}: {n}x{2 * m}x{elem}")
            half = f"sizes = [{n}, {m}], steps = [1, 1]"
            lines += [
                f"p{i} = slice(a{i}) {{starts = [0, {m}], {half}}}",
                f"q{i} = slice(a{i}) {{starts = [0, 0], {half}}}",
            ]
            lines += [f"r{i} = neg(p{i})", f"s{i} = concat(r{i}, q{i}) {{axis = 1}}", f"y{i} = add(s{i}, a{i})"]
        else:
            params.append(f"a{i}: {n}x{m}x{elem}")
            axis = 1 if kind == "rows" else 0
            lines.append(
                f'y{i} = reduce(a{i}) {{axes = [{axis}], keepdims = true, kind = "{draw.choice(("sum", "max"))}"}}'
            )
        results.append(f"y{i}")
    func = graph_func(", ".join(params), "; ".join((*lines, f"return({', '.join(results)})")), "n in 1..70")
    rng = np.random.default_rng(seed)
    shapes = [[static(substitute(d, {"n": 5})) for d in tensor_of(v).shape] for v in func.params]
    inputs = [random_array(rng, s, tensor_of(v).elem) for s, v in zip(shapes, func.params, strict=True)]
    return RandomCase(seed, "together", ("", "", ""), func, inputs, 0)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("seed", [pytest.param(s, marks=() if s < FEW else pytest.mark.full) for s in range(MANY)])
def test_parts(seed: int, arch: str) -> None:
    case = drawn(seed)
    found = list(outcomes(case, Target.parse(f"cuda:{arch}"), EmulatedDriver(arch)))
    assert max(o.ratio for o in found) <= 1, (to_text(case.func), found)


def test_parts_have_their_share_of_the_machine() -> None:
    """The blocks of all that walk beside each other run at a time; each alone has as many as run then."""

    def unused(*rows: int) -> int:
        params = ", ".join(f"a{i}: {n}x4096xbf16" for i, n in enumerate(rows))
        lines = [f'y{i} = contract(x, a{i}) {{spec = "mk,nk->mn"}}' for i in range(len(rows))]
        results = ", ".join(f"y{i}" for i in range(len(rows)))
        func = graph_func(f"x: 1x4096xbf16, {params}", "; ".join((*lines, f"return({results})")))
        (kernel,) = compiler.stages(func, TARGET, Options()).kernels.values()
        return 132 * attr_int(kernel, "resident") - attr_int(kernel, "grid")

    assert all(0 <= unused(*rows) <= 132 for rows in ((4096,), (4096, 1024, 1024), (3000, 3000)))


def test_what_is_drawn_is_launched_together() -> None:
    parts = list[str]()
    for seed in range(MANY):
        regions = compiler.stages(drawn(seed).func, TARGET, Options()).regions
        for op in regions_of(regions.body):
            if op.attrs["kind"] == graph.TOGETHER:
                parts += [str(part.attrs["kind"]) for part in op.body.ops[:-1]]
    count = Counter(parts)
    assert set(count) == {"pointwise", "reduction", "contraction"}
    assert min(count.values()) >= MANY // 4


def cached(reads_before: str = "") -> Func:
    """Two caches of which a row each is written, one of them turned before, and what is made of both."""
    turn = """
        h = slice(k) {starts = [0, 32], sizes = [4, 32], steps = [1, 1]}
        g = slice(k) {starts = [0, 0], sizes = [4, 32], steps = [1, 1]}
        m = neg(h)
        t = concat(m, g) {axis = 1}
        u = add(t, k)
        j = reshape(i) {shape = [1, 1]}
        q = reshape(u) {shape = [1, 4, 64]}
        w = reshape(v) {shape = [1, 4, 64]}
        a = scatter_nd(x, j, q) {kind = "set"}
        b = scatter_nd(y, j, w) {kind = "set"}
        c = mul(a, b)
    """
    params = "x: 9x4x64xf32, y: 9x4x64xf32, k: 4x64xf32, v: 4x64xf32, i: 1xi64"
    func = graph_func(params, f"{turn}\n{reads_before}\nreturn(a, b, c{', z' * bool(reads_before)})")
    names = {"inputs": tuple(v.hint for v in func.params), "outputs": ("a", "b", "c", "z")[: len(func.outputs)]}
    return replace(func, attrs={**names, "shared": ((0, 0), (1, 1))})


@pytest.mark.parametrize("reads_before", ["", 'z = reduce(y) {axes = [0], keepdims = false, kind = "max"}'])
def test_caches_are_written_in_place(reads_before: str) -> None:
    """Also where one is read by another kernel, as it was."""
    executable = compiler.build(cached(reads_before), TARGET, Options())
    kernels = [step.kernel for _, step in executable.plan.walk()]
    assert sum(k.startswith("together") for k in kernels) == 1
    assert executable.shared == ((0, 0), (1, 1)) if not reads_before else (0, 0) in executable.shared
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 9, 4, 64)).astype(np.float32)
    k, v = rng.standard_normal((2, 4, 64)).astype(np.float32)
    got = GpuSession(executable, EmulatedDriver("sm_90a")).run({"x": x, "y": y, "k": k, "v": v, "i": np.array([5])})
    want_x, want_y = x.copy(), y.copy()
    want_x[5], want_y[5] = k + np.concatenate([-k[:, 32:], k[:, :32]], 1), v
    np.testing.assert_allclose(got["a"], want_x, rtol=1e-6)
    np.testing.assert_array_equal(got["b"], want_y)
    np.testing.assert_allclose(got["c"], want_x * want_y, rtol=1e-5)
    if reads_before:
        np.testing.assert_array_equal(got["z"], y.max(0))
