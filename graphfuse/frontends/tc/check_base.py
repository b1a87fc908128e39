"""Checking begins: errors, the types that a source writes, names and literals."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, NoReturn

from graphfuse.frontends.tc import ast
from graphfuse.frontends.tc import typed as t
from graphfuse.frontends.tc.convert import ConversionError
from graphfuse.frontends.tc.cuda_words import CUDA_WORDS
from graphfuse.frontends.tc.diagnostics import FixIt, Located, Note, Reporter
from graphfuse.frontends.tc.scope import Scopes, Typedef
from graphfuse.frontends.tc.tokens import Token
from graphfuse.frontends.tc.types import (
    FLOAT,
    INT,
    LONG,
    MAX_ELEMENTS,
    NAMED,
    UINT,
    ULONG,
    Arith,
    Pointer,
    ShapeError,
    Tile,
    Type,
    Void,
    broadcast_shapes,
    elem_of,
    elements,
    shape_of,
)

MAX_DEPTH = 90
"""Nesting of expressions; chains of infix operators that group to the left do not count."""


class FaultError(Exception):
    """A reported error; the statement is given up."""


class Checker(ABC):
    """Checks expressions. `guards` are the conditions under which the current one is evaluated."""

    def __init__(self, report: Reporter, defines: Mapping[str, str]) -> None:
        self.report = report
        self.scopes = Scopes(report)
        self.defines = defines
        self.function_name = ""
        self.guards: list[tuple[t.Variable, bool]] = []
        self._depth = 0
        self._enumerations: set[ast.Enum] = set()

    # errors

    def fail(
        self, code: str, message: str, at: Located, notes: list[Note] | None = None, fixits: list[FixIt] | None = None
    ) -> NoReturn:
        """Report an error and give the statement up."""
        self.report.error(code, message, at, notes or (), fixits or ())
        raise FaultError

    @contextmanager
    def conversions(self, code: str, at: Located, what: str = "") -> Generator[None]:
        """Report conversions and shapes that do not fit as errors at `at`."""
        try:
            yield
        except (ConversionError, ShapeError) as e:
            self.fail(code, f"{what}{e}", at)

    def joint_shape(self, at: Located, what: str, *values: t.Expr, code: str = "broadcast") -> tuple[int, ...]:
        """The shape that values are repeated to."""
        with self.conversions(code, at, what):
            return functools.reduce(broadcast_shapes, [x.shape for x in values], ())

    # expressions

    def expr(self, node: ast.Expr) -> t.Expr:
        """Check any expression; a void one is left to who asks."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._depth = 0
            self.fail("too-deep", f"expression is nested deeper than {MAX_DEPTH}", node)
        try:
            return self._CHECKS[type(node)](self, node)
        finally:
            self._depth -= 1

    def value(self, node: ast.Expr) -> t.Expr:
        """Check an expression that must have a value."""
        x = self.expr(node)
        if isinstance(x.type, Void):
            self.fail("void", "expected a value, found an expression of type void", node)
        return x

    def constant(self, node: ast.Expr, what: str) -> int:
        """Check a constant integer expression."""
        x = self.value(node)
        if not isinstance(x, t.Const) or not isinstance(x.value, int):
            found = "a floating-point constant" if isinstance(x, t.Const) else f"a value of type {x.type}"
            self.fail("constant", f"{what}: expected a constant integer expression, found {found}", node)
        return x.value

    def shape(self, dims: tuple[ast.Expr, ...], at: Located) -> tuple[int, ...]:
        """The shape that a declaration or a cast writes."""
        out: list[int] = []
        for i, dim in enumerate(dims):
            n = self.constant(dim, f"dim {i} of a tile")
            if n <= 0:
                self.fail("shape", f"dim {i} of a tile: expected a positive number, found {n}", dim)
            out.append(n)
        count = elements(tuple(out))
        if count > MAX_ELEMENTS:
            self.fail("shape", f"a tile's elements: expected at most {MAX_ELEMENTS}, found {count} of shape {out}", at)
        return tuple(out)

    def type_of(self, node: ast.TypeName) -> Type:
        """The type that a cast names."""
        base = self.base_type(node.specifiers, node.pointers)
        if node.shape is None:
            return base
        return self.tile_of(base, self.shape(node.shape, node), node)

    def tile_of(self, base: Type, shape: tuple[int, ...], at: Located) -> Type:
        """The tile of a base type and a shape."""
        if not isinstance(base, Arith | Pointer):
            self.fail("type", f"a tile's elements: expected scalars or pointers, found {base}", at)
        return Tile(shape, base)

    def base_type(self, specifiers: ast.Specifiers, pointers: tuple[tuple[str, ...], ...]) -> Type:
        """The type that words and stars spell."""
        if isinstance(specifiers, ast.Enum):
            self.enumeration(specifiers)
        found = self.scopes.find(specifiers.type)
        if not isinstance(found, Typedef) and specifiers.type not in NAMED:
            # its typedef was an error
            self.fail("undefined", f"type {specifiers.type!r} is not defined", specifiers)
        base: Type = found.type if isinstance(found, Typedef) else NAMED[specifiers.type]
        if not pointers:
            return base
        if len(pointers) > 1 or isinstance(base, Pointer):
            self.fail("type", "pointers to pointers are not supported: expected a pointer to a scalar", specifiers)
        if isinstance(base, Tile):
            self.fail("type", f"pointers point at scalars: expected a scalar type, found {base}", specifiers)
        bank = any("__constant__" in words for words in (specifiers.qualifiers, *pointers))
        return Pointer(base, bank, "const" in specifiers.qualifiers)

    def enumeration(self, node: ast.Enum) -> None:
        """Declare the constants of an enumeration, once; without braces its tag must be known."""
        tag = f"enum {node.tag}"
        if node.enumerators is None:
            if self.scopes.find(tag) is None:
                self.fail("undefined", f"{tag!r} is not defined", node)
            return
        if node in self._enumerations:
            return
        self._enumerations.add(node)
        if node.tag:
            self.scopes.declare(tag, Typedef(INT, node.at), node.at)
        number = 0
        for item in node.enumerators:
            if item.value is not None:
                number = self.constant(item.value, f"constant {item.name!r}")
            if not -(1 << 31) <= number < 1 << 31:
                self.fail("constant", f"constant {item.name!r}: expected a value of type int, found {number}", item)
            self.scopes.declare(item.name, t.Const(item.at, INT, number), item.at)
            number += 1

    # leaves

    def _name(self, node: ast.Name) -> t.Expr:
        symbol = self.scopes.find(node.text)
        if isinstance(symbol, t.Variable):
            if not symbol.initialised:
                message = f"{node.text!r} is read before it has a value: it is 0 here"
                self.report.warning("uninitialised", message, node, [Note("declared here", symbol.at.span)])
                symbol.initialised = True
            symbol.read = True
            return t.Read(node.at, symbol.type, symbol)
        if isinstance(symbol, t.Const):
            return t.Const(node.at, symbol.type, symbol.value)
        if isinstance(symbol, t.FunctionDecl):
            self.fail("function-value", f"a function has no value: expected a call, {node.text}(...)", node)
        if node.text in self.builtin_names():
            self.fail("function-value", f"{node.text!r} is built in: expected a call, {node.text}(...)", node)
        return self.undefined(node)

    @abstractmethod
    def builtin_names(self) -> frozenset[str]:
        """The functions of the language."""

    def undefined(self, node: ast.Name, what: str = "") -> NoReturn:
        """Report a name that means nothing, and what it may have been meant to be."""
        name = node.text
        if name in CUDA_WORDS:
            self.fail("undefined", f"{name!r} is not defined{what}: {CUDA_WORDS[name]}", node)
        unused = {n for n in self.defines if _alike(name, n)}
        if name.isupper():
            message = f"{name!r} is not defined{what}: expected -D{name}=... or #define {name}"
            notes = [Note(f"-D{n} is given; did you mean -D{name}?") for n in sorted(unused)]
            self.fail("undefined", message, node, notes)
        near = self.scopes.near(name, self.builtin_names())
        hint = f"; did you mean {near!r}?" if near else ""
        fix = [FixIt(node.span, near)] if near else []
        self.fail("undefined", f"{name!r} is not defined{what}{hint}", node, None, fix)

    def _int(self, node: ast.Int) -> t.Expr:
        kind = {(32, True): INT, (32, False): UINT, (64, True): LONG, (64, False): ULONG}[node.bits, node.signed]
        return t.Const(node.at, kind, node.value)

    def _float(self, node: ast.Float) -> t.Expr:
        return t.Const(node.at, FLOAT, node.value, not node.suffix)

    def _string(self, node: ast.String) -> t.Expr:
        self.fail("string", "a string is only the first argument of printf, or the message of assert", node)

    def _init_list(self, node: ast.InitList) -> t.Expr:
        if len(node.items) != 1:
            message = f"an initialiser in braces: expected one value, found {len(node.items)}"
            self.fail("initialiser", message, node, [Note("tiles are initialised whole, as by 0 ... 32")])
        return self.value(node.items[0])

    def _sizeof(self, node: ast.SizeOf) -> t.Expr:
        inner = node.operand
        of = self.type_of(inner) if isinstance(inner, ast.TypeName) else self.value(inner).type
        elem = elem_of(of)
        if isinstance(elem, Void):
            self.fail("type", f"{node.op}: expected a type with a size, found {of}", node)
        size = 8 if isinstance(elem, Pointer) else elem.elem.bytes
        return t.Const(node.at, ULONG, size if node.op == "_Alignof" else size * elements(shape_of(of)))

    def _generic(self, node: ast.Generic) -> t.Expr:
        control = self.value(node.control).type
        default = None
        for to, value in node.choices:
            if to is None:
                default = value
            elif self.type_of(to) == control:
                return self.expr(value)
        if default is None:
            self.fail("generic", f"_Generic: expected a choice for {control}, found none", node)
        return self.expr(default)

    @contextmanager
    def guarded(self, temp: t.Variable | None, *, holds: bool) -> Generator[None]:
        """Memory is touched only where `temp` is (or is not) true."""
        if temp is not None:
            self.guards.append((temp, holds))
        try:
            yield
        finally:
            if temp is not None:
                self.guards.pop()

    _CHECKS: ClassVar[dict[type, Callable[[Any, Any], t.Expr]]]
    """What checks each kind of node: the table of `ExprChecker`."""


def _alike(a: str, b: str) -> bool:
    """Whether two macro names differ in one character."""
    return len(a) == len(b) and a != b and sum(x != y for x, y in zip(a, b, strict=True)) == 1


def read_of(variable: t.Variable, at: Token) -> t.Expr:
    """The value of a variable."""
    return t.Read(at, variable.type, variable)
