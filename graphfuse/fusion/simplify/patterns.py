"""What rules ask of the ops that made their operands."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from graphfuse.ir.core import Func, Op, OpDef, Value
from graphfuse.ir.rewrite import Replacement, Rule, RuleWith, dead_code, first_of, given, rebuild, rule, use_counts

Uses = dict[Value, int]
"""How often each value is read, as `use_counts` has it."""


def made_by(v: Value, *kinds: OpDef) -> Op | None:
    """The op that produces `v`, if it is of one of these kinds."""
    return v.op if v.op is not None and v.op.kind in kinds else None


def is_op(v: Value, *kinds: OpDef) -> bool:
    """Whether an op of one of these kinds produces `v`."""
    return made_by(v, *kinds) is not None


def operand_of(v: Value, kind: OpDef) -> Value | None:
    """`x` when `v` is `kind(x)`, or `kind` of `x` and others."""
    op = made_by(v, kind)
    return None if op is None else op.operands[0]


def rule_of(*roots: OpDef, of: OpDef) -> Callable[[Callable[[Op, Op], Replacement | None]], tuple[Rule, ...]]:
    """Make a `Rule` per root of a function of an op and the op, of kind `of`, that made its first operand."""

    def make(apply: Callable[[Op, Op], Replacement | None]) -> tuple[Rule, ...]:
        @rule(*roots)
        @functools.wraps(apply)
        def above(op: Op) -> Replacement | None:
            inner = made_by(op.operands[0], of)
            return None if inner is None else apply(op, inner)

        return above

    return make


def once_with_uses(func: Func, rules: Sequence[RuleWith[Uses]], others: Sequence[Rule] = ()) -> Func:
    """Try `others`, then rules that must know how often values are read, on each op once."""
    uses = use_counts(func)
    return dead_code(rebuild(func, first_of([*others, *given(rules, uses)]), uses=uses))
