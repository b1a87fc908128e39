"""Turn an ONNX file into a torch module, so that Inductor can be measured on the same graph.

Owns the translation of the operators that the benchmark's models use, at bound shapes: ONNX
Runtime's basic level first folds the shape arithmetic away. Not a general importer.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import helper, numpy_helper
from torch import fx, nn
from torch.nn import functional

_Translate = Callable[["_Node"], "fx.Node | list[fx.Node]"]
_TRANSLATIONS: dict[str, _Translate] = {}


def torch_module(path: Path, dims: Mapping[str, int]) -> fx.GraphModule:
    """Translate the model at the given symbolic dims; it takes tensors in the inputs' order."""
    model = _bound(path, dims)
    constants = {init.name: numpy_helper.to_array(init) for init in model.graph.initializer}
    module, graph = nn.Module(), fx.Graph()
    values: dict[str, fx.Node] = {}
    for info in model.graph.input:
        if info.name not in constants:
            values[info.name] = graph.placeholder(f"input_{len(values)}")
    for node in model.graph.node:
        if node.op_type == "Constant":
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    view = _Edges(module, graph, constants, values)
    for node in model.graph.node:
        if node.op_type != "Constant":
            made = _TRANSLATIONS[node.op_type](_Node(node, view))
            parts = made if isinstance(made, list) else [made]
            values.update(zip(node.output, parts, strict=True))
    graph.output(tuple(values[info.name] for info in model.graph.output))
    return fx.GraphModule(module, graph)


def _bound(path: Path, dims: Mapping[str, int]) -> onnx.ModelProto:
    """Fix the dims and fold what then is constant."""
    ort: Any = onnxruntime  # it has no type stubs
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3
    for name, value in dims.items():
        options.add_free_dimension_override_by_name(name, value)
        options.add_free_dimension_override_by_name(f"{name} + 1", value + 1)
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "bound.onnx")
        ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return onnx.load(str(options.optimized_model_filepath))


class _Edges:
    """The names of the graph: constants on one side, fx nodes on the other."""

    def __init__(
        self,
        module: nn.Module,
        graph: fx.Graph,
        constants: dict[str, np.ndarray],
        values: dict[str, fx.Node],
    ) -> None:
        self.module, self.graph = module, graph
        self.constants, self.values = constants, values

    def tensor(self, name: str) -> fx.Node:
        """The fx node of an edge; a constant becomes a buffer on first use."""
        if name not in self.values:
            buffer = f"constant_{len(self.values)}"
            self.module.register_buffer(buffer, torch.from_numpy(self.constants[name].copy()))
            self.values[name] = self.graph.get_attr(buffer)
        return self.values[name]


class _Node:
    """One ONNX node, its operands as tensors or constants and its attributes as Python values."""

    def __init__(self, proto: onnx.NodeProto, edges: _Edges) -> None:
        self._proto, self._edges = proto, edges
        self._attrs = {a.name: helper.get_attribute_value(a) for a in proto.attribute}

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute or its default."""
        return self._attrs.get(name, default)

    def has(self, slot: int) -> bool:
        """Whether the optional operand is there."""
        return slot < len(self._proto.input) and self._proto.input[slot] != ""

    def x(self, slot: int) -> fx.Node | None:
        """An operand as a tensor; None if absent."""
        return self._edges.tensor(self._proto.input[slot]) if self.has(slot) else None

    def constant(self, slot: int) -> np.ndarray | None:
        """An operand's value; None if it is computed."""
        return self._edges.constants.get(self._proto.input[slot])

    def ints(self, slot: int) -> list[int]:
        """An operand that must be constant, as a list of ints."""
        return [int(n) for n in self._edges.constants[self._proto.input[slot]].reshape(-1)]

    def axes(self, slot: int) -> list[int]:
        """Axes that older opsets keep in an attribute."""
        return self.ints(slot) if self.has(slot) else list(self._attrs["axes"])

    def all(self) -> list[fx.Node | None]:
        """Every operand."""
        return [self.x(slot) for slot in range(len(self._proto.input))]

    def operand(self, slot: int) -> fx.Node | float | None:
        """An operand as torch programs write it: a scalar constant behind the first as a number."""
        value = self.constant(slot) if slot > 0 and self.has(slot) else None
        if value is not None and value.ndim == 0 and value.dtype.kind == "f":
            return float(value)
        return self.x(slot)

    def operands(self) -> list[fx.Node | float | None]:
        """Every operand, as `operand` gives it."""
        return [self.operand(slot) for slot in range(len(self._proto.input))]

    def n_outputs(self) -> int:
        """The number of outputs."""
        return len(self._proto.output)

    def call(self, target: Callable[..., object], *args: Any, **kwargs: Any) -> fx.Node:
        """Append a call to the torch graph."""
        return self._edges.graph.call_function(target, args, kwargs)


