"""Index arithmetic means what it says: simplified, proved, reshaped and merged indices name the same elements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphfuse.blockgen import index as index_module
from graphfuse.blockgen.access import AccessAnalysis, Walk, as_index, dim_names, merged_index
from graphfuse.blockgen.index import IndexSpace, coefficient, linear, reshape_index, strides_of, unravel
from graphfuse.blockgen.tiling import Piece, pieces
from graphfuse.symbolic import (
    Dim,
    Expr,
    ceildiv,
    evaluate,
    floordiv,
    maximum,
    minimum,
    mod,
    product,
    substitute,
    sym,
    symbols,
)

FEW = settings(max_examples=60, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
MANY = settings(FEW, max_examples=250)
RANGES = {"n": (1, 4), "m": (1, 4)}
N, M = sym("n"), sym("m")


class Space:
    """A space with variables of constant, symbolic and dependent bounds, and every value they can have."""

    def __init__(self) -> None:
        self.space = IndexSpace(RANGES)
        self.i = self.space.fresh("i", 0, N - 1)
        self.j = self.space.fresh("j", 0, M - 1)
        self.k = self.space.fresh("k", 0, 3)
        self.f = self.space.fresh("f", 0, N * M - 1)
        self.d = self.space.fresh("d", 0, self.i)
        self.atoms = (self.i, self.j, self.k, self.f, self.d, N, M)

    def points(self, dim: Dim) -> Iterator[dict[str, int]]:
        """All values of what `dim` mentions."""
        names = [str(a) for a in (N, M, self.i, self.j, self.k, self.f, self.d)]
        used = self._closed(dim)

        def rest(left: Sequence[str], values: dict[str, int]) -> Iterator[dict[str, int]]:
            if not left:
                yield values
                return
            name = left[0]
            if name not in used:
                yield from rest(left[1:], values)
                return
            lo, hi = RANGES.get(name) or self.space.var_bounds[name]
            for v in range(evaluate(lo, values), evaluate(hi, values) + 1):
                yield from rest(left[1:], {**values, name: v})

        yield from itertools.islice(rest(names, {}), 3000)

    def _closed(self, dim: Dim) -> set[str]:
        used = set(symbols(dim))
        for name, (lo, hi) in reversed(self.space.var_bounds.items()):
            if name in used:
                used |= symbols(lo) | symbols(hi)
        return used


SPACE = Space()
DIVISORS = st.sampled_from([1, 2, 3, 4, 5, 6, 8, N, M, N * M, N * 2, M * 4])
TERMS = st.one_of(st.sampled_from(SPACE.atoms), st.integers(-3, 9))


def _combined(children: st.SearchStrategy[Dim]) -> st.SearchStrategy[Dim]:
    pair = st.tuples(children, children)
    return st.one_of(
        pair.map(lambda p: p[0] + p[1]),
        pair.map(lambda p: p[0] - p[1]),
        st.tuples(children, st.sampled_from([2, 3, 4, N, M])).map(lambda p: p[0] * p[1]),
        st.tuples(children, DIVISORS).map(lambda p: floordiv(*p)),
        st.tuples(children, DIVISORS).map(lambda p: mod(*p)),
        st.tuples(children, children, DIVISORS).map(lambda p: floordiv(p[0] * p[2] + p[1], p[2])),
        st.tuples(children, children, DIVISORS).map(lambda p: mod(p[0] * p[2] + p[1], p[2])),
        st.tuples(children, DIVISORS).map(lambda p: floordiv(*p) * p[1] + mod(*p)),
        pair.map(lambda p: minimum(*p)),
        pair.map(lambda p: maximum(*p)),
    )


DIMS = st.recursive(TERMS, _combined, max_leaves=6)


def simplified_is_equal(space: Space, dim: Dim) -> None:
    """`simplify(d) = d` for all values of the variables."""
    simple = space.space.simplify(dim)
    for values in space.points(dim):
        assert evaluate(simple, values) == evaluate(dim, values), f"{dim} became {simple}, at {values}"


def proofs_hold(space: Space, a: Dim, b: Dim) -> None:
    """What `nonnegative` and `below` claim is so everywhere."""
    if space.space.nonnegative(a):
        for values in space.points(a):
            assert evaluate(a, values) >= 0, f"{a} at {values}"
    if space.space.below(a, b):
        for values in space.points(a * N * M + b):  # both dims' variables
            assert evaluate(a, values) < evaluate(b, values), f"{a} < {b} at {values}"


@MANY
@given(DIMS)
def test_simplify_keeps_the_value(dim: Dim) -> None:
    simplified_is_equal(SPACE, dim)


@MANY
@given(DIMS, DIMS)
def test_proofs_never_lie(a: Dim, b: Dim) -> None:
    proofs_hold(SPACE, a, b)


def test_what_must_be_provable() -> None:
    """The bounds that schedules rely on; an index space that proved nothing would pass the laws."""
    s, space = SPACE, SPACE.space
    assert space.below(s.i, N)
    assert space.below(s.i * M + s.j, N * M)
    assert space.nonnegative(s.i - s.d)
    assert space.simplify(floordiv(s.i * M + s.j, M)) == s.i
    assert space.simplify(mod(s.i * M + s.j, M)) == s.j
    assert space.simplify(floordiv(s.f, M) * M + mod(s.f, M)) == s.f
    assert space.simplify(floordiv(s.f * M + s.j, N * M * 3)) == floordiv(s.f, N * 3)
    assert space.simplify(mod(s.i * 8 + s.k, 24)) == mod(s.i, 3) * 8 + s.k
    assert space.simplify(floordiv(s.i * 4 + s.k, 28) * 28 + mod(s.i, 7) * 4 + s.k) == s.i * 4 + s.k
    assert space.simplify(floordiv(s.i * 3 + s.k, 9)) == floordiv(s.i * 3 + s.k, 9)
    assert space.simplify(minimum(s.i, N - 1)) == s.i
    assert space.simplify(floordiv(s.f + s.i * 2, 6) * 3 + mod(floordiv(s.f, 2) + s.i, 3)) == floordiv(s.f, 2) + s.i
    assert coefficient(s.i * s.i + s.j, str(s.i)) is None
    assert coefficient(s.i * floordiv(s.f, 2), str(s.i)) == floordiv(s.f, 2)
    assert not space.below(s.i, N - 1)
    assert not space.nonnegative(s.i - s.j)


def test_digits_of_a_tile_are_joined() -> None:
    """Each digit gets simpler in a way of its own, and what some make together gets simpler again."""
    space = IndexSpace({})
    row = space.fresh("p", 0, 3135) * 128 + space.fresh("l", 0, 127)
    image, *at = unravel(row, (32, 112, 112), space)
    assert space.simplify(linear([image, *at], (112 * 112, 112, 1))) == row


def test_digits_of_a_part_are_joined() -> None:
    """Of dims 4, 80, 80 in 16 parts, which a loop goes over by 128: what a chunk's lane is less than names the loop."""
    space = IndexSpace({})
    part, t = space.fresh("p", 0, 15), space.fresh("t", 0, 11)
    at = space.fresh("l", 0, 1599 - 128 * t) + 128 * t
    assert space.below(floordiv(at, 80), 20)
    assert not space.below(floordiv(at, 80), 19)
    digits = 6400 * floordiv(part, 4) + 80 * mod(floordiv(at, 80) + 20 * part, 80) + mod(at, 80)
    assert space.simplify(digits) == at + 1600 * part


