"""Quantised operators with known weights against integer arithmetic; and that bytes are what is multiplied."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphfuse
from graphfuse.compiler import stages
from graphfuse.dialects import graph
from graphfuse.frontends.onnx import import_model
from graphfuse.fusion.quantised.multiply_bytes import is_byte
from graphfuse.ir.core import tensor_of
from graphfuse.knobs import Numerics, Options
from tests.machine import HOST

Array = np.ndarray[Any, Any]
NAMES = {"u1": "UINT8", "i1": "INT8", "f4": "FLOAT", "i4": "INT32"}
ELEMS = {np.dtype(d): getattr(TensorProto, n) for d, n in NAMES.items()}
BY_BYTES = HOST.arch == "x86_64"


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHFUSE_CACHE", "0")


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def integers(dtype: str, *shape: int, seed: int = 7) -> Array:
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


@dataclass
class Net:
    """A model of a few nodes; everything but `x` is known."""

    x: Array
    known: dict[str, Array] = field(default_factory=dict[str, Array])
    nodes: list[Any] = field(default_factory=list[Any])

    def add(self, op: str, *inputs: str | Array | np.floating[Any], **attributes: Any) -> str:
        names: list[str] = []
        for v in inputs:
            name = v if isinstance(v, str) else f"c{len(self.known)}"
            if not isinstance(v, str):
                self.known[name] = np.asarray(v)
            names.append(name)
        out = f"n{len(self.nodes)}"
        outputs = [out, f"{out}s", f"{out}z"] if op == "DynamicQuantizeLinear" else [out]
        self.nodes.append(helper.make_node(op, names, outputs, **attributes))
        return out

    def model(self, out: str, like: type) -> Any:
        made = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info("x", ELEMS[self.x.dtype], self.x.shape)],
            [helper.make_tensor_value_info(out, ELEMS[np.dtype(like)], None)],
            [numpy_helper.from_array(a, n) for n, a in self.known.items()],
        )
        return helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)

    def run(self, out: str, like: type, *, products: int = 1, numerics: Numerics = "eager") -> Array:
        """What is compiled gives; `products` are of bytes."""
        model = self.model(out, like)
        if BY_BYTES:
            done = stages(import_model(model), HOST, Options(numerics=numerics))
            found = [op for op in done.regions.walk() if op.kind in (graph.contract, graph.conv)]
            by_bytes = [op for op in found if all(is_byte(tensor_of(v).elem) for v in op.operands)]
            assert len(by_bytes) == products, [str(op) for op in found]
        return graphfuse.compile(model, threads=1, numerics=numerics)(x=self.x)[out]


def convolved(x: Array, w: Array, *, stride: int = 1, pad: int = 0, groups: int = 1) -> Array:
    """The convolution of centred integers, in i64."""
    x = np.pad(x.astype(np.int64), [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    n, channels, height, width = x.shape
    out, per_group, rows, columns = w.shape
    high, wide = (height - rows) // stride + 1, (width - columns) // stride + 1
    y = np.zeros((n, out, high, wide), np.int64)
    for o in range(out):
        first = o // (out // groups) * per_group
        for i in range(rows):
            for j in range(columns):
                part = x[:, first : first + per_group, i : i + high * stride : stride, j : j + wide * stride : stride]
                y[:, o] += np.einsum("nchw,c->nhw", part, w[o, :, i, j].astype(np.int64))
    assert channels == per_group * groups
    return y


def quantised(y: Array, zero: int, dtype: str) -> Array:
    info = np.iinfo(dtype)
    return np.clip(np.rint(y) + zero, info.min, info.max).astype(dtype)


# integers as they are


@pytest.mark.parametrize(("a", "b"), [("u1", "i1"), ("i1", "i1"), ("u1", "u1"), ("i1", "u1")])
@pytest.mark.parametrize("shape", [(1, 8, 20), (17, 37, 64)])
def test_matmul_integer(a: str, b: str, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    x, w = integers(a, m, k), integers(b, k, n, seed=8)
    za, zb = np.array(3, a), np.array(130 if b == "u1" else 0, b)
    if b == "u1":
        w = np.clip(w, 3, 250).astype(b)
    net = Net(x)
    got = net.run(net.add("MatMulInteger", "x", w, za, zb), np.int32, numerics="strict")
    want = (x.astype(np.int64) - int(za)) @ (w.astype(np.int64) - int(zb))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["u1", "i1"])
@pytest.mark.parametrize("per_column", [False, True])
def test_zero_points_that_leave_no_byte(dtype: str, *, per_column: bool) -> None:
    x, w = integers("u1", 2, 4, 8), integers(dtype, 8, 16, seed=8)
    w[0, :2] = np.iinfo(dtype).min, np.iinfo(dtype).max
    zero = np.arange(90, 106).astype(dtype) if per_column else np.array(90, dtype)
    net = Net(x)
    got = net.run(net.add("MatMulInteger", "x", w, np.array(7, "u1"), zero), np.int32, numerics="strict")
    np.testing.assert_array_equal(got, (x.astype(np.int64) - 7) @ (w.astype(np.int64) - zero.astype(np.int64)))


def test_zero_points_that_leave_no_byte_in_a_convolution() -> None:
    x, w = integers("u1", 1, 4, 5, 5), integers("u1", 8, 4, 3, 3, seed=8)
    w[0, 0, 0, :2] = 0, 255
    net = Net(x)
    got = net.run(net.add("ConvInteger", "x", w, np.array(7, "u1"), np.array(90, "u1")), np.int32, products=0)
    np.testing.assert_array_equal(got, convolved(x.astype(np.int64) - 7, w.astype(np.int64) - 90))


@pytest.mark.parametrize("dtype", ["u1", "i1"])
@pytest.mark.parametrize("how", [{}, {"pad": 1}, {"pad": 2, "stride": 2}, {"groups": 2, "pad": 1}, {"groups": 6}])
def test_conv_integer(dtype: str, how: dict[str, int]) -> None:
    groups = how.get("groups", 1)
    x, w = integers(dtype, 2, 6, 9, 8), integers("i1", 12, 6 // groups, 3, 3, seed=8)
    zero = np.array(100, dtype)
    net = Net(x)
    pads, strides = [how.get("pad", 0)] * 4, [how.get("stride", 1)] * 2
    y = net.add("ConvInteger", "x", w, zero, pads=pads, strides=strides, group=groups)
    np.testing.assert_array_equal(net.run(y, np.int32), convolved(x.astype(np.int64) - 100, w, **how))


def test_a_zero_point_that_is_computed_meets_the_image_only() -> None:
    x = rng().standard_normal((1, 4, 7, 9), np.float32) + np.float32(0.5)
    w = integers("i1", 8, 4, 3, 3)
    net = Net(x)
    q = net.add("DynamicQuantizeLinear", "x")
    y = net.add("ConvInteger", q, w, f"{q}z", pads=[1, 1, 1, 1])
    low, high = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
    scale = np.float32((np.float32(high) - np.float32(low)) / np.float32(255))
    zero = int(np.rint(np.clip(-np.float32(low) / scale, 0, 255)))
    bytes_ = quantised(x / scale, zero, "u1").astype(np.int64)
    np.testing.assert_array_equal(net.run(y, np.int32), convolved(bytes_ - zero, w, pad=1))


# scaled and quantised again


@pytest.mark.parametrize("dtype", ["u1", "i1"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_qlinear_conv(dtype: str, *, per_channel: bool) -> None:
    x, w = integers(dtype, 1, 8, 10, 9), integers("i1", 20, 8, 3, 3, seed=8)
    sx, sy, zx, zy = np.float32(0.02), np.float32(3.7), 9, 11
    sw = (rng().random(20, np.float32) + 0.5) / 50 if per_channel else np.float32(0.013)
    bias = rng().integers(-3000, 3000, 20).astype(np.int32)
    zw = np.zeros(20 if per_channel else (), np.int8)
    net = Net(x)
    zeros = np.array(zx, dtype), np.array(zy, dtype)
    y = net.add("QLinearConv", "x", sx, zeros[0], w, sw, zw, sy, zeros[1], bias, pads=[1, 1, 1, 1])
    acc = convolved(x.astype(np.int64) - zx, w, pad=1) + bias.reshape(-1, 1, 1)
    factor = (np.float32(sx) * sw / sy).astype(np.float32).reshape(-1, 1, 1)
    assert_within_a_tie(net.run(y, np.dtype(dtype).type), acc.astype(np.float64) * factor, zy, dtype)


def assert_within_a_tie(got: Array, exact: Array, zero: int, dtype: str) -> None:
    """Equal, but where the quotient is within f32's rounding of half an integer."""
    want = quantised(exact, zero, dtype)
    off = got.astype(np.int64) - want
    near = np.abs(np.abs(exact - np.trunc(exact)) - 0.5) < 1e-4
    assert np.abs(off).max() <= 1
    assert not (off[~near] != 0).any()
    assert len(np.unique(got)) > 20