def _plain(op_type: str, target: Callable[..., object]) -> None:
    """Register an operator whose operands go to one torch function in order."""
    _TRANSLATIONS[op_type] = lambda n: n.call(target, *n.operands())


def _translate(op_type: str) -> Callable[[_Translate], _Translate]:
    def register(function: _Translate) -> _Translate:
        _TRANSLATIONS[op_type] = function
        return function

    return register


for _op_type, _target in {
    "Add": torch.add,
    "And": torch.logical_and,
    "Cos": torch.cos,
    "Div": torch.div,
    "Equal": torch.eq,
    "Erf": torch.erf,
    "IsNaN": torch.isnan,
    "MatMul": torch.matmul,
    "Mul": torch.mul,
    "Neg": torch.neg,
    "Pow": torch.pow,
    "Reciprocal": torch.reciprocal,
    "Relu": torch.relu,
    "Sigmoid": torch.sigmoid,
    "Sin": torch.sin,
    "Sqrt": torch.sqrt,
    "Sub": torch.sub,
    "Tanh": torch.tanh,
    "Where": torch.where,
    "HardSwish": functional.hardswish,
}.items():
    _plain(_op_type, _target)


@_translate("Conv")
def _conv(n: _Node) -> fx.Node:
    pads = list(n.attr("pads", [0, 0, 0, 0]))
    assert pads[:2] == pads[2:], f"asymmetric pads {pads}"
    return n.call(
        functional.conv2d, n.x(0), n.x(1), n.x(2),
        tuple(n.attr("strides", [1, 1])), tuple(pads[:2]),
        tuple(n.attr("dilations", [1, 1])), n.attr("group", 1),
    )  # fmt: skip


@_translate("Gemm")
def _gemm(n: _Node) -> fx.Node:
    assert n.attr("alpha", 1.0) == n.attr("beta", 1.0) == 1.0
    assert not n.attr("transA", 0)
    weight = n.x(1) if n.attr("transB", 0) else n.call(torch.t, n.x(1))
    return n.call(functional.linear, n.x(0), weight, n.x(2))


@_translate("MaxPool")
def _max_pool(n: _Node) -> fx.Node:
    pads = list(n.attr("pads", [0, 0, 0, 0]))
    return n.call(
        functional.max_pool2d, n.x(0), tuple(n.attr("kernel_shape")),
        tuple(n.attr("strides", [1, 1])), tuple(pads[:2]),
    )  # fmt: skip


@_translate("LayerNormalization")
def _layer_norm(n: _Node) -> fx.Node:
    width = n.constant(1)
    assert width is not None
    assert n.attr("axis", -1) == -1
    return n.call(functional.layer_norm, n.x(0), width.shape, n.x(1), n.x(2), n.attr("epsilon", 1e-5))


@_translate("Gelu")
def _gelu(n: _Node) -> fx.Node:
    approximate = n.attr("approximate", b"none")
    return n.call(functional.gelu, n.x(0), approximate=approximate.decode())


@_translate("HardSigmoid")
def _hard_sigmoid(n: _Node) -> fx.Node:
    assert abs(n.attr("alpha", 0.2) - 1 / 6) < 1e-6
    return n.call(functional.hardsigmoid, n.x(0))


@_translate("Softmax")
def _softmax(n: _Node) -> fx.Node:
    return n.call(torch.softmax, n.x(0), n.attr("axis", -1))


