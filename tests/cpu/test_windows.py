"""Functions on tiles larger than the registers: in loops over windows they mean the same, and run natively."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphfuse.cpu.lower import lower
from graphfuse.cpu.windows.loops import LARGE, loop_over_windows
from graphfuse.cpu.windows.plan import memory_root
from graphfuse.cpu.windows.window import divisor, window_shape
from graphfuse.dialects import block, control
from graphfuse.interp.block import launch
from graphfuse.ir.core import Func, Params
from graphfuse.ir.parser import parse
from graphfuse.ir.types import Tile
from graphfuse.ir.verifier import verify
from tests.cpu.test_lower import compare, run
from tests.machine import HOST


def _windowed(func: Func) -> Func:
    return loop_over_windows(func, vector_bytes=HOST.vector_bytes, registers=HOST.registers)


def check(text: str, args: list[Any], tolerance: float = 0.0, symbols: dict[str, int] | None = None) -> Func:
    """The interpreter gives the same for the loops, and so does the machine. Returns the loops."""
    func = parse(text)
    loops = _windowed(func)
    assert loops is not func
    verify(loops)
    want, meant, got = ([a.copy() for a in args] for _ in range(3))
    symbols = symbols or {}
    launch(func, want, symbols)
    launch(loops, meant, symbols)
    run(loops, lower([loops], HOST), got, symbols)
    for i, (w, m, g) in enumerate(zip(want, meant, got, strict=True)):
        compare(m, w, tolerance, f"interpreted: argument {i}")
        compare(g, w, tolerance, f"native: argument {i}")
    return loops


def interpreted(text: str, args: list[Any]) -> None:
    """The interpreter gives the same for the loops."""
    func = parse(text)
    loops = _windowed(func)
    assert loops is not func
    verify(loops)
    want, got = ([a.copy() for a in args] for _ in range(2))
    launch(func, want, {})
    launch(loops, got, {})
    for w, g in zip(want, got, strict=True):
        np.testing.assert_array_equal(g, w)


def numbers(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


MATMUL = """
func @matmul(%a: ptr<ELEM>, %b: ptr<ELEM>, %c: ptr<f32>) {grid = 2} {
  %p = block.program_id() : i64
  %zero, %steps = HEAD
  %row = block.index(%p) {expr = (6144*p), names = ["p"]} : i64
  %start = block.const() {elem = f32, shape = [64, 128], value = 0} : tile<64x128xf32>
  %sum = for(%zero, %steps, %start) do (%k: i64, %acc: tile<64x128xf32>) {
    %at = block.index(%row, %k) {expr = (row + 32*k), names = ["row", "k"]} : i64
    %below = block.index(%k) {expr = (4096*k), names = ["k"]} : i64
    %x = block.load_view(%a, %at) {shape = [64, 32], strides = [96, 1]} : tile<64x32xELEM>
    %y = block.load_view(%b, %below) {shape = [32, 128], strides = STRIDES} : tile<32x128xELEM>
    %d = block.dot(%x, %y, %acc) : tile<64x128xf32>
    yield(%d)
  } : tile<64x128xf32>
  %out = block.index(%p) {expr = (8192*p), names = ["p"]} : i64
  block.store_view(%c, %out, %sum) {strides = [128, 1]}
  return()
}
"""


@pytest.mark.parametrize("elem", ["f32", "f16"])
@pytest.mark.parametrize("strides", ["[128, 1]", "[256, 1]", "[1, 32]"])
def test_product(elem: str, strides: str) -> None:
    text = MATMUL.replace("ELEM", elem).replace("STRIDES", strides).replace(
        "%zero, %steps = HEAD",
        "%zero = block.const() {elem = i64, value = 0} : i64\n"
        "  %steps = block.const() {elem = i64, value = 3} : i64",
    )  # fmt: skip
    dtype = np.float16 if elem == "f16" else np.float32
    a, b = abs(numbers((128, 96), dtype)), abs(numbers((128, 128), dtype, 1))  # no cancellation
    loops = check(text, [a, b, np.zeros((128, 128), np.float32)], tolerance=256)
    (product,) = [op for op in loops.walk() if op.kind is block.dot]
    sums, steps = product.operands[2], product.operands[0].type
    assert isinstance(sums.owner, Params), "a loop over k carries them"
    assert isinstance(steps, Tile)
    assert steps.shape[1] == 8
    load = product.operands[1].op
    assert load is not None
    assert (memory_root(load.operands[0]).op is None) == (elem == "f32" and strides == "[128, 1]"), "else b is copied"
    assert not any(isinstance(t, Tile) and t.elements > 64 * 32 for op in loops.walk() for t in op.types)


SOFTMAX = """
func @softmax(%in: ptr<f32>, %out: ptr<f32>) {grid = 3} {
  %p = block.program_id() : i64
  %at = block.index(%p) {expr = (8000*p), names = ["p"]} : i64
  %lanes = block.arange() {end = 2000, start = 0} : tile<2000xi64>
  %n = block.const() {elem = i64, shape = [2000], value = 1900} : tile<2000xi64>
  %live = block.lt(%lanes, %n) : tile<2000xbool>
  %row = block.reshape(%live) {shape = [1, 2000]} : tile<1x2000xbool>
  %mask = block.broadcast(%row) {shape = [4, 2000]} : tile<4x2000xbool>
  %one = block.const() {elem = i64, value = 1900} : i64
  %x = block.load_view(%in, %at, %one) {limited = [1], shape = [4, 2000], strides = [2000, 1]} : tile<4x2000xf32>
  %low = block.const() {elem = f32, shape = [4, 2000], value = -inf} : tile<4x2000xf32>
  %seen = block.select(%mask, %x, %low) : tile<4x2000xf32>
  %m = block.reduce(%seen) {axis = 1, kind = "max"} : tile<4xf32>
  %mc = block.reshape(%m) {shape = [4, 1]} : tile<4x1xf32>
  %mb = block.broadcast(%mc) {shape = [4, 2000]} : tile<4x2000xf32>
  %d = block.sub(%seen, %mb) : tile<4x2000xf32>
  %e = block.exp(%d) : tile<4x2000xf32>
  %s = block.reduce(%e) {axis = 1, kind = "sum"} : tile<4xf32>
  %sc = block.reshape(%s) {shape = [4, 1]} : tile<4x1xf32>
  %sb = block.broadcast(%sc) {shape = [4, 2000]} : tile<4x2000xf32>
  %q = block.div(%e, %sb) : tile<4x2000xf32>
  block.store_view(%out, %at, %q, %one) {limited = [1], strides = [2000, 1]}
  return()
}
"""


def test_softmax() -> None:
    loops = check(SOFTMAX, [numbers((12, 2000)), np.zeros((12, 2000), np.float32)], tolerance=64)
    assert sum(op.kind.name == "block.exp" for op in loops.walk()) == 2, "kept: once for whole windows, once for others"


TRANSPOSE = """
func @transpose(%in: ptr<i32>, %out: ptr<i32>) {ATTRS} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%in, %zero) {shape = [96, 80], strides = [80, 1]} : tile<96x80xi32>
  %y = block.trans(%x) {perm = [1, 0]} : tile<80x96xi32>
  block.store_view(%out, %zero, %y) {strides = [96, 1]}
  return()
}
"""


def test_transposition_goes_by_squares() -> None:
    loops = check(TRANSPOSE.replace("ATTRS", "grid = 1"), [np.arange(7680, dtype=np.int32), np.zeros(7680, np.int32)])
    (turned,) = [op for op in loops.walk() if op.kind.name == "block.trans"]
    assert min(turned.types[0].shape) > 4  # type: ignore[union-attr]
    assert not any(op.kind.name == "block.alloc" for op in loops.walk())


def test_what_a_store_would_clobber_is_read_first() -> None:
    text = TRANSPOSE.replace("ATTRS", "grid = 1").replace("%out: ptr<i32>", "%unused: ptr<i32>").replace("%out", "%in")
    check(text, [np.arange(7680, dtype=np.int32), np.zeros(1, np.int32)])
    paired = TRANSPOSE.replace("ATTRS", "grid = 1, inplace = [[0, 1]]")
    assert any(op.kind.name == "block.alloc" for op in _windowed(parse(paired)).walk())


def test_a_load_is_not_moved_behind_a_store() -> None:
    check(
        """
