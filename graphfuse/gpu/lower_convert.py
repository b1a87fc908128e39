"""`gpu.convert_layout`: the steps that `gpu.convert.plan` chose, as instructions."""

from __future__ import annotations

from collections.abc import Sequence

from graphfuse.codegen.kernel import integer
from graphfuse.dialects import gpu
from graphfuse.gpu.analysis.memory_access import SharedAccess
from graphfuse.gpu.convert import Barrier, Conversion, Exchange, Gather, Load, Rename, Store, plan
from graphfuse.gpu.kernel import SHARED, Kernel, layout_of, lowers
from graphfuse.gpu.words import butterfly, from_lane, gather_words, scatter_words, shuffled, warp_barrier
from graphfuse.ir.core import Op
from graphfuse.ir.layout import LANE, REGISTER, WARP, LinearLayout
from graphfuse.ir.types import Tile
from graphfuse.llvm.module import Reg


@lowers(gpu.convert_layout)
def lower_convert_layout(kernel: Kernel, op: Op) -> None:
    """The cheapest route."""
    tile, type_ = kernel.tile(op.operands[0]), op.types[0]
    assert isinstance(type_, Tile)
    kernel.set(op, convert(kernel, tile.vectors, plan(tile.layout, layout_of(type_), 8 * tile.elem.bytes)))


def convert(kernel: Kernel, values: Sequence[Reg], conversion: Conversion) -> list[Reg]:
    """Move elements of one type from the registers of `conversion.source` to those of its target."""
    type_ = values[0].type
    size = conversion.elem_bits // 8
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
                store_shared(kernel, staging, access, out, size, sole(kernel, free_lanes, free_warps))
            case Barrier("warp"):
                warp_barrier(kernel)
                kernel.dirty[root] = "rw"
            case Barrier():
                kernel.order(root, writes=False)
            case Load(access):
                assert staging is not None
                out = load_shared(kernel, staging, access, size, type_)
    return out


# between lanes


def _exchange(kernel: Kernel, values: Sequence[Reg], register_bit: int, lane_bit: int) -> list[Reg]:
    """Half the registers travel, each thread choosing which."""
    mask = integer(1 << lane_bit, "i32")
    high = kernel.test("ne", kernel.operate("and", kernel.lane, mask), integer(0, "i32"))
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
            at = kernel.operate("xor", at, integer(lanes, "i32")) if lanes else at
            taken = shuffled(kernel, taken, from_lane(kernel, at))
        moved |= {(lanes, r): v for r, v in zip(registers, taken, strict=True)}
    row = kernel.spread(source, 0, bits)
    flags = [
        kernel.test("ne", kernel.operate("and", row, integer(1 << pivot, "i32")), integer(0, "i32"))
        for _, pivot in choices
    ]
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


# shared memory


def sole(kernel: Kernel, free_lanes: int, free_warps: int) -> Reg | None:
    """Whether this thread has none of these bits; None when there are none to have."""
    out: Reg | None = None
    for source, free in ((kernel.lane, free_lanes), (kernel.warp, free_warps)):
        if free:
            mine = kernel.test("eq", kernel.operate("and", source, integer(free, "i32")), integer(0, "i32"))
            out = kernel.both(out, mine)
    return out


def store_shared(
    kernel: Kernel, base: Reg, access: SharedAccess, values: Sequence[Reg], size: int, predicate: Reg | None = None
) -> None:
    """Write registers to shared memory, elements of `size` bytes, in vectors."""
    for group in access.groups:
        words = gather_words(kernel, [values[r] for r in group])
        at, displacement = shared_address(kernel, base, access.offsets, group[0], size)
        if predicate is None:
            at = kernel.address(at, displacement)
            kernel.text.line(f"store {_as_vector(kernel, words)}, {at}, align {size * len(group)}")
        else:
            _store_if(kernel, predicate, at, displacement, words)


def _as_vector(kernel: Kernel, words: Sequence[Reg]) -> Reg:
    if len(words) == 1:
        return words[0]
    vector = Reg("poison", f"<{len(words)} x {words[0].type}>")
    for i, word in enumerate(words):
        vector = kernel.text.emit(vector.type, f"insertelement {vector}, {word}, i32 {i}")
    return vector


def _store_if(kernel: Kernel, predicate: Reg, at: Reg, displacement: int, words: Sequence[Reg]) -> None:
    suffix, constraint = {"i8": ("b8", "h"), "i16": ("b16", "h"), "i32": ("b32", "r")}[words[0].type]
    words = [kernel.convert("zext", w, "i16") if w.type == "i8" else w for w in words]
    names = ", ".join(f"${i + 2}" for i in range(len(words)))
    vector, names = (f".v{len(words)}", f"{{{names}}}") if len(words) > 1 else ("", names)
    kernel.assembly(
        "void",
        f"@$1 st.shared{vector}.{suffix} [$0+{displacement}], {names};",
        ",".join(["r", "b", *[constraint] * len(words)]),
        at,
        predicate,
        *words,
    )


def load_shared(kernel: Kernel, base: Reg, access: SharedAccess, size: int, type_: str) -> list[Reg]:
    """Read registers of an LLVM type from shared memory, in vectors."""
    out: dict[int, Reg] = {}
    for group in access.groups:
        out |= dict(zip(group, load_group(kernel, base, access, group, size, type_), strict=True))
    return [out[r] for r in range(len(out))]


def load_group(
    kernel: Kernel, base: Reg, access: SharedAccess, group: Sequence[int], size: int, type_: str
) -> list[Reg]:
    """Read one vector."""
    nbytes = size * len(group)
    at, displacement = shared_address(kernel, base, access.offsets, group[0], size)
    at = kernel.address(at, displacement)
    if len(group) == 1 or nbytes <= 4:
        words = [kernel.text.emit(f"i{8 * nbytes}", f"load i{8 * nbytes}, {at}, align {nbytes}")]
    else:
        count = nbytes // 4
        vector = kernel.text.emit(f"<{count} x i32>", f"load <{count} x i32>, {at}, align {nbytes}")
        words = [kernel.text.emit("i32", f"extractelement {vector}, i32 {i}") for i in range(count)]
    return scatter_words(kernel, words, len(group), type_)


def shared_address(kernel: Kernel, base: Reg, offsets: LinearLayout, register: int, size: int) -> tuple[Reg, int]:
    """Where a register's element is: an address that registers share where they can, and bytes to add."""
    assert base.type == SHARED
    at, displacement = shared_offset(kernel, offsets, register, size)
    return (base if at is None else kernel.address(base, at)), displacement


def shared_offset(kernel: Kernel, offsets: LinearLayout, register: int, size: int) -> tuple[Reg | None, int]:
    """Bytes to a register's element, as an i32 that depends on the thread (None: 0) and a constant."""
    bits = offsets.out_bits
    reach, moved = kernel.reach(offsets, 0, bits), offsets.flat(register=register)
    at = kernel.displaced(kernel.spread(offsets, 0, bits), moved & reach, reach)
    if not at.text.startswith("%"):
        return None, (int(at.text) + (moved & ~reach)) * size
    return (kernel.operate("mul", at, integer(size, "i32")) if size > 1 else at), (moved & ~reach) * size
