"""The typed tree: what a source means, with every conversion, broadcast, reshape and mask written out.

`check.py` makes it; `structure.py` takes jumps out of it; `lower.py` makes block IR of it. Immutable but for
variables, which are compared by identity.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# fields are walked by name

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from graphfuse.frontends.tc.tokens import Token
from graphfuse.frontends.tc.tree import Tree
from graphfuse.frontends.tc.types import Element, Type, Void, elem_of, shape_of

_serials = itertools.count()


class _Typed:
    """What has a type."""

    __slots__ = ()
    type: Type

    @property
    def elem(self) -> Element | Void:
        """The element of its type."""
        return elem_of(self.type)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its type; a scalar's is empty."""
        return shape_of(self.type)


@dataclass(slots=True, eq=False)
class Variable(_Typed):
    """A parameter, a local, or a temporary (no name)."""

    name: str
    type: Type
    at: Token
    attributes: Mapping[str, int] = field(default_factory=dict[str, int])
    const: bool = False
    known: int | float | None = None
    """The value of a constant that is known when the kernel is compiled."""
    initialised: bool = False
    read: bool = False
    sources: set[Variable] = field(default_factory=set["Variable"])
    """For a pointer: the variables it was made of."""
    pool_bytes: int = 0
    """The size of a constant pool."""
    serial: int = field(default_factory=lambda: next(_serials))
    """Grows from variable to variable: an order that does not depend on addresses."""


class Node(Tree, _Typed):
    """A value of a type; `at` is where an op made of it points."""

    at: Token
    type: Type


class Const(Node):
    """A number. A `weak` one is a floating literal without a suffix, which takes the type of what it meets."""

    value: int | float
    weak: bool = False


class Read(Node):
    """The value of a variable."""

    variable: Variable


class Let(Node):
    """`body` with a temporary bound to `value`."""

    variable: Variable
    value: Expr
    body: Expr


class Sequence(Node):
    """`first` for its effect, then the value of `second`."""

    first: Expr
    second: Expr


class Assign(Node):
    """Set a variable; gives what it was set to."""

    variable: Variable
    value: Expr


class OfValue(Node):
    """What is made of one value."""

    x: Expr


class Convert(OfValue):
    """Each element as a number of another type."""


class Bitcast(OfValue):
    """The bits of each element as another type."""


class PointerCast(OfValue):
    """The same addresses as pointers to another element."""


class Moved(OfValue):
    """The elements of a value in another shape, maybe several times."""


class Splat(Moved):
    """A tile of one scalar."""


class Broadcast(Moved):
    """Repeat along dims of 1."""


class Reshape(Moved):
    """The same elements in row-major order; a tile of one element as a scalar."""


class Transpose(Moved):
    """Result dim i is operand dim `perm[i]`."""

    perm: tuple[int, ...]


class Take(Moved):
    """Elements start, start + step, ... along an axis, as many as the type says."""

    axis: int
    start: int
    step: int = 1


class Cat(Node):
    """The elements of one tile along an axis, then those of another."""

    left: Expr
    right: Expr
    axis: int


class Gather(OfValue):
    """Elements by their places along an axis; 0 where there is no such place."""

    index: Expr
    axis: int


class Sort(OfValue):
    """The first along an axis in order, as many as the type says; their places if that is asked for."""

    axis: int
    descending: bool
    places: bool


class Histogram(OfValue):
    """How many elements are 0, 1, ..."""


class Reduce(OfValue):
    """Combine along an axis, which disappears; `argmax` and `argmin` give the index of the first extreme."""

    axis: int
    kind: str


class Scan(OfValue):
    """Each element combined with those before it along an axis, `reverse` with those after it."""

    axis: int
    kind: str
    reverse: bool


class Unary(Node):
    """`-` or `~` (on bool: not)."""

    op: str
    x: Expr


class Binary(Node):
    """An infix operator on operands of one type; comparisons give bool."""

    op: str
    left: Expr
    right: Expr


class Function(Node):
    """An elementwise function of the block dialect."""

    name: str
    args: tuple[Expr, ...]


class Random(Node):
    """Random numbers of a counter: `philox` gives one of four words, `rand` uniform and `randn` normal numbers."""

    kind: str
    word: int
    seed: Expr
    offset: Expr
    subsequence: Expr | None


class PointerAdd(Node):
    """A pointer some elements further on; the offset is an integer of the same shape."""

    pointer: Expr
    offset: Expr


class PointerDiff(Node):
    """How many elements one pointer is past another."""

    left: Expr
    right: Expr


class Select(Node):
    """Elementwise choice; the condition has the shape of the arms."""

    condition: Expr
    then: Expr
    other: Expr


