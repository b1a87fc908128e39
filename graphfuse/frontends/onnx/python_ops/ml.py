"""`ai.onnx.ml`: labels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphfuse.frontends.onnx.python_ops.call import Call, on_strings, python_op, strings
from graphfuse.frontends.onnx.python_ops.maps import relabelled

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
