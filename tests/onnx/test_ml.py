"""`ai.onnx.ml` against onnxruntime on random models, and against what the specification says where that differs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphfuse
from graphfuse.errors import InputError, VerifyError
from graphfuse.host.model import OnnxModel

ML = "ai.onnx.ml"


def model_of(op, inputs, outputs, version, attributes):
    names = [f"x{i}" for i in range(len(inputs))]
    node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], domain=ML, name="/it", **attributes)
    infos = [_info(n, v) for n, v in zip(names, inputs, strict=True)]
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=o) for o in node.output])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(ML, version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def _info(name, value):
    if isinstance(value, dict):
        key, item = next(iter(value.items()))
        kinds = {str: TensorProto.STRING, int: TensorProto.INT64, float: TensorProto.FLOAT}
        inner = helper.make_tensor_type_proto(kinds[type(item)], [])
        return helper.make_value_info(name, helper.make_map_type_proto(kinds[type(key)], inner))
    elem = TensorProto.STRING if value.dtype.kind in "OU" else helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_value_info(name, elem, value.shape)


def run(op, *inputs, outputs=1, version=3, **attributes):
    model = OnnxModel(model_of(op, inputs, outputs, version, attributes))
    found = list(model({f"x{i}": v for i, v in enumerate(inputs)}).values())
    return found[0] if outputs == 1 else found


def compare(op, *inputs, outputs=1, version=3, rtol=1e-5, atol=1e-6, **attributes):
    """Ours and onnxruntime's: the same shapes, dtypes and, but for rounding, numbers."""
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.log_severity_level = 4
    data = model_of(op, inputs, outputs, version, attributes).SerializeToString()
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    want = session.run(None, {f"x{i}": v for i, v in enumerate(inputs)})
    got = run(op, *inputs, outputs=outputs, version=version, **attributes)
    for g, w in zip([got] if outputs == 1 else got, want, strict=True):
        w = np.asarray(w)
        assert g.shape == w.shape
        if w.dtype.kind in "OU":
            assert g.tolist() == w.tolist()
        else:
            assert g.dtype == w.dtype
            np.testing.assert_allclose(g, w, rtol=rtol, atol=atol)


def rng(*seed):
    return np.random.default_rng([7, *seed])


def labels_of(count, *, ints, name="classlabels_ints"):
    return (
        {name: [3 * i + 1 for i in range(count)]} if ints else {"classlabels_strings": [f"c{i}" for i in range(count)]}
    )


# linear models

TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")


@pytest.mark.some(8)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(("ints", "targets"), [(True, 1), (False, 1), (True, 2), (False, 5)])
def test_linear_classifier(transform, ints, targets):
    r = rng(targets)
    attributes = {
        "coefficients": r.standard_normal(4 * targets), "intercepts": r.standard_normal(targets),
        "post_transform": transform, **labels_of(max(targets, 2), ints=ints),
    }  # fmt: skip
    dtype = {1: np.float32, 2: np.float64, 5: np.int64}[targets]
    compare("LinearClassifier", (r.standard_normal((9, 4)) * 3).astype(dtype), outputs=2, **attributes)


@pytest.mark.parametrize("is_open", [False, True])
def test_linear_classifier_without_intercepts(is_open):
    """As many scores as there are coefficients for each feature, of which perhaps only a run knows how many."""
    x, weights = rng().standard_normal((5, 4)).astype(np.float32), rng(1).standard_normal((3, 4))
    attributes = {"coefficients": weights.reshape(-1), "classlabels_strings": ["a", "b", "c"]}
    model = model_of("LinearClassifier", (x,), 2, 3, attributes)
    if is_open:
        model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "n"
    labels, scores = graphfuse.compile(model)({"x0": x}).values()
    np.testing.assert_allclose(scores, x @ weights.T, rtol=1e-5, atol=1e-5)
    assert labels.tolist() == ["abc"[i] for i in scores.argmax(1)]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_linear_regressor(transform):
    r = rng()
    compare(
        "LinearRegressor", r.standard_normal((5, 4)).astype(np.float32), targets=3, post_transform=transform,
        coefficients=r.standard_normal(12), intercepts=r.standard_normal(3),
    )  # fmt: skip


