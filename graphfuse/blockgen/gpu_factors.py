"""How the factors of a product lie in memory, and what TMA copies tiles of them in: boxes, or windows of an image.

A box has rows (or columns) and k, one of which is contiguous. Windows are of convolutions: rows are flat positions of
the result, k goes tap by tap.

    rows = n, p, q as one number;  for r, s, chunk of c:  acc = dot(x[rows at r, s; c], w[r, s, c; columns], acc)

The tiles are masked gathers, as on any machine. What makes them windows is that the row number is one variable, that
all else is the same for a whole tile, and that strides are what TMA takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphfuse.blockgen.access import Accesses
from graphfuse.blockgen.contraction import is_view
from graphfuse.blockgen.gpu_tiles import VECTOR_BYTES
from graphfuse.blockgen.index import coefficient
from graphfuse.blockgen.kernel import Kernel, element_of
from graphfuse.dialects import graph
from graphfuse.ir.core import Op, Value, attr_number, dims_of, tensor_of
from graphfuse.symbolic import Dim, bounds, exact_div, substitute, symbols
from graphfuse.targets.machine import Machine

MOST_STRIDE = 8
"""Of an im2col tensor map (elementStrides of cuTensorMapEncodeIm2col)."""
OFFSET_BITS = 16
"""Of the taps along all dims of an image together."""
Names = Sequence[str]


@dataclass(frozen=True, slots=True)
class Factor:
    """An operand of a product, and what it reads; `names` are the variables of merged dims, among `every` one."""

    value: Value
    is_left: bool
    found: Accesses
    is_view: bool
    names: Names
    every: Names

    @property
    def which(self) -> str:
        """For messages."""
        return "the left operand" if self.is_left else "the right operand"

    @property
    def is_memory(self) -> bool:
        """Whether it is one place in memory, and nothing else."""
        return len(self.found.offsets) == 1 and not self.found.opaque and self.is_view

    @property
    def start(self) -> Dim:
        """Where it begins, in elements."""
        return substitute(self.found.offsets[0], dict.fromkeys(self.every, 0))

    def strides(self, name: str) -> tuple[Dim | None, ...]:
        """Elements from one position of a variable to the next, for each place that is read."""
        return tuple(coefficient(offset, name) for offset in self.found.offsets)


def why_no_box(kernel: Kernel, factor: Factor, side: str, k: str, unit: int) -> str:
    """Why TMA cannot copy tiles of rows (or columns), the variable `side`, and k; "" where it can.

    They are memory, contiguous along one of both; all other strides, and the start, are multiples of `unit` bytes.
    """
    which, bytes_ = factor.which, element_of(factor.value).bytes
    if not factor.is_memory:
        return f"{which} is computed where it is read"
    strides = {name: factor.strides(name)[0] for name in factor.names}
    if strides[k] != 1 and (strides[side] != 1 or bytes_ != 2):
        return f"{which} is not contiguous along k" + (", rows or columns" * (bytes_ == 2))
    if sum(s == 1 for s in strides.values()) != 1:
        return f"{which} has rows of one element"
    if 0 in (strides[k], strides[side]):
        return f"{which} repeats its elements"
    apart = [s for s in strides.values() if s != 1 and not _takes_stride(s, unit // bytes_, kernel)]
    if apart:
        return f"lines of {which} lie {apart[0]} elements apart, no multiple of {unit} bytes"
    if exact_div(factor.start, unit // bytes_) is None:
        return f"{which} begins {factor.start} elements into memory, no multiple of {unit} bytes"
    return ""


@dataclass(frozen=True, slots=True)
class Roles:
    """Variables of a product by what they index, outermost first: `depth` is summed, `shared` are of both operands."""

    rows: Names
    columns: Names
    shared: Names
    depth: Names


def step_of(machine: Machine, x: Factor, roles: Roles, channels: Dim) -> int:
    """Channels of a step: many, but few beyond the last of a tap; 0 if there must be none, and none is so short.

    A step that goes on beyond them goes on into the next group, or the next tap: only padding tells taps apart.
    """
    steps = dict(machine.gpu.wgmma.channel_steps)
    bounded = frozenset[str]().union(*(symbols(at) for at, _ in x.found.edges))
    if roles.shared or not bounded.issuperset(roles.depth[:-1]):
        steps = {n: cost for n, cost in steps.items() if exact_div(channels, n) is not None}
    if not isinstance(channels, int):
        return max(steps, default=0)
    return min(steps, key=lambda n: (-(-channels // n) * n * steps[n], -n), default=0)


def why_no_windows(kernel: Kernel, result: Value, x: Factor, w: Factor, roles: Roles) -> str:
    """Why TMA cannot read an image in windows and weights in boxes; "" if it can."""
    elem = element_of(x.value)
    if elem != element_of(w.value) or elem.name not in ("f16", "bf16"):
        return f"windows are of f16 or bf16, not of {elem} and {element_of(w.value)}"
    image = _image(x.value)
    if len(roles.rows) < 2 or not roles.depth or image is None or not w.is_view or not is_view(image, kernel):
        return "the image or the weights are computed where they are read"
    whole = VECTOR_BYTES // elem.bytes
    channel, column = roles.depth[-1], roles.columns[-1]
    for factor, lines, inside, outside in (
        (x, (channel,), roles.rows, roles.columns),
        (w, (column, channel), roles.columns, roles.rows),
    ):
        what = "the image" if factor is x else "the weights"
        if len(factor.found.offsets) != 1 or any(factor.found.uses(name) for name in outside):
            return f"{what} are read at several places"
        strides = {name: factor.strides(name)[0] for name in factor.names}
        along = next((name for name in lines if strides[name] == 1), None)
        if along is None:
            return f"channels of {what} do not lie side by side"
        if any(strides[name] == 0 for name in (*inside, *roles.depth)):
            return f"{what} repeat their elements"
        others = [s for name, s in strides.items() if name != along]
        if not all(_takes_stride(s, whole, kernel) for s in others) or exact_div(factor.start, whole) is None:
            return f"lines of {what} do not begin at multiples of {VECTOR_BYTES} bytes"
    padded, op = x.found.opaque, result.op
    rank = len(roles.rows) - 1 + (roles.rows[0] in padded)
    if roles.depth[-1] in padded or not padded.isdisjoint(roles.shared) or rank > 3:
        return "more dims are padded than windows move along"
    fits = image is x.value or (op is not None and _within(op, rank))
    return "" if fits else "its taps or strides are more than a map of windows takes"


def _takes_stride(stride: Dim | None, whole: int, kernel: Kernel) -> bool:
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
