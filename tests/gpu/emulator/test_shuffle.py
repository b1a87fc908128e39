"""Between lanes."""

import numpy as np
import pytest

from graphfuse.gpu.emulator import EmulatorError
from tests.gpu.emulator.ptx import apply, entry, launch

RNG = np.random.default_rng(4)
LANE = np.arange(32)


def reference(mode, lane, b, c):
    """PTX ISA, shfl.sync, pseudo code."""
    segment, clamp = c >> 8 & 31, c & 31
    low = lane & segment
    high = low | clamp & ~segment
    match mode:
        case "up":
            j = lane - b
            p = j >= high
        case "down":
            j = lane + b
            p = j <= high
        case "bfly":
            j = lane ^ b
            p = j <= high
        case _:
            j = low | b & ~segment
            p = j <= high
    return (j if p else lane), p


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("width", [32, 16, 8, 4])
def test_shfl(mode, width):
    a = RNG.integers(0, 1 << 32, 64, np.uint32)
    c = (32 - width) << 8 | (0 if mode == "up" else 31)
    for b in (0, 1, 3, 5, 16, 31):
        text = f"shfl.sync.{mode}.b32 {{d}}|%q1, {{0}}, {b}, {c}, -1;\n\tselp.u32 %r9, 1, 0, %q1;"
        got = apply(text, [a], np.uint32)
        sources = [reference(mode, lane, b, c) for lane in range(32)]
        want = np.concatenate([[a[32 * w + s] for s, _ in sources] for w in range(2)])
        assert (got == want).all()
        inside = apply(text.replace("{d}", "%r8").replace("%q1", "{d}").split("\n")[0], [a], np.bool_)
        assert inside.tolist() == [p for _, p in sources] * 2


def test_shfl_lane_by_register():
    a = RNG.integers(0, 1 << 32, 32, np.uint32)
    b = RNG.permutation(32).astype(np.uint32)
    assert (apply("shfl.sync.idx.b32 {d}, {0}, {1}, 31, 0xffffffff;", [a, b], np.uint32) == a[b]).all()


def test_shfl_from_who_does_not_take_part():
    body = "\tsetp.lt.u32 %q1, %t, 16;\n\t@%q1 bra A;\n\tret;\nA:\n\tshfl.sync.idx.b32 %r1, %t, 20, 31, 0xffff;"
    with pytest.raises(
        EmulatorError, match=r"reads the register of lane 20, which does not take part: CTA \(0, 0, 0\) warp 0 lane 0"
    ):
        launch(entry(body), [])
    body = "setp.lt.u32 %q1, %t, 16; @%q1 bra A; mov.b32 %r1, 0; bra B;\nA: shfl.sync.idx.b32 %r1, %t, 0, 31, -1;\nB:"
    with pytest.raises(EmulatorError, match=r"shfl.sync.idx.b32: the member mask names lane 16, which is elsewhere"):
        launch(entry(body), [])
    with pytest.raises(EmulatorError, match="the member mask does not name the lane that executes"):
        launch(entry("\tshfl.sync.idx.b32 %r1, %t, 0, 31, 0xfffffffe;"), [])


def test_vote():
    a = RNG.integers(0, 100, 96, np.uint32)
    a[32:64] = 3
    text = "setp.lt.u32 %q1, {{0}}, 50;\n\tvote.sync.{} {{d}}, %q1, -1;"
    holds = (a < 50).reshape(-1, 32)
    ballot = apply(text.format("ballot.b32"), [a], np.uint32)
    assert ballot.tolist() == np.repeat((holds << LANE).sum(1), 32).tolist()
    for name, want in (("all", holds.all(1)), ("any", holds.any(1)), ("uni", holds.all(1) | ~holds.any(1))):
        assert (apply(text.format(f"{name}.pred"), [a], np.bool_) == np.repeat(want, 32)).all()


def test_match():
    a = RNG.integers(0, 5, 32, np.uint32)
    got = apply("match.any.sync.b32 {d}, {0}, -1;", [a], np.uint32)
    assert got.tolist() == [int(((a == x) << LANE).sum()) for x in a]
    same = np.full(32, 7, np.uint32)
    assert (apply("match.all.sync.b32 {d}|%q1, {0}, -1;", [same], np.uint32) == 0xFFFFFFFF).all()
    assert (apply("match.all.sync.b32 %r1|{d}, {0}, -1;", [a], np.bool_) == 0).all()


@pytest.mark.parametrize(
    ("op", "kind", "function"),
    [
        ("add", "u32", np.add),
        ("min", "s32", np.minimum),
        ("max", "u32", np.maximum),
        ("and", "b32", np.bitwise_and),
        ("or", "b32", np.bitwise_or),
        ("xor", "b32", np.bitwise_xor),
    ],
)
def test_redux(op, kind, function):
    a = RNG.integers(0, 1 << 32, 64, np.uint32).view(np.int32 if kind == "s32" else np.uint32)
    got = apply(f"redux.sync.{op}.{kind} {{d}}, {{0}}, -1;", [a], a.dtype)
    assert (got == np.repeat([function.reduce(x, dtype=a.dtype) for x in a.reshape(-1, 32)], 32)).all()


def test_elect():
    text = "elect.sync %r1|%q1, {0};\n\tselp.u32 %r2, 100, 0, %q1;\n\tadd.u32 {d}, %r1, %r2;"
    got = apply(text, [np.full(64, 0xFFFFFFFF, np.uint32)], np.uint32)
    assert got.tolist() == ([100] + [0] * 31) * 2


def test_guarded_members():
    """Lanes with a guard: the mask names those alone."""
    body = """
    mov.u32 %r1, 0; and.b32 %r2, %t, 1; setp.eq.u32 %q1, %r2, 0;
    @%q1 shfl.sync.bfly.b32 %r1, %t, 2, 31, 0x55555555;
    mad.wide.u32 %d1, %t, 4, %p0; st.global.u32 [%d1], %r1;
    """
    out = np.zeros(32, np.uint32)
    launch(entry(body, ["p0"]), [out])
    assert (out == np.where(LANE % 2 == 0, LANE ^ 2, 0)).all()
