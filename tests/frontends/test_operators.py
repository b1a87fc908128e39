"""Single operators in their attribute forms, static and with every dim symbolic, against onnx's reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontends.support import OPSET, Array, check, floats, one_op, onnxruntime_reference, rng

I64 = np.int64


def ints(*values: int) -> Array:
    return np.array(values, dtype=I64)


X = floats(2, 3, 4, 5)
IMAGE = floats(1, 2, 7, 8)

# (operator, inputs, positions of known inputs, attributes, outputs)
Case = tuple[str, list[Array | None], tuple[int, ...], dict[str, Any], int]


def case(op: str, *arrays: Array | None, known: tuple[int, ...] = (), outputs: int = 1, **attributes: Any) -> Case:
    return op, list(arrays), known, attributes, outputs


CASES: list[Case] = [
    # elementwise, with broadcasting in both directions
    case("Add", floats(3, 1, 5), floats(4, 1)),
    case("Sub", rng().integers(-9, 9, (3, 4)), rng(1).integers(-9, 9, (4,))),
    case("Div", rng().integers(-9, 9, (3, 4)), rng(1).integers(1, 5, (3, 4))),
    case("Mod", rng().integers(-9, 9, (8,)), rng(1).integers(1, 5, (8,))),
    case("Mod", floats(8), floats(8, seed=1), fmod=1),
    case("Pow", abs(floats(4)), np.array(2, I64), known=(1,)),
    case("Pow", abs(floats(4)), floats(4, seed=1)),
    case("Clip", floats(6), np.array(-0.5, np.float32), None),
    case("Clip", floats(6), None, np.array(0.5, np.float32)),
    case("Max", floats(3, 1), floats(4), floats(1, 1)),
    case("Mean", floats(3, 4), floats(4), floats(1, 1)),
    case("Where", floats(3, 4) > 0, floats(4), floats(3, 1)),
    case("Cast", floats(5) * 9, to=7),
    case("Cast", floats(5), to=9),
    case("IsInf", np.array([1, np.inf, -np.inf], np.float32), detect_negative=0),
    case("BitShift", np.array([1, 2, 255], np.uint8), np.array([1, 3, 1], np.uint8), direction="LEFT"),
    case("PRelu", X, floats(3, 1, 1)),
    case("Gelu", X, approximate="tanh"),
    case("Gelu", X),
    case("Elu", X, alpha=0.7),
    case("Selu", X),
    case("Celu", X, alpha=0.7),
    case("Mish", X),
    case("HardSwish", X),
    case("HardSigmoid", X, alpha=0.3),
    case("Shrink", X, lambd=0.5, bias=0.2),
    case("Softplus", X * 50),
    case("Softmax", X, axis=1),
    case("LogSoftmax", X, axis=-1),
    case("Hardmax", X, axis=2),
    # reductions
    *(case(f"Reduce{k}", X, ints(1, -1), known=(1,)) for k in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2")),
    *(case(f"Reduce{k}", X, ints(1), known=(1,), keepdims=0) for k in ("LogSumExp", "SumSquare", "Sum")),
    case("ReduceSum", X),
    case("ReduceSum", X, None, noop_with_empty_axes=1),
    case("ReduceLogSum", abs(X), ints(0, 2), known=(1,)),
    case("ArgMax", X, axis=2, keepdims=0),
    case("ArgMin", X, axis=-1, select_last_index=1),
    case("CumSum", X, np.array(1, I64), known=(1,), exclusive=1, reverse=1),
    case("TopK", X, ints(2), known=(1,), axis=1, largest=0, outputs=2),
    # contractions
    case("MatMul", floats(4), floats(4, 3)),
    case("MatMul", floats(3, 4), floats(4)),
    case("MatMul", floats(4), floats(4, seed=1)),
    case("MatMul", floats(2, 1, 3, 4), floats(5, 4, 2)),
    case("MatMul", floats(5, 3, 4), floats(1, 4, 2)),
    case("Gemm", floats(4, 3), floats(5, 4), floats(5), transA=1, transB=1, alpha=0.5, beta=2.0),
    case("Gemm", floats(3, 4), floats(4, 5)),
    case("Einsum", floats(3, 4), floats(4, 5), equation="ij,jk"),
    case("Einsum", floats(3, 3), equation="ii->i"),
    case("Einsum", floats(2, 3, 4), floats(2, 4, 5), equation="...ij,...jk->...ik"),
    case("Einsum", floats(3, 4), floats(4, 5), floats(5, 2), equation="ab,bc,cd->da"),
    case("MatMulInteger", rng().integers(0, 255, (3, 4), np.uint8), rng(1).integers(0, 255, (4, 2), np.uint8),
         np.array(7, np.uint8), np.array(3, np.uint8)),
    # convolution and pooling
    case("Conv", IMAGE, floats(4, 2, 3, 3), floats(4), known=(1, 2), pads=[1, 0, 1, 2], strides=[2, 1]),
    case("Conv", IMAGE, floats(4, 1, 3, 2), known=(1,), group=2, dilations=[2, 1]),
    case("Conv", IMAGE, floats(4, 2, 3, 3), known=(1,), auto_pad="SAME_UPPER", strides=[2, 2]),
    case("Conv", IMAGE, floats(4, 2, 2, 3), known=(1,), auto_pad="SAME_LOWER", strides=[1, 2]),
    case("Conv", floats(1, 2, 9), floats(3, 2, 3), known=(1,), auto_pad="VALID"),
    case("Conv", floats(1, 2, 4, 5, 6), floats(3, 2, 2, 2, 2), known=(1,)),
    case("ConvTranspose", IMAGE, floats(2, 3, 3, 3), known=(1,), strides=[2, 3], pads=[1, 0, 1, 2]),
    case("ConvTranspose", IMAGE, floats(2, 3, 3, 2), known=(1,), strides=[2, 2], output_padding=[1, 1],
         dilations=[1, 2]),
    case("ConvTranspose", floats(1, 4, 5), floats(4, 2, 3), known=(1,), group=2, strides=[2]),
    case("MaxPool", IMAGE, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]),
    case("AveragePool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    case("AveragePool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1),
    case("AveragePool", IMAGE, kernel_shape=[2, 2], auto_pad="SAME_UPPER"),
    case("MaxPool", IMAGE, kernel_shape=[2, 3], strides=[3, 3], pads=[0, 1, 0, 1], ceil_mode=1),
    case("AveragePool", IMAGE, kernel_shape=[2, 3], strides=[3, 3], pads=[0, 1, 0, 1], ceil_mode=1),
    case("AveragePool", IMAGE, kernel_shape=[2, 3], strides=[3, 3], pads=[0, 1, 0, 1], ceil_mode=1,
         count_include_pad=1),
    case("AveragePool", IMAGE, kernel_shape=[2, 2], strides=[3, 4], ceil_mode=1),
    case("GlobalAveragePool", IMAGE),
    case("GlobalMaxPool", IMAGE),
    case("LpPool", IMAGE, kernel_shape=[2, 2], p=3),
    case("LRN", IMAGE, size=3),
    # normalisation
    case("BatchNormalization", X, abs(floats(3)), floats(3), floats(3, seed=1),
         abs(floats(3, seed=2)) + 1, known=(1, 2, 3, 4)),
    case("LayerNormalization", X, floats(4, 5), floats(4, 5), axis=2),
    case("LayerNormalization", X, floats(5), outputs=3),
    case("RMSNormalization", X, floats(5)),
    case("InstanceNormalization", X, floats(3), floats(3)),
    case("GroupNormalization", floats(2, 4, 3, 3), floats(4), floats(4), num_groups=2),
    case("LpNormalization", X, axis=1, p=1),
    case("MeanVarianceNormalization", X),
    # movement
    case("Transpose", X),
    case("Transpose", X, perm=[2, 0, 3, 1]),
    case("Flatten", X, axis=2),
    case("Flatten", X, axis=-1),
    case("Reshape", X, ints(0, -1, 5), known=(1,)),
    case("Reshape", X, ints(-1), known=(1,)),
    case("Squeeze", floats(1, 3, 1, 2), ints(0, -2), known=(1,)),
    case("Unsqueeze", floats(3, 4), ints(0, -1), known=(1,)),
    case("Concat", floats(2, 3), floats(2, 4), axis=-1),
    case("Split", X, ints(1, 3), known=(1,), axis=2, outputs=2),
    case("Split", X, axis=3, num_outputs=2, outputs=2),
    case("Slice", X, ints(1, 0), ints(99, -1), ints(2, -1), known=(1, 2, 3)),
    case("Slice", X, ints(-1, 3), ints(-99, 0), ints(3, 2), ints(-2, -1), known=(1, 2, 3, 4)),
    case("Slice", X, ints(-3), ints(2**63 - 1), ints(3), ints(2), known=(1, 2, 3, 4)),
    case("Pad", X, ints(0, 1, 0, 2, 1, 0, 0, 1), np.array(2.5, np.float32), known=(1, 2)),
    case("Pad", X, ints(1, 2), None, ints(3), known=(1, 3), mode="reflect"),
    case("Pad", X, ints(1, 2), None, ints(-1), known=(1, 3), mode="edge"),
    case("Pad", X, ints(1, 2), None, ints(3), known=(1, 3), mode="wrap"),
    case("Pad", X, ints(0, 0, -1, 0, 0, 0, 1, -2), known=(1,)),
    case("CenterCropPad", IMAGE, ints(4, 5), known=(1,), axes=[-2, -1]),
    case("CenterCropPad", IMAGE, ints(12, 15), known=(1,), axes=[3, 2]),
    case("CenterCropPad", IMAGE, ints(2, 1, 6, 9), known=(1,)),
    case("Expand", floats(3, 1), ints(2, 1, 4), known=(1,)),
    case("Tile", floats(2, 3), ints(2, 3), known=(1,)),
    case("DepthToSpace", floats(1, 8, 2, 3), blocksize=2),
    case("DepthToSpace", floats(1, 8, 2, 3), blocksize=2, mode="CRD"),
    case("SpaceToDepth", floats(1, 2, 4, 6), blocksize=2),
    # indexing
    case("Gather", X, np.array([[0, -1], [2, 1]], I64), axis=1),
    case("Gather", X, np.array(-2, I64), known=(1,), axis=2),
    case("GatherElements", floats(3, 4), rng().integers(-3, 3, (2, 4)), axis=0),
    case("GatherND", X, rng().integers(0, 2, (3, 2))),
    case("GatherND", X, rng().integers(0, 3, (2, 1)), batch_dims=1),
    case("ScatterElements", floats(3, 4), rng().integers(0, 3, (2, 4)), floats(2, 4), axis=0, reduction="add"),
    case("ScatterND", floats(4, 3), ints(2, 0).reshape(2, 1), floats(2, 3)),
    case("ReverseSequence", floats(4, 3, 2), ints(1, 4, 2)),
    # sources
    case("Trilu", X, np.array(1, I64), known=(1,)),
    case("Trilu", X, upper=0),
    case("EyeLike", floats(3, 4), k=1),
    case("OneHot", ints(0, -1, 7), np.array(4, I64), floats(2), known=(1,), axis=0),
    # resampling
    case("Resize", IMAGE, None, np.array([1, 1, 2, 2], np.float32), known=(2,)),
    case("Resize", IMAGE, None, np.array([1, 1, 0.6, 1.7], np.float32), known=(2,), mode="linear"),
    case("Resize", IMAGE, None, None, ints(1, 2, 5, 11), known=(3,), mode="cubic"),
    case("Resize", IMAGE, None, None, ints(5, 11), known=(3,), axes=[2, 3], mode="linear",
         coordinate_transformation_mode="align_corners"),
    case("Resize", IMAGE, None, np.array([1, 1, 2.5, 0.5], np.float32), known=(2,), nearest_mode="floor",
         coordinate_transformation_mode="asymmetric"),
    case("Resize", IMAGE, None, np.array([1, 1, 2, 1], np.float32), known=(2,), nearest_mode="ceil",
         coordinate_transformation_mode="pytorch_half_pixel"),
    case("Resize", IMAGE, None, np.array([1, 1, 0.6, 1.7], np.float32), known=(2,), mode="cubic", exclude_outside=1),
    case("Resize", floats(1, 2, 3, 3), None, np.array([1, 1, 2, 0.6], np.float32), known=(2,), mode="linear",
         coordinate_transformation_mode="pytorch_half_pixel"),
    case("Resize", IMAGE, None, None, ints(1, 2, 5, 11), known=(3,), mode="cubic", exclude_outside=1,
         coordinate_transformation_mode="asymmetric"),
    case("GridSample", IMAGE, floats(1, 4, 3, 2) * 2, mode="cubic", padding_mode="border"),
    case("GridSample", IMAGE, floats(1, 4, 3, 2), mode="cubic", padding_mode="border", align_corners=1),
    case("AffineGrid", floats(1, 2, 3), ints(1, 2, 3, 4), known=(1,)),
    case("AffineGrid", floats(1, 2, 3), ints(1, 2, 3, 4), known=(1,), align_corners=1),
    case("AffineGrid", floats(2, 3, 4), ints(2, 3, 2, 4, 5), known=(1,), align_corners=1),
    case("GridSample", IMAGE, floats(1, 4, 3, 2) * 2, mode="linear", padding_mode="border"),
    # recurrence
    case("LSTM", floats(4, 2, 3), floats(1, 20, 3), floats(1, 20, 5), floats(1, 40), hidden_size=5, outputs=3),
    case("GRU", floats(4, 2, 3), floats(1, 15, 3), floats(1, 15, 5), floats(1, 30), hidden_size=5, outputs=2),
    case("GRU", floats(4, 2, 3), floats(1, 15, 3), floats(1, 15, 5), floats(1, 30), hidden_size=5, outputs=2,
         linear_before_reset=1),
    case("RNN", floats(4, 2, 3), floats(1, 5, 3), floats(1, 5, 5), floats(1, 10), hidden_size=5, outputs=2),
    # quantisation
    case("QuantizeLinear", X, np.array(0.02, np.float32), np.array(100, np.uint8)),
    case("QuantizeLinear", X, abs(floats(3)) + 0.01, np.zeros(3, np.int8), axis=1),
    case("DequantizeLinear", rng().integers(0, 255, (3, 4), np.uint8), np.array(0.1, np.float32),
         np.array(9, np.uint8)),
    case("DynamicQuantizeLinear", X, outputs=3),
]  # fmt: skip


def _id(c: Case) -> str:
    return f"{c[0]}-{'-'.join(f'{k}={v}' for k, v in c[3].items())}"


# onnx's reference is wrong or fails on these forms; ONNX Runtime knows opsets up to 22 for certain
BY_ONNXRUNTIME = {"LRN": {}, "LpNormalization": {}, "ConvTranspose": {"group": 2}, "Pad": {"mode": None}}
BY_ONNXRUNTIME |= {"GridSample": {"mode": "cubic"}, "Resize": {"coordinate_transformation_mode": "pytorch_half_pixel"}}
RUNTIME_OPSET = 22

# their shapes need numbers: broadcasting against unknown dims, hidden sizes, the depth of an index
STATIC_ONLY = {"Add", "Max", "Mean", "Where", "PRelu", "Expand", "Squeeze", "LSTM", "GRU", "RNN"}
STATIC_ONLY |= {"GroupNormalization", "Einsum", "GatherND", "ScatterND", "MatMul", "ScatterElements"}


def _check(c: Case, *, symbolic: bool) -> None:
    op, arrays, known, attributes, outputs = c
    special = BY_ONNXRUNTIME.get(op)
    by_runtime = special is not None and all(attributes.get(k) == v for k, v in special.items())
    opset = RUNTIME_OPSET if by_runtime else OPSET
    model, fed = one_op(op, arrays, known=known, outputs=outputs, symbolic=symbolic, opset=opset, **attributes)
    want = onnxruntime_reference(model, fed) if by_runtime else None
    check(model, fed, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("c", CASES, ids=_id)
def test_static(c: Case) -> None:
    _check(c, symbolic=False)


@pytest.mark.parametrize("c", [c for c in CASES if c[0] not in STATIC_ONLY], ids=_id)
def test_symbolic(c: Case) -> None:
    """The same with every dim unknown: sizes must come out of the dims' arithmetic."""
    _check(c, symbolic=True)
