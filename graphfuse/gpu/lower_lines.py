"""Rows that begin anywhere in memory, such as of 50,257 halves: staged as they will lie, then copied in bulk.

Boxes of TMA have rows that begin at multiples of 16 bytes. Other rows are put to shared memory as far behind such a
multiple as they have to go, so that whole 16 bytes there are whole ones of memory. One bulk copy a row takes its whole
sectors, which is what memory is written in: of a copy that begins in the middle of one, the L2 cache writes each twice.
What lies before a row's first sector and behind its last is written element by element, a sector in one instruction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphfuse.codegen.index import emit_dim
from graphfuse.codegen.kernel import integer
from graphfuse.dialects import gpu
from graphfuse.gpu.kernel import SHARED, WARP_SIZE, Kernel, lowers, when
from graphfuse.gpu.lower_hopper import buffer_of, pack, staging_buffer
from graphfuse.gpu.lower_memory import Access, advance, element_address, limit_of, load_one, store_one
from graphfuse.ir.core import Op, Value, attr_dim, attr_int, attr_ints
from graphfuse.llvm.module import Reg

SECTOR = 32
"""Bytes that memory is written in."""
ALIGNMENT = 16
"""Bytes: what bulk copies begin at a multiple of."""
ROWS = 16
"""Of a warp."""
MOST_ROW = 255
"""Of a tile."""
AT_ONCE = 4
"""Elements on their way through a thread."""
_COPY = "cp.async.bulk.global.shared::cta.bulk_group [$0], [$1], $2;\n@p cp.async.bulk.commit_group;"


@dataclass(frozen=True, slots=True)
class _Line:
    """A row: the sector that its first element is in, in memory and as it is staged, and how far behind it lies."""

    memory: Reg
    shared: Reg
    skew: Reg
    """Bytes, an i32."""
    first: Reg
    """The row of the tile that is the thread's first, an i32."""
    number: int
    """How many rows further this one is."""
    displacement: int
    """Bytes to add to addresses of what is staged."""


def _lines(
    kernel: Kernel, op: Op, staging: Value, view: Sequence[Value], row: Reg, step: int, count: int
) -> Iterator[_Line]:
    """So many of a warp's rows, from one on, of the view that begins at a pointer's element."""
    pointer, base = view
    elem, stride = buffer_of(staging).elem, attr_dim(op, "stride")
    pitch = buffer_of(staging).shape[2] * elem.bytes
    row_of_tile = kernel.operate("add", kernel.operate("mul", kernel.warp, ROWS), row)
    start = element_address(kernel, kernel.pointer(pointer).reg, elem, kernel.scalar(base))
    begin = advance(kernel, start, row_of_tile, stride, elem.bytes, MOST_ROW)
    own = kernel.operate("add", staging_buffer(kernel, staging, op), kernel.operate("mul", row, pitch))
    further = emit_dim(kernel, stride * (step * elem.bytes))
    for i in range(0, step * count, step):
        low = kernel.shortened(kernel.text.pure("i64", f"ptrtoint {begin} to i64", begin))
        skew = kernel.operate("and", low, SECTOR - 1)
        at = kernel.operate("sub", own, kernel.operate("and", low, SECTOR - ALIGNMENT))
        shared = kernel.text.pure(SHARED, f"inttoptr {at} to {SHARED}", at)
        memory = kernel.address(begin, kernel.operate("sub", integer(0), kernel.widen_index(skew)))
        # what all rows need would be made before the loop over tiles, and stay in registers
        yield _Line(memory, shared, skew, row_of_tile, i, i * pitch)
        begin = kernel.address(begin, further)


def _lane(kernel: Kernel) -> Reg:
    """The thread's lane, read here: what is made of it would live through the product else."""
    return kernel.assembly("mov.u32 $0, %laneid;", gives=["i32"])[0]


