"""A choice between what a load found and a constant, by the load's own mask, is the load.

    %x = load(%p, %o, %m); %y = select(%m, %x, 7)

becomes

    %y = load(%p, %o, %m) {other = 7}

so that what multiplies tiles, or copies them, sees them as they come from memory (`c ? *p : 0` in C). A load that has
other readers stays as it is.

Requires: equal values are one (`common_subexpressions`).
"""

from __future__ import annotations

from graphfuse.blockopt.uniform import MOVES
from graphfuse.dialects import block
from graphfuse.ir.core import Func, Op, Value, attr_number, remade
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, rebuild, use_counts


@passing("kernel")
def choose_in_loads(func: Func) -> Func:
    """Let masked loads give the constants that are chosen in their place."""
    uses = use_counts(func)
    loads: dict[Op, float] = {}  # and what they give where their mask is false
    choices: set[Op] = set()
    for op in func.walk():
        other, load = _chosen(op), op.operands[1].op if len(op.operands) > 1 else None
        if other is None or load is None:
            continue
        if uses[load.result] == 1 or other == attr_number(load, "other"):
            loads[load] = other
            choices.add(op)

    def visit(old: Op, new: Op) -> Replacement | None:
        if old in choices:
            return new.operands[1]
        return remade(new, *new.operands, other=loads[old]) if old in loads else None

    return rebuild(func, visit_pair=visit) if loads else func


def _chosen(op: Op) -> float | None:
    """The constant that a choice by a load's mask gives where that is false."""
    if op.kind is not block.select:
        return None
    mask, x, other = op.operands
    load = x.op
    if load is None or load.kind is not block.load or load.operands[2:] != (mask,):
        return None
    return _constant(other)


def _constant(value: Value) -> float | None:
    op = value.op
    while op is not None and op.kind in (block.splat, *MOVES):
        op = op.operands[0].op
    return attr_number(op, "value") if op is not None and op.kind is block.const else None
