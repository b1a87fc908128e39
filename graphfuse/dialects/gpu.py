"""The gpu dialect: what a block program does once its tiles have layouts."""

from __future__ import annotations

from graphfuse.dialects.block import pointer_of
from graphfuse.dialects.operands import yielded_by
from graphfuse.errors import VerifyError
from graphfuse.ir.core import Block, Trait, opdef
from graphfuse.ir.layout import LinearLayout
from graphfuse.ir.types import BOOL, F32, I32, I64, Buffer, Ptr, Scalar, Tile, Type
from graphfuse.symbolic import Dim


@opdef("gpu.convert_layout", Trait.PURE)
def convert_layout(x: Type, *, layout: LinearLayout) -> Type:
    """The same tile held by other threads."""
    if not isinstance(x, Tile) or x.layout is None:
        raise VerifyError(f"operand must be a tile with a layout, got {x}")
    if layout.shape != x.padded_shape:
        raise VerifyError(f"the layout is for the shape {list(layout.shape)}, the tile is {list(x.shape)}")
    return Tile(x.shape, x.elem, layout)


ACCUMULATED = {"f16": "f32", "bf16": "f32", "i8": "i32", "f8e4m3": "f32", "f8e5m2": "f32"}
"""Operand elements that `wgmma` takes, and the element it sums them in."""
MOST_COLUMNS, SLOT_BYTES = 256, 128
"""Of a box that lies row by row, and what such boxes begin at multiples of."""
WITHOUT_WGMMA = "without_wgmma"
"""The attribute of a function that says why attention in it is not made by warpgroups where the machine has them."""
ROWS_ACROSS = "rows_across"
"""The attribute of a function all of whose warps share each row: what rows are multiplied by is then held once."""
SHORT = ("exp", "sigmoid")
"""Functions that `short` has for anything that is rounded to f16 or bf16."""


@opdef("gpu.short", Trait.PURE, Trait.ELEMENTWISE)
def short(x: Type, *, function: str) -> Type:
    """A function of f32 within 2^-16 of its value: enough for what is rounded to f16 or bf16.

    `exp2` is 0 where it is below 2^-126: for terms of a sum that has larger ones.
    """
    if not isinstance(x, Tile | Scalar) or (x.elem if isinstance(x, Tile) else x) != F32:
        raise VerifyError(f"operand must be f32, got {x}")
    if function not in (*SHORT, "exp2"):
        raise VerifyError(f"function must be one of {', '.join(SHORT)}, exp2, got {function}")
    return x


@opdef("gpu.anew", Trait.PURE, Trait.ELEMENTWISE)
def anew(x: Type, turn: Type) -> Type:
    """The same tile, as if it depended on the number of a loop's turn.

    What a loop computes of it is computed in each turn again, and takes no registers from one turn to the next: for
    halves that a loop reads as f32.
    """
    if not isinstance(x, Tile) or turn != I64:
        raise VerifyError(f"expected a tile and an i64, got {x} and {turn}")
    return x


# shared memory and barriers: a `shared<...>` value is a ring of buffers, or of mbarriers; a *slot* says where in a
# ring we are: an i32 with the position in bits 0..30 and in bit 31 how often the ring went round, modulo 2


def _shared(t: Type, what: str) -> Buffer:
    if not isinstance(t, Buffer):
        raise VerifyError(f"{what} must be shared memory, got {t}")
    return t


def _slot(t: Type) -> None:
    if t != I32:
        raise VerifyError(f"a slot must be i32, got {t}")


def _barrier(t: Type, slot: Type, operand: int = 0) -> None:
    """An mbarrier: a ring of them, and a slot of it."""
    ring = _shared(t, f"operand {operand}")
    if ring.elem != I64 or len(ring.shape) != 1:
        raise VerifyError(f"operand {operand} must be mbarriers, got {t}")
    _slot(slot)


