"""A node of each operator that the ONNX path registers, with what to feed it: ONNX's node tests, and others by hand.

Owns which operators there are, and why some have no sample. Draws no dims (`fitting.py` does).
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

from graphfuse.frontends.onnx.cut import CONTROL
from graphfuse.frontends.onnx.functions import is_supported
from graphfuse.frontends.onnx.node import HANDLERS, MICROSOFT
from graphfuse.frontends.onnx.python_ops import PYTHON_OPS
from tests.frontends.microsoft.cases import GAMMA, X
from tests.frontends.microsoft.paged_cases import PAGED
from tests.frontends.microsoft.support import F32, I64, U8, case, f32, integers, u8, unsigned
from tests.frontends.microsoft.test_by_runtime import EVERY
from tests.frontends.microsoft.test_group_query import SLID
from tests.frontends.support import Array, floats, one_op
from tests.onnx.test_ml import ML, ensemble, forest, whole_numbers
from tests.onnx.test_ml import model_of as ml_model

Feed = dict[str, Array]

BY_VALUE = frozenset({"Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND", "Scatter", "OneHot"})
"""Operators whose small integers are data; those of others decide shapes, and are constants here."""
LONG = frozenset({"averagepool", "lppool", "maxpool"})
"""Modules of ONNX's node tests that take seconds to import."""

TEXTS, SEQUENCES, RANDOM = "takes texts", "takes a sequence or an optional", "its numbers are random"
NOTHING, KNOWN = "takes no tensor", "its inputs are numbers of which the shape of its result is made"
NO_SAMPLE = {
    **dict.fromkeys(("Bernoulli", "Multinomial", "RandomNormalLike", "RandomUniformLike"), RANDOM),
    **dict.fromkeys(("RandomNormal", "RandomUniform", "Constant"), NOTHING),
    **dict.fromkeys(("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch"), TEXTS),
    **dict.fromkeys(("SequenceEmpty", "SequenceMap", "Optional"), SEQUENCES),
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix"), KNOWN),
    **dict.fromkeys(("Range", f"{MICROSOFT}.Range", f"{MICROSOFT}.RelativePositionBias"), KNOWN),
    **{f"{ML}.{op}": "takes a map" for op in ("CastMap", "DictVectorizer")},
}
"""Operators that have none, and why."""


@dataclass(frozen=True)
class Sample:
    """A model that has a node of `op` (its domain before it where it is not ONNX's), with static dims, and inputs."""

    name: str
    op: str
    model: ModelProto
    feed: Feed


def label(op: str, domain: str) -> str:
    """How an operator is called here."""
    return op if domain in ("", "ai.onnx") else f"{domain}.{op}"


def registered() -> set[str]:
    """Every operator that is imported, executed by Python, or defined by what is imported."""
    own = {*HANDLERS, *PYTHON_OPS, *(("", op) for op in CONTROL)}
    for s in onnx.defs.get_all_schemas():
        if not s.deprecated and s.domain != "ai.onnx.preview" and (s.has_function or s.has_context_dependent_function):
            opset = onnx.defs.onnx_opset_version() if not s.domain else s.since_version
            if is_supported(helper.make_node(s.name, [], [], domain=s.domain), opset):
                own.add((s.domain, s.name))
    return {label(op, domain) for domain, op in own}


def samples(*, long: bool = True) -> list[Sample]:
    """All of them; without those that take seconds to make unless `long`."""
    made = [*of_onnx(node_cases(long=long)), *of_microsoft(), *of_ml(), *by_hand()]
    return [s for s in made if s.op not in NO_SAMPLE and any(a.ndim for a in s.feed.values())]


