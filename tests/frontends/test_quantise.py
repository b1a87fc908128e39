"""Weights rounded to a few bits: the written model beside its decoded weights, in ONNX Runtime and in graphfuse."""

from __future__ import annotations

import dataclasses

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphfuse
from graphfuse.errors import FileError, InputError, TooLargeError, UnsupportedError, UsageError, VerifyError
from graphfuse.frontends.onnx import quantise, rounding
from graphfuse.frontends.onnx.rounding import Scheme, rounded
from graphfuse.quantization import relative_error
from tests.frontends.support import model_of, onnxruntime_reference

node = helper.make_node
F16_STEP = 2.0**-10
"""What a scale of halves is rounded by, at most."""


def matrix(k, n, *, seed=0, dtype=np.float32):
    """Weights with a few large ones, as trained ones have."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((k, n)) * np.exp(rng.standard_normal((1, n)))
    w[rng.random((k, n)) < 0.01] *= 8
    return w.astype(dtype)


def decoded(model, product):
    """The weights [k, n] of a MatMulNBits, by the operator's definition."""
    of = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    k, n, bits, block = (a.i for name in ("K", "N", "bits", "block_size") for a in product.attribute if a.name == name)
    codes, scales = of[product.input[1]], of[product.input[2]].astype(np.float64)
    blocks = -(-k // block)
    assert (codes.shape, codes.dtype, scales.shape) == ((n, blocks, block * bits // 8), np.uint8, (n, blocks))
    zeros = np.full((n, blocks), 1 << (bits - 1))
    if len(product.input) > 3 and product.input[3]:
        zeros = unpacked(of[product.input[3]], bits)[:, :blocks]
    q = unpacked(codes, bits).reshape(n, blocks, block).astype(np.int64)
    return ((q - zeros[..., None]) * scales[..., None]).reshape(n, -1)[:, :k].T


def unpacked(packed, bits):
    packed = packed.reshape(len(packed), -1)
    return packed if bits == 8 else np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(packed), -1)


def products(model):
    return [n for n in model.graph.node if n.op_type == "MatMulNBits"]


def check_model(model):
    """By onnx, which wants outputs to have a shape, whichever."""
    shaped = onnx.ModelProto.FromString(model.SerializeToString())
    for o in shaped.graph.output:
        o.type.tensor_type.shape.SetInParent()
    onnx.checker.check_model(shaped)


def ran(model, fed):
    """By ONNX Runtime and by graphfuse."""
    return onnxruntime_reference(model, fed)[0], next(iter(graphfuse.compile(model)(fed).values()))


FORMS = {
    "MatMul": ([node("MatMul", ["x", "w"], ["y"], "p")], {}),
    "of rank 3": ([node("Reshape", ["x", "to"], ["x3"]), node("MatMul", ["x3", "w"], ["y"], "p")],
                  {"to": np.array([2, 3, -1])}),
    "Gemm": ([node("Gemm", ["x", "w"], ["y"], "p")], {}),
    "transB": ([node("Gemm", ["x", "wt"], ["y"], "p", transB=1)], {}),
    "bias": ([node("Gemm", ["x", "wt", "b"], ["y"], "p", transB=1)], {"b": 0}),
    "row of a bias": ([node("Gemm", ["x", "w", "b"], ["y"], "p")], {"b": 1}),
    "computed bias": ([node("Neg", ["b"], ["c"]), node("Gemm", ["x", "w", "c"], ["y"], "p")], {"b": 0}),
    "Identity": ([node("Identity", ["w"], ["v"]), node("MatMul", ["x", "v"], ["y"], "p")], {}),
    "Transpose": ([node("Transpose", ["wt"], ["v"], perm=[1, 0]), node("MatMul", ["x", "v"], ["y"], "p")], {}),
    "turned twice": ([node("Transpose", ["w"], ["v"]), node("Gemm", ["x", "v"], ["y"], "p", transB=1)], {}),
}  # fmt: skip


def of_form(form, k, n, dtype=np.float32):
    nodes, more = FORMS[form]
    w = matrix(k, n, dtype=dtype)
    constants = dict(more)
    if "b" in more:
        b = np.random.default_rng(5).standard_normal((1, n)).astype(dtype)
        constants["b"] = b if more["b"] else b[0]
    constants["wt" if any("wt" in one.input for one in nodes) else "w"] = w.T.copy() if "wt" in str(nodes) else w
    model = model_of(nodes, {"x": (dtype, ["rows", k])}, ["y"], constants, opset=21)
    model.graph.output[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x = np.random.default_rng(1).standard_normal((6, k)).astype(dtype)
    product = x.astype(np.float64) @ w.astype(np.float64)
    added = 0 if "b" not in more else -constants["b"] if form == "computed bias" else constants["b"]
    return model, {"x": x}, w.astype(np.float64), product, np.float64(added)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("weights", "symmetric"), [("int4", True), ("int4", False), ("int8", True), ("int8", False)])
def test_forms_of_products(form, weights, symmetric):
    """Drawn sizes: k is seldom whole blocks."""
    rng = np.random.default_rng(len(form) * 10 + symmetric)
    k, n, block = int(rng.integers(65, 200)), int(rng.integers(3, 40)), int(rng.choice([16, 32, 64]))
    model, fed, w, product, added = of_form(form, k, n)
    made = graphfuse.quantize(model, weights=weights, block=block, symmetric=symmetric)
    (layer,) = made.layers
    assert (layer.name, layer.k, layer.n, layer.bytes_before) == ("p", k, n, 4 * k * n)
    out = made.model
    check_model(out)
    (rewritten,) = products(out)
    assert rewritten.name == "p"
    assert {t.name for t in out.graph.initializer}.isdisjoint({"w", "wt"})
    found = decoded(out, rewritten)
    np.testing.assert_allclose(layer.error, np.sqrt(np.square(found - w).sum() / np.square(w).sum()), rtol=1e-5)
    by_hand = (fed["x"].astype(np.float64) @ found).reshape(product.shape) + added
    for got in ran(out, fed):
        np.testing.assert_allclose(got.reshape(product.shape), by_hand, atol=2e-5 * by_hand.std(), rtol=1e-5)
    limit = np.abs(fed["x"]).astype(np.float64) @ np.abs(found - w)
    assert (np.abs(by_hand - (product + added)) <= limit * 1.001 + 1e-9).all()
    (error,) = made.product_errors({"x": fed["x"], "x3": fed["x"]})
    off = fed["x"].astype(np.float64) @ (found - w)
    np.testing.assert_allclose(error, np.sqrt(np.square(off).sum() / np.square(product).sum()), rtol=1e-4)


@pytest.mark.parametrize("weights", ["int4", "int8"])
def test_halves(weights):
    model, fed, w, product, _ = of_form("MatMul", 96, 24, np.float16)
    out = graphfuse.quantize(model, weights=weights).model
    found = decoded(out, products(out)[0])
    assert np.square(found - w).sum() < 0.02 * np.square(w).sum()
    for got in ran(out, fed):
        assert got.dtype == np.float16
        np.testing.assert_allclose(got, fed["x"].astype(np.float64) @ found, atol=1e-2 * product.std(), rtol=1e-2)


def test_bfloat16():
    model, fed, _, product, _ = of_form("MatMul", 96, 24, ml_dtypes.bfloat16)
    out = graphfuse.quantize(model, weights="int8").model
    found = decoded(out, products(out)[0])
    got = next(iter(graphfuse.compile(out)(fed).values()))
    assert got.dtype == ml_dtypes.bfloat16
    want = fed["x"].astype(np.float64) @ found
    np.testing.assert_allclose(got.astype(np.float64), want, atol=2e-2 * product.std(), rtol=2e-2)


@pytest.mark.parametrize("accuracy_level", [0, 4])
def test_the_level_of_accuracy_is_the_nodes(accuracy_level):
    model, fed, *_ = of_form("MatMul", 128, 32)
    out = graphfuse.quantize(model, accuracy_level=accuracy_level).model
    by_hand = fed["x"].astype(np.float64) @ decoded(out, products(out)[0])
    reference, ours = (relative_error(got, by_hand) for got in ran(out, fed))
    assert ours < (2e-2 if accuracy_level else 1e-6)
    assert reference < 1e-6 if not accuracy_level else 1e-4 < reference < 2e-2


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("n", "k", "block"), [(7, 100, 16), (33, 257, 256), (16, 64, 32)])
def test_a_block_loses_no_more_than_rounding_does(monkeypatch, dtype, symmetric, bits, n, k, block):
    """Half a step of the codes that reach over the whole block; clipping takes less in every block."""
    w = matrix(n, k, dtype=dtype)
    scheme = Scheme(bits, block, symmetric)
    found = rounded(w, scheme)
    exact = w.astype(np.float64)

    def lost_in(r):
        off = np.zeros((n, scheme.blocks(k) * block))
        off[:, :k] = r.rows(slice(None)) - exact
        return np.square(off).reshape(n, -1, block).sum(axis=-1)

    padded = np.zeros((n, scheme.blocks(k) * block))
    padded[:, :k] = exact
    padded = padded.reshape(n, -1, block)
    if symmetric:
        step = np.abs(padded).max(axis=-1) / ((1 << (bits - 1)) - 1)
    else:
        # the code of zero is rounded, too, which moves both ends
        step = 2 * (padded.max(axis=-1).clip(0) - padded.min(axis=-1).clip(max=0)) / ((1 << bits) - 1)
    slack = (1 << (bits - 1)) * F16_STEP if dtype == np.float16 else 1e-4  # of the scale, times the largest code
    assert (lost_in(found) <= block * np.square(step * (0.5 + slack)) + 1e-12).all()
    assert found.nbytes == scheme.nbytes(n, k, w.itemsize)
    np.testing.assert_allclose(found.lost, lost_in(found).sum(), rtol=1e-4)
    monkeypatch.setattr(rounding, "FRACTIONS", (1.0,))
    whole = rounded(w, scheme)
    assert (lost_in(found) <= lost_in(whole) * 1.0001 + 1e-12).all()
    assert bits == 8 or found.lost < 0.995 * whole.lost


def test_rows_are_rounded_a_run_at_a_time(monkeypatch):
    w, scheme = matrix(50, 70), Scheme(4, 32)
    whole = rounded(w, scheme)
    monkeypatch.setattr(rounding, "_AT_ONCE", 200)
    parts = rounded(w.T.copy().T, scheme)
    np.testing.assert_array_equal(parts.codes, whole.codes)
    np.testing.assert_array_equal(parts.scales, whole.scales)


@pytest.mark.parametrize("symmetric", [True, False])
def test_zeros_and_one_sign(symmetric):
    w = np.zeros((4, 64), np.float32)
    w[1], w[2], w[3] = 3.0, -2.5, 1e-42
    found = rounded(w, Scheme(4, 32, symmetric))
    np.testing.assert_allclose(found.rows(slice(0, 3)), w[:3], rtol=1e-6)
    assert (found.rows(slice(3, 4)) == 0).all()


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_cpu_multiplies_by_them_as_they_are_written(symmetric, tmp_path):
    model, fed, *_ = of_form("bias", 1024, 512)
    made = graphfuse.quantize(model, symmetric=symmetric)
    compiled = graphfuse.compile(made.model)
    by_hand = onnxruntime_reference(made.model, fed)[0]
    np.testing.assert_allclose(compiled(fed)["y"], by_hand, rtol=1e-4, atol=1e-5 * by_hand.std())
    compiled.save(tmp_path / "m.gfx")
    assert (tmp_path / "m.gfx").stat().st_size < 1.05 * made.nbytes[1] + 60_000  # and the code


# which nodes


def test_weights_of_several_layers_are_stored_once():
    nodes = [
        node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["r"]), node("MatMul", ["r", "w"], ["c"], "second"),
        node("Transpose", ["w"], ["v"]), node("MatMul", ["c", "v"], ["d"], "turned"),
        node("MatMul", ["d", "v"], ["y"], "turned again"),
    ]  # fmt: skip
    model = model_of(nodes, {"x": (np.float32, ["rows", 64])}, ["y"], {"w": matrix(64, 64) / 8}, opset=21)
    made = graphfuse.quantize(model)
    out = made.model
    assert [layer.name for layer in made.layers] == ["a", "second", "turned", "turned again"]
    assert len(out.graph.initializer) == 4
    assert made.nbytes[1] < made.nbytes[0] / 2.5
    assert [n.op_type for n in out.graph.node].count("Transpose") == 0
    fed = {"x": np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)}
    reference, ours = ran(out, fed)
    np.testing.assert_allclose(ours, reference, rtol=1e-4, atol=1e-4 * reference.std())


