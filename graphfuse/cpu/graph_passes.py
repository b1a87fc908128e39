"""Which graph passes run for a processor, and the one that asks what it is."""

from __future__ import annotations

from graphfuse.blockgen.pack_weights import pack_for_machine
from graphfuse.blockgen.packed_product import packed_width
from graphfuse.fusion.conv.pad_once import pad_once
from graphfuse.fusion.conv.winograd import winograd
from graphfuse.fusion.passes import ATTENTION, BYTES, CHANGES_ROUNDING, for_numerics
from graphfuse.fusion.precision.lower_precision import lower_precision
from graphfuse.fusion.products.join_heads import join_heads
from graphfuse.fusion.products.multiply_vector import multiply_vector
from graphfuse.fusion.products.repeat_cheap import repeat_cheap
from graphfuse.fusion.products.search_rows import search_rows
from graphfuse.fusion.products.split_long_sums import split_long_reductions
from graphfuse.fusion.quantised.multiply_bytes import bytes_along_channels
from graphfuse.fusion.quantised.pack_codes import pack_codes
from graphfuse.ir.core import Func
from graphfuse.ir.passes import Pass, passing
from graphfuse.ir.types import scalar
from graphfuse.knobs import Options
from graphfuse.llvm.host import host_target, parse_target
from graphfuse.targets import Target
from graphfuse.targets.cpu import machine_of


@passing("graph", after=("fold-constants", "layout"))
def pack_weights(func: Func, *, target: str = "") -> Func:
    """Lay constant factors out in the panels that the target's kernels read."""
    host = host_target()
    return pack_for_machine(func, machine_of(host if target in ("", str(host)) else parse_target(target)))


def graph_passes(target: Target, options: Options) -> tuple[Pass, ...]:
    """What runs between import and partitioning (docs/numerics.md, docs/precision.md)."""
    numerics, precision = options.numerics, options.precision
    passes = for_numerics(numerics)
    packed = pack_codes.given(width=packed_width(machine_of(target)))
    first = (packed if p is pack_codes else p for p in BYTES if numerics != "strict" or p not in CHANGES_ROUNDING)
    passes = (*first, *passes)
    if target.arch == "x86_64":  # which multiplies bytes four at a time
        passes = (*passes, bytes_along_channels)
    if precision != "f32":  # the transforms lose digits that halves lack
        passes = tuple(p for p in passes if p is not winograd)
    if numerics == "fast":
        passes = (*passes, *ATTENTION)
    if precision != "f32":
        passes = (*passes, lower_precision.given(to=scalar(precision)))
    return (
        *passes,
        pad_once,  # when each reader's padding is its last
        join_heads,
        multiply_vector,
        split_long_reductions,
        search_rows,  # the parts as well
        pack_weights.given(target=str(target)),
        repeat_cheap,
    )
