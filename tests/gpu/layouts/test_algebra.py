"""Linear layouts: the algebra agrees with brute force over all indices."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphfuse.errors import VerifyError
from graphfuse.ir.layout import (
    LANE,
    OFFSET,
    REGISTER,
    WARP,
    Echelon,
    LinearLayout,
    intersection,
    null_space,
    xor_columns,
)
from graphfuse.ir.layout_families import Blocked, Mma, Operand, Tma, Wgmma
from tests.gpu.layouts.algebra import compose, divide, image, invert, kernel, squeeze
from tests.gpu.layouts.simulate import flat_array
from tests.gpu.layouts.strategies import LAWS, any_map, distributed, families, shape_for, shapes

identity = LinearLayout.identity


def every(layout):
    """All inputs of a layout, as dicts."""
    sizes = [range(layout.size(n)) for n in layout.in_names]
    return (dict(zip(layout.in_names, x, strict=True)) for x in itertools.product(*sizes))


@LAWS
@given(st.lists(st.integers(0, 63), max_size=7), st.lists(st.integers(0, 63), max_size=6), st.integers(0, 63))
@example([1, 24, 25], [1, 24, 25], 0)
def test_elimination(a, b, y):
    """Solutions solve, null vectors vanish, and intersections are what both spans contain."""

    def span(columns):
        return {xor_columns(columns, x) for x in range(1 << len(columns))}

    echelon = Echelon(a)
    assert (y in echelon) == (y in span(a))
    if (x := echelon.solve(y)) is not None:
        assert xor_columns(a, x) == y
    assert len(span(a)) == 1 << echelon.rank
    assert len(null_space(a)) == len(a) - echelon.rank
    assert all(xor_columns(a, x) == 0 for x in null_space(a))
    assert span(intersection(a, b)) == span(a) & span(b)
    assert len(span(intersection(a, b))) == 1 << len(intersection(a, b))


@LAWS
@given(st.data())
def test_every_family_holds_every_element(data):
    """A layout is a surjection onto the tile, and hardware indices without free bits hold each element once."""
    layout = data.draw(families)
    shape = shape_for(data.draw, layout)
    m = layout.linear(shape)
    assert m.shape == tuple(shape)
    free = m.free_masks()
    held = [m.flat(**x) for x in every(m)]
    assert set(held) == set(range(1 << m.out_bits))
    once = [m.flat(**x) for x in every(m) if all(x[n] & free[n] == 0 for n in x)]
    assert sorted(once) == list(range(1 << m.out_bits))
    assert m.is_surjective
    assert (m.rank == m.in_bits) == (len(held) == len(set(held)))


@LAWS
@given(st.data(), shapes())
def test_linear(data, shape):
    """L(x ^ y) = L(x) ^ L(y); coordinates, packed values and arrays agree."""
    m = data.draw(any_map(shape))
    x, y = ({n: data.draw(st.integers(0, m.size(n) - 1)) for n in m.in_names} for _ in range(2))
    assert m.flat(**{n: x[n] ^ y[n] for n in x}) == m.flat(**x) ^ m.flat(**y)
    assert np.ravel_multi_index(m.apply(**x), shape) == m.flat(**x)
    arrays = {n: np.array([x[n], y[n]]) for n in x}
    assert flat_array(m, **arrays).tolist() == [m.flat(**x), m.flat(**y)]
    for k in kernel(m):
        assert xor_columns(m.columns, k) == 0
    assert Echelon(image(m)).rank == m.rank == Echelon(m.columns).rank


@LAWS
@given(st.data())
def test_compose_and_invert(data):
    """A right inverse finds an index of every element; of a bijection it is the inverse, and an involution."""
    m = data.draw(any_map((16, 16)))
    inverse = m.pseudo_invert()
    assert compose(inverse, m) == identity(16, "dim0", "dim0") * identity(16, "dim1", "dim1")
    free = m.free_masks()
    for x in every(inverse):
        found = dict(zip(inverse.out_names, inverse.apply(**x), strict=True))
        assert all(found[n] & free[n] == 0 for n in found)
    if m.is_bijective:
        assert invert(invert(m)) == m
        assert compose(m, invert(m)).columns == tuple(1 << i for i in range(m.in_bits))


@LAWS
@given(st.data())
def test_compose_is_application(data):
    inner = data.draw(any_map((8, 32)))
    outer = LinearLayout.of(
        {"dim0": data.draw(st.lists(st.integers(0, 255), min_size=3, max_size=3)),
         "dim1": data.draw(st.lists(st.integers(0, 255), min_size=5, max_size=5))},
        {"dim0": 4, "dim1": 4},
    )  # fmt: skip
    both = compose(inner, outer)
    for x in itertools.islice(every(inner), 64):
        middle = dict(zip(inner.out_names, inner.apply(**x), strict=True))
        assert both.apply(**x) == outer.apply(**middle)


tiles = st.builds(
    lambda r, lane, d: identity(r, REGISTER, "dim1") * identity(lane, LANE, d),
    st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 8]), st.sampled_from(["dim0", "dim1"]),
)  # fmt: skip


@LAWS
@given(tiles, st.data())
def test_product_and_division(tile, data):
    """`low * divide(low * q, low)` is the product again, products are associative, and the identity is neutral."""
    tile = LinearLayout.of({}, {"dim0": 0, "dim1": 0}) * tile
    q = data.draw(any_map((8, 8), warps=2))
    whole = tile * q
    assert divide(whole, tile) == q
    assert (tile * tile) * q == tile * (tile * q)
    assert LinearLayout.of({}, {"dim0": 0, "dim1": 0}) * q == q
    if (quotient := divide(q, tile)) is not None:
        assert tile * quotient == q


def test_product_concatenates_bits():
    """The second factor's outputs lie above the first's, dim by dim."""
    m = identity(2, REGISTER, "dim1") * identity(4, LANE, "dim1") * identity(8, LANE, "dim0")
    assert [m.apply(register=r, lane=lane) for r, lane in ((1, 0), (0, 1), (0, 3), (0, 4), (1, 31))] == [
        (1, 0), (2, 0), (6, 0), (0, 1), (7, 7)
    ]  # fmt: skip
    assert divide(m, identity(2, REGISTER, "dim0")) is None
    assert divide(m, identity(4, REGISTER, "dim1")) is None


@LAWS
@given(st.data())
def test_through_finds_each_element(data):
    """`source(C(x)) == self(x)`, and what both hold at one place stays there."""
    shape = (64, 32)
    a, b = (data.draw(st.one_of(distributed(shape), any_map(shape))) for _ in range(2))
    c = b.through(a)
    for x in itertools.islice(every(b), 0, None, 17):
        where = dict(zip(c.out_names, c.apply(**x), strict=True))
        assert a.flat(**where) == b.flat(**x)
    if all(base for _, bases in b.ins for base in bases):
        same = b.through(b)
        assert all(same.flat(**{n: 1 << i}) == identity_of(same, n, i) for n, bs in b.ins for i in range(len(bs)))


def identity_of(m, name, i):
    at = 0
    for out, bits in reversed(m.outs):
        if out == name:
            return 1 << at + i
        at += bits
    raise AssertionError(name)


def test_through_leaves_copies_with_their_owner():
    """A value that all warps hold is not fetched from warp 0."""
    held = LinearLayout.of({REGISTER: [1], LANE: [2, 4, 8, 16, 32], WARP: [0, 0]}, {"dim0": 6})
    wanted = LinearLayout.of({REGISTER: [2], LANE: [1, 4, 8, 16, 32], WARP: [0, 0]}, {"dim0": 6})
    c = wanted.through(held)
    assert c.apply(warp=3) == (3, 0, 0)
    assert wanted.through(wanted).apply(warp=2, lane=5, register=1) == (2, 5, 1)
    spread = LinearLayout.of({LANE: [1, 2, 4, 8, 16], WARP: [32]}, {"dim0": 6})
    copies = LinearLayout.of({REGISTER: [32], LANE: [1, 2, 4, 8, 16], WARP: [0]}, {"dim0": 6})
    assert spread.through(copies).apply(warp=1) == (1, 0, 1), "the own warp has it, in register 1"


@LAWS
@given(st.data(), shapes(least=(4, 8)))
def test_views(data, shape):
    """Views of the layout hold what views of the tile would."""
    m = data.draw(any_map(shape))
    tile = np.arange(1 << m.out_bits).reshape(shape)
    for x in itertools.islice(every(m), 0, None, 29):
        element = m.flat(**x)
        assert tile.reshape(-1)[m.reshape((1 << m.out_bits,)).flat(**x)] == element
        assert tile.T[m.transpose((1, 0)).apply(**x)] == element
        assert tile[:, None][m.expand(1).apply(**x)] == element
        assert squeeze(m.expand(1), 1).apply(**x) == m.apply(**x)
        assert m.reduce(0).apply(**x) == m.apply(**x)[1:]
    for axis in (0, 1):
        sliced = m.slice(axis)
        assert sliced.is_surjective
        assert sliced.free_masks().get(REGISTER, 0) == 0
        assert sliced.bases(LANE) == m.reduce(axis).bases(LANE)


def test_canonical_equality():
    """Order of inputs and inputs without bits do not count; order of outputs does."""
    a = LinearLayout.of({LANE: [1], REGISTER: [2], WARP: []}, {"dim0": 2})
    assert a == LinearLayout.of({REGISTER: [2], LANE: [1]}, {"dim0": 2})
    assert hash(a) == hash(LinearLayout.of({REGISTER: [2], LANE: [1]}, {"dim0": 2}))
    assert a != LinearLayout.of({REGISTER: [1], LANE: [2]}, {"dim0": 2})


def test_blocked_wraps_and_copies():
    """Tiles larger than the box repeat in registers; smaller ones leave threads with copies."""
    layout = Blocked((1, 2), (8, 4), (2, 1), (1, 0))
    big, small = layout.linear((32, 16)), layout.linear((4, 8))
    assert big.vectors(REGISTER) == ((0, 1), (0, 8), (16, 0))
    assert small.free_masks() == {REGISTER: 0, LANE: 16, WARP: 1}
    with pytest.raises(VerifyError, match="expected a tile of rank 2"):
        layout.linear((8,))
    with pytest.raises(VerifyError, match="power of two, got 12"):
        layout.linear((12, 8))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Blocked((1, 3), (8, 4), (2, 1), (1, 0)), "power of two, got 3"),
        (
            lambda: Blocked((1, 2), (8, 4), (2, 1), (1, 1)),
            "order must be a permutation of the dims, one entry of each list per dim",
        ),
        (lambda: LinearLayout.from_vectors({LANE: [(0, 9)]}, (4, 8)), r"lane base \[0, 9\] is outside the shape"),
        (
            lambda: identity(4, LANE, "dim0").through(identity(2, LANE, "dim0")),
            r"layout: shapes differ: \[4\] and \[2\]",
        ),
        (
            lambda: identity(4, LANE, "dim0").through(LinearLayout.of({OFFSET: [1]}, {"dim0": 2})),
            r"layout: the source does not hold element \(2,\)",
        ),
        (lambda: Mma((2, 1)).linear((4, 4)), r"expected a tile of at least \[16, 8\], got \[4, 4\]"),
        (lambda: Mma((2,)), r"mma: warps must have two entries, got \[2\]"),
        (lambda: Operand(4, 0, (1, 1)), "operand: bits must be 8, 16 or 32 and index 0 or 1, got 4 and 0"),
        (lambda: Wgmma(4, (4, 1)), r"wgmma: expected 4k warps along M and n in 8..256, got \(4, 1\), 4"),
        (lambda: Tma(2, (1, 0), 48), "tma: swizzle must be 32, 64 or 128 bytes on a rank-2 tile, got 48"),
    ],
)
def test_bad_layouts_are_refused(make, message):
    with pytest.raises(VerifyError, match=message):
        make()