func @k(%a: ptr<f32>, %b: ptr<f32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%a, %zero) {shape = [8192], strides = [1]} : tile<8192xf32>
  %one = block.const() {elem = f32, shape = [8192], value = 1} : tile<8192xf32>
  block.store_view(%a, %zero, %one) {strides = [1]}
  %y = block.add(%x, %one) : tile<8192xf32>
  block.store_view(%b, %zero, %y) {strides = [1]}
  return()
}
""",
        [numbers((8192,)), np.zeros(8192, np.float32)],
    )


ATTENTION = """
func @attention(%q: ptr<f32>, %k: ptr<f32>, %v: ptr<f32>, %o: ptr<f32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %blocks = block.const() {elem = i64, value = 4} : i64
  %qs = block.load_view(%q, %zero) {shape = [64, 64], strides = [64, 1]} : tile<64x64xf32>
  %m0 = block.const() {elem = f32, shape = [64], value = -1e30} : tile<64xf32>
  %l0 = block.const() {elem = f32, shape = [64], value = 0} : tile<64xf32>
  %acc0 = block.const() {elem = f32, shape = [64, 64], value = 0} : tile<64x64xf32>
  %s0 = block.const() {elem = f32, shape = [64, 64], value = 0} : tile<64x64xf32>
  %m, %l, %acc = for(%zero, %blocks, %m0, %l0, %acc0) do (%j: i64, %mo: tile<64xf32>, %lo: tile<64xf32>, %ao: tile<64x64xf32>) {
    %at = block.index(%j) {expr = (4096*j), names = ["j"]} : i64
    %ks = block.load_view(%k, %at) {shape = [64, 64], strides = [64, 1]} : tile<64x64xf32>
    %kt = block.trans(%ks) {perm = [1, 0]} : tile<64x64xf32>
    %s = block.dot(%qs, %kt, %s0) : tile<64x64xf32>
    %top = block.reduce(%s) {axis = 1, kind = "max"} : tile<64xf32>
    %mn = block.max(%mo, %top) : tile<64xf32>
    %mc = block.reshape(%mn) {shape = [64, 1]} : tile<64x1xf32>
    %mb = block.broadcast(%mc) {shape = [64, 64]} : tile<64x64xf32>
    %d = block.sub(%s, %mb) : tile<64x64xf32>
    %p = block.exp(%d) : tile<64x64xf32>
    %part = block.reduce(%p) {axis = 1, kind = "sum"} : tile<64xf32>
    %dm = block.sub(%mo, %mn) : tile<64xf32>
    %alpha = block.exp(%dm) : tile<64xf32>
    %ls = block.mul(%lo, %alpha) : tile<64xf32>
    %ln = block.add(%ls, %part) : tile<64xf32>
    %ac = block.reshape(%alpha) {shape = [64, 1]} : tile<64x1xf32>
    %ab = block.broadcast(%ac) {shape = [64, 64]} : tile<64x64xf32>
    %as = block.mul(%ao, %ab) : tile<64x64xf32>
    %vs = block.load_view(%v, %at) {shape = [64, 64], strides = [64, 1]} : tile<64x64xf32>
    %an = block.dot(%p, %vs, %as) : tile<64x64xf32>
    yield(%mn, %ln, %an)
  } : tile<64xf32>, tile<64xf32>, tile<64x64xf32>
  %lc = block.reshape(%l) {shape = [64, 1]} : tile<64x1xf32>
  %lb = block.broadcast(%lc) {shape = [64, 64]} : tile<64x64xf32>
  %out = block.div(%acc, %lb) : tile<64x64xf32>
  block.store_view(%o, %zero, %out) {strides = [64, 1]}
  return()
}
"""  # noqa: E501


def test_attention() -> None:
    q, k, v = numbers((64, 64)), numbers((256, 64), seed=1), abs(numbers((256, 64), seed=2))  # no cancellation
    check(ATTENTION, [q, k, v, np.zeros((64, 64), np.float32)], tolerance=2048)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(("kind", "elem"), [("sum", "f16"), ("max", "i32"), ("min", "f32"), ("prod", "f64")])
def test_reductions(axis: int, kind: str, elem: str) -> None:
    shape = [6, 40, 48]
    left = [d for i, d in enumerate(shape) if i != axis]
    text = f"""
