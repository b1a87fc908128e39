"""Floating point formats as `vecmath` sees them: owns their bounds and two shared idioms.

No function of its own ends here; those are in `vecmath` and `vecmath_trig`.
"""

from dataclasses import dataclass
from typing import Final

from graphfuse.codegen.vecmath_emit import Code, Value
from graphfuse.codegen.vecmath_tables import F32, F32_PARTS, F64, F64_PARTS, Table


@dataclass(frozen=True)
class Format:
    """A floating point format, and the bounds that follow from it."""

    fraction_bits: int
    bias: int
    table: Table
    parts: Table
    exp_range: tuple[float, float]  # below: 0, above: inf
    exp2_range: tuple[float, float]
    minus_one: float  # expm1 is -1 below
    tanh_top: float  # tanh is 1 above
    erf_split: float  # between the two polynomials
    erf_top: float  # erf is 1 above
    erf_middle: float  # of the polynomial for log2(erfc)
    trig_top: float  # three-part reduction holds up to here

    @property
    def magic(self) -> float:
        """Adding this rounds to an integer and leaves it in the low bits."""
        return 1.5 * 2.0**self.fraction_bits

    @property
    def sign_shift(self) -> int:
        """The place of the sign bit."""
        return 31 if self.fraction_bits == 23 else 63

    @property
    def smallest_normal(self) -> float:
        """The smallest number that is not subnormal."""
        return 2.0 ** (1 - self.bias)


FORMATS: Final = {
    "f32": Format(23, 127, F32, F32_PARTS, (-104.0, 89.0), (-151.0, 129.0),
                   -20.0, 10.0, 0.9, 4.0, 0.0, 1e5),
    "f64": Format(52, 1023, F64, F64_PARTS, (-746.0, 710.0), (-1076.0, 1025.0),
                   -40.0, 20.0, 1.4, 6.0, 3.7, 1e6),
}  # fmt: skip


def format_of(value: Value) -> Format:
    """Return the format of a value's element."""
    return FORMATS[value.elem]


def round_to_bits(c: Code, x: Value, factor: float, offset: int) -> tuple[Value, Value]:
    """n = round(x * factor): return n, and integers whose low bits are n + offset."""
    fmt = format_of(x)
    magic = fmt.magic + offset
    shifted = x + magic if factor == 1.0 else c.fma(x, factor, magic)
    return shifted - magic, shifted.bits()


def odd_poly(c: Code, x: Value, name: str) -> Value:
    """x + x^3 p(x^2)."""
    square = x * x
    return c.fma(x * square, c.poly(square, format_of(x).table[name]), x)
