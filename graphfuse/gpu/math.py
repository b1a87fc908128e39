"""Elementwise functions of floats on NVIDIA GPUs: the special function unit where it is accurate enough.

f32 goes by `_FORMS`, f16 and bf16 by shorter ones (`_NARROW`) where what those lose is far below their last bit; f64,
everything under `numerics = "strict"`, and functions without a form of their own by the polynomials of `vecmath`.
Arithmetic on halves is native: one instruction rounds as f32 and a conversion would.

Instructions for one element (conversions included), the largest error of f32 in ulp with a unit that rounds correctly
(tests/gpu/test_arith.py), and with one as far off as its documentation allows (PTX ISA, floating point instructions:
`ex2.approx` and `div.full` 2 ulp, `rcp.approx` and `sqrt.approx` 1 ulp, `rsqrt.approx` 2^-22.9, `tanh.approx` 2^-11,
`lg2.approx` 2^-22, absolute near 1):

            f32  bf16  f16    error  at worst
    exp       9     4    4     1.4      3
    exp2      1     3    3     0.5      2
    sigmoid  19     7    6     2.3      5
    tanh     16     3    3     1.5      2.6
    erf      20    27   27     1.2      1.5
    log      26     4    4     0.9      0.9
    log2     29     3    3     0.9      0.9
    div       1     4    5     0.5      2
    1/sqrt    1     -    -     0.5      2
    sin      25    28   25     1.5      1.5   (and 35 more in a branch for f32 and bf16 beyond 10^5)

Halves are within 0.7 ulp, tanh of f16 within 1.5. Where an f32 is only rounded to a half afterwards (`gpu.short`), exp
takes 2 instructions and sigmoid 5, within 2^-16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

from graphfuse.codegen import arith, convert, vecmath, vecmath_trig
from graphfuse.codegen.kernel import Function
from graphfuse.codegen.vecmath_emit import Code, Value, VectorFunction
from graphfuse.codegen.vecmath_format import FORMATS, odd_poly
from graphfuse.dialects import block, gpu
from graphfuse.gpu.kernel import FUNCTIONS, Kernel, lowers
from graphfuse.gpu.math_emit import GpuCode
from graphfuse.gpu.math_trig import reduce_angle
from graphfuse.ir import core
from graphfuse.ir.types import BF16, F16, F32, F64, Scalar
from graphfuse.llvm.module import Reg

_PARTS = FORMATS["f32"].parts
_TABLE = FORMATS["f32"].table
_LOG2E, _LOG2E_LOW = _PARTS["log2e"]
_INF = float("inf")

Form = Callable[[GpuCode, Value], Value]


# f32


def _exp(c: GpuCode, x: Value) -> Value:
    """2^n 2^r, x log2(e) = n + r, n clamped to normal exponents: r takes what is left of large x, to 0 or inf."""
    near = c.unit("fma.sat", x, c.constant(_LOG2E / 252, "f32"), c.constant(0.5, "f32"))
    shifted = c.fma(near, 252.0, 1.5 * 2.0**23 + 1)  # the low bits are n + 127
    minus_n = 1.5 * 2.0**23 + 127 - shifted
    r = c.fma(x, _LOG2E_LOW, c.fma(x, _LOG2E, minus_n))
    return c.unit("ex2.ftz", r) * (shifted.bits() << 23).as_float()


def _unit(name: str) -> Form:
    """The instruction, subnormals included."""
    return lambda c, x: c.unit(name, x)


def _sigmoid(c: GpuCode, x: Value) -> Value:
    """(x < 0 ? e : 1) / (1 + e), e = exp(-|x|), the quotient corrected by its remainder."""
    e = _exp(c, -x.abs())
    numerator, denominator = c.select(x < 0.0, e, 1.0), e + 1.0
    inverse = c.unit("rcp.ftz", denominator)
    quotient = numerator * inverse
    return c.fma(c.fma(-quotient, denominator, numerator), inverse, quotient)


def _tanh(c: GpuCode, x: Value) -> Value:
    """x + x^3 p(x^2) below 0.625, else 1 - 2 / (exp(2x) + 1) (Cephes)."""
    a = x.abs()
    e = c.unit("ex2.ftz", a * (2 * _LOG2E))
    large = c.fma(c.unit("rcp.ftz", e + 1.0), -2.0, 1.0)
    return c.select(a < 0.625, odd_poly(c, a, "tanh"), large).with_sign_of(x)


def _erf(c: GpuCode, x: Value) -> Value:
    """x + x p(x^2) for small x, else 1 - 2^q(x) (after Juffa)."""
    fmt = FORMATS["f32"]
    a = c.at_most(x.abs(), fmt.erf_top)
    large = 1.0 - c.unit("ex2.ftz", c.poly(a, _TABLE["erfc_log2"]))
    small = c.fma(x, c.poly(x * x, _TABLE["erf"]), x)
    return c.select(a < fmt.erf_split, small, large.with_sign_of(x))


def _split(c: GpuCode, x: Value) -> tuple[Value, Value]:
    """x = 2^k (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), for finite x > 0."""
    tiny = x < 2.0**-126
    root = 0x3F3504F3
    moved = c.select(tiny, x * 2.0**23, x).bits()
    exponent = (moved - root) & -(1 << 23)
    k = c.fma(c.cast("sitofp", exponent, "f32"), 2.0**-23, c.select(tiny, -23.0, 0.0))
    return k, (moved - exponent).as_float() - 1.0


def _log_slope(c: GpuCode, f: Value) -> Value:
    """(log(1 + f) - f) / f^2."""
    return c.fma(f, c.poly(f, _TABLE["log"]), -0.5)


def _log_ends(c: GpuCode, x: Value, result: Value) -> Value:
    """NaN below 0, -inf at 0, x at inf and NaN."""
    # bits as an unsigned integer: LLVM makes long tests of classes out of comparisons with inf
    special = c.emit("i1", f"icmp ugt {x.bits().typed}, {0x7F7FFFFF}")
    ended = c.select(special, c.fma(x, _INF, _INF), result)
    return c.select(x.is_(0.0), -_INF, ended)


def _log(c: GpuCode, x: Value) -> Value:
    """k ln 2 + log(1 + f): `lg2.approx` has no relative accuracy near 1."""
    k, f = _split(c, x)
    return _log_ends(c, x, c.fma(k, _PARTS["ln2"][0], c.fma(f * f, _log_slope(c, f), f)))


def _log2(c: GpuCode, x: Value) -> Value:
    """k + log(1 + f) log2(e), the product in two parts."""
    k, f = _split(c, x)
    tail = c.fma(f * f * _log_slope(c, f), _LOG2E, f * _LOG2E_LOW)
    return _log_ends(c, x, k + c.fma(f, _LOG2E, tail))


def _trig(finish: Callable[[Code, Value, Value, Value], Value], *, any_size: bool = True) -> Form:
    return lambda c, x: finish(c, x, *reduce_angle(c, x, any_size=any_size))


_TRIG: dict[str, Callable[[Code, Value, Value, Value], Value]] = {
    "sin": vecmath_trig.sin_of, "cos": vecmath_trig.cos_of, "tan": vecmath_trig.tan_of,
}  # fmt: skip
_FORMS: dict[str, Form] = {
    "exp": _exp, "exp2": _unit("ex2"), "sigmoid": _sigmoid, "tanh": _tanh, "erf": _erf, "log": _log, "log2": _log2,
}  # fmt: skip


# f16 and bf16, in f32 registers


def _short_exp(c: GpuCode, x: Value, *, unit: str) -> Value:
    """2^(x log2(e)): the exponent's rounding costs |x| 2^-24."""
    return c.unit(unit, x * _LOG2E)


