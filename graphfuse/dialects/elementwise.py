"""Scalar functions both dialects share: `graph.exp` maps over a tensor what `block.exp` maps over a tile.

The table is the one place that says which elementwise functions exist and which elements they take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from graphfuse.errors import VerifyError
from graphfuse.ir.core import OpDef, Trait, opdef
from graphfuse.ir.types import BOOL, Scalar, Type

Takes = Literal["float", "integer", "whole", "number", "bool", "logical", "any"]
"""`number` is float or integer; `logical` is bool or integer (bitwise); `whole` is an integer of whole bytes."""


@dataclass(frozen=True, slots=True)
class Function:
    """An elementwise function: arity, accepted elements, whether it yields bool, its meaning."""

    name: str
    arity: int
    takes: Takes
    doc: str
    commutative: bool = False
    to_bool: bool = False


FUNCTIONS: tuple[Function, ...] = (
    Function("add", 2, "number", "a + b; integers wrap.", commutative=True),
    Function("sub", 2, "number", "a - b; integers wrap."),
    Function("mul", 2, "number", "a * b; integers wrap.", commutative=True),
    Function("div", 2, "float", "a / b, correctly rounded."),
    Function("floordiv", 2, "number", "floor(a / b); x / 0 is 0 for integers."),
    Function("truncdiv", 2, "integer", "a / b rounded toward zero (C); x / 0 is 0."),
    Function("floormod", 2, "number", "a - floor(a / b) * b: the divisor's sign (Python); x mod 0 is 0 for integers."),
    Function("truncmod", 2, "number", "the remainder with the dividend's sign (C); x mod 0 is 0 for integers."),
    Function("pow", 2, "number", "a to the power b, as C99 pow; integer powers wrap, negative exponents truncate."),
    Function("max", 2, "number", "the larger; NaN if either is NaN.", commutative=True),
    Function("min", 2, "number", "the smaller; NaN if either is NaN.", commutative=True),
    Function("atan2", 2, "float", "the angle of the point (b, a), as C99 atan2."),
    Function("and", 2, "logical", "bitwise or logical and.", commutative=True),
    Function("or", 2, "logical", "bitwise or logical or.", commutative=True),
    Function("xor", 2, "logical", "bitwise or logical exclusive or.", commutative=True),
    Function("shl", 2, "integer", "a << b; shifts of the width or more give 0."),
    Function("shr", 2, "integer", "a >> b, arithmetic when signed; shifts of the width or more give the sign fill."),
    Function("eq", 2, "any", "a == b.", commutative=True, to_bool=True),
    Function("ne", 2, "any", "a != b (true for NaN).", commutative=True, to_bool=True),
    Function("lt", 2, "number", "a < b.", to_bool=True),
    Function("le", 2, "number", "a <= b.", to_bool=True),
    Function("gt", 2, "number", "a > b.", to_bool=True),
    Function("ge", 2, "number", "a >= b.", to_bool=True),
    Function("neg", 1, "number", "-a; integers wrap."),
    Function("abs", 1, "number", "|a|; integers wrap."),
    Function("sign", 1, "number", "-1, 0 or 1; NaN stays NaN."),
    Function("not", 1, "logical", "bitwise or logical not."),
    Function("exp", 1, "float", "e to the power a."),
    Function("exp2", 1, "float", "2 to the power a."),
    Function("expm1", 1, "float", "exp(a) - 1, accurate near 0."),
    Function("log", 1, "float", "natural logarithm."),
    Function("log2", 1, "float", "base-2 logarithm."),
    Function("log1p", 1, "float", "log(1 + a), accurate near 0."),
    Function("sqrt", 1, "float", "square root, correctly rounded."),
    Function("tanh", 1, "float", "hyperbolic tangent."),
    Function("erf", 1, "float", "error function."),
    Function("sigmoid", 1, "float", "1 / (1 + exp(-a))."),
    Function("sin", 1, "float", "sine."),
    Function("cos", 1, "float", "cosine."),
    Function("tan", 1, "float", "tangent."),
    Function("asin", 1, "float", "arc sine."),
    Function("acos", 1, "float", "arc cosine."),
    Function("atan", 1, "float", "arc tangent."),
    Function("sinh", 1, "float", "hyperbolic sine."),
    Function("cosh", 1, "float", "hyperbolic cosine."),
    Function("asinh", 1, "float", "inverse hyperbolic sine."),
    Function("acosh", 1, "float", "inverse hyperbolic cosine."),
    Function("atanh", 1, "float", "inverse hyperbolic tangent."),
    Function("floor", 1, "float", "round down."),
    Function("ceil", 1, "float", "round up."),
    Function("trunc", 1, "float", "round toward zero."),
    Function("round", 1, "float", "round half to even."),
    Function("isnan", 1, "float", "whether a is NaN.", to_bool=True),
    Function("isinf", 1, "float", "whether a is an infinity.", to_bool=True),
)  # fmt: skip


MACHINE_FUNCTIONS: tuple[Function, ...] = (
    Function("maxnum", 2, "float", "the larger; where one is NaN the other.", commutative=True),
    Function("minnum", 2, "float", "the smaller; where one is NaN the other.", commutative=True),
    Function("logaddexp", 2, "float", "log(exp(a) + exp(b)), without overflow.", commutative=True),
    Function("mulhi", 2, "whole", "the upper half of the double-width product.", commutative=True),
    Function("rsqrt", 1, "float", "1 / sqrt(a)."),
    Function("div_rn", 2, "float", "a / b, correctly rounded whatever the numerics are."),
    Function("hypot", 2, "float", "sqrt(a^2 + b^2), without overflow, as C99 hypot.", commutative=True),
    Function("copysign", 2, "float", "|a| with the sign of b."),
    Function("cbrt", 1, "float", "cube root."),
    Function("log10", 1, "float", "base-10 logarithm."),
    Function("exp10", 1, "float", "10 to the power a."),
    Function("erfc", 1, "float", "1 - erf(a), accurate where it is small."),
    Function("erfinv", 1, "float", "the inverse of erf."),
    Function("lgamma", 1, "float", "log |gamma(a)|."),
    Function("popcount", 1, "whole", "how many bits are set."),
    Function("clz", 1, "whole", "how many zeros lead; the width for 0."),
)  # fmt: skip
"""What hand-written kernels and reductions ask of a machine: in the block dialect only."""
NO_SIGNED_WRAP = frozenset({"add", "sub", "mul"})
"""Functions of the block dialect with an attribute `nsw`: a promise that the result fits, as C makes it for `int`."""


_ACCEPTED: dict[Takes, Callable[[Scalar], bool]] = {
    "float": lambda e: e.is_float,
    "integer": lambda e: e.is_integer,
    "whole": lambda e: e.is_integer and e.bits >= 8,
    "number": lambda e: e != BOOL,
    "bool": lambda e: e == BOOL,
    "logical": lambda e: not e.is_float,
    "any": lambda _: True,
}


def accepts(takes: Takes, elem: Scalar) -> bool:
    """Whether an elementwise function over `takes` is defined on `elem`."""
    return _ACCEPTED[takes](elem)


def declare(
    prefix: str,
    elem_of: Callable[[Type], Scalar],
    with_elem: Callable[[Type, Scalar], Type],
    functions: Sequence[Function] = FUNCTIONS,
    no_wrap: Collection[str] = (),
) -> dict[str, OpDef]:
    """Declare `<prefix>.<name>` for every function of a table; those in `no_wrap` have an attribute `nsw`.

    `elem_of` gives an operand's element or raises; `with_elem` gives the type of the same shape with another one.
    """

    def check(fn: Function, types: tuple[Type, ...]) -> Type:
        for t in types[1:]:
            if t != types[0]:
                raise VerifyError(f"operand types differ: {' and '.join(map(str, types))}")
        elem = elem_of(types[0])
        if not accepts(fn.takes, elem):
            raise VerifyError(
                f"operand must have {'an' if fn.takes == 'integer' else 'a'} {fn.takes} element, got {types[0]}"
            )
        return with_elem(types[0], BOOL) if fn.to_bool else types[0]

    out: dict[str, OpDef] = {}
    for fn in functions:
        traits = [Trait.PURE, Trait.ELEMENTWISE]
        traits += [Trait.COMMUTATIVE] if fn.commutative else []
        out[fn.name] = opdef(f"{prefix}.{fn.name}", *traits)(
            _type_rule(fn, check, elem_of if fn.name in no_wrap else None)
        )
    return out


def _type_rule(
    fn: Function, check: Callable[[Function, tuple[Type, ...]], Type], wraps: Callable[[Type], Scalar] | None
) -> Callable[..., Type]:
    """The rule of a function; of one whose wrapping can be ruled out, `wraps` gives an operand's element."""

    def unary(a: Type) -> Type:
        return check(fn, (a,))

    def binary(a: Type, b: Type) -> Type:
        return check(fn, (a, b))

    def arithmetic(a: Type, b: Type, *, nsw: bool = False) -> Type:
        out = check(fn, (a, b))
        if nsw and wraps is not None and not wraps(a).is_signed:
            raise VerifyError(f"nsw is a promise about signed integers, got {a}")
        return out

    rule = arithmetic if wraps is not None else unary if fn.arity == 1 else binary
    rule.__doc__ = fn.doc + (" `nsw` promises that none does that matters." if wraps is not None else "")
    return rule