def dequantise(
    net: Net, v: str | Array, scale: Array | np.floating[Any], zero: int, dtype: str, **attributes: Any
) -> str:
    scale = np.asarray(scale, np.float32)
    return net.add("DequantizeLinear", v, scale, np.full(scale.shape, zero, dtype), **attributes)


def quantise(net: Net, v: str, scale: float, zero: int, dtype: str) -> str:
    return net.add("QuantizeLinear", v, np.float32(scale), np.array(zero, dtype))


@pytest.mark.parametrize("dtype", ["u1", "i1"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_a_dequantised_convolution_with_relu(dtype: str, *, per_channel: bool) -> None:
    x, w = integers(dtype, 2, 5, 8, 9), integers("i1", 18, 5, 3, 3, seed=8)
    sw = (rng().random(18, np.float32) + 0.5) / 50 if per_channel else np.float32(0.013)
    bias = rng().integers(-3000, 3000, 18).astype(np.int32)
    net = Net(x)
    weights = dequantise(net, w, sw, 0, "i1", axis=0)
    offsets = dequantise(net, bias, np.float32(0.02) * sw, 0, "i4", axis=0)
    y = net.add("Conv", dequantise(net, "x", np.float32(0.02), 9, dtype), weights, offsets, pads=[1, 1, 1, 1])
    y = quantise(net, net.add("Relu", y), 0.6, 11, dtype)
    acc = convolved(x.astype(np.int64) - 9, w, pad=1) + bias.reshape(-1, 1, 1)
    exact = np.maximum(acc * np.float64(np.float32(0.02)) * np.asarray(sw, np.float64).reshape(-1, 1, 1), 0)
    assert_within_a_tie(net.run(y, np.dtype(dtype).type), exact / np.float32(0.6), 11, dtype)


@pytest.mark.parametrize("op", ["MatMul", "Gemm", "Transpose"])
def test_a_dequantised_product(op: str) -> None:
    x, w = integers("u1", 7, 30), integers("i1", 30, 24, seed=8)
    net = Net(x)
    left = dequantise(net, "x", np.float32(0.02), 120, "u1")
    scales = np.full(24, 0.01, np.float32)
    if op == "Transpose":
        scales += np.arange(24, dtype=np.float32) / 5000
        right = dequantise(net, np.ascontiguousarray(w.T), scales, 0, "i1", axis=0)
        y = net.add("MatMul", left, net.add(op, right, perm=[1, 0]))
    elif op == "Gemm":
        y = net.add(op, left, dequantise(net, np.ascontiguousarray(w.T), np.float32(0.01), 0, "i1"), transB=1)
    else:
        y = net.add(op, left, dequantise(net, w, np.float32(0.01), 0, "i1"))
    exact = (x.astype(np.int64) - 120) @ w.astype(np.int64) * np.float64(np.float32(0.02)) * scales
    assert_within_a_tie(net.run(quantise(net, y, 0.11, 128, "u1"), np.uint8), exact / np.float32(0.11), 128, "u1")


def test_sums_and_windows_of_dequantised_values() -> None:
    """A residual block: both terms have a scale, and the largest of a window is one of the bytes."""
    x, w = integers("u1", 1, 8, 12, 12), integers("i1", 8, 8, 1, 1, seed=8)
    net = Net(x)
    pooled = net.add("MaxPool", dequantise(net, "x", np.float32(0.05), 100, "u1"), kernel_shape=[2, 2], strides=[2, 2])
    q = quantise(net, pooled, 0.05, 100, "u1")
    y = net.add("Conv", dequantise(net, q, np.float32(0.05), 100, "u1"), dequantise(net, w, np.float32(0.01), 0, "i1"))
    y = dequantise(net, quantise(net, y, 0.3, 128, "u1"), np.float32(0.3), 128, "u1")
    y = net.add("Add", y, dequantise(net, q, np.float32(0.05), 100, "u1"))
    got = net.run(quantise(net, y, 0.2, 99, "u1"), np.uint8)
    best = x.reshape(1, 8, 6, 2, 6, 2).max(axis=(3, 5)).astype(np.int64) - 100
    made = np.rint(convolved(best, w) * np.float64(np.float32(0.05)) * np.float32(0.01) / np.float32(0.3))
    made = np.clip(made, -128, 127)
    exact = (made * np.float64(np.float32(0.3)) + best * np.float64(np.float32(0.05))) / np.float32(0.2)
    assert_within_a_tie(got, exact, 99, "u1")


def test_strict_numerics_dequantise_as_the_model_says() -> None:
    x, w = integers("u1", 7, 32), integers("i1", 32, 24, seed=8)
    net = Net(x)
    left = dequantise(net, "x", np.float32(0.02), 120, "u1")
    y = net.add("MatMul", left, dequantise(net, w, np.float32(0.01), 0, "i1"))
    got = net.run(y, np.float32, products=0, numerics="strict")
    exact = (x.astype(np.int64) - 120) @ w.astype(np.int64) * 0.02 * 0.01
    np.testing.assert_allclose(got, exact, rtol=1e-4, atol=1e-3)


def test_dynamic_quantisation() -> None:
    x = rng().standard_normal((6, 48), np.float32)
    w = integers("i1", 48, 40)
    net = Net(x)
    q = net.add("DynamicQuantizeLinear", "x")
    acc = net.add("Cast", net.add("MatMulInteger", q, w, f"{q}z", np.array(0, "i1")), to=TensorProto.FLOAT)
    y = net.add("Mul", acc, net.add("Mul", f"{q}s", np.float32(0.01)))
    got = net.run(y, np.float32)
    low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
    scale = (high - low) / np.float32(255)
    zero = int(np.rint(np.clip(-low / scale, 0, 255)))
    bytes_ = quantised(x / scale, zero, "u1").astype(np.int64)
    want = (bytes_ - zero) @ w.astype(np.int64) * np.float64(scale * np.float32(0.01))
    np.testing.assert_allclose(got, want, rtol=1e-6)
