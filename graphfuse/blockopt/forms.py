"""Integers as sums: a number, and for a tile what is added per step along each dim.

    %r = arange(0, 64); %o = add(splat(mul(%p, 64)), %r)        base 64*p, strides (1)

Arithmetic in less than 64 bits counts only where it is promised not to wrap (`nsw`): then it means the integers.
"""

# `gpu.transforms.hopper.affine.Scalars` reads polynomials too, and is not a client of this: it runs behind
# `find_views`, where only i64 arithmetic and `block.index` are left, and all it adds is about launches. Its leaves are
# named by who asks (a digit of the program's number, a counter with an end), carry divisors for the alignment of boxes,
# and tell what differs between programs from what is the same for a launch. What both do is `substitute`, a few lines.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graphfuse.dialects import block, control
from graphfuse.ir.core import Builder, Func, Op, OpDef, Value, attr_dim, attr_int, attr_ints, attr_strs, tile_of
from graphfuse.ir.remake import Copier
from graphfuse.ir.types import I64, Scalar, Tile
from graphfuse.symbolic import INF, Dim, bounds, floordiv, maximum, minimum, mod, substitute, sym, symbols

_FUNCTIONS: dict[OpDef, Callable[[Dim, Dim], Dim]] = {
    block.min_: minimum,
    block.max_: maximum,
    **{block.ELEMENTWISE[n]: floordiv for n in ("floordiv", "truncdiv")},
    **{block.ELEMENTWISE[n]: mod for n in ("floormod", "truncmod")},
}
_TOWARD_ZERO = (block.ELEMENTWISE["truncdiv"], block.ELEMENTWISE["truncmod"])
_MOST = (1 << 63) - 1
"""Of an i64: index arithmetic wraps there."""


@dataclass(frozen=True, slots=True)
class Form:
    """Element [i, j, ..] is `base + i*strides[0] + j*strides[1] + ..`; a scalar has no strides."""

    base: Dim
    strides: tuple[Dim, ...] = ()

    @property
    def is_uniform(self) -> bool:
        """Whether all elements are one."""
        return all(s == 0 for s in self.strides)


def _range(elem: Scalar) -> tuple[int, int]:
    """Of the numbers of a type, as far as bounds are told from none."""
    return (-INF, INF) if elem.bits == 64 else elem.limits


