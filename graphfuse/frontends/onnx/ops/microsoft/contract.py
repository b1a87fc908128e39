"""Products with transposed operands, scales and activations; distances, inverses, complex products."""

from __future__ import annotations

from graphfuse.dialects import graph
from graphfuse.frontends.compositions import gelu_of
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.onnx.node import MICROSOFT, Node, one_of, onnx_op
from graphfuse.frontends.onnx.ops.contract import gemm, matmul_of, pivoted, square_matrices
from graphfuse.frontends.onnx.ops.control import loop_of
from graphfuse.frontends.onnx.ops.microsoft.activation import activated, named_parameters
from graphfuse.ir.core import Value
from graphfuse.ir.types import I32, I64
from graphfuse.symbolic import Dim


def _operand(e: Emitter, node: Node, i: int, name: str) -> Value:
    """Input `i` as numpy's matmul wants it: batches before rows, the last two dims swapped where asked for."""
    x = node.value(e, i)
    rank = tensor(x).rank
    if rank < 2:
        return x
    perm = list(range(rank))
    if node.attr_int(f"transBatch{name}", 0):
        perm = [*range(1, rank - 1), 0, rank - 1]
    if node.attr_int(f"trans{name}", 0):
        perm[-2:] = perm[:-3:-1]
    return e.permute(x, perm)


@onnx_op("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", domain=MICROSOFT)
def fused_matmul(e: Emitter, node: Node) -> Value:
    """alpha * A' B', then an activation if the operator has one."""
    y = matmul_of(e, _operand(e, node, 0, "A"), _operand(e, node, 1, "B"))
    alpha = node.attr_float("alpha", 1.0)
    y = e.map(graph.mul, y, alpha) if alpha != 1.0 else y
    return activated(e, node, y, named_parameters(node))


@onnx_op("FusedGemm", domain=MICROSOFT)
def fused_gemm(e: Emitter, node: Node, a: Value, b: Value, c: Value | None = None) -> Value:
    """An activation of alpha * A' B' + beta * C."""
    return activated(e, node, gemm(e, node, a, b, c), named_parameters(node))


@onnx_op("GemmFastGelu", domain=MICROSOFT)
def gemm_fast_gelu(e: Emitter, node: Node, x: Value, w: Value, bias: Value | None = None) -> Value:
    """gelu(x w [+ bias]), by tanh."""
    y = matmul_of(e, x, w)
    return gelu_of(e, y if bias is None else e.map(graph.add, y, bias), by_tanh=True)


@onnx_op("MatMulInteger16", domain=MICROSOFT)
def matmul_integer16(e: Emitter, node: Node, a: Value, b: Value) -> Value:
    """The product of 16-bit matrices in i32."""
    return matmul_of(e, e.cast(a, I32), e.cast(b, I32))


@onnx_op("CDist", domain=MICROSOFT)
def cdist(e: Emitter, node: Node, a: Value, b: Value) -> Value:
    """Distances of all rows of A from all rows of B: |a|^2 - 2 a b + |b|^2, not below 0, or its root."""
    metric = one_of("metric", node.attr_str("metric", "sqeuclidean"), ("euclidean", "sqeuclidean"), node.unsupported)
    norm_a, norm_b = (e.reduce(e.map(graph.mul, x, x), "sum", [1], keepdims=False) for x in (a, b))
    cross = e.map(graph.mul, e.contract(a, b, "mk,nk->mn"), -2.0)
    square = e.map(graph.add, e.map(graph.add, cross, e.unsqueeze(norm_a, 1)), norm_b)
    square = e.map(graph.max_, square, 0.0)
    return e.map(graph.sqrt, square) if metric == "euclidean" else square


@onnx_op("ComplexMul", "ComplexMulConj", domain=MICROSOFT)
def complex_mul(e: Emitter, node: Node, a: Value, b: Value) -> Value:
    """a * b, or a * conj(b), of complex numbers whose parts are the last dim."""
    for x in (a, b):
        if shape_of(x)[-1] != 2:
            raise node.error(f"the last dim must hold two parts, got {x.type}")
    ar, ai = e.split(a, (1, 1), -1)
    br, bi = e.split(b, (1, 1), -1)
    bi = e.map(graph.neg, bi) if node.op == "ComplexMulConj" else bi
    real = e.map(graph.sub, e.map(graph.mul, ar, br), e.map(graph.mul, ai, bi))
    imaginary = e.map(graph.add, e.map(graph.mul, ar, bi), e.map(graph.mul, ai, br))
    return e.concat([real, imaginary], tensor(real).rank - 1)


@onnx_op("Inverse", domain=MICROSOFT)
def inverse(e: Emitter, node: Node, x: Value) -> Value:
    """Inverses of matrices by Gauss-Jordan elimination with row pivoting: [A | I] becomes [I | inverse]."""
    wide = square_matrices(e, node, x)
    count, n, _ = shape_of(wide)
    unit = e.map(graph.eq, e.iota((n, n), 0), e.iota((n, n), 1))
    unit = e.select(unit, e.full((n, n), elem_of(wide), 1.0), 0.0)
    rows = e.iota((1, n), 1)

    def step(at: Dim, carried: tuple[Value, ...]) -> list[Value]:
        (a,) = carried
        here = e.full((), I64, at)
        a, _ = pivoted(e, a, at)
        row = e.slice(a, 1, at, 1)
        row = e.map(graph.div, row, e.slice(row, 2, at, 1))
        cleared = e.map(graph.sub, a, e.map(graph.mul, e.slice(a, 2, at, 1), row))
        return [e.select(e.unsqueeze(e.map(graph.eq, rows, here), 2), row, cleared)]

    joined = e.concat([wide, e.broadcast(unit, (count, n, n))], 2)
    (out,) = loop_of(e, n, [joined], step)
    return e.reshape(e.cast(e.slice(out, 2, n, n), elem_of(x)), shape_of(x))
