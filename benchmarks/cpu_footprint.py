"""Memory of a process that loads a model and runs it, beside the bytes of its weights; each in a fresh process. Linux.

    python -m benchmarks.cpu_footprint [--models bert_base,gpt2,resnet50] [--json benchmarks/results/cpu_footprint.json]

Figures are growth from just before loading to after the second answer, on one thread, by /proc/self/smaps_rollup.
Own is what the kernel calls anonymous: memory that no file backs, where copies of weights would be. Resident is all
that is in memory, mapped pages of files included; those the kernel may drop and read again, and processes share them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import models
from benchmarks import record

DIMS = {"batch": 1, "seq": 128, "past": 128}
ROLLUP = Path("/proc/self/smaps_rollup")

Feeds = dict[str, np.ndarray]


def rollup() -> dict[str, int]:
    """Bytes of this process by kind."""
    fields = (line.split() for line in ROLLUP.read_text(encoding="ascii").splitlines()[1:])
    found = {name.rstrip(":"): int(kib) * 1024 for name, kib, _ in fields}
    return {"own": found["Anonymous"], "resident": found["Rss"]}


def growth(load: Callable[[], Callable[[Feeds], object]], feeds: Feeds) -> dict[str, int]:
    """What loading a model and running it twice adds to this process."""
    start = rollup()
    run = load()
    run(feeds)
    run(feeds)
    return {kind: now - start[kind] for kind, now in rollup().items()}


def graphfuse_artifact(path: Path, _: Mapping[str, Any], feeds: Feeds) -> dict[str, int]:
    """An artifact."""
    import graphfuse

    return growth(lambda: graphfuse.load(path, threads=1), feeds)


def graphfuse_compile(path: Path, dims: Mapping[str, Any], feeds: Feeds) -> dict[str, int]:
    """An ONNX file, compiled in the same process with an empty cache."""
    import graphfuse

    with tempfile.TemporaryDirectory() as cache:
        os.environ["GRAPHFUSE_CACHE"] = cache
        return growth(lambda: graphfuse.compile(path, dims=dims, threads=1), feeds)


def onnxruntime_session(path: Path, _: Mapping[str, Any], feeds: Feeds) -> dict[str, int]:
    """The same ONNX file in ONNX Runtime."""
    import onnxruntime

    options: Any = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3

    def load() -> Callable[[Feeds], object]:
        session: Any = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return lambda inputs: session.run(None, inputs)

    return growth(load, feeds)


def measure(name: str, folder: Path) -> dict[str, Any]:
    """One row: every side in a process of its own."""
    model, path = models.get(name), models.cached(name)
    dims = {key: min(max(DIMS.get(key, low), low), high) for key, (low, high) in model.DIMS.items()}
    feeds = model.inputs(np.random.default_rng(record.SEED), **dims)
    artifact = folder / f"{name}.gfx"
    weights, memory = _in_fresh_process(_save, path, model.DIMS, artifact, dims)
    return {
        "model": name,
        "dims": dims,
        "weights": weights,
        "arena": memory["arena"],
        "artifact": _in_fresh_process(graphfuse_artifact, artifact, model.DIMS, feeds),
        "compile": _in_fresh_process(graphfuse_compile, path, model.DIMS, feeds),
        "onnxruntime": _in_fresh_process(onnxruntime_session, path, model.DIMS, feeds),
    }


def _save(path: Path, ranges: Mapping[str, Any], artifact: Path, dims: Mapping[str, int]) -> tuple[int, dict[str, int]]:
    import graphfuse

    compiled = graphfuse.compile(path, dims=ranges)
    compiled.save(artifact)
    memory = compiled.inspect(dims)["memory"]
    return memory["weights"], memory


def _in_fresh_process(task: Callable[..., Any], *args: object) -> Any:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(task, *args).result()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", default="bert_base,gpt2,resnet50", help="comma-separated")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    args = parser.parse_args()
    if not ROLLUP.exists():
        parser.error(f"{ROLLUP}: no such file; only Linux tells these figures")
    rows: list[dict[str, Any]] = []
    sides = ("artifact", "compile", "onnxruntime")
    print(f"{'model':16} {'weights':>8}" + "".join(f" {side + ', own':>19} {'resident':>8}" for side in sides) + "  MB")
    with tempfile.TemporaryDirectory() as folder:
        for name in args.models.split(","):
            row = measure(name, Path(folder))
            rows.append(row)
            cells = [f" {row[side]['own'] / 1e6:19.1f} {row[side]['resident'] / 1e6:8.1f}" for side in sides]
            print(f"{name:16} {row['weights'] / 1e6:8.1f}" + "".join(cells), flush=True)
    if args.json:
        record.write(args.json, rows)


if __name__ == "__main__":
    main()
