"""Functions of whole tiles against numpy, on every machine: several types, shapes and axes."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.frontends.tc import compile_text
from graphfuse.ir.printer import to_text
from tests.frontends.tc.tiles import array, check, source
from tests.gpu.launching import SM_90A, compiled

SHAPES = [((32,), 0), ((24,), 0), ((8, 16), 0), ((8, 16), 1), ((5, 12), 0), ((5, 12), 1), ((4, 3, 8), 1)]


pytestmark = pytest.mark.filterwarnings("ignore:.*is never called:graphfuse.SourceWarning")


@pytest.fixture(autouse=True)
def _without_cache(monkeypatch):
    monkeypatch.setenv("GRAPHFUSE_CACHE", "0")


def numbers(elem, shape, seed=0):
    """Small numbers, which every type holds."""
    rng = np.random.default_rng(seed)
    least = 0 if elem in ("bool", "uint8", "unsigned", "uint64") else -9
    return array(rng.integers(least, 2 if elem == "bool" else 10, shape), elem)


def items(shape, axis, item):
    """A subscript with `item` for one axis."""
    return ", ".join(item if i == axis else ":" for i in range(len(shape)))


# reductions and scans


@pytest.mark.some(8)
@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize("elem", ["int", "float", "half"])
def test_products(elem, shape, axis):
    x = array(np.random.default_rng(0).choice([-1, 1, 2], shape, p=[0.45, 0.45, 0.1]), elem)
    check(f"a[{items(shape, axis, '*')}]", [x], [elem], x.astype("f8").prod(axis), elem)


@pytest.mark.some(8)
@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize(("kind", "function"), [("&", np.bitwise_and), ("|", np.bitwise_or), ("^", np.bitwise_xor)])
def test_bits(kind, function, shape, axis):
    for elem in ("int", "uint8", "long"):
        x = array(np.random.default_rng(1).integers(0, 100, shape) | 64, elem)
        check(f"a[{items(shape, axis, kind)}]", [x], [elem], function.reduce(x, axis), elem)
    flags = np.random.default_rng(2).random(shape) < 0.8
    logical = {"&": np.logical_and, "|": np.logical_or, "^": np.logical_xor}[kind]
    check(f"a[{items(shape, axis, kind)}]", [flags], ["bool"], logical.reduce(flags, axis), "bool")


@pytest.mark.some(8)
@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize(
    ("name", "function"),
    [("cumsum", np.add), ("cumprod", np.multiply), ("cummax", np.maximum), ("cummin", np.minimum)],
)
def test_scans_from_behind(name, function, shape, axis):
    for elem in ("int", "float"):
        x = numbers(elem, shape) if name != "cumprod" else array(np.sign(numbers("int", shape) - 0.5), elem)
        want = np.flip(function.accumulate(np.flip(x, axis), axis), axis)
        check(f"{name}(a, {axis}, reverse)", [x], [elem], want, elem)


# moves

ELEMS = ["float", "half", "char", "double", "bool", "uint64"]


@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
def test_flips(shape, axis):
    for elem in ELEMS:
        x = numbers(elem, shape)
        check(f"flip(a, {axis})", [x], [elem], np.flip(x, axis), elem)


@pytest.mark.some(8)
@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize("other", [None, 1, 3])
def test_catenations(shape, axis, other):
    for elem in ELEMS[:3]:
        short = tuple((other or n) if d == axis else n for d, n in enumerate(shape))
        x, y = numbers(elem, shape), numbers(elem, short, seed=1)
        check(f"cat(a, b, {axis})", [x, y], [elem, elem], np.concatenate([x, y], axis), elem)


def test_a_catenation_of_two_types():
    x, y = numbers("char", (8,)), numbers("float", (8,))
    check("cat(a, b)", [x, y], ["char", "float"], np.concatenate([x, y]), "float")


@pytest.mark.parametrize("shape", [(32,), (24,), (4, 8), (3, 5)], ids=str)
def test_joins(shape):
    x, y = numbers("float", shape), numbers("float", shape, seed=1)
    joined = np.stack([x, y], -1)
    check("join(a, b)", [x, y], ["float"] * 2, joined, "float")
    dims = ", ".join([":"] * len(shape))
    check(f"join(a, b)[{dims}, 0] - join(a, b)[{dims}, 1]", [x, y], ["float"] * 2, x - y, "float")
    check("join(a, b + 1)", [x, y], ["float"] * 2, np.stack([x, y + 1], -1), "float")


def test_pairs_that_are_split_again_stay_in_registers():
    text = source("join(a, b)[:, 0] * 2", [("float", (256,))] * 2, ("float", (256,)))
    ptx, _ = compiled(to_text(compile_text(text, "k.tc", {})[0].func), SM_90A)
    assert "shfl" not in ptx
    assert "shared" not in ptx


@pytest.mark.parametrize("shape", [(32,), (4, 8), (3, 8)], ids=str)
def test_interleaving(shape):
    x, y = numbers("half", shape), numbers("half", shape, seed=1)
    want = np.stack([x, y], -1).reshape(*shape[:-1], -1)
    check("interleave(a, b)", [x, y], ["half"] * 2, want, "half")


@pytest.mark.some(6)
@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize("count", [None, 5])
def test_gathers(shape, axis, count):
    places = tuple((count or n) if d == axis else n for d, n in enumerate(shape))
    at = np.random.default_rng(3).integers(-2, shape[axis] + 2, places)
    inside = (at >= 0) & (at < shape[axis])
    for elem, index in (("float", "int"), ("half", "long"), ("bool", "char")):
        x = numbers(elem, shape)
        want = np.where(inside, np.take_along_axis(x, np.where(inside, at, 0), axis), np.zeros((), x.dtype))
        check(f"gather(a, b, {axis})", [x, array(at, index)], [elem, index], want, elem)


def test_gathers_in_a_loop():
    x, at = numbers("int", (64,)), np.random.default_rng(4).permutation(64)
    want = x
    for _ in range(5):
        want = want[at] + 1
    text = "for (int i = 0; i < n; i++) a = gather(a, b) + 1;"
    check("a", [x, array(at, "int")], ["int", "int"], want, "int", before=text, n=5)


# order


@pytest.mark.some(8)
@pytest.mark.parametrize(("shape", "axis"), [*SHAPES, ((1,), 0), ((200,), 0), ((33, 3), 0)], ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_sorts(shape, axis, descending):
    word = ", descending" if descending else ""
    for elem in ("float", "int", "char", "unsigned", "half", "double", "uint64", "bool"):
        x = numbers(elem, shape)
        if elem in ("unsigned", "uint64"):
            x[x > 4] += np.iinfo(x.dtype).max - 9
        want = np.sort(x, axis)
        check(f"sort(a, {axis}{word})", [x], [elem], np.flip(want, axis) if descending else want, elem)


@pytest.mark.some(2)
@pytest.mark.parametrize(("shape", "axis"), [((1000,), 0), ((512,), 0), ((300, 3), 0), ((3, 512), 1)], ids=str)
def test_long_lines(shape, axis):
    for elem in ("float", "long"):
        x = array(np.random.default_rng(8).integers(-99, 100, shape), elem)
        check(f"sort(a, {axis})", [x], [elem], np.sort(x, axis), elem)
        order = np.argsort(-x, axis, kind="stable").take(range(7), axis)
        check(f"argtopk(a, 7, {axis})", [x], [elem], order, "int")


@pytest.mark.parametrize("elem", ["float", "half", "double", "bf16"])
def test_not_a_number_is_the_largest(elem):
    x = array([3, np.nan, -np.inf, 0, -1, np.inf, -np.nan, 2], elem)
    check("sort(a)", [x], [elem], [-np.inf, -1, 0, 2, 3, np.inf, np.nan, np.nan], elem)
    check("topk(a, 3)", [x], [elem], [np.nan, np.nan, np.inf], elem)
    check("argtopk(a, 3)", [x], [elem], [1, 6, 5], "int")


@pytest.mark.some(4)
@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
def test_places_in_order(shape, axis):
    for elem in ("float", "int", "long", "half"):
        x = numbers(elem, shape)
        wide = x.astype("f8")
        check(f"argsort(a, {axis})", [x], [elem], np.argsort(wide, axis, kind="stable"), "int")
        want = np.argsort(-wide, axis, kind="stable")
        check(f"argsort(a, {axis}, descending)", [x], [elem], want, "int")


def test_zeros_of_either_sign_keep_their_order():
    check("argsort(a)", [array([0.0, -0.0, 0.0, -1.0], "float")], ["float"], [3, 0, 1, 2], "int")


@pytest.mark.some(5)
@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize("count", [1, 3])
def test_the_largest(shape, axis, count):
    for elem in ("float", "int", "long", "bf16"):
        x = numbers(elem, shape)
        order = np.argsort(-x.astype("f8"), axis, kind="stable").take(range(count), axis)
        want = np.take_along_axis(x, order, axis)
        check(f"topk(a, {count}, {axis})", [x], [elem], want, elem)
        check(f"argtopk(a, {count}, {axis})", [x], [elem], order, "int")
        check(f"gather(a, argtopk(a, {count}, {axis}), {axis})", [x], [elem], want, elem)


@pytest.mark.parametrize("shape", [(32,), (24,), (16, 12), (256,)], ids=str)
@pytest.mark.parametrize("bins", [16, 5])
def test_histograms(shape, bins):
    for elem in ("int", "uint8", "long"):
        x = array(np.random.default_rng(5).integers(-3 if elem != "uint8" else 0, bins + 3, shape), elem)
        want = np.bincount(x[(x >= 0) & (x < bins)].astype(int), minlength=bins)
        check(f"histogram(a, {bins})", [x], [elem], want, "int")
    flags = np.random.default_rng(6).random(shape) < 0.3
    check("histogram(a, 2)", [flags], ["bool"], [flags.size - flags.sum(), flags.sum()], "int")


def test_histograms_in_a_loop():
    x = array(np.random.default_rng(7).integers(0, 8, 64), "int")
    text = "int t[8] = 0; for (int i = 0; i < n; i++) t += histogram(a + i, 8);"
    want = sum(np.bincount(x[x + i < 8] + i, minlength=8) for i in range(4))
    check("t", [x], ["int"], want, "int", before=text, n=4)


# parts and elements


@pytest.mark.parametrize(
    ("shape", "axis", "start", "end"),
    [((32,), 0, 0, 16), ((32,), 0, 5, 29), ((24,), 0, 8, 9), ((8, 16), 0, 4, 8), ((8, 16), 1, 3, 16),
     ((5, 12), 0, 1, 4), ((5, 12), 1, 0, 6), ((4, 3, 8), 1, 1, 3)],
    ids=str,
)  # fmt: skip
def test_slices(shape, axis, start, end):
    for elem in ("float", "half", "bool", "uint64"):
        x = numbers(elem, shape)
        want = x.take(range(start, end), axis)
        check(f"a[{items(shape, axis, f'{start}:{end}')}]", [x], [elem], want, elem)


def test_slices_with_open_ends():
    x = numbers("int", (8, 12))
    check("a[2:, :6]", [x], ["int"], x[2:, :6], "int")
    check("a[:4, +]", [x], ["int"], x[:4].sum(1), "int")
    check("a[7, 3:5][newaxis, :]", [x], ["int"], x[7, 3:5][None], "int")


@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
def test_elements(shape, axis):
    for elem in ("float", "half", "char", "bool", "double"):
        x = numbers(elem, shape)
        check(f"a[{items(shape, axis, '2')}]", [x], [elem], x.take(2, axis), elem)
        check(f"a[{items(shape, axis, 'n')}]", [x], [elem], x.take(2, axis), elem, n=2)
    x = numbers("float", shape)
    check(f"a[{items(shape, axis, 'n + 100')}]", [x], ["float"], 0 * x.take(0, axis), "float")


def test_an_element_is_exact():
    for value in (-0.0, np.inf, -1e-40):
        x = np.full(16, 3, np.float32)
        x[5] = value
        check("bitcast<int>(a[n])", [x], ["float"], x.view(np.int32)[5], "int", n=5)
        check("bitcast<int>(a[5])", [x], ["float"], x.view(np.int32)[5], "int")


def test_pointers_are_sliced():
    x = numbers("int", (32,))
    check("v", [x], ["int"], x[8:24], "int", before="int *p[16] = (A + (0 ... 32))[8:24]; int v[16] = *p;")


# functions of the source

FUNCTIONS = """
float sum(float a, float b) { return a + b; }
int largest(int a, int b) { if (1) { int c = a > b ? a : b; return c; } return 0; }
int later(int a, int b) { return b; }
int earlier(int a, int b) { return a; }
float norm(float x[]) { return sqrt((x * x)[+]); }
float[] halves(float x[]) { float y = x / 2; y += x / 2; return y; }
float poly(float x, float scale) { float y = x * scale; for (int i = 0; i < 2; i++) y = y * x + 1; return y; }
"""


@pytest.mark.some(4)
@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
def test_reductions_by_a_function(shape, axis):
    x = numbers("int", shape)
    item = items(shape, axis, "largest")
    check(f"a[{item}]", [x], ["int"], x.max(axis), "int", helpers=FUNCTIONS)
    check(f"reduce(a, {axis}, later)", [x], ["int"], x.take(-1, axis), "int", helpers=FUNCTIONS)
    check(f"reduce(a, {axis}, earlier)", [x], ["int"], x.take(0, axis), "int", helpers=FUNCTIONS)
    check(f"reduce((half)a, {axis}, sum)", [x], ["int"], x.sum(axis), "float", helpers=FUNCTIONS)


@pytest.mark.some(4)
@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
def test_scans_by_a_function(shape, axis):
    x = numbers("int", shape)
    check(f"scan(a, {axis}, largest)", [x], ["int"], np.maximum.accumulate(x, axis), "int", helpers=FUNCTIONS)
    check(f"scan(a, {axis}, later)", [x], ["int"], x, "int", helpers=FUNCTIONS)
    first = np.broadcast_to(x.take([0], axis), shape)
    check(f"scan(a, {axis}, earlier)", [x], ["int"], first, "int", helpers=FUNCTIONS)
    check(f"scan(a, {axis}, earlier, reverse)", [x], ["int"], x, "int", helpers=FUNCTIONS)
    sums = np.flip(np.cumsum(np.flip(x, axis), axis), axis)
    check(f"scan((float)a, {axis}, sum, reverse)", [x], ["int"], sums, "float", helpers=FUNCTIONS)


@pytest.mark.parametrize("shape", [(32,), (24,), (4, 8), (3, 5)], ids=str)
def test_functions_of_any_shape(shape):
    x = numbers("float", shape)
    want = (x * 3 * x + 1) * x + 1
    check("poly(a, 3)", [x], ["float"], want, "float", helpers=FUNCTIONS)
    check("halves(a) - poly(a, a)", [x], ["float"], x - ((x * x * x + 1) * x + 1), "float", helpers=FUNCTIONS)
    if len(shape) == 1:
        near = np.testing.assert_allclose
        check(
            "norm(a)",
            [x],
            ["float"],
            np.linalg.norm(x),
            "float",
            helpers=FUNCTIONS,
            equal=lambda *a, **k: near(*a, 1e-6, **k),
        )


def test_constants_are_dims():
    text = "const int D = 32; const int M = D / 2; float c[M] = a[0:M] * D;"
    x = numbers("float", (32,))
    check("c", [x], ["float"], x[:16] * 32, "float", before=text)


CONSTEXPR = """
constexpr int power(int n) { return n <= 1 ? 1 : n <= 2 ? 2 : n <= 4 ? 4 : 8; }
constexpr int twice(int n) { const int m = power(n); if (m > 2) { return 2 * m; } return m; }
constexpr int WIDTH = twice(3);
"""


def test_constant_functions():
    x = numbers("float", (8,))
    text = "constexpr int k = WIDTH / 2; float c[twice(3)] = a; float d[k] = c[:k];"
    check("c * power(n)", [x], ["float"], x * 4, "float", before=text, helpers=CONSTEXPR, n=3)
    check("d", [x], ["float"], x[:4], "float", before=text, helpers=CONSTEXPR)
