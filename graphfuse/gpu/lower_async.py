"""`cp.async` into rings in shared memory, and their tiles as registers: `ldmatrix` where its pattern fits."""

from __future__ import annotations

from graphfuse.codegen.kernel import integer, register_type
from graphfuse.dialects import gpu
from graphfuse.gpu.analysis.memory_access import bank_conflicts
from graphfuse.gpu.convert import holding
from graphfuse.gpu.kernel import SHARED, WARP_SIZE, Kernel, layout_of, lowers
from graphfuse.gpu.lower_hopper import buffer_of, position
from graphfuse.gpu.lower_memory import element_address, limit_of, strided_address
from graphfuse.gpu.matrices import load_matrices, matrix_pattern
from graphfuse.gpu.shared_access import load_shared, shared_offset, store_shared
from graphfuse.ir.core import Op, Value, attr_dims, attr_int, attr_ints, tile_of
from graphfuse.ir.layout import LANE, REGISTER, WARP, LinearLayout, log2, tile_outs
from graphfuse.ir.layout_families import Blocked, Shared, Tma
from graphfuse.ir.types import I32, Buffer
from graphfuse.llvm.module import Reg


def memory_layout(ring: Buffer) -> LinearLayout:
    """From element offsets in one buffer of a ring to its rows and columns."""
    if ring.swizzle:
        return Tma(ring.elem.bytes, (1, 0), ring.swizzle).linear(ring.shape[1:])
    return Shared((1, 0)).linear(ring.shape[1:])


def _slot_address(kernel: Kernel, ring: Value, slot: Value) -> tuple[Buffer, Reg]:
    """The buffer's type and its first shared address, an i32."""
    type_, number, base = buffer_of(ring), kernel.scalar(slot), kernel.pointer(ring).reg
    if not number.text.startswith("%"):
        at = int(number.text) * type_.slot_bytes
        return type_, kernel.operate("add", base, at) if at else base
    number = position(kernel, number) if slot.type == I32 else kernel.shortened(number)
    return type_, kernel.operate("add", base, kernel.operate("mul", number, type_.slot_bytes))


