"""Where ONNX Runtime and the standard differ about dims, and the standard is with us.

Each entry says for which operator, for which kind of difference, and for which shapes: no other difference is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import NodeProto, helper, numpy_helper

from graphfuse.frontends.onnx.node import MICROSOFT
from tests.frontends.support import Array
from tests.onnx.fitting_samples import ML, Feed, Sample


@dataclass(frozen=True)
class Drawn:
    """A sample with the arrays it is fed."""

    sample: Sample
    feed: Feed

    @property
    def node(self) -> NodeProto:
        return self.sample.model.graph.node[0]

    @property
    def opset(self) -> int:
        return next(o.version for o in self.sample.model.opset_import if o.domain in ("", "ai.onnx"))

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute of the node."""
        return next((helper.get_attribute_value(a) for a in self.node.attribute if a.name == name), default)

    def input(self, i: int) -> Array | None:
        """The node's input `i`, fed or constant."""
        name = self.node.input[i] if i < len(self.node.input) else ""
        known = {t.name: t for t in self.sample.model.graph.initializer}
        return self.feed.get(name, numpy_helper.to_array(known[name]) if name in known else None)

    def shape(self, i: int) -> tuple[int, ...]:
        """The dims of input `i`, which is given."""
        given = self.input(i)
        assert given is not None
        return given.shape


When = Callable[[Drawn], bool]


def short_mask(d: Drawn) -> bool:
    mask, past = d.input(3), d.input(4)
    if mask is None:
        return False
    keys = d.shape(1)[-2] + (0 if past is None else past.shape[-2])
    return mask.shape[-1] < keys and (d.opset >= 24 or mask.shape[-1] == 1)


def short_window(d: Drawn) -> bool:
    last = d.node.op_type == "NhwcMaxPool" or d.attr("channels_last", 0)
    spatial = d.shape(0)[1:-1] if last else d.shape(0)[2:]
    kernel = d.attr("kernel_shape")
    n = len(kernel)
    pads, dilations = d.attr("pads", [0] * 2 * n), d.attr("dilations", [1] * n)
    return any(spatial[i] + pads[i] + pads[i + n] < (kernel[i] - 1) * dilations[i] + 1 for i in range(n))


def long_condition(d: Drawn) -> bool:
    axis, shape = d.attr("axis"), d.shape(0)
    return d.shape(1)[0] > (math.prod(shape) if axis is None else shape[axis])


def other_batch(d: Drawn) -> bool:
    b = d.attr("batch_dims", 0)
    return d.shape(0)[:b] != d.shape(1)[:b]


def not_of_channels(d: Drawn) -> bool:
    return any(d.shape(i) != d.shape(0)[1:2] for i in (1, 2))


def unpooled(d: Drawn) -> tuple[list[int], list[int]]:
    """The dims that the pooled ones come of, and those that are wanted."""
    kernel, want = d.attr("kernel_shape"), d.input(2)
    strides = d.attr("strides", [1] * len(kernel))
    made = [(n - 1) * s + k for n, s, k in zip(d.shape(0)[2:], strides, kernel, strict=True)]
    return [*d.shape(0)[:2], *made], [] if want is None else want.tolist()


def unpooled_elsewhere(d: Drawn) -> bool:
    made, want = unpooled(d)
    return bool(want) and made != want


def unpooled_outside(d: Drawn) -> bool:
    made, want = unpooled(d)
    index = d.input(1)
    assert index is not None
    return bool(want) and (
        made[:2] != want[:2]
        or any(m > w for m, w in zip(made, want, strict=True))
        or bool((index >= math.prod(made)).any())
    )


def several_thresholds(d: Drawn) -> bool:
    given = [d.input(i) for i in (2, 3, 4)]
    return any(g is not None and g.size > 1 for g in given)


def two_directions(d: Drawn) -> bool:
    x, slope = d.shape(0), d.shape(1)
    return len(slope) > len(x) or any(s not in (1, n) for s, n in zip(slope[::-1], x[::-1], strict=False))


def mean_of_one(d: Drawn) -> bool:
    return math.prod(d.shape(0)[a] for a in d.attr("axes", [0, 2, 3])) == 1


def scale_of_rows(d: Drawn) -> bool:
    return 1 < d.shape(1)[0] == d.shape(0)[-2]


