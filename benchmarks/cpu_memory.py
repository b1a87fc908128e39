"""Memory-bound kernels on tensors far beyond the cache, against memcpy of the same bytes in the same rounds.

    python benchmarks/cpu_memory.py [--megabytes 256] [--threads 1,2] [--rounds 7] [--json FILE]
    GRAPHFUSE_CACHE=0 python benchmarks/cpu_memory.py --fit [--megabytes 256] [--threads 1,2] [--rounds 7]

Bandwidth counts each tensor once: bytes read plus bytes written. The peer copies one tensor to another by memcpy
(numpy's copy, one slice per thread). A ratio of 1 means the kernel moves bytes as fast as memcpy does.

`--fit` is what constants are fitted by: rows of some lengths are multiplied by a vector, alone and asked for by each of
some distances (`row_ahead_bytes`), and several of them together (`SHORT_ROW`).
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import onnx
from onnx import TensorProto, helper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import graphfuse
import graphfuse.cpu.backend
from benchmarks import record
from graphfuse.blockgen import reduction
from graphfuse.targets import Target
from graphfuse.targets.cpu import machine_of
from graphfuse.targets.machine import Machine

ROW = 2048
AHEAD = (1024, 2048, 4096, 8192, 16384)
"""Distances in bytes."""
LENGTHS = (128, 192, 256, 384, 768, 2048)
"""Of rows, in f32."""
NEVER = 1 << 40


def chain() -> list[onnx.NodeProto]:
    """sigmoid(relu(x * 1.5 + 0.25)) * x: five elementwise ops."""
    return [
        helper.make_node("Mul", ["x", "scale"], ["a"]),
        helper.make_node("Add", ["a", "shift"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Sigmoid", ["c"], ["d"]),
        helper.make_node("Mul", ["d", "x"], ["y"]),
    ]


def softmax() -> list[onnx.NodeProto]:
    """Row-wise softmax."""
    return [helper.make_node("Softmax", ["x"], ["y"], axis=-1)]


def layer_norm() -> list[onnx.NodeProto]:
    """Layer norm over rows."""
    return [helper.make_node("LayerNormalization", ["x", "gain", "bias"], ["y"], axis=-1)]


CASES: dict[str, Callable[[], list[onnx.NodeProto]]] = {
    "elementwise chain": chain, "softmax": softmax, "layer norm": layer_norm,
}  # fmt: skip


def model(nodes: list[onnx.NodeProto], rows: int) -> onnx.ModelProto:
    """A model of `nodes` over x [rows, ROW] f32."""
    rng = np.random.default_rng(record.SEED)
    constants = {
        "scale": np.float32(1.5),
        "shift": np.float32(0.25),
        "gain": rng.uniform(0.5, 1.5, ROW).astype(np.float32),
        "bias": rng.standard_normal(ROW).astype(np.float32),
    }
    used = {name for node in nodes for name in node.input}
    initializers = [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items() if k in used]
    shape = [rows, ROW]
    graph = helper.make_graph(
        nodes, "case",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        initializers,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def copier(threads: int, source: np.ndarray, target: np.ndarray) -> Callable[[], None]:
    """A memcpy of `source` to `target` by `threads` threads."""
    pool = concurrent.futures.ThreadPoolExecutor(threads)
    parts = list(zip(np.array_split(source, threads), np.array_split(target, threads), strict=True))

    def copy() -> None:
        for future in [pool.submit(np.copyto, t, s) for s, t in parts]:
            future.result()

    return copy


def aligned(shape: tuple[int, ...]) -> np.ndarray:
    """A 64-byte aligned f32 array whose pages are mapped."""
    raw = np.zeros(int(np.prod(shape)) * 4 + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + int(np.prod(shape)) * 4].view(np.float32).reshape(shape)


def seconds(run: Callable[[], object]) -> float:
    """One timed call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def walker(x: np.ndarray, threads: int, short: int, ahead: int = 0) -> Callable[[], object]:
    """The product of x with a vector: rows of `short` bytes and more walked together, others asked for so far ahead."""

    def machine(target: Target) -> Machine:
        found = machine_of(target)
        return replace(found, core=replace(found.core, row_ahead_bytes=ahead or found.core.row_ahead_bytes))

    rows, columns = x.shape
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "v"], ["y"])], "walk",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [rows, columns]), ("v", [columns]))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows])],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    with patch.object(graphfuse.cpu.backend, "machine_of", machine), patch.object(reduction, "SHORT_ROW", short):
        compiled = graphfuse.compile(made, threads=threads)
    return functools.partial(compiled.session.run, {"x": x, "v": np.ones(columns, np.float32)})


def fit(megabytes: int, threads: int, rounds: int) -> None:
    """Race the constants, and print the bandwidth of each."""
    for columns in LENGTHS:
        x = aligned((megabytes * (1 << 20) // (4 * columns) // 8 * 8, columns))
        x[:] = 1.0
        calls = {f"alone, {n} bytes ahead": walker(x, threads, NEVER, n) for n in AHEAD}
        calls["together"] = walker(x, threads, 0)
        took: dict[str, list[float]] = {name: [] for name in calls}
        for name, call in [*calls.items()] * (rounds + 1):
            took[name].append(seconds(call))
        for name, times in took.items():
            fastest = 1e-9 * x.nbytes / min(times)
            print(f"{4 * columns:6d} bytes a row {threads:3d} threads {name:24s} {fastest:6.1f} GB/s")


def main() -> None:
    """Measure every case at every thread count and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--fit", action="store_true", help="race constants instead")
    args = parser.parse_args()
    if args.fit:
        for threads in map(int, args.threads.split(",")):
            fit(args.megabytes, threads, args.rounds)
        return
    rows = args.megabytes * (1 << 20) // (4 * ROW)
    x = np.random.default_rng(record.SEED + 1).standard_normal((rows, ROW), dtype=np.float32)
    target = aligned(x.shape)
    found: list[dict[str, object]] = []
    print(f"{'case':20s} threads   GB/s  memcpy  ratio")
    for threads in map(int, args.threads.split(",")):
        copy = copier(threads, x, target)
        for name, nodes in CASES.items():
            compiled = graphfuse.compile(model(nodes(), rows), threads=threads)
            call = functools.partial(compiled.session.run, {"x": x}, out={"y": target})
            call(), copy()
            ours, theirs = [], []
            for _ in range(args.rounds):
                ours.append(seconds(call))
                theirs.append(seconds(copy))
            moved = 2 * x.nbytes / 1e9
            mine, peer = moved / statistics.median(ours), moved / statistics.median(theirs)
            print(f"{name:20s} {threads:7d} {mine:6.1f} {peer:7.1f} {mine / peer:6.2f}")
            found.append(
                {"case": name, "threads": threads, "gb_per_s": mine, "memcpy_gb_per_s": peer, "ratio": mine / peer}
            )
    if args.json:
        record.write(args.json, found)


if __name__ == "__main__":
    main()