def _short_sigmoid(c: GpuCode, x: Value) -> Value:
    """1 / (1 + exp(-x)), for f16 only: results below 2^-126 are 0."""
    return c.unit("rcp.ftz", c.unit("ex2.ftz", x * -_LOG2E) + 1.0)


def _scaled_sigmoid(c: GpuCode, x: Value) -> Value:
    """2^-24 / (2^-24 + 2^-24 exp(-x)): what the unit takes for 0 is then below the least subnormal number."""
    e = c.unit("ex2.ftz", c.fma(x, -_LOG2E, -24.0))
    return c.unit("rcp.ftz", e + 2.0**-24) * 2.0**-24


_HALF: dict[str, Form] = {
    "exp2": _unit("ex2"), "tanh": _unit("tanh"), "sqrt": _unit("sqrt"),
    "log": lambda c, x: c.unit("lg2", x) * _PARTS["ln2"][0], "log2": _unit("lg2"),
}  # fmt: skip
_NARROW: dict[Scalar, dict[str, Form]] = {
    F16: _HALF
    | {"exp": partial(_short_exp, unit="ex2.ftz"), "sigmoid": _short_sigmoid}
    | {name: _trig(f, any_size=False) for name, f in _TRIG.items()},  # below `trig_top`
    BF16: _HALF | {"exp": partial(_short_exp, unit="ex2"), "sigmoid": _scaled_sigmoid},
}


