"""What scikit-learn's, LightGBM's and XGBoost's converters write, beside ONNX Runtime; needs those packages."""

from __future__ import annotations

import importlib
import inspect
import warnings

import numpy as np
import pytest

import graphfuse

pytestmark = pytest.mark.full

ROWS = np.random.default_rng(0).standard_normal((60, 5)).astype(np.float32)
CLASSES = (ROWS[:, 0] + 0.3 * ROWS[:, 1] > 0).astype(int) + (ROWS[:, 2] > 0.5)
TARGET = ROWS @ np.arange(5, dtype=np.float32)

ESTIMATORS = {
    "cluster": "KMeans MiniBatchKMeans",
    "decomposition": "PCA TruncatedSVD IncrementalPCA",
    "discriminant_analysis": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
    "ensemble": "RandomForestClassifier ExtraTreesClassifier GradientBoostingClassifier AdaBoostClassifier "
    "BaggingClassifier RandomForestRegressor GradientBoostingRegressor",
    "gaussian_process": "GaussianProcessRegressor",
    "linear_model": "LogisticRegression SGDClassifier RidgeClassifier Ridge Lasso BayesianRidge",
    "mixture": "GaussianMixture BayesianGaussianMixture",
    "naive_bayes": "GaussianNB BernoulliNB",
    "neighbors": "KNeighborsClassifier KNeighborsRegressor",
    "neural_network": "MLPClassifier MLPRegressor",
    "preprocessing": "StandardScaler MinMaxScaler MaxAbsScaler RobustScaler Normalizer PolynomialFeatures Binarizer",
    "svm": "SVC NuSVC LinearSVC SVR",
    "tree": "DecisionTreeClassifier DecisionTreeRegressor",
}


def estimator(module, name):
    made = getattr(importlib.import_module(f"sklearn.{module}"), name)
    wanted = {"n_estimators": 6, "random_state": 0, "probability": True, "max_iter": 200, "n_clusters": 3}
    given = {k: v for k, v in wanted.items() if k in inspect.signature(made).parameters}
    return made(**given)


def same(found, wanted):
    if isinstance(wanted, list):  # of maps from classes to probabilities
        assert [list(f) for f in found] == [list(w) for w in wanted]
        found, wanted = ([list(m.values()) for m in maps] for maps in (found, wanted))
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", [f"{m}.{n}" for m, names in ESTIMATORS.items() for n in names.split()])
def test_scikit_learn(name):
    skl2onnx, ort = (pytest.importorskip(m) for m in ("skl2onnx", "onnxruntime"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = estimator(*name.split("."))
        model.fit(ROWS, CLASSES if hasattr(model, "predict_proba") or "lassif" in name or "SVC" in name else TARGET)
        exported = skl2onnx.to_onnx(model, ROWS[:1])
    outputs = [o.name for o in exported.graph.output]
    wanted = ort.InferenceSession(exported.SerializeToString()).run(outputs, {"X": ROWS})
    found = graphfuse.compile(exported)(X=ROWS)
    for o, w in zip(outputs, wanted, strict=True):
        same(found[o], w)


@pytest.mark.parametrize("name", ["lightgbm.LGBMClassifier", "lightgbm.LGBMRegressor", "xgboost.XGBClassifier"])
def test_boosted_trees(name):
    tools, ort = (pytest.importorskip(m) for m in ("onnxmltools", "onnxruntime"))
    module, _, kind = name.partition(".")
    quiet = {"verbose": -1, "min_child_samples": 3} if module == "lightgbm" else {}
    model = getattr(pytest.importorskip(module), kind)(n_estimators=5, **quiet)
    model.fit(ROWS, CLASSES if "lassif" in kind else TARGET)
    types = importlib.import_module("onnxmltools.convert.common.data_types")
    given = [("x", types.FloatTensorType([None, 5]))]
    exported = getattr(tools, f"convert_{module}")(model, initial_types=given, target_opset=15)
    wanted = ort.InferenceSession(exported.SerializeToString()).run(None, {"x": ROWS})
    found = graphfuse.compile(exported)(x=ROWS)
    for o, w in zip(exported.graph.output, wanted, strict=True):
        same(found[o.name], w)
