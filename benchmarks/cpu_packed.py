"""Weights of 4 bits beside ONNX Runtime on the CPU: single products, and one token of a decoder.

    python -m benchmarks.cpu_packed [--threads 2] [--only products,decode:110m,decode:1b] [--json FILE]

Products are `MatMulNBits` in shapes of Llamas of 1 and 8 billion parameters, in blocks of 32, with and without leave to
round their left operand to 8 bits (`accuracy_level` 4 and 0). Decoders are those of benchmarks/decode.py, as GenAI's
builder writes them, in f32, quantised by ONNX Runtime's own tool, with 1,024 tokens in their cache. Both sides run in
one process, in rounds of rotated order; a round's figure is the least of its calls, and the row's the median of rounds.
`file` is how large our artifact is, compared with the model's. Outputs are compared first: `error` is the largest
difference, in standard deviations.
"""

from __future__ import annotations

import itertools
import logging
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import genai, record
from benchmarks.decode import SHAPES, OnCpu, decoder
from benchmarks.gpu_timing import Call, Timing, arguments, asked, medians, race
from models import _genai

BLOCK = 32
PRODUCTS = ((2048, 2048), (2048, 8192), (8192, 2048), (4096, 4096), (4096, 14336))
ROWS = (1, 16, 128)
LEVELS = (0, 4)
KEYS = 1024
MODELS = ("110m", "1b")
TIMING = Timing(0.1, 0.3, 9)


def product_model(k: int, n: int, level: int) -> onnx.ModelProto:
    """x [rows, k] times a matrix of 4 bits."""
    rng = np.random.default_rng(record.SEED)
    weights = {
        "w": rng.integers(0, 256, (n, k // BLOCK, BLOCK // 2), np.uint8),
        "s": (rng.random((n, k // BLOCK)) / 100).astype(np.float32),
    }
    attrs: dict[str, Any] = {"K": k, "N": n, "bits": 4, "block_size": BLOCK, "accuracy_level": level}
    node = helper.make_node("MatMulNBits", ["x", *weights], ["y"], domain="com.microsoft", **attrs)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", d]) for name, d in (("x", k), ("y", n)))
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(a, name) for name, a in weights.items()])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def products(threads: int, folder: Path) -> Iterator[dict[str, Any]]:
    """A row for each shape, level and number of rows."""
    import graphfuse

    for (k, n), level in itertools.product(PRODUCTS, LEVELS):
        onnx.save(product_model(k, n, level), path := folder / "product.onnx")
        ours = graphfuse.compile(path, dims={"rows": (1, max(ROWS))}, threads=threads)
        theirs, file = genai.session(path, threads), size_of(ours, path)
        for rows in ROWS:
            x = np.random.default_rng(rows).standard_normal((rows, k), np.float32)

            def run_ours(x: np.ndarray = x, ours: Any = ours) -> np.ndarray:
                return np.asarray(ours(x=x)["y"])

            def run_theirs(x: np.ndarray = x, theirs: Any = theirs) -> np.ndarray:
                return theirs.run(None, {"x": x})[0]

            case = {"case": f"{k} x {n}", "level": level, "rows": rows, "threads": threads, "file": file}
            yield case | compared(run_ours, run_theirs)


def decode(name: str, threads: int, folder: Path) -> Iterator[dict[str, Any]]:
    """A row for each level: one token of a decoder."""
    import torch

    import graphfuse

    shape = SHAPES[name]
    module = decoder(torch, shape, 1, KEYS)
    genai.save(torch, module, shape, plain := folder / "decoder.onnx")
    for parameter in module.parameters():  # the file has them
        parameter.data = torch.empty(0)
    word, mask = np.array([[7]], np.int64), np.ones((1, KEYS), np.int64)
    for level in LEVELS:
        path = folder / f"level{level}" / "quantised.onnx"
        path.parent.mkdir()
        quantise(plain, path, level)
        names = [_genai.CACHE.format(i, what) for i in range(shape.layers) for what in ("key", "value")]
        state = {past: f"present.{past.split('.')[1]}.{past.split('.')[2]}" for past in names}
        dims = {"batch": 1, "steps": 1, "total": KEYS, "capacity": KEYS}
        ours = graphfuse.compile(path, dims=dims, state=state, threads=threads)
        held = graphfuse.Session(ours, {})
        caches = [cache for layer in module.layers for cache in (layer.keys, layer.values)]
        held.restore({past: cache.numpy() for past, cache in zip(names, caches, strict=True)})
        theirs = genai.step_of(torch, genai.session(path, threads), module, shape)

        def run_ours(held: Any = held) -> np.ndarray:
            return np.asarray(held(input_ids=word, attention_mask=mask)["logits"])

        def run_theirs(theirs: Any = theirs) -> np.ndarray:
            return theirs(word, KEYS).numpy()[:, None]

        case = {"case": f"decode {name}", "level": level, "rows": 1, "threads": threads}
        yield case | {"file": size_of(ours, path)} | compared(run_ours, run_theirs)


def quantise(plain: Path, path: Path, level: int) -> None:
    """All matrices of a file in 4 bits, by ONNX Runtime's tool."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.INFO)  # it sets up a log of every node
        from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer

        config = DefaultWeightOnlyQuantConfig(block_size=BLOCK, is_symmetric=True, bits=4, accuracy_level=level)
        quantizer = MatMulNBitsQuantizer(onnx.load(plain), algo_config=config)
        quantizer.process()
    quantizer.model.save_model_to_file(str(path), use_external_data_format=True)


def size_of(ours: Any, path: Path) -> float:
    """Of an artifact, in that of the model's files."""
    artifact = path.with_suffix(".gfx")
    ours.save(artifact)
    return artifact.stat().st_size / sum(p.stat().st_size for p in path.parent.glob(f"{path.name}*"))


def compared(ours: Call, theirs: Call) -> dict[str, Any]:
    """The difference of two sides' outputs, their milliseconds, and the ratio of these."""
    want = theirs()
    error = float(np.abs(ours() - want).max() / want.std())
    ms = medians(race({"graphfuse": OnCpu(ours), "onnxruntime": OnCpu(theirs)}, TIMING))
    return {"error": error, "ms": ms, "ratio": ms["onnxruntime"] / ms["graphfuse"]}


def report(row: Mapping[str, Any]) -> str:
    """A line of a row."""
    ms = ", ".join(f"{side} {ms:.3f}" for side, ms in row["ms"].items())
    what = f"{row['case']}, level {row['level']}, {row['rows']} rows, {row['threads']} threads"
    return f"{what}: ms {ms}, ratio {row['ratio']:.2f}, file {row['file']:.3f}, error {row['error']:.1e}"


def main() -> int:
    """Every row, as it is made."""
    parser = arguments(__doc__, budget=1e9)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    parts = [part for part in ("products", *(f"decode:{m}" for m in MODELS)) if asked(part, args.only)]

    def rows() -> Iterator[dict[str, Any]]:
        for part in parts:
            _, _, name = part.partition(":")
            with tempfile.TemporaryDirectory() as folder:
                yield from (decode(name, args.threads, Path(folder)) if name else products(args.threads, Path(folder)))

    record.collect(rows(), report, args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
