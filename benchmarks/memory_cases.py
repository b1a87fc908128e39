"""Memory-bound operations as ONNX models, with what torch computes for the same inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper

OPSET = 23
EPSILON = 1e-5
_ONNX = {"f32": TensorProto.FLOAT, "bf16": TensorProto.BFLOAT16, "i64": TensorProto.INT64}
_BYTES = {"f32": 4, "bf16": 2, "i64": 8}

Node = tuple[str, str, str, dict[str, Any]]
"""Op, inputs, output, attributes; names are separated by blanks."""


@dataclass(frozen=True)
class Case:
    """One operation. Inputs named `x`, `y`, ... are of `elem`; the output is `out`."""

    name: str
    elem: str
    inputs: tuple[tuple[int, ...], ...]
    out: tuple[int, ...]
    nodes: tuple[Node, ...]
    torch: Callable[..., Any]
    """The same on torch tensors, given torch's module first."""
    out_elem: str = ""
    tolerance: float = 1e-5
    """Of the largest element of what is expected; for positions, how many may differ."""
    softmax: bool = False
    pointwise: bool = False
    """Whether an element of the output needs only the elements in its place."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the inputs."""
        return tuple("xyzuv"[: len(self.inputs)])

    @property
    def result(self) -> str:
        """The output's element."""
        return self.out_elem or self.elem

    @property
    def nbytes(self) -> int:
        """Read once and written once."""
        read = sum(math.prod(s) for s in self.inputs) * _BYTES[self.elem]
        return read + math.prod(self.out) * _BYTES[self.result]

    def model(self) -> onnx.ModelProto:
        """As ONNX."""
        constants = [helper.make_tensor("rows", TensorProto.INT64, [1], [0])]
        constants += [helper.make_tensor("columns", TensorProto.INT64, [1], [1])]
        constants += [helper.make_tensor("axis1", TensorProto.INT64, [], [1])]
        used = {name for _, names, _, _ in self.nodes for name in names.split()}
        nodes: list[NodeProto] = [
            helper.make_node(op, names.split(), [out], **attrs) for op, names, out, attrs in self.nodes
        ]
        given = zip(self.names, self.inputs, strict=True)
        graph = helper.make_graph(
            nodes,
            "case",
            [helper.make_tensor_value_info(name, _ONNX[self.elem], shape) for name, shape in given],
            [helper.make_tensor_value_info("out", _ONNX[self.result], self.out)],
            [c for c in constants if c.name in used],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


def _layer_norm(torch: Any, x: Any, y: Any, z: Any, u: Any) -> Any:
    return torch.nn.functional.layer_norm(x + y, (x.shape[-1],), z, u, EPSILON)


def _rms_norm(torch: Any, x: Any, z: Any) -> Any:
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), z, EPSILON)


def _add_rms_norm(torch: Any, x: Any, y: Any, z: Any) -> Any:
    return torch.nn.functional.rms_norm(x + y, (x.shape[-1],), z, EPSILON)


def _chain(torch: Any, x: Any, y: Any) -> Any:
    return torch.nn.functional.gelu(x) * torch.sigmoid(y)


def softmax(rows: int, columns: int) -> Case:
    """Over rows."""
    shape = (rows, columns)
    nodes: tuple[Node, ...] = (("Softmax", "x", "out", {"axis": -1}),)
    return Case(
        f"softmax f32 {rows}x{columns}", "f32", (shape,), shape, nodes,
        lambda torch, x: torch.softmax(x, -1), softmax=True,
    )  # fmt: skip