func @k(%a: ptr<{elem}>, %o: ptr<{elem}>) {{grid = 1}} {{
  %zero = block.const() {{elem = i64, value = 0}} : i64
  %x = block.load_view(%a, %zero) {{shape = {shape}, strides = [1920, 48, 1]}} : tile<6x40x48x{elem}>
  %r = block.reduce(%x) {{axis = {axis}, kind = "{kind}"}} : tile<{left[0]}x{left[1]}x{elem}>
  block.store_view(%o, %zero, %r) {{strides = [{left[1]}, 1]}}
  return()
}}
"""
    dtype = {"f16": np.float16, "i32": np.int32, "f32": np.float32, "f64": np.float64}[elem]
    x = (numbers((11520,)) * (1 if kind == "prod" else 9)).astype(dtype)
    check(text, [x, np.zeros(left, dtype)], tolerance=64)


def test_swapped_and_conditional_tiles() -> None:
    """A loop that swaps what it carries, once transposed, and a branch that gives a tile."""
    check(
        """
func @k(%a: ptr<i64>, %b: ptr<i64>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %three = block.const() {elem = i64, value = 3} : i64
  %one = block.const() {elem = i64, value = 1} : i64
  %x = block.load_view(%a, %zero) {shape = [64, 64], strides = [64, 1]} : tile<64x64xi64>
  %y = block.load_view(%b, %zero) {shape = [64, 64], strides = [64, 1]} : tile<64x64xi64>
  %u, %v = for(%zero, %three, %x, %y) do (%i: i64, %p: tile<64x64xi64>, %q: tile<64x64xi64>) {
    %t = block.trans(%p) {perm = [1, 0]} : tile<64x64xi64>
    %odd = block.eq(%i, %one) : bool
    %c = if(%odd) do () {
      %s = block.add(%p, %q) : tile<64x64xi64>
      yield(%s)
    } do () {
      yield(%q)
    } : tile<64x64xi64>
    yield(%c, %t)
  } : tile<64x64xi64>, tile<64x64xi64>
  block.store_view(%a, %zero, %u) {strides = [64, 1]}
  block.store_view(%b, %zero, %v) {strides = [64, 1]}
  return()
}
""",
        [np.arange(4096), np.arange(4096) * 7],
    )


def test_gather_scatter_and_flattening() -> None:
    check(
        """
