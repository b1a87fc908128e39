"""What the ops after a product cost for each element of it."""

from __future__ import annotations

from collections.abc import Collection

from graphfuse.blockgen.kernel import Kernel
from graphfuse.blockgen.movement import shape_of
from graphfuse.dialects import graph
from graphfuse.ir.core import Op, Trait, Value
from graphfuse.symbolic import product

_PLAIN = frozenset({
    "add", "sub", "mul", "neg", "abs", "max", "min", "cast", "fma", "select", "eq", "ne", "lt", "le", "gt", "ge", "and",
    "or", "not",
})  # fmt: skip
"""A few instructions at most; the others take the special function unit."""


def epilogue_ns(kernel: Kernel, factors: Collection[Value]) -> float:
    """Of ops whose results are as large as the product of `factors`, besides those that make the factors."""
    before, after = set(factors), list[Op]()
    for op in reversed(kernel.body.ops[:-1]):
        if before.isdisjoint(op.results):
            after.append(op)
        else:
            before.update(op.operands)
    products = [op for op in after if op.kind in (graph.contract, graph.contract_parts, graph.conv)]
    size = product(shape_of(products[0].result))
    costs, out = kernel.machine.gpu.epilogue, 0.0
    for op in after:
        if op.has(Trait.ELEMENTWISE) and product(shape_of(op.result)) == size:
            out += costs.plain_ns if op.kind.name.removeprefix("graph.") in _PLAIN else costs.function_ns
    used = {v for op in after if op not in products for v in op.operands}
    read = [v for v in kernel.body.params.values if v in used and product(shape_of(v)) == size]
    return out + costs.matrix_ns * len(read)
