"""The specification against independent definitions: explicit loops, exact fractions, mpmath-free closed forms."""

from __future__ import annotations

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

from graphfuse.dialects import control, graph
from graphfuse.errors import InputError
from graphfuse.gpu.graph_passes import few_updates
from graphfuse.interp import elementwise as ew
from graphfuse.interp import graph as interp
from graphfuse.ir.core import REGISTRY, Block, Func, Params
from graphfuse.ir.dense import scalar_of
from graphfuse.ir.parser import parse
from graphfuse.ir.types import Tensor, scalar

RNG = np.random.default_rng(7)


def call(opdef, *arrays, wide=False, **attrs):
    params = Params(tuple(Tensor(x.shape, scalar_of(x.dtype)) for x in arrays))
    op = opdef(*params.values, **attrs)
    out = interp.run(Func("f", Block(params, (op, control.return_(*op.results)))), *arrays, wide=wide)
    return out[0] if len(out) == 1 else out


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def near(got, want, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=tolerance, atol=tolerance)


def test_every_graph_op_has_a_meaning():
    ops = {op for name, op in REGISTRY.items() if name.startswith("graph.")}
    assert ops == interp.SEMANTICS.keys() | {graph.region, graph.loop}


def direct_conv(x, w, strides, low, high, dilation, up, groups):
    """Cross-correlation by its definition, one output element at a time (2-d, channels first)."""
    n, _, h, v = x.shape
    o, per, kh, kw = w.shape
    tall, broad = (h - 1) * up[0] + 1, (v - 1) * up[1] + 1
    oh = (tall + low[0] + high[0] - dilation[0] * (kh - 1) - 1) // strides[0] + 1
    ow = (broad + low[1] + high[1] - dilation[1] * (kw - 1) - 1) // strides[1] + 1
    out = np.zeros((n, o, oh, ow))
    for b, oc, i, j in itertools.product(range(n), range(o), range(oh), range(ow)):
        for ic, ki, kj in itertools.product(range(per), range(kh), range(kw)):
            p = i * strides[0] + ki * dilation[0] - low[0]
            q = j * strides[1] + kj * dilation[1] - low[1]
            if 0 <= p < tall and 0 <= q < broad and p % up[0] == 0 and q % up[1] == 0:
                channel = oc // (o // groups) * per + ic
                out[b, oc, i, j] += float(x[b, channel, p // up[0], q // up[1]]) * float(w[oc, ic, ki, kj])
    return out


CONVS = [
    {"strides": (1, 1), "low": (0, 0), "high": (0, 0), "dilation": (1, 1), "input_dilation": (1, 1), "groups": 1},
    {"strides": (2, 1), "low": (1, 0), "high": (0, 2), "dilation": (1, 2), "input_dilation": (1, 1), "groups": 2},
    {"strides": (1, 1), "low": (2, 1), "high": (1, 1), "dilation": (1, 1), "input_dilation": (2, 3), "groups": 1},
    {"strides": (1, 2), "low": (-1, 0), "high": (0, -2), "dilation": (1, 1), "input_dilation": (1, 1), "groups": 2},
    {"strides": (1, 1), "low": (1, 1), "high": (1, 1), "dilation": (1, 1), "input_dilation": (1, 1), "groups": 4},
]


@pytest.mark.parametrize("attrs", CONVS)
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_conv(attrs, layout):
    x, w = floats(2, 4, 6, 7), floats(4, 4 // attrs["groups"], 3, 2)
    want = direct_conv(x, w, *(attrs[k] for k in ("strides", "low", "high", "dilation", "input_dilation", "groups")))
    if layout == "nhwc":
        got = call(graph.conv, np.moveaxis(x, 1, -1).copy(), w.transpose(2, 3, 1, 0).copy(), layout=layout, **attrs)
        got = np.moveaxis(got, -1, 1)
    else:
        got = call(graph.conv, x, w, **attrs)
    near(got, want)


@pytest.mark.parametrize("spec", ["bmk,bkn->bmn", "bmk,bkn->nm", "amk,bxn->nm", "xmk,ykn->myxn", "bmk,bkn->"])
def test_contract(spec):
    a, b = floats(3, 4, 5), floats(3, 5, 6)
    near(call(graph.contract, a, b, spec=spec), np.einsum(spec, a.astype(np.float64), b), 1e-4)


def test_integer_contract_wraps_and_is_exact():
    big = np.full((2, 3), 2**62, np.int64)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(call(graph.contract, big, big.T.copy(), spec="mk,kn->mn"), big @ big.T)
    a = RNG.integers(-128, 127, (5, 300), dtype=np.int8)
    got = call(graph.contract, a, a, spec="mk,nk->mn", elem=scalar("i32"))
    np.testing.assert_array_equal(got, a.astype(np.int32) @ a.astype(np.int32).T)


def test_half_sums_accumulate_in_f32():
    ones = np.ones(5000, np.float16)
    assert call(graph.reduce, ones, axes=(0,), kind="sum") == 5000
    assert call(graph.contract, ones, ones, spec="i,i->") == 5000
    few = np.ones(1000, ml_dtypes.bfloat16)
    assert float(call(graph.reduce, few, axes=(0,), kind="sum")) == 1000


def test_empty_and_nan_extremes():
    empty = np.zeros((0, 2), np.int8)
    np.testing.assert_array_equal(call(graph.reduce, empty, axes=(0,), kind="max"), [-128, -128])
    np.testing.assert_array_equal(call(graph.reduce, empty.astype(np.float32), axes=(0,), kind="min"), [np.inf] * 2)
    x = np.array([1, np.nan, 3, np.nan], np.float32)
    assert np.isnan(call(graph.reduce, x, axes=(0,), kind="max"))
    assert call(graph.arg_reduce, x, axis=0, kind="min") == 1
    assert call(graph.arg_reduce, x, axis=0, kind="max", last=True) == 3
    assert np.isnan(call(graph.ELEMENTWISE["max"], x, x[::-1].copy())[0])


def test_topk_ties_go_to_the_lower_index():
    x = RNG.integers(0, 5, (4, 50)).astype(np.int8)
    for largest in (True, False):
        _, at = call(graph.topk, x, k=7, axis=1, largest=largest)
        for row, got in zip(x, at, strict=True):
            sign = -1 if largest else 1
            assert list(got) == sorted(range(50), key=lambda i, row=row, sign=sign: (sign * int(row[i]), i))[:7]
    least = np.array([-128, 127, -128], np.int8)
    assert list(call(graph.topk, least, k=3, axis=0)[1]) == [1, 0, 2]


def test_scatter_is_ordered():
    x, u = np.zeros(3, np.float32), np.arange(1.0, 5.0, dtype=np.float32)
    i = np.array([1, -1, 1, 2])
    np.testing.assert_array_equal(call(graph.scatter_along, x, i, u, axis=0), [0, 3, 4])
    np.testing.assert_array_equal(call(graph.scatter_along, x, i, u, axis=0, kind="add"), [0, 4, 6])
    with pytest.raises(InputError, match="index 3 is outside a dim of 3"):
        call(graph.take, x, np.array([3]), axis=0)


def test_few_updates_beside_the_tensor_are_dropped() -> None:
    """Of those that are combined where they land, too."""
    before = parse(
        """func @f(%x: tensor<1024x4xf16>, %i: tensor<3x1xi64>, %u: tensor<3x4xf32>) {
  %w = graph.cast(%x) {to = f32} : tensor<1024x4xf32>
  %s = graph.scatter_nd(%w, %i, %u) {kind = "max"} : tensor<1024x4xf32>
  %y = graph.cast(%s) {to = f16} : tensor<1024x4xf16>
  return(%y)
}"""
    )
    after = few_updates(before)
    assert any(op.kind is graph.gather_nd for op in after.walk())
    x, u = np.zeros((1024, 4), np.float16), np.arange(12, dtype=np.float32).reshape(3, 4)
    (got,) = interp.run(after, x, np.array([[2], [1 << 62], [-1025]]), u)
    want = x.copy()
    want[2] = u[0]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("kind", ["set", "add"])
def test_scatters_drop_what_is_out_of_range(kind):
    """On either side, and wherever any of several indices is; a negative one counts from the end."""
    x = np.zeros((3, 2), np.float32)
    i, u = np.array([[3, 0], [-4, -1], [1 << 40, 2]]), np.arange(1.0, 7.0, dtype=np.float32).reshape(3, 2)
    want = [[0, 2], [0, 0], [0, 6 if kind == "set" else 10]]
    np.testing.assert_array_equal(call(graph.scatter_along, x, i, u, axis=0, kind=kind), want)
    i, u = np.array([[0, 2], [2, 1], [-3, -2], [-4, 0]]), np.arange(1.0, 5.0, dtype=np.float32)
    np.testing.assert_array_equal(call(graph.scatter_nd, x, i, u, kind=kind), [[3, 0], [0, 0], [0, 2]])
    rows = np.array([[3], [1], [-1]])
    np.testing.assert_array_equal(call(graph.scatter_nd, x, rows, u[:3, None] + x, kind=kind), [[0, 0], [2, 2], [3, 3]])


CASTS = [
    ("i8", False, [1, -1, 44, 0, 0, 0]), ("i8", True, [1, -1, 127, 127, -128, 0]),
    ("u8", False, [1, 255, 44, 0, 0, 0]), ("u8", True, [1, 0, 255, 255, 0, 0]),
    ("i32", False, [1, -1, 300, -(2**31), -(2**31), -(2**31)]), ("i32", True, [1, -1, 300, 2**31 - 1, -(2**31), 0]),
    ("i64", False, [1, -1, 300, -(2**63), -(2**63), -(2**63)]), ("i64", True, [1, -1, 300, 2**63 - 1, -(2**63), 0]),
    ("u64", True, [1, 0, 300, 2**64 - 1, 0, 0]), ("bool", False, [True] * 6), ("i4", False, [1, -1, -4, 0, 0, 0]),
]  # fmt: skip


@pytest.mark.parametrize(("to", "saturate", "want"), CASTS)
def test_casts_out_of_range(to, saturate, want):
    x = np.array([1.9, -1.9, 300, 1e30, -1e30, np.nan], np.float32)
    assert [int(v) for v in call(graph.cast, x, to=scalar(to), saturate=saturate)] == want


def test_integer_division_by_cases():
    a, b = (np.array(v, np.int8) for v in ([7, -7, 7, -7, -128, 5], [2, 2, -2, -2, -1, 0]))
    want = {"floordiv": [3, -4, -4, 3, -128, 0], "truncdiv": [3, -3, -3, 3, -128, 0],
            "floormod": [1, 1, -1, -1, 0, 0], "truncmod": [1, -1, 1, -1, 0, 0]}  # fmt: skip
    for name, values in want.items():
        assert list(call(graph.ELEMENTWISE[name], a, b)) == values, name


def test_integer_powers_and_shifts():
    power, shl, shr = (graph.ELEMENTWISE[n] for n in ("pow", "shl", "shr"))
    assert list(call(power, np.array([3, -1, 1, 2, 0]), np.array([5, -3, -2, -1, 0]))) == [243, -1, 1, 0, 1]
    a, b = np.array([1, -8, 5], np.int8), np.array([8, 200 - 256, 1], np.int8)
    assert list(call(shl, a, b)) == [0, 0, 10]
    assert list(call(shr, a, b)) == [0, -1, 2]


def test_erf_is_accurate():
    x = np.concatenate([np.linspace(-6.5, 6.5, 20001), [0.0, -0.0, np.inf, -np.inf, 1e-300]])
    want = np.array([math.erf(v) for v in x])
    assert np.max(np.abs(ew.erf(x) - want) / np.spacing(np.abs(want))) <= 2
    assert np.isnan(ew.erf(np.array([np.nan]))[0])


def test_fma_rounds_once():
    from fractions import Fraction

    for dtype in (np.float32, np.float64):
        a, b, c = (RNG.standard_normal(400).astype(dtype) for _ in range(3))
        c = np.where(np.arange(400) % 2, -a * b, c).astype(dtype)  # cancellation shows a second rounding
        for x, y, z, got in zip(a, b, c, ew.fma(a, b, c), strict=True):
            exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
            around = [np.nextafter(got, dtype(s)) for s in (-np.inf, np.inf)]
            assert all(abs(Fraction(float(got)) - exact) <= abs(Fraction(float(v)) - exact) for v in around)


def test_wide_is_f64_all_the_way():
    func = parse("""func @f(%x: tensor<3xf32>) {
      %h = graph.cast(%x) {to = f16} : tensor<3xf16>
      %e = graph.exp(%h) : tensor<3xf16>
      %b = graph.bitcast(%e) {to = f16} : tensor<3xf16>
      %i = graph.bitcast(%x) {to = i32} : tensor<3xi32>
      return(%b, %i)
    }""")
    x = np.array([0.1, 0.2, 0.3], np.float32)
    (narrow, _), (wide, bits) = interp.run(func, x), interp.run(func, x, wide=True)
    assert (narrow.dtype, wide.dtype) == (np.float16, np.float64)
    np.testing.assert_array_equal(wide, np.exp(x.astype(np.float64)))
    np.testing.assert_array_equal(bits, x.view(np.int32))


def test_binding_solves_for_symbols():
    func = parse("func @f(%x: tensor<(2*n + 1)x(n + m)xf32>) dims (n in 1..4) { return(%x) }")
    assert interp.bind(func, [(7, 5)], {}) == {"n": 3, "m": 2}


BAD = [
    ((6, 5), np.float32, "input 'x': dim 0: 2*n + 1 = 6 does not determine n"),
    ((11, 6), np.float32, "@f: dim 'n' must be in 1..4, got 5"),
    ((7,), np.float32, "input 'x': expected 2 dims, got shape (7,)"),
    ((7, 5), np.float64, "input 'x': expected f32, got f64"),
]


@pytest.mark.parametrize(("shape", "dtype", "message"), BAD)
def test_inputs_that_do_not_fit(shape, dtype, message):
    func = parse("func @f(%x: tensor<(2*n + 1)x(n + m)xf32>) dims (n in 1..4) { return(%x) }")
    with pytest.raises(InputError) as e:
        interp.run(func, np.zeros(shape, dtype))
    assert e.value.message == message


def test_inputs_that_contradict_each_other():
    func = parse("func @f(%x: tensor<(n)x(2*n)xf32>) { return(%x) }")
    with pytest.raises(InputError, match=r"input 'x': dim 1: expected 2\*n = 6, got 5"):
        interp.run(func, np.zeros((3, 5), np.float32))
    with pytest.raises(InputError, match="expected 1 inputs, got 0"):
        interp.run(func)
