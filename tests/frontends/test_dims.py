"""Run-time dims that do not fit an operator are an error that names the node, the inputs and both numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from onnx import parser
from onnx.helper import make_node as node

from graphfuse.compiler import signature_of
from graphfuse.errors import InputError
from graphfuse.frontends.onnx import import_model
from graphfuse.runtime.binding import Binder
from tests.frontends.support import Array, floats, model_of, onnxruntime_reference

F32, I64 = np.float32, np.int64


def ints(*values: int) -> Array:
    return np.array(values, dtype=np.int64)


# operator, attributes, dims of inputs, constants of the inputs that follow, shapes that fit, shapes that do not, error
CASES = [
    ("Reshape", {}, [["n", 16]], [ints(4, 64)], [(16, 16)], [(1, 16)], "elements: expected 16*n = 256, found 16"),
    ("Reshape", {}, [["n"]], [ints(-1, 4)], [(8,)], [(7,)], "4*floordiv(n, 4) to be equal, found 7 and 4"),
    ("MatMul", {}, [[2, "n"]], [floats(5, 3)], [(2, 5)], [(2, 3)], "dim 'k': expected n = 5, found 3"),
    ("MatMul", {}, [[2, "n"], ["m", 3]], [], [(2, 5), (5, 3)], [(2, 3), (5, 3)], "found 5 and 3"),
    ("Gemm", {}, [[2, "n"]], [floats(5, 3)], [(2, 5)], [(2, 3)], "dim 'k': expected n = 5, found 3"),
    ("Einsum", {"equation": "ij,jk->ik"}, [[2, "n"]], [floats(5, 3)], [(2, 5)], [(2, 3)], "to be 1 or 5, found 3"),
    ("Conv", {}, [[1, "n", 8]], [floats(2, 3, 3)], [(1, 3, 8)], [(1, 2, 8)], "channels: expected n = 3, found 2"),
    ("Conv", {}, [[1, 1, "n"]], [floats(1, 1, 5)], [(1, 1, 5)], [(1, 1, 4)], "expected n to be at least 5, found 4"),
    ("MaxPool", {"kernel_shape": [5], "pads": [1, 0]}, [[1, 1, "n"]], [], [(1, 1, 4)], [(1, 1, 3)], "n + 1 to be at l"),
    ("Concat", {"axis": 0}, [[2, "n"], [1, "m"]], [], [(2, 5), (1, 5)], [(2, 5), (1, 1)], "found 1 and 5"),
    ("TopK", {}, [["n"]], [ints(3)], [(3,)], [(2,)], "k of the dim: expected n to be at least 3, found 2"),
    ("Squeeze", {}, [["n", 4]], [ints(0)], [(1, 4)], [(2, 4)], "expected n = 1, found 2"),
    ("Split", {"axis": 0}, [["n"]], [ints(2, 3)], [(5,)], [(4,)], "expected n = 5, found 4"),
    ("Split", {"num_outputs": 4}, [["n"]], [], [(7,)], [(1,)], "pieces before the last: expected"),
    ("DepthToSpace", {"blocksize": 2}, [[1, "n", 2, 2]], [], [(1, 8, 2, 2)], [(1, 6, 2, 2)], "found 24 and 16"),
    ("SpaceToDepth", {"blocksize": 2}, [[1, 1, "n", 2]], [], [(1, 1, 4, 2)], [(1, 1, 3, 2)], "found 6 and 4"),
    ("LSTM", {"hidden_size": 1}, [[2, 1, "n"]], [floats(1, 4, 3), floats(1, 4, 1)], [(2, 1, 3)], [(2, 1, 2)], "n = 3"),
    ("InstanceNormalization", {}, [["b", "c", 4], ["c"], ["d"]], [], [(1, 3, 4), (3,), (3,)], [(1, 3, 4), (3,), (1,)],
     "number of channels: expected dims c and d to be equal, found 3 and 1"),
    ("BatchNormalization", {}, [[1, "n", 4]], [floats(3)] * 4, [(1, 3, 4)], [(1, 1, 4)], "expected n = 3, found 1"),
    ("LayerNormalization", {}, [[2, "n"]], [floats(5)], [(2, 5)], [(2, 1)], "expected n = 5, found 1"),
    ("Conv", {}, [[1, 3, 8], ["m", 3, 3], ["n"]], [], [(1, 3, 8), (2, 3, 3), (2,)], [(1, 3, 8), (2, 3, 3), (1,)],
     "elements of the bias: expected dims m and n to be equal, found 2 and 1"),
    ("PRelu", {}, [["n"], ["m"]], [], [(5,), (1,)], [(1,), (5,)], "expected m to be 1 or n, found 5 and 1"),
    ("LSTM", {"hidden_size": 1}, [[2, "b", 3]],
     [floats(1, 4, 3), floats(1, 4, 1), floats(1, 8), np.array([2, 2], "i4")],
     [(2, 2, 3)], [(2, 1, 3)], "number of lengths: expected b = 2, found 1"),
    ("TensorScatter", {"axis": 1}, [["b", 4, 3], ["c", 2, 3]], [], [(2, 4, 3), (2, 2, 3)], [(2, 4, 3), (1, 2, 3)],
     "dim 0 of the update: expected dims b and c to be equal, found 2 and 1"),
    ("AffineGrid", {}, [["n", 2, 3]], [ints(2, 1, 4, 4)], [(2, 2, 3)], [(1, 2, 3)], "theta: expected n = 2, found 1"),
    ("LSTM", {"hidden_size": 1}, [[2, 1, 3], ["d", 4, 3], [1, 4, 1]], [], [(2, 1, 3), (1, 4, 3), (1, 4, 1)],
     [(2, 1, 3), (2, 4, 3), (1, 4, 1)], "dim 0 of the weights: expected d = 1, found 2"),
    ("DFT", {}, [[1, 8, "n"]], [], [(1, 8, 2)], [(1, 8, 3)], "parts of a complex number: expected n to be at most 2"),
    ("DeformConv", {}, [[1, 1, 3, 3], [1, 1, 2, 2], [1, 8, "n", 2]], [],
     [(1, 1, 3, 3), (1, 1, 2, 2), (1, 8, 2, 2)], [(1, 1, 3, 3), (1, 1, 2, 2), (1, 8, 3, 2)],
     "dim 2 of the offsets: expected n = 2, found 3"),
    ("RotaryEmbedding", {}, [[1, 2, 3, 8], [1, 3, "n"], [1, 3, "m"]], [],
     [(1, 2, 3, 8), (1, 3, 4), (1, 3, 4)], [(1, 2, 3, 8), (1, 3, 5), (1, 3, 5)], "expected n = 4, found 5"),
    ("Conv", {"group": 2}, [[1, 2, 8], ["o", 1, 3]], [], [(1, 2, 8), (4, 1, 3)], [(1, 2, 8), (5, 1, 3)], "found 5"),
    ("TensorScatter", {"axis": 1, "mode": "circular"}, [[1, "n", 3], [1, "m", 3]], [],
     [(1, 4, 3), (1, 4, 3)], [(1, 4, 3), (1, 5, 3)], "steps of the update: expected m to be at most n, found 5 and 4"),
    ("STFT", {}, [[1, 8, "n"]], [ints(2), floats(4)], [(1, 8, 1)], [(1, 8, 2)], "is made: expected n = 1, found 2"),
    ("Attention", {}, [[1, 1, 3, 4], [1, 1, "n", 4], [1, 1, "m", 4]], [],
     [(1, 1, 3, 4), (1, 1, 5, 4), (1, 1, 5, 4)], [(1, 1, 3, 4), (1, 1, 5, 4), (1, 1, 2, 4)], "found 2 and 5"),
]  # fmt: skip


INDEXED = [
    ("GatherElements", {}, [[3, "n"]], [[1, "m"]], [], [(3, 2), (1, 2)], [(3, 2), (1, 5)], "to be at most n, found 5"),
    ("ScatterElements", {}, [[3, "n"]], [[1, "m"]], [[1, "k"]],
     [(3, 2), (1, 2), (1, 2)], [(3, 2), (1, 1), (1, 2)], "found 2 and 1"),
    ("ScatterElements", {}, [[3, "n"]], [[1, "m"]], [[1, "m"]],
     [(3, 2), (1, 2), (1, 2)], [(3, 2), (1, 5), (1, 5)], "to be at most n, found 5 and 2"),
    ("ScatterND", {}, [[3, "n"]], [["k", 1]], [["q", "m"]],
     [(3, 2), (1, 1), (1, 2)], [(3, 2), (2, 1), (1, 2)], "found 2 and 1"),
    ("ScatterND", {}, [[3, "n"]], [["k", 1]], [["q", "m"]],
     [(3, 2), (1, 1), (1, 2)], [(3, 2), (1, 1), (1, 1)], "found 1 and 2"),
]  # fmt: skip


def refused(model, fits, misfits, message) -> None:
    binder = Binder(signature_of(import_model(model)))
    binder.bind(fits)
    with pytest.raises(InputError) as e:
        binder.bind(misfits)
    assert f"node 'n' ({model.graph.node[0].op_type}): " in e.value.message
    assert e.value.message.startswith("input")
    assert message in e.value.message


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[6]}")
def test_dims_that_do_not_fit(case):
    op, attributes, dims, constants, fits, misfits, message = case
    inputs = {f"x{i}": (F32, d) for i, d in enumerate(dims)}
    known = {f"c{i}": c for i, c in enumerate(constants)}
    outputs = ["y", "z", "u", "v"][: attributes.get("num_outputs", 2 if op in ("TopK", "Split") else 1)]
    made = node(op, [*inputs, *known], outputs, name="n", **attributes)
    refused(model_of([made], inputs, ["y"], known), fits, misfits, message)


@pytest.mark.parametrize("case", INDEXED, ids=lambda c: f"{c[0]}-{c[7]}")
def test_indices_whose_dims_do_not_fit(case):
    op, attributes, data, indices, updates, fits, misfits, message = case
    inputs = {"x": (F32, data[0]), "i": (I64, indices[0]), **({"u": (F32, updates[0])} if updates else {})}
    axis = {} if op == "ScatterND" else {"axis": 0}
    model = model_of([node(op, list(inputs), ["y"], name="n", **axis, **attributes)], inputs, ["y"])
    refused(model, fits, misfits, message)


def test_what_is_proved_is_not_checked():
    nodes = [
        node("Slice", ["x", "s", "e"], ["a"], name="a"),
        node("Reshape", ["a", "r"], ["b"], name="b"),
        node("MatMul", ["b", "w"], ["y"], name="c"),
    ]
    known = {"s": ints(1), "e": ints(7), "r": ints(-1, 8), "w": floats(8, 2)}
    assert "constraints" not in import_model(model_of(nodes, {"x": (F32, ["n", 8])}, ["y"], known)).attrs


def test_branches_that_are_not_taken_need_nothing():
    """A branch with a constraint is none to be computed beside the other: Python runs the condition."""
    import onnx

    import graphfuse

    def branch(name: str, *nodes: onnx.NodeProto) -> onnx.GraphProto:
        out = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        return onnx.helper.make_graph(list(nodes), name, [], [out])

    first = branch("t", node("Reshape", ["x", "r"], ["t"], name="r"))
    second = branch("f", node("Concat", ["w", "w"], ["f"], axis=0))
    chosen = node("If", ["c"], ["y"], then_branch=first, else_branch=second)
    inputs = {"c": (np.bool_, []), "x": (F32, ["n"]), "w": (F32, [2])}
    model = graphfuse.compile(model_of([chosen], inputs, ["y"], {"r": ints(4)}))
    feed = {"c": np.zeros((), np.bool_), "x": floats(7), "w": floats(2)}
    assert model(feed)["y"].shape == (4,)
    with pytest.raises(InputError, match="elements: expected n = 4, found 7"):
        model({**feed, "c": np.ones((), np.bool_)})


BROADCASTS = [
    ([node("Add", ["x", "w"], ["y"])], {"x": ["n"], "w": ["m"]}),
    ([node("Add", ["x", "w"], ["a"]), node("Sub", ["a", "x"], ["y"])], {"x": ["n", 3], "w": ["m", "k"]}),
    ([node("Max", ["x", "w", "z"], ["y"])], {"x": ["n", 1], "w": ["m"], "z": ["k", "n"]}),
    ([node("MatMul", ["x", "w"], ["y"])], {"x": ["n", 4, "k"], "w": ["m", "k", 3]}),
    ([node("Einsum", ["x", "w"], ["y"], equation="bij,bjk->bik")], {"x": ["n", 2, "k"], "w": ["m", "n", 3]}),
    ([node("Gemm", ["x", "w", "z"], ["y"])], {"x": ["n", 4], "w": [4, 5], "z": ["k", "m"]}),
    ([node("Add", ["x", "w"], ["a"]), node("ReduceSum", ["a"], ["y"], keepdims=0)], {"x": ["n", 8], "w": ["m", "k"]}),
    ([node("Add", ["x", "w"], ["a"]), node("Softmax", ["a"], ["y"])], {"x": [2, "n"], "w": ["k", "m"]}),
    ([node("Concat", ["x", "w"], ["y"], axis=0)], {"x": [2, "n"], "w": ["k", "m"]}),
]


@pytest.mark.some(8)
@pytest.mark.parametrize("case", BROADCASTS, ids=lambda c: f"{c[0][0].op_type}-{len(c[0])}")
@pytest.mark.parametrize("least", [0, 1])
def test_dims_of_one_broadcast_when_it_runs(case, least):
    """One compiled model gives, for each combination of dims, what the standard says, or an error."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    import graphfuse

    nodes, inputs = case
    model = model_of(nodes, {n: (F32, s) for n, s in inputs.items()}, ["y"], opset=21)
    compiled = graphfuse.compile(model, dims=dict.fromkeys(("n", "m", "k"), (least, 64)) if "k" in str(inputs) else
                                 dict.fromkeys(("n", "m"), (least, 64)))  # fmt: skip
    whole = ReferenceEvaluator(onnx.load_from_string(model.SerializeToString()))
    for n, m, k in itertools.product((least, 1, 4, 5), repeat=3):
        sizes = {"n": n, "m": m, "k": k}
        feed = {name: floats(*(sizes.get(d, d) for d in s), seed=i) for i, (name, s) in enumerate(inputs.items())}
        try:
            want = whole.run(None, feed)[0]
        except (ValueError, TypeError, RuntimeError):
            want = None
        if nodes[0].op_type == "Gemm" and want is not None and want.shape != (n, 5):
            want = None  # the third operand broadcasts in one direction
        if want is None:
            with pytest.raises(InputError, match="expected"):
                compiled(feed)
        elif want.size or nodes[-1].op_type != "Softmax":
            np.testing.assert_allclose(compiled(feed)["y"], want, rtol=1e-4, atol=1e-5, err_msg=str(sizes))


