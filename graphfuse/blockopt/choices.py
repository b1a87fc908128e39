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
from graphfuse.ir.core import Func, Op, Value, attr_number
from graphfuse.ir.passes import passing
from graphfuse.ir.remake import Remaker
from graphfuse.ir.rewrite import use_counts


@passing("kernel")
def choose_in_loads(func: Func) -> Func:
    """Let masked loads give the constants that are chosen in their place."""
    chooser = _Chooser(func)
    return chooser.run() if chooser.loads else func


class _Chooser(Remaker):
    def __init__(self, func: Func) -> None:
        super().__init__(func)
        uses = use_counts(func)
        self.loads: dict[Op, float] = {}
        """What they give where their mask is false."""
        self.choices: set[Op] = set()
        for op in func.walk():
            other, load = _chosen(op), op.operands[1].op if len(op.operands) > 1 else None
            if other is None or load is None:
                continue
            if uses[load.result] == 1 or other == attr_number(load, "other"):
                self.loads[load] = other
                self.choices.add(op)

    def op(self, op: Op) -> None:
        if op in self.choices:
            self.values[op.result] = self.new(op.operands[1])
        elif op in self.loads:
            operands = [self.new(v) for v in op.operands]
            made = op.kind.build(operands, {**op.attrs, "other": self.loads[op]}, hint=op.result.hint, loc=op.loc)
            self.values[op.result] = self.builder.append(made).result
        else:
            self.copy(op)


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
