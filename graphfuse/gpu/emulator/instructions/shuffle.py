"""Between the lanes of a warp: shfl, vote, match, redux, activemask, elect (PTX ISA 9.7.9, 9.7.13)."""

from __future__ import annotations

import numpy as np

from graphfuse.gpu.emulator.decode import Decoder, Source, full, instruction
from graphfuse.gpu.emulator.gang import LANES, Gang, Step
from graphfuse.gpu.emulator.instructions.control import check_members
from graphfuse.gpu.emulator.types import REDUCTIONS, Array

_LANE = np.arange(LANES, dtype=np.int64)[None]


@instruction("shfl", mods="sync up down bfly idx")
def shfl(d: Decoder) -> Step:
    """shfl.sync: up, down, bfly, idx, within segments that c's upper bits make."""
    ops = d.operands(5)
    put, put_inside = d.pair(ops[0])
    a, b, c, members = (d.source(op, "b32") for op in ops[1:])
    mode = d.choice(("up", "down", "bfly", "idx"), "idx")

    def step(g: Gang) -> None:
        check_members(g, full(g, members(g)))
        value, by, limit = full(g, a(g)), full(g, b(g)).astype(np.int64) & 31, full(g, c(g)).astype(np.int64)
        segment, clamp = (limit >> 8) & 31, limit & 31
        low = _LANE & segment
        high = low | (clamp & ~segment)
        sources = {"up": _LANE - by, "down": _LANE + by, "bfly": _LANE ^ by, "idx": low | (by & ~segment)}
        source = sources[mode]
        fits = source >= high if mode == "up" else source <= high
        source = np.where(fits, source, _LANE)
        if g.machine.checks:
            wanted = g.flat(source)
            away = ~g.flat(np.take_along_axis(g.mask, source, 1))
            g.refuse(away, lambda row: f"reads the register of lane {int(wanted[row])}, which does not take part")
        put(g, np.take_along_axis(value, source, 1))
        put_inside(g, fits)

    return step


def _bits(mask: Array) -> Array:
    """Rows of lanes, along the last axis, as 32-bit numbers."""
    return (mask.astype(np.uint64) << np.arange(LANES, dtype=np.uint64)).sum(-1).astype(np.uint32)


def _members(g: Gang, read: Source) -> Array:
    """The lanes that are here and that the first active lane's mask names: all must agree."""
    named = full(g, read(g))
    check_members(g, named)
    mask = np.take_along_axis(named, np.argmax(g.mask, axis=1)[:, None], 1)
    return g.mask & np.asarray((mask >> np.arange(LANES, dtype=np.uint32)) & 1, np.bool_)


@instruction("vote", mods="sync all any uni ballot")
def vote(d: Decoder) -> Step:
    """vote.sync: all, any, uni, ballot."""
    ops = d.operands(3)
    put, read, members = d.sink(ops[0]), d.source(ops[1], "pred"), d.source(ops[2], "b32")

    def step(g: Gang) -> None:
        part = _members(g, members)
        value = full(g, read(g))
        if "ballot" in d.mods:
            put(g, _bits(np.asarray(value & part))[:, None])
            return
        some = np.asarray((value & part).any(1, keepdims=True))
        every = np.asarray((value | ~part).all(1, keepdims=True))
        put(g, every if "all" in d.mods else some if "any" in d.mods else every | ~some)

    return step


@instruction("match", mods="sync any all")
def match(d: Decoder) -> Step:
    """match.sync: which lanes hold the same value."""
    ops = d.operands(3)
    put, put_same = d.pair(ops[0])
    read, members = d.source(ops[1], d.type()), d.source(ops[2], "b32")

    def step(g: Gang) -> None:
        part = _members(g, members)
        value = full(g, read(g))
        if "any" in d.mods:
            put(g, _bits((value[:, :, None] == value[:, None, :]) & part[:, None, :]))
            return
        first = np.take_along_axis(value, np.argmax(part, axis=1)[:, None], 1)
        agree = ((value == first) | ~part).all(1, keepdims=True)
        put(g, np.where(agree, _bits(part)[:, None], np.uint32(0)))
        put_same(g, agree)

    return step


@instruction("redux", mods="sync add min max and or xor abs NaN")
def redux(d: Decoder) -> Step:
    """redux.sync: a reduction over the member lanes."""
    ops, kind = d.operands(3), d.type()
    read, members, put = d.source(ops[1], kind), d.source(ops[2], "b32"), d.sink(ops[0])
    name = d.choice(REDUCTIONS)
    combine = REDUCTIONS[name]
    if kind.is_float and "NaN" not in d.mods:
        combine = np.fmin if name == "min" else np.fmax

    def step(g: Gang) -> None:
        part = _members(g, members)
        value = full(g, read(g))
        if kind.is_float and "abs" in d.mods:
            value = np.abs(value)
        out = np.zeros((len(g), 1), kind.dtype)
        for row in range(len(g)):
            if part[row].any():
                out[row, 0] = combine.reduce(value[row, part[row]], dtype=kind.dtype)
        put(g, out)

    return step


@instruction("activemask")
def activemask(d: Decoder) -> Step:
    """activemask: the lanes that are here."""
    put = d.sink(d.operands(1)[0])
    return lambda g: put(g, _bits(g.mask)[:, None])


@instruction("elect", mods="sync")
def elect(d: Decoder) -> Step:
    """elect.sync: the lowest member lane is the leader."""
    to, members = d.operands(2)
    if to.kind != "pair":
        raise d.error("expected lane|predicate")
    (put_lane, put), read = d.pair(to), d.source(members, "b32")

    def step(g: Gang) -> None:
        leader = np.argmax(_members(g, read), axis=1)[:, None]
        put_lane(g, leader.astype(np.uint32))
        put(g, leader == _LANE)

    return step
