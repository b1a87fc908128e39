"""wgmma (PTX ISA 9.7.15): products of a warpgroup that happen at their wait.

Until the wait an accumulator has no value: a copy of its register stands for the same promise (LLVM moves accumulators
between registers, ptxas removes the moves), any other use is an error. Shared operands are read at the wait.
Registers written since the last wgmma.fence may not be operands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from graphfuse.gpu.emulator import access
from graphfuse.gpu.emulator.decode import Decoder, Source, full
from graphfuse.gpu.emulator.gang import LANES, STOP, Gang, Split, Step
from graphfuse.gpu.emulator.hazards import Access
from graphfuse.gpu.emulator.instructions import mma
from graphfuse.gpu.emulator.instructions.control import converged
from graphfuse.gpu.emulator.machine import SHARED_BASE, Machine
from graphfuse.gpu.emulator.parse import Instruction, Kernel, Operand
from graphfuse.gpu.emulator.tensormap import swizzled
from graphfuse.gpu.emulator.types import UNSIGNED, Array, PtxType

_SPANS = {0: 0, 1: 128, 2: 64, 3: 32}
"""Layout type, bits 62 and 63 of a descriptor, to swizzle span."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What an instruction multiplies: [64, k] by [n, k] elements of `kind`, into `to`."""

    n: int
    k: int
    to: PtxType
    kind_a: PtxType
    kind_b: PtxType
    a_transposed: bool
    b_transposed: bool
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
    left: Array | None = None
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
    registers: tuple[str, ...]
    after: Array | None = None


@dataclass(eq=False, slots=True)
class State:
    """wgmma's state for all warps."""

    issued: dict[int, int] = field(default_factory=dict[int, int])
    products: dict[tuple[int, int], Product] = field(default_factory=dict[tuple[int, int], Product])
    open: dict[int, list[Promise]] = field(default_factory=dict[int, list[Promise]])
    groups: dict[int, list[list[Promise]]] = field(default_factory=dict[int, list[list[Promise]]])
    promised: dict[int, dict[str, tuple[Promise, int]]] = field(
        default_factory=dict[int, dict[str, tuple[Promise, int]]]
    )
    used: dict[int, dict[str, Promise]] = field(default_factory=dict[int, dict[str, Promise]])
    touched: dict[int, set[str]] = field(default_factory=dict[int, set[str]])
    fenced: set[int] = field(default_factory=set[int])


def state(machine: Machine) -> State:
    """The machine's wgmma state; a new batch of CTAs starts afresh."""
    found = machine.in_flight.get("wgmma")
    if not isinstance(found, State):
        found = machine.in_flight["wgmma"] = State()
    return found


def wgmma(d: Decoder) -> Step:
    """wgmma.*, by its first modifier."""
    builders = {"fence": fence, "mma_async": mma_async, "commit_group": commit, "wait_group": wait}
    if d.mods[0] not in builders:
        raise d.error(f"unknown modifier '.{d.mods[0]}'")
    return builders[d.mods[0]](d)


def _all_lanes(machine: Machine, g: Gang) -> None:
    for row in range(len(g)):
        converged(machine, g, row, g.mask[row])


def fence(d: Decoder) -> Step:
    """wgmma.fence: what was written to registers may be an operand from here on."""
    machine = d.machine

    def step(g: Gang) -> None:
        _all_lanes(machine, g)
        now = state(machine)
        for warp in g.warps.tolist():
            now.fenced.add(warp)
            now.touched.pop(warp, None)

    return step


def commit(d: Decoder) -> Step:
    """wgmma.commit_group."""
    machine = d.machine

    def step(g: Gang) -> None:
        _all_lanes(machine, g)
        now = state(machine)
        for warp in g.warps.tolist():
            now.groups.setdefault(warp, []).append(now.open.pop(warp, []))

    return step


