"""Statements without jumps: what `structure.py` makes of the typed ones, and `lower.py` lowers."""

from __future__ import annotations

from typing import TypeAlias

from graphfuse.frontends.tc import typed as t


class Branch(t.Statement):
    """Run one of two bodies."""

    condition: t.Expr
    then: tuple[Flat, ...]
    other: tuple[Flat, ...]


class While(t.Statement):
    """Run the head; while the test holds then, run the body and start again."""

    head: tuple[Flat, ...]
    test: t.Expr
    body: tuple[Flat, ...]


class Count(t.Statement):
    """A loop whose trips are known when it begins: `variable` goes from its value by `step` while it is `op` bound."""

    variable: t.Variable
    op: str
    bound: t.Expr
    step: t.Expr
    down: bool
    body: tuple[Flat, ...]


Flat: TypeAlias = t.Eval | Branch | While | Count
