"""Checking begins: errors, the types that a source writes, names, literals, and operators without memory."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NoReturn

from graphfuse.frontends.tc import ast
from graphfuse.frontends.tc import typed as t
from graphfuse.frontends.tc.constants import COMPARISONS, compare, float_binary, int_binary, wrap
from graphfuse.frontends.tc.convert import broadcast, const_as, to_elem
from graphfuse.frontends.tc.cuda_words import CUDA_WORDS, OTHER_TYPES
from graphfuse.frontends.tc.diagnostics import FixIt, FixIts, Located, Note, Notes, Reporter
from graphfuse.frontends.tc.reader import QUALIFIERS, STORAGE, TYPE_WORDS, missing_semicolon
from graphfuse.frontends.tc.scope import FaultError, Scopes, Typedef
from graphfuse.frontends.tc.tokens import Token
from graphfuse.frontends.tc.types import (
    BOOL,
    DOT_RESULTS,
    FLOAT,
    INT,
    LONG,
    MAX_ELEMENTS,
    NAMED,
    UINT,
    ULONG,
    Arith,
    ConversionError,
    Pointer,
    Tile,
    Type,
    Void,
    broadcast_shapes,
    common,
    elem_of,
    elements,
    promoted,
    shape_of,
    with_shape,
)

MAX_DEPTH = 90
"""Nesting of expressions; chains of infix operators that group to the left do not count."""


_CONSTEXPR = "a constexpr function has a constant value where its arguments and the conditions of its ifs are constant"


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

    def fail(self, code: str, message: str, at: Located, notes: Notes = (), fixits: FixIts = ()) -> NoReturn:
        """Report an error and give the statement up."""
        self.report.error(code, message, at, notes, fixits)
        raise FaultError

    @contextmanager
    def conversions(self, code: str, at: Located, what: str = "") -> Generator[None]:
        """Report conversions and shapes that do not fit as errors at `at`."""
        try:
            yield
        except ConversionError as e:
            self.fail(code, f"{what}{e}", at)

    def joint_shape(self, at: Located, what: str, *values: t.Expr, code: str = "broadcast") -> tuple[int, ...]:
        """The shape that values are repeated to."""
        with self.conversions(code, at, what):
            return functools.reduce(broadcast_shapes, [x.shape for x in values], ())

    # expressions

    def expr(self, node: ast.Expr) -> t.Expr:
        """Check any expression; a void one is left to who asks."""
        self._depth += 1
        try:
            if self._depth > MAX_DEPTH:
                self.fail("too-deep", f"expression is nested deeper than {MAX_DEPTH}", node)
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
            callee = x.function if isinstance(x, t.Call) else None
            notes = [Note(_CONSTEXPR, callee.at.span)] if callee and callee.is_constexpr else []
            self.fail("constant", f"{what}: expected a constant integer expression, found {found}", node, notes)
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

    def type_of(self, specifiers: ast.Specifiers, node: ast.TypeName | ast.Declarator) -> Type:
        """The type that words spell with the stars and the shape of a cast or a declared name."""
        base = self.base_type(specifiers, node.pointers)
        if node.shape is None:
            return base
        if not isinstance(base, Arith | Pointer):
            self.fail("type", f"a tile's elements: expected scalars or pointers, found {base}", node)
        return Tile(self.shape(node.shape, node), base)

    def base_type(self, specifiers: ast.Specifiers, pointers: tuple[tuple[str, ...], ...]) -> Type:
        """The type that words and stars spell."""
        if isinstance(specifiers, ast.Enum):
            self.enumeration(specifiers)
        if not specifiers.type:
            raise FaultError  # a syntax error
        base = self._named_type(specifiers.type) or self._misspelt_type(specifiers)
        if pointers and isinstance(base, Tile):
            self.fail("type", f"pointers point at scalars: expected a scalar type, found {base}", specifiers)
        bank = any("__constant__" in words for words in (specifiers.qualifiers, *pointers))
        qualifiers = specifiers.qualifiers
        for words in pointers:
            assert not isinstance(base, Tile)
            if isinstance(base, Pointer) and (bank or isinstance(base.to, Pointer)):
                what = f"one to {base} in the constant bank" if bank else f"one to {base}"
                message = f"a pointer: expected one to numbers or to pointers to numbers, found {what}"
                self.fail("type", message, specifiers)
            base = Pointer(base, bank, "const" in qualifiers)
            qualifiers = words
        return base

    def _named_type(self, name: str) -> Type | None:
        found = self.scopes.find(name)
        return found.type if isinstance(found, Typedef) else NAMED.get(name)

    def _misspelt_type(self, node: ast.Specifiers) -> Type:
        """Report a type that is not defined. What follows is checked with the one that was probably meant."""
        near = OTHER_TYPES.get(node.type)
        near = near or self.scopes.near(node.type, (*NAMED, *TYPE_WORDS, *QUALIFIERS, *STORAGE), Typedef)
        self._report_undefined(f"type {node.type!r}", node.type, node.at, near)
        if near is None or (base := self._named_type(near)) is None:
            raise FaultError
        return base

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
        for i, item in enumerate(node.enumerators):
            if item.value is not None:
                try:
                    number = self.constant(item.value, f"constant {item.name!r}")
                except FaultError:
                    for other in node.enumerators[i:]:
                        self.scopes.fail(other.name, other.at)
                    raise
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
            if symbol.known is not None:
                return t.Const(node.at, symbol.type, symbol.known)
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
        near = self.scopes.near(node.text, self.builtin_names())
        self._report_undefined(repr(node.text), node.text, node.at, near, what)
        raise FaultError

    def _report_undefined(self, shown: str, name: str, at: Token, near: str | None, what: str = "") -> None:
        if name in CUDA_WORDS:
            self.report.error("undefined", f"{name!r} is not defined{what}: {CUDA_WORDS[name]}", at)
        elif name.isupper():
            message = f"{name!r} is not defined{what}: expected -D{name}=... or #define {name}"
            notes = [Note(f"-D{n} is given; did you mean -D{name}?") for n in sorted(self.defines) if _alike(name, n)]
            self.report.error("undefined", message, at, notes)
            self.scopes.fail_in_function(name, at)
        else:
            if near is None:
                self.scopes.fail_in_function(name, at)
            hint = f"; did you mean {near!r}?" if near else ""
            # what a macro made is not mended where its name stands
            fix = [FixIt(at.span, near)] if near and at.origin is None else []
            self.report.error("undefined", f"{shown} is not defined{what}{hint}", at, (), fix)

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
        of = self.type_of(inner.specifiers, inner) if isinstance(inner, ast.TypeName) else self.value(inner).type
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
            elif self.type_of(to.specifiers, to) == control:
                return self.expr(value)
        if default is None:
            self.fail("generic", f"_Generic: expected a choice for {control}, found none", node)
        return self.expr(default)

    # operators

    def _sign(self, node: ast.Unary) -> t.Expr:
        x = self.value(node.operand)
        elem = self.number(x, node.operand, f"operand of {node.op!r}")
        if isinstance(x, t.Const) and x.weak and node.op != "~":
            return t.Const(node.at, FLOAT, -x.value if node.op == "-" else x.value, weak=True)
        to = promoted(elem)
        if node.op == "~" and to.is_float:
            self.fail("operands", f"operand of '~': expected an integer, found {x.type}", node)
        x = to_elem(x, to)
        if node.op == "+":
            return x
        if isinstance(x, t.Const):
            value = -x.value if node.op == "-" else ~int(x.value)
            return t.Const(node.at, to, value if to.is_float else wrap(int(value), to.bits, signed=to.signed))
        return t.Unary(node.at, x.type, node.op, x)

    def number(self, x: t.Expr, at: Located, what: str) -> Arith:
        """The element of an operand of arithmetic."""
        elem = x.elem
        if not isinstance(elem, Arith):
            self.fail("operands", f"{what}: expected a number, found {x.type}", at)
        return elem

    def boolean(self, x: t.Expr, at: Located) -> t.Expr:
        """A condition: `x != 0`, element by element."""
        if isinstance(x.elem, Pointer) and not x.shape:
            return t.Convert(x.at, BOOL, x)
        self.number(x, at, "condition")
        return to_elem(x, BOOL)

    def negated(self, x: t.Expr, at: Token) -> t.Expr:
        """The opposite of a bool."""
        if isinstance(x, t.Const):
            return t.Const(at, BOOL, int(not x.value))
        return t.Unary(at, x.type, "~", x)

    def _address(self, node: ast.Unary) -> t.Expr:
        inner = node.operand
        if isinstance(inner, ast.Unary) and inner.op == "*":
            return self.value(inner.operand)
        x = self.value(inner)
        what = "a tile" if x.shape else "a variable"
        message = f"operand of '&': expected something in memory, found {what}, which has no address"
        return self.fail("address", message, node)

    def _transpose(self, node: ast.Unary) -> t.Expr:
        x = self.value(node.operand)
        shape = x.shape
        if len(shape) < 2:
            self.fail("operands", f"operand of '^': expected a tile of rank 2 or more, found {x.type}", node)
        return self.transposed(x, (*range(1, len(shape)), 0), node.at)

    def transposed(self, x: t.Expr, perm: tuple[int, ...], at: Token) -> t.Expr:
        """`x` with its dims permuted."""
        tile = x.type
        assert isinstance(tile, Tile)
        return t.Transpose(at, Tile(tuple(tile.shape[p] for p in perm), tile.elem), x, perm)

    def _binary(self, node: ast.Binary) -> t.Expr:
        # chains grow to the left; they are walked here, so that a long sum costs no recursion
        chain: list[ast.Binary] = []
        first: ast.Expr = node
        while isinstance(first, ast.Binary) and first.op not in ("&&", "||", ",", "..."):
            chain.append(first)
            first = first.left
        if not chain:
            return self._special(node)
        left = self.value(first)
        for link in reversed(chain):
            left = self.binary(link.op, left, self.value(link.right), link)
        return left

    def _special(self, node: ast.Binary) -> t.Expr:
        if node.op == "...":
            return self._range(node)
        if node.op == ",":
            first = self.expr(node.left)
            second = self.expr(node.right)
            return second if isinstance(first, t.Const) else t.Sequence(node.at, second.type, first, second)
        left = self.boolean(self.value(node.left), node.left)
        # like the arms of ?:, what follows && reads memory only where the left side lets it matter
        temp = t.Variable("", left.type, node.at, initialised=True)
        guard = not isinstance(left, t.Const)
        with self.guarded(temp if guard else None, holds=node.op == "&&"):
            right = self.boolean(self.value(node.right), node.right)
        shape = self.joint_shape(node, "", left, right)
        if isinstance(left, t.Const) and isinstance(right, t.Const):
            value = left.value and right.value if node.op == "&&" else left.value or right.value
            return t.Const(node.at, BOOL, int(bool(value)))
        is_read = any(isinstance(x, t.Read) and x.variable is temp for x in t.walk(right))
        first = read_of(temp, node.at) if is_read else left
        out = with_shape(BOOL, shape)
        both = t.Binary(node.at, out, node.op[0], broadcast(first, shape), broadcast(right, shape))
        return t.Let(node.at, out, temp, left, both) if is_read else both

    def _range(self, node: ast.Binary) -> t.Expr:
        ends: list[t.Const] = []
        for what, inner in (("start of '...'", node.left), ("end of '...'", node.right)):
            x = self.value(inner)
            if not isinstance(x.elem, Arith) or (isinstance(x, t.Const) and not isinstance(x.value, int)):
                self.fail("range", f"{what}: expected an integer, found {x.type}", inner)
            if not isinstance(x, t.Const):
                self.fail("range", f"{what}: expected a constant expression, found a value of type {x.type}", inner)
            ends.append(x)
        lo, hi = int(ends[0].value), int(ends[1].value)
        if hi <= lo:
            self.fail("range", f"range: expected an end above its start, found {lo} ... {hi}", node)
        count = hi - lo
        if count > MAX_ELEMENTS:
            self.fail("shape", f"a range's elements: expected at most {MAX_ELEMENTS}, found {count}", node)
        elem = promoted(self.number(ends[0], node, "range"))
        if not -(1 << 31) <= lo <= hi - 1 < 1 << 31:
            elem = LONG
        return t.Range(node.at, Tile((count,), elem), lo, hi)

    def binary(self, op: str, left: t.Expr, right: t.Expr, node: ast.Expr) -> t.Expr:
        """An infix operator on checked operands."""
        if op == "@":
            return t.Dot(node.at, self.product(left, right, node, "operands of '@'"), left, right)
        a, b = left.elem, right.elem
        if isinstance(a, Pointer) or isinstance(b, Pointer):
            return self._pointer_binary(op, left, right, node)
        assert isinstance(a, Arith)
        assert isinstance(b, Arith)
        elem = promoted(a) if op in ("<<", ">>") else self.common(left, right)
        if (elem.is_float and op in ("%", "&", "|", "^", "<<", ">>")) or (op in ("<<", ">>") and b.is_float):
            message = f"operands of {op!r}: expected integers, found {left.type} and {right.type}"
            self.fail("operands", message, node)
        if op in ("&", "|", "^") and a == b == BOOL:
            elem = BOOL
        if isinstance(left, t.Const) and isinstance(right, t.Const):
            return self._folded(op, left, right, elem, node)
        shape = self.joint_shape(node, f"operands of {op!r} of types {left.type} and {right.type}: ", left, right)
        if op == "*" and left.shape == shape and _is_one(right):
            return to_elem(left, elem)  # strides of 1 are written out
        if op == "*" and right.shape == shape and _is_one(left):
            return to_elem(right, elem)
        operands = [broadcast(to_elem(x, elem), shape) for x in (left, right)]
        self._check_constant_operand(op, right, elem, node)
        out = with_shape(BOOL if op in COMPARISONS else elem, shape)
        return t.Binary(node.at, out, op, *operands)

    def _check_constant_operand(self, op: str, right: t.Expr, elem: Arith, node: ast.Expr) -> None:
        if not isinstance(right, t.Const) or elem.is_float:
            return
        if op in ("/", "%") and right.value == 0:
            self.report.warning("division", f"operand of {op!r} is 0: the result is 0", node)
        if op in ("<<", ">>") and not 0 <= right.value < elem.bits:
            self.report.warning("shift", f"shift count: expected 0 to {elem.bits - 1}, found {right.value}", node)

    def common(self, left: t.Expr, right: t.Expr) -> Arith:
        """The type two operands get; a weak literal takes the floating type of the other."""
        a, b = left.elem, right.elem
        assert isinstance(a, Arith)
        assert isinstance(b, Arith)
        for x, other in ((left, b), (right, a)):
            if isinstance(x, t.Const) and x.weak and other.is_float:
                return promoted(other)
        return common(a, b)

    def _folded(self, op: str, left: t.Const, right: t.Const, elem: Arith, node: ast.Expr) -> t.Expr:
        weak = (left.weak or right.weak) and all(x.weak or not _is_float(x) for x in (left, right))
        if elem.is_float and op not in COMPARISONS and not weak and op == "/":
            # the quotient of floats is rounded to their type, which is left to the machine
            out = [to_elem(x, elem) for x in (left, right)]
            return t.Binary(node.at, elem, op, *out)
        a, b = const_as(left.value, elem), const_as(right.value, elem)
        if op in COMPARISONS:
            return t.Const(node.at, BOOL, int(compare(op, a, b)))
        if elem.is_float:
            return t.Const(node.at, elem, float_binary(op, float(a), float(b)), weak)
        if op in ("<<", ">>"):
            b = int(right.value)
        value = int_binary(op, int(a), int(b), elem.bits, signed=elem.signed)
        if isinstance(value, str):
            self.report.warning("division" if op in "/%" else "shift", value, node)
            value = 0
        return t.Const(node.at, elem, value)

    def _pointer_binary(self, op: str, left: t.Expr, right: t.Expr, node: ast.Expr) -> t.Expr:
        a, b = left.elem, right.elem
        shape = self.joint_shape(node, f"operands of {op!r} of types {left.type} and {right.type}: ", left, right)
        if op == "+" and isinstance(b, Pointer) and not isinstance(a, Pointer):
            left, right, a, b = right, left, b, a
        if op in ("+", "-") and isinstance(a, Pointer) and isinstance(b, Arith) and not b.is_float:
            if isinstance(a.to, Void):
                self.fail("operands", f"operand of {op!r}: expected a pointer to a scalar, found {left.type}", node)
            offset = to_elem(right, promoted(b))
            offset = self._negative(offset, node.at) if op == "-" else offset
            return t.PointerAdd(node.at, with_shape(a, shape), broadcast(left, shape), broadcast(offset, shape))
        if isinstance(a, Pointer) and isinstance(b, Pointer) and a.to == b.to:
            operands = (broadcast(left, shape), broadcast(right, shape))
            if op == "-":
                return t.PointerDiff(node.at, with_shape(LONG, shape), *operands)
            if op in COMPARISONS:
                return t.Binary(node.at, with_shape(BOOL, shape), op, *operands)
        if op in ("==", "!=") and not shape:
            null, pointer = (left, right) if isinstance(b, Pointer) else (right, left)
            if isinstance(null, t.Const) and null.value == 0 and isinstance(null.value, int):
                some = self.boolean(pointer, node)
                return some if op == "!=" else self.negated(some, node.at)
        if op == "*" and node.at.outermost.bol and isinstance(node, ast.Binary):
            # a line that begins with a store, after one that lacks its semicolon
            missing_semicolon(self.report, node.left.last, "the statement", node.at)
            raise FaultError
        return self.fail("operands", f"operands of {op!r}: expected numbers, found {left.type} and {right.type}", node)

    def _negative(self, x: t.Expr, at: Token) -> t.Expr:
        """-x as an offset; what has no sign is widened first."""
        elem = x.elem
        assert isinstance(elem, Arith)
        x = x if elem.signed else to_elem(x, LONG)
        return t.Const(at, x.type, -x.value) if isinstance(x, t.Const) else t.Unary(at, x.type, "-", x)

    def function_named(self, node: ast.Expr) -> t.FunctionDecl | None:
        """The function of the source that a name is."""
        found = self.scopes.find(node.text) if isinstance(node, ast.Name) else None
        return found if isinstance(found, t.FunctionDecl) else None

    @abstractmethod
    def apply(self, function: t.FunctionDecl, args: Sequence[t.Expr], node: ast.Expr) -> t.Expr:
        """A call of a function of the source with checked arguments."""

    def product(self, left: t.Expr, right: t.Expr, node: ast.Expr, what: str) -> Tile:
        """The type of a matrix product."""
        a, b = left.type, right.type
        if not isinstance(a, Tile) or not isinstance(b, Tile):
            self.fail("dot", f"{what}: expected tiles, found {a} and {b}", node)
        if len(a.shape) != len(b.shape) or len(a.shape) < 2:
            self.fail("dot", f"{what}: expected one rank, 2 or more, found {a} and {b}", node)
        if a.shape[1] != b.shape[0]:
            message = f"{what}: expected equal inner dims, found {a.shape[1]} and {b.shape[0]} of {a} and {b}"
            self.fail("dot", message, node)
        if a.shape[2:] != b.shape[2:]:
            message = f"{what}: expected equal batch dims, found {list(a.shape[2:])} and {list(b.shape[2:])}"
            self.fail("dot", message, node)
        if a.elem != b.elem or not isinstance(a.elem, Arith):
            self.fail("dot", f"{what}: expected one type of numbers, found {a.elem} and {b.elem}", node)
        if a.elem == BOOL:
            self.fail("dot", f"{what}: expected numbers, found {a} and {b}", node)
        return Tile((a.shape[0], b.shape[1], *a.shape[2:]), DOT_RESULTS.get(a.elem, a.elem))

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


def _is_float(x: t.Const) -> bool:
    elem = x.elem
    return isinstance(elem, Arith) and elem.is_float


def _is_one(x: t.Expr) -> bool:
    return isinstance(x, t.Const) and x.value == 1 and isinstance(x.value, int)


def _alike(a: str, b: str) -> bool:
    """Whether two macro names differ in one character."""
    return len(a) == len(b) and a != b and sum(x != y for x, y in zip(a, b, strict=True)) == 1


def read_of(variable: t.Variable, at: Token) -> t.Expr:
    """The value of a variable."""
    return t.Read(at, variable.type, variable)


def bound(value: t.Expr, at: Token, use: Callable[[t.Expr], t.Expr]) -> t.Expr:
    """What `use` makes of a value that is computed once, and kept in a temporary."""
    temp = t.Variable("", value.type, at, initialised=True)
    out = use(read_of(temp, at))
    return t.Let(at, out.type, temp, value, out)
