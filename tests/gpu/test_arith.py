"""Elementwise ops as PTX in the emulator and in the interpreter of the block dialect give the same numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import graphfuse.dialects.block
import graphfuse.dialects.control  # noqa: F401  the parser finds ops by name
from graphfuse.codegen.vecmath_tables import TWO_OVER_PI
from graphfuse.compiler import stages
from graphfuse.dialects.elementwise import FUNCTIONS, accepts
from graphfuse.gpu.emulator import Buffer, Emulator
from graphfuse.gpu.lower import emit_ptx
from graphfuse.gpu.pipeline import compile_functions
from graphfuse.interp import elementwise as ew
from graphfuse.interp.block import launch
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.parser import parse
from graphfuse.ir.types import scalar
from graphfuse.knobs import Options
from graphfuse.targets import Target

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, of NaN and overflow
Array = Any
INTEGERS = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "i4", "u4", "i2", "u2"]
FLOATS = ["f16", "bf16", "f32", "f64"]
FLOATS8 = ["f8e4m3", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "f8e8m0", "f4e2m1"]
TARGET = Target.parse("cuda:sm_90a")
TILE = 256
"""Elements of one program."""


def kernel_text(
    lines: Sequence[tuple[str, str]], inputs: dict[str, str], numerics: str = "eager", warps: int = 2
) -> str:
    """A kernel that stores what every op gives, (text, element); `inputs` are tiles and their elements.

    Two warps have four elements a thread.
    """
    outs = sorted({elem for _, elem in lines})
    params = [f"%p_{n}: ptr<{e}>" for n, e in inputs.items()] + [f"%o_{e}: ptr<{e}>" for e in outs]
    body = [f"  %{n} = block.load_view(%p_{n}, %base) {{shape = [{TILE}], strides = [1]}} : tile<{TILE}x{e}>"
            for n, e in inputs.items()]  # fmt: skip
    counts = {e: sum(1 for _, x in lines if x == e) for e in outs}
    seen = dict.fromkeys(outs, 0)
    for i, (op, elem) in enumerate(lines):
        body.append(f"  %r{i} = {op} : tile<{TILE}x{elem}>")
        start = f"{counts[elem] * TILE}*p + {seen[elem] * TILE}"
        body.append(f'  %b{i} = block.index(%p) {{expr = ({start}), names = ["p"]}} : i64')
        body.append(f"  block.store_view(%o_{elem}, %b{i}, %r{i}) {{strides = [1]}}")
        seen[elem] += 1
    head = f'{{grid = (n), warps = {warps}, numerics = "{numerics}"}} dims (n in 1..4096)'
    return f"""
