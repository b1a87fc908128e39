"""`graphfuse.onnx_backend` as ONNX's own tools call it, and a slice of ONNX's backend tests."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from graphfuse.errors import InputError, UnsupportedError, UsageError
from graphfuse.onnx_backend import Backend


def model(node, inputs, outputs, opset=22):
    infos = [helper.make_tensor_value_info(*i) for i in inputs]
    graph = helper.make_graph([node], "g", infos, [helper.make_tensor_value_info(*o) for o in outputs])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def add():
    return model(
        helper.make_node("Add", ["a", "b"], ["c"]),
        [("a", TensorProto.FLOAT, [2]), ("b", TensorProto.FLOAT, [])],
        [("c", TensorProto.FLOAT, [2])],
    )


def test_outputs_are_positional_and_named():
    prepared = Backend.prepare(add(), "CPU")
    assert prepared.model.how == "compiled"
    outputs = prepared.run([np.ones(2, np.float32), np.float32(2)])
    assert outputs[0] is outputs["c"]
    np.testing.assert_array_equal(outputs[0], [3, 3])


def test_wrong_count_of_inputs():
    with pytest.raises(InputError, match=r"inputs: expected 2 \(a, b\), found 1"):
        Backend.run_model(add(), [np.ones(2, np.float32)])


def test_shape_that_is_an_input():
    reshape = model(
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
        [("x", TensorProto.FLOAT, [6]), ("shape", TensorProto.INT64, [2])],
        [("y", TensorProto.FLOAT, None)],
    )
    prepared = Backend.prepare(reshape)
    x = np.arange(6, dtype=np.float32)
    for shape in ([2, 3], [3, 2], [2, 3]):
        (y,) = prepared.run([x, np.array(shape)])
        np.testing.assert_array_equal(y, x.reshape(shape))
    assert prepared.model.wants == ("shape",)
    assert len(prepared.model.variants) == 2


def test_run_node():
    x = np.array([-1.5, 2.5], np.float32)
    (y,) = Backend.run_node(helper.make_node("Round", ["x"], ["y"]), [x])
    np.testing.assert_array_equal(y, [-2, 2])
    old = helper.make_node("Softmax", ["x"], ["y"])
    (y,) = Backend.run_node(old, [np.zeros((2, 2, 2), np.float32)], opset_version=11)
    np.testing.assert_array_equal(y, np.full((2, 2, 2), 0.25))  # the axes from 1 on are one, before opset 13


def test_run_node_refuses_what_is_no_array():
    with pytest.raises(InputError, match="input 'x': expected an array, found list"):
        Backend.run_node(helper.make_node("Abs", ["x"], ["y"]), [[1.0]])
    with pytest.raises(InputError, match="Add: expected 2 inputs, found 1"):
        Backend.run_node(helper.make_node("Add", ["x", "y"], ["z"]), [np.ones(1)])


def test_unknown_operator_is_a_named_error():
    node = helper.make_node("Nonsense", ["x"], ["y"], domain="nobody")
    unknown = model(node, [("x", TensorProto.FLOAT, [1])], [("y", TensorProto.FLOAT, [1])])
    unknown.opset_import.append(helper.make_opsetid("nobody", 1))
    with pytest.raises(UnsupportedError, match="1 unsupported operators: nobody::Nonsense"):
        Backend.prepare(unknown)


def test_devices():
    assert Backend.supports_device("CPU")
    assert not Backend.supports_device("TPU")
    with pytest.raises(UsageError, match="unknown device"):
        Backend.prepare(add(), "TPU")
    assert Backend.is_compatible(add())


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int4", "uint2"])
def test_narrow_elements(dtype):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.array([0, 1, 1, 0]).astype(getattr(ml_dtypes, dtype))
    elem = helper.np_dtype_to_tensor_dtype(x.dtype)
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
    cast = model(node, [("x", elem, [4])], [("y", TensorProto.FLOAT, [4])], onnx.defs.onnx_opset_version())
    np.testing.assert_array_equal(Backend.run_model(cast, [x])[0], [0, 1, 1, 0])


@pytest.mark.parametrize(
    ("text", "inputs", "error"),
    [
        ("(int64 n) => (float[a] y) { y = HannWindow(n) }", [1 << 40], "HannWindow: the window: expected up to"),
        ("(float[2] x, int64[1] n) => (float[a] y) { y = Tile(x, n) }", [np.ones(2, np.float32), [1 << 40]], "memory"),
        ("(int64 a, int64 b, int64 c) => (int64[n] y) { y = Range(a, b, c) }", [0, 1 << 40, 1], "memory"),
        (
            """(int64 m, float[k] x) => (float[k] y) {
                yes = Constant<value = bool {1}>()
                y = Loop<body = b (int64 i, bool c, float[k] v) => (bool d, float[k] w) {
                    d = Identity(c)
                    w = Concat<axis = 0>(v, v)
                }>(m, yes, x)
            }""",
            [40, np.ones(1, np.float32)],
            "memory",
        ),
    ],
)
def test_small_inputs_that_ask_for_much(text, inputs, error):
    hostile = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 22]> g {text}')
    with pytest.raises((UnsupportedError, InputError), match=error):
        Backend.run_model(hostile, [np.asarray(v) for v in inputs])
