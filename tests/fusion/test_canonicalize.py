"""Rules hold bit for bit on the values that break algebra: NaN, infinities, -0.0, denormals, integer extremes."""

import itertools

import numpy as np
import pytest

from graphfuse.dialects import control, graph
from graphfuse.fusion.simplify.canonicalize import RULES, canonicalize, keeps_every_value
from graphfuse.fusion.simplify.recognise_functions import recognise_functions
from graphfuse.interp.graph import run
from graphfuse.ir.core import Block, Builder, Func, Params
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.printer import to_text
from graphfuse.ir.types import F32, SCALAR_NAMES, Tensor, scalar
from graphfuse.ir.verifier import verify

FLOATS = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -7.25, 1e-42, -1e-42, 3.4e38, -3.4e38, np.inf, -np.inf, np.nan, 2.0, 1e-20],
    np.float32,
)
INTEGERS = np.array([0, 1, -1, 2, 7, -7, 2**31 - 1, -(2**31), 31, 32, 100, -100, 3, 5, 6, 8], np.int32)
NUMBERS = [0.0, -0.0, 1.0, -1.0, 2.0, 3.0, 4.0, -2.0, 0.5, -0.5, 0.25, 2.0**-126, 2.0**127, np.inf, -np.inf, np.nan]


def of(x, y, build):
    """A function of two tensors, built by `build(b, x, y)`."""
    elems = [scalar({"f": "f32", "i": "i32", "b": "bool"}[a.dtype.kind]) for a in (x, y)]
    params = Params(tuple(Tensor(a.shape, elem) for a, elem in zip((x, y), elems, strict=True)))
    b = Builder()
    out = build(b, *params.values)
    return Func("f", Block(params, (*b.ops, control.return_(out))))


def full(b, like, value):
    t = like.type
    return b(graph.full, shape=t.shape, elem=t.elem, value=value)


def same_bits(func, *inputs, zero_signs=True):
    new = canonicalize(func)
    verify(new)
    assert to_text(canonicalize(new)) == to_text(new), "canonicalize must be idempotent"
    for want, got in zip(run(func, *inputs), run(new, *inputs), strict=True):
        nan = np.isnan(want) if want.dtype.kind == "f" else np.zeros(want.shape, bool)
        assert want.dtype == got.dtype
        assert np.array_equal(nan, np.isnan(got) if got.dtype.kind == "f" else nan)
        want, got = np.where(nan, 0, want), np.where(nan, 0, got)
        if not zero_signs:
            want, got = want + 0, got + 0
        assert want.tobytes() == got.tobytes(), to_text(new)
    return new


@pytest.mark.parametrize("value", NUMBERS)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "max", "min", "eq", "lt"])
def test_float_with_number(name, value):
    kind = graph.ELEMENTWISE[name]
    signs = name not in ("max", "min")  # which zero is the larger is not said
    same_bits(of(FLOATS, FLOATS, lambda b, x, _: b(kind, x, full(b, x, value))), FLOATS, FLOATS, zero_signs=signs)
    same_bits(of(FLOATS, FLOATS, lambda b, x, _: b(kind, full(b, x, value), x)), FLOATS, FLOATS, zero_signs=signs)


@pytest.mark.parametrize("value", [0, 1, -1, 2, -(2**31), 2**31 - 1])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "max", "min", "and", "or", "xor", "pow", "ne"])
def test_integer_with_number(name, value):
    kind = graph.ELEMENTWISE[name]
    same_bits(of(INTEGERS, INTEGERS, lambda b, x, _: b(kind, x, full(b, x, value))), INTEGERS, INTEGERS)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "max", "min"])
@pytest.mark.parametrize("outer", ["neg", "abs"])
def test_negations(name, outer):
    kind = graph.ELEMENTWISE[name]
    ys = np.roll(FLOATS, 3)
    for build in (
        lambda b, x, y: b(kind, b(graph.neg, x), b(graph.neg, y)),
        lambda b, x, y: b(kind, x, b(graph.neg, y)),
        lambda b, x, y: b(graph.ELEMENTWISE[outer], b(graph.neg, b(kind, x, y))),
    ):
        same_bits(of(FLOATS, ys, build), FLOATS, ys)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, -1.0, 0.5, -0.5])
