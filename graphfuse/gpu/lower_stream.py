"""Tiles that blocks leave to one another in global memory, and the flags that say so.

The scratch memory of a block is a place for one tile. Thread t of the block that collects reads what thread t of the
block that left it wrote, so every warp has a flag of its own, and no barrier of more than a warp is needed:

    store the tile; bar.warp.sync; st.release.gpu flag, 1          wait for ld.acquire.gpu flag = 1; load; flag = 0

Flags lie before the scratch memory, and are 0 before and after every launch: whoever waits for a flag sets it back.
A block leaves its tile before it waits for anyone, and waits for blocks with smaller numbers only.
"""

from __future__ import annotations

from graphfuse.codegen.control import loop_metadata
from graphfuse.dialects import gpu
from graphfuse.gpu.deal import Deal
from graphfuse.gpu.kernel import GLOBAL, WARP_SIZE, Kernel, lowers, until, when
from graphfuse.gpu.words import VECTOR, load_vectors, store_vectors
from graphfuse.ir.core import Op, attr_dim, attr_int
from graphfuse.llvm.module import Reg

FLAG_BYTES = 4
"""A flag is a word that atomics take."""
_BATCH = 8
"""Accesses that are begun before their results are added."""
_SEEN = until("ld.acquire.gpu.global.b32 seen, [$0];\nsetp.ne.b32 p, seen, 0;", ".reg .b32 seen;\n")
_SCRATCH = Reg("%scratch", GLOBAL)


def _place(kernel: Kernel, block: Reg, vectors: int) -> tuple[Reg, int]:
    """Where this thread's part of a block's tile begins, and the bytes from one vector of elements to the next."""
    assert kernel.role, "tiles are left by warps with roles"
    step = 4 * VECTOR * kernel.role.threads
    kernel.scratch_bytes = vectors // VECTOR * step
    thread = kernel.operate("add", kernel.operate("mul", kernel.warp, WARP_SIZE), kernel.lane)
    own = kernel.operate("mul", kernel.widen_index(block), kernel.scratch_bytes)
    inside = kernel.widen_index(kernel.operate("mul", thread, 4 * VECTOR))
    return kernel.address(_SCRATCH, kernel.operate("add", own, inside)), step


def _flag(kernel: Kernel, block: Reg) -> Reg:
    """The address of the flag of this warp and a block."""
    assert kernel.role, "tiles are left by warps with roles"
    kernel.flags = kernel.role.threads // WARP_SIZE
    last = kernel.operate("add", kernel.widen_index(block), 1)
    back = kernel.operate("mul", last, -FLAG_BYTES * kernel.flags)
    warp = kernel.widen_index(kernel.operate("mul", kernel.warp, FLAG_BYTES))
    return kernel.address(_SCRATCH, kernel.operate("add", back, warp))


def _set(kernel: Kernel, flag: Reg, how: str, value: int) -> None:
    """By the first lane, behind all that the warp did."""
    store = when(f"st.{how}.gpu.global.b32 [$0], {value};", 1)
    kernel.assembly(f"bar.warp.sync 0xffffffff;\n{store}", flag, kernel.flag(kernel.is_first_lane))


@lowers(gpu.leave)
def lower_leave(kernel: Kernel, op: Op) -> None:
    """Neighbouring threads write neighbouring vectors."""
    values, own = kernel.tile(op.operands[0]).vectors, kernel.special("ctaid.x")
    at, step = _place(kernel, own, len(values))
    store_vectors(kernel, "st.global", at, step, values)
    _set(kernel, _flag(kernel, own), "release", 1)


@lowers(gpu.collect)
def lower_collect(kernel: Kernel, op: Op) -> None:
    """From block to block backwards, until one that began no later than the program."""
    text, values = kernel.text, list(kernel.tile(op.operands[0]).vectors)
    program, first = (kernel.scalar(v) for v in op.operands[1:])
    dealt = Deal(kernel, attr_dim(op, "tiles"), attr_int(op, "steps"))
    number = kernel.operate("sub", kernel.shortened(program), dealt.first_dealt)
    start = kernel.operate("mul", number, dealt.steps)
    nearest = kernel.operate("sub", dealt.own, 1)
    is_missing = kernel.test("ne", first, 0)
    again, after = text.fresh("collect"), text.fresh("collected")
    before, source = text.reserve(), text.label
    text.line(f"br {is_missing}, label %{again}, label %{after}")
    with text.scope(before):
        text.start(again)
        heads = text.reserve()
        block = text.phi("i32", f"%{text.fresh('block')}")
        phis = [text.phi(v.type, f"%{text.fresh('sum')}") for v in values]
        sums = _added(kernel, block, phis)
        following = text.emit("i32", f"sub {block}, 1")
        more = text.emit("i1", f"icmp sgt {dealt.begin(block)}, {start.text}")
        latch = text.label
        text.line(f"br {more}, label %{again}, label %{after}, !llvm.loop {loop_metadata(kernel)}")
        heads.append(f"  {block.text} = phi i32 [ {nearest.text}, %{source} ], [ {following.text}, %{latch} ]")
        for phi, init, last in zip(phis, values, sums, strict=True):
            heads.append(f"  {phi.text} = phi {phi.type} [ {init.text}, %{source} ], [ {last.text}, %{latch} ]")
    text.start(after)
    ends = zip(values, sums, strict=True)
    kernel.set(
        op, [text.emit(v.type, f"phi {v.type} [ {s.text}, %{latch} ], [ {v.text}, %{source} ]") for v, s in ends]
    )


def _added(kernel: Kernel, block: Reg, values: list[Reg]) -> list[Reg]:
    """Values and what a block has left, once it has."""
    at, step = _place(kernel, block, len(values))
    flag = _flag(kernel, block)
    kernel.assembly(f"{_SEEN}\nbar.warp.sync 0xffffffff;", flag)
    type_, every = values[0].type, range(len(values))
    add = "fadd" if type_ == "float" else "add"
    out: list[Reg] = []
    for begin in every[:: VECTOR * _BATCH]:
        batch = every[begin : begin + VECTOR * _BATCH]
        loaded = load_vectors(kernel, "ld.global", at, step, batch, type_)
        out += [kernel.binary(add, values[i], x) for i, x in zip(batch, loaded, strict=True)]
    _set(kernel, flag, "relaxed", 0)
    return out
