"""A model whose weights were rounded to a few bits: what that changed, and the file it is written to.

Which nodes these are and how numbers are rounded is in `frontends/onnx` (`quantise.py`, `rounding.py`); this measures
products and results beside those of the model as it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard, cast

import numpy as np

from graphfuse import usage
from graphfuse.artifact import Array
from graphfuse.errors import InputError, UnsupportedError, UsageError, meant
from graphfuse.frontends.onnx import quantise
from graphfuse.frontends.onnx.quantise import Layer
from graphfuse.frontends.onnx.rounding import Rounded, Scheme, runs_of_rows

__all__ = ["Layer", "QuantizedModel", "relative_error"]

BITS = {"int4": 4, "int8": 8}
BLOCKS = (16, 32, 64, 128, 256)
ACCURACY_LEVELS = (0, 4)


class QuantizedModel:
    """A model with `MatMulNBits` in the place of products with constant matrices. Made by `graphfuse.quantize`."""

    def __init__(self, rewritten: quantise.Rewritten) -> None:
        self._rewritten = rewritten

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Every product whose weights were rounded, in the order of the graph, with its sizes and error."""
        return self._rewritten.layers

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the model's outputs."""
        return tuple(o.name for o in self._rewritten.model.graph.output)

    @property
    def nbytes(self) -> tuple[int, int]:
        """What all constants of the model took before, and take now; what several layers read counts once."""
        return self._rewritten.nbytes

    @property
    def model(self) -> Any:
        """A `ModelProto` with the weights inside. Raises TooLargeError where they are more than a file may have."""
        return quantise.whole(self._rewritten.model, self._rewritten.raw)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an ONNX file.

        Weights of a model above 2 GB go into a second file, `NAME.onnx.data`, beside it.
        Files that are there are replaced once all is written. Raises FileError.
        """
        quantise.save(self._rewritten.model, self._rewritten.raw, usage.path("path", path))

    def product_errors(self, values: Mapping[str, Array]) -> list[float | None]:
        """How far the product of each layer is off on what the model as it was multiplies: a relative error each.

        `values` has this by the names of layers' `x`. None where it is not there, or is no array of floats.
        """
        pairs = zip(self.layers, self._rewritten.matrices, strict=True)
        found = [(values.get(layer.x), *pair) for layer, pair in pairs]
        return [_product_error(x, w, codes) if _is_float(x) else None for x, w, codes in found]


def quantized(
    source: Path | Any,
    *,
    weights: str,
    block: int,
    symmetric: bool,
    accuracy_level: int,
    exclude: Sequence[str],
    progress: Callable[[str], None],
) -> QuantizedModel:
    """`graphfuse.quantize` of a path that exists or a `ModelProto`, its other arguments not looked at yet."""
    if weights == "fp8":
        raise UnsupportedError("weights: fp8 is not built yet: the codes of a MatMulNBits are integers, int4 or int8")
    if weights not in BITS:
        raise UsageError(f"weights: expected {' or '.join(BITS)}, found {weights!r}{meant(weights, BITS)}")
    if block not in BLOCKS:
        raise UsageError(f"block: expected a power of two from {BLOCKS[0]} to {BLOCKS[-1]}, found {block}")
    if accuracy_level not in ACCURACY_LEVELS:
        raise UsageError(f"accuracy_level: expected {' or '.join(map(str, ACCURACY_LEVELS))}, found {accuracy_level}")
    scheme = Scheme(BITS[weights], block, symmetric)
    return QuantizedModel(quantise.quantised(source, scheme, accuracy_level, exclude, progress))


def relative_error(ours: Any, reference: Any) -> float | None:
    """The root mean square of a difference, in parts of that of the reference, where that is finite; NaN if nowhere.

    None of what are no arrays of floats. Raises InputError where shapes differ.
    """
    if not _is_float(ours) or not _is_float(reference):
        return None
    if ours.shape != reference.shape:
        raise InputError(f"expected arrays of one shape, found {ours.shape} and {reference.shape}")
    finite = np.isfinite(reference)
    if reference.size and not finite.any():
        return float("nan")
    exact = reference[finite].astype(np.float64)
    lost = ours[finite].astype(np.float64) - exact
    return _ratio(float(np.square(lost).sum()), float(np.square(exact).sum()))


def _ratio(lost: float, total: float) -> float:
    if not total:
        return 0.0 if not lost else float("inf")
    return float(np.sqrt(lost / total))


def _is_float(value: Any) -> TypeGuard[Array]:
    # numpy's own floats, and bfloat16, whose kind is V
    if not isinstance(value, np.ndarray):
        return False
    dtype = cast("Array", value).dtype
    return dtype.kind == "f" or dtype.name == "bfloat16"


def _product_error(x: Array, w: Array, codes: Rounded) -> float:
    """Of x [.., k] and w [n, k], some columns of the product at a time."""
    rows, lost, total = x.reshape(-1, codes.k).astype(np.float32), 0.0, 0.0
    if not np.isfinite(rows).all():
        return float("nan")
    for some in runs_of_rows(*w.shape):
        exact = w[some].astype(np.float32)
        lost += float(np.square(rows @ (codes.rows(some) - exact).T, dtype=np.float64).sum())
        total += float(np.square(rows @ exact.T, dtype=np.float64).sum())
    return _ratio(lost, total)
