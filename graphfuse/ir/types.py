"""Types: small frozen values that print the way they parse."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TypeAlias

from graphfuse.ir.layout import LinearLayout
from graphfuse.symbolic import Dim, product

_BITS = {
    "bool": 8, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "u8": 8, "u16": 16, "u32": 32, "u64": 64,
    "i4": 4, "u4": 4, "i2": 2, "u2": 2,
    "f16": 16, "bf16": 16, "f32": 32, "f64": 64,
    "f8e4m3": 8, "f8e5m2": 8, "f8e4m3fnuz": 8, "f8e5m2fnuz": 8, "f8e8m0": 8, "f4e2m1": 4,
}  # fmt: skip
SCALAR_NAMES = frozenset(_BITS)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A machine number. `bool` is stored as one byte holding 0 or 1."""

    name: str

    def __str__(self) -> str:
        return self.name

    @property
    def bits(self) -> int:
        """Bits one element takes in memory."""
        return _BITS[self.name]

    @property
    def bytes(self) -> int:
        """Bytes one element takes in memory; sub-byte types are unpacked to one byte at the border."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        """Floating point, of any width."""
        return self.name.startswith(("f", "bf"))

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned integer; bool is not one."""
        return not self.is_float and self.name != "bool"

    @property
    def is_signed(self) -> bool:
        """Signed integer."""
        return self.name.startswith("i")

    @property
    def limits(self) -> tuple[int, int]:
        """Of an integer: the least and the largest."""
        if self.is_signed:
            return -(1 << self.bits - 1), (1 << self.bits - 1) - 1
        return 0, (1 << self.bits) - 1


@dataclass(frozen=True, slots=True)
class Ptr:
    """The address of a scalar in memory."""

    elem: Scalar

    def __str__(self) -> str:
        return f"ptr<{self.elem}>"


@dataclass(frozen=True, slots=True)
class Tensor:
    """An n-d array in memory, dense and row-major (graph dialect)."""

    shape: tuple[Dim, ...]
    elem: Scalar

    def __str__(self) -> str:
        return f"tensor<{shape_text(self.shape)}{self.elem}>"

    @property
    def rank(self) -> int:
        """How many dims it has."""
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether every dim is a number."""
        return all(isinstance(d, int) for d in self.shape)

    @property
    def elements(self) -> Dim:
        """How many elements it has."""
        return product(self.shape)

    @property
    def nbytes(self) -> Dim:
        """How many bytes it takes in memory."""
        return self.elements * self.elem.bytes


@dataclass(frozen=True, slots=True)
class Tile:
    """An n-d array in registers of one program (block dialect); its shape is static.

    On a GPU it has a layout: which thread holds which elements. The layout's shape is the tile's, each dim rounded up
    to a power of two; elements beyond the tile hold anything.
    """

    shape: tuple[int, ...]
    elem: Scalar
    layout: LinearLayout | None = None

    def __str__(self) -> str:
        layout = f", {{{self.layout.text}}}" if self.layout else ""
        return f"tile<{shape_text(self.shape)}{self.elem}{layout}>"

    @property
    def padded_shape(self) -> tuple[int, ...]:
        """The shape that layouts of this tile have: every dim rounded up to a power of two."""
        return tuple(1 << (max(d, 1) - 1).bit_length() for d in self.shape)

    @property
    def elements(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Buffer:
    """Shared memory of a block, or a ring of such buffers: the first dim counts them, the last is contiguous.

    With a swizzle (32, 64 or 128 bytes), each matrix of the last two dims is as TMA writes it and `wgmma` reads it:
    panels of `swizzle` bytes along the last dim one after another, their 16-byte chunks XORed (`layout.Tma`).
    """

    shape: tuple[int, ...]
    elem: Scalar
    swizzle: int = 0

    def __str__(self) -> str:
        swizzle = f", swizzle {self.swizzle}" if self.swizzle else ""
        return f"shared<{shape_text(self.shape)}{self.elem}{swizzle}>"

    @property
    def slot_bytes(self) -> int:
        """Bytes of one buffer of the ring."""
        return math.prod(self.shape[1:]) * self.elem.bytes

    @property
    def nbytes(self) -> int:
        """Bytes of the whole ring."""
        return math.prod(self.shape) * self.elem.bytes


Type: TypeAlias = Scalar | Ptr | Tensor | Tile | Buffer


def shape_text(shape: tuple[Dim, ...]) -> str:
    """`4x(batch)x`: static dims bare, symbolic ones in parentheses."""
    return "".join(f"{d}x" if isinstance(d, int) else f"({d})x" for d in shape)


def listed(types: tuple[Type, ...]) -> str:
    """Types as messages show them."""
    return f"({', '.join(map(str, types))})"


@functools.cache
def scalar(name: str) -> Scalar:
    """The scalar type of that name (interned)."""
    assert name in SCALAR_NAMES, f"no scalar type {name!r}"
    return Scalar(name)


BOOL, I8, I16, I32, I64 = (scalar(n) for n in ("bool", "i8", "i16", "i32", "i64"))
U8, U16, U32, U64 = (scalar(n) for n in ("u8", "u16", "u32", "u64"))
F16, BF16, F32, F64 = (scalar(n) for n in ("f16", "bf16", "f32", "f64"))
