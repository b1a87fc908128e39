"""Live ranges, and shared-memory allocation: buffers that are live together do not overlap."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphfuse.errors import TargetError
from graphfuse.gpu.analysis.liveness import liveness, registers_per_thread
from graphfuse.gpu.analysis.shared_memory import Buffer, allocate
from graphfuse.ir.layout import Slice, Wgmma
from graphfuse.ir.parser import parse
from graphfuse.ir.types import BF16, F32, F64, I64, Ptr, Tile

LAWS = settings(max_examples=100, deadline=None, print_blob=True)

LOOP = """func @f(%p: ptr<f32>, %n: i64) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%p, %zero) {shape = [64], strides = [1]} : tile<64xf32>
  %a = block.add(%x, %x) : tile<64xf32>
  %s = for(%zero, %n, %a) do (%i: i64, %c: tile<64xf32>) {
    %y = block.load_view(%p, %i) {shape = [64], strides = [1]} : tile<64xf32>
    %z = block.mul(%y, %x) : tile<64xf32>
    %t = block.add(%c, %z) : tile<64xf32>
    yield(%t)
  } : tile<64xf32>
  block.store_view(%p, %zero, %s) {strides = [1]}
  return()
}
"""


def ranges_of(text):
    func = parse(text)
    live = liveness(func)
    return live, {v.hint: (r.start, r.end) for v, r in live.ranges.items()}


def test_live_ranges():
    """A value that a loop reads lives until the loop ends; the loop's own values do not outlive the body."""
    live, r = ranges_of(LOOP)
    assert live.positions == 10
    assert r["x"] == (1, 7)
    assert r["a"] == (2, 3)
    assert (r["i"], r["c"]) == ((4, 7), (4, 6))
    assert (r["y"], r["z"], r["t"]) == ((4, 5), (5, 6), (6, 7))
    assert r["s"] == (7, 8)
    assert r["n"] == (0, 7)
    assert {v.hint for v in live.live_at(5)} == {"p", "n", "zero", "x", "i", "c", "y", "z"}


def test_pressure():
    """Registers per thread: tiles by their share, or by their layout."""
    live, _ = ranges_of(LOOP)
    # p, n, zero and i are 64 bits, and four tiles of 64 f32 over 32 threads
    assert live.pressure(32)[5] == 4 * 2 + 4 * 2
    accumulator = Tile((64, 64), F32)
    assert registers_per_thread(accumulator, 128) == 32
    assert registers_per_thread(accumulator, 128, Wgmma(64, (4, 1)).linear((64, 64))) == 32
    assert registers_per_thread(Tile((64,), F32), 128, Slice(1, Wgmma(64, (4, 1)), 64).linear((64,))) == 2
    assert registers_per_thread(Tile((64, 64), BF16), 128) == 16
    assert [registers_per_thread(t, 128) for t in (F32, F64, I64, Ptr(F32))] == [1, 2, 2, 2]


def test_branches():
    live, r = ranges_of(
        """func @f(%p: ptr<f32>, %c: bool) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%p, %zero) {shape = [4], strides = [1]} : tile<4xf32>
  %y = if(%c) do () {
    %u = block.add(%x, %x) : tile<4xf32>
    yield(%u)
  } do () {
    yield(%x)
  } : tile<4xf32>
  block.store_view(%p, %zero, %y) {strides = [1]}
  return()
}
"""
    )
    assert (r["x"], r["u"], r["y"]) == ((1, 5), (3, 4), (5, 6))
    (x,) = (v for v in live.ranges if v.hint == "x")
    (y,) = (v for v in live.ranges if v.hint == "y")
    assert live.ranges[x].overlaps(live.ranges[y])


@st.composite
def buffers(draw):
    out = []
    for i in range(draw(st.integers(0, 9))):
        start = draw(st.integers(0, 12))
        size = draw(st.sampled_from([0, 8, 100, 1024, 4096, 16384]))
        alignment = draw(st.sampled_from([8, 16, 128, 1024]))
        out.append(Buffer(f"b{i}", size, start, start + draw(st.integers(0, 8)), alignment))
    return out


@LAWS
@given(buffers())
def test_allocation(wanted):
    """Aligned, disjoint when live together, within the total, and the same whatever the order."""
    plan = allocate(wanted)
    for a in wanted:
        at = plan.offsets[a.name]
        assert at >= 0
        assert at % a.alignment == 0
        assert at + a.shared_bytes <= plan.total_bytes
        for b in wanted:
            if a is not b and a.meets(b) and a.shared_bytes and b.shared_bytes:
                other = plan.offsets[b.name]
                assert at + a.shared_bytes <= other or other + b.shared_bytes <= at
    assert plan.lower_bound_bytes <= plan.total_bytes
    assert allocate(wanted[::-1]).offsets == plan.offsets


def test_memory_is_reused():
    tiles = [Buffer("a", 4096, 0, 3, 1024), Buffer("b", 4096, 2, 5, 1024), Buffer("c", 4096, 4, 7, 1024)]
    plan = allocate(tiles)
    assert plan.offsets == {"a": 0, "b": 4096, "c": 0}
    assert plan.total_bytes == plan.lower_bound_bytes == 8192


def test_too_much_is_refused():
    with pytest.raises(TargetError, match="300000 bytes are needed, 232448 are there; the largest buffer is 'a'"):
        allocate([Buffer("a", 300000, 0, 1)], 232448)
