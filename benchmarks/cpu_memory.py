"""Memory-bound kernels on tensors far beyond the cache, against memcpy of the same bytes in the same rounds.

    python benchmarks/cpu_memory.py [--megabytes 256] [--threads 1,2] [--rounds 7] [--json FILE]

Bandwidth counts each tensor once: bytes read plus bytes written. The peer copies one tensor to another by memcpy
(numpy's copy, one slice per thread). A ratio of 1 means the kernel moves bytes as fast as memcpy does.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import graphfuse
from benchmarks import record

ROW = 2048


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


def main() -> None:
    """Measure every case at every thread count and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
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
