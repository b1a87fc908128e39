"""Products of rows whose number is not known have kernels for few rows: which one runs, and what it gives."""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import graphfuse
from graphfuse import compiler, profiling
from graphfuse.cli import main
from graphfuse.dialects.gpu import ROWS_ACROSS
from graphfuse.fusion.regions.dataflow import regions_of
from graphfuse.fusion.regions.few_rows import FEW, versions
from graphfuse.fusion.regions.outline import outline
from graphfuse.ir.core import Func
from graphfuse.knobs import Options
from graphfuse.symbolic import evaluate
from graphfuse.targets import Target
from tests.blockgen.support import graph_func

ROWS = (1, 2, 3, FEW - 1, FEW, FEW + 1, 130)
DRAWN, ALL = 3, 40


def product(dims: str, ranges: str) -> Func:
    """One of halves, with `dims` of rows."""
    names = [d.strip("()") for d in dims.split("x")]
    labels = "abm"[-len(names) :]
    body = f'p = contract(x, w) {{spec = "{labels}k,nk->{labels}n"}}; return(p)'
    return graph_func(f"x: {dims}x256xbf16, w: 512x256xbf16", body, ranges)


@pytest.mark.parametrize(
    ("dims", "ranges", "names"),
    [
        ("(m)", "m in 1..4096", ["one", "m"]),
        ("(b)x(s)", "b in 1..4096, s in 1..4096", ["one", "b", "s"]),
        ("(m)", "m in 2..4096", ["m"]),
        ("(m)", "m in 0..4096", []),
        ("(m)", "m in 65..4096", []),
        ("(b)x(s)", "b in 1..4096, s in 2..4096", ["s"]),
        ("(b)x4", "b in 1..4096", ["one", "b"]),
        ("(a)x(b)x(s)", "a in 1..9, b in 1..9, s in 1..9", []),
        ("4", "", []),
    ],
)
def test_of_which_shapes_there_are_kernels(dims: str, ranges: str, names: list[str]) -> None:
    func = product(dims, ranges)
    (region,) = regions_of(compiler.stages(func, Target.parse("cuda:sm_90a"), Options()).regions.body)
    found = versions(region, func.ranges)
    assert [v.suffix for v in found] == names
    symbols = sorted(func.ranges)
    ranges_of_symbols = [func.ranges[name] for name in symbols]
    for values in itertools.product(*[[n for n in ROWS if low <= n <= high] for low, high in ranges_of_symbols]):
        at = dict(zip(symbols, values, strict=True))
        holds = {v.suffix: evaluate(v.holds, at) for v in found}
        few = [n for n in symbols if at[n] <= FEW and all(at[o] == 1 for o in symbols if o != n)]
        wanted = "any" if not names else "one" if set(values) == {1} else few[0] if few else "any"
        assert {**holds, "any": 1 - sum(holds.values())} == {n: int(n == wanted) for n in (*names, "any")}


def test_products_by_codes_have_them_too() -> None:
    text = "x: (n)x64xbf16, p: 1x1x16x4x4xi32, s: 1x32xf32"
    func = graph_func(text, "y = contract_packed(x, p, s) {bits = 4, columns = 32}; return(y)", "n in 1..4096")
    (region,) = regions_of(outline(func)[0].body)
    found = versions(region, func.ranges)
    assert [v.suffix for v in found] == ["one", "n_8", "n"]
    for rows, which in (
        (1, [1, 0, 0]),
        (2, [0, 1, 0]),
        (8, [0, 1, 0]),
        (9, [0, 0, 1]),
        (64, [0, 0, 1]),
        (65, [0, 0, 0]),
    ):
        assert [evaluate(v.holds, {"n": rows}) for v in found] == which


def test_one_row_is_walked() -> None:
    done = compiler.stages(product("(b)x(s)", "b in 1..4096, s in 1..4096"), Target.parse("cuda:sm_90a"), Options())
    assert {name: f.attrs.get(ROWS_ACROSS, False) for name, f in done.kernels.items()} == {
        "contraction_0": False, "contraction_0_one": True, "contraction_0_b": False, "contraction_0_s": False,
    }  # fmt: skip


