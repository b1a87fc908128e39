"""The signature, scoping, shape arithmetic and locations of imported models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from graphfuse.errors import GraphfuseError, Loc, UsageError
from graphfuse.frontends.onnx import import_model
from graphfuse.frontends.onnx.wire import read_without_weights
from graphfuse.interp.graph import run
from graphfuse.ir.core import Func
from graphfuse.ir.printer import to_text
from graphfuse.ir.types import Tensor
from graphfuse.symbolic import maximum, parse_dim, sym
from tests.frontends.support import Array, check, floats, model_of, reference

F32, I64, BOOL = np.float32, np.int64, np.bool_


def result_shape(func: Func) -> tuple[object, ...]:
    t = func.outputs[0].type
    assert isinstance(t, Tensor)
    return t.shape


def ints(*values: int) -> Array:
    return np.array(values, dtype=np.int64)


def node(op: str, inputs: list[str], outputs: list[str], **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, name=f"/{outputs[0]}", **attributes)


# signature


def test_signature() -> None:
    model = model_of([node("Relu", ["a.b:0"], ["out/1"])], {"a.b:0": (F32, ["batch", 3])}, ["out/1"])
    func = import_model(model)
    assert func.attrs == {"inputs": ("a.b:0",), "outputs": ("out/1",)}
    assert func.params[0].hint == "a_b_0"
    assert func.dims == (("batch", 1, 1 << 20),)
    assert result_shape(func) == (sym("batch"), 3)


def test_dims_are_declared_by_either_name() -> None:
    model = model_of([node("Relu", ["x"], ["y"])], {"x": (F32, ["seq len", "n", None])}, ["y"])
    func = import_model(model, dims={"seq len": (2, 9), "n": 4, "x_dim2": (1, 7)})
    assert func.dims == (("seq_len", 2, 9), ("x_dim2", 1, 7))
    assert result_shape(func) == (sym("seq_len"), 4, sym("x_dim2"))
    assert import_model(model, dims={"seq_len": 5}).ranges.keys() == {"n", "x_dim2"}


def test_equal_names_mean_equal_dims_and_formulas_are_read() -> None:
    inputs = {"x": (F32, ["past"]), "y": (F32, ["step"]), "mask": (F32, ["past + step"])}
    nodes = [node("Concat", ["x", "y"], ["both"], axis=0), node("Add", ["both", "mask"], ["z"])]
    func = import_model(model_of(nodes, inputs, ["z"]))
    assert result_shape(func) == (parse_dim("past + step"),)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"bach": 3}, "the model has no dim 'bach'; its dims are batch"),
        ({"batch": -1}, "dim 'batch' must not be negative, got -1"),
        ({"batch": (5, 2)}, "dim 'batch' must have a range with 0 <= low <= high, got 5..2"),
    ],
)
def test_wrong_dims(dims: dict[str, int | tuple[int, int]], message: str) -> None:
    model = model_of([node("Relu", ["x"], ["y"])], {"x": (F32, ["batch"])}, ["y"])
    with pytest.raises(UsageError) as e:
        import_model(model, dims=dims)
    assert message in str(e.value)


def test_initialisers_listed_as_inputs_are_not_inputs() -> None:
    model = model_of([node("Add", ["x", "w"], ["y"])], {"x": (F32, [3]), "w": (F32, [3])}, ["y"], {"w": floats(3)})
    assert import_model(model).attrs["inputs"] == ("x",)


def test_bound_inputs_are_constants() -> None:
    model = model_of([node("Reshape", ["x", "s"], ["y"])], {"x": (F32, ["n", 4]), "s": (I64, [2])}, ["y"])
    with pytest.raises(GraphfuseError, match="the shape must be known at compile time, it depends on data"):
        import_model(model)
    func = import_model(model, bind={"s": ints(2, -1)})
    assert func.attrs["inputs"] == ("x",)
    assert result_shape(func) == (2, parse_dim("2*n"))


def test_ops_carry_the_node_they_come_from() -> None:
    nodes = [helper.make_node("Exp", ["x"], ["a"], name="/first"), helper.make_node("Relu", ["a"], ["y"])]
    func = import_model(model_of(nodes, {"x": (F32, [2])}, ["y"]))
    locs = [op.loc for op in func.walk() if op.kind.name in ("graph.exp", "graph.max")]
    assert locs == [Loc("<model>", node="/first"), Loc("<model>", node="node#1 (Relu)")]


def test_the_callers_model_is_left_alone() -> None:
    model = model_of([node("Add", ["x", "w"], ["y"])], {"x": (F32, [999])}, ["y"], {"w": floats(999)})
    before = model.SerializeToString()
    import_model(model)
    assert model.SerializeToString() == before


def test_import_is_deterministic() -> None:
    model = model_of([node("Softmax", ["x"], ["y"])], {"x": (F32, ["b", "n"])}, ["y"])
    assert to_text(import_model(model), locations=True) == to_text(import_model(model), locations=True)


# shape arithmetic


def _arithmetic(*nodes: onnx.NodeProto, shape: list[int | str], **constants: Array) -> Func:
    """Reshape x to what the nodes compute as `s`."""
    body = [node("Shape", ["x"], ["shape"]), *nodes, node("Reshape", ["x", "s"], ["y"])]
    return import_model(model_of(body, {"x": (F32, shape)}, ["y"], constants))


def test_gather_multiply_concat() -> None:
    func = _arithmetic(
        node("Gather", ["shape", "zero"], ["b"]),
        node("Slice", ["shape", "one", "end"], ["rest"]),
        node("ReduceProd", ["rest"], ["n"]),
        node("Unsqueeze", ["b", "axes"], ["b1"]),
        node("Concat", ["b1", "n"], ["s"], axis=0),
        shape=["b", "h", "w", 3],
        zero=np.array(0, I64),
        one=ints(1),
        end=ints(99),
        axes=ints(0),
    )
    assert result_shape(func) == (sym("b"), parse_dim("3*h*w"))
    assert [op.kind.name for op in func.walk()] == ["graph.reshape", "return"]


def test_scalars_of_static_dims_are_moved() -> None:
    func = _arithmetic(
        node("Gather", ["shape", "one"], ["c"]),
        node("Div", ["c", "two"], ["half"]),
        node("Unsqueeze", ["half", "axes"], ["h"]),
        node("Concat", ["minus", "h"], ["s"], axis=0),
        shape=["b", 8],
        one=np.array(1, I64),
        two=np.array(2, I64),
        axes=ints(0),
        minus=ints(-1),
    )
    assert result_shape(func) == (parse_dim("2*b"), 4)


def test_float_detour_is_exact() -> None:
    func = _arithmetic(
        node("Cast", ["shape"], ["f"], to=TensorProto.FLOAT),
        node("Div", ["f", "two"], ["half"]),
        node("Floor", ["half"], ["floor"]),
        node("Mul", ["floor", "two"], ["even"]),
        node("Cast", ["even"], ["s"], to=TensorProto.INT64),
        shape=["n"],
        two=np.array([2], F32),
    )
    assert result_shape(func) == (parse_dim("2*floordiv(n, 2)"),)


def test_where_equal_resolves_by_the_ranges() -> None:
    func = _arithmetic(
        node("Equal", ["shape", "minus"], ["unknown"]),
        node("Where", ["unknown", "ones", "shape"], ["s"]),
        shape=["n", 4],
        minus=ints(-1, -1),
        ones=ints(1, 1),
    )
    assert result_shape(func) == (sym("n"), 4)


def test_dims_as_data() -> None:
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["n"]),
        node("Range", ["zero", "n", "two"], ["r"]),
        node("Cast", ["shape"], ["f"], to=TensorProto.FLOAT),
    ]
    constants = {"zero": np.array(0, I64), "two": np.array(2, I64)}
    model = model_of(nodes, {"x": (F32, ["n", 3])}, ["r", "f"], constants)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    func = import_model(model)
    got = run(func, floats(7, 3))
    np.testing.assert_array_equal(got[0], [0, 2, 4, 6])
    np.testing.assert_array_equal(got[1], np.array([7, 3], F32))


def test_clamped_slices_use_the_ranges() -> None:
    model = model_of(
        [node("Slice", ["x", "start", "end"], ["y"])],
        {"x": (F32, ["n"])},
        ["y"],
        {"start": ints(-4), "end": ints(2**63 - 1)},
    )
    assert result_shape(import_model(model, dims={"n": (4, 9)})) == (4,)
    unclamped = import_model(model)
    for n in (2, 4, 6):
        np.testing.assert_array_equal(run(unclamped, floats(n))[0], floats(n)[-4:])


def test_dims_that_broadcast_when_it_runs() -> None:
    model = model_of([node("Add", ["x", "z"], ["y"])], {"x": (F32, ["a"]), "z": (F32, ["b"])}, ["y"])
    func = import_model(model)
    both = maximum(sym("a"), sym("b"))
    why = ("broadcast", "node '/y' (Add)")
    assert func.attrs["constraints"] == (("stretches", sym("a"), both, *why), ("stretches", sym("b"), both, *why))
    np.testing.assert_array_equal(run(func, floats(3), floats(3))[0], 2 * floats(3))


# structure


def test_nodes_out_of_order_are_sorted() -> None:
    nodes = [node("Relu", ["a"], ["y"]), node("Neg", ["x"], ["a"])]
    check_model = model_of(nodes, {"x": (F32, [4])}, ["y"])
    np.testing.assert_array_equal(run(import_model(check_model), floats(4))[0], np.maximum(-floats(4), 0))


def test_nodes_out_of_order_are_sorted_inside_branches() -> None:
    """The branches read, in the wrong order as well, what a node after the `If` makes."""
    out = helper.make_tensor_value_info("t", TensorProto.FLOAT, [4])
    bodies = [
        helper.make_graph([node("Exp", ["s"], ["t"]), node(op, ["a"], ["s"])], op, [], [out]) for op in ("Neg", "Abs")
    ]
    nodes = [node("If", ["c"], ["y"], then_branch=bodies[0], else_branch=bodies[1]), node("Sin", ["x"], ["a"])]
    func = import_model(model_of(nodes, {"x": (F32, [4])}, ["y"], {"c": np.array(0, BOOL)}))
    np.testing.assert_allclose(run(func, floats(4))[0], np.exp(np.abs(np.sin(floats(4)))), rtol=1e-6)


def _branch(op: str, name: str) -> onnx.GraphProto:
    out = helper.make_tensor_value_info(name, TensorProto.FLOAT, [3])
    return helper.make_graph([helper.make_node(op, ["x"], [name])], name, [], [out])


def _conditional() -> onnx.NodeProto:
    return node("If", ["c"], ["y"], then_branch=_branch("Exp", "t"), else_branch=_branch("Neg", "e"))


def test_if_with_a_constant_condition_is_inlined() -> None:
    model = model_of([_conditional()], {"x": (F32, [3])}, ["y"], {"c": np.array(0, BOOL)})
    func = import_model(model)
    assert [op.kind.name for op in func.walk()] == ["graph.neg", "return"]


@pytest.mark.parametrize("condition", [False, True])
def test_if_on_data_selects(condition: bool) -> None:
    model = model_of([_conditional()], {"x": (F32, [3]), "c": (BOOL, [])}, ["y"])
    check(model, {"x": floats(3), "c": np.array(condition)})


def _loop_body() -> onnx.GraphProto:
    nodes = [
        helper.make_node("Identity", ["cond_in"], ["cond"]),
        helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["acc_in", "f"], ["sum"]),
        helper.make_node("Mul", ["sum", "x"], ["acc"]),
        helper.make_node("Identity", ["acc"], ["scan"]),
    ]
    info = helper.make_tensor_value_info
    inputs = [
        info("i", TensorProto.INT64, []),
        info("cond_in", TensorProto.BOOL, []),
        info("acc_in", TensorProto.FLOAT, [3]),
    ]
    outputs = [
        info("cond", TensorProto.BOOL, []),
        info("acc", TensorProto.FLOAT, [3]),
        info("scan", TensorProto.FLOAT, [3]),
    ]
    return helper.make_graph(nodes, "body", inputs, outputs)


@pytest.mark.parametrize("trips", [4, 100])
def test_loops_are_unrolled_or_kept(trips: int) -> None:
    loop = node("Loop", ["n", "go", "x"], ["y", "all"], body=_loop_body())
    model = model_of([loop], {"x": (F32, [3])}, ["y", "all"], {"n": np.array(trips, I64), "go": np.array(1, BOOL)})
    kept = any(op.kind.name == "graph.loop" for op in import_model(model).walk())
    assert kept == (trips > 64)
    check(model, {"x": np.array([0.5, 0.25, -0.5], F32)})


def test_local_functions_are_inlined() -> None:
    function = helper.make_function(
        "own", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 20)]
    )
    call = helper.make_node("Twice", ["x"], ["y"], domain="own")
    model = model_of([call], {"x": (F32, [3])}, ["y"], opset=20, functions=[function])
    np.testing.assert_array_equal(run(import_model(model), floats(3))[0], 2 * floats(3))


def test_operators_defined_by_functions_are_inlined() -> None:
    call = node("SoftmaxCrossEntropyLoss", ["x", "labels"], ["y"])
    model = model_of([call], {"x": (F32, [3, 5])}, ["y"], {"labels": ints(0, 4, 2)})
    check(model, {"x": floats(3, 5)})


@pytest.mark.parametrize("opset", [7, 9, 11, 12, 13, 17, 21])
def test_older_opsets_are_converted(opset: int) -> None:
    if opset < 13:
        nodes = [node("Squeeze", ["x"], ["a"], axes=[0]), node("Softmax", ["a"], ["b"], axis=1)]
        nodes.append(node("ReduceSum", ["b"], ["y"], axes=[-1], keepdims=0))
        constants = {}
    else:
        nodes = [node("Squeeze", ["x", "zero"], ["a"]), node("Softmax", ["a"], ["b"], axis=1)]
        nodes.append(node("ReduceSum", ["b", "last"], ["y"], keepdims=0))
        constants = {"zero": ints(0), "last": ints(-1)}
    model = model_of(nodes, {"x": (F32, [1, 2, 3, 4])}, ["y"], constants, opset)
    x = floats(1, 2, 3, 4)
    e = np.exp(x[0] - x[0].max())
    e = e / e.sum(axis=(1, 2) if opset < 13 else 1, keepdims=True)
    np.testing.assert_allclose(run(import_model(model), x)[0], e.sum(-1), rtol=1e-5)


# data of initialisers


def test_external_data_is_mapped(tmp_path: Path) -> None:
    w = floats(64, 32)
    model = model_of([node("MatMul", ["x", "w"], ["y"])], {"x": (F32, ["b", 64])}, ["y"], {"w": w})
    path = tmp_path / "m.onnx"
    onnx.save(model, str(path), save_as_external_data=True, location="w.bin", size_threshold=0)
    func = import_model(path)
    (constant,) = [op for op in func.walk() if op.kind.name == "graph.constant"]
    array = constant.attrs["value"].array  # type: ignore[union-attr]
    assert isinstance(array.base if not isinstance(array, np.memmap) else array, np.memmap)
    x = floats(2, 64)
    np.testing.assert_allclose(run(func, x)[0], x @ w, rtol=1e-4, atol=1e-4)


def test_weights_are_left_in_the_file(tmp_path: Path) -> None:
    """Big initialisers anywhere between the other fields, which have names of one and of two bytes' length."""
    constants = {f"{'w' * (1 + 70 * (i % 3))}{i}": floats(4 * (1 + 300 * (i % 2)), seed=i) for i in range(6)}
    sums = [helper.make_node("Add", [f"s{i}" if i else "x", n], [f"s{i + 1}"]) for i, n in enumerate(constants)]
    model = model_of(sums, {"x": (F32, [1])}, ["s6"], constants)
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    data, weights = read_without_weights(path, 1025)
    assert len(data) < 4096
    assert {n: w.tobytes() for n, w in weights.items()} == {n: c.tobytes() for n, c in constants.items() if c.size > 4}
    stripped = onnx.ModelProto.FromString(data)
    for t in stripped.graph.initializer:
        if t.name in weights:
            t.raw_data = weights[t.name].tobytes()
    assert stripped == model


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int4", "uint4"])
def test_narrow_initialisers(dtype: str) -> None:
    import ml_dtypes

    w = np.arange(6).astype(getattr(ml_dtypes, dtype)).reshape(2, 3)
    tensor = numpy_helper.from_array(w, "w")
    model = model_of([node("Cast", ["w"], ["y"], to=TensorProto.FLOAT)], {}, ["y"])
    model.graph.initializer.append(tensor)
    np.testing.assert_array_equal(run(import_model(model))[0], w.astype(F32))


def test_reference_agrees_on_a_small_network() -> None:
    nodes = [
        node("MatMul", ["x", "w"], ["h"]),
        node("Add", ["h", "b"], ["g"]),
        node("Gelu", ["g"], ["a"]),
        node("LayerNormalization", ["a", "s"], ["y"]),
    ]
    constants = {"w": floats(8, 6), "b": floats(6), "s": floats(6)}
    model = model_of(nodes, {"x": (F32, ["n", 8])}, ["y"], constants)
    x = floats(3, 8)
    np.testing.assert_allclose(run(import_model(model), x)[0], reference(model, {"x": x})[0], rtol=1e-4, atol=1e-5)
