"""What sm_90 adds around a product: roles of warps, mbarriers, rings of shared buffers, boxes by TMA.

Shared addresses are i32 here, as the instructions want them. Every instruction below is inline assembly: LLVM's
intrinsics for them change between versions, and the text is what the emulator and the assembler agree on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphfuse.artifact import Im2col, TensorMap
from graphfuse.codegen.control import emit_loop
from graphfuse.codegen.index import emit_dim, numbers_below
from graphfuse.codegen.kernel import PointerValue, integer
from graphfuse.dialects import gpu
from graphfuse.gpu.deal import Deal
from graphfuse.gpu.kernel import WARP_SIZE, Kernel, Role, lowers, places, until, when
from graphfuse.ir.core import Op, Value, attr_dim, attr_dims, attr_int, attr_ints
from graphfuse.ir.types import Buffer, Scalar
from graphfuse.llvm.module import Reg

WARPGROUP = 128
"""Threads of a warpgroup."""
BUFFER_ALIGNMENT = 1024
"""Bytes; the pattern of the widest swizzle repeats that often."""
REGISTER_FILE = 65536
"""32-bit registers of a multiprocessor."""
_POSITION, _ROUND = (1 << 31) - 1, -(1 << 31)
_WAIT = until("mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1;")
_ELECT = """{
.reg .pred p;
elect.sync _|p, 0xffffffff;
selp.b32 $0, 1, 0, p;
}"""


# shared memory


def buffer_of(value: Value) -> Buffer:
    """The type of shared memory."""
    assert isinstance(value.type, Buffer), f"{value} is not shared memory"
    return value.type


def _allocate(kernel: Kernel, op: Op, nbytes: int, alignment: int) -> Reg:
    start = -(-kernel.shared_bytes // alignment) * alignment
    kernel.shared_bytes = start + -(-nbytes // 128) * 128
    memory = kernel.shared_memory(start)
    address = kernel.text.pure("i32", f"ptrtoint {memory} to i32", memory)
    kernel.values[op.result] = PointerValue(address, f"shared{start}")
    return address


@lowers(gpu.shared_alloc)
def lower_shared_alloc(kernel: Kernel, op: Op) -> None:
    """An offset into the block's shared memory."""
    _allocate(kernel, op, buffer_of(op.result).nbytes, BUFFER_ALIGNMENT)


@lowers(gpu.barriers)
def lower_barriers(kernel: Kernel, op: Op) -> None:
    """Initialised by the first thread; `warp_specialize` makes them known to the others."""
    address = _allocate(kernel, op, buffer_of(op.result).nbytes, 8)
    init = when(f"mbarrier.init.shared::cta.b64 [$0], {attr_int(op, 'arrivals')};", 1)
    for i in range(attr_int(op, "count")):
        at = kernel.operate("add", address, 8 * i) if i else address
        kernel.assembly(init, at, kernel.flag(kernel.is_first_thread))


def position(kernel: Kernel, slot: Reg) -> Reg:
    """Which buffer of its ring a slot is."""
    return kernel.operate("and", slot, _POSITION)


def slot_address(kernel: Kernel, ring: Value, slot: Reg, size: int) -> Reg:
    """The shared address of a slot whose ring has `size` bytes for each."""
    at = kernel.operate("mul", position(kernel, slot), size)
    return kernel.operate("add", kernel.pointer(ring).reg, at)


@lowers(gpu.advance)
def lower_advance(kernel: Kernel, op: Op) -> None:
    """One further wraps by a comparison, more by a division."""
    slot, size = kernel.scalar(op.operands[0]), attr_int(op, "size")
    if len(op.operands) == 1:
        on = kernel.operate("add", slot, 1)
        ends = kernel.test("eq", position(kernel, on), size)
        round_ = kernel.operate("and", slot, _ROUND)
        again = kernel.operate("xor", round_, _ROUND)
        kernel.set(op, [kernel.select(ends, again, on)])
        return
    total = kernel.operate("add", position(kernel, slot), kernel.shortened(kernel.scalar(op.operands[1])))
    rounds = kernel.operate("shl", kernel.operate("udiv", total, size), 31)
    round_ = kernel.operate("xor", kernel.operate("and", slot, _ROUND), rounds)
    kernel.set(op, [kernel.operate("or", round_, kernel.operate("urem", total, size))])


