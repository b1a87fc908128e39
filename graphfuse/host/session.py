"""Runs the program of a model with host code: compiled parts and Python's operators in turn.

Values between parts are numpy arrays (of objects for texts), lists for sequences, None for what is not there.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from graphfuse import usage
from graphfuse.artifact import HELD, MAP, OPTIONAL, SEQUENCE, TEXT, Array, Executable, Signature, elem_dtype
from graphfuse.compiled_model import CompiledModel, on_host
from graphfuse.errors import ArtifactError, GraphfuseError, InputError, Loc
from graphfuse.frontends.onnx.python_ops import ON_STRINGS, PYTHON_OPS, Call
from graphfuse.frontends.onnx.python_ops.call import PythonOp
from graphfuse.frontends.onnx.python_ops.interpreted import interpreted, is_interpreted
from graphfuse.frontends.onnx.python_ops.sizes import BY_VALUE
from graphfuse.host.control import CONTROL
from graphfuse.host.program import Attribute, Constant, HostGraph, HostNode, HostPart, Texts
from graphfuse.runtime.binding import Binder
from graphfuse.runtime.device import Device
from graphfuse.runtime.session import Profile, StepTime, thread_count
from graphfuse.runtime.workspace import workspaces
from graphfuse.symbolic import symbols


class HostSession:
    """A loaded model with host code. Outputs are numpy arrays wherever the parts run; `interpreted`, in numpy."""

    def __init__(
        self, executable: Executable, threads: int | None, device: Device, *, interpreted: bool = False
    ) -> None:
        assert executable.host is not None, "it has no host code"
        self.executable = executable
        self.threads = thread_count(threads)
        callers = workspaces(self.threads)  # the parts of a call take turns: one pool of threads does for all
        self._finalizer = weakref.finalize(self, callers.close_idle)
        models = [CompiledModel(p, threads, device, callers) for p in executable.parts]
        parts = [(m.executable, m.interpret if interpreted else m) for m in models]
        self._binder = Binder(_of_inputs(executable.signature))
        self._held = {s.name: s.elem for s in executable.signature.inputs if s.elem in HELD}
        self._graph = _Graph(executable.host, parts, [w.array for w in executable.weights])

    @property
    def signature(self) -> Signature:
        """What the model takes and gives."""
        return self.executable.signature

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Outputs by name. Inputs are numpy arrays or DLPack objects, by name."""
        return self._run(inputs, None)

    def profile(self, inputs: Mapping[str, Any]) -> Profile:
        """As `run`, with the time of each step of the program."""
        times: list[StepTime] = []
        return Profile(self._run(inputs, times), tuple(times))

    def _run(self, inputs: Mapping[str, Any], times: list[StepTime] | None) -> dict[str, Array]:
        given = usage.mapping("inputs", inputs)
        if missing := [name for name in self._held if name not in given]:
            raise InputError(f"missing inputs {', '.join(map(repr, missing))}")
        arrays = self._binder.arrays({name: on_host(v) for name, v in given.items() if name not in self._held})
        self._binder.bind([a.shape for a in arrays])
        values: dict[str, Any] = {name: _held(name, elem, given[name]) for name, elem in self._held.items()}
        values |= {s.name: _read_only(a) for s, a in zip(self._binder.signature.inputs, arrays, strict=True)}
        found = self._graph.run(values, times)
        return {s.name: _checked(s.name, s.elem, v) for s, v in zip(self.signature.outputs, found, strict=True)}


def _of_inputs(signature: Signature) -> Signature:
    """The part of a signature that tensors decide: outputs have symbols that only a run knows."""
    tensors = tuple(s for s in signature.inputs if s.elem not in HELD)
    used = {s for spec in tensors for d in spec.shape for s in symbols(d)}
    return Signature(tensors, (), tuple(d for d in signature.dims if d[0] in used), names=signature.names)


_KINDS = {SEQUENCE: list, MAP: dict}


def _held(name: str, elem: str, value: Any) -> Any:
    """An input that is a list, a dict, or may be nothing, with arrays that nothing can be written through."""
    if (kind := _KINDS.get(elem)) and not isinstance(value, kind):
        raise InputError(f"input {name!r}: expected a {kind.__name__} for a {elem}, found {type(value).__name__}")
    if isinstance(value, dict):
        return dict(cast("dict[Any, Any]", value))
    if isinstance(value, list):
        return [_held(name, OPTIONAL, v) for v in cast("list[Any]", value)]
    return None if value is None else _read_only(np.asarray(on_host(value)))


def _checked(name: str, elem: str, value: Any) -> Any:
    if (kind := _KINDS.get(elem)) and not isinstance(value, kind):
        raise ArtifactError(f"output {name!r}: expected a {kind.__name__}, found {type(value).__name__}")
    if elem in HELD:
        return _own(value)
    array = cast("Array", value) if isinstance(value, np.ndarray) else np.empty(0, object)
    dtype = np.dtype(object) if elem == TEXT else elem_dtype(elem)
    if array.dtype != dtype:
        raise ArtifactError(f"output {name!r}: expected {dtype}, found {array.dtype}")
    return _own(array)


def _own(value: Any) -> Any:
    """An input or a constant as a copy: what a caller gets is nobody else's."""
    if isinstance(value, list):
        return [_own(v) for v in cast("list[Any]", value)]
    if not isinstance(value, np.ndarray):
        return value
    array = cast("Array", value)
    return array if array.flags.writeable else array.copy()


