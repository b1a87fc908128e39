"""Layout conversions: how a tile gets from the threads that hold it to the threads that want it.

`plan` compares two layouts by linear algebra (where does each wanted element lie?) and picks the cheapest route:

1. nothing moves, or registers are renamed: free;
2. data stays in its warp: shuffles, as exchanges of a register bit with a lane bit, or as a general gather;
3. otherwise shared memory, in a layout chosen so that neither the store nor the load has bank conflicts.

A plan is data, whose steps the code generator emits. It allocates nothing: where the
scratch lies, and barriers against earlier users of it, are the lowering's (`kernel.exchange`, `kernel.order`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from graphfuse.errors import UnsupportedError, VerifyError
from graphfuse.gpu.analysis.memory_access import BANK_BYTES, BANKS, MAX_VECTOR_BYTES, SharedAccess, bank_conflicts
from graphfuse.ir.layout import BLOCK, LANE, OFFSET, REGISTER, WARP, Echelon, LinearLayout, intersection, log2

Route = Literal["none", "registers", "shuffle", "shared"]
Scope = Literal["warp", "block"]


@dataclass(frozen=True, slots=True)
class Rename:
    """Result register i is register `sources[i]`; a register may be dropped or used twice. No instruction."""

    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Exchange:
    """Swap a register bit with a lane bit.

    Per pair of registers (v0, v1) that differ in that bit, and with b that bit of the lane:
    `got = shfl.bfly(b ? v0 : v1, 1 << lane_bit); v0 = b ? got : v0; v1 = b ? v1 : got`.
    """

    register_bit: int
    lane_bit: int


@dataclass(frozen=True, slots=True)
class Gather:
    """Result (register, lane, warp) is what `(register, lane)` of `source` says, in the same warp.

    With the map written as source register `A r ^ B (lane, warp)` and source lane `C r ^ D (lane, warp)`: for each
    result register r and each of the `selections` values v that B takes, `shfl.idx` of register `A r ^ v`, then
    selects on bits of lane and warp. Where the source lane is the own one the shuffle is left out.
    """

    source: LinearLayout

    @property
    def selections(self) -> int:
        """How many source registers a result register may come from, depending on the thread."""
        bits = _field_bits(self.source, REGISTER)
        thread = [*self.source.bases(LANE), *self.source.bases(WARP)]
        return 1 << Echelon([b & (1 << bits) - 1 for b in thread]).rank

    @property
    def crosses_lanes(self) -> bool:
        """Whether any lane reads another one."""
        bits = _field_bits(self.source, REGISTER)
        own = [1 << i for i in range(len(self.source.bases(LANE)))]
        return [b >> bits for b in self.source.bases(LANE)] != own or any(
            b >> bits for b in (*self.source.bases(REGISTER), *self.source.bases(WARP))
        )


@dataclass(frozen=True, slots=True)
class Store:
    """Write all registers to scratch; only threads whose bits in these masks are 0 do, the others hold copies."""

    access: SharedAccess
    free_lanes: int
    free_warps: int


@dataclass(frozen=True, slots=True)
class Barrier:
    """Wait for the other threads of the warp, or of the block."""

    scope: Scope


@dataclass(frozen=True, slots=True)
class Load:
    """Read all registers from scratch."""

    access: SharedAccess


Step: TypeAlias = Rename | Exchange | Gather | Store | Barrier | Load


@dataclass(frozen=True, slots=True)
class Conversion:
    """A way from `source` to `target`, in steps on the values that each thread holds."""

    source: LinearLayout
    target: LinearLayout
    elem_bits: int
    route: Route
    steps: tuple[Step, ...]
    shuffles: int
    """Shuffle instructions per warp."""
    rounds: int
    """Shuffle steps that wait for one another."""
    shared: LinearLayout | None
    """How the tile lies in scratch, when it goes through shared memory."""
    cycles: float
    """Estimated cycles of one block on an idle SM."""

    @property
    def shared_bytes(self) -> int:
        """Scratch needed."""
        return (self.elem_bits << self.shared.out_bits) // 8 if self.shared else 0


_SHUFFLE = 1.0
"""Cycles of the pipe that shuffles and shared memory share, for one warp instruction."""
_SELECT = 0.25
"""The same of a select, which another pipe makes beside it."""
_SHUFFLE_LATENCY = 24.0
"""Cycles, paid once for each step that depends on the one before."""
_SHARED_LATENCY = 30.0
"""The same of shared memory."""
_BARRIER_LATENCY: dict[Scope, float] = {"warp": 4.0, "block": 30.0}
"""The same of a barrier, by who meets."""


def plan(source: LinearLayout, target: LinearLayout, elem_bits: int, route: Route | None = None) -> Conversion:
    """The cheapest conversion; `route` asks for a particular one, which must be possible."""
    log2(elem_bits, "the width of an element")
    if source.size(BLOCK) > 1 or target.size(BLOCK) > 1:
        raise UnsupportedError("layout conversion: tiles spread over the blocks of a cluster are not converted")
    if any(source.size(name) != target.size(name) for name in (LANE, WARP)):
        raise VerifyError("layout conversion: the layouts are for different numbers of threads")
    src, dst = source.distinct_registers(), target.distinct_registers()
    where = dst.through(src)
    candidates = [_through_shared(source, target, src, dst, where, elem_bits)]
    if _stays_in_warp(where):
        candidates = [*_in_registers(source, target, src, dst, where, elem_bits), *candidates]
    if route is not None:
        candidates = [c for c in candidates if c.route == route]
        assert candidates, f"route {route!r} is not possible from {source} to {target}"
    return min(candidates, key=lambda c: c.cycles)


def _field_bits(where: LinearLayout, name: str) -> int:
    return dict(where.outs).get(name, 0)


def _stays_in_warp(where: LinearLayout) -> bool:
    low = _field_bits(where, REGISTER) + _field_bits(where, LANE)
    for name, bases in where.ins:
        for i, base in enumerate(bases):
            if base >> low != (1 << i if name == WARP and i < _field_bits(where, WARP) else 0):
                return False
    return True


# registers and shuffles


def _in_registers(
    source: LinearLayout, target: LinearLayout, src: LinearLayout, dst: LinearLayout, where: LinearLayout, bits: int
) -> list[Conversion]:
    """Plans that keep data in its warp, at least one."""
    low = _field_bits(where, REGISTER) + _field_bits(where, LANE)
    outs = {LANE: _field_bits(where, LANE), REGISTER: _field_bits(where, REGISTER)}
    inside = LinearLayout.of({n: [b & (1 << low) - 1 for b in bases] for n, bases in where.ins}, outs)
    first, last = Rename(holding(src, source)), Rename(holding(target, dst))
    gather = Gather(inside)
    warps = source.size(WARP)
    words = _words(bits, _passive_registers(inside))

    def conversion(steps: Sequence[Step], shuffles: float, selects: float, rounds: int) -> Conversion:
        kept = _merge_renames([first, *steps, last], source.size(REGISTER))
        route: Route = "shuffle" if any(not isinstance(s, Rename) for s in kept) else "registers" if kept else "none"
        cycles = warps * words * (shuffles * _SHUFFLE + selects * _SELECT) + rounds * _SHUFFLE_LATENCY
        return Conversion(source, target, bits, route, kept, int(words * shuffles + 0.999), rounds, None, cycles)

    registers = dst.size(REGISTER)
    if not gather.crosses_lanes and gather.selections == 1:
        return [conversion([Rename(tuple(inside.flat(register=r) for r in range(registers)))], 0, 0, 0)]
    shuffles = registers * gather.selections * gather.crosses_lanes
    out = [conversion([gather], shuffles, registers * (gather.selections - 1), int(gather.crosses_lanes))]
    if (exchanges := _exchanges(inside)) is not None:
        pairs = sum(isinstance(s, Exchange) for s in exchanges)
        moves = sum(isinstance(s, Gather) for s in exchanges)
        shuffles = registers * (pairs / 2 + moves)
        out.append(conversion(exchanges, shuffles, 1.5 * registers * pairs, pairs + moves))
    return out


def _words(bits: int, passive: int) -> float:
    """32-bit shuffles per element: several small elements travel together when none of them parts from the others."""
    return bits / 32 if bits >= 32 else 1 / min(32 // bits, 1 << passive)


def _passive_registers(inside: LinearLayout) -> int:
    """Register bits that only get another name."""
    low = _field_bits(inside, REGISTER)
    return sum(
        base < 1 << low and base & base - 1 == 0 and sum(bool(c & base) for c in inside.columns) == 1
        for base in inside.bases(REGISTER)
    )


def holders(layout: LinearLayout) -> dict[int, int]:
    """The first register with each element, of those that register numbers alone tell apart."""
    return {layout.flat(register=r): r for r in reversed(range(layout.size(REGISTER)))}


def holding(wanted: LinearLayout, have: LinearLayout) -> tuple[int, ...]:
    """For each register of `wanted` the first of `have` with the same element."""
    held = holders(have)
    return tuple(held[wanted.flat(register=r)] for r in range(wanted.size(REGISTER)))


def _merge_renames(steps: Sequence[Step], registers: int) -> tuple[Step, ...]:
    """Join neighbouring renames and leave out those that change nothing."""
    out: list[Step] = []
    for step in steps:
        if isinstance(step, Rename) and out and isinstance(before := out[-1], Rename):
            out[-1] = Rename(tuple(before.sources[i] for i in step.sources))
        else:
            out.append(step)
    kept: list[Step] = []
    for step in out:
        if isinstance(step, Rename):
            if step.sources == tuple(range(registers)):
                continue
            registers = len(step.sources)
        elif isinstance(step, Gather):
            registers = step.source.size(REGISTER)
        kept.append(step)
    return tuple(kept)


_Bit: TypeAlias = tuple[str, int]


def _exchanges(inside: LinearLayout) -> list[Step] | None:
    """Exchanges, one lane permutation and a renaming, when bits of (register, lane) are permuted; else None."""
    if inside.size(WARP) > 1 and any(inside.bases(WARP)):
        return None
    registers, lanes = _field_bits(inside, REGISTER), _field_bits(inside, LANE)
    names: list[_Bit] = [(REGISTER, i) for i in range(registers)] + [(LANE, i) for i in range(lanes)]
    wanted = {(name, i): base for name, bases in inside.ins if name != WARP for i, base in enumerate(bases)}
    if sorted(wanted.values()) != [1 << i for i in range(len(names))] or set(wanted) != set(names):
        return None
    goes: dict[_Bit, _Bit] = {names[base.bit_length() - 1]: bit for bit, base in wanted.items()}
    leaving = [b for b in names if b[0] == REGISTER and goes[b][0] == LANE]
    vacated = [b for b in names if b[0] == LANE and goes[b][0] == REGISTER]
    steps: list[Step] = []
    for register in sorted(leaving, key=lambda b: goes[b] not in vacated):
        # the lane bit that is already the destination saves the lane permutation
        lane = goes[register] if goes[register] in vacated else vacated[0]
        vacated.remove(lane)
        steps.append(Exchange(register[1], lane[1]))
        goes[register], goes[lane] = goes[lane], goes[register]
    final = {goes[b]: b for b in names}
    if any(final[LANE, i] != (LANE, i) for i in range(lanes)):
        ins = {
            REGISTER: [1 << i for i in range(registers)],
            LANE: [1 << registers + final[LANE, i][1] for i in range(lanes)],
        }
        steps.append(Gather(LinearLayout.of(ins, {LANE: lanes, REGISTER: registers})))
    order = [final[REGISTER, i][1] for i in range(registers)]
    steps.append(Rename(tuple(sum((r >> i & 1) << b for i, b in enumerate(order)) for r in range(1 << registers))))
    return steps


# shared memory


def _through_shared(
    source: LinearLayout, target: LinearLayout, src: LinearLayout, dst: LinearLayout, where: LinearLayout, bits: int
) -> Conversion:
    elem_bytes = max(1, bits // 8)
    shared = swizzle(src, dst, elem_bytes * 8)
    store, load = bank_conflicts(shared, src, elem_bytes), bank_conflicts(shared, dst, elem_bytes)
    free = src.free_masks()
    scope: Scope = "warp" if _stays_in_warp(where) and not free.get(WARP) else "block"
    steps = [
        Rename(holding(src, source)),
        Store(store, free.get(LANE, 0), free.get(WARP, 0)),
        Barrier(scope),
        Load(load),
        Rename(holding(target, dst)),
    ]
    waves = source.size(WARP) * (store.total_wavefronts + load.total_wavefronts)
    cycles = waves + 2 * _SHARED_LATENCY + _BARRIER_LATENCY[scope]
    first = _merge_renames(steps[:1], source.size(REGISTER))
    last = _merge_renames(steps[4:], dst.size(REGISTER))
    kept = (*first, *steps[1:4], *last)
    return Conversion(source, target, elem_bytes * 8, "shared", kept, 0, 0, shared, cycles)


def swizzle(source: LinearLayout, target: LinearLayout, elem_bits: int) -> LinearLayout:
    """A memory layout (offset to element) through which both layouts go with wide vectors and few bank conflicts.

    Offsets are `segment | bank | vector` (arXiv 2505.23819 section 5):

    1. vector: what both sides hold in one thread, up to 16 bytes; padded to a bank from registers or warps of one.
    2. Lanes served together (all, half or a quarter of the warp) must meet each bank once. With A and B the spans of
       vector and such lanes of the two sides, that holds exactly when `segment`, the bits above the 128 bytes of a
       row of banks, meets A and B in 0 only. So take a complement of A + B first, then sums a ^ b of a vector of A
       that is not in B with one of B that is not in A, and only then vectors of one side, which conflict on it.
    3. bank: whatever completes the basis.
    """
    total = source.out_bits
    vector = _vector(source, target, elem_bits)
    vector_bits = elem_bits << len(vector)
    together = 5 - max(0, log2(max(1, vector_bits // (8 * BANK_BYTES))))
    tiles = [Echelon([*vector, *layout.bases(LANE)[:together]]).basis for layout in (source, target)]
    both = intersection(*tiles)
    only = [_extension(both, tile) for tile in tiles]
    everything = [1 << i for i in range(total)]
    pairs = [a ^ b for a, b in zip(*only, strict=False)]
    longer = max(only, key=len)[len(pairs) :]
    outside = _extension([*both, *only[0], *only[1]], everything)
    banks = min(max(0, log2(8 * BANKS * BANK_BYTES // min(vector_bits, 8 * BANKS * BANK_BYTES))), total - len(vector))
    segments = total - len(vector) - banks
    # the last two only when conflicts cannot be avoided
    segment = _extension(vector, [*outside, *pairs, *longer, *everything])[:segments]
    bank = _extension([*vector, *segment], everything)
    return LinearLayout.of({OFFSET: [*vector, *bank, *segment]}, dict(source.outs))


def _vector(source: LinearLayout, target: LinearLayout, elem_bits: int) -> list[int]:
    most = max(0, log2(8 * MAX_VECTOR_BYTES // min(elem_bits, 8 * MAX_VECTOR_BYTES)))
    vector = _extension([], intersection(source.bases(REGISTER), target.bases(REGISTER)))[:most]
    s, d = source, target
    padding = (
        intersection(s.bases(REGISTER), d.bases(WARP)),
        intersection(d.bases(REGISTER), s.bases(WARP)),
        intersection(s.bases(WARP), d.bases(WARP)),
        s.bases(WARP),
        d.bases(WARP),
    )
    for base in (b for bases in padding for b in bases):
        if elem_bits << len(vector) < 8 * BANK_BYTES and base not in Echelon(vector):
            vector.append(base)
    return vector


def _extension(known: Sequence[int], more: Sequence[int]) -> list[int]:
    """Those of `more` that enlarge the span, in order."""
    echelon = Echelon(known)
    return [v for v in more if echelon.add(v)]
