"""Algebra that changes the last bits: compositions that are one function, powers that are products, means, added sums.

    %n = graph.neg(%x) : tensor<8xf32>
    %e = graph.exp(%n) : tensor<8xf32>
    %d = graph.add(%e, %one) : tensor<8xf32>
    %r = graph.div(%one, %d) : tensor<8xf32>

becomes `graph.sigmoid(%x)`, and so does 0.5 (1 + tanh(x / 2)), which cancels where the tanh is near -1: gelu by tanh is
x sigmoid(2u). Softmax, layer norm, gelu and silu stay compositions: fusion reads their structure.

Requires: canonicalize; results may differ by a few roundings, so `numerics = strict` goes without. Ensures: nothing
beyond its rules. Cost: one or two sweeps.
"""

from __future__ import annotations

import numpy as np

from graphfuse.dialects import graph
from graphfuse.fusion.simplify.canonicalize import is_power_of_two, never_negative, small_power
from graphfuse.fusion.simplify.fold_constants import full, splat_of
from graphfuse.fusion.simplify.patterns import Uses, is_op, made_by, once_with_uses, operand_of
from graphfuse.ir.core import Func, Op, OpDef, Value, attr_ints, remade, tensor_of
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, Rule, rewrite, rule, rule_with
from graphfuse.symbolic import product


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
    if (total := made_by(d, graph.add)) is None or splat_of(total.operands[1]) != 1:
        return None
    power = operand_of(total.operands[0], graph.exp)
    return None if power is None else operand_of(power, graph.neg)


@rule(graph.mul)
def logistic_by_tanh(op: Op) -> Replacement | None:
    """(1 + tanh u) h = 2h sigmoid 2u where 2h costs nothing, as of h = 0.5 x; and ((1 + tanh u) x) 0.5."""
    for a, b in (op.operands, op.operands[::-1]):
        if (u := _one_plus_tanh(a)) is not None and (got := _twice_times_logistic(b, u, op)) is not None:
            return got
        factors = _operands_of(a, graph.mul) if splat_of(b) == 0.5 else None
        for total, x in (factors, factors[::-1]) if factors else ():
            if (u := _one_plus_tanh(total)) is not None:
                return graph.mul(x, graph.sigmoid(_doubled(u), loc=op.loc), loc=op.loc)
    return None


@rule(graph.add)
def logistic_by_tanh_distributed(op: Op) -> Replacement | None:
    """h + h tanh u = 2h sigmoid 2u where 2h costs nothing, as of h = 0.5 x."""
    for h, term in (op.operands, op.operands[::-1]):
        factors = _operands_of(term, graph.mul)
        for again, t in (factors, factors[::-1]) if factors else ():
            u = operand_of(t, graph.tanh)
            is_same = again == h or (splat_of(h) is not None and splat_of(h) == splat_of(again))
            if u is not None and is_same and (got := _twice_times_logistic(h, u, op)) is not None:
                return got
    return None


def _twice_times_logistic(h: Value, u: Value, like: Op) -> Op | None:
    """2h sigmoid(2u), if 2h costs nothing."""
    if splat_of(h) == 0.5:
        return graph.sigmoid(_doubled(u), loc=like.loc)
    x = _doubled_freely(h)
    return None if x is None else graph.mul(x, graph.sigmoid(_doubled(u), loc=like.loc), loc=like.loc)


def _operands_of(x: Value, kind: OpDef) -> tuple[Value, ...] | None:
    """What `x` is made of when it is the result of a `kind`."""
    op = made_by(x, kind)
    return None if op is None else op.operands


def _one_plus_tanh(x: Value) -> Value | None:
    """`u` when `x` is 1 + tanh(u)."""
    terms = _operands_of(x, graph.add)
    for one, t in (terms, terms[::-1]) if terms else ():
        if splat_of(one) == 1 and (u := operand_of(t, graph.tanh)) is not None:
            return u
    return None


_LARGE = 2.0**14
"""Twice as much is a number in every float type that has functions."""


