"""Which memory a value reads, as offsets affine in the loop variables, without emitting anything.

Schedules ask this to decide which adjacent dims are one dim in memory and which variables have a use that
forbids merging (a bound check, an iota, a data-dependent or non-affine index).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from graphfuse.blockgen.index import Index, IndexSpace, coefficient, linear, reshape_index, strides_of
from graphfuse.blockgen.movement import place, reduced_at, shape_of, sources
from graphfuse.dialects import graph
from graphfuse.ir.core import Op, Trait, Value, attr_int, attr_ints
from graphfuse.symbolic import Call, Dim, Expr, of_atom, static, substitute, sym, symbols


@dataclass
class Accesses:
    """Linear offsets of all loads and stores, and the variables that must keep their identity."""

    offsets: list[Dim] = field(default_factory=list[Dim])
    of: list[Value] = field(default_factory=list[Value])
    """What lies at each of the offsets."""
    opaque: set[str] = field(default_factory=set[str])
    edges: list[tuple[Dim, Dim]] = field(default_factory=list[tuple[Dim, Dim]])
    """Where a concat or pad may go over to another operand: an index and a value of it at which it does."""
    inside: list[Dim] = field(default_factory=list[Dim])
    """What is at least 0 where memory is read, and may be less elsewhere."""
    reshaped: bool = False
    """Whether an index was cut into digits, some of which may be constant only within the dims."""

    def uses(self, name: str) -> bool:
        """Whether what is read depends on this variable."""
        return name in self.opaque or any(name in symbols(offset) for offset in self.offsets)


class AccessAnalysis:
    """Walks a region's body at symbolic indices; `leaves` are the values that live in memory."""

    def __init__(
        self,
        space: IndexSpace,
        leaves: set[Value],
        computed: frozenset[Value] = frozenset(),
        picked: frozenset[Value] = frozenset(),
        picks: Callable[[Op, Index], Dim] | None = None,
    ) -> None:
        self.space = space
        self.leaves = leaves
        self.computed = computed
        """Values that will be in registers when they are asked for: the walk stops there."""
        self.picked = picked
        """Look-ups that are made once for each place of outer dims: what they give is as memory within such a place."""
        self.picks = picks
        """Where one of them is looked up at an index; without it that is any number, one for each place."""
        self._picks: dict[tuple[Op, Index], Dim] = {}
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
            self.touch(value, index)
            return
        op = value.owner
        assert isinstance(op, Op)
        if value in self.picked:
            self._pick(op, index)
            return
        if op.has(Trait.ELEMENTWISE):
            for v in op.operands:
                self.visit(v, index)
        elif (found := sources(op, index, self.space)) is not None:
            if op.kind is graph.pad:  # what clamps or folds an index may vanish within bounds, but must not be merged
                grown = zip(index, shape_of(op.operands[0]), shape_of(op.result), strict=True)
                self._opaque(*(i for i, before, after in grown if before != after))
            self.found.reshaped |= op.kind is graph.reshape
            for source in found:
                for lo, at, hi in source.where:
                    self._opaque(lo, at, hi)
                    unknown = [d for d in (at - lo, hi - 1 - at) if not self.space.nonnegative(d)]
                    self.found.inside += unknown
                    self.found.edges += [(at, lo), (at, hi)] if unknown else []
                self.visit(source.value, source.index)
        else:
            self._other(op, index)

    def _pick(self, op: Op, index: Index) -> None:
        """A place of a table, which is one number where the dims that it is looked up by stay."""
        (x, indices), axis = op.operands, attr_int(op, "axis")
        end = axis + len(shape_of(indices))
        at = index[axis:end]
        self._opaque(*at)
        if (op, at) not in self._picks:
            size = shape_of(x)[axis]
            self._picks[op, at] = self.picks(op, index) if self.picks else self.space.fresh("g", 0, size - 1)
        self.visit(x, (*index[:axis], self._picks[op, at], *index[end:]))

    def write(self, value: Value, index: Index) -> None:
        """Record the store of a value at `index`, and what computing it reads."""
        self.touch(value, index)
        self.visit(value, index)

    def touch(self, value: Value, index: Index) -> None:
        """Record an access to the memory of a value."""
        self.found.of.append(value)
        self.offset(linear(index, strides_of(shape_of(value))))

    def offset(self, offset: Dim) -> None:
        """Record an access at `offset`."""
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
            case graph.iota:
                self._opaque(index[attr_int(op, "axis")])
            case graph.reduce:
                self._reduce(op, index)
            case graph.take:
                x, indices = op.operands
                axis, rank = attr_int(op, "axis"), len(shape_of(indices))
                looked_up = self._looked_up(indices, index[axis : axis + rank], shape_of(x)[axis])
                self.visit(x, (*index[:axis], looked_up, *index[axis + rank :]))
            case graph.gather_nd if not attr_int(op, "batch_dims", 0):
                x, indices = op.operands
                lead = len(shape_of(indices)) - 1
                sizes = shape_of(x)[: static(shape_of(indices)[-1])]
                looked_up = (self._looked_up(indices, (*index[:lead], k), d) for k, d in enumerate(sizes))
                self.visit(x, (*looked_up, *index[lead:]))
            case _:
                # windows, contractions, element-wise look-ups: every variable keeps its identity
                self._opaque(*index)
                for v in op.operands:
                    if v not in self.leaves:
                        self.visit(v, tuple(self.space.fresh("u", 0, d - 1) for d in shape_of(v)))

    def _looked_up(self, indices: Value, at: Index, size: Dim) -> Dim:
        """The index that is looked up. What is proved of arithmetic holds for variables within their dims only."""
        if (found := place(indices, at, size, self.space)) is not None:
            self._opaque(*at)
            return found
        self.visit(indices, at)
        return self.space.fresh("g", 0, size - 1)

    def _reduce(self, op: Op, index: Index) -> None:
        (x,) = op.operands
        axes = attr_ints(op, "axes")
        inner = [self.space.fresh("r", 0, d - 1) for i, d in enumerate(shape_of(x)) if i in axes]
        self.visit(x, reduced_at(op, index, inner))