def test_dims_that_a_reshape_leaves_alone_need_no_proof() -> None:
    s, space = Space(), IndexSpace({})
    anywhere = space.fresh("t", 0, 99)
    assert reshape_index((s.i, s.k, anywhere), (N, 4, 5), (N * 4, 5), space) == (s.i * 4 + s.k, anywhere)


def test_proofs_do_not_depend_on_the_order_of_a_set() -> None:
    """Many names, one proof each: a proof that went by hash order would fail for some of them."""
    space = IndexSpace({"n": (1, 100)})
    for hint in "abcdefghijklmnopqrstuvwxyz":
        outer = space.fresh(hint, 0, N - 1)
        assert space.nonnegative(outer - space.fresh(hint.upper(), 0, outer))


# reshapes

FACTORS = st.lists(st.sampled_from([1, 2, 3, 4, N, M]), min_size=0, max_size=4)


@st.composite
def two_shapes(draw: st.DrawFn) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
    """Two ways of cutting the same factors into dims, with 1s strewn in."""
    factors = draw(FACTORS)

    def shape() -> tuple[Dim, ...]:
        out: list[Dim] = []
        for f in factors:
            if out and draw(st.booleans()):
                out[-1] = out[-1] * f
            else:
                out.append(f)
        for _ in range(draw(st.integers(0, 2))):
            out.insert(draw(st.integers(0, len(out))), 1)
        return tuple(out)

    first, second = shape(), shape()
    if all(isinstance(f, int) for f in factors) and draw(st.booleans()):
        second = tuple(reversed(second))  # no dims in common
    return first, second


def test_what_an_index_was_made_of_has_its_variables_alone() -> None:
    s = Space()
    flat = s.i * M + s.j
    s.space.follows((flat,), (N * M,), (s.i, s.j), (N, M))
    assert s.space.origin((flat,), (N * M,)) == ((s.i, s.j), (N, M))
    s.space.follows((0,), (1,), (s.k,), (4,))
    assert s.space.origin((0,), (1,)) == ((0,), (1,))


