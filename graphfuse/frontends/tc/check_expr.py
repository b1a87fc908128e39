"""Types of expressions: the tree as written to the typed tree, with conversions, broadcasts and masks written out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, NoReturn

from graphfuse.frontends.tc import ast
from graphfuse.frontends.tc import typed as t
from graphfuse.frontends.tc.constants import COMPARISONS, compare, float_binary, int_binary, wrap
from graphfuse.frontends.tc.convert import (
    ConversionError,
    bitcast_const,
    broadcast,
    cast,
    const_as,
    converted,
    fill,
    reshape,
    to_elem,
)
from graphfuse.frontends.tc.cuda_words import CUDA_WORDS
from graphfuse.frontends.tc.diagnostics import FixIt, Located, Note, Reporter
from graphfuse.frontends.tc.reader import missing_semicolon
from graphfuse.frontends.tc.scope import Scopes, Typedef
from graphfuse.frontends.tc.tokens import Token
from graphfuse.frontends.tc.types import (
    BF16,
    BOOL,
    CHAR,
    FLOAT,
    FP8E4M3,
    FP8E5M2,
    HALF,
    INT,
    LONG,
    MAX_ELEMENTS,
    NAMED,
    UCHAR,
    UINT,
    ULONG,
    VOID,
    Arith,
    Pointer,
    ShapeError,
    Tile,
    Type,
    Void,
    broadcast_shapes,
    broadcasts_to,
    common,
    elem_of,
    elements,
    promoted,
    shape_of,
    with_shape,
)

MAX_DEPTH = 90
"""Nesting of expressions; chains of infix operators that group to the left do not count."""

SUBSCRIPT_WORDS = (":", "newaxis", "+", "max", "min", "argmax", "argmin")


class FaultError(Exception):
    """A reported error; the statement is given up."""


class ExprChecker(ABC):
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

    # operators

    def _unary(self, node: ast.Unary) -> t.Expr:
        match node.op:
            case "*":
                return self._load(node, node.operand, None)
            case "++" | "--":
                return self._step(node, node.operand, node.op[0], post=False)
            case "&":
                return self._address(node)
            case "^":
                return self._transpose(node)
            case "!":
                return self.negated(self.boolean(self.value(node.operand), node), node.at)
            case _:
                return self._sign(node)

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
        elem = elem_of(x.type)
        if not isinstance(elem, Arith):
            self.fail("operands", f"{what}: expected a number, found {x.type}", at)
        return elem

    def boolean(self, x: t.Expr, at: Located) -> t.Expr:
        """A condition: `x != 0`, element by element."""
        elem = elem_of(x.type)
        if isinstance(elem, Pointer) and not shape_of(x.type):
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
        what = "a tile" if shape_of(x.type) else "a variable"
        return self.fail(
            "address", f"operand of '&': expected something in memory, found {what}, which has no address", node
        )

    def _transpose(self, node: ast.Unary) -> t.Expr:
        x = self.value(node.operand)
        shape = shape_of(x.type)
        if len(shape) < 2:
            self.fail("operands", f"operand of '^': expected a tile of rank 2 or more, found {x.type}", node)
        rank = len(shape)
        return self.transposed(x, (*range(1, rank), 0), node.at)

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
        with self.conversions("broadcast", node):
            shape = broadcast_shapes(shape_of(left.type), shape_of(right.type))
        if isinstance(left, t.Const) and isinstance(right, t.Const):
            value = left.value and right.value if node.op == "&&" else left.value or right.value
            return t.Const(node.at, BOOL, int(bool(value)))
        if not _reads(right, temp):
            return self._logical(node, left, right, shape)
        return t.Let(
            node.at, with_shape(BOOL, shape), temp, left, self._logical(node, _read(temp, node.at), right, shape)
        )

    def _logical(self, node: ast.Binary, left: t.Expr, right: t.Expr, shape: tuple[int, ...]) -> t.Expr:
        out = with_shape(BOOL, shape)
        return t.Binary(node.at, out, node.op[0], broadcast(left, shape), broadcast(right, shape))

    def _range(self, node: ast.Binary) -> t.Expr:
        ends: list[t.Const] = []
        for side, inner in (("start", node.left), ("end", node.right)):
            x = self.value(inner)
            if not isinstance(elem_of(x.type), Arith) or (isinstance(x, t.Const) and not isinstance(x.value, int)):
                self.fail("range", f"{side} of '...': expected an integer, found {x.type}", inner)
            if not isinstance(x, t.Const):
                self.fail(
                    "range", f"{side} of '...': expected a constant expression, found a value of type {x.type}", inner
                )
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
            return self._dot(left, right, node)
        a, b = elem_of(left.type), elem_of(right.type)
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
        with self.conversions("broadcast", node, f"operands of {op!r} of types {left.type} and {right.type}: "):
            shape = broadcast_shapes(shape_of(left.type), shape_of(right.type))
        if op == "*" and shape_of(left.type) == shape and _is_one(right):
            return to_elem(left, elem)  # strides of 1 are written out
        if op == "*" and shape_of(right.type) == shape and _is_one(left):
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
        a, b = elem_of(left.type), elem_of(right.type)
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
        a, b = elem_of(left.type), elem_of(right.type)
        with self.conversions("broadcast", node, f"operands of {op!r} of types {left.type} and {right.type}: "):
            shape = broadcast_shapes(shape_of(left.type), shape_of(right.type))
        if op == "+" and isinstance(b, Pointer) and not isinstance(a, Pointer):
            left, right, a, b = right, left, b, a
        if op in ("+", "-") and isinstance(a, Pointer) and isinstance(b, Arith) and not b.is_float:
            if isinstance(a.to, Void):
                self.fail("operands", f"operand of {op!r}: expected a pointer to a scalar, found {left.type}", node)
            offset = to_elem(right, promoted(b))
            if op == "-":
                offset = self._negative(offset, node.at)
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
        elem = elem_of(x.type)
        assert isinstance(elem, Arith)
        x = x if elem.signed else to_elem(x, LONG)
        return t.Const(at, x.type, -x.value) if isinstance(x, t.Const) else t.Unary(at, x.type, "-", x)

    def _dot(self, left: t.Expr, right: t.Expr, node: ast.Expr) -> t.Expr:
        return t.Dot(node.at, self.product(left, right, node, "operands of '@'"), left, right)

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

    # choices

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

    def _ternary(self, node: ast.Ternary) -> t.Expr:
        value = self.value(node.condition)
        condition = self.boolean(value, node.condition)
        if isinstance(condition, t.Const):
            chosen = (node.then or node.condition) if condition.value else node.other
            return self.value(chosen)
        temp = t.Variable("", condition.type, node.at, initialised=True)
        bound = None
        if node.then is None:
            bound = t.Variable("", value.type, node.at, initialised=True)
            then: t.Expr = _read(bound, node.at)
            condition = self.boolean(_read(bound, node.at), node.condition)
        else:
            with self.guarded(temp, holds=True):
                then = self.value(node.then)
        with self.guarded(temp, holds=False):
            other = self.value(node.other)
        then, other = self.arms(then, other, node, "?:")
        with self.conversions("broadcast", node, "condition of '?:': "):
            shape = broadcast_shapes(shape_of(condition.type), shape_of(then.type))
        then, other = broadcast(then, shape), broadcast(other, shape)
        select = t.Select(node.at, then.type, broadcast(_read(temp, node.at), shape), then, other)
        out = t.Let(node.at, select.type, temp, condition, select)
        return out if bound is None else t.Let(node.at, select.type, bound, value, out)

    def arms(self, then: t.Expr, other: t.Expr, node: ast.Expr, op: str) -> tuple[t.Expr, t.Expr]:
        """Both arms of a choice as one type."""
        a, b = elem_of(then.type), elem_of(other.type)
        what = f"arms of {op!r} of types {then.type} and {other.type}: "
        with self.conversions("broadcast", node, what):
            shape = broadcast_shapes(shape_of(then.type), shape_of(other.type))
            if isinstance(a, Arith) and isinstance(b, Arith):
                elem = a if a == b else self.common(then, other)
                then, other = to_elem(then, elem), to_elem(other, elem)
            elif a != b:
                other = to_elem(other, a)
        return broadcast(then, shape), broadcast(other, shape)

    def mask(self, pointer: t.Expr, explicit: t.Expr | None, at: ast.Expr) -> t.Expr | None:
        """The mask of an access: what is written, and the conditions around it."""
        shape = shape_of(pointer.type)
        mask = explicit
        for temp, holds in self.guards:
            given = shape_of(temp.type)
            if not broadcasts_to(given, shape):
                if not shape:
                    guard: t.Expr = _read(temp, at.at)
                    guard = guard if holds else self.negated(guard, at.at)
                    for axis in reversed(range(len(given))):
                        guard = t.Reduce(at.at, with_shape(BOOL, given[:axis]), guard, axis, "any")
                else:
                    message = (
                        f"this access of shape {list(shape)} is not masked by the condition of shape {list(given)}"
                    )
                    self.report.warning("unmasked", message, at)
                    continue
            else:
                read: t.Expr = _read(temp, at.at)
                guard = broadcast(read if holds else self.negated(read, at.at), shape)
            mask = guard if mask is None else t.Binary(at.at, guard.type, "&", mask, guard)
        return mask

    # memory and assignment

    def _pointer(self, node: ast.Expr, op: str, at: Located) -> t.Expr:
        x = self.value(node)
        elem = elem_of(x.type)
        if not isinstance(elem, Pointer) or isinstance(elem.to, Void):
            self.fail("dereference", f"operand of {op!r}: expected a pointer, found {x.type}", at)
        return x

    def _explicit_mask(self, node: ast.Expr | None, pointer: t.Expr) -> t.Expr | None:
        if node is None:
            return None
        mask = self.value(node)
        if elem_of(mask.type) != BOOL:
            self.fail("mask", f"mask of '*?': expected bool, found {mask.type}", node)
        with self.conversions("mask", node, f"mask of '*?' for {pointer.type}: "):
            if not broadcasts_to(shape_of(mask.type), shape_of(pointer.type)):
                raise ShapeError(f"cannot broadcast {mask.type} to {list(shape_of(pointer.type))}")
        return broadcast(mask, shape_of(pointer.type))

    def _load(self, node: ast.Expr, operand: ast.Expr, mask: ast.Expr | None) -> t.Expr:
        op = "*" if mask is None else "*?"
        pointer = self._pointer(operand, op, node)
        return self.load(pointer, self._explicit_mask(mask, pointer), node)

    def load(self, pointer: t.Expr, mask: t.Expr | None, node: ast.Expr) -> t.Expr:
        """Read through checked pointers."""
        elem = elem_of(pointer.type)
        assert isinstance(elem, Pointer)
        assert isinstance(elem.to, Arith)
        return t.Load(node.at, with_shape(elem.to, shape_of(pointer.type)), pointer, self.mask(pointer, mask, node))

    def _masked(self, node: ast.MaskedDeref) -> t.Expr:
        return self._load(node, node.operand, node.mask)

    def _assign(self, node: ast.Assign) -> t.Expr:
        target = node.target
        if isinstance(target, ast.Name):
            variable = self._variable(target, node)
            if node.op:
                old = self.expr(target)
                value = self.binary(node.op, old, self.value(node.value), node)
            else:
                value = self.value(node.value)
            return self.assign(variable, value, node)
        if isinstance(target, ast.MaskedDeref):
            return self._store(node, target.operand, target.mask, "*?")
        if isinstance(target, ast.Unary) and target.op == "*":
            return self._store(node, target.operand, None, "*")
        return self._no_lvalue(target, node.at.text)

    def _no_lvalue(self, target: ast.Expr, op: str) -> NoReturn:
        found = "a value"
        if isinstance(target, ast.Subscript):
            found = "a part of a tile, which is assigned whole"
        elif isinstance(target, ast.Name):
            found = f"{target.text!r}, which is no variable"
        self.fail("lvalue", f"left operand of {op!r}: expected a variable or '*pointer', found {found}", target)

    def _variable(self, target: ast.Name, node: ast.Expr) -> t.Variable:
        symbol = self.scopes.find(target.text)
        if symbol is None and target.text not in self.builtin_names():
            self.undefined(target)
        if not isinstance(symbol, t.Variable):
            self._no_lvalue(target, node.at.text)
        if symbol.const:
            note = Note("declared here", symbol.at.span)
            self.fail("const", f"{target.text!r} is const: it cannot be assigned", target, [note])
        return symbol

    def assign(self, variable: t.Variable, value: t.Expr, node: ast.Expr) -> t.Expr:
        """Set a variable to a checked value; under a condition, only where it holds."""
        with self.conversions("assignment", node, f"{variable.name or 'result'}: "):
            value = converted(value, variable.type)
        for temp, holds in self.guards:
            if not broadcasts_to(shape_of(temp.type), shape_of(variable.type)):
                message = f"{variable.name!r} of type {variable.type} is assigned under a condition of type {temp.type}"
                self.fail("assignment", message, node)
            condition = broadcast(_read(temp, node.at), shape_of(variable.type))
            old = t.Read(node.at, variable.type, variable)
            arms = (value, old) if holds else (old, value)
            value = t.Select(node.at, variable.type, condition, *arms)
        variable.initialised = True
        if isinstance(elem_of(variable.type), Pointer):
            variable.sources.update(roots(value))
        return t.Assign(node.at, variable.type, variable, value)

    def _store(self, node: ast.Assign, operand: ast.Expr, mask_node: ast.Expr | None, op: str) -> t.Expr:
        pointer = self._pointer(operand, op, node.target)
        self.writable(pointer, operand)
        mask = self._explicit_mask(mask_node, pointer)
        if not node.op:
            return self.store(pointer, mask, self.value(node.value), node)
        temp = t.Variable("", pointer.type, node.at, initialised=True)
        again = _read(temp, node.at)
        mask_temp = None
        if mask is not None:
            mask_temp = t.Variable("", mask.type, node.at, initialised=True)
        mask_read = None if mask_temp is None else _read(mask_temp, node.at)
        value = self.binary(node.op, self.load(again, mask_read, node.target), self.value(node.value), node)
        store = self.store(again, mask_read, value, node)
        if mask_temp is not None and mask is not None:
            store = t.Let(node.at, store.type, mask_temp, mask, store)
        return t.Let(node.at, store.type, temp, pointer, store)

    def writable(self, pointer: t.Expr, node: ast.Expr) -> None:
        """Refuse stores to const memory; a promise of `__readonly` is dropped with a warning."""
        elem = elem_of(pointer.type)
        assert isinstance(elem, Pointer)
        if elem.const or elem.bank:
            what = "the constant bank" if elem.bank else "const memory"
            self.fail("const", f"store: expected a pointer to writable memory, found {pointer.type} into {what}", node)
        reached: set[t.Variable] = set()
        work = roots(pointer)
        while work:
            root = work.pop()
            if root in reached:
                continue
            reached.add(root)
            work += root.sources
            if "readonly" in root.attributes:
                message = f"{root.name!r} is __readonly, and stored through: the promise is dropped"
                self.report.warning("readonly", message, node, [Note("declared here", root.at.span)])
                root.attributes = {k: v for k, v in root.attributes.items() if k != "readonly"}

    def store(self, pointer: t.Expr, mask: t.Expr | None, value: t.Expr, node: ast.Expr) -> t.Expr:
        """Write through checked pointers."""
        elem = elem_of(pointer.type)
        assert isinstance(elem, Pointer)
        assert isinstance(elem.to, Arith)
        with self.conversions("assignment", node, f"store through {pointer.type}: "):
            value = converted(value, with_shape(elem.to, shape_of(pointer.type)))
        return t.Store(node.at, value.type, pointer, self.mask(pointer, mask, node), value)

    def effect(self, node: ast.Expr) -> t.Expr:
        """Check an expression whose value nobody reads."""
        if isinstance(node, ast.Postfix):
            return self._step(node, node.operand, node.op[0], post=False)
        return self.expr(node)

    def _postfix(self, node: ast.Postfix) -> t.Expr:
        return self._step(node, node.operand, node.op[0], post=True)

    def _step(self, node: ast.Unary | ast.Postfix, target: ast.Expr, op: str, *, post: bool) -> t.Expr:
        one = t.Const(node.at, INT, 1)
        if isinstance(target, ast.Name):
            variable = self._variable(target, node)
            old = self.expr(target)
            if not post:
                return self.assign(variable, self.binary(op, old, one, node), node)
            temp = t.Variable("", variable.type, node.at, initialised=True)
            assign = self.assign(variable, self.binary(op, _read(temp, node.at), one, node), node)
            body = t.Sequence(node.at, variable.type, assign, _read(temp, node.at))
            return t.Let(node.at, variable.type, temp, old, body)
        if not isinstance(target, ast.Unary) or target.op != "*":
            self._no_lvalue(target, node.op)
        pointer = self._pointer(target.operand, "*", target)
        self.writable(pointer, target)
        where = t.Variable("", pointer.type, node.at, initialised=True)
        old = self.load(_read(where, node.at), None, target)
        temp = t.Variable("", old.type, node.at, initialised=True)
        value = self.binary(op, _read(temp, node.at), one, node)
        store = self.store(_read(where, node.at), None, value, node)
        body = t.Sequence(node.at, old.type, store, _read(temp, node.at)) if post else store
        return t.Let(node.at, old.type, where, pointer, t.Let(node.at, old.type, temp, old, body))

    # types

    def _cast(self, node: ast.Cast) -> t.Expr:
        to = self.type_of(node.to)
        x = self.expr(node.operand)
        if to == VOID and not node.bitcast:
            return t.Sequence(node.at, VOID, x, t.Const(node.at, VOID, 0))
        if isinstance(x.type, Void) or to == VOID:
            self.fail("void", f"cast: expected a value, found {x.type} as {to}", node)
        if not node.bitcast:
            with self.conversions("cast", node, f"cast of {x.type} to {to}: "):
                return cast(x, to)
        return self._bitcast(node, x, to)

    def _bitcast(self, node: ast.Cast, x: t.Expr, to: Type) -> t.Expr:
        old, new = elem_of(x.type), elem_of(to)
        if not isinstance(old, Arith) or not isinstance(new, Arith):
            self.fail("cast", f"bitcast: expected numbers, found {x.type} as {to}", node)
        if old.bits != new.bits:
            message = f"bitcast: expected types of one width, found {old} of {old.bits} bits and {new} of {new.bits}"
            self.fail("cast", message, node)
        if isinstance(x, t.Const) and (folded := bitcast_const(x, new)) is not None:
            x = folded
        else:
            x = t.Bitcast(node.at, with_shape(new, shape_of(x.type)), x)
        with self.conversions("cast", node, f"bitcast to {to}: "):
            return cast(x, to)

    # subscripts

    def _subscript(self, node: ast.Subscript) -> t.Expr:
        if isinstance(node.operand, ast.Name) and node.operand.text == "atomic_add":
            self.undefined(node.operand)
        x = self.value(node.operand)
        if not isinstance(x.type, Tile):
            notes = [Note("an element in memory is *(pointer + index)")] if isinstance(x.type, Pointer) else []
            self.fail("subscript", f"operand of '[]': expected a tile, found {x.type}", node, notes)
        for i, item in enumerate(node.items):
            if item.kind == "index":
                self._index_item(i, item)
        if any(item.kind == "^" for item in node.items):
            return self._permuted(x, node)
        consumed = sum(item.kind != "newaxis" for item in node.items)
        rank = len(x.type.shape)
        if consumed != rank:
            message = f"subscript: expected ':' or a reduction for each of {rank} axes of {x.type}, found {consumed}"
            self.fail("subscript", message, node)
        return self._reduced(x, node)

    def _index_item(self, i: int, item: ast.SubscriptItem) -> NoReturn:
        expected = f"subscript item {i}: expected ':', 'newaxis' or a reduction"
        inner = item.axis
        if isinstance(inner, ast.Name) and self.scopes.find(inner.text) is None:
            near = Scopes(self.report).near(inner.text, SUBSCRIPT_WORDS)
            if near:
                fix = [FixIt(inner.span, near)]
                self.fail("subscript", f"{expected}, found {inner.text!r}; did you mean {near!r}?", item, None, fix)
            if inner.text.isupper():
                self.undefined(inner, " (a subscript item)")
        self.fail("subscript", f"{expected}, found an index: parts of tiles cannot be taken", item)

    def _permuted(self, x: t.Expr, node: ast.Subscript) -> t.Expr:
        rank = len(shape_of(x.type))
        axes: list[int] = []
        for item in node.items:
            if item.kind != "^" or item.axis is None:
                self.fail("subscript", f"transposition: expected '^axis' for every axis, found {item.kind!r}", item)
            axis = self.constant(item.axis, "axis of '^'")
            if not 0 <= axis < rank:
                self.fail("subscript", f"axis of '^': expected 0 to {rank - 1}, found {axis}", item)
            axes.append(axis)
        if sorted(axes) != list(range(rank)):
            message = f"transposition: expected every axis of {x.type} once, found {axes}"
            self.fail("subscript", message, node)
        return self.transposed(x, tuple(axes), node.at)

    def _reduced(self, x: t.Expr, node: ast.Subscript) -> t.Expr:
        reductions = [(axis, item) for axis, item in enumerate(i for i in node.items if i.kind != "newaxis")
                      if item.kind != ":"]  # fmt: skip
        if len(reductions) > 1 and any(item.kind.startswith("arg") for _, item in reductions):
            self.fail("subscript", "argmax and argmin: expected no other reduction beside them", node)
        original = elem_of(x.type)
        for axis, item in reversed(reductions):
            x = self._reduce(x, axis, item)
        if reductions and not reductions[0][1].kind.startswith("arg") and original != BOOL:
            x = to_elem(x, original)
        shape: list[int] = []
        kept = iter(shape_of(x.type))
        shape += [next(kept) if i.kind == ":" else 1 for i in node.items if i.kind in (":", "newaxis")]
        return reshape(x, tuple(shape)) if shape_of(x.type) or shape == [] else fill(x, tuple(shape))

    def _reduce(self, x: t.Expr, axis: int, item: ast.SubscriptItem) -> t.Expr:
        elem = self.number(x, item, f"operand of reduction {item.kind!r}")
        if item.kind == "-":
            self.fail("subscript", "reduction by '-' depends on the order: expected '+', 'max' or 'min'", item)
        kind = {"+": "sum"}.get(item.kind, item.kind)
        if kind == "sum":
            # halves are summed in float
            elem = INT if elem == BOOL else FLOAT if elem.is_float and elem.bits < 32 else elem
            x = to_elem(x, elem)
        elif elem == BOOL:
            if kind.startswith("arg"):
                x, elem = to_elem(x, INT), INT
            else:
                kind = {"max": "any", "min": "all"}[kind]
        elif elem.is_float:
            if elem.bits == 8:
                x, elem = to_elem(x, FLOAT), FLOAT
            kind = {"max": "maxnum", "min": "minnum"}.get(kind, kind)
        shape = shape_of(x.type)
        out = INT if kind.startswith("arg") else elem
        return t.Reduce(item.at, with_shape(out, shape[:axis] + shape[axis + 1 :]), x, axis, kind)

    # calls

    @abstractmethod
    def call(self, node: ast.Call) -> t.Expr:
        """Check a call."""

    _CHECKS: ClassVar[dict[type, Callable[[Any, Any], t.Expr]]] = {
        ast.Name: _name, ast.Int: _int, ast.Float: _float,
        ast.String: _string, ast.Unary: _unary, ast.Postfix: _postfix,
        ast.MaskedDeref: _masked, ast.Binary: _binary, ast.Ternary: _ternary,
        ast.Assign: _assign, ast.Call: lambda self, node: self.call(node),
        ast.Subscript: _subscript, ast.Cast: _cast, ast.SizeOf: _sizeof,
        ast.Generic: _generic, ast.InitList: _init_list,
    }  # fmt: skip


DOT_RESULTS: dict[Arith, Arith] = {
    HALF: FLOAT, BF16: FLOAT, FP8E4M3: FLOAT, FP8E5M2: FLOAT, CHAR: INT, UCHAR: INT,
}  # fmt: skip
"""What products are summed in; other types keep their own."""


def roots(pointer: t.Expr) -> list[t.Variable]:
    """The variables whose memory a pointer may point into."""
    found: list[t.Variable] = []
    work: list[t.Expr] = [pointer]
    while work:
        match work.pop():
            case t.Read(variable=v):
                found.append(v)
            case t.PointerAdd(pointer=p):
                work.append(p)
            case t.Select(then=a, other=b):
                work += [a, b]
            case t.Let(body=x) | t.Sequence(second=x) | t.Assign(value=x):
                work.append(x)
            case t.Splat(x=x) | t.Broadcast(x=x) | t.Reshape(x=x) | t.Transpose(x=x) | t.PointerCast(x=x):
                work.append(x)
            case _:
                pass
    return found


def _read(variable: t.Variable, at: Token) -> t.Expr:
    return t.Read(at, variable.type, variable)


def _is_float(x: t.Const) -> bool:
    elem = elem_of(x.type)
    return isinstance(elem, Arith) and elem.is_float


def _is_one(x: t.Expr) -> bool:
    return isinstance(x, t.Const) and x.value == 1 and isinstance(x.value, int)


def _reads(x: t.Expr, variable: t.Variable) -> bool:
    work: list[Any] = [x]
    while work:
        node = work.pop()
        if isinstance(node, t.Read) and node.variable is variable:
            return True
        work += t.children(node)
    return False


def _alike(a: str, b: str) -> bool:
    """Whether two macro names differ in one character."""
    return len(a) == len(b) and a != b and sum(x != y for x, y in zip(a, b, strict=True)) == 1