@opdef("gpu.shared_alloc")
def shared_alloc(*, shape: tuple[int, ...], elem: Scalar, swizzle: int = 0) -> Type:
    """Shared memory for as long as the block runs: `shape[0]` buffers of the rest."""
    row = shape[-1] * elem.bytes if shape else 0
    if swizzle not in (0, 32, 64, 128) or len(shape) < 2 or (swizzle and row % swizzle):
        raise VerifyError(f"a row of {row} bytes cannot have the swizzle {swizzle}")
    return Buffer(shape, elem, swizzle)


@opdef("gpu.barriers")
def barriers(*, count: int, arrivals: int) -> Type:
    """`count` mbarriers; a phase of each ends after so many arrivals, and the bytes that `expect` announced."""
    if count < 1 or arrivals < 1:
        raise VerifyError(f"expected at least one barrier and one arrival, got {count} and {arrivals}")
    return Buffer((count,), I64)


@opdef("gpu.advance", Trait.PURE)
def advance(slot: Type, by: Type | None = None, *, size: int) -> Type:
    """The slot `by` places (1) further in a ring of `size`."""
    _slot(slot)
    if by not in (None, I64):
        raise VerifyError(f"operand 1 must be i64, got {by}")
    return I32


@opdef("gpu.wait")
def wait(barriers: Type, slot: Type, *, previous: bool = False, cluster: bool = False) -> tuple[Type, ...]:
    """Until the slot's phase of its barrier has ended; with `previous`, the phase before, which none is for a new one.

    So a consumer waits for a full buffer, and a producer with `previous` for one that has been emptied since. With
    `cluster`, what other blocks did before they arrived is seen.
    """
    _barrier(barriers, slot)
    return ()


@opdef("gpu.arrive")
def arrive(barriers: Type, slot: Type, condition: Type | None = None, *, every_warp: bool = False) -> tuple[Type, ...]:
    """One arrival of each warpgroup that gets here (of the one thread, where only one is), if the condition holds.

    With `every_warp` one of each warp: then none of them still waits for an earlier phase of what others do next.
    """
    _barrier(barriers, slot)
    if condition not in (None, BOOL):
        raise VerifyError(f"operand 2 must be bool, got {condition}")
    return ()


@opdef("gpu.expect")
def expect(barriers: Type, slot: Type, *, nbytes: int) -> tuple[Type, ...]:
    """Arrive, and announce so many bytes of `tma_load` for this phase."""
    _barrier(barriers, slot)
    return ()


# blocks of a cluster


@opdef("gpu.cluster_rank", Trait.PURE)
def cluster_rank() -> Type:
    """The number of this block in its cluster."""
    return I64


@opdef("gpu.arrive_at")
def arrive_at(barriers: Type, slot: Type, *, block: int) -> tuple[Type, ...]:
    """One arrival of each warp at the barrier of a block of the cluster; its waiters see what the warp did before."""
    _barrier(barriers, slot)
    return ()


@opdef("gpu.release")
def release(barriers: Type, slot: Type, condition: Type | None = None, *, blocks: int) -> tuple[Type, ...]:
    """As `arrive`, at the barriers of the same place in all blocks of the cluster."""
    _barrier(barriers, slot)
    if condition not in (None, BOOL) or blocks not in (2, 4):
        raise VerifyError(f"expected a bool and 2 or 4 blocks, got {condition} and {blocks}")
    return ()


def _room(t: Type, part: int) -> Buffer:
    room = _shared(t, "operand 0")
    if len(room.shape) != 3 or not 0 <= part < room.shape[0] or room.elem.bytes != 4 or room.shape[1] % 4:
        raise VerifyError(f"expected shared memory for parts of 4 registers of a thread, and a part of it, got {t}")
    return room


@opdef("gpu.send")
def send(room: Type, value: Type, barriers: Type, slot: Type, *, block: int, part: int) -> tuple[Type, ...]:
    """Write a tile to a part of the shared memory of a block of the cluster, then `arrive_at` its barrier."""
    to = _room(room, part)
    if not isinstance(value, Tile) or value.layout is None or value.elem != to.elem:
        raise VerifyError(f"cannot send {value} to {to}")
    _barrier(barriers, slot, 2)
    return ()


