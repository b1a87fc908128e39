"""Hazards: everything that must be ordered is, nothing is added in vain, and a dropped wait is noticed."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphfuse.gpu.analysis.hazards import Access, Barrier, Fence, Wait, insert, insert_in_loop, missing

LAWS = settings(max_examples=120, deadline=None, print_blob=True)
ALL = frozenset(range(4))
ONE = frozenset({0})


def store(name="s", begin=0, end=1024, warps=ALL, **more):
    return Access(name, begin, end, writes=True, warps=warps, **more)


def load(name="s", begin=0, end=1024, warps=ALL, **more):
    return Access(name, begin, end, writes=False, warps=warps, **more)


@st.composite
def accesses(draw):
    begin = draw(st.sampled_from([0, 0, 64, 128]))
    asynchronous = draw(st.integers(0, 3)) == 0
    return Access(
        draw(st.sampled_from(["a", "b"])),
        begin,
        begin + draw(st.sampled_from([32, 64, 128])),
        draw(st.booleans()),
        draw(st.sampled_from([ALL, ONE, frozenset({1}), frozenset({2, 3})])),
        "async" if asynchronous else "generic",
        draw(st.sampled_from(["t", "u"])) if asynchronous else "",
        private=not asynchronous and draw(st.integers(0, 3)) == 0,
        by_issuer=asynchronous and draw(st.booleans()),
    )


sequences = st.lists(accesses(), max_size=6)


def without_each(events, given_events):
    """The sequence without one of the added events, for each."""
    for i, event in enumerate(events):
        if not any(event is g for g in given_events):
            yield events[:i] + events[i + 1 :]


@LAWS
@given(sequences)
def test_insertion_is_complete_and_needed(events):
    """Nothing is left unordered, the accesses stay in order, and every added event is needed."""
    out = insert(events)
    assert missing(out) == ()
    assert [e for e in out if isinstance(e, Access)] == events
    assert all(missing(shorter) for shorter in without_each(out, events))
    assert insert(out) == out


@LAWS
@given(sequences)
def test_loops(events):
    """Two iterations in a row have no hazard, and each added event is needed for that."""
    out = insert_in_loop(events)
    assert missing([*out, *out, *out]) == ()
    assert all(missing([*shorter, *shorter]) for shorter in without_each(out, events))


@LAWS
@given(st.lists(accesses().filter(lambda a: a.proxy == "generic"), max_size=5))
def test_fewest_block_barriers(events):
    """No smaller set of places for block barriers orders the pairs that need one."""
    used = sum(e == Barrier("block") for e in insert(events))
    for count in range(used):
        for places in itertools.combinations(range(1, len(events)), count):
            out = list(events)
            for at in reversed(places):
                out.insert(at, Barrier("block"))
            assert any(h.scope == "block" for h in missing(out))


def test_a_staged_tile():
    """Store, barrier, load; the next store waits for the loads."""
    assert insert([store(), load(), store(), load()]) == (
        store(), Barrier("block"), load(), Barrier("block"), store(), Barrier("block"), load(),
    )  # fmt: skip
    assert insert_in_loop([store(), load()]) == (Barrier("block"), store(), Barrier("block"), load())


def test_two_buffers_share_a_barrier():
    events = [store("a", 0, 64), store("b", 64, 128), load("a", 0, 64), load("b", 64, 128)]
    assert sum(isinstance(e, Barrier) for e in insert(events)) == 1


def test_double_buffering_needs_one_barrier():
    """With two buffers in turn, one barrier per stage orders loads before the stores of the next round."""
    events = [store("a", 0, 64), load("a", 0, 64), store("b", 64, 128), load("b", 64, 128)]
    assert sum(isinstance(e, Barrier) for e in insert_in_loop(events)) == 2


def test_nothing_to_order():
    """Reads, disjoint bytes, and threads that only meet themselves."""
    for events in ([load(), load()], [store(end=64), load(begin=64)], [store(private=True), load(private=True)]):
        assert insert(events) == tuple(events)
    assert insert([store(private=True), load(private=True, name="other")]) != ()


def test_one_warp_waits_for_itself_only():
    assert insert([store(warps=ONE), load(warps=ONE)])[1] == Barrier("warp")
    assert insert([store(warps=ONE), load(warps=ALL)])[1] == Barrier("block")


def test_tma_store():
    """Generic writes, then a fence and a barrier before the copy reads them; reuse waits for the copy."""
    copy = load(warps=ONE, proxy="async", token="out", by_issuer=True)
    assert insert([store(), copy, store()]) == (
        store(), Fence(), Barrier("block"), copy, Wait("out", ONE), Barrier("block"), store(),
    )  # fmt: skip


def test_tma_load():
    """Consumers wait for the copy; the next copy into the buffer waits for the consumers."""
    copy = store(warps=ONE, proxy="async", token="in")
    assert insert([copy, load()]) == (copy, Wait("in", ALL), load())
    assert insert_in_loop([copy, load()]) == (Barrier("block"), copy, Wait("in", ALL), load())


def test_another_token_does_not_count():
    copy = store(warps=ONE, proxy="async", token="in")
    assert [h.cause for h in missing([copy, Wait("other", ALL), load()])] == ["completion"]
    assert [h.cause for h in missing([copy, Wait("in", ONE), load()])] == ["barrier"]
    assert missing([copy, Wait("in", ONE), Barrier("block"), load()]) == ()


def test_only_the_issuer_can_wait_for_its_group():
    copy = load(warps=ONE, proxy="async", token="out", by_issuer=True)
    assert [h.cause for h in missing([copy, Wait("out", frozenset({1})), Barrier("block"), store()])] == ["completion"]
    assert missing([copy, Wait("out", ONE), Barrier("block"), store()]) == ()
    assert [h.cause for h in missing([copy, Wait("out", ALL), store()])] == ["barrier"]


PIPELINE = (
    store("tile", warps=ONE, proxy="async", token="in"),
    Wait("in", ALL),
    load("tile"),
    store("out", 2048, 3072),
    Fence(),
    Barrier("block"),
    load("out", 2048, 3072, warps=ONE, proxy="async", token="out", by_issuer=True),
    Wait("out", ONE),
    Barrier("block"),
    store("out", 2048, 3072),
)


@pytest.mark.parametrize("dropped", [i for i, e in enumerate(PIPELINE) if not isinstance(e, Access)])
def test_a_dropped_wait_is_seen(dropped):
    assert missing(PIPELINE) == ()
    assert missing(PIPELINE[:dropped] + PIPELINE[dropped + 1 :])


def test_a_fence_after_the_barrier_is_too_late():
    swapped = [*PIPELINE[:4], PIPELINE[5], PIPELINE[4], *PIPELINE[6:]]
    assert [h.cause for h in missing(swapped)] == ["barrier"]
