"""Grids, scalar parameters, promises about parameters, pointers and loops with a condition, on the emulator."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.types import Scalar
from tests.blocks import IDS
from tests.gpu.launching import SM_80, SM_90A, compiled, numbers
from tests.gpu.programs import check, emulate


def test_a_grid_is_given_at_launch():
    check(IDS, [np.zeros(24, np.int64)], grid=(4, 3, 2))
    check(IDS.replace("assume = []", "assume = [], grid = [2, 3]"), [np.zeros(6, np.int64)])


ELEMS = ["bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"]


@pytest.mark.parametrize("target", [SM_80, SM_90A], ids=str)
def test_scalars_of_every_type(target):
    """Each lands in its own memory, whatever stands before it."""
    params = [f"%o_{e}: ptr<{e}>" for e in ELEMS] + [f"%{e}: {e}" for e in ELEMS]
    stores = "\n".join(f"  block.store(%o_{e}, %z, %{e})" for e in ELEMS)
    text = f"""func @k({", ".join(params)}) {{assume = [], grid = 1, warps = 1}} {{
  %z = block.const() {{elem = i64, value = 0}} : i64
{stores}
  return()
}}"""
    rng = np.random.default_rng(0)
    scalars = {e: numbers(rng, (1,), e)[0] for e in ELEMS}
    check(text, [np.zeros(1, numpy_dtype(Scalar(e))) for e in ELEMS], scalars, target=target)


COPY = """func @copy(%x: ptr<f32>, %y: ptr<f32>, %n: i32) {ATTRS} {
  %p = block.program_id() : i64
  %i = block.cast(%p) {to = i32} : i32
  %size = block.const() {elem = i32, value = 512} : i32
  %start = block.mul(%i, %size) {nsw = true} : i32
  %tile = block.arange() {elem = i32, end = 512, start = 0} : tile<512xi32>
  %base = block.splat(%start) {shape = [512]} : tile<512xi32>
  %at = block.add(%base, %tile) {nsw = true} : tile<512xi32>
  %wide = block.cast(%at) {to = i64} : tile<512xi64>
  %end = block.splat(%n) {shape = [512]} : tile<512xi32>
  %mask = block.lt(%at, %end) : tile<512xbool>
  %v = block.load(%x, %wide, %mask) : tile<512xf32>
  block.store(%y, %wide, %v, %mask)
  return()
}"""


@pytest.mark.parametrize(("assume", "wide"), [("[]", False), ('[["x", 16], ["y", 16]]', False),
                                              ('[["x", 16], ["y", 16], ["n", 4]]', True)])  # fmt: skip
def test_vectors_need_promises(assume, wide):
    """Of addresses and of the number that bounds them."""
    text = COPY.replace("ATTRS", f'assume = {assume}, noalias = ["x", "y"], readonly = ["x"]')
    x = np.arange(1000, dtype=np.float32)
    ptx = check(text, [x, np.zeros_like(x)], {"n": 996}, grid=(2,))
    assert ("ld.global.v4" in ptx or "ld.global.nc.v4" in ptx) == wide
    assert "st.global.v4" in ptx or not wide


def test_the_alignment_of_pointers_is_not_made_up():
    """Beyond the element; a graph's kernels have the runtime's word for 16 bytes."""
    x = np.arange(1025, dtype=np.float32)
    text = COPY.replace("ATTRS", "assume = []").replace("%mask", "%any").replace(", %any)", ")")
    ptx, _ = compiled(text)
    assert ".v4" not in ptx
    assert ".v4" in compiled(text.replace("assume = []", "grid = 2"))[0]
    check(text, [x[1:].copy(), np.zeros(1024, np.float32)], {"n": 0}, grid=(2,))


POINTERS = """func @pointers(%x: ptr<f32>, %y: ptr<f32>, %out: ptr<i64>, %bits: ptr<i32>, %flag: bool) {warps = 1} {
  %z = block.const() {elem = i64, value = 0} : i64
  %four = block.const() {elem = i64, value = 4} : i64
  %p = block.select(%flag, %x, %y) : ptr<f32>
  %q = block.offset(%p, %four) : ptr<f32>
  %d = block.pointer_diff(%q, %p) : i64
  block.store(%out, %z, %d)
  %words = block.pointer_cast(%q) {to = i32} : ptr<i32>
  %i = block.arange() {end = 8, start = 0} : tile<8xi64>
  %v = block.load(%words, %i) : tile<8xi32>
  block.store(%bits, %i, %v)
  %from = block.address(%p) : i64
  %to = block.address(%q) : i64
  %bytes = block.sub(%to, %from) : i64
  block.store(%out, %four, %bytes)
  return()
}"""


@pytest.mark.parametrize("flag", [False, True])
def test_pointers(flag):
    rng = np.random.default_rng(1)
    x, y = numbers(rng, 16, "f32"), numbers(rng, 16, "f32")
    check(POINTERS, [x, y, np.zeros(8, np.int64), np.zeros(8, np.int32)], {"flag": flag}, grid=(1,))


COLLATZ = """func @collatz(%n: i64, %steps: ptr<i64>, %sums: ptr<f32>) {assume = [], warps = 2} {
  %z = block.const() {elem = i64, value = 0} : i64
  %one = block.const() {elem = i64, value = 1} : i64
  %two = block.const() {elem = i64, value = 2} : i64
  %three = block.const() {elem = i64, value = 3} : i64
  %t0 = block.const() {elem = f32, shape = [16, 8], value = 0.0} : tile<16x8xf32>
  %m, %count, %t = while(%n, %z, %t0) do (%a: i64, %c: i64, %s: tile<16x8xf32>) {
    %more = block.gt(%a, %one) : bool
    yield(%more, %a, %c, %s)
  } do (%a: i64, %c: i64, %s: tile<16x8xf32>) {
    %odd = block.floormod(%a, %two) : i64
    %is_odd = block.eq(%odd, %one) : bool
    %half = block.truncdiv(%a, %two) : i64
    %triple = block.mul(%a, %three) : i64
    %up = block.add(%triple, %one) : i64
    %next = block.select(%is_odd, %up, %half) : i64
    %d = block.add(%c, %one) : i64
    %f = block.cast(%a) {to = f32} : f32
    %ft = block.splat(%f) {shape = [16, 8]} : tile<16x8xf32>
    %u = block.add(%s, %ft) : tile<16x8xf32>
    yield(%next, %d, %u)
  } : i64, i64, tile<16x8xf32>
  block.store(%steps, %z, %count)
  block.store_view(%sums, %z, %t) {strides = [8, 1]}
  return()
}"""


@pytest.mark.parametrize("n", [1, 6, 27])
def test_loops_with_a_condition_carry_tiles(n):
    check(COLLATZ, [np.zeros(1, np.int64), np.zeros(128, np.float32)], {"n": n}, grid=(1,))


COLUMNS = """func @columns(%x: ptr<f32>, %y: ptr<f32>, %ld: i32) {assume = [], grid = 1} {
  %i = block.arange() {elem = i32, end = 64, start = 0} : tile<64xi32>
  %j = block.arange() {elem = i32, end = 16, start = 0} : tile<16xi32>
  %many = block.splat(%ld) {shape = [16]} : tile<16xi32>
  %far = block.mul(%j, %many)NSW : tile<16xi32>
  %i2 = block.reshape(%i) {shape = [64, 1]} : tile<64x1xi32>
  %rows = block.broadcast(%i2) {shape = [64, 16]} : tile<64x16xi32>
  %j2 = block.reshape(%far) {shape = [1, 16]} : tile<1x16xi32>
  %columns = block.broadcast(%j2) {shape = [64, 16]} : tile<64x16xi32>
  %at = block.add(%rows, %columns)NSW : tile<64x16xi32>
  %wide = block.cast(%at) {to = i64} : tile<64x16xi64>
  %v = block.load(%x, %wide) : tile<64x16xf32>
  block.store(%y, %wide, %v)
  return()
}"""


def test_sums_that_do_not_wrap_keep_their_runs():
    """So threads go along the columns, whatever the distance between these is."""
    sectors = {}
    for nsw in ("", " {nsw = true}"):
        x = np.arange(16 * 67, dtype=np.float32)
        text = COLUMNS.replace("NSW", nsw)
        check(text, [x, np.zeros_like(x)], {"ld": 67})
        report, _ = emulate(text, [x, np.zeros_like(x)], {"ld": 67})
        sectors[nsw] = sum(t.cost for t in report.traffic if t.space == "global")
    assert 3 * sectors[" {nsw = true}"] < sectors[""]


TURNED = """func @k(%x: ptr<f32>, %o: ptr<f32>, %c: ptr<i32>, %n: i32) {assume = [], grid = 2, warps = 4} {
  %z = block.const() {elem = i64, value = 0} : i64
  %p = block.program_id() : i64
  %zero = block.const() {elem = i32, value = 0} : i32
  %one = block.const() {elem = i32, value = 1} : i32
  %t0 = block.load_view(%x, %z) {shape = [16, 16], strides = [16, 1]} : tile<16x16xf32>
  %u0 = block.const() {elem = f32, shape = [16], value = 0.0} : tile<16xf32>
  %i, %t, %u = while(%zero, %t0, %u0) do (%i: i32, %t: tile<16x16xf32>, %u: tile<16xf32>) {
    %r = block.reduce(%t) {axis = 1, kind = "sum"} : tile<16xf32>
    %s = block.add(%u, %r) : tile<16xf32>
    %more = block.lt(%i, %n) : bool
    yield(%more, %i, %t, %s)
  } do (%i: i32, %t: tile<16x16xf32>, %u: tile<16xf32>) {
    %tt = block.trans(%t) {perm = [1, 0]} : tile<16x16xf32>
    %k = block.add(%i, %one) {nsw = true} : i32
    %two = block.const() {elem = i32, value = 2} : i32
    %odd = block.truncmod(%k, %two) : i32
    %is = block.eq(%odd, %one) : bool
    %v = if(%is) do () {
      %old = block.atomic(%c, %p, %k) {kind = "add"} : i32
      %f = block.cast(%old) {to = f32} : f32
      %ft = block.splat(%f) {shape = [16]} : tile<16xf32>
      %w = block.add(%u, %ft) : tile<16xf32>
      yield(%w)
    } do () {
      %col = block.reduce(%tt) {axis = 0, kind = "max"} : tile<16xf32>
      yield(%col)
    } : tile<16xf32>
    yield(%k, %tt, %v)
  } : i32, tile<16x16xf32>, tile<16xf32>
  %at = block.index(%p) {expr = (272*p), names = ["p"]} : i64
  block.store_view(%o, %at, %t) {strides = [16, 1]}
  %at2 = block.index(%p) {expr = (272*p + 256), names = ["p"]} : i64
  block.store_view(%o, %at2, %u) {strides = [1]}
  return()
}"""


@pytest.mark.parametrize("target", [SM_80, SM_90A], ids=str)
@pytest.mark.parametrize("n", [0, 5])
def test_what_a_condition_computes_and_a_body_turns(n, target):
    """Tiles that change layouts each time round, an atomic in a branch, results of the condition."""
    x = np.random.default_rng(2).integers(-4, 5, 256).astype(np.float32)
    check(TURNED, [x, np.zeros(544, np.float32), np.zeros(2, np.int32)], {"n": n}, target=target)


SIDE_BY_SIDE = """func @k(%x: ptr<f16>, %o: ptr<f16>, %n: i64) {assume = [], grid = 1, warps = 1} dims (n in 0..64) {
  %z = block.const() {elem = i64, value = 0} : i64
  %next = block.index() {expr = SECOND} : i64
  %left = block.index(%n) {expr = (n - SECOND), names = ["n"]} : i64
  %a = block.load_view(%x, %z, %n) {limited = [DIM], shape = SHAPE, strides = [16, 1]} : tile<TILExf16>
  %b = block.load_view(%x, %next, %left) {limited = [DIM], shape = SHAPE, strides = [16, 1]} : tile<TILExf16>
  block.store_view(%o, AT, %b, %left) {limited = [DIM], strides = [16, 1]}
  block.store_view(%o, %z, %a, %n) {limited = [DIM], strides = [16, 1]}
  return()
}"""


@pytest.mark.parametrize("target", [SM_80, SM_90A], ids=str)
@pytest.mark.parametrize(("shape", "dim"), [((2, 6), 1), ((3, 4), 0), ((5, 3), 1)], ids=str)
def test_a_store_ends_with_its_tile_wherever_its_limit_is(shape, dim, target):
    """The layout of a tile of 6 columns has 8; a limit may say that all of them are in the tensor."""
    rows, columns = shape
    step = columns if dim else 16 * rows
    text = SIDE_BY_SIDE.replace("AT", "%next").replace("DIM", str(dim)).replace("SHAPE", str([rows, columns]))
    text = text.replace("TILE", f"{rows}x{columns}").replace("(n - SECOND)", f"(n - {shape[dim]})")
    text = text.replace("SECOND", f"({step})")
    x = np.arange(16 * 16, dtype=np.float16)
    for n in (0, shape[dim] - 1, 2 * shape[dim] - 1, 2 * shape[dim], 16):
        check(text, [x, np.zeros_like(x)], {"n": n}, target=target)
