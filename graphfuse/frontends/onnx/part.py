"""Models made of some nodes of another: what they read of the others is an input, or a constant.

For `graphfuse reduce`, which looks for the fewest nodes with which something goes wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import shape_inference
from onnx.reference import ReferenceEvaluator

from graphfuse.errors import GraphfuseError
from graphfuse.files import writing
from graphfuse.frontends.host_values import Array
from graphfuse.frontends.onnx.cut import reads
from graphfuse.frontends.onnx.load import read_whole
from graphfuse.frontends.onnx.specialise import tensor_proto, value_info

MOST_CONSTANT_BYTES = 1 << 30
"""Of constants in a part: a message of protobuf has at most two of these."""
DECIDING_ELEMENTS = 64
"""Integers up to so many may be a shape, axes or a count, which operators want to know."""


@dataclass(frozen=True)
class Choice:
    """Which nodes a part has, by their number, and how it is made."""

    nodes: tuple[int, ...]
    outputs: frozenset[str] = frozenset()
    """Values that are outputs although nodes read them, if they are made at all."""
    static: bool = False
    """Whether inputs have the shapes of their values, and no symbolic dims."""
    constant: bool = True
    """Whether what it reads of other nodes and may decide shapes is a constant."""
    ones: frozenset[str] = frozenset()
    """Initialisers that are all ones."""


@dataclass
class Whole:
    """A model with its values, of which parts are made."""

    path: Path
    feed: dict[str, Array]
    """Values of its inputs."""
    values: dict[str, Array] = field(default_factory=dict[str, Array])
    """What nodes made of these, by name; where there is none, values are made up if their type is known."""

    def __post_init__(self) -> None:
        self.model, self.weights = read_whole(self.path)
        graph = self.model.graph
        self.nodes: list[onnx.NodeProto] = list(graph.node)
        self.small = {t.name: t for t in graph.initializer}
        constants = {*self.weights, *self.small}
        self.inputs = {i.name: i for i in graph.input if i.name not in constants}
        self.outputs = [o.name for o in graph.output]
        self._reads = [reads(n) for n in self.nodes]
        self._read = {name for names in self._reads for name in names}
        self.infos: dict[str, onnx.ValueInfoProto] = {v.name: v for v in (*graph.value_info, *graph.output)}
        try:
            inferred = shape_inference.infer_shapes(self.model, data_prop=True).graph
            self.infos |= {v.name: v for v in (*inferred.value_info, *inferred.output)}
        except (RuntimeError, ValueError, shape_inference.InferenceError):
            pass  # of operators that onnx does not know, or a model that is wrong
        self.infos |= self.inputs

    def needed(self, outputs: Collection[str]) -> tuple[int, ...]:
        """The nodes that these values depend on, in order."""
        wanted, kept = set(outputs), list[int]()
        for i in reversed(range(len(self.nodes))):
            if wanted & {o for o in self.nodes[i].output if o}:
                kept.append(i)
                wanted |= set(self._reads[i])
        return tuple(reversed(kept))

    def declared(self, name: str) -> tuple[np.dtype[Any], list[int | str]] | None:
        """The type and the dims of an input, 1 where there is no name; None of what is no tensor of numbers."""
        t = self.inputs[name].type
        if not t.HasField("tensor_type") or not t.tensor_type.HasField("shape"):
            return None
        if t.tensor_type.elem_type in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING):
            return None
        dims = [d.dim_value if d.HasField("dim_value") else d.dim_param or 1 for d in t.tensor_type.shape.dim]
        return onnx.helper.tensor_dtype_to_np_dtype(t.tensor_type.elem_type), dims

    def everything(self) -> Choice:
        """All nodes, and all tensors that they make."""
        made = (o for n in self.nodes if n.op_type != "Constant" for o in n.output if o)
        made = (o for o in made if o not in self.infos or self.infos[o].type.HasField("tensor_type"))
        return Choice(tuple(range(len(self.nodes))), frozenset(made))

    def part(self, choice: Choice) -> tuple[onnx.ModelProto, dict[str, Array]] | None:
        """The model, and the values of its inputs; None where something that it reads is not known."""
        made = {o for i in choice.nodes for o in self.nodes[i].output if o}
        wanted = dict.fromkeys(name for i in choice.nodes for name in self._reads[i] if name not in made)
        out, feed, nbytes = onnx.ModelProto(), dict[str, Array](), 0
        out.CopyFrom(onnx.ModelProto(ir_version=max(self.model.ir_version, 4)))
        out.opset_import.extend(self.model.opset_import)
        out.functions.extend(self.model.functions)
        out.graph.name = self.model.graph.name or "part"
        out.graph.node.extend(self.nodes[i] for i in choice.nodes)
        sizes: dict[str, int] = {}
        for name in wanted:
            if name in self.small and name not in choice.ones:
                out.graph.initializer.append(self.small[name])
                continue
            value = self._value(name)
            if value is None:
                return None
            if name in choice.ones:
                value = np.ones_like(value)
            is_weight = name in self.weights or name in self.small
            deciding = choice.constant and name not in self.inputs and _may_decide(value)
            is_strange = np.dtype(value.dtype.str) != value.dtype  # no .npy has it
            if (is_weight or deciding or is_strange) and nbytes + value.nbytes <= MOST_CONSTANT_BYTES:
                nbytes += value.nbytes
                out.graph.initializer.append(tensor_proto(name, value))
            else:
                feed[name] = value
                out.graph.input.append(self._info(name, value, sizes, static=choice.static))
        inside = {name for i in choice.nodes for name in self._reads[i] if name in made}
        left = [o for i in choice.nodes for o in self._results(i, inside, choice)]
        out.graph.output.extend(self._output(o, static=choice.static) for o in dict.fromkeys(left))
        return (out, feed) if left else None

    def large_constants(self, nodes: Sequence[int]) -> list[str]:
        """The initialisers of floats that these nodes read, but for scalars and the like."""
        names = dict.fromkeys(n for i in nodes for n in self._reads[i] if n in self.weights or n in self.small)
        found = ((n, self._value(n)) for n in names)
        return [n for n, v in found if v is not None and v.size > DECIDING_ELEMENTS and v.dtype.kind not in "iubOUS"]

    def _results(self, i: int, inside: Collection[str], choice: Choice) -> list[str]:
        """Which results of a node are outputs: what others of the whole read of it, and none `inside` of the part."""
        mine = [o for o in self.nodes[i].output if o]
        used = [o for o in mine if o in self._read or o in self.outputs] or mine
        return [o for o in used if o not in inside or o in choice.outputs]

    def _value(self, name: str) -> Array | None:
        if name in self.weights:
            return self.weights[name]
        if name in self.small:
            return onnx.numpy_helper.to_array(self.small[name])
        found = self.feed.get(name, self.values.get(name))
        return found if found is not None else self._made_up(name)

    def _made_up(self, name: str) -> Array | None:
        """Numbers of the type that a value is known to have, its symbolic dims those of the inputs."""
        if name not in self.infos or not self.infos[name].type.HasField("tensor_type"):
            return None
        declared, sizes, shape = self.infos[name].type.tensor_type, dict[str, int](), list[int]()
        for other, info in self.inputs.items():
            if other in self.feed:
                dims = info.type.tensor_type.shape.dim
                sizes |= {d.dim_param: n for d, n in zip(dims, self.feed[other].shape, strict=False) if d.dim_param}
        for d in declared.shape.dim:
            if d.dim_param not in sizes and not d.HasField("dim_value"):
                return None
            shape.append(d.dim_value if d.HasField("dim_value") else sizes[d.dim_param])
        if not declared.HasField("shape") or declared.elem_type in (0, onnx.TensorProto.STRING):
            return None
        dtype = onnx.helper.tensor_dtype_to_np_dtype(declared.elem_type)
        return np.random.default_rng(0).standard_normal(shape).astype(dtype)

    def _info(self, name: str, value: Array, sizes: dict[str, int], *, static: bool) -> onnx.ValueInfoProto:
        """The type of an input: what is known of it, or that of its value. Equal dims have equal sizes, in `sizes`."""
        exact = value_info(name, value)
        known = self.infos.get(name)
        if static or known is None or not known.type.HasField("tensor_type"):
            return exact
        declared = known.type.tensor_type
        if declared.elem_type != exact.type.tensor_type.elem_type or len(declared.shape.dim) != value.ndim:
            return exact
        for mine, theirs, n in zip(exact.type.tensor_type.shape.dim, declared.shape.dim, value.shape, strict=True):
            if theirs.dim_param and sizes.setdefault(theirs.dim_param, n) == n:
                mine.dim_param = theirs.dim_param
        return exact

    def _output(self, name: str, *, static: bool) -> onnx.ValueInfoProto:
        known = self.infos.get(name)
        if known is None or static:
            elem = known.type.tensor_type.elem_type if known is not None else 0
            return onnx.ValueInfoProto(name=name) if not elem else onnx.helper.make_tensor_value_info(name, elem, None)
        return known


def _may_decide(value: Array) -> bool:
    return value.dtype.kind in "iub" and value.size <= DECIDING_ELEMENTS


def dim_names(path: Path) -> set[str]:
    """The names of the dims of a model's inputs."""
    inputs = onnx.load(path, load_external_data=False).graph.input
    return {d.dim_param for i in inputs for d in i.type.tensor_type.shape.dim if d.dim_param}


def node_names(path: Path) -> list[str]:
    """What the nodes of a model's graph are called, those that have a name."""
    return [n.name for n in onnx.load(path, load_external_data=False).graph.node if n.name]


def evaluated(path: Path, feed: Mapping[str, Array]) -> dict[str, Any]:
    """The outputs of a model by onnx's own evaluator, node by node in numpy. Raises GraphfuseError."""
    model = onnx.load(path)
    try:
        found: Any = ReferenceEvaluator(model).run(None, dict(feed))
    except Exception as e:  # noqa: BLE001  # they share no base class
        raise GraphfuseError(f"onnx cannot run it: {' '.join(str(e).split())[:200]}") from None
    return dict(zip((o.name for o in model.graph.output), found, strict=True))


def save(model: onnx.ModelProto, path: Path) -> None:
    """Write a part."""
    with writing(path) as file:
        file.write(model.SerializeToString())
