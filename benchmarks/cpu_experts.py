"""Mixtures of experts beside ONNX Runtime on the CPU.

    python -m benchmarks.cpu_experts [--threads 2] [--only '8 x 512'] [--tokens 1,4,16] [--json FILE]

A case is an `MoE` node in f32, of two products an expert and SiLU between them (ONNX Runtime has no third on a CPU),
compiled once for all numbers of tokens. Scores are drawn, so that tokens choose experts evenly. Both sides run in one
process, in rounds of rotated order; a round's figure is the least of its calls, and the row's the median of rounds. A
ratio above 1 means graphfuse is faster. Outputs are compared first: `error` is the largest difference, in standard
deviations.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import genai, record
from benchmarks.cpu_packed import compared
from benchmarks.gpu_timing import arguments, asked

TOKENS = "1,4,16,64,256,1024"
BOUND = 1e-4
"""Largest error that is right."""


@dataclass(frozen=True)
class Mixture:
    """The sizes of one; `k` experts serve a token. With `gated`, there is a third product: silu(w1 x) * (w3 x)."""

    experts: int
    width: int
    hidden: int
    k: int
    gated: bool = False

    @property
    def weights(self) -> dict[str, tuple[int, int, int]]:
        """Their shapes by name, [experts, out, in]."""
        wide = dict.fromkeys(("w1", "w3")[: 1 + self.gated], (self.experts, self.hidden, self.width))
        return wide | {"w2": (self.experts, self.width, self.hidden)}

    def __str__(self) -> str:
        return f"{self.experts} x {self.width} x {self.hidden}, top {self.k}"


MIXTURES = (Mixture(8, 512, 1024, 2), Mixture(32, 256, 512, 4), Mixture(64, 512, 384, 8))


def model_of(
    mixture: Mixture, tokens: int | str, elem: Any, known: Mapping[str, np.ndarray], links: int = 1
) -> onnx.ModelProto:
    """x0 [tokens, width] through `links` layers, of scores s0, s1, .. [tokens, experts] and the same weights.

    Weights that are not known are inputs.
    """
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(elem))
    attrs: dict[str, Any] = {"k": mixture.k, "activation_type": "silu", "normalize_routing_weights": 1}
    weights = ["w1", "", "w2", "", *(["w3"] if mixture.gated else [])]
    nodes = [
        helper.make_node("MoE", [f"x{i}", f"s{i}", *weights], [f"x{i + 1}"], domain="com.microsoft", **attrs)
        for i in range(links)
    ]
    shapes: dict[str, Sequence[int | str]] = {"x0": (tokens, mixture.width)}
    shapes |= {f"s{i}": (tokens, mixture.experts) for i in range(links)}
    shapes |= {name: shape for name, shape in mixture.weights.items() if name not in known}
    inputs = [helper.make_tensor_value_info(name, kind, list(shape)) for name, shape in shapes.items()]
    output = helper.make_tensor_value_info(f"x{links}", kind, [tokens, mixture.width])
    initial = [numpy_helper.from_array(a, name) for name, a in known.items()]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "experts", inputs, [output], initial)
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def measure(mixture: Mixture, counts: Sequence[int], threads: int, folder: Path) -> Iterator[dict[str, Any]]:
    """A row for each number of tokens."""
    import graphfuse

    rng = np.random.default_rng(record.SEED)
    known = {
        name: rng.standard_normal(shape, np.float32) / np.float32(shape[2] ** 0.5)
        for name, shape in mixture.weights.items()
    }
    onnx.save(model_of(mixture, "tokens", np.float32, known), path := folder / "experts.onnx")
    ours = graphfuse.compile(path, dims={"tokens": (1, max(counts))}, threads=threads)
    theirs = genai.session(path, threads)
    for tokens in counts:
        x = rng.standard_normal((tokens, mixture.width), np.float32)
        feeds = {"x0": x, "s0": rng.standard_normal((tokens, mixture.experts), np.float32)}

        def run_ours(feeds: dict[str, np.ndarray] = feeds) -> np.ndarray:
            return np.asarray(ours(feeds)["x1"])

        def run_theirs(feeds: dict[str, np.ndarray] = feeds) -> np.ndarray:
            return theirs.run(None, feeds)[0]

        case = {"case": str(mixture), "tokens": tokens, "threads": threads}
        yield case | compared(run_ours, run_theirs)


def report(row: Mapping[str, Any]) -> str:
    """A line of a row."""
    ms = ", ".join(f"{side} {ms:.3f}" for side, ms in row["ms"].items())
    flag = "" if row["error"] <= BOUND else "  WRONG"
    what = f"{row['case']}, {row['tokens']} tokens, {row['threads']} threads"
    return f"{what}: ms {ms}, ratio {row['ratio']:.2f}, error {row['error']:.1e}{flag}"


def main() -> int:
    """Every row, as it is made, and the mean of all; 1 if an output was wrong."""
    parser = arguments(__doc__, budget=1e9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", default=TOKENS)
    args = parser.parse_args()
    counts = [int(n) for n in args.tokens.split(",")]

    def rows() -> Iterator[dict[str, Any]]:
        for mixture in (m for m in MIXTURES if asked(str(m), args.only)):
            with tempfile.TemporaryDirectory() as folder:
                yield from measure(mixture, counts, args.threads, Path(folder))

    found = record.collect(rows(), report, args.json)
    if found:
        worst = min(found, key=lambda row: row["ratio"])
        mean = statistics.geometric_mean(row["ratio"] for row in found)
        print(f"geometric mean {mean:.2f}, the worst: {report(worst)}")
    return int(any(row["error"] > BOUND for row in found))


if __name__ == "__main__":
    sys.exit(main())
