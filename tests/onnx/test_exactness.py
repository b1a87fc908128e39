"""What operators do at the edges of their types: wrapping, rounding, saturation, NaN and infinities.

The oracles are the specification's sentences in Python's integers and float64. Each model computes many operators of a
type at once, so that it is compiled once; hypothesis chooses what it is given.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, ValueInfoProto, helper

from graphfuse.host.model import OnnxModel

COUNT = 32
LEAN = settings(max_examples=25, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
WIDE = settings(LEAN, max_examples=1500)


def model_of(nodes, inputs):
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(d), s) for n, (d, s) in inputs.items()]
    outputs = [ValueInfoProto(name=n.output[0]) for n in nodes if n.output[0].startswith("y")]
    graph = helper.make_graph(nodes, "g", infos, outputs)
    return OnnxModel(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11))


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs.split(), [f"y_{output}"], **attributes)


def lanes(dtype, strategy):
    """Arrays of `COUNT` elements."""
    return st.lists(strategy, min_size=COUNT, max_size=COUNT).map(lambda v: np.array(v, dtype))


# integers


def integers(dtype):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    edges = [v for v in (low, low + 1, -2, -1, 0, 1, 2, 3, 7, high // 2, high - 1, high) if low <= v <= high]
    return st.one_of(st.sampled_from(edges), st.integers(low, high))


def wrap(value, dtype):
    """The integer of the type that is congruent."""
    bits = np.dtype(dtype).itemsize * 8
    value %= 1 << bits
    return value - (1 << bits) if np.dtype(dtype).kind == "i" and value >> (bits - 1) else value


def truncated(a, b):
    """a / b toward zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


INTEGERS = {
    "add": ("Add", lambda a, b: a + b),
    "sub": ("Sub", lambda a, b: a - b),
    "mul": ("Mul", lambda a, b: a * b),
    "div": ("Div", truncated),
    "mod": ("Mod", lambda a, b: a % b),
    "max": ("Max", max),
    "min": ("Min", min),
    "and": ("BitwiseAnd", lambda a, b: a & b),
    "or": ("BitwiseOr", lambda a, b: a | b),
    "xor": ("BitwiseXor", lambda a, b: a ^ b),
    "abs": ("Abs", abs),
    "not": ("BitwiseNot", lambda a: ~a),
    "sign": ("Sign", lambda a: (a > 0) - (a < 0)),
}
CASTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


