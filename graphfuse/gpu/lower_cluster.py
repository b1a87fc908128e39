"""Blocks of a cluster: their numbers, tiles that go from one's registers to another's shared memory, their barriers."""

from __future__ import annotations

from graphfuse.dialects import gpu
from graphfuse.gpu.kernel import WARP_SIZE, Kernel, lowers
from graphfuse.gpu.lower_hopper import WARPGROUP, buffer_of, flag_of, slot_address, when
from graphfuse.ir.core import Op, attr_int
from graphfuse.llvm.module import Reg

_VECTOR = 4
"""32-bit elements of one access."""


@lowers(gpu.cluster_rank)
def lower_cluster_rank(kernel: Kernel, op: Op) -> None:
    """A special register."""
    kernel.set(op, [kernel.widen_index(kernel.special("cluster.ctarank"))])


def in_block(kernel: Kernel, address: Reg, block: int) -> Reg:
    """The shared address of the same place in another block of the cluster."""
    return kernel.assembly("i32", f"mapa.shared::cluster.u32 $0, $1, {block};", "=r,r", address, effects=False)


def _arrive(kernel: Kernel, op: Op, barriers: int, slot: int) -> None:
    """By the first lane of each warp, for what all its lanes have done."""
    at = slot_address(kernel, op.operands[barriers], kernel.scalar(op.operands[slot]), 8)
    there = in_block(kernel, at, attr_int(op, "block"))
    first = flag_of(kernel, kernel.test("eq", kernel.lane, 0))
    arrive = when("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [$0];", 1)
    kernel.assembly("void", f"bar.warp.sync 0xffffffff;\n{arrive}", "r,r", there, first)


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
    there = kernel.assembly("i32", "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r", at, block, effects=False)
    mine = kernel.test("eq", kernel.lane, 0)
    mine = kernel.both(mine, kernel.test("ult", warp, blocks))
    mine = kernel.both(mine, kernel.scalar(op.operands[2])) if len(op.operands) > 2 else mine
    assert mine is not None
    arrive = when("mbarrier.arrive.shared::cluster.b64 _, [$0];", 1)
    kernel.assembly("void", arrive, "r,r", there, flag_of(kernel, mine))


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
    constraint = "f" if tile.vectors[0].type == "float" else "r"
    for i in range(0, len(tile.vectors), _VECTOR):
        store = f"st.shared::cluster.v4.b32 [$0+{i // _VECTOR * step}], {{$1, $2, $3, $4}};"
        constraints = ",".join(["r", *[constraint] * _VECTOR])
        kernel.assembly("void", store, constraints, there, *tile.vectors[i : i + _VECTOR])
    _arrive(kernel, op, 2, 3)


@lowers(gpu.receive)
def lower_receive(kernel: Kernel, op: Op) -> None:
    """Into the registers that they come from."""
    ((type_, _), *_), count = kernel.type_parts(op.types[0]), len(kernel.type_parts(op.types[0]))
    here, step = _place(kernel, op)
    constraint = "=f" if type_ == "float" else "=r"
    out: list[Reg] = []
    for i in range(0, count, _VECTOR):
        load = f"ld.shared.v4.b32 {{$0, $1, $2, $3}}, [$4+{i // _VECTOR * step}];"
        struct = "{ " + ", ".join([type_] * _VECTOR) + " }"
        got = kernel.assembly(struct, load, ",".join([constraint] * _VECTOR + ["r"]), here)
        out += kernel.parts(got, [type_] * _VECTOR)
    kernel.set(op, out)
