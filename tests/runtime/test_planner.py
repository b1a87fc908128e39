"""The law of the arena: buffers alive together never overlap, in no less than the lower bound."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from graphfuse.runtime import planner
from graphfuse.runtime.bound import CHUNK_NS, CHUNKS_PER_THREAD, INLINE_NS, _rounded, choose_chunks
from graphfuse.runtime.planner import ALIGN, plan_arena

BUFFERS = st.lists(
    st.tuples(st.integers(0, 5000), st.integers(0, 12), st.integers(0, 12)).map(
        lambda t: (t[0], min(t[1:]), max(t[1:]))
    ),
    max_size=24,
)


def broken_law(buffers, plan) -> str:
    """What is wrong with a plan; empty if nothing is."""
    for i, (size, first, last) in enumerate(buffers):
        begin, end = plan.offsets[i], plan.offsets[i] + size
        if begin % ALIGN:
            return f"buffer {i} is not aligned"
        if end > plan.peak:
            return f"buffer {i} ends beyond the peak"
        for j, (other, other_first, other_last) in enumerate(buffers[:i]):
            together = first <= other_last and other_first <= last
            apart = end <= plan.offsets[j] or plan.offsets[j] + other <= begin
            if together and size and other and not apart:
                return f"buffers {j} and {i} overlap"
    live = [sum(-(-s // 64) * 64 for s, a, b in buffers if a <= t <= b) for t in range(13)]
    if plan.lower_bound != max(live):
        return f"lower bound {plan.lower_bound}, most alive {max(live)}"
    return "" if plan.peak >= plan.lower_bound else "the peak is below the bound"


def plan_of(buffers):
    sizes, first, last = zip(*buffers, strict=True) if buffers else ((), (), ())
    return plan_arena(sizes, first, last)


@given(BUFFERS)
def test_live_together_never_overlap(buffers):
    assert broken_law(buffers, plan_of(buffers)) == ""


def test_the_law_finds_a_planted_bug(monkeypatch):
    """A planner that forgets one of the neighbours is caught by the law above."""
    gap = planner._tightest_gap
    monkeypatch.setattr(planner, "_tightest_gap", lambda o, s, n: gap(o[1:], s[1:], n))
    assert "overlap" in broken_law([(100, 0, 3), (100, 1, 2)], plan_of([(100, 0, 3), (100, 1, 2)]))


def test_chain_takes_two_buffers():
    plan = plan_of([(640, i, i + 1) for i in range(20)])
    assert plan.peak == plan.lower_bound == 1280


def test_residual_network_stays_near_the_bound():
    rng = np.random.default_rng(0)
    for _ in range(20):
        sizes = rng.choice([64, 128, 256, 512, 1024], 60) * 1000
        buffers = [(int(s), i, i + int(rng.choice([1, 1, 1, 3, 5]))) for i, s in enumerate(sizes)]
        plan = plan_of(buffers)
        assert plan.peak <= 1.05 * plan.lower_bound


def test_what_tops_the_arena_is_placed_first_instead(monkeypatch):
    """Largest first puts both 3s at the bottom, the 2 on one of them, and the 1, alive with the 2, on top of it."""
    buffers = [(64 * size, first, last) for size, first, last in [(1, 2, 4), (3, 1, 1), (3, 3, 3), (2, 0, 2)]]
    assert plan_of(buffers).peak == plan_of(buffers).lower_bound == 5 * 64
    monkeypatch.setattr(planner, "RETRIES", 0)
    assert plan_of(buffers).peak == 6 * 64


@given(st.lists(st.integers(0, 1 << 45), max_size=20))
def test_rounding_adds_at_most_a_32nd(sizes):
    exact = np.array(sizes, dtype=np.int64)
    rounded = _rounded(exact)
    assert (rounded >= exact).all() and (rounded <= exact + exact // 32 + 1).all()


@settings(max_examples=50)
@given(st.integers(0, 1 << 40), st.integers(0, 1 << 30), st.integers(1, 64))
def test_chunks_cover_the_grid(grid, work, threads):
    chunk = int(choose_chunks(np.array([grid]), np.array([work]), threads)[0])
    assert 0 <= chunk <= grid and (chunk or not grid)
    work = max(work, 1)  # unknown work counts as a nanosecond
    if grid * work < INLINE_NS - work:
        assert chunk == grid
    elif threads > 1 and grid > chunk:
        assert chunk * work >= CHUNK_NS or chunk >= grid // (threads * CHUNKS_PER_THREAD)


def test_empty():
    plan = plan_arena([], [], [])
    assert (plan.peak, plan.lower_bound, len(plan.offsets)) == (0, 0, 0)