def model(rng: np.random.Generator, width: int, hidden: int, elem: type[np.floating]) -> onnx.ModelProto:
    """Two products, the second with what is added to it, of rows of two unknown dims."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(elem))
    weights = [(rng.standard_normal(s) / s[0] ** 0.5).astype(elem) for s in ((width, hidden), (hidden, width))]
    rows = [helper.make_tensor_value_info(n, kind, ["b", "s", width]) for n in ("x", "z", "y")]
    nodes = [
        helper.make_node("MatMul", ["x", "v"], ["h"]), helper.make_node("Sigmoid", ["h"], ["g"]),
        helper.make_node("MatMul", ["g", "w"], ["p"]), helper.make_node("Add", ["p", "z"], ["y"]),
    ]  # fmt: skip
    initial = [numpy_helper.from_array(a, n) for a, n in zip(weights, "vw", strict=True)]
    graph = helper.make_graph(nodes, "rows", rows[:2], rows[2:], initial)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("seed", [pytest.param(s, marks=() if s < DRAWN else pytest.mark.full) for s in range(ALL)])
def test_drawn(seed: int) -> None:
    """Any number of rows gives what the interpreter does, by one launch for each product."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    width, hidden = (8 * round(2 ** draw.uniform(0, 5)) for _ in range(2))
    elem = draw.choice((np.float32, np.float16))
    made = model(rng, width, hidden, elem)
    compiled = graphfuse.compile(made, target=f"cuda:{draw.choice(('sm_80', 'sm_90a'))}", device="emulator")
    sizes = [(1, 1), (1, draw.choice(ROWS[1:])), (draw.choice(ROWS[1:]), 1), (draw.randint(2, 9), draw.randint(2, 40))]
    for batch, steps in sizes:
        feed = {n: rng.standard_normal((batch, steps, width)).astype(elem) for n in "xz"}
        v, w = (numpy_helper.to_array(t).astype(np.float64) for t in made.graph.initializer)
        want = 1 / (1 + np.exp(-(feed["x"].astype(np.float64) @ v))) @ w + feed["z"]
        assert np.abs(compiled(feed)["y"] - want).max() <= (4e-3 if elem is np.float16 else 1e-5) * np.abs(want).max()


def test_profiles_have_the_kernels_that_ran() -> None:
    rng = np.random.default_rng(0)
    compiled = graphfuse.compile(model(rng, 16, 24, np.float32), target="cuda:sm_90a", device="emulator")
    ran: list[list[str]] = []
    for steps in (1, 2, FEW + 1):
        feed = {n: rng.standard_normal((1, steps, 16), np.float32) for n in "xz"}
        runs = profiling.measured(compiled, feed, rounds=1, seconds=0.0)
        found = profiling.by_kernel(compiled, runs, {"b": 1, "s": steps}, None)
        ran.append(sorted(k.kernel for k in found if k.kind == "contraction"))
    assert ran == [[f"contraction_{i}{suffix}" for i in range(2)] for suffix in ("_one", "_s", "")]


@pytest.mark.parametrize("steps", [1, 2, FEW + 1])
def test_kernels_for_other_shapes_are_no_rows_and_no_boxes(steps: int, tmp_path: Path, capsys: Any) -> None:
    compiled = graphfuse.compile(
        model(np.random.default_rng(0), 16, 24, np.float32), target="cuda:sm_90a", device="emulator"
    )
    compiled.save(tmp_path / "m.gfx")
    dims = ("--dim", "b=1", "--dim", f"s={steps}")
    assert main(["inspect", str(tmp_path / "m.gfx"), *dims]) == 0
    said = capsys.readouterr().out
    rows = [line.split()[1] for line in said.splitlines() if re.match(r" *\d+ +contraction", line)]
    suffix = {1: "_one", 2: "_s"}.get(steps, "")
    assert rows == [f"contraction_{i}{suffix}" for i in range(2)] and "for other shapes" in said
    assert main(["inspect", str(tmp_path / "m.gfx"), *dims, "--html", str(tmp_path / "m.html")]) == 0
    html = (tmp_path / "m.html").read_text()
    assert html.count('<details class="k">') == len(re.findall(r'<a href="[^"]*" class="box contraction"', html)) == 2
    # the types of what goes between them, and of what they give
    assert f"f32[b, s, {24}]" in html and f"f32[b, s, {16}]" in html
    assert "2 launches, in their order" in html
