"""Kernels run natively and in the interpreter give the same numbers."""

from __future__ import annotations

import ctypes
import functools
import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import graphfuse.dialects.block
import graphfuse.dialects.control  # noqa: F401  the parser finds ops by name
from graphfuse.cpu.lower import Lowered, compile_object, emit_assembly, lower
from graphfuse.dialects.elementwise import FUNCTIONS, accepts
from graphfuse.errors import TargetError
from graphfuse.interp.block import launch
from graphfuse.ir.core import Func
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.parser import parse
from graphfuse.ir.types import scalar
from graphfuse.llvm.loader import Library, load_object
from graphfuse.symbolic import evaluate
from graphfuse.targets import Target
from tests.machine import HOST, host_and

TARGETS = host_and("cpu:x86-64-v3", "cpu:x86-64-v2")
ELEMS = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64"]
Array = Any


def run(func: Func, lowered: Lowered, args: Sequence[Array], symbols: dict[str, int]) -> None:
    """Launch natively: pointers first, then symbols in parameter order."""
    call(func, lowered, load_object(compile_object(lowered), [func.name]), args, symbols)


@functools.lru_cache(maxsize=4)
def native(text: str, target: Target) -> tuple[Lowered, Library]:
    """A kernel's code, which tests run on several arguments."""
    lowered = lower([parse(text)], target)
    return lowered, load_object(compile_object(lowered), [k.name for k in lowered.kernels])


def call(func: Func, lowered: Lowered, library: Library, args: Sequence[Array], symbols: dict[str, int]) -> None:
    info = lowered.kernels[0]
    pointers = iter(args)
    slots = [symbols[n] if n in symbols else next(pointers).ctypes.data for n in info.params]
    table = np.array(slots, np.int64)
    size = evaluate(info.scratch_bytes, symbols)
    scratch = np.zeros(size + 64, np.uint8)
    aligned = -(-scratch.ctypes.data // 64) * 64
    kernel = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p])(
        library.address(func.name)
    )
    grid = evaluate(func.attrs.get("grid", 1), symbols)  # type: ignore[arg-type]
    kernel(table.ctypes.data, 0, grid // 2, aligned)
    kernel(table.ctypes.data, grid // 2, grid, aligned)


def check(
    text: str,
    args: Sequence[Array],
    symbols: dict[str, int] | None = None,
    *,
    tolerance: float = 0.0,
    targets: Sequence[Target] = TARGETS,
) -> None:
    """Compare every array after a native run with the interpreter's."""
    func = parse(text)
    symbols = symbols or {}
    want = [a.copy() for a in args]
    launch(func, want, symbols)
    for target in targets:
        got = [a.copy() for a in args]
        call(func, *native(text, target), got, symbols)
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            compare(g, w, tolerance, f"{target}: argument {i}")


def compare(got: Array, want: Array, tolerance: float, what: str) -> None:
    """Equal, or within `tolerance` units in the last place."""
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want, err_msg=what)
        return
    with np.errstate(invalid="ignore"):  # a signalling NaN
        g, w = got.astype(np.float64), want.astype(np.float64)
    if got.dtype.itemsize == 1:
        np.testing.assert_array_equal(g, w, err_msg=what)
        return
    eps = float(np.finfo(got.dtype).eps) if got.dtype.kind == "f" else 2.0**-7
    np.testing.assert_allclose(g, w, rtol=tolerance * eps, atol=tolerance * eps * 1e-3, err_msg=what)


def samples(elem: str, n: int, seed: int = 0, *, scale: float = 4.0) -> Array:
    """Ordinary values and the edges of the type."""
    rng = np.random.default_rng(seed)
    dtype = numpy_dtype(scalar(elem))
    if elem == "bool":
        return rng.integers(0, 2, n).astype(bool)
    if scalar(elem).is_float:
        x = rng.normal(0, scale, n)
        x[::7] = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-40, 3e4], x[::7].shape)
        with np.errstate(over="ignore"):
            return x.astype(dtype)
    info = np.iinfo(dtype)
    x = rng.integers(max(-20, info.min), 20, n).astype(dtype)
    edges = np.array([info.min, info.max, 0, 1, -1 if info.min else 1], dtype)
    x[::5] = edges[rng.integers(0, len(edges), x[::5].shape)]
    return x