# barriers


def _barrier(kernel: Kernel, op: Op) -> tuple[Reg, Reg]:
    slot = kernel.scalar(op.operands[1])
    return slot_address(kernel, op.operands[0], slot, 8), slot


@lowers(gpu.wait)
def lower_wait(kernel: Kernel, op: Op) -> None:
    """Spin; the instruction itself sleeps for a while."""
    at, slot = _barrier(kernel, op)
    phase = kernel.operate("lshr", slot, 31)
    if op.attrs.get("previous"):
        phase = kernel.operate("xor", phase, 1)
    wait = _WAIT.replace(".parity.", ".parity.acquire.cluster.") if op.attrs.get("cluster") else _WAIT
    kernel.assembly(wait, at, phase)


@lowers(gpu.arrive)
def lower_arrive(kernel: Kernel, op: Op) -> None:
    """By the first thread of every warpgroup, or of every warp, all of whose lanes have read what is given back."""
    at, _ = _barrier(kernel, op)
    condition = kernel.scalar(op.operands[2]) if len(op.operands) > 2 else None
    assert kernel.role, "barriers are for warps with roles"
    if not kernel.role.single:
        size = WARP_SIZE if op.attrs.get("every_warp") else WARPGROUP
        if size == WARP_SIZE:
            kernel.assembly("bar.warp.sync 0xffffffff;")
        within = kernel.operate("and", kernel.thread, size - 1)
        condition = kernel.both(kernel.test("eq", within, 0), condition)
    arrive = "mbarrier.arrive.shared::cta.b64 _, [$0];"
    if condition is None:
        kernel.assembly(arrive, at)
    else:
        kernel.assembly(when(arrive, 1), at, kernel.flag(condition))


@lowers(gpu.expect)
def lower_expect(kernel: Kernel, op: Op) -> None:
    """Only for a single thread: the bytes are announced once."""
    assert kernel.role, "barriers are for warps with roles"
    assert kernel.role.single, "one thread announces the bytes"
    at, _ = _barrier(kernel, op)
    kernel.assembly(f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], {attr_int(op, 'nbytes')};", at)


# boxes


def tensor_map(kernel: Kernel, op: Op, elem: Scalar, box: tuple[int, int], swizzle: int) -> Reg:
    """The parameter that describes the tensor of a `tma_load` or `tma_store`; `box` is (rows, columns)."""
    dims, strides = attr_dims(op, "dims"), attr_dims(op, "strides")
    offset = attr_dim(op, "offset", 0)
    whole = (*(1 for _ in dims[2:]), *box)
    param = kernel.func.params.index(op.operands[0])
    how = None
    if "steps" in op.attrs and attr_ints(op, "steps"):
        whole = box
        how = Im2col(*(attr_ints(op, name) for name in ("lower", "upper", "steps")))
    new = TensorMap(param, elem.name, offset, dims[::-1], strides[-2::-1], whole[::-1], swizzle, how)
    if new not in kernel.maps:
        kernel.maps.append(new)
    return Reg(f"%map{kernel.maps.index(new)}", "ptr")


def coordinates(kernel: Kernel, values: Sequence[Value], type_: str = "i32") -> list[Reg]:
    """Where a box begins, outermost first; offsets of im2col mode are i16."""
    return [kernel.shortened(kernel.scalar(v), type_) for v in values]


def displaced(kernel: Kernel, at: Sequence[Reg], rows: Reg | int = 0, columns: int = 0) -> list[Reg]:
    """Coordinates, innermost first, that many rows and columns further."""
    *outer, row, column = at
    by = integer(rows, "i32") if isinstance(rows, int) else rows
    row = row if by.text == "0" else kernel.operate("add", row, by)
    column = column if not columns else kernel.operate("add", column, columns)
    return [column, row, *reversed(outer)]