func @k({", ".join(params)}, %n: i64) {head} {{
  %p = block.program_id() : i64
  %base = block.index(%p) {{expr = ({TILE}*p), names = ["p"]}} : i64
{chr(10).join(body)}
  return()
}}
"""


def run(
    lines: Sequence[tuple[str, str]],
    inputs: dict[str, tuple[str, Array]],
    *,
    numerics: str = "eager",
    target: Target = TARGET,
    interpret: bool = True,
) -> tuple[list[Array], list[Array], str]:
    """What every line gives in the emulator and in the interpreter, and the PTX."""
    # a pair of neighbours a thread is all that code distinguishes
    func = parse(kernel_text(lines, {n: e for n, (e, _) in inputs.items()}, numerics, warps=4))
    lowered = compile_functions([func], target)
    ptx = emit_ptx(lowered)
    info = lowered.kernels[0]
    programs = next(iter(inputs.values()))[1].size // TILE
    elems = sorted({e for _, e in lines})
    counts = {e: sum(1 for _, x in lines if x == e) for e in elems}
    arrays = [x for _, x in inputs.values()]
    got, want = ({e: np.zeros((programs, counts[e], TILE), numpy_dtype(scalar(e))) for e in elems} for _ in range(2))
    if interpret:
        launch(func, [*arrays, *want.values()], {"n": programs})
    buffers = [_bytes(x) for x in arrays]
    outs = [Buffer(_bytes(x), initialised=False) for x in got.values()]
    Emulator(ptx).launch(
        "k", (programs,), (info.threads,), [*buffers, *outs, programs, 0], shared_bytes=info.shared_bytes
    )
    places = {e: iter(range(counts[e])) for e in elems}
    slots = [(e, next(places[e])) for _, e in lines]
    return [got[e][:, i].reshape(-1) for e, i in slots], [want[e][:, i].reshape(-1) for e, i in slots], ptx


def _bytes(x: Array) -> Array:
    """The memory of an array, as a type that the emulator takes."""
    return x.view(np.uint8)


def steps(got: Array, want: Array) -> Array:
    """How many representable numbers apart; NaN is NaN, infinities follow the largest number."""
    size = got.dtype.itemsize
    order = []
    for x in (got, want):
        bits = x.view(f"i{size}").astype(np.int64 if size < 8 else object)
        order.append(np.where(bits < 0, -(bits & ((1 << 8 * size - 1) - 1)), bits))
    apart = np.abs(order[0] - order[1]).astype(np.float64)
    nan_got, nan_want = (np.isnan(x.astype(np.float64)) for x in (got, want))
    return np.where(nan_got | nan_want, np.where(nan_got & nan_want, 0.0, np.inf), apart)


def compare(got: Array, want: Array, allowed: float, what: str, xs: Sequence[Array]) -> None:
    """Equal, or up to `allowed` numbers apart; the sign of zero counts."""
    if want.dtype.kind in "biuV" or want.dtype.name in ("int4", "uint4", "int2", "uint2"):
        wrong = got.astype(np.int64) != want.astype(np.int64) if want.dtype.kind != "u" else got != want
    else:
        with np.errstate(invalid="ignore"):
            wrong = steps(got, want) > allowed
            zero = (want.astype(np.float64) == 0) & (got.astype(np.float64) == 0)
            if what in SIGNLESS_ZERO or want.dtype.name == "float4_e2m1fn":  # where NaN is a zero
                zero &= False
            wrong |= zero & (np.signbit(got.astype(np.float32)) != np.signbit(want.astype(np.float32)))
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        at = ", ".join(repr(x[i]) for x in xs)
        raise AssertionError(f"{what}({at}) = {got[i]!r}, expected {want[i]!r} ({int(wrong.sum())} of {wrong.size})")


def samples(elem: str, n: int, seed: int, *, scale: float = 4.0) -> Array:
    """Values of all sizes and every special one; integers with both ends, zeros and small numbers."""
    rng = np.random.default_rng(seed)
    dtype = numpy_dtype(scalar(elem))
    if elem == "bool":
        return rng.integers(0, 2, n).astype(bool)
    if scalar(elem).is_float:
        patterns = rng.integers(0, 256, (n, max(1, dtype.itemsize)), dtype=np.uint8)
        if elem == "f4e2m1":
            patterns &= 15
        any_bits = patterns.reshape(-1).view(dtype)
        with np.errstate(all="ignore"):
            near = rng.normal(0, scale, n).astype(dtype)
            special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 1e-40, -3e-45, 3e38, 6e-8, 65504.0])
            chosen = rng.choice(special, n).astype(dtype)
        kind = rng.integers(0, 8, n)
        return np.where(kind < 4, near, np.where(kind < 6, any_bits, chosen))
    low, high = integer_range(elem)
    x = rng.integers(max(-20, low), min(high, 20), n)
    y = rng.integers(low, high, n, dtype=np.uint64 if elem == "u64" else np.int64, endpoint=True)
    edges = np.array([low, high, 0, 1, -1 if low else 1, 2], np.uint64 if elem == "u64" else np.int64)
    kind = rng.integers(0, 3, n)
    return np.where(kind == 0, x.astype(y.dtype), np.where(kind == 1, y, rng.choice(edges, n))).astype(dtype)


def integer_range(elem: str) -> tuple[int, int]:
    """The least and the greatest value."""
    bits = scalar(elem).bits
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if elem.startswith("i") else (0, (1 << bits) - 1)


SIGNLESS_ZERO = frozenset({"max", "min", "sign"})
"""numpy gives either zero of max(0, -0), and 0 as the sign of -0."""
STEPS = {"tan": 4, "asin": 3, "asinh": 3, "acosh": 3, "atanh": 3, "div": 0, "sqrt": 0, "erf": 3}
"""Numbers that a function of f32 or f64 may be away, the interpreter being right; 2 for those not named."""
EXACT = frozenset({"add", "sub", "mul", "floordiv", "floormod", "truncmod", "max", "min", "neg", "abs", "sign", "floor",
                   "ceil", "trunc", "round", "isnan", "isinf", "eq", "ne", "lt", "le", "gt", "ge"})  # fmt: skip
EVERY = [*INTEGERS, *FLOATS, *FLOATS8, "bool"]


def allowed_steps(name: str, elem: str) -> int:
    """How far a result may be from the interpreter's."""
    if name in EXACT or not scalar(elem).is_float:
        return 0
    return STEPS.get(name, 2) if scalar(elem).bits >= 32 else 1


