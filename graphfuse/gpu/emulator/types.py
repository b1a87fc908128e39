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


UNSIGNED: dict[int, DType] = {
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
}

_DTYPES: dict[str, DType] = {
    "pred": np.dtype(np.bool_),
    "s8": np.dtype(np.int8),
    "s16": np.dtype(np.int16),
    "s32": np.dtype(np.int32),
    "s64": np.dtype(np.int64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "tf32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}

TYPES: dict[str, PtxType] = {
    t.name: t
    for t in (
        PtxType("pred", 1, "pred"),
        *(PtxType(f"{kind}{bits}", bits, kind) for kind in "bus" for bits in (8, 16, 32, 64)),
        PtxType("f16", 16, "f"),
        PtxType("bf16", 16, "f"),
        PtxType("f32", 32, "f"),
        PtxType("tf32", 32, "f"),
        PtxType("f64", 64, "f"),
        PtxType("e4m3", 8, "f"),
        PtxType("e5m2", 8, "f"),
        PtxType("f16x2", 32, "p", "f16"),
        PtxType("bf16x2", 32, "p", "bf16"),
        PtxType("f32x2", 64, "p", "f32"),
        PtxType("e4m3x2", 16, "p", "e4m3"),
        PtxType("e5m2x2", 16, "p", "e5m2"),
        PtxType("u16x2", 32, "p", "u16"),
        PtxType("s16x2", 32, "p", "s16"),
        PtxType("b128", 128, "b"),
    )
}


def register_dtype(ptx_type: PtxType) -> DType:
    """How a register declared with this type is stored."""
    if ptx_type.kind == "pred":
        return np.dtype(np.bool_)
    return UNSIGNED[max(ptx_type.bits, 16)]