def binary_text(op: str, elem: str, shape: str, count: int, result: str) -> str:
    dims = [int(d) for d in shape.split("x") if d]
    strides = [int(np.prod(dims[i + 1 :])) for i in range(len(dims))]
    return f"""
func @k(%a: ptr<{elem}>, %b: ptr<{elem}>, %o: ptr<{result}>) {{grid = 2}} {{
  %p = block.program_id() : i64
  %base = block.index(%p) {{expr = ({count}*p), names = ["p"]}} : i64
  %x = block.load_view(%a, %base) {{shape = {dims}, strides = {strides}}} : tile<{shape}x{elem}>
  %y = block.load_view(%b, %base) {{shape = {dims}, strides = {strides}}} : tile<{shape}x{elem}>
  %z = block.{op}(%x{"" if op in UNARY else ", %y"}) : tile<{shape}x{result}>
  block.store_view(%o, %base, %z) {{strides = {strides}}}
  return()
}}
"""


UNARY = {f.name for f in FUNCTIONS if f.arity == 1}
EXACT = {"add", "sub", "mul", "div", "floordiv", "truncdiv", "floormod", "truncmod", "max", "min", "and", "or", "xor",
         "shl", "shr", "neg", "abs", "sign", "not", "sqrt", "floor", "ceil", "trunc", "round"}  # fmt: skip


@pytest.mark.parametrize("elem", [*ELEMS, "bool"])
def test_elementwise(elem: str) -> None:
    shape, count = "3x21", 63
    for fn in FUNCTIONS:
        if not accepts(fn.takes, scalar(elem)):
            continue
        scale = 0.5 if fn.name in ("asin", "acos", "atanh", "pow") else 4.0
        a, b = samples(elem, 2 * count, 1, scale=scale), samples(elem, 2 * count, 2, scale=scale)
        result = "bool" if fn.to_bool else elem
        out = np.zeros(2 * count, numpy_dtype(scalar(result)))
        exact = fn.name in EXACT or fn.to_bool or not scalar(elem).is_float
        slow = [t for t in TARGETS[1:][-1:] if elem in ("f16", "f32", "i8", "u32") and exact]
        targets = [TARGETS[0], *slow]
        args = [a, b, out]
        check(binary_text(fn.name, elem, shape, count, result), args, tolerance=0 if exact else 3, targets=targets)


@pytest.mark.some(9)
@pytest.mark.parametrize("source", [*ELEMS, "bool"])
def test_casts(source: str) -> None:
    x = samples(source, 126, 3, scale=300.0)
    for to in [*ELEMS, "bool"]:
        for saturate in (False, True):
            targets = TARGETS[:1] if saturate or to in ("u8", "i16", "u16", "i64") else TARGETS[::2]
            text = f"""
func @k(%a: ptr<{source}>, %o: ptr<{to}>) {{grid = 2}} {{
  %p = block.program_id() : i64
  %base = block.index(%p) {{expr = (63*p), names = ["p"]}} : i64
  %x = block.load_view(%a, %base) {{shape = [3, 21], strides = [21, 1]}} : tile<3x21x{source}>
  %z = block.cast(%x) {{saturate = {str(saturate).lower()}, to = {to}}} : tile<3x21x{to}>
  block.store_view(%o, %base, %z) {{strides = [21, 1]}}
  return()
}}
"""
            check(text, [x, np.zeros(126, numpy_dtype(scalar(to)))], targets=targets)