func @k(%a: ptr<f32>, %b: ptr<f32>, %c: ptr<f32>) {grid = 1} {
  %r = block.arange() {end = 64, start = 0} : tile<64xi64>
  %rc = block.reshape(%r) {shape = [64, 1]} : tile<64x1xi64>
  %rows = block.broadcast(%rc) {shape = [64, 64]} : tile<64x64xi64>
  %cr = block.reshape(%r) {shape = [1, 64]} : tile<1x64xi64>
  %cols = block.broadcast(%cr) {shape = [64, 64]} : tile<64x64xi64>
  %w = block.const() {elem = i64, shape = [64, 64], value = 64} : tile<64x64xi64>
  %top = block.mul(%rows, %w) : tile<64x64xi64>
  %at = block.add(%top, %cols) : tile<64x64xi64>
  %left = block.mul(%cols, %w) : tile<64x64xi64>
  %turned = block.add(%left, %rows) : tile<64x64xi64>
  %live = block.lt(%rows, %cols) : tile<64x64xbool>
  %x = block.load(%a, %turned, %live) {other = 2} : tile<64x64xf32>
  block.store(%b, %at, %x, %live)
  %flat = block.reshape(%x) {shape = [4096]} : tile<4096xf32>
  %s = block.reduce(%flat) {axis = 0, kind = "sum"} : f32
  %one = block.splat(%s) {shape = [64]} : tile<64xf32>
  block.store(%c, %r, %one)
  return()
}
""",
        [np.arange(4096, dtype=np.float32), np.zeros(4096, np.float32), np.zeros(64, np.float32)],
        tolerance=4,
    )


def test_functions_on_small_tiles_stay() -> None:
    text = TRANSPOSE.replace("ATTRS", "grid = 1").replace("96", "4").replace("80", "8")
    func = parse(text)
    assert _windowed(func) is func


def test_windows() -> None:
    assert divisor(781, 64) == 11
    assert window_shape((128, 128), 16, 4) == (1, 64)
    assert window_shape((64, 32), 16, 4) == (2, 32)
    assert window_shape((96, 80), 16, 4, square=True) == (16, 16)
    assert LARGE >= 32


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", ["max", "min"])
def test_where_extremes_are(axis: int, kind: str) -> None:
    x = np.random.default_rng(3).integers(-40, 40, (96, 80)).astype(np.float32)
    x[5, 7] = x[90, 7] = x[17, 60] = np.nan
    n = 80 if axis == 0 else 96
    text = f"""