# f32 to 2^-16, for results that are rounded to a half

_SHORT: dict[str, Form] = {"exp": partial(_short_exp, unit="ex2"), "sigmoid": _scaled_sigmoid, "exp2": _unit("ex2.ftz")}


@lowers(gpu.short)
def lower_short(kernel: Kernel, op: core.Op) -> None:
    """The exponent's rounding makes up most of the error: 2^-24 |x| log2(e) ln(2), |x| below 105."""
    name = op.attrs["function"]
    assert isinstance(name, str), "checked by the type rule"
    fn = _define(name, F32, precise=True) if _strict(kernel) else _written(f"gf.{name}.short", F32, _SHORT[name])
    assert fn is not None, "each has a form"
    kernel.set(op, [arith.call(kernel, fn, [x]) for x in kernel.registers(op.operands[0]).vectors])


@cache
def _written(symbol: str, elem: Scalar, form: Form, *, precise: bool = False) -> VectorFunction:
    code = GpuCode(symbol, elem.name, 1, precise=precise)
    return code.function(("x",), form(code, Value(code, "%x", elem.name)))


# which form, and calls


def _strict(kernel: Kernel) -> bool:
    return kernel.func.attrs.get("numerics") == "strict"


@cache
def _define(name: str, elem: Scalar, *, precise: bool) -> VectorFunction | None:
    """A function on f32 (also for narrower elements) or f64."""
    wide = F64 if elem == F64 else F32
    form: Form | None = _trig(_TRIG[name]) if name in _TRIG else None
    if not precise and wide == F32:
        form = _NARROW.get(elem, {}).get(name) or _FORMS.get(name) or form
    form = form or vecmath.BODIES.get(name)
    symbol = f"gf.{name}.{elem}{'.precise' if precise else ''}"
    return None if form is None else _written(symbol, wide, form, precise=precise)