def test_what_others_read_stays():
    nodes = [
        node("Gather", ["w", "ids"], ["x"]), node("Transpose", ["w"], ["v"], perm=[1, 0]),
        node("MatMul", ["x", "v"], ["y"]),
    ]  # fmt: skip
    w = matrix(50, 64)
    model = model_of(nodes, {"ids": (np.int64, ["n"])}, ["y"], {"w": w}, opset=21)
    out = graphfuse.quantize(model).model
    assert [n.op_type for n in out.graph.node] == ["Gather", "MatMulNBits"]
    assert "w" in {t.name for t in out.graph.initializer}
    reference, ours = ran(out, {"ids": np.array([3, 0, 49])})
    np.testing.assert_allclose(ours, reference, rtol=1e-4, atol=1e-4)


def test_others_are_left_alone():
    constants = {"w": matrix(64, 64), "w3": matrix(64, 64)[None], "small": matrix(2, 2), "wide": np.ones((64, 64))}
    alone = [
        node("MatMul", ["w", "xt"], ["a"]), node("MatMul", ["x", "w3"], ["b"]), node("MatMul", ["x2", "small"], ["c"]),
        node("Gemm", ["x", "w"], ["d"], alpha=0.5), node("Gemm", ["xt", "w"], ["e"], transA=1),
        node("Gemm", ["x", "w", "x"], ["f"], beta=2.0), node("MatMul", ["xd", "wide"], ["g"]),
        node("MatMul", ["x", "xt"], ["h"]),
    ]  # fmt: skip
    inputs = {"x": (np.float32, [64, 64]), "xt": (np.float32, [64, 64]), "x2": (np.float32, [3, 2])}
    inputs["xd"] = (np.float64, [64, 64])
    done = node("MatMul", ["x", "w"], ["z"])
    model = model_of([*alone, done], inputs, [*"abcdefgh", "z"], constants, opset=21)
    model.metadata_props.add(key="who", value="me")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "nobody's"))
    before = model.SerializeToString()
    out = graphfuse.quantize(model).model
    assert list(out.graph.node)[:-1] == alone
    assert out.graph.node[-1].op_type == "MatMulNBits"
    assert {t.name for t in out.graph.initializer} >= {*constants, "nobody's"}
    assert out.metadata_props[0].value == "me"
    assert [(o.domain, o.version) for o in out.opset_import] == [("", 21), ("com.microsoft", 1)]
    assert model.SerializeToString() == before