@opdef("gpu.receive")
def receive(room: Type, *, part: int, shape: tuple[int, ...], elem: Scalar, layout: LinearLayout) -> Type:
    """The tile that was sent to a part of this block's shared memory, by threads that hold it in the same layout."""
    _room(room, part)
    return Tile(shape, elem, layout)


# the tensor memory accelerator: boxes of tensors. `dims` and `strides` (elements, outermost first, the last 1) are the
# tensor that begins `offset` elements after the pointer; one i64 coordinate per dim says where the box begins


def _tensor(pointer: Type, dims: tuple[Dim, ...], strides: tuple[Dim, ...], coordinates: tuple[Type, ...]) -> Scalar:
    elem = pointer_of(pointer).elem
    if not 2 <= len(dims) == len(strides) <= 5 or strides[-1] != 1:
        raise VerifyError("expected 2 to 5 dims, as many strides, the last of them 1")
    if len(coordinates) != len(dims) or any(t != I64 for t in coordinates):
        raise VerifyError(f"expected {len(dims)} i64 coordinates, got {len(coordinates)}")
    return elem


@opdef("gpu.tma_load")
def tma_load(
    pointer: Type,
    ring: Type,
    slot: Type,
    barriers: Type,
    *coordinates: Type,
    dims: tuple[Dim, ...],
    strides: tuple[Dim, ...],
    offset: Dim = 0,
    rows: int = 0,
    parts: int = 1,
    lower: tuple[int, ...] = (),
    upper: tuple[int, ...] = (),
    steps: tuple[int, ...] = (),
) -> tuple[Type, ...]:
    """Begin to copy a box to a slot of the ring; elements outside the tensor are 0. Its bytes count at the barrier.

    If `rows` is not 0, only so many rows of the slot are written. With several `parts`, each block of a cluster copies
    one part of the rows to all blocks; the bytes that come to a block count at its own barrier.

    With `steps` rows are positions of a filter. Along each dim of an image (all dims but the first and the last;
    `lower`, `upper` and `steps` name the innermost first) positions lie `steps` apart, from `lower` to `upper` past the
    last element, and rows go through them, then on to the next image. More coordinates, one for each of these dims, are
    added to all positions: the filter's tap.
    """
    elem = _tensor(pointer, dims, strides, coordinates[: len(coordinates) - len(steps)])
    if steps and not len(dims) - 2 == len(steps) == len(lower) == len(upper):
        raise VerifyError(f"expected {len(dims) - 2} corners and steps, got {lower}, {upper}, {steps}")
    if any(t != I64 for t in coordinates):
        raise VerifyError(f"expected i64 coordinates, got {', '.join(map(str, coordinates))}")
    to = _shared(ring, "operand 1")
    _barrier(barriers, slot, 3)
    if to.elem != elem or len(to.shape) != 3:
        raise VerifyError(f"cannot load boxes of {elem} into {to}")
    if not to.swizzle and (rows or parts > 1 or steps or to.shape[2] > MOST_COLUMNS or to.slot_bytes % SLOT_BYTES):
        raise VerifyError(f"without a swizzle a whole box goes to slots of lines of {SLOT_BYTES} bytes, got {to}")
    least = 8 * parts if to.swizzle else 1
    if not 0 <= rows <= to.shape[1] or parts < 1 or (rows or to.shape[1]) % least or (steps and parts > 1):
        raise VerifyError(f"expected {parts} parts of 8 rows or a multiple of {to}, got {rows or to.shape[1]} rows")
    return ()


@opdef("gpu.zero_rows")
def zero_rows(ring: Type, *, start: int) -> tuple[Type, ...]:
    """Write 0 to the rows from `start` on of every slot of a ring, by the whole block, for `wgmma` to read."""
    to = _shared(ring, "operand 0")
    if len(to.shape) != 3 or not to.swizzle or not 0 <= start < to.shape[1] or start % 8:
        raise VerifyError(f"no rows from {start} on in {to}")
    return ()


