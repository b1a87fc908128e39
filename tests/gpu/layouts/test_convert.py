"""Conversions: every plan delivers every element, and shared memory is used without bank conflicts."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphfuse.errors import UnsupportedError, VerifyError
from graphfuse.gpu.analysis.memory_access import bank_conflicts, sectors, vector_width
from graphfuse.gpu.convert import (
    Barrier,
    Exchange,
    Gather,
    Load,
    Rename,
    Store,
    plan,
    swizzle,
)
from graphfuse.ir.layout import BLOCK, LANE, OFFSET, REGISTER, WARP, LinearLayout
from graphfuse.ir.layout_families import Blocked, Mma, Operand, Shared, Tma, Wgmma
from tests.gpu.layouts.algebra import Slice, invert
from tests.gpu.layouts.simulate import flat_array, simulate
from tests.gpu.layouts.strategies import LAWS, any_map, distributed

SHAPE = (128, 64)
FAMILIES = {
    "rows": Blocked((1, 8), (4, 8), (4, 1), (1, 0)),
    "columns": Blocked((8, 1), (16, 2), (1, 4), (0, 1)),
    "narrow": Blocked((1, 4), (2, 16), (4, 1), (1, 0)),
    "square": Blocked((2, 2), (8, 4), (4, 1), (1, 0)),
    "mma": Mma((4, 1)),
    "mma22": Mma((2, 2)),
    "wgmma": Wgmma(64, (4, 1)),
    "a16": Operand(16, 0, (4, 1)),
    "a8": Operand(8, 0, (4, 1)),
    "b16": Operand(16, 1, (1, 4)),
}
LAYOUTS = {name: family.linear(SHAPE) for name, family in FAMILIES.items()}


def held(layout):
    """What each register holds, as element numbers [warp, lane, register]."""
    w, lane, r = np.ix_(*(np.arange(layout.size(n)) for n in (WARP, LANE, REGISTER)))
    return flat_array(layout, warp=w, lane=lane, register=r) + 0 * (w + lane + r)


def check(conversion):
    got = simulate(conversion, held(conversion.source))
    assert np.array_equal(got, held(conversion.target)), conversion


@pytest.mark.parametrize(("a", "b"), list(itertools.permutations(LAYOUTS, 2)))
def test_between_families(a, b):
    """The shared route never conflicts, in either direction and at any width; the chosen route delivers."""
    for bits in (8, 16, 32, 64):
        through = plan(LAYOUTS[a], LAYOUTS[b], bits, "shared")
        for step in through.steps:
            if isinstance(step, Store | Load):
                assert step.access.conflicts == 0
        if bits == 16:
            check(through)
        chosen = plan(LAYOUTS[a], LAYOUTS[b], bits)
        assert chosen.cycles <= through.cycles
        if chosen.route != "shared" and bits < 64:
            check(chosen)


@LAWS
@given(st.data(), st.sampled_from([8, 16, 32, 64]))
def test_any_conversion_delivers(data, bits):
    """All routes that are possible give every thread the elements that its layout names."""
    shape = (64, 32)
    a, b = (data.draw(st.one_of(distributed(shape), any_map(shape))) for _ in range(2))
    if any(a.size(n) != b.size(n) for n in (LANE, WARP)):
        return
    check(plan(a, b, bits))
    check(plan(a, b, bits, "shared"))


@st.composite
def within_a_warp(draw):
    """A pair of layouts that differ by a bijection of (register, lane)."""
    a = draw(any_map((64, 32)))
    low = [*a.bases(REGISTER), *a.bases(LANE)]
    if draw(st.booleans()):
        low = draw(st.permutations(low))
    else:
        for _ in range(draw(st.integers(0, 5))):
            i, j = draw(st.integers(0, len(low) - 1)), draw(st.integers(0, len(low) - 1))
            if i != j:
                low[i] ^= low[j]
    n = len(a.bases(REGISTER))
    return a, LinearLayout.of({REGISTER: low[:n], LANE: low[n:], WARP: a.bases(WARP)}, dict(a.outs))


@LAWS
@given(within_a_warp(), st.sampled_from([8, 16, 32]))
def test_shuffles_deliver(pair, bits):
    a, b = pair
    routes = {plan(a, b, bits).route}
    for route in ("none", "registers", "shuffle"):
        try:
            conversion = plan(a, b, bits, route)
        except AssertionError:
            continue
        routes.add(route)
        assert (conversion.shuffles > 0) <= (route == "shuffle")
        check(conversion)
    assert routes & {"none", "registers", "shuffle"}, "data that stays in its warp needs no shared memory"


def test_free_conversions():
    """The accumulator of one dot is operand A of the next, and mma's tile is wgmma's."""
    assert plan(LAYOUTS["mma"], LAYOUTS["wgmma"], 32).steps == ()
    assert plan(LAYOUTS["wgmma"], LAYOUTS["a16"], 16).route == "none"
    renamed = plan(Wgmma(32, (4, 1)).linear((64, 64)), Mma((4, 1)).linear((64, 64)), 32)
    assert renamed.route == "none"
    swapped = LAYOUTS["mma"].select(REGISTER, [1, 0, 2, 3, 4, 5])
    assert plan(LAYOUTS["mma"], swapped, 32).steps == (
        Rename(tuple((r & ~3) | (r & 1) << 1 | r >> 1 & 1 for r in range(64))),
    )


def test_rounds_of_shuffles():
    """Two register bits that become lane bits are two exchanges; 16-bit elements travel in pairs."""
    conversion = plan(LAYOUTS["square"], LAYOUTS["mma"], 16)
    assert conversion.route == "shuffle"
    exchanges = [s for s in conversion.steps if isinstance(s, Exchange)]
    assert len(exchanges) == 1
    assert conversion.rounds == 2
    assert conversion.shuffles * 2 == plan(LAYOUTS["square"], LAYOUTS["mma"], 32, "shuffle").shuffles
    assert plan(LAYOUTS["square"], LAYOUTS["mma"], 64, "shuffle").shuffles == 4 * conversion.shuffles


def test_copies_are_selected_not_shuffled():
    """Lanes that hold copies choose among their own registers."""
    copies = LinearLayout.of({REGISTER: [1], LANE: [0, 2, 4, 8, 16]}, {"dim0": 5})
    spread = LinearLayout.of({LANE: [1, 2, 4, 8, 16]}, {"dim0": 5})
    conversion = plan(copies, spread, 32)
    (step,) = conversion.steps
    assert isinstance(step, Gather)
    assert (step.crosses_lanes, step.selections, conversion.shuffles) == (False, 2, 0)
    check(conversion)
    check(plan(spread, copies, 32))


def test_copies_are_stored_once():
    """Only one of the threads that hold an element stores it, and all that want it load it."""
    rows = Slice(1, Mma((2, 2)), 64).linear((64,))
    other = Slice(0, Blocked((1, 1), (1, 32), (1, 4), (1, 0)), 16).linear((64,))
    conversion = plan(rows, other, 32)
    (store,) = (s for s in conversion.steps if isinstance(s, Store))
    assert (store.free_lanes, store.free_warps) == (3, 2)
    check(conversion)


def test_barrier_scope():
    """Data that stays in its warp waits for that warp only."""
    inside = plan(LAYOUTS["square"], LAYOUTS["mma"], 32, "shared")
    across = plan(LAYOUTS["rows"], LAYOUTS["columns"], 32, "shared")
    assert [s.scope for s in inside.steps if isinstance(s, Barrier)] == ["warp"]
    assert [s.scope for s in across.steps if isinstance(s, Barrier)] == ["block"]
    assert across.shared_bytes == 128 * 64 * 4


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_vectors_are_as_wide_as_both_sides_allow(bits):
    wide = Blocked((1, 16), (8, 4), (4, 1), (1, 0)).linear(SHAPE)
    other = Blocked((2, 16), (32, 1), (1, 4), (1, 0)).linear(SHAPE)
    conversion = plan(wide, other, bits, "shared")
    assert [s.access.vector for s in conversion.steps if isinstance(s, Store | Load)] == [128 // bits] * 2


# planted bugs: the simulator notices


def shared_plan():
    conversion = plan(LAYOUTS["rows"], LAYOUTS["columns"], 32)
    assert conversion.route == "shared"
    return conversion


def replaced(conversion, kind, **changes):
    steps = tuple(dataclasses.replace(s, **changes) if isinstance(s, kind) else s for s in conversion.steps)
    return dataclasses.replace(conversion, steps=steps)


def test_a_dropped_barrier_is_seen():
    conversion = shared_plan()
    steps = tuple(s for s in conversion.steps if not isinstance(s, Barrier))
    with pytest.raises(AssertionError, match="read before it is written"):
        check(dataclasses.replace(conversion, steps=steps))


def test_a_wrong_predicate_is_seen():
    with pytest.raises(AssertionError, match="read before it is written"):
        check(replaced(shared_plan(), Store, free_lanes=1))
    rows = Slice(1, Mma((2, 2)), 64).linear((64,))
    other = Slice(0, Blocked((1, 1), (1, 32), (1, 4), (1, 0)), 16).linear((64,))
    with pytest.raises(AssertionError, match="stored twice"):
        check(replaced(plan(rows, other, 32), Store, free_warps=0))


def test_a_wrong_swizzle_is_seen():
    conversion = shared_plan()
    (load,) = (s for s in conversion.steps if isinstance(s, Load))
    plain = bank_conflicts(Shared((1, 0)).linear(SHAPE), conversion.target, 4)
    assert load.access.conflicts == 0
    with pytest.raises(AssertionError):
        check(replaced(conversion, Load, access=plain))
    wide = dataclasses.replace(load.access, groups=tuple(g + h for g, h in itertools.pairwise(load.access.groups)))
    with pytest.raises(AssertionError, match=r"not aligned|not contiguous"):
        check(replaced(conversion, Load, access=wide))


def test_a_wrong_exchange_is_seen():
    conversion = plan(LAYOUTS["square"], LAYOUTS["mma"], 32, "shuffle")
    assert any(isinstance(s, Exchange) for s in conversion.steps)
    (exchange,) = (s for s in conversion.steps if isinstance(s, Exchange))
    with pytest.raises(AssertionError):
        check(replaced(conversion, Exchange, lane_bit=(exchange.lane_bit + 1) % 5))
    without = tuple(s for s in conversion.steps if not isinstance(s, Gather))
    with pytest.raises(AssertionError):
        check(dataclasses.replace(conversion, steps=without))


def test_refusals():
    spread = LinearLayout.of({LANE: [1, 2, 4, 8, 16], BLOCK: [32]}, {"dim0": 6})
    with pytest.raises(
        UnsupportedError, match="layout conversion: tiles spread over the blocks of a cluster are not converted"
    ):
        plan(spread, spread, 32)
    with pytest.raises(VerifyError, match="layout conversion: the layouts are for different numbers of threads"):
        plan(Mma((2, 1)).linear((64, 64)), Mma((4, 1)).linear((64, 64)), 32)


# banks


def brute_force_wavefronts(shared, access, elem_bytes, report):
    """Wavefronts of every instruction of every warp, by counting words per bank."""
    inverse = invert(shared)
    together = max(1, min(32, 128 // max(4, elem_bytes * report.vector)))
    for warp in range(access.size(WARP)):
        for group in report.groups:
            total = 0
            for first in range(0, access.size(LANE), together):
                words = set()
                for lane in range(first, first + together):
                    for r in group:
                        element = access.distinct_registers().apply(warp=warp, lane=lane, register=r)
                        offset = inverse.flat(**dict(zip(shared.out_names, element, strict=True)))
                        start = offset * elem_bytes
                        words |= {byte // 4 for byte in range(start, start + elem_bytes)}
                per_bank = [sum(1 for w in words if w % 32 == bank) for bank in range(32)]
                total += max(per_bank)
            yield total


@LAWS
@given(st.data(), st.sampled_from([1, 2, 4, 8]))
def test_bank_conflicts_are_counted(data, elem_bytes):
    """One instruction stands for all: brute force over all of them agrees."""
    shape = (32, 32)
    access = data.draw(any_map(shape, warps=2))
    shared = data.draw(
        st.one_of(
            st.builds(Shared, st.sampled_from([(1, 0), (0, 1)]), *[st.sampled_from([1, 2, 4])] * 3).map(
                lambda s: s.linear(shape)
            ),
            st.permutations(range(10)).map(lambda p: LinearLayout.of({OFFSET: [1 << i for i in p]}, dict(access.outs))),
        )
    )
    report = bank_conflicts(shared, access, elem_bytes)
    assert set(brute_force_wavefronts(shared, access, elem_bytes, report)) == {report.wavefronts}
    assert report.wavefronts >= report.ideal_wavefronts


def test_known_conflicts():
    """A column of a 32-wide f32 tile is 32 ways in one bank; the swizzle, or 128-byte TMA, frees it."""
    column = Blocked((1, 1), (32, 1), (1, 4), (1, 0)).linear((32, 32))
    assert bank_conflicts(Shared((1, 0)).linear((32, 32)), column, 4).conflicts == 31
    assert bank_conflicts(Shared((1, 0), 1, 1, 32).linear((32, 32)), column, 4).conflicts == 0
    rows = Blocked((1, 8), (32, 1), (1, 1), (1, 0)).linear((64, 64))
    assert bank_conflicts(Shared((1, 0)).linear((64, 64)), rows, 2).wavefronts == 32
    assert bank_conflicts(Tma(2, (1, 0), 128).linear((64, 64)), rows, 2).conflicts == 0


@LAWS
@given(st.data(), st.sampled_from([8, 16, 32, 64]))
def test_swizzles_do_not_conflict(data, bits):
    """For the standard families the computed layout is conflict-free on both sides, whatever the shape."""
    shape = data.draw(st.sampled_from([(64, 32), (64, 64), (128, 32), (128, 64)]))
    a, b = data.draw(distributed(shape)), data.draw(distributed(shape))
    a, b = a.distinct_registers(), b.distinct_registers()
    shared = swizzle(a, b, bits)
    assert shared.is_bijective
    reports = [bank_conflicts(shared, side, bits // 8) for side in (a, b)]
    if all(side.free_masks().get(LANE, 0) == 0 for side in (a, b)):
        assert [r.conflicts for r in reports] == [0, 0]


# global memory


@pytest.mark.parametrize(
    ("per_thread", "contiguity", "divisibility", "elem_bytes", "width"),
    [
        ((1, 8), 64, 16, 2, 8), ((1, 8), 64, 4, 2, 4), ((1, 8), 2, 16, 2, 2), ((1, 8), 64, 16, 4, 4),
        ((1, 2), 64, 16, 2, 2), ((8, 1), 64, 16, 2, 1), ((1, 8), 12, 8, 2, 4), ((1, 8), 64, 64, 1, 8),
    ],
)  # fmt: skip
def test_vector_width(per_thread, contiguity, divisibility, elem_bytes, width):
    layout = Blocked(per_thread, (4, 8), (4, 1), (1, 0)).linear(SHAPE)
    assert vector_width(layout, contiguity, divisibility, elem_bytes) == width


def test_vector_width_along_another_dim():
    assert vector_width(LAYOUTS["columns"], 128, 16, 2, axis=0) == 8
    assert vector_width(LAYOUTS["mma"], 64, 16, 4) == 2


def test_coalescing():
    """A row-major tile read by rows moves what it needs; read by columns, a sector per element."""
    fewest = 128 * 64 * 2 // 32
    assert sectors(LAYOUTS["rows"], (64, 1), 2, vector=8) == fewest
    assert sectors(LAYOUTS["columns"], (64, 1), 2) == 8 * fewest
    assert sectors(LAYOUTS["columns"], (1, 128), 2, vector=8, axis=0) == fewest
    assert sectors(Blocked((1,), (32,), (4,), (0,)).linear((128,)), (8,), 4) == 4 * 32
    with pytest.raises(AssertionError, match="no vectors of 4"):
        sectors(LAYOUTS["mma"], (64, 1), 4, vector=4)
