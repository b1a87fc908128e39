"""Built-in functions of numbers against Python's `math`, exact arithmetic and published values, on every machine."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest

from graphfuse.frontends.tc import compile_text
from graphfuse.interp.elementwise import TRANSCENDENTAL
from graphfuse.ir.printer import to_text
from tests.frontends.tc.tiles import array, check, source
from tests.gpu.launching import SM_80, SM_90A, compiled

FLOATS = ["half", "bf16", "float", "double"]
LAST_BIT = {"half": 2.0**-10, "bf16": 2.0**-7, "float": 2.0**-23, "double": 2.0**-52}
INF, NAN = math.inf, math.nan
LEAST = {"half": 2.0**-24, "bf16": 2.0**-133, "float": 2.0**-149, "double": 2.0**-1074}
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, of NaN and overflow


@pytest.fixture(autouse=True)
def _without_cache(monkeypatch):
    monkeypatch.setenv("GRAPHFUSE_CACHE", "0")


def same(got, want, err_msg=""):
    """Equal, signs of zero included."""
    np.testing.assert_array_equal(got, want, err_msg=err_msg)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]), err_msg=err_msg)


def within(ulp, elem, least=0.0):
    """A comparison that allows so many units in the last place, beside the rounding of what is wanted."""
    return lambda got, want, err_msg="": np.testing.assert_allclose(
        got, want, rtol=(ulp + 0.5) * LAST_BIT[elem], atol=least or LEAST[elem], err_msg=err_msg
    )


def specials(elem, count=32):
    """Zeros, infinities, NaN, subnormal and large numbers, and ordinary ones."""
    top = {"half": 65504.0, "bf16": 3.38e38, "float": 3.4e38, "double": 1.79e308}[elem]
    least = LEAST[elem]
    given = [0.0, -0.0, INF, -INF, NAN, least, -least, 3 * least, top, -top, 0.5, -0.5, 1.0, -1.0, 2.0, 1.5, -2.5]
    return array([*given, *np.random.default_rng(0).normal(0, 3, count - len(given))], elem)


# functions of one number

ONE = {"log10": 1.1, "exp10": 1.5, "cbrt": 0.6, "erfc": 3.5, "erfinv": 3.0, "lgamma": 4.0}
"""And how many units in the last place they may be off (docs/numerics.md)."""


@pytest.mark.parametrize("elem", FLOATS)
@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_number(name, elem):
    x = specials(elem, 64)
    # Python's lgamma has no more than absolute accuracy beside its zeros
    least = 2e-15 if name == "lgamma" else LEAST[elem]
    want = TRANSCENDENTAL[name](x.astype("f8"))
    check(f"{name}(a)", [x], [elem], want, elem, equal=within(ONE[name], elem, least))


def test_functions_of_one_number_at_known_places():
    x = array([1.0, 8.0, -27.0, 1e-40, 0.5, 3.0, -0.5, 10.0], "float")
    check("cbrtf(a)", [x], ["float"], [math.cbrt(v) for v in x.tolist()], "float", equal=within(0.6, "float"))
    factorials = [math.log(math.factorial(n)) for n in range(8)]
    check("lgamma(a)", [array(range(1, 9), "double")], ["double"], factorials, "double", equal=within(2.5, "double"))
    check("exp10(a)", [array(range(8), "float")], ["float"], [10.0**n for n in range(8)], "float")
    check("lgamma(a)", [array([0, 1, 2, 3, 4, -1, -2, 5], "int")], ["int"], [INF, 0, 0, math.log(2), math.log(6),
          INF, INF, math.log(24)], "float", equal=within(0.6, "float"))  # fmt: skip


@pytest.mark.parametrize("elem", FLOATS)
def test_round(elem):
    """Halves away from zero, which `rint` takes to even numbers; the largest number below 1/2 is 0."""
    below = float(np.nextafter(array([0.5], elem), array([0], elem))[0])
    x = [0.5, -0.5, 1.5, 2.5, -2.5, below, -below, 0.0, -0.0, INF, -INF, NAN, 100.5, 3 * LEAST[elem], 65000.0, 7.75]
    x = array(x, elem)
    wide = x.astype("f8")
    whole = np.trunc(wide)
    check("round(a)", [x], [elem], whole + np.copysign(np.abs(wide - whole) >= 0.5, wide), elem, equal=same)
    check("rint(a)", [x], [elem], np.rint(wide), elem, equal=same)
    check("trunc(a)", [x], [elem], np.trunc(wide), elem, equal=same)


def test_round_of_large_numbers():
    x = array([2.0**22 + 0.5, 2.0**23 - 0.5, 2.0**23 + 1, -(2.0**22) - 0.5], "float")
    check("roundf(a)", [x], ["float"], [2.0**22 + 1, 2.0**23, 2.0**23 + 1, -(2.0**22) - 1], "float")
    x = array([2.0**51 + 0.5, 2.0**52 - 0.5, 2.0**52 + 1, -(2.0**51) - 0.5], "double")
    check("round(a)", [x], ["double"], [2.0**51 + 1, 2.0**52, 2.0**52 + 1, -(2.0**51) - 1], "double")


# functions of two


def pairs(elem):
    """Every special number beside every other."""
    x = specials(elem)
    return [np.ascontiguousarray(v) for v in (np.repeat(x, len(x)), np.tile(x, len(x)))]


@pytest.mark.parametrize("elem", FLOATS)
def test_hypot(elem):
    x, y = pairs(elem)
    want = np.hypot(x.astype(np.longdouble), y.astype(np.longdouble)).astype("f8")
    check("hypot(a, b)", [x, y], [elem, elem], want, elem, equal=within(1.0, elem))


@pytest.mark.parametrize("elem", FLOATS)
def test_copysign(elem):
    x, y = pairs(elem)
    want = np.where(np.isnan(x.astype("f8")), NAN, np.copysign(x.astype("f8"), y.astype("f8")))
    check("copysign(a, b)", [x, y], [elem, elem], want, elem, equal=same)


@pytest.mark.parametrize("elem", FLOATS)
def test_fmod(elem):
    """Exact, also of numbers far apart."""
    x, y = pairs(elem)
    check("fmod(a, b)", [x, y], [elem, elem], np.fmod(x.astype("f8"), y.astype("f8")), elem, equal=same)


def test_fmod_is_exact():
    rng = np.random.default_rng(1)
    x, y = (array(2.0 ** rng.uniform(-1000, 1000, 32), "double") for _ in range(2))
    want = [float(Fraction(a) % Fraction(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    check("fmod(a, b)", [x, y], ["double", "double"], want, "double")


@pytest.mark.parametrize("elem", FLOATS)
def test_nextafter(elem):
    x, y = pairs(elem)
    want = np.where(x == y, y, np.nextafter(x, y)).astype("f8")
    check("nextafter(a, b)", [x, y], [elem, elem], want, elem, equal=same)


def nearest(x):
    """A positive number rounded to f32: its 24 bits are the nearest integer, the even one of two."""
    exponent = math.frexp(float(x))[1] - 24
    return math.ldexp(round(x / Fraction(2) ** exponent), exponent)


def test_a_division_to_nearest_is_one():
    """A GPU's `/` of floats is off by two units, unless `strict`."""
    rng = np.random.default_rng(2)
    x, y = (array(2.0 ** rng.uniform(-60, 60, 256), "float") for _ in range(2))
    want = [nearest(Fraction(a) / Fraction(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    check("div_rn(a, b)", [x, y], ["float", "float"], want, "float")


@pytest.mark.parametrize("elem", FLOATS)
def test_division_to_nearest(elem):
    x, y = pairs(elem)
    wide = np.float32 if elem in ("half", "bf16") else x.dtype
    want = (x.astype(wide) / y.astype(wide)).astype(x.dtype).astype("f8")
    check("div_rn(a, b)", [x, y], [elem, elem], want, elem, equal=same)


# clamp, cdiv


@pytest.mark.parametrize("elem", FLOATS)
def test_clamp(elem):
    """NaN stays, wherever it is; literals take the type of the others."""
    x = specials(elem)
    check("clamp(a, -1, 1.5)", [x], [elem], np.clip(x.astype("f8"), -1, 1.5), elem, equal=same)
    low, high = array([0.25] * 31 + [NAN], elem), array([NAN] + [2.5] * 31, elem)
    want = np.minimum(np.maximum(x.astype("f8"), low.astype("f8")), high.astype("f8"))
    check("clamp(a, b, c)", [x, low, high], [elem] * 3, want, elem, equal=same)


@pytest.mark.parametrize("elem", ["char", "uint8", "int", "unsigned", "long", "uint64"])
def test_clamp_of_integers(elem):
    x = array([0, 1, 2, 3, 5, 8, 100, 127], elem)
    check("clamp(a, 2, 8)", [x], [elem], np.clip(x, 2, 8), elem)


def test_cdiv():
    x, y = array([0, 1, 7, 8, 9, 1000, 2**30, 5], "int"), array([1, 2, 8, 8, 8, 7, 3, 5], "int")
    check("cdiv(a, b)", [x, y], ["int", "int"], -(-x // y), "int")
    check("cdiv(a, 4)", [x], ["int"], -(-x // 4), "int")


# random numbers


def words(counter, key):
    """The four words of the paper's Philox-4x32-10, in Python's integers."""
    c, k, mask = list(counter), list(key), 2**32 - 1
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [b >> 32 ^ c[1] ^ k[0], b & mask, a >> 32 ^ c[3] ^ k[1], a & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


# kat_vectors of the authors' Random123: counter, key, result
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]  # fmt: skip


@pytest.mark.parametrize(("counter", "key", "want"), KNOWN)
def test_philox_gives_the_published_values(counter, key, want):
    assert words(counter, key) == list(want)
    low, high, seed = (a | b << 32 for a, b in (counter[:2], counter[2:], key))
    x = np.array([low], np.uint64)
    for i, word in enumerate(want):
        check(f"philox({seed}ul, a, {i}, {high}ul)", [x], ["uint64"], [word], "unsigned")


def streams(seed, offsets, subsequence=0):
    """All four words for each offset."""
    halves = [v & 2**32 - 1 for v in (seed, seed >> 32, subsequence, subsequence >> 32)]
    return np.array([words((o & 2**32 - 1, o >> 32, *halves[2:]), halves[:2]) for o in offsets], np.uint32)


def test_philox_of_tiles():
    i = np.arange(32)
    for word in range(4):
        check(f"philox(7, a, {word})", [array(i, "int")], ["int"], streams(7, i.tolist())[:, word], "unsigned")
    check("philox(a, 5)", [array(i, "int")], ["int"], [streams(s, [5])[0, 0] for s in i.tolist()], "unsigned")
    check("philox(7, 3)", [], [], streams(7, [3])[0, 0], "unsigned")
    check("philox(7, a, 0, b)", [array(i, "long"), array(i[::-1], "int")], ["long", "int"],
          [streams(7, [o], 31 - o)[0, 0] for o in i.tolist()], "unsigned")  # fmt: skip
    # an int has no upper word, a long has one
    check("philox(7, a)", [array([-1, -2], "int")], ["int"], streams(7, [2**32 - 1, 2**32 - 2])[:, 0], "unsigned")
    check("philox(7, a)", [array([-1, -2], "long")], ["long"], streams(7, [2**64 - 1, 2**64 - 2])[:, 0], "unsigned")


def uniform(word):
    """As Triton makes it: in f32."""
    signed = word.astype(np.int64)
    signed = np.where(signed < 2**31, signed, 2**32 - 1 - signed)
    return signed.astype(np.float32) * np.float32(4.6566127342e-10)


def test_uniform_numbers():
    i = np.arange(256)
    want = uniform(streams(11, i.tolist())[:, 0])
    assert 0 <= want.min() < 0.02
    assert 0.98 < want.max() < 1
    check("rand(11, a)", [array(i, "int")], ["int"], want, "float")
    assert uniform(np.array([2**31 - 1, 2**31, 0, 2**32 - 1])).tolist() == [1 - 2.0**-24, 1 - 2.0**-24, 0, 0]


def test_normal_numbers():
    i = np.arange(256)
    found = streams(11, i.tolist(), 5)
    u, v = (uniform(found[:, k]).astype("f8") for k in range(2))
    want = np.sqrt(-2 * np.log(np.maximum(u, 1e-7))) * np.cos(2 * math.pi * v)
    assert abs(want.mean()) < 0.2
    assert 0.9 < want.std() < 1.1
    close = {"rtol": 1e-5, "atol": 1e-6}  # the angle, up to 2 pi, is rounded to f32
    check("randn(11, a, 5)", [array(i, "int")], ["int"], want, "float",
          equal=lambda got, want, err_msg: np.testing.assert_allclose(got, want, **close, err_msg=err_msg))  # fmt: skip


# of a tile


@pytest.mark.parametrize(
    ("shape", "axis"), [((32,), 0), ((24,), 0), ((8, 16), 0), ((8, 16), 1), ((4, 3, 8), 1)], ids=str
)
@pytest.mark.parametrize("elem", ["half", "bf16", "float", "double"])
def test_softmax(elem, shape, axis):
    x = array(np.random.default_rng(3).normal(0, 9, shape), elem)
    x[(0,) * len(shape)] = -INF
    wide = x.astype("f8")
    grown = np.exp(wide - wide.max(axis, keepdims=True))
    want = grown / grown.sum(axis, keepdims=True)
    at = f", {axis}" if len(shape) > 1 else ""
    # an exponential and a quotient of a GPU, and the rounding of differences in the exponent
    equal = within(4, elem, LEAST[elem]) if elem in ("half", "bf16") else within(40, elem)
    check(f"softmax(a{at})", [x], [elem], want, elem, equal=equal)


def test_softmax_of_infinities_and_integers():
    check("softmax(a)", [array([INF, 1, 2, -INF], "float")], ["float"], [NAN] * 4, "float")
    check("softmax(a)", [array([-INF, -INF], "float")], ["float"], [NAN, NAN], "float")
    check("softmax(a)", [array([1, NAN], "float")], ["float"], [NAN, NAN], "float")
    check("softmax(a)", [array([3, 3, 3, 3], "int")], ["int"], [0.25] * 4, "float")


@pytest.mark.parametrize("elem", ["int", "unsigned", "long", "uint64"])
def test_integers_become_halves_in_one_rounding(elem):
    """Numbers in the middle of two halves, beside it, at the largest half, and far beyond."""
    rng = np.random.default_rng(0)
    middles = np.concatenate([np.arange(1 << e, 2 << e, 1 << max(e - 10, 0)) for e in range(10, 16)])
    some = rng.choice(middles, 240) + rng.integers(-17, 18, 240)
    edges = [0, 1, 2049, 2051, 65503, 65504, 65519, 65520, 65521, 1 << 30, (1 << 31) - 1, 33, 4099, 8201, 16400, 7]
    x = array(np.concatenate([some, np.array(edges)]), elem)
    if elem in ("int", "long"):
        x[::3] *= -1
    if elem in ("long", "uint64"):
        x[:2] = np.iinfo(x.dtype).max, np.iinfo(x.dtype).min
    with np.errstate(over="ignore"):
        want = x.astype("f8").astype("f2")  # all that a half holds, a double does
    check("(half[256])a", [x], [elem], want, "half")
    for target in (SM_80, SM_90A):
        func = compile_text(source("(half[256])a", [(elem, (256,))], ("half", (256,))), "k.tc", {})[0].func
        found = compiled(to_text(func), target)[0]
        assert re.search(rf"cvt\.rn\.f16\.[su]{8 * x.itemsize} ", found) and ".f64" not in found