func @k(%a: ptr<f32>, %o: ptr<i32>) {{grid = 1}} {{
  %zero = block.const() {{elem = i64, value = 0}} : i64
  %x = block.load_view(%a, %zero) {{shape = [96, 80], strides = [80, 1]}} : tile<96x80xf32>
  %r = block.arg_reduce(%x) {{axis = {axis}, elem = i32, kind = "{kind}"}} : tile<{n}xi32>
  block.store_view(%o, %zero, %r) {{strides = [1]}}
  return()
}}
"""
    interpreted(text, [x, np.zeros(n, np.int32)])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("attrs", ["", ", reverse = true", ", exclusive = true", ", exclusive = true, reverse = true"])
def test_scans(axis: int, attrs: str) -> None:
    text = f"""
func @k(%a: ptr<i32>, %o: ptr<i32>) {{grid = 1}} {{
  %zero = block.const() {{elem = i64, value = 0}} : i64
  %x = block.load_view(%a, %zero) {{shape = [96, 80], strides = [80, 1]}} : tile<96x80xi32>
  %r = block.scan(%x) {{axis = {axis}, kind = "sum"{attrs}}} : tile<96x80xi32>
  block.store_view(%o, %zero, %r) {{strides = [80, 1]}}
  return()
}}
"""
    interpreted(text, [np.arange(7680, dtype=np.int32) % 97, np.zeros(7680, np.int32)])


def test_a_loop_with_a_condition() -> None:
    """Doubles until a sum is large; the condition hands on other values than came in."""
    interpreted(
        """