def check_functions(elem: str, numerics: str, target: Target = TARGET) -> str:
    """Every function on one element; returns the PTX."""
    functions = [f for f in FUNCTIONS if accepts(f.takes, scalar(elem))]
    lines = [(f"block.{f.name}(%x{', %y' if f.arity == 2 else ''})", "bool" if f.to_bool else elem) for f in functions]
    x, y = samples(elem, 8 * TILE, 1), samples(elem, 8 * TILE, 2)
    got, want, ptx = run(lines, {"x": (elem, x), "y": (elem, y)}, numerics=numerics, target=target)
    for f, g, w in zip(functions, got, want, strict=True):
        compare(g, w, allowed_steps(f.name, elem), f.name, (x, y))
    return ptx


@pytest.mark.parametrize("elem", EVERY)
def test_functions(elem):
    ptx = check_functions(elem, "eager")
    assert "call" not in ptx


@pytest.mark.parametrize("elem", ["f16", "bf16", "f32", "f64"])
def test_functions_strictly(elem):
    """By no instruction whose error is known only to a bound."""
    ptx = check_functions(elem, "strict")
    assert ".approx" not in ptx
    assert "div.full" not in ptx


@pytest.mark.parametrize(
    ("arch", "elem"),
    [pytest.param(arch, elem, marks=() if arch == "sm_80" or elem == "f8e4m3" else pytest.mark.full)
     for arch in ("sm_80", "sm_89", "sm_120a") for elem in ("f16", "bf16", "f8e4m3")],
)  # fmt: skip
def test_functions_on_other_architectures(arch, elem):
    check_functions(elem, "eager", Target.parse(f"cuda:{arch}"))


def check_casts(source: str, target: Target) -> None:
    """From one element to all others, wrapping and saturating."""
    targets = [to for to in EVERY if to != source]
    lines = [(f"block.cast(%x) {{{how}to = {to}}}", to) for to in targets for how in ("", "saturate = true, ")]
    x = samples(source, 8 * TILE, 3, scale=300.0)
    got, want, _ = run(lines, {"x": (source, x)}, target=target)
    for (op, _), g, w in zip(lines, got, want, strict=True):
        compare(g, w, 0, op, (x,))


@pytest.mark.parametrize("source", EVERY)
def test_casts(source):
    check_casts(source, TARGET)


