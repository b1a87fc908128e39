"""Names in scope: variables, functions, typedefs; what a misspelt one may have meant."""

from __future__ import annotations

import difflib
from collections import ChainMap
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from graphfuse.frontends.tc.diagnostics import Note, Reporter
from graphfuse.frontends.tc.tokens import Token
from graphfuse.frontends.tc.typed import Const, FunctionDecl, Variable
from graphfuse.frontends.tc.types import Type


@dataclass(frozen=True, slots=True)
class Typedef:
    """A name that stands for a type."""

    type: Type
    at: Token


Symbol: TypeAlias = Variable | FunctionDecl | Typedef | Const


class Scopes:
    """Scopes inside one another."""

    def __init__(self, report: Reporter) -> None:
        self._report = report
        self._names: ChainMap[str, Symbol] = ChainMap()

    @contextmanager
    def inside(self) -> Generator[None, None, None]:
        """A scope inside of the innermost one, also where an error leaves it."""
        outer, self._names = self._names, self._names.new_child()
        try:
            yield
        finally:
            self._names = outer

    @contextmanager
    def inside_file(self) -> Generator[None, None, None]:
        """A scope that sees what is declared at file scope alone."""
        outer, self._names = self._names, ChainMap(self._names.maps[-1]).new_child()
        try:
            yield
        finally:
            self._names = outer

    def find(self, name: str) -> Symbol | None:
        """What a name means here."""
        return self._names.get(name)

    def declare(self, name: str, symbol: Symbol, at: Token) -> None:
        """Bind a name; twice in one scope is an error, hiding an outer one a warning."""
        scope, *around = self._names.maps
        if name in scope:
            note = Note("declared before here", scope[name].at.span)
            self._report.error("redeclared", f"{name!r} is declared twice in one scope", at, [note])
            return
        for outer in around[:-1]:
            if isinstance(outer.get(name), Variable):
                note = Note("the outer declaration", outer[name].at.span)
                self._report.warning("shadow", f"{name!r} hides an outer variable of that name", at, [note])
                break
        scope[name] = symbol

    def near(self, name: str, more: Iterable[str]) -> str | None:
        """The name in scope, or in `more`, that is spelled most like this one."""
        names = [n for scope in reversed(self._names.maps) for n in scope]
        close = difflib.get_close_matches(name, [*names, *more], 1, 0.75)
        return close[0] if close else None
