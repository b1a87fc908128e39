"""Permutes that met nothing to cancel go back up through elementwise work, to what it reads.

    %e = graph.add(%x, %s) : tensor<4x6xf32>
    %t = graph.permute(%e) {perm = [1, 0]} : tensor<6x4xf32>

becomes

    %a = graph.permute(%x) {perm = [1, 0]} : tensor<6x4xf32>
    %b = graph.permute(%s) {perm = [1, 0]} : tensor<6x4xf32>
    %t = graph.add(%a, %b) : tensor<6x4xf32>

Whoever adds reads its operands in that order, where a permute of the sum is a kernel of its own.

Requires: layout, which sinks permutes, and simplify_movement, after which those that contractions absorb are gone.
Ensures: no permute of elementwise work is left that could be one or two of arguments.
"""

from __future__ import annotations

from graphfuse.dialects import graph
from graphfuse.fusion.simplify.layout import elements_of
from graphfuse.fusion.simplify.patterns import Uses, is_op, once_with_uses, operand_of
from graphfuse.fusion.simplify.simplify_movement import Perm, moves_freely, permuted
from graphfuse.ir.core import Func, Op, Trait, Value, attr_ints, remade
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, rule_with

WORTH = 2
"""Operands that may be read in another order where a permute is spared: it would write its operand and read it."""


@rule_with(graph.permute)
def permute_of_elementwise(op: Op, uses: Uses) -> Replacement | None:
    """permute f(x, y) = f(permute x, permute y), where few more elements move."""
    (x,) = op.operands
    perm = attr_ints(op, "perm")
    if not _is_read_once(x, uses):
        return None
    moved = _moved_by(x, perm, uses)
    if moved is None or moved > WORTH * elements_of(op.result) + _moved_now(x, uses):
        return None
    return _raised(x, perm, uses)


def _is_read_once(v: Value, uses: Uses) -> bool:
    """Whether `v` is elementwise work that nothing but the permute needs."""
    return v.op is not None and v.op.has(Trait.ELEMENTWISE) and len(v.op.types) == 1 and uses.get(v, 1) == 1


def _moved_by(v: Value, perm: Perm, uses: Uses) -> int | None:
    """How many elements permutes move once they stand above `v`; None where one would stand behind other work."""
    if moves_freely(v):
        return 0
    if not _is_read_once(v, uses):
        if not is_op(permuted(v, perm), graph.permute):
            return 0
        stored = operand_of(v, graph.permute) or v
        return elements_of(v) if stored.op is None else None
    assert v.op is not None
    parts = [_moved_by(u, perm, uses) for u in v.op.operands]
    return sum(p for p in parts if p is not None) if None not in parts else None


def _moved_now(v: Value, uses: Uses) -> int:
    """How many elements the permutes above `v` move as it is."""
    if not _is_read_once(v, uses):
        return elements_of(v) if is_op(v, graph.permute) else 0
    assert v.op is not None
    return sum(_moved_now(u, uses) for u in v.op.operands)


def _raised(v: Value, perm: Perm, uses: Uses) -> Value:
    if moves_freely(v) or not _is_read_once(v, uses):
        return permuted(v, perm)
    assert v.op is not None
    return remade(v.op, *(_raised(u, perm, uses) for u in v.op.operands)).result


@passing("graph")
def raise_permutes(func: Func) -> Func:
    """Move permutes from results of elementwise work to its operands."""
    return once_with_uses(func, permute_of_elementwise)
