"""The tree of a source as it is written: immutable nodes with their tokens, printable as s-expressions.

Nothing here has a type yet; `check.py` makes the typed tree out of this one.
"""

# pyright: reportUnknownVariableType=false
# fields are printed by name

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

from graphfuse.frontends.tc.source import Span
from graphfuse.frontends.tc.tokens import Token
from graphfuse.frontends.tc.tree import Tree


class Node(Tree):
    """`at` is the token that names the node (an operator, a name); `first` to `last` is its extent."""

    at: Token
    first: Token
    last: Token

    @property
    def span(self) -> Span:
        """Where in the user's file: its extent, with the caret at its operator."""
        at, first, last = self.at.outermost, self.first.outermost, self.last.outermost
        if first.source is not at.source or last.source is not at.source or not first.pos <= at.pos <= last.end:
            return self.at.span
        return Span(at.source, first.pos, last.end, at.pos)

    @property
    def backtrace(self) -> tuple[tuple[str, Span], ...]:
        """The macros it came out of."""
        return self.at.backtrace


# expressions


class Name(Node):
    """An identifier."""

    text: str


class Int(Node):
    """An integer or a character constant."""

    value: int
    bits: int
    signed: bool


class Float(Node):
    """A floating-point constant; without a suffix it takes the type of what it meets."""

    value: float
    suffix: str


class String(Node):
    """Adjacent string constants, joined."""

    value: str


class Unary(Node):
    """`- + ~ ! ^ * & ++ --` in front of an operand."""

    op: str
    operand: Expr


class Postfix(Node):
    """`x++` or `x--`."""

    op: str
    operand: Expr


class MaskedDeref(Node):
    """`*?(mask) pointer`."""

    mask: Expr
    operand: Expr


class Binary(Node):
    """An infix operator, `...`, `@` and `,` among them."""

    op: str
    left: Expr
    right: Expr


class Ternary(Node):
    """`condition ? then : other`; without `then` it is the GNU `condition ?: other`."""

    condition: Expr
    then: Expr | None
    other: Expr


class Assign(Node):
    """`target = value`, or `op=` with `op` the infix operator."""

    op: str
    target: Expr
    value: Expr


class Call(Node):
    """A call."""

    function: Expr
    args: tuple[Expr, ...]


class Slice(Node):
    """`start:end`; an end that is not written is the axis's."""

    start: Expr | None
    end: Expr | None


class SubscriptItem(Node):
    """`:`, `newaxis`, a reduction, `^axis`, an index or a slice."""

    kind: str
    axis: Expr | Slice | None


class Subscript(Node):
    """`operand[items]`."""

    operand: Expr
    items: tuple[SubscriptItem, ...]


class Cast(Node):
    """`(type) operand`, or `bitcast<type>(operand)`."""

    to: TypeName
    operand: Expr
    bitcast: bool


class SizeOf(Node):
    """`sizeof` or `_Alignof`, of a type or an expression."""

    op: str
    operand: TypeName | Expr


class Generic(Node):
    """`_Generic(control, type: value, default: value)`; the default's type is None."""

    control: Expr
    choices: tuple[tuple[TypeName | None, Expr], ...]


class InitList(Node):
    """`{a, b}` as an initialiser."""

    items: tuple[Expr, ...]


Expr: TypeAlias = (
    Name | Int | Float | String | Unary | Postfix | MaskedDeref | Binary | Ternary | Assign | Call | Subscript | Cast
    | SizeOf | Generic | InitList
)  # fmt: skip


# declarations


class Specifiers(Node):
    """The words in front of declarators: storage, qualifiers, and the type they spell.

    It is a canonical name, a name that may be a typedef's, or "" after a syntax error.
    """

    storage: tuple[str, ...]
    qualifiers: tuple[str, ...]
    type: str


class Enumerator(Node):
    """`A` or `A = 3` of an enumeration."""

    name: str
    value: Expr | None


class Enum(Specifiers):
    """`enum tag { A, B = 3 }`: the tag may be "", and None stands for braces that are not there. The type is int."""

    tag: str
    enumerators: tuple[Enumerator, ...] | None


class Attribute(Node):
    """`__multipleof(8)` or `__attribute__((multipleof(8)))`."""

    name: str
    args: tuple[Expr, ...]


