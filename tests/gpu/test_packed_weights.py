"""`MatMulNBits` on GPUs, drawn: codes are multiplied as they are stored, by kernels for the number of rows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import graphfuse
from benchmarks.gpu_packed import Weights, packed_model
from graphfuse import compiler
from graphfuse.blockgen import gpu_packed_product
from graphfuse.blockgen.gpu_packed_tiles import Tile
from graphfuse.dialects import block
from graphfuse.frontends.onnx import import_model
from graphfuse.knobs import Options
from graphfuse.targets import Target
from tests.gpu.sweep_cases import SweepCase
from tests.gpu.test_sweep import sweep

DRAWN, ALL = 4, 60
LEAST = 1 << 16
"""Elements of a matrix that stays as it is."""
TOLERANCE = {np.float32: 2e-6, np.float16: 2e-3, ml_dtypes.bfloat16: 2e-2}


def model(draw: random.Random, elem: type, rows: int | str) -> tuple[onnx.ModelProto, np.ndarray]:
    """A product, with what an exporter may write around it; and its matrix [n, k] in f64."""
    rng = np.random.default_rng(draw.randrange(1 << 30))
    bits, least = draw.choice([(4, 32), (4, 32), (8, 16), (2, 64)])
    block = least << draw.randrange(3)
    k = block * draw.randint(1, max(1, 1024 // block))
    n = -(-LEAST // k) + draw.randrange(70)
    codes = rng.integers(0, 1 << bits, (n, k)).astype(np.uint8)
    per, blocks = 8 // bits, k // block
    scales = ((rng.random((n, blocks)) + 0.5) / 16).astype(elem)
    weights = {"w": _packed(codes, bits).reshape(n, blocks, block // per), "s": scales}
    zero: np.ndarray = np.full((n, blocks), 1 << bits - 1)
    if (kind := draw.choice(["none", "integers", "floats"])) == "integers":
        zero = rng.integers(0, 1 << bits, (n, blocks)).astype(np.uint8)
        weights["z"] = _packed(np.pad(zero, ((0, 0), (0, -blocks % per))), bits)
    elif kind == "floats":
        zero = (rng.random((n, blocks)) * (1 << bits)).astype(elem)
        weights["z"] = zero
    onnx_elem = helper.np_dtype_to_tensor_dtype(np.dtype(elem))
    attrs: dict[str, Any] = {"K": k, "N": n, "bits": bits, "block_size": block}
    nodes = [
        helper.make_node("MatMulNBits", ["x", *weights], ["p"], domain="com.microsoft", **attrs),
        helper.make_node("Relu", ["p"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, onnx_elem, [2, rows, d]) for name, d in (("x", k), ("y", n)))
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(a, name) for name, a in weights.items()])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    wide = (np.repeat(a.astype(np.float64), block, 1) for a in (zero, scales))
    return made, (codes - next(wide)) * next(wide)


def _shuffled(draw: random.Random, tiles: Sequence[Tile]) -> list[Tile]:
    """All that there are, of which any may come first."""
    return draw.sample(tiles, len(tiles))


def _packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes that follow along the last dim, the first in the lowest bits of a byte."""
    per = 8 // bits
    out = np.zeros((*codes.shape[:-1], codes.shape[-1] // per), np.uint8)
    for i in range(per):
        out |= codes[..., i::per] << np.uint8(bits * i)
    return out


@pytest.mark.parametrize("seed", [pytest.param(s, marks=() if s < DRAWN else pytest.mark.full) for s in range(ALL)])
def test_drawn(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    elem, rows = draw.choice([*TOLERANCE]), draw.choice(["n", 1, 3, 8])
    made, matrix = model(draw, elem, rows)
    target = Target.parse(f"cuda:{draw.choice(('sm_80', 'sm_90a'))}")
    if draw.random() < 0.6:
        monkeypatch.setattr(gpu_packed_product, "ordered", lambda tiles, ways, *_: [*_shuffled(draw, tiles), *ways])
        monkeypatch.setenv("GRAPHFUSE_CACHE", "0")
    kernels = compiler.stages(import_model(made), target, Options()).kernels
    multiplied = (block.dot_codes, block.widen_codes)
    assert all(any(op.kind in multiplied for op in f.walk()) for f in kernels.values())
    assert {n.removeprefix("contraction_0") for n in kernels} == ({"", "_one", "_n_8", "_n"} if rows == "n" else {""})
    compiled = graphfuse.compile(made, target=str(target), device="emulator")
    for count in (1, draw.randint(2, 8), draw.randint(40, 80)) if rows == "n" else (rows,):
        x = rng.standard_normal((2, count, matrix.shape[1])).astype(elem)
        want = np.maximum(x.astype(np.float64) @ matrix.T, 0)
        got = np.asarray(compiled({"x": x})["y"]).astype(np.float64)
        assert np.abs(got - want).max() <= TOLERANCE[elem] * np.abs(want).max()


@pytest.mark.parametrize("elem", ["f16", "f32"])
def test_a_step_ahead_reads_nothing_behind_x(elem: str) -> None:
    for arch in ("sm_80", "sm_90a"):
        sweep(SweepCase("packed", elem, "flat", "odd", arch))


def test_an_artifact_is_as_large_as_the_weights(tmp_path: Any) -> None:
    weights = Weights.drawn(2048, 4096, 32, 0)
    onnx.save(packed_model([weights], "n"), file := tmp_path / "m.onnx")
    graphfuse.compile(file, target="cuda:sm_90a", device="emulator").save(artifact := tmp_path / "m.gfx")
    assert artifact.stat().st_size <= 1.05 * weights.nbytes, "with code"