def copying_layout(ring: Buffer, width: int, warps: int) -> LinearLayout:
    """Which thread copies what of a buffer: lanes along rows, `width` elements each."""
    rows, columns = ring.shape[1:]
    across = min(WARP_SIZE, columns // width)
    down = WARP_SIZE // across
    return Blocked((1, width), (down, across), (warps, 1), (1, 0)).linear((rows, columns))


@lowers(gpu.copy_async)
def lower_copy_async(kernel: Kernel, op: Op) -> None:
    """One instruction for each `width` elements; those past a limit are cut off by the number of bytes it reads."""
    pointer, base, ring, slot, condition, *limits = op.operands
    if "r" in kernel.dirty.get(kernel.pointer(ring).root, ""):  # by an earlier loop: a wait lies between iterations
        kernel.barrier()
    type_, to = _slot_address(kernel, ring, slot)
    width, size = attr_int(op, "width"), type_.elem.bytes
    layout = copying_layout(type_, width, kernel.warps)
    order = (1, 0) if op.attrs.get("transposed") else (0, 1)
    """Which dim of the matrix each dim of the buffer is."""
    strides = attr_dims(op, "strides")
    limited = dict(zip(attr_ints(op, "limited", ()), limits, strict=True))
    bounds = {order.index(d): limit_of(kernel, v) for d, v in limited.items()}
    start = element_address(kernel, kernel.pointer(pointer).reg, type_.elem, kernel.scalar(base))
    offsets = layout.through(memory_layout(type_))
    go = kernel.both(kernel.scalar(condition), kernel.owns(layout))
    assert go is not None
    free = layout.free_masks().get(REGISTER, 0)
    for r in range(0, layout.size(REGISTER), width):
        if r & free:
            continue
        source, displacement = strided_address(kernel, start, layout, [strides[d] for d in order], size, r)
        at, constant = shared_offset(kernel, offsets, r, size)
        target = to if at is None else kernel.operate("add", to, at)
        nbytes = _bytes_inside(kernel, layout, bounds, r, width, size)
        kind = "cg" if width * size == 16 else "ca"
        cut, shorter = ("", []) if nbytes is None else (", $3", [nbytes])
        copy = f"@$2 cp.async.{kind}.shared.global [$0+{constant}], [$1+{displacement}], {width * size}{cut};"
        kernel.assembly(copy, target, source, go, *shorter)


def _bytes_inside(
    kernel: Kernel, layout: LinearLayout, bounds: dict[int, Reg], register: int, width: int, size: int
) -> Reg | None:
    """How much of an instruction's bytes lies below the limits; None: all of them."""
    out: Reg | None = None
    if 1 in bounds:
        left = kernel.operate("sub", bounds[1], kernel.coordinate(layout, 1, register))
        left = kernel.extreme("smin", kernel.extreme("smax", left, 0), width)
        out = kernel.operate("mul", left, size) if size > 1 else left
    if 0 in bounds:
        inside = kernel.test("slt", kernel.coordinate(layout, 0, register), bounds[0])
        out = kernel.select(inside, out or integer(width * size, "i32"), 0)
    return out


@lowers(gpu.wait_group)
def lower_wait_group(kernel: Kernel, op: Op) -> None:
    """A thread waits for its own copies, then for the other threads."""
    kernel.assembly(f"cp.async.wait_group {attr_int(op, 'pending')};")
    kernel.barrier()


# from shared memory to registers


@lowers(gpu.load_shared)
def lower_load_shared(kernel: Kernel, op: Op) -> None:
    """With `ldmatrix`, else vectors."""
    tile = tile_of(op.result)
    kernel.dirty[kernel.pointer(op.operands[0]).root] = "r"
    type_, base = _slot_address(kernel, op.operands[0], op.operands[1])
    layout = layout_of(tile)
    if op.attrs.get("transposed"):
        layout = layout.transpose((1, 0))
    distinct = layout.distinct_registers()
    memory, size, want = memory_layout(type_), type_.elem.bytes, register_type(tile.elem)
    count, part = distinct.size(REGISTER), attr_int(op, "part", 0)
    every = _all_parts(op, distinct, type_)
    if matrices := matrix_pattern(every.through(memory), 8 * size, log2(count)):
        values = load_matrices(kernel, base, matrices, size, want, part)
    else:
        start = kernel.text.pure(SHARED, f"inttoptr {base} to {SHARED}", base)
        values = load_shared(kernel, start, bank_conflicts(memory, every, size), size, want)  # LLVM drops other parts
        values = values[part * count : (part + 1) * count]
    kernel.set(op, [values[r] for r in holding(layout, distinct)])


@lowers(gpu.store_shared)
def lower_store_shared(kernel: Kernel, op: Op) -> None:
    """In vectors, by one of the threads that have an element; then in order before what `wgmma` reads."""
    tile, (type_, base) = kernel.tile(op.operands[2]), _slot_address(kernel, *op.operands[:2])
    distinct, size = tile.layout.distinct_registers(), tile.elem.bytes
    values = [tile.vectors[r] for r in holding(distinct, tile.layout)]
    start = kernel.text.pure(SHARED, f"inttoptr {base} to {SHARED}", base)
    memory = memory_layout(Buffer((1, *tile_of(op.operands[2]).shape), tile.elem, type_.swizzle))
    store_shared(kernel, start, bank_conflicts(memory, distinct, size), values, size, kernel.owns(distinct))
    if type_.swizzle:
        kernel.assembly("fence.proxy.async.shared::cta;")


def _all_parts(op: Op, part: LinearLayout, ring: Buffer) -> LinearLayout:
    """The layout of a part, of a whole buffer: the highest bits of the register number say which part it is."""
    parts = attr_int(op, "parts", 1)
    if parts == 1:
        return part
    axis = attr_int(op, "axis", 0)
    axis = 1 - axis if op.attrs.get("transposed") else axis
    rows, columns = ring.shape[1:]
    inner = part.shape[1]
    ins = {name: [(b // inner) * columns + b % inner for b in part.bases(name)] for name in (REGISTER, LANE, WARP)}
    first = part.shape[axis] * (columns if axis == 0 else 1)
    ins[REGISTER] += [first << i for i in range(log2(parts))]
    return LinearLayout.of(ins, tile_outs((rows, columns)))
