"""Launches on a real GPU: kernels that overlap give the bits of those that do not, however they are launched."""

from __future__ import annotations

import threading

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import graphfuse
from graphfuse.knobs import Options, scope
from graphfuse.runtime.gpu.graphs import MAX_GRAPHS
from graphfuse.runtime.gpu.session import GpuSession
from tests.gpu.device.graphs import FLOAT, graph, node

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]


def chain(size, count=60):
    """Every kernel reads what the one before wrote, into the memory that the one before that wrote."""
    nodes = [node("Mul" if i % 2 else "Add", f"{f'v{i}' if i else 'x'} y", f"v{i + 1}") for i in range(count)]
    return graph(nodes, {"x": (size,), "y": (size,)}, {f"v{count}": (size,)})


def layers(rows=16, width=512, count=6):
    """Products, rows that are normalised, and a concatenation, which is a copy."""
    rng = np.random.default_rng(0)
    weights, nodes, at = {}, [], "x"
    for i in range(count):
        weights[f"w{i}"] = (rng.standard_normal((width, width)) / width**0.5).astype(np.float32)
        weights[f"s{i}"], weights[f"b{i}"] = np.ones(width, np.float32), np.zeros(width, np.float32)
        nodes += [
            node("MatMul", f"{at} w{i}", f"m{i}"),
            node("Relu", f"m{i}", f"r{i}"),
            node("Add", f"r{i} {at}", f"a{i}"),
            node("LayerNormalization", f"a{i} s{i} b{i}", f"n{i}", axis=-1),
        ]
        at = f"n{i}"
    nodes += [node("Concat", f"{at} x", "z", axis=0), node("Softmax", "z", "y", axis=-1)]
    made = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOAT, (rows, width))],
        [helper.make_tensor_value_info("y", FLOAT, (2 * rows, width))],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


CASES: dict[str, tuple[onnx.ModelProto, dict]] = {
    "small": (chain(128), {"options": Options(fuse=False)}),
    "wide": (chain(1 << 20), {"options": Options(fuse=False)}),
    "decode": (layers(), {"precision": "bf16"}),
    "rows": (layers(200), {"precision": "f16"}),
    "f32": (layers(), {}),
}


def inputs(model, torch, seed=0):
    generator = torch.Generator("cuda").manual_seed(seed)
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in model.graph.input}
    return {n: torch.rand(s, device="cuda", generator=generator) for n, s in shapes.items()}


@pytest.mark.parametrize("case", CASES)
def test_overlap_changes_no_bit(case, torch, target, driver):
    model, options = CASES[case]
    executable = graphfuse.compile(model, target=target, **options).executable
    feed = inputs(model, torch)
    with scope(pdl=False):
        (want,) = GpuSession(executable, driver, graphs=False).run(feed).values()
    with scope(pdl=True):
        for graphs in (False, True):
            session = GpuSession(executable, driver, graphs=graphs)
            (out,) = (torch.empty_like(want),)
            for _ in range(40):
                out.fill_(float("nan"))
                session.run(feed, {session.signature.outputs[0].name: out})
                assert torch.equal(out, want)
            launches = next(iter(session._callers.idle[-1].shaped.values())).launches
            assert any(getattr(i, "overlaps", False) for i in launches.items)
            assert None not in launches._launchers.values() and launches._launchers, "the native loop"


def test_more_addresses_than_graphs(torch, target, driver):
    """Graphs with programmatic edges are updated, or replaced."""
    model, options = CASES["small"]
    session = GpuSession(graphfuse.compile(model, target=target, **options).executable, driver)
    feeds = [inputs(model, torch, i) for i in range(MAX_GRAPHS + 4)]
    name = session.signature.outputs[0].name
    with scope(pdl=False):
        wanted = [GpuSession(session.executable, driver).run(f)[name] for f in feeds[:2]]
    outs = [torch.empty_like(wanted[0]) for _ in feeds]
    for _ in range(4):
        for feed, out in zip(feeds, outs, strict=True):
            session.run(feed, {name: out})
    assert session._callers.idle[-1].recorder.works
    for want, out in zip(wanted, outs, strict=False):
        assert torch.equal(out, want)


def test_threads_and_streams(torch, target, driver):
    """Runs of several threads on streams of their own share one arena."""
    model, options = CASES["decode"]
    session = GpuSession(graphfuse.compile(model, target=target, **options).executable, driver)
    feeds = [inputs(model, torch, i) for i in range(4)]
    wanted = [session.run(f)["y"].clone() for f in feeds]
    torch.cuda.synchronize()
    wrong: list[int] = []

    def work(i):
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(30):
                found = session.run(feeds[i])["y"]
                if not torch.equal(found, wanted[i]):
                    wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(feeds))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_replays_of_torch_tensors(torch, target, driver):
    """The short way through a run: other values at the same addresses, new memory, other streams, other shapes."""
    nodes = [node("Relu", "x", "r"), node("Exp", "r", "e"), node("Add", "e x", "z")]
    made = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOAT, ("n", 64))],
        [helper.make_tensor_value_info("z", FLOAT, ("n", 64))],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    compiled = graphfuse.compile(model, target=target, dims={"n": (1, 4096)})
    session = GpuSession(compiled.executable, driver)
    x = torch.empty(100, 64, device="cuda")
    for i in range(60):
        x.normal_()
        found = session.run({"x": x})["z"]
        torch.testing.assert_close(found, x.relu().exp() + x, rtol=1e-5, atol=1e-5)
        if i % 10 == 3:
            with torch.cuda.stream(torch.cuda.Stream()):
                torch.cuda.synchronize()
                other = torch.randn(7 * i, 64, device="cuda")
                for _ in range(4):
                    found = session.run({"x": other})["z"]
                    torch.testing.assert_close(found, other.relu().exp() + other, rtol=1e-5, atol=1e-5)
                torch.cuda.synchronize()
    assert session._quick is not None
    assert session._replayed({"x": x}, {}, over=False) is not None
