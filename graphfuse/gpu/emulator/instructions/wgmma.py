"""wgmma (PTX ISA 9.7.15): products of a warpgroup that happen at their wait.

Until the wait an accumulator has no value: a copy of its register stands for the same promise (LLVM moves accumulators
between registers, ptxas removes the moves), any other use is an error. Shared operands are read at the wait.
Registers written since the last wgmma.fence may not be operands.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from graphfuse.gpu.emulator.decode import Decoder, Source, full, instruction
from graphfuse.gpu.emulator.events import Groups
from graphfuse.gpu.emulator.gang import LANES, STOP, Gang, Split, Step
from graphfuse.gpu.emulator.hazards import Access
from graphfuse.gpu.emulator.instructions import mma
from graphfuse.gpu.emulator.instructions.control import all_converged
from graphfuse.gpu.emulator.machine import SHARED_BASE, Machine, Part
from graphfuse.gpu.emulator.parse import Instruction, Kernel, Operand
from graphfuse.gpu.emulator.tensormap import swizzled
from graphfuse.gpu.emulator.types import UNSIGNED, Array, PtxType

_SPANS = {0: 0, 1: 128, 2: 64, 3: 32}
"""Layout type, bits 62 and 63 of a descriptor, to swizzle span."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """An operand of [rows, k] elements of `kind`; transposed: rows follow each other (MN-major)."""

    rows: int
    k: int
    kind: PtxType
    transposed: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """What an instruction multiplies, A and the transpose of B, and what becomes of the product."""

    a: Matrix
    b: Matrix
    to: PtxType
    negate: bool
    saturate: bool


@dataclass(eq=False, slots=True)
class Product:
    """What the four warps of a warpgroup share: where operands are, and the result once one of them waits."""

    shape: Shape
    pc: int
    slot: int
    number: int
    descriptor_a: int | None
    descriptor_b: int
    right: Array | None = None
    value: Array | None = None
    issuers: set[int] = field(default_factory=set[int])
    waiting: list[Split] = field(default_factory=list[Split])


@dataclass(eq=False, slots=True)
class Promise:
    """One warp's part of a product: its accumulators before (numbers, a promise, nothing) and after."""

    product: Product
    warp: int
    before: Array | Promise | None
    fragment: Array | None
    after: Array | None = None


@dataclass(eq=False, slots=True)
class Registers:
    """Of a warp: how many products it has issued, and what its registers are to them."""

    issued: int = 0
    fenced: bool = False
    promised: dict[str, tuple[Promise, int]] = field(default_factory=dict[str, tuple[Promise, int]])
    used: dict[str, Promise] = field(default_factory=dict[str, Promise])
    touched: set[str] = field(default_factory=set[str])
    """Written since the last wgmma.fence, but for those that are `constants` since then."""
    constants: set[str] = field(default_factory=set[str])


