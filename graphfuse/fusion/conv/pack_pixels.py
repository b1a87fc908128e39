"""Convolutions of few channels read runs of pixels: a filter's row is then one run of memory, as TMA wants it.

    %c = graph.conv(%x, %w) {strides = [2, 2], layout = "nhwc", ...}      // x: n x 230 x 230 x 3, w: 7 x 7 x 3 x 64

with 2-byte elements becomes

    %p = graph.pad(%x) {high = [0, 0, 2, 1], ...}                         // n x 230 x 232 x 4: pixels of 8 bytes
    %r = graph.reshape(%p) {shape = [n, 230, 116, 8]}                     // two pixels together, as a step is two
    %s = graph.slice(%r) {sizes = [n, 230, 115, 8], ...}
    %v = graph.reshape(pad(%w)) {shape = [7, 4, 8, 64]}
    %c = graph.conv(%s, %v) {strides = [2, 1], layout = "nhwc", ...}

Neighbouring positions are 16 bytes apart, and what a row of the filter reads of one is 64 bytes on end. The padding in
front of the convolution becomes part of what is written.

Requires: decompose_conv (no padding), a target with TMA. Ensures: the same sums with products by zeros: what is
infinite in a pixel beside a window makes that window's result NaN. Cost: one sweep; an image is copied.
"""

from __future__ import annotations

import math

from graphfuse.dialects import graph
from graphfuse.fusion.simplify.simplify_movement import grown, reshaped, sliced
from graphfuse.ir.core import Func, Op, attr_ints, remade, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Rule, dead_code, rule, sweep
from graphfuse.ir.types import BF16, F16
from graphfuse.symbolic import static

PIXELS = 8
"""Elements that positions must be a multiple of apart: 16 bytes."""
LINE = 16
"""Elements that lines are made a multiple of: whole sectors of memory."""
STEP = 64
"""Elements of a step of k."""
ROW_TAPS = 3
"""Taps of a filter's row at least."""


@rule(graph.conv)
def few_channels_in_runs(op: Op) -> Op | None:
    """A convolution whose steps along a line are of 16 bytes, over pixels grown by zeros."""
    x, w = op.operands
    *size, width, channels = tensor_of(x).shape
    *kernel, taps, per_group, out = tensor_of(w).shape
    *steps, step = attr_ints(op, "strides")
    numbers = (width, channels, taps, out)
    if op.attrs.get("layout") != "nhwc" or tensor_of(x).elem not in (F16, BF16) or op.attrs.get("groups", 1) != 1:
        return None
    if not all(isinstance(n, int) for n in numbers) or channels != per_group or attr_ints(op, "dilation")[-1] != 1:
        return None
    width, channels, taps, out = map(static, numbers)
    if any((*attr_ints(op, "low"), *attr_ints(op, "high"))) or any(u != 1 for u in attr_ints(op, "input_dilation")):
        return None
    if channels >= PIXELS or taps < ROW_TAPS or out % PIXELS:
        return None
    wide = 1 << (channels - 1).bit_length()
    while step * wide % PIXELS:
        wide *= 2
    run = step * wide
    groups = _whole(-(-taps // step) * run) // run
    needed = (width - taps) // step + groups
    unit = math.lcm(step, LINE // math.gcd(LINE, wide))
    line = -(-max(width, needed * step) // unit) * unit
    whole = grown(x, (*(0 for _ in size), line - width, wide - channels))
    runs = reshaped(whole, (*size, line // step, run))
    runs = sliced(runs, len(size), 0, needed)
    high = (*(0 for _ in kernel), groups * step - taps, wide - channels, 0)
    filled = graph.pad(w, low=(0,) * len(high), high=high, value=0.0).result if any(high) else w
    return remade(op, runs, reshaped(filled, (*kernel, groups, run, out)), strides=(*steps, 1))


def _whole(elements: int) -> int:
    """A filter's row filled up to whole steps of k: a power of two, or a multiple of 128 bytes."""
    return -(-elements // STEP) * STEP if elements > STEP else 1 << (elements - 1).bit_length()


RULES: tuple[Rule, ...] = few_channels_in_runs


@passing("graph")
def pack_pixels(func: Func) -> Func:
    """Read few channels in runs."""
    return dead_code(sweep(func, RULES)[0])