def _staging(t: Type) -> Buffer:
    buffer = _shared(t, "a staging buffer")
    if len(buffer.shape) != 3 or buffer.shape[1] != 16:
        raise VerifyError(f"a staging buffer has 16 rows, got {t}")
    return buffer


def _columns(staging: Buffer) -> int:
    """Of a staging buffer; one without a swizzle has 16 bytes besides, for lines that begin anywhere."""
    return staging.shape[2] if staging.swizzle else staging.shape[2] - 16 // staging.elem.bytes


@opdef("gpu.stage")
def stage(staging: Type, value: Type, *, column: int = 0, buffer: int = 0, pending: int = -1) -> tuple[Type, ...]:
    """Each warp copies its 16 rows of a tile to a buffer of its own, number `buffer` of those it has, from `column` on.

    With `pending`, it first waits until all but its last so many stores have been read. f32 values are rounded to the
    buffer's element.
    """
    to = _staging(staging)
    _staged(to, value, column)
    if not to.swizzle:
        raise VerifyError(f"TMA stores from buffers with a swizzle, got {to}")
    return ()


def _staged(to: Buffer, tile: Type, column: int) -> None:
    fits = isinstance(tile, Tile) and len(tile.shape) == 2 and 0 <= column <= _columns(to) - tile.shape[1]
    if not isinstance(tile, Tile) or not fits or tile.elem not in (to.elem, F32):
        raise VerifyError(f"cannot stage {tile} in {to}")


@opdef("gpu.stage_lines")
def stage_lines(
    staging: Type,
    value: Type,
    pointer: Type,
    base: Type,
    *,
    stride: Dim,
    column: int = 0,
    buffer: int = 0,
    pairs: bool = False,
) -> tuple[Type, ...]:
    """As `stage`, for rows that begin anywhere in memory: `stride` elements apart, the tile's first at the base.

    Each lies as far behind a multiple of 16 bytes as it does in memory. Lanes first wait until all have read what was
    staged before. With `pairs`, two elements that begin at an even column lie at a multiple of their size.
    """
    to = _staging(staging)
    _staged(to, value, column)
    _lines(pointer, base, to, (), ())
    return ()


def _lines(pointer: Type, base: Type, staging: Buffer, limits: tuple[Type, ...], limited: tuple[int, ...]) -> None:
    if base != I64 or pointer_of(pointer).elem != staging.elem or staging.swizzle or _columns(staging) < 1:
        raise VerifyError(f"cannot store lines of {staging} through {pointer} at {base}")
    if len(limits) != len(limited) or any(t != I64 for t in limits) or any(d not in (0, 1) for d in limited):
        raise VerifyError(f"expected an i64 limit for each of the dims {list(limited)}, which are 0 or 1")


@opdef("gpu.store_lines")
def store_lines(
    pointer: Type,
    base: Type,
    staging: Type,
    *limits: Type,
    stride: Dim,
    limited: tuple[int, ...] = (),
    buffer: int = 0,
) -> tuple[Type, ...]:
    """Write each warp's lines, which `stage_lines` put there for the same place: 16 rows for each warp in turn.

    What is at or past a limit is not written.
    """
    _lines(pointer, base, _staging(staging), limits, limited)
    return ()


@opdef("gpu.tma_store")
def tma_store(
    pointer: Type,
    staging: Type,
    *coordinates: Type,
    dims: tuple[Dim, ...],
    strides: tuple[Dim, ...],
    offset: Dim = 0,
    buffer: int = 0,
) -> tuple[Type, ...]:
    """Begin to copy each warp's buffer to a box: of the rows from the coordinates on, 16 for each warp in turn.

    What is outside the tensor is not written.
    """
    elem = _tensor(pointer, dims, strides, coordinates)
    source = _staging(staging)
    if source.elem != elem or not source.swizzle:
        raise VerifyError(f"cannot store {source} through {pointer}")
    return ()


@opdef("gpu.tma_flush")
def tma_flush() -> tuple[Type, ...]:
    """Until the staging buffers of this thread's stores have been read: a block may not end before."""
    return ()


# copies from global to shared memory that threads begin and later wait for (`cp.async`)