class State(Part):
    """wgmma's state for all warps."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.products: dict[tuple[int, int], Product] = {}
        self.groups = Groups[int, Promise]()
        self.warps = defaultdict[int, Registers](Registers)


@instruction("wgmma.fence", mods="sync aligned")
def fence(d: Decoder) -> Step:
    """wgmma.fence: what was written to registers may be an operand from here on."""

    def step(g: Gang) -> None:
        all_converged(g)
        for warp in g.warps.tolist():
            now = g.machine.part(State).warps[warp]
            now.fenced = True
            now.touched.clear()
            now.constants.clear()

    return step


@instruction("wgmma.commit_group", mods="sync aligned")
def commit(d: Decoder) -> Step:
    """wgmma.commit_group."""

    def step(g: Gang) -> None:
        all_converged(g)
        for warp in g.warps.tolist():
            g.machine.part(State).groups.commit(warp)

    return step


@instruction("wgmma.wait_group", mods="sync aligned")
def wait(d: Decoder) -> Step:
    """wgmma.wait_group: all but the last n groups have happened, once every warp of the warpgroup has issued them."""
    keep, machine = d.constant(d.operands(1)[0]), d.machine

    def step(g: Gang) -> int | None:
        all_converged(g)
        now = machine.part(State)
        ready: list[Split] = []
        for split in g.splits:
            promises = now.groups.due(split.warp, keep)
            behind = next((p.product for p in promises if not _issued_by_all(machine, p.product)), None)
            if behind is not None:
                machine.block(split, g.pc, behind.waiting, _behind(behind))
                continue
            ready.append(split)
            now.groups.drop(split.warp, keep)
            _complete(machine, now.warps[split.warp], split.warp, promises)
        if len(ready) == len(g):
            return None
        if ready:
            machine.push_all(ready, g.pc + 1)
        return STOP

    return step


def _issued_by_all(machine: Machine, product: Product) -> bool:
    first = min(product.issuers)
    start = first - first % machine.layout.warps_per_cta % 4
    live = machine.live_lanes[start : start + 4].any(1)
    return product.issuers.issuperset((start + np.flatnonzero(live)).tolist())


def _behind(product: Product) -> Callable[[], str]:
    return lambda: f"a wgmma that {len(product.issuers)} of 4 warps have issued"


def _complete(machine: Machine, now: Registers, warp: int, promises: list[Promise]) -> None:
    for promise in promises:
        _keep(machine, promise)
    if machine.hazards and promises:
        machine.clocks.finished(warp, group_agent(machine, warp), promises[-1].product.number + 1)
    for name, (promise, index) in list(now.promised.items()):
        if promise.after is not None:
            machine.registers[name][warp] = promise.after[index]
            del now.promised[name]
    for name in [n for n, promise in now.used.items() if promise.after is not None]:
        del now.used[name]


def group_agent(machine: Machine, warp: int) -> int:
    """The warpgroup as an agent that reads shared memory."""
    layout = machine.layout
    rank, number = divmod(warp % layout.warps_per_cluster, layout.warps_per_cta)
    return layout.warps_per_cluster + rank * (-(-layout.warps_per_cta // 4)) + number // 4


def _keep(machine: Machine, promise: Promise) -> Array:
    """Compute a warp's part, its 16 rows, unless that has been done."""
    if promise.after is not None:
        return promise.after
    product, shape = promise.product, promise.product.shape
    first = 16 * (promise.warp % machine.layout.warps_per_cta % 4)
    if product.right is None:
        product.right = operand(machine, product, product.descriptor_b, shape.b)
    if promise.fragment is not None:
        values = mma.multiply(promise.fragment, product.right)
    else:
        if product.value is None:
            assert product.descriptor_a is not None
            left = operand(machine, product, product.descriptor_a, shape.a)
            product.value = mma.multiply(left, product.right)
        values = product.value[first : first + 16]
    where = mma.fragment_c(shape.b.rows)
    total = values[where.row, where.column]
    if shape.negate:
        total = 0 - total  # the operands are negated, the sum starts at +0
    before = promise.before
    if isinstance(before, Promise):
        before = _keep(machine, before)
    if before is not None:
        total = mma.add_accumulator(total, mma.unpack(before, shape.to), saturate=shape.saturate)
    promise.after, promise.before = mma.pack(total, shape.to), None
    return promise.after


# shared operands


@lru_cache(512)
def element_positions(descriptor: int, of: Matrix) -> Array:
    """Where in shared memory an operand's elements are (PTX ISA, "Matrix-descriptor", "Strides", canonical layouts).

    K-major: 8 rows of `span` bytes make a core, cores follow each other by the stride offset; without a swizzle a core
    is 8 rows of 16 bytes, and the next 16 bytes of k come after the leading offset. MN-major: rows and k change places,
    the leading offset is from one span of rows to the next.
    """
    start = (descriptor & 0x3FFF) << 4
    leading, stride = (descriptor >> 16 & 0x3FFF) << 4, (descriptor >> 32 & 0x3FFF) << 4
    span = _SPANS[descriptor >> 62 & 3]
    row, column = np.ogrid[0 : of.rows, 0 : of.k]
    elem = of.kind.bytes
    if not of.transposed:
        byte = column * elem
        if span:
            offset = row // 8 * stride + row % 8 * span + byte
        else:
            offset = row // 8 * stride + row % 8 * 16 + byte // 16 * leading + byte % 16
    else:
        width = span or 16
        per = width // elem
        along_row, along_k = (leading, stride) if span else (stride, leading)
        offset = row % per * elem + row // per * along_row + column % 8 * width + column // 8 * along_k
    return swizzled(start + offset, span) - SHARED_BASE


