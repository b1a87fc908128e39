"""Gradients of weights are summed along one dim: the positions of an image with its borders, as one number.

    %s = graph.slice(%p) {sizes = [8, 120, 64, 64], starts = [0, 0, 1, 2], ...}     // p: 8 x 120 x 66 x 66, for one tap
    %g = graph.contract(%y, %s) {spec = "nohw,nchw->oc"} : tensor<120x120xf16>

becomes

    %a = graph.reshape(pad(permute(%y))) {shape = [39204, 128]}                     // of 9 x 66 x 66 x 128
    %b = graph.reshape(pad(permute(%p))) {shape = [39204, 128]}
    %s = graph.slice(%a) {sizes = [34816, 120], starts = [0, 0], ...}
    %t = graph.slice(%b) {sizes = [34816, 120], starts = [68, 0], ...}
    %g = graph.contract(%s, %t) {spec = "no,nc->oc"} : tensor<120x120xf16>

A tap is where rows begin: all taps read the same copies, whose channels lie side by side in whole sectors, and whose
rows can be shared out among programs. Where a window moves by several positions, taps that are as many apart read the
same copy of every so many of them.

Requires: decompose_conv (borders are explicit), a target with TMA. Ensures: the same sums with products by zeros: what
is infinite at one end of a line makes the gradient of a tap at the other NaN. Declines short sums, and sizes that are
not known. Cost: one sweep; both operands are copied.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphfuse.dialects import graph
from graphfuse.fusion.products.align_rows import UNIT
from graphfuse.fusion.simplify.patterns import made_by
from graphfuse.fusion.simplify.simplify_movement import permuted, reshaped
from graphfuse.ir.core import Func, Op, Value, attr_dims, attr_ints, attr_number, remade, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import RuleWith, common_subexpressions, dead_code, given, readers, rule_with, sweep
from graphfuse.ir.types import BF16, F16
from graphfuse.symbolic import static

PARTS = 1024
"""Rows are filled up to a multiple of this, so that they divide into parts."""
LEAST = 2048
"""Rows that are worth copies."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Positions along the dims that are summed, outermost first, as one number: `sizes` of them within a `grid`."""

    labels: str
    sizes: Sequence[int]
    grid: Sequence[int]

    def number(self, at: Sequence[int]) -> int:
        """Of a position."""
        return sum(i * math.prod(self.grid[axis + 1 :]) for axis, i in enumerate(at))

    @property
    def count(self) -> int:
        """Of rows that are summed: up to the last that is one of `sizes`."""
        return -(-(self.number([d - 1 for d in self.sizes]) + 1) // PARTS) * PARTS

    def taken(self, x: Value, labels: str, first: int) -> tuple[Value, str]:
        """The rows of a copy of `x` from one on, and their labels."""
        rank, kept = len(self.grid), "".join(c for c in labels if c not in self.labels)
        moved = permuted(x, tuple(map(labels.index, self.labels + kept)))
        shape = [static(d) for d in tensor_of(moved).shape]
        last = self.number([g - d for g, d in zip(self.grid, self.sizes, strict=True)])  # where the last tap begins
        outer = max(self.grid[0], -(-(self.count + last) // math.prod(self.grid[1:])))
        whole = [outer, *self.grid[1:], *shape[rank:-1], -(-shape[-1] // UNIT) * UNIT]
        high = tuple(b - a for a, b in zip(shape, whole, strict=True))
        copy = graph.pad(moved, low=(0,) * len(high), high=high, value=0.0).result
        flat = reshaped(copy, (math.prod(whole[:rank]), *whole[rank:]))
        starts, sizes = (first, *(0 for _ in kept)), (self.count, *shape[rank:])
        return graph.slice_(flat, starts=starts, sizes=sizes, steps=(1,) * len(sizes)).result, self.labels[0] + kept


Pads = Mapping[Value, Op]
"""What puts borders around images of which products take windows."""


def _pads_of(func: Func) -> Pads:
    uses = readers(func)
    found: dict[Value, Op] = {}
    for op in func.walk():
        if (
            op.kind is graph.pad
            and (op.attrs.get("mode", "constant"), attr_number(op, "value")) == ("constant", 0)
            and all(isinstance(d, int) and d >= 0 for d in attr_dims(op, "low"))
            and any(_is_multiplied(u, uses) for u in uses.get(op.result, ()))
        ):
            found[op.operands[0]] = op
    return found


def _is_multiplied(cut: Op, uses: Mapping[Value, Sequence[Op]]) -> bool:
    return cut.kind is graph.slice_ and any(u.kind is graph.contract for u in uses.get(cut.result, ()))


def _with_borders(x: Value, pads: Pads) -> Value:
    """A window that meets no border, as one of what has the borders: the others read that."""
    cut = made_by(x, graph.slice_)
    base = x if cut is None else cut.operands[0]
    if (pad := pads.get(base)) is None:
        return x
    low, sizes = attr_dims(pad, "low"), tensor_of(x).shape
    starts, steps = (
        (attr_dims(cut, "starts"), attr_ints(cut, "steps")) if cut is not None else ((0,) * len(low), (1,) * len(low))
    )
    moved = tuple(a + b for a, b in zip(low, starts, strict=True))
    return graph.slice_(pad.result, starts=moved, sizes=sizes, steps=steps).result


@rule_with(graph.contract)
def taps_of_one_number(op: Op, pads: Pads) -> Op | None:
    """sum over p of y[p] x[s p + tap] = sum over i of y'[i] x'[i + number of tap // s], x' of every s positions."""
    for i, v in enumerate(op.operands):
        moved = _with_borders(v, pads)
        if moved != v and (made := _taken(remade(op, *(moved if j == i else w for j, w in enumerate(op.operands))))):
            return made
    return _taken(op)


def _taken(op: Op) -> Op | None:
    """The product of copies, if one factor is a window."""
    *both, out = graph.parse_spec(str(op.attrs["spec"]))
    cuts = [made_by(v, graph.slice_) for v in op.operands]
    if not all(_is_known(v) for v in op.operands) or cuts.count(None) != 1:
        return None
    side = cuts.index(None) ^ 1
    (labels, others), cut, y = (both[side], both[1 - side]), cuts[side], op.operands[1 - side]
    assert cut is not None
    summed = "".join(c for c in others if c in labels and c not in out)
    along = [labels.index(c) for c in summed]
    is_of_matrices = not set(out) <= set(labels) and not set(out) <= set(others)
    if len(summed) < 2 or not is_of_matrices or not _is_known(cut.operands[0]) or not _is_whole(cut, along):
        return None
    extents, sizes = ([static(tensor_of(v).shape[i]) for i in along] for v in (cut.operands[0], cut.result))
    starts, steps = [static(attr_dims(cut, "starts")[i]) for i in along], [attr_ints(cut, "steps")[i] for i in along]
    if math.prod(sizes) < LEAST:
        return None
    rows = _Rows(summed, sizes, [-(-d // s) for d, s in zip(extents, steps, strict=True)])
    first = rows.number([a // s for a, s in zip(starts, steps, strict=True)])
    taken = {side: rows.taken(_every_so_many(cut), labels, first), 1 - side: rows.taken(y, others, 0)}
    (a, lhs), (b, rhs) = taken[0], taken[1]
    return remade(op, a, b, spec=f"{lhs},{rhs}->{out}")


def _is_known(x: Value) -> bool:
    t = tensor_of(x)
    return t.elem in (F16, BF16) and all(isinstance(d, int) for d in t.shape)


def _is_whole(cut: Op, along: Sequence[int]) -> bool:
    """Whether a slice is one along these dims alone, from places that are known on."""
    have, sizes, starts = tensor_of(cut.operands[0]).shape, attr_dims(cut, "sizes"), attr_dims(cut, "starts")
    return all(isinstance(starts[i], int) if i in along else have[i] == sizes[i] for i in range(len(have)))


def _every_so_many(cut: Op) -> Value:
    """All that slices with the same steps read which begin as many steps before or behind this one."""
    (x,) = cut.operands
    steps = attr_ints(cut, "steps")
    if all(s == 1 for s in steps):
        return x
    starts = [static(a) % s for a, s in zip(attr_dims(cut, "starts"), steps, strict=True)]
    ends = zip(tensor_of(x).shape, starts, steps, strict=True)
    return graph.slice_(x, starts=tuple(starts), sizes=tuple(-(-(d - a) // s) for d, a, s in ends), steps=steps).result


RULES: tuple[RuleWith[Pads], ...] = taps_of_one_number


@passing("graph")
def flatten_taps(func: Func) -> Func:
    """Sum gradients of weights along one dim."""
    made, fired = sweep(func, given(RULES, _pads_of(func)))
    return common_subexpressions(dead_code(made)) if fired else func