class Range(Node):
    """The integers lo, lo + 1, ... hi - 1."""

    lo: int
    hi: int


class Dot(Node):
    """Matrix product of [M, K, batch...] and [K, N, batch...]."""

    left: Expr
    right: Expr


class Accumulate(Node):
    """`acc` (None: zeros) and a matrix product, summed in the result's type; `precision` as in the block dialect."""

    left: Expr
    right: Expr
    acc: Expr | None
    precision: str


class Load(Node):
    """What pointers point at; lanes outside the mask are not read and are 0. `cache` is a hint, or empty."""

    pointer: Expr
    mask: Expr | None
    cache: str


class Store(Node):
    """Write through pointers where the mask holds; gives the value. `cache` is a hint, or empty."""

    pointer: Expr
    mask: Expr | None
    value: Expr
    cache: str


class Atomic(Node):
    """A read-modify-write through pointers where the mask holds; gives what was there before. `cas` has two values."""

    kind: str
    pointer: Expr
    mask: Expr | None
    values: tuple[Expr, ...]
    order: str
    scope: str


class Grid(Node):
    """`program_id` or `num_programs` along an axis."""

    kind: str
    axis: int


class Assume(OfValue):
    """A value promised to be a multiple of a number."""

    multiple_of: int


class Call(Node):
    """A call of a function of the source."""

    function: FunctionDecl
    args: tuple[Expr, ...]


class Barrier(Node):
    """What this program stored before, it loads after."""


class Print(Node):
    """`printf`; in debug builds only."""

    text: str
    values: tuple[Expr, ...]


class Assert(Node):
    """`assert`; in debug builds only."""

    condition: Expr
    message: str


Expr: TypeAlias = (
    Const | Read | Let | Sequence | Assign | Convert | Bitcast | PointerCast | Splat | Broadcast | Reshape | Transpose
    | Take | Cat | Gather | Sort | Histogram | Reduce | Scan | Unary | Binary | Function | PointerAdd | PointerDiff
    | Select | Range | Dot | Accumulate | Load | Store | Atomic | Grid | Assume | Call | Barrier | Print | Assert
    | Random
)  # fmt: skip


# statements


class Statement(Tree):
    """A statement; `at` is where it begins."""

    at: Token


class Eval(Statement):
    """An expression for its effect."""

    expr: Expr


class Block(Statement):
    """Statements in order."""

    body: tuple[Stmt, ...]


class If(Statement):
    """A branch on a scalar bool."""

    condition: Expr
    then: Block
    other: Block


class Loop(Statement):
    """A loop; `step` runs after the body and after `continue`. With `body_first` the condition is tested after."""

    condition: Expr | None
    step: Expr | None
    body: Block
    body_first: bool = False


class Section(Tree):
    """What follows some labels of a switch; `default` is among them if `is_default`."""

    labels: tuple[int, ...]
    is_default: bool
    body: Block


class Switch(Statement):
    """Run the section whose label is the value, and those after it until a break."""

    value: Expr
    sections: tuple[Section, ...]


class Jump(Statement):
    """`break` or `continue`."""

    kind: str


class Return(Statement):
    """Leave the function, maybe with a value."""

    value: Expr | None


Stmt: TypeAlias = Eval | Block | If | Loop | Switch | Jump | Return


# statements without jumps: what `structure.py` makes of the others, and `lower.py` lowers


class Branch(Statement):
    """Run one of two bodies."""

    condition: Expr
    then: tuple[Flat, ...]
    other: tuple[Flat, ...]


class While(Statement):
    """Run the head; while the test holds then, run the body and start again."""

    head: tuple[Flat, ...]
    test: Expr
    body: tuple[Flat, ...]


class Count(Statement):
    """A loop whose trips are known when it begins: `variable` goes from its value by `step` while it is `op` bound."""

    variable: Variable
    op: str
    bound: Expr
    step: Expr
    down: bool
    body: tuple[Flat, ...]


Flat: TypeAlias = Eval | Branch | While | Count


@dataclass(slots=True, eq=False)
class FunctionDecl:
    """A function of the source; its body comes when it was checked."""

    name: str
    at: Token
    result: Type
    params: tuple[Variable, ...]
    is_kernel: bool
    body: Block | None = None
    called: bool = False
    is_constexpr: bool = False
    is_open: bool = False
    """Whether a parameter or the result is a tile of any shape: only instances are checked."""
    open_params: frozenset[int] = frozenset()


class Unit(Tree):
    """A checked file."""

    functions: tuple[FunctionDecl, ...]
    pools: tuple[Variable, ...]

    @property
    def kernels(self) -> tuple[FunctionDecl, ...]:
        """The functions that can be launched, in the order of the file."""
        return tuple(f for f in self.functions if f.is_kernel)