def _read_only(array: Array) -> Array:
    """A view that nothing can be written through."""
    view = array.view()
    view.flags.writeable = False
    return view


Part: TypeAlias = tuple[Executable, Callable[[Mapping[str, Any]], Mapping[str, Any]]]
"""A part, and what runs it."""


class _Graph:
    """A graph of the program, its constants at hand."""

    def __init__(self, graph: HostGraph, parts: Sequence[Part], weights: Sequence[Array]) -> None:
        self.graph, self.parts = graph, parts
        self.inputs, self.outputs = graph.inputs, graph.outputs
        self.constants = {name: _constant(value, weights) for name, value in graph.constants.items()}
        self.steps = [s if isinstance(s, HostPart) else _Node(s, parts, weights) for s in graph.steps]

    def run(self, values: Mapping[str, Any], times: list[StepTime] | None = None) -> list[Any]:
        """The outputs, for the values of its inputs and of what it reads of graphs around it."""
        known = {**values, **self.constants, **{n: values[n] for n in self.inputs if n in values}}
        for step in self.steps:
            start = time.perf_counter_ns()
            if isinstance(step, HostPart):
                self._run_part(step.part, known)
                label = f"part {step.part}"
            else:
                step.run(known)
                label = step.node.name
            if times is not None:
                op = label if isinstance(step, HostPart) else step.node.op
                times.append(StepTime(op, label, 1, time.perf_counter_ns() - start))
        return [known[o] for o in self.outputs]

    def empty(self, output: int) -> Array:
        """What a loop that never ran stacked of an output."""
        elem, dims = self.graph.empties[output]
        return np.empty((0, *dims), object if elem == TEXT else elem_dtype(elem))

    def _run_part(self, number: int, known: dict[str, Any]) -> None:
        executable, run = self.parts[number]
        try:
            known.update(run({s.name: known[s.name] for s in executable.signature.inputs}))
        except InputError as e:
            raise e if e.loc else InputError(f"part {number}: {e.message}") from None


class _Node:
    """An operator that Python runs, with its attributes and bodies at hand."""

    def __init__(self, node: HostNode, parts: Sequence[Part], weights: Sequence[Array]) -> None:
        self.node = node
        self.attributes = {name: _attribute(value, weights) for name, value in node.attributes.items()}
        self.bodies = [_Graph(b, parts, weights) for b in node.bodies]
        self.control = None if node.domain else CONTROL.get(node.op)
        key = node.domain, node.op
        known = key in PYTHON_OPS or key in BY_VALUE or key in ON_STRINGS or is_interpreted(node.op, node.domain)
        if self.control is None and not known:
            raise ArtifactError(f"host: {node.name}: unknown operator {node.domain or 'ai.onnx'}::{node.op}")
        wanted = 0 if self.control is None else 2 if node.op == "If" else 1
        if len(self.bodies) != wanted:
            raise ArtifactError(f"host: {node.name}: expected {wanted} graphs, found {len(self.bodies)}")

    def run(self, known: dict[str, Any]) -> None:
        """Add what it makes to what is known."""
        node, loc = self.node, Loc("", node=self.node.name)
        inputs = tuple(_value(known[n]) if n else None for n in node.inputs)
        try:
            if self.control is not None:
                results = self.control(self.bodies, self.attributes, inputs, known)
            else:
                op = PYTHON_OPS.get((node.domain, node.op)) or self._by_value(inputs)
                found = op(Call(node.op, inputs, len(node.outputs), loc, self.attributes, node.domain))
                results = list(cast("tuple[Any, ...]", found)) if isinstance(found, tuple) else [found]
        except (ValueError, TypeError, IndexError, KeyError, OverflowError, AttributeError) as e:
            if isinstance(e, GraphfuseError):
                raise
            # operators leave to numpy what it checks
            raise InputError(f"{node.op}: {str(e).lower()}", loc) from e
        except MemoryError as e:
            raise InputError(f"{node.op}: the result does not fit into memory", loc) from e
        known.update((name, result) for name, result in zip(node.outputs, results, strict=False) if name)

    def _by_value(self, inputs: Sequence[Any]) -> PythonOp:
        numeric = all(isinstance(v, np.ndarray) and v.dtype.kind not in "OSU" for v in inputs if v is not None)
        # of numbers, Python's are only those that give texts
        nothing = all(v is None for v in inputs)
        own, other = (BY_VALUE, ON_STRINGS if nothing else {}) if numeric else (ON_STRINGS, BY_VALUE)
        key = self.node.domain, self.node.op
        return own.get(key) or other.get(key) or interpreted


def _value(value: Any) -> Any:
    return cast("Any", np.asarray(value)) if isinstance(value, (np.generic, float, int)) else value


def _constant(value: Constant | Texts, weights: Sequence[Array]) -> Array:
    if isinstance(value, Constant):
        return _read_only(weights[value.weight])
    texts = np.empty(len(value.texts), dtype=object)
    texts[:] = value.texts
    return _read_only(texts.reshape(value.shape))


def _attribute(value: Attribute, weights: Sequence[Array]) -> Any:
    if isinstance(value, (Constant, Texts)):
        return _constant(value, weights)
    return list(value) if isinstance(value, tuple) else value
