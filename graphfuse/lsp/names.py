"""Which declaration each name of a source is of. Types do not matter to it, so errors in them do not either."""

from __future__ import annotations

import dataclasses
import functools
from collections import ChainMap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from graphfuse.frontends.tc import ast
from graphfuse.frontends.tc.tokens import Token

Kind = Literal["function", "parameter", "variable", "constant", "type"]


@dataclass(slots=True, eq=False)
class Name:
    """What is declared by `at` in a `scope`, None being the file; `node` is the declaration, `inside` its function.

    `tokens` are all that name it, the declaration among them.
    """

    text: str
    kind: Kind
    at: Token
    scope: ast.Node | None
    node: ast.Node
    inside: Name | None
    tokens: list[Token] = field(default_factory=list[Token])


def names_of(unit: ast.Unit) -> list[Name]:
    """The names that a file declares, in the order of their declarations."""
    return _Resolver().unit(unit)


@dataclass(frozen=True, slots=True)
class _Declare:
    """To do: declare a name from here on."""

    kind: Kind
    at: Token
    node: ast.Node


class _Leave:
    """To do: leave the innermost scope."""


class _Resolver:
    def __init__(self) -> None:
        self._names: list[Name] = []
        self._known: ChainMap[str, Name] = ChainMap()
        self._scopes: list[ast.Node] = []
        self._inside: Name | None = None

    def unit(self, unit: ast.Unit) -> list[Name]:
        functions: list[ast.Function] = []
        for item in unit.body:
            if isinstance(item, ast.Function):
                self._function(item)
                functions.append(item)
            else:
                self._visit(item)
        for node in functions:
            self._inside = self._known.get(node.name)
            self._enter(node)
            self._visit(node.result, *node.params, *node.attributes)
            # the parameters and the outermost block are one scope
            self._visit(*(node.body.body if node.body is not None else ()))
            self._leave()
        return self._names

    def _function(self, node: ast.Function) -> None:
        before = self._known.get(node.name)
        if before is None or before.kind != "function":
            self._declare(_Declare("function", node.at, node))
            return
        before.tokens.append(node.at)
        if node.body is not None:
            before.at, before.node = node.at, node

    def _enter(self, node: ast.Node) -> None:
        self._known = self._known.new_child()
        self._scopes.append(node)

    def _leave(self) -> None:
        self._known = self._known.parents
        self._scopes.pop()

    def _declare(self, what: _Declare) -> None:
        scope = self._scopes[-1] if self._scopes else None
        text = what.at.text
        name = Name(text, what.kind, what.at, scope, what.node, self._inside if self._scopes else None, [what.at])
        if text:
            self._names.append(name)
            self._known[text] = name

    def _use(self, token: Token) -> None:
        name = self._known.get(token.text)
        if name is not None:
            name.tokens.append(token)

    def _visit(self, *nodes: ast.Node) -> None:
        # a work list instead of recursion: trees may be deep
        work: list[ast.Node | _Declare | _Leave] = list(nodes[::-1])
        while work:
            node = work.pop()
            match node:
                case _Leave():
                    self._leave()
                case _Declare():
                    self._declare(node)
                case ast.Name():
                    self._use(node.at)
                case ast.Block() | ast.For():
                    self._enter(node)
                    work += [_Leave(), *list(_parts(node))[::-1]]
                case _:
                    work += list(_parts(node))[::-1]
                    if isinstance(node, ast.Specifiers) and node.at.text == node.type:
                        self._use(node.at)


def _parts(node: ast.Node) -> Iterator[ast.Node | _Declare]:
    """What is in a node, in the order in which names are declared."""
    match node:
        case ast.Declaration():
            yield node.specifiers
            is_type = "typedef" in node.specifiers.storage
            for d in node.declarators:
                yield from (*d.attributes, *(d.shape or ()))
                yield _Declare("type" if is_type else "variable", d.at, node)
                if d.init is not None:
                    yield d.init
        case ast.Parameter():
            d = node.declarator
            yield from (node.specifiers, *d.attributes, *(d.shape or ()))
            if d.name:
                yield _Declare("parameter", d.at, node)
        case ast.Enumerator():
            if node.value is not None:
                yield node.value
            yield _Declare("constant", node.at, node)
        case ast.Failed():
            yield from (_Declare("variable", name.at, node) for name in node.names)
        case _:
            for name in _fields(type(node)):
                yield from _nodes(getattr(node, name))


def _nodes(value: Any) -> Iterator[ast.Node]:
    if isinstance(value, ast.Node):
        yield value
    elif isinstance(value, tuple):
        for item in value:  # pyright: ignore[reportUnknownVariableType] - a tuple of anything
            yield from _nodes(item)


@functools.cache
def _fields(kind: Any) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(kind) if f.name not in ("at", "first", "last"))
