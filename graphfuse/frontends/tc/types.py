"""Types of the language: scalars with their signedness, pointers, tiles of either; conversions between them."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from graphfuse.ir.types import Scalar, scalar

MAX_ELEMENTS = 1 << 20
"""The largest tile: more than any machine holds in registers."""


@dataclass(frozen=True, slots=True)
class Arith:
    """A number. Conversions go to the operand of higher `rank`."""

    name: str
    kind: Literal["bool", "int", "float"]
    bits: int
    signed: bool
    rank: int
    elem: Scalar

    def __str__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        """Floating point, of any width."""
        return self.kind == "float"


@dataclass(frozen=True, slots=True)
class Void:
    """No value; as a pointer's element, no type."""

    def __str__(self) -> str:
        return "void"


@dataclass(frozen=True, slots=True)
class Pointer:
    """The address of a number or a pointer. `bank`: in the constant bank; `const`: not to be stored through."""

    to: Arith | Void | Pointer
    bank: bool = False
    const: bool = False

    def __str__(self) -> str:
        if isinstance(self.to, Pointer):
            return f"{self.to}{' const' if self.const else ''}*"
        return f"{'const ' if self.const else ''}{self.to}{' __constant__ ' if self.bank else ''}*"

    @property
    def plain(self) -> Pointer:
        """Without what qualifiers say at any level."""
        return Pointer(self.to.plain if isinstance(self.to, Pointer) else self.to)


@dataclass(frozen=True, slots=True)
class Tile:
    """Numbers or pointers in a rectangle."""

    shape: tuple[int, ...]
    elem: Arith | Pointer

    def __str__(self) -> str:
        return f"{self.elem}[{', '.join(map(str, self.shape))}]"


Element: TypeAlias = Arith | Pointer
Type: TypeAlias = Arith | Pointer | Tile | Void

VOID = Void()


def _arith(name: str, kind: Literal["bool", "int", "float"], elem: str, rank: int, *, signed: bool = True) -> Arith:
    s = scalar(elem)
    return Arith(name, kind, 1 if kind == "bool" else s.bits, signed, rank, s)


BOOL = _arith("bool", "bool", "bool", 0, signed=False)
CHAR, UCHAR = _arith("char", "int", "i8", 1), _arith("unsigned char", "int", "u8", 1, signed=False)
SHORT, USHORT = _arith("short", "int", "i16", 2), _arith("unsigned short", "int", "u16", 2, signed=False)
INT, UINT = _arith("int", "int", "i32", 3), _arith("unsigned", "int", "u32", 3, signed=False)
LONG, ULONG = _arith("long", "int", "i64", 4), _arith("unsigned long", "int", "u64", 4, signed=False)
FP8E4M3, FP8E5M2 = _arith("fp8e4m3", "float", "f8e4m3", 5), _arith("fp8e5m2", "float", "f8e5m2", 5)
HALF, BF16 = _arith("half", "float", "f16", 6), _arith("bf16", "float", "bf16", 6)
FLOAT, DOUBLE = _arith("float", "float", "f32", 7), _arith("double", "float", "f64", 8)

DOT_RESULTS: dict[Arith, Arith] = {
    HALF: FLOAT, BF16: FLOAT, FP8E4M3: FLOAT, FP8E5M2: FLOAT, CHAR: INT, UCHAR: INT,
}  # fmt: skip
"""What products are summed in; other types keep their own."""

NAMED: dict[str, Arith | Void] = {
    **{t.name: t for t in (BOOL, CHAR, UCHAR, SHORT, USHORT, INT, UINT, LONG, ULONG, HALF, BF16, FLOAT, DOUBLE)},
    "fp8e4m3": FP8E4M3, "fp8e5m2": FP8E5M2, "void": VOID,
    "int8": CHAR, "int16": SHORT, "int32": INT, "int64": LONG,
    "uint8": UCHAR, "uint16": USHORT, "uint32": UINT, "uint64": ULONG,
}  # fmt: skip
"""What the name of a type in a source stands for, typedefs of the user aside."""


def elem_of(t: Type) -> Element | Void:
    """The element of a tile, or the type itself."""
    return t.elem if isinstance(t, Tile) else t


def shape_of(t: Type) -> tuple[int, ...]:
    """The shape of a tile; a scalar's is empty."""
    return t.shape if isinstance(t, Tile) else ()


def with_shape(elem: Element, shape: tuple[int, ...]) -> Type:
    """The tile of that shape, or the element where the shape is empty."""
    return Tile(shape, elem) if shape else elem


def with_dim(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    """A shape with another dim."""
    return (*shape[:axis], size, *shape[axis + 1 :])


def elements(shape: tuple[int, ...]) -> int:
    """How many elements a shape has."""
    return math.prod(shape)


def promoted(t: Arith) -> Arith:
    """What an operand of arithmetic becomes: ints below int are int, eight-bit floats are only stored."""
    if t.kind != "float":
        return INT if t.rank < INT.rank else t
    return FLOAT if t.bits == 8 else t


@functools.cache
def common(a: Arith, b: Arith) -> Arith:
    """The usual arithmetic conversions: the type that both operands of an operator get."""
    a, b = promoted(a), promoted(b)
    if a == b:
        return a
    if a.is_float and b.is_float and a.rank == b.rank:
        return FLOAT  # half and bf16: neither holds the other
    if a.rank != b.rank:
        return a if a.rank > b.rank else b
    return b if a.signed else a


class ConversionError(Exception):
    """A value does not convert to a type, or two shapes do not fit; the text says why, or where."""


def broadcast_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape two operands are repeated to: the shorter one gets 1s in front, then dims match or are 1."""
    if a == b:
        return a
    rank = max(len(a), len(b))
    left, right = ((1,) * (rank - len(s)) + s for s in (a, b))
    out: list[int] = []
    for i, (m, n) in enumerate(zip(left, right, strict=True)):
        if m != n and 1 not in (m, n):
            raise ConversionError(f"cannot broadcast dimension {i}: expected equal dims or 1, found {m} and {n}")
        out.append(max(m, n))
    return tuple(out)


def broadcasts_to(a: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """Whether `a` can be repeated to the shape `to`."""
    padded = (1,) * (len(to) - len(a)) + a
    return len(a) <= len(to) and all(m in (1, n) for m, n in zip(padded, to, strict=True))