def test_names_that_are_taken():
    nodes = [node("MatMul", ["x", "w"], ["w_q4"], "w_scales"), node("Add", ["w_q4", "y_product"], ["t"]),
             node("Gemm", ["t", "u", "b"], ["y"])]  # fmt: skip
    constants = {"w": matrix(64, 64), "u": matrix(64, 64), "b": np.ones((1, 64), np.float32)}
    inputs = {"x": (np.float32, [2, 64]), "y_product": (np.float32, [2, 64])}
    out = graphfuse.quantize(model_of(nodes, inputs, ["y"], constants, opset=21)).model
    fed = {n: np.ones((2, 64), np.float32) for n in inputs}
    reference, ours = ran(out, fed)
    np.testing.assert_allclose(ours, reference, rtol=1e-4, atol=1e-4)


def test_bodies_of_nodes():
    """Branches whose results have one name, by weights of their own, of outside, and in a Constant."""
    value = helper.make_tensor_value_info
    w, u = matrix(64, 32), matrix(64, 32, seed=1)
    yes = helper.make_graph(
        [node("MatMul", ["x", "w"], ["out"], "yes")], "yes", [], [value("out", TensorProto.FLOAT, None)]
    )
    no = helper.make_graph(
        [node("Constant", [], ["u"], value=numpy_helper.from_array(u)),
         node("Gemm", ["x", "u", "row"], ["out"], "no")],
        "no", [], [value("out", TensorProto.FLOAT, None)],
    )  # fmt: skip
    nodes = [node("If", ["which"], ["y"], then_branch=yes, else_branch=no)]
    inputs = {"which": (np.bool_, []), "x": (np.float32, [3, 64])}
    row = np.random.default_rng(0).standard_normal((1, 32)).astype(np.float32)
    made = graphfuse.quantize(model_of(nodes, inputs, ["y"], {"w": w, "row": row}, opset=21), weights="int8")
    assert [(one.name, one.x) for one in made.layers] == [("no", ""), ("yes", "")]
    assert made.product_errors({"x": np.ones((3, 64), np.float32)}) == [None, None]
    x = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
    for which, want in ((True, x @ w), (False, x @ u + row)):
        for got in ran(made.model, {"which": np.array(which), "x": x}):
            assert relative_error(got, want) < 2e-2
    assert {t.name for t in made.model.graph.initializer}.isdisjoint({"w", "u"})


