"""wgmma: operand layouts in shared memory, fragments, types, and what must be waited for and fenced.

Shared memory is laid out here by hand, row by row and 16-byte chunk by chunk, not by the emulator's formulas.
"""

import re

import numpy as np
import pytest

from graphfuse.gpu.emulator import EmulatorError
from tests.gpu.emulator.operands import KINDS, matrix
from tests.gpu.emulator.ptx import entry, launch, line_of

RNG = np.random.default_rng(8)
MODE = {128: 1, 64: 2, 32: 3, 0: 0}
B_AT = 32768


def k_major(tile, span):
    """[rows, k] with 32 bytes of k in the first columns of rows of `span` bytes; the descriptor's two offsets."""
    raw = np.ascontiguousarray(tile).view(np.uint8)
    rows = len(raw)
    if not span:  # cores of 8 rows x 16 bytes: all of the first half of k, then all of the second
        halves = raw.reshape(rows // 8, 8, 2, 16).transpose(2, 0, 1, 3)
        return np.ascontiguousarray(halves).reshape(-1), rows // 8 * 128, 128
    memory = np.zeros((rows, span // 16, 16), np.uint8)
    for row in range(rows):
        line = row * span // 128  # which 128-byte line of shared memory the row is in
        for chunk in range(2):
            memory[row, chunk ^ (line % (span // 16))] = raw[row, 16 * chunk : 16 * chunk + 16]
    return memory.reshape(-1), 16, 8 * span


def mn_major(tile, span):
    """[rows, k] of 16-bit elements, rows contiguous: blocks of (span bytes of rows) x 8 k."""
    transposed = np.ascontiguousarray(tile.T).view(np.uint8)  # [k, rows * 2]
    k, width = transposed.shape
    wide = span or 16
    blocks = width // wide
    memory = np.zeros((blocks, k // 8, 8, wide // 16, 16), np.uint8)
    for block in range(blocks):
        for row in range(k):
            line = row % 8 * wide // 128
            for chunk in range(wide // 16):
                at = block * wide + 16 * chunk
                place = chunk ^ (line % (wide // 16)) if span else chunk
                memory[block, row // 8, row % 8, place] = transposed[row, at : at + 16]
    between_blocks, between_k = k // 8 * 8 * wide, 8 * wide
    leading, stride = (between_blocks, between_k) if span else (between_k, between_blocks)
    return memory.reshape(-1), leading, stride


def descriptor(at, leading, stride, span):
    return (1024 + at) >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | MODE[span] << 62


FILL = """
    mov.b32 %r1, s; shl.b32 %r2, %t, 4;
FILL:
    setp.ge.u32 %q1, %r2, 65536; @%q1 bra FILLED;
    cvt.u64.u32 %d1, %r2; add.s64 %d1, %d1, %p0; ld.global.v4.b32 {%r3, %r4, %r5, %r6}, [%d1];
    add.s32 %r7, %r1, %r2; st.shared.v4.b32 [%r7], {%r3, %r4, %r5, %r6};
    add.u32 %r2, %r2, 2048; bra FILL;
FILLED:
    fence.proxy.async.shared::cta;
    bar.sync 0;
"""
SHARED = "\t.shared .align 1024 .b8 s[65536];\n\t.reg .b32 %a<260>;\n"


def kernel(n, k, to, a, b, *, tails="", from_registers=False, adds=True, count=1):
    registers = n // 2 if to != "f16" else n // 4
    names = [f"%a{i}" for i in range(registers)]
    body = FILL + f"mad.wide.u32 %d2, %t, {4 * registers}, %p1;\n"
    body += "\n".join(f"ld.global.b32 {r}, [%d2+{4 * i}];" for i, r in enumerate(names)) + "\n"
    if from_registers:
        body += "mad.wide.u32 %d4, %t, 16, %p4; ld.global.v4.b32 {%r20, %r21, %r22, %r23}, [%d4];\n"
    left = "{%r20, %r21, %r22, %r23}" if from_registers else "%p2"
    body += f"setp.eq.u32 %q2, {1 if adds else 0}, 1;\nwgmma.fence.sync.aligned;\n"
    body += (
        f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{to}.{a}.{b} {{{', '.join(names)}}}, {left}, %p3, %q2{tails};\n"
        * count
    )
    body += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
    body += "\n".join(f"st.global.b32 [%d2+{4 * i}], {r};" for i, r in enumerate(names))
    return body


def d_fragment(values, dtype):
    """[128 threads, numbers] to [64, n]: thread t has rows 16 (t / 32) + t % 32 / 4 (+ 8) and column pairs."""
    values = values.view(dtype)
    out = np.zeros((64, values.shape[1] * 2), dtype)
    for t in range(128):
        for i in range(values.shape[1]):
            out[16 * (t // 32) + t % 32 // 4 + 8 * (i >> 1 & 1), 2 * (t % 4) + (i & 1) + 8 * (i >> 2)] = values[t, i]
    return out


def run(
    n,
    to,
    kind_a,
    kind_b,
    *,
    span_a=128,
    span_b=128,
    mn_a=False,
    mn_b=False,
    tails=None,
    adds=True,
    seed=0,
    count=1,
    edit=lambda s: s,
):
    k = 32 // KINDS[kind_a].itemsize
    a, b = matrix(RNG, (64, k), kind_a), matrix(RNG, (n, k), kind_b)
    memory = np.zeros(65536, np.uint8)
    raw_a, *offsets_a = (mn_major if mn_a else k_major)(a, span_a)
    raw_b, *offsets_b = (mn_major if mn_b else k_major)(b, span_b)
    memory[: len(raw_a)], memory[B_AT : B_AT + len(raw_b)] = raw_a, raw_b
    if tails is None:
        tails = (
            ""
            if kind_a in ("s8", "u8")
            else ", 1, 1" + (f", {int(mn_a)}, {int(mn_b)}" if KINDS[kind_a].itemsize == 2 else "")
        )
    c_type = {"f32": np.dtype("f4"), "f16": np.dtype("f2"), "s32": np.dtype("i4")}[to]
    c = RNG.integers(-9, 9, (128, n // 2)).astype(c_type)
    before = d_fragment(c, c_type)
    out = c.view(np.uint32)
    args = [memory, out, descriptor(0, *offsets_a, span_a), descriptor(B_AT, *offsets_b, span_b)]
    ptx = entry(
        edit(kernel(n, k, to, kind_a, kind_b, tails=tails, adds=adds, count=count)), ["p0", "p1", "p2", "p3"], SHARED
    )
    report = launch(ptx, args, block=128, seed=seed)
    wide = np.int64 if to == "s32" else np.float32
    product = a.astype(wide) @ b.astype(wide).T * count
    return d_fragment(out, c_type), product + (before if adds else 0), report


@pytest.mark.parametrize(
    ("n", "to", "a", "b"),
    [
        (8, "f32", "f16", "f16"),
        (96, "f32", "bf16", "bf16"),
        (256, "f32", "bf16", "bf16"),
        (64, "f16", "f16", "f16"),
        (40, "f32", "tf32", "tf32"),
        (64, "f32", "e4m3", "e4m3"),
        (32, "f32", "e5m2", "e4m3"),
        (24, "f16", "e4m3", "e5m2"),
        (64, "s32", "s8", "s8"),
        (16, "s32", "u8", "s8"),
    ],
)
def test_types(n, to, a, b):
    got, want, report = run(n, to, a, b)
    assert (got == want).all()
    assert sum(report.flops.values()) == 2 * 64 * n * (32 // KINDS[a].itemsize)


@pytest.mark.parametrize("span_b", [0, 32, 64, 128])
@pytest.mark.parametrize("span_a", [0, 32, 64, 128])
def test_k_major_swizzles(span_a, span_b):
    got, want, _ = run(64, "f32", "bf16", "bf16", span_a=span_a, span_b=span_b)
    assert (got == want).all()
    got, want, _ = run(64, "f32", "e4m3", "e4m3", span_a=span_a, span_b=span_b)
    assert (got == want).all()


@pytest.mark.parametrize("span", [0, 32, 64, 128])
@pytest.mark.parametrize(("mn_a", "mn_b"), [(True, False), (False, True), (True, True)])
def test_mn_major(span, mn_a, mn_b):
    got, want, _ = run(128, "f32", "f16", "f16", span_a=span, span_b=span, mn_a=mn_a, mn_b=mn_b)
    assert (got == want).all()


def test_scale_and_chain():
    got, want, _ = run(32, "f32", "f16", "f16", adds=False)
    assert (got == want).all()
    for seed in range(3):
        got, want, _ = run(32, "f32", "f16", "f16", count=3, seed=seed)
        assert (got == want).all()
    got, want, _ = run(32, "f32", "f16", "f16", tails=", -1, 1, 0, 0", adds=False)
    assert (got == -want).all()


def test_a_constant_behind_the_fence_is_a_note():
    """Also a copy of one: LLVM moves them there."""
    moved = "mov.b32 %r20, 0;\nmov.b32 %a2, %r20;\nwgmma.mma_async"
    for seed in range(3):
        _, _, report = run(32, "f32", "f16", "f16", seed=seed, edit=lambda s: s.replace("wgmma.mma_async", moved))
        (note,) = report.notes
        assert "register %a2 was written with no wgmma.fence since" in note.message


def test_a_from_registers():
    k, n = 16, 32
    a, b = matrix(RNG, (64, k), "bf16"), matrix(RNG, (n, k), "bf16")
    registers = np.zeros((128, 8), a.dtype)
    for t in range(128):
        for i in range(8):
            row = 16 * (t // 32) + t % 32 // 4 + 8 * (i >> 1 & 1)
            registers[t, i] = a[row, 2 * (t % 4) + (i & 1) + 8 * (i >> 2)]
    memory = np.zeros(65536, np.uint8)
    raw, *offsets = k_major(b, 128)
    memory[B_AT : B_AT + len(raw)] = raw
    out = np.zeros((128, n // 2), np.uint32)
    text = kernel(n, k, "f32", "bf16", "bf16", tails=", 1, 1, 0", from_registers=True)
    args = [memory, out, 0, descriptor(B_AT, *offsets, 128), registers]
    launch(entry(text, ["p0", "p1", "p2", "p3", "p4"], SHARED), args, block=128)
    assert (d_fragment(out, np.dtype("f4")) == a.astype(np.float32) @ b.astype(np.float32).T).all()
    rewritten = text.replace("wgmma.commit_group", "mov.b32 %r20, 0;\nwgmma.commit_group")
    ptx = entry(rewritten, ["p0", "p1", "p2", "p3", "p4"], SHARED)
    with pytest.raises(EmulatorError) as e:
        launch(ptx, args, block=128)
    assert e.value.message.startswith("mov.b32: writes register %r20 of a wgmma not waited for")
    assert e.value.loc
    assert e.value.loc.line == line_of(ptx, "mov.b32 %r20, 0")


def test_moves_carry_the_promise():
    """As LLVM does: the result is copied before the wait, and the copy read behind it."""

    def edit(text):
        text = text.replace("wgmma.wait_group", "mov.b32 %a200, %a3;\nmov.b32 %a201, %a200;\nwgmma.wait_group")
        return text.replace("st.global.b32 [%d2+12], %a3;", "st.global.b32 [%d2+12], %a201;")

    got, want, _ = run(32, "f32", "f16", "f16", edit=edit)
    assert (got == want).all()


MISTAKES = [
    (
        "no fence",
        lambda s: s.replace("wgmma.fence.sync.aligned;\n", ""),
        "wgmma.mma_async",
        "no wgmma.fence before the first wgmma.mma_async",
    ),
    (
        "register written behind the fence",
        lambda s: s.replace("wgmma.mma_async", "mov.u32 %a2, %tid.x;\nwgmma.mma_async"),
        "wgmma.mma_async",
        "register %a2 was written with no wgmma.fence since",
    ),
    (
        "no wait",
        lambda s: s.replace("wgmma.wait_group.sync.aligned 0;\n", ""),
        "st.global.b32 [%d2+0]",
        "reads register %a0 of a wgmma not waited for",
    ),
    (
        "no commit",
        lambda s: s.replace("wgmma.commit_group.sync.aligned;\n", ""),
        "st.global.b32 [%d2+0]",
        "reads register %a0 of a wgmma not waited for",
    ),
    (
        "waits for too few",
        lambda s: s.replace("wait_group.sync.aligned 0", "wait_group.sync.aligned 1"),
        "st.global.b32 [%d2+0]",
        "reads register %a0",
    ),
    (
        "accumulator scaled in flight",
        lambda s: s.replace("wgmma.wait_group", "mul.f32 %a1, %f1, %f1;\nwgmma.wait_group"),
        "mul.f32 %a1",
        "writes register %a1 of a wgmma not waited for",
    ),
    (
        "operand overwritten in flight",
        lambda s: s.replace(
            "wgmma.wait_group", "setp.eq.u32 %q3, %t, 0;\n@%q3 st.shared.b32 [s], 0;\nwgmma.wait_group"
        ),
        "@%q3 st.shared",
        "race: write of shared byte 0x400 (s + 0) is not ordered after its read by a wgmma of warpgroup 0",
    ),
    (
        "no proxy fence",
        lambda s: s.replace("    fence.proxy.async.shared::cta;\n", ""),
        "wgmma.mma_async",
        "the async proxy reads shared byte 0x400 (s + 0), written by the generic proxy",
    ),
    ("no barrier", lambda s: s.replace("    bar.sync 0;\n", ""), "wgmma.mma_async", "race: read of shared byte"),
    (
        "one lane differs",
        lambda s: s.replace("setp.eq.u32 %q2", "cvt.u64.u32 %d9, %t;\nadd.s64 %p2, %p2, %d9;\nsetp.eq.u32 %q2"),
        "wgmma.mma_async",
        "the descriptor differs between lanes",
    ),
    (
        "one warp differs",
        lambda s: s.replace(
            "setp.eq.u32 %q2", "shr.u32 %r9, %t, 5;\nmul.wide.u32 %d9, %r9, 8;\nadd.s64 %p2, %p2, %d9;\nsetp.eq.u32 %q2"
        ),
        "wgmma.mma_async",
        "the warps of the warpgroup execute different wgmmas or descriptors",
    ),
    (
        "divergent",
        lambda s: (
            s.replace(
                "wgmma.fence", "setp.eq.u32 %q3, %t, 3;\n@%q3 ret;\nsetp.eq.u32 %q4, %t, 4;\n@%q4 bra E;\nwgmma.fence"
            )
            + "\nE:"
        ),
        "wgmma.fence",
        "in divergent code: lane 4",
    ),
    (
        "past the end",
        lambda s: s.replace("setp.eq.u32 %q2", "add.s64 %p3, %p3, 2040;\nsetp.eq.u32 %q2"),
        "wgmma.mma_async",
        "out of bounds: the operand covers 0x103e0 to",
    ),
]


@pytest.mark.parametrize(("edit", "at", "message"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_mistakes(edit, at, message):
    for seed in range(3):
        with pytest.raises(EmulatorError) as e:
            run(32, "f32", "f16", "f16", seed=seed, edit=edit)
        assert message in e.value.message
        assert e.value.loc
        ptx = entry(edit(kernel(32, 16, "f32", "f16", "f16", tails=", 1, 1, 0, 0")), ["p0", "p1", "p2", "p3"], SHARED)
        assert e.value.loc.line == line_of(ptx, at)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {%f1}, %d1, %d2, %q1, 1, 1, 0, 0;",
            "m64n12k16 of f16 does not exist",
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n8k8.f32.f16.f16 {%f1,%f2,%f3,%f4}, %d1, %d2, %q1, 1, 1, 0, 0;",
            "m64n8k8 of f16 does not exist",
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2}, %d1, %d2, %q1, 1, 1, 0, 0;",
            "2 accumulator registers: expected 4",
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, %d1, %d2, %q1;",
            "4 operands: expected 8",
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, %d1, %d2, %q1, 2, 1, 0, 0;",
            "immediates [2, 1, 0, 0]: expected scales of 1 or -1, then 0 or 1",
        ),
        ("wgmma.nothing.sync.aligned;", "unknown modifier '.nothing'"),
    ],
)
def test_malformed(text, message):
    with pytest.raises(EmulatorError) as e:
        launch(entry("\t" + text), [], block=128)
    assert re.search(re.escape(message), e.value.message)


def test_base_offset_is_refused():
    text = kernel(32, 16, "f32", "f16", "f16", tails=", 1, 1, 0, 0")
    args = [np.zeros(65536, np.uint8), np.zeros((128, 16), np.uint32), 64 | 1 << 49 | 1 << 62, 64]
    with pytest.raises(EmulatorError, match="a descriptor with a base offset is not emulated"):
        launch(entry(text, ["p0", "p1", "p2", "p3"], SHARED), args, block=128)
