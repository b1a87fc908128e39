"""`MoE` drawn, on CPU and emulated GPUs: tokens go to the experts that they chose, whose weights are read in place."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import graphfuse
from graphfuse import compiler
from graphfuse.dialects import graph
from graphfuse.frontends.onnx import import_model
from graphfuse.ir.core import tensor_of
from graphfuse.knobs import Options
from graphfuse.targets import Target

DRAWN, ALL = 8, 60
TARGETS = "cpu", "cuda:sm_80", "cuda:sm_90a"
TOLERANCE = {np.float32: 2e-5, np.float16: 1e-2}
Array = np.ndarray


def mixture(
    experts: int, width: int, hidden: int, k: int, tokens: int | str, elem: type = np.float32, *,
    gated: bool = False, biased: bool = False, normalised: bool = True, seed: int = 0,
) -> onnx.ModelProto:  # fmt: skip
    """Experts by SiLU, perhaps times a third product."""
    rng = np.random.default_rng(seed)
    shapes = {"w1": (experts, hidden, width), "w2": (experts, width, hidden)}
    shapes |= {"w3": shapes["w1"]} if gated else {}
    weights = {n: (rng.standard_normal(s) / s[2] ** 0.5).astype(elem) for n, s in shapes.items()}
    if biased:
        weights |= {n.replace("w", "b"): rng.standard_normal(s[:2]).astype(elem) for n, s in shapes.items()}
    inputs = [n if n in weights else "" for n in ("w1", "b1", "w2", "b2", "w3", "b3")]
    attrs: dict[str, Any] = {"k": k, "activation_type": "silu", "normalize_routing_weights": int(normalised)}
    node = helper.make_node("MoE", ["x", "s", *inputs], ["y"], domain="com.microsoft", **attrs)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(elem))
    x, s, y = (
        helper.make_tensor_value_info(n, kind, [tokens, d]) for n, d in (("x", width), ("s", experts), ("y", width))
    )
    made = helper.make_graph([node], "g", [x, s], [y], [numpy_helper.from_array(a, n) for n, a in weights.items()])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(made, opset_imports=opsets, ir_version=10)


def reference(model: onnx.ModelProto, x: Array, scores: Array, weights: dict[str, Array] | None = None) -> Array:
    """Token by token in f64, by the model's weights if no others are given."""
    (node,) = model.graph.node
    w = weights or {t.name: numpy_helper.to_array(t).astype(np.float64) for t in model.graph.initializer}
    attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    s, out = scores.astype(np.float64), np.zeros(x.shape)
    p = np.exp(s - s.max(1, keepdims=True, initial=-np.inf))
    p /= p.sum(1, keepdims=True)

    def product(expert: int, number: int, v: Array) -> Array:
        return w[f"w{number}"][expert] @ v + (w[f"b{number}"][expert] if f"b{number}" in w else 0)

    for t, token in enumerate(x.astype(np.float64)):
        best = np.argsort(-s[t], kind="stable")[: attrs["k"]]
        total = p[t, best].sum() if attrs["normalize_routing_weights"] else 1
        for e in best:
            h = product(e, 1, token)
            h = h / (1 + np.exp(-h)) * (product(e, 3, token) if "w3" in w else 1)
            out[t] += p[t, e] / total * product(e, 2, h)
    return out


def scores_of(draw: random.Random, rng: np.random.Generator, tokens: int, experts: int, elem: type) -> Array:
    """Distinct in each row, as halves too; all tokens may want one expert."""
    order = np.argsort(rng.random((tokens, experts)), 1)
    scores = order / 8
    if draw.random() < 0.3:
        scores[:, draw.randrange(experts)] = experts
    return scores.astype(elem)