@dataclass(frozen=True, slots=True)
class Merged:
    """A loop dim made of adjacent tensor dims `first..last` (inclusive) that advance as one in all memory."""

    first: int
    last: int
    extent: Dim


@dataclass(frozen=True, slots=True)
class Walk:
    """A region's accesses, found by walking it from variables `names` over the dims of `shape`.

    `again` walks it from another index.
    """

    space: IndexSpace
    shape: Sequence[Dim]
    names: Sequence[str]
    again: Callable[[Index], Accesses]
    found: Accesses

    @staticmethod
    def over(space: IndexSpace, shape: Sequence[Dim], walk: Callable[[Index], Accesses]) -> Walk:
        """Walk a region at every index of a shape."""
        names = dim_names(space, shape)
        return Walk(space, shape, names, walk, walk(as_index(names)))

    def merge(self, barriers: Sequence[int] = ()) -> list[Merged]:
        """Join adjacent dims when every offset's strides allow it. Dims of size 1 vanish.

        No merge crosses from `b - 1` to `b` for b in `barriers`. A merged variable leaves the dim that it sits on:
        where a reshape may have used that dim's bounds, only what a second walk finds at the same offsets is merged.
        """
        out = self._joined(barriers, lambda _: True)
        if self.found.reshaped and not self._moves_nothing(out):
            return self._joined(barriers, self._moves_nothing)
        return out

    def last_run(
        self, dims: Sequence[Merged], shorter: int = 0, stored: Collection[Value] = ()
    ) -> tuple[Merged, Merged] | None:
        """The last two dims, if they are one in all memory that has the second, whose size is known.

        What varies along the first alone has one element for each run of the second: a value of a group of channels.
        Where that is `shorter` than so many, what varies along the second alone is the same for all runs, a value of
        each of a few channels, and runs of what is not `stored` may lie apart: a few columns of wider rows.
        """
        if len(dims) < 2 or not isinstance(extent := dims[-1].extent, int) or extent == 0:
            return None
        left, run = dims[-2:]
        outer, inner = self.names[left.last], self.names[run.last]

        def is_one(offset: Dim, value: Value) -> bool:
            by, c = coefficient(offset, outer), coefficient(offset, inner)
            if c is None or by is None:
                return c == 0
            may_be_apart = by == 0 or (c == 1 and value not in stored)
            return c == 0 or by == c * extent or (extent < shorter and may_be_apart)

        every = all(map(is_one, self.found.offsets, self.found.of))
        return (left, run) if every and self.found.opaque.isdisjoint((outer, inner)) else None

    def apart(self, least: int) -> tuple[Walk, Callable[[Index], Index]]:
        """The walk over both digits of each dim of which one runs side by side in some memory, for `least` elements.

        And the index into the shape at an index of that. Batch and channels of images with channels last may be one
        dim: what is read along the channels is no run along both. The last dim stays: neighbours have its digits.
        """
        outer = max((i for i, d in enumerate(self.shape) if d != 1), default=0)
        sizes = {i: size for i, d in enumerate(self.shape[:outer]) if (size := self._digits(i, d, least))}
        if not sizes:
            return self, lambda index: index
        cut = ((static(d) // sizes[i], sizes[i]) if i in sizes else (d,) for i, d in enumerate(self.shape))
        shape = tuple(itertools.chain.from_iterable(cut))

        def joined(index: Index) -> Index:
            return reshape_index(index, shape, self.shape, self.space)

        return Walk.over(self.space, shape, lambda index: self.again(joined(index))), joined

    def _digits(self, i: int, extent: Dim, least: int) -> int:
        """The size of a dim's last digit, if all that is not linear in it is made of both, and one runs; else 0."""
        name, sizes, run = self.names[i], set[int](), 0
        for monomial, c in (term for o in self.found.offsets if isinstance(o, Expr) for term in o.terms):
            for atom, _ in monomial:
                if not isinstance(atom, Call) or name not in symbols(of_atom(atom)):
                    continue
                first, by = (*atom.args, 0)[:2]
                is_digit = atom.fn in ("floordiv", "mod") and first == sym(name) and isinstance(extent, int)
                size = by if is_digit and isinstance(by, int) and by > 0 and extent % by == 0 else 0
                sizes.add(size)
                if (len(monomial), c) == (1, 1) and size:
                    run = max(run, size if atom.fn == "mod" else static(extent) // size)
        return sizes.pop() if len(sizes) == 1 and run >= least else 0

    def _joined(self, barriers: Sequence[int], allowed: Callable[[list[Merged]], bool]) -> list[Merged]:
        out: list[Merged] = []
        for i, d in enumerate(self.shape):
            if d == 1:
                continue
            if out and _joins(out[-1], i, self.shape, self.names, self.found, barriers):
                more = [*out[:-1], Merged(out[-1].first, i, out[-1].extent * d)]
                if allowed([*more, *(Merged(j, j, d) for j, d in enumerate(self.shape) if j > i and d != 1)]):
                    out = more
                    continue
            out.append(Merged(i, i, d))
        return out

    def _moves_nothing(self, dims: list[Merged]) -> bool:
        """Whether the region, walked at positions of merged dims, is found to access what it did before."""
        if all(d.first == d.last for d in dims):
            return True
        at = [self.space.fresh("l", 0, d.extent - 1) for d in dims]
        moved = merged_index(len(self.shape), dims, at)
        found, own = self.again(moved), {str(i) for i in at}
        was = dict(zip(self.names, moved, strict=True))
        return found.opaque.isdisjoint(
            str(i) for i, d in zip(at, dims, strict=True) if d.first != d.last
        ) and self._by_value(found, {}, own) == self._by_value(self.found, was, own)

    def _by_value(self, found: Accesses, at: Mapping[str, Dim], keep: set[str]) -> set[tuple[Value, Dim]]:
        """Offsets with variables replaced; those that only this walk made are called by their order."""
        out: set[tuple[Value, Dim]] = set()
        for value, offset in zip(found.of, found.offsets, strict=True):
            dim = self.space.simplify(substitute(offset, at))
            made = sorted(symbols(dim) & self.space.var_bounds.keys() - keep, key=self.space.rank)
            out.add((value, substitute(dim, {name: sym(f"#{i}") for i, name in enumerate(made)})))
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
