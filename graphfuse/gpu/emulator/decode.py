"""Operands to functions: how an instruction's closure reads, writes and addresses. One decoder for each instruction."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Container
from dataclasses import dataclass

import numpy as np

from graphfuse.gpu.emulator.errors import EmulatorError
from graphfuse.gpu.emulator.gang import LANES, STOP, Gang, Step
from graphfuse.gpu.emulator.heap import BASE
from graphfuse.gpu.emulator.machine import LOCAL_BASE, SHARED_BASE, Machine
from graphfuse.gpu.emulator.parse import Instruction, Operand
from graphfuse.gpu.emulator.types import TYPES, UNSIGNED, Array, DType, Function, PtxType

Source = Callable[[Gang], Array]
Sink = Callable[[Gang, Array], None]
SHARED_WINDOW = 1 << 40
"""Generic addresses of shared memory start here, and of local memory at LOCAL_WINDOW."""
LOCAL_WINDOW = 1 << 41
"""Far above any address of shared memory and below `heap.BASE`."""
Builder = Callable[["Decoder"], Step]


@dataclass(frozen=True, slots=True)
class Form:
    """What executes instructions whose opcode begins in a certain way, and which further modifiers these may have."""

    build: Builder
    mods: re.Pattern[str]
    own_guard: bool


_FORMS: dict[tuple[str, bool], Form] = {}
"""By the opcode's beginning, and whether it is for floating-point numbers."""


def instruction(
    *opcodes: str, mods: str = "", floats: bool = False, own_guard: bool = False
) -> Callable[[Builder], Builder]:
    """Register the builder of instructions whose opcode begins so: the longest beginning decides.

    `mods` are the modifiers that may follow besides types, as regular expressions. A builder with `own_guard` heeds the
    guard itself. If there is one for `floats` and one for other numbers, the last type decides.
    """

    def register(build: Builder) -> Builder:
        form = Form(build, re.compile("|".join(mods.split())), own_guard)
        _FORMS.update({(opcode, floats): form for opcode in opcodes})
        return build

    return register


@functools.cache
def _find(name: str, mods: tuple[str, ...]) -> tuple[Form | None, str]:
    """The form of an opcode, and what it does not know of it."""
    words = (name, *mods)
    last = next((TYPES[m] for m in reversed(mods) if m in TYPES), TYPES["pred"])
    floats = last.is_float or last.element in ("f16", "bf16", "f32")
    for count in range(len(words), 0, -1):
        beginning = ".".join(words[:count])
        if form := _FORMS.get((beginning, floats)) or _FORMS.get((beginning, not floats)):
            return form, next((m for m in words[count:] if m not in TYPES and not form.mods.fullmatch(m)), "")
    return None, mods[0] if mods and any(opcode.startswith(f"{name}.") for opcode, _ in _FORMS) else ""


