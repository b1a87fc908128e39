"""The graph passes by name, the order in which they run before partitioning, and which a `numerics` runs."""

from __future__ import annotations

from graphfuse.fusion.align_rows import WhichRows, align_rows, aligning, every_row
from graphfuse.fusion.attention_in_f32 import attention_in_f32
from graphfuse.fusion.canonicalize import canonicalize
from graphfuse.fusion.decompose_conv import decompose_conv
from graphfuse.fusion.dequantise_later import dequantise_later, fold_all_but_weights
from graphfuse.fusion.fold_batch_norm import fold_batch_norm
from graphfuse.fusion.fold_constants import fold_constants
from graphfuse.fusion.layout import layout
from graphfuse.fusion.lower_precision import lower_precision, lowering
from graphfuse.fusion.merge_contractions import merge_contractions
from graphfuse.fusion.multiply_by_reciprocal import multiply_by_reciprocal
from graphfuse.fusion.multiply_bytes import bytes_along_channels, fold_all_but_bytes, multiply_bytes
from graphfuse.fusion.multiply_quantised import multiply_quantised
from graphfuse.fusion.normalise_later import normalise_later, normalising_later
from graphfuse.fusion.own_masks import own_masks
from graphfuse.fusion.pack_pixels import pack_pixels
from graphfuse.fusion.partition import WhyApart, always_apart
from graphfuse.fusion.raise_permutes import raise_permutes
from graphfuse.fusion.recognise_flattening import recognise_flattening
from graphfuse.fusion.recognise_functions import recognise_functions
from graphfuse.fusion.simplify_movement import simplify_movement
from graphfuse.fusion.split_columns import split_columns, splitting_columns
from graphfuse.fusion.split_f32 import split_f32
from graphfuse.fusion.split_long_sums import SumParts, split_long_reductions, split_long_sums, splitting, unknown
from graphfuse.fusion.store_halves import store_halves
from graphfuse.fusion.winograd import winograd
from graphfuse.ir.passes import Pass, pass_name
from graphfuse.ir.rewrite import common_subexpressions, dead_code
from graphfuse.ir.types import scalar
from graphfuse.knobs import Numerics, Precision

GRAPH_PIPELINE: tuple[Pass, ...] = (
    dead_code,
    fold_constants,  # first: what is known then looks known to every rule
    canonicalize,
    common_subexpressions,  # before anything asks how often a value is read
    recognise_functions,
    fold_batch_norm,  # on the model's own ops, while the scale still stands beside the convolution
    recognise_flattening,  # before layout, which cannot see through dims that are split and merged at once
    layout,
    decompose_conv,  # after layout: 1x1 convolutions are contractions once channels are last
    fold_constants,  # again: the layout passes built weights of constants
    canonicalize,  # again: permutes and reshapes that layout left side by side
    common_subexpressions,  # again: layout gave each reader of a product a permute of its own
    simplify_movement,  # after layout, which sinks permutes past contractions to where they may cancel
    raise_permutes,  # after both: what is left at the end of elementwise work cancels nowhere
    winograd,  # after padding is explicit; what it adds is movement, sums and one contraction
    merge_contractions,  # last: 1x1 convolutions and relabelled specs have become alike
    common_subexpressions,  # again: equal slices, pads and permutes that the passes made
)
"""What runs between import and partitioning by default."""

CHANGES_ROUNDING: frozenset[Pass] = frozenset({recognise_functions, fold_batch_norm, winograd, multiply_quantised})
"""Passes that `strict` does without. The others keep every rounding, or the order of one sum at most."""

BYTES: tuple[Pass, ...] = (
    dead_code,
    fold_all_but_bytes,  # scales and zero points look known, and weights are still bytes
    multiply_quantised,
    multiply_bytes,  # what was integers in the model, and what the pass before declined
)
"""What runs first for a CPU that multiplies bytes."""

AS_STORED: tuple[Pass, ...] = (
    fold_all_but_weights,  # what is known of scales looks known, and the bytes are still bytes
    dequantise_later,
)
"""What runs first for a GPU, but under `strict`: which quantised weights are not made floats when compiling."""

