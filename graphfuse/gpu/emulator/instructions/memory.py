"""ld, st, atom, red and hints about caches (PTX ISA 9.7.9, 9.7.13). Caches are not modelled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from graphfuse.gpu.emulator import access, floats
from graphfuse.gpu.emulator.decode import Decoder, Sink, full, instruction
from graphfuse.gpu.emulator.gang import Gang, Step, no_step
from graphfuse.gpu.emulator.heap import BASE
from graphfuse.gpu.emulator.heap_hazards import reach_of
from graphfuse.gpu.emulator.machine import STRONG
from graphfuse.gpu.emulator.parse import Instruction, Operand
from graphfuse.gpu.emulator.types import TYPES, UNSIGNED, Array, PtxType, Ternary

SPACES = ("global", "shared", "local", "const", "param")
_MORE = r"shared::cta shared::cluster param::entry v2 v4 v8 L[12]::\w+ cta cluster gpu sys ca cg cs lu cv wb wt nc weak"
_MODS = " ".join((*SPACES, *sorted(STRONG), _MORE, "unified"))
_ACQUIRES, _RELEASES = ("acquire", "acq_rel"), ("release", "acq_rel")


def space_of(i: Instruction) -> str:
    """The state space that an instruction names; constants and parameters are in the heap with global memory."""
    names = [m.split("::")[0] for m in i.mods]
    space = next((s for s in SPACES if s in names), "generic")
    return "global" if space in ("const", "param") else space


def _reach(d: Decoder, how: tuple[str, ...]) -> int | None:
    """How far an access orders others, as one of `SCOPES`; None: it does not."""
    return reach_of(d.instruction) if d.choice(how) else None


@instruction("ld", mods=_MODS)
def ld(d: Decoder) -> Step:
    """ld: scalars and vectors; narrow numbers extend to the register."""
    ops, kind = d.operands(2, 3), d.type()
    puts = [d.sink(p) for p in d.vector(ops[0])]
    if "param" in d.mods or "param::entry" in d.mods:
        return _load_param(d, puts)
    if kind.bits == 128:
        raise d.error("128-bit registers are not emulated: load .v2.b64")
    address, space = d.address(ops[1]), space_of(d.instruction)
    strong, reach = bool(d.choice(STRONG)), _reach(d, _ACQUIRES)

    def step(g: Gang) -> None:
        loaded = access.load(g, space, address(g), kind.bytes, len(puts), strong=strong)
        for k, put in enumerate(puts):
            value = np.ascontiguousarray(loaded[:, k])
            put(g, g.spread(value if value.dtype == kind.dtype else value.view(kind.dtype)))
        if strong and (flags := g.machine.flags):
            flags.read(access.by(g, strong=True), *access.place(g, space, address(g)), reach)

    return step


def _move(d: Decoder, to: Operand, of: Operand) -> Step:
    """An argument or a result of a call, which is a register here."""
    put, read = d.sink(to), d.source(of, d.type())
    return lambda g: put(g, read(g))


def _load_param(d: Decoder, puts: list[Sink]) -> Step:
    """A parameter that the instruction names, or whose address is in a register."""
    kind, machine, operand = d.type(), d.machine, d.ops[1]
    base, part = operand.items[0], np.arange(kind.bytes * len(puts))
    if base.kind == "sym":
        raw = machine.heap.data[d.symbol(base) + operand.number - BASE + part].view(kind.dtype)

        def constants(g: Gang) -> None:
            for k, put in enumerate(puts):
                put(g, raw[k : k + 1].reshape(1, 1))

        return constants
    if not base.name.startswith("%"):
        return _move(d, d.vector(d.ops[0])[0], base)
    address = d.address(operand)  # LLVM chooses between addresses rather than pointers

    def step(g: Gang) -> None:
        at = g.flat(address(g)) - machine.param_address
        size = max(machine.param_offsets.values(), default=0) + 8
        if ((at < 0) | (at + len(part) > size)).any():
            raise machine.error("ld.param of an address that is none of a parameter", g.pc, int(g.warps[0]))
        values = machine.heap.data[machine.param_address - BASE + at[:, None] + part].view(kind.dtype)
        for k, put in enumerate(puts):
            put(g, g.spread(np.ascontiguousarray(values[:, k])))

    return step


@instruction("st", mods=_MODS)
def st(d: Decoder) -> Step:
    """st: scalars and vectors."""
    ops, kind = d.operands(2, 3), d.type()
    if "param" in d.mods:
        return _move(d, ops[0].items[0], ops[1])
    if kind.bits == 128:
        raise d.error("128-bit registers are not emulated: store .v2.b64")
    width = UNSIGNED[kind.bits]
    reads = [d.source(p, f"b{kind.bits}") for p in d.vector(ops[1])]
    address, space = d.address(ops[0]), space_of(d.instruction)
    strong, reach = bool(d.choice(STRONG)), _reach(d, _RELEASES)

    def step(g: Gang) -> None:
        values = np.empty((int(g.mask.sum()), len(reads)), width)
        for k, read in enumerate(reads):
            values[:, k] = g.flat(full(g, read(g)))
        access.store(g, space, address(g), values, strong=strong)
        if strong and (flags := g.machine.flags):
            flags.write(access.by(g, strong=True), *access.place(g, space, address(g)), reach, update=False)

    return step


_OPERATIONS: dict[str, Ternary] = {
    "add": lambda old, b, _: floats.canonical(old + b),
    "min": lambda old, b, _: np.fmin(old, b),
    "max": lambda old, b, _: np.fmax(old, b),
    "exch": lambda _, b, __: b,
    "cas": lambda old, b, c: np.where(old == b, c, old),
    "inc": lambda old, b, _: np.where(old >= b, np.zeros_like(b), old + np.ones_like(b)),
    "dec": lambda old, b, _: np.where((old == 0) | (old > b), b, old - np.ones_like(b)),
    "and": lambda old, b, _: old & b,
    "or": lambda old, b, _: old | b,
    "xor": lambda old, b, _: old ^ b,
}
"""What an address holds after an operation, from what it held and the operands b and, for cas, c."""


def _narrow_add(kind: PtxType) -> Ternary:
    return lambda old, b, _: floats.narrow(old.astype(np.float64) + b.astype(np.float64), kind.name)


@instruction("atom", "red", mods=f"{_MODS} {' '.join(_OPERATIONS)} noftz async")
def atomic(d: Decoder) -> Step:
    """atom returns what was there; red does not. Vectors are updated element by element."""
    if "async" in d.mods:
        raise d.error("red.async is not emulated")
    name, kind = d.choice(_OPERATIONS), d.type()
    if not name:
        raise d.error("expected an operation")
    ops = d.ops[d.name == "atom" :]
    if len(ops) < (3 if name == "cas" else 2):
        raise d.error("too few operands")
    puts = [d.sink(o) for o in d.vector(d.ops[0])] if d.name == "atom" else []
    address, space = d.address(ops[0]), space_of(d.instruction)
    reads = [d.sources(o, f"b{kind.bits}") for o in (ops[1:3] if name == "cas" else ops[1:2])]
    acquires, releases = _reach(d, _ACQUIRES), _reach(d, _RELEASES)
    number = TYPES[kind.element or kind.name]
    update = _narrow_add(number) if name == "add" and number.is_float and number.bits < 32 else _OPERATIONS[name]

    def step(g: Gang) -> None:
        operands = [np.moveaxis(read(g), 1, 2)[g.mask] for read in reads]
        act = _perform
        if flags := g.machine.flags:
            by, (where, at) = access.by(g, strong=True), access.place(g, space, address(g))
            flags.read(by, where, at, acquires)

            def orders(turn: Array) -> None:
                flags.read(by.part(turn), where, at[turn], acquires)
                flags.write(by.part(turn), where, at[turn], releases, update=True)

            act = partial(_perform, acted=orders)
        old = act(g, space, address(g), operands, number, update)
        for k, put in enumerate(puts):
            put(g, g.spread(np.ascontiguousarray(old[:, k])))

    return step


def _perform(
    g: Gang,
    space: str,
    address: Array,
    operands: list[Array],
    number: PtxType,
    update: Ternary,
    acted: Callable[[Array], None] | None = None,
) -> Array:
    """Lanes act in a random order at each address: what was there before each did. `acted` is told who has, in turn."""
    dtype, (lanes, count) = operands[0].dtype, operands[0].shape
    access.load(g, space, address, dtype.itemsize, count, strong=True, updates=True)
    where, memory, index, at = access.locate(
        g, space, address, dtype.itemsize, count, write=True, strong=True, counted=False
    )
    if where == "global":
        access.touch_heap(g, at, dtype.itemsize * count, strong=True)
    old = np.empty_like(operands[0])
    for turn in _turns(at, g.machine.rng.permutation(lanes)):
        old[turn] = memory[index[turn]]
        held, b, c = (np.ascontiguousarray(x[turn])[..., None] for x in (old, operands[0], operands[-1]))
        new = update(held.view(number.dtype), b.view(number.dtype), c.view(number.dtype))
        memory[index[turn]] = np.ascontiguousarray(new.astype(number.dtype, copy=False)).view(dtype)[..., 0]
        if acted:
            acted(turn)
    return old


def _turns(at: Array, order: Array) -> list[Array]:
    """Lanes in groups that touch each address once."""
    by_address = order[np.argsort(at[order], kind="stable")]
    sorted_at = at[by_address]
    starts = np.flatnonzero(np.r_[True, sorted_at[1:] != sorted_at[:-1]])
    rank = np.arange(len(at)) - np.repeat(starts, np.diff(np.r_[starts, len(at)]))
    return [by_address[rank == r] for r in range(int(rank.max()) + 1)]


@instruction("prefetch", "prefetchu", "cp.async.bulk.prefetch", "applypriority", "discard", mods=".*")
@instruction("nanosleep", "pmevent", mods=".*")
def nothing(d: Decoder) -> Step:
    """Hints, and what else has no effect on values."""
    return no_step


@instruction("createpolicy", mods=".*")
def createpolicy(d: Decoder) -> Step:
    """createpolicy: some 64-bit number, which cache hints take."""
    put = d.sink(d.ops[0])
    return lambda g: put(g, np.array([[0x12F0000000000000]], np.uint64))


def narrowest(kernel_code: list[Instruction], space: str) -> int:
    """Bytes of the kernel's narrowest access that may be to a space, at most 4: the unit of hazards."""
    widths = [4]
    for i in kernel_code:
        if i.name in ("ld", "st", "atom", "red") and space_of(i) in (space, "generic"):
            widths += [t.bytes for t in i.types if t.bits >= 8]
    return min(widths)
