"""Which convolutions TMA reads in im2col mode: rows are flat positions of the result, k goes tap by tap.

    rows = n, p, q as one number;  for r, s, chunk of c:  acc = dot(x[rows at r, s; c], w[r, s, c; columns], acc)

The tiles are masked gathers, as on any machine. What makes them windows is that the row number is one variable, that
all else is the same for a whole tile, and that strides are what TMA takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graphfuse.blockgen.access import Accesses
from graphfuse.blockgen.contraction import is_view
from graphfuse.blockgen.gpu_tiles import VECTOR_BYTES
from graphfuse.blockgen.index import coefficient
from graphfuse.blockgen.kernel import Kernel, element_of
from graphfuse.blockgen.products import Product
from graphfuse.dialects import graph
from graphfuse.ir.core import Op, Value, attr_number, dims_of, tensor_of
from graphfuse.symbolic import Dim, bounds, exact_div, substitute
from graphfuse.targets.machine import Machine

MOST_STRIDE = 8
"""Of an im2col tensor map (elementStrides of cuTensorMapEncodeIm2col)."""
OFFSET_BITS = 16
"""Of the taps along all dims of an image together."""
Names = Sequence[str]


@dataclass(frozen=True, slots=True)
class Roles:
    """Variables of a product by what they index, outermost first: `depth` is summed, `shared` are of both operands."""

    rows: Names
    columns: Names
    shared: Names
    depth: Names


def step_of(machine: Machine, channels: Dim) -> int:
    """Channels of a step: many, but few beyond the last."""
    steps = dict(machine.gpu.wgmma.channel_steps)
    if not isinstance(channels, int):
        return max(steps)
    return min(steps, key=lambda n: (-(-channels // n) * n * steps[n], -n))


def why_no_windows(
    kernel: Kernel, work: Product, reads: Callable[[Value], Accesses], roles: Roles, channels: Dim
) -> str:
    """Why TMA cannot read the lhs, an image, in windows and the rhs, weights, in boxes; "" if it can.

    A tap has so many channels.
    """
    x, w, op = work.lhs, work.rhs, work.result.op
    elem = element_of(x)
    if elem != element_of(w) or elem.name not in ("f16", "bf16"):
        return f"windows are of f16 or bf16, not of {elem} and {element_of(w)}"
    image = _image(x)
    if len(roles.rows) < 2 or not roles.depth or image is None or not is_view(image, kernel) or not is_view(w, kernel):
        return "the image or the weights are computed where they are read"
    step = step_of(kernel.machine, channels)
    if (roles.shared or (image is x and len(roles.depth) > 1)) and exact_div(channels, step) is None:
        # a step would go on into the next group, or the next tap: only padding tells these apart
        return f"{channels} channels of a tap or group are no whole steps"
    whole = VECTOR_BYTES // elem.bytes
    channel, column = roles.depth[-1], roles.columns[-1]
    for value, lines, outside in ((x, (channel,), roles.columns), (w, (column, channel), roles.rows)):
        what, found = "the image" if value is x else "the weights", reads(value)
        if len(found.offsets) != 1 or any(found.uses(name) for name in outside):
            return f"{what} are read at several places"
        (offset,) = found.offsets
        every = (*roles.rows, *roles.columns, *roles.shared, *roles.depth)
        strides = {name: coefficient(offset, name) for name in every}
        along = next((name for name in lines if strides[name] == 1), None)
        if along is None:
            return f"channels of {what} do not lie side by side"
        others = [s for name, s in strides.items() if name != along]
        start = substitute(offset, dict.fromkeys(every, 0))
        if not all(takes_stride(s, whole, kernel) for s in others) or exact_div(start, whole) is None:
            return f"lines of {what} do not begin at multiples of {VECTOR_BYTES} bytes"
    padded = reads(x).opaque
    rank = len(roles.rows) - 1 + (roles.rows[0] in padded)
    if roles.depth[-1] in padded or not padded.isdisjoint(roles.shared) or rank > 3:
        return "more dims are padded than windows move along"
    fits = image is x or (op is not None and _within(op, rank))
    return "" if fits else "its taps or strides are more than a map of windows takes"


def takes_stride(stride: Dim | None, whole: int, kernel: Kernel) -> bool:
    """Whether TMA takes this distance between elements: one that is known, a multiple, and not backward."""
    return stride is not None and exact_div(stride, whole) is not None and bounds(stride, kernel.space.ranges)[0] >= 0


def _image(x: Value) -> Value | None:
    """What is padded with zeros, or the value itself."""
    op = x.op
    if op is None or op.kind is not graph.pad:
        return x
    constant = op.attrs.get("mode", "constant") == "constant" and attr_number(op, "value") == 0
    return op.operands[0] if constant else None


def _within(op: Op, rank: int) -> bool:
    """Whether TMA takes the taps and strides of a convolution along `rank` dims."""
    if op.kind is not graph.conv:
        return False
    sizes, dilation = tensor_of(op.operands[1]).shape[:-2], dims_of(op.attrs["dilation"])
    taps = [(n - 1) * d for n, d in zip(sizes, dilation, strict=True)]
    if any(not isinstance(t, int) or 2 * t >= 1 << OFFSET_BITS // rank for t in taps):
        return False
    return all(isinstance(s, int) and s <= MOST_STRIDE for s in dims_of(op.attrs["strides"]))
