"""mov, cvt, cvta and what else changes a value's form (PTX ISA 9.7.9)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphfuse.gpu.emulator import floats
from graphfuse.gpu.emulator.decode import LOCAL_WINDOW, SHARED_WINDOW, Decoder
from graphfuse.gpu.emulator.gang import Gang, Step
from graphfuse.gpu.emulator.instructions import floating
from graphfuse.gpu.emulator.parse import Operand
from graphfuse.gpu.emulator.types import TYPES, UNSIGNED, Array, PtxType

Function = Callable[[Array], Array]
_INTEGER_ROUNDING: dict[str, Function] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_FLOAT_ROUNDING = ("rn", "rz", "rm", "rp", "rna")


def mov(d: Decoder) -> Step:
    """mov: a register, a literal, a variable's address; vectors pack and unpack."""
    d.only(())
    to, value = d.operands(2)
    kind = d.type()
    if to.kind == "vec":
        return _unpack(d, to, value, kind)
    if value.kind == "vec":
        return _pack(d, to, value, kind)
    put = d.sink(to)
    if value.kind == "sym":
        return _address_of(d, value, kind, to)
    read = d.source(value, kind)
    return lambda g: put(g, read(g))


def _address_of(d: Decoder, value: Operand, kind: PtxType, to: Operand) -> Step:
    address = d.address(Operand("mem", items=(Operand("sym", value.name),), number=value.number))
    put, dtype = d.sink(to), UNSIGNED[kind.bits]
    return lambda g: put(g, address(g).astype(dtype))


def _unpack(d: Decoder, to: Operand, value: Operand, kind: PtxType) -> Step:
    part = UNSIGNED[kind.bits // len(to.items)]
    read, puts = d.source(value, kind), [d.sink(o) for o in to.items]

    def step(g: Gang) -> None:
        parts = np.ascontiguousarray(read(g)[..., None]).view(part)
        for k, put in enumerate(puts):
            put(g, parts[..., k])

    return step


def _pack(d: Decoder, to: Operand, value: Operand, kind: PtxType) -> Step:
    part = f"b{kind.bits // len(value.items)}"
    reads, put = [d.source(o, part) for o in value.items], d.sink(to)
    whole = UNSIGNED[kind.bits]

    def step(g: Gang) -> None:
        parts = np.stack(np.broadcast_arrays(*(r(g) for r in reads)), axis=-1)
        put(g, np.ascontiguousarray(parts).view(whole)[..., 0])

    return step


def cvt(d: Decoder) -> Step:
    """cvt: every pair of types, rounded once."""
    d.only((*_INTEGER_ROUNDING, *_FLOAT_ROUNDING, "ftz", "sat", "satfinite", "relu"))
    to, of = d.types
    if to.element or of.element:
        return _cvt_packed(d, to, of)
    ops = d.operands(2)
    read, put, convert = d.source(ops[1], of), d.sink(ops[0]), _conversion(d, to, of)
    return lambda g: put(g, convert(read(g)))


def _conversion(d: Decoder, to: PtxType, of: PtxType) -> Function:
    if of.is_float:
        return _float_to_float(d, to, of) if to.is_float else _float_to_integer(d, to, of)
    if to.is_float:
        mode = next((m for m in d.mods if m in _FLOAT_ROUNDING), "rn")
        if mode == "rn" and to.bits >= 32:
            return lambda x: x.astype(to.dtype)
        return lambda x: floats.narrow(x.astype(np.float64), to.name, mode)
    return _integer_to_integer(d, to, of)


def _integer_to_integer(d: Decoder, to: PtxType, of: PtxType) -> Function:
    if "sat" not in d.mods:
        return lambda x: x.astype(to.dtype)
    limits, have = np.iinfo(to.dtype), np.iinfo(of.dtype)
    low, high = max(limits.min, have.min), min(limits.max, have.max)
    return lambda x: np.clip(x, of.dtype.type(low), of.dtype.type(high)).astype(to.dtype)


def _float_to_integer(d: Decoder, to: PtxType, of: PtxType) -> Function:
    rounding = next((_INTEGER_ROUNDING[m] for m in d.mods if m in _INTEGER_ROUNDING), None)
    if rounding is None:
        raise d.error("expected .rni, .rzi, .rmi or .rpi")
    limits = np.iinfo(to.dtype)
    ftz = "ftz" in d.mods and of.name == "f32"

    def convert(x: Array) -> Array:
        rounded = rounding((floats.flush(x) if ftz else x).astype(np.float64))
        inside = np.where(rounded >= float(limits.max), 0.0, np.where(rounded <= float(limits.min), 0.0, rounded))
        result = np.where(np.isnan(rounded), 0.0, inside).astype(to.dtype)
        if to.bits == 64:
            result = np.where(np.isnan(rounded), np.array(-(1 << 63)).astype(to.dtype), result)
        result = np.where(rounded >= float(limits.max), to.dtype.type(limits.max), result)
        return np.where(rounded <= float(limits.min), to.dtype.type(limits.min), result)

    return convert


def _float_to_float(d: Decoder, to: PtxType, of: PtxType) -> Function:
    integral = next((_INTEGER_ROUNDING[m] for m in d.mods if m in _INTEGER_ROUNDING), None)
    mode = next((m for m in d.mods if m in _FLOAT_ROUNDING), "rn")
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
            result = np.where(
                np.isnan(result), result.dtype.type(0), np.clip(result, to.dtype.type(0), to.dtype.type(1))
            )
        return floats.flush(result) if ftz and to.name == "f32" else result

    return convert


def _cvt_packed(d: Decoder, to: PtxType, of: PtxType) -> Step:
    """Pairs: of two f32 the first goes to the high half."""
    ops = d.operands(3 if not of.element else 2)
    put = d.sink(ops[0])
    convert = _conversion(d, TYPES[to.element or to.name], TYPES[of.element or of.name])
    if of.element:
        pair = floating.source(d, ops[1], of)
        return lambda g: put(g, floating.packed(to, convert(pair(g))))
    high, low = d.source(ops[1], of), d.source(ops[2], of)

    def step(g: Gang) -> None:
        both = np.stack(np.broadcast_arrays(low(g), high(g)), axis=-1)
        put(g, floating.packed(to, convert(both)))

    return step


_WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "global": 0, "const": 0, "param": 0}


