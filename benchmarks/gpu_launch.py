"""What a launch costs: 100 dependent tiny kernels, a chain of decode products, whole models, and a call of a session.

    python -m benchmarks.gpu_launch [--only WORDS] [--quick] [--json FILE]
    python -m benchmarks.gpu_launch --dry      no GPU: compile everything, and run it on the emulator

`chain`: a graph of elementwise ops on one tensor, each a kernel of its own (`fuse=False`), every kernel needing the one
before. Microseconds per kernel, between two events: the native loop, a CUDA graph, a CUDA graph whose kernels begin
early (programmatic dependent launch), and when they let the next one begin; torch eager and a CUDA graph of torch's as
peers. `host`: microseconds per kernel until the call returns. `decode`: matrix products of 16 rows in a row, weights in
turn so that no cache holds them. `model`: whole models in f16. `call`: microseconds of one `session.run`, torch tensors
in and out, before the GPU has done anything.

Results are compared with torch's first: a chain bit by bit after many replays, as kernels that overlap wrongly give
numbers that are wrong now and then.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["GRAPHFUSE_CACHE"] = "0"

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import graphfuse
import graphfuse.compiler as compiler
import models
from benchmarks import record
from benchmarks.gpu_timing import arguments, asked, elapsed
from graphfuse.compiled_model import CompiledModel
from graphfuse.gpu import pipeline
from graphfuse.knobs import Options, scope

TARGET = "cuda:sm_90a"
KERNELS = 100
SIZES = (128, 132 * 512, 1 << 20)
"""Elements of a chain's tensor: one block, about one for each multiprocessor, 4 MB."""
DECODE = ((16, 4096, 3, 9), (1, 4096, 3, 9))
"""Rows, width, weights, products."""
TRIGGERS = ("early", "late", "end")
REPLAYS = 200
MODELS = {"bert_base": {"batch": 1, "seq": 128}, "llama_decode": {}}
BOUND = 3e-2


def model_of(nodes: Sequence[onnx.NodeProto], inputs: dict[str, Any], output: tuple[str, Any], weights: Any) -> Any:
    """An ONNX model of f32 tensors."""
    made = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(output[0], TensorProto.FLOAT, output[1])],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def chain(size: int, kernels: int = KERNELS) -> Any:
    """`x = (x + y) * y` again and again, each op a node."""
    nodes = [
        helper.make_node("Mul" if i % 2 else "Add", [f"v{i}" if i else "x", "y"], [f"v{i + 1}"]) for i in range(kernels)
    ]
    return model_of(nodes, {"x": (size,), "y": (size,)}, (f"v{kernels}", (size,)), {})


def decode(rows: int, width: int, count: int, products: int) -> Any:
    """`x = x @ w` with `count` weights in turn."""
    rng = np.random.default_rng(record.SEED)
    weights = {f"w{i}": rng.standard_normal((width, width), np.float32) / np.float32(width**0.5) for i in range(count)}
    nodes = [
        helper.make_node("MatMul", [f"v{i}" if i else "x", f"w{i % count}"], [f"v{i + 1}"]) for i in range(products)
    ]
    return model_of(nodes, {"x": (rows, width)}, (f"v{products}", (rows, width)), weights), weights


def small_call(size: int = 1024) -> Any:
    """One input, one kernel."""
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Tanh", ["r"], ["z"])]
    return model_of(nodes, {"x": (size,)}, ("z", (size,)), {})


@contextlib.contextmanager
def compiled_with(trigger: str = "late", *, constants: bool = True) -> Generator[None]:
    """Let kernels be compiled with another `trigger`, or as if no tensor were a constant."""
    overlap, find = pipeline.overlap_launches, compiler.with_constants
    pipeline.overlap_launches = lambda func: overlap(replace(func, attrs={**func.attrs, "trigger": trigger}))
    if not constants:
        compiler.with_constants = lambda kernels, _plan: dict(kernels)
    try:
        yield
    finally:
        pipeline.overlap_launches, compiler.with_constants = overlap, find