@opdef("gpu.copy_async")
def copy_async(
    pointer: Type,
    base: Type,
    ring: Type,
    slot: Type,
    condition: Type,
    *limits: Type,
    strides: tuple[Dim, ...],
    width: int,
    limited: tuple[int, ...] = (),
    transposed: bool = False,
) -> tuple[Type, ...]:
    """Begin to copy a strided matrix, as `block.load_view` reads one, to buffer number `slot` if the condition holds.

    Elements at or past a limit are 0. `width` elements that are contiguous in the buffer are so, and aligned, in memory
    too. With `transposed`, dim 0 of the matrix is the last of the buffer.
    """
    to = _shared(ring, "operand 2")
    if not isinstance(pointer, Ptr) or pointer.elem != to.elem or len(to.shape) != 3:
        raise VerifyError(f"cannot copy from {pointer} to {to}")
    given = (base, slot, condition, *limits)
    if given != (I64, I64, BOOL, *(I64 for _ in limits)):
        raise VerifyError(f"expected i64, i64, bool and i64 limits, got {', '.join(map(str, given))}")
    if len(strides) != 2 or len(limits) != len(limited) or any(d not in (0, 1) for d in limited):
        raise VerifyError(f"strides {strides} and limited dims {limited} are not those of a matrix")
    if width * to.elem.bytes not in (4, 8, 16) or to.shape[2] % width:
        raise VerifyError(f"copies are of 4, 8 or 16 bytes, got {width} of {to.elem}")
    return ()


@opdef("gpu.commit")
def commit() -> tuple[Type, ...]:
    """Close a group of the copies begun since the last one."""
    return ()


@opdef("gpu.wait_group")
def wait_group(*, pending: int) -> tuple[Type, ...]:
    """Until all but the last `pending` groups have landed and every thread is here: all may read them."""
    return ()


@opdef("gpu.load_shared")
def load_shared(
    ring: Type,
    slot: Type,
    *,
    transposed: bool = False,
    axis: int = 0,
    part: int = 0,
    parts: int = 1,
    layout: LinearLayout | None = None,
) -> Type:
    """The buffer in a slot of a ring, or number `slot` (i64), as a tile; of `parts` along `axis` number `part`."""
    source = _shared(ring, "operand 0")
    if slot not in (I32, I64) or len(source.shape) != 3:
        raise VerifyError(f"expected a ring of matrices and a slot or an i64, got {ring} and {slot}")
    shape = list(source.shape[:0:-1] if transposed else source.shape[1:])
    if axis not in (0, 1) or not 0 <= part < parts or shape[axis] % parts:
        raise VerifyError(f"there is no part {part} of {parts} along dim {axis} of {shape}")
    shape[axis] //= parts
    return Tile(tuple(shape), source.elem, layout)