def reshape_is_numpys(first: Sequence[Dim], second: Sequence[Dim], values: Mapping[str, int]) -> None:
    """Every index of one shape goes where numpy's reshape puts it."""
    space = IndexSpace(RANGES)
    names = dim_names(space, first)
    index = reshape_index(as_index(names), first, second, space)
    assert len(index) == len(second)
    a, b = (tuple(evaluate(d, values) for d in shape) for shape in (first, second))
    flat = np.arange(math.prod(b)).reshape(b)
    want = flat.reshape(a)
    for at in np.ndindex(*a):
        point = {**values, **dict(zip(names, at, strict=True))}
        assert flat[tuple(evaluate(d, point) for d in index)] == want[at], f"{first} to {second}: {index} at {point}"


@MANY
@given(two_shapes(), st.fixed_dictionaries({"n": st.integers(1, 4), "m": st.integers(1, 4)}))
def test_reshape_index_is_numpys_reshape(
    shapes: tuple[tuple[Dim, ...], tuple[Dim, ...]], values: dict[str, int]
) -> None:
    reshape_is_numpys(*shapes, values)


def test_dims_a_reshape_leaves_alone_map_to_themselves() -> None:
    space = IndexSpace(RANGES)
    i, j, k = as_index(dim_names(space, (N, 12, M)))
    at = reshape_index((i, j, k), (N, 12, M), (N, 3, 4, M), space)
    assert (at[0], at[3]) == (i, k)
    assert reshape_index(at, (N, 3, 4, M), (N, 12, M), space) == (i, j, k)


@FEW
@given(FACTORS, st.fixed_dictionaries({"n": st.integers(1, 4), "m": st.integers(1, 4)}))
def test_unravel_is_numpys(shape: list[Dim], values: dict[str, int]) -> None:
    space = IndexSpace(RANGES)
    flat = space.fresh("f", 0, product(shape) - 1)
    index = unravel(flat, shape, space)
    numbers = tuple(evaluate(d, values) for d in shape)
    for at in range(math.prod(numbers)):
        got = tuple(evaluate(d, {**values, str(flat): at}) for d in index)
        assert got == tuple(int(x) for x in np.unravel_index(at, numbers))
    assert linear(strides_of(shape), [0] * len(shape)) == 0


# tiles


def covered(found: Sequence[Piece], values: Mapping[str, int]) -> list[int]:
    """The positions that the tiles' existing lanes stand for, in order."""
    out: list[int] = []
    for piece in found:
        start, count = evaluate(piece.start, values), evaluate(piece.count, values)
        limit = None if piece.limit is None else evaluate(piece.limit, values)
        for t in range(count):
            first = start + t * piece.width
            out += [at for at in range(first, first + piece.width) if limit is None or at < limit]
    return out


def pieces_cover(extent: int, width: int, vector: int, *, symbolic: bool) -> None:
    """Every position once, in order, and no piece without lanes."""
    found = pieces(sym("e") if symbolic else extent, width, vector)
    assert covered(found, {"e": extent}) == list(range(extent))
    assert all(p.width > 0 for p in found)


@FEW
@given(st.integers(0, 300), st.sampled_from([4, 8, 16]), st.sampled_from([1, 2, 4]), st.booleans())
def test_pieces_cover_exactly(extent: int, vector: int, vectors: int, symbolic: bool) -> None:
    pieces_cover(extent, vector * vectors, vector, symbolic=symbolic)


def test_whole_tiles_have_no_limit() -> None:
    assert pieces(64, 64, 16) == [Piece(0, 1, 64)]
    assert pieces(7, 64, 16) == [Piece(0, 1, 7)]
    assert pieces(0, 64, 16) == []
    assert [p.limit for p in pieces(85, 64, 16)] == [None, None, 85]


# merging