def two_layers():
    nodes = [node("MatMul", ["x", "w"], ["a"], "h/proj"), node("MatMul", ["a", "u"], ["y"], "lm_head")]
    constants = {"w": matrix(64, 64), "u": matrix(64, 80)}
    return model_of(nodes, {"x": (np.float32, ["rows", 64])}, ["y"], constants, opset=21)


@pytest.mark.parametrize("pattern", ["lm_head", "*head*"])
def test_excluded_layers(pattern):
    made = graphfuse.quantize(two_layers(), exclude=pattern)
    assert [n.op_type for n in made.model.graph.node] == ["MatMulNBits", "MatMul"]
    assert "u" in {t.name for t in made.model.graph.initializer}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"weights": "int3"}, UsageError, "weights: expected int4 or int8, found 'int3'; did you mean 'int8'?"),
        ({"weights": "fp8"}, UnsupportedError, "weights: fp8 is not built yet"),
        ({"block": 48}, UsageError, "block: expected a power of two from 16 to 256, found 48"),
        ({"block": 512}, UsageError, "block: expected a power of two from 16 to 256, found 512"),
        ({"accuracy_level": 2}, UsageError, "accuracy_level: expected 0 or 4, found 2"),
        ({"exclude": ["lm_heat"]}, UsageError, "exclude: unknown layer 'lm_heat': expected some of 'h/proj'"),
        ({"exclude": ["*"]}, UsageError, "no matrix to quantise: .* that gets smaller and is not excluded"),
        ({"exclude": 3}, UsageError, "exclude: expected a text or several, found 3"),
    ],
)  # fmt: skip
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message.replace("?", r"\?")):
        graphfuse.quantize(two_layers(), **arguments)


