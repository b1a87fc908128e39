"""Products with weights of 4 bits on a GPU, beside the same products of bf16 and torch's kernel for such weights.

    python -m benchmarks.gpu_packed [--only WORDS] [--rows 1,2,4,8,16] [--block 32,128] [--way NAME] [--json FILE]

A case is a chain of `MatMulNBits` of bf16, up and down between two widths, as layers of a Llama have them, each with
weights of its own and as many as no cache holds. Sides: `graphfuse`; `graphfuse bf16`, the chain with plain weights;
`torch bf16`; `torch int4`, `_weight_int4pack_mm`. Times are of one product, mean over the chain. `bandwidth` is what
weights and scales alone would need of the copy bandwidth, measured in the same run. `--way` has words of one of
`gpu_packed_product.ordered`, instead of the compiler's choice; with `--unknown` models leave open how many rows there
are. Results are compared with products in f32 first.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import record
from benchmarks.decode import copy_bandwidth
from benchmarks.gpu_timing import AGAIN, Called, Recorded, Timing, arguments, asked, medians, race, twice
from benchmarks.torch_gpu import each_in_a_process

SHAPES = {
    "1b 2048 2048": (2048, 2048), "1b 2048 8192": (2048, 8192), "8b 4096 4096": (4096, 4096),
    "8b 4096 14336": (4096, 14336), "70b 8192 8192": (8192, 8192), "70b 8192 28672": (8192, 28672),
}  # fmt: skip
"""Widths between which a chain goes up and down."""
UNCACHED = 110 << 20
"""Bytes of a chain's weights, at least."""
MOST_UNKNOWN = 4096
"""Rows that a model may have which does not say how many."""
BITS = 4
TIMING = Timing(0.05, 0.15, 3)
OURS, PLAIN, TORCH, INT4 = "graphfuse", "graphfuse bf16", "torch bf16", "torch int4"


