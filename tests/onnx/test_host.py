"""Models with host code: what Python executes between compiled parts, and its errors."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from graphfuse.errors import InputError, UnsupportedError
from graphfuse.frontends.onnx.python_ops import interpreted, ml
from graphfuse.onnx_backend import Backend


def prepared(text):
    return Backend.prepare(parser.parse_model(text))


def opset(n=22):
    return f'<ir_version: 10, opset_import: ["" : {n}]>'


def test_compiled_parts_around_a_shape_that_data_decides():
    model = prepared(
        f"""{opset()} g (float[n] x) => (float[m] y, int64[1, k] at) {{
            doubled = Add(x, x)
            at = NonZero(doubled)
            zero = Constant<value_ints = [0]>()
            flat = Squeeze(at, zero)
            picked = Gather(doubled, flat)
            y = Neg(picked)
        }}"""
    )
    for x in ([0, 1, 2], [0, 0], [3, 0, 5, 7]):
        x = np.array(x, np.float32)
        y, at = model.run([x])
        np.testing.assert_array_equal(y, -2 * x[x != 0])
        np.testing.assert_array_equal(at, [np.flatnonzero(x)])
    assert model.model.how == "host"
    executable = model.model.whole.executable
    assert [getattr(s, "op", "part") for s in executable.host.steps] == ["part", "NonZero", "part"]
    assert len(executable.parts) == 2


def test_loop_that_data_ends_compiles_its_body_once():
    model = prepared(
        f"""{opset()} g (float[2] x) => (float[2] y, float[s, 2] all) {{
            yes = Constant<value = bool {{1}}>()
            y, all = Loop<body = b (int64 i, bool c, float[2] v) => (bool going, float[2] w, float[2] copy) {{
                w = Add(v, v)
                copy = Identity(w)
                largest = ReduceMax<keepdims = 0>(w)
                limit = Constant<value = float {{100}}>()
                going = Less(largest, limit)
            }}>(, yes, x)
        }}"""
    )
    y, trail = model.run([np.array([1, 3], np.float32)])
    np.testing.assert_array_equal(y, [64, 192])
    assert trail.shape == (6, 2)
    (loop,) = [s for s in model.model.whole.executable.host.steps if getattr(s, "op", "") == "Loop"]
    assert [len(b.steps) for b in loop.bodies] == [1]


def test_strings_pass_through_operators_that_are_compiled_for_numbers():
    model = prepared(
        f"""{opset()} g (string[2] a, string[2] b, float[2] x) => (bool[4] same, float[2] y) {{
            both = Concat<axis = 0>(a, b)
            again = Concat<axis = 0>(b, b)
            same = Equal(both, again)
            y = Add(x, x)
        }}"""
    )
    a, b = np.array(["x", "y"], dtype=object), np.array(["z", "y"], dtype=object)
    same, y = model.run([a, b, np.ones(2, np.float32)])
    np.testing.assert_array_equal(same, [False, True, True, True])
    np.testing.assert_array_equal(y, [2, 2])


def test_nested_sequences_of_errors():
    model = prepared(f"""{opset()} g (seq(float[n]) s, int64 i) => (float[n] y) {{ y = SequenceAt(s, i) }}""")
    xs = [np.zeros(1, np.float32), np.ones(2, np.float32)]
    np.testing.assert_array_equal(model.run([xs, np.int64(-1)])[0], xs[1])
    with pytest.raises(InputError, match=r"SequenceAt: position: expected -2\.\.1, found 2"):
        model.run([xs, np.int64(2)])
    with pytest.raises(InputError, match=r"input 's': expected a list for a sequence, found ndarray"):
        model.run([xs[0], np.int64(0)])


def test_an_operator_for_numbers_refuses_strings():
    model = prepared(f"{opset()} g (string[1] x) => (string[1] y) {{ y = Abs(x) }}".replace("Abs", "Identity"))
    np.testing.assert_array_equal(model.run([np.array(["a"], dtype=object)])[0], ["a"])
    with pytest.raises(UnsupportedError, match="Neg: input 'p': expected a tensor of numbers, found texts"):
        prepared(f"{opset()} g (string[1] x) => (string[1] y) {{ p, n = StringSplit(x) y = Neg(p) }}")


def test_big_weights_of_a_model_with_host_code():
    w = np.arange(4096, dtype=np.float32)
    nodes = [helper.make_node("Add", ["x", "w"], ["s"]), helper.make_node("NonZero", ["s"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, None)],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    (y,) = Backend.run_model(model, [np.array([-7], np.float32)])
    np.testing.assert_array_equal(y, [np.flatnonzero(w - 7)])


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_n_grams(mode):
    node = helper.make_node(
        "TfIdfVectorizer", ["x"], ["y"], mode=mode, min_gram_length=1, max_gram_length=2, max_skip_count=1,
        ngram_counts=[0, 2], ngram_indexes=[2, 0, 1], pool_int64s=[5, 6, 5, 6], weights=[2.0, 3.0, 4.0],
    )  # fmt: skip
    (y,) = Backend.run_node(
        node, [np.array([5, 6, 6], np.int64)]
    )  # 5; 6 twice; 5 6 twice: next to each other, and one apart
    want = {"TF": [2, 2, 1], "IDF": [3, 4, 2], "TFIDF": [6, 8, 2]}[mode]
    np.testing.assert_array_equal(y, np.array(want, np.float32))


def test_non_max_suppression_of_corners_in_any_order():
    boxes = np.array([[[1, 1, 0, 0], [0, 0, 1, 1.05], [3, 3, 4, 4]]], np.float32)
    scores = np.array([[[0.5, 0.9, 0.1]]], np.float32)
    node = helper.make_node("NonMaxSuppression", ["b", "s", "k", "o", "t"], ["y"])
    rest = [np.array([5], np.int64), np.array([0.5], np.float32)]
    (y,) = Backend.run_node(node, [boxes, scores, *rest, np.array([0.0], np.float32)])
    np.testing.assert_array_equal(y, [[0, 0, 1], [0, 0, 2]])
    (y,) = Backend.run_node(node, [boxes, scores, *rest, np.array([0.95], np.float32)])
    assert y.shape == (0, 3)
    assert y.dtype == np.int64


def test_what_attributes_say_is_read_once(monkeypatch):
    seen = []
    made = ml._table
    monkeypatch.setattr(ml, "_table", lambda c: (seen.append(c.op), made(c))[1])
    model = prepared(
        """<ir_version: 10, opset_import: ["" : 22, "ai.onnx.ml" : 4]> g (string[n] x) => (int64[n] y) {
            y = ai.onnx.ml.LabelEncoder<keys_strings = ["a", "nan"], values_int64s = [1, 2], default_int64 = 7>(x)
        }"""
    )
    for _ in range(2):
        np.testing.assert_array_equal(model.run([np.array(["a", "nan", "b"], object)])[0], [1, 2, 7])
    assert seen == ["LabelEncoder"]


def test_an_operator_whose_size_is_a_value_is_imported_once_for_each(monkeypatch):
    seen = []
    read = interpreted.import_model
    monkeypatch.setattr(interpreted, "import_model", lambda *args, **rest: (seen.append(rest), read(*args, **rest))[1])
    model = prepared(
        f"""{opset()} g (float[n] x, float[k] y) => (float[1, 1, m] z) {{
            many = NonZero(y)
            scaled = Cast<to = 1>(many)
            one = Constant<value_floats = [1.0, 1.0]>()
            last = Constant<value_ints = [-1]>()
            flat = Reshape(scaled, last)
            scales = Concat<axis = 0>(one, flat)
            two = Constant<value_ints = [0, 1]>()
            rows = Unsqueeze(x, two)
            z = Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">(
                rows, , scales)
        }}"""
    )
    x = np.arange(3, dtype=np.float32)
    for times, count in ((2, 1), (2, 1), (3, 2), (2, 2)):
        y = np.zeros(4, np.float32)
        y[times] = 1
        np.testing.assert_array_equal(model.run([x, y])[0], np.repeat(x, times)[None, None])
        sizes = {rest["bind"]["x2"].tobytes() for rest in seen if rest["bind"]}
        assert len(sizes) == count
    assert len(seen) <= 3