def test_a_single_target_is_transformed_too():
    """As the specification says; onnxruntime leaves it as it is."""
    x = np.array([[0.0], [2.0]], np.float32)
    y = run("LinearRegressor", x, coefficients=[1.0], post_transform="LOGISTIC")
    np.testing.assert_allclose(y, 1 / (1 + np.exp(-x)), rtol=1e-6)
    y = run("LinearRegressor", np.array([[0.5], [0.975], [2]], np.float32), coefficients=[1.0], post_transform="PROBIT")
    np.testing.assert_allclose(y[:, 0], [0, 1.959964, np.nan], rtol=1e-6)


# support vector machines

KERNELS = (("LINEAR", []), ("RBF", [0.3, 0.0, 0.0]), ("POLY", [0.5, 1.5, 3.0]), ("SIGMOID", [0.2, 0.1, 0.0]))


@pytest.mark.parametrize(("kernel", "params"), KERNELS)
def test_svm_regressor(kernel, params):
    r, x = rng(), rng(1).standard_normal((6, 3)).astype(np.float32)
    machine = {"kernel_type": kernel, "kernel_params": params or [0.0, 0.0, 0.0], "rho": [0.4]}
    vectors = {"support_vectors": r.standard_normal(15), "coefficients": r.standard_normal(5), "n_supports": 5}
    compare("SVMRegressor", x, **machine, **vectors)
    compare("SVMRegressor", x, **machine, **vectors, one_class=1)
    compare("SVMRegressor", x, **machine, coefficients=r.standard_normal(3))


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("classes", "probabilities", "kernel", "params"),
    [pytest.param(*of, *kernel, marks=() if kernel in KERNELS[:1] or of == (4, True) else pytest.mark.full)
     for of in ((2, False), (4, False), (2, True), (4, True)) for kernel in KERNELS],
)  # fmt: skip
def test_svm_classifier(classes, probabilities, kernel, params):
    r = rng(classes)
    counts = [3, 2, 4, 1][:classes]
    pairs = classes * (classes - 1) // 2
    attributes = {
        "kernel_type": kernel, "kernel_params": params or [0.0, 0.0, 0.0], "vectors_per_class": counts,
        "support_vectors": r.standard_normal(sum(counts) * 3),
        "coefficients": r.standard_normal((classes - 1) * sum(counts)),
        "rho": r.standard_normal(pairs),
    }  # fmt: skip
    if probabilities:
        attributes |= {"prob_a": -1 - r.random(pairs), "prob_b": r.standard_normal(pairs) * 0.1}
    x = r.standard_normal((7, 3)).astype(np.float32)
    close = {"rtol": 1e-4, "atol": 1e-5}
    # probabilities of nearly 0 are 0 to ONNX Runtime's last transform
    for kind in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")[: 3 if probabilities else 4]:
        attributes |= {"post_transform": kind, **labels_of(classes, ints=classes == 2)}
        compare("SVMClassifier", x, outputs=2, **attributes, **close)


def test_svm_classifier_of_coefficients():
    r = rng()
    x = r.standard_normal((7, 3)).astype(np.float32)
    machine = {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0], "rho": [0.3]}
    compare("SVMClassifier", x, outputs=2, coefficients=r.standard_normal(9), **machine, **labels_of(3, ints=True))


def test_svm_classifier_is_scikit_learns():
    svm = pytest.importorskip("sklearn.svm")
    r = rng()
    x, y = r.standard_normal((60, 3)), r.integers(0, 3, 60)
    machine = svm.SVC(gamma=0.5, decision_function_shape="ovo").fit(x, y)
    attributes = {
        "kernel_type": "RBF", "kernel_params": [0.5, 0.0, 3.0], "vectors_per_class": machine.n_support_,
        "support_vectors": machine.support_vectors_.reshape(-1), "coefficients": machine.dual_coef_.reshape(-1),
        "rho": machine.intercept_, "classlabels_ints": [0, 1, 2],
    }  # fmt: skip
    labels, scores = run("SVMClassifier", x.astype(np.float32), outputs=2, **attributes)
    np.testing.assert_array_equal(labels, machine.predict(x.astype(np.float32)))
    np.testing.assert_allclose(scores, machine.decision_function(x), atol=1e-4)


# trees

