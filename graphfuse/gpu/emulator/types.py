"""PTX's fundamental types as numpy sees them. Knows nothing of instructions.

A register holds bits: an unsigned array of its width. An instruction's type says how to view them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
DType = np.dtype[Any]
Unary = Callable[[Array], Array]
Binary = Callable[[Array, Array], Array]
Ternary = Callable[[Array, Array, Array], Array]
Function: TypeAlias = Unary | Binary | Ternary | Callable[[Array, Array, Array, Array], Array]


@dataclass(frozen=True, slots=True)
class PtxType:
    """A type suffix: how many bits, what they mean (`pred b u s f`), and of packed types the element."""

    name: str
    bits: int
    kind: str
    element: str = ""

    @property
    def bytes(self) -> int:
        """How many bytes memory holds of it."""
        return self.bits // 8

    @property
    def dtype(self) -> DType:
        """The numpy type of one value; of packed and opaque types the unsigned integer of that width."""
        return _DTYPES.get(self.name) or UNSIGNED[max(self.bits, 8)]

    @property
    def is_float(self) -> bool:
        """Whether it is one floating-point number."""
        return self.kind == "f"


UNSIGNED: dict[int, DType] = {bits: np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)}
_FLOATS: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "tf32": np.float32, "f64": np.float64,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip
_PAIRS = {"f16": 32, "bf16": 32, "f32": 64, "e4m3": 16, "e5m2": 16, "u16": 32, "s16": 32}
"""Elements of packed types, and the bits of two."""
_DTYPES: dict[str, DType] = {
    "pred": np.dtype(np.bool_),
    **{f"s{bits}": np.dtype(f"i{bits // 8}") for bits in UNSIGNED},
    **{name: np.dtype(of) for name, of in _FLOATS.items()},
}

TYPES: dict[str, PtxType] = {
    t.name: t
    for t in (
        PtxType("pred", 1, "pred"),
        *(PtxType(f"{kind}{bits}", bits, kind) for kind in "bus" for bits in UNSIGNED),
        *(PtxType(name, 8 * _DTYPES[name].itemsize, "f") for name in _FLOATS),
        *(PtxType(f"{element}x2", bits, "p", element) for element, bits in _PAIRS.items()),
        PtxType("b128", 128, "b"),
    )
}

REDUCTIONS: dict[str, np.ufunc] = {
    "add": np.add, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
"""What combines numbers; NaN is handed on."""


def unpacked(kind: PtxType, x: Array) -> Array:
    """The numbers of a packed type along one more axis; others as they are."""
    return np.ascontiguousarray(x)[..., None].view(TYPES[kind.element].dtype) if kind.element else x


def packed(kind: PtxType, x: Array) -> Array:
    """The inverse of `unpacked`."""
    return np.ascontiguousarray(x).view(kind.dtype)[..., 0] if kind.element else x


def by_parts(kind: PtxType, function: Callable[..., Array]) -> Callable[..., Array]:
    """The function on each of the numbers of a packed type."""
    return lambda *xs: packed(kind, function(*(unpacked(kind, x) for x in xs)))


def register_dtype(ptx_type: PtxType) -> DType:
    """How a register declared with this type is stored."""
    if ptx_type.kind == "pred":
        return np.dtype(np.bool_)
    return UNSIGNED[max(ptx_type.bits, 16)]