def node_cases(*, long: bool = True) -> list[Any]:
    """ONNX's node tests of one node each."""
    package = "onnx.backend.test.case.node"
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        module = importlib.import_module(package)
        for found in pkgutil.walk_packages(module.__path__, f"{package}."):
            if long or found.name.rpartition(".")[2] not in LONG:
                importlib.import_module(found.name)
    of_long = tuple(f"test_{m}" for m in LONG)
    left_out = ("test_training_dropout", *(() if long else of_long))
    tests = [c for c in module._NodeTestCases if not c.name.startswith(left_out) and not c.name.endswith("_expanded")]
    tests.sort(key=lambda c: c.name.startswith(of_long))  # else the order is that of importing
    return [c for c in tests if len(c.model.graph.node) == 1 and c.data_sets]


def of_onnx(cases: list[Any]) -> Iterator[Sample]:
    """Those of ONNX's tests whose inputs are tensors of numbers."""
    for c in cases:
        with contextlib.suppress(ValueError):
            yield of_test(c)


def of_test(case: Any) -> Sample:
    """An ONNX test; the numbers that decide shapes are constants. ValueError if inputs are no tensors of numbers."""
    model, (inputs, _) = ModelProto(), next(iter(case.data_sets))
    model.CopyFrom(case.model)
    (node,) = case.model.graph.node
    feed: Feed = {}
    for i, (info, value) in enumerate(zip(list(model.graph.input), inputs, strict=False)):
        array = numpy_helper.to_array(value) if isinstance(value, TensorProto) else value
        if not isinstance(array, np.ndarray | np.generic) or array.dtype.kind not in "fiub":
            raise ValueError(f"{case.name}: {info.name} is no tensor of numbers")
        array = np.asarray(array)
        few = array.ndim <= 1 and array.size <= 16
        decides = few and i > 0 and array.dtype.kind in "iu" and node.op_type not in BY_VALUE
        if decides or (i > 0 and node.op_type in ("Resize", "Upsample")):
            model.graph.initializer.append(numpy_helper.from_array(array, info.name))
            model.graph.input.remove(info)
        else:
            feed[info.name] = array
    for out in model.graph.output:
        if out.type.HasField("tensor_type"):
            out.type.tensor_type.ClearField("shape")
    return Sample(case.name, label(node.op_type, node.domain), model, feed)


def of_microsoft() -> Iterator[Sample]:
    """ONNX Runtime's own operators: what its kernels execute, and what other providers' do."""
    image, bias = floats(2, 5, 3, 8), floats(8, seed=3)
    affine = (floats(8, seed=1), floats(8, seed=2))
    layer_norm, rms_norm = (case(op, X, GAMMA) for op in ("LayerNormalization", "SimplifiedLayerNormalization"))
    more = [
        layer_norm,
        rms_norm,
        case("BiasAdd", X, bias, floats(2, 3, 8, seed=4)),
        case("BiasSplitGelu", X, bias),
        case("BiasDropout", X, bias, floats(2, 3, 8, seed=4), f32(0.3), known=(3,), outputs=2),
        case("BiasSoftmax", floats(2, 3, 4, 5), floats(2, 1, 1, 5, seed=1), axis=3, is_inner_broadcast=1),
        case("BiasSoftmax", floats(2, 3, 4, 5), floats(3, 4, 5, seed=1), axis=3, is_inner_broadcast=0),
        case("GatedAdd", X, floats(2, 3, 8, seed=1), floats(2, 3, 8, seed=2)),
        case("NhwcConv", floats(2, 7, 6, 4), floats(6, 4, 3, 3, seed=1), floats(6), pads=[1, 0, 1, 2]),
        case("NhwcFusedConv", floats(2, 7, 6, 4), floats(6, 4, 3, 3, seed=1), floats(6), floats(2, 5, 4, 6),
             activation="Relu"),
        case("QLinearReduceMean", unsigned(2, 3, 4), f32(0.1), u8(9), f32(0.05), u8(100), axes=[0, -1], keepdims=1,
             error=1),
        case("FusedMatMulActivation", floats(2, 3, 4), floats(4, 5, seed=1), alpha=0.5, activation="Relu"),
        case("GemmFastGelu", floats(4, 8), floats(8, 5, seed=5), floats(5)),
        case("ComplexMul", floats(2, 1, 4, 2), floats(3, 4, 2, seed=1)),
        case("ComplexMulConj", floats(2, 1, 4, 2), floats(3, 4, 2, seed=1)),
        case("GroupNorm", image, *affine, groups=4, activation=1),
        case("SkipGroupNorm", image, *affine, floats(2, 8, seed=4), bias, groups=2, activation=0, outputs=2),
        case("GatedRelativePositionBias", floats(2, 5, 12), floats(12), floats(1, 3, 5, 5), floats(4, 8), floats(8),
             floats(1, 3, 1, 1), num_heads=3),
        case("Rfft", floats(2, 3, 8), signal_ndim=1),
        case("Irfft", floats(2, 3, 5, 2), signal_ndim=1),
        case("MatMulNBits", floats(2, 3, 32), integers(0, 256, 4, 2, 8, dtype=U8), np.abs(floats(8)), known=(1, 2),
             K=32, N=4, bits=4, block_size=16),
        case("Unique", np.array([2, 1, 1, 3, 4, 3], F32), outputs=3),
    ]  # fmt: skip
    for i, c in enumerate([*EVERY, *more, *PAGED.values(), *SLID.values()]):
        model, feed = c.model()
        yield Sample(f"{c.op}_{i}", label(c.op, c.domain), model, feed)


