"""Index arithmetic of a block function as polynomials, and tiles in memory as boxes of tensors.

A strided view is a box when its base is `offset + sum(start[d] * strides[d])` with an offset that is known at launch,
and what it leaves out is what lies outside `dims`. The limits of a view say where it begins: `limit = size - start`, of
which the size does not change from program to program.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from graphfuse.dialects import block, control
from graphfuse.dialects.boxes import (
    ALIGNMENT,
    MAX_EXTENT,
    NOWHERE,
    Axis,
    Box,
    Unboxed,
    atom_of,
    outer_axes,
    split,
    strided_axes,
    terms_of,
)
from graphfuse.gpu.alignment import pointer_alignments
from graphfuse.gpu.analysis.axis_facts import power_of_two
from graphfuse.ir.core import (
    Func,
    Op,
    OpDef,
    Value,
    attr_dim,
    attr_dims,
    attr_int,
    attr_ints,
    attr_number,
    attr_strs,
    tile_of,
)
from graphfuse.ir.types import I64
from graphfuse.symbolic import (
    INF,
    Call,
    Dim,
    Expr,
    Monomial,
    Sym,
    bounds,
    ceildiv,
    exact_div,
    maximum,
    of_atom,
    substitute,
    sym,
    symbols,
)

ARITHMETIC: dict[OpDef, Callable[[Dim, Dim], Dim]] = {
    block.add: lambda a, b: a + b, block.sub: lambda a, b: a - b, block.mul: lambda a, b: a * b, block.max_: maximum,
}  # fmt: skip
"""Ops whose results are polynomials of their operands'."""


def atoms_of(dim: Dim) -> list[Dim]:
    """The symbols and calls that a dim is made of, each by itself."""
    terms = dim.terms if isinstance(dim, Expr) else ()
    return [of_atom(atom) for monomial, _ in terms for atom, _ in monomial]


def call_of(dim: Dim) -> Call:
    """The function that a dim is; another one that nothing equals if it is none."""
    atom = atom_of(dim)
    return atom if isinstance(atom, Call) else Call("", ())


class Scalars:
    """Integer scalars of a function as polynomials over its symbols and *leaves*: what differs between programs."""

    def __init__(self, func: Func) -> None:
        self.ranges: dict[str, tuple[int, int]] = dict(func.ranges)
        self.leaves: dict[str, Value] = {}
        """What names in polynomials stand for, besides symbols."""
        self.ends: dict[Dim, Dim] = {}
        """What counters of loops stay below."""
        self.divisibility = {name: power_of_two(n) for name, n in block.promises(func).items()}
        """What symbols and leaves are multiples of."""
        self._known: dict[Value, Dim] = {v: sym(v.hint) for v in func.params if v.type == I64}
        self._taken = {v.hint for v in func.params}
        self.alignments = pointer_alignments(func)
        self.grid = attr_dim(func, "grid")
        self.trusts = "assume" in func.attrs
        """Whether who wrote it has seen to it that what it reads and writes is there, however large it may be."""
        self.program: Dim | None = None
        """The number of the program, once something asked for it."""
        self._func = func

    @functools.cached_property
    def _loops(self) -> dict[Value, Op]:
        """By their counters."""
        return {op.body.params.values[0]: op for op in self._func.walk() if op.kind is control.for_}

    def leaf(self, value: Value, hint: str, low: float, high: float, divisor: int = 1) -> Dim:
        """Name a value that is not arithmetic."""
        name, n = hint, 0
        while name in self._taken:
            n += 1
            name = f"{hint}{n}"
        self._taken.add(name)
        self.leaves[name] = value
        self.ranges[name] = int(low), int(high)
        self.divisibility[name] = power_of_two(divisor)
        self._known[value] = sym(name)
        return self._known[value]

    def dim(self, value: Value) -> Dim:
        """The polynomial of an i64 scalar."""
        if value not in self._known:
            self._known[value] = self._compute(value)
        return self._known[value]

    def _compute(self, value: Value) -> Dim:
        op = value.op
        if op is None:
            loop = self._loops.get(value)
            return self._counter(value, loop) if loop else self.leaf(value, "value", -INF, INF)
        if op.kind is block.const:
            return attr_int(op, "value")
        if op.kind is block.program_id:
            if self.program is None:
                self.program = self.leaf(value, "program", 0, max(0, bounds(self.grid, self.ranges)[1] - 1))
            return self.program
        if op.kind is block.index:
            names = attr_strs(op, "names", ())
            return substitute(attr_dim(op, "expr"), dict(zip(names, (self.dim(v) for v in op.operands), strict=True)))
        if op.kind in ARITHMETIC:
            a, b = (self.dim(v) for v in op.operands)
            return ARITHMETIC[op.kind](a, b)
        if op.kind is block.cast and (elem := block.elem_of(op.operands[0].type)).is_integer and elem.bits < 64:
            low, high = (-(1 << elem.bits - 1), 1 << elem.bits - 1) if elem.is_signed else (0, 1 << elem.bits)
            return self.leaf(value, "value", low, high - 1)
        return self.leaf(value, "value", -INF, INF)

    def _counter(self, value: Value, loop: Op) -> Dim:
        lower, upper = (self.dim(v) for v in loop.operands[:2])
        low, high = bounds(lower, self.ranges)[0], bounds(upper, self.ranges)[1]
        steps = self.divisor(attr_int(loop, "step", 1))
        counter = self.leaf(value, "k", low, max(low, high - 1), min(self.divisor(lower), steps))
        self.ends[counter] = upper
        return counter

    def extent(self, start: Dim) -> Dim | None:
        """How many values a digit of the program's number has, if all launches of it are known to."""
        call = call_of(start)
        if call.fn not in ("floordiv", "mod") or self.varies(call.args[1]):
            return None
        number, divisor = call.args
        if call.fn == "mod":
            return divisor
        return ceildiv(self.grid, divisor) if number == self.program else None

    def is_taken(self, name: str) -> bool:
        """Whether a name stands for something already."""
        return name in self._taken or name in self.ranges

    def varies(self, dim: Dim) -> bool:
        """Whether it differs between programs, or within one."""
        return not symbols(dim).isdisjoint(self.leaves)

    def divisor(self, dim: Dim) -> int:
        """A power of two that divides it."""
        if isinstance(dim, int):
            return power_of_two(dim)
        return math.gcd(*(power_of_two(c) * self._factor(m) for m, c in dim.terms))

    def _factor(self, monomial: Monomial) -> int:
        named = ((atom.name, power) for atom, power in monomial if isinstance(atom, Sym))
        return math.prod(self.divisibility.get(name, 1) ** power for name, power in named)


