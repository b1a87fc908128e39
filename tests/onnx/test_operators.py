"""Operators against what their definitions imply, beyond the numbers of ONNX's own tests."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, ValueInfoProto, helper, parser

from graphfuse.errors import VerifyError
from graphfuse.onnx_backend import Backend


def run(op, *inputs, outputs=1, domain="", **attributes):
    names = [f"x{i}" if v is not None else "" for i, v in enumerate(inputs)]
    node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], domain=domain, **attributes)
    found = Backend.run_node(node, [v for v in inputs if v is not None])
    return found[0] if outputs == 1 else tuple(found)


def rng():
    return np.random.default_rng(5)


@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (2, 3, 4, 4)])
def test_det(shape):
    x = rng().standard_normal(shape)
    np.testing.assert_allclose(run("Det", x), np.linalg.det(x), rtol=1e-10)


def test_det_of_odd_matrices():
    swap = np.array([[0, 1], [1, 0]], np.float32)
    np.testing.assert_array_equal(run("Det", np.stack([swap, swap * 0, np.ones((2, 2), np.float32)])), [-1, 0, 0])
    assert math.isnan(run("Det", np.full((2, 2), np.nan, np.float32)))
    with pytest.raises(VerifyError, match="Det: expected square matrices"):
        run("Det", np.ones((2, 3), np.float32))


POWERS = np.array(
    [
        0,
        2**-149,
        2**-128,
        2**-127,
        1.4 * 2**-127,
        1.5 * 2**-127,
        1,
        1.2,
        1.5,
        1.9,
        3,
        2.0**127,
        1.7 * 2.0**127,
        np.inf,
        np.nan,
    ]
)


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
@pytest.mark.parametrize("saturate", [0, 1])
def test_powers_of_two(mode, saturate):
    """The least power not below, the largest not above, or the nearest of these two, the larger one of a tie."""
    want = []
    for x in POWERS.astype(np.float32).astype(np.float64):
        if math.isnan(x) or (not saturate and x < 2**-127):
            want.append(math.nan)
            continue
        exponent = min(max(math.floor(math.log2(x)) if x else -200, -127), 200) if math.isfinite(x) else 200
        below = 2.0**exponent
        up = x > below and (mode == "up" or (mode == "nearest" and x >= 1.5 * below))
        exponent += up
        if exponent > 127:
            want.append(2.0**127 if saturate else math.nan)
        else:
            want.append(2.0**exponent)
    y = run("Cast", POWERS.astype(np.float32), to=TensorProto.FLOAT8E8M0, round_mode=mode, saturate=saturate)
    assert y.dtype == ml_dtypes.float8_e8m0fnu
    np.testing.assert_array_equal(y.astype(np.float64), want)


def test_deformed_by_nothing_is_a_convolution():
    x, w = rng().standard_normal((2, 6, 7, 5)), rng().standard_normal((4, 3, 3, 2))
    bias, form = rng().standard_normal(4), {"group": 2, "pads": [1, 0, 1, 1], "strides": [2, 1], "dilations": [1, 2]}
    want = run("Conv", x, w, bias, **form)
    offset = np.zeros((2, 3 * 2 * 6, *want.shape[2:]))
    np.testing.assert_allclose(run("DeformConv", x, w, offset, bias, offset_group=3, **form), want, rtol=1e-10)
    mask = np.full((2, 3 * 6, *want.shape[2:]), 0.5)
    half = run("DeformConv", x, w, offset, bias * 2, mask, offset_group=3, **form)
    np.testing.assert_allclose(half * 2, want + 3 * bias[:, None, None], rtol=1e-10)


def test_deformed_by_whole_numbers_is_a_shift():
    x, w = rng().standard_normal((1, 1, 6, 6)), np.ones((1, 1, 1, 1))
    offset = np.stack([np.full((6, 6), 2.0), np.full((6, 6), -1.0)])[None]
    want = np.zeros((6, 6))
    want[:4, 1:] = x[0, 0, 2:, :5]
    np.testing.assert_array_equal(run("DeformConv", x, w, offset)[0, 0], want)
    nan = run("DeformConv", x, w, np.full_like(offset, np.nan))
    assert np.isnan(nan).all() or (nan == 0).all()  # and nothing is read outside


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions_of_a_plane(mode):
    """On a plane the samples of a bin have the mean of its centre."""
    i, j = np.meshgrid(np.arange(16.0), np.arange(12.0), indexing="ij")
    x = np.stack([3 * i + j, 0 * i + 7])[None].repeat(2, 0)
    x[1] += 100
    rois, batch = np.array([[2.0, 4.0, 8.0, 12.0], [1.5, 1.0, 6.5, 9.0]]), np.array([1, 0])
    form = {"output_height": 2, "output_width": 3, "sampling_ratio": 2, "mode": mode}
    y = run("RoiAlign", x, rois, batch, **form)
    assert y.shape == (2, 2, 2, 3)
    if mode == "max":
        assert (y <= 100 + 3 * 16 + 12).all()
        return
    for r, (x1, y1, x2, y2) in enumerate(rois - 0.5):
        rows = y1 + (y2 - y1) * (np.arange(2) + 0.5) / 2
        columns = x1 + (x2 - x1) * (np.arange(3) + 0.5) / 3
        plane = 3 * rows[:, None] + columns + 100 * batch[r]
        np.testing.assert_allclose(y[r, 0], plane, rtol=1e-10)
        np.testing.assert_allclose(y[r, 1], 7 + 100 * batch[r], rtol=1e-10)


@pytest.mark.parametrize("step", [0, 3])
def test_optimisers_of_two_parameters_of_different_shapes(step):
    r, t = np.float32(0.1), np.int64(step)
    xs = [rng().standard_normal(s).astype(np.float32) for s in ((3,), (2, 2))]
    zeros = [np.zeros_like(x) for x in xs]
    domain = "ai.onnx.preview.training"
    form = {"norm_coefficient": 0.0, "epsilon": 1e-8}
    both = run("Adam", r, t, *xs, *xs, *zeros, *zeros, outputs=6, domain=domain, alpha=0.5, beta=0.5, **form)
    bias = math.sqrt(1 - 0.5**step) / (1 - 0.5**step) if step else 1
    for x, new, v, h in zip(xs, both[:2], both[2:4], both[4:], strict=True):
        np.testing.assert_allclose(v, x / 2, rtol=1e-6)
        np.testing.assert_allclose(h, x * x / 2, rtol=1e-6)
        np.testing.assert_allclose(new, x - 0.1 * bias * np.sign(x) / math.sqrt(2), rtol=1e-4)


def test_array_features_and_thresholds():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    ml = "ai.onnx.ml"
    np.testing.assert_array_equal(run("ArrayFeatureExtractor", x, np.array([2, 0]), domain=ml), x[:, [2, 0]])
    np.testing.assert_array_equal(run("ArrayFeatureExtractor", x[0], np.array([1]), domain=ml), [[1]])
    np.testing.assert_array_equal(run("Binarizer", x, domain=ml, threshold=2.0), x > 2)


def test_features():
    ml = "ai.onnx.ml"
    x = np.array([[1, -2, 3], [0, 0, 0]], np.float32)
    y = run("Scaler", x, domain=ml, offset=[1.0, 0.0, 2.0], scale=[2.0])
    np.testing.assert_array_equal(y, (x - [1, 0, 2]) * 2)
    for norm, size in (("MAX", 3), ("L1", 6), ("L2", math.sqrt(14))):
        np.testing.assert_allclose(run("Normalizer", x, domain=ml, norm=norm), [x[0] / size, x[1]], rtol=1e-6)
    y = run("LinearRegressor", x, domain=ml, targets=2, coefficients=[1.0, 1, 1, 0, 2, 0], intercepts=[0.5, 1.0])
    np.testing.assert_array_equal(y, [[2.5, -3], [0.5, 1]])
    np.testing.assert_array_equal(run("FeatureVectorizer", x, x[:, :1], domain=ml), np.hstack([x, x[:, :1]]))


def test_missing_features():
    x = np.array([[1, np.nan], [np.nan, 2]], np.float32)
    form = {"domain": "ai.onnx.ml", "replaced_value_float": math.nan}
    np.testing.assert_array_equal(run("Imputer", x, imputed_value_floats=[5.0, 6.0], **form), [[1, 6], [5, 2]])
    y = run("Imputer", np.array([[1, 7]]), domain="ai.onnx.ml", replaced_value_int64=7, imputed_value_int64s=[-1])
    np.testing.assert_array_equal(y, [[1, -1]])
    with pytest.raises(VerifyError, match="imputed_value_floats: expected 1 or 2 numbers, found 3"):
        run("Imputer", x, imputed_value_floats=[5.0, 6.0, 7.0], **form)


def test_max_roi_pool():
    ort = pytest.importorskip("onnxruntime")
    r = rng()
    x = r.standard_normal((2, 3, 9, 7)).astype(np.float32)
    rois = np.array([[0, 0, 0, 6, 8], [1, 1, 2, 4, 3], [1, 3, 3, 3, 3], [0, 5.4, 6.6, 9, 12]], np.float32)
    node = helper.make_node("MaxRoiPool", ["x", "r"], ["y"], pooled_shape=[3, 2], spatial_scale=0.9)
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in (("x", x), ("r", rois))]
    graph = helper.make_graph([node], "g", infos, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, {"x": x, "r": rois})
    np.testing.assert_array_equal(Backend.run_model(model, [x, rois])[0], want)


def spread(x, w, stride, low=0):
    """A transposed convolution of one dim by its definition: a window of products at each input."""
    out = np.zeros((len(x) - 1) * stride + len(w), np.float32)
    for i, v in enumerate(x):
        out[i * stride : i * stride + len(w)] += v * w
    return out[low : len(out) - low]


@pytest.mark.some(3)
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("odd", [np.inf, np.nan])
def test_no_output_of_a_transposed_convolution_meets_what_is_between_inputs(stride, odd):
    x, w = (rng().standard_normal(5).astype(np.float32) for _ in range(2))
    for a, b in ((np.where(np.arange(5) == 2, odd, x), w[:4]), (x, np.where(np.arange(5) == 1, odd, w))):
        a, b = a.astype(np.float32), b.astype(np.float32)
        for known in (True, False):
            found = transposed(a, b, known=known, strides=[stride], pads=[1, 1])
            np.testing.assert_allclose(found, spread(a, b, stride, 1), rtol=1e-5, atol=1e-6)


def transposed(x, w, *, known, **attributes):
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], **attributes)
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 1, len(v)]) for n, v in (("x", x), ("w", w))]
    weights = [helper.make_tensor("w", TensorProto.FLOAT, [1, 1, len(w)], w)]
    graph = helper.make_graph([node], "g", infos[: 2 - known], [ValueInfoProto(name="y")], weights[: int(known)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    (y,) = Backend.run_model(model, [v.reshape(1, 1, -1) for v in (x, w)[: 2 - known]])
    return y.reshape(-1)


@pytest.mark.parametrize("steps", [3, 100])
def test_scan_over_what_the_model_holds(steps):
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 21]>
        g (float[2] start) => (float[2] y, float[{steps}, 2] z)
        <float[{steps}, 2] table = {{{", ".join("12" * steps)}}}> {{
            y, z = Scan<num_scan_inputs = 1, body = b (float[2] s, float[2] v) => (float[2] t, float[2] o) {{
                t = Add(s, v)
                o = Identity(t)
            }}>(start, table)
        }}"""
    )
    y, z = Backend.run_model(model, [np.zeros(2, np.float32)])
    np.testing.assert_array_equal(z, np.outer(np.arange(steps) + 1, [1, 2]))
    np.testing.assert_array_equal(y, z[-1])


