"""Arithmetic, comparison, logic and casts: one element in, one element out."""

from __future__ import annotations

from graphfuse.dialects import graph
from graphfuse.dialects.graph import ELEMENTWISE
from graphfuse.frontends.emit import Emitter, elem_of, shape_of
from graphfuse.frontends.host_values import Host
from graphfuse.frontends.onnx.node import Node, elem_from_onnx, one_of, onnx_op
from graphfuse.ir.core import Value
from graphfuse.ir.types import BOOL, F32, U8, U32, Scalar

_UNARY = {
    "Abs": "abs", "Neg": "neg", "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Tanh": "tanh", "Erf": "erf",
    "Sigmoid": "sigmoid", "Sin": "sin", "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan",
    "Sinh": "sinh", "Cosh": "cosh", "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh", "Floor": "floor",
    "Ceil": "ceil", "Round": "round", "Sign": "sign", "Not": "not", "BitwiseNot": "not", "IsNaN": "isnan",
}  # fmt: skip

_BINARY = {
    "Add": graph.add, "Sub": graph.sub, "Mul": graph.mul, "And": graph.and_, "Or": graph.or_, "Xor": graph.xor,
    "BitwiseAnd": graph.and_, "BitwiseOr": graph.or_, "BitwiseXor": graph.xor, "Less": graph.lt,
    "LessOrEqual": graph.le, "Greater": graph.gt, "GreaterOrEqual": graph.ge, "Equal": graph.eq,
}  # fmt: skip


@onnx_op(*_UNARY)
def unary(e: Emitter, node: Node, x: Value) -> Value:
    """Functions of one element that the graph dialect has."""
    if elem_of(x).is_integer and node.op in ("Floor", "Ceil", "Round"):
        return x
    if elem_of(x).is_integer and node.op == "IsNaN":
        return e.full(shape_of(x), BOOL, value=False)
    return e.map(ELEMENTWISE[_UNARY[node.op]], x)


@onnx_op(*_BINARY)
def binary(e: Emitter, node: Node, a: Value, b: Value) -> Value:
    """Functions of two elements that the graph dialect has."""
    if elem_of(a) == BOOL and elem_of(b) == BOOL and node.op in ("Less", "Greater", "LessOrEqual", "GreaterOrEqual"):
        a, b = e.cast(a, U8), e.cast(b, U8)
    return e.map(_BINARY[node.op], a, b)


@onnx_op("Div")
def div(e: Emitter, node: Node, a: Value, b: Value) -> Value:
    """a / b; integers truncate."""
    return e.map(graph.div if elem_of(a).is_float else graph.truncdiv, a, _divisor(node, b))


def _divisor(node: Node, by: Value) -> Value:
    """Input 1, which has no 0 if it is of integers."""
    if elem_of(by).is_integer:
        node.watched.watch_divisor(by, node.name(1))
    return by


@onnx_op("Mod")
def mod(e: Emitter, node: Node, a: Value, b: Value) -> Value:
    """The remainder with the divisor's sign, or with the dividend's for fmod = 1."""
    return e.map(graph.truncmod if node.attr_int("fmod", 0) else graph.floormod, a, _divisor(node, b))


@onnx_op("Pow")
def pow_(e: Emitter, node: Node, a: Value) -> Value:
    """a to the power b, in a's type; squares are products and square roots roots."""
    exponent = node.known(1)
    if exponent is not None and exponent.size == 1 and exponent.dtype != object and exponent.ndim <= len(shape_of(a)):
        number = float(exponent.reshape(-1)[0])
        if number == 1.0:
            return a
        if number == 2.0:
            return e.map(graph.mul, a, a)
        if number == 0.5 and elem_of(a).is_float:
            return e.map(graph.sqrt, a)
    b = node.value(e, 1)
    if elem_of(b) == elem_of(a):
        return e.map(graph.pow_, a, b)
    if elem_of(a).is_integer and elem_of(b).is_float:
        return e.cast(e.map(graph.pow_, e.cast(a, elem_of(b)), b), elem_of(a))
    return e.map(graph.pow_, a, e.cast(b, elem_of(a)))


@onnx_op("BitShift")
def bit_shift(e: Emitter, node: Node, a: Value, b: Value) -> Value:
    """Logical shift of unsigned integers."""
    direction = one_of("direction", node.attr_str("direction"), ("LEFT", "RIGHT"), node.error)
    return e.map(ELEMENTWISE["shl" if direction == "LEFT" else "shr"], a, b)


@onnx_op("Reciprocal")
def reciprocal(e: Emitter, node: Node, x: Value) -> Value:
    """1 / a."""
    return e(graph.div, e.full(shape_of(x), elem_of(x), 1.0), x)