def wait(d: Decoder) -> Step:
    """wgmma.wait_group: all but the last n groups have happened, once every warp of the warpgroup has issued them."""
    keep, machine = d.constant(d.operands(1)[0]), d.machine

    def step(g: Gang) -> int | None:
        _all_lanes(machine, g)
        now = state(machine)
        ready: list[Split] = []
        for split in g.splits:
            groups = now.groups.get(split.warp, [])
            done = groups[: len(groups) - keep] if keep < len(groups) else []
            promises = [p for group in done for p in group]
            behind = next((p.product for p in promises if not _issued_by_all(machine, p.product)), None)
            if behind is not None:
                split.pc = g.pc
                behind.waiting.append(split)
                machine.block(split, _behind(behind))
                continue
            ready.append(split)
            if done:
                now.groups[split.warp] = groups[len(done) :]
                _complete(machine, now, split.warp, promises)
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


def _complete(machine: Machine, now: State, warp: int, promises: list[Promise]) -> None:
    for promise in promises:
        _keep(machine, promise)
    if machine.hazards and promises:
        clocks, agent = machine.hazards.clocks, group_agent(machine, warp)
        clocks[warp, agent] = max(clocks[warp, agent], promises[-1].product.number + 1)
    promised = now.promised.get(warp, {})
    for name in [n for n, (promise, _) in promised.items() if promise.after is not None]:
        promise, index = promised.pop(name)
        assert promise.after is not None
        machine.registers[name][warp] = promise.after[index]
    used = now.used.get(warp, {})
    for name in [n for n, promise in used.items() if promise.after is not None]:
        del used[name]