@opdef("gpu.store_shared")
def store_shared(ring: Type, slot: Type, value: Type) -> tuple[Type, ...]:
    """Write a tile, or the words that `pack` makes of one, to buffer number `slot`.

    Who waits for a barrier at which these threads arrive later may read it; in a buffer with a swizzle, so may `wgmma`.
    """
    to = _shared(ring, "operand 0")
    *rows, columns = to.shape[1:]
    wanted = [((*rows, columns), to.elem), *([((*rows, columns // 2), I32)] if to.elem.bits == 16 else [])]
    if not isinstance(value, Tile) or slot != I64 or (value.shape, value.elem) not in wanted:
        raise VerifyError(f"cannot store {value} in {to} at {slot}")
    return ()


# launches that overlap: a kernel may begin while those before it still run. Until it has waited for them it touches
# constants only, and nothing of its own is written; see transforms/overlap_launches.py


@opdef("gpu.wait_launches")
def wait_launches() -> tuple[Type, ...]:
    """Until all launches before this one have ended, and what they wrote is seen. Every thread that goes on waits."""
    return ()


@opdef("gpu.next_launch")
def next_launch() -> tuple[Type, ...]:
    """The next launch may begin once every block has come here, or has ended."""
    return ()


# products of warpgroups


@opdef("gpu.undefined", Trait.PURE)
def undefined(*, shape: tuple[int, ...], elem: Scalar, layout: LinearLayout) -> Type:
    """A tile that holds anything."""
    return Tile(shape, elem, layout)


@opdef("gpu.pack")
def pack(x: Type, *, elem: Scalar) -> Type:
    """Neighbours of a row, rounded to an element of 16 bits, as words: register pairs of a thread become one.

    It stays where it is, so that no word is made while products still read what was in its register.
    """
    if not isinstance(x, Tile) or x.layout is None or len(x.shape) != 2 or x.elem not in (elem, F32) or elem.bits != 16:
        raise VerifyError(f"expected a matrix of f32 or {elem} with a layout, got {x}")
    first, *registers = x.layout.bases("register")
    if first != 1:
        raise VerifyError("registers 0 and 1 must be neighbours in a row")
    ins = {name: [b >> 1 for b in (registers if name == "register" else bases)] for name, bases in x.layout.ins}
    outs = dict(x.layout.outs)
    *_, last = outs
    words = LinearLayout.of(ins, {**outs, last: outs[last] - 1})
    return Tile((x.shape[0], x.shape[1] // 2), I32, words)


@opdef("gpu.wgmma")
def wgmma(
    a: Type,
    b: Type,
    slot: Type,
    acc: Type,
    keep: Type,
    a_slot: Type | None = None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Type:
    """Begin `(keep ? acc : 0) + A @ B`, A [M, K] and B [K, N] in a slot of their rings, and close a group of such.

    With `transpose_a` the ring holds [K, M], with `transpose_b` [N, K]. A may be in another slot than B, `a_slot`, or
    in registers: what `pack` makes of a tile in the layout of an accumulator. Until `wgmma_wait` neither the rings'
    slot may be written nor the result touched, but by the next `wgmma`.
    """
    tb = _shared(b, "operand 1")
    _slot(slot)
    if keep != BOOL or not isinstance(acc, Tile) or acc.layout is None:
        raise VerifyError(f"expected an accumulator with a layout and a bool, got {acc} and {keep}")
    if any(len(t.shape) != (2 if isinstance(t, Tile) else 3) for t in (a, b, acc) if isinstance(t, Tile | Buffer)):
        raise VerifyError(f"expected matrices and rings of matrices, got {a}, {b} and {acc}")
    k2, n = reversed(tb.shape[1:]) if transpose_b else tb.shape[1:]
    if isinstance(a, Tile):
        m, k = a.shape[0], 2 * a.shape[1]
        if a.layout is None or a_slot is not None or transpose_a or a.elem != I32 or tb.elem.bits != 16:
            raise VerifyError(f"expected a tile of words with a layout for {tb.elem} of 16 bits, got {a}")
    else:
        ta = _shared(a, "operand 0")
        m, k = reversed(ta.shape[1:]) if transpose_a else ta.shape[1:]
        if a_slot is not None:
            _slot(a_slot)
        if ta.elem.bits != tb.elem.bits or (a_slot is None and ta.shape[0] != tb.shape[0]):
            raise VerifyError(f"operands do not fit: {ta} and {tb}")
    if acc.shape != (m, n) or k != k2:
        raise VerifyError(f"shapes do not fit: {a}, {tb} and {acc}")
    if tb.elem.bits != 16 and (transpose_a or not transpose_b):
        raise VerifyError(f"{tb.elem} operands must be contiguous along K")
    return acc


@opdef("gpu.wgmma_wait")
def wgmma_wait(*accumulators: Type, pending: int = 0, fence: bool = False) -> tuple[Type, ...]:
    """Until all but the last `pending` groups are done; then the accumulators given may be read.

    With `fence` no assembler moves what reads them to before the wait, at the cost of a memory fence.
    """
    return accumulators


@opdef("gpu.part", Trait.PURE)
def part(x: Type, *, start: tuple[int, ...], layout: LinearLayout) -> Type:
    """The elements from `start` on of a tile, as many as the layout has, each staying in its thread."""
    if not isinstance(x, Tile) or x.layout is None or len(x.shape) != len(start) or len(layout.shape) != len(start):
        raise VerifyError(f"operand must be a tile with a layout, of rank {len(start)}, got {x}")
    if any(not 0 <= s <= n - m for s, n, m in zip(start, x.shape, layout.shape, strict=True)):
        raise VerifyError(f"no part of {list(layout.shape)} from {list(start)} on in {x}")
    return Tile(layout.shape, x.elem, layout)


# who does what


@opdef("gpu.warp_specialize")
def warp_specialize(
    *,
    warps: tuple[int, ...],
    groups: tuple[int, ...],
    registers: tuple[int, ...] = (),
    single: tuple[int, ...] = (),
    cluster: int = 1,
    bodies: tuple[Block, ...],
) -> tuple[Type, ...]:
    """One body for each role, run by `groups[i]` groups of `warps[i]` warps, in the order of their numbers.

    A body receives its group's number. `registers` is what the threads of each role may use from here on. Roles in
    `single` are run by one thread of their first warp. All blocks of a cluster begin, and end, together. Nothing but
    the end of the function may follow.
    """
    if not len(bodies) == len(warps) == len(groups) or (registers and len(registers) != len(warps)):
        raise VerifyError(f"expected warps, groups (and registers) for each of the {len(bodies)} bodies")
    if any(b.params.types != (I64,) or b.terminator.operands for b in bodies):
        raise VerifyError("a body takes the number of its group and yields nothing")
    if any(n < 1 or n & n - 1 for n in warps) or any(n < 1 for n in groups):
        raise VerifyError(f"a group must have 1, 2, 4, 8 .. warps, got {warps}, {groups}")
    return ()


# sums that several blocks share, with `steps` of `for_tiles`: what a block has of a program goes through global memory


def _accumulator(t: Type) -> None:
    if not isinstance(t, Tile) or t.layout is None or t.elem.bytes != 4:
        raise VerifyError(f"expected a tile of 4-byte elements with a layout, got {t}")


@opdef("gpu.leave")
def leave(acc: Type) -> tuple[Type, ...]:
    """Leave a tile to the block that ends the program. Once a launch, and without waiting for anyone."""
    _accumulator(acc)
    return ()


@opdef("gpu.collect")
def collect(acc: Type, program: Type, first: Type, *, tiles: Dim, steps: int) -> Type:
    """Add what the blocks before this one have left of a program, from the nearest to the one that began it.

    `first` is this block's first step of the program, as `for_tiles` says it; from 0 on nothing is missing.
    """
    _accumulator(acc)
    if (program, first) != (I64, I64):
        raise VerifyError(f"expected i64 and i64, got {program} and {first}")
    return acc


@opdef("gpu.warpgroup", Trait.PURE)
def warpgroup() -> Type:
    """The number of this warpgroup in the group that runs the body."""
    return I64


@opdef("gpu.for_tiles")
def for_tiles(
    group: Type, *carried: Type, tiles: Dim, groups: int = 1, split: int = 1, steps: int = 0, bodies: tuple[Block, ...]
) -> tuple[Type, ...]:
    """Run the body for each program that falls to this block, and of those for every `groups`-th, carrying values.

    Programs `0..tiles` are dealt to the blocks of the grid in turn, each to `split` neighbours. They are independent:
    an iteration must not rely on what another one wrote to global memory.

    With `steps`, programs are sums of so many steps, and of the last waves these are dealt out evenly, in the order of
    programs and blocks. The body also receives which steps of the program fall to it, the first and the end. First
    comes the program that a block does not end, if there is one, and last the one that it did not begin.
    """
    own = (I64, I64, I64) if steps else (I64,)
    if group != I64 or len(bodies) != 1 or bodies[0].params.types != (*own, *carried):
        raise VerifyError("expected a group number, and a body that takes a program number and the carried values")
    if steps and (groups > 1 or split > 1):
        raise VerifyError("steps are dealt to single blocks, to one group of each")
    if yielded_by(bodies[0]) != carried:
        raise VerifyError("carried types change")
    return carried