REDUCE_KINDS = ("sum", "prod", "max", "min", "any", "all", "logaddexp")
BITWISE_KINDS = ("and", "or", "xor")
MACHINE_REDUCE_KINDS = (*REDUCE_KINDS, "maxnum", "minnum", *BITWISE_KINDS)
"""Those of the block dialect: also extremes that ignore NaN, and what combines bits."""
SCAN_KINDS = ("sum", "prod", "max", "min", "logaddexp")
ROUNDED_KINDS = frozenset({"sum", "prod", "logaddexp"})
"""Those that round floats at each step: partial results are wide."""
DEAR_KINDS = frozenset({"logaddexp"})
"""Each combination is dozens of instructions: what a thread does to its elements is the time."""


COMBINE = {
    "sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and", "maxnum": "maxnum",
    "minnum": "minnum", "logaddexp": "logaddexp", **{kind: kind for kind in BITWISE_KINDS},
}  # fmt: skip
"""The function that a reduction repeats."""


def neutral(kind: str, elem: Scalar) -> bool | float:
    """The value that changes nothing under a reduction of that kind."""
    if kind in ("any", "all"):
        return kind == "all"
    if kind == "and":
        return -1 if elem.is_signed else elem.limits[1]
    if kind in ("sum", "prod", "or", "xor"):
        return float(kind == "prod") if elem.is_float else int(kind == "prod")
    if kind in ("maxnum", "minnum"):
        return math.nan
    if elem.is_float:
        return math.inf if kind == "min" else -math.inf
    return elem.limits[0 if kind == "max" else 1]


def check_reduce_kind(kind: str, elem: Scalar, kinds: Sequence[str] = REDUCE_KINDS) -> None:
    """`any` and `all` combine bools, kinds of bits integers, `maxnum`, `minnum`, `logaddexp` floats, others numbers."""
    if kind not in kinds:
        raise VerifyError(f"kind must be one of {', '.join(kinds)}, got {kind}")
    fits = {"any": elem == BOOL, "all": elem == BOOL} | dict.fromkeys(BITWISE_KINDS, elem.is_integer)
    fits |= dict.fromkeys(("maxnum", "minnum", "logaddexp"), elem.is_float)
    if not fits.get(kind, elem != BOOL):
        raise VerifyError(f"kind {kind} does not combine {elem}")
