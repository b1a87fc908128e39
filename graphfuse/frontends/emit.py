"""Emission of graph ops with numpy's conveniences: broadcasting, Python numbers, no-op elimination.

Owns the block under construction and the ranges of symbols. Knows nothing about what is imported.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Container, Generator, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from graphfuse.constraints import Constraint, Kind, decided, listening, require
from graphfuse.dialects import graph
from graphfuse.errors import Loc, UnsupportedError, VerifyError
from graphfuse.frontends.host_values import Array, Host, Ratio, Tracked, host
from graphfuse.ir.core import Attr, Block, Builder, Op, OpDef, Value
from graphfuse.ir.core import tensor_of as tensor
from graphfuse.ir.dense import Dense, numpy_dtype
from graphfuse.ir.types import BF16, BOOL, F16, F32, I32, I64, Scalar
from graphfuse.symbolic import Dim, Expr, bounds, maximum, minimum, product, substitute, sym, symbols

Operand = Value | Op | int | float | bool | Expr
Shape = tuple[Dim, ...]


def shape_of(value: Value) -> Shape:
    """The shape of a value, which is a tensor."""
    return tensor(value).shape


def elem_of(value: Value) -> Scalar:
    """The element of a value, which is a tensor."""
    return tensor(value).elem


class Emitter:
    """Appends graph ops to the current block.

    `ranges` are the symbols' bounds; `unproved` is what ops need of dims and ranges do not prove, with `reader`, the
    node that is imported, as the one that needs it. If it is `promised`, by guards that run before, nothing is kept.
    """

    def __init__(self, *, promised: bool = False) -> None:
        self.root = Builder()
        self.block = self.root
        self.ranges: dict[str, tuple[int, int]] = {}
        self.promised, self.reader = promised, ""
        self.unproved: dict[tuple[Kind, Dim, Dim], Constraint] = {}
        self.loop_counts: dict[str, Dim] = {}
        """Symbols that count iterations, and to what."""
        self._placed: dict[Host, Value] = {}
        self._joined: dict[Dim, tuple[Dim, ...]] = {}
        """Which dims a dim is what they broadcast to."""
        self._stretched: set[tuple[Dim, Dim]] = set()
        """Dims that are 1 at run time or equal to what they are broadcast to."""

    @property
    def loc(self) -> Loc | None:
        """Where the ops that are appended come from."""
        return self.block.loc

    @loc.setter
    def loc(self, loc: Loc | None) -> None:
        self.block.loc = self.root.loc = loc

    def op(self, kind: OpDef, /, *operands: Value, bodies: tuple[Block, ...] = (), **attrs: Attr) -> Op:
        """Append an op as it is."""
        with listening(self._need):
            return self.block.append(kind.build(operands, attrs, bodies=bodies, loc=self.block.loc))

    def __call__(self, kind: OpDef, /, *operands: Value, **attrs: Attr) -> Value:
        """Append an op with one result as it is, and return that result."""
        with listening(self._need):
            return self.block.append(kind.build(operands, attrs, loc=self.block.loc)).result

    @contextmanager
    def body(self) -> Generator[Builder, None, None]:
        """Collect ops in a nested block instead."""
        outer = self.block
        self.block = Builder(outer.loc)
        try:
            yield self.block
        finally:
            self.block = outer

    @property
    def loop_symbols(self) -> Set[str]:
        """Symbols that count iterations."""
        return self.loop_counts.keys()

    def fresh_symbol(self, stem: str) -> str:
        """A symbol name that nothing uses yet."""
        return next(numbered(stem, self.ranges))

    # sources

    def value(self, x: Tracked) -> Value:
        """`x` as an IR value; what is known at compile time is placed in the function's own block, once."""
        if isinstance(x, Value):
            return x
        if x in self._placed:
            return self._placed[x]
        local = x.symbolic and any(not self.loop_counts.keys().isdisjoint(_symbols(v)) for v in x.array.reshape(-1))
        if local:
            return self._place(x)
        outer, self.block = self.block, self.root
        try:
            placed = self._place(x)
        finally:
            self.block = outer
        self._placed[x] = placed
        return placed

    def _place(self, x: Host) -> Value:
        shape, flat = tuple(x.array.shape), x.array.reshape(-1)
        if not x.symbolic:
            if x.tracked and flat.size and _uniform(flat):
                return self.full(shape, x.elem, flat[0].item())
            return self(graph.constant, value=Dense(x.array))
        if all(v == flat[0] for v in flat):
            return self.full(shape, x.elem, flat[0])
        pieces: list[Value] = []
        run: list[Any] = []
        for v in (*flat, None):
            if v is not None and not isinstance(v, (Expr, Ratio)):
                run.append(v)
                continue
            if run:
                pieces.append(self._place(host(np.array(run, dtype=object), x.elem)))
                run = []
            if v is not None:
                pieces.append(self.full((1,), x.elem, v))
        return self.reshape(self.concat(pieces, 0), shape)

    def full(self, shape: Sequence[Dim], elem: Scalar, value: bool | float | Expr | Ratio) -> Value:
        """A tensor of one number."""
        if isinstance(value, Ratio):
            num = self(graph.full, shape=tuple(shape), elem=elem, value=value.num)
            return self.map(graph.div, num, float(value.den))
        if not isinstance(value, Expr):
            value = bool(value) if elem == BOOL else float(value) if elem.is_float else int(value)
        return self(graph.full, shape=tuple(shape), elem=elem, value=value)

    def constant(self, array: Array) -> Value:
        """A tensor of known numbers."""
        return self(graph.constant, value=Dense(np.ascontiguousarray(array).reshape(array.shape)))

    def iota(self, shape: Sequence[Dim], axis: int, elem: Scalar = I64) -> Value:
        """Each element is its index along `axis`."""
        return self(graph.iota, shape=tuple(shape), elem=elem, axis=axis)

    # elementwise, with numpy broadcasting and numbers as operands

    def map(self, kind: OpDef, *operands: Operand) -> Value:
        """Append an elementwise op; operands are broadcast, numbers take the element of the first tensor."""
        values = [o.result if isinstance(o, Op) else o for o in operands]
        return self(kind, *self._alike(values, self._joint_shape(values)))

    def _joint_shape(self, operands: Iterable[Operand]) -> Shape:
        return self.broadcast_shape(*(shape_of(v) for v in operands if isinstance(v, Value)))

    def _alike(self, operands: Sequence[Operand], shape: Shape) -> list[Value]:
        """Operands repeated to a shape, numbers with the element of the first tensor."""
        elem = next(elem_of(v) for v in operands if isinstance(v, Value))
        return [
            self.broadcast(v, shape) if isinstance(v, Value) else self.full(shape, elem, _number(v)) for v in operands
        ]

    def fold(self, kind: OpDef, values: Iterable[Value]) -> Value:
        """All values joined by an elementwise op, one after the other."""
        return functools.reduce(lambda a, b: self.map(kind, a, b), values)

    def flat_index(self, indices: Sequence[Value], sizes: Sequence[Dim]) -> Value:
        """The row-major index of one index per dim."""
        out = indices[0]
        for index, size in zip(indices[1:], sizes[1:], strict=True):
            out = self.map(graph.add, self.map(graph.mul, out, self.full((), elem_of(out), size)), index)
        return out

    def select(self, condition: Value, a: Operand, b: Operand) -> Value:
        """Elementwise choice with broadcasting; at least one of `a` and `b` is a tensor."""
        shape = self._joint_shape((condition, a, b))
        parts = self._alike((a, b), shape)
        return self(graph.select, self.broadcast(condition, shape), *parts)

    def cast(self, x: Value, to: Scalar, *, saturate: bool = False) -> Value:
        """Convert elements; nothing when they have that type."""
        if elem_of(x) == to:
            return x
        number = _full_value(x)
        if isinstance(number, (bool, int, float)) and to in (F32, I64, BOOL) and abs(number) < 1 << 24:
            if elem_of(x).is_float:  # the number is what its element can hold
                number = float(np.asarray(number).astype(numpy_dtype(elem_of(x))).astype(np.float64))
            return self.full(shape_of(x), to, number)
        return self(graph.cast, x, to=to, **({"saturate": True} if saturate else {}))

    def wide(self, x: Value) -> Value:
        """Halves as f32, anything else as it is: what reductions and norms compute in."""
        return self.cast(x, F32) if elem_of(x) in (F16, BF16) else x

    # shapes

    def require(self, kind: Kind, a: Dim, b: Dim, what: str) -> None:
        """Keep a constraint if it is not proved; `VerifyError` if no values of the dims fulfil it."""
        with listening(self._need):
            require(kind, a, b, what)

    def _need(self, constraint: Constraint) -> None:
        c = constraint
        for symbol in c.symbols & self.loop_counts.keys():
            c = self._in_each_iteration(c, symbol)
        verdict = decided(c.kind, c.a, c.b, self.ranges)
        if verdict is False:
            raise VerifyError(str(c))
        if verdict is None and not self.promised:
            self.unproved.setdefault((c.kind, c.a, c.b), replace(c, node=self.reader))

    def _in_each_iteration(self, c: Constraint, symbol: str) -> Constraint:
        """What holds in all iterations of a loop if it holds in the one where it is hardest to fulfil."""
        if decided(c.kind, c.a, c.b, self.ranges):
            return c
        room = c.b - c.a
        first, second = (substitute(room, {symbol: i}) for i in (0, 1))
        if c.kind != "at_most" or room != first + (second - first) * sym(symbol):
            raise UnsupportedError(f"{c}: it depends on the iteration of a loop")
        low, high = bounds(second - first, self.ranges)
        if low < 0 < high:
            raise UnsupportedError(f"{c}: it depends on the iteration of a loop")
        worst: Dim = 0 if low >= 0 else self.loop_counts[symbol] - 1
        return c.substituted({symbol: worst})

    def same(self, a: Dim, b: Dim, what: str = "") -> bool:
        """Whether two dims are equal or, where their symbols leave it open, have to be."""
        if decided("equal", a, b, self.ranges) is False:
            return False
        self.require("equal", a, b, what)
        return True

    def equalled(self, x: Value, shape: Sequence[Dim], what: str) -> Value:
        """`x` as of `shape`, whose dims its own have to be."""
        if tensor(x).rank != len(shape):
            raise VerifyError(f"{what}: expected {len(shape)} dims, got {x.type}", self.loc)
        for i, (d, want) in enumerate(zip(shape_of(x), shape, strict=True)):
            self.require("equal", d, want, f"dim {i} of {what}")
        return self.aligned(x, shape)

    def broadcast_dim(self, a: Dim, b: Dim) -> Dim:
        """The dim two dims broadcast to: each has to be it, or 1. Guards promise that none is 1 but those they say."""
        if a == b or b == 1:
            return a
        if a == 1:
            return b
        if not {("equal", a, b), ("equal", b, a)}.isdisjoint(self.unproved):
            return b if isinstance(b, int) or (isinstance(a, Expr) and len(str(b)) < len(str(a))) else a
        parts = sorted({*self._joined.get(a, (a,)), *self._joined.get(b, (b,))}, key=str)
        whole = [p for p in parts if isinstance(p, int) or self.promised or bounds(p, self.ranges)[0] > 1]
        if whole:
            out = min(whole, key=lambda d: (not isinstance(d, int), len(str(d))))
        else:
            out = functools.reduce(maximum, parts)
            if any(bounds(p, self.ranges)[0] == 0 for p in parts):
                out = out * functools.reduce(minimum, parts, 1)
        if any(decided("stretches", p, out, self.ranges) is False for p in parts):
            raise VerifyError(f"cannot broadcast dims {a} and {b}", self.loc)
        self._joined[out] = tuple(parts)
        for part in (*parts, a, b):
            if part not in whole and part != out:
                self._stretched.add((part, out))
        return out

    def broadcast_shape(self, *shapes: Shape) -> Shape:
        """The shape that numpy's rule gives, right-aligned."""
        out: list[Dim] = []
        for shape in shapes:
            shape = (1,) * (len(out) - len(shape)) + shape
            out = [1] * (len(shape) - len(out)) + out
            out = [self.broadcast_dim(a, b) for a, b in zip(out, shape, strict=True)]
        return tuple(out)

    def broadcast(self, x: Value, shape: Sequence[Dim]) -> Value:
        """Repeat to `shape`; nothing when x has it."""
        shape = tuple(shape)
        tail = shape[len(shape) - tensor(x).rank :]
        if any(pair in self._stretched for pair in zip(shape_of(x), tail, strict=False)):
            dims = zip(shape_of(x), tail, strict=True)
            x = self(graph.stretch, x, shape=tuple(w if (d, w) in self._stretched else d for d, w in dims))
        return self.aligned(x, shape)

    def spread(self, x: Value, shape: Sequence[Dim]) -> Value:
        """Broadcast in one direction: each dim of x, right-aligned, is that of `shape` or 1."""
        tail = tuple(shape)[len(shape) - tensor(x).rank :]
        if tensor(x).rank > len(shape):
            raise VerifyError(f"cannot broadcast {x.type} to {len(shape)} dims", self.loc)
        if not self.promised:
            self._stretched |= {(d, w) for d, w in zip(shape_of(x), tail, strict=True) if d not in (1, w)}
        return self.broadcast(x, shape)

    def aligned(self, x: Value, shape: Sequence[Dim]) -> Value:
        """Repeat to `shape` along dims of 1; all other dims have to be equal."""
        shape = tuple(shape)
        if shape_of(x) == shape:
            return x
        if (number := _full_value(x)) is not None:
            self(graph.broadcast, x, shape=shape)  # checks the shapes; dropped as dead code
            return self.full(shape, elem_of(x), number)
        return self(graph.broadcast, x, shape=shape)

    def reshape(self, x: Value, shape: Sequence[Dim]) -> Value:
        """The same elements under another shape; nothing when x has it."""
        shape = tuple(shape)
        return x if shape_of(x) == shape else self(graph.reshape, x, shape=shape)

    def flatten(self, x: Value) -> Value:
        """As one dim."""
        return self.reshape(x, (tensor(x).elements,))

    def unsqueeze(self, x: Value, *axes: int) -> Value:
        """Insert dims of 1 at `axes` of the result."""
        rank = tensor(x).rank + len(axes)
        at = {a % rank for a in axes}
        rest = iter(shape_of(x))
        return self.reshape(x, tuple(1 if i in at else next(rest) for i in range(rank)))

    def squeeze(self, x: Value, *axes: int) -> Value:
        """Drop the dims of 1 at `axes`."""
        at = {a % tensor(x).rank for a in axes}
        return self.reshape(x, tuple(d for i, d in enumerate(shape_of(x)) if i not in at))

    def permute(self, x: Value, perm: Sequence[int]) -> Value:
        """Reorder dims; nothing for the identity."""
        perm = tuple(perm)
        return x if perm == tuple(range(len(perm))) else self(graph.permute, x, perm=perm)

    def as_matrix(self, x: Value, axis: int) -> Value:
        """Two dims: all before an axis, and the rest."""
        shape = shape_of(x)
        return self.reshape(x, (product(shape[:axis]), product(shape[axis:])))

    def move_axis(self, x: Value, source: int, target: int) -> Value:
        """Put one axis somewhere else, keeping the order of the others."""
        rank = tensor(x).rank
        perm = [i for i in range(rank) if i != source % rank]
        perm.insert(target % rank, source % rank)
        return self.permute(x, perm)

    def along(self, x: Value, axis: int, rank: int) -> Value:
        """A vector as a tensor of `rank` dims, all of which are 1 but `axis`."""
        return self.reshape(x, tuple(shape_of(x)[0] if i == axis % rank else 1 for i in range(rank)))

    def repeat(self, x: Value, axis: int, times: Dim) -> Value:
        """Each element of an axis several times in a row."""
        *lead, size = shape_of(x)[: axis + 1]
        rest = shape_of(x)[axis + 1 :]
        if times == 1:
            return x
        wide = self.broadcast(self.unsqueeze(x, axis + 1), (*lead, size, times, *rest))
        return self.reshape(wide, (*lead, size * times, *rest))

    def pad(self, x: Value, axis: int, low: Dim, high: Dim, value: float = 0.0) -> Value:
        """More elements of one number in front of and behind one axis; nothing for none."""
        rank = tensor(x).rank
        if low == 0 and high == 0:
            return x
        ends = [tuple(p if i == axis % rank else 0 for i in range(rank)) for p in (low, high)]
        return self(graph.pad, x, low=ends[0], high=ends[1], value=value)

    def concat(self, xs: Sequence[Value], axis: int) -> Value:
        """Join along an axis; nothing for one tensor."""
        if len(xs) == 1:
            return xs[0]
        like = shape_of(xs[0])
        aligned = [
            self.aligned(x, tuple(d if i == axis else like[i] for i, d in enumerate(shape_of(x))))
            if len(shape_of(x)) == len(like)
            else x
            for x in xs
        ]
        return self(graph.concat, *aligned, axis=axis)

    def slice(self, x: Value, axis: int, start: Dim, size: Dim, step: int = 1) -> Value:
        """Elements `start, start + step, ...` of one axis; nothing for all of it."""
        shape = shape_of(x)
        axis %= len(shape)
        if start == 0 and size == shape[axis] and step == 1:
            return x
        return self(
            graph.slice_,
            x,
            starts=tuple(start if i == axis else 0 for i in range(len(shape))),
            sizes=tuple(size if i == axis else d for i, d in enumerate(shape)),
            steps=tuple(step if i == axis else 1 for i in range(len(shape))),
        )

    def split(self, x: Value, sizes: Sequence[Dim], axis: int) -> tuple[Value, ...]:
        """Consecutive pieces that make up one axis."""
        out: list[Value] = []
        start: Dim = 0
        for size in sizes:
            out.append(self.slice(x, axis, start, size))
            start = start + size
        self.require("equal", shape_of(x)[axis], start, "what the pieces make up")
        return tuple(out)

    def reduce(self, x: Value, kind: str, axes: Sequence[int], *, keepdims: bool = True) -> Value:
        """Combine along `axes` (any order, not negative)."""
        return self(graph.reduce, x, axes=tuple(sorted(axes)), kind=kind, keepdims=keepdims) if axes else x

    def mean(self, x: Value, axes: Sequence[int], *, keepdims: bool = True) -> Value:
        """The arithmetic mean along `axes`."""
        total = self.reduce(x, "sum", axes, keepdims=keepdims)
        return self.divide(total, product(shape_of(x)[a] for a in axes))

    def divide(self, x: Value, by: Dim) -> Value:
        """Divide by a number or dim; integers truncate."""
        kind = graph.div if elem_of(x).is_float else graph.truncdiv
        return self(kind, x, self.full(shape_of(x), elem_of(x), by))

    def contract(self, a: Value, b: Value, spec: str, elem: Scalar | None = None, *, rounded_block: int = 0) -> Value:
        """A dot product in Einstein's notation."""
        attrs: dict[str, Attr] = {} if elem is None else {"elem": elem}
        if rounded_block:
            attrs["rounded_block"] = rounded_block
        return self(graph.contract, a, b, spec=spec, **attrs)

    def indices(self, x: Value) -> Value:
        """Integers as indices: i32 or i64."""
        return x if elem_of(x) in (I32, I64) else self.cast(x, I64)


def numbered(stem: str, taken: Container[str]) -> Iterator[str]:
    """Names with a number, but those that are taken."""
    return (name for i in itertools.count() if (name := f"{stem}{i}") not in taken)


def _symbols(element: object) -> frozenset[str]:
    """What an element of a symbolic host tensor depends on."""
    dim = element.num if isinstance(element, Ratio) else element
    return symbols(dim) if isinstance(dim, Expr) else frozenset()


def _number(operand: Operand) -> int | float | bool | Expr:
    assert isinstance(operand, (int, float, bool, Expr)), "an operand is a value or a number"
    return operand


def _uniform(flat: Array) -> bool:
    data = np.ascontiguousarray(flat).view(np.uint8).reshape(flat.size, -1)
    return bool((data == data[0]).all())


def _full_value(x: Value) -> bool | float | Expr | None:
    """The number of a `graph.full`, else None."""
    if x.op is not None and x.op.kind is graph.full:
        value = x.op.attrs["value"]
        assert isinstance(value, (bool, int, float, Expr)), "the op's declared attribute"
        return value
    return None
