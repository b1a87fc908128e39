"""Typed expressions to block ops. A pointer is a root, which is a parameter mostly, and an i64 offset in elements."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NoReturn

from graphfuse.dialects import block, effects, moves
from graphfuse.errors import Loc
from graphfuse.frontends.tc import typed as t
from graphfuse.frontends.tc.diagnostics import Reporter, StopError
from graphfuse.frontends.tc.philox import Random
from graphfuse.frontends.tc.sort_keys import SortKeys, sort_elements, sort_places
from graphfuse.frontends.tc.tokens import Token
from graphfuse.frontends.tc.types import Arith, Pointer, Type, Void, elem_of
from graphfuse.ir.core import Attr, Builder, Op, OpDef, Value
from graphfuse.ir.types import BOOL, I8, I32, I64, Scalar

MAX_DEPTH = 300
"""Of typed nodes inside one another, with calls inlined: they are lowered by recursion."""
MAX_OPS = 50_000
"""Ops of a kernel; calls are inlined, so that a short source may ask for many."""

_INFIX = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "%": "truncmod", "&": "and", "|": "or", "^": "xor", "<<": "shl",
    ">>": "shr", "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge",
}  # fmt: skip
_NO_WRAP = frozenset(("+", "-", "*"))


@dataclass(frozen=True, slots=True)
class PointerValue:
    """Elements `offset` of the array at `root`: a scalar, a tile, or None for 0, however often."""

    root: Value
    offset: Value | None = None


Lowered = Value | PointerValue


class ExprLowering(ABC):
    """Lowers expressions into `code`; `env` holds the variables' values."""

    def __init__(self, report: Reporter) -> None:
        self.report = report
        self.env: dict[t.Variable, Lowered] = {}
        self.code = Builder()
        self.depth = 0
        self.hint = ""
        """The name that ops placed now would like to have in text: that of the variable they are the value of."""
        self._ops = 0
        self._locs: dict[int, Loc] = {}

    # ops

    def emit(self, kind: OpDef, /, *operands: Value, at: Token, **attrs: Attr) -> Value:
        """Place an op with one result."""
        return self.emit_op(kind, *operands, at=at, **attrs).result

    def emit_op(self, kind: OpDef, /, *operands: Value, at: Token, **attrs: Attr) -> Op:
        """Place an op."""
        self._ops += 1
        if self._ops > MAX_OPS:
            self.report.error("too-large", f"the kernel has more than {MAX_OPS} operations, calls inlined", at)
            raise StopError
        return self.code.append(kind.build(operands, attrs, hint=self.hint, loc=self.loc(at)))

    def loc(self, at: Token) -> Loc:
        """Where in the source an op comes from."""
        token = at.outermost
        found = self._locs.get(id(token))
        if found is None:
            found = self._locs[id(token)] = token.source.loc(token.pos)
        return found

    def unsupported(self, message: str, at: Token) -> NoReturn:
        """Report what cannot be compiled."""
        self.report.error("unsupported", message, at)
        raise StopError

    def const(self, value: float, elem: Scalar, shape: tuple[int, ...], at: Token, hint: str = "") -> Value:
        """A number, or a tile of it."""
        literal = bool(value) if elem == BOOL else value
        outer, self.hint = self.hint, hint
        sized: dict[str, Attr] = {"shape": shape} if shape else {}
        out = self.emit(block.const, at=at, value=literal, elem=elem, **sized)
        self.hint = outer
        return out

    # expressions

    def expr(self, x: t.Expr, hint: str = "") -> Lowered:
        """Lower any expression; a void one gives a value that nobody reads. Its own ops are named `hint` in text."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.unsupported("the code is nested too deeply, calls inlined", x.at)
        outer, self.hint = self.hint, hint
        out = self._LOWER[type(x)](self, x)
        self.hint = outer
        self.depth -= 1
        return out

    def value(self, x: t.Expr) -> Value:
        """Lower a number or a tile of numbers."""
        out = self.expr(x)
        assert isinstance(out, Value), "a number"
        return out

    def pointer(self, x: t.Expr) -> PointerValue:
        """Lower a pointer or a tile of pointers."""
        out = self.expr(x)
        assert isinstance(out, PointerValue), "a pointer"
        return out

    def offset_of(self, p: PointerValue, shape: tuple[int, ...], at: Token) -> Value:
        """The offset of a pointer as a value."""
        return self.const(0, I64, shape, at) if p.offset is None else p.offset

    def _const(self, x: t.Const) -> Lowered:
        if isinstance(x.type, Void):
            return self.const(0, I32, (), x.at)
        return self.const(x.value, scalar_of(x.type), (), x.at, self.hint)

    def _read(self, x: t.Read) -> Lowered:
        return self.current(x.variable, x.at)

    def current(self, variable: t.Variable, at: Token) -> Lowered:
        """The value of a variable here; of one that was never set 0."""
        found = self.env.get(variable)
        if found is not None:
            return found
        elem = variable.elem
        if not isinstance(elem, Arith):
            self.unsupported(f"pointer {variable.name!r} is read before it is set", at)
        return self.const(0, elem.elem, variable.shape, at)

    def _let(self, x: t.Let) -> Lowered:
        self.env[x.variable] = self.expr(x.value, x.variable.name)
        return self.expr(x.body, self.hint)

    def _sequence(self, x: t.Sequence) -> Lowered:
        self.expr(x.first)
        return self.expr(x.second, self.hint)

    def _assign(self, x: t.Assign) -> Lowered:
        out = self.env[x.variable] = self.expr(x.value, x.variable.name)
        return out

    def _convert(self, x: t.Convert) -> Lowered:
        if isinstance(x.x.elem, Pointer):
            p = self.pointer(x.x)
            at = self.emit(block.address, self._plain(p, x.at), at=x.at)
            return self.emit(block.ELEMENTWISE["ne"], at, self.const(0, I64, (), x.at), at=x.at)
        return self.emit(block.cast, self.value(x.x), at=x.at, to=scalar_of(x.type))

    def _plain(self, p: PointerValue, at: Token) -> Value:
        """A scalar pointer as one value."""
        return p.root if p.offset is None else self.emit(block.offset, p.root, p.offset, at=at)

    def _bitcast(self, x: t.Bitcast) -> Lowered:
        return self.emit(block.bitcast, self.value(x.x), at=x.at, to=scalar_of(x.type))

    def _pointer_cast(self, x: t.PointerCast) -> Lowered:
        p = self.pointer(x.x)
        old, new = pointee(x.x.type), pointee(x.type)
        if old == new:
            return p
        root = p.root
        offset = p.offset
        if offset is not None and old.bytes % new.bytes:
            if x.shape:
                message = f"tiles of pointers to {old} cannot be cast to wider {new}: cast the pointer they are made of"
                self.unsupported(message, x.at)
            root, offset = self._plain(p, x.at), None
        root = self.emit(block.pointer_cast, root, at=x.at, to=new)
        if offset is not None and old.bytes != new.bytes:
            times = self.const(old.bytes // new.bytes, I64, x.shape, x.at)
            offset = self.emit(block.mul, offset, times, at=x.at, nsw=True)
        return PointerValue(root, offset)

    # shapes

    def _shaped(self, x: t.Moved) -> Lowered:
        inner = x.x
        if isinstance(x, t.Splat) and isinstance(inner, t.Const):
            return self.const(inner.value, scalar_of(inner.type), x.shape, x.at, self.hint)
        out = self.expr(inner)
        if isinstance(out, PointerValue):
            return out if out.offset is None else PointerValue(out.root, self.reshaped(out.offset, x))
        return self.reshaped(out, x)

    def reshaped(self, value: Value, x: t.Moved) -> Value:
        """Do to a value what a node does to its operand's shape."""
        shape = x.shape
        match x:
            case t.Splat():
                return self.emit(block.splat, value, at=x.at, shape=shape)
            case t.Broadcast():
                return self.emit(block.broadcast, value, at=x.at, shape=shape)
            case t.Transpose():
                return self.emit(block.trans, value, at=x.at, perm=x.perm)
            case t.Take():
                count = shape[x.axis]
                return self.emit(moves.take, value, at=x.at, axis=x.axis, start=x.start, count=count, step=x.step)
            case t.Reshape() if shape:
                return self.emit(block.reshape, value, at=x.at, shape=shape)
            case _:
                # of a tile of one element that element
                kind = "any" if block.elem_of(value.type) == BOOL else "max"
                for axis in reversed(range(len(x.x.shape))):
                    value = self.emit(block.reduce, value, at=x.at, axis=axis, kind=kind)
                return value

    # arithmetic

    def _unary(self, x: t.Unary) -> Lowered:
        return self.emit(block.ELEMENTWISE["neg" if x.op == "-" else "not"], self.value(x.x), at=x.at)

    def _binary(self, x: t.Binary) -> Lowered:
        # chains that group to the left, as in the checker
        chain: list[t.Binary] = []
        first: t.Expr = x
        while isinstance(first, t.Binary) and not isinstance(first.left.elem, Pointer):
            chain.append(first)
            first = first.left
        if not chain:
            distance, zero = self._distance(x.left, x.right, x.at), self.const(0, I64, x.left.shape, x.at)
            return self.emit(block.ELEMENTWISE[_INFIX[x.op]], distance, zero, at=x.at)
        left = self.value(first)
        # the name is that of the last link
        hint, self.hint = self.hint, ""
        for link in chain[:0:-1]:
            left = self._infix(link, left)
        self.hint = hint
        return self._infix(chain[0], left)

    def _infix(self, x: t.Binary, left: Value) -> Value:
        elem = x.left.elem
        assert isinstance(elem, Arith)
        if x.op == "+" and isinstance(x.right, t.Dot):
            return self.dot(x.right, left)
        if x.op == "+" and isinstance(x.right, t.Accumulate) and x.right.acc is None:
            return self.dot(x.right, left, x.right.precision)
        right = self.value(x.right)
        name = _INFIX[x.op]
        if x.op == "/" and not elem.is_float:
            name = "truncdiv"
        if x.op in _NO_WRAP and elem.kind == "int" and elem.signed:
            return self.emit(block.ELEMENTWISE[name], left, right, at=x.at, nsw=True)
        return self.emit(block.ELEMENTWISE[name], left, right, at=x.at)

    def _distance(self, left: t.Expr, right: t.Expr, at: Token) -> Value:
        """How many elements one pointer is past another."""
        a, b = self.pointer(left), self.pointer(right)
        shape = left.shape
        out = self.emit(block.sub, self.offset_of(a, shape, at), self.offset_of(b, shape, at), at=at, nsw=True)
        if a.root == b.root:
            return out
        between = self.emit(block.pointer_diff, a.root, b.root, at=at)
        if shape:
            between = self.emit(block.splat, between, at=at, shape=shape)
        return self.emit(block.add, between, out, at=at, nsw=True)

    def _pointer_diff(self, x: t.PointerDiff) -> Lowered:
        return self._distance(x.left, x.right, x.at)

    def _function(self, x: t.Function) -> Lowered:
        kind = block.fma if x.name == "fma" else block.ELEMENTWISE[x.name]
        return self.emit(kind, *map(self.value, x.args), at=x.at)

    def _random(self, x: t.Random) -> Lowered:
        random = Random(partial(self.emit, at=x.at), x.shape)
        seed, offset = self.value(x.seed), self.value(x.offset)
        words = random.words(seed, offset, None if x.subsequence is None else self.value(x.subsequence))
        match x.kind:
            case "philox":
                return words[x.word]
            case "rand":
                return random.uniform(words[0])
            case _:
                return random.normal(words[0], words[1])

    def _pointer_add(self, x: t.PointerAdd) -> Lowered:
        p = self.pointer(x.pointer)
        hint = self.hint
        self.hint = hint if p.offset is None else ""
        by = self.wide(x.offset)
        self.hint = hint
        if p.offset is None:
            return PointerValue(p.root, by)
        return PointerValue(p.root, self.emit(block.add, p.offset, by, at=x.at, nsw=True))

    def wide(self, x: t.Expr) -> Value:
        """An integer as i64; it is widened before it is repeated."""
        if isinstance(x, t.Const):
            return self.const(x.value, I64, (), x.at)
        if isinstance(x, t.Splat) and isinstance(x.x, t.Const):
            return self.const(x.x.value, I64, x.shape, x.at)
        if isinstance(x, t.Splat | t.Broadcast | t.Reshape) and x.shape:
            return self.reshaped(self.wide(x.x), x)
        value = self.value(x)
        return value if scalar_of(x.type) == I64 else self.emit(block.cast, value, at=x.at, to=I64)

    # choices

    def _select(self, x: t.Select) -> Lowered:
        if isinstance(x.elem, Pointer):
            return self._select_pointers(x)
        merged = self._load_or_constant(x)
        if merged is not None:
            return merged
        return self.emit(block.select, self.value(x.condition), self.value(x.then), self.value(x.other), at=x.at)

    def _load_or_constant(self, x: t.Select) -> Value | None:
        """`mask ? *?(mask)p : constant` is one load."""
        then, other = x.then, x.other
        constant = other.x if isinstance(other, t.Splat) else other
        if not isinstance(then, t.Load) or then.mask is None or not isinstance(constant, t.Const):
            return None
        mask, condition = (m.x if isinstance(m, t.Splat) else m for m in (then.mask, x.condition))
        if not isinstance(mask, t.Read) or not isinstance(condition, t.Read) or mask.variable is not condition.variable:
            return None
        return self._loaded(then, constant.value)

    def _select_pointers(self, x: t.Select) -> Lowered:
        condition, a, b = self.value(x.condition), self.pointer(x.then), self.pointer(x.other)
        shape = x.shape
        root = a.root
        if a.root != b.root:
            uniform = x.condition.x if isinstance(x.condition, t.Splat) else None
            if shape and uniform is None:
                message = "a choice between pointers into two arrays: expected a scalar condition, found a tile"
                self.unsupported(message, x.at)
            scalar = condition if uniform is None else self.value(uniform)
            root = self.emit(block.select, scalar, a.root, b.root, at=x.at)
        if a.offset is None and b.offset is None:
            return PointerValue(root)
        offsets = (self.offset_of(a, shape, x.at), self.offset_of(b, shape, x.at))
        return PointerValue(root, self.emit(block.select, condition, *offsets, at=x.at))

    # tiles

    def _range(self, x: t.Range) -> Lowered:
        return self.emit(block.arange, at=x.at, start=x.lo, end=x.hi, elem=scalar_of(x.type))

    def _reduce(self, x: t.Reduce) -> Lowered:
        value = self.value(x.x)
        if x.kind.startswith("arg"):
            return self.emit(block.arg_reduce, value, at=x.at, axis=x.axis, kind=x.kind[3:], elem=I32)
        return self.emit(block.reduce, value, at=x.at, axis=x.axis, kind=x.kind)

    def _scan(self, x: t.Scan) -> Lowered:
        turned: dict[str, Attr] = {"reverse": True} if x.reverse else {}
        return self.emit(block.scan, self.value(x.x), at=x.at, axis=x.axis, kind=x.kind, **turned)

    def _cat(self, x: t.Cat) -> Lowered:
        return self.emit(moves.cat, self.value(x.left), self.value(x.right), at=x.at, axis=x.axis)

    def _gather(self, x: t.Gather) -> Lowered:
        return self.emit(moves.gather, self.value(x.x), self.value(x.index), at=x.at, axis=x.axis)

    def _histogram(self, x: t.Histogram) -> Lowered:
        return self.emit(moves.histogram, self.value(x.x), at=x.at, bins=x.shape[0])

    def _sort(self, x: t.Sort) -> Lowered:
        ordered = sort_places if x.places else sort_elements
        value, count = self.value(x.x), x.shape[x.axis]
        return ordered(SortKeys(self, value, x.at, descending=x.descending), x.axis, count)

    def _dot(self, x: t.Dot) -> Lowered:
        return self.dot(x, None)

    def _accumulate(self, x: t.Accumulate) -> Lowered:
        return self.dot(x, None if x.acc is None else self.value(x.acc), x.precision)

    def dot(self, x: t.Dot | t.Accumulate, acc: Value | None, precision: str = "ieee") -> Value:
        """acc + a @ b; batch dims stand behind the others in the language, and in front of them in block IR."""
        left, right = self.value(x.left), self.value(x.right)
        shape = x.shape
        rank = len(shape)
        to_front = (*range(2, rank), 0, 1)
        if rank > 2:
            left, right = (self.emit(block.trans, v, at=x.at, perm=to_front) for v in (left, right))
            acc = None if acc is None else self.emit(block.trans, acc, at=x.at, perm=to_front)
        if acc is None:
            acc = self.const(0, scalar_of(x.type), tuple(shape[p] for p in to_front), x.at)
        attrs: dict[str, Attr] = {} if precision == "ieee" else {"precision": precision}
        out = self.emit(block.dot, left, right, acc, at=x.at, **attrs)
        return out if rank == 2 else self.emit(block.trans, out, at=x.at, perm=(rank - 2, rank - 1, *range(rank - 2)))

    # memory

    def _access(self, pointer: t.Expr, mask: t.Expr | None, at: Token) -> tuple[Value, Value, tuple[Value, ...]]:
        p = self.pointer(pointer)
        masks = () if mask is None else (self.value(mask),)
        return p.root, self.offset_of(p, pointer.shape, at), masks

    def _load(self, x: t.Load) -> Lowered:
        loaded = self._loaded(x)
        if not isinstance(x.elem, Pointer):
            return loaded
        return PointerValue(self.emit(block.pointer_at, loaded, at=x.at, to=pointee(x.type)))

    def _loaded(self, x: t.Load, other: float = 0) -> Value:
        root, offset, masks = self._access(x.pointer, x.mask, x.at)
        attrs: dict[str, Attr] = {"cache": x.cache} if x.cache else {}
        if masks and not (other == 0 and math.copysign(1, other) > 0):
            attrs["other"] = other
        return self.emit(block.load, root, offset, *masks, at=x.at, **attrs)

    def _store(self, x: t.Store) -> Lowered:
        root, offset, masks = self._access(x.pointer, x.mask, x.at)
        value = self.value(x.value)
        attrs: dict[str, Attr] = {"cache": x.cache} if x.cache else {}
        self.emit_op(block.store, root, offset, value, *masks, at=x.at, **attrs)
        return value

    def _atomic(self, x: t.Atomic) -> Lowered:
        root, offset, masks = self._access(x.pointer, x.mask, x.at)
        values = tuple(map(self.value, x.values))
        attrs: dict[str, Attr] = {"order": x.order}
        if x.scope != "gpu":
            attrs["scope"] = x.scope
        if x.kind == "cas":
            return self.emit(effects.atomic_cas, root, offset, *values, *masks, at=x.at, **attrs)
        return self.emit(effects.atomic, root, offset, *values, *masks, at=x.at, kind=x.kind, **attrs)

    # the rest

    def _grid(self, x: t.Grid) -> Lowered:
        kind = block.program_id if x.kind == "program_id" else block.num_programs
        return self.emit(block.cast, self.emit(kind, at=x.at, axis=x.axis), at=x.at, to=I32)

    def _assume(self, x: t.Assume) -> Lowered:
        return self.emit(block.assume, self.value(x.x), at=x.at, multiple_of=x.multiple_of)

    @abstractmethod
    def call(self, x: t.Call) -> Lowered:
        """Inline a call."""

    def _effect(self, x: t.Barrier | t.Print | t.Assert) -> Lowered:
        match x:
            case t.Barrier():
                self.emit_op(effects.barrier, at=x.at)
            case t.Print():
                self.emit_op(effects.print_, *map(self.value, x.values), at=x.at, text=x.text)
            case t.Assert():
                self.emit_op(effects.assert_, self.value(x.condition), at=x.at, message=x.message)
        return self.const(0, I32, (), x.at)

    _LOWER: ClassVar[dict[type, Callable[[Any, Any], Lowered]]] = {
        t.Const: _const, t.Read: _read, t.Let: _let, t.Sequence: _sequence, t.Assign: _assign, t.Convert: _convert,
        t.Bitcast: _bitcast, t.PointerCast: _pointer_cast, t.Splat: _shaped, t.Broadcast: _shaped, t.Reshape: _shaped,
        t.Transpose: _shaped, t.Take: _shaped, t.Cat: _cat, t.Gather: _gather, t.Sort: _sort,
        t.Histogram: _histogram, t.Reduce: _reduce, t.Scan: _scan, t.Unary: _unary, t.Binary: _binary,
        t.Function: _function, t.PointerAdd: _pointer_add, t.PointerDiff: _pointer_diff, t.Select: _select,
        t.Range: _range, t.Dot: _dot, t.Accumulate: _accumulate, t.Load: _load,
        t.Store: _store, t.Atomic: _atomic, t.Grid: _grid, t.Assume: _assume, t.Call: lambda self, x: self.call(x),
        t.Barrier: _effect, t.Print: _effect, t.Assert: _effect, t.Random: _random,
    }  # fmt: skip


def scalar_of(of: Type) -> Scalar:
    """The block element of a type of numbers."""
    elem = elem_of(of)
    assert isinstance(elem, Arith), f"{of} has no numbers"
    return elem.elem


def pointee(of: Type) -> Scalar:
    """The block element that pointers of a type point at; void is bytes, a pointer an address."""
    elem = elem_of(of)
    assert isinstance(elem, Pointer), f"{of} is no pointer"
    if isinstance(elem.to, Pointer):
        return I64
    return elem.to.elem if isinstance(elem.to, Arith) else I8
