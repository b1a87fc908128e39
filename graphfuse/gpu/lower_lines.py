"""Rows that begin anywhere in memory, such as of 50,257 halves: staged as they will lie, then copied in bulk.

Boxes of TMA have rows that begin at multiples of 16 bytes. Other rows are put to shared memory as far behind such a
multiple as they have to go, so that whole 16 bytes there are whole ones of memory. One bulk copy a row takes its whole
sectors, which is what memory is written in: of a copy that begins in the middle of one, the L2 cache writes each twice.
What lies before a row's first sector and behind its last is at most one store of each power of two; two lanes of a warp
are there for each of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphfuse.codegen.kernel import integer
from graphfuse.dialects import gpu
from graphfuse.gpu.kernel import SHARED, Kernel, lowers, when
from graphfuse.gpu.lower_hopper import buffer_of, pack, staging_buffer
from graphfuse.gpu.lower_memory import Access, advance, element_address, limit_of, load_one, store_one
from graphfuse.ir.core import Op, Value, attr_dim, attr_int, attr_ints
from graphfuse.ir.types import I32, Scalar, scalar
from graphfuse.llvm.module import Reg

SECTOR = 32
"""Bytes that memory is written in."""
ALIGNMENT = 16
"""Bytes: what bulk copies begin at a multiple of."""
ROWS = 16
"""Of a warp."""
MOST_ROW = 255
"""Of a tile."""
_COPY = "cp.async.bulk.global.shared::cta.bulk_group [$0], [$1], $2;\n@p cp.async.bulk.commit_group;"


@dataclass(frozen=True, slots=True)
class _Line:
    """A row: the sector that its first element is in, in memory and as it is staged, and how far behind it lies."""

    memory: Reg
    shared: Reg
    skew: Reg
    """Bytes, an i32."""
    row: Reg
    """Of the tile, an i32."""


def _line(kernel: Kernel, op: Op, staging: Value, view: Sequence[Value], row: Reg) -> _Line:
    """One of a warp's rows of the view that begins at a pointer's element."""
    pointer, base = view
    buffer = buffer_of(staging)
    size = buffer.elem.bytes
    row_of_tile = kernel.operate("add", kernel.operate("mul", kernel.warp, ROWS), row)
    start = element_address(kernel, kernel.pointer(pointer).reg, buffer.elem, kernel.scalar(base))
    begin = advance(kernel, start, row_of_tile, attr_dim(op, "stride"), size, MOST_ROW)
    low = kernel.shortened(kernel.text.pure("i64", f"ptrtoint {begin} to i64", begin))
    skew = kernel.operate("and", low, SECTOR - 1)
    own = kernel.operate("mul", row, buffer.shape[2] * size)
    own = kernel.operate("add", staging_buffer(kernel, staging, op), own)
    own = kernel.operate("sub", own, kernel.operate("and", low, SECTOR - ALIGNMENT))
    shared = kernel.text.pure(SHARED, f"inttoptr {own} to {SHARED}", own)
    memory = kernel.address(begin, kernel.operate("sub", integer(0), kernel.widen_index(skew)))
    return _Line(memory, shared, skew, row_of_tile)


def _lane(kernel: Kernel) -> Reg:
    """The thread's lane, read here: what is made of it would live through the product else."""
    return kernel.assembly("mov.u32 $0, %laneid;", gives=["i32"])[0]