def cvta(d: Decoder) -> Step:
    """cvta, cvta.to: between a state space's addresses and generic ones."""
    names = {m.split("::")[0] for m in d.mods}
    space = next((s for s in _WINDOWS if s in names), None)
    if space is None or d.type().bits != 64:
        raise d.error("expected a state space and a 64-bit type")
    ops = d.operands(2)
    offset = np.uint64(_WINDOWS[space])
    if ops[1].kind == "sym":
        read = d.address(Operand("mem", items=(Operand("sym", ops[1].name),), number=ops[1].number))
    else:
        read = d.source(ops[1], "u64")
    put = d.sink(ops[0])
    if "to" in d.mods:
        return lambda g: put(g, read(g).astype(np.uint64) - offset)
    return lambda g: put(g, read(g).astype(np.uint64) + offset)


def isspacep(d: Decoder) -> Step:
    """isspacep: whether a generic address lies in a state space."""
    ops = d.operands(2)
    read, put = d.source(ops[1], "u64"), d.sink(ops[0])
    space = d.mods[0].split("::")[0]
    if space not in _WINDOWS:
        raise d.error(f"unknown state space '.{space}'")
    edges = {"shared": (SHARED_WINDOW, LOCAL_WINDOW), "local": (LOCAL_WINDOW, 2 * LOCAL_WINDOW)}
    low, high = edges.get(space, (2 * LOCAL_WINDOW, 1 << 62))
    return lambda g: put(g, (read(g) >= low) & (read(g) < high))


TABLE = {"mov": mov, "cvt": cvt, "cvta": cvta, "isspacep": isspacep}
