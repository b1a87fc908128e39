"""Constants with data: an immutable numpy array that knows its scalar type and prints by value or by digest."""

from __future__ import annotations

import hashlib
import math
from typing import Any, cast

import ml_dtypes
import numpy as np

from graphfuse.artifact import ELEM_DTYPES, Panels, elem_dtype
from graphfuse.ir.types import Scalar, scalar, shape_text

_SCALAR = {np.dtype(v): scalar(k) for k, v in ELEM_DTYPES.items()}

INLINE_ELEMENTS = 16
"""Constants up to this size print their values; larger ones print a digest."""


def numpy_dtype(elem: Scalar) -> np.dtype[Any]:
    """The numpy (or ml_dtypes) dtype that stores `elem`."""
    return elem_dtype(elem.name)


def finfo(elem: Scalar) -> Any:
    """What numpy says of a float's range, of floats of ml_dtypes too."""
    return cast("Any", ml_dtypes).finfo(numpy_dtype(elem))


def scalar_of(dtype: np.dtype[Any]) -> Scalar | None:
    """The scalar type a numpy dtype stores, or None when there is none (strings, complex)."""
    return _SCALAR.get(np.dtype(dtype))


class Dense:
    """An immutable n-d constant. Equal means: same type, shape and bytes (compared by digest).

    `packed` says what it is a layout of, for those who would store that.
    """

    __slots__ = ("_digest", "array", "packed")

    def __init__(self, array: np.ndarray[Any, Any], packed: tuple[Dense, Panels] | None = None) -> None:
        assert scalar_of(array.dtype) is not None, f"no scalar type for {array.dtype}"
        self.array, self.packed = array, packed
        self._digest = ""

    @property
    def elem(self) -> Scalar:
        """The type of its elements."""
        return _SCALAR[self.array.dtype]

    @property
    def shape(self) -> tuple[int, ...]:
        """Its dims."""
        return self.array.shape

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes in row-major order; computed once, when first asked for."""
        if not self._digest:
            data = np.ascontiguousarray(self.array).reshape(-1).view(np.uint8)
            self._digest = hashlib.sha256(data.data).hexdigest()
        return self._digest

    def seen_as(self, shape: tuple[int, ...], elem: Scalar) -> Dense | None:
        """The constant of that type which has the same digest; None where there is none."""
        if (shape, elem) == (self.shape, self.elem):
            return self
        data = np.ascontiguousarray(self.array).reshape(-1).view(np.uint8)
        dtype = numpy_dtype(elem)
        if data.size != math.prod(shape) * dtype.itemsize:
            return None
        return Dense(data.view(dtype).reshape(shape))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dense):
            return NotImplemented
        if self.array is other.array:
            return True
        if self.array.dtype != other.array.dtype or self.shape != other.shape:
            return False
        return self.digest == other.digest

    def __hash__(self) -> int:
        return hash((self.array.dtype, self.shape))

    def __str__(self) -> str:
        head = f"{shape_text(self.shape)}{self.elem}"
        if self.array.size > INLINE_ELEMENTS:
            return f"dense<{head}, sha256:{self.digest}>"
        words = [str(v) for v in self.array.reshape(-1)]
        values = " ".join(w.lower() for w in words) if self.elem.name == "bool" else " ".join(words)
        return f"dense<{head}, [{values}]>"

    __repr__ = __str__


def parse_values(text: str, shape: tuple[int, ...], elem: Scalar) -> Dense:
    """Read the bracketed values of a small constant."""
    words = text.split()
    dtype = numpy_dtype(elem)
    if elem.is_float:
        with np.errstate(all="ignore"):  # a value out of range is an infinity
            return Dense(np.array([float(w) for w in words]).astype(dtype).reshape(shape))
    if elem.name == "bool":
        if not {"false", "true"}.issuperset(words):
            raise ValueError("expected true or false")
        values = [int(w == "true") for w in words]
    else:
        values = [int(w) for w in words]
        low, high = elem.limits
        if any(not low <= v <= high for v in values):
            raise OverflowError(f"a value is out of range for {elem}")
    wide = np.uint64 if elem.name == "u64" else np.int64
    return Dense(np.array(values, wide).astype(dtype).reshape(shape))
