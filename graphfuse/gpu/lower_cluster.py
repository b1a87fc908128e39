"""Blocks of a cluster: their numbers, tiles that go from one's registers to another's shared memory, their barriers."""

from __future__ import annotations

from graphfuse.dialects import gpu
from graphfuse.gpu.kernel import WARP_SIZE, Kernel, lowers, when
from graphfuse.gpu.lower_hopper import WARPGROUP, buffer_of, slot_address
from graphfuse.gpu.words import load_vectors, store_vectors
from graphfuse.ir.core import Op, attr_int
from graphfuse.llvm.module import Reg


@lowers(gpu.cluster_rank)
def lower_cluster_rank(kernel: Kernel, op: Op) -> None:
    """A special register."""
    kernel.set(op, [kernel.widen_index(kernel.special("cluster.ctarank"))])


def in_block(kernel: Kernel, address: Reg, block: int) -> Reg:
    """The shared address of the same place in another block of the cluster."""
    (there,) = kernel.assembly(f"mapa.shared::cluster.u32 $0, $1, {block};", address, gives=["i32"], effects=False)
    return there


def _arrive(kernel: Kernel, op: Op, barriers: int, slot: int) -> None:
    """By the first lane of each warp, for what all its lanes have done."""
    at = slot_address(kernel, op.operands[barriers], kernel.scalar(op.operands[slot]), 8)
    there = in_block(kernel, at, attr_int(op, "block"))
    arrive = when("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [$0];", 1)
    kernel.assembly(f"bar.warp.sync 0xffffffff;\n{arrive}", there, kernel.flag(kernel.is_first_lane))


@lowers(gpu.arrive_at)
def lower_arrive_at(kernel: Kernel, op: Op) -> None:
    """Of the same kind as the arrival after a tile."""
    _arrive(kernel, op, 0, 1)


@lowers(gpu.release)
def lower_release(kernel: Kernel, op: Op) -> None:
    """By the first lane of as many warps of each warpgroup as there are blocks, each for one.

    The arrival has the scope of a block, which is what its reads of shared memory need; a wider one would first wait
    for all that the thread ever wrote.
    """
    assert kernel.role, "barriers are for warps with roles"
    blocks = attr_int(op, "blocks")
    at = slot_address(kernel, op.operands[0], kernel.scalar(op.operands[1]), 8)
    within = kernel.operate("and", kernel.thread, WARPGROUP - 1)
    warp = kernel.operate("lshr", within, 5)
    block = kernel.operate("and", warp, blocks - 1)
    (there,) = kernel.assembly("mapa.shared::cluster.u32 $0, $1, $2;", at, block, gives=["i32"], effects=False)
    mine = kernel.both(kernel.is_first_lane, kernel.test("ult", warp, blocks))
    mine = kernel.both(mine, kernel.scalar(op.operands[2])) if len(op.operands) > 2 else mine
    assert mine is not None
    kernel.assembly(when("mbarrier.arrive.shared::cluster.b64 _, [$0];", 1), there, kernel.flag(mine))


def _place(kernel: Kernel, op: Op) -> tuple[Reg, int]:
    """Where this thread's first elements are, and the bytes from one vector of elements to the next."""
    assert kernel.role, "tiles are exchanged by warps with roles"
    buffer = buffer_of(op.operands[0])
    thread = kernel.operate("add", kernel.operate("mul", kernel.warp, WARP_SIZE), kernel.lane)
    start = kernel.operate("add", kernel.pointer(op.operands[0]).reg, kernel.operate("mul", thread, 16))
    part = attr_int(op, "part") * buffer.slot_bytes
    return kernel.operate("add", start, part), 16 * kernel.role.threads


@lowers(gpu.send)
def lower_send(kernel: Kernel, op: Op) -> None:
    """Neighbouring threads write neighbouring vectors; the thread of the same number reads them."""
    tile = kernel.tile(op.operands[1])
    here, step = _place(kernel, op)
    there = in_block(kernel, here, attr_int(op, "block"))
    store_vectors(kernel, "st.shared::cluster", there, step, tile.vectors)
    _arrive(kernel, op, 2, 3)


@lowers(gpu.receive)
def lower_receive(kernel: Kernel, op: Op) -> None:
    """Into the registers that they come from."""
    parts, (here, step) = kernel.type_parts(op.result.type), _place(kernel, op)
    kernel.set(op, load_vectors(kernel, "ld.shared", here, step, range(len(parts)), parts[0][0]))