def test_nothing_to_quantise():
    model = model_of([node("Relu", ["x"], ["y"])], {"x": (np.float32, [3])}, ["y"])
    with pytest.raises(UsageError, match=r"no matrix to quantise: expected a MatMul or Gemm"):
        graphfuse.quantize(model)


@pytest.mark.parametrize("op", ["Identity", "Transpose", "MatMul", "Gemm"])
def test_nodes_that_contradict_their_operator(op):
    model = two_layers()
    model.graph.node.insert(0, node(op, [], ["z"], "odd"))
    with pytest.raises(VerifyError, match=f"odd: error: {op}: Node.* has input size 0 not in range"):
        graphfuse.quantize(model)


def test_operators_of_onnx_runtime_in_onnxs_domain_stay():
    model = two_layers()
    model.graph.initializer.append(numpy_helper.from_array(np.ones(80, np.float32), "ones"))
    model.graph.node.append(node("SimplifiedLayerNormalization", ["y", "ones"], ["z"], axis=-1, epsilon=1e-5))
    model.graph.output[0].name = "z"
    out = graphfuse.quantize(model).model
    assert (out.graph.node[-1].op_type, out.graph.node[-1].domain) == ("SimplifiedLayerNormalization", "")
    reference, ours = ran(out, {"x": np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)})
    np.testing.assert_allclose(ours, reference, rtol=1e-4, atol=1e-4)


def test_weights_that_are_not_finite():
    model = two_layers()
    w = numpy_helper.to_array(model.graph.initializer[1]).copy()
    w[3, 5] = np.inf
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(w, "u"))
    with pytest.raises(UnsupportedError, match=r"cannot quantise 'lm_head': its weights 'u' have a NaN or an infinity"):
        graphfuse.quantize(model)
    assert len(graphfuse.quantize(model, exclude="lm_head").layers) == 1


