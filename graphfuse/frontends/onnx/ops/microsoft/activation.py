"""Activations with a bias, and the activations that fused products and convolutions name."""

from __future__ import annotations

from collections.abc import Sequence

from graphfuse.dialects import graph
from graphfuse.frontends.compositions import biased, gelu_of, softmax_of
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.onnx.node import MICROSOFT, Node, onnx_op
from graphfuse.frontends.onnx.ops.activation import FUNCTIONS, Function, above, clamp
from graphfuse.ir.core import Value
from graphfuse.symbolic import exact_div, product

_NAMES = (
    "Relu", "Sigmoid", "Tanh", "Softplus", "Softsign", "LeakyRelu", "Elu", "ThresholdedRelu", "HardSigmoid", "Clip",
)  # fmt: skip


_FUNCTIONS: dict[str, Function] = {
    **FUNCTIONS,
    # not at the threshold itself, as recurrent operators have it
    "thresholdedrelu": (above(graph.gt), (1.0,)),
    "clip": (clamp, (float("-inf"), float("inf"))),
}


def activated(e: Emitter, node: Node, x: Value, parameters: Sequence[float | None] = ()) -> Value:
    """x under the function that attribute `activation` names, if any; parameters that are None have their defaults."""
    name = node.attr_str("activation", "")
    if not name:
        return x
    if name not in _NAMES:
        raise node.unsupported(f"activation must be one of {', '.join(_NAMES)}, got {name}")
    function, defaults = _FUNCTIONS[name.lower()]
    given = zip([*parameters, None, None], defaults, strict=False)
    return function(e, x, *(default if number is None else number for number, default in given))


def named_parameters(node: Node) -> list[float | None]:
    """A fused product's `activation_alpha` and `activation_beta`."""
    names = ("activation_alpha", "activation_beta")
    return [node.attr_float(name) if name in node.attributes else None for name in names]


@onnx_op("BiasGelu", "FastGelu", domain=MICROSOFT)
def bias_gelu(e: Emitter, node: Node, x: Value, bias: Value | None = None) -> Value:
    """gelu(x [+ bias]), by the error function, or the fast one by tanh."""
    return gelu_of(e, biased(e, x, bias), by_tanh=node.op == "FastGelu")


@onnx_op("QuickGelu", domain=MICROSOFT)
def quick_gelu(e: Emitter, node: Node, x: Value) -> Value:
    """x * sigmoid(alpha * x)."""
    return e.map(graph.mul, x, e.map(graph.sigmoid, e.map(graph.mul, x, node.attr_float("alpha", 1.702))))


@onnx_op("BiasSplitGelu", domain=MICROSOFT)
def bias_split_gelu(e: Emitter, node: Node, x: Value, bias: Value | None = None) -> Value:
    """The left half of x + bias times gelu of the right half."""
    x = biased(e, x, bias)
    half = exact_div(shape_of(x)[-1], 2)
    if half is None:
        raise node.error(f"the last dim must be even, got {x.type}")
    left, right = e.split(x, (half, half), tensor(x).rank - 1)
    return e.map(graph.mul, left, gelu_of(e, right))


@onnx_op("BiasAdd", domain=MICROSOFT)
def bias_add(e: Emitter, node: Node, x: Value, bias: Value, skip: Value) -> Value:
    """x + bias + skip."""
    return e.map(graph.add, biased(e, x, bias), e.equalled(skip, shape_of(x), "the skip"))


@onnx_op("GatedAdd", domain=MICROSOFT)
def gated_add(e: Emitter, node: Node, x: Value, y: Value, gate: Value) -> Value:
    """x + y * gate."""
    gate = e.equalled(gate, (*shape_of(x)[:-1], *shape_of(gate)[-1:]), "the gate")
    y = e.equalled(y, shape_of(x), "what is added")
    return e.map(graph.add, x, e.map(graph.mul, y, e.spread(gate, shape_of(x))))


@onnx_op("BiasDropout", domain=MICROSOFT)
def bias_dropout(
    e: Emitter, node: Node, x: Value, bias: Value | None = None, residual: Value | None = None
) -> tuple[Value, Value]:
    """data + bias [+ residual]; nothing is dropped outside of training, and the mask says so."""
    training = node.constant(4, "training_mode") if node.has(4) else None
    if training is not None and training.any():
        raise node.unsupported("dropout in training draws random numbers")
    y = biased(e, x, bias)
    if residual is not None:
        y = e.map(graph.add, y, e.equalled(residual, shape_of(y), "the residual"))
    return y, e.map(graph.eq, y, y)


@onnx_op("BiasSoftmax", domain=MICROSOFT)
def bias_softmax(e: Emitter, node: Node, x: Value, bias: Value) -> Value:
    """Softmax of data + bias over all dims from `axis` on; the bias has the data's rank, or is right-aligned."""
    x = e.map(graph.add, x, e.spread(bias, shape_of(x)))
    axis = node.axis(node.attr_int("axis", 1), tensor(x).rank)
    shape = shape_of(x)
    flat = e.reshape(e.wide(x), (*shape[:axis], product(shape[axis:])))
    return e.reshape(e.cast(softmax_of(e, flat, axis), elem_of(x)), shape)
