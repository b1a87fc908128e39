"""Atomics on the emulator: every kind and element, masks, copies in many threads, pairs of halves, locks."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.types import Scalar
from tests.gpu.launching import SM_80, SM_90A, compiled, numbers
from tests.gpu.programs import check, emulate

INTEGERS = ["i16", "u16", "i32", "u32", "i64", "u64"]
FLOATS = ["f16", "bf16", "f32", "f64"]
KINDS = dict.fromkeys(("add", "sub", "mul", "min", "max", "exchange"), INTEGERS + FLOATS)
KINDS |= dict.fromkeys(("and", "or", "xor"), INTEGERS)
TARGETS = pytest.mark.parametrize("target", [SM_80, SM_90A], ids=str)


def all_kinds(elem, n):
    """Every kind once on memory of its own, at places in reverse order, some masked; the old values too."""
    kinds = [k for k, elems in KINDS.items() if elem in elems]
    params = ", ".join(f"%m_{k}: ptr<{elem}>, %o_{k}: ptr<{elem}>, %r_{k}: ptr<{elem}>" for k in kinds)
    ops = "\n".join(f"""
  %v_{k} = block.atomic(%m_{k}, %at, %v, %mask) {{kind = "{k}"}} : tile<{n}x{elem}>
  block.store(%o_{k}, %i, %v_{k})
  %u_{k} = block.atomic(%r_{k}, %at, %v) {{kind = "{k}"}} : tile<{n}x{elem}>""" for k in kinds)  # fmt: skip
    text = f"""func @k(%x: ptr<{elem}>, {params}) {{assume = [], grid = 1}} {{
  %i = block.arange() {{end = {n}, start = 0}} : tile<{n}xi64>
  %at = block.index(%i) {{expr = ({n - 1} - i), names = ["i"]}} : tile<{n}xi64>
  %many = block.const() {{elem = i64, shape = [{n}], value = {n - n // 4 - 1}}} : tile<{n}xi64>
  %mask = block.lt(%i, %many) : tile<{n}xbool>
  %v = block.load(%x, %i) : tile<{n}x{elem}>{ops}
  return()
}}"""
    return text, kinds


@pytest.mark.some(20)
@TARGETS
@pytest.mark.parametrize("elem", INTEGERS + FLOATS)
@pytest.mark.parametrize("n", [8, 200, 512])
def test_every_kind(elem, n, target):
    """Tiles smaller than a warp, which many threads hold, of no power of two, and larger than a block."""
    rng = np.random.default_rng(n)
    text, kinds = all_kinds(elem, n)
    arrays = [numbers(rng, n, elem)]
    for _ in kinds:
        arrays += [numbers(rng, n, elem), np.zeros(n, numpy_dtype(Scalar(elem))), numbers(rng, n, elem)]
    check(text, arrays, target=target)


@TARGETS
@pytest.mark.parametrize("elem", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize("kind", ["min", "max"])
def test_extremes_of_what_is_no_number(kind, elem, target):
    """Every pair of NaN of both signs, infinities, zeros and numbers."""
    dtype = numpy_dtype(Scalar(elem))
    some = [np.nan, np.copysign(np.nan, -1), np.inf, -np.inf, 0.0, -0.0, 1.5, -1.5, 3e-39, -3e-39]
    some = np.array(some).astype(dtype)
    x, was = (np.ascontiguousarray(a).ravel() for a in np.broadcast_arrays(some, some[:, None]))
    text = f"""func @k(%x: ptr<{elem}>, %m: ptr<{elem}>, %r: ptr<{elem}>, %o: ptr<{elem}>) {{assume = [], grid = 1}} {{
  %i = block.arange() {{end = 128, start = 0}} : tile<128xi64>
  %n = block.const() {{elem = i64, shape = [128], value = {len(x)}}} : tile<128xi64>
  %mask = block.lt(%i, %n) : tile<128xbool>
  %v = block.load(%x, %i, %mask) : tile<128x{elem}>
  %u = block.atomic(%m, %i, %v, %mask) {{kind = "{kind}"}} : tile<128x{elem}>
  %old = block.atomic(%r, %i, %v, %mask) {{kind = "{kind}"}} : tile<128x{elem}>
  block.store(%o, %i, %old, %mask)
  return()
}}"""
    ptx = check(text, [x, was, was.copy(), np.zeros_like(x)], target=target)
    assert (".cas.b16" in ptx) == (elem in ("f16", "bf16")), "wider ones are integers"


MEET = """func @meet(%x: ptr<ELEM>, %sum: ptr<ELEM>) {assume = [["x", 16], ["sum", 16]], grid = 3} {
  %i = block.arange() {end = 512, start = 0} : tile<512xi64>
  %at = block.index(%i) {expr = (EXPR), names = ["i"]} : tile<512xi64>
  %v = block.load(%x, %i) : tile<512xELEM>
  %old = block.atomic(%sum, %at, %v) {kind = "add"} : tile<512xELEM>
  return()
}"""


@TARGETS
@pytest.mark.parametrize(("elem", "expr"), [("f32", "mod(i, 7)"), ("i64", "mod(i, 7)"), ("f16", "i"), ("bf16", "i"),
                                            ("bf16", "floordiv(i, 64)")])  # fmt: skip
def test_all_that_meet_count(elem, expr, target):
    """Small whole numbers, whose sums are exact in any order; neighbouring halves are added in pairs."""
    rng = np.random.default_rng(3)
    x = rng.integers(-1, 2, 512).astype(numpy_dtype(Scalar(elem)))
    ptx = check(MEET.replace("ELEM", elem).replace("EXPR", expr), [x, np.zeros_like(x)], target=target)
    assert "atom." not in ptx or elem == "bf16"
    assert (f"red.relaxed.gpu.global.add.noftz.{elem}x2" in ptx) == (expr == "i" and (elem, target) != ("bf16", SM_80))


CAS = """func @cas(%x: ptr<ELEM>, %old: ptr<ELEM>, %want: ptr<ELEM>) {assume = [], grid = 1} {
  %i = block.arange() {end = 64, start = 0} : tile<64xi64>
  %w = block.load(%want, %i) : tile<64xELEM>
  %n = block.neg(%w) : tile<64xELEM>
  %seven = block.const() {elem = i64, shape = [64], value = 60} : tile<64xi64>
  %some = block.lt(%i, %seven) : tile<64xbool>
  %o = block.atomic_cas(%x, %i, %w, %n, %some) : tile<64xELEM>
  block.store(%old, %i, %o, %some)
  return()
}"""


@TARGETS
@pytest.mark.parametrize("elem", ["i16", "i32", "u64", "f16", "f32", "f64"])
def test_compare_and_swap(elem, target):
    rng = np.random.default_rng(4)
    want = np.where(numbers(rng, 64, elem) == 0, 1, numbers(rng, 64, elem)).astype(numpy_dtype(Scalar(elem)))
    x = np.where(rng.random(64) < 0.5, want, numbers(rng, 64, elem)).astype(want.dtype)
    check(CAS.replace("ELEM", elem), [x, np.zeros_like(x), want], target=target)


LOCK = """func @locked(%x: ptr<f32>, %sum: ptr<f32>, %lock: ptr<i32>) {assume = [], grid = 4, warps = 2} {
  %p = block.program_id() : i64
  %z = block.const() {elem = i64, value = 0} : i64
  %free = block.const() {elem = i32, value = 0} : i32
  %taken = block.const() {elem = i32, value = 1} : i32
  %start = block.index(%p) {expr = (128*p), names = ["p"]} : i64
  %v = block.load_view(%x, %start) {shape = [128], strides = [1]} : tile<128xf32>
  while() do () {
    %got = block.atomic_cas(%lock, %z, %free, %taken) {order = "acq_rel"} : i32
    %again = block.ne(%got, %free) : bool
    yield(%again)
  } do () {
    yield()
  }
  %before = block.load_view(%sum, %z) {shape = [128], strides = [1]} : tile<128xf32>
  %after = block.add(%before, %v) : tile<128xf32>
  block.store_view(%sum, %z, %after) {strides = [1]}
  %was = block.atomic(%lock, %z, %free) {kind = "exchange", order = "acq_rel"} : i32
  return()
}"""


@TARGETS
@pytest.mark.parametrize("seed", [0, 1])
def test_a_lock_guards_what_programs_share(target, seed):
    x = np.random.default_rng(5).integers(-9, 9, 512).astype(np.float32)
    ptx = check(LOCK, [x, np.zeros(128, np.float32), np.zeros(1, np.int32)], target=target, seed=seed)
    assert "atom.acq_rel.gpu.global.cas.b32" in ptx


SCALAR = """func @ticket(%next: ptr<ELEM>, %out: ptr<ELEM>) {assume = [], grid = 5} {
  %z = block.const() {elem = i64, value = 0} : i64
  %one = block.const() {elem = ELEM, value = 1} : ELEM
  %t = block.atomic(%next, %z, %one) {kind = "add"} : ELEM
  %wide = block.cast(%t) {to = i64} : i64
  block.store(%out, %wide, %t)
  return()
}"""


@TARGETS
@pytest.mark.parametrize("elem", ["i16", "u32", "i64", "f16", "f32", "f64"])
def test_every_thread_knows_what_a_scalar_was(elem, target):
    """Tickets: where the programs store depends on what they drew."""
    dtype = numpy_dtype(Scalar(elem))
    check(SCALAR.replace("ELEM", elem), [np.zeros(1, dtype), np.full(5, 9, dtype)], target=target)


def test_atomics_that_nobody_reads_return_nothing():
    text = MEET.replace("ELEM", "f32").replace("EXPR", "i")
    assert "red.relaxed.gpu.global.add.f32" in compiled(text)[0]
    read = text.replace("return()", "block.store(%x, %i, %old)\n  return()")
    x = np.ones(512, np.float32)
    _, ptx = emulate(read.replace("grid = 3", "grid = 1"), [x, np.full(512, 2, np.float32)])
    assert "atom.relaxed.gpu.global.add.f32" in ptx
    assert (x == 2).all()


HISTOGRAM = """func @histogram(%x: ptr<i32>, %out: ptr<COUNT>, %n: i64) {assume = [], grid = 2} {
  %z = block.const() {elem = i64, value = 0} : i64
  %p = block.program_id() : i64
  %bins = block.alloc() {count = 16, elem = COUNT} : ptr<COUNT>
  %none = block.const() {elem = COUNT, shape = [16], value = 0} : tile<16xCOUNT>
  block.store_view(%bins, %z, %none) {strides = [1]}
  %one = block.const() {elem = COUNT, shape = [128], value = 1} : tile<128xCOUNT>
  %first = block.const() {elem = COUNT, shape = [128], value = 0} : tile<128xCOUNT>
  %last = for(%z, %n, %first) do (%k: i64, %before: tile<128xCOUNT>) {
    %start = block.index(%p, %k) {expr = ((p*n + k)*128), names = ["p", "k"]} : i64
    %v = block.load_view(%x, %start) {shape = [128], strides = [1]} : tile<128xi32>
    %bin = block.cast(%v) {to = i64} : tile<128xi64>
    %old = block.atomic(%bins, %bin, %one) {kind = "add"} : tile<128xCOUNT>
    %most = block.max(%before, %old) : tile<128xCOUNT>
    yield(%most)
  } : tile<128xCOUNT>
  %top = block.reduce(%last) {axis = 0, kind = "max"} : COUNT
  %found = block.load_view(%bins, %z) {shape = [16], strides = [1]} : tile<16xCOUNT>
  %at = block.index(%p) {expr = (32*p), names = ["p"]} : i64
  block.store_view(%out, %at, %found) {strides = [1]}
  %after = block.index(%p) {expr = (32*p + 16), names = ["p"]} : i64
  block.store(%out, %after, %top)
  return()
}"""


@TARGETS
@pytest.mark.parametrize("elem", ["i32", "u64", "f16", "f32"])
def test_atomics_in_memory_of_the_program(elem, target):
    """Shared memory: after the zeros, before the sums are read, in a loop."""
    x = np.random.default_rng(6).integers(0, 16, 2 * 3 * 128).astype(np.int32)
    out = np.zeros(64, numpy_dtype(Scalar(elem)))
    ptx = check(HISTOGRAM.replace("COUNT", elem), [x, out], {"n": 3}, target=target)
    assert ".shared." in ptx.split("atom.")[1].split()[0]


@TARGETS
def test_ordered_without_a_reader(target):
    """`red` has no acq_rel: it is an `atom` whose result nobody reads."""
    text = """func @k(%x: ptr<f32>) {assume = [], grid = 3} {
  %z = block.const() {elem = i64, value = 0} : i64
  %v = block.const() {elem = f32, value = 1.5} : f32
  %old = block.atomic(%x, %z, %v) {kind = "add", order = "acq_rel"} : f32
  return()
}"""
    check(text, [np.zeros(1, np.float32)], target=target)