def cases(scale: int = 1) -> list[Case]:
    """The table of memory-bound rows. With a `scale`, a power of two, so many times fewer rows of the same length."""
    n, side, line = max(1, (1 << 30) // scale), 1 << 13, max(1, (1 << 28) // scale)
    high = max(4, side // scale)
    square, flat, norm = (high, side), (n,), (max(4, (1 << 14) // scale), side)
    wide = side
    epsilon: dict[str, Any] = {"axis": -1, "epsilon": EPSILON}
    chain: tuple[Node, ...] = (("Gelu", "x", "a", {}), ("Sigmoid", "y", "b", {}), ("Mul", "a b", "out", {}))
    bf16 = 2e-2
    add: tuple[Node, ...] = (("Add", "x y", "out", {}),)
    out = [
        Case("vector add f32", "f32", (flat, flat), flat, add, lambda _, x, y: x + y, pointwise=True),
        Case("gelu(x) * sigmoid(y) f32", "f32", (flat, flat), flat, chain, _chain, pointwise=True),
        Case("gelu(x) * sigmoid(y) bf16", "bf16", (flat, flat), flat, chain, _chain, tolerance=bf16, pointwise=True),
    ]
    out += [softmax(max(1, side * side // scale >> bits), 1 << bits) for bits in range(6, 19)]
    norms: list[tuple[str, tuple[tuple[int, ...], ...], tuple[Node, ...], Callable[..., Any]]] = [
        (
            "add + layernorm", (norm, norm, (wide,), (wide,)),
            (("Add", "x y", "s", {}), ("LayerNormalization", "s z u", "out", epsilon)), _layer_norm,
        ),
        (
            "add + rmsnorm", (norm, norm, (wide,)),
            (("Add", "x y", "s", {}), ("RMSNormalization", "s z", "out", epsilon)), _add_rms_norm,
        ),
        (
            "rmsnorm", (norm, (wide,)),
            (("RMSNormalization", "x y", "out", epsilon),), _rms_norm,
        ),
    ]  # fmt: skip
    out += [Case(f"{name} bf16", "bf16", shapes, norm, nodes, fn, tolerance=bf16) for name, shapes, nodes, fn in norms]
    keep0: dict[str, Any] = {"keepdims": 0}
    out += [
        Case(
            "transpose f32", "f32", (square,), (side, high), (("Transpose", "x", "out", {"perm": [1, 0]}),),
            lambda _, x: x.t().contiguous(),
        ),
        Case(
            "sum f32", "f32", ((line,),), (), (("ReduceSum", "x rows", "out", keep0),),
            lambda _, x: x.sum(), tolerance=1e-3,
        ),
        Case(
            "row sums f32", "f32", (square,), (high,), (("ReduceSum", "x columns", "out", keep0),),
            lambda _, x: x.sum(1),
        ),
        Case(
            "column sums f32", "f32", (square,), (side,), (("ReduceSum", "x rows", "out", keep0),),
            lambda _, x: x.sum(0),
        ),
        Case(
            "row maxima f32", "f32", (square,), (high,), (("ReduceMax", "x columns", "out", keep0),),
            lambda _, x: x.amax(1),
        ),
        Case(
            "cumsum f32", "f32", (square,), square, (("CumSum", "x axis1", "out", {}),),
            lambda _, x: x.cumsum(1), tolerance=1e-4,
        ),
        Case(
            "argmax f32, rows", "f32", (square,), (high,), (("ArgMax", "x", "out", {"axis": 1, **keep0}),),
            lambda _, x: x.argmax(1), out_elem="i64", tolerance=0,
        ),
        Case(
            "argmax f32, columns", "f32", (square,), (side,), (("ArgMax", "x", "out", {"axis": 0, **keep0}),),
            lambda _, x: x.argmax(0), out_elem="i64", tolerance=0,
        ),
    ]  # fmt: skip
    return out


def host_inputs(case: Case, seed: int = 0) -> dict[str, np.ndarray]:
    """Random normal numpy inputs (bf16 as ml_dtypes)."""
    rng = np.random.default_rng(seed)
    out: dict[str, np.ndarray] = {}
    for name, shape in zip(case.names, case.inputs, strict=True):
        x = rng.standard_normal(shape, dtype=np.float32)
        if case.elem == "bf16":
            import ml_dtypes

            x = x.astype(ml_dtypes.bfloat16)
        out[name] = x
    return out