def children(node: Any) -> list[Any]:
    """The expressions and statements directly inside one."""
    out: list[Any] = []
    for name in _fields(type(node)):
        value: Any = getattr(node, name)
        if isinstance(value, _TREE):
            out.append(value)
        elif isinstance(value, tuple):
            out += [v for v in value if isinstance(v, _TREE)]
    return out


def walk(*roots: Any) -> Iterator[Any]:
    """Expressions and statements with all that is inside them; a node before its children."""
    work = list(roots[::-1])
    while work:
        node = work.pop()
        yield node
        work += reversed(children(node))


@functools.cache
def _fields(kind: Any) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(kind) if f.name not in ("at", "type"))


_TREE = (Node, Statement, Section)


def to_text(unit: Unit) -> str:
    """The typed tree as s-expressions: `(op:type operand ...)`, one statement a line."""
    names: dict[Variable, str] = {}
    lines = [f"pool {_name(v, names)} {v.pool_bytes}" for v in unit.pools]
    for f in unit.functions:
        params = ", ".join(f"{_name(v, names)}: {v.type}{_attributes(v)}" for v in f.params)
        lines.append(f"{'kernel' if f.is_kernel else 'function'} {f.name}({params}) -> {f.result}")
        if f.body is not None:
            lines += _statement_lines(f.body, 1, names)
    return "\n".join(lines) + "\n"


def _attributes(v: Variable) -> str:
    return "".join(f" {name}({n})" if n else f" {name}" for name, n in v.attributes.items())


def _name(v: Variable, names: dict[Variable, str]) -> str:
    if v not in names:
        taken = set(names.values())
        n = 0
        name = v.name or "t0"
        while name in taken:
            n += 1
            name = f"{v.name}.{n}" if v.name else f"t{n}"
        names[v] = name
    return names[v]


def _statement_lines(s: Any, depth: int, names: dict[Variable, str]) -> list[str]:
    pad = "  " * depth
    match s:
        case Block():
            return [line for inner in s.body for line in _statement_lines(inner, depth, names)]
        case Eval():
            return [pad + expr_text(s.expr, names)]
        case If():
            lines = [f"{pad}if {expr_text(s.condition, names)}", *_statement_lines(s.then, depth + 1, names)]
            other = _statement_lines(s.other, depth + 1, names)
            return [*lines, f"{pad}else", *other] if other else lines
        case Loop():
            condition = expr_text(s.condition, names) if s.condition else "true"
            head = "do" if s.body_first else "loop"
            lines = [f"{pad}{head} {condition}", *_statement_lines(s.body, depth + 1, names)]
            return [*lines, f"{pad}step {expr_text(s.step, names)}"] if s.step else lines
        case Switch():
            lines = [f"{pad}switch {expr_text(s.value, names)}"]
            for section in s.sections:
                labels = [*map(str, section.labels), *(["default"] if section.is_default else [])]
                lines += [f"{pad}case {', '.join(labels)}", *_statement_lines(section.body, depth + 1, names)]
            return lines
        case Jump():
            return [pad + s.kind]
        case _:
            return [f"{pad}return {expr_text(s.value, names)}" if s.value else f"{pad}return"]


def expr_text(expr: Expr, names: dict[Variable, str]) -> str:
    """One expression as text."""
    out: list[str] = []
    work: list[Any] = [expr]
    while work:
        item = work.pop()
        match item:
            case str():
                out.append(item)
            case Const():
                out.append(f"{item.value}:{item.type}{'~' if item.weak else ''}")
            case Read():
                out.append(_name(item.variable, names))
            case _:
                head = type(item).__name__.lower()
                parts: list[Any] = []
                for name in _fields(type(item)):
                    value: Any = getattr(item, name)
                    if name in ("op", "kind", "name") and isinstance(value, str):
                        head = value
                    else:
                        parts.append(value)
                out.append(f"({head}:{item.type}")
                work.append(")")
                for value in reversed(parts):
                    work += _part(value, names)
    return "".join(out)


def _part(value: Any, names: dict[Variable, str]) -> list[Any]:
    """A field of a node, in the order of a stack."""
    match value:
        case None:
            return [" _"]
        case Variable():
            return [f" {_name(value, names)}"]
        case FunctionDecl():
            return [f" {value.name}"]
        case tuple():
            items: tuple[Any, ...] = value
            if items and isinstance(items[0], int):
                return [f" {list(items)}"]
            return [part for v in reversed(items) for part in (v, " ")]
        case bool() | "":
            return [" True"] if value else []
        case int() | float() | str():
            return [f" {value!r}"]
        case _:
            return [value, " "]
