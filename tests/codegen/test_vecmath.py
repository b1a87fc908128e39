"""Vector mathematics: accuracy against wider references, special values, and the IR's form."""

import ctypes
import json
import math
import warnings
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from graphfuse.codegen.vecmath import BINARY, FUNCTIONS, ULP, define
from graphfuse.codegen.vecmath_emit import Code, Value, VectorFunction
from graphfuse.interp.elementwise import TRANSCENDENTAL

FLOAT = {"f32": np.float32, "f64": np.float64}
BITS = {"f32": np.uint32, "f64": np.uint64}
LANES = {"f32": 16, "f64": 8}
CASES = [(fn, elem) for fn in FUNCTIONS for elem in ("f32", "f64")]


STORED = json.loads(Path(__file__).with_name("special_values.json").read_text())
"""f64 arguments of functions that numpy lacks, results (by mpmath) and what these leave, as sums of two numbers."""

BELOW_0 = STORED.pop("lgamma_below_0")


def arity(fn: str) -> int:
    return 2 if fn in BINARY else 1


def module_text(function: VectorFunction, fn: str, elem: str, lanes: int) -> str:
    """The function and a loop over arrays, n a multiple of lanes."""
    scalar = {"f32": "float", "f64": "double"}[elem]
    vector = scalar if lanes == 1 else f"<{lanes} x {scalar}>"
    arguments = f"{vector} %a" + (f", {vector} %b" if arity(fn) == 2 else "")
    return (
        "\n".join(function.declarations)
        + function.definition
        + f"""
define void @map(ptr %x, ptr %y, ptr %out, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %x_at = getelementptr {scalar}, ptr %x, i64 %i
  %y_at = getelementptr {scalar}, ptr %y, i64 %i
  %out_at = getelementptr {scalar}, ptr %out, i64 %i
  %a = load {vector}, ptr %x_at, align 4
  %b = load {vector}, ptr %y_at, align 4
  %r = call {vector} @{function.symbol}({arguments})
  store {vector} %r, ptr %out_at, align 4
  %next = add i64 %i, {lanes}
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
    )


@cache
def target_machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2,
        jit=True,
    )  # fmt: skip


def optimized(fn: str, elem: str, lanes: int) -> llvm.ModuleRef:
    module = llvm.parse_assembly(module_text(define(fn, elem, lanes), fn, elem, lanes))
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = False
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(target_machine(), options)
    builder.getModulePassManager().run(module, builder)
    return module


@cache
def compiled(fn: str, elem: str, lanes: int):
    return loaded(optimized(fn, elem, lanes))


def loaded(module: llvm.ModuleRef):
    """The function `map`; it keeps its engine, which owns the target machine."""
    engine = llvm.create_mcjit_compiler(module, target_machine())
    engine.finalize_object()
    p = ctypes.c_void_p
    call = ctypes.CFUNCTYPE(None, p, p, p, ctypes.c_int64)(engine.get_function_address("map"))
    call.engine = engine
    return call


def evaluate(fn: str, elem: str, x, y=None, lanes: int = 0) -> np.ndarray:
    lanes = lanes or LANES[elem]
    x = np.ravel(np.asarray(x, FLOAT[elem]))
    y = x if y is None else np.ravel(np.asarray(y, FLOAT[elem]))
    padding = -len(x) % lanes
    a, b = (np.ascontiguousarray(np.concatenate([v, v[:1].repeat(padding)])) for v in (x, y))
    out = np.empty_like(a)
    compiled(fn, elem, lanes)(a.ctypes.data, b.ctypes.data, out.ctypes.data, len(a))
    return out[: len(x)]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


REFERENCE = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "erf": np.vectorize(math.erf, otypes=[float]),
    "sigmoid": sigmoid, "pow": np.power, "exp10": lambda x: np.power(x.dtype.type(10), x),
    **{name: TRANSCENDENTAL[name] for name in STORED},
}  # fmt: skip


def reference(fn: str, elem: str, *arguments: np.ndarray) -> np.ndarray:
    """The result in a wider type: f64 for f32, x87's or the platform's long double for f64."""
    wide = np.float64 if elem == "f32" else np.longdouble
    function = REFERENCE.get(fn) or getattr(np, fn)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*(a.astype(wide) for a in arguments))


def ulp_error(got: np.ndarray, want: np.ndarray, elem: str) -> np.ndarray:
    """|got - want| in units in the last place of want; inf where one is nan or infinite alone."""
    with np.errstate(all="ignore"):
        rounded = want.astype(FLOAT[elem])
        unit = np.spacing(np.abs(rounded))
        error = np.abs(got.astype(want.dtype) - want) / unit
    same = (got == rounded) & ~np.isfinite(rounded) | (np.isnan(got) & np.isnan(rounded))
    error[same] = 0
    error[~same & ~(np.isfinite(got) & np.isfinite(rounded))] = np.inf
    # both signs of zero, as results, are told apart
    error[(got == 0) & (rounded == 0) & (np.signbit(got) != np.signbit(rounded))] = np.inf
    return error


def specials(elem: str) -> np.ndarray:
    info = np.finfo(FLOAT[elem])
    one = FLOAT[elem](1)
    positive = [
        0.0, 1.0, 0.5, 2.0, 3.0, 1e-3, math.pi, math.pi / 2, info.tiny, info.smallest_subnormal,
        info.max, math.inf, math.nan, 88.0, 89.0, 104.0, 709.0, 710.0, 746.0, 0.625, 0.9,
        np.nextafter(one, 2 * one), np.nextafter(one, 0 * one), info.tiny * 0.37, 1e5, 1e6,
    ]  # fmt: skip
    values = np.array(positive, FLOAT[elem])
    return np.concatenate([values, -values])


def samples(elem: str, count: int, seed: int = 0) -> np.ndarray:
    """Specials, all bit patterns at random, and dense samples where functions are curved."""
    rng = np.random.default_rng(seed)
    kind = FLOAT[elem]
    patterns = rng.integers(0, np.iinfo(BITS[elem]).max, count, BITS[elem]).view(kind)
    spread = 2.0 ** rng.uniform(-30, 8, count) * rng.choice([-1, 1], count)
    near_one = 1 + rng.uniform(-0.6, 1.0, count) * 2.0 ** rng.uniform(-20, 0, count)
    wide = rng.uniform(-110, 110, count) if elem == "f32" else rng.uniform(-760, 760, count)
    trig = rng.uniform(-1e5, 1e5, count)
    parts = [spread, rng.uniform(-10, 10, count), rng.uniform(-1, 1, count), near_one, wide, trig]
    return np.concatenate([specials(elem), patterns, *(p.astype(kind) for p in parts)])


def pow_samples(elem: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    kind = FLOAT[elem]
    special = specials(elem)
    grid = [v.ravel() for v in np.meshgrid(special, special)]
    top = 126 if elem == "f32" else 1020
    bases = 2.0 ** rng.uniform(-top, top, count)
    results = rng.uniform(-1.1 * top, 1.1 * top, count)
    exponents = results / np.log2(bases)
    near = 1 + rng.uniform(-1, 1, count) * 2.0 ** rng.uniform(-20, -1, count)
    x = [*grid[:1], bases, near, rng.uniform(0, 5, count), rng.integers(-9, 9, count)]
    y = [*grid[1:], exponents, rng.uniform(-1, 1, count) * 2.0 ** rng.uniform(0, 20, count),
         rng.uniform(-20, 20, count), rng.integers(-9, 9, count)]  # fmt: skip
    with np.errstate(over="ignore"):
        return np.concatenate(x).astype(kind), np.concatenate(y).astype(kind)


def hypot_samples(elem: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(6)
    special = specials(elem)
    x, y = (v.ravel() for v in np.meshgrid(special, special))
    top = 126 if elem == "f32" else 1020
    sizes = 2.0 ** rng.uniform(-top, top, count)
    others = sizes * 2.0 ** rng.uniform(-30, 0, count)
    return np.concatenate([x, sizes]).astype(FLOAT[elem]), np.concatenate([y, others]).astype(FLOAT[elem])


def drawn(fn: str, elem: str, count: int) -> tuple[np.ndarray, ...]:
    """Arguments."""
    match fn:
        case "pow":
            return pow_samples(elem, count)
        case "hypot":
            return hypot_samples(elem, count)
        case "erfinv":
            x = np.random.default_rng(7).uniform(-1, 1, count).astype(FLOAT[elem])
            return (np.concatenate([x, 1 - x.astype(FLOAT[elem]) ** 8, samples(elem, count // 10)]),)
        case _:
            return (samples(elem, count),)


def worst(fn: str, elem: str, count: int) -> tuple[float, tuple[float, ...]]:
    """Largest error in ulp, and the arguments it was seen at."""
    if fn in STORED and elem == "f64":
        x, high, low = np.array(STORED[fn]).T
        arguments, want = (x,), high.astype(np.longdouble) + low
    else:
        arguments = drawn(fn, elem, count)
        want = reference(fn, elem, *arguments)
    got = evaluate(fn, elem, *arguments)
    error = ulp_error(got, want, elem)
    at = int(np.argmax(error))
    return float(error[at]), (*(float(a[at]) for a in arguments), float(got[at]))


@pytest.mark.parametrize(("fn", "elem"), CASES)
def test_accuracy(fn: str, elem: str) -> None:
    count = 40_000 if elem == "f32" else 15_000
    error, at = worst(fn, elem, count)
    assert error <= ULP[fn][elem == "f64"], f"{error} ulp at {at}"


INF, NAN = math.inf, math.nan
SPECIAL_RESULTS = {
    "exp": [(-INF, 0.0), (INF, INF), (NAN, NAN), (0.0, 1.0), (-0.0, 1.0), (1e30, INF)],
    "exp2": [(-INF, 0.0), (INF, INF), (NAN, NAN), (3.0, 8.0), (-126.0, 2.0**-126)],
    "log": [(0.0, -INF), (-0.0, -INF), (-1.0, NAN), (INF, INF), (NAN, NAN), (1.0, 0.0)],
    "log2": [(0.0, -INF), (-1.0, NAN), (INF, INF), (NAN, NAN), (1.0, 0.0), (2.0**-149, -149.0)],
    "log1p": [(-1.0, -INF), (-2.0, NAN), (INF, INF), (NAN, NAN), (-0.0, -0.0)],
    "expm1": [(-INF, -1.0), (INF, INF), (NAN, NAN), (-0.0, -0.0)],
    "tanh": [(-INF, -1.0), (INF, 1.0), (NAN, NAN), (-0.0, -0.0)],
    "erf": [(-INF, -1.0), (INF, 1.0), (NAN, NAN), (-0.0, -0.0)],
    "sigmoid": [(-INF, 0.0), (INF, 1.0), (NAN, NAN), (0.0, 0.5), (-0.0, 0.5)],
    "sin": [(-INF, NAN), (INF, NAN), (NAN, NAN), (-0.0, -0.0)],
    "cos": [(-INF, NAN), (INF, NAN), (NAN, NAN), (-0.0, 1.0)],
    "tan": [(-INF, NAN), (INF, NAN), (NAN, NAN), (-0.0, -0.0)],
    "asin": [(1.5, NAN), (-INF, NAN), (NAN, NAN), (-0.0, -0.0)],
    "acos": [(1.5, NAN), (-INF, NAN), (NAN, NAN), (1.0, 0.0)],
    "atan": [(INF, math.pi / 2), (-INF, -math.pi / 2), (NAN, NAN), (-0.0, -0.0)],
    "sinh": [(-INF, -INF), (INF, INF), (NAN, NAN), (-0.0, -0.0)],
    "cosh": [(-INF, INF), (INF, INF), (NAN, NAN), (0.0, 1.0)],
    "asinh": [(-INF, -INF), (INF, INF), (NAN, NAN), (-0.0, -0.0)],
    "acosh": [(0.5, NAN), (-INF, NAN), (INF, INF), (NAN, NAN), (1.0, 0.0)],
    "atanh": [(1.0, INF), (-1.0, -INF), (2.0, NAN), (INF, NAN), (NAN, NAN), (-0.0, -0.0)],
    "log10": [(0.0, -INF), (-1.0, NAN), (INF, INF), (NAN, NAN), (1.0, 0.0), (1000.0, 3.0), (1e10, 10.0)],
    "exp10": [(-INF, 0.0), (INF, INF), (NAN, NAN), (0.0, 1.0), (-0.0, 1.0), (2.0, 100.0), (1e30, INF), (-1e30, 0.0)],
    "cbrt": [(-INF, -INF), (INF, INF), (NAN, NAN), (-0.0, -0.0), (27.0, 3.0), (-(2.0**-120), -(2.0**-40))],
    "erfc": [(-INF, 2.0), (INF, 0.0), (NAN, NAN), (0.0, 1.0), (-0.0, 1.0), (30.0, 0.0), (-30.0, 2.0)],
    "erfinv": [(1.0, INF), (-1.0, -INF), (1.5, NAN), (-INF, NAN), (NAN, NAN), (0.0, 0.0), (-0.0, -0.0)],
    "lgamma": [
        (-INF, INF),
        (INF, INF),
        (NAN, NAN),
        (0.0, INF),
        (-0.0, INF),
        (1.0, 0.0),
        (2.0, 0.0),
        (-1.0, INF),
        (-1e30, INF),
    ],
}


def assert_same(got: np.ndarray, want: np.ndarray) -> None:
    """Equal, signs of zero and nan included."""
    np.testing.assert_array_equal(got, want)
    plain = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[plain]), np.signbit(want[plain]))


@pytest.mark.parametrize("elem", ["f32", "f64"])
@pytest.mark.parametrize("fn", list(SPECIAL_RESULTS))
def test_special_values(fn: str, elem: str) -> None:
    x, want = np.array(SPECIAL_RESULTS[fn], FLOAT[elem]).T
    assert_same(evaluate(fn, elem, x), want)


# C99 F.9.4.4, row by row: base, exponent, power
POW_RESULTS = [
    (0.0, -3.0, INF), (-0.0, -3.0, -INF), (0.0, -2.0, INF), (-0.0, -2.0, INF),
    (-0.0, -2.5, INF), (0.0, -INF, INF), (0.0, 3.0, 0.0), (-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0),
    (-1.0, INF, 1.0), (-1.0, -INF, 1.0), (1.0, NAN, 1.0), (NAN, 0.0, 1.0), (INF, -0.0, 1.0),
    (-2.0, 0.5, NAN), (-1e-40, 0.5, NAN), (0.5, -INF, INF), (2.0, -INF, 0.0), (0.5, INF, 0.0),
    (-2.0, INF, INF), (-INF, -3.0, -0.0), (-INF, -2.0, 0.0), (-INF, 3.0, -INF),
    (-INF, 2.5, INF), (INF, -1.0, 0.0), (INF, 1.0, INF), (NAN, 1.0, NAN), (2.0, NAN, NAN),
    (2.0, 10.0, 1024.0), (-2.0, 3.0, -8.0), (3.0, 4.0, 81.0), (10.0, 2.0, 100.0),
    (4.0, 0.5, 2.0), (-1.0, 1e30, 1.0), (7.0, 1.0, 7.0), (2.0, 1e4, INF),
]  # fmt: skip


@pytest.mark.parametrize("elem", ["f32", "f64"])
def test_special_values_of_pow(elem: str) -> None:
    x, y, want = np.array(POW_RESULTS, FLOAT[elem]).T
    assert_same(evaluate("pow", elem, x, y), want)


@pytest.mark.parametrize("elem", ["f32", "f64"])
def test_special_values_of_hypot(elem: str) -> None:
    """C99 F.9.4.3: infinity beside NaN; the largest and the least number overflow and underflow nowhere."""
    info = np.finfo(FLOAT[elem])
    top, least = float(info.max), float(info.smallest_subnormal)
    rows = [(3.0, -4.0, 5.0), (-INF, NAN, INF), (NAN, INF, INF), (NAN, 1.0, NAN), (-0.0, -0.0, 0.0), (top, 0.0, top),
            (top, top, INF), (3 * least, 4 * least, 5 * least), (least, 0.0, least)]  # fmt: skip
    x, y, want = np.array(rows, FLOAT[elem]).T
    assert_same(evaluate("hypot", elem, x, y), want)


def test_lgamma_below_0_is_near_the_difference_that_it_is() -> None:
    """In f64: within 4 ulp of the larger of its terms, which is lgamma(1 - x) where that is above 1."""
    x, want, _ = np.array(BELOW_0).T
    terms = np.maximum(np.abs(TRANSCENDENTAL["lgamma"](1 - x)), np.abs(want))
    off = np.abs(evaluate("lgamma", "f64", x) - want) / np.spacing(np.maximum(terms, 1))
    assert off.max() <= 4, x[off.argmax()]


@pytest.mark.parametrize("elem", ["f32", "f64"])
def test_exp_overflows_and_underflows_where_it_should(elem: str) -> None:
    info = np.finfo(FLOAT[elem])
    top = FLOAT[elem](np.log(np.longdouble(info.max)))
    x = np.array([np.nextafter(top, 0), np.nextafter(np.nextafter(top, INF), INF)], FLOAT[elem])
    finite, infinite = evaluate("exp", elem, x)
    assert np.isfinite(finite)
    assert np.isinf(infinite)
    # gradual: results between the smallest subnormal and the smallest normal number
    x = np.linspace(math.log(info.smallest_subnormal) + 0.1, math.log(info.tiny) - 0.1, 100)
    got = evaluate("exp", elem, x)
    assert (got > 0).all()
    assert (got < info.tiny).all()


@pytest.mark.parametrize("elem", ["f32", "f64"])
def test_sigmoid_underflows_gradually(elem: str) -> None:
    info = np.finfo(FLOAT[elem])
    x = np.linspace(math.log(info.smallest_subnormal) + 0.1, math.log(info.tiny) - 0.1, 100).astype(FLOAT[elem])
    got = evaluate("sigmoid", elem, x)
    assert ((got > 0) & (got < info.tiny)).all()
    assert ulp_error(got, reference("sigmoid", elem, x), elem).max() <= 1


@pytest.mark.parametrize("terms", [1, 2, 3, 6, 7])
def test_a_polynomial_by_pairs_is_the_polynomial(terms: int) -> None:
    """Small integers, so that no order of operations rounds."""
    given, out = np.arange(-4.0, 4.0), np.zeros(8)
    compiled_poly(terms)(given.ctypes.data, given.ctypes.data, out.ctypes.data, len(given))
    np.testing.assert_array_equal(out, np.polynomial.polynomial.polyval(given, coefficients(terms)))


def coefficients(terms: int) -> list[float]:
    return [float(3 * i - 4) for i in range(terms)]


@cache
def compiled_poly(terms: int):
    code = Code("gf.test.v4f64", "f64", 4)
    x = Value(code, "%x", "f64")
    text = code.definition(["x"], code.paired_poly(x, x * x, coefficients(terms)))
    function = VectorFunction(code.symbol, text, tuple(code.declarations))
    return loaded(llvm.parse_assembly(module_text(function, "exp", "f64", 4)))


@pytest.mark.parametrize("elem", ["f32", "f64"])
@pytest.mark.parametrize("fn", ["sin", "cos"])
def test_large_angles_stay_in_range(fn: str, elem: str) -> None:
    x = 10.0 ** np.random.default_rng(1).uniform(4, 38 if elem == "f32" else 308, 5000)
    got = evaluate(fn, elem, x)
    assert (np.abs(got) <= 1).all()


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 32])
@pytest.mark.parametrize("fn", ["exp", "tanh", "sin", "pow", "log1p", "cbrt", "erfc", "lgamma"])
def test_width_does_not_change_results(fn: str, lanes: int) -> None:
    for elem in ("f32", "f64"):
        x = samples(elem, 50)
        y = x[::-1].copy()
        want = evaluate(fn, elem, x, y)
        got = evaluate(fn, elem, x, y, lanes)
        assert_same(got, want)


@pytest.mark.parametrize(("fn", "elem"), CASES)
def test_form_of_the_ir(fn: str, elem: str) -> None:
    function = define(fn, elem, LANES[elem])
    assert function.symbol == f"gf.{fn}.v{LANES[elem]}{elem}"
    head = next(line for line in function.definition.splitlines() if line.startswith("define"))
    assert head.startswith(f"define internal <{LANES[elem]} x ")
    assert "alwaysinline nounwind willreturn memory(none)" in head
    assert "x86" not in "".join(function.declarations) + function.definition
    assert len(set(function.declarations)) == len(function.declarations)


def test_declarations_merge_by_text() -> None:
    functions = [define(fn, elem, lanes) for fn, elem in CASES for lanes in (1, 4)]
    declarations = dict.fromkeys(line for f in functions for line in f.declarations)
    text = "\n".join([*declarations, *(f.definition for f in functions)])
    llvm.parse_assembly(text).verify()


def test_everything_is_inlined() -> None:
    module = optimized("tanh", "f32", 16)
    assert [f.name for f in module.functions if not f.is_declaration] == ["map"]


def test_unknown_function_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="no such function: gamma"):
        define("gamma", "f32", 16)
    with pytest.raises(AssertionError, match="no vector maths on f16"):
        define("exp", "f16", 16)