class TypeName(Node):
    """The type of a cast: words, stars, a shape."""

    specifiers: Specifiers
    pointers: tuple[tuple[str, ...], ...]
    shape: tuple[Expr, ...] | None


class Declarator(Node):
    """One declared name: its stars with their qualifiers, attributes, shape, initialiser."""

    name: str
    pointers: tuple[tuple[str, ...], ...]
    attributes: tuple[Attribute, ...]
    shape: tuple[Expr, ...] | None
    init: Expr | None


class Declaration(Node):
    """`int a[16], b;`, a typedef among them."""

    specifiers: Specifiers
    declarators: tuple[Declarator, ...]


class Failed(Node):
    """The names that a declaration with a syntax error was to declare."""

    names: tuple[Name, ...]


class StaticAssert(Node):
    """`_Static_assert(condition, "message")`."""

    condition: Expr
    message: str


class Parameter(Node):
    """A parameter of a function; a prototype may leave the name out ("")."""

    specifiers: Specifiers
    declarator: Declarator


class Function(Node):
    """A function; a prototype has no body."""

    result: TypeName
    name: str
    params: tuple[Parameter, ...]
    attributes: tuple[Attribute, ...]
    body: Block | None

    @property
    def is_global(self) -> bool:
        """Whether it says `__global__`."""
        return "__global__" in self.result.specifiers.storage


# statements


class Block(Node):
    """`{ ... }`."""

    body: tuple[Stmt, ...]


class ExprStmt(Node):
    """An expression for its effect; None is the empty statement."""

    expr: Expr | None


class If(Node):
    """`if (condition) then else other`."""

    condition: Expr
    then: Stmt
    other: Stmt | None


class For(Node):
    """`for (init; condition; step) body`."""

    init: Declaration | ExprStmt | Failed
    condition: Expr | None
    step: Expr | None
    body: Stmt


class While(Node):
    """`while (condition) body`, or `do body while (condition);`."""

    condition: Expr
    body: Stmt
    body_first: bool


class Switch(Node):
    """`switch (value) body`."""

    value: Expr
    body: Stmt


class Label(Node):
    """`case value:`, `default:` (no value), or `name:`, with what follows as a statement of its own."""

    kind: str
    value: Expr | None


class Jump(Node):
    """`break`, `continue`, `goto`, or `return` with its value."""

    kind: str
    value: Expr | None


Stmt: TypeAlias = "Block | ExprStmt | Declaration | Failed | StaticAssert | If | For | While | Switch | Label | Jump"


class Unit(Node):
    """A whole file."""

    body: tuple[Function | Declaration | Failed | StaticAssert, ...]


class _Raw(str):
    """Text of the printer itself, as against the text of a node."""

    __slots__ = ()


def to_text(node: Node) -> str:
    """The tree as an s-expression, one statement or declaration a line."""
    out: list[str] = []
    # a work list instead of recursion: trees may be deep
    work: list[tuple[Any, int]] = [(node, 0)]
    while work:
        item, depth = work.pop()
        gap = "" if not out or out[-1].endswith("[") else " "
        if isinstance(item, _Raw):
            out.append(item)
        elif isinstance(item, Node):
            own_line = isinstance(item, _LINES)
            out.append(f"\n{'  ' * depth}(" if own_line and out else f"{gap}(")
            out.append(type(item).__name__.lower())
            work.append((_Raw(")"), depth))
            fields = [getattr(item, f.name) for f in dataclasses.fields(item)[3:]]
            work += [(value, depth + own_line) for value in reversed(fields)]
        elif isinstance(item, tuple):
            entries: tuple[Any, ...] = item
            out.append(f"{gap}[")
            work.append((_Raw("]"), depth))
            work += [(entry, depth) for entry in reversed(entries)]
        else:
            out.append(f"{gap}{_atom(item)}")
    return "".join(out) + "\n"


def _atom(value: object) -> str:
    if value is None:
        return "_"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if value == "" or (isinstance(value, str) and " " in value) else str(value)


_LINES = (Function, Declaration, Failed, StaticAssert, Block, ExprStmt, If, For, While, Switch, Label, Jump)
