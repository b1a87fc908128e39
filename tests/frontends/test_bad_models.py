"""What is wrong with a model is said once, clearly, with the node where it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

import graphfuse
from graphfuse.errors import FileError, GraphfuseError, ParseError, UnsupportedError, UsageError, VerifyError
from graphfuse.frontends.onnx import import_model
from graphfuse.runtime import gfx
from tests.frontends.support import floats, model_of

F32 = np.float32


def node(op: str, inputs: list[str], outputs: list[str], **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, name=f"/{outputs[0] or 'none'}", **attributes)


def fails(model: onnx.ModelProto | Path, kind: type[GraphfuseError], message: str) -> None:
    with pytest.raises(kind) as e:
        import_model(model)
    assert str(e.value) == message


X = {"x": (F32, [2, 3])}


def test_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "no.onnx"
    fails(path, FileError, f"error: cannot read {path}: No such file or directory")


def test_directory(tmp_path: Path) -> None:
    fails(tmp_path, FileError, f"error: cannot read {tmp_path}: Is a directory")


def test_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "empty.onnx"
    path.touch()
    fails(path, ParseError, f"{path}: error: not an ONNX model: the file is empty")


def test_other_bytes(tmp_path: Path) -> None:
    path = tmp_path / "text.onnx"
    path.write_bytes(b"#!/bin/sh\necho hello\n")
    with pytest.raises(ParseError, match="not an ONNX model: "):
        import_model(path)


def test_truncated(tmp_path: Path) -> None:
    data = model_of([node("Relu", ["x"], ["y"])], X, ["y"], {"w": floats(100)}).SerializeToString()
    path = tmp_path / "cut.onnx"
    for length in range(1, len(data), 7):
        path.write_bytes(data[:length])
        with pytest.raises(GraphfuseError):
            import_model(path)


def test_no_graph() -> None:
    fails(onnx.ModelProto(ir_version=8), ParseError, "<model>: error: not an ONNX model: it has no graph")


def test_opset_from_the_future() -> None:
    newest = onnx.defs.onnx_opset_version()
    model = model_of([node("Relu", ["x"], ["y"])], X, ["y"], opset=99)
    message = f"<model>: error: the model uses opset 99, the installed onnx knows up to {newest}"
    fails(model, UnsupportedError, message)


def test_cycle() -> None:
    nodes = [node("Add", ["x", "b"], ["a"]), node("Neg", ["a"], ["b"]), node("Relu", ["b"], ["y"])]
    fails(model_of(nodes, X, ["y"]), VerifyError, "<model>:/b: error: Neg: the graph has a cycle through this node")


def test_undefined_name() -> None:
    model = model_of([node("Relu", ["z"], ["y"])], X, ["y"])
    fails(model, VerifyError, "<model>:/y: error: Relu: input 'z' is not defined")


def test_undefined_output() -> None:
    model = model_of([node("Relu", ["x"], ["y"])], X, ["z"])
    fails(model, VerifyError, "<model>: error: output 'z' is not defined")


def test_defined_twice() -> None:
    model = model_of([node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])], X, ["y"])
    fails(model, VerifyError, "<model>:/y: error: Neg: output 'y' is defined twice")


def test_all_unsupported_operators_are_listed() -> None:
    nodes = [
        helper.make_node("Frob", ["x"], ["a"], name="/frob", domain="own"),
        helper.make_node("RandomNormalLike", ["a"], ["b"], name="/r0"),
        helper.make_node("RandomNormalLike", ["b"], ["y"], name="/r1"),
    ]
    model = model_of(nodes, X, ["y"])
    model.opset_import.append(helper.make_opsetid("own", 1))
    listed = "ai.onnx::RandomNormalLike (2 nodes: /r0, /r1); own::Frob (1 node: /frob)"
    message = f"<model>: error: 2 unsupported operators: {listed}"
    fails(model, UnsupportedError, message)


def test_type_mismatch_names_the_node() -> None:
    model = model_of([node("Add", ["x", "w"], ["y"])], X, ["y"], {"w": np.ones(3, np.int64)})
    message = "graph.add: operand types differ: tensor<2x3xf32> and tensor<2x3xi64>"
    fails(model, VerifyError, f"<model>:/y: error: {message}")


def test_shape_mismatch_names_the_node() -> None:
    model = model_of([node("MatMul", ["x", "w"], ["y"])], X, ["y"], {"w": floats(4, 5)})
    fails(model, VerifyError, "<model>:/y: error: graph.contract: dim 'k' differs: 3 and 4")


def test_broadcast_mismatch() -> None:
    model = model_of([node("Mul", ["x", "w"], ["y"])], X, ["y"], {"w": floats(4)})
    fails(model, VerifyError, "<model>:/y: error: cannot broadcast dims 3 and 4")


@pytest.mark.parametrize(
    ("op", "inputs", "what"),
    [("Expand", "xs", "the shape"), ("Reshape", "xs", "the shape"), ("Tile", "xs", "the repeats"),
     ("ConstantOfShape", "s", "the shape"), ("Split", "xs", "the split"), ("Slice", "xss", "the starts"),
     ("Slice", "xiis", "the axes"), ("CumSum", "xs", "the axis")],
)  # fmt: skip
def test_integers_that_are_floats(op: str, inputs: str, what: str) -> None:
    given = {"s": np.array([0.5, 2] if len(inputs) < 4 else [0.5], np.float32), "i": np.array([1])}
    model = model_of([node(op, list(inputs), ["y"])], X, ["y"], {k: v for k, v in given.items() if k in inputs})
    fails(model, VerifyError, f"<model>:/y: error: {op}: {what}: expected integers, found f32")


def test_declared_output_type() -> None:
    model = model_of([node("Relu", ["x"], ["y"])], X, ["y"])
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT32
    fails(model, VerifyError, "<model>: error: output 'y' is declared as i32, the graph computes tensor<2x3xf32>")


def test_wrong_attribute() -> None:
    model = model_of([node("Softmax", ["x"], ["y"], axis=7)], X, ["y"])
    fails(model, VerifyError, "<model>:/y: error: Softmax: axis must be in -2..1, got 7")


@pytest.mark.parametrize(
    ("attributes", "found"), [({}, "none"), ({"value_int": 1, "value_ints": [1]}, "value_int, value_ints")]
)
def test_constants_without_one_value(attributes: dict[str, object], found: str) -> None:
    constant = helper.make_node("Constant", [], ["c"], name="k", **attributes)
    model = model_of([constant, node("Add", ["x", "c"], ["y"])], X, ["y"])
    fails(model, VerifyError, f"<model>:k: error: Constant: expected one attribute, its value, found {found}")


def test_a_constant_of_a_function_whose_value_is_left_out() -> None:
    constant = helper.make_node("Constant", [], ["c"])
    constant.attribute.add(name="value_float", ref_attr_name="v", type=onnx.AttributeProto.FLOAT)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    body = [constant, helper.make_node("Add", ["a", "c"], ["b"])]
    function = helper.make_function("own", "F", ["a"], ["b"], body, opsets, ["v"])
    model = model_of([helper.make_node("F", ["x"], ["y"], name="f", domain="own")], X, ["y"])
    model.opset_import.append(opsets[1])
    model.functions.append(function)
    with pytest.raises(GraphfuseError, match="Constant: expected one attribute, its value, found none"):
        graphfuse.compile(model)


def test_strings() -> None:
    model = model_of([node("Identity", ["x"], ["y"])], {}, ["y"])
    model.graph.input.append(helper.make_tensor_value_info("x", TensorProto.STRING, [1]))
    fails(model, UnsupportedError, "<model>: error: tensors of type string are not supported")


def test_initialiser_of_the_wrong_size() -> None:
    model = model_of([node("Add", ["x", "w"], ["y"])], X, ["y"], {"w": floats(300)})
    model.graph.initializer[0].dims[0] = 400
    fails(model, VerifyError, "<model>:w: error: initialiser 'w' has 1200 bytes, its type needs 1600")


def _external(folder: Path, location: str) -> Path:
    model = model_of([node("Add", ["x", "w"], ["y"])], {"x": (F32, [300])}, ["y"])
    t = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[300])
    t.data_location = TensorProto.EXTERNAL
    t.external_data.add(key="location", value=location)
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_missing_external_data(tmp_path: Path) -> None:
    path = _external(tmp_path, "w.bin")
    message = f"{path}:w: error: tensor 'w': cannot read external data 'w.bin': No such file or directory"
    fails(path, FileError, message)


def test_short_external_data(tmp_path: Path) -> None:
    path = _external(tmp_path, "w.bin")
    (tmp_path / "w.bin").write_bytes(b"abc")
    fails(path, FileError, f"{path}:w: error: tensor 'w': external data 'w.bin' has 3 bytes, 1200 from 0 are needed")


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "a/../../w.bin"])
def test_external_data_stays_in_the_folder(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(floats(300).tobytes())
    path = _external(folder, location)
    fails(path, FileError, f"{path}:w: error: tensor 'w': external data {location!r} is outside the model's folder")


def test_links_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(floats(300).tobytes())
    (folder / "w.bin").symlink_to(tmp_path / "w.bin")
    path = _external(folder, "w.bin")
    fails(path, FileError, f"{path}:w: error: tensor 'w': external data 'w.bin' is outside the model's folder")


# what is no operator's


def changed(change: Callable[[onnx.ModelProto], object]) -> onnx.ModelProto:
    model = model_of([node("Relu", ["x"], ["y"])], X, ["y"])
    change(model)
    return model


def _without_type(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.sequence_type.elem_type.tensor_type.elem_type = TensorProto.FLOAT


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.ClearField("ir_version"), "not an ONNX model: it has no IR version"),
        (lambda m: m.graph.sparse_initializer.add(), "sparse initialisers are not supported"),
        (lambda m: m.ClearField("opset_import"), "the model imports no opset for the default domain"),
        (lambda m: m.graph.initializer.add(data_type=1, float_data=[0.0]), "an initialiser has no name"),
        (_without_type, "input 'x' is not a tensor but sequence"),
        (
            lambda m: m.graph.input[0].type.tensor_type.ClearField("shape"),
            "input 'x' declares no shape, not even its rank",
        ),
    ],
    ids=["version", "sparse", "opset", "name", "type", "shape"],
)
def test_models_that_lack_something(change: Callable[[onnx.ModelProto], object], message: str) -> None:
    with pytest.raises(GraphfuseError) as e:
        import_model(changed(change))
    assert str(e.value) == f"<model>: error: {message}"


def test_a_bound_value_has_an_element() -> None:
    model = changed(lambda m: None)
    with pytest.raises(UsageError, match="input 'x' cannot be bound to elements of type complex64"):
        import_model(model, bind={"x": np.zeros((2, 3), np.complex64)})


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (3, "model: expected a path, bytes or a ModelProto, got int"),
        (gfx.MAGIC, "the bytes are an artifact's: expected an ONNX model; graphfuse.load takes its path"),
    ],
)
def test_what_is_no_model(model: object, message: str) -> None:
    with pytest.raises(UsageError) as e:
        graphfuse.compile(model)
    assert e.value.message == message


def test_an_artifact_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "m.gfx"
    graphfuse.compile(changed(lambda m: None), target="cpu:generic").save(path)
    with pytest.raises(UsageError, match="is an artifact: expected an ONNX model; graphfuse.load takes artifacts"):
        graphfuse.compile(path)


CONTROL = [
    (
        (
            "(float[2, 3] x) => (float[n] y) <bool[2] c = {1, 0}> { y = If(c) <then_branch = t () => (float[n] a) "
            "{ a = Neg(x) }, else_branch = e () => (float[n] b) { b = Abs(x) }> }"
        ),
        "If: expected a condition of one element, found 2",
    ),
    (
        (
            "(bool c, float[2, 3] x) => (float[n] y) { y = If(c) <then_branch = t () => (float[n] a) { a = Neg(x) }, "
            "else_branch = e () => (float[n] b) { b = Transpose(x) }> }"
        ),
        "If: the branches of a run-time condition give tensor<2x3xf32> and tensor<3x2xf32>",
    ),
    (
        (
            "(bool c, float[N] x, float[M] z) => (float[n] y) { y = If(c) <then_branch = t () => (float[n] a) "
            "{ a = Add(x, z) }, else_branch = e () => (float[n] b) { b = Neg(x) }> }"
        ),
        "If: a branch of a run-time condition needs dims to fit: ",
    ),
    (
        (
            "(float[2] x) => (float[n] y) <bool k = {1}> { y = Loop(, k, x) <body = b (int64 i, bool c, float[2] v) "
            "=> (bool d, float[2] w) { d = Identity(c) w = Neg(v) }> }"
        ),
        "Loop: a loop that only its condition ends is not compiled",
    ),
    *(
        (
            (
                f"(float[2] x) => (float[n] y) <int64 m = {{{trips}}}, float zero = {{0}}> "
                "{ y = Loop(m, , x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w) "
                "{ w = Neg(v) s = ReduceSum <keepdims = 0> (v) d = Greater(s, zero) }> }"
            ),
            "Loop: a condition that data decides is not supported",
        )
        for trips in (3, 1000)
    ),
    (
        (
            "(float[2] x) => (float[n] y) <int64 m = {0}> { z, y = Loop(m, , x) "
            "<body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w, float[2] s) "
            "{ d = Identity(c) w = Neg(v) s = Neg(v) }> }"
        ),
        "Loop: scan outputs of a loop that never runs have no known type",
    ),
    (
        (
            "(float[2] x) => (float[n] y) "
            "{ y = Scan <num_scan_inputs = 5, body = b (float v) => (float w) { w = Neg(v) }> (x) }"
        ),
        "Scan: num_scan_inputs: expected 1..1, found 5",
    ),
]


@pytest.mark.parametrize(("text", "message"), CONTROL, ids=[m[:50] for _, m in CONTROL])
def test_control_flow_that_is_not_compiled(text: str, message: str) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> g {text}')
    with pytest.raises(GraphfuseError) as e:
        import_model(model)
    assert e.value.message.startswith(message)