@pytest.mark.parametrize("source", ["f16", "bf16", "f32", "f8e4m3", "f8e5m2"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
def test_casts_on_other_architectures(arch, source):
    check_casts(source, Target.parse(f"cuda:{arch}"))


@pytest.mark.parametrize("source", ["f8e4m3", "f8e5m2"])
def test_every_float8_pattern(source):
    patterns = np.arange(256, dtype=np.uint8).view(numpy_dtype(scalar(source)))
    got, want, _ = run([("block.cast(%x) {to = f32}", "f32")], {"x": (source, patterns)})
    compare(got[0], want[0], 0, "cast", (patterns,))


@pytest.mark.parametrize("to", ["f16", "bf16", "f8e4m3", "f8e5m2"])
def test_rounding_to_narrow_floats(to):
    """Every finite value, the middle between neighbours, and the numbers next to the middle."""
    patterns = np.arange(1 << scalar(to).bits, dtype=f"u{scalar(to).bytes}").view(numpy_dtype(scalar(to)))
    with np.errstate(invalid="ignore"):
        values = np.unique(patterns.astype(np.float32)[np.isfinite(patterns.astype(np.float32))])
    middles = values[:-1] / 2 + values[1:] / 2
    top = np.float32(values[-1])
    beyond = np.array([top * s for s in (1.0, 1.01, 1.02, 1.03, 1.04, 1.07, 1.08, 1.2, 2.0)], np.float32)
    x = np.concatenate([values, middles, np.nextafter(middles, np.float32(np.inf)), beyond, -beyond,
                        np.nextafter(middles, np.float32(-np.inf)), [np.inf, -np.inf, np.nan]])  # fmt: skip
    x = np.resize(x.astype(np.float32), -(-x.size // TILE) * TILE)
    lines = [(f"block.cast(%x) {{to = {to}}}", to), (f"block.cast(%x) {{saturate = true, to = {to}}}", to)]
    got, want, _ = run(lines, {"x": ("f32", x)})
    for (op, _), g, w in zip(lines, got, want, strict=True):
        compare(g, w, 0, op, (x,))


def test_select_bitcast_const_fma():
    inputs = {n: (e, samples(e, 4 * TILE, i)) for i, (n, e) in enumerate([
        ("c", "bool"), ("a", "f16"), ("b", "f16"), ("d", "f16"), ("f", "f32"), ("g", "f32"), ("h", "f32"),
        ("i", "i64"), ("j", "i64"), ("q", "bf16"), ("r", "bf16"), ("s", "bf16"), ("v", "f64"), ("k", "u8"),
    ])}  # fmt: skip
    lines = [
        ("block.select(%c, %a, %b)", "f16"), ("block.select(%c, %f, %g)", "f32"), ("block.select(%c, %i, %j)", "i64"),
        ("block.fma(%a, %b, %d)", "f16"), ("block.fma(%f, %g, %h)", "f32"), ("block.fma(%q, %r, %s)", "bf16"),
        ("block.bitcast(%f) {to = i32}", "i32"), ("block.bitcast(%i) {to = f64}", "f64"),
        ("block.bitcast(%q) {to = u16}", "u16"), ("block.bitcast(%v) {to = u64}", "u64"),
        ("block.bitcast(%c) {to = u8}", "u8"), ("block.bitcast(%k) {to = f8e5m2}", "f8e5m2"),
        *((f"block.const() {{elem = {e}, shape = [{TILE}], value = {v}}}", e) for e, v in [
            ("f16", "-2.5"), ("bf16", "nan"), ("f32", "inf"), ("f64", "0.1"), ("i8", "-128"), ("u64", "5"),
            ("bool", "true"), ("f8e4m3", "448.0"), ("i4", "-8"),
        ]),
    ]  # fmt: skip
    got, want, _ = run(lines, inputs)
    for (op, _), g, w in zip(lines, got, want, strict=True):
        compare(g, w, 0, op, ())


# errors, over many arguments

ULP = {
    "exp": 1.4, "exp2": 0.51, "sigmoid": 2.3, "tanh": 1.5, "erf": 1.2, "log": 1.0, "log2": 1.0, "sin": 1.6, "cos": 1.6,
    "tan": 3.7, "expm1": 1.7, "log1p": 1.6, "asin": 2.3, "acos": 1.2, "atan": 1.9, "sinh": 1.8, "cosh": 1.5,
    "asinh": 1.8, "acosh": 2.1, "atanh": 2.1, "log10": 1.1, "exp10": 1.3, "cbrt": 0.6, "erfc": 3.1,
    "erfinv": 2.3, "lgamma": 0.51,
}  # fmt: skip
"""Of f32 in the emulator, whose `.approx` functions are rounded correctly; `gpu/math.py` says what hardware may add."""


def exact(name: str, x: Array) -> Array:
    """The interpreter's value before it is rounded."""
    with np.errstate(all="ignore"):
        return ew.TRANSCENDENTAL[name](x.astype(np.float64))


def errors(got: Array, want: Array) -> Array:
    """In units of the last place of f32; values that overflow or are not finite count as right if they are the same."""
    with np.errstate(all="ignore"):
        rounded = want.astype(np.float32)
        exponent = np.maximum(np.frexp(rounded.astype(np.float64))[1] - 1, -126)
        off = np.abs(got.astype(np.float64) - want) / np.ldexp(1.0, exponent - 23)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return np.where(same, np.where(np.isfinite(rounded), np.minimum(off, 0.5), 0.0), off)


def test_errors_of_f32():
    rng = np.random.default_rng(5)
    n = 64 * TILE
    x = np.concatenate([
        rng.integers(0, 1 << 32, n, dtype=np.uint64).astype(np.uint32).view(np.float32), rng.uniform(-110, 110, n),
        rng.uniform(-2, 2, n), rng.uniform(-10, 10, n), 1 + rng.normal(0, 1e-3, n), rng.normal(0, 1e-4, n),
    ]).astype(np.float32)  # fmt: skip
    for names in (list(ULP)[:7], list(ULP)[7:]):
        got, _, _ = run([(f"block.{name}(%x)", "f32") for name in names], {"x": ("f32", x)}, interpret=False)
        for name, g in zip(names, got, strict=True):
            off = errors(g, exact(name, x))
            worst = int(np.nanargmax(np.where(np.isnan(off), np.inf, off)))
            assert off[worst] <= ULP[name], f"{name}({x[worst]!r}) = {g[worst]!r} is {off[worst]} ulp off"


@pytest.mark.parametrize("elem", ["f32", "f64"])
def test_angles_near_multiples_of_a_quarter_turn(elem):
    """The first is the hardest to reduce (J.-M. Muller, Elementary Functions); around the ends of the table of 2/pi."""
    values = {
        "f32": [16367173 * 2.0**72, 2.0**127, 3.4028234663852886e38, 1e5, 100001.0, 1e30, -8.5e20, 2.0**16, -1e38],
        "f64": [6381956970095103 * 2.0**797, 2.0**1023, 1.7976931348623157e308, 1e6, 1000001.0, 1e22, -1e300, 5.5e15],
    }[elem]  # fmt: skip
    x = np.resize(np.array(values, numpy_dtype(scalar(elem))), TILE)
    got, _, _ = run([(f"block.{name}(%x)", elem) for name in ("sin", "cos")], {"x": (elem, x)}, interpret=False)
    for name, g in zip(("sin", "cos"), got, strict=True):
        want = np.array([quarter_turns(float(v), name) for v in x]).astype(x.dtype)
        compare(g, want, 2, name, (x,))


def quarter_turns(x: float, name: str) -> float:
    """sin or cos of a large x, by exact integers: 2/pi to 1200 bits."""
    m, e = math.frexp(abs(x))
    angle = int(m * 2**53) * TWO_OVER_PI  # quarter turns times 2^(1253 - e)
    one = 1 << 1253 - e
    quadrant, rest = divmod(angle + one // 2, one)
    r = (rest - one // 2) / one * (math.pi / 2)
    if name == "sin":
        quadrant += 2 * (x < 0)
    else:
        quadrant += 1
    return [math.sin(r), math.cos(r), -math.sin(r), -math.cos(r)][quadrant % 4]


def test_remainders_of_numbers_far_apart():
    x = np.resize(np.array([1.7e308, 1e300, 2.0**1023, 3.0, -1e308, 1e10, 5e-324, 7.5]), TILE)
    y = np.resize(np.array([5e-324, 1e-300, 3 * 2.0**-1074, 1.1e-308, 7e-310, 3.3e-300, 1e308, -2.25]), TILE)
    names = ("truncmod", "floormod")
    got, want, _ = run([(f"block.{name}(%x, %y)", "f64") for name in names], {"x": ("f64", x), "y": ("f64", y)})
    for name, g, w in zip(names, got, want, strict=True):
        compare(g, w, 0, name, (x, y))


# what is emitted


def ptx_of(ops: Sequence[tuple[str, str]], inputs: dict[str, str], numerics: str = "eager") -> str:
    return emit_ptx(compile_functions([parse(kernel_text(ops, inputs, numerics))], TARGET))


def instructions(ptx: str) -> list[str]:
    """The instructions of a kernel but loads of its parameters and the return."""
    body = ptx[ptx.index("{\n") :].splitlines()
    words = [line.split()[0] for line in body if line.startswith("\t") and line[1].isalpha()]
    return [w for w in words if not w.startswith(("ld.param", "ret"))]


def test_neighbours_are_converted_together():
    ops = [(f"block.cast(%x) {{to = {to}}}", to) for to in ("f16", "bf16", "f8e4m3", "f8e5m2")]
    found = instructions(ptx_of(ops, {"x": "f32"}))
    for name in ("cvt.rn.f16x2.f32", "cvt.rn.bf16x2.f32", "cvt.rn.satfinite.e4m3x2.f32", "cvt.rn.satfinite.e5m2x2.f32"):
        assert found.count(name) == 2
    assert (
        instructions(ptx_of([("block.cast(%x) {to = f32}", "f32")], {"x": "f8e4m3"})).count("cvt.rn.f16x2.e4m3x2") == 2
    )


def test_saturating_casts_are_the_instruction():
    found = instructions(ptx_of([("block.cast(%x) {saturate = true, to = f8e4m3}", "f8e4m3")], {"x": "f32"}))
    assert "cvt.rn.satfinite.e4m3x2.f32" in found
    assert not [w for w in found if w.startswith(("setp", "selp"))]


@pytest.mark.parametrize("elem", ["f16", "bf16", "f32"])
def test_native_arithmetic(elem):
    ops = [(f"block.{name}(%x, %y)", elem) for name in ("add", "sub", "mul", "max", "min")]
    found = instructions(ptx_of([*ops, ("block.fma(%x, %y, %x)", elem)], {"x": elem, "y": elem}))
    for name in ("add.rn", "sub.rn", "mul.rn", "max.NaN", "min.NaN", "fma.rn"):
        packed = elem != "f32" and name in ("add.rn", "sub.rn", "mul.rn")
        assert found.count(f"{name}.{elem}{'x2' if packed else ''}") == (2 if packed else 4)
    assert not [w for w in found if w.startswith("cvt")]


def test_products_are_rounded_before_they_are_added():
    ptx = kernel_text([("block.mul(%x, %y)", "f32"), ("block.add(%r0, %x)", "f32")], {"x": "f32", "y": "f32"})
    found = instructions(emit_ptx(compile_functions([parse(ptx)], TARGET)))
    assert found.count("mul.rn.f32") == found.count("add.rn.f32") == 4
    assert not [w for w in found if w.startswith("fma")]


def test_division_follows_numerics():
    ops = [("block.div(%x, %y)", "f32")]
    inputs = {"x": "f32", "y": "f32"}
    assert instructions(ptx_of(ops, inputs)).count("div.full.f32") == 4
    assert instructions(ptx_of(ops, inputs, "strict")).count("div.rn.f32") == 4


def test_division_is_exact_where_it_decides_an_integer():
    inputs = {"x": "f32", "y": "f32"}
    for rest in ([("block.round(%r0)", "f32")], [("block.max(%r0, %x)", "f32"), ("block.floor(%r1)", "f32")]):
        found = instructions(ptx_of([("block.div(%x, %y)", "f32"), *rest], inputs))
        assert found.count("div.rn.f32") == 4
    found = instructions(ptx_of([("block.div(%x, %y)", "f32"), ("block.mul(%r0, %x)", "f32")], inputs))
    assert found.count("div.full.f32") == 4


def test_numerics_reach_kernels():
    text = """
func @main(%x: tensor<1024x64xf32>, %y: tensor<1024x64xf32>) {inputs = ["x", "y"], outputs = ["z"]} {
  %z = graph.div(%x, %y) : tensor<1024x64xf32>
  return(%z)
}
"""
    for numerics, name in (("strict", "div.rn.f32"), ("eager", "div.full.f32")):
        kernels = stages(parse(text), TARGET, Options(numerics=numerics)).kernels.values()
        assert name in emit_ptx(compile_functions(list(kernels), TARGET))


def reciprocal_root(numerics: str) -> list[str]:
    text = kernel_text([("block.sqrt(%x)", "f32"), ("block.div(%one, %r0)", "f32")], {"x": "f32"}, numerics)
    one = f"  %one = block.const() {{elem = f32, shape = [{TILE}], value = 1.0}} : tile<{TILE}xf32>\n"
    return instructions(emit_ptx(compile_functions([parse(text.replace("  %r0", one + "  %r0"))], TARGET)))


def test_reciprocal_of_a_root():
    assert reciprocal_root("eager").count("rsqrt.approx.f32") == 4
    assert "rsqrt.approx.f32" not in reciprocal_root("strict")


def test_division_by_a_power_of_two_is_a_product():
    text = kernel_text([("block.div(%x, %four)", "f32")], {"x": "f32"})
    four = f"  %four = block.const() {{elem = f32, shape = [{TILE}], value = 4.0}} : tile<{TILE}xf32>\n"
    found = instructions(emit_ptx(compile_functions([parse(text.replace("  %r0", four + "  %r0"))], TARGET)))
    assert found.count("mul.rn.f32") == 4
    assert not [w for w in found if w.startswith("div")]


COUNTS = {
    "f32": {"exp": 9, "exp2": 1, "sigmoid": 19, "tanh": 16, "erf": 21, "log": 26, "log2": 29, "div": 1, "sqrt": 1},
    "bf16": {"exp": 4, "exp2": 3, "sigmoid": 10, "tanh": 3, "log": 4, "log2": 3, "div": 4, "sqrt": 3},
    "f16": {"exp": 4, "exp2": 3, "sigmoid": 6, "tanh": 3, "log": 4, "log2": 3, "div": 5, "sqrt": 3, "sin": 26},
}
"""Instructions for one element, conversions included."""


@pytest.mark.parametrize("elem", list(COUNTS))
def test_instruction_counts(elem):
    def count(op: str) -> int:
        return len(instructions(ptx_of([(op, elem)], {"x": elem, "y": elem})))

    unary, binary = count("block.neg(%x)") - 4, count("block.max(%x, %y)") - 4
    for name, most in COUNTS[elem].items():
        used = count(f"block.{name}(%x, %y)") - binary if name == "div" else count(f"block.{name}(%x)") - unary
        assert used <= 4 * most, name


def test_index_arithmetic_is_32_bit():
    expr = "floordiv(256*p + l, 63)*63 + 21*mod(floordiv(256*p + l, 3), 7) + mod(256*p + l, 3)"
    text = f"""
func @k(%x: ptr<f32>, %o: ptr<f32>, %n: i64, %m: i64) {{grid = (n*m), warps = 2}} dims (m in 1..64, n in 1..4096) {{
  %p = block.program_id() : i64
  %base = block.index(%p) {{expr = (256*mod(p, 63) + 1024*floordiv(p, m)), names = ["p"]}} : i64
  %l = block.arange() {{elem = i64, end = 256, start = 0}} : tile<256xi64>
  %i = block.index(%l, %p) {{expr = ({expr}), names = ["l", "p"]}} : tile<256xi64>
  %v = block.load(%x, %i) : tile<256xf32>
  block.store_view(%o, %base, %v) {{strides = [1]}}
  return()
}}
"""
    found = instructions(emit_ptx(compile_functions([parse(text)], TARGET)))
    assert "mul.hi.u32" in found
    assert "div.u32" in found
    slow = ("div.s64", "div.u64", "rem.s64", "rem.u64", "mul.hi.s64", "mul.hi.u64", "mul.lo.s64")
    assert not [w for w in found if w in slow]


@pytest.mark.parametrize("numerics", ["strict", "eager", "fast"])
def test_a_division_to_nearest_stays_one(numerics):
    found = instructions(ptx_of([("block.div_rn(%x, %x)", "f32")], {"x": "f32"}, numerics))
    assert "div.rn.f32" in found
    assert not any(word.startswith(("rcp", "div.full")) for word in found)
