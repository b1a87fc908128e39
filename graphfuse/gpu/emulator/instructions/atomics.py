"""atom and red (PTX ISA 9.7.13): lanes in a random order at each address."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphfuse.gpu.emulator import access, floats
from graphfuse.gpu.emulator.decode import Decoder, full
from graphfuse.gpu.emulator.gang import Gang, Step
from graphfuse.gpu.emulator.heap import BASE
from graphfuse.gpu.emulator.instructions.memory import check_modifiers, space_of
from graphfuse.gpu.emulator.machine import Machine
from graphfuse.gpu.emulator.types import TYPES, Array, Binary, PtxType, Ternary

Update = Ternary
OPERATIONS = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")


def _number_update(name: str, kind: PtxType) -> Update:
    """What an address holds after an operation, from what it held and the operands b and, for cas, c."""

    def update(old: Array, b: Array, c: Array) -> Array:
        match name:
            case "add" if kind.is_float and kind.bits < 32:
                return floats.narrow(old.astype(np.float64) + b.astype(np.float64), kind.name)
            case "add":
                return floats.canonical(old + b)
            case "min":
                return np.fmin(old, b)
            case "max":
                return np.fmax(old, b)
            case "exch":
                return b
            case "cas":
                return np.where(old == b, c, old)
            case "inc":
                return np.where(old >= b, np.zeros_like(b), old + np.ones_like(b))
            case "dec":
                return np.where((old == 0) | (old > b), b, old - np.ones_like(b))
            case _:
                return _LOGIC[name](old, b)

    return update


_LOGIC: dict[str, Binary] = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


def atomic(d: Decoder) -> Step:
    """atom returns what was there; red does not. Vectors are updated element by element."""
    check_modifiers(d, (*OPERATIONS, "noftz", "cta", "async"))
    if "async" in d.mods:
        raise d.error("red.async is not emulated")
    name = next((m for m in d.mods if m in OPERATIONS), None)
    if name is None:
        raise d.error("expected an operation")
    kind = d.type()
    returns = d.name == "atom"
    ops = d.ops[1:] if returns else d.ops
    if len(ops) < (3 if name == "cas" else 2):
        raise d.error("too few operands")
    puts = [d.sink(o) for o in d.vector(d.ops[0])] if returns else []
    address, space, machine = d.address(ops[0]), space_of(d.instruction), d.machine
    values = [d.source(o, f"b{kind.bits}") for o in d.vector(ops[1])]
    swaps = [d.source(o, f"b{kind.bits}") for o in d.vector(ops[2])] if name == "cas" else []
    acquiring, releasing = {"acquire", "acq_rel"}, {"release", "acq_rel"}
    update = _number_update(name, TYPES[kind.element] if kind.element else kind)

    def step(g: Gang) -> None:
        bits = _active(g, values, kind)
        swap = _active(g, swaps, kind) if swaps else bits
        published = machine.published if space == "global" and "gpu" in d.mods else None
        ctas, flags = g.lane_warps // machine.layout.warps_per_cta, g.flat(address(g)) - BASE
        if published and not acquiring.isdisjoint(d.mods):
            published.acquire(ctas, flags)
        old = _perform(machine, g, space, address(g), bits, swap, kind, update)
        if published and not releasing.isdisjoint(d.mods):
            published.release(ctas, flags, update=True)
        for k, put in enumerate(puts):
            put(g, g.spread(np.ascontiguousarray(old[:, k])))

    return step


def _active(g: Gang, reads: list[Callable[[Gang], Array]], kind: PtxType) -> Array:
    return np.stack([g.flat(full(g, r(g))) for r in reads], axis=1)


def _perform(
    machine: Machine, g: Gang, space: str, address: Array, b: Array, c: Array, kind: PtxType, update: Update
) -> Array:
    if space == "generic":
        space, address = access.space_of(machine, g, address)
    width, count = b.dtype.itemsize, b.shape[1]
    access.load(machine, g, space, address, width, count, strong=True)
    if space == "shared":
        at = access.shared_offsets(machine, g, address, width * count)
        access.write_shared(machine, g, at, width * count, strong=True)
        memory = machine.shared.view(b.dtype)
    else:
        at = access.heap_offsets(machine, g, g.flat(address), width * count, write=True)
        memory = machine.heap.views[width]
    index = (at // width)[:, None] + np.arange(count, dtype=np.int64)
    number = TYPES[kind.element].dtype if kind.element else kind.dtype
    old = np.empty_like(b)
    order = machine.rng.permutation(len(at))
    for lanes in _rounds(at, order):
        now = memory[index[lanes]]
        old[lanes] = now
        new = update(*(np.ascontiguousarray(x)[..., None].view(number) for x in (now, b[lanes], c[lanes])))
        memory[index[lanes]] = np.ascontiguousarray(new.astype(number, copy=False)).view(b.dtype)[..., 0]
    return old


def _rounds(at: Array, order: Array) -> list[Array]:
    """Lanes in groups that touch each address once."""
    by_address = order[np.argsort(at[order], kind="stable")]
    sorted_at = at[by_address]
    starts = np.flatnonzero(np.r_[True, sorted_at[1:] != sorted_at[:-1]])
    rank = np.arange(len(at)) - np.repeat(starts, np.diff(np.r_[starts, len(at)]))
    return [by_address[rank == r] for r in range(int(rank.max()) + 1)]


TABLE = {"atom": atomic, "red": atomic}
