"""Write ONNX graphs by hand: ops by method, fresh names, healthy random weights.

Owns naming, initialisers and batch-norm calibration. Knows no model and no layer: those are in
`_layers.py` and in one file per model.

"Healthy" means that a wrong compiler shows: weights are fan-in scaled so that activations keep
their size through the depth, norm parameters stay away from 0 and 1, and batch-norm statistics
are those of a real forward pass.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Dim = int | str | None
Shape = Sequence[Dim]


@dataclass(frozen=True, eq=False)
class Value:
    """A named edge of the graph under construction; arithmetic on it appends nodes."""

    graph: Builder
    name: str

    def __add__(self, other: Operand) -> Value:
        return self.graph.Add(self, other)

    def __radd__(self, other: Operand) -> Value:
        return self.graph.Add(other, self)

    def __sub__(self, other: Operand) -> Value:
        return self.graph.Sub(self, other)

    def __rsub__(self, other: Operand) -> Value:
        return self.graph.Sub(other, self)

    def __mul__(self, other: Operand) -> Value:
        return self.graph.Mul(self, other)

    def __rmul__(self, other: Operand) -> Value:
        return self.graph.Mul(other, self)

    def __truediv__(self, other: Operand) -> Value:
        return self.graph.Div(self, other)

    def __matmul__(self, other: Operand) -> Value:
        return self.graph.MatMul(self, other)

    def __neg__(self) -> Value:
        return self.graph.Neg(self)


Operand = Value | np.ndarray | np.generic | float | int | Sequence[int] | None


@dataclass(frozen=True)
class _BatchNorm:
    """Where one BatchNormalization node keeps what calibration fills in."""

    node: int
    mean: str
    variance: str


class Builder:
    """One graph under construction; `save` writes it. Nodes are kept in topological order.

    Constants become initialisers, as the dynamo exporter writes them, or `Constant` nodes
    (`constant_nodes=True`), as the TorchScript exporter does.
    """

    def __init__(self, name: str, *, opset: int, seed: int, constant_nodes: bool = False) -> None:
        self.name = name
        self.opset = opset
        self.rng = np.random.default_rng(seed)
        self.constant_nodes = constant_nodes
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, np.ndarray] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._scope: list[str] = []
        self._used: dict[str, int] = {}
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Value] = {}
        self._batch_norms: list[_BatchNorm] = []

    # -- names ---------------------------------------------------------------------------------

    @contextmanager
    def scope(self, name: str) -> Generator[None]:
        """Prefix the names of everything made inside, as module paths do in an exported file."""
        self._scope.append(name)
        try:
            yield
        finally:
            self._scope.pop()

    def _fresh(self, stem: str) -> str:
        path = ".".join([*self._scope, stem])
        count = self._used.get(path, 0)
        self._used[path] = count + 1
        return path if count == 0 else f"{path}_{count}"

    # -- edges ---------------------------------------------------------------------------------

    def input(self, name: str, shape: Shape, dtype: type = np.float32) -> Value:
        """Declare a graph input; string dims are symbolic."""
        elem = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self._inputs.append(helper.make_tensor_value_info(name, elem, list(shape)))
        return Value(self, name)

    def output(self, value: Value, name: str, shape: Shape, dtype: type = np.float32) -> None:
        """Declare `value` a graph output, renaming the edge to `name`."""
        elem = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self._outputs.append(helper.make_tensor_value_info(name, elem, list(shape)))
        for node in self.nodes:
            for edges in (node.input, node.output):
                for i, edge in enumerate(edges):
                    if edge == value.name:
                        edges[i] = name

    def initializer(self, array: np.ndarray, stem: str) -> Value:
        """Store a parameter under a fresh name."""
        name = self._fresh(stem)
        self.initializers[name] = array
        return Value(self, name)

    def const(self, value: np.ndarray | np.generic | float | int | Sequence[int]) -> Value:
        """Return a constant: Python floats are f32 scalars, ints and int lists are int64."""
        if isinstance(value, float):
            array = np.asarray(value, np.float32)
        elif isinstance(value, (np.ndarray, np.generic)):
            array = np.asarray(value)
        else:
            array = np.asarray(value, np.int64)
        if self.constant_nodes:
            return self.op("Constant", value=numpy_helper.from_array(array))
        key = (str(array.dtype), array.shape, array.tobytes())
        if key not in self._constants:
            stem = f"const_{len(self._constants)}"
            self.initializers[stem] = array
            self._constants[key] = Value(self, stem)
        return self._constants[key]

    # -- parameters ----------------------------------------------------------------------------

    def normal(self, shape: Sequence[int], std: float, stem: str) -> Value:
        """Return a parameter drawn from N(0, std^2)."""
        array = self.rng.standard_normal(tuple(shape), dtype=np.float32)
        return self.initializer(array * np.float32(std), stem)

    def weight(self, *shape: int, fan_in: int, gain: float = 1.0, stem: str = "weight") -> Value:
        """Return a weight with variance gain^2 / fan_in: unit inputs give unit-sized outputs."""
        return self.normal(shape, gain / math.sqrt(fan_in), stem)

    def bias(self, *shape: int, stem: str = "bias") -> Value:
        """Return an additive parameter, small but not zero."""
        return self.normal(shape, 0.1, stem)

    def gain(self, *shape: int, stem: str = "weight") -> Value:
        """Return a norm's multiplicative parameter: away from 0 and not 1."""
        array = self.rng.uniform(0.5, 1.5, shape).astype(np.float32)
        return self.initializer(array, stem)

    # -- nodes ---------------------------------------------------------------------------------

    def ops(self, op_type: str, *operands: Operand, outputs: int, **attrs: Any) -> list[Value]:
        """Append a node and return all of its outputs."""
        edges = [self._edge(operand) for operand in operands]
        names = [self._fresh(op_type) for _ in range(outputs)]
        kept = {key: attr for key, attr in attrs.items() if attr is not None}
        node = helper.make_node(op_type, edges, names, name=f"node_{names[0]}", **kept)
        self.nodes.append(node)
        return [Value(self, name) for name in names]

    def op(self, op_type: str, *operands: Operand, **attrs: Any) -> Value:
        """Append a node with one output."""
        return self.ops(op_type, *operands, outputs=1, **attrs)[0]

    def __getattr__(self, op_type: str) -> Callable[..., Value]:
        """Make every ONNX operator a method: `g.Relu(x)`."""
        if not op_type[:1].isupper():
            raise AttributeError(op_type)
        return lambda *operands, **attrs: self.op(op_type, *operands, **attrs)

    def _edge(self, operand: Operand) -> str:
        if operand is None:
            return ""
        return operand.name if isinstance(operand, Value) else self.const(operand).name

    # -- operators whose signature changed with the opset ---------------------------------------

    def reduce_mean(self, x: Value, axes: Sequence[int], *, keepdims: bool = True) -> Value:
        """ReduceMean: axes are an attribute before opset 18 and an input from there on."""
        if self.opset < 18:
            return self.ReduceMean(x, axes=list(axes), keepdims=int(keepdims))
        return self.ReduceMean(x, list(axes), keepdims=int(keepdims))

    def split(self, x: Value, sizes: Sequence[int], axis: int) -> list[Value]:
        """Split into the given sizes (an input since opset 13)."""
        return self.ops("Split", x, list(sizes), outputs=len(sizes), axis=axis)

    # -- shape arithmetic, in the exporters' form -----------------------------------------------

    def dim(self, x: Value, axis: int) -> Value:
        """One dimension of `x` as an int64 scalar: Shape, then Gather."""
        return self.Gather(self.Shape(x), self.const(axis), axis=0)

    def reshape(self, x: Value, *dims: Value | int) -> Value:
        """Reshape to dims of which some are computed: Unsqueeze each, Concat, Reshape."""
        if all(isinstance(dim, int) for dim in dims):
            return self.Reshape(x, self.const([dim for dim in dims if isinstance(dim, int)]))
        return self.Reshape(x, self.shape_vector(*dims))

    def shape_vector(self, *dims: Value | int) -> Value:
        """An int64 vector of dims of which some are computed scalars."""
        parts = [self.Unsqueeze(d, [0]) if isinstance(d, Value) else self.const([d]) for d in dims]
        return self.Concat(*parts, axis=0)

    # -- batch norm ----------------------------------------------------------------------------

    def batch_norm(self, x: Value, channels: int, *, epsilon: float = 1e-5, gain: float = 1.0) -> Value:
        """BatchNormalization; its statistics are placeholders until `calibrate`.

        The shift is mostly positive: a deep random ReLU network whose activations are centred is
        chaotic, and would turn rounding errors into differences like those of a real bug.
        """
        scale = self.initializer(self.rng.uniform(0.5 * gain, 1.5 * gain, channels).astype(np.float32), "weight")
        shift = self.rng.normal(0.7, 0.2, channels) * gain
        bias = self.initializer(shift.astype(np.float32), "bias")
        mean = self.initializer(np.zeros(channels, np.float32), "running_mean")
        variance = self.initializer(np.ones(channels, np.float32), "running_var")
        self._batch_norms.append(_BatchNorm(len(self.nodes), mean.name, variance.name))
        return self.BatchNormalization(x, scale, bias, mean, variance, epsilon=epsilon)

    def calibrate(self, feeds: Mapping[str, np.ndarray]) -> None:
        """Set every batch norm's statistics to what one forward pass over `feeds` measures.

        One pass suffices: the probe graph normalises with the measured statistics as it goes.
        The feeds may have another batch or image size than the declared input.
        """
        probe = Builder(self.name, opset=self.opset, seed=0)
        probe.initializers = dict(self.initializers)
        probe._used, probe._constants = dict(self._used), dict(self._constants)
        norms = {norm.node: norm for norm in self._batch_norms}
        if not norms:
            return
        for index, node in enumerate(self.nodes):
            if index in norms:
                self._probe_batch_norm(probe, node, norms[index])
            else:
                probe.nodes.append(node)
        for info in self._inputs:
            shape = [None] * len(feeds[info.name].shape)
            probe.input(info.name, shape, feeds[info.name].dtype.type)
        measured = run_model(probe.model(), feeds)
        self.initializers.update(measured)

    def _probe_batch_norm(self, probe: Builder, node: onnx.NodeProto, norm: _BatchNorm) -> None:
        """Write y = (x - mean(x)) / sqrt(var(x) + epsilon) * gain + bias, exposing both moments."""
        x = Value(probe, node.input[0])
        gain, bias = (self.initializers[name].reshape(-1, 1, 1) for name in node.input[1:3])
        mean = probe.reduce_mean(x, [0, 2, 3])
        centred = x - mean
        variance = probe.reduce_mean(centred * centred, [0, 2, 3]) + 1e-3
        y = centred / probe.Sqrt(variance) * gain + bias
        probe.nodes[-1].output[0] = node.output[0]
        assert y.graph is probe
        for moment, name in ((mean, norm.mean), (variance, norm.variance)):
            del probe.initializers[name]
            flat = probe.Reshape(moment, [-1])
            probe.output(flat, name, [None])

    @staticmethod
    def adopt(model: onnx.ModelProto) -> Builder:
        """Take over an existing graph, so that its batch norms can be calibrated."""
        builder = Builder(model.graph.name, opset=model.opset_import[0].version, seed=0)
        builder.nodes = list(model.graph.node)
        tensors = model.graph.initializer
        builder.initializers = {init.name: numpy_helper.to_array(init) for init in tensors}
        builder._inputs = [info for info in model.graph.input if info.name not in builder.initializers]
        builder._batch_norms = [
            _BatchNorm(index, node.input[3], node.input[4])
            for index, node in enumerate(builder.nodes)
            if node.op_type == "BatchNormalization"
        ]
        return builder

    # -- the file ------------------------------------------------------------------------------

    def model(self) -> onnx.ModelProto:
        """The graph so far as a ModelProto."""
        return self._of([numpy_helper.from_array(a, name) for name, a in self.initializers.items()])

    def _of(self, tensors: Sequence[TensorProto]) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, self.name, self._inputs, self._outputs, tensors)
        opsets = [helper.make_opsetid("", self.opset)]
        ir_version = helper.find_min_ir_version_for(opsets)
        if any(node.domain == MICROSOFT for node in self.nodes):
            opsets.append(helper.make_opsetid(MICROSOFT, 1))
        return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version, producer_name="graphfuse.models")

    def save(self, path: Path) -> None:
        """Write the model to `path`."""
        onnx.save(self.model(), path)

    def save_apart(self, path: Path) -> None:
        """Write the model to `path` and its parameters, one after the other, to a file beside it: they may be large."""
        beside, tensors = path.with_name(f"{path.name}.data"), list[TensorProto]()
        with beside.open("wb") as file:
            for name, array in self.initializers.items():
                if array.nbytes < APART_BYTES:
                    tensors.append(numpy_helper.from_array(array, name))
                    continue
                file.seek(-(-file.tell() // APART_BYTES) * APART_BYTES)
                elem, where = helper.np_dtype_to_tensor_dtype(array.dtype), TensorProto.EXTERNAL
                tensors.append(TensorProto(name=name, data_type=elem, dims=array.shape, data_location=where))
                for key, value in (("location", beside.name), ("offset", file.tell()), ("length", array.nbytes)):
                    tensors[-1].external_data.add(key=key, value=str(value))
                file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        onnx.save(self._of(tensors), path)


def run_model(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run once on ONNX Runtime where it is installed, else on onnx's reference evaluator."""
    names = [info.name for info in model.graph.output]
    evaluate: Callable[..., Any]
    try:
        ort: Any = importlib.import_module("onnxruntime")
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        evaluate = cast("Any", ReferenceEvaluator(model)).run
    else:
        options = ort.SessionOptions()
        options.log_severity_level = 3  # a probe leaves the norms' parameters unused
        evaluate = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run
    return {name: np.asarray(value) for name, value in zip(names, evaluate(names, dict(feeds)), strict=True)}


INT64 = np.int64
MICROSOFT = "com.microsoft"
APART_BYTES = 1 << 12
"""Of a parameter that is worth a place in another file, which is at a multiple of so many."""
FLOAT = TensorProto.FLOAT
BOOL = TensorProto.BOOL