def group_agent(machine: Machine, warp: int) -> int:
    """The warpgroup as an agent that reads shared memory."""
    layout = machine.layout
    rank, number = divmod(warp % layout.warps_per_cluster, layout.warps_per_cta)
    return layout.warps_per_cluster + rank * (-(-layout.warps_per_cta // 4)) + number // 4


def _keep(machine: Machine, promise: Promise) -> None:
    """Compute a warp's part: its 16 rows."""
    product, shape = promise.product, promise.product.shape
    rows = slice(16 * (promise.warp % machine.layout.warps_per_cta % 4), None)
    rows = slice(rows.start, rows.start + 16)
    if product.right is None:
        product.right = operand(
            machine, product, product.descriptor_b, shape.n, shape.kind_b, transposed=shape.b_transposed
        )
    if promise.fragment is not None:
        values = mma.multiply(promise.fragment, product.right)
    else:
        if product.value is None:
            assert product.descriptor_a is not None
            left = operand(machine, product, product.descriptor_a, 64, shape.kind_a, transposed=shape.a_transposed)
            product.value = mma.multiply(left, product.right)
        values = product.value[rows]
    where = mma.fragment_c(shape.n)
    total = values[where.row, where.column]
    if shape.negate:
        total = 0 - total  # the operands are negated, the sum starts at +0
    before = promise.before
    if isinstance(before, Promise):
        if before.after is None:
            _keep(machine, before)
        before = before.after
    if before is not None:
        total = mma.add_accumulator(total, mma.unpack(before, shape.to), saturate=shape.saturate)
    promise.after = mma.pack(total, shape.to)
    promise.before = None


# shared operands


def element_addresses(descriptor: int, rows: int, k: int, elem: int, *, transposed: bool) -> Array:
    """Shared addresses of a [rows, k] operand's elements (PTX ISA, "Matrix-descriptor", "Strides", canonical layouts).

    K-major: 8 rows of `span` bytes make a core, cores follow each other by the stride offset; without a swizzle a core
    is 8 rows of 16 bytes, and the next 16 bytes of k come after the leading offset. MN-major: rows and k change places,
    the leading offset is from one span of rows to the next.
    """
    start = (descriptor & 0x3FFF) << 4
    leading, stride = (descriptor >> 16 & 0x3FFF) << 4, (descriptor >> 32 & 0x3FFF) << 4
    span = _SPANS[descriptor >> 62 & 3]
    row, column = np.ogrid[0:rows, 0:k]
    if not transposed:
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
    return swizzled(start + offset, span)


def operand(
    machine: Machine, product: Product, descriptor: int, rows: int, kind: PtxType, *, transposed: bool
) -> Array:
    """Read an operand from shared memory as numbers."""
    positions = _positions(machine, product, descriptor, rows, kind, transposed=transposed)
    raw = machine.shared.view(UNSIGNED[kind.bits])[positions // kind.bytes]
    return mma.numbers(raw, kind)


def _positions(
    machine: Machine, product: Product, descriptor: int, rows: int, kind: PtxType, *, transposed: bool
) -> Array:
    key = (descriptor, rows, product.shape.k, kind.bytes, transposed)
    cache = machine.operand_positions
    if key not in cache:
        cache[key] = (
            element_addresses(descriptor, rows, product.shape.k, kind.bytes, transposed=transposed) - SHARED_BASE
        )
    return cache[key] + product.slot * machine.layout.shared_stride


def _check_operand(machine: Machine, g: Gang, warp: int, product: Product, side: str, descriptor: int) -> None:
    """The matrix that a descriptor says is in shared memory, for the left or the right side, is there."""
    layout, shape = machine.layout, product.shape
    if side == "left":
        rows, kind, transposed = 64, shape.kind_a, shape.a_transposed
    else:
        rows, kind, transposed = shape.n, shape.kind_b, shape.b_transposed
    if descriptor >> 49 & 7:
        raise machine.error("a descriptor with a base offset is not emulated", g.pc, warp)
    positions = _positions(machine, product, descriptor, rows, kind, transposed=transposed)
    base = product.slot * layout.shared_stride
    low, high = int(positions.min()) - base, int(positions.max()) - base + kind.bytes
    if low < 0 or high > layout.shared_bytes:
        message = f"out of bounds: the operand covers {low + SHARED_BASE:#x} to {high + SHARED_BASE:#x}"
        raise machine.error(f"{message}, shared memory ends at {layout.shared_bytes + SHARED_BASE:#x}", g.pc, warp)
    if machine.hazards:
        key = ("units", descriptor, rows, shape.k, kind.bytes, transposed)
        cache = machine.operand_positions
        if key not in cache:
            cache[key] = np.unique((positions - base) // layout.unit)[None]
        units = cache[key] + base // layout.unit
        by = Access(np.array([warp]), np.array([LANES]), g.pc)
        agent, time = group_agent(machine, warp), product.number + 1
        with access.located(machine, by):
            machine.hazards.read(by, units, agent=agent, time=time, asynchronous=True)


# issue


def _shape(d: Decoder) -> tuple[Shape, Operand, Operand, Operand, Operand]:
    """The instruction's shape and its operands d, a, b, scale-d; immediates are checked."""
    match = next((m for m in (re.fullmatch(r"m64n(\d+)k(\d+)", x) for x in d.mods) if m), None)
    if match is None or len(d.types) != 3:
        raise d.error("expected m64nNkK and three types")
    d.only(("mma_async", "sync", "aligned", "satfinite", match[0]))
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
    b_transposed = bool(flags[-1]) if flags else False
    a_transposed = bool(flags[0]) if len(flags) == 2 else False
    negate = scales[0] * scales[1] < 0
    shape = Shape(n, k, to, of_a, of_b, a_transposed, b_transposed, negate, "satfinite" in d.mods)
    if len(ops[0].items) != n * to.bits // 64 or (from_registers and len(ops[1].items) != 4):
        raise d.error(f"{len(ops[0].items)} accumulator registers: expected {n * to.bits // 64}")
    return shape, ops[0], ops[1], ops[2], ops[3]


def mma_async(d: Decoder) -> Step:
    """wgmma.mma_async: D = A B (+ D), when it is waited for."""
    shape, to, a, b, scale = _shape(d)
    machine = d.machine
    names = tuple(o.name for o in to.items)
    a_names = tuple(o.name for o in a.items) if a.kind == "vec" else ()
    fragment = [d.source(o, "b32") for o in a.items] if a.kind == "vec" else None
    descriptor_a = d.source(a, "b64") if fragment is None else None
    descriptor_b, adds = d.source(b, "b64"), d.source(scale, "pred")

    def step(g: Gang) -> None:
        _all_lanes(machine, g)
        now = state(machine)
        left = _uniform(machine, g, descriptor_a) if descriptor_a else [None] * len(g)
        right = _uniform(machine, g, descriptor_b)
        add = full(g, adds(g))
        rows = mma.matrix(_read(g, fragment), _FRAGMENT[shape.kind_a.bits], shape.kind_a) if fragment else None
        for row, warp in enumerate(g.warps.tolist()):
            _check_registers(machine, g, now, warp, names, a_names, adds=bool(add[row, 0]))
            product = _product(machine, g, now, warp, shape, left[row], right[row])
            a_at = left[row]
            if a_at is not None:
                _check_operand(machine, g, warp, product, "left", a_at)
            _check_operand(machine, g, warp, product, "right", right[row])
            before = _before(machine, now, warp, names) if add[row, 0] else None
            promise = Promise(product, warp, before, rows[row] if rows is not None else None, names)
            now.open.setdefault(warp, []).append(promise)
            promised = now.promised.setdefault(warp, {})
            promised.update((name, (promise, k)) for k, name in enumerate(names))
            now.used.setdefault(warp, {}).update((name, promise) for name in a_names)
        mma.count_flops(machine, shape.kind_a, len(g) * 2 * 16 * shape.n * shape.k)

    return step


_FRAGMENT = {bits: mma.fragment_a(256 // bits, bits, 4) for bits in (8, 16, 32)}


def _read(g: Gang, reads: list[Source]) -> Array:
    return np.stack([full(g, r(g)) for r in reads], axis=1)


def _uniform(machine: Machine, g: Gang, read: Source) -> list[int]:
    values = full(g, read(g))
    if (values != values[:, :1]).any():
        row = int(np.argmax((values != values[:, :1]).any(1)))
        raise machine.error("the descriptor differs between lanes", g.pc, int(g.warps[row]))
    return values[:, 0].tolist()


def _check_registers(
    machine: Machine, g: Gang, now: State, warp: int, names: tuple[str, ...], a_names: tuple[str, ...], *, adds: bool
) -> None:
    if not machine.checks:
        return
    if warp not in now.fenced:
        raise machine.error("no wgmma.fence before the first wgmma.mma_async", g.pc, warp)
    touched = now.touched.get(warp, set())
    for name in (*a_names, *(names if adds else ())):
        if name in touched:
            raise machine.error(f"register {_plain(name)} was written with no wgmma.fence since", g.pc, warp)
    promised = now.promised.get(warp, {})
    for name in a_names:
        if name in promised:
            raise machine.error(f"register {_plain(name)} of A is the result of a wgmma not waited for", g.pc, warp)


def _product(machine: Machine, g: Gang, now: State, warp: int, shape: Shape, left: int | None, right: int) -> Product:
    """The product that this warp's warpgroup is at; its warps must agree on it."""
    number = now.issued.get(warp, 0)
    now.issued[warp] = number + 1
    slot = machine.layout.slot_of(warp)
    group = slot * 16 + warp % machine.layout.warps_per_cta // 4
    key = (group, number)
    product = now.products.get(key)
    if product is None:
        product = now.products[key] = Product(shape, g.pc, slot, number, left, right)
        now.products.pop((group, number - 64), None)
    if product.pc != g.pc or product.descriptor_a != left or product.descriptor_b != right:
        raise machine.error("the warps of the warpgroup execute different wgmmas or descriptors", g.pc, warp)
    product.issuers.add(warp)
    if product.waiting and _issued_by_all(machine, product):
        waiting, product.waiting = product.waiting, []
        for split in waiting:
            machine.wake(split, split.pc)
    return product


def _before(machine: Machine, now: State, warp: int, names: tuple[str, ...]) -> Array | Promise:
    promised = now.promised.get(warp, {})
    first = promised.get(names[0])
    if first and all(promised.get(name) == (first[0], k) for k, name in enumerate(names)):
        return first[0]
    for name in names:
        if name in promised:
            promise, index = promised[name]
            _keep_all(machine, promise)
            assert promise.after is not None
            machine.registers[name][warp] = promise.after[index]
    return np.stack([machine.registers[name][warp] for name in names])


def _keep_all(machine: Machine, promise: Promise) -> None:
    if promise.after is None:
        _keep(machine, promise)


# registers between issue and wait


def tracked(kernel: Kernel) -> frozenset[str]:
    """Registers that wgmmas have as operands, and those that moves connect with them."""
    found: set[str] = set()
    moves: dict[str, set[str]] = {}
    for i in kernel.code:
        if i.name == "wgmma" and i.mods[0] == "mma_async":
            for op in i.operands[:2]:
                found.update(o.name for o in op.items)
        elif _is_copy(i):
            to, of = i.operands
            moves.setdefault(to.name, set()).add(of.name)
            moves.setdefault(of.name, set()).add(to.name)
    work = list(found)
    while work:
        for name in moves.get(work.pop(), ()):
            if name not in found:
                found.add(name)
                work.append(name)
    return frozenset(found)


def _is_copy(i: Instruction) -> bool:
    return i.name == "mov" and len(i.operands) == 2 and all(o.kind == "reg" for o in i.operands) and not i.guard


def watched(d: Decoder, step: Step) -> Step:
    """Check an instruction that touches registers which wgmmas use."""
    names = d.machine.wgmma_registers
    if not names or d.name == "wgmma" or (not d.machine.checks and not _is_copy(d.instruction)):
        return step
    first = 0 if d.name in _NO_RESULT else 1
    writes = {n for o in d.ops[:first] for n in _registers(o) if n in names}
    reads = {n for o in d.ops[first:] for n in _registers(o) if n in names}
    if not reads and not writes:
        return step
    return _watch_copy(d, step) if _is_copy(d.instruction) else _watch(d, step, reads, writes)


_NO_RESULT = frozenset({"st", "red", "bra", "brx", "bar", "barrier", "fence", "stmatrix", "cp", "ret", "exit"})


def _registers(o: Operand) -> list[str]:
    return [o.name] if o.kind == "reg" else [n for item in o.items for n in _registers(item)]


def _watch(d: Decoder, step: Step, reads: set[str], writes: set[str]) -> Step:
    machine = d.machine

    def run(g: Gang) -> int | None:
        now = state(machine)
        for warp in g.warps.tolist():
            _refuse(machine, g, warp, now.promised.get(warp), reads, "reads")
            _refuse(machine, g, warp, now.promised.get(warp), writes, "writes")
            _refuse(machine, g, warp, now.used.get(warp), writes, "writes")
            if writes:
                now.touched.setdefault(warp, set()).update(writes)
        return step(g)

    return run


def _refuse(
    machine: Machine, g: Gang, warp: int, held: Mapping[str, object] | None, names: set[str], verb: str
) -> None:
    if held and (bad := names & held.keys()):
        message = f"{verb} register {_plain(min(bad))} of a wgmma not waited for"
        raise machine.error(message, g.pc, warp)


def _watch_copy(d: Decoder, step: Step) -> Step:
    to, of = (o.name for o in d.ops)
    machine = d.machine

    def run(g: Gang) -> int | None:
        now = state(machine)
        result = step(g)
        assert result != STOP
        for warp in g.warps.tolist():
            promised = now.promised.get(warp)
            if promised and of in promised:
                promised[to] = promised[of]
            elif machine.checks:
                _refuse(machine, g, warp, promised, {to}, "writes")
                _refuse(machine, g, warp, now.used.get(warp), {to}, "writes")
            touched = now.touched.setdefault(warp, set())
            if of in touched:
                touched.add(to)
            else:
                touched.discard(to)
        return result

    return run


def _plain(name: str) -> str:
    return name.split("#", maxsplit=1)[0]


Builder = Callable[[Decoder], Step]
TABLE: dict[str, Builder] = {"wgmma": wgmma}