@pytest.mark.parametrize("seed", [pytest.param(s, marks=() if s < DRAWN else pytest.mark.full) for s in range(ALL)])
def test_drawn(seed: int) -> None:
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    target = TARGETS[seed % 3]
    elem = np.float32 if target == "cpu" else draw.choice([*TOLERANCE])
    experts, (width, hidden) = round(2 ** draw.uniform(0, 5)), (round(2 ** draw.uniform(2, 6.5)) for _ in range(2))
    if draw.random() < 0.6:
        width, hidden = -(-width // 16) * 16, -(-hidden // 16) * 16
    k, tokens = draw.randint(1, min(4, experts)), draw.choice(["t", "t", 0, 1, round(2 ** draw.uniform(0, 6))])
    options = {name: draw.random() < 0.5 for name in ("gated", "biased", "normalised")}
    model = mixture(experts, width, hidden, k, tokens, elem, seed=seed, **options)
    compiled = graphfuse.compile(model, **({} if target == "cpu" else {"target": target, "device": "emulator"}))
    for count in (1, draw.randint(2, 9), draw.randint(10, 60)) if tokens == "t" else (int(tokens),):
        x, scores = rng.standard_normal((count, width)).astype(elem), scores_of(draw, rng, count, experts, elem)
        want, got = reference(model, x, scores), np.asarray(compiled({"x": x, "s": scores})["y"]).astype(np.float64)
        assert got.shape == want.shape
        assert np.abs(got - want).max(initial=0) <= TOLERANCE[elem] * np.abs(want).max(initial=1)


@pytest.mark.parametrize("elem", [np.float32, np.float16])
def test_weights_of_fp8_in_square_blocks(elem: type) -> None:
    """ONNX Runtime has no such kernel for CPUs; blocks at the ends are cut off."""
    rng, block = np.random.default_rng(0), 32
    model = mixture(4, 80, 48, 2, 6, elem)
    (node,), wide = model.graph.node, dict[str, Array]()
    node.op_type = "QMoE"
    node.attribute.extend([helper.make_attribute("quant_type", "fp8"), helper.make_attribute("block_size", block)])
    node.input[:] = ["x", "s", "w1", "s1", "", "w2", "s2", ""]
    for number, name in ((1, "w1"), (2, "w2")):
        (tensor,) = (t for t in model.graph.initializer if t.name == name)
        codes = numpy_helper.to_array(tensor).astype(ml_dtypes.float8_e4m3fn)
        blocks = (codes.shape[0], *(-(-d // block) for d in codes.shape[1:]))
        scales = (rng.random(blocks) + 0.5).astype(np.float32)
        spread = scales.repeat(block, 1).repeat(block, 2)[:, : codes.shape[1], : codes.shape[2]]
        wide[name] = codes.astype(np.float64) * spread
        kind = onnx.TensorProto.FLOAT8E4M3FN
        tensor.CopyFrom(helper.make_tensor(name, kind, codes.shape, codes.view(np.uint8).tobytes(), raw=True))
        model.graph.initializer.append(numpy_helper.from_array(scales, f"s{number}"))
    x, scores = rng.standard_normal((6, 80)).astype(elem), scores_of(random.Random(0), rng, 6, 4, elem)
    want = reference(model, x, scores, wide)
    for options in ({}, {"target": "cuda:sm_90a", "device": "emulator"}):
        got = np.asarray(graphfuse.compile(model, **options)({"x": x, "s": scores})["y"]).astype(np.float64)
        assert np.abs(got - want).max() <= TOLERANCE[elem] * np.abs(want).max()


@pytest.mark.parametrize("tokens", [1, 24, "t"])
@pytest.mark.parametrize("target", ["cpu:skylake-avx512", "cuda:sm_90a"])
@pytest.mark.parametrize(
    ("elem", "precision", "sizes"), [("f4", "f32", (64, 96)), ("f4", "bf16", (64, 96)), ("f2", "f32", (100, 36))]
)
def test_weights_are_read_where_they_lie(
    target: str, tokens: int | str, elem: str, precision: str, sizes: tuple[int, int]
) -> None:
    """No kernel writes matrices of experts down: a product looks up which one each tile has.

    Nor where weights are rounded, or their rows padded: that is done to the table.
    """
    model = import_model(mixture(8, *sizes, 2, tokens, np.dtype(elem).type, gated=True, biased=True))
    ops = compiler.stages(model, Target.parse(target), Options(precision=precision)).regions.walk()
    regions = [op for op in ops if op.kind is graph.region and op.attrs["kind"] != "together"]
    multiplied = [op for r in regions if r.attrs["kind"] == "contraction" for op in r.body.ops]
    picked = [op for op in multiplied if op.kind is graph.take]
    assert len(picked) == sum(op.kind is graph.contract for op in multiplied) == 3
    others = [op for r in regions if r.attrs["kind"] != "contraction" for op in r.body.ops if op.kind is graph.take]
    assert all(tensor_of(op.result).rank < 3 or tensor_of(op.operands[0]).rank == 2 for op in others)