COMPARISONS = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def forest(seed, what, targets, features=4, trees=5, modes=COMPARISONS, depth=4):
    """Random trees, some nodes of which ask for equality with numbers that the inputs have."""
    r = rng(seed)
    nodes = {k: [] for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")}
    leaves = {k: [] for k in ("treeids", "nodeids", "ids", "weights")}
    nan_is_true = []

    def grow(tree, level, number):
        is_leaf = level == depth or (level > 1 and r.random() < 0.2)
        at = number[0]
        number[0] += 1
        row = len(nodes["modes"])
        mode = "LEAF" if is_leaf else str(r.choice(modes))
        for key, value in (
            ("treeids", tree),
            ("nodeids", at),
            ("featureids", 0 if is_leaf else int(r.integers(features))),
        ):
            nodes[key].append(value)
        nodes["values"].append(0.0 if is_leaf else float(r.integers(-2, 3)))
        nodes["modes"].append(mode)
        nan_is_true.append(int(r.integers(2)))
        nodes["truenodeids"].append(0)
        nodes["falsenodeids"].append(0)
        if is_leaf:
            for target in range(targets) if tree == trees - 1 or r.random() < 0.5 else [int(r.integers(targets))]:
                for key, value in (
                    ("treeids", tree),
                    ("nodeids", at),
                    ("ids", target),
                    ("weights", float(r.standard_normal())),
                ):
                    leaves[key].append(value)
            return at
        nodes["truenodeids"][row] = grow(tree, level + 1, number)
        nodes["falsenodeids"][row] = grow(tree, level + 1, number)
        return at

    for tree in range(trees):
        grow(tree, 0, [0])
    return {
        **{f"nodes_{k}": v for k, v in nodes.items()}, "nodes_missing_value_tracks_true": nan_is_true,
        **{f"{what}_{k}": v for k, v in leaves.items()},
    }  # fmt: skip


def whole_numbers(seed, dtype=np.float32, missing=False):
    x = rng(seed).integers(-3, 4, (40, 4)).astype(dtype)
    if missing:
        x[rng(seed, 1).random(x.shape) < 0.2] = np.nan
    return x


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("aggregate", "targets", "modes", "base"),
    [
        ("SUM", 1, COMPARISONS, []),
        ("SUM", 3, COMPARISONS[:1], [0.5, -1.0, 2.0]),
        ("AVERAGE", 3, COMPARISONS[1:2], []),
        ("MIN", 3, COMPARISONS[2:], [0.5, -1.0, 2.0]),
        ("MAX", 1, COMPARISONS[3:4], [0.5]),
    ],
)
def test_tree_regressor(aggregate, targets, modes, base):
    attributes = forest(targets, "target", targets, modes=modes, trees=3)
    extra = {"base_values": base} if base else {}
    for x in (whole_numbers(1, missing=True), whole_numbers(2, np.float64)):
        compare("TreeEnsembleRegressor", x, aggregate_function=aggregate, n_targets=targets, **attributes, **extra)


@pytest.mark.parametrize("transform", TRANSFORMS[1:])
def test_tree_regressor_transforms(transform):
    attributes = forest(5, "target", 3, trees=2, depth=2)
    compare("TreeEnsembleRegressor", whole_numbers(0), n_targets=3, post_transform=transform, **attributes)


@pytest.mark.parametrize(("transform", "ints"), [("NONE", True), ("SOFTMAX", False), ("LOGISTIC", False)])
def test_tree_classifier(transform, ints):
    labels = labels_of(3, ints=ints, name="classlabels_int64s")
    attributes = forest(9, "class", 3, trees=2) | {"base_values": [0.1, 2, 0.3]}
    for x in (whole_numbers(1, missing=True), whole_numbers(3, np.int64)):
        compare("TreeEnsembleClassifier", x, outputs=2, post_transform=transform, **attributes, **labels)


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("transform", "positive", "ints"),
    [("NONE", True, True), ("NONE", False, False), ("LOGISTIC", False, True), ("SOFTMAX", True, False)],
)
def test_tree_classifier_of_one_score(transform, positive, ints):
    attributes = forest(11, "class", 1, trees=2, depth=2)
    weights = np.array(attributes["class_weights"])
    attributes |= {"class_weights": (np.abs(weights) / 5 if positive else weights).tolist()}
    for only, extra in ((0, {"base_values": [0.25]}), (1, {})):
        attributes["class_ids"] = [only] * len(weights)
        compare(
            "TreeEnsembleClassifier", whole_numbers(0), outputs=2, post_transform=transform, **attributes, **extra,
            **labels_of(2, ints=ints, name="classlabels_int64s"),
        )  # fmt: skip