def find_box(op: Op, scalars: Scalars, perm: tuple[int, int] = (0, 1)) -> Box:
    """The box that a rank-2 `load_view` or `store_view` moves, its dims permuted; `Unboxed` unless TMA can move it."""
    loads = op.kind is block.load_view
    pointer, base, *rest = op.operands
    tile, limits = tile_of(op.result if loads else rest[0]), rest if loads else rest[1:]
    limited = dict(zip(attr_ints(op, "limited", ()), limits, strict=True))
    strides, shape = attr_dims(op, "strides"), tile.shape
    if len(shape) != 2 or strides[0] == strides[1] or (loads and attr_number(op, "other") != 0):
        raise Unboxed("it is no tile of two dims, with zeros outside")
    left = scalars.dim(base)
    strided: list[Axis] = []
    start: dict[int, Dim] = {}
    extent: dict[int, Dim] = {}
    for d, limit in limited.items():
        start[d], extent[d] = _placed(scalars.dim(limit), left, strides[d], scalars)
        left = left - start[d] * strides[d]
    for d in sorted(set(range(2)) - set(limited), key=lambda d: strides[d] == 1):
        if strides[d] == 1:  # what has a stride of its own is no offset along the columns
            strided, left = strided_axes(left, scalars)
        start[d] = _multiples(left, strides[d], scalars)
        start[d] = start[d] + _before_zero(start[d], scalars)
        left = left - start[d] * strides[d]
        low, high = bounds(start[d], scalars.ranges)
        if low < 0 or (high >= MAX_EXTENT and not scalars.trusts):
            raise Unboxed(NOWHERE)
        extent[d] = min(int(min(high, MAX_EXTENT)) + shape[d], MAX_EXTENT - 1)
    outer, offset = outer_axes(left, scalars, strided)
    box = Box(
        (*(a.extent for a in outer), *(extent[d] for d in perm)),
        (*(a.stride for a in outer), *(strides[d] for d in perm)),
        offset,
        (*(a.start for a in outer), *(start[d] for d in perm)),
    )
    return copied(box, pointer, scalars)


def copied(box: Box, pointer: Value, scalars: Scalars) -> Box:
    """The same, if TMA copies from a pointer's tensor; raises `Unboxed`."""
    if pointer.op is not None:
        raise Unboxed("a pointer is computed")
    if scalars.alignments[pointer.hint] % ALIGNMENT:
        raise Unboxed(f"{pointer.hint} begins at no multiple of {ALIGNMENT} bytes")
    return box.copied(block.pointed_to(pointer).bytes, scalars)


def _placed(limit: Dim, base: Dim, stride: Dim, scalars: Scalars) -> tuple[Dim, Dim]:
    """Where a view begins and how large the tensor is, from `limit = size - start`; `Unboxed` if maybe before 0.

    Rows of `x[1:]` are rows of x from 1 on, but `n - 1` rows of a tensor of its own begin at 0: the `base` of the view
    says which, as a tensor does not begin before memory does. Programs in reverse begin at the end, which is among what
    is fixed: `limit = n - 64*(programs - 1 - program)`.
    """
    fixed, varying = split(limit, scalars)
    before = _before_zero(varying * -1, scalars)
    size: Dim = 0
    for term in terms_of(fixed):
        if not isinstance(term, int) and bounds(term, scalars.ranges)[0] >= 0:
            size = size + term
    found = [(extent - limit, extent) for extent in (fixed + before, size)]
    found = [at for at in found if bounds(at[0], scalars.ranges)[0] >= 0]
    inside = [at for at in found if bounds(split(base - at[0] * stride, scalars)[0], scalars.ranges)[0] >= 0]
    found = inside or found
    # what is left of a tensor may be nothing, which no map describes: then rather all of it
    some = [at for at in found if bounds(at[1], scalars.ranges)[0] >= 1]
    for at in [*some, *found]:
        return at
    raise Unboxed(NOWHERE)


def _before_zero(start: Dim, scalars: Scalars) -> int:
    """How far a start lies before 0 at least, where that is known."""
    low = bounds(start, scalars.ranges)[0]
    return int(-low) if -MAX_EXTENT < low < 0 else 0


def _multiples(dim: Dim, stride: Dim, scalars: Scalars) -> Dim:
    """The varying terms that are multiples of a stride, divided by it."""
    out: Dim = 0
    for term in terms_of(dim):
        if scalars.varies(term) and (quotient := exact_div(term, stride)) is not None:
            out = out + quotient
    return out
