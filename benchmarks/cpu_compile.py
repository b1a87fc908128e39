"""Compile time with an empty cache, and time from loading an artifact to its first answer, each in a fresh process.

    python benchmarks/cpu_compile.py [--models bert_base,resnet50] [--rounds 3] [--json FILE]

The peer, where torch is installed, is `torch.compile` of a BERT-base of the same size (`--against inductor`).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import models
from benchmarks import record

COMPILE = """
import json, sys, time
start = time.perf_counter()
import graphfuse
import models
model = models.get(sys.argv[1])
compiled = graphfuse.compile(sys.argv[2], dims=model.DIMS)
seconds = time.perf_counter() - start
compiled.save(sys.argv[3])
print(json.dumps({"seconds": seconds}))
"""
LOAD = """
import sys, time, pickle
import numpy as np
inputs = dict(np.load(sys.argv[2]))
start = time.perf_counter()
import graphfuse
model = graphfuse.load(sys.argv[1])
loaded = time.perf_counter()
model(inputs)
answered = time.perf_counter()
model(inputs)
again = time.perf_counter()
import json
print(json.dumps({"load": loaded - start, "first": answered - start, "second": again - answered,
                  "heavy": [m for m in ("onnx", "torch", "networkx") if m in sys.modules]}))
"""
INDUCTOR = """
import json, sys, time
import torch
from transformers import BertConfig, BertModel
torch.manual_seed(int(sys.argv[1]))
model = BertModel(BertConfig(), add_pooling_layer=True).eval()
ids = torch.randint(0, 30000, (1, 128))
with torch.no_grad():
    compiled = torch.compile(model)
    start = time.perf_counter()
    compiled(ids)
    print(json.dumps({"seconds": time.perf_counter() - start}))
"""


def python(code: str, *args: str, **env: str) -> dict[str, float]:
    """Run `code` in a fresh process and read the JSON it prints."""
    root = str(Path(__file__).resolve().parent.parent)
    environ = {**os.environ, "PYTHONPATH": root, **env}
    out = subprocess.run([sys.executable, "-c", code, *args], env=environ, check=True, capture_output=True, text=True)
    return json.loads(out.stdout.splitlines()[-1])


def main() -> None:
    """Measure and print."""
    import numpy as np

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="bert_base,resnet50")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", choices=["inductor"])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows: list[dict[str, object]] = []
    print(f"{'model':16s} cold compile, s   load to first answer, s   second answer, s")
    with tempfile.TemporaryDirectory() as folder:
        for name in args.models.split(","):
            path, artifact, feed = models.cached(name), f"{folder}/{name}.gfx", f"{folder}/{name}.npz"
            np.savez(feed, **models.get(name).inputs(np.random.default_rng(record.SEED)))
            cold = [
                python(COMPILE, name, str(path), artifact, GRAPHFUSE_CACHE="0")["seconds"] for _ in range(args.rounds)
            ]
            loads = [python(LOAD, artifact, feed) for _ in range(args.rounds)]
            assert not any(load["heavy"] for load in loads), "loading imported a compiler's libraries"
            entry = {
                "model": name,
                "cold_compile_s": statistics.median(cold),
                "first_answer_s": statistics.median(load["first"] for load in loads),
                "second_answer_s": statistics.median(load["second"] for load in loads),
            }
            rows.append(entry)
            print(
                f"{name:16s} {entry['cold_compile_s']:15.2f} {entry['first_answer_s']:25.3f} "
                f"{entry['second_answer_s']:18.3f}"
            )
    if args.against == "inductor":
        with tempfile.TemporaryDirectory() as cache:
            peer = python(INDUCTOR, str(record.SEED), TORCHINDUCTOR_CACHE_DIR=cache)["seconds"]
        rows.append({"model": "bert_base (inductor)", "cold_compile_s": peer})
        print(f"{'  inductor':16s} {peer:15.2f}")
    if args.json:
        record.write(args.json, rows)


if __name__ == "__main__":
    main()