@lowers(gpu.tma_load)
def lower_tma_load(kernel: Kernel, op: Op) -> None:
    """One instruction for each panel of the buffer: a swizzled box is no wider than the swizzle. Others are one panel.

    What a block copies to all of a cluster goes to the same place in each of them, and counts at the same barrier.
    """
    _, ring, slot, barrier, *at = op.operands
    buffer, parts = buffer_of(ring), attr_int(op, "parts", 1)
    rows, columns = buffer.shape[1:]
    span = buffer.swizzle or columns * buffer.elem.bytes
    width = min(columns, span // buffer.elem.bytes)
    own = (attr_int(op, "rows", 0) or rows) // parts
    first: Reg | int = 0
    if parts > 1:
        first = kernel.operate("mul", kernel.special("cluster.ctarank"), own)
    to = slot_address(kernel, ring, kernel.scalar(slot), buffer.slot_bytes)
    if not isinstance(first, int):
        to = kernel.operate("add", to, kernel.operate("mul", first, span))
    signal = slot_address(kernel, barrier, kernel.scalar(slot), 8)
    map_ = tensor_map(kernel, op, buffer.elem, (own, width), buffer.swizzle)
    rank = len(attr_dims(op, "dims"))
    where, rest = coordinates(kernel, at[:rank]), coordinates(kernel, at[: rank - 1 : -1], "i16")
    how, (mode, more) = "", ("im2col", f", {{{places(3 + rank, len(rest))}}}") if rest else ("tile", "")
    if parts > 1:
        rest, how, more = [integer((1 << parts) - 1, "i16")], ".multicast::cluster", f", {places(3 + rank, 1)}"
    load = (
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes{how}"
        f" [$0], [$1, {{{places(3, rank)}}}], [$2]{more};"
    )
    for panel in range(columns // width):
        there = kernel.operate("add", to, panel * rows * span) if panel else to
        moved = displaced(kernel, where, first, panel * width)
        kernel.assembly(load, there, map_, signal, *moved, *rest)


@lowers(gpu.zero_rows)
def lower_zero_rows(kernel: Kernel, op: Op) -> None:
    """16 bytes a thread at a time; within a panel the rows lie one after another."""
    assert not kernel.role, "groups of warps would write the same rows"
    buffer = buffer_of(op.operands[0])
    slots, rows, columns = buffer.shape
    panels, start = columns * buffer.elem.bytes // buffer.swizzle, attr_int(op, "start")
    at = kernel.operate("mul", kernel.thread, 16)
    at = kernel.operate("add", kernel.pointer(op.operands[0]).reg, at)
    nbytes, step = (rows - start) * buffer.swizzle, 16 * WARP_SIZE * kernel.warps
    zero = integer(0, "i32")
    for panel in range(slots * panels):
        begin = panel * rows * buffer.swizzle + start * buffer.swizzle
        for done in range(0, nbytes, step):
            store = f"st.shared.v4.b32 [$0+{begin + done}], {{$1, $1, $1, $1}};"
            if done + step <= nbytes:
                kernel.assembly(store, at, zero)
            else:
                inside = kernel.test("ult", kernel.thread, (nbytes - done) // 16)
                kernel.assembly(when(store, 2), at, zero, kernel.flag(inside))
    kernel.assembly("fence.proxy.async.shared::cta;")
    kernel.barrier()


def staging_buffer(kernel: Kernel, staging: Value, op: Op) -> Reg:
    """The address of the warp's own buffer that an op names."""
    assert kernel.role, "the staging buffers are those of warps with roles"
    buffer = buffer_of(staging)
    warps = kernel.role.threads // WARP_SIZE
    own = buffer.shape[0] // (warps * kernel.role.groups)
    number = kernel.operate("add", kernel.operate("mul", kernel.role.group, warps), kernel.warp)
    mine = kernel.operate("mul", number, own * buffer.slot_bytes)
    base = kernel.operate("add", kernel.pointer(staging).reg, mine)
    turn = attr_int(op, "buffer", 0)
    return kernel.operate("add", base, turn * buffer.slot_bytes) if turn else base


@lowers(gpu.stage)
def lower_stage(kernel: Kernel, op: Op) -> None:
    """The lane that stores is the one that knows what has been read; the others wait for it."""
    staging, value = op.operands
    buffer, tile = buffer_of(staging), kernel.tile(value)
    here, lane = staging_buffer(kernel, staging, op), kernel.lane
    if "pending" in op.attrs:
        ready = when(f"cp.async.bulk.wait_group.read {attr_int(op, 'pending')};", 0)
        kernel.assembly(f"{ready}\nbar.warp.sync 0xffffffff;", kernel.flag(kernel.is_first_lane))
    start = attr_int(op, "column", 0) * buffer.elem.bytes
    if buffer.elem.bits == 16:
        _stage_halves(kernel, here, buffer, tile.vectors, lane, start)
    else:
        _stage_words(kernel, here, buffer, tile.vectors, lane, start)


@lowers(gpu.tma_store)
def lower_tma_store(kernel: Kernel, op: Op) -> None:
    """One box by the first lane, once all lanes' writes are visible to TMA."""
    _, staging, *at = op.operands
    buffer = buffer_of(staging)
    first = kernel.flag(kernel.is_first_lane)
    kernel.assembly("fence.proxy.async.shared::cta;\nbar.warp.sync 0xffffffff;")
    map_ = tensor_map(kernel, op, buffer.elem, (16, buffer.shape[2]), buffer.swizzle)
    down = kernel.operate("mul", kernel.warp, 16)
    to = displaced(kernel, coordinates(kernel, at), rows=down)
    store = (
        f"cp.async.bulk.tensor.{len(to)}d.global.shared::cta.tile.bulk_group [$1, {{{places(2, len(to))}}}], [$0];\n"
        "@p cp.async.bulk.commit_group;"
    )
    kernel.assembly(when(store, 2 + len(to)), staging_buffer(kernel, staging, op), map_, *to, first)


def _stage_halves(kernel: Kernel, base: Reg, buffer: Buffer, values: Sequence[Reg], lane: Reg, column: int) -> None:
    """`stmatrix` writes 16 rows of 16 columns; lanes 0..15 address the left chunks of the rows, 16..31 the right."""
    row = kernel.operate("and", lane, 15)
    start = kernel.operate("add", base, kernel.operate("mul", row, buffer.swizzle))
    right = kernel.operate("lshr", lane, 4)
    chunk = kernel.operate("shl", kernel.operate("xor", right, _phase(kernel, buffer, lane)), 4)
    for j in range(len(values) // 8):
        words = [pack(kernel, buffer.elem, *values[8 * j + 2 * k : 8 * j + 2 * k + 2]) for k in range(4)]
        at = kernel.operate("add", start, kernel.operate("xor", chunk, column + 32 * j))
        kernel.assembly("stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1, $2, $3, $4};", at, *words)


def _stage_words(kernel: Kernel, base: Reg, buffer: Buffer, values: Sequence[Reg], lane: Reg, column: int) -> None:
    """Pairs of neighbours, 8 bytes a thread: the swizzle spreads the rows over the banks."""
    row = kernel.operate("lshr", lane, 2)
    pair = kernel.operate("shl", kernel.operate("and", lane, 1), 3)
    start = kernel.operate("add", base, kernel.operate("mul", row, buffer.swizzle))
    start = kernel.operate("add", start, pair)
    half = kernel.operate("and", kernel.operate("lshr", lane, 1), 1)
    chunk = kernel.operate("shl", kernel.operate("xor", half, _phase(kernel, buffer, row)), 4)
    for j in range(len(values) // 4):
        at = kernel.operate("add", start, kernel.operate("xor", chunk, column + 32 * j))
        for h in range(2):
            pairs = values[4 * j + 2 * h : 4 * j + 2 * h + 2]
            kernel.assembly(f"st.shared.v2.b32 [$0+{8 * h * buffer.swizzle}], {{$1, $2}};", at, *pairs)


def _phase(kernel: Kernel, buffer: Buffer, row: Reg) -> Reg:
    """What the 16-byte chunks of a row are XORed with; rows eight apart have the same."""
    period = 128 // buffer.swizzle
    within = kernel.operate("and", row, 7)
    if period > 1:
        within = kernel.operate("lshr", within, period.bit_length() - 1)
    return kernel.operate("and", within, buffer.swizzle // 16 - 1)


def pack(kernel: Kernel, elem: Scalar, a: Reg, b: Reg) -> Reg:
    """Two 16-bit elements as a word, rounded from f32 if need be."""
    pair = kernel.joined([a, b])
    if a.type == "float":
        pair = kernel.convert("fptrunc", pair, "bfloat" if elem.name == "bf16" else "half")
    return kernel.recast(pair, "i32")


# who does what


@lowers(gpu.warp_specialize)
def lower_warp_specialize(kernel: Kernel, op: Op) -> None:
    """A chain of branches on the number of the warp, which a shuffle makes known to be the same in all lanes."""
    text = kernel.text
    warps, groups = attr_ints(op, "warps"), attr_ints(op, "groups")
    registers = attr_ints(op, "registers", ())
    single = attr_ints(op, "single", ())
    raw = kernel.operate("lshr", kernel.thread, 5)
    shuffle = "shfl.sync.idx.b32 $0, $1, 0, 31, 0xffffffff;"
    (warp,) = kernel.assembly(shuffle, raw, gives=["i32"], effects=False)
    prefetches, first = text.reserve(), kernel.flag(kernel.is_first_thread)
    kernel.assembly("fence.mbarrier_init.release.cluster;")
    clustered = attr_int(op, "cluster", 1) > 1
    if clustered:
        kernel.assembly("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;")
    else:
        kernel.barrier()
    end = text.fresh("end")
    start, barrier = 0, 1
    for i, body in enumerate(op.bodies):
        count = warps[i] * groups[i]
        before = text.reserve()
        mine, others = text.fresh("role"), text.fresh("next")
        inside = text.emit("i1", f"icmp ult {warp}, {start + count}")
        text.line(f"br {inside}, label %{mine}, label %{others if i + 1 < len(op.bodies) else end}")
        with text.scope(before):
            text.start(mine)
            if registers:
                _set_registers(kernel, registers[i])
            within = kernel.operate("sub", warp, start) if start else warp
            group = kernel.operate("lshr", within, warps[i].bit_length() - 1)
            group = group if groups[i] > 1 else integer(0, "i32")
            number = kernel.operate("and", within, warps[i] - 1) if groups[i] > 1 else within
            id_ = kernel.operate("add", group, barrier)
            kernel.role = Role(number, group, groups[i], warps[i] * WARP_SIZE, id_, i in single)
            (param,) = body.params.values
            kernel.values[param] = kernel.make(param.type, [kernel.widen_index(group)])
            kernel.bounds[param] = (0, groups[i] - 1)
            if i in single:
                _one_thread(kernel, within, end)
            kernel.lower_ops(body.ops[:-1])
            text.line(f"br label %{end}")
            kernel.role = None
        if i + 1 < len(op.bodies):
            text.start(others)
        start, barrier = start + count, barrier + groups[i]
    text.start(end)
    if clustered:  # the others may still write to this block's memory
        kernel.assembly("barrier.cluster.arrive;\nbarrier.cluster.wait;")
    with text.at(prefetches):
        for i in range(len(kernel.maps)):
            kernel.assembly(when("prefetch.tensormap [$0];", 1), Reg(f"%map{i}", "ptr"), first)


def _set_registers(kernel: Kernel, count: int) -> None:
    """Give registers back to the multiprocessor, or wait until it has as many."""
    blocks = max(attr_int(kernel.func, "persistent", 1), attr_int(kernel.func, "resident", 1))
    threads = kernel.warps * WARP_SIZE * blocks
    have = min(REGISTER_FILE // threads // 8 * 8, 255)
    if count != have:
        way = "dec" if count < have else "inc"
        kernel.assembly(f"setmaxnreg.{way}.sync.aligned.u32 {count};")


def _one_thread(kernel: Kernel, warp: Reg, end: str) -> None:
    """Leave to `end` all but one thread of the group's first warp."""
    text = kernel.text
    one, chosen = text.fresh("warp"), text.fresh("one")
    first = text.emit("i1", f"icmp eq {warp}, 0")
    text.line(f"br {first}, label %{one}, label %{end}")
    text.start(one)
    (flag,) = kernel.assembly(_ELECT, gives=["i32"])
    elected = text.emit("i1", f"icmp ne {flag}, 0")
    text.line(f"br {elected}, label %{chosen}, label %{end}")
    text.start(chosen)


@lowers(gpu.warpgroup)
def lower_warpgroup(kernel: Kernel, op: Op) -> None:
    """From the warp's number in its group."""
    assert kernel.role, "warpgroups are counted within roles"
    one = kernel.role.threads <= WARPGROUP
    number = integer(0, "i32") if one else kernel.operate("lshr", kernel.warp, 2)
    kernel.set(op, [kernel.widen_index(number)])


@lowers(gpu.for_tiles)
def lower_for_tiles(kernel: Kernel, op: Op) -> None:
    """Programs `block + (group + groups * i) * blocks`. What one leaves in memory is nothing to the next.

    Where several blocks share a program, they count as one.
    """
    if "steps" in op.attrs:
        dealt = Deal(kernel, attr_dim(op, "tiles"), attr_int(op, "steps"))
        for_each(kernel, op, (integer(0), dealt.count(), 1), dealt.piece)
        return
    tiles, groups = attr_dim(op, "tiles"), attr_int(op, "groups", 1)
    group = op.operands[0]
    split = attr_int(op, "split", 1)
    own, blocks = (kernel.widen_index(kernel.special(r)) for r in ("ctaid.x", "nctaid.x"))
    if split > 1:
        own, blocks = (kernel.operate("udiv", r, split) for r in (own, blocks))
    ahead = kernel.operate("mul", kernel.scalar(group), blocks)
    start = kernel.operate("add", own, ahead)
    step = kernel.operate("mul", blocks, groups) if groups > 1 else blocks
    for_each(kernel, op, (start, emit_dim(kernel, tiles), step), lambda i: [i])


def for_each(kernel: Kernel, op: Op, loop: tuple[Reg, Reg, int | Reg], numbers: Callable[[Reg], Sequence[Reg]]) -> None:
    """The loop of a `for_tiles`; what its body receives before what is carried is `numbers` of the counter."""
    carried, params = op.operands[1:], op.body.params.values
    kernel.bounds[params[0]] = numbers_below(kernel, attr_dim(op, "tiles"))
    dirty = dict(kernel.dirty)

    def body(i: Reg, phis: list[Reg]) -> list[Reg]:
        for param, reg in zip(params, (*numbers(i), *phis), strict=True):
            kernel.values[param] = kernel.make(param.type, [reg])
        kernel.dirty = {"staging": "rw"}
        kernel.lower_ops(op.body.ops[:-1])
        return [kernel.scalar(v) for v in op.body.terminator.operands]

    inits = [kernel.scalar(v) for v in carried]
    ends = emit_loop(kernel, *loop, inits, body, is_certain=False)
    for result, end in zip(op.results, ends, strict=True):
        kernel.values[result] = kernel.make(result.type, [end])
    kernel.dirty = dirty