def test_tree_classifier_of_two_scores():
    """The label is that of the higher score; onnxruntime takes the second class where its score is above 0."""
    attributes = forest(12, "class", 2) | {"classlabels_int64s": [4, 9]}
    labels, scores = run("TreeEnsembleClassifier", whole_numbers(0), outputs=2, **attributes)
    regressor = {k.replace("class_", "target_"): v for k, v in attributes.items() if k != "classlabels_int64s"}
    np.testing.assert_array_equal(scores, run("TreeEnsembleRegressor", whole_numbers(0), n_targets=2, **regressor))
    np.testing.assert_array_equal(labels, np.where(scores[:, 1] > scores[:, 0], 9, 4))


def ensemble(seed, targets, dtype, *, sets):
    """The same kind of trees in the newer form, with a leaf table and sets."""
    old = forest(seed, "target", targets, trees=2, depth=3)
    index = {k: i for i, k in enumerate(zip(old["nodes_treeids"], old["nodes_nodeids"], strict=True))}
    inner = [i for i, m in enumerate(old["nodes_modes"]) if m != "LEAF"]
    leaf_rows = list(zip(old["target_treeids"], old["target_nodeids"], strict=True))
    place = {row: i for i, row in enumerate(inner)}
    first_leaf = {}
    for i, key in enumerate(leaf_rows):
        first_leaf.setdefault(index[key], i)

    def side(name):
        at = [index[old["nodes_treeids"][i], old[name][i]] for i in inner]
        return [place.get(a, first_leaf.get(a, 0)) for a in at], [int(a not in place) for a in at]

    yes, yes_leaf = side("nodes_truenodeids")
    no, no_leaf = side("nodes_falsenodeids")
    modes = np.array([COMPARISONS.index(old["nodes_modes"][i]) for i in inner], np.uint8)
    modes[::4] = 6 if sets else modes[::4]
    members = [v for _ in range(int((modes == 6).sum())) for v in (-1.0, 2.0, 3.0, np.nan)]
    roots = [place[index[t, 0]] for t in sorted(set(old["nodes_treeids"]))]
    return {
        "n_targets": targets, "tree_roots": roots, "nodes_featureids": [old["nodes_featureids"][i] for i in inner],
        "nodes_modes": numpy_helper.from_array(modes),
        "nodes_splits": numpy_helper.from_array(np.array([old["nodes_values"][i] for i in inner], dtype)),
        "nodes_truenodeids": yes, "nodes_trueleafs": yes_leaf, "nodes_falsenodeids": no, "nodes_falseleafs": no_leaf,
        "nodes_missing_value_tracks_true": [old["nodes_missing_value_tracks_true"][i] for i in inner],
        "leaf_targetids": old["target_ids"],
        "leaf_weights": numpy_helper.from_array(np.array(old["target_weights"], dtype)),
        "membership_values": numpy_helper.from_array(np.array(members, dtype)),
    }  # fmt: skip


@pytest.mark.some(4)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("aggregate", "sets"), [(0, True), (1, False), (2, False), (3, True)])
def test_tree_ensemble(dtype, aggregate, sets):
    for targets, transform in ((1, 0), (3, 3)):  # onnxruntime takes 1 for 2, and 2 for 1
        attributes = ensemble(targets, targets, dtype, sets=sets)
        compare(
            "TreeEnsemble", whole_numbers(4, dtype, missing=True), version=5, aggregate_function=aggregate,
            post_transform=transform, **attributes,
        )  # fmt: skip


def test_a_path_that_is_too_long_to_unroll():
    depth = 70
    leaves = range(depth, 2 * depth + 1)
    attributes = {
        "nodes_treeids": [0] * (2 * depth + 1), "nodes_nodeids": range(2 * depth + 1),
        "nodes_featureids": [i % 4 for i in range(depth)] + [0] * (depth + 1),
        "nodes_values": [-3.0 + i / 20 for i in range(depth)] + [0.0] * (depth + 1),
        "nodes_modes": ["BRANCH_GTE"] * depth + ["LEAF"] * (depth + 1),
        "nodes_truenodeids": [*range(1, depth + 1), *[0] * (depth + 1)],
        "nodes_falsenodeids": [*range(depth + 1, 2 * depth + 1), *[0] * (depth + 1)],
        "target_treeids": [0] * (depth + 1), "target_nodeids": leaves, "target_ids": [0] * (depth + 1),
        "target_weights": [float(i) for i in leaves], "n_targets": 1,
    }  # fmt: skip
    compare("TreeEnsembleRegressor", np.vstack([whole_numbers(1), np.full((1, 4), 9, np.float32)]), **attributes)