@dataclass(frozen=True)
class Weights:
    """Of a product: codes [n, k], and scales [n, k / block] in bf16; the code 8 is 0."""

    codes: np.ndarray
    scales: np.ndarray

    @staticmethod
    def drawn(k: int, n: int, block: int, seed: int) -> Weights:
        """Random ones, for results as large as what is multiplied."""
        rng = np.random.default_rng(seed)
        scales = (rng.random((n, k // block), np.float32) + 0.5) / (4.6 * k**0.5)
        return Weights(rng.integers(1, 1 << BITS, (n, k), np.uint8), scales.astype(ml_dtypes.bfloat16))

    @property
    def nbytes(self) -> int:
        """As they are stored."""
        return self.codes.size * BITS // 8 + self.scales.nbytes

    def wide(self, torch: Any) -> Any:
        """[n, k] in f32 on the GPU."""
        codes, scales = torch.from_numpy(self.codes).cuda(), torch.from_numpy(self.scales.astype(np.float32)).cuda()
        block = self.codes.shape[1] // self.scales.shape[1]
        return (codes.float() - 8) * scales.repeat_interleave(block, 1)


def links(shape: tuple[int, int], bytes_each: Callable[[int, int], float]) -> list[tuple[int, int]]:
    """[k, n] of a chain's products, with so many bytes each, up and down."""
    k, n = shape
    pairs = -(-UNCACHED // int(bytes_each(k, n) + bytes_each(n, k)))
    return [(k, n), (n, k)] * int(pairs)


def packed_model(chain: Sequence[Weights], rows: int | str) -> onnx.ModelProto:
    """x [rows, k] through all of them."""
    nodes, known, name = list[Any](), list[Any](), "x0"
    for i, w in enumerate(chain):
        n, k = w.codes.shape
        block = k // w.scales.shape[1]
        pairs = (w.codes[:, ::2] | w.codes[:, 1::2] << BITS).reshape(n, k // block, -1)
        known += [numpy_helper.from_array(pairs, f"w{i}"), numpy_helper.from_array(w.scales, f"s{i}")]
        attrs: dict[str, Any] = {"K": k, "N": n, "bits": BITS, "block_size": block}
        names = [name, f"w{i}", f"s{i}"]
        name = f"x{i + 1}"
        nodes.append(helper.make_node("MatMulNBits", names, [name], domain="com.microsoft", **attrs))
    return _model(nodes, known, name, (rows, chain[0].codes.shape[1]), chain[-1].codes.shape[0])


def plain_model(chain: Sequence[np.ndarray], rows: int | str) -> onnx.ModelProto:
    """The same of matrices [k, n]."""
    known = [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(chain)]
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(len(chain))]
    return _model(nodes, known, f"x{len(chain)}", (rows, chain[0].shape[0]), chain[-1].shape[1])


def _model(nodes: list[Any], known: list[Any], last: str, shape: tuple[int | str, int], width: int) -> onnx.ModelProto:
    info = partial(helper.make_tensor_value_info, elem_type=TensorProto.BFLOAT16)
    ends = info("x0", shape=list(shape)), info(last, shape=[shape[0], width])
    graph = helper.make_graph(nodes, "chain", [ends[0]], [ends[1]], known)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _way(name: str) -> Any:
    """Patches the choice among ways to emit."""
    from graphfuse.blockgen import gpu_packed_product

    chosen = gpu_packed_product.ordered

    def ordered(*args: Any) -> list[Any]:
        return sorted(chosen(*args), key=lambda way: not set(name.split()).issubset(str(way).split()))

    return patch.object(gpu_packed_product, "ordered", ordered)


def measure(
    name: str, block: int, counts: Sequence[int], ways: Sequence[str], sides: Sequence[str], *, unknown: bool
) -> list[dict[str, Any]]:
    """Rows of a chain, one for each number of rows."""
    import torch

    import graphfuse

    os.environ |= {"GRAPHFUSE_CACHE": "0"} if len(ways) > 1 else {}  # what is cached has no way
    shape, declared = SHAPES[name], "rows" if unknown else ""
    dims = {"rows": (1, MOST_UNKNOWN)} if unknown else None
    drawn = [Weights.drawn(k, n, block, i) for i, (k, n) in enumerate(links(shape, lambda k, n: k * n / 2))]
    plain = [w.wide(torch).bfloat16() for w in drawn[: len(links(shape, lambda k, n: k * n * 2.0))]]
    packed = [int4pack(torch, w, block) for w in drawn] if INT4 in sides else []
    bandwidth, out = copy_bandwidth(torch), list[dict[str, Any]]()
    known = [w.float().cpu().numpy().astype(ml_dtypes.bfloat16).T for w in plain] if PLAIN in sides else []
    for rows in counts:
        torch.manual_seed(record.SEED)
        x = torch.randn(rows, shape[0], device="cuda").bfloat16()
        want = through(torch, x, drawn)
        row: dict[str, Any] = {"case": name, "block": block, "rows": rows, "copy_tb_s": bandwidth, "error": {}}
        row["gpu"] = torch.cuda.get_device_name()
        row["bytes"] = sum(w.nbytes for w in drawn) / len(drawn)
        contestants, length = dict[str, Any](), dict[str, int]()
        for way in ways:
            begun = time.perf_counter()
            with _way(way):
                ours = graphfuse.compile(packed_model(drawn, declared or rows), device="cuda", dims=dims)
            side = f"{OURS} {way}".strip()
            (got,) = ours.session.run({"x0": x}).values()
            row["error"][side], length[side] = _error(got, want), len(drawn)
            contestants[side] = Called(partial(ours.session.run, {"x0": x}), asleep=True)
            row["compile_s"] = time.perf_counter() - begun
        if PLAIN in sides:
            same = graphfuse.compile(plain_model(known, declared or rows), device="cuda", dims=dims)
            contestants[PLAIN], length[PLAIN] = Called(partial(same.session.run, {"x0": x}), asleep=True), len(plain)
        if TORCH in sides:
            turned = [w.T for w in plain]
            calls = twice({TORCH: partial(through_bf16, x, turned)})
            contestants |= {side: Recorded(call) for side, call in calls.items()}
            length |= dict.fromkeys(calls, len(plain))
        if INT4 in sides:
            run = partial(through_int4, torch, x, packed, block)
            row["error"][INT4], length[INT4] = _error(run(), want), len(drawn)
            contestants[INT4] = Recorded(run)
        ms = medians(race(contestants, TIMING))
        row["us"] = {side: 1e3 * t / length[side] for side, t in ms.items()}
        row["bandwidth"] = row["bytes"] / bandwidth / 1e6 / row["us"][f"{OURS} {ways[0]}".strip()]
        out.append(row)
        print(report(row), flush=True)
    return out


def through(torch: Any, x: Any, chain: Sequence[Weights]) -> Any:
    """Products in f32, of which each result is rounded."""
    for w in chain:
        x = (x.float() @ w.wide(torch).T).bfloat16()
    return x.float()


def through_bf16(x: Any, chain: Sequence[Any]) -> Any:
    """By torch's products."""
    for w in chain:
        x = x @ w
    return x


def int4pack(torch: Any, w: Weights, block: int) -> tuple[Any, Any]:
    """As torch's kernel takes them: code 8 is its zero, too."""
    codes = torch.from_numpy(w.codes).cuda().to(torch.int32)
    codes = (codes[:, ::2] << 4 | codes[:, 1::2]).to(torch.uint8)
    scales = torch.from_numpy(w.scales.astype(np.float32)).cuda().bfloat16().T.contiguous()
    return torch._convert_weight_to_int4pack(codes, 8), torch.stack([scales, torch.zeros_like(scales)], 2).contiguous()


def through_int4(torch: Any, x: Any, chain: Sequence[tuple[Any, Any]], block: int) -> Any:
    """By that kernel."""
    for w, scales in chain:
        x = torch._weight_int4pack_mm(x, w, block, scales)
    return x


def _error(got: Any, want: Any) -> float:
    return float((got.float() - want).norm() / want.norm())


def report(row: Mapping[str, Any]) -> str:
    """A line of a row."""
    us, first = row["us"], next(iter(row["us"].values()))
    text = f"{row['case']}, block {row['block']}, {row['rows']} rows: {row['bandwidth']:.2f} of bandwidth"
    text += "".join(f", {side} {t:.2f}" for side, t in us.items() if AGAIN not in side)
    text += "".join(f", x {side} {t / first:.2f}" for side, t in us.items() if side in (PLAIN, TORCH, INT4))
    return text + f", error {max(row['error'].values()):.1e}, compiled in {row['compile_s']:.0f} s"


def main() -> int:
    """Every case and block in a process of its own."""
    parser = arguments(__doc__, budget=500)
    parser.add_argument("--rows", default="1,2,4,8,16")
    parser.add_argument("--block", default="32,128")
    parser.add_argument("--way", action="append", default=[])
    parser.add_argument("--sides", default=",".join((PLAIN, TORCH, INT4)))
    parser.add_argument("--unknown", action="store_true", help="models do not say how many rows there are")
    parser.add_argument("--worker", metavar="CASE")
    args = parser.parse_args()
    counts, sides = [int(n) for n in args.rows.split(",")], args.sides.split(",")
    if args.worker:
        print(
            json.dumps(
                {"rows": measure(args.worker, int(args.block), counts, args.way or [""], sides, unknown=args.unknown)}
            )
        )
        return 0
    rows: list[dict[str, Any]] = []
    command = ["benchmarks.gpu_packed", "--rows", args.rows, "--sides", args.sides, *["--unknown"] * args.unknown]
    command += [word for way in args.way for word in ("--way", way)]
    cases = (
        ([*command, "--block", block, "--worker", name], {"rows": []})
        for name, block in itertools.product(SHAPES, args.block.split(","))
        if asked(name, args.only)
    )
    for found in each_in_a_process(cases, args.budget, 20):
        print("\n".join(map(report, found)), flush=True)
        rows += found
        if args.json:
            record.write(args.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
