"""Compositions that are one elementwise function: `1 / (1 + exp(-x))` is `sigmoid(x)`.

    %n = graph.neg(%x) : tensor<8xf32>
    %e = graph.exp(%n) : tensor<8xf32>
    %d = graph.add(%e, %one) : tensor<8xf32>
    %r = graph.div(%one, %d) : tensor<8xf32>

becomes `graph.sigmoid(%x)`. Softmax, layer norm, gelu and silu stay compositions: fusion reads their structure.

Requires: canonicalize. Ensures: nothing beyond its rules. Cost: one or two sweeps.
"""

from __future__ import annotations

from graphfuse.dialects import graph
from graphfuse.fusion.fold_constants import splat_of
from graphfuse.fusion.simplify_movement import is_op
from graphfuse.ir.core import Func, Op, Value
from graphfuse.ir.rewrite import Replacement, Rule, rewrite, rule


@rule(graph.div)
def logistic(op: Op) -> Replacement | None:
    """1 / (exp(-x) + 1) = sigmoid x; y / (exp(-x) + 1) = y sigmoid x."""
    y, d = op.operands
    x = _logistic_argument(d)
    if x is None:
        return None
    if splat_of(y) == 1:
        return graph.sigmoid(x, loc=op.loc)
    return graph.mul(y, graph.sigmoid(x, loc=op.loc), loc=op.loc)


def _logistic_argument(d: Value) -> Value | None:
    """`x` when `d` is exp(-x) + 1."""
    if not is_op(d, graph.add):
        return None
    assert d.op is not None
    e, one = d.op.operands
    if splat_of(one) != 1 or not is_op(e, graph.exp):
        return None
    assert e.op is not None
    n = e.op.operands[0]
    if not is_op(n, graph.neg):
        return None
    assert n.op is not None
    return n.op.operands[0]


@rule(graph.div)
def quotient_by_quotient(op: Op) -> Replacement | None:
    """1 / (1 / sqrt x) = sqrt x: the root of a norm that was written as two reciprocals."""
    one, d = op.operands
    if splat_of(one) != 1 or not is_op(d, graph.div):
        return None
    assert d.op is not None
    inner, root = d.op.operands
    return root if splat_of(inner) == 1 and is_op(root, graph.sqrt) else None


RULES: tuple[Rule, ...] = (*logistic, *quotient_by_quotient)


def recognise_functions(func: Func) -> Func:
    """Replace compositions by the elementwise function that they are."""
    return rewrite(func, RULES)
