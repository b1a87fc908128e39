"""Matrix products: MatMul, Gemm, Einsum and the integer forms; determinants."""

from __future__ import annotations

import string
from collections.abc import Mapping

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.onnx.node import Node, onnx_op
from graphfuse.frontends.onnx.ops.control import loop_of
from graphfuse.ir.core import Value
from graphfuse.ir.types import I32, I64, Scalar
from graphfuse.symbolic import Dim, product


def matmul_of(e: Emitter, a: Value, b: Value, elem: Scalar | None = None, *, rounded_block: int = 0) -> Value:
    """numpy's matmul: vectors are promoted, leading dims broadcast."""
    row, column = ("m" if tensor(a).rank > 1 else ""), ("n" if tensor(b).rank > 1 else "")
    lead = e.broadcast_shape(shape_of(a)[:-2], shape_of(b)[:-2])
    labels = "".join(c for c in string.ascii_lowercase if c not in "kmn")[: len(lead)]
    dims = dict(zip(labels, lead, strict=True))
    a, labels_a = _widened(e, a, f"{labels[len(lead) - len(shape_of(a)[:-2]) :]}{row}k", dims)
    b, labels_b = _widened(e, b, f"{labels[len(lead) - len(shape_of(b)[:-2]) :]}k{column}", dims)
    return e.contract(a, b, f"{labels_a},{labels_b}->{labels}{row}{column}", elem, rounded_block=rounded_block)


def _widened(e: Emitter, x: Value, labels: str, wide: Mapping[str, Dim]) -> tuple[Value, str]:
    """An operand with the dims, by label, that it and another broadcast to, and its labels then."""
    dims = list(zip(labels, shape_of(x), strict=True))
    x = e.broadcast(x, [d if d == 1 else wide.get(label, d) for label, d in dims])
    # a dim of 1 against another size is left out: contract has no broadcasting
    thin = [i for i, (label, d) in enumerate(dims) if d == 1 and wide.get(label, d) != 1]
    return e.squeeze(x, *thin), "".join(label for i, label in enumerate(labels) if i not in thin)


@onnx_op("MatMul")
def matmul(e: Emitter, node: Node, a: Value, b: Value) -> Value:
    """numpy's matmul."""
    for i, x in enumerate((a, b)):
        if tensor(x).rank == 0:
            raise node.error(f"input {i} must have at least one dim")
    return matmul_of(e, a, b)


@onnx_op("Gemm")
def gemm(e: Emitter, node: Node, a: Value, b: Value, c: Value | None = None) -> Value:
    """alpha * A' B' + beta * C."""
    if tensor(a).rank != 2 or tensor(b).rank != 2:
        raise node.error(f"operands must be matrices, got {a.type} and {b.type}")
    spec = f"{'km' if node.attr_int('transA', 0) else 'mk'},{'nk' if node.attr_int('transB', 0) else 'kn'}->mn"
    out = e.contract(a, b, spec)
    alpha, beta = node.attr_float("alpha", 1.0), node.attr_float("beta", 1.0)
    if alpha != 1.0:
        out = e.map(graph.mul, out, alpha)
    if c is None or beta == 0.0:
        return out
    c = e.spread(e.map(graph.mul, c, beta) if beta != 1.0 else c, shape_of(out))
    return e.map(graph.add, out, c)


@onnx_op("MatMulInteger")
def matmul_integer(
    e: Emitter, node: Node, a: Value, b: Value, zero_a: Value | None = None, zero_b: Value | None = None
) -> Value:
    """The product of 8-bit matrices less their zero points, in i32."""
    return matmul_of(e, centred(e, a, zero_a, -2), centred(e, b, zero_b, -1))


def per_axis(e: Emitter, v: Value, axis: int, rank: int) -> Value:
    """Numbers that go with a tensor of `rank` dims: a single one as a scalar, a vector as of one of the dims."""
    if tensor(v).elements == 1:
        return e.reshape(v, ())
    return e.reshape(v, (*shape_of(v), *(1,) * (rank - 1 - axis % rank))) if tensor(v).rank == 1 else v


def centred(e: Emitter, x: Value, zero: Value | None, axis: int) -> Value:
    """x in i32, less its zero point, or those of an axis."""
    wide = e.cast(x, I32)
    if zero is None:
        return wide
    zero = per_axis(e, e.cast(zero, I32), axis, tensor(x).rank)
    return e.map(graph.sub, wide, e.spread(zero, shape_of(wide)))


# einsum


@onnx_op("Einsum")
def einsum(e: Emitter, node: Node, *values: Value) -> Value:
    """Einstein summation; more than two operands are contracted pairwise from the left."""
    terms, out = _parse(node, [tensor(v).rank for v in values])
    acc, labels = _without_repeats(e, values[0], terms[0])
    for i in range(1, len(values)):
        other, other_labels = _without_repeats(e, values[i], terms[i])
        needed = set(out).union(*terms[i + 1 :])
        joined = "".join(dict.fromkeys(c for c in labels + other_labels if c in needed))
        ours, theirs = (dict(zip(ls, shape_of(v), strict=True)) for ls, v in ((labels, acc), (other_labels, other)))
        wide = {c: e.broadcast_dim(ours[c], theirs[c]) for c in sorted(ours.keys() & theirs.keys())}
        (acc, labels), (other, other_labels) = _widened(e, acc, labels, wide), _widened(e, other, other_labels, wide)
        acc = e.contract(acc, other, f"{labels},{other_labels}->{joined}")
        labels = joined
    summed = [i for i, c in enumerate(labels) if c not in out]
    elem = elem_of(acc)
    if summed:
        acc = e.cast(e.reduce(e.wide(acc), "sum", summed, keepdims=False), elem)
    labels = "".join(c for c in labels if c in out)
    return e.permute(acc, [labels.index(c) for c in out])


