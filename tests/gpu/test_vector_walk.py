"""Products of a vector whose blocks walk over the rows: drawn, on the emulator, beside the interpreter in float64."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from graphfuse import compiler
from graphfuse.blockgen import gpu_contraction
from graphfuse.blockgen.gpu_vector_walk import Way
from graphfuse.blockgen.lower import GPU_EMITTERS, lower_region
from graphfuse.dialects import graph
from graphfuse.dialects.gpu import ROWS_ACROSS
from graphfuse.fusion.regions.dataflow import regions_of
from graphfuse.gpu.emulator.driver import EmulatedDriver
from graphfuse.ir.core import Func, attr_int, tensor_of
from graphfuse.ir.printer import to_text
from graphfuse.knobs import Options
from graphfuse.symbolic import static, substitute
from graphfuse.targets import Target
from graphfuse.targets.backend import backend_of
from tests.blockgen.support import graph_func, random_array
from tests.gpu.launching import compiled, emulate
from tests.gpu.random_regions import RandomCase, outcomes

FEW, MANY = 8, 80
TARGET = Target.parse("cuda:sm_90a")
MAKING = ("read", "rms", "layer", "softmax", "activation")
BEHIND = ("none", "bias", "residual", "gated", "scaled")


def norm(kind: str, length: int, elem: str) -> list[str]:
    """Lines that make `%v` of `%x`, and of `%g` for those that scale it."""
    shape = f"shape = [1, {length}]"
    mean = f"m = full() {{elem = f32, shape = [1, 1], value = {1 / length}}}"
    wide, narrow = "w = cast(x) {to = f32}", f"v = cast(o) {{to = {elem}}}"
    scaled = ["g2 = cast(g) {to = f32}", f"g3 = broadcast(g2) {{{shape}}}", "o = mul(n, g3)", narrow]
    power = [f"rb = broadcast(r) {{{shape}}}", "n = mul(c, rb)"]

    def summed(name: str, of: str, how: str = "sum") -> str:
        return f'{name} = reduce({of}) {{axes = [1], keepdims = true, kind = "{how}"}}'

    spread = [
        "q = mul(c, c)", summed("s", "q"), "s2 = mul(s, m)", "e = full() {elem = f32, shape = [1, 1], value = 1e-5}",
        "s3 = add(s2, e)", "b = sqrt(s3)", "one = full() {elem = f32, shape = [1, 1], value = 1.0}", "r = div(one, b)",
    ]  # fmt: skip
    match kind:
        case "rms":
            nothing = ["z = full() {elem = f32, shape = [1, 1], value = 0.0}", f"zb = broadcast(z) {{{shape}}}"]
            return [wide, mean, *nothing,
                    "c = add(w, zb)", *spread, *power, *scaled]  # fmt: skip
        case "layer":
            centred = [summed("t", "w"), "u = mul(t, m)", f"ub = broadcast(u) {{{shape}}}", "c = sub(w, ub)"]
            return [wide, mean, *centred, *spread, *power, *scaled]
        case "softmax":
            base = [summed("t", "w", "max"), f"tb = broadcast(t) {{{shape}}}", "c = sub(w, tb)", "k = exp(c)"]
            return [wide, *base, summed("s", "k"), f"sb = broadcast(s) {{{shape}}}", "o = div(k, sb)", narrow]
        case "activation":
            return ["i = sigmoid(x)", "v = mul(x, i)"]
        case _:
            return []


def made(rows: str, length: int, elem: str, making: str, behind: str) -> Func:
    """A product of a vector, or two of one that is both made and read otherwise."""
    params = [f"x: 1x{length}x{elem}", f"a: {rows}x{length}x{elem}"]
    params += [f"g: {length}x{elem}"] if making in ("rms", "layer") else []
    vector = "x" if making == "read" else "v"
    lines = [*norm(making, length, elem), f'p = contract({vector}, a) {{spec = "mk,nk->mn"}}']
    match behind:
        case "bias" | "residual":
            params.append(f"d: 1x{rows}x{elem}")
            lines.append("y = add(p, d)")
        case "gated":
            params.append(f"d: {rows}x{length}x{elem}")
            lines += [f'h = contract({vector}, d) {{spec = "mk,nk->mn"}}', "l = sigmoid(p)", "y = mul(l, h)"]
        case "scaled":
            lines.append("y = tanh(p)")
        case _:
            lines.append("y = neg(p)")
    return graph_func(", ".join(params), "; ".join((*lines, "return(y)")), "n in 1..700" if rows == "(n)" else "")


def drawn(seed: int) -> RandomCase:
    """Rows and lengths log-uniform; so few multiprocessors that blocks have several turns."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    elem = draw.choice(("f32", "f16", "bf16"))
    rows, length = round(2 ** draw.uniform(1, 9.5)), 8 * round(2 ** draw.uniform(1, 9))
    func = made(draw.choice((str(rows), "(n)")), length, elem, draw.choice(MAKING), draw.choice(BEHIND))
    shapes = [[static(substitute(d, {"n": rows})) for d in tensor_of(v).shape] for v in func.params]
    inputs = [random_array(rng, s, tensor_of(v).elem) for s, v in zip(shapes, func.params, strict=True)]
    return RandomCase(seed, "walk", ("", "", ""), func, inputs, draw.choice((1, 2, 5)))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("seed", [pytest.param(s, marks=() if s < FEW else pytest.mark.full) for s in range(MANY)])