@functools.cache
def integer_model(dtype):
    nodes = [node(op, "a" if name in ("abs", "not", "sign") else "a b", name) for name, (op, _) in INTEGERS.items()]
    nodes.append(node("Mod", "a b", "fmod", fmod=1))
    nodes += [node("Cast", "a", to, to=helper.np_dtype_to_tensor_dtype(np.dtype(to))) for to in CASTS]
    nodes.append(node("Cast", "a", "bool", to=TensorProto.BOOL))
    nodes += [node(op, "a b", op.lower()) for op in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")]
    if np.dtype(dtype).kind == "u":
        nodes += [node("BitShift", "a s", d.lower(), direction=d) for d in ("LEFT", "RIGHT")]
    elem = np.dtype(dtype)
    inputs = {"a": (elem, [COUNT]), "b": (elem, [COUNT])} | ({"s": (elem, [COUNT])} if elem.kind == "u" else {})
    return model_of(nodes, inputs)


def check_integers(dtype, a, b, s):
    given_ = {"a": a, "b": b} | ({"s": s} if np.dtype(dtype).kind == "u" else {})
    found = {k.removeprefix("y_"): v.tolist() for k, v in integer_model(dtype)(given_).items()}
    x, y = a.tolist(), b.tolist()
    for name, (_, oracle) in INTEGERS.items():
        args = [x] if name in ("abs", "not", "sign") else [x, y]
        assert found[name] == [wrap(oracle(*v), dtype) for v in zip(*args, strict=True)], name
    assert found["fmod"] == [p - q * truncated(p, q) for p, q in zip(x, y, strict=True)]
    for to in CASTS:
        assert found[to] == [wrap(v, to) for v in x], to
    assert found["bool"] == [v != 0 for v in x]
    assert found["less"] == [p < q for p, q in zip(x, y, strict=True)]
    assert found["lessorequal"] == [p <= q for p, q in zip(x, y, strict=True)]
    assert found["greater"] == [p > q for p, q in zip(x, y, strict=True)]
    assert found["greaterorequal"] == [p >= q for p, q in zip(x, y, strict=True)]
    assert found["equal"] == [p == q for p, q in zip(x, y, strict=True)]
    if "s" in given_:
        bits = np.dtype(dtype).itemsize * 8
        shifts = s.tolist()
        assert found["left"] == [wrap(v << n, dtype) if n < bits else 0 for v, n in zip(x, shifts, strict=True)]
        assert found["right"] == [v >> n if n < bits else 0 for v, n in zip(x, shifts, strict=True)]


def integer_law(dtype):
    def law(data):
        a = data.draw(lanes(dtype, integers(dtype)))
        b = data.draw(lanes(dtype, integers(dtype).filter(bool)))  # a division by zero is undefined
        s = data.draw(lanes(dtype, st.integers(0, np.dtype(dtype).itemsize * 8 - 1)))
        check_integers(dtype, a, b, s)

    return law


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_integers(dtype):
    LEAN(given(st.data())(integer_law(dtype)))()


@pytest.mark.full
@pytest.mark.parametrize("dtype", CASTS)
def test_integers_widely(dtype):
    WIDE(given(st.data())(integer_law(dtype)))()


@functools.cache
def power_model(dtype):
    return model_of([node("Pow", "a b", "pow")], {"a": (np.dtype(dtype), [COUNT]), "b": (np.dtype(dtype), [COUNT])})


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_powers_of_integers(dtype):
    """Whole, also where f64 would not be."""
    top = np.iinfo(dtype).max

    @LEAN
    @given(lanes(dtype, st.integers(-9, 9)), lanes(dtype, st.integers(0, 18)))
    def law(a, b):
        fits = np.array([abs(p**q) <= top for p, q in zip(a.tolist(), b.tolist(), strict=True)])
        b = np.where(fits, b, 1).astype(dtype)
        (y,) = power_model(dtype)({"a": a, "b": b}).values()
        assert y.tolist() == [p**q for p, q in zip(a.tolist(), b.tolist(), strict=True)]

    law()


# floats

ODD = [
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    1e30,
    -1e30,
    2.0**-149,
    8388607.5,
    -8388607.5,
    math.inf,
    -math.inf,
    math.nan,
]


def floats(width=32):
    return st.one_of(st.sampled_from(ODD), st.floats(width=width), st.floats(-100, 100, width=width))


@functools.cache
def float_model():
    nodes = [
        node(op, "a", op.lower()) for op in ("Round", "Floor", "Ceil", "Relu", "Sign", "Abs", "Neg", "IsNaN", "IsInf")
    ]
    nodes += [node(op, "a b", op.lower()) for op in ("Max", "Min", "Less", "Equal", "GreaterOrEqual", "Div")]
    low, high = (helper.make_tensor(n, TensorProto.FLOAT, [], [v]) for n, v in (("low", -1.0), ("high", 2.0)))
    nodes += [helper.make_node("Constant", [], [t.name], value=t) for t in (low, high)]
    nodes.append(node("Clip", "a low high", "clip"))
    nodes += [node(f"Reduce{k}", "a", f"reduce{k.lower()}", keepdims=0) for k in ("Max", "Min")]
    nodes += [node(op, "a", op.lower(), axis=0, keepdims=0) for op in ("ArgMax", "ArgMin")]
    return model_of(nodes, {n: (np.dtype(np.float32), [COUNT]) for n in "ab"})


def same(got, want):
    """Equal, NaN to NaN; zeros of either sign are."""
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def half_to_even(v):
    """The nearest integer as a float."""
    return v if not math.isfinite(v) else math.copysign(float(round(Fraction(v))), v)


def nan_or(fn, *values):
    return math.nan if any(map(math.isnan, values)) else fn(*values)


def check_floats(a, b):
    found = {k.removeprefix("y_"): v for k, v in float_model()({"a": a, "b": b}).items()}
    x, y = a.tolist(), b.tolist()
    same(found["round"], [half_to_even(v) for v in x])
    same(found["floor"], [v if not math.isfinite(v) else float(math.floor(v)) for v in x])
    same(found["ceil"], [v if not math.isfinite(v) else float(math.ceil(v)) for v in x])
    same(found["relu"], [nan_or(lambda v: max(v, 0.0), v) for v in x])
    same(found["clip"], [nan_or(lambda v: min(max(v, -1.0), 2.0), v) for v in x])
    same(found["abs"], [abs(v) for v in x])
    same(found["sign"], [nan_or(lambda v: float((v > 0) - (v < 0)), v) for v in x])
    assert np.signbit(found["neg"][~np.isnan(a)]).tolist() == (~np.signbit(a[~np.isnan(a)])).tolist()
    assert found["isnan"].tolist() == [math.isnan(v) for v in x]
    assert found["isinf"].tolist() == [math.isinf(v) for v in x]
    same(found["max"], [nan_or(max, *v) for v in zip(x, y, strict=True)])
    same(found["min"], [nan_or(min, *v) for v in zip(x, y, strict=True)])
    assert found["less"].tolist() == [p < q for p, q in zip(x, y, strict=True)]
    assert found["equal"].tolist() == [p == q for p, q in zip(x, y, strict=True)]
    assert found["greaterorequal"].tolist() == [p >= q for p, q in zip(x, y, strict=True)]
    with np.errstate(all="ignore"):
        same(found["div"], (a.astype(np.float64) / b.astype(np.float64)).astype(np.float32))
    same(found["reducemax"], nan_or(max, *x))
    same(found["reducemin"], nan_or(min, *x))
    if not np.isnan(a).any():
        assert found["argmax"] == x.index(max(x))
        assert found["argmin"] == x.index(min(x))


def float_law(data):
    check_floats(data.draw(lanes(np.float32, floats())), data.draw(lanes(np.float32, floats())))


def test_floats():
    LEAN(given(st.data())(float_law))()


@pytest.mark.full
def test_floats_widely():
    WIDE(given(st.data())(float_law))()


@functools.cache
def top_model(largest):
    k = helper.make_tensor("k", TensorProto.INT64, [1], [5])
    nodes = [helper.make_node("Constant", [], ["k"], value=k)]
    nodes.append(helper.make_node("TopK", ["a", "k"], ["y_values", "y_at"], axis=0, largest=largest))
    infos = [helper.make_tensor_value_info("a", TensorProto.FLOAT, [COUNT])]
    graph = helper.make_graph(nodes, "g", infos, [ValueInfoProto(name=n) for n in ("y_values", "y_at")])
    return OnnxModel(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11))