def _parse(node: Node, ranks: list[int]) -> tuple[list[str], str]:
    """Label strings of operands and result, the ellipsis spelled out in unused letters."""
    equation = node.attr_str("equation").replace(" ", "")
    left, arrow, out = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise node.error(f"equation {equation!r} has {len(terms)} operands, the node {len(ranks)}")
    extra = [rank - len(t.replace("...", "")) if "..." in t else 0 for t, rank in zip(terms, ranks, strict=True)]
    spare = [c for c in string.ascii_letters if c not in equation]
    deepest = max(extra, default=0)
    dots = "".join(spare[:deepest])
    expanded = [t.replace("...", dots[deepest - n :]) for t, n in zip(terms, extra, strict=True)]
    for t, rank, text in zip(expanded, ranks, terms, strict=True):
        if len(t) != rank:
            raise node.error(f"term {text!r} does not fit an operand of {rank} dims")
    if not arrow:
        letters = "".join(terms).replace("...", "")
        out = ("..." if "..." in left else "") + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    out = out.replace("...", dots)
    if missing := sorted(set(out) - set("".join(expanded))):
        raise node.error(f"output label {missing[0]!r} is in no operand")
    return expanded, out


def _without_repeats(e: Emitter, x: Value, labels: str) -> tuple[Value, str]:
    """Take diagonals until no label repeats."""
    for c in dict.fromkeys(labels):
        while labels.count(c) > 1:
            first = labels.index(c)
            second = labels.index(c, first + 1)
            shape = shape_of(x)
            e.require("equal", shape[first], shape[second], f"dim {c!r}")
            on = e.map(graph.eq, e.iota(shape, first), e.iota(shape, second))
            x = e.reduce(e.select(on, x, 0), "sum", [second], keepdims=False)
            labels = labels[:second] + labels[second + 1 :]
    return x, labels


def square_matrices(e: Emitter, node: Node, x: Value) -> Value:
    """x as [count, n, n], of halves in f32."""
    *batch, n, columns = shape_of(x) if tensor(x).rank > 1 else (0, 1)
    if not e.same(n, columns):
        raise node.error(f"expected square matrices, got {x.type}")
    return e.reshape(e.wide(x), (product(batch), n, n))


def pivoted(e: Emitter, a: Value, at: Dim) -> tuple[Value, Value]:
    """Matrices `count x n x m` with the row of the largest element of column `at`, from row `at` on, swapped there.

    Also the number of that row, `count x 1`.
    """
    count, n, columns = shape_of(a)
    rows, here = e.iota((1, n), 1), e.full((), I64, at)
    size = e.map(graph.abs_, e.squeeze(e.slice(a, 2, at, 1), 2))
    size = e.select(e.map(graph.ge, rows, here), size, -1.0)
    pivot = e(graph.arg_reduce, size, axis=1, kind="max", keepdims=True)
    order = e.select(e.map(graph.eq, rows, pivot), here, rows)
    order = e.select(e.map(graph.eq, rows, here), pivot, order)
    return e(graph.take_along, a, e.broadcast(e.unsqueeze(order, 2), (count, n, columns)), axis=1), pivot


@onnx_op("Det")
def det(e: Emitter, node: Node, x: Value) -> Value:
    """The determinant of matrices: the product of the pivots of Gaussian elimination, with the sign of row swaps."""
    matrices = square_matrices(e, node, x)
    count, n, _ = shape_of(matrices)
    rows = e.iota((1, n), 1)

    def step(at: Dim, carried: tuple[Value, ...]) -> list[Value]:
        a, product_so_far = carried
        here = e.full((), I64, at)
        a, pivot = pivoted(e, a, at)
        row, column = e.slice(a, 1, at, 1), e.slice(a, 2, at, 1)
        found = e.slice(row, 2, at, 1)
        factor = e.map(graph.div, column, e.select(e.map(graph.eq, found, 0.0), 1.0, found))
        factor = e.select(e.unsqueeze(e.map(graph.gt, rows, here), 2), factor, 0.0)
        found = e.reshape(found, (count,))
        found = e.select(e.map(graph.eq, e.squeeze(pivot, 1), here), found, e.map(graph.neg, found))
        return [e.map(graph.sub, a, e.map(graph.mul, factor, row)), e.map(graph.mul, product_so_far, found)]

    _, out = loop_of(e, n, [matrices, e.full((count,), elem_of(matrices), 1.0)], step)
    return e.reshape(e.cast(out, elem_of(x)), shape_of(x)[:-2])