def test_vectors():
    w = matrix(70, 40)
    model = model_of([node("MatMul", ["x", "w"], ["y"])], {"x": (np.float32, [70])}, ["y"], {"w": w}, opset=21)
    out = graphfuse.quantize(model).model
    x = np.random.default_rng(0).standard_normal(70).astype(np.float32)
    by_hand = x.astype(np.float64) @ decoded(out, products(out)[0])
    for got in ran(out, {"x": x}):
        np.testing.assert_allclose(got, by_hand, rtol=1e-4, atol=1e-4)


def test_old_models_list_initialisers_as_inputs():
    model = two_layers()
    model.ir_version, model.opset_import[0].version = 3, 9
    model.graph.input.extend(
        helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in model.graph.initializer
    )
    out = graphfuse.quantize(model, exclude="lm_head").model
    assert [i.name for i in out.graph.input] == ["x", "u"]
    check_model(out)
    fed = {"x": np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)}
    reference, ours = ran(out, fed)
    np.testing.assert_allclose(ours, reference, rtol=1e-4, atol=1e-4 * reference.std())


# files


def test_a_large_model_has_a_second_file(tmp_path, monkeypatch):
    """As of 2 GB on, simulated by a small limit; read from external data, too."""
    source = tmp_path / "in.onnx"
    onnx.save(two_layers(), source, save_as_external_data=True, location="in.bin", size_threshold=0)
    made = graphfuse.quantize(source, exclude="h/proj")
    inside, outside = tmp_path / "one.onnx", tmp_path / "two.onnx"
    made.save(inside)
    monkeypatch.setattr(quantise, "MOST_INSIDE", 10_000)
    made.save(outside)
    with pytest.raises(TooLargeError, match=r"expected a model of up to 10000 bytes, found \d+: save it to a file"):
        _ = made.model
    assert quantise.data_path(outside).stat().st_size > 64 * 64 * 4
    assert outside.stat().st_size < 5_000
    stored = onnx.load(outside, load_external_data=False)
    places = [{e.key: e.value for e in t.external_data} for t in stored.graph.initializer if t.external_data]
    assert len(places) > 1
    assert {p["location"] for p in places} == {"two.onnx.data"}
    assert all(int(p["offset"]) % 4096 == 0 for p in places)
    both = [onnx.load(path).graph for path in (outside, inside)]
    assert both[0].node == both[1].node
    for one, other in zip(*(g.initializer for g in both), strict=True):
        assert one.name == other.name
        np.testing.assert_array_equal(numpy_helper.to_array(one), numpy_helper.to_array(other))
    (source.parent / "in.bin").unlink()
    fed = {"x": np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)}
    np.testing.assert_array_equal(*(graphfuse.compile(path)(fed)["y"] for path in (inside, outside)))


def test_what_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    made = graphfuse.quantize(two_layers())
    with pytest.raises(FileError, match="cannot write"):
        made.save(tmp_path / "nowhere" / "m.onnx")
    monkeypatch.setattr(quantise, "MOST_INSIDE", 1_000)
    path = tmp_path / "m.onnx"
    quantise.data_path(path).mkdir()
    with pytest.raises(FileError, match="cannot write: expected a file, a pipe or a device, found a folder"):
        made.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx.data"]


def test_errors_where_numbers_are_not_finite():
    made = graphfuse.quantize(two_layers())
    first, second = made.product_errors({"x": np.full((2, 64), np.inf, np.float32), "a": np.zeros(3, np.int64)})
    assert np.isnan(first)
    assert second is None
    exact = np.array([np.inf, 3, 4], np.float32)
    assert relative_error(exact + np.float32([0, 0, 5]), exact) == 1
    assert np.isnan(relative_error(exact[:1], exact[:1]))
    assert relative_error(np.ones(3, np.int64), exact) is None
    with pytest.raises(InputError, match=r"expected arrays of one shape, found \(3,\) and \(1,\)"):
        relative_error(exact, exact[:1])


def test_layers_are_plain_data():
    (first, second) = graphfuse.quantize(two_layers(), block=64).layers
    assert dataclasses.asdict(first) == {
        "name": "h/proj", "weight": "w", "k": 64, "n": 64, "bytes_before": 16384, "bytes_after": 64 * (32 + 4),
        "error": first.error, "x": "x",
    }  # fmt: skip
    assert 0.03 < first.error < 0.2
    assert second.x == "a"