class Forms:
    """The forms of a function's integers, over its symbols and *leaves*: scalars that are no arithmetic."""

    def __init__(self, func: Func) -> None:
        self.ranges: dict[str, tuple[int, int]] = dict(func.ranges)
        self.leaves: dict[str, Value] = {}
        """What names that are no symbols stand for: scalars of any signed integer type."""
        self._taken = {v.hint for v in func.params}
        self._known: dict[Value, Form | None] = {v: Form(sym(v.hint)) for v in func.params if v.type == I64}
        self._loops = {op.body.params.values[0]: op for op in func.walk() if op.kind is control.for_}

    def form(self, value: Value) -> Form | None:
        """The form of an integer or a tile of them; None if it has none."""
        if value not in self._known:
            self._known[value] = self._compute(value)
        return self._known[value]

    def _compute(self, value: Value) -> Form | None:
        elem = block.elem_of(value.type)
        if not elem.is_integer:
            return None
        op = value.op
        if isinstance(value.type, Tile):
            found = self._tile(op, value.type) if op is not None else None
            if found is None:
                return None
            # along a dim of one element nothing is added
            moving = zip(found.strides, value.type.shape, strict=True)
            return Form(found.base, tuple(0 if d == 1 else s for s, d in moving))
        return (self._scalar(op, elem) if op is not None else None) or self._leaf(value, elem)

    def _leaf(self, value: Value, elem: Scalar) -> Form | None:
        """A name for a scalar, unless it is an unsigned one of 64 bits, which an i64 does not hold."""
        if not elem.is_signed and elem.bits == 64:
            return None
        name = value.hint or "v"
        while name in self._taken:
            name = f"{name}_{len(self._taken)}"
        self._taken.add(name)
        self.leaves[name] = value
        self.ranges[name] = _range(elem)
        if value.op is not None and value.op.kind in (block.program_id, block.num_programs):
            self.ranges[name] = (0, (1 << 31) - 1)
        if value in self._loops:
            low, high = (self.form(v) for v in self._loops[value].operands[:2])
            if low and high:
                least, most = bounds(low.base, self.ranges)[0], bounds(high.base, self.ranges)[1] - 1
                if abs(least) != INF and abs(most) != INF:
                    self.ranges[name] = (least, max(least, most))
        return Form(sym(name))

    def _scalar(self, op: Op, elem: Scalar) -> Form | None:
        if op.kind is block.const:
            return Form(attr_int(op, "value"))
        if op.kind is block.index:
            names = attr_strs(op, "names", ())
            parts = [self.form(v) for v in op.operands]
            if any(p is None for p in parts):
                return None
            return Form(substitute(attr_dim(op, "expr"), {n: p.base for n, p in zip(names, parts, strict=True) if p}))
        if len(op.operands) == 2 and op.kind in _FUNCTIONS:
            return self._function(op)
        return self._arithmetic(op, elem, ())

    def _function(self, op: Op) -> Form | None:
        """Division by what is positive; that which rounds toward zero is floor division of what is not below 0."""
        a, b = (self.form(v) for v in op.operands)
        if a is None or b is None:
            return None
        is_division = op.kind not in (block.min_, block.max_)
        if is_division and not self._fits(b.base, 1, _MOST):
            return None
        if op.kind in _TOWARD_ZERO and not self._fits(a.base, 0, _MOST):
            return None
        return Form(_FUNCTIONS[op.kind](a.base, b.base))

    def _tile(self, op: Op, tile: Tile) -> Form | None:
        shape = tile.shape
        if op.kind is block.const:
            return Form(attr_int(op, "value"), (0,) * len(shape))
        if op.kind is block.splat:
            x = self.form(op.operands[0])
            return Form(x.base, (0,) * len(shape)) if x else None
        if op.kind is block.arange:
            return Form(attr_int(op, "start"), (1,))
        if op.kind is block.broadcast:
            return self.form(op.operands[0])
        if op.kind is block.trans:
            x = self.form(op.operands[0])
            return Form(x.base, tuple(x.strides[p] for p in attr_ints(op, "perm"))) if x else None
        if op.kind is block.reshape:
            return self._reshaped(op, shape)
        return self._arithmetic(op, tile.elem, shape)

    def _reshaped(self, op: Op, shape: tuple[int, ...]) -> Form | None:
        """Where only dims of 1 come or go."""
        x, old = self.form(op.operands[0]), tile_of(op.operands[0])
        if x is None or [d for d in old.shape if d != 1] != [d for d in shape if d != 1]:
            return None
        left = iter(s for s, d in zip(x.strides, old.shape, strict=True) if d != 1)
        return Form(x.base, tuple(0 if d == 1 else next(left) for d in shape))

    def _arithmetic(self, op: Op, elem: Scalar, shape: tuple[int, ...]) -> Form | None:
        if op.kind is block.cast:
            return self._cast(op, elem)
        if op.kind is block.assume:
            return self.form(op.operands[0])
        if op.kind not in (block.add, block.sub, block.mul) or not (elem == I64 or op.attrs.get("nsw", False) is True):
            return None
        a, b = (self.form(v) for v in op.operands)
        if a is None or b is None:
            return None
        if op.kind is block.mul:
            if not a.is_uniform:
                a, b = b, a
            return Form(a.base * b.base, tuple(a.base * s for s in b.strides)) if a.is_uniform else None
        sign = 1 if op.kind is block.add else -1
        return Form(a.base + sign * b.base, tuple(s + sign * t for s, t in zip(a.strides, b.strides, strict=True)))

    def _cast(self, op: Op, elem: Scalar) -> Form | None:
        """A cast that keeps the number: to more bits, or of what fits."""
        source = block.elem_of(op.operands[0].type)
        if not source.is_integer:
            return None
        x = self.form(op.operands[0])
        low, high = (-_MOST - 1, _MOST) if elem == I64 else _range(elem)
        widens = elem.bits > source.bits and (elem.is_signed or not source.is_signed)
        if x is None or not (elem == source or widens or (x.is_uniform and self._fits(x.base, low, high))):
            return None
        return x

    def _fits(self, dim: Dim, low: int, high: int) -> bool:
        least, most = bounds(dim, self.ranges)
        return low <= least and most <= high

    def is_fixed(self, dim: Dim) -> bool:
        """Whether it is the same for the whole launch: of symbols only."""
        return symbols(dim).isdisjoint(self.leaves)

    def emit(self, dim: Dim, builder: Builder) -> Value:
        """A dim as an i64; the leaves it names must be in scope."""
        names = sorted(symbols(dim) & set(self.leaves))
        operands: list[Value] = []
        for name in names:
            leaf = self.leaves[name]
            operands.append(leaf if leaf.type == I64 else builder(block.cast, leaf, to=I64))
        if len(names) == 1 and dim == sym(names[0]):
            return operands[0]
        return builder(block.index, *operands, expr=dim, names=tuple(names))

    def emit_in(self, copier: Copier, dim: Dim) -> Value:
        """A dim of what is copied, as a value of the copy."""
        value = self.emit(dim, scratch := Builder(copier.builder.loc))
        for op in scratch.ops:
            copier.copy(op)
        return copier.new(value)
