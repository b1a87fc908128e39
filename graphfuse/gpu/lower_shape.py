"""Ops that only say which register holds what: no instruction moves data between threads here."""

from __future__ import annotations

from graphfuse.codegen.kernel import register_type
from graphfuse.dialects import block
from graphfuse.errors import VerifyError
from graphfuse.gpu.convert import holders
from graphfuse.gpu.kernel import Kernel, layout_of, lowers
from graphfuse.gpu.transforms.assign_layouts import flattened
from graphfuse.ir.core import Op, attr_int, attr_scalar, tile_of
from graphfuse.ir.layout import LANE, REGISTER, WARP, LinearLayout
from graphfuse.ir.types import I64
from graphfuse.llvm.module import Reg


@lowers(block.splat)
def lower_splat(kernel: Kernel, op: Op) -> None:
    """The scalar in every register."""
    kernel.set(op, [kernel.scalar(op.operands[0])] * len(kernel.type_parts(op.types[0])))
    kernel.bound_alike(op)


@lowers(block.reshape, block.trans)
def lower_view(kernel: Kernel, op: Op) -> None:
    """The layout changes with the shape, so every register stays what it is."""
    kernel.set(op, kernel.tile(op.operands[0]).vectors)
    kernel.bound_alike(op)


@lowers(block.broadcast)
def lower_broadcast(kernel: Kernel, op: Op) -> None:
    """Registers repeat: the operand's layout is the result's without the dims that are repeated."""
    tile, layout = kernel.tile(op.operands[0]), layout_of(tile_of(op.result))
    sources = broadcast_registers(tile.layout, layout)
    if sources is None:
        raise VerifyError(f"broadcast: the operand's layout {tile.layout} is no projection of {layout}", op.loc)
    kernel.set(op, [tile.vectors[r] for r in sources])
    kernel.bound_alike(op)


def broadcast_registers(source: LinearLayout, target: LinearLayout) -> tuple[int, ...] | None:
    """For each register of `target` the register of `source` of the same thread that holds its element, if any."""
    wanted = flattened(target, source.shape)
    if any(wanted.bases(name) != source.bases(name) for name in (LANE, WARP)):
        return None
    held = holders(source)
    found = [held.get(wanted.flat(register=r)) for r in range(wanted.size(REGISTER))]
    return None if None in found else tuple(r for r in found if r is not None)


@lowers(block.arange)
def lower_arange(kernel: Kernel, op: Op) -> None:
    """Coordinates."""
    type_, start, elem = tile_of(op.result), attr_int(op, "start"), attr_scalar(op, "elem", I64)
    want = register_type(elem)
    out: list[Reg] = []
    for r in range(len(kernel.type_parts(type_))):
        x = kernel.coordinate(layout_of(type_), 0, r)
        if want == "i64":
            x = kernel.widen_index(x)
        elif want != "i32":
            x = kernel.shortened(x, want)
        out.append(kernel.operate("add", x, start) if start else x)
    kernel.set(op, out)
    if elem == I64:
        kernel.bounds[op.result] = (start, start + type_.padded_shape[0] - 1)  # elements beyond the tile count on