def test_drawn(seed: int, arch: str) -> None:
    case = drawn(seed)
    found = list(outcomes(case, Target.parse(f"cuda:{arch}"), EmulatedDriver(arch)))
    assert max(o.ratio for o in found) <= 1, (to_text(case.func), found)


@pytest.mark.parametrize("rows", ["37", "(n)"])
def test_steps_of_one_row_end_with_the_last(rows: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_contraction, "ways", lambda *_: [Way(1, 1, 1)])
    lines = f'a = reshape(f) {{shape = [{rows}, 192]}}; p = contract(x, a) {{spec = "mk,nk->mn"}}; return(p)'
    flat = "(192*n)" if rows == "(n)" else str(37 * 192)
    func = graph_func(f"x: 1x192xf32, f: {flat}xf32", lines, "n in 1..700")
    (region,) = regions_of(compiler.stages(func, TARGET, Options()).regions.body)
    machine = replace(backend_of(TARGET).machine, multiprocessors=1)
    kernel = lower_region(region, "kernel", func.ranges, machine, GPU_EMITTERS)
    rng, symbols = np.random.default_rng(0), {"n": 37} if rows == "(n)" else {}
    x, a = rng.standard_normal((1, 192), np.float32), rng.standard_normal((37, 192), np.float32)
    ptx, launch = compiled(to_text(kernel), TARGET)
    inputs = [x if tensor_of(v).rank == 2 and tensor_of(v).shape[0] == 1 else a for v in region.operands]
    emulate(ptx, launch, [*inputs, out := np.zeros((1, 37), np.float32)], symbols=symbols)
    np.testing.assert_allclose(out, x @ a.T, rtol=0, atol=1e-4)


@pytest.mark.parametrize("making", MAKING)
@pytest.mark.parametrize("behind", BEHIND)
def test_one_kernel_walks_and_makes_its_vector(making: str, behind: str) -> None:
    done = compiler.stages(made("3000", 1024, "bf16", making, behind), TARGET, Options())
    (func,) = done.kernels.values()
    assert func.attrs[ROWS_ACROSS] is True
    blocks = attr_int(func, "grid")
    assert blocks <= attr_int(func, "resident") * 132 and blocks >= 132


def test_what_is_drawn_walks() -> None:
    count = 0
    for seed in range(MANY):
        done = compiler.stages(drawn(seed).func, TARGET, Options())
        count += all(f.attrs.get(ROWS_ACROSS) for f in done.kernels.values())
    assert count >= 0.9 * MANY


def test_a_vector_that_something_else_reads_is_made_once() -> None:
    lines = [*norm("rms", 512, "bf16"), 'p = contract(v, a) {spec = "mk,nk->mn"}', "y = neg(v)", "return(p, y)"]
    func = graph_func("x: 1x512xbf16, g: 512xbf16, a: 3000x512xbf16", "; ".join(lines))
    first, second = regions_of(compiler.stages(func, TARGET, Options()).regions.body)
    assert [str(op.attrs["kind"]) for op in (first, second)] == ["reduction", "contraction"]
    assert all(op.kind is not graph.reduce for op in second.body.ops)