@pytest.mark.parametrize(
    ("op", "given", "scale"),
    [
        ("LeakyRelu", {}, 0.01),
        ("LeakyRelu", {"alpha": 0.3}, 0.3),
        ("HardSigmoid", {"beta": 0.0}, 0.2),
        ("Elu", {"alpha": 0.7}, 0.7),
    ],
)  # fmt: skip
def test_attributes_are_of_single_precision_in_f64_too(op, given, scale):
    x = np.array([0.5]) if op == "HardSigmoid" else np.array([-0.5])
    want = {"Elu": np.expm1(x)}.get(op, x) * np.float64(np.float32(scale))
    np.testing.assert_allclose(run(op, x, **given), want, rtol=1e-15)


def test_attributes_are_no_halves():
    """0.3 as a half is above 0.3."""
    x = np.array([0.3, -0.3, 1, 0.2], np.float16)
    np.testing.assert_array_equal(run("ThresholdedRelu", x, alpha=0.3), [x[0], 0, 1, 0])
    np.testing.assert_array_equal(
        run("Shrink", x, lambd=0.3, bias=0.1), np.array([0.2001, -0.2001, 0.9, 0], np.float16)
    )
    wide = np.arange(-4, 4, 0.01, dtype=np.float16).astype(np.float32)
    want = (wide * np.clip(wide / 6 + 0.5, 0, 1)).astype(np.float16)
    np.testing.assert_array_equal(run("HardSwish", wide.astype(np.float16)), want)


def test_the_scale_of_zeros_is_one():
    y, scale, zero = run("DynamicQuantizeLinear", np.zeros(3, np.float32), outputs=3)
    assert (y.tolist(), scale, zero) == ([0, 0, 0], 1, 0)
