"""Steps of optimisers, of the preview domain: each takes a rate, a count of steps, and its tensors in groups."""

from __future__ import annotations

from collections.abc import Callable

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, Operand, elem_of
from graphfuse.frontends.onnx.node import Node, onnx_op
from graphfuse.ir.core import Value

TRAINING = "ai.onnx.preview.training"


def _for_each(
    e: Emitter, node: Node, tensors: tuple[Value, ...], size: int, step: Callable[..., tuple[Value, ...]]
) -> tuple[Value, ...]:
    """A step of each parameter, its gradient and more: inputs, and outputs, are all parameters, then all of the next.

    The gradient is regularised.
    """
    count, rest = divmod(len(tensors), size)
    if rest or not count:
        raise node.error(f"expected the rate, the count and {size} inputs for each parameter, got {len(node.inputs)}")
    factor = node.attr_float("norm_coefficient", 0.0)
    results: list[tuple[Value, ...]] = []
    for x, gradient, *others in (tensors[i::count] for i in range(count)):
        gradient = e.map(graph.add, e.map(graph.mul, x, factor), gradient) if factor else gradient
        results.append(step(x, gradient, *others))
    return tuple(value for group in zip(*results, strict=True) for value in group)


def _blend(e: Emitter, a: Operand, x: Value, b: Operand, y: Value) -> Value:
    """a x + b y."""
    return e.map(graph.add, e.map(graph.mul, x, a), e.map(graph.mul, y, b))


@onnx_op("Adagrad", domain=TRAINING)
def adagrad(e: Emitter, node: Node, rate: Value, count: Value, *tensors: Value) -> tuple[Value, ...]:
    """A rate for each element, by the sum of its squared gradients."""
    rate, count = e.reshape(rate, ()), e.reshape(count, ())
    decay = e.map(graph.add, e.map(graph.mul, e.cast(count, elem_of(rate)), node.attr_float("decay_factor", 0.0)), 1.0)
    rate = e.map(graph.div, rate, decay)

    def step(x: Value, g: Value, h: Value) -> tuple[Value, ...]:
        h = e.map(graph.add, h, e.map(graph.mul, g, g))
        root = e.map(graph.add, e.map(graph.sqrt, h), node.attr_float("epsilon", 1e-6))
        down = e.map(graph.div, e.map(graph.mul, g, e.cast(rate, elem_of(x))), root)
        return e.map(graph.sub, x, down), h

    return _for_each(e, node, tensors, 3, step)


@onnx_op("Adam", domain=TRAINING)
def adam(e: Emitter, node: Node, rate: Value, count: Value, *tensors: Value) -> tuple[Value, ...]:
    """Running means of gradients and of their squares, without their bias from the second step on."""
    rate, count = e.reshape(rate, ()), e.reshape(count, ())
    alpha, beta = node.attr_float("alpha", 0.9), node.attr_float("beta", 0.999)
    steps = e.cast(count, elem_of(rate))

    def without(decay: float) -> Value:
        power = e.map(graph.pow_, e.full((), elem_of(rate), decay), steps)
        return e.map(graph.add, e.map(graph.neg, power), 1.0)

    unbiased = e.map(graph.div, e.map(graph.mul, rate, e.map(graph.sqrt, without(beta))), without(alpha))
    rate = e.select(e.map(graph.gt, count, 0), unbiased, rate)

    def step(x: Value, g: Value, v: Value, h: Value) -> tuple[Value, ...]:
        v = _blend(e, alpha, v, 1 - alpha, g)
        h = _blend(e, beta, h, 1 - beta, e.map(graph.mul, g, g))
        root = e.map(graph.add, e.map(graph.sqrt, h), node.attr_float("epsilon", 1e-6))
        new = e.map(graph.sub, x, e.map(graph.mul, e.map(graph.div, v, root), e.cast(rate, elem_of(x))))
        if post := node.attr_float("norm_coefficient_post", 0.0):
            new = e.map(graph.mul, new, 1 - post)
        return new, v, h

    return _for_each(e, node, tensors, 4, step)


@onnx_op("Momentum", domain=TRAINING)
def momentum(e: Emitter, node: Node, rate: Value, count: Value, *tensors: Value) -> tuple[Value, ...]:
    """Gradient descent with momentum; the first step takes the gradient as it is."""
    rate, count = e.reshape(rate, ()), e.reshape(count, ())
    alpha, mode = node.attr_float("alpha"), node.attr_str("mode")
    if mode not in ("standard", "nesterov"):
        raise node.error(f"mode must be one of standard, nesterov, got {mode}")

    def step(x: Value, g: Value, v: Value) -> tuple[Value, ...]:
        one, beta = e.full((), elem_of(x), 1.0), e.full((), elem_of(x), node.attr_float("beta"))
        v = _blend(e, alpha, v, e.select(e.map(graph.gt, count, 0), beta, one), g)
        # Nesterov's looks one step ahead
        direction = v if mode == "standard" else e.map(graph.add, g, e.map(graph.mul, v, alpha))
        return e.map(graph.sub, x, e.map(graph.mul, direction, e.cast(rate, elem_of(x)))), v

    return _for_each(e, node, tensors, 3, step)
