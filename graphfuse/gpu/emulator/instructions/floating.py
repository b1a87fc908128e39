"""Floating-point arithmetic (PTX ISA 9.7.3 to 9.7.5): f16, bf16, f32, f64, packed pairs.

The `.approx` functions are computed in float64 and rounded to nearest once, so they are more accurate than the
machine's: tests against hardware need the tolerance that the ISA states.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphfuse.gpu.emulator import floats
from graphfuse.gpu.emulator.decode import Decoder, Source
from graphfuse.gpu.emulator.gang import Gang, Step
from graphfuse.gpu.emulator.parse import Operand
from graphfuse.gpu.emulator.types import TYPES, Array, Binary, PtxType, Unary

Function = Callable[..., Array]
ROUNDING = ("rn", "rz", "rm", "rp")


def element(kind: PtxType) -> str:
    """The number type that arithmetic happens in."""
    return kind.element or kind.name


def source(d: Decoder, operand: Operand, kind: PtxType) -> Source:
    """Reads numbers; of packed types with one more axis."""
    read = d.source(operand, kind)
    if not kind.element:
        return read
    part = TYPES[kind.element].dtype
    return lambda g: np.ascontiguousarray(read(g))[..., None].view(part)


def packed(kind: PtxType, x: Array) -> Array:
    """Numbers as the register has them."""
    if not kind.element:
        return x
    return np.ascontiguousarray(x).view(kind.dtype)[..., 0]


def _finish(d: Decoder) -> Unary:
    """What happens to a result: flushing, saturation to [0, 1], relu."""
    kind = element(d.type())
    ftz = "ftz" in d.mods and kind == "f32"
    saturate, relu = "sat" in d.mods, "relu" in d.mods

    def finish(x: Array) -> Array:
        if ftz:
            x = floats.flush(x)
        if saturate:
            x = np.where(np.isnan(x), x.dtype.type(0), np.clip(x, x.dtype.type(0), x.dtype.type(1)))
        if relu:
            x = floats.relu(x)
        return floats.canonical(x, kind)

    return finish


def _mode(d: Decoder) -> str:
    return next((m for m in d.mods if m in ROUNDING), "rn")


def _apply(d: Decoder, function: Function, inputs: int) -> Step:
    kind = d.type(0)
    ops = d.operands(inputs + 1)
    sources = [source(d, op, kind) for op in ops[1:]]
    if len(d.types) > 1:  # add.f32.f16 and its kin: all but the last operand are narrower
        sources = [*(_widened(source(d, op, d.type())) for op in ops[1:-1]), sources[-1]]
    if "ftz" in d.mods and element(kind) == "f32":
        sources = [_flushed(s) for s in sources]
    put, finish = d.sink(ops[0]), _finish(d)
    machine = d.machine
    flops = {"fma": 2, "mad": 2}.get(d.name, 1) * (2 if kind.element else 1)
    name = element(kind)

    def step(g: Gang) -> None:
        put(g, packed(kind, finish(function(*(s(g) for s in sources)))))
        count = machine.report.flops
        count[name] = count.get(name, 0.0) + flops * (g.mask.size if g.full else int(g.mask.sum()))

    return step


def _widened(read: Source) -> Source:
    return lambda g: read(g).astype(np.float32)


def _flushed(read: Source) -> Source:
    return lambda g: floats.flush(read(g))


def add_sub_mul(d: Decoder) -> Step:
    """add, sub, mul."""
    d.only((*ROUNDING, "ftz", "sat", "noftz"))
    kind, mode = element(d.type(0)), _mode(d)
    native: Binary = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[d.name]
    if kind in ("f32", "f64") and mode == "rn":
        return _apply(d, native, 2)
    if kind == "f64":
        raise d.error("only .rn is emulated for f64")

    def exact(a: Array, b: Array) -> Array:
        x, y = a.astype(np.float64), b.astype(np.float64)
        wide = x * y if d.name == "mul" else floats.add_odd(*np.broadcast_arrays(x, y if d.name == "add" else -y))
        return floats.narrow(wide, kind, mode)

    return _apply(d, exact, 2)


def fma(d: Decoder) -> Step:
    """fma, and mad of floats, which is the same."""
    d.only((*ROUNDING, "ftz", "sat", "relu", "noftz"))
    kind, mode = element(d.type(0)), _mode(d)
    if kind == "f64":
        if mode != "rn":
            raise d.error("only .rn is emulated for f64")
        return _apply(d, floats.fma_f64, 3)
    if kind == "f32" and mode == "rn":
        return _apply(d, floats.fma_f32, 3)

    def exact(a: Array, b: Array, c: Array) -> Array:
        x, y, z = np.broadcast_arrays(*(v.astype(np.float64) for v in (a, b, c)))
        return floats.narrow(floats.fma_odd(x, y, z), kind, mode)

    return _apply(d, exact, 3)


def _from_f64(d: Decoder, function: Function, inputs: int) -> Step:
    """A function computed in float64 and rounded once: exact for div, rcp and sqrt of f32 and narrower."""
    kind, mode = element(d.type()), _mode(d)
    if kind == "f64" and mode != "rn":
        raise d.error("only .rn is emulated for f64")

    def rounded(*numbers: Array) -> Array:
        return floats.narrow(function(*(x.astype(np.float64) for x in numbers)), kind, mode)

    return _apply(d, rounded, inputs)


def divide(d: Decoder) -> Step:
    """div: `.rn` and the rest exact, `.approx` and `.full` as if `.rn`."""
    d.only((*ROUNDING, "approx", "full", "ftz"))
    return _from_f64(d, np.divide, 2)


_FUNCTIONS: dict[str, Unary] = {
    "rcp": lambda x: 1.0 / x,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}


def function(d: Decoder) -> Step:
    """rcp, sqrt, rsqrt, ex2, lg2, sin, cos, tanh."""
    d.only((*ROUNDING, "approx", "ftz"))
    return _from_f64(d, _FUNCTIONS[d.name], 1)


def min_max(d: Decoder) -> Step:
    """min, max: the number of a number and NaN, unless `.NaN`; -0 is below +0."""
    d.only(("ftz", "NaN"))
    smallest, propagate = d.name == "min", "NaN" in d.mods

    def choose(a: Array, b: Array) -> Array:
        less = a < b
        pick = np.where(less if smallest else b < a, a, b)
        equal = a == b
        if equal.any():
            pick = np.where(equal & (np.signbit(a) == smallest), a, pick)
        nan_a, nan_b = np.isnan(a), np.isnan(b)
        if nan_a.any() or nan_b.any():
            pick = np.where(nan_a, a if propagate else b, np.where(nan_b, b if propagate else a, pick))
        return pick

    def choose3(a: Array, b: Array, c: Array) -> Array:
        return choose(choose(a, b), c)

    return _apply(d, choose3, 3) if len(d.ops) == 4 else _apply(d, choose, 2)


def sign(d: Decoder) -> Step:
    """abs, neg."""
    d.only(("ftz", "noftz"))
    kind = d.type()
    top = 1 << (TYPES[element(kind)].bits - 1)

    def change(x: Array) -> Array:
        bits = x.view(f"u{x.dtype.itemsize}")
        high = bits.dtype.type(top)
        return ((bits & ~high) if d.name == "abs" else (bits ^ high)).view(x.dtype)

    return _apply(d, change, 1)


def copysign(d: Decoder) -> Step:
    """copysign: the sign of a on the magnitude of b."""
    d.only(())

    def signed(a: Array, b: Array) -> Array:
        return np.copysign(b, a)

    return _apply(d, signed, 2)


def testp(d: Decoder) -> Step:
    """testp: what class a number is of."""
    tests: dict[str, Unary] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda x: ~np.isnan(x),
        "notanumber": np.isnan,
        "normal": lambda x: np.isfinite(x) & ((np.abs(x) >= np.finfo(x.dtype).tiny) | (x == 0)),
        "subnormal": lambda x: (np.abs(x) < np.finfo(x.dtype).tiny) & (x != 0),
    }
    d.only(tests)
    ops = d.operands(2)
    read, put = d.source(ops[1], d.type()), d.sink(ops[0])
    test = next((tests[m] for m in d.mods if m in tests), None)
    if test is None:
        raise d.error("expected a class of numbers")
    return lambda g: put(g, test(read(g)))


TABLE = {
    "add": add_sub_mul,
    "sub": add_sub_mul,
    "mul": add_sub_mul,
    "fma": fma,
    "mad": fma,
    "div": divide,
    **dict.fromkeys(_FUNCTIONS, function),
    "min": min_max,
    "max": min_max,
    "abs": sign,
    "neg": sign,
    "copysign": copysign,
    "testp": testp,
}