@pytest.mark.parametrize("elem", ["f8e4m3", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "f16", "bf16"])
def test_every_narrow_float(elem: str) -> None:
    """All patterns to f32, and f32 around all of them back."""
    dtype = numpy_dtype(scalar(elem))
    n = 1 << (8 * dtype.itemsize)
    patterns = np.arange(n, dtype=f"u{dtype.itemsize}").view(dtype)
    text = """
func @k(%a: ptr<SOURCE>, %o: ptr<TO>) {grid = COUNT} {
  %p = block.program_id() : i64
  %base = block.index(%p) {expr = (64*p), names = ["p"]} : i64
  %x = block.load_view(%a, %base) {shape = [2, 32], strides = [32, 1]} : tile<2x32xSOURCE>
  %z = block.cast(%x) {to = TO} : tile<2x32xTO>
  block.store_view(%o, %base, %z) {strides = [32, 1]}
  return()
}
"""

    def check_casts(source: str, to: str, x: Array) -> None:
        cast = text.replace("SOURCE", source).replace("TO", to).replace("COUNT", str(x.size // 64))
        check(cast, [x, np.zeros(x.size, numpy_dtype(scalar(to)))])

    check_casts(elem, "f32", patterns)
    for source in ("f32", "f64"):
        with np.errstate(invalid="ignore", over="ignore"):
            wide = patterns.astype(numpy_dtype(scalar(source)))
            half = np.concatenate([wide[1:], wide[:1]]) * 0.5 + wide * 0.5
            inputs = np.concatenate([wide, half, half * (1 + 1e-7), half * (1 - 1e-7), wide * 1.7])
        check_casts(source, elem, inputs.astype(wide.dtype))


def unary_text(op: str, source: str, result: str, strides: list[int], out_strides: list[int], elem: str = "f32") -> str:
    """One op between a load and a store of whole tiles."""
    dims = [int(d) for d in source.split("x") if d]
    return f"""
func @k(%a: ptr<{elem}>, %o: ptr<{elem}>) {{grid = 1}} {{
  %zero = block.const() {{elem = i64, value = 0}} : i64
  %x = block.load_view(%a, %zero) {{shape = {dims}, strides = {strides}}} : tile<{source}x{elem}>
  %z = block.{op} : tile<{result}x{elem}>
  block.store_view(%o, %zero, %z) {{strides = {out_strides}}}
  return()
}}
"""


@pytest.mark.some(32)
@pytest.mark.parametrize(
    ("op", "source", "result"),
    [
        ("reshape(%x) {shape = [8, 9]}", "6x12", "8x9"),
        ("reshape(%x) {shape = [72]}", "6x12", "72"),
        ("reshape(%x) {shape = [6, 1, 12]}", "6x12", "6x1x12"),
        ("reshape(%x) {shape = [33, 1]}", "33", "33x1"),
        ("trans(%x) {perm = [1, 0]}", "16x16", "16x16"),
        ("trans(%x) {perm = [1, 0]}", "5x19", "19x5"),
        ("trans(%x) {perm = [1, 0]}", "19x5", "5x19"),
        ("trans(%x) {perm = [1, 0]}", "37x18", "18x37"),
        ("trans(%x) {perm = [1, 0]}", "7x1", "1x7"),
        ("trans(%x) {perm = [1, 0]}", "1x7", "7x1"),
        ("trans(%x) {perm = [2, 0, 1]}", "3x4x5", "5x3x4"),
        ("trans(%x) {perm = [1, 0, 2]}", "3x4x20", "4x3x20"),
        ("trans(%x) {perm = [0, 2, 1]}", "3x4x20", "3x20x4"),
        ("broadcast(%x) {shape = [5, 21]}", "5x1", "5x21"),
        ("broadcast(%x) {shape = [5, 21]}", "1x21", "5x21"),
        ("broadcast(%x) {shape = [2, 3, 40]}", "2x1x1", "2x3x40"),
    ],
)
@pytest.mark.parametrize("elem", ["f32", "bool", "i8", "f64"])
def test_movement(op: str, source: str, result: str, elem: str) -> None:
    def strides(shape: str) -> list[int]:
        dims = [int(d) for d in shape.split("x")]
        return [int(np.prod(dims[i + 1 :])) for i in range(len(dims))]

    n = int(np.prod([int(d) for d in source.split("x")]))
    m = int(np.prod([int(d) for d in result.split("x")]))
    out = np.zeros(m, numpy_dtype(scalar(elem)))
    text = unary_text(op, source, result, strides(source), strides(result), elem)
    check(text, [samples(elem, n, 4), out], targets=TARGETS[:2])


@pytest.mark.some(12)
@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min", "any", "all"])
@pytest.mark.parametrize("shape", [(37,), (1,), (5, 19), (3, 64), (2, 3, 7), (17, 16), (2, 5, 32)])
def test_reduce(kind: str, shape: tuple[int, ...]) -> None:
    for elem in ["bool"] if kind in ("any", "all") else ["f32", "f16", "i8", "u64", "f64"]:
        for axis in range(len(shape)):
            source = "x".join(map(str, shape))
            left = shape[:axis] + shape[axis + 1 :]
            x = samples(elem, int(np.prod(shape)), axis, scale=0.5)
            if kind in ("sum", "prod") and scalar(elem).is_float:
                x = np.linspace(0.5, 1.5, x.size).astype(x.dtype)
            out = np.zeros(int(np.prod(left)), x.dtype)
            strides = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
            out_strides = [int(np.prod(left[i + 1 :])) for i in range(len(left))]
            result = f"tile<{'x'.join(map(str, left))}x{elem}>" if left else elem
            store = "block.store(%o, %zero, %z)"
            if left:
                store = f"block.store_view(%o, %zero, %z) {{strides = {out_strides}}}"
            text = f"""
func @k(%a: ptr<{elem}>, %o: ptr<{elem}>) {{grid = 1}} {{
  %zero = block.const() {{elem = i64, value = 0}} : i64
  %x = block.load_view(%a, %zero) {{shape = {list(shape)}, strides = {strides}}} : tile<{source}x{elem}>
  %z = block.reduce(%x) {{axis = {axis}, kind = "{kind}"}} : {result}
  {store}
  return()
}}
"""
            check(text, [x, out], tolerance=64, targets=TARGETS[:2])


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 16, 17])
@pytest.mark.parametrize("target", TARGETS)
def test_rows_are_summed_alike_however_many_there_are(rows: int, target: Target) -> None:
    """Neighbouring vectors first, then halves of what they make."""
    lanes = target.vector_bytes // 4
    n = 2 * lanes
    text = f"""
func @k(%a: ptr<f32>, %o: ptr<f32>) {{grid = 1}} {{
  %zero = block.const() {{elem = i64, value = 0}} : i64
  %x = block.load_view(%a, %zero) {{shape = [{rows}, {n}], strides = [{n}, 1]}} : tile<{rows}x{n}xf32>
  %s = block.reduce(%x) {{axis = 1, kind = "sum"}} : tile<{rows}xf32>
  block.store_view(%o, %zero, %s) {{strides = [1]}}
  return()
}}
"""
    x, out = np.random.default_rng(rows).standard_normal((rows, n), np.float32), np.zeros(rows, np.float32)
    run(parse(text), lower([parse(text)], target), [x, out], {})
    left = x[:, :lanes] + x[:, lanes:]
    while lanes > 1:
        lanes //= 2
        left = left[:, :lanes] + left[:, lanes:]
    np.testing.assert_array_equal(out, left[:, 0])


