"""Runs a model that has host code: compiled parts and Python's operators in turn (docs/adr/0013).

A part is compiled for the shapes it meets, when it meets them. Branches and loops are Python's, their bodies graphs
that are cut in turn, so a loop's body is compiled once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphfuse.artifact import Array
from graphfuse.errors import GraphfuseError, InputError, UnsupportedError
from graphfuse.frontends.onnx.cut import Part, cut, domain_of, is_control, location, part_of, reads
from graphfuse.frontends.onnx.load import Loaded, default_opset, load, tensor_array
from graphfuse.frontends.onnx.node import attributes_of
from graphfuse.frontends.onnx.python_ops import ON_STRINGS, PYTHON_OPS, call_of
from graphfuse.frontends.onnx.specialise import array_of_strings, empty_array, model_of_part, subgraphs_of
from graphfuse.host.control import CONTROL, Values

if TYPE_CHECKING:
    from graphfuse.host.model import OnnxModel


class HostedModel:
    """A model with host code: call it with inputs by name, get outputs by name."""

    def __init__(self, model: Any, device: str) -> None:
        loaded = load(model)
        self.graph = _Graph(loaded.model.graph, _Surroundings(loaded, default_opset(loaded.model), device))
        self.graph.constants.update(loaded.weights)
        self.outputs = tuple(o.name for o in loaded.model.graph.output)

    def __call__(self, inputs: Values) -> dict[str, Any]:
        """Run it."""
        return dict(zip(self.outputs, self.graph.run(inputs), strict=True))


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """What all graphs of a model share."""

    loaded: Loaded
    opset: int
    device: str


@dataclass(slots=True)
class _Compiled:
    """A part, and what it was compiled to by the types of its inputs."""

    part: Part
    variants: dict[object, OnnxModel] = field(default_factory=dict[object, "OnnxModel"])


class _Graph:
    """A graph of the model: its constants, and its steps in order."""

    def __init__(self, graph: Any, around: _Surroundings) -> None:
        self.around = around
        self.inputs = tuple(i.name for i in graph.input)
        self.infos = tuple(graph.output)
        self.outputs = tuple(o.name for o in graph.output)
        file, folder = around.loaded.file, around.loaded.folder
        self.constants: dict[str, Any] = {
            t.name: strings if (strings := array_of_strings(t)) is not None else tensor_array(t, file, folder)
            for t in graph.initializer
        }
        self.steps = [_Compiled(s) if isinstance(s, Part) else s for s in cut(graph, around.opset, file)]
        self.bodies: dict[int, list[_Graph]] = {
            id(s): [_Graph(g, around) for g in subgraphs_of(s)] for s in self.steps if not isinstance(s, _Compiled)
        }
        self._single: dict[int, _Compiled] = {}

    def run(self, values: Values) -> list[Any]:
        """The outputs, for the values of its inputs and of what it reads of graphs around it."""
        known: dict[str, Any] = {**values, **self.constants, **{n: values[n] for n in self.inputs if n in values}}
        for step in self.steps:
            if isinstance(step, _Compiled):
                self._run_part(step, known)
            else:
                self._run_node(step, known)
        return [known[o] for o in self.outputs]

    def empty(self, output: int) -> Array:
        """What a loop that never ran stacked of an output."""
        return empty_array(self.infos[output])

    # compiled parts

    def _run_part(self, compiled: _Compiled, known: dict[str, Any]) -> None:
        part = compiled.part
        values = {n: _value(known, n) for n in part.inputs}
        if all(_is_numeric(v) for v in values.values()):
            key = tuple((v.dtype.name, v.shape) for v in values.values())
            if key not in compiled.variants:
                compiled.variants[key] = self._compile(part, values)
            fed = {n: v for n, v in values.items() if n not in self.constants}
            known.update(compiled.variants[key](fed))
            return
        for node in part.nodes:  # some value is no tensor of numbers: node by node, what reads it is Python's
            inputs = [known[n] for n in reads(node)]
            if (domain_of(node), node.op_type) in ON_STRINGS and not all(map(_is_numeric, inputs)):
                self._run_node(node, known)
                continue
            if not all(map(_is_numeric, inputs)):
                where = location(node, self.around.loaded.file)
                raise UnsupportedError(f"{node.op_type}: expected tensors of numbers", where)
            self._run_part(self._single.setdefault(id(node), _Compiled(part_of([node], set(node.output)))), known)

    def _compile(self, part: Part, values: Mapping[str, Array]) -> OnnxModel:
        from graphfuse.host.model import OnnxModel

        constants = {n: a for n, a in values.items() if n in self.constants}
        model = model_of_part(self.around.loaded.model, part, values, constants)
        return OnnxModel(model, self.around.device, host=False)

    # Python's nodes

    def _run_node(self, node: Any, known: dict[str, Any]) -> None:
        inputs = tuple(_value(known, n) if n else None for n in node.input)
        loc = location(node, self.around.loaded.file)
        if is_control(node):
            results = CONTROL[node.op_type](self.bodies[id(node)], attributes_of(node), inputs, known)
        else:
            key = domain_of(node), node.op_type
            op = PYTHON_OPS.get(key) or ON_STRINGS[key]
            try:
                found = op(call_of(node, inputs, loc))
            except (ValueError, TypeError, IndexError, KeyError, OverflowError) as e:
                if isinstance(e, GraphfuseError):
                    raise
                # operators leave to numpy what it checks
                raise InputError(f"{node.op_type}: {str(e).lower()}", loc) from e
            except MemoryError as e:
                raise InputError(f"{node.op_type}: the result does not fit into memory", loc) from e
            results = list(cast("tuple[Any, ...]", found)) if isinstance(found, tuple) else [found]
        known.update((name, result) for name, result in zip(node.output, results, strict=False) if name)


def _value(known: Mapping[str, Any], name: str) -> Any:
    value = known[name]
    return cast("Any", np.asarray(value)) if isinstance(value, (np.generic, float, int)) else value


def _is_numeric(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind not in "OSU"
