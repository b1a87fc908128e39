"""Element types: torch's dtypes and ours."""

from __future__ import annotations

from typing import Any

import torch

from graphfuse.artifact import elem_dtype
from graphfuse.ir.types import Scalar, scalar

_NAMES = (
    "bool", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64",
    "f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2",
)  # fmt: skip
_TORCH: Any = torch
DTYPES: dict[Scalar, torch.dtype] = {scalar(name): getattr(_TORCH, elem_dtype(name).name) for name in _NAMES}
"""The dtype of each of our elements that torch has; they are called what numpy calls them."""
_ELEMENTS = {dtype: elem for elem, dtype in DTYPES.items()}


def element_of(dtype: torch.dtype) -> Scalar | None:
    """Our element for a dtype; None if there is none (complex, quantised)."""
    return _ELEMENTS.get(dtype)
