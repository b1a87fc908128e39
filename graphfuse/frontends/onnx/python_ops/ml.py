"""`ai.onnx.ml`: labels, categories, maps from keys to numbers or texts, which are dicts, and probabilities."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from graphfuse.frontends.host_values import Array
from graphfuse.frontends.onnx.limits import MOST_TABLE
from graphfuse.frontends.onnx.python_ops.call import Call, on_strings, python_op, strings, texts_of
from graphfuse.frontends.onnx.split_classifiers import OWN

ML = "ai.onnx.ml"
NAN = object()
"""The key that stands for NaN."""


@on_strings("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(c: Call) -> Any:
    """Elements of the last axis, by index."""
    x, at = c.array(0), c.array(1).reshape(-1)
    if ((at < 0) | (at >= x.shape[-1])).any():
        raise c.error(f"expected indices from 0 to {x.shape[-1] - 1}, found {at.tolist()}")
    return np.take(np.atleast_2d(x), at, -1)


@python_op("LabelEncoder", domain=ML)
def label_encoder(c: Call) -> Any:
    """The value of each key, or the default."""
    x = c.array(0)
    if "classes_strings" in c.attributes:
        texts = c.get("classes_strings")  # version 1
        return relabelled(c, range(len(texts)), texts)
    table, default, kind = c.once("table", _table)
    found = [table.get(_key(v), default) for v in x.reshape(-1).tolist()]
    if kind == "string":
        return strings(found, x.shape)
    dtypes = {"int64": np.int64, "float": np.float32}
    dtype = dtypes[kind] if kind in dtypes else c.get("values_tensor").dtype
    return np.array(found).astype(dtype).reshape(x.shape)


def _table(c: Call) -> tuple[dict[Any, Any], Any, str]:
    """Values by keys, the value of other keys, and in which attribute values are."""
    keys, _ = _labels(c, "keys")
    values, kind = _labels(c, "values")
    if len(keys) != len(values):
        raise c.error(f"expected as many values as keys, found {len(values)} and {len(keys)}")
    return {_key(k): v for k, v in zip(keys, values, strict=True)}, _default(c, kind), kind


def _key(value: Any) -> Any:
    """NaN equals itself as a key."""
    if isinstance(value, str):
        return value
    return NAN if isinstance(value, float) and math.isnan(value) else _text(value)


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _labels(c: Call, name: str) -> tuple[list[Any], str]:
    """Keys or values, and in which attribute they are."""
    for kind in ("int64", "string", "float"):
        if (found := c.get(f"{name}_{kind}s")) is not None:
            return list(found), kind
    if (tensor := c.get(f"{name}_tensor")) is None:
        raise c.error(f"attribute {name}_* is missing")
    is_text = tensor.dtype.kind in "OSU"
    return [_text(v) if is_text else v for v in tensor.reshape(-1).tolist()], "string" if is_text else "tensor"


def _default(c: Call, kind: str) -> Any:
    if (tensor := c.get("default_tensor")) is not None:
        value = tensor.reshape(-1).tolist()[0]
        return _text(value)
    if kind == "tensor":
        kind = "int64" if c.get("values_tensor").dtype.kind in "iu" else "float"
    return c.get(f"default_{kind}", {"int64": -1, "string": "_Unused", "float": -0.0}[kind])


# categories, and maps


FLOATS, TEXTS, INTEGERS = "TO_FLOAT", "TO_STRING", "TO_INT64"


def _map(c: Call) -> dict[Any, Any]:
    value = c.inputs[0]
    if not isinstance(value, dict):
        raise c.error(f"input 0: expected a map, found {type(value).__name__}")
    return {k.item() if isinstance(k, np.generic) else k: v for k, v in cast("dict[Any, Any]", value).items()}


def _row(values: list[Any], like: list[Any]) -> Array:
    """A row of the dtype that a map's values have."""
    if any(isinstance(v, str) for v in like):
        return strings(values, (1, len(values)))
    dtype = np.asarray(like).dtype if like else np.dtype(np.float32)
    is_plain = all(type(v) is float for v in like)  # Python has no f32
    return np.array([values], dtype=np.float32 if is_plain else dtype)


@python_op("DictVectorizer", domain=ML)
def dict_vectorizer(c: Call) -> Any:
    """The values of the vocabulary's keys, in its order; nothing, or no text, for those that are not in the map."""
    given = _map(c)
    vocabulary: list[Any] = c.get("string_vocabulary") or c.get("int64_vocabulary") or []
    values = list(given.values())
    nothing = "" if any(isinstance(v, str) for v in values) else 0
    return _row([given.get(k, nothing) for k in vocabulary], values)


@python_op("CastMap", domain=ML)
def cast_map(c: Call) -> Any:
    """The values by rising key; at the index that a key is, in rows of `max_map`, where the form is SPARSE."""
    given, to, form = _map(c), c.get("cast_to", FLOATS), c.get("map_form", "DENSE")
    if form not in ("DENSE", "SPARSE") or to not in (FLOATS, TEXTS, INTEGERS):
        raise c.error(f"cast_to and map_form: expected {FLOATS}, ... and DENSE or SPARSE, found {to} and {form}")
    values = [_cast(c, given[k], to) for k in sorted(given)]
    if form == "SPARSE":
        count = int(c.get("max_map", 1))
        if not 0 <= count <= MOST_TABLE:
            raise c.error(f"max_map: expected 0..{MOST_TABLE}, found {count}")
        if bad := [k for k in given if not 0 <= k < count]:
            raise c.error(f"expected keys in 0..{count - 1}, found {bad[0]}")
        row: list[Any] = ["" if to == TEXTS else 0] * count
        for key, value in zip(sorted(given), values, strict=True):
            row[key] = value
        values = row
    if to == TEXTS:
        return strings(values, (1, len(values)))
    return np.array([values], dtype=np.float32 if to == FLOATS else np.int64)


