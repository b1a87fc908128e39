"""`graphfuse.explain`, `strict`, and what is said of an operator that the compiler fails at."""

import dataclasses
import json
import logging
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import graphfuse  # noqa: E402
from graphfuse import compiler  # noqa: E402
from graphfuse.artifact import Launch  # noqa: E402
from graphfuse.errors import UsageError  # noqa: E402
from graphfuse.frontends.fx import lowering, ops  # noqa: E402
from graphfuse.ir.parser import parse  # noqa: E402
from graphfuse.knobs import Options  # noqa: E402
from graphfuse.torch import compile as compiling  # noqa: E402
from graphfuse.torch.build import build_part  # noqa: E402

F = torch.nn.functional
HERE = __file__


@pytest.fixture(autouse=True)
def nothing_was_told():
    compiling._told.clear()


def line_of(text):
    lines = Path(HERE).read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line and "line_of" not in line)


def broken_in_two(x, w):
    y = F.gelu(x @ w) + 1
    print("between")  # noqa: T201 - breaks the graph
    values, _ = torch.sort(y.exp())  # is left to torch
    return values.sin().sum()


@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_graphs_and_what_lies_between(capsys):
    inputs = torch.randn(5, 8, requires_grad=True), torch.randn(8, 100, requires_grad=True)
    found = graphfuse.explain(broken_in_two, *inputs, dynamic=True)
    assert [g.kind for g in found.graphs] == ["forward", "backward"] * 2
    (broke,) = found.breaks
    assert broke.where == f"{HERE}:{line_of('breaks the graph')}"
    first, _, third, _ = found.graphs
    assert [k.kind for p in first.parts for k in p.kernels] == ["contraction"]
    assert first.externs == () and first.kernels == 1
    (extern,) = third.externs
    assert (extern.operator, extern.count) == ("aten.sort.default", 1)
    assert extern.where == (f"{HERE}:{line_of('is left to torch')}",)
    text = str(found)
    assert text.startswith("4 graphs, 1 graph break\n") and "torch runs aten.sort.default x1: " in text
    assert json.loads(json.dumps(found.data()))["graphs"][2]["externs"][0]["operator"] == "aten.sort.default"


def test_fusion_saves_what_it_does_not_write():
    # two results of 64 x 32 floats are neither written nor read
    found = graphfuse.explain(lambda x: (x.exp() + 1).sin(), torch.randn(64, 32))
    assert found.graphs[0].bytes_saved == 2 * 2 * 64 * 32 * 4
    assert "fusion saves 32 KiB" in str(found)


def test_the_branches_of_a_cond():
    def fn(x):
        return torch.cond(x.sum() > 0, lambda x: F.gelu(x) * 2, lambda x: x.sin(), (x,)) + 1

    (graph,) = graphfuse.explain(fn, torch.randn(4, 8)).graphs
    assert graph.externs == () and [b.kind for b in graph.bodies] == ["body", "body"]
    assert "  body: 2 operators in 1 part, 1 kernel;" in str(graphfuse.explain(fn, torch.randn(4, 8)))


def test_strict_names_the_operator_and_the_line():
    def fn(x):
        return torch.linalg.qr(x + 1)  # refused

    where = f"{HERE}:{line_of('# refused')}"
    message = f"{where}.*aten.linalg_qr.default: expected an operator that is compiled, found one that is left to torch"
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=message):
        torch.compile(fn, backend="graphfuse", options={"strict": True})(torch.eye(4))
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x + 1, backend="graphfuse", options={"strict": True})
    assert torch.equal(compiled(torch.eye(4)), torch.eye(4) + 1)


def test_what_is_no_model():
    with pytest.raises(UsageError, match="model: expected a module or a function, found 3"):
        graphfuse.explain(3)


def fails(*_, **__):
    raise AssertionError("injected")


def lower_by(monkeypatch, op, made):
    assert ops.lowering_of(op) is not None  # registers them all
    monkeypatch.setitem(lowering.LOWERINGS, op, made)


def test_a_lowering_that_fails_is_told_once(monkeypatch):
    lower_by(monkeypatch, torch.ops.aten.erf.default, fails)

    def fn(x):
        return torch.erf(x.exp()) + 1

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for n in (3, 4):
            x = torch.randn(n, n)
            torch.testing.assert_close(torch.compile(fn, backend="graphfuse", dynamic=False)(x), fn(x))
    told = [w for w in told if w.category is compiling.LeftToTorch]
    line = f"{__file__}:{fn.__code__.co_firstlineno + 1}"
    assert [str(w.message) for w in told] == [
        f"{line}: graphfuse leaves aten.erf.default to torch: AssertionError: injected"
    ]
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="injected"):
        torch.compile(fn, backend="graphfuse", options={"strict": True})(torch.ones(3))