@st.composite
def accesses(draw: st.DrawFn) -> tuple[tuple[Dim, ...], list[list[Dim]], list[tuple[int, int]]]:
    """A shape, strides of some arrays over it (dense, permuted, broadcast), and dims with a use of their own."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, N, M]), min_size=1, max_size=4)))
    arrays: list[list[Dim]] = []
    for _ in range(draw(st.integers(1, 3))):
        kept = [draw(st.sampled_from([True, True, True, False])) for _ in shape]
        dense = strides_of([d if k else 1 for d, k in zip(shape, kept, strict=True)])
        strides: list[Dim] = [s if k else 0 for s, k in zip(dense, kept, strict=True)]
        if draw(st.integers(0, 3)) == 0:
            strides = list(draw(st.permutations(strides)))
        arrays.append([s * draw(st.sampled_from([1, 2])) for s in strides])
    divided = draw(st.lists(st.tuples(st.integers(0, len(shape) - 1), st.integers(2, 3)), max_size=1))
    return shape, arrays, divided


def walk_of(space: IndexSpace, shape: tuple[Dim, ...], names: list[str], offsets: list[Dim]) -> Walk:
    """A walk that found these offsets, and no reshape."""
    analysis = AccessAnalysis(space, set())
    for offset in offsets:
        analysis.offset(offset)
    return Walk(space, shape, names, lambda _: analysis.found, analysis.found)


def merged_offsets_are_equal(shape: tuple[Dim, ...], arrays: list[list[Dim]], divided: list[tuple[int, int]]) -> None:
    """Each position of the merged loops touches what its index touches in every array."""
    space = IndexSpace(RANGES)
    names = dim_names(space, shape)
    index = as_index(names)
    offsets: list[Dim] = [linear(index, strides) for strides in arrays]
    # simplified: a quotient that bounds make constant is none that a schedule could see
    offsets += [space.simplify(floordiv(index[i], by)) for i, by in divided]
    dims = walk_of(space, shape, names, offsets).merge()
    values = {"n": 3, "m": 2}
    numbers = [evaluate(d, values) for d in shape]
    for at in np.ndindex(*numbers):
        position = [int(np.ravel_multi_index(at[d.first : d.last + 1], numbers[d.first : d.last + 1])) for d in dims]
        moved = merged_index(len(shape), dims, position)
        for offset in offsets:
            want, got = (
                evaluate(substitute(offset, dict(zip(names, where, strict=True))), values) for where in (at, moved)
            )
            assert got == want, f"{shape}: {dims} moves {offset} at {at}"
    assert product([d.extent for d in dims]) == product(shape)


@MANY
@given(accesses())
def test_merged_dims_touch_the_same_elements(
    found: tuple[tuple[Dim, ...], list[list[Dim]], list[tuple[int, int]]],
) -> None:
    merged_offsets_are_equal(*found)


def test_dense_arrays_merge_to_one_dim() -> None:
    space = IndexSpace(RANGES)
    shape = (N, 1, 4, M)
    names = dim_names(space, shape)
    walk = walk_of(space, shape, names, [linear(as_index(names), strides_of(shape))])
    assert [d.extent for d in walk.merge()] == [N * M * 4]
    assert len(walk.merge(barriers=[2])) == 2


# planted bugs


def test_the_laws_find_a_lying_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """`a < b` taken for `a <= b`: the last element of a dim seems inside one that is too small."""
    monkeypatch.setattr(IndexSpace, "below", lambda self, a, b: self.nonnegative(b - a))
    space = Space()
    with pytest.raises(AssertionError):
        proofs_hold(space, space.i, N - 1)
    with pytest.raises(AssertionError):
        simplified_is_equal(space, mod(space.i + 1, N))


def test_the_laws_find_a_wrong_elimination(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest value taken for the smallest."""
    real = IndexSpace._eliminate
    monkeypatch.setattr(IndexSpace, "_eliminate", lambda self, dim: -d if (d := real(self, -dim)) is not None else None)
    space = Space()
    with pytest.raises(AssertionError):
        proofs_hold(space, space.i - 1, 0)


def test_the_laws_find_a_wrong_rejoin(monkeypatch: pytest.MonkeyPatch) -> None:
    real = index_module.IndexSpace._partners

    def wrong(space: index_module.IndexSpace, dim: Expr, a: Dim, b: Dim) -> Iterator[tuple[Dim, Dim]]:
        return ((q, x + 1) for q, x in real(space, dim, a, b))

    monkeypatch.setattr(index_module.IndexSpace, "_partners", wrong)
    space = Space()
    with pytest.raises(AssertionError):
        simplified_is_equal(space, floordiv(space.f, M) * M + mod(space.f, M))


def test_the_laws_find_reversed_strides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "strides_of", lambda shape: tuple(reversed(strides_of(shape))))
    with pytest.raises((AssertionError, IndexError)):
        reshape_is_numpys((6, 4), (4, 6), {})


def test_the_laws_find_a_lost_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphfuse.blockgen.tiling.floordiv", lambda a, b: floordiv(a, b) if b != 4 else a // b - 1)
    with pytest.raises(AssertionError):
        pieces_cover(9, 8, 4, symbolic=True)


def test_the_laws_find_a_careless_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without opaque dims, a floordiv of one dim would see the merged position."""

    def careless(self: AccessAnalysis, offset: Dim) -> None:
        if "floordiv" not in str(offset):
            self.found.offsets.append(offset)

    monkeypatch.setattr(AccessAnalysis, "offset", careless)
    with pytest.raises(AssertionError):
        merged_offsets_are_equal((2, 3), [[3, 1]], [(1, 2)])


def test_ceildiv_of_pieces() -> None:
    """The tail of a symbolic extent takes `ceildiv(tail, vector)` single vectors."""
    e = sym("e")
    _, tail = pieces(e, 16, 4)
    assert isinstance(e, Expr)
    assert evaluate(tail.count, {"e": 21}) == ceildiv(5, 4)