def test_classifiers_in_a_branch():
    """What Python does behind them is in the branch, too."""
    x, machine = np.eye(2, dtype=np.float32), {
        "coefficients": [1.0, -1.0], "support_vectors": [0.0, 1.0, 1.0, 0.0], "vectors_per_class": [1, 1],
        "rho": [0.1], "prob_a": [-1.0], "prob_b": [0.1], "classlabels_strings": ["a", "b"],
    }  # fmt: skip
    model = model_of("SVMClassifier", (x, np.array([True])), 2, 3, machine)
    (node,) = model.graph.node
    del node.input[1]
    branch = helper.make_graph([node], "branch", [], model.graph.output)
    for o in model.graph.output:
        o.name += "_chosen"
    names = [o.name for o in model.graph.output]
    node.CopyFrom(helper.make_node("If", ["x1"], names, then_branch=branch, else_branch=branch))
    labels, scores = OnnxModel(model)({"x0": x, "x1": np.array([True])}).values()
    want = run("SVMClassifier", x, outputs=2, **machine)
    assert labels.tolist() == want[0].tolist()
    np.testing.assert_array_equal(scores, want[1])


def test_trees_of_an_input_whose_rank_only_a_run_knows():
    x, trees = whole_numbers(4, missing=True), ensemble(1, 1, np.float32, sets=True)
    model = model_of("TreeEnsemble", (x, np.array(0)), 1, 5, trees)
    model.graph.node[0].input[:] = ["x"]
    model.graph.node.insert(0, helper.make_node("SequenceAt", ["x0", "x1"], ["x"]))
    model.graph.input[0].CopyFrom(helper.make_tensor_sequence_value_info("x0", TensorProto.FLOAT, None))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y0", TensorProto.FLOAT, ["n", 1]))
    found = graphfuse.compile(model)({"x0": [x], "x1": np.array(0)})["y0"]
    np.testing.assert_array_equal(found, run("TreeEnsemble", x, version=5, **trees))


def test_trees_that_are_none():
    attributes = forest(1, "target", 1)
    lost = attributes | {"nodes_truenodeids": [99] * len(attributes["nodes_modes"])}
    with pytest.raises(VerifyError, match="TreeEnsembleRegressor: nodes_truenodeids: tree 0 has no node 99"):
        run("TreeEnsembleRegressor", whole_numbers(0), n_targets=1, **lost)
    circle = attributes | {"nodes_truenodeids": [0] * len(attributes["nodes_modes"])}
    with pytest.raises(VerifyError, match="TreeEnsembleRegressor: the nodes are not a tree"):
        run("TreeEnsembleRegressor", whole_numbers(0), n_targets=1, **circle)
    with pytest.raises(VerifyError, match="expected 0..1, found 3"):
        run("TreeEnsembleRegressor", whole_numbers(0)[:, :2], n_targets=1, **attributes)


# features and categories


def test_scaler_normalizer_imputer_binarizer():
    x = rng().standard_normal((5, 4)).astype(np.float32)
    for dtype in (np.float32, np.int64):
        y = (x * 4).astype(dtype)
        compare("Scaler", y, offset=[0.5], scale=[2.0])
        compare("Scaler", y, offset=[0.5, 1, 2, 3], scale=[2.0, 3, 4, 5])
        for norm in ("L1", "L2", "MAX"):
            compare("Normalizer", np.abs(y) if norm == "MAX" else y, norm=norm)
        compare("FeatureVectorizer", y, y[:, :2], inputdimensions=[4, 2])
        compare("FeatureVectorizer", y, y, inputdimensions=[3, 6])
    compare("Binarizer", x, threshold=0.1)
    x[1, 2] = x[3, 0] = np.nan
    compare("Imputer", x, imputed_value_floats=[1.0, 2.0, 3.0, 4.0], replaced_value_float=float("nan"))
    compare("Imputer", np.arange(6).reshape(2, 3), imputed_value_int64s=[9], replaced_value_int64=4)
    compare("ArrayFeatureExtractor", x, np.array([[3, 1, 1]]), version=1)


def texts(*values):
    return np.array(values, dtype=object)


