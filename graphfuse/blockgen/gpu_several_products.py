"""Whether products that share an operand are better made in one loop, as `silu(x @ w) * (x @ v)` is.

Fusion asks what is saved, or for a reason to leave them apart; `gpu_contraction` emits them: one tile of the shared
operand is multiplied by a tile of each other's, into an accumulator each. What is saved is the way of the results
through memory. What is lost is freedom in tiles: the accumulators share the registers, and a sum cannot be split over a
cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from graphfuse.blockgen.gpu_wgmma_tile import Product, microseconds, wgmma_tile
from graphfuse.blockgen.kernel import element_of
from graphfuse.blockgen.movement import shape_of
from graphfuse.dialects import graph
from graphfuse.dialects.gpu import ACCUMULATED
from graphfuse.ir.core import Op, Value
from graphfuse.symbolic import Ranges, typical
from graphfuse.targets.machine import Machine

MOST_PRODUCTS = 3
"""More would leave an accumulator too few columns."""
_SURE = 0.985
"""Of the time apart: what is nearer together is no gain that the model can tell."""
_VIEWS = (graph.reshape, graph.permute, graph.slice_, graph.flip)


def saved_together(machine: Machine, ranges: Ranges) -> Callable[..., float | str]:
    """What contractions of one operand save as one kernel of a machine, in nanoseconds, or why they are none.

    It is given the contractions, and whether their results meet: `fusion.regions.rules.SavedTogether`.
    """
    return partial(_saved_together, machine, ranges)


def _saved_together(machine: Machine, ranges: Ranges, products: Sequence[Op], *, meet: bool) -> float | str:
    if len(products) > MOST_PRODUCTS:
        return f"{len(products)} products have no room for their accumulators"
    first, costs = products[0], machine.gpu.memory
    elem = element_of(first.operands[0])
    m, n, k, batch = _sizes(first, ranges)
    if min(m, n) < 2 <= k and _walk_alike(products):
        if not meet:  # they are launched together, whatever their sizes
            return "products with a vector that nothing brings together are kernels of their own"
        written = (len(products) - 1) * batch * m * n * element_of(first.result).bytes
        return 1e3 * (costs.launch_us + 2 * written / costs.bytes_per_us)
    if not machine.has_wgmma:
        return "the target has no schedule for several products"
    if any(element_of(v) != elem for p in products for v in p.operands) or elem.name not in ACCUMULATED:
        return "several products are of halves or bytes"
    if min(m, n, k) < 2:
        return "a product with a vector is a reduction"
    if any(_is_spread(v) for p in products for v in p.operands):
        return "a product with what is spread is a reduction"

    def best(columns: int, results: int = 1) -> float:
        made = Product(m, columns, k * elem.bytes, batch, results=results)
        return microseconds(wgmma_tile(machine, made), machine, made)

    count, size = len(products), batch * m * n * max(2, elem.bytes)
    apart, together = count * best(n), best(n, count)
    if meet:  # through memory: from product to product, or from one wide product to what combines its columns
        combined = best(n * count) + costs.launch_us + (count + 1) * size / costs.bytes_per_us
        apart = min(combined, apart + 2 * (count - 1) * size / costs.bytes_per_us)
    if together > _SURE * apart:
        return f"{together:.1f} us together, {apart:.1f} us apart"
    return 1e3 * (apart - together)


def _walk_alike(products: Sequence[Op]) -> bool:
    """Whether all read their operands' elements of one size, so that vectors of one are vectors of the others."""
    return len({(str(op.kind), str(op.attrs["spec"]), *(element_of(v) for v in op.operands)) for op in products}) == 1


def _is_spread(value: Value) -> bool:
    """Whether a tensor is a view of a broadcast one, so that a dim of it may be in no address."""
    op = value.op
    while op is not None and op.kind in _VIEWS:
        op = op.operands[0].op
    return op is not None and op.kind is graph.broadcast


def _sizes(op: Op, ranges: Ranges) -> tuple[int, int, int, int]:
    """Rows of the shared operand, columns, depth and batch; unknown extents as tiles take them."""
    a, b = op.operands
    lhs, rhs, out = graph.parse_spec(str(op.attrs["spec"]))
    sizes = [1, 1, 1, 1]
    for c, d in dict(zip(lhs + rhs, (*shape_of(a), *shape_of(b)), strict=True)).items():
        role = 2 if c not in out else 3 if c in lhs and c in rhs else 0 if c in lhs else 1
        sizes[role] *= typical(d, ranges)
    return sizes[0], sizes[1], sizes[2], sizes[3]
