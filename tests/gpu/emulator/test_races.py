"""Races in global memory, and between lanes of a warp: what is reported, and what is ordered after all."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.gpu.emulator import EmulatorError
from tests.gpu.emulator.ptx import entry, launch

SEEDS = range(8)
PARAMS = ("out", "work")


def ints(n, value=0):
    return np.full(n, value, np.int32)


def run(body, count=2, grid=2, block=32, decls="", **how):
    """What each seed gives: a message, or the numbers of `out`."""
    found = []
    for seed in SEEDS:
        out = ints(count, -1)
        try:
            launch(entry(body, PARAMS, decls), [out, ints(256)], grid=grid, block=block, seed=seed, **how)
        except EmulatorError as e:
            found.append(str(e))
        else:
            found.append(out.tolist())
    return found


FIRST = "setp.ne.u32 %q1, %t, 0; @%q1 ret;"
"""One lane of a CTA goes on."""
AT_LANE = "mul.wide.u32 %d3, %t, 4; add.s64 %d4, %work, %d3; add.s64 %d5, %out, %d3;"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (f"{FIRST} ld.global.u32 %r1, [%out]; add.s32 %r1, %r1, 1; st.global.u32 [%out], %r1;", "which CTA"),
        (f"{FIRST} st.global.u32 [%out], %c;", "write"),
    ],
)
def test_ctas_do_not_wait_for_each_other(body, said):
    found = run(body)
    assert all("race: " in str(f) and said in f for f in found), found


def test_atomics_meet_plain_stores():
    body = f"{FIRST} st.global.u32 [%out], 1; atom.global.add.u32 %r1, [%out], 1;"
    assert any("race: " in str(f) for f in run(body)), "of a place there is the last write alone: not with every seed"


@pytest.mark.parametrize(
    "body",
    [
        "atom.global.add.u32 %r1, [%out], 1;",
        "st.relaxed.gpu.global.u32 [%out], %c;",
        f"{FIRST} mul.wide.u32 %d3, %c, 4; add.s64 %d4, %out, %d3; st.global.u32 [%d4], 5;",
    ],
)
def test_atomics_relaxed_stores_and_places_of_its_own_are_none(body):
    assert all(isinstance(f, list) for f in run(body))


def test_the_same_number_is_a_note():
    """One of those that store at once, or one after the other."""
    for seed in range(5):
        (note,) = launch(entry("st.global.u32 [%out], 7;", PARAMS), [ints(1), ints(1)], grid=3, seed=seed).notes
        assert "both write the same" in note.message


def test_warps_of_a_cta_need_a_barrier():
    other = "xor.b32 %r4, %t, 64; mul.wide.u32 %d6, %r4, 4; add.s64 %d6, %work, %d6; ld.global.u32 %r5, [%d6];"
    body = f"{AT_LANE} st.global.u32 [%d4], %t; BARRIER {other} st.global.u32 [%d5], %r5;"
    shape = {"count": 128, "grid": 1, "block": 128}
    assert all(
        "race: read of" in str(f) and "no barrier between" in f for f in run(body.replace("BARRIER", ""), **shape)
    )
    want = (np.arange(128) ^ 64).tolist()
    assert run(body.replace("BARRIER", "bar.sync 0;"), **shape) == [want] * len(SEEDS)


def test_the_non_coherent_cache_has_nothing_that_is_stored():
    body = f"{AT_LANE} st.global.u32 [%d4], %t; bar.sync 0; ld.global.nc.u32 %r5, [%d4]; st.global.u32 [%d5], %r5;"
    assert all("ld.global.nc of" in str(f) for f in run(body, count=32, grid=1))


FLAG = """
    setp.ne.u32 %q1, %c, 0; @%q1 bra WAITS;
    {stores}
    ret;
WAITS:
    {load} %r3, [%work]; setp.eq.u32 %q2, %r3, 0; @%q2 bra WAITS;
    {then} ld.global.u32 %r4, [%d4+128]; st.global.u32 [%d5], %r4;
