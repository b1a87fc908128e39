"""Statements without jumps: what `structure.py` makes of the typed ones, and `lower.py` lowers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from graphfuse.frontends.tc import typed as t
from graphfuse.frontends.tc.tokens import Token


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """Run one of two bodies."""

    at: Token
    condition: t.Expr
    then: tuple[Flat, ...]
    other: tuple[Flat, ...]


@dataclass(frozen=True, slots=True, eq=False)
class While:
    """Run the head; while the test holds then, run the body and start again."""

    at: Token
    head: tuple[Flat, ...]
    test: t.Expr
    body: tuple[Flat, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Count:
    """A loop whose trips are known when it begins: `variable` goes from its value by `step` while it is `op` bound."""

    at: Token
    variable: t.Variable
    op: str
    bound: t.Expr
    step: t.Expr
    down: bool
    body: tuple[Flat, ...]


Flat: TypeAlias = t.Eval | Branch | While | Count