@onnx_op("IsInf")
def is_inf(e: Emitter, node: Node, x: Value) -> Value:
    """Whether a is an infinity of a wanted sign."""
    positive, negative = node.attr_int("detect_positive", 1), node.attr_int("detect_negative", 1)
    if positive and negative:
        return e.map(graph.isinf, x)
    if positive or negative:
        return e.map(graph.eq, x, float("inf") if positive else float("-inf"))
    return e.full(shape_of(x), BOOL, value=False)


@onnx_op("Sum", "Max", "Min", "Mean")
def variadic(e: Emitter, node: Node, *xs: Value) -> Value:
    """The sum, the largest, the smallest or the mean of all inputs."""
    out = e.fold({"Max": graph.max_, "Min": graph.min_}.get(node.op, graph.add), xs)
    return e.divide(out, len(xs)) if node.op == "Mean" else out


@onnx_op("Clip")
def clip(e: Emitter, node: Node, x: Value) -> Value:
    """min(max(a, low), high), so that the upper bound wins."""
    for i, name, kind in ((1, "min", graph.max_), (2, "max", graph.min_)):
        if (bound := node.optional(e, i)) is not None:
            x = e.map(kind, x, e.reshape(bound, ()))
        elif name in node.attributes:
            x = e.map(kind, x, node.attr_float(name))
    return x


@onnx_op("Where")
def where(e: Emitter, node: Node, condition: Value, a: Value, b: Value) -> Value:
    """condition ? a : b."""
    return e.select(condition, a, b)


# types


_FLOAT8 = ("f8e4m3", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz")


def cast_to(e: Emitter, node: Node, x: Value, to: Scalar) -> Value:
    """ONNX's Cast: float8 targets saturate unless told not to, halves reach narrow floats through f32."""
    if to.name == "f8e8m0" and elem_of(x) != to:
        return _to_power_of_two(e, node, x, to)
    saturate = (to.name in _FLOAT8 and bool(node.attr_int("saturate", 1))) or to.name == "f4e2m1"
    return e.cast(x, to, saturate=saturate)


_HALF, _BELOW = 1 << 22, (1 << 23) - 1
"""Of an f32's fraction: half of its range, which is the least power of two where the exponent is 0; and all of it."""


def _to_power_of_two(e: Emitter, node: Node, x: Value, to: Scalar) -> Value:
    """The exponent as f8e8m0 stores it, 0 to 254 as f32 does, 255 for NaN; of negative numbers, that of their size."""
    mode, saturate = node.attr_choice("round_mode", "up", "down", "nearest"), bool(node.attr_int("saturate", 1))
    x = e.cast(x, F32)
    bits = e(graph.bitcast, x, to=U32)
    exponent = e.map(graph.and_, e.map(ELEMENTWISE["shr"], bits, 23), 255)
    fraction = e.map(graph.and_, bits, _BELOW)
    is_least = e.map(graph.eq, exponent, 0)
    if mode != "down":
        # up: more than the power below; nearest: from the middle between two powers on
        limits = (_HALF + 1, 1) if mode == "up" else (_HALF + _HALF // 2, _HALF)
        above = e.map(graph.ge, fraction, e.select(is_least, *(e.full(shape_of(x), U32, n) for n in limits)))
        exponent = e.map(graph.add, exponent, e.cast(above, U32))
    exponent = e.map(graph.min_, exponent, 254 if saturate else 255)
    if not saturate:
        exponent = e.select(e.map(graph.and_, is_least, e.map(graph.lt, fraction, _HALF)), 255, exponent)
    exponent = e.select(e.map(graph.isnan, x), 255, exponent)
    return e(graph.bitcast, e.cast(exponent, U8), to=to)


@onnx_op("Cast")
def cast(e: Emitter, node: Node, x: Value) -> Value:
    """Convert elements."""
    return cast_to(e, node, x, elem_from_onnx(node.attr_int("to"), node.loc))


@onnx_op("CastLike")
def cast_like(e: Emitter, node: Node, x: Value) -> Value:
    """Convert elements to those of another tensor."""
    return cast_to(e, node, x, node.type(1).elem)


@onnx_op("BitCast")
def bit_cast(e: Emitter, node: Node, x: Value) -> Value:
    """Reinterpret the bits of elements."""
    to = elem_from_onnx(node.attr_int("to"), node.loc)
    return x if elem_of(x) == to else e(graph.bitcast, x, to=to)


@onnx_op("Identity")
def identity(_: Emitter, node: Node) -> Value | Host:
    """The input."""
    return node.input(0)


@onnx_op("Dropout")
def dropout(e: Emitter, node: Node) -> tuple[Value | Host, Value]:
    """Inference: the input, and a mask that keeps everything."""
    if node.has(2):
        training = node.known(2)
        if training is None or training.dtype == object or bool(training.reshape(-1)[0]):
            ratio = node.known(1)
            if ratio is None or float(ratio.reshape(-1)[0]) != 0.0:
                raise node.unsupported("training mode is not supported")
    return node.input(0), e.full(node.type(0).shape, BOOL, value=True)