def test_operators_that_decline_are_found_at_once(monkeypatch):
    def declines(*_, **__):
        raise lowering.Unsupported("never")

    for op in (torch.ops.aten.erf.default, torch.ops.aten.max.dim):
        lower_by(monkeypatch, op, declines)
    whole, cuts = compiling.cut, []
    monkeypatch.setattr(compiling, "cut", lambda *args: cuts.append(whole(*args)) or cuts[-1])

    def fn(x):
        for _ in range(3):
            x = torch.erf(x * 2) + 1
            x = (x * 2).max(0, keepdim=True).values + x
        return x

    x = torch.randn(3, 4)
    (graph,) = graphfuse.explain(fn, x).graphs
    assert sorted((e.operator, e.reason, e.count) for e in graph.externs) == [
        ("aten.erf.default", "never", 3),
        ("aten.max.dim", "never", 3),
    ]
    assert len(cuts) == 2
    torch.testing.assert_close(torch.compile(fn, backend="graphfuse")(x), fn(x))


def test_an_operator_that_cannot_be_compiled_is_found(monkeypatch):
    whole = compiling.build_part

    def without_erf(func, device, options):
        if "graph.erf" in str([op.kind for op in func.walk()]):
            raise AssertionError("injected")
        return whole(func, device, options)

    monkeypatch.setattr(compiling, "build_part", without_erf)

    def fn(x):
        y = (x * 2).exp() + 1
        return torch.erf(y.sin()).cos() * y

    x = torch.randn(6, 5)
    line = f"{re.escape(__file__)}:{fn.__code__.co_firstlineno + 2}"
    with pytest.warns(compiling.LeftToTorch, match=f"^{line}: graphfuse leaves aten.erf.default to torch: .*injected"):
        (graph,) = graphfuse.explain(fn, x).graphs
    found = torch.compile(fn, backend="graphfuse")(x)  # warns no more
    assert [(e.operator, e.count) for e in graph.externs] == [("aten.erf.default", 1)]
    assert len(graph.parts) == 2
    torch.testing.assert_close(found, fn(x))


def test_a_part_whose_operators_all_fail_is_told_of(monkeypatch):
    def fails_always(*_):
        raise AssertionError("injected")

    monkeypatch.setattr(compiling, "build_part", fails_always)
    monkeypatch.setattr(compiling, "_told", set())

    def fn(x):
        for f in (torch.erf, torch.exp, torch.sin, torch.cos, torch.tan, torch.sinh):
            x = f(x) * 2
        return x.cumsum(0)

    x = torch.randn(3, 2)
    with pytest.warns(compiling.LeftToTorch) as told:
        torch.testing.assert_close(torch.compile(fn, backend="graphfuse")(x), fn(x))
    messages = [str(w.message) for w in told if w.category is compiling.LeftToTorch]
    lines = f"{re.escape(__file__)}:({fn.__code__.co_firstlineno + 2}|{fn.__code__.co_firstlineno + 3})"
    assert len(messages) > 1 and all(re.match(f"{lines}: graphfuse leaves aten", m) for m in messages)
    assert sum(bool(re.search(r" and \d+ operators with it to torch", m)) for m in messages) == 1


def test_the_log(caplog):
    with caplog.at_level(logging.INFO, logger="graphfuse.torch"):
        torch.compile(lambda x: torch.linalg.inv(x).sin(), backend="graphfuse")(torch.eye(3))
    assert any("extern" in m and "linalg_inv_ex" in m for m in caplog.messages)
    assert any(m.startswith("graph of ") for m in caplog.messages)


def test_importing_graphfuse_does_not_import_torch():
    code = "import sys, graphfuse; sys.exit('torch' in sys.modules or 'explain' not in dir(graphfuse))"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_part_that_spills_says_so(monkeypatch, caplog):
    """What an assembler says of a kernel; there is none for a CPU, so the number is made up."""
    whole = compiler.build

    def spills(func, target, options, choose=None):
        made = whole(func, target, options, choose)
        first, *rest = made.kernels
        spilled = dataclasses.replace(first, launch=Launch(threads=32, spill_bytes=8))
        return dataclasses.replace(made, kernels=(spilled, *rest))

    monkeypatch.setenv("GRAPHFUSE_CACHE", "0")
    monkeypatch.setattr(compiler, "build", spills)
    func = parse('func @main(%x: tensor<4xf32>) {inputs = ["x"], outputs = ["y"]} {%y = graph.exp(%x) : tensor<4xf32>\n'
                 "return(%y)}")  # fmt: skip
    with caplog.at_level(logging.WARNING, "graphfuse.torch"):
        build_part(func, torch.device("cpu"), Options())
    assert "kernel 'pointwise_0' spills 8 bytes of registers" in caplog.text