"""
STORE = "st.global.u32 [%d4+128], %t;"
ONE = "setp.ne.u32 %q3, %t, 0; @%q3 ret;"


@pytest.mark.parametrize(
    ("stores", "load", "then"),
    [
        (f"{STORE} bar.sync 0; {ONE} st.release.gpu.global.u32 [%work], 1;", "ld.acquire.gpu.global.u32", ""),
        (
            f"{STORE} bar.sync 0; {ONE} atom.add.acq_rel.gpu.global.u32 %r9, [%work], 1;",
            "ld.acquire.gpu.global.u32",
            "",
        ),
        (
            f"{STORE} bar.sync 0; {ONE} fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%work], 1;",
            "ld.relaxed.gpu.global.u32",
            "fence.acq_rel.gpu;",
        ),
        (
            f"{STORE} bar.sync 0; {ONE} membar.gl; st.volatile.global.u32 [%work], 1;",
            "ld.volatile.global.u32",
            "membar.gl;",
        ),
    ],
)
def test_flags_order_ctas(stores, load, then):
    body = AT_LANE + FLAG.format(stores=stores, load=load, then=then)
    found = [f for f in run(body, count=64, block=64) if f != list(range(64))]
    assert not found, found[0]


@pytest.mark.parametrize(
    ("stores", "load"),
    [
        (f"{STORE} {ONE} st.release.gpu.global.u32 [%work], 1;", "ld.acquire.gpu.global.u32"),  # of one lane alone
        (f"{STORE} bar.sync 0; {ONE} st.release.cta.global.u32 [%work], 1;", "ld.acquire.gpu.global.u32"),
        (f"{STORE} bar.sync 0; {ONE} st.release.gpu.global.u32 [%work], 1;", "ld.acquire.cta.global.u32"),
        (f"{STORE} bar.sync 0; {ONE} st.release.gpu.global.u32 [%work], 1;", "ld.relaxed.gpu.global.u32"),
        (f"{STORE} bar.sync 0; {ONE} red.relaxed.gpu.global.add.u32 [%work], 1;", "ld.acquire.gpu.global.u32"),
    ],
)
def test_flags_that_order_nothing(stores, load):
    body = AT_LANE + FLAG.format(stores=stores, load=load, then="")
    assert all("race: read of" in str(f) for f in run(body, count=64, block=64))


LAST = f"""{FIRST} mul.wide.u32 %d3, %c, 4; add.s64 %d4, %work, %d3; st.global.u32 [%d4], %c;
    atom.add.SEM.gpu.global.u32 %r1, [%work+64], 1; setp.ne.u32 %q2, %r1, 2; @%q2 ret;
    ld.global.u32 %r2, [%work]; ld.global.u32 %r3, [%work+4]; ld.global.u32 %r5, [%work+8];
    add.s32 %r2, %r2, %r3; add.s32 %r2, %r2, %r5; st.global.u32 [%out], %r2;"""
"""The last of three CTAs adds up what all have stored."""


def test_the_last_knows_what_those_before_released():
    """Also where all of them count at once."""
    assert run(LAST.replace("SEM", "acq_rel"), count=1, grid=3) == [[3]] * len(SEEDS)
    assert all("race: read of" in str(f) for f in run(LAST.replace("SEM", "relaxed"), count=1, grid=3))
    assert all("race: read of" in str(f) for f in run(LAST.replace("SEM", "release"), count=1, grid=3))


def test_members_of_a_mask_meet():
    """Halves of a warp: each knows what its own lanes did."""
    halves = "setp.lt.u32 %q1, %t, 16; selp.b32 %r7, 0xffff, 0xffff0000, %q1; bar.warp.sync %r7;"
    of = "xor.b32 %r4, %t, {}; mul.wide.u32 %d6, %r4, 4; add.s64 %d6, %work, %d6; ld.global.u32 %r5, [%d6];"
    body = f"{AT_LANE} st.global.u32 [%d4], %t; {halves} {of} st.global.u32 [%d5], %r5;"
    assert run(body.format(1), count=32, grid=1) == [(np.arange(32) ^ 1).tolist()] * len(SEEDS)
    assert all("of the same warp wrote" in str(f) for f in run(body.format(16), count=32, grid=1))


def test_batches_of_ctas_are_one_grid():
    assert all(
        "race: write of" in str(f) for f in run(f"{FIRST} shr.u32 %r1, %c, 8; st.global.u32 [%out], %r1;", grid=300)
    )


def test_a_lane_acquires_for_itself():
    waits = "setp.ne.u32 %q3, %t, 0; @%q3 bra BEHIND; {loop} BEHIND: {sync}"
    loop = "AGAIN: ld.acquire.gpu.global.u32 %r3, [%work]; setp.eq.u32 %q2, %r3, 0; @%q2 bra AGAIN;"
    body = f"""{AT_LANE} setp.ne.u32 %q1, %c, 0; @%q1 bra WAITS;
    {STORE} bar.sync 0; {ONE} st.release.gpu.global.u32 [%work], 1; ret;
    WAITS: {waits} ld.global.u32 %r4, [%d4+128]; st.global.u32 [%d5], %r4;"""
    alone = run(body.format(loop=loop, sync=""), count=32)
    assert all("race: read of" in str(f) for f in alone), alone
    met = run(body.format(loop=loop, sync="bar.warp.sync 0xffffffff;"), count=32)
    assert met == [list(range(32))] * len(SEEDS)


def test_strong_reads_that_nothing_orders_may_be_stale():
    body = f"""{FIRST} setp.ne.u32 %q2, %c, 0; @%q2 bra WAITS;
    st.volatile.global.u32 [%work], 7; st.volatile.global.u32 [%work+4], 1; ret;
    WAITS: ld.volatile.global.u32 %r3, [%work+4]; setp.eq.u32 %q3, %r3, 0; @%q3 bra WAITS;
    ld.volatile.global.u32 %r4, [%work]; st.global.u32 [%out], %r4;"""
    assert {tuple(f) for f in run(body, count=1)} == {(0,), (7,)}


def test_lanes_that_write_what_others_have_read():
    body = """shl.b32 %r9, %t, 2; mov.b32 %r3, s; add.s32 %r9, %r9, %r3; st.shared.u32 [%r9], %t;
    bar.warp.sync 0xffffffff; xor.b32 %r10, %r9, 4; ld.shared.u32 %r5, [%r10]; SYNC st.shared.u32 [%r9], %r5;
    bar.warp.sync 0xffffffff; ld.shared.u32 %r6, [%r9];"""
    shared = ".shared .align 4 .b32 s[32];\n"
    found = run(body.replace("SYNC", ""), grid=1, decls=shared)
    assert all("another lane of the same warp" in str(f) for f in found)
    assert all(
        isinstance(f, list) for f in run(body.replace("SYNC", "bar.warp.sync 0xffffffff;"), grid=1, decls=shared)
    )


def test_arguments_that_are_one_array():
    """Each warp loads what one of them stores, and drops it; other CTAs are told from that."""
    ptx = entry("ld.global.u32 %r1, [%out]; setp.ne.u32 %q1, %t, 96; @%q1 ret; st.global.u32 [%work], %r1;", PARAMS)
    x = ints(1, 5)
    for seed in SEEDS:
        launch(ptx, [x, x], block=128, seed=seed)
    with pytest.raises(EmulatorError, match="race: .* which CTA"):
        launch(ptx, [x, x], grid=2, block=128)