def _doubled(x: Value) -> Value | Op:
    """2 x, the factor put into constants where they are."""
    free = _doubled_freely(x)
    t = tensor_of(x)
    return graph.mul(x, full(t.shape, t.elem, 2.0)) if free is None else free


def _doubled_freely(x: Value) -> Value | None:
    """2 x by no more ops than x takes: a power of two in a factor or in both terms changes no other bit."""
    if (c := splat_of(x)) is not None:
        t = tensor_of(x)
        return full(t.shape, t.elem, 2 * float(c)) if abs(c) < _LARGE else None
    if (factors := _operands_of(x, graph.mul)) is not None:
        for a, b in (factors, factors[::-1]):
            if splat_of(b) == 0.5:
                return a
            if (twice := _doubled_freely(b)) is not None:
                return graph.mul(a, twice).result
    if (terms := _operands_of(x, graph.add)) is not None:
        first, second = (_doubled_freely(v) for v in terms)
        if first is not None and second is not None:
            return graph.add(first, second).result
    return None


@rule(graph.div)
def quotient_by_quotient(op: Op) -> Replacement | None:
    """1 / (1 / sqrt x) = sqrt x: the root of a norm that was written as two reciprocals."""
    one, d = op.operands
    if splat_of(one) != 1 or (quotient := made_by(d, graph.div)) is None:
        return None
    inner, root = quotient.operands
    return root if splat_of(inner) == 1 and is_op(root, graph.sqrt) else None


# one form each


@rule(graph.mul)
def mean_is_a_quotient(op: Op) -> Replacement | None:
    """sum(x) * (1/n) = sum(x) / n for the n elements that are summed: one form of a mean."""
    total, c = op.operands
    value, elem = splat_of(c), tensor_of(total).elem
    if value is None or (reduction := made_by(total, graph.reduce)) is None or not elem.is_float:
        return None
    if reduction.attrs["kind"] != "sum" or value == 0 or is_power_of_two(float(value)):
        return None
    shape = tensor_of(reduction.operands[0]).shape
    n = product(shape[a] for a in attr_ints(reduction, "axes"))
    if not isinstance(n, int):
        return None
    with np.errstate(over="ignore"):
        count, one_over = np.asarray((n, 1.0 / n if n else 0.0)).astype(numpy_dtype(elem))
    if float(one_over) != float(value) or float(count) != n:
        return None
    return graph.div(total, full(tensor_of(c).shape, elem, float(n)), loc=op.loc)


@rule(graph.pow_)
def power_by_products(op: Op) -> Replacement | None:
    """x^3 = x x x; x^4 = (x x)^2; x^-0.5 = 1 / sqrt x for x that is never negative nor -0.0."""
    x, c = op.operands
    if splat_of(c) != -0.5:
        return small_power(op)
    if not never_negative(x):
        return None
    t = tensor_of(x)
    return graph.div(full(t.shape, t.elem, 1.0), graph.sqrt(x, loc=op.loc), loc=op.loc)


RULES: tuple[Rule, ...] = (
    *logistic, *logistic_by_tanh, *logistic_by_tanh_distributed, *quotient_by_quotient, *mean_is_a_quotient,
    *power_by_products,
)  # fmt: skip


@rule_with(graph.add)
def added_to_scattered(op: Op, uses: Uses) -> Replacement | None:
    """x + (0 with u added at i) = x with u added at i: of a table that is looked up and multiplied by.

    Nothing else reads the sums, and those of narrow floats, which would be rounded to them one by one, stay.
    """
    if tensor_of(op.result).elem.bits < 32:
        return None
    for x, sums in (op.operands, op.operands[::-1]):
        scatter = made_by(sums, *graph.SCATTERS)
        if scatter is None or scatter.attrs.get("kind") != "add" or uses.get(sums, 1) > 1:
            continue
        begin, *rest = scatter.operands
        if splat_of(begin) == 0:
            return remade(scatter, x, *rest)
    return None


@passing("graph")
def recognise_functions(func: Func) -> Func:
    """Replace compositions by the function that they are."""
    made = rewrite(func, RULES)
    return once_with_uses(made, added_to_scattered) if any(op.kind in graph.SCATTERS for op in made.body.ops) else made
