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


@dataclass(frozen=True, slots=True)
class Failed:
    """A name whose declaration was an error."""

    at: Token


Symbol: TypeAlias = Variable | FunctionDecl | Typedef | Const


class FaultError(Exception):
    """A reported error; the statement is given up."""


class Scopes:
    """Scopes inside one another."""

    def __init__(self, report: Reporter) -> None:
        self._report = report
        self._names: ChainMap[str, Symbol | Failed] = ChainMap()
        self.declared: list[Symbol] = []
        """What was declared, in its order."""

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
        """What a name means here; FaultError for one whose declaration was an error, which is error enough."""
        found = self._names.get(name)
        if isinstance(found, Failed):
            raise FaultError
        return found

    def fail(self, name: str, at: Token) -> None:
        """Remember that a name's declaration was an error, unless it has another one in this scope."""
        self._names.maps[0].setdefault(name, Failed(at))

    def fail_in_function(self, name: str, at: Token) -> None:
        """Remember that a name is not declared, which is said once in a function."""
        self._names.maps[-2 if len(self._names.maps) > 1 else -1].setdefault(name, Failed(at))

    def forget(self, name: str) -> None:
        """Take a name out of the innermost scope."""
        self._names.maps[0].pop(name, None)

    def declare(self, name: str, symbol: Symbol, at: Token) -> None:
        """Bind a name; twice in one scope is an error, hiding an outer one a warning."""
        scope, *around = self._names.maps
        self.declared.append(symbol)
        if name in scope and not isinstance(scope[name], Failed):
            note = Note("declared before here", scope[name].at.span)
            self._report.error("redeclared", f"{name!r} is declared twice in one scope", at, [note])
            return
        for outer in around[:-1]:
            if isinstance(outer.get(name), Variable):
                note = Note("the outer declaration", outer[name].at.span)
                self._report.warning("shadow", f"{name!r} hides an outer variable of that name", at, [note])
                break
        scope[name] = symbol

    def near(self, name: str, more: Iterable[str], kinds: type | tuple[type, ...] = object) -> str | None:
        """The name in scope, or in `more`, that is spelled most like this one."""
        names = [n for scope in reversed(self._names.maps) for n, symbol in scope.items() if isinstance(symbol, kinds)]
        return most_like(name, [*names, *more])


def most_like(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that is spelled most like `name`, or has its letters in another order."""
    names = list(names)
    close = difflib.get_close_matches(name, names, 1, 0.75)
    return close[0] if close else next((n for n in names if sorted(n) == sorted(name)), None)
