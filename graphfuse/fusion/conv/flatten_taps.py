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
from collections.abc import Sequence
from dataclasses import dataclass

from graphfuse.dialects import graph
from graphfuse.fusion.products.align_rows import UNIT
from graphfuse.fusion.simplify.patterns import made_by
from graphfuse.fusion.simplify.simplify_movement import permuted, reshaped
from graphfuse.ir.core import Func, Op, Value, attr_dims, attr_ints, remade, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Rule, common_subexpressions, dead_code, rule, sweep
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


@rule(graph.contract)
def taps_of_one_number(op: Op) -> Op | None:
    """sum over p of y[p] x[s p + tap] = sum over i of y'[i] x'[i + number of tap // s], x' of every s positions."""
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


RULES: tuple[Rule, ...] = taps_of_one_number


@passing("graph")
def flatten_taps(func: Func) -> Func:
    """Sum gradients of weights along one dim."""
    made, fired = sweep(func, RULES)
    return common_subexpressions(dead_code(made)) if fired else func
