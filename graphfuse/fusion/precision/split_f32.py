"""Splits the f32 operands of large products into three bf16 parts each, which tensor cores multiply.

    %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<512x512xf32>

becomes, with x0 the first 8 bits of x, x1 the first 8 of what is left, x2 the rest,

    %y = graph.contract_parts(%x0, %x1, %x2, %w0, %w1, %w2) {spec = "mk,kn->mn"} : tensor<512x512xf32>

of whose nine products the three that are below 2^-24 of the whole are left out. Parts of constants are constants. Each
part leaves 2^-30 of itself over, so that all parts have the sign of the whole and none is 0 unless it is: then infinity
times the parts of a number is infinity, not NaN. Numbers below 2^-70 may have parts that are 0 all the same, and those
below 2^-110 lose digits.

Requires: merge_contractions, split_long_sums (it takes f32 products only). Declines batches, attention, and what
would not pay for the split. Ensures: sums as near as those of f32. Cost: one sweep.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphfuse.dialects import graph
from graphfuse.fusion.regions.attention import find_attention
from graphfuse.fusion.regions.dataflow import Dataflow
from graphfuse.fusion.simplify.fold_constants import array_of
from graphfuse.ir.core import Func, Op, Value, tensor_of
from graphfuse.ir.rewrite import Replacement, dead_code, rebuild
from graphfuse.ir.types import BF16, F32, I32, Scalar
from graphfuse.symbolic import Ranges, bounds
from graphfuse.targets.profiles.h200 import PartsCosts

PARTS = 3
"""Of 8 bits each: an f32 has 24."""
LEFT_OVER = 2.0**-30
"""Of itself, by which each part is less: below the last bit of the whole, and never 0."""
MASK = -(1 << 16)
"""Of an f32's bits: those that bf16 has."""
LEAST_SIDE = 64
"""Rows, columns and depth of the smallest tile of `wgmma`: below, most of it would be padding."""
ALIGNED = 8
"""Elements of bf16 in what TMA moves."""


def split_products(func: Func, costs: PartsCosts) -> Func:
    """Split operands of products where that is faster."""
    attention = {op for found in find_attention(Dataflow(func.body)) for op in (found.scores, found.output)}

    def visit(old: Op, new: Op) -> Replacement | None:
        return _split(new, func.ranges, costs) if old.kind is graph.contract and old not in attention else None

    return dead_code(rebuild(func, visit_pair=visit))


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Rows, columns and depth of a product, at most."""

    m: int
    n: int
    k: int


def _split(op: Op, ranges: Ranges, costs: PartsCosts) -> Replacement | None:
    if any(tensor_of(v).elem != F32 for v in (*op.operands, op.result)):
        return None
    sizes = _sizes(op, ranges)
    if sizes is None or not _pays(op, sizes, costs):
        return None
    parts = [part for v in op.operands for part in parts_of(v)]
    return graph.contract_parts(*parts, spec=str(op.attrs["spec"]), loc=op.loc)


def _sizes(op: Op, ranges: Ranges) -> _Sizes | None:
    """None where there is a batch, or what TMA cannot copy."""
    a, b = (tensor_of(v) for v in op.operands)
    lhs, rhs, out = graph.parse_spec(str(op.attrs["spec"]))
    dims = dict(zip(lhs + rhs, (*a.shape, *b.shape), strict=True))
    summed = [c for c in dims if c not in out]
    if len(summed) != 1 or any((c in lhs and c in rhs) != (c in summed) for c in dims):
        return None
    if any(not isinstance(t.shape[-1], int) or t.shape[-1] % ALIGNED for t in (a, b, tensor_of(op.result))):
        return None
    m = n = 1
    for c, d in dims.items():
        most = bounds(d, ranges)[1]
        m, n = (m * most if c in lhs and c in out else m), (n * most if c in rhs and c in out else n)
    k = dims[summed[0]]
    if not isinstance(k, int) or min(m, n, k) < LEAST_SIDE:
        return None
    return _Sizes(int(m), int(n), k)


def _pays(op: Op, sizes: _Sizes, costs: PartsCosts) -> bool:
    made = [v for v in op.operands if array_of(v) is None]
    elements = (sizes.m * sizes.k, sizes.n * sizes.k)
    us = sum(costs.launch_us + n / costs.split_per_us for v, n in zip(op.operands, elements, strict=True) if v in made)
    return 2 * sizes.m * sizes.n * sizes.k * (1 / costs.f32_per_us - 1 / costs.parts_per_us) > us


def parts_of(x: Value) -> list[Value]:
    """bf16 tensors whose sum an f32 tensor is, largest first; infinities and NaN are all in every part."""
    shape = tensor_of(x).shape

    def full(value: float, elem: Scalar = F32) -> Value:
        return graph.full(shape=shape, elem=elem, value=value).result

    finite = graph.lt(graph.abs_(x).result, full(float("inf"))).result
    left, out = x, list[Value]()
    for _ in range(PARTS - 1):
        bits = graph.and_(graph.bitcast(left, to=I32).result, full(MASK, I32)).result
        high = graph.bitcast(bits, to=F32).result
        out.append(graph.cast(high, to=BF16).result)
        rest = graph.add(graph.sub(left, high).result, graph.mul(high, full(LEFT_OVER)).result).result
        left = graph.select(finite, rest, x).result
    return [*out, graph.cast(left, to=BF16).result]