def _cast(c: Call, value: Any, to: str) -> Any:
    if to == TEXTS:
        return value if isinstance(value, str) else f"{float(value):g}"
    try:
        return float(value) if to == FLOATS else int(float(value))
    except (ValueError, OverflowError) as e:
        raise c.error(f"expected a number, found {value!r}") from e


@python_op("ZipMap", domain=ML)
def zip_map(c: Call) -> list[dict[Any, Any]]:
    """Each row as a map from the labels to its elements."""
    x = np.atleast_2d(c.array(0))
    labels: list[Any] = c.get("classlabels_strings") or c.get("classlabels_int64s") or []
    if x.ndim != 2 or x.shape[1] != len(labels):
        raise c.error(f"input 0: expected rows of {len(labels)} elements, found shape {x.shape}")
    return [dict(zip(labels, row, strict=True)) for row in x.tolist()]


@python_op("CategoryMapper", domain=ML)
def category_mapper(c: Call) -> Any:
    """The number of each text, or the text of each number; the default for others."""
    numbers, texts = c.get("cats_int64s", []), c.get("cats_strings", [])
    if len(numbers) != len(texts):
        raise c.error(f"expected as many numbers as texts, found {len(numbers)} and {len(texts)}")
    return relabelled(c, numbers, texts)


def relabelled(c: Call, numbers: Sequence[int], texts: Sequence[str]) -> Array:
    """Each text of input 0 as its number, or each number as its text; the default for others."""
    x = c.array(0)
    if x.dtype.kind in "OSU":
        of_text = dict(zip(texts, numbers, strict=True))
        default = int(c.get("default_int64", -1))
        return np.array([of_text.get(t, default) for t in texts_of(x)], dtype=np.int64).reshape(x.shape)
    of_number = dict(zip(numbers, texts, strict=True))
    unknown = c.get("default_string", "_Unused")
    return strings([of_number.get(v, unknown) for v in x.reshape(-1).tolist()], x.shape)


@python_op("OneHotEncoder", domain=ML)
def one_hot_encoder(c: Call) -> Any:
    """A new last axis with 1 at the category that an element is."""
    x = c.array(0)
    texts: list[str] = c.get("cats_strings", [])
    if x.dtype.kind in "OSU":
        at, categories = strings(texts_of(x), x.shape), strings(texts, (len(texts),))
    else:
        at, categories = x.astype(np.int64), np.array(c.get("cats_int64s", []), dtype=np.int64)
    out = at[..., None] == categories
    if not c.get("zeros", 1) and not np.asarray(out).any(-1).all():
        raise c.error("an element is none of the categories")
    return np.asarray(out, dtype=np.float32)


# the probabilities that a support vector classifier makes of its margins


@python_op("SVMClassifier", domain=OWN)
def probabilities(c: Call) -> Any:
    """Of each class, from those of the pairs (Platt): coupled as Wu, Lin and Weng do (JMLR 5, 2004), as libsvm does.

    Input 0 ends with the margin of each pair: how much more its first class is for a row.
    """
    classes = int(c.get("classes"))
    pairs = list(itertools.combinations(range(classes), 2))
    a, b = (np.array(c.get(name), dtype=np.float64) for name in ("prob_a", "prob_b"))
    margins = c.array(0)[:, -len(pairs) :].astype(np.float64)
    with np.errstate(over="ignore"):
        first = np.clip(1 - 1 / (1 + np.exp(-(margins * a + b))), 1e-7, 1 - 1e-7)
    of_pair = np.zeros((len(margins), classes, classes))
    for k, (i, j) in enumerate(pairs):
        of_pair[:, i, j], of_pair[:, j, i] = first[:, k], 1 - first[:, k]
    return _coupled(of_pair).astype(np.float32)


MOST_ITERATIONS = 100
"""As libsvm has for few classes: it stops there, converged or not."""


def _coupled(r: Array) -> Array:
    """The probabilities p [rows, k] that minimise sum over i < j of (r_ji p_i - r_ij p_j)^2, to 0.005 / k as libsvm.

    Each coordinate is set to its optimum in turn. The models' own library stops there, so that the optimum itself would
    differ from it in the third digit.
    """
    rows, count, _ = r.shape
    q = -r.transpose(0, 2, 1) * r
    at = list(range(count))
    q[:, at, at] = np.square(r).sum(1) - np.square(r[:, at, at])
    p = np.full((rows, count), 1 / count)
    left = np.array(range(rows), np.int64)
    for _ in range(MOST_ITERATIONS):
        some, now = q[left], p[left]
        gradient = np.einsum("nij,nj->ni", some, now)
        value = np.einsum("ni,ni->n", now, gradient)
        is_rough: Array = ~(np.abs(gradient - value[:, None]).max(-1) < 0.005 / count)
        some, now = some[is_rough], now[is_rough]
        left = np.asarray(left[is_rough])
        gradient, value = gradient[is_rough], value[is_rough]
        if not left.size:
            break
        for i in range(count):
            step = (value - gradient[:, i]) / some[:, i, i]
            whole = 1 + step
            now[:, i] += step
            value = (value + step * (step * some[:, i, i] + 2 * gradient[:, i])) / whole / whole
            gradient = (gradient + step[:, None] * some[:, i]) / whole[:, None]
            now /= whole[:, None]
        p[left] = now
    return p
