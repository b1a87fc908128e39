"""Division by what many elements share is multiplication by its reciprocal, computed once: `numerics = fast`.

    %s = graph.broadcast(%sum) {shape = [(n), 512]} : tensor<(n)x512xf32>
    %p = graph.div(%e, %s) : tensor<(n)x512xf32>

becomes

    %one = graph.full() {elem = f32, shape = [(n), 1], value = 1.0} : tensor<(n)x1xf32>
    %r = graph.div(%one, %sum) : tensor<(n)x1xf32>
    %s = graph.broadcast(%r) {shape = [(n), 512]} : tensor<(n)x512xf32>
    %p = graph.mul(%e, %s) : tensor<(n)x512xf32>

Requires: canonicalize. Ensures: results within 1.5 ulp of the quotient (2 roundings instead of 1) where the reciprocal
is a normal number; a subnormal divisor may give an infinity. Elements narrower than f32 keep their division: their
reciprocal would be rounded to few digits. Cost: one sweep.
"""

from __future__ import annotations

import numpy as np

from graphfuse.dialects import graph
from graphfuse.fusion.simplify.fold_constants import aligned, full, materialised
from graphfuse.fusion.simplify.patterns import operand_of
from graphfuse.fusion.simplify.simplify_movement import broadcasted
from graphfuse.ir.core import Func, Op, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, Rule, dead_code, rule, sweep
from graphfuse.ir.types import F32, F64


@rule(graph.div)
def divide_by_known(op: Op) -> Replacement | None:
    """x / c = x * (1 / c) where every 1 / c is a normal number."""
    x, c = op.operands
    t, divisor = tensor_of(op.result), aligned(c)
    if t.elem not in (F32, F64) or divisor is None or aligned(x) is not None:
        return None
    with np.errstate(all="ignore"):
        inverse = np.reciprocal(divisor)
    if not np.isfinite(inverse).all() or (np.abs(inverse) < np.finfo(inverse.dtype).tiny).any():
        return None
    return graph.mul(x, materialised(inverse, t), loc=op.loc)


@rule(graph.div)
def divide_by_shared(op: Op) -> Replacement | None:
    """x / broadcast(y) = x * broadcast(1 / y)."""
    x, repeated = op.operands
    if tensor_of(x).elem not in (F32, F64) or (y := operand_of(repeated, graph.broadcast)) is None:
        return None
    t = tensor_of(y)
    inverse = graph.div(full(t.shape, t.elem, 1.0), y, loc=op.loc)
    return graph.mul(x, broadcasted(inverse.result, tensor_of(x).shape), loc=op.loc)


RULES: tuple[Rule, ...] = (*divide_by_known, *divide_by_shared)


@passing("graph")
def multiply_by_reciprocal(func: Func) -> Func:
    """Divide once for all the elements that share a divisor."""
    return dead_code(sweep(func, RULES)[0])
