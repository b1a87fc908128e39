"""Element types: torch's dtypes and ours."""

from __future__ import annotations

import torch

from graphfuse.ir.types import Scalar, scalar

_NAMES = {
    torch.bool: "bool",
    torch.uint8: "u8",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float8_e4m3fn: "f8e4m3",
    torch.float8_e5m2: "f8e5m2",
}


def element_of(dtype: torch.dtype) -> Scalar | None:
    """Our element for a dtype; None if there is none (complex, quantised)."""
    name = _NAMES.get(dtype)
    return scalar(name) if name else None