@pytest.mark.some(38)
@pytest.mark.parametrize("elem", ["f32", "i8", "bool", "bf16", "f64"])
@pytest.mark.parametrize(
    ("strides", "limited", "limits"),
    [
        ("21, 1", [], ()),
        ("(n), 1", [], ()),
        ("21, 1", [1], (13,)),
        ("21, 1", [1], (0,)),
        ("21, 1", [1], (-3,)),
        ("21, 1", [1], (1 << 40,)),
        ("21, 1", [0, 1], (2, 17)),
        ("21, 1", [1, 0], (20, 3)),
        ("21, 1", [0], (1,)),
        ("0, 1", [0], (2,)),
        ("0, 1", [], ()),
        ("1, 3", [], ()),
        ("1, 3", [0, 1], (2, 11)),
        ("(n), (2*n)", [1], (19,)),
        ("1, 0", [], ()),
        ("1, 0", [0, 1], (2, 5)),
        ("1, 0", [1], (0,)),
    ],
)
def test_views(elem: str, strides: str, limited: list[int], limits: tuple[int, ...]) -> None:
    """What is outside a limit is out of the array too, so the interpreter's checks see a wrong read."""
    names = [f"%l{i}" for i in range(len(limits))]
    consts = "".join(
        f'  {n} = block.index(%zero) {{expr = (z + q{i}), names = ["z"]}} : i64\n' for i, n in enumerate(names)
    )
    attrs = f"limited = {limited}, other = 1, shape = [3, 21], strides = [{strides}]"
    params = "".join(f", %q{i}: i64" for i in range(len(limits)))
    tail = "".join(f", {n}" for n in names)
    store = strides if "0" not in strides.split(", ") else "21, 1"
    text = f"""
func @k(%a: ptr<{elem}>, %o: ptr<{elem}>, %n: i64{params}) {{grid = 1}} {{
  %zero = block.const() {{elem = i64, value = 0}} : i64
{consts}  %x = block.load_view(%a, %zero{tail}) {{{attrs}}} : tile<3x21x{elem}>
  block.store_view(%o, %zero, %x{tail}) {{limited = {limited}, strides = [{store}]}}
  %flat = block.reshape(%x) {{shape = [63]}} : tile<63x{elem}>
  %far = block.const() {{elem = i64, value = 2000}} : i64
  block.store_view(%o, %far, %flat) {{strides = [1]}}
  return()
}}
"""
    symbols = {"n": 23} | {f"q{i}": v for i, v in enumerate(limits)}
    targets = TARGETS if elem in ("f32", "bf16") else TARGETS[:1]
    check(text, [samples(elem, 1500, 5), samples(elem, 2100, 6)], symbols, targets=targets)


@pytest.mark.parametrize("limit", [0, 1, 2, 15])
@pytest.mark.parametrize(
    ("source", "elem"), [("f32", "i8"), ("f32", "i16"), ("f32", "bf16"), ("i64", "i32"), ("i16", "i8")]
)
def test_a_limit_that_is_known_holds_for_elements_that_are_narrowed(source: str, elem: str, limit: int) -> None:
    """LLVM turns a masked store that narrows, if one lane is left, into a scalar store of the wide element."""
    text = f"""
func @k(%a: ptr<{source}>, %o: ptr<{elem}>) {{
  %z = block.const() {{elem = i64, value = 0}} : i64
  %n = block.const() {{elem = i64, value = {limit}}} : i64
  %x = block.load_view(%a, %z) {{shape = [16], strides = [1]}} : tile<16x{source}>
  %y = block.cast(%x) {{to = {elem}}} : tile<16x{elem}>
  block.store_view(%o, %z, %y, %n) {{limited = [0], strides = [1]}}
  return()
}}
"""
    check(text, [np.arange(1, 17).astype(numpy_dtype(scalar(source))), np.full(64, 77, numpy_dtype(scalar(elem)))])