@lowers(gpu.stage_lines)
def lower_stage_lines(kernel: Kernel, op: Op) -> None:
    """The lanes of an accumulator: four share eight columns of a row, each has two of them, and of the row eight on."""
    staging, value, *view = op.operands
    elem, vectors = buffer_of(staging).elem, kernel.tile(value).vectors
    if not attr_int(op, "column", 0):
        kernel.assembly("cp.async.bulk.wait_group.read 0;\nbar.warp.sync 0xffffffff;")
    lane = _lane(kernel)
    pair = kernel.operate("mul", kernel.operate("and", lane, 3), 2 * elem.bytes)
    together = 2 if op.attrs.get("pairs") else 1
    first_row = kernel.operate("lshr", lane, 2)
    for half in range(2):
        line = _line(kernel, op, staging, view, kernel.operate("add", first_row, 8 * half))
        at = kernel.address(kernel.address(line.shared, line.skew), pair)
        for j in range(len(vectors) // 4):
            two = vectors[4 * j + 2 * half : 4 * j + 2 * half + 2]
            if elem.bits == 16 and two[0].type == "float":
                two = kernel.elements(kernel.recast(pack(kernel, elem, *two), "<2 x i16>"))
            for first in range(0, 2, together):
                place = (attr_int(op, "column", 0) + 8 * j + first) * elem.bytes
                registers = tuple(range(first, first + together))
                store_one(kernel, elem, [two[r] for r in registers], Access(registers, at, place, None))


@lowers(gpu.store_lines)
def lower_store_lines(kernel: Kernel, op: Op) -> None:
    """One lane of a row copies its whole sectors and what lies before them, another what lies behind."""
    pointer, base, staging, *given = op.operands
    buffer = buffer_of(staging)
    size = buffer.elem.bytes
    width = buffer.shape[2] * size - ALIGNMENT
    most = {0: MOST_ROW + 1, 1: width // size}
    limits = {d: limit_of(kernel, v, most[d]) for d, v in zip(attr_ints(op, "limited", ()), given, strict=True)}
    kernel.assembly("fence.proxy.async.shared::cta;\nbar.warp.sync 0xffffffff;")
    lane = _lane(kernel)
    line = _line(kernel, op, staging, (pointer, base), kernel.operate("lshr", lane, 1))
    length, inside = integer(width, "i32"), None
    if 1 in limits:
        length = kernel.operate("mul", limits[1], size)
        inside = kernel.test("sgt", length, 0)
    if 0 in limits:
        inside = kernel.both(inside, kernel.test("slt", line.row, limits[0]))
    is_tail = kernel.test("ne", kernel.operate("and", lane, 1), 0)
    end = kernel.operate("add", line.skew, length)
    ahead = kernel.operate("and", kernel.operate("add", line.skew, SECTOR - 1), -SECTOR)
    behind = kernel.operate("and", end, -SECTOR)

    has = kernel.select(is_tail, Reg("false", "i1"), kernel.test("sgt", behind, ahead))
    has = kernel.operate("and", has, inside) if inside else has
    places = [kernel.address(memory, ahead) for memory in (line.memory, line.shared)]
    kernel.assembly(when(_COPY, 3), *places, kernel.operate("sub", behind, ahead), kernel.flag(has))

    within = kernel.test("slt", behind, ahead)  # it begins and ends in one sector: it is parted where most bytes may go
    cut = _most_even(kernel, line.skew, end)
    ahead, behind = kernel.select(within, cut, ahead), kernel.select(within, cut, behind)
    start = kernel.select(is_tail, behind, line.skew)
    count = kernel.select(is_tail, kernel.operate("sub", end, behind), kernel.operate("sub", ahead, line.skew))
    ends = list[tuple[Scalar, Access, Access]]()
    nbytes = size
    while nbytes < SECTOR:  # small ones come first before whole sectors, and last behind them
        earlier = kernel.select(is_tail, integer(-2 * nbytes, "i32"), integer(nbytes - 1, "i32"))
        at = kernel.operate("add", start, kernel.operate("and", count, earlier))
        has = kernel.both(inside, kernel.test("ne", kernel.operate("and", count, nbytes), 0))
        elem = I32 if nbytes >= 4 else scalar(f"i{8 * nbytes}")
        load, store = (
            Access(tuple(range(nbytes // elem.bytes)), kernel.address(memory, at), 0, has)
            for memory in (line.shared, line.memory)
        )
        ends.append((elem, load, store))
        nbytes *= 2
    loaded = [load_one(kernel, elem, load, 0) for elem, load, _ in ends]
    for values, (elem, _, store) in zip(loaded, ends, strict=True):
        store_one(kernel, elem, values, store)


def _most_even(kernel: Kernel, low: Reg, high: Reg) -> Reg:
    """Of the numbers above one, up to another that is larger, the multiple of the highest power of two."""
    different = kernel.operate("or", kernel.operate("xor", low, high), 1)
    zeros = kernel.intrinsic("ctlz", "i32", different, Reg("true", "i1"))
    return kernel.operate("and", high, kernel.operate("ashr", integer(-(1 << 31), "i32"), zeros))