def test_powers_keep_special_values(exponent):
    xs = np.array([0.0, -0.0, 1.0, 2.0, 4.0, -1.0, -2.0, np.inf, -np.inf, np.nan], np.float32)
    same_bits(of(xs, xs, lambda b, x, _: b(graph.pow_, x, full(b, x, exponent))), xs, xs)
    same_bits(of(xs, xs, lambda b, x, _: b(graph.pow_, b(graph.mul, x, x), full(b, x, exponent))), xs, xs)


def test_root_of_squares_is_sqrt():
    func = of(FLOATS, FLOATS, lambda b, x, _: b(graph.pow_, b(graph.mul, x, x), full(b, x, 0.5)))
    new = same_bits(func, FLOATS, FLOATS)
    assert any(op.kind is graph.sqrt for op in new.walk())


def test_mean_has_one_form():
    x = np.random.default_rng(0).uniform(-1, 1, (4, 6)).astype(np.float32)

    def mean(kind, value):
        def build(b, x, _):
            total = b(graph.reduce, x, axes=(1,), kind="sum")
            return b(kind, total, full(b, total, value))

        return recognise_functions(of(x, x, build))

    assert to_text(mean(graph.mul, float(np.float32(1 / 6)))) == to_text(mean(graph.div, 6.0))


LOSSLESS = [("f16", "f32"), ("i32", "f64"), ("u8", "i16"), ("bool", "f16"), ("bf16", "f32"), ("i8", "bf16")]
LOSSLESS += [("f8e4m3", "f16"), ("f8e5m2", "f16"), ("f4e2m1", "f8e4m3"), ("u32", "i64"), ("f32", "f64"), ("f64", "f64")]
LOSSY = [("f32", "f16"), ("i32", "f32"), ("i32", "u32"), ("f32", "i32"), ("f16", "bf16"), ("i8", "u8"), ("u8", "bool")]
LOSSY += [("f8e4m3", "f8e5m2"), ("f8e5m2", "f8e4m3"), ("f16", "f8e5m2"), ("f16", "i16"), ("i16", "f16"), ("u16", "i16")]
LOSSY += [("f8e4m3fnuz", "f8e4m3"), ("f4e2m1", "f8e4m3fnuz"), ("i64", "f64"), ("u32", "i32"), ("i64", "u64")]


@pytest.mark.parametrize(("source", "via"), LOSSLESS)
def test_lossless_casts_merge(source, via):
    assert keeps_every_value(scalar(source), scalar(via))
    x = np.arange(8).astype(numpy_dtype(scalar(source)))
    params = Params((Tensor((8,), scalar(source)),))
    b = Builder()
    y = b(graph.cast, b(graph.cast, params.values[0], to=scalar(via)), to=F32)
    func = Func("f", Block(params, (*b.ops, control.return_(y))))
    new = canonicalize(func)
    assert sum(op.kind is graph.cast for op in new.walk()) == (source != "f32")
    assert np.array_equal(run(func, x)[0], run(new, x)[0])


@pytest.mark.parametrize(("source", "via"), LOSSY)
def test_lossy_casts_stay(source, via):
    assert not keeps_every_value(scalar(source), scalar(via))


def test_what_casts_keep_is_known_of_all_elements():
    elems = [scalar(name) for name in sorted(SCALAR_NAMES)]
    kept = {(a, b) for a in elems for b in elems if keeps_every_value(a, b)}
    assert all((a, a) in kept for a in elems)
    for (a, b), c in itertools.product(kept, elems):
        assert (b, c) not in kept or (a, c) in kept, f"{a} in {b} in {c}"


def test_logic():
    x = np.array([True, False, True, False])
    for name in ("and", "or", "xor"):
        for value in (True, False):
            kind = graph.ELEMENTWISE[name]
            new = same_bits(of(x, x, lambda b, x, _, k=kind, v=value: b(k, x, full(b, x, v))), x, x)
            assert not any(op.kind is kind for op in new.walk())


def test_every_rule_is_documented():
    assert all(r.apply.__doc__ for r in RULES)
