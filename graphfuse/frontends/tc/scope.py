"""Names in scope: variables, functions, typedefs; what a misspelt one may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TypeAlias

from graphfuse.frontends.tc.diagnostics import Note, Reporter
from graphfuse.frontends.tc.tokens import Token
from graphfuse.frontends.tc.typed import Const, FunctionDecl, Variable
from graphfuse.frontends.tc.types import Type


class Typedef:
    """A name that stands for a type."""

    __slots__ = ("at", "type")

    def __init__(self, of: Type, at: Token) -> None:
        self.type, self.at = of, at


Symbol: TypeAlias = Variable | FunctionDecl | Typedef | Const


class Scopes:
    """A stack of scopes, innermost last."""

    def __init__(self, report: Reporter) -> None:
        self._report = report
        self._stack: list[dict[str, Symbol]] = [{}]

    def push(self) -> None:
        """Open a scope."""
        self._stack.append({})

    def pop(self) -> None:
        """Close the innermost scope."""
        self._stack.pop()

    def find(self, name: str) -> Symbol | None:
        """What a name means here."""
        for scope in reversed(self._stack):
            if name in scope:
                return scope[name]
        return None

    def declare(self, name: str, symbol: Symbol, at: Token) -> None:
        """Bind a name; twice in one scope is an error, hiding an outer one a warning."""
        scope = self._stack[-1]
        if name in scope:
            note = Note("declared before here", scope[name].at.span)
            self._report.error("redeclared", f"{name!r} is declared twice in one scope", at, [note])
            return
        for outer in reversed(self._stack[1:-1]):
            if isinstance(outer.get(name), Variable):
                note = Note("the outer declaration", outer[name].at.span)
                self._report.warning("shadow", f"{name!r} hides an outer variable of that name", at, [note])
                break
        scope[name] = symbol

    def near(self, name: str, more: Iterable[str]) -> str | None:
        """The name in scope, or in `more`, that is spelled most like this one."""
        names = [n for scope in self._stack for n in scope]
        close = difflib.get_close_matches(name, [*names, *more], 1, 0.75)
        return close[0] if close else None
