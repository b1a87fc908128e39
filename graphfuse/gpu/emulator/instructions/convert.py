"""mov, cvt, cvta and what else changes a value's form (PTX ISA 9.7.9)."""

from __future__ import annotations

import numpy as np

from graphfuse.gpu.emulator import floats
from graphfuse.gpu.emulator.decode import LOCAL_WINDOW, SHARED_WINDOW, Decoder, instruction
from graphfuse.gpu.emulator.gang import Gang, Step
from graphfuse.gpu.emulator.instructions import floating
from graphfuse.gpu.emulator.types import TYPES, UNSIGNED, Array, PtxType, Unary, packed, unpacked

_INTEGER_ROUNDING = {f"{mode}i": floats.ROUNDING[mode] for mode in ("rn", "rz", "rm", "rp")}


@instruction("mov")
def mov(d: Decoder) -> Step:
    """mov: a register, a literal, a variable's address; vectors pack and unpack."""
    to, value = d.operands(2)
    kind = d.type()
    if to.kind == "vec":
        return _unpack(d, kind)
    if value.kind == "vec":
        return _pack(d, kind)
    put, read = d.sink(to), d.source_or_address(value, kind)
    return lambda g: put(g, read(g))


def _unpack(d: Decoder, kind: PtxType) -> Step:
    to, value = d.ops
    part = UNSIGNED[kind.bits // len(to.items)]
    read, puts = d.source(value, kind), [d.sink(o) for o in to.items]

    def step(g: Gang) -> None:
        parts = np.ascontiguousarray(read(g)[..., None]).view(part)
        for k, put in enumerate(puts):
            put(g, parts[..., k])

    return step


def _pack(d: Decoder, kind: PtxType) -> Step:
    to, value = d.ops
    part, whole = f"b{kind.bits // len(value.items)}", UNSIGNED[kind.bits]
    reads, put = [d.source(o, part) for o in value.items], d.sink(to)

    def step(g: Gang) -> None:
        parts = np.stack(np.broadcast_arrays(*(r(g) for r in reads)), axis=-1)
        put(g, np.ascontiguousarray(parts).view(whole)[..., 0])

    return step


@instruction("cvt", mods=" ".join((*_INTEGER_ROUNDING, *floats.ROUNDING, "ftz sat satfinite relu")))
def cvt(d: Decoder) -> Step:
    """cvt: every pair of types, rounded once; of two f32 the first goes to the high half."""
    to, of = d.types
    convert = _conversion(d, TYPES[floating.element(to)], TYPES[floating.element(of)])
    if not to.element or of.element:
        return d.compute(lambda x: packed(to, convert(unpacked(of, x))), of)

    def both(high: Array, low: Array) -> Array:
        return packed(to, convert(np.stack(np.broadcast_arrays(low, high), axis=-1)))

    return d.compute(both, of, of)


def _conversion(d: Decoder, to: PtxType, of: PtxType) -> Unary:
    mode = d.choice(floats.ROUNDING, "rn")
    integral = _INTEGER_ROUNDING.get(d.choice(_INTEGER_ROUNDING))
    if of.is_float and to.is_float:
        return _float_to_float(d, to, of, mode, integral)
    if of.is_float:
        if integral is None:
            raise d.error("expected .rni, .rzi, .rmi or .rpi")
        return _float_to_integer(to, integral, ftz="ftz" in d.mods and of.name == "f32")
    if to.is_float and (mode != "rn" or to.bits < 32):
        return lambda x: floats.narrow(x.astype(np.float64), to.name, mode)
    if to.is_float or "sat" not in d.mods:
        return lambda x: x.astype(to.dtype)
    limits, have = np.iinfo(to.dtype), np.iinfo(of.dtype)
    low, high = max(limits.min, have.min), min(limits.max, have.max)
    return lambda x: np.clip(x, of.dtype.type(low), of.dtype.type(high)).astype(to.dtype)


def _float_to_integer(to: PtxType, rounding: Unary, *, ftz: bool) -> Unary:
    limits = np.iinfo(to.dtype)

    def convert(x: Array) -> Array:
        rounded = rounding((floats.flush(x) if ftz else x).astype(np.float64))
        above, below, nan = rounded >= float(limits.max), rounded <= float(limits.min), np.isnan(rounded)
        result = np.where(above | below | nan, 0.0, rounded).astype(to.dtype)
        if to.bits == 64:
            result = np.where(nan, np.array(-(1 << 63)).astype(to.dtype), result)
        result = np.where(above, to.dtype.type(limits.max), result)
        return np.where(below, to.dtype.type(limits.min), result)

    return convert


def _float_to_float(d: Decoder, to: PtxType, of: PtxType, mode: str, integral: Unary | None) -> Unary:
    ftz = "ftz" in d.mods
    relu, saturate, unit = "relu" in d.mods, "satfinite" in d.mods, "sat" in d.mods

    def convert(x: Array) -> Array:
        if ftz and of.name == "f32":
            x = floats.flush(x)
        if integral:
            x = integral(x)
        if to.name == of.name and not relu:
            result = x
        elif mode == "rn" and of.bits <= to.bits and to.name in ("f32", "f64"):
            result = floats.canonical(x.astype(to.dtype), to.name)
        else:
            wide = x.astype(np.float64)
            result = floats.narrow(floats.relu(wide) if relu else wide, to.name, mode, saturate=saturate)
        if unit:
            result = floats.saturated(result)
        return floats.flush(result) if ftz and to.name == "f32" else result

    return convert


_WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "global": 0, "const": 0, "param": 0}


@instruction("cvta", mods=".*")
def cvta(d: Decoder) -> Step:
    """cvta, cvta.to: between a state space's addresses and generic ones."""
    names = {m.split("::")[0] for m in d.mods}
    space = next((s for s in _WINDOWS if s in names), None)
    if space is None or d.type().bits != 64:
        raise d.error("expected a state space and a 64-bit type")
    ops = d.operands(2)
    put, read = d.sink(ops[0]), d.source_or_address(ops[1], TYPES["u64"])
    offset = np.uint64(-_WINDOWS[space] % (1 << 64) if "to" in d.mods else _WINDOWS[space])
    return lambda g: put(g, read(g).astype(np.uint64) + offset)


@instruction("isspacep", mods=".*")
def isspacep(d: Decoder) -> Step:
    """isspacep: whether a generic address lies in a state space."""
    space = d.mods[0].split("::")[0]
    if space not in _WINDOWS:
        raise d.error(f"unknown state space '.{space}'")
    edges = {"shared": (SHARED_WINDOW, LOCAL_WINDOW), "local": (LOCAL_WINDOW, 2 * LOCAL_WINDOW)}
    low, high = edges.get(space, (2 * LOCAL_WINDOW, 1 << 62))
    return d.compute(lambda x: (x >= low) & (x < high), "u64")