def undeclared(d: Drawn) -> bool:
    """The body of a Scan declares other dims."""
    body, given = d.attr("body"), [d.feed[n].shape for n in d.node.input if n]
    states = len(given) - d.attr("num_scan_inputs")
    batch = int(d.opset < 9)
    run = [s[batch:] if i < states else s[batch + 1 :] for i, s in enumerate(given)]
    declared = [tuple(n.dim_value for n in i.type.tensor_type.shape.dim) for i in body.input]
    return any(a != b for a, b in zip(declared, run, strict=True))


def not_depthwise(d: Drawn) -> bool:
    past, (channels, per_group, size) = d.input(3), d.shape(1)
    return (channels, per_group) != (d.shape(0)[1], 1) or (past is not None and past.shape[2] != size - 1)


def last_piece_is_empty(d: Drawn) -> bool:
    pieces, size = d.attr("num_outputs", 0), d.shape(0)[d.attr("axis", 0)]
    return pieces > 1 and size == -(-size // pieces) * (pieces - 1)


def few_features(d: Drawn) -> bool:
    return d.shape(0)[-1] * len(d.attr("intercepts")) < len(d.attr("coefficients"))


def blends_a_batch(d: Drawn) -> bool:
    blends, sizes = d.attr("mode") in (b"linear", b"cubic"), d.input(3)
    return blends and d.attr("axes") is None and sizes is not None and tuple(sizes[:2]) != d.shape(0)[:2]


def crops_at_one_size(d: Drawn) -> bool:
    """A part of a dim makes as many elements as the whole has."""
    roi, sizes, shape = d.input(1), d.input(3), d.shape(0)
    if d.attr("coordinate_transformation_mode") != b"tf_crop_and_resize" or roi is None or sizes is None:
        return False
    axes = d.attr("axes", range(len(shape)))
    starts, ends = np.split(roi, 2)
    return any(
        size == shape[axis] and (start, end) != (0, 1)
        for axis, size, start, end in zip(axes, sizes, starts, ends, strict=True)
    )


def corners_of_scales(d: Drawn) -> bool:
    scales = d.input(2)
    corners = d.attr("coordinate_transformation_mode") == b"align_corners"
    return corners and scales is not None and bool(np.any(scales * d.shape(0) % 1))


def one_side_of_complex(d: Drawn) -> bool:
    return d.attr("onesided", 1) == 1 and d.shape(0)[-1] == 2


def dummy_mask(d: Drawn) -> bool:
    """A column that it does not read, or lengths and the places where they begin, which are not documented to fit."""
    mask, batch = d.input(5 if d.node.op_type == "QAttention" else 3), d.shape(0)[0]
    if mask is None:
        return False
    return (mask.ndim == 2 and mask.shape[1] == 1) or mask.shape == (3 * batch + 2,)


def not_square(d: Drawn) -> bool:
    return d.shape(0)[-1] != d.shape(0)[-2]


def no_inverse(d: Drawn) -> bool:
    return not not_square(d) and bool((np.linalg.cond(d.feed["x0"].astype(np.float64)) > 1e4).any())


def half_skip(d: Drawn) -> bool:
    return d.feed["x0"].dtype == np.float16 and d.shape(1) != d.shape(0)


def other_skips(d: Drawn) -> bool:
    """Skips of other sequences, not of one or of as many."""
    x, skip = d.shape(0), d.shape(1)
    return len(x) == len(skip) == 3 and skip[1:] == x[1:] and skip[0] not in (1, x[0])


def odd_heads(d: Drawn) -> bool:
    return d.shape(0)[-1] % 2 == 1


def keys_beyond(d: Drawn) -> bool:
    """More keys than queries, no past, and each query looks back only."""
    keys = d.input(1)
    if not d.attr("unidirectional", 0) or keys is None or keys.ndim > 4 or d.input(6) is not None:
        return False
    return keys.shape[-2] > d.shape(0)[1]


def several_continued(d: Drawn) -> bool:
    batch, steps = d.shape(0)[:2]
    return d.input(3) is not None and batch > 1 and steps > 1


def past_of_nothing(d: Drawn) -> bool:
    total = d.input(6)
    return d.input(3) is None and total is not None and d.shape(0)[1] != int(total.reshape(()))


def slides(d: Drawn) -> bool:
    return bool(d.attr("sliding_window_cache", 0))


def bias_of_all_heads(d: Drawn) -> bool:
    bias = d.input(4)
    return bias is not None and bias.shape[0] != 1 and bias.shape[1] == 1 and d.input(9) is not None


def one_of_a_kind(d: Drawn) -> bool:
    return d.shape(0)[d.attr("axis", -1)] == 1


WINDOWS = ("AveragePool", "MaxPool", "LpPool", f"{MICROSOFT}.NhwcMaxPool", f"{MICROSOFT}.QLinearAveragePool")
SKIPS = (f"{MICROSOFT}.SkipLayerNormalization", f"{MICROSOFT}.SkipSimplifiedLayerNormalization")
ATTENTIONS = (f"{MICROSOFT}.Attention", f"{MICROSOFT}.QAttention")
ROTATED = (f"{MICROSOFT}.RotaryEmbedding", f"{MICROSOFT}.MRotaryEmbedding")

EXPLAINED: list[tuple[tuple[str, ...], str, When, str]] = [
    (("Attention",), "numbers", short_mask, "from opset 24 on a mask may end early, before that at its one key"),
    (WINDOWS, "refused", short_window, "it gives no elements, or one, for a dim shorter than the window"),
    (("Compress",), "refused", long_condition, "it leaves out what a condition longer than its axis names"),
    (("GatherND",), "refused", other_batch, "batch dims have to be equal"),
    (("GroupNormalization",), "refused", not_of_channels, "scale and bias are of channels"),
    (("MaxUnpool",), "values", unpooled_elsewhere, "it places by the output shape, the standard before it is padded"),
    (("MaxUnpool",), "refused", unpooled_outside, "the output shape has no place for them"),
    (("NonMaxSuppression",), "refused", several_thresholds, "it reads the first of several thresholds"),
    (("PRelu",), "refused", two_directions, "slopes broadcast in one direction"),
    (("MeanVarianceNormalization",), "values", mean_of_one, "it gives NaN for one number"),
    (("QLinearMatMul",), "numbers", scale_of_rows, "it knows no scales of rows"),
    (("Scan",), "numbers", undeclared, "its body declares other dims than it is run with"),
    (("Scan",), "refused", undeclared, "its body declares other dims than it is run with"),
    (("CausalConvWithState",), "refused", not_depthwise, "a weight is [channels, 1, k], a state k - 1 long"),
    (("Split",), "numbers", last_piece_is_empty, "the last piece is smaller, which an empty one is"),
    ((f"{ML}.LinearRegressor", f"{ML}.LinearClassifier"), "refused", few_features, "it takes other coefficients"),
    (("Resize",), "numbers", blends_a_batch, "it interpolates between no batches and channels"),
    (("Resize",), "values", corners_of_scales, "its corners are those of the size that it rounded"),
    (("Resize",), "values", crops_at_one_size, "it crops no dim that keeps its size"),
    (("STFT",), "refused", one_side_of_complex, "complex numbers have two sides"),
    (ATTENTIONS, "refused", dummy_mask, "it reads what is documented as no mask"),
    ((f"{MICROSOFT}.Inverse",), "refused", not_square, "it gives numbers for matrices that are not square"),
    ((f"{MICROSOFT}.Inverse",), "values", no_inverse, "of a matrix that has no inverse"),
    (SKIPS, "refused", half_skip, "of halves it does not look at the skip's dims"),
    (SKIPS, "refused", other_skips, "it begins again with the skip of the first sequence, or leaves some out"),
    (SKIPS, "shape", half_skip, "of halves it does not look at the skip's dims"),
    (ROTATED, "refused", odd_heads, "pairs make up a head"),
    ((f"{MICROSOFT}.MultiHeadAttention",), "values", keys_beyond, "its last query looks ahead, at all keys"),
    ((f"{MICROSOFT}.GroupQueryAttention",), "numbers", several_continued, "it continues only one sequence by steps"),
    ((f"{MICROSOFT}.GroupQueryAttention",), "refused", past_of_nothing, "up to 1.30 it reads a past that is not given"),
    ((f"{MICROSOFT}.GroupQueryAttention",), "values", slides, "rows behind those that a cache has are anything"),
    ((f"{MICROSOFT}.DecoderMaskedMultiHeadAttention",), "values", bias_of_all_heads, "it skips all heads' rows of it"),
    ((f"{MICROSOFT}.QLinearSoftmax",), "values", one_of_a_kind, "up to 1.30 a probability of 1 overflows"),
]
"""Operators, the kind of difference, when there may be one, and why."""


def explained(sample: Sample, feed: Feed, kind: str) -> str:
    """Why a difference is ONNX Runtime's, or nothing."""
    drawn = Drawn(sample, feed)
    return next((why for ops, k, when, why in EXPLAINED if sample.op in ops and k == kind and when(drawn)), "")
