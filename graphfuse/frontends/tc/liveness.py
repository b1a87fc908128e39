"""Which variables a statement sets, and which values from before it somebody may still read.

For code without jumps both are sums over the parts: what is read first (`gen`), what is surely set (`kill`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphfuse.frontends.tc import typed as t

Variables = frozenset[t.Variable]
_NONE: Variables = frozenset()


@dataclass(frozen=True, slots=True)
class Effect:
    """`gen`: read before it is set here. `kill`: set here in any case. `may`: set here perhaps."""

    gen: Variables = _NONE
    kill: Variables = _NONE
    may: Variables = _NONE

    def then(self, after: Effect) -> Effect:
        """This, then another."""
        return Effect(self.gen | (after.gen - self.kill), self.kill | after.kill, self.may | after.may)


class Liveness:
    """The effects of the statements of a function, each computed once."""

    def __init__(self) -> None:
        self._of: dict[t.Flat, Effect] = {}

    def sequence(self, statements: Sequence[t.Flat]) -> Effect:
        """The effect of statements in order."""
        gen: set[t.Variable] = set()
        kill: set[t.Variable] = set()
        may: set[t.Variable] = set()
        for s in statements:
            e = self.statement(s)
            gen |= e.gen - kill
            kill |= e.kill
            may |= e.may
        return Effect(frozenset(gen), frozenset(kill), frozenset(may))

    def statement(self, s: t.Flat) -> Effect:
        """The effect of one statement."""
        found = self._of.get(s)
        if found is None:
            found = self._of[s] = self._statement(s)
        return found

    def _statement(self, s: t.Flat) -> Effect:
        match s:
            case t.Eval():
                return expression(s.expr)
            case t.Branch():
                then, other = self.sequence(s.then), self.sequence(s.other)
                arms = Effect(then.gen | other.gen, then.kill & other.kill, then.may | other.may)
                return expression(s.condition).then(arms)
            case t.While():
                head = self.sequence(s.head).then(expression(s.test))
                trip = head.then(self.sequence(s.body))
                return Effect(trip.gen, head.kill, trip.may)
            case t.Count():
                start = Effect(frozenset((s.variable,)))
                head = start.then(expression(s.bound)).then(expression(s.step))
                body = self.sequence(s.body)
                return Effect(head.gen | (body.gen - {s.variable}), _NONE, body.may | {s.variable})

    def live_after(self, statements: Sequence[t.Flat], end: Variables) -> list[Variables]:
        """For each statement, the variables whose values somebody after it may read."""
        out: list[Variables] = []
        live = end
        for s in reversed(statements):
            out.append(live)
            e = self.statement(s)
            live = e.gen | (live - e.kill)
        return out[::-1]


def expression(x: t.Expr) -> Effect:
    """The effect of an expression: everything in it is evaluated."""
    reads: set[t.Variable] = set()
    writes: set[t.Variable] = set()
    temporaries: set[t.Variable] = set()
    for node in t.walk(x):
        if isinstance(node, t.Read):
            reads.add(node.variable)
        elif isinstance(node, t.Assign):
            writes.add(node.variable)
        elif isinstance(node, t.Let):
            temporaries.add(node.variable)
    # a variable that is read and set here may be read first
    changed = frozenset(writes)
    return Effect(frozenset(reads - temporaries), changed, changed)


def assigned(statements: Sequence[t.Flat]) -> Variables:
    """The variables that statements may set."""
    return Liveness().sequence(statements).may