def of_ml() -> Iterator[Sample]:
    """Classical models."""
    x = floats(5, 4)
    linear = {"coefficients": floats(12).tolist(), "intercepts": [0.1, 0.2, 0.3]}
    machine = {"kernel_type": "RBF", "kernel_params": [0.3, 0.0, 0.0], "support_vectors": floats(20).tolist()}
    trees = whole_numbers(1)[:5]
    made: list[tuple[str, tuple[Array, ...], int, int, dict[str, Any]]] = [
        ("Scaler", (x,), 1, 3, {"offset": [0.5, 1, 2, 3], "scale": [2.0, 3, 4, 5]}),
        ("Scaler", (x,), 1, 3, {"offset": [0.5], "scale": [2.0]}),
        ("Imputer", (x,), 1, 3, {"imputed_value_floats": [1.0, 2.0, 3.0, 4.0], "replaced_value_float": 0.5}),
        ("Normalizer", (x,), 1, 3, {"norm": "L2"}),
        ("FeatureVectorizer", (x, floats(5, 2)), 1, 3, {"inputdimensions": [4, 2]}),
        ("LinearRegressor", (x,), 1, 3, {"targets": 3, **linear}),
        ("LinearClassifier", (x,), 2, 3, {"classlabels_ints": [1, 5, 7], **linear}),
        ("SVMRegressor", (x,), 1, 3, {"rho": [0.4], "coefficients": floats(5).tolist(), "n_supports": 5, **machine}),
        ("SVMClassifier", (x,), 2, 3, {"rho": [0.4], "coefficients": floats(5).tolist(), "vectors_per_class": [2, 3],
                                       "classlabels_ints": [3, 4], **machine}),
        ("OneHotEncoder", (np.array([[3, 1], [7, 9]]),), 1, 3, {"cats_int64s": [1, 3, 7], "zeros": 1}),
        ("LabelEncoder", (x.round(),), 1, 2, {"keys_floats": [1.0, 2.0], "values_floats": [5.0, 6.0]}),
        ("ZipMap", (x[:, :2],), 1, 1, {"classlabels_int64s": [5, 2]}),
        ("CategoryMapper", (np.array([[6], [9]]),), 1, 1, {"cats_strings": ["a", "b"], "cats_int64s": [5, 6]}),
        ("TreeEnsembleRegressor", (trees,), 1, 3, {"n_targets": 2, **forest(1, "target", 2, trees=2)}),
        ("TreeEnsembleClassifier", (trees,), 2, 3,
         {"classlabels_int64s": [1, 2, 3], **forest(9, "class", 3, trees=2)}),
        ("TreeEnsemble", (trees,), 1, 5, ensemble(1, 2, np.float32, sets=True)),
    ]  # fmt: skip
    for i, (op, arrays, outputs, version, attributes) in enumerate(made):
        model = ml_model(op, arrays, outputs, version, attributes)
        yield Sample(f"{op}_{i}", label(op, ML), model, {f"x{k}": a for k, a in enumerate(arrays)})


