"""Loads and stores in the layout that memory likes, where the one that was chosen for a tile touches far more sectors.

A tile has one layout for all that is done with it. What is read along one dim and written along another (a
transposition, a sum of a matrix and a transposed one) suits one of the accesses; the other gets a layout of its own,
and `gpu.convert_layout` carries the elements between through shared memory. Kernels with products are left alone:
their layouts belong to the matrix unit.
"""

from __future__ import annotations

from graphfuse.dialects import block, gpu
from graphfuse.gpu.alignment import pointer_alignments
from graphfuse.gpu.analysis.axis_info import Facts, access_info, axis_info
from graphfuse.gpu.analysis.memory_access import SECTOR_BYTES, sectors, vector_width
from graphfuse.gpu.kernel import layout_of
from graphfuse.gpu.properties import laid_out
from graphfuse.gpu.transforms.assign_layouts import coalesced
from graphfuse.ir.core import Func, Op, Value, attr_dims, attr_int, tile_of
from graphfuse.ir.layout import LANE, REGISTER, WARP, LinearLayout
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, rebuild
from graphfuse.ir.types import Tile

WASTE = 2.0
"""Sectors of the tile's own layout over those of the best one, from which a conversion pays."""
FAR = 1 << 20
"""Stands for a stride that is not known: its elements share no sector."""


@passing("gpu", requires=(laid_out,))
def coalesce(func: Func) -> Func:
    """Conversions beside the accesses of `func`, whose tiles have layouts, that waste sectors."""
    kinds = {op.kind for op in func.walk()} - {gpu.convert_layout}
    if any(kind in (block.dot, block.dot_codes) or kind.name.startswith("gpu.") for kind in kinds):
        return func
    facts = axis_info(func, pointer_alignments(func))
    warps = attr_int(func, "warps", 4)

    def visit(old: Op, new: Op) -> Replacement | None:
        if old.kind not in (block.load_view, block.store_view):
            return None
        loads = old.kind is block.load_view
        best = _better(func, old, old.result if loads else old.operands[2], warps, facts)
        if best is None:
            return None
        if loads:
            load = new.kind.build(new.operands, {**new.attrs, "layout": best}, loc=new.loc)
            return gpu.convert_layout.build([load.result], {"layout": layout_of(tile_of(old.result))}, loc=new.loc)
        pointer, start, tile, *limits = new.operands
        turned = gpu.convert_layout.build([tile], {"layout": best}, loc=new.loc).result
        return new.kind.build([pointer, start, turned, *limits], new.attrs, loc=new.loc)

    return rebuild(func, visit_pair=visit)


def _better(func: Func, op: Op, value: Value, warps: int, facts: Facts) -> LinearLayout | None:
    """The layout for this access, if the tile's own is much worse."""
    type_ = tile_of(value)
    have, best = layout_of(type_), coalesced(func, op, type_, warps, facts)
    if have == best:
        return None
    return best if _sectors(func, op, type_, have, facts) >= WASTE * _sectors(func, op, type_, best, facts) else None


def _sectors(func: Func, op: Op, type_: Tile, layout: LinearLayout, facts: Facts) -> float:
    """Sectors that one warp touches for each sector's worth of elements it moves."""
    info = access_info(func, op, facts)
    rank, size = len(type_.shape), type_.elem.bytes
    widths = [info.vector(d, size) for d in range(rank)]
    vectors = [vector_width(layout, w, w, size, d) if w > 1 else 1 for d, w in enumerate(widths)]
    axis = max(range(rank), key=lambda d: (vectors[d], d))
    strides = [s if isinstance(s, int) else FAR for s in attr_dims(op, "strides")]
    warp = layout.select(WARP, ())
    found = sectors(warp, strides, size, vectors[axis], axis)
    moved = warp.size(REGISTER) * warp.size(LANE) * size / SECTOR_BYTES
    return found / max(moved, 1.0)
