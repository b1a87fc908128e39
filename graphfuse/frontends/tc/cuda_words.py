"""Words that a programmer may bring along.

CUDA's, with what stands for them where programs are single-threaded, and types as C, CUDA, numpy, torch and Triton call
them.
"""

from __future__ import annotations

from typing import Final

_TILE = "a program is one thread, and its variables may be tiles: expected a range such as 0 ... 128"
_OWN = "where a tile lies is the compiler's choice: expected a tile, T x[SHAPE]"
_SYNC = "a program is one thread: expected nothing, or __debug_barrier()"

CUDA_WORDS: Final = {
    "threadIdx": _TILE,
    "blockDim": _TILE,
    "blockIdx": "expected get_program_id(axis)",
    "gridDim": "expected get_num_programs(axis)",
    "__shared__": _OWN,
    "__syncthreads": _SYNC,
    "__syncwarp": _SYNC,
}

OTHER_TYPES: Final = {
    **dict.fromkeys(("float16", "fp16", "f16", "__half", "half_t", "_Float16", "float16_t"), "half"),
    **dict.fromkeys(("bfloat16", "bfloat", "__nv_bfloat16", "nv_bfloat16", "bfloat16_t", "__bf16"), "bf16"),
    **dict.fromkeys(("float32", "fp32", "f32", "single", "float32_t", "tf32"), "float"),
    **dict.fromkeys(("float64", "fp64", "f64", "float64_t"), "double"),
    **dict.fromkeys(("float8_e4m3fn", "float8e4nv", "float8_e4m3", "fp8e4nv", "__nv_fp8_e4m3", "f8e4m3"), "fp8e4m3"),
    **dict.fromkeys(("float8_e5m2", "float8e5", "fp8e5", "__nv_fp8_e5m2", "f8e5m2"), "fp8e5m2"),
    **{f"{short}{n}": f"{name}{n}" for short, name in (("i", "int"), ("u", "uint")) for n in (8, 16, 32, 64)},
    **{f"{name}{n}_t": f"{name}{n}" for name in ("int", "uint") for n in (8, 16, 32, 64)},
    **dict.fromkeys(("byte", "uchar", "u_char"), "uint8"),
    "ushort": "uint16", "uint": "unsigned", "ulong": "uint64",
    **dict.fromkeys(("size_t", "uintptr_t"), "uint64"),
    **dict.fromkeys(("ptrdiff_t", "ssize_t", "intptr_t"), "int64"),
    **dict.fromkeys(("int1", "boolean", "bool_", "Bool"), "bool"),
}  # fmt: skip
"""The types of the language that are meant by those of others."""