SCAN = """(float[p] s, float[4, m] x, bool c) => (float[a] y, float[4, b] z) {
    y, z = Scan<num_scan_inputs = 1, body = g (float[V] v, float[E] e) => (float[W] w, float[O] o) {
        w = Add(v, e) BODY
    }>(s, x)
}"""
PLAIN, COUNTED = "o = Identity(w)", "at = NonZero(e) f = Cast<to = 1>(at) n = ReduceSum<keepdims = 0>(f) o = Mul(w, n)"
IF = """(float[p] s, float[4, m] x, bool c) => (float[a] y) {
    y = If<then_branch = t () => (float[V] v) { v = Add(s, s) }, else_branch = e () => (float[W] w) { w = Neg(s) }>(c)
}"""


@pytest.mark.parametrize(
    ("text", "declared", "message"),
    [
        (SCAN, {"V": 3}, "dim 0 of input 'v' of the body of Scan.*: expected p = 3, found 2"),
        (SCAN, {"E": 3}, "dim 0 of input 'e' of the body of Scan.*: expected m = 3, found 2"),
        (SCAN, {"W": 3}, "dim 0 of output 'w' of the body of Scan.*: expected .* = 3, found 2"),
        (SCAN, {"O": 3}, "dim 0 of output 'o' of the body of Scan.*: expected .* = 3, found 2"),
        (SCAN, {"E": 3, "BODY": COUNTED}, "dim 0 of input 'e' of the body of Scan.*: expected m = 3, found 2"),
        (SCAN, {"O": 3, "BODY": COUNTED}, "dim 0 of output 'o' of the body of Scan.*: expected .* = 3, found 2"),
        (IF, {"V": 3}, "dim 0 of output 'v' of the body of If.*: expected p = 3, found 2"),
        (IF, {"W": 3}, ""),
    ],
)
def test_bodies_get_and_give_the_dims_that_they_declare(text, declared, message):
    """One that declares others is an error, as in ONNX Runtime; a branch that is not taken needs nothing."""
    import graphfuse

    text = text.replace("BODY", declared.get("BODY", PLAIN))
    for name in "VEWO":
        text = text.replace(f"[{name}]", f"[{declared.get(name, name)}]")
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> g {text}')
    compiled = graphfuse.compile(model)
    for n in (2, 3):
        feed = {"s": floats(n), "x": floats(4, n), "c": np.ones((), np.bool_)}
        if n == 2 and message:
            with pytest.raises(InputError, match=message):
                compiled(feed)
            continue
        for got, want in zip(compiled(feed).values(), onnxruntime_reference(model, feed), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("step", [1, -1, -2])
@pytest.mark.parametrize(("start", "end"), [("n - 4", None), (None, "n - 4"), ("m - n", "n - 4"), (-7, "m - n")])
def test_positions_count_from_the_end_when_they_turn_out_to_be_negative(start, end, step):
    import graphfuse

    nodes = [
        node("Shape", ["x"], ["n"], start=0, end=1),
        node("Shape", ["x"], ["m"], start=1),
        node("Sub", ["n", "four"], ["n - 4"]),
        node("Sub", ["m", "n"], ["m - n"]),
        node("Slice", ["x", str(start), str(end), "axes", "step"], ["y"]),
    ]
    far = (1 << 62) * (1 if step > 0 else -1)
    known = {"four": ints(4), "axes": ints(0), "-7": ints(-7), "step": ints(step)}
    known["None"] = ints(far if end is None else -far)
    model = model_of(nodes, {"x": (F32, ["n", "m"])}, ["y"], known, opset=18)
    compiled = graphfuse.compile(model, dims={"n": (0, 64)})
    for n, m in [(0, 1), (1, 1), (3, 2), (3, 9), (4, 3), (6, 3), (9, 2), (9, 31)]:
        x = floats(n, m)
        (want,) = onnxruntime_reference(model, {"x": x})
        np.testing.assert_array_equal(compiled({"x": x})["y"], want, err_msg=f"{n} {m}")


def test_dims_of_0_run_where_they_are_declared():
    import graphfuse

    model = model_of([node("ReduceSum", ["x", "a"], ["y"], keepdims=0)], {"x": (F32, ["n", 3])}, ["y"], {"a": ints(0)})
    with pytest.raises(
        InputError, match=r"expected n in 1\.\.1048576, found 0; compiled with --dim n=0\.\.1048576 it fits"
    ):
        graphfuse.compile(model)(floats(0, 3))
    np.testing.assert_array_equal(graphfuse.compile(model, dims={"n": (0, 1048576)})(floats(0, 3))["y"], np.zeros(3))


def test_the_length_of_a_past_begins_at_0():
    import graphfuse

    nodes = [
        node("MatMul", ["x", "w"], ["new"]),
        node("Concat", ["past", "new"], ["keys"], axis=1),
        node("Transpose", ["keys"], ["turned"], perm=[0, 2, 1]),
        node("MatMul", ["new", "turned"], ["scores"]),
        node("Softmax", ["scores"], ["p"]),
        node("MatMul", ["p", "keys"], ["y"]),
    ]
    inputs = {"x": (F32, ["b", "s", 8]), "past": (F32, ["b", "t", 8])}
    model = model_of(nodes, inputs, ["y"], {"w": floats(8, 8, seed=3)}, opset=21)
    assert import_model(model).ranges == {"b": (1, 1 << 20), "s": (1, 1 << 20), "t": (0, 1 << 20)}
    compiled = graphfuse.compile(model)
    for b, s, t in [(1, 1, 0), (2, 3, 0), (2, 1, 5)]:
        feed = {"x": floats(b, s, 8), "past": floats(b, t, 8, seed=1)}
        new = feed["x"] @ floats(8, 8, seed=3)
        keys = np.concatenate([feed["past"], new], axis=1)
        scores = new @ keys.transpose(0, 2, 1)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        want = p / p.sum(-1, keepdims=True) @ keys
        np.testing.assert_allclose(compiled(feed)["y"], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("nodes", "inputs", "begins"),
    [
        ([node("Attention", ["q", "k", "k", "", "pk", "pk"], ["y", "a", "b"])],
         {"q": [1, 2, "s", 8], "k": [1, 2, "s", 8], "pk": [1, 2, None, 8]}, {"s": 1, "pk_dim2": 0}),
        ([node("Concat", ["x", "z"], ["y"], axis=0)], {"x": ["n"], "z": ["m"]}, {"n": 1, "m": 1}),
        ([node("Neg", ["x"], ["a"]), node("Concat", ["p", "a"], ["c"], axis=0), node("Exp", ["p"], ["b"]),
          node("Concat", ["b", "c"], ["y"], axis=0)], {"x": ["n"], "p": ["m"]}, {"n": 1, "m": 1}),
        ([node("Neg", ["x"], ["a"]), node("Concat", ["p", "a"], ["y"], axis=0)], {"x": ["n"], "p": ["m"]},
         {"n": 1, "m": 0}),
        ([node("Neg", ["x"], ["a"]), node("Concat", ["p", "a"], ["y"], axis=0)], {"x": ["m"], "p": ["m"]}, {"m": 1}),
    ],
)  # fmt: skip
def test_which_dims_are_lengths_of_pasts(nodes, inputs, begins):
    func = import_model(model_of(nodes, {n: (F32, s) for n, s in inputs.items()}, ["y"], opset=23))
    assert {name: low for name, (low, _) in func.ranges.items()} == begins


def test_constraints_are_in_the_artifact(tmp_path, capsys):
    import graphfuse
    from graphfuse.cli import main

    model = model_of([node("Reshape", ["x", "s"], ["y"], name="r")], {"x": (F32, ["n"])}, ["y"], {"s": ints(-1, 4)})
    path = tmp_path / "m.gfx"
    graphfuse.compile(model, dims={"n": (4, 64)}).save(path)
    loaded = graphfuse.load(path)
    assert loaded({"x": floats(8)})["y"].shape == (2, 4)
    with pytest.raises(InputError, match="found 7 and 4"):
        loaded({"x": floats(7)})
    assert main(["inspect", str(path)]) == 0
    needs = "  needs  node 'r' (Reshape): elements: expected dims n and 4*floordiv(n, 4) to be equal\n"
    assert needs in capsys.readouterr().out
