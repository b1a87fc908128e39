"""Conversions between f32 and the two float8 formats that have instructions, two registers at a time (sm_89 on).

`cvt.rn.satfinite` clamps where the block dialect makes NaN (e4m3) or an infinity (e5m2): one comparison and one
selection a register put that right, and `saturate` goes without. Widening goes through f16, which holds both formats.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from graphfuse.codegen.kernel import Kernel, integer
from graphfuse.ir.types import Scalar
from graphfuse.llvm.module import Reg


class _Format(NamedTuple):
    """`last` is the largest f32 that rounds to a finite value, larger ones become `beyond`."""

    name: str
    last: float
    beyond: int


_FORMATS = {
    "f8e4m3": _Format("e4m3x2", 464.0, 0x7F),  # half way to the next value, whose last bit is odd
    "f8e5m2": _Format("e5m2x2", 61439.99609375, 0x7C),  # just below half way to 65536, which would be even
}
_FIRST = ((90, 78), (89, 81))
"""Architectures from which on the instructions exist, and since which PTX version."""


def is_native(kernel: Kernel) -> bool:
    """Whether the target has them."""
    target = kernel.target
    architecture = int("".join(c for c in target.cpu if c.isdigit()))
    version = max((int(f.removeprefix("ptx")) for f in target.feature_set if f.startswith("ptx")), default=0)
    return any(architecture >= first and version >= since for first, since in _FIRST)


def _pairs(xs: Sequence[Reg]) -> Iterator[tuple[Reg, Reg | None]]:
    return itertools.zip_longest(xs[::2], xs[1::2])


def from_f32(kernel: Kernel, xs: Sequence[Reg], to: Scalar, *, saturate: bool) -> list[Reg]:
    """Round to nearest even."""
    format_ = _FORMATS[to.name]
    out: list[Reg] = []
    for low, high in _pairs(xs):
        upper = high if high is not None else low
        both = kernel.intrinsic("nvvm.ff.to", "i16", upper, low, overload=f"{format_.name}.rn")
        vector = kernel.recast(both, "<2 x i8>")
        for i, x in enumerate((low,) if high is None else (low, high)):
            byte = kernel.text.emit("i8", f"extractelement {vector}, i32 {i}")
            out.append(byte if saturate else _overflowed(kernel, x, byte, format_))
    return out


def _overflowed(kernel: Kernel, x: Reg, byte: Reg, format_: _Format) -> Reg:
    size = kernel.intrinsic("fabs", "float", x)
    beyond = kernel.compare("fcmp ogt", size, format_.last)
    sign = kernel.binary("and", byte, -128)
    return kernel.choose(beyond, kernel.binary("or", sign, format_.beyond), byte)


def to_f32(kernel: Kernel, xs: Sequence[Reg], source: Scalar) -> list[Reg]:
    """Exact."""
    out: list[Reg] = []
    for low, high in _pairs(xs):
        both = kernel.recast(kernel.joined([low, integer(0, "i8") if high is None else high]), "i16")
        halves = kernel.intrinsic(f"nvvm.{_FORMATS[source.name].name}.to.f16x2", "<2 x half>", both, overload="rn")
        out += [kernel.convert("fpext", half, "float") for half in kernel.elements(halves)]
    return out[: len(xs)]