def test_one_hot_encoder():
    for x in (np.array([[3, 1], [7, 9]]), np.array([3.0, 7.9, -0.5, -1.2], np.float32), np.array([2.3, 3.7])):
        compare("OneHotEncoder", x, cats_int64s=[1, 3, 0, 7, -1], zeros=1)
    compare("OneHotEncoder", texts("b", "x", "a"), cats_strings=["a", "b"], zeros=1)
    with pytest.raises(InputError, match="none of the categories"):
        run("OneHotEncoder", np.array([4]), cats_int64s=[1, 3], zeros=0)
    np.testing.assert_array_equal(run("OneHotEncoder", np.array([1.5]), cats_int64s=[1, 3], zeros=0), [[1, 0]])


def test_labels_and_categories():
    compare("CategoryMapper", texts("b", "x"), cats_strings=["a", "b"], cats_int64s=[5, 6], default_int64=-7, version=1)
    compare("CategoryMapper", np.array([[6], [9]]), cats_strings=["a", "b"], cats_int64s=[5, 6], version=1)
    compare("LabelEncoder", texts("b", "x"), classes_strings=["a", "b"], default_int64=4, version=1)
    compare("LabelEncoder", np.array([1, 0, 9]), classes_strings=["a", "b"], default_string="?", version=1)
    compare(
        "LabelEncoder", texts("b", "x"), keys_strings=["a", "b"], values_floats=[0.5, 1.5], default_float=3.0, version=2
    )
    compare(
        "LabelEncoder", np.array([np.nan, 2], np.float32), keys_floats=[np.nan, 1], values_strings=["a", "b"], version=4
    )


def test_maps():
    compare("DictVectorizer", {"a": 1.5, "c": 2.5}, string_vocabulary=["c", "b", "a"], version=1)
    compare("DictVectorizer", {4: 1.0, 2: 3.0}, int64_vocabulary=[2, 3, 4], version=1)
    compare("CastMap", {4: 1.5, 2: 2.5}, cast_to="TO_FLOAT", version=1)
    compare("CastMap", {4: 1.5, 2: 2.5}, cast_to="TO_INT64", map_form="SPARSE", max_map=6, version=1)
    assert run("CastMap", {4: "7", 2: "5"}, cast_to="TO_INT64", version=1).tolist() == [[5, 7]]
    assert run("CastMap", {1: 1.5, 0: 2.0}, cast_to="TO_STRING", version=1).tolist() == [["2", "1.5"]]
    with pytest.raises(InputError, match=r"expected keys in 0\.\.2, found 4"):
        run("CastMap", {4: 1.5}, map_form="SPARSE", max_map=3, version=1)


def test_zip_map():
    x = np.array([[0.25, 0.75], [1, 0]], np.float32)
    assert run("ZipMap", x, classlabels_strings=["a", "b"], version=1) == [{"a": 0.25, "b": 0.75}, {"a": 1.0, "b": 0.0}]
    assert run("ZipMap", x, classlabels_int64s=[5, 2], version=1)[0] == {5: 0.25, 2: 0.75}
    with pytest.raises(InputError, match="rows of 3 elements"):
        run("ZipMap", x, classlabels_int64s=[5, 2, 1], version=1)


@pytest.mark.parametrize(
    ("op", "outputs", "attributes"),
    [
        ("SVMRegressor", 1, {"kernel_type": "RBF", "kernel_params": [0.3, 0, 0], "rho": [0.4], "n_supports": 1,
                             "support_vectors": [1.0, 2, 3, 4], "coefficients": [1.0]}),
        ("TreeEnsembleRegressor", 1, forest(1, "target", 2, trees=2) | {"n_targets": 2}),
        ("TreeEnsembleClassifier", 2, forest(9, "class", 3, trees=2) | {"classlabels_int64s": [1, 2, 3]}),
        ("FeatureVectorizer", 1, {"inputdimensions": [4]}),
    ],
)  # fmt: skip
def test_features_when_it_runs(op, outputs, attributes):
    """Too few are an error, unless they are filled up."""
    x = whole_numbers(1)[:5]
    model = model_of(op, (x,), outputs, 3, attributes)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "n"
    found = graphfuse.compile(model)
    want = run(op, x, outputs=outputs, **attributes)
    np.testing.assert_allclose(found({"x0": x})["y0"], want[0] if outputs == 2 else want)
    few = {"x0": x[:, :1].copy()}
    if op == "FeatureVectorizer":
        np.testing.assert_array_equal(found(few)["y0"], np.pad(few["x0"], ((0, 0), (0, 3))))
        return
    with pytest.raises(InputError, match="features.*found 1"):
        found(few)