class Decoder:
    """Gives the builder of an instruction its operands, as registers and memory of `machine`."""

    def __init__(self, machine: Machine, instruction: Instruction) -> None:
        self.machine, self.instruction = machine, instruction
        self.name, self.mods, self.ops = instruction.name, instruction.mods, instruction.operands
        self.types = instruction.types

    def error(self, message: str) -> EmulatorError:
        """What to raise while decoding."""
        return self.machine.error_at(self.instruction, message)

    def type(self, index: int = -1) -> PtxType:
        """The instruction's type, or one of them."""
        if not self.types:
            raise self.error("expected a type")
        return self.types[index]

    def operands(self, *counts: int) -> tuple[Operand, ...]:
        """The operands, of which there must be so many."""
        if len(self.ops) not in counts:
            raise self.error(f"{len(self.ops)} operands: expected {' or '.join(map(str, counts))}")
        return self.ops

    def constant(self, operand: Operand) -> int:
        """An operand that must be an integer literal."""
        if operand.kind != "int":
            raise self.error("expected an integer literal")
        return operand.number

    def step(self) -> Step:
        """What executes the instruction, guard included."""
        form, unknown = _find(self.name, self.mods)
        if unknown:
            raise self.error(f"unknown modifier '.{unknown}'")
        if form is None:
            raise self.error("unknown instruction")
        return form.build(self) if form.own_guard else self.guarded(form.build(self))

    def choice(self, among: Container[str], default: str = "") -> str:
        """The first modifier that is one of these."""
        return next((m for m in self.mods if m in among), default)

    def compute(self, function: Function, *types: PtxType | str) -> Step:
        """Put a function of the sources, which are of these types, into the destination."""
        apply: Callable[..., Array] = function
        ops = self.operands(len(types) + 1)
        put, reads = self.sink(ops[0]), [self.source(op, kind) for op, kind in zip(ops[1:], types, strict=True)]
        match reads:
            case [a]:
                return lambda g: put(g, apply(a(g)))
            case [a, b]:
                return lambda g: put(g, apply(a(g), b(g)))
            case _:
                return lambda g: put(g, apply(*[read(g) for read in reads]))

    def pair(self, operand: Operand) -> tuple[Sink, Sink]:
        """The two destinations of `a|b`; of one alone, the second goes nowhere."""
        first, second = operand.items if operand.kind == "pair" else (operand, Operand("sink"))
        return self.sink(first), self.sink(second)

    def sources(self, operand: Operand, of: PtxType | str) -> Callable[[Gang], Array]:
        """Reads the parts of `{a, b}`, or the one operand: [warps, parts, lanes]."""
        reads = [self.source(o, of) for o in self.vector(operand)]
        return lambda g: np.stack([full(g, read(g)) for read in reads], axis=1)

    # registers

    def source(self, operand: Operand, of: PtxType | str) -> Source:
        """Reads an operand as [warps, lanes] numbers of a type; literals as [1, 1]."""
        kind = TYPES[of] if isinstance(of, str) else of
        if operand.kind == "reg":
            return self._register(self.machine.registers[operand.name], kind, negated=operand.negated)
        if operand.kind == "special":
            return self._special(operand.name, kind)
        value = self.literal(operand, kind)
        return lambda _: value

    def literal(self, operand: Operand, kind: PtxType) -> Array:
        """A literal, or the address of a variable, as a [1, 1] array."""
        bits = kind.bits if kind.kind != "pred" else 8
        unsigned = UNSIGNED.get(bits, UNSIGNED[64])
        match operand.kind:
            case "int":
                if kind.kind == "pred":
                    return np.array([[operand.number != 0]])
                if kind.is_float and kind.bits >= 32:
                    return np.array([[operand.number]], kind.dtype)
                number = operand.number & ((1 << bits) - 1)
            case "bits32" | "bits64":
                exact = np.array([[operand.number]], UNSIGNED[32 if operand.kind == "bits32" else 64])
                if exact.dtype == unsigned:
                    return exact.view(kind.dtype)
                if not kind.is_float:
                    raise self.error(f"a {exact.dtype.itemsize * 8}-bit literal for '.{kind.name}'")
                return exact.view(f"f{exact.dtype.itemsize}").astype(kind.dtype)
            case "float":
                value = np.array([[operand.real]], np.float64 if kind.bits == 64 else np.float32)
                same_size = value.dtype.itemsize == kind.dtype.itemsize
                return value.view(kind.dtype) if same_size else value.astype(kind.dtype)
            case "sym":
                number = self.symbol(operand)
                if kind.bits == 32 and isinstance(number, np.ndarray):
                    return number
                number = int(number) & ((1 << bits) - 1)
            case _:
                raise self.error(f"an operand is a {operand.kind}: expected a register or a number")
        return np.array([[number]], unsigned).view(kind.dtype)

    def symbol(self, operand: Operand) -> int:
        """The address of a variable in its own state space."""
        machine, name = self.machine, operand.name
        if name in machine.param_offsets:
            return machine.param_address + machine.param_offsets[name] + operand.number
        if name not in machine.symbols:
            raise self.error(f"unknown name {name!r}")
        space, offset = machine.symbols[name]
        base = {"shared": SHARED_BASE, "local": LOCAL_BASE}.get(space, BASE)
        return base + offset + operand.number

    def source_or_address(self, operand: Operand, kind: PtxType) -> Source:
        """Reads an operand that may be the name of a variable: then its address, in this CTA."""
        if operand.kind != "sym":
            return self.source(operand, kind)
        address = self.address(Operand("mem", items=(Operand("sym", operand.name),), number=operand.number))
        return lambda g: address(g).astype(UNSIGNED[kind.bits])

    def _register(self, register: Array, kind: PtxType, *, negated: bool) -> Source:
        dtype = kind.dtype
        if register.dtype == np.bool_ or dtype == np.bool_:
            return (lambda g: ~register[g.rows]) if negated else (lambda g: register[g.rows])
        if register.dtype.itemsize == dtype.itemsize:
            if register.dtype == dtype:
                return lambda g: register[g.rows]
            return lambda g: register[g.rows].view(dtype)
        unsigned = UNSIGNED[8 * dtype.itemsize]
        return lambda g: register[g.rows].astype(unsigned).view(dtype)

    def _special(self, name: str, kind: PtxType) -> Source:
        machine = self.machine
        if name.startswith(("%clock", "%globaltimer")):
            return lambda _: np.full((1, 1), sum(machine.hits) * 4, np.uint64).astype(kind.dtype)
        if name not in machine.special:
            raise self.error(f"unknown special register {name!r}")
        return self._register(machine.special[name], kind, negated=False)

    def sink(self, operand: Operand) -> Sink:
        """Writes a register's active lanes; narrower signed numbers are extended."""
        if operand.kind == "sink":
            return _nowhere
        if operand.kind != "reg":
            raise self.error(f"the destination is a {operand.kind}: expected a register")
        register = self.machine.registers[operand.name]
        have = register.dtype

        def put(g: Gang, value: Array) -> None:
            if value.dtype != have:
                value = _to_bits(value, have)
            if g.full:
                register[g.rows] = value
            elif isinstance(g.rows, slice):
                np.copyto(register[g.rows], value, where=g.mask)
            else:
                merged = register[g.rows]
                np.copyto(merged, value, where=g.mask)
                register[g.rows] = merged

        return put

    def vector(self, operand: Operand) -> tuple[Operand, ...]:
        """The parts of `{a, b}`, or the one operand."""
        return operand.items if operand.kind == "vec" else (operand,)

    # addresses

    def address(self, operand: Operand) -> Source:
        """Reads an address as [warps, lanes] int64; 32-bit registers wrap at 32 bits."""
        if operand.kind != "mem":
            raise self.error(f"an operand is a {operand.kind}: expected an address in brackets")
        base, offset = operand.items[0], operand.number
        if base.kind == "reg":
            register = self.machine.registers[base.name]
            if register.dtype.itemsize == 4:
                add = np.uint32(offset & 0xFFFFFFFF)
                return lambda g: (register[g.rows] + add).astype(np.int64)
            return lambda g: register[g.rows].view(np.int64) + offset
        start = self.symbol(base) if base.kind == "sym" else base.number
        cluster = self.machine.layout.ctas_per_cluster > 1
        if base.kind == "sym" and cluster and self.machine.symbols.get(base.name, ("", 0))[0] == "shared":
            rank = self.machine.special["%cluster_ctarank"]
            return lambda g: (rank[g.rows].astype(np.int64) << 24) + (start + offset)
        return lambda g: np.full(g.mask.shape, start + offset, np.int64)

    # guards

    def guard(self) -> Source | None:
        """The lanes for which the guard holds, among all; None without a guard."""
        name = self.instruction.guard
        if not name:
            return None
        if name not in self.machine.registers:
            raise self.error(f"unknown guard predicate {name!r}")
        return self._register(self.machine.registers[name], TYPES["pred"], negated=self.instruction.guard_negated)

    def guarded(self, step: Step) -> Step:
        """Run `step` for the lanes whose guard holds."""
        guard = self.guard()
        if guard is None:
            return step

        def run(g: Gang) -> int | None:
            mask = guard(g) & g.mask
            if not mask.any():
                return None
            saved = g.state()
            g.restrict(mask)
            result = step(g)
            if result != STOP:
                g.restore(saved)
            return result

        return run


def _nowhere(g: Gang, value: Array) -> None:
    """The sink `_`."""


def _to_bits(value: Array, have: DType) -> Array:
    size = value.dtype.itemsize
    if value.dtype == np.bool_ or have == np.bool_:
        return value.astype(have)
    if size == have.itemsize:
        return np.ascontiguousarray(value).view(have)
    if value.dtype.kind == "i":
        return value.astype(f"i{have.itemsize}").view(have)
    if value.dtype.kind != "u":
        value = np.ascontiguousarray(value).view(UNSIGNED[8 * size])
    return value.astype(have)


def full(g: Gang, value: Array) -> Array:
    """Broadcast a literal to all lanes."""
    return value if value.shape == g.mask.shape else np.broadcast_to(value, (len(g), LANES))