def by_hand() -> Iterator[Sample]:
    """What ONNX has no test of, or none of one node and tensors."""
    image = floats(2, 3, 7, 6)
    window = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
    rois = np.array([[0, 0, 0, 4, 4], [1, 1, 2, 5, 3]], F32)
    one: list[tuple[str, tuple[Array, ...], dict[str, Any]]] = [
        ("AveragePool", (image,), window),
        ("AveragePool", (image,), window | {"ceil_mode": 1, "count_include_pad": 1}),
        ("MaxPool", (image,), window | {"dilations": [2, 1]}),
        ("LpPool", (image,), window),
        ("GlobalLpPool", (image,), {"p": 3}),
        ("MaxRoiPool", (image, rois), {"pooled_shape": [2, 2]}),
        ("OneHot", (integers(0, 5, 2, 3, dtype=I64), np.array(5), np.array([0.0, 1.0], F32)), {"axis": 1}),
    ]
    for i, (op, arrays, attributes) in enumerate(one):
        known = (1,) if op == "OneHot" else ()
        yield Sample(f"{op}_{i}", op, *one_op(op, arrays, known=known, opset=21, **attributes))
    yield from sequences()
    yield branches()


def branches() -> Sample:
    """A condition that data decides, and branches that read what is outside of them."""
    bodies = {
        f"{which}_branch": helper.make_graph(
            [helper.make_node(op, ["x", "y"], [which])], which, [],
            [helper.make_tensor_value_info(which, TensorProto.FLOAT, None)],
        )
        for which, op in (("then", "Add"), ("else", "MatMul"))
    }  # fmt: skip
    f32s = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 4]) for n in ("x", "y")]
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    graph = helper.make_graph(
        [helper.make_node("If", ["c"], ["z"], **bodies)], "g", [condition, *f32s], [onnx.ValueInfoProto(name="z")]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return Sample("If_of_two", "If", model, {"c": np.ones((), bool), "x": floats(4, 4), "y": floats(4, 4, seed=1)})


def sequences() -> Iterator[Sample]:
    """Tensors that a sequence holds in between."""
    x = floats(4, 6)
    at, made = "i", helper.make_node("SequenceConstruct", ["x", "y"], ["s"])
    ends = {
        "SequenceConstruct": [helper.make_node("ConcatFromSequence", ["s"], ["z"], axis=0)],
        "ConcatFromSequence": [helper.make_node("ConcatFromSequence", ["s"], ["z"], axis=1, new_axis=1)],
        "SequenceAt": [helper.make_node("SequenceAt", ["s", at], ["z"])],
        "SequenceLength": [helper.make_node("SequenceLength", ["s"], ["z"])],
        "SequenceErase": [
            helper.make_node("SequenceErase", ["s", at], ["t"]),
            helper.make_node("ConcatFromSequence", ["t"], ["z"], axis=0),
        ],
        "SequenceInsert": [
            helper.make_node("SequenceInsert", ["s", "y", at], ["t"]),
            helper.make_node("ConcatFromSequence", ["t"], ["z"], axis=1),
        ],
    }
    f32s = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 6]) for n in ("x", "y")]
    for op, nodes in ends.items():
        graph = helper.make_graph([made, *nodes], "g", f32s, [onnx.ValueInfoProto(name="z")])
        graph.initializer.append(numpy_helper.from_array(np.array(1), at))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        yield Sample(f"{op}_of_two", op, model, {"x": x, "y": x + 1})