@_translate("ReduceMean")
def _reduce_mean(n: _Node) -> fx.Node:
    return n.call(torch.mean, n.x(0), n.axes(1), bool(n.attr("keepdims", 1)))


@_translate("GlobalAveragePool")
def _global_average_pool(n: _Node) -> fx.Node:
    return n.call(torch.mean, n.x(0), [2, 3], keepdim=True)


@_translate("Reshape")
def _reshape(n: _Node) -> fx.Node:
    dims = n.ints(1)
    if 0 in dims:
        return n.call(_reshape_keeping, n.x(0), dims)
    return n.call(torch.reshape, n.x(0), dims)


def _reshape_keeping(x: torch.Tensor, dims: list[int]) -> torch.Tensor:
    """Reshape where 0 keeps the input's dim."""
    return x.reshape([x.shape[i] if dim == 0 else dim for i, dim in enumerate(dims)])


@_translate("Flatten")
def _flatten(n: _Node) -> fx.Node:
    assert n.attr("axis", 1) == 1
    return n.call(torch.flatten, n.x(0), 1)


@_translate("Transpose")
def _transpose(n: _Node) -> fx.Node:
    return n.call(torch.permute, n.x(0), tuple(n.attr("perm")))


@_translate("Concat")
def _concat(n: _Node) -> fx.Node:
    return n.call(torch.cat, n.all(), n.attr("axis"))


@_translate("Split")
def _split(n: _Node) -> list[fx.Node]:
    parts = n.call(torch.split, n.x(0), n.ints(1), n.attr("axis", 0))
    return [n.call(_item, parts, i) for i in range(n.n_outputs())]


def _item(parts: tuple[torch.Tensor, ...], index: int) -> torch.Tensor:
    return parts[index]


@_translate("Slice")
def _slice(n: _Node) -> fx.Node:
    starts, ends = n.ints(1), n.ints(2)
    axes = n.ints(3) if n.has(3) else list(range(len(starts)))
    steps = n.ints(4) if n.has(4) else [1] * len(starts)
    return n.call(_slice_axes, n.x(0), list(zip(starts, ends, axes, steps, strict=True)))


def _slice_axes(x: torch.Tensor, parts: list[tuple[int, int, int, int]]) -> torch.Tensor:
    index = [slice(None)] * x.dim()
    for start, end, axis, step in parts:
        index[axis] = slice(start, end, step)
    return x[tuple(index)]


@_translate("Gather")
def _gather(n: _Node) -> fx.Node:
    axis, index = n.attr("axis", 0), n.constant(1)
    if index is not None and index.ndim == 0:
        return n.call(torch.select, n.x(0), axis, int(index))
    return n.call(_take, n.x(0), n.x(1), axis)


def _take(x: torch.Tensor, index: torch.Tensor, axis: int) -> torch.Tensor:
    """Rows of a table: negative indices do not occur in these models."""
    if axis == 0:
        return functional.embedding(index, x) if x.dim() == 2 else x[index]
    flat = torch.index_select(x, axis, index.reshape(-1))
    return flat.reshape([*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]])


@_translate("Unsqueeze")
def _unsqueeze(n: _Node) -> fx.Node:
    value = n.x(0)
    assert value is not None
    for axis in sorted(n.axes(1)):
        value = n.call(torch.unsqueeze, value, axis)
    return value


@_translate("Squeeze")
def _squeeze(n: _Node) -> fx.Node:
    return n.call(torch.squeeze, n.x(0), tuple(n.axes(1)))


@_translate("Expand")
def _expand(n: _Node) -> fx.Node:
    return n.call(_broadcast, n.x(0), n.ints(1))


def _broadcast(x: torch.Tensor, dims: list[int]) -> torch.Tensor:
    return x.expand(cast("torch.Size", torch.broadcast_shapes(x.shape, dims)))


@_translate("Cast")
def _cast(n: _Node) -> fx.Node:
    dtype: Any = helper.tensor_dtype_to_np_dtype(n.attr("to"))
    like: torch.Tensor = torch.from_numpy(np.zeros(1, dtype))
    return n.call(torch.Tensor.to, n.x(0), like.dtype)