def operand(machine: Machine, product: Product, descriptor: int, of: Matrix) -> Array:
    """Read an operand from shared memory as numbers."""
    positions = element_positions(descriptor, of) + product.slot * machine.layout.shared_stride
    return mma.numbers(machine.shared.view(UNSIGNED[of.kind.bits])[positions // of.kind.bytes], of.kind)


@lru_cache(512)
def _units(descriptor: int, of: Matrix, unit: int) -> Array:
    return np.unique(element_positions(descriptor, of) // unit)[None]


def _check_operand(g: Gang, warp: int, product: Product, descriptor: int, of: Matrix) -> None:
    """The matrix that a descriptor says is in shared memory is there."""
    machine, layout = g.machine, g.machine.layout
    if descriptor >> 49 & 7:
        raise machine.error("a descriptor with a base offset is not emulated", g.pc, warp)
    positions = element_positions(descriptor, of)
    low, high = int(positions.min()), int(positions.max()) + of.kind.bytes
    if low < 0 or high > layout.shared_bytes:
        message = f"out of bounds: the operand covers {low + SHARED_BASE:#x} to {high + SHARED_BASE:#x}"
        raise machine.error(
            f"{message}, shared memory ends at {layout.shared_bytes + SHARED_BASE:#x}",
            g.pc,
            warp,
            about="out-of-bounds",
        )
    if machine.hazards:
        units = _units(descriptor, of, layout.unit) + product.slot * layout.shared_stride // layout.unit
        by, agent = Access.of_one(warp, LANES, g.pc), group_agent(machine, warp)
        machine.hazards.read(by, units, agent=agent, time=product.number + 1, asynchronous=True)


# issue


def _shape(d: Decoder) -> Shape:
    """The instruction's shape; immediates are checked."""
    match = next((m for m in (re.fullmatch(r"m64n(\d+)k(\d+)", x) for x in d.mods) if m), None)
    if match is None or len(d.types) != 3:
        raise d.error("expected m64nNkK and three types")
    n, k = int(match[1]), int(match[2])
    to, of_a, of_b = d.types
    if n % 8 or not 8 <= n <= 256 or k * of_a.bits != 256 or of_a.bits != of_b.bits:
        raise d.error(f"m64n{n}k{k} of {of_a.name} does not exist")
    ops = d.ops
    from_registers = ops[1].kind == "vec"
    integer = not of_a.is_float
    transposes = (1 if from_registers else 2) if of_a.bits == 16 else 0
    d.operands(4 + (0 if integer else 2) + transposes)
    rest = [d.constant(o) for o in ops[4:]]
    scales, flags = ([1, 1], rest) if integer else (rest[:2], rest[2:])
    if any(s not in (1, -1) for s in scales) or any(f not in (0, 1) for f in flags):
        raise d.error(f"immediates {rest}: expected scales of 1 or -1, then 0 or 1")
    left = Matrix(64, k, of_a, len(flags) == 2 and bool(flags[0]))
    right = Matrix(n, k, of_b, bool(flags) and bool(flags[-1]))
    if len(ops[0].items) != n * to.bits // 64 or (from_registers and len(ops[1].items) != 4):
        raise d.error(f"{len(ops[0].items)} accumulator registers: expected {n * to.bits // 64}")
    return Shape(left, right, to, scales[0] * scales[1] < 0, "satfinite" in d.mods)


@instruction("wgmma.mma_async", mods=r"sync aligned satfinite m64n\d+k\d+")
def mma_async(d: Decoder) -> Step:
    """wgmma.mma_async: D = A B (+ D), when it is waited for."""
    shape, machine = _shape(d), d.machine
    to, a, b, scale = d.ops[:4]
    names, a_names = tuple(o.name for o in to.items), tuple(o.name for o in a.items)
    fragment = d.sources(a, "b32") if a_names else None
    descriptor_a = None if a_names else d.source(a, "b64")
    descriptor_b, adds = d.source(b, "b64"), d.source(scale, "pred")

    def step(g: Gang) -> None:
        all_converged(g)
        now = machine.part(State)
        left = _uniform(g, descriptor_a) if descriptor_a else [None] * len(g)
        right, add = _uniform(g, descriptor_b), full(g, adds(g))
        kind = shape.a.kind
        rows = mma.matrix(fragment(g), _FRAGMENT[kind.bits], kind) if fragment else None
        for row, warp in enumerate(g.warps.tolist()):
            registers, a_at, b_at = now.warps[warp], left[row], right[row]
            _check_registers(g, registers, warp, names if add[row, 0] else (), a_names)
            product = _product(g, now, warp, shape, a_at, b_at)
            if a_at is not None:
                _check_operand(g, warp, product, a_at, shape.a)
            _check_operand(g, warp, product, b_at, shape.b)
            before = _before(machine, registers, warp, names) if add[row, 0] else None
            promise = Promise(product, warp, before, rows[row] if rows is not None else None)
            now.groups.open[warp].append(promise)
            registers.promised.update((name, (promise, k)) for k, name in enumerate(names))
            registers.used.update(dict.fromkeys(a_names, promise))
        mma.count_flops(g, kind, 2 * 16 * shape.b.rows * shape.b.k)

    return step


_FRAGMENT = {bits: mma.fragment(16, 256 // bits, bits, 4) for bits in (8, 16, 32)}


def _uniform(g: Gang, read: Source) -> list[int]:
    values = full(g, read(g))
    if (values != values[:, :1]).any():
        row = int(np.argmax((values != values[:, :1]).any(1)))
        raise g.machine.error("the descriptor differs between lanes", g.pc, int(g.warps[row]), about="divergence")
    return values[:, 0].tolist()


def _check_registers(
    g: Gang, now: Registers, warp: int, accumulators: tuple[str, ...], a_names: tuple[str, ...]
) -> None:
    """Registers that are operands may be: accumulators only those that are added to."""
    machine = g.machine
    if not machine.checks:
        return
    if not now.fenced:
        raise machine.error("no wgmma.fence before the first wgmma.mma_async", g.pc, warp, about="fence")
    for name in (*a_names, *accumulators):
        if name in now.touched or name in now.constants:
            error = machine.error(
                f"register {_plain(name)} was written with no wgmma.fence since", g.pc, warp, about="fence"
            )
            if name in now.touched:
                raise error
            machine.note((g.pc, "constant"), error)  # LLVM moves constants there, and GPUs take it
    for name in a_names:
        if name in now.promised:
            raise machine.error(
                f"register {_plain(name)} of A is the result of a wgmma not waited for",
                g.pc,
                warp,
                about="in-flight",
            )


def _product(g: Gang, now: State, warp: int, shape: Shape, left: int | None, right: int) -> Product:
    """The product that this warp's warpgroup is at; its warps must agree on it."""
    machine, number = g.machine, now.warps[warp].issued
    now.warps[warp].issued += 1
    slot = machine.layout.slot_of(warp)
    group = slot * 16 + warp % machine.layout.warps_per_cta // 4
    key = (group, number)
    product = now.products.get(key)
    if product is None:
        product = now.products[key] = Product(shape, g.pc, slot, number, left, right)
        now.products.pop((group, number - 64), None)
    if product.pc != g.pc or product.descriptor_a != left or product.descriptor_b != right:
        raise machine.error(
            "the warps of the warpgroup execute different wgmmas or descriptors", g.pc, warp, about="divergence"
        )
    product.issuers.add(warp)
    if product.waiting and _issued_by_all(machine, product):
        machine.wake(product.waiting, 0)
    return product


def _before(machine: Machine, now: Registers, warp: int, names: tuple[str, ...]) -> Array | Promise:
    first = now.promised.get(names[0])
    if first and all(now.promised.get(name) == (first[0], k) for k, name in enumerate(names)):
        return first[0]
    for name in names:
        if name in now.promised:
            promise, index = now.promised[name]
            machine.registers[name][warp] = _keep(machine, promise)[index]
    return np.stack([machine.registers[name][warp] for name in names])


# registers between issue and wait


def tracked(kernel: Kernel) -> frozenset[str]:
    """Registers that wgmmas have as operands, and those that moves connect with them."""
    moves: dict[str, set[str]] = defaultdict(set)
    for i in kernel.code:
        if _is_copy(i):
            to, of = i.operands
            moves[to.name].add(of.name)
            moves[of.name].add(to.name)
    work = [o.name for i in kernel.code if i.opcode.startswith("wgmma.mma") for op in i.operands[:2] for o in op.items]
    found: set[str] = set()
    while work:
        if (name := work.pop()) not in found:
            found.add(name)
            work.extend(moves.get(name, ()))
    return frozenset(found)


def _is_copy(i: Instruction) -> bool:
    return i.name == "mov" and len(i.operands) == 2 and all(o.kind == "reg" for o in i.operands) and not i.guard


def watched(d: Decoder, step: Step) -> Step:
    """Check an instruction that touches registers which wgmmas use."""
    machine, names, copies = d.machine, d.machine.wgmma_registers, _is_copy(d.instruction)
    if not names or d.name == "wgmma" or not (machine.checks or copies):
        return step
    first = 0 if d.name in _NO_RESULT else 1
    writes = {n for o in d.ops[:first] for n in _registers(o) if n in names}
    reads = {n for o in d.ops[first:] for n in _registers(o) if n in names}
    if not reads and not writes:
        return step
    if copies:
        return _watch_copy(d, step)
    is_constant = d.name == "mov" and all(o.kind in {"int", "float", "bits32", "bits64"} for o in d.ops[1:])
    return _watch(step, reads, writes, is_constant=is_constant)


_NO_RESULT = frozenset({"st", "red", "bra", "brx", "bar", "barrier", "fence", "stmatrix", "cp", "ret", "exit"})


def _registers(o: Operand) -> list[str]:
    return [o.name] if o.kind == "reg" else [n for item in o.items for n in _registers(item)]


def _watch(step: Step, reads: set[str], writes: set[str], *, is_constant: bool) -> Step:
    def run(g: Gang) -> int | None:
        state = g.machine.part(State)
        for warp in g.warps.tolist():
            now = state.warps[warp]
            _refuse(g, warp, now.promised, reads, "reads")
            _refuse(g, warp, now.promised, writes, "writes")
            _refuse(g, warp, now.used, writes, "writes")
            into, other = (now.constants, now.touched) if is_constant else (now.touched, now.constants)
            into |= writes
            other -= writes
        return step(g)

    return run


def _refuse(g: Gang, warp: int, held: Mapping[str, object], names: set[str], verb: str) -> None:
    if held and (bad := names & held.keys()):
        message = f"{verb} register {_plain(min(bad))} of a wgmma not waited for"
        raise g.machine.error(message, g.pc, warp, about="in-flight")


def _watch_copy(d: Decoder, step: Step) -> Step:
    to, of = (o.name for o in d.ops)

    def run(g: Gang) -> int | None:
        state = g.machine.part(State)
        result = step(g)
        assert result != STOP
        for warp in g.warps.tolist():
            now = state.warps[warp]
            if of in now.promised:
                now.promised[to] = now.promised[of]
            elif g.machine.checks:
                _refuse(g, warp, now.promised, {to}, "writes")
                _refuse(g, warp, now.used, {to}, "writes")
            for kept in (now.touched, now.constants):
                if of in kept:
                    kept.add(to)
                else:
                    kept.discard(to)
        return result

    return run


def _plain(name: str) -> str:
    return name.split("#", maxsplit=1)[0]