@dataclass(frozen=True, slots=True)
class _Parts:
    """Of a row, in bytes behind the sector that it begins in: its whole sectors, and where it ends."""

    line: _Line
    ahead: Reg
    behind: Reg
    end: Reg
    inside: Reg | None
    """Whether the row is there; None: it is."""


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
    lines = _lines(kernel, op, staging, view, kernel.operate("lshr", lane, 2), 8, 2)
    for half, line in enumerate(lines):
        at = kernel.address(kernel.address(line.shared, line.skew), pair)
        for j in range(len(vectors) // 4):
            two = vectors[4 * j + 2 * half : 4 * j + 2 * half + 2]
            if elem.bits == 16 and two[0].type == "float":
                two = kernel.elements(kernel.recast(pack(kernel, elem, *two), "<2 x i16>"))
            for first in range(0, 2, together):
                place = line.displacement + (attr_int(op, "column", 0) + 8 * j + first) * elem.bytes
                registers = tuple(range(first, first + together))
                store_one(kernel, elem, [two[r] for r in registers], Access(registers, at, place, None))


@lowers(gpu.store_lines)
def lower_store_lines(kernel: Kernel, op: Op) -> None:
    """Sixteen lanes copy the whole sectors of a row each; all lanes the ends of rows, one after another."""
    pointer, base, staging, *given = op.operands
    buffer = buffer_of(staging)
    elem, size = buffer.elem, buffer.elem.bytes
    width = buffer.shape[2] * size - ALIGNMENT
    most = {0: MOST_ROW + 1, 1: width // size}
    limits = {d: limit_of(kernel, v, most[d]) for d, v in zip(attr_ints(op, "limited", ()), given, strict=True)}
    length = kernel.operate("mul", limits[1], size) if 1 in limits else integer(width, "i32")
    some = kernel.test("sgt", length, 0) if 1 in limits else None

    def parts(row: Reg, step: int = ROWS, count: int = 1) -> Iterator[_Parts]:
        for line in _lines(kernel, op, staging, (pointer, base), row, step, count):
            inside = some
            if 0 in limits:
                here = kernel.test("sgt", kernel.operate("sub", limits[0], line.number), line.first)
                inside = kernel.both(some, here)
            end = kernel.operate("add", line.skew, length)
            ahead = kernel.operate("and", kernel.operate("add", line.skew, SECTOR - 1), -SECTOR)
            yield _Parts(line, ahead, kernel.operate("and", end, -SECTOR), end, inside)

    kernel.assembly("fence.proxy.async.shared::cta;\nbar.warp.sync 0xffffffff;")
    lane = _lane(kernel)
    (row,) = parts(kernel.operate("and", lane, ROWS - 1))
    has = kernel.operate("and", kernel.test("slt", lane, ROWS), kernel.test("sgt", row.behind, row.ahead))
    has = kernel.operate("and", has, row.inside) if row.inside else has
    places = [kernel.address(memory, row.ahead) for memory in (row.line.memory, row.line.shared)]
    kernel.assembly(when(_COPY, 3), *places, kernel.operate("sub", row.behind, row.ahead), kernel.flag(has))

    slots = SECTOR // size
    at = kernel.operate("mul", kernel.operate("and", lane, slots - 1), size)
    at_end = kernel.operate("lshr", lane, slots.bit_length() - 1)
    together = WARP_SIZE // slots  # ends at once, of a row its head, then its tail
    sides = [kernel.operate("and", at_end, 1)] if together > 1 else [integer(0, "i32"), integer(1, "i32")]
    step = max(1, together // 2)
    accesses = list[tuple[Access, Access]]()
    for row in parts(kernel.operate("lshr", at_end, 1), step, ROWS // step):
        for side in sides:
            is_tail = kernel.test("ne", side, 0)
            place = kernel.select(is_tail, kernel.operate("add", row.behind, at), at)
            is_head = kernel.operate("and", kernel.test("sge", at, row.line.skew), kernel.test("slt", at, row.ahead))
            has = kernel.select(is_tail, kernel.test("sge", row.behind, row.ahead), is_head)
            has = kernel.both(kernel.operate("and", has, kernel.test("slt", place, row.end)), row.inside)
            load = Access((0,), kernel.address(row.line.shared, place), row.line.displacement, has)
            accesses.append((load, Access((0,), kernel.address(row.line.memory, place), 0, has)))
    for i in range(0, len(accesses), AT_ONCE):
        group = accesses[i : i + AT_ONCE]
        loaded = [load_one(kernel, elem, load, 0) for load, _ in group]
        for values, (_, store) in zip(loaded, group, strict=True):
            store_one(kernel, elem, values, store)