def test_masked_elements_are_not_touched() -> None:
    """A tile at the very end of a mapped page."""
    page = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    libc = ctypes.CDLL(None)
    data = np.frombuffer(page, np.float32)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    assert libc.mprotect(ctypes.c_void_p(address + mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0
    inside = data[: mmap.PAGESIZE // 4]
    inside[:] = np.arange(inside.size)
    func = parse("""
func @k(%a: ptr<f32>, %o: ptr<f32>, %n: i64) {grid = 1} {
  %base = block.index() {expr = (n - 5)} : i64
  %five = block.const() {elem = i64, value = 5} : i64
  %limit = block.index(%five) {expr = (f + 0*n), names = ["f"]} : i64
  %one = block.index() {expr = (n - n + 1)} : i64
  %x = block.load_view(%a, %base, %one, %limit) {limited = [0, 1], shape = [4, 32], strides = [32, 1]} : tile<4x32xf32>
  %y = block.add(%x, %x) : tile<4x32xf32>
  block.store_view(%a, %base, %y, %one, %limit) {limited = [0, 1], strides = [32, 1]}
  return()
}
""")
    for target in TARGETS:
        before = inside[-5:].copy()
        run(func, lower([func], target), [inside, inside], {"n": inside.size})
        np.testing.assert_array_equal(inside[-5:], 2 * before)
    assert libc.mprotect(ctypes.c_void_p(address + mmap.PAGESIZE), mmap.PAGESIZE, 3) == 0


def ahead_text(ahead: int, elem: str = "f32", stride: int = 1) -> str:
    """Copies two rows of 40 elements with a prefetch hint; the limit leaves 37 of each."""
    return f"""
func @k(%a: ptr<{elem}>, %o: ptr<{elem}>) {{grid = 1}} {{
  %z = block.const() {{elem = i64, value = 0}} : i64
  %n = block.const() {{elem = i64, value = 37}} : i64
  %x = block.load_view(%a, %z, %n)
    {{ahead = {ahead}, limited = [1], shape = [2, 40], strides = [40, {stride}]}} : tile<2x40x{elem}>
  block.store_view(%o, %z, %x) {{strides = [40, 1]}}
  return()
}}
"""


@pytest.mark.parametrize("ahead", [16, 1 << 40])
def test_prefetches_do_not_change_results_nor_fault(ahead: int) -> None:
    check(ahead_text(ahead), [np.arange(80, dtype=np.float32), np.zeros(80, np.float32)])


@pytest.mark.parametrize(
    ("ahead", "elem", "stride", "name", "count"),
    [
        (256, "f32", 1, "prefetcht0", 6),  # three lines in a row of 160 bytes
        (1024, "f32", 1, "prefetcht0", 6),
        (1025, "f32", 1, "prefetcht1", 6),  # beyond 4 KiB: the second-level cache
        (256, "f16", 1, "prefetcht0", 4),
        (256, "i8", 1, "prefetcht0", 2),
        (256, "f64", 1, "prefetcht0", 10),
        (256, "f32", 2, "prefetch", 0),  # rows are not dense
        (0, "f32", 1, "prefetch", 0),
    ],
)
def test_each_line_ahead_is_asked_for_once(ahead: int, elem: str, stride: int, name: str, count: int) -> None:
    func = parse(ahead_text(ahead, elem, stride))
    text = emit_assembly(lower([func], Target.parse("cpu:x86-64-v4")))
    assert text.count("prefetch") == text.count(name) == count


def test_factors_that_are_read_where_they_are_multiplied_are_asked_for_too() -> None:
    text = """
func @k(%a: ptr<f32>, %b: ptr<f32>, %o: ptr<f32>) {grid = 1} {
  %z = block.const() {elem = i64, value = 0} : i64
  %s = block.const() {elem = f32, shape = [3, 32], value = 0.0} : tile<3x32xf32>
  %x = block.load_view(%a, %z) {shape = [3, 4], strides = [4, 1]} : tile<3x4xf32>
  %y = block.load_view(%b, %z) {ahead = 512, shape = [4, 32], strides = [32, 1]} : tile<4x32xf32>
  %d = block.dot(%x, %y, %s) : tile<3x32xf32>
  block.store_view(%o, %z, %d) {strides = [32, 1]}
  return()
}
"""
    assert emit_assembly(lower([parse(text)], Target.parse("cpu:x86-64-v4"))).count("prefetcht0") == 8


def test_other_architectures_have_a_prefetch_too() -> None:
    assert "prfm" in emit_assembly(lower([parse(ahead_text(256))], Target.parse("cpu:neoverse-n1")))


@pytest.mark.parametrize("elem", ["f32", "i8", "bool", "f16", "i64"])
@pytest.mark.parametrize("masked", [False, True])
def test_gather_and_scatter(elem: str, masked: bool) -> None:
    tail = ", %m" if masked else ""
    text = f"""
func @k(%a: ptr<{elem}>, %i: ptr<i64>, %c: ptr<bool>, %o: ptr<{elem}>) {{grid = 1}} {{
  %zero = block.const() {{elem = i64, value = 0}} : i64
  %at = block.load_view(%i, %zero) {{shape = [2, 19], strides = [19, 1]}} : tile<2x19xi64>
  %m = block.load_view(%c, %zero) {{shape = [2, 19], strides = [19, 1]}} : tile<2x19xbool>
  %x = block.load(%a, %at{tail}) {{other = 1}} : tile<2x19x{elem}>
  block.store_view(%o, %zero, %x) {{strides = [19, 1]}}
  %to = block.index(%at) {{expr = (t + 40), names = ["t"]}} : tile<2x19xi64>
  block.store(%o, %to, %x{tail})
  %s = block.load(%a, %zero) : {elem}
  %end = block.const() {{elem = i64, value = 99}} : i64
  block.store(%o, %end, %s)
  return()
}}
"""
    rng = np.random.default_rng(7)
    index = rng.integers(0, 50, 38).astype(np.int64)
    mask = rng.integers(0, 2, 38).astype(bool)
    if masked:
        index = np.where(mask, index, 1 << 40)
    check(text, [samples(elem, 50, 8), index, mask, np.zeros(100, numpy_dtype(scalar(elem)))])


@pytest.mark.parametrize(
    "expr",
    [
        "floordiv(x, 7)", "mod(x, 7)", "floordiv(x, 8)", "mod(x, 8)", "floordiv(x, n)", "mod(x, n)", "min(x, n)",
        "max(x, n) - 3*x*n", "floordiv(3*x + n, 5) + mod(x, 3)*n", "x*x - 2*n + 7",
    ],
)  # fmt: skip
def test_index(expr: str) -> None:
    """Numerators of both signs, as scalars and as tiles, bounded and not."""
    for ranges in ("", " dims (n in 1..64)"):
        text = f"""
func @k(%o: ptr<i64>, %i: ptr<i64>, %n: i64) {{grid = 9}}{ranges} {{
  %p = block.program_id() : i64
  %x = block.index(%p) {{expr = (11*p - 40), names = ["p"]}} : i64
  %e = block.index(%x) {{expr = ({expr}), names = ["x"]}} : i64
  block.store(%o, %p, %e)
  %r = block.arange() {{end = 20, start = -19}} : tile<39xi64>
  %t = block.index(%r) {{expr = ({expr}), names = ["x"]}} : tile<39xi64>
  %b = block.index(%p) {{expr = (39*p + 9), names = ["p"]}} : i64
  block.store_view(%o, %b, %t) {{strides = [1]}}
  %w = block.load(%i, %p) : i64
  %u = block.index(%w) {{expr = ({expr}), names = ["x"]}} : i64
  %c = block.index(%p) {{expr = (p + 400), names = ["p"]}} : i64
  block.store(%o, %c, %u)
  return()
}}
"""
        wild = np.array([-(1 << 20), -9, -8, -1, 0, 1, 8, 9, 1 << 20], np.int64)
        check(text, [np.zeros(420, np.int64), wild], {"n": 6}, targets=TARGETS[:2])


def dot_text(elems: str, m: int, n: int, u: int, *, limited: bool = False, computed: bool = False) -> str:
    """A product in a loop over k; `computed` puts an op between the load and the product."""
    ae, be, ce = elems.split()
    limits = ("%lm, %kl", "%kl, %ln") if limited else ("", "")
    la, lb = (f", {text}" if text else "" for text in limits)
    attr = "limited = [0, 1], " if limited else ""
    dims = "dims (K in 0..1000)"
    square = f"%q = block.mul(%x, %x) : tile<{m}x{u}x{ae}>" if computed else ""
    return f"""
func @k(%a: ptr<{ae}>, %b: ptr<{be}>, %c: ptr<{ce}>, %K: i64, %lm: i64, %lk: i64, %ln: i64) {{grid = 1}} {dims} {{
  %zero = block.const() {{elem = i64, value = 0}} : i64
  %acc0 = block.load_view(%c, %zero) {{shape = [{m}, {n}], strides = [{n}, 1]}} : tile<{m}x{n}x{ce}>
  %acc = for(%zero, %K, %acc0) {{step = {u}}} do (%k: i64, %s: tile<{m}x{n}x{ce}>) {{
    %bb = block.index(%k) {{expr = ({n}*k), names = ["k"]}} : i64
    %kl = block.index(%k) {{expr = (lk - k), names = ["k"]}} : i64
    %x = block.load_view(%a, %k{la}) {{{attr}shape = [{m}, {u}], strides = [(K), 1]}} : tile<{m}x{u}x{ae}>
    %y = block.load_view(%b, %bb{lb}) {{{attr}shape = [{u}, {n}], strides = [{n}, 1]}} : tile<{u}x{n}x{be}>
    {square}
    %d = block.dot({"%q" if computed else "%x"}, %y, %s) : tile<{m}x{n}x{ce}>
    yield(%d)
  }} : tile<{m}x{n}x{ce}>
  block.store_view(%c, %zero, %acc) {{strides = [{n}, 1]}}
  return()
}}
"""


@pytest.mark.some(12)
@pytest.mark.parametrize(("m", "n", "u"), [(14, 32, 1), (14, 32, 8), (5, 19, 4), (1, 7, 2), (3, 1, 3), (30, 50, 16)])
@pytest.mark.parametrize("elems", ["f32 f32 f32", "bf16 f16 f32", "i8 u8 i32", "f64 f64 f64", "f16 f16 f16"])
def test_dot(m: int, n: int, u: int, elems: str) -> None:
    """Loads that feed the product directly, and computed left operands; with and without limits."""
    depth = 2 * u
    ae, be, ce = elems.split()
    rng = np.random.default_rng(9)

    def small(elem: str, count: int) -> Array:
        return rng.integers(0 if elem.startswith("u") else -3, 4, count).astype(numpy_dtype(scalar(elem)))

    args = [small(ae, m * depth), small(be, depth * n), small(ce, m * n)]
    symbols = {"K": depth, "lm": max(1, m - 2), "lk": max(1, depth - 3), "ln": max(1, n - 4)}
    for computed in (False, True):
        check(dot_text(elems, m, n, u, computed=computed), args, symbols, targets=TARGETS[:2])
        text = dot_text(elems, m, n, u, limited=True, computed=computed)
        check(text, args, symbols, targets=TARGETS[:2])
        check(text, args, symbols | {"lm": 0}, targets=TARGETS[:1])


def test_control_and_scratch() -> None:
    """Nested loops without trips, carried tiles and pointers, branches, program-local memory."""
    text = """
func @k(%a: ptr<f32>, %o: ptr<f32>, %n: i64) {grid = (n)} dims (n in 0..100) {
  %p = block.program_id() : i64
  %zero = block.const() {elem = i64, value = 0} : i64
  %one = block.const() {elem = i64, value = 1} : i64
  %five = block.const() {elem = i64, value = 5} : i64
  %t0 = block.const() {elem = f32, shape = [21], value = 1.5} : tile<21xf32>
  %tmp = block.alloc() {count = (21*n), elem = f32} : ptr<f32>
  %tmp2 = block.alloc() {count = 7, elem = f64} : ptr<f64>
  %r, %q = for(%zero, %p, %t0, %a) {step = 2} do (%i: i64, %t: tile<21xf32>, %ptr: ptr<f32>) {
    %x = block.load_view(%ptr, %i) {shape = [21], strides = [1]} : tile<21xf32>
    %s = block.add(%t, %x) : tile<21xf32>
    %b = block.index(%i) {expr = (10*i), names = ["i"]} : i64
    block.store_view(%tmp, %b, %s) {strides = [1]}
    %y = block.load_view(%tmp, %b) {shape = [21], strides = [1]} : tile<21xf32>
    %w = for(%i, %five, %y) do (%j: i64, %z: tile<21xf32>) {
      %jf = block.cast(%j) {to = f32} : f32
      %js = block.splat(%jf) {shape = [21]} : tile<21xf32>
      %u = block.mul(%z, %js) : tile<21xf32>
      yield(%u)
    } : tile<21xf32>
    %next = block.offset(%ptr, %one) : ptr<f32>
    yield(%w, %next)
  } : tile<21xf32>, ptr<f32>
  %two = block.const() {elem = i64, value = 2} : i64
  %pm = block.index(%p) {expr = (mod(p, 2)), names = ["p"]} : i64
  %odd = block.eq(%pm, %one) : bool
  %v = if(%odd) do () {
    %x = block.neg(%r) : tile<21xf32>
    yield(%x)
  } do () {
    yield(%r)
  } : tile<21xf32>
  %single = for(%one, %two, %v) do (%i: i64, %t: tile<21xf32>) {
    %x = block.add(%t, %t) : tile<21xf32>
    yield(%x)
  } : tile<21xf32>
  %s0 = block.load(%q, %zero) : f32
  if(%odd) do () {
    block.store(%o, %p, %s0)
    yield()
  }
  %ob = block.index(%p) {expr = (21*p + 100), names = ["p"]} : i64
  block.store_view(%o, %ob, %single) {strides = [1]}
  return()
}
"""
    args = [samples("f32", 200, 10, scale=1.0), np.zeros(600, np.float32)]
    args[0][~np.isfinite(args[0])] = 1
    check(text, args, {"n": 12})


def test_fma_select_and_bitcast() -> None:
    for elem, bits in (("f32", "i32"), ("f64", "u64"), ("f16", "i16"), ("bf16", "u16")):
        text = f"""
func @k(%a: ptr<{elem}>, %b: ptr<{elem}>, %c: ptr<{elem}>, %o: ptr<{elem}>, %q: ptr<{bits}>) {{grid = 1}} {{
  %zero = block.const() {{elem = i64, value = 0}} : i64
  %x = block.load_view(%a, %zero) {{shape = [40], strides = [1]}} : tile<40x{elem}>
  %y = block.load_view(%b, %zero) {{shape = [40], strides = [1]}} : tile<40x{elem}>
  %z = block.load_view(%c, %zero) {{shape = [40], strides = [1]}} : tile<40x{elem}>
  %f = block.fma(%x, %y, %z) : tile<40x{elem}>
  %m = block.lt(%x, %y) : tile<40xbool>
  %s = block.select(%m, %f, %x) : tile<40x{elem}>
  block.store_view(%o, %zero, %s) {{strides = [1]}}
  %i = block.bitcast(%s) {{to = {bits}}} : tile<40x{bits}>
  block.store_view(%q, %zero, %i) {{strides = [1]}}
  return()
}}
"""
        rng = np.random.default_rng(11)
        args = [rng.normal(size=40).astype(numpy_dtype(scalar(elem))) for _ in range(4)]
        check(text, [*args, np.zeros(40, numpy_dtype(scalar(bits)))])


def test_dot_of_filled_operands() -> None:
    """Steps of k past a limit whose fill is not zero count."""
    text = dot_text("f32 f32 f32", 14, 32, 4, limited=True).replace("limited =", "other = 1, limited =")
    args = [np.ones(14 * 8, np.float32), np.full(8 * 32, 2, np.float32), np.zeros(14 * 32, np.float32)]
    check(text, args, {"K": 8, "lm": 12, "lk": 5, "ln": 29})


@pytest.mark.parametrize("name", ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "znver4", "neoverse-n1", "aarch64"])
def test_every_target_compiles(name: str) -> None:
    target = Target.parse(f"cpu:{name}")
    assert str(Target.parse(str(target))) == str(target)
    text = dot_text("f16 f16 f32", 4, 24, 2, computed=True)
    lowered = lower([parse(text)], target)
    assert len(compile_object(lowered)) > 500
    assert "k:" in emit_assembly(lowered)


def test_microkernel_does_not_spill() -> None:
    """28 accumulators stay in registers, and a is broadcast from memory."""
    text = dot_text("f32 f32 f32", 14, 32, 1)
    asm = emit_assembly(lower([parse(text)], Target.parse("cpu:znver4")))
    assert not [line for line in asm.splitlines() if "zmm" in line and "rsp" in line]
    assert asm.count("vfmadd") == 28
    assert asm.count("vbroadcastss") == 14


def test_several_functions_share_a_module() -> None:
    text = binary_text("exp", "f32", "40", 40, "f32")
    funcs = [parse(text.replace("@k", f"@k{i}")) for i in range(3)]
    lowered = lower(funcs, HOST)
    library = load_object(compile_object(lowered), [f.name for f in funcs])
    assert len({library.address(f.name) for f in funcs}) == 3
    assert [k.params for k in lowered.kernels] == [("a", "b", "o")] * 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpu", "unknown target 'gpu'"),
        ("cpu:znver44", "unknown processor 'znver44'; did you mean 'znver4'?"),
        ("cpu:quantum", "unknown processor 'quantum': one of"),
    ],
)
def test_unknown_targets(text: str, message: str) -> None:
    with pytest.raises(TargetError, match="error: ") as e:
        Target.parse(text)
    assert message in str(e.value)


def test_targets_know_what_they_have() -> None:
    v3, v4 = Target.parse("cpu:x86-64-v3"), Target.parse("cpu:x86-64-v4")
    assert v3.feature_set < v4.feature_set
    assert "avx512f" in v4.feature_set - v3.feature_set
    assert (v3.vector_bytes, v3.registers, v4.vector_bytes, v4.registers) == (32, 16, 64, 32)
