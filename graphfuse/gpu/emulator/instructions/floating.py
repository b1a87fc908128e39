"""Floating-point arithmetic (PTX ISA 9.7.3 to 9.7.5): f16, bf16, f32, f64, packed pairs.

The `.approx` functions are computed in float64 and rounded to nearest once, so they are more accurate than the
machine's: tests against hardware need the tolerance that the ISA states.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphfuse.gpu.emulator import floats
from graphfuse.gpu.emulator.decode import Decoder, instruction
from graphfuse.gpu.emulator.gang import Gang, Step
from graphfuse.gpu.emulator.types import TYPES, Array, Binary, Function, PtxType, Unary, by_parts

ROUNDING = ("rn", "rz", "rm", "rp")
_ROUNDS = " ".join(ROUNDING)


def element(kind: PtxType) -> str:
    """The number type that arithmetic happens in."""
    return kind.element or kind.name


def _finish(d: Decoder) -> Unary:
    """What happens to a result: flushing, saturation to [0, 1], relu."""
    kind = element(d.type())
    ftz = "ftz" in d.mods and kind == "f32"
    saturate, relu = "sat" in d.mods, "relu" in d.mods

    def finish(x: Array) -> Array:
        if ftz:
            x = floats.flush(x)
        if saturate:
            x = floats.saturated(x)
        if relu:
            x = floats.relu(x)
        return floats.canonical(x, kind)

    return finish


def _apply(d: Decoder, function: Function | Callable[..., Array], inputs: int) -> Step:
    apply: Callable[..., Array] = function
    kind, finish, mixed = d.type(0), _finish(d), len(d.types) > 1
    name, flush = element(kind), "ftz" in d.mods
    # add.f32.f16 and its kin: all but the last operand are narrower
    kinds = [*[d.type()] * (inputs - 1), kind] if mixed else [kind] * inputs

    def whole(*numbers: Array) -> Array:
        if mixed:
            numbers = tuple(x.astype(np.float32) for x in numbers)
        if flush and name == "f32":
            numbers = tuple(map(floats.flush, numbers))
        return finish(apply(*numbers))

    compute = d.compute(by_parts(kind, whole), *kinds)
    flops = {"fma": 2, "mad": 2}.get(d.name, 1) * (2 if kind.element else 1)

    def step(g: Gang) -> None:
        compute(g)
        g.machine.report.count_flops(name, flops * (g.mask.size if g.full else int(g.mask.sum())))

    return step


def _kind_and_mode(d: Decoder, index: int = -1) -> tuple[str, str]:
    """The number type of the operation, and how it rounds."""
    kind, mode = element(d.type(index)), d.choice(ROUNDING, "rn")
    if kind == "f64" and mode != "rn":
        raise d.error("only .rn is emulated for f64")
    return kind, mode


@instruction("add", "sub", "mul", mods=f"{_ROUNDS} ftz sat noftz", floats=True)
def add_sub_mul(d: Decoder) -> Step:
    """add, sub, mul."""
    kind, mode = _kind_and_mode(d, 0)
    native: Binary = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[d.name]
    if kind in ("f32", "f64") and mode == "rn":
        return _apply(d, native, 2)

    def exact(a: Array, b: Array) -> Array:
        x, y = a.astype(np.float64), b.astype(np.float64)
        wide = x * y if d.name == "mul" else floats.add_odd(*np.broadcast_arrays(x, y if d.name == "add" else -y))
        return floats.narrow(wide, kind, mode)

    return _apply(d, exact, 2)


@instruction("fma", "mad", mods=f"{_ROUNDS} ftz sat relu noftz", floats=True)
def fma(d: Decoder) -> Step:
    """fma, and mad of floats, which is the same."""
    kind, mode = _kind_and_mode(d, 0)
    if kind == "f64":
        return _apply(d, floats.fma_f64, 3)
    if kind == "f32" and mode == "rn":
        return _apply(d, floats.fma_f32, 3)

    def exact(a: Array, b: Array, c: Array) -> Array:
        x, y, z = np.broadcast_arrays(*(v.astype(np.float64) for v in (a, b, c)))
        return floats.narrow(floats.fma_odd(x, y, z), kind, mode)

    return _apply(d, exact, 3)


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


@instruction("div", mods=f"{_ROUNDS} approx full ftz", floats=True)
@instruction(*_FUNCTIONS, mods=f"{_ROUNDS} approx ftz", floats=True)
def function(d: Decoder) -> Step:
    """Computed in float64 and rounded once: exact for div, rcp and sqrt of f32 and narrower, `.approx` or not."""
    kind, mode = _kind_and_mode(d)
    compute: Callable[..., Array] = _FUNCTIONS.get(d.name, np.divide)

    def rounded(*numbers: Array) -> Array:
        return floats.narrow(compute(*(x.astype(np.float64) for x in numbers)), kind, mode)

    return _apply(d, rounded, 2 if d.name == "div" else 1)


@instruction("min", "max", mods="ftz NaN", floats=True)
def min_max(d: Decoder) -> Step:
    """min, max: the number of a number and NaN, unless `.NaN`; -0 is below +0."""
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

    if len(d.ops) == 4:
        return _apply(d, lambda a, b, c: choose(choose(a, b), c), 3)
    return _apply(d, choose, 2)


@instruction("abs", "neg", mods="ftz noftz", floats=True)
def sign(d: Decoder) -> Step:
    """abs, neg."""
    top = 1 << (TYPES[element(d.type())].bits - 1)

    def change(x: Array) -> Array:
        bits = x.view(f"u{x.dtype.itemsize}")
        high = bits.dtype.type(top)
        return ((bits & ~high) if d.name == "abs" else (bits ^ high)).view(x.dtype)

    return _apply(d, change, 1)


@instruction("copysign", floats=True)
def copysign(d: Decoder) -> Step:
    """copysign: the sign of a on the magnitude of b."""
    return _apply(d, lambda a, b: np.copysign(b, a), 2)


_CLASSES: dict[str, Unary] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda x: ~np.isnan(x),
    "notanumber": np.isnan,
    "normal": lambda x: np.isfinite(x) & ((np.abs(x) >= np.finfo(x.dtype).tiny) | (x == 0)),
    "subnormal": lambda x: (np.abs(x) < np.finfo(x.dtype).tiny) & (x != 0),
}


@instruction("testp", mods=" ".join(_CLASSES), floats=True)
def testp(d: Decoder) -> Step:
    """testp: what class a number is of."""
    name = d.choice(_CLASSES)
    if not name:
        raise d.error("expected a class of numbers")
    return d.compute(_CLASSES[name], d.type())