func @k(%a: ptr<i64>, %b: ptr<i64>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %most = block.const() {elem = i64, value = 100000} : i64
  %x = block.load_view(%a, %zero) {shape = [64, 64], strides = [64, 1]} : tile<64x64xi64>
  %n, %u = while(%zero, %x) do (%i: i64, %p: tile<64x64xi64>) {
    %flat = block.reshape(%p) {shape = [4096]} : tile<4096xi64>
    %sum = block.reduce(%flat) {axis = 0, kind = "sum"} : i64
    %on = block.lt(%sum, %most) : bool
    %t = block.trans(%p) {perm = [1, 0]} : tile<64x64xi64>
    yield(%on, %i, %t)
  } do (%i: i64, %q: tile<64x64xi64>) {
    %s = block.add(%q, %q) : tile<64x64xi64>
    yield(%i, %s)
  } : i64, tile<64x64xi64>
  block.store_view(%b, %zero, %u) {strides = [64, 1]}
  return()
}
""",
        [np.arange(4096) % 5, np.zeros(4096, np.int64)],
    )


NORM = """
func @k(%x: ptr<f32>, %w: ptr<f32>, %y: ptr<f32>, %sums: ptr<f32>, %n: i64) {ATTRS} dims (n in 1..1024) {
  %p = block.program_id() : i64
  %row = block.index(%p) {expr = (n*p), names = ["p"]} : i64
  %zero = block.const() {elem = i64, value = 0} : i64
  %at = block.arange() {end = 1024, start = 0} : tile<1024xi64>
  %ns = block.splat(%n) {shape = [1024]} : tile<1024xi64>
  %inside = block.lt(%at, %ns) : tile<1024xbool>
  %v = block.load_view(%x, %row, %n) {limited = [0], shape = [1024], strides = [1]} : tile<1024xf32>
  %s = block.reduce(%v) {axis = 0, kind = "sum"} : f32
  %ss = block.splat(%s) {shape = [1024]} : tile<1024xf32>
  %d = block.sub(%v, %ss) : tile<1024xf32>
  %none = block.const() {elem = f32, shape = [1024], value = 0} : tile<1024xf32>
  %dm = block.select(%inside, %d, %none) : tile<1024xf32>
  %sq = block.mul(%dm, %dm) : tile<1024xf32>
  %t = block.reduce(%sq) {axis = 0, kind = "sum"} : f32
  block.store(%sums, %p, %t)
  %ws = block.load_view(%w, %zero, %n) {limited = [0], shape = [1024], strides = [1]} : tile<1024xf32>
  %o = block.mul(%dm, %ws) : tile<1024xf32>
  block.store_view(%y, %row, %o, %n) {limited = [0], strides = [1]}
  return()
}
"""
ALONE = 'assume = [], grid = 3, noalias = ["x", "w", "y", "sums"]'


def norm(n: int, attrs: str = ALONE) -> Func:
    rng = np.random.default_rng(n)
    args = [rng.integers(-4, 5, 3 * n), rng.integers(-4, 5, n), np.full(3 * n, 7), np.zeros(3)]
    return check(NORM.replace("ATTRS", attrs), [a.astype(np.float32) for a in args], symbols={"n": n})


@pytest.mark.parametrize("n", [1, 63, 64, 700, 1000, 1024])
def test_windows_inside_of_limits_have_no_masks(n: int) -> None:
    loops = norm(n)
    whole: list[Any] = []
    rest: list[Any] = []
    for op in loops.walk():
        if op.kind is control.for_:
            masked = any(o.attrs.get("limited") or o.kind.name == "block.lt" for o in op.body.ops)
            (rest if masked else whole).append(op)
    assert len(whole) == len(rest) == 3, "one of each for every walk over the row"
    assert all(w.operands[1] == r.operands[0] for w, r in zip(whole, rest, strict=True)), "the rest begins there"


def test_stores_elsewhere_do_not_keep_a_tile_that_can_be_loaded_again() -> None:
    assert not any(op.kind is block.alloc for op in norm(700).walk())
    met = norm(700, 'assume = [], grid = 3, noalias = ["w", "y"]')
    assert any(op.kind is block.alloc for op in met.walk()), "sums and x may overlap"


SUMS = """
func @k(%x: ptr<f32>, %w: ptr<f32>, %out: ptr<f32>) {assume = [], grid = 1, noalias = [NAMES]} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %one = block.const() {elem = i64, value = 1} : i64
  %two = block.const() {elem = i64, value = 2} : i64
  %v = block.load_view(%x, %zero) {shape = [2048], strides = [1]} : tile<2048xf32>
  %a = block.reduce(%v) {axis = 0, kind = "sum"} : f32
  block.store(%out, %zero, %a)
  %f = block.load_view(%w, %zero) {shape = [2048], strides = [1]} : tile<2048xf32>
  %m = block.mul(%v, %f) : tile<2048xf32>
  %b = block.reduce(%m) {axis = 0, kind = "max"} : f32
  block.store(%out, %one, %b)
  %both = block.add(%a, %b) : f32
  %s = block.splat(%both) {shape = [2048]} : tile<2048xf32>
  %d = block.sub(%v, %s) : tile<2048xf32>
  %c = block.reduce(%d) {axis = 0, kind = "min"} : f32
  block.store(%out, %two, %c)
  return()
}
"""


@pytest.mark.parametrize(("names", "loops"), [('"x", "w", "out"', 2), ('"x"', 3)])
def test_sums_that_do_not_wait_are_one_walk(names: str, loops: int) -> None:
    """The third waits for both; the second for the first if `out` may be `w`."""
    rng = np.random.default_rng(4)
    x, w = (rng.integers(-8, 9, 2048).astype(np.float32) for _ in range(2))
    made = check(SUMS.replace("NAMES", names), [x, w, np.zeros(3, np.float32)])
    assert sum(op.kind is control.for_ for op in made.walk()) == loops


def test_what_atomics_find_is_kept_only_for_who_reads_it() -> None:
    loops = check(
        """
func @k(%x: ptr<i64>, %counts: ptr<i32>) {assume = [], grid = 2, noalias = ["x", "counts"]} {
  %p = block.program_id() : i64
  %at = block.index(%p) {expr = (2048*p), names = ["p"]} : i64
  %v = block.load_view(%x, %at) {shape = [2048], strides = [1]} : tile<2048xi64>
  %one = block.const() {elem = i32, shape = [2048], value = 1} : tile<2048xi32>
  %old = block.atomic(%counts, %v, %one) {kind = "add"} : tile<2048xi32>
  return()
}
""",
        [np.random.default_rng(8).integers(0, 50, 4096), np.zeros(50, np.int32)],
    )
    assert not any(op.kind is block.alloc for op in loops.walk())
