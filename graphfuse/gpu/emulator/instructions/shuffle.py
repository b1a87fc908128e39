"""Between the lanes of a warp: shfl, vote, match, redux, activemask, elect (PTX ISA 9.7.9, 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphfuse.gpu.emulator.decode import Decoder, full
from graphfuse.gpu.emulator.gang import LANES, Gang, Step
from graphfuse.gpu.emulator.instructions.control import check_members
from graphfuse.gpu.emulator.types import Array

_LANE = np.arange(LANES, dtype=np.int64)[None]


def shfl(d: Decoder) -> Step:
    """shfl.sync: up, down, bfly, idx, within segments that c's upper bits make."""
    d.only(("sync", "up", "down", "bfly", "idx"))
    ops = d.operands(5)
    to, inside = ops[0].items if ops[0].kind == "pair" else (ops[0], None)
    put, put_inside = d.sink(to), d.sink(inside) if inside else None
    a, b, c, members = (d.source(op, "b32") for op in ops[1:])
    mode = next(m for m in d.mods if m in ("up", "down", "bfly", "idx"))
    machine = d.machine

    def step(g: Gang) -> None:
        check_members(machine, g, full(g, members(g)))
        value, by, limit = full(g, a(g)), full(g, b(g)).astype(np.int64) & 31, full(g, c(g)).astype(np.int64)
        segment, clamp = (limit >> 8) & 31, limit & 31
        low = _LANE & segment
        high = low | (clamp & ~segment)
        match mode:
            case "up":
                source = _LANE - by
                fits = source >= high
            case "down":
                source = _LANE + by
                fits = source <= high
            case "bfly":
                source = _LANE ^ by
                fits = source <= high
            case _:
                source = low | (by & ~segment)
                fits = source <= high
        source = np.where(fits, source, _LANE)
        if machine.checks:
            _source_is_here(g, source)
        put(g, np.take_along_axis(value, source, 1))
        if put_inside:
            put_inside(g, fits)

    def _source_is_here(g: Gang, source: Array) -> None:
        away = g.mask & ~np.take_along_axis(g.mask, source, 1)
        if away.any():
            row, lane = np.argwhere(away)[0].tolist()
            message = f"reads the register of lane {int(source[row, lane])}, which does not take part"
            raise machine.error(message, g.pc, int(g.warps[row]), lane)

    return step


def _bits(mask: Array) -> Array:
    """Rows of lanes as 32-bit numbers [warps, 1]."""
    return (mask.astype(np.uint64) << np.arange(LANES, dtype=np.uint64)).sum(1, keepdims=True).astype(np.uint32)


def vote(d: Decoder) -> Step:
    """vote.sync: all, any, uni, ballot."""
    d.only(("sync", "all", "any", "uni", "ballot"))
    ops = d.operands(3)
    put, read, members = d.sink(ops[0]), d.source(ops[1], "pred"), d.source(ops[2], "b32")
    machine = d.machine

    def step(g: Gang) -> None:
        named = full(g, members(g))
        check_members(machine, g, named)
        part = g.mask & (_member_bits(g, named))
        value = full(g, read(g))
        if "ballot" in d.mods:
            put(g, _bits(np.asarray(value & part)))
            return
        some = np.asarray((value & part).any(1, keepdims=True))
        every = np.asarray((value | ~part).all(1, keepdims=True))
        put(g, every if "all" in d.mods else some if "any" in d.mods else every | ~some)

    return step


def _member_bits(g: Gang, named: Array) -> Array:
    """The lanes that the first active lane's mask names: all must agree."""
    first = np.argmax(g.mask, axis=1)[:, None]
    mask = np.take_along_axis(named, first, 1)
    return np.asarray((mask >> np.arange(LANES, dtype=np.uint32)) & 1, np.bool_)


def match(d: Decoder) -> Step:
    """match.sync: which lanes hold the same value."""
    d.only(("sync", "any", "all"))
    ops = d.operands(3)
    to, same = ops[0].items if ops[0].kind == "pair" else (ops[0], None)
    put, put_same = d.sink(to), d.sink(same) if same else None
    read, members, machine = d.source(ops[1], d.type()), d.source(ops[2], "b32"), d.machine

    def step(g: Gang) -> None:
        named = full(g, members(g))
        check_members(machine, g, named)
        part = g.mask & _member_bits(g, named)
        value = full(g, read(g))
        equal = (value[:, :, None] == value[:, None, :]) & part[:, None, :]
        if "any" in d.mods:
            put(g, (equal.astype(np.uint64) << np.arange(LANES, dtype=np.uint64)).sum(2).astype(np.uint32))
            return
        first = np.take_along_axis(value, np.argmax(part, axis=1)[:, None], 1)
        agree = ((value == first) | ~part).all(1, keepdims=True)
        put(g, np.where(agree, _bits(part), np.uint32(0)))
        if put_same:
            put_same(g, agree)

    return step


def redux(d: Decoder) -> Step:
    """redux.sync: a reduction over the member lanes."""
    d.only(("sync", "add", "min", "max", "and", "or", "xor", "abs", "NaN"))
    ops = d.operands(3)
    kind = d.type()
    read, members, put, machine = d.source(ops[1], kind), d.source(ops[2], "b32"), d.sink(ops[0]), d.machine
    reduce: Callable[[Array], Array] = _REDUCTIONS[next(m for m in d.mods if m in _REDUCTIONS)]
    if kind.is_float:
        reduce = _float_reduction(d)

    def step(g: Gang) -> None:
        named = full(g, members(g))
        check_members(machine, g, named)
        part = g.mask & _member_bits(g, named)
        value = full(g, read(g))
        out = np.zeros((len(g), 1), kind.dtype)
        for row in range(len(g)):
            if part[row].any():
                out[row, 0] = reduce(value[row, part[row]])
        put(g, out)

    return step


_REDUCTIONS: dict[str, Callable[[Array], Array]] = {
    "add": lambda x: np.add.reduce(x, dtype=x.dtype),
    "min": np.minimum.reduce,
    "max": np.maximum.reduce,
    "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce,
    "xor": np.bitwise_xor.reduce,
}


def _float_reduction(d: Decoder) -> Callable[[Array], Array]:
    smallest, propagate, magnitude = "min" in d.mods, "NaN" in d.mods, "abs" in d.mods

    def reduce(x: Array) -> Array:
        x = np.abs(x) if magnitude else x
        if propagate:
            return np.min(x) if smallest else np.max(x)
        return np.fmin.reduce(x) if smallest else np.fmax.reduce(x)

    return reduce


def activemask(d: Decoder) -> Step:
    """activemask: the lanes that are here."""
    (op,) = d.operands(1)
    put = d.sink(op)
    return lambda g: put(g, _bits(g.mask))


def elect(d: Decoder) -> Step:
    """elect.sync: the lowest member lane is the leader."""
    d.only(("sync",))
    to, members = d.operands(2)
    if to.kind != "pair":
        raise d.error("expected lane|predicate")
    put_lane, put = d.sink(to.items[0]), d.sink(to.items[1])
    read, machine = d.source(members, "b32"), d.machine

    def step(g: Gang) -> None:
        named = full(g, read(g))
        check_members(machine, g, named)
        leader = np.argmax(g.mask & _member_bits(g, named), axis=1)[:, None]
        put_lane(g, leader.astype(np.uint32))
        put(g, leader == _LANE)

    return step


TABLE = {
    "shfl": shfl,
    "vote": vote,
    "match": match,
    "redux": redux,
    "activemask": activemask,
    "elect": elect,
}
