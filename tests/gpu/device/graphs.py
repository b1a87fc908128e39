"""Small ONNX graphs, each of one kind of kernel, at sizes that fill a GPU and at odd ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def graph(
    nodes: Sequence[onnx.NodeProto], inputs, outputs, constants=None, elem=FLOAT, out_elem=None
) -> onnx.ModelProto:
    """A model; `inputs` and `outputs` are shapes by name."""
    made = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(n, elem, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, out_elem or elem, s) for n, s in outputs.items()],
        [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def node(kind, inputs, output, **attributes):
    return helper.make_node(kind, inputs.split(), [output], name=output, **attributes)


def pointwise(shape=(1 << 21,)):
    nodes = [
        node("Add", "x y", "a"),
        node("Tanh", "a", "b"),
        node("Mul", "b x", "c"),
        node("Exp", "c", "d"),
        node("Erf", "d", "z"),
    ]
    return graph(nodes, {"x": shape, "y": shape}, {"z": shape})


def broadcast():
    nodes = [node("Add", "x y", "a"), node("Relu", "a", "z")]
    return graph(nodes, {"x": (37, 129, 65), "y": (129, 1)}, {"z": (37, 129, 65)})


def softmax(rows=1000, columns=1000):
    return graph([node("Softmax", "x", "z", axis=-1)], {"x": (rows, columns)}, {"z": (rows, columns)})


def layer_norm():
    weights = {"w": np.linspace(0.5, 2, 768, dtype=np.float32), "b": np.linspace(-1, 1, 768, dtype=np.float32)}
    nodes = [node("Add", "x r", "a"), node("LayerNormalization", "a w b", "z", axis=-1)]
    return graph(nodes, {"x": (64, 128, 768), "r": (64, 128, 768)}, {"z": (64, 128, 768)}, weights)


def column_mean():
    return graph([node("ReduceMean", "x", "z", axes=[0], keepdims=0)], {"x": (4097, 513)}, {"z": (513,)})


def argmax():
    nodes = [node("ArgMax", "x", "z", axis=1, keepdims=0)]
    return graph(nodes, {"x": (513, 4097)}, {"z": (513,)}, out_elem=TensorProto.INT64)


def cumsum():
    return graph([node("CumSum", "x axis", "z")], {"x": (65, 1000)}, {"z": (65, 1000)}, {"axis": np.array(1)})


def transpose():
    return graph([node("Transpose", "x", "z", perm=[0, 2, 1])], {"x": (7, 515, 1026)}, {"z": (7, 1026, 515)})


def matmul(m=512, n=768, k=640):
    weights = {"w": np.random.default_rng(1).standard_normal((k, n)).astype(np.float32) / np.float32(k) ** 0.5}
    nodes = [node("MatMul", "x w", "a"), node("Relu", "a", "z")]
    return graph(nodes, {"x": (m, k)}, {"z": (m, n)}, weights)


def batched_matmul():
    return graph([node("MatMul", "x y", "z")], {"x": (12, 65, 96), "y": (12, 96, 130)}, {"z": (12, 65, 130)})


def convolution():
    weights = {"w": np.random.default_rng(2).standard_normal((64, 32, 3, 3)).astype(np.float32) / 17}
    nodes = [node("Conv", "x w", "a", pads=[1, 1, 1, 1]), node("Relu", "a", "z")]
    return graph(nodes, {"x": (4, 32, 30, 31)}, {"z": (4, 64, 30, 31)}, weights)


def attention():
    nodes = [
        node("Transpose", "k", "kt", perm=[0, 1, 3, 2]),
        node("MatMul", "q kt", "s"),
        node("Mul", "s c", "t"),
        node("Softmax", "t", "p", axis=-1),
        node("MatMul", "p v", "z"),
    ]
    shape = (2, 8, 200, 64)
    return graph(nodes, dict.fromkeys("qkv", shape), {"z": shape}, {"c": np.array(0.125, np.float32)})


def misaligned_parts(first=3, second=501, columns=1037):
    """Results inside of another tensor at offsets that are no multiple of 16 bytes."""
    nodes = [
        node("Softmax", "x", "a", axis=1),
        node("Softmax", "y", "b", axis=1),
        node("Concat", "a b", "c", axis=0),
        node("Mul", "c c", "z"),
    ]
    whole = (first + second, columns)
    return graph(nodes, {"x": (first, columns), "y": (second, columns)}, {"z": whole, "c": whole})


def integers():
    nodes = [node("Mul", "x y", "a"), node("Add", "a x", "z")]
    return graph(nodes, {"x": (1000, 33), "y": (33,)}, {"z": (1000, 33)}, elem=TensorProto.INT64)


def gather():
    nodes = [node("Gather", "t i", "a", axis=0), node("Add", "a a", "z")]
    rng = np.random.default_rng(3)
    constants = {"t": rng.standard_normal((999, 257)).astype(np.float32), "i": rng.integers(-999, 999, (64, 33))}
    return graph([*nodes, node("Identity", "x", "w")], {"x": (3,)}, {"z": (64, 33, 257), "w": (3,)}, constants)


GRAPHS: dict[str, Callable[[], onnx.ModelProto]] = {
    f.__name__: f
    for f in (
        pointwise, broadcast, softmax, layer_norm, column_mean, argmax, cumsum, transpose, matmul, batched_matmul,
        convolution, attention, misaligned_parts, integers, gather,
    )
}  # fmt: skip


def feed_of(model: onnx.ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs: normal, or small integers."""
    rng = np.random.default_rng(seed)
    out = {}
    for spec in model.graph.input:
        shape = tuple(d.dim_value for d in spec.type.tensor_type.shape.dim)
        dtype = helper.tensor_dtype_to_np_dtype(spec.type.tensor_type.elem_type)
        is_float = np.issubdtype(dtype, np.floating)
        out[spec.name] = (rng.standard_normal(shape) if is_float else rng.integers(-100, 100, shape)).astype(dtype)
    return out
