"""`gpu.convert_layout`: the steps that `gpu.convert.plan` chose, as instructions."""

from __future__ import annotations

from collections.abc import Sequence

from graphfuse.codegen.kernel import integer
from graphfuse.dialects import gpu
from graphfuse.gpu.analysis.memory_access import bank_conflicts
from graphfuse.gpu.convert import Barrier, Conversion, Exchange, Gather, Load, Rename, Store, holding, plan
from graphfuse.gpu.kernel import Kernel, layout_of, lowers
from graphfuse.gpu.matrices import load_matrices, matrix_pattern, memory_for_matrices
from graphfuse.gpu.shared_access import load_shared, store_shared
from graphfuse.gpu.words import butterfly, from_lane, shuffled, warp_barrier
from graphfuse.ir.core import Op, tile_of
from graphfuse.ir.layout import LANE, REGISTER, WARP, LinearLayout
from graphfuse.llvm.module import Reg


@lowers(gpu.convert_layout)
def lower_convert_layout(kernel: Kernel, op: Op) -> None:
    """The cheapest route."""
    tile, want = kernel.tile(op.operands[0]), layout_of(tile_of(op.result))
    kernel.set(op, convert(kernel, tile.vectors, plan(tile.layout, want, 8 * tile.elem.bytes)))
    kernel.bound_alike(op)


def convert(kernel: Kernel, values: Sequence[Reg], conversion: Conversion) -> list[Reg]:
    """Move elements of one type from the registers of `conversion.source` to those of its target."""
    type_ = values[0].type
    size = conversion.elem_bits // 8
    if conversion.route == "shared" and (moved := _through_matrices(kernel, values, conversion)):
        return moved
    staging, root = kernel.exchange(conversion.shared_bytes) if conversion.shared else (None, "")
    out = list(values)
    for step in conversion.steps:
        match step:
            case Rename(sources):
                out = [out[r] for r in sources]
            case Exchange(register_bit, lane_bit):
                out = _exchange(kernel, out, register_bit, lane_bit)
            case Gather(source):
                out = _gather(kernel, out, source)
            case Store(access, free_lanes, free_warps):
                assert staging is not None
                kernel.order(root, writes=True)
                store_shared(kernel, staging, access, out, size, kernel.lacks(free_lanes, free_warps))
            case Barrier("warp"):
                warp_barrier(kernel)
                kernel.dirty[root] = "rw"
            case Barrier():
                kernel.order(root, writes=False)
            case Load(access):
                assert staging is not None
                out = load_shared(kernel, staging, access, size, type_)
    return out


def _through_matrices(kernel: Kernel, values: Sequence[Reg], conversion: Conversion) -> list[Reg] | None:
    """By way of shared memory and `ldmatrix`, where the target is made of its matrices."""
    bits, size = conversion.elem_bits, conversion.elem_bits // 8
    source, target = conversion.source.distinct_registers(), conversion.target.distinct_registers()
    memory = memory_for_matrices(source, target, bits)
    pattern = matrix_pattern(target.through(memory), bits) if memory else None
    if memory is None or pattern is None:
        return None
    staging, root = kernel.exchange(size << memory.out_bits)
    distinct = [values[r] for r in holding(source, conversion.source)]
    kernel.order(root, writes=True)
    access = bank_conflicts(memory, source, size)
    store_shared(kernel, staging, access, distinct, size, kernel.owns(source))
    kernel.order(root, writes=False)
    base = kernel.text.pure("i32", f"ptrtoint {staging} to i32", staging)
    loaded = load_matrices(kernel, base, pattern, size, values[0].type)
    return [loaded[r] for r in holding(conversion.target, target)]


# between lanes


def _exchange(kernel: Kernel, values: Sequence[Reg], register_bit: int, lane_bit: int) -> list[Reg]:
    """Half the registers travel, each thread choosing which."""
    mask = integer(1 << lane_bit, "i32")
    high = kernel.test("ne", kernel.operate("and", kernel.lane, mask), 0)
    pairs = [(r, r | 1 << register_bit) for r in range(len(values)) if not r >> register_bit & 1]
    sent = [kernel.choose(high, values[low], values[top]) for low, top in pairs]
    got = shuffled(kernel, sent, butterfly(kernel, 1 << lane_bit))
    out = list(values)
    for (low, top), g in zip(pairs, got, strict=True):
        out[low], out[top] = kernel.choose(high, g, values[low]), kernel.choose(high, values[top], g)
    return out


def _gather(kernel: Kernel, values: Sequence[Reg], source: LinearLayout) -> list[Reg]:
    """Indexed shuffles, and selects where the source register depends on the thread."""
    bits = dict(source.outs)[REGISTER]
    low = (1 << bits) - 1
    choices = _choices([b & low for name in (LANE, WARP) for b in source.bases(name)])
    offsets = [0]
    for vector, _ in choices:
        offsets += [o ^ vector for o in offsets]
    wanted = [source.flat(register=r) for r in range(source.size(REGISTER))]
    moved: dict[tuple[int, int], Reg] = {}
    for lanes in sorted({w >> bits for w in wanted}):
        registers = sorted({w & low ^ o for w in wanted if w >> bits == lanes for o in offsets})
        taken = [values[r] for r in registers]
        if Gather(source).crosses_lanes:
            at = kernel.spread(source, bits, dict(source.outs).get(LANE, 0))
            at = kernel.operate("xor", at, lanes) if lanes else at
            taken = shuffled(kernel, taken, from_lane(kernel, at))
        moved |= {(lanes, r): v for r, v in zip(registers, taken, strict=True)}
    row = kernel.spread(source, 0, bits)
    flags = [kernel.test("ne", kernel.operate("and", row, 1 << pivot), 0) for _, pivot in choices]
    out: list[Reg] = []
    for w in wanted:
        candidates = [moved[w >> bits, w & low ^ o] for o in offsets]
        for flag in reversed(flags):
            half = len(candidates) // 2
            candidates = [kernel.choose(flag, b, a) for a, b in zip(candidates[:half], candidates[half:], strict=True)]
        out.append(candidates[0])
    return out


def _choices(columns: Sequence[int]) -> list[tuple[int, int]]:
    """A basis of the span, each vector with a bit that only it has: that bit of a sum tells whether it takes part."""
    basis: list[tuple[int, int]] = []
    for column in columns:
        for vector, pivot in basis:
            if column >> pivot & 1:
                column ^= vector
        if column:
            pivot = column.bit_length() - 1
            basis = [(v ^ column if v >> pivot & 1 else v, p) for v, p in basis]
            basis.append((column, pivot))
    return basis