@dataclass
class Runner:
    """A compiled model on fixed tensors: `native` and `graph` queue a run on torch's current stream."""

    session: Any
    feed: dict[str, Any]
    out: dict[str, Any]
    native: Callable[[], None]
    graph: Callable[[], None]
    launches: int

    @staticmethod
    def of(compiled: Any, feed: dict[str, Any]) -> Runner:
        """Run until there is a graph."""
        import torch

        session = compiled.session
        out = {k: torch.empty_like(v) for k, v in session.run(feed).items()}
        for _ in range(3):
            session.run(feed, out)
        shaped = next(reversed(session._callers.idle[-1].shaped.values()))
        addresses, graph = next(iter(shaped.graphs._known.items()), ((), 0))
        *io, arena, scratch = addresses or (0, 0)
        driver, stream = session._driver, torch.cuda.current_stream().cuda_stream
        if addresses:
            shaped.launches.point(driver, io, arena, scratch)
        return Runner(
            session,
            feed,
            out,
            lambda: shaped.launches.run_all(driver, stream),
            lambda: driver.launch_graph(graph, stream),
            len(shaped.launches.items),
        )


def per_kernel(call: Callable[[], None], kernels: int, count: int) -> float:
    """Microseconds on the GPU."""
    elapsed(call, max(2, count // 4))
    return statistics.median(elapsed(call, count) for _ in range(5)) * 1e3 / kernels


def on_host(call: Callable[[], None], kernels: int, count: int = 30) -> float:
    """Microseconds until a call returns, the GPU being idle before."""
    import torch

    times: list[float] = []
    for _ in range(count):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e6 / kernels


def same(runner: Runner, want: Any, *, exact: bool) -> str:
    """Whether every replay gave the result: the differing replays, or the error."""
    import torch

    (got,) = runner.out.values()
    wrong, worst = 0, 0.0
    for _ in range(REPLAYS if exact else 3):
        got.fill_(float("nan"))
        runner.graph()
        wrong += not torch.equal(got, want)
        worst = max(worst, ((got.float() - want.float()).std() / want.float().std()).item())
    if exact:
        return f"{wrong} of {REPLAYS} wrong" if wrong else ""
    return "" if worst < BOUND else f"error {worst:.1e}"


def run_chain(size: int) -> Iterator[dict[str, Any]]:
    """One size of the chain by every way."""
    import torch

    x, y = (torch.rand(size, device="cuda") for _ in range(2))

    def eager() -> Any:
        v = x
        for i in range(KERNELS):
            v = v * y if i % 2 else v + y
        return v

    want = eager()
    name = f"chain {size}"
    for trigger in TRIGGERS:
        with compiled_with(trigger):
            model = graphfuse.compile(chain(size), target=TARGET, options=Options(fuse=False), device="cuda")
        with model.session.context.current():
            runner = Runner.of(model, {"x": x, "y": y})
            wrong = same(runner, want, exact=True)
            us = per_kernel(runner.graph, runner.launches, 50)
            yield row(name, f"graph + PDL, {trigger}", us, on_host(runner.graph, KERNELS), wrong, runner.launches)
            if trigger == "late":
                yield row(name, "native + PDL", per_kernel(runner.native, KERNELS, 5), on_host(runner.native, KERNELS))
    with scope(pdl=False):
        model = graphfuse.compile(chain(size), target=TARGET, options=Options(fuse=False), device="cuda")
        with model.session.context.current():
            runner = Runner.of(model, {"x": x, "y": y})
            wrong = same(runner, want, exact=True)
            yield row(name, "graph", per_kernel(runner.graph, KERNELS, 50), on_host(runner.graph, KERNELS), wrong)
            yield row(name, "native", per_kernel(runner.native, KERNELS, 5), on_host(runner.native, KERNELS))
            launches = next(reversed(runner.session._callers.idle[-1].shaped.values())).launches
            driver, stream = runner.session._driver, torch.cuda.current_stream().cuda_stream

            def one_by_one() -> None:
                for item in launches.items:
                    launches.run(driver, item, stream)

            yield row(name, "Python", per_kernel(one_by_one, KERNELS, 5), on_host(one_by_one, KERNELS))
    yield row(name, "torch eager", per_kernel(eager, KERNELS, 5), on_host(eager, KERNELS))
    replay = torch_graph(eager)
    yield row(name, "torch graph", per_kernel(replay, KERNELS, 50), on_host(replay, KERNELS))


def torch_graph(call: Callable[[], Any]) -> Callable[[], None]:
    """A recorded call."""
    import torch

    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def run_decode(rows: int, width: int, count: int, products: int) -> Iterator[dict[str, Any]]:
    """The chain of products, with and without overlap, with and without reading weights before the wait."""
    import torch

    onnx_model, weights = decode(rows, width, count, products)
    x = torch.randn(rows, width, device="cuda")
    held = [torch.from_numpy(weights[f"w{i}"]).cuda().bfloat16() for i in range(count)]

    def eager() -> Any:
        v = x.bfloat16()
        for i in range(products):
            v = v @ held[i % count]
        return v

    want = eager()
    name = f"decode {rows}x{width}x{width}"
    ways = [("graph", False, "late", True), ("graph + PDL, weights wait", True, "late", False)]
    ways += [(f"graph + PDL, {t}", True, t, True) for t in TRIGGERS]
    for label, pdl, trigger, constants in ways:
        with scope(pdl=pdl), compiled_with(trigger, constants=constants):
            model = graphfuse.compile(onnx_model, target=TARGET, precision="bf16", device="cuda")
            with model.session.context.current():
                runner = Runner.of(model, {"x": x})
                wrong = same(runner, want, exact=False)
                us = per_kernel(runner.graph, products, 30)
                yield row(name, label, us, on_host(runner.graph, products), wrong, runner.launches)
        del model, runner
    replay = torch_graph(eager)
    yield row(name, "torch graph", per_kernel(replay, products, 30), on_host(replay, products))


def run_models(only: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Microseconds of a whole run."""
    import torch

    for name, dims in MODELS.items():
        if not asked(f"model {name}", only):
            continue
        model = models.get(name)
        path = models.cached(name, small=False)
        feed = model.inputs(np.random.default_rng(record.SEED), small=False, **dims)
        tensors = {k: torch.from_numpy(v).cuda() for k, v in feed.items()}
        outs: dict[bool, Any] = {}
        executable = graphfuse.compile(path, dims=model.DIMS, target=TARGET, precision="f16").executable
        for pdl in (False, True):
            with scope(pdl=pdl):
                compiled = CompiledModel(executable, device="cuda")
                with compiled.session.context.current():
                    runner = Runner.of(compiled, tensors)
                    runner.graph()
                    outs[pdl] = next(iter(runner.out.values())).clone()
                    wrong = "" if not pdl or torch.equal(outs[False], outs[True]) else "differs from without PDL"
                    us = per_kernel(runner.graph, 1, 20)
                    label = "graph + PDL" if pdl else "graph"
                    yield row(f"model {name}", label, us, on_host(runner.graph, 1), wrong, runner.launches)
            del compiled, runner


def run_calls() -> Iterator[dict[str, Any]]:
    """What a call of a session takes on the host, and what the peers take."""
    import torch

    x = torch.randn(1024, device="cuda")
    compiled = graphfuse.compile(small_call(), target=TARGET, device="cuda")
    session, out = compiled.session, {"z": torch.empty_like(x)}
    calls = {
        "run": lambda: session.run({"x": x}),
        "run, out given": lambda: session.run({"x": x}, out),
        "model(x=x)": lambda: compiled(x=x),
        "torch eager, two kernels": lambda: torch.tanh(torch.relu(x)),
        "torch graph": torch_graph(lambda: torch.tanh(torch.relu(x))),
    }
    torch.testing.assert_close(session.run({"x": x})["z"], torch.tanh(torch.relu(x)), rtol=1e-5, atol=1e-6)
    for label, call in calls.items():
        yield row("call, one kernel", label, per_kernel(call, 1, 500), host_loop(call))
    y = torch.rand(128, device="cuda")
    long = graphfuse.compile(chain(128), target=TARGET, options=Options(fuse=False), device="cuda").session
    feed = {"x": y, "y": y}
    yield row(
        "call, 100 kernels", "run", per_kernel(lambda: long.run(feed), 1, 100), on_host(lambda: long.run(feed), 1)
    )


def host_loop(call: Callable[[], Any], count: int = 500) -> float:
    """Microseconds of one of many calls in a row, the queue never full."""
    import torch

    times: list[float] = []
    for _ in range(7):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(count):
            call()
        times.append((time.perf_counter() - begun) / count)
    return statistics.median(times) * 1e6


def row(
    case: str, way: str, us: float, host_us: float | None = None, wrong: str = "", launches: int | None = None
) -> dict[str, Any]:
    """A line of the table, printed at once."""
    print(
        f"{case:28} {way:28} {us:9.2f} us  host {host_us or 0:8.2f} us"
        + (f"  {launches} launches" if launches else "")
        + (f"  WRONG: {wrong}" if wrong else ""),
        flush=True,
    )
    import torch

    gpu = torch.cuda.get_device_name()
    return {"case": case, "gpu": gpu, "way": way, "us": us, "host_us": host_us, "wrong": wrong, "launches": launches}


def dry() -> None:
    """Everything but the timing."""
    rng = np.random.default_rng(record.SEED)
    small, weights = decode(16, 256, 2, 3)
    x = rng.standard_normal((16, 256), np.float32)
    want = x @ weights["w0"] @ weights["w1"] @ weights["w0"]
    for trigger in TRIGGERS:
        for constants in (True, False):
            with compiled_with(trigger, constants=constants):
                made = graphfuse.compile(small, target=TARGET, precision="bf16")
            got = CompiledModel(made.executable, device="emulator")({"x": x})["v3"]
            error = float((got - want).std() / want.std())
            print(f"decode {trigger} {constants}: error {error:.1e}")
            assert error < BOUND
        with compiled_with(trigger):
            made = graphfuse.compile(chain(128, 6), target=TARGET, options=Options(fuse=False))
        feed = {n: rng.random(128, np.float32) for n in "xy"}
        v = feed["x"]
        for i in range(6):
            v = v * feed["y"] if i % 2 else v + feed["y"]
        np.testing.assert_array_equal(CompiledModel(made.executable, device="emulator")(feed)["v6"], v)
    print("dry run done")


def main() -> None:
    """See the module."""
    parser = arguments(__doc__, budget=120, dry=True)
    args = parser.parse_args()
    if args.dry:
        dry()
        return
    import torch

    torch.manual_seed(record.SEED)
    begun, rows = time.monotonic(), list[dict[str, Any]]()
    parts: list[tuple[str, Callable[[], Iterator[dict[str, Any]]]]] = [
        *((f"chain {s}", lambda s=s: run_chain(s)) for s in SIZES),
        *((f"decode {d[0]}x", lambda d=d: run_decode(*d)) for d in DECODE),
        ("call", run_calls),
        ("model", lambda: run_models(args.only)),
    ]
    for name, part in parts:
        is_wanted = asked(name, args.only) or (name == "model" and any(w.startswith("model") for w in args.only))
        if is_wanted and time.monotonic() - begun < args.budget:
            rows += part()
            print(f"[{time.monotonic() - begun:.0f} s]", flush=True)
    if args.json:
        record.write(args.json, rows)
    if any(r["wrong"] for r in rows):
        sys.exit("wrong results")


if __name__ == "__main__":
    main()