@pytest.mark.parametrize("largest", [0, 1])
def test_the_first_of_equals_is_on_top(largest):
    @LEAN
    @given(lanes(np.float32, st.sampled_from([v for v in ODD if not math.isnan(v)])))
    def law(a):
        values, at = top_model(largest)({"a": a}).values()
        order = sorted(range(COUNT), key=lambda i: (-a[i] if largest else a[i], i))[:5]
        assert at.tolist() == order
        same(values, a[order])

    law()


# narrow floats: all values by their definition, so that the nearest can be looked up


def narrow_values(exponent_bits, mantissa_bits, bias, top):
    """Every value not below 0 with its code, up to the largest."""
    out = []
    for code in range(1 << (exponent_bits + mantissa_bits)):
        exponent, mantissa = code >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
        scale = Fraction(2) ** (max(exponent, 1) - bias - mantissa_bits)
        out.append(scale * (mantissa + ((1 << mantissa_bits) if exponent else 0)))
    return [v for v in out if v <= top]


NARROW = {
    "float8_e4m3fn": (narrow_values(4, 3, 7, 448), math.nan),
    "float8_e5m2": (narrow_values(5, 2, 15, 57344), math.inf),
    "float8_e4m3fnuz": (narrow_values(4, 3, 8, 240), math.nan),
    "float8_e5m2fnuz": (narrow_values(5, 2, 16, 57344), math.nan),
}


