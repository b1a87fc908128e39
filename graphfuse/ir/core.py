"""Op declarations, ops, values, blocks, functions: immutable, compared by identity.

A pass never mutates; it builds a new `Func` (see `rewrite.py`). So there are no use-lists to keep in
step, no half-rewritten states to guard against, and "the IR before pass N" is simply a variable that
somebody still holds. Why: docs/adr/0001-one-immutable-ssa-core.md.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeGuard

from graphfuse.errors import Loc, VerifyError
from graphfuse.ir.dense import Dense
from graphfuse.ir.layout import LinearLayout
from graphfuse.ir.types import Scalar, Tensor, Tile, Type
from graphfuse.symbolic import Dim, Expr, symbols

Attr: TypeAlias = "bool | int | float | str | Expr | Scalar | Dense | LinearLayout | tuple[Attr, ...]"
TypeRule = Callable[..., "Type | tuple[Type, ...]"]


class Trait(enum.Enum):
    """What a pass may assume about an op without knowing which op it is."""

    PURE = enum.auto()
    """No effect but its results: may be removed when unread, merged when equal."""
    COMMUTATIVE = enum.auto()
    TERMINATOR = enum.auto()
    ELEMENTWISE = enum.auto()
    """Element i of the result depends on element i of each operand, and on nothing else."""
    MOVEMENT = enum.auto()
    """Each element of the result is a copy of one element of an operand, or a fill value."""
    ISOLATED = enum.auto()
    """Its bodies see their own parameters only, nothing of the enclosing scope."""

    __hash__ = object.__hash__  # by identity, as members are compared; an enum's own hashes its name each time


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class OpDef:
    """One kind of op. Call it to build an op; name it in a `case` to match one."""

    name: str
    infer: TypeRule
    takes: Takes
    traits: frozenset[Trait]

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], OpDef], tuple[str]]:
        """Another process has it in its own registry."""
        return _registered, (self.name,)

    @property
    def doc(self) -> str:
        """What the op means: the docstring of its type rule."""
        return inspect.getdoc(self.infer) or ""

    def __call__(
        self,
        *operands: Value | Op,
        hint: str = "",
        loc: Loc | None = None,
        bodies: tuple[Block, ...] = (),
        **attrs: Attr,
    ) -> Op:
        """Build an op, inferring its result types; an op as operand stands for its only result."""
        return self.build(operands, attrs, hint=hint, loc=loc, bodies=bodies)

    def build(
        self,
        operands: Sequence[Value | Op],
        attrs: Mapping[str, Attr],
        *,
        hint: str = "",
        loc: Loc | None = None,
        bodies: tuple[Block, ...] = (),
    ) -> Op:
        """Build an op from a mapping of attributes."""
        values = tuple(v.result if isinstance(v, Op) else v for v in operands)
        try:
            types = self.result_types(values, attrs, bodies)
        except VerifyError as e:
            raise e if e.loc else type(e)(f"{self.name}: {e.message}", loc) from None
        return Op(self, values, attrs, types, bodies, (hint,) * len(types) if hint else (), loc)

    def result_types(
        self, operands: tuple[Value, ...], attrs: Mapping[str, Attr], bodies: tuple[Block, ...] = ()
    ) -> tuple[Type, ...]:
        """Run the type rule: operand types positionally, attributes by keyword, bodies if it asks for them."""
        takes = self.takes
        if bodies and not takes.bodies:
            raise VerifyError("takes no body")
        for name, value in attrs.items():
            takes.check(name, value)
        extra = {"bodies": bodies} if takes.bodies else {}
        if not takes.least <= len(operands) <= takes.most or not takes.required <= attrs.keys():
            try:
                inspect.signature(self.infer).bind(*operands, **attrs, **extra)
            except TypeError as e:
                raise VerifyError(str(e).replace("keyword-only ", "")) from None  # as Python 3.12 says
        got = self.infer(*[v.type for v in operands], **attrs, **extra)
        types = got if isinstance(got, tuple) else (got,)
        for t in types:
            if isinstance(t, (Tensor, Tile)):
                for d in t.shape:
                    if isinstance(d, int) and d < 0:
                        raise VerifyError(f"result {t} has a negative dim")
        return types


@dataclass(frozen=True, slots=True)
class Takes:
    """What a type rule takes: how many operands, which attributes and of what types, and whether it asks for bodies."""

    least: int
    most: float
    attrs: Mapping[str, tuple[str, Callable[[Attr], bool]]]
    """Its annotation, and whether a value fits that."""
    required: frozenset[str]
    bodies: bool

    @staticmethod
    def of(infer: TypeRule) -> Takes:
        """From the rule's signature."""
        parameters = inspect.signature(infer).parameters
        places = [p for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        words = [p for p in parameters.values() if p.kind is p.KEYWORD_ONLY and p.name != "bodies"]
        any_number = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
        return Takes(
            least=sum(p.default is p.empty for p in places),
            most=float("inf") if any_number else len(places),
            attrs={p.name: (p.annotation, _fitting(p.annotation)) for p in words},
            required=frozenset(p.name for p in words if p.default is p.empty),
            bodies="bodies" in parameters,
        )

    def check(self, name: str, value: Attr) -> None:
        """Raise `VerifyError` for an attribute that there is none of, or that has another type."""
        if name not in self.attrs:
            raise VerifyError(f"there is no attribute {name!r}")
        annotation, fits = self.attrs[name]
        if not fits(value):
            raise VerifyError(f"attribute {name!r} must be {annotation}, got {value!r}")


def _fitting(annotation: str) -> Callable[[Attr], bool]:
    """Whether an attribute is of a type its parameter is annotated with (bool is not an int here)."""
    wanted = [w.strip() for w in annotation.split("|")]
    plain = frozenset(t for w in wanted if not w.startswith("tuple[") for t in _ATTR_TYPES[w])
    items = [_fitting(w.removeprefix("tuple[").removesuffix(", ...]")) for w in wanted if w.startswith("tuple[")]

    def fits(value: Attr) -> bool:
        if type(value) in plain:
            return True
        return isinstance(value, tuple) and any(all(map(item, value)) for item in items)

    return fits


_ATTR_TYPES: dict[str, tuple[type, ...]] = {
    "bool": (bool,), "int": (int,), "float": (int, float), "str": (str,), "Dim": (int, Expr), "Expr": (Expr,),
    "Scalar": (Scalar,), "Dense": (Dense,), "LinearLayout": (LinearLayout,), "None": (type(None),),
}  # fmt: skip


REGISTRY: dict[str, OpDef] = {}
"""Every op of every imported dialect, by the name it has in text."""


def _registered(name: str) -> OpDef:
    return REGISTRY[name]


def opdef(name: str, *traits: Trait) -> Callable[[TypeRule], OpDef]:
    """Declare an op. The decorated function is its type rule, and its docstring its documentation."""

    def declare(infer: TypeRule) -> OpDef:
        assert name not in REGISTRY, f"op {name!r} is declared twice"
        REGISTRY[name] = OpDef(name, infer, Takes.of(infer), frozenset(traits))
        return REGISTRY[name]

    return declare


@dataclass(frozen=True, eq=False, slots=True)
class Params:
    """What a block receives: function arguments, or a loop's induction and carried values."""

    types: tuple[Type, ...]
    hints: tuple[str, ...] = ()

    @property
    def values(self) -> tuple[Value, ...]:
        """The parameters."""
        return tuple(Value(self, i) for i in range(len(self.types)))


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Op:
    """One operation. Its operands come from ops earlier in this block or in an enclosing one."""

    kind: OpDef
    operands: tuple[Value, ...] = ()
    attrs: Mapping[str, Attr] = field(default_factory=dict[str, Attr])
    types: tuple[Type, ...] = ()
    bodies: tuple[Block, ...] = ()
    hints: tuple[str, ...] = ()
    loc: Loc | None = None

    def __repr__(self) -> str:
        return f"<{self.kind} at {self.loc or 'no location'}>"

    @property
    def results(self) -> tuple[Value, ...]:
        """What it computes, one value per type."""
        if len(self.types) == 1:
            return (Value(self, 0),)
        return tuple([Value(self, i) for i in range(len(self.types))])

    @property
    def result(self) -> Value:
        """The only result."""
        assert len(self.types) == 1, f"{self.kind} has {len(self.types)} results"
        return Value(self, 0)

    @property
    def body(self) -> Block:
        """The only body."""
        assert len(self.bodies) == 1, f"{self.kind} has {len(self.bodies)} bodies"
        return self.bodies[0]

    def has(self, trait: Trait) -> bool:
        """Whether this kind of op declares `trait`."""
        return trait in self.kind.traits


class Value:
    """Result `index` of `owner`. Equal means: the same result of the same op."""

    __slots__ = ("index", "owner")

    def __init__(self, owner: Op | Params, index: int = 0) -> None:
        self.owner = owner
        self.index = index

    __match_args__ = ("owner", "index")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and self.owner is other.owner and self.index == other.index

    def __hash__(self) -> int:
        return (id(self.owner) >> 4) + self.index  # objects lie 16 bytes apart or more

    def __repr__(self) -> str:
        return f"<value {self.index} of {self.owner!r}: {self.type}>"

    @property
    def type(self) -> Type:
        """What its owner says it is."""
        return self.owner.types[self.index]

    @property
    def hint(self) -> str:
        """The name it would like to have in text, or ""."""
        return self.owner.hints[self.index] if self.owner.hints else ""

    @property
    def op(self) -> Op | None:
        """The op that produces it, or None for a parameter."""
        return self.owner if isinstance(self.owner, Op) else None


@dataclass(frozen=True, eq=False, slots=True)
class Block:
    """Straight-line code; the last op is a terminator."""

    params: Params
    ops: tuple[Op, ...]

    @property
    def terminator(self) -> Op:
        """The last op, whose operands are what the block yields."""
        return self.ops[-1]


DimRanges = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Func:
    """A named block. What it returns is what its terminator names; `dims` declares its symbols' ranges."""

    name: str
    body: Block
    attrs: Mapping[str, Attr] = field(default_factory=dict[str, Attr])
    dims: DimRanges = ()

    def __repr__(self) -> str:
        return f"<func @{self.name}>"

    @property
    def ranges(self) -> dict[str, tuple[int, int]]:
        """Symbol name to inclusive bounds."""
        return {name: (lo, hi) for name, lo, hi in self.dims}

    @property
    def params(self) -> tuple[Value, ...]:
        """The arguments."""
        return self.body.params.values

    @property
    def outputs(self) -> tuple[Value, ...]:
        """What it returns."""
        return self.body.terminator.operands

    def walk(self) -> Iterator[Op]:
        """Every op, outermost first, in textual order."""
        yield from walk(self.body)


def walk(block: Block) -> Iterator[Op]:
    """Every op of a block and of the bodies inside it, outermost first."""
    stack = list(reversed(block.ops))
    while stack:
        op = stack.pop()
        yield op
        for body in reversed(op.bodies):
            stack.extend(reversed(body.ops))


class Builder:
    """Collects ops in order: `b(graph.add, x, y)` appends and returns the op's only result."""

    def __init__(self, loc: Loc | None = None) -> None:
        self.ops: list[Op] = []
        self.loc = loc

    def append(self, op: Op) -> Op:
        """Place an op that was built elsewhere."""
        self.ops.append(op)
        return op

    def op(
        self, kind: OpDef, /, *operands: Value | Op, hint: str = "", bodies: tuple[Block, ...] = (), **attrs: Attr
    ) -> Op:
        """Build and place an op."""
        return self.append(kind(*operands, hint=hint, loc=self.loc, bodies=bodies, **attrs))

    def __call__(
        self, kind: OpDef, /, *operands: Value | Op, hint: str = "", bodies: tuple[Block, ...] = (), **attrs: Attr
    ) -> Value:
        """Build and place an op with one result, and return that result."""
        return self.op(kind, *operands, hint=hint, bodies=bodies, **attrs).result

    def block(self, params: Params) -> Block:
        """What was collected, as a block."""
        return Block(params, tuple(self.ops))


def made_of(value: Value) -> Iterator[Value]:
    """A value, and all that it is computed from in its block: each once."""
    stack, seen = [value], {value}
    while stack:
        v = stack.pop()
        yield v
        found = [o for o in dict.fromkeys(v.op.operands if v.op is not None else ()) if o not in seen]
        seen.update(found)
        stack += found


def symbols_of(attr: Attr) -> frozenset[str]:
    """The symbols of an attribute's dims."""
    if isinstance(attr, tuple):
        return frozenset[str]().union(*map(symbols_of, attr))
    return symbols(attr) if isinstance(attr, Expr) else frozenset()


def defined_in(block: Block) -> set[Value]:
    """What a block's ops, and those of bodies in it, compute or are given."""
    out = set(block.params.values)
    for op in walk(block):
        out.update(op.results)
        for body in op.bodies:
            out.update(body.params.values)
    return out


def dims_of(attr: Attr) -> tuple[Dim, ...]:
    """An attribute that is a tuple of dims."""
    assert _are_dims(attr)
    return attr


def remade(op: Op, *operands: Value | Op, **changes: Attr) -> Op:
    """`op` on other operands, with some of its attributes changed."""
    return op.kind.build(operands, {**op.attrs, **changes}, loc=op.loc)


# typed views of attributes, whose types the type rule has checked


def attr_int(of: Op | Func, name: str, default: int | None = None) -> int:
    """An attribute that is an int, or the default it has when it is left out."""
    value = of.attrs.get(name, default)
    assert isinstance(value, int), f"{name} is a number"
    return value


def attr_number(op: Op, name: str, default: float = 0) -> bool | int | float:
    """An attribute that is a number, or the default it has when it is left out."""
    value = op.attrs.get(name, default)
    assert isinstance(value, bool | int | float)
    return value


def attr_scalar(op: Op, name: str, default: Scalar | None = None) -> Scalar:
    """An attribute that is an element, or the default it has when it is left out."""
    value = op.attrs.get(name, default)
    assert isinstance(value, Scalar), f"{name} is an element"
    return value


def attr_dim(of: Op | Func, name: str, default: Dim | None = None) -> Dim:
    """An attribute that is a dim, or the default it has when it is left out."""
    value = of.attrs.get(name, default)
    assert isinstance(value, int | Expr), f"{name} is a dim"
    return value


def attr_ints(of: Op | Func, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """An attribute that is a tuple of ints, or the default it has when it is left out."""
    value = of.attrs.get(name, default)
    assert _are_ints(value), f"{name} are numbers"
    return value


def attr_dims(op: Op, name: str) -> tuple[Dim, ...]:
    """An attribute that is a tuple of dims."""
    return dims_of(op.attrs[name])


def strs_of(value: Attr | None) -> tuple[str, ...] | None:
    """A tuple of texts, if it is one."""
    return value if _are_strs(value) else None


def attr_strs(of: Op | Func, name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """An attribute that is a tuple of texts, or the default it has when it is left out."""
    value = strs_of(of.attrs.get(name, default))
    assert value is not None, f"{name} are texts"
    return value


def tensor_of(value: Value) -> Tensor:
    """The type of a value that is a tensor."""
    assert isinstance(value.type, Tensor)
    return value.type


def tile_of(value: Value) -> Tile:
    """The type of a value that is a tile."""
    assert isinstance(value.type, Tile), f"{value} is not a tile"
    return value.type


def _are_ints(value: Attr | None) -> TypeGuard[tuple[int, ...]]:
    return isinstance(value, tuple) and all(isinstance(v, int) for v in value)


def _are_dims(value: Attr) -> TypeGuard[tuple[Dim, ...]]:
    return isinstance(value, tuple) and all(isinstance(v, int | Expr) for v in value)


def _are_strs(value: Attr | None) -> TypeGuard[tuple[str, ...]]:
    return isinstance(value, tuple) and all(isinstance(v, str) for v in value)