ATTENTION: tuple[Pass, ...] = (
    attention_in_f32,
    fold_constants,  # masks of halves that are known
)
"""What runs once operands have been moved: for a GPU unless `strict`, for a CPU where `fast`."""

BY_PARTS: tuple[Pass, ...] = (
    split_f32,
    fold_constants,  # the parts of weights
    common_subexpressions,  # what several products read is split once
)
"""What runs last where `wgmma` makes products, but under `strict`."""


PIXELS: tuple[Pass, ...] = (
    pack_pixels,
    fold_constants,  # weights grown by zeros
)
"""What runs where images are read by TMA, but under `strict`."""


def graph_pipeline(
    numerics: Numerics,
    programs: int | None = None,
    precision: Precision = "f32",
    share: int = 1,
    why_apart: WhyApart = always_apart,
    sum_parts: SumParts = unknown,
    rows: WhichRows = every_row,
    *,
    bytes_in_fours: bool = False,
) -> tuple[Pass, ...]:
    """The passes that run under `numerics` (docs/numerics.md) and `precision` (docs/precision.md).

    `programs` is how many a GPU runs at a time, None on a CPU; `share` of them can share a product: more than one only
    where there is `wgmma`. `why_apart` tells which products of one operand are to be one kernel (`partition`),
    `sum_parts` into how many parts a product is to be split along k (`split_long_sums`), `rows` which rows of its
    operands are to be copied (`align_rows`). `bytes_in_fours` says that the target multiplies bytes four at a time.
    """
    passes = _pipeline(numerics)
    if bytes_in_fours:
        first = (p for p in BYTES if numerics != "strict" or p not in CHANGES_ROUNDING)
        passes = (*first, *passes, bytes_along_channels)
    if programs is not None or precision != "f32":
        # tensor cores leave nothing to save by fewer multiplications, and its transforms lose digits that halves lack
        passes = tuple(p for p in passes if p is not winograd)
    if programs is not None and numerics != "strict":
        passes = (dead_code, *AS_STORED, *passes)
    if numerics == "fast" or (programs is not None and numerics != "strict"):
        passes = (*passes, *ATTENTION)
    if precision != "f32":
        passes = (*passes, lowering(scalar(precision)))
    if programs is None:
        return (*passes, split_long_reductions)
    parts = BY_PARTS if share > 1 and numerics != "strict" and precision == "f32" else ()
    pixels = PIXELS if share > 1 and numerics != "strict" else ()
    norms = () if numerics == "strict" else (normalising_later(centred=numerics == "fast"),)
    sums = splitting(programs, share, sum_parts)
    aligned = (aligning(rows),) if share > 1 else ()  # late: no rule may see that what is added is left out again
    last = (*aligned, own_masks)  # nothing that finds equal values may run after `own_masks`
    return (*passes, *pixels, *norms, splitting_columns(why_apart), sums, *parts, *last)


def _pipeline(numerics: Numerics) -> tuple[Pass, ...]:
    match numerics:
        case "strict":
            return tuple(p for p in GRAPH_PIPELINE if p not in CHANGES_ROUNDING)
        case "eager":
            return GRAPH_PIPELINE
        case "fast":
            last = GRAPH_PIPELINE.index(merge_contractions)
            return (*GRAPH_PIPELINE[:last], multiply_by_reciprocal, *GRAPH_PIPELINE[last:])


PASSES: dict[str, Pass] = {
    pass_name(p): p
    for p in (
        align_rows, attention_in_f32, bytes_along_channels, canonicalize, common_subexpressions, dead_code,
        decompose_conv, dequantise_later, fold_batch_norm, fold_constants, layout, lower_precision, merge_contractions,
        multiply_by_reciprocal, multiply_bytes, multiply_quantised, normalise_later, own_masks, pack_pixels,
        raise_permutes, recognise_flattening, recognise_functions, simplify_movement, split_columns,
        split_long_reductions, split_long_sums, store_halves, winograd,
    )
}  # fmt: skip
"""Every graph pass by the name it has in text."""