def _mathematical(name: str) -> Function:
    def emit(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg | None:
        wide = F64 if elem == F64 else F32
        made = _define(name, elem, precise=_strict(kernel) or elem == F64)
        if made is None:
            return None
        out = arith.call(kernel, made, [convert.float_to_float(kernel, x, elem, wide) for x in xs])
        return convert.float_to_float(kernel, out, wide, elem)

    return emit


# arithmetic

NATIVE = {F16: "half", BF16: "bfloat"}
"""What LLVM calls halves, which instructions take as they are."""


def _half_arithmetic(instruction: str) -> Function:
    """On halves as they are: the result is that of f32 arithmetic rounded once (24 bits >= 2 * 11 + 2)."""

    def emit(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg | None:
        if elem not in NATIVE:
            return None
        values = [kernel.convert("bitcast", x, NATIVE[elem]) for x in xs]
        if instruction.startswith("llvm."):
            out = kernel.intrinsic(instruction.removeprefix("llvm."), NATIVE[elem], *values)
        else:
            out = kernel.binary(instruction, values[0], values[1])
        return kernel.convert("bitcast", out, "i16")

    return emit


def _sign_bit(instruction: str, mask: int) -> Function:
    def emit(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg | None:
        return kernel.binary(instruction, xs[0], mask) if elem in NATIVE else None

    return emit


def _divide(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg | None:
    """f32 to 2 ulp; f16 by the reciprocal, whose error is far below its last bit."""
    if elem == F64 or _strict(kernel):
        return None
    a, b = (convert.float_to_float(kernel, x, elem, F32) for x in xs)
    if _has_exact_reciprocal(b):
        out = kernel.binary("fdiv", a, b)  # a product
    elif elem == F16 and b.text.startswith("%"):
        out = kernel.binary("fmul", a, kernel.intrinsic("nvvm.rcp.approx.ftz", "float", b, overload="f"))
    else:
        out = kernel.intrinsic("nvvm.div", "float", a, b, overload="full")
    return convert.float_to_float(kernel, out, F32, elem)


def _rsqrt(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg | None:
    """The instruction, for narrow floats too."""
    if elem == F64 or _strict(kernel):
        return None
    x = convert.float_to_float(kernel, xs[0], elem, F32)
    return convert.float_to_float(kernel, kernel.intrinsic("nvvm.rsqrt.approx", "float", x, overload="f"), F32, elem)


def _has_exact_reciprocal(x: Reg) -> bool:
    """Whether it is the constant of a normal power of two, whose reciprocal is one too."""
    if x.text.startswith("%"):
        return False
    bits = int(x.text, 16)
    return bits & 0xFFFFFFFFFFFFF == 0 and 1023 - 126 <= bits >> 52 & 0x7FF <= 1023 + 126


@lowers(block.ELEMENTWISE["div"])
def lower_div(kernel: Kernel, op: core.Op) -> None:
    """1 / sqrt(x) in f32 is an instruction, and what is rounded to an integer is exact; see `_divide` for the rest."""
    if block.elem_of(op.result.type) == F32 and op.result in kernel.stepped:
        xs, ys = (kernel.registers(v).vectors for v in op.operands)
        kernel.set(op, [kernel.binary("fdiv", x, y) for x, y in zip(xs, ys, strict=True)])
        return
    one, root = op.operands
    is_root = root.op is not None and root.op.kind is block.ELEMENTWISE["sqrt"]
    if not (is_root and _is_one(one)) or block.elem_of(root.type) != F32 or _strict(kernel):
        arith.lower_elementwise(kernel, op)
        return
    assert root.op is not None, "an op's result"
    xs = kernel.registers(root.op.operands[0]).vectors
    kernel.set(op, [kernel.intrinsic("nvvm.rsqrt.approx", "float", x, overload="f") for x in xs])


def _is_one(value: core.Value) -> bool:
    op = value.op
    while op is not None and op.kind in (block.splat, block.broadcast):
        op = op.operands[0].op
    return op is not None and op.kind is block.const and op.attrs["value"] == 1


FUNCTIONS.update({name: _mathematical(name) for name in (*vecmath.BODIES, "sqrt")})
FUNCTIONS.update({name: _half_arithmetic(f"f{name}") for name in ("add", "sub", "mul")})
FUNCTIONS.update({
    "fma": _half_arithmetic("llvm.fma"), "max": _half_arithmetic("llvm.maximum"),
    "min": _half_arithmetic("llvm.minimum"), "neg": _sign_bit("xor", -0x8000), "abs": _sign_bit("and", 0x7FFF),
    "div": _divide, "rsqrt": _rsqrt,
})  # fmt: skip
