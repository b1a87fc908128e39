"""`ai.onnx.ml`: categories, and maps from keys to numbers or texts, which are dicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from graphfuse.frontends.host_values import Array
from graphfuse.frontends.onnx.limits import MOST_TABLE
from graphfuse.frontends.onnx.python_ops.call import Call, python_op, strings, texts_of

ML = "ai.onnx.ml"
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