def nearest(value, values, over, *, saturate):
    """Of a magnitude: the nearest, halves to the even code; `over` past the largest, unless it saturates."""
    if math.isinf(value):
        return float(values[-1]) if saturate else over
    exact = Fraction(value)
    step = values[-1] - values[-2]
    i = bisect.bisect_left(values, exact)
    if i == len(values):
        rounds_down = exact - values[-1] < step / 2 or (exact - values[-1] == step / 2 and (i - 1) % 2 == 0)
        return float(values[-1]) if saturate or rounds_down else over
    if values[i] == exact:
        return float(exact)
    below, above = exact - values[i - 1], values[i] - exact
    return float(values[i - 1] if below < above or (below == above and (i - 1) % 2 == 0) else values[i])


@functools.cache
def narrow_model(name, saturate):
    to = helper.np_dtype_to_tensor_dtype(np.dtype(getattr(ml_dtypes, name)))
    return model_of([node("Cast", "a", "cast", to=to, saturate=saturate)], {"a": (np.dtype(np.float32), [COUNT])})


def narrow_law(name, saturate):
    values, over = NARROW[name]
    ties = [float((p + q) / 2) for p, q in itertools.pairwise(values)] + [float(v) for v in values]
    signed = st.sampled_from(ties + [-v for v in ties])

    def law(a):
        (y,) = narrow_model(name, saturate)({"a": a}).values()
        want = [
            nan_or(lambda v: math.copysign(nearest(abs(v), values, over, saturate=saturate), v), v) for v in a.tolist()
        ]
        same(y.astype(np.float64), want)

    return given(lanes(np.float32, st.one_of(signed, floats())))(law)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("saturate", [0, 1])
def test_narrow_floats(name, saturate):
    LEAN(narrow_law(name, saturate))()


@pytest.mark.full
@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("saturate", [0, 1])
def test_narrow_floats_widely(name, saturate):
    WIDE(narrow_law(name, saturate))()


# quantisation

QUANTISED = {"uint8": (0, 255), "int8": (-128, 127), "int4": (-8, 7), "uint4": (0, 15), "int16": (-32768, 32767)}


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


@functools.cache
def quantise_model(name):
    scalar, elem = (np.dtype(np.float32), []), dtype_of(name)
    return model_of(
        [node("QuantizeLinear", "a s z", "q")], {"a": (np.dtype(np.float32), [COUNT]), "s": scalar, "z": (elem, [])}
    )


def quantise_law(name):
    low, high = QUANTISED[name]

    def law(data):
        scale = np.float32(data.draw(st.sampled_from([0.5, 0.1, 1.0, 2.0, 3.0, 1 / 3, 5 / 255])))
        steps = st.integers(-2 * (high - low), 2 * (high - low)).map(lambda v: float(np.float32(v / 2) * scale))
        a = data.draw(lanes(np.float32, st.one_of(steps, st.sampled_from([v for v in ODD if not math.isnan(v)]))))
        zero = data.draw(st.integers(low, high))
        (q,) = quantise_model(name)(
            {"a": a, "s": scale.reshape(()), "z": np.array(zero).astype(dtype_of(name))}
        ).values()
        want = []
        for v in a:
            quotient = float(np.float32(float(v) / float(scale)))  # f64 rounds to what an f32 division gives
            want.append(low if quotient == -math.inf else high if quotient == math.inf else
                        min(max(round(Fraction(quotient)) + zero, low), high))  # fmt: skip
        assert q.astype(np.int64).tolist() == want

    return given(st.data())(law)


@pytest.mark.parametrize("name", ["uint8", "int8", "int4"])
def test_quantise(name):
    LEAN(quantise_law(name))()


@pytest.mark.full
@pytest.mark.parametrize("name", QUANTISED)
def test_quantise_widely(name):
    WIDE(quantise_law(name))()
