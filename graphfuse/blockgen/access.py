"""Which memory a value reads, as offsets affine in the loop variables, without emitting anything.

Schedules ask this to decide which adjacent dims are one dim in memory and which variables have a use that
forbids merging (a bound check, an iota, a data-dependent or non-affine index).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from graphfuse.blockgen.index import Index, IndexSpace, coefficient, linear, strides_of
from graphfuse.blockgen.movement import shape_of, sources
from graphfuse.dialects import graph
from graphfuse.ir.core import Op, Trait, Value, dims_of
from graphfuse.symbolic import Dim, sym, symbols


@dataclass
class Accesses:
    """Linear offsets of all loads and stores, and the variables that must keep their identity."""

    offsets: list[Dim] = field(default_factory=list[Dim])
    opaque: set[str] = field(default_factory=set[str])
    edges: list[tuple[Dim, Dim]] = field(default_factory=list[tuple[Dim, Dim]])
    """Where a concat or pad goes over to another operand: an index and a value of it at which it does."""

    def uses(self, name: str) -> bool:
        """Whether what is read depends on this variable."""
        return name in self.opaque or any(name in symbols(offset) for offset in self.offsets)


class AccessAnalysis:
    """Walks a region's body at symbolic indices; `leaves` are the values that live in memory."""

    def __init__(self, space: IndexSpace, leaves: set[Value], computed: frozenset[Value] = frozenset()) -> None:
        self.space = space
        self.leaves = leaves
        self.computed = computed
        """Values that will be in registers when they are asked for: the walk stops there."""
        self.found = Accesses()
        self._seen: set[tuple[Value, Index]] = set()

    def visit(self, value: Value, index: Index) -> None:
        """Record what computing `value` at `index` reads."""
        index = tuple(self.space.simplify(i) for i in index)
        if (value, index) in self._seen:
            return
        self._seen.add((value, index))
        if value in self.computed:
            return
        if value in self.leaves:
            self.touch(linear(index, strides_of(shape_of(value))))
            return
        op = value.owner
        assert isinstance(op, Op)
        if op.has(Trait.ELEMENTWISE):
            for v in op.operands:
                self.visit(v, index)
        elif (found := sources(op, index, self.space)) is not None:
            if op.kind is graph.pad:  # what clamps or folds an index may vanish within bounds, but must not be merged
                grown = zip(index, shape_of(op.operands[0]), shape_of(op.result), strict=True)
                self._opaque(*(i for i, before, after in grown if before != after))
            for source in found:
                for lo, at, hi in source.where:
                    self._opaque(lo, at, hi)
                    self.found.edges += [(at, lo), (at, hi)]
                self.visit(source.value, source.index)
        else:
            self._other(op, index)

    def touch(self, offset: Dim) -> None:
        """Record a memory access at `offset`."""
        offset = self.space.simplify(offset)
        for name in symbols(offset):
            if name in self.space.var_bounds and coefficient(offset, name) is None:
                self.found.opaque.add(name)
        self.found.offsets.append(offset)

    def _opaque(self, *dims: Dim) -> None:
        for d in dims:
            self.found.opaque |= symbols(d) & self.space.var_bounds.keys()

    def _other(self, op: Op, index: Index) -> None:
        match op.kind:
            case graph.full | graph.constant:
                pass
            case graph.reduce:
                self._reduce(op, index)
            case graph.take:
                x, indices = op.operands
                axis, rank = op.attrs["axis"], len(shape_of(indices))
                assert isinstance(axis, int)
                self.visit(indices, index[axis : axis + rank])
                looked_up = self.space.fresh("g", 0, shape_of(x)[axis] - 1)
                self.visit(x, (*index[:axis], looked_up, *index[axis + rank :]))
            case _:
                # windows, contractions, element-wise look-ups: every variable keeps its identity
                self._opaque(*index)
                for v in op.operands:
                    if v not in self.leaves:
                        self.visit(v, tuple(self.space.fresh("u", 0, d - 1) for d in shape_of(v)))

    def _reduce(self, op: Op, index: Index) -> None:
        (x,) = op.operands
        axes, keep = dims_of(op.attrs["axes"]), bool(op.attrs.get("keepdims", False))
        outer = iter(index)
        full: list[Dim] = []
        for i, d in enumerate(shape_of(x)):
            if i in axes:
                full.append(self.space.fresh("r", 0, d - 1))
                if keep:
                    next(outer)
            else:
                full.append(next(outer))
        self.visit(x, tuple(full))


@dataclass(frozen=True, slots=True)
class Merged:
    """A loop dim made of adjacent tensor dims `first..last` (inclusive) that advance as one in all memory."""

    first: int
    last: int
    extent: Dim


def merge(shape: Sequence[Dim], names: Sequence[str], found: Accesses, barriers: Sequence[int] = ()) -> list[Merged]:
    """Join adjacent dims when every offset's strides allow it. Dims of size 1 vanish.

    `names[i]` is the variable that ran over dim i; no merge crosses from `b - 1` to `b` for b in `barriers`.
    """
    out: list[Merged] = []
    for i, d in enumerate(shape):
        if d == 1:
            continue
        if out and _joins(out[-1], i, shape, names, found, barriers):
            out[-1] = Merged(out[-1].first, i, out[-1].extent * d)
        else:
            out.append(Merged(i, i, d))
    return out


def _joins(
    left: Merged, i: int, shape: Sequence[Dim], names: Sequence[str], found: Accesses, barriers: Sequence[int]
) -> bool:
    if any(left.last < b <= i for b in barriers):
        return False
    if names[i] in found.opaque or any(names[j] in found.opaque for j in range(left.first, left.last + 1)):
        return False
    for offset in found.offsets:
        outer, inner = coefficient(offset, names[left.last]), coefficient(offset, names[i])
        if outer is None or inner is None or outer != inner * shape[i]:
            return False
    return True


def merged_index(rank: int, dims: Sequence[Merged], at: Sequence[Dim]) -> Index:
    """The tensor index at loop position `at`: each merged dim's variable sits on its last tensor dim."""
    out: list[Dim] = [0] * rank
    for dim, i in zip(dims, at, strict=True):
        out[dim.last] = i
    return tuple(out)


def dim_names(space: IndexSpace, shape: Sequence[Dim], hint: str = "i") -> list[str]:
    """Fresh variables over a shape."""
    return [str(space.fresh(hint, 0, d - 1)) for d in shape]


def as_index(names: Sequence[str]) -> Index:
    """The index whose dims are these variables."""
    return tuple(sym(n) for n in names)
