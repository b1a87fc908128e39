"""The order in which graph passes run before partitioning, and which a `numerics` runs."""

from __future__ import annotations

from graphfuse.fusion.conv.decompose_conv import decompose_conv
from graphfuse.fusion.conv.flatten_taps import flatten_taps
from graphfuse.fusion.conv.fold_batch_norm import fold_batch_norm
from graphfuse.fusion.conv.pack_pixels import pack_pixels
from graphfuse.fusion.conv.winograd import winograd
from graphfuse.fusion.precision.attention_in_f32 import attention_in_f32
from graphfuse.fusion.products.merge_contractions import merge_contractions
from graphfuse.fusion.products.outer_products import outer_products
from graphfuse.fusion.quantised.dequantise_later import dequantise_later, fold_all_but_weights
from graphfuse.fusion.quantised.multiply_bytes import fold_all_but_bytes, multiply_bytes
from graphfuse.fusion.quantised.multiply_quantised import multiply_quantised
from graphfuse.fusion.quantised.pack_codes import pack_codes
from graphfuse.fusion.simplify.canonicalize import canonicalize
from graphfuse.fusion.simplify.fold_constants import fold_constants
from graphfuse.fusion.simplify.layout import layout
from graphfuse.fusion.simplify.multiply_by_reciprocal import multiply_by_reciprocal
from graphfuse.fusion.simplify.raise_permutes import raise_permutes
from graphfuse.fusion.simplify.recognise_flattening import recognise_flattening
from graphfuse.fusion.simplify.recognise_functions import recognise_functions
from graphfuse.fusion.simplify.simplify_movement import simplify_movement
from graphfuse.ir.passes import Pass
from graphfuse.ir.rewrite import common_subexpressions, dead_code
from graphfuse.knobs import Numerics

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
    outer_products,  # after both, too: what moves operands or results is in the specs
    winograd,  # after padding is explicit; what it adds is movement, sums and one contraction
    merge_contractions,  # last: 1x1 convolutions and relabelled specs have become alike
    common_subexpressions,  # again: equal slices, pads and permutes that the passes made
)
"""What runs between import and partitioning by default."""

CHANGES_ROUNDING: frozenset[Pass] = frozenset(
    {recognise_functions, fold_batch_norm, outer_products, winograd, multiply_quantised, pack_codes}
)
"""Passes that `strict` does without. The others keep every rounding, or the order of one sum at most."""

BYTES: tuple[Pass, ...] = (
    dead_code,
    fold_all_but_bytes,  # scales and zero points look known, and weights are still bytes
    multiply_quantised,
    pack_codes,  # what the pass before declined: floats times weights that are stored as integers
    multiply_bytes,  # what was integers in the model, and what the pass before declined
)
"""What runs first for a CPU."""


def as_stored(*, warpgroups: bool, lowered: bool) -> tuple[Pass, ...]:
    """What runs first for a GPU, but under `strict`: which quantised weights are not made floats when compiling."""
    return (
        fold_all_but_weights,  # what is known of scales looks known, and the bytes are still bytes
        pack_codes.given(lines=True, warpgroups=warpgroups, lowered=lowered),
        dequantise_later,  # what the pass before declined
    )


ATTENTION: tuple[Pass, ...] = (
    attention_in_f32,
    fold_constants,  # masks of halves that are known
)
"""What runs once operands have been moved: for a GPU unless `strict`, for a CPU where `fast`."""

BY_PARTS: tuple[Pass, ...] = (
    fold_constants,  # the parts of weights
    common_subexpressions,  # what several products read is split once
)
"""What runs behind `split-f32`."""


PIXELS: tuple[Pass, ...] = (
    pack_pixels,
    fold_constants,  # weights grown by zeros
    flatten_taps,
)
"""What runs where images are read by TMA, but under `strict`."""


def for_numerics(numerics: Numerics) -> tuple[Pass, ...]:
    """What runs under `numerics` (docs/numerics.md) on every target."""
    match numerics:
        case "strict":
            return tuple(p for p in GRAPH_PIPELINE if p not in CHANGES_ROUNDING)
        case "eager":
            return GRAPH_PIPELINE
        case "fast":
            last = GRAPH_PIPELINE.index(merge_contractions)
            return (*GRAPH_PIPELINE[:last], multiply_by_reciprocal, *GRAPH_PIPELINE[last:])
