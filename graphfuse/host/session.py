"""Runs the program of a model with host code: compiled parts and Python's operators in turn.

Values between parts are numpy arrays (of objects for texts), lists for sequences, None for what is not there.
"""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphfuse import usage
from graphfuse.artifact import HELD, MAP, OPTIONAL, SEQUENCE, TEXT, Array, Executable, Signature, elem_dtype
from graphfuse.errors import ArtifactError, GraphfuseError, InputError, Loc
from graphfuse.frontends.onnx.python_ops import ON_STRINGS, PYTHON_OPS, Call
from graphfuse.frontends.onnx.python_ops.call import BY_VALUE, PythonOp, strings
from graphfuse.frontends.onnx.python_ops.interpreted import interpreted, is_interpreted
from graphfuse.host.control import CONTROL, Repeated, Wires
from graphfuse.host.program import Attribute, Constant, HostGraph, HostNode, HostPart, Texts
from graphfuse.knobs import settings
from graphfuse.runtime.binding import Binder
from graphfuse.runtime.callers import Callers
from graphfuse.runtime.device import on_host
from graphfuse.runtime.session import Profile, Session, StepTime, thread_count
from graphfuse.runtime.turns import Wiring
from graphfuse.runtime.workspace import Workspace, workspaces
from graphfuse.symbolic import symbols

if TYPE_CHECKING:
    from graphfuse.compiled_model import CompiledModel

Loader = Callable[[Executable, Callers[Workspace]], "CompiledModel"]
"""Loads a part, which runs with threads that other parts have, too."""


class HostSession:
    """A loaded model with host code. Outputs are numpy arrays wherever the parts run; `interpreted`, in numpy."""

    def __init__(self, executable: Executable, threads: int | None, load: Loader, *, interpreted: bool = False) -> None:
        self.executable = executable
        self.threads = thread_count(threads)
        callers = workspaces(self.threads)  # the parts of a call take turns: one pool of threads does for all
        self._finalizer = weakref.finalize(self, callers.close_idle)
        self._models = [load(p, callers) for p in executable.parts]
        self._interpreted = interpreted
        self._binder = Binder(_of_inputs(executable.signature))
        self._held = {s.name: s.elem for s in executable.signature.inputs if s.elem in HELD}
        self._graphs: dict[bool, _Graph] = {}
        self._graph(plainly=not interpreted)

    def _graph(self, *, plainly: bool) -> _Graph:
        """The program, whose parts run plainly or as the settings say."""
        if plainly not in self._graphs:
            host = self.executable.host
            assert host is not None, "it has host code"
            made = [_Part(i, m, interpreted=self._interpreted, plainly=plainly) for i, m in enumerate(self._models)]
            self._graphs[plainly] = _Graph(host, made, [w.array for w in self.executable.weights])
        return self._graphs[plainly]

    @property
    def signature(self) -> Signature:
        """What the model takes and gives."""
        return self.executable.signature

    def prepare(self) -> None:
        """Load code and weights of all parts."""
        for model in self._models:
            model.prepare()

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
        asked = self._interpreted or settings.interpret or settings.debug or settings.check
        graph = self._graph(plainly=not asked)
        found = graph.run({**graph.constants, **values}, times)
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


class _Part:
    """A compiled part: what it reads and makes, by name, and what runs it.

    `plainly` says that nothing is asked for but to run it, which on this machine's processor is a call by position.
    """

    def __init__(self, number: int, model: CompiledModel, *, interpreted: bool, plainly: bool) -> None:
        self.reads = tuple(s.name for s in model.signature.inputs)
        self.makes = tuple(s.name for s in model.signature.outputs)
        self.kind = self.label = f"part {number}"
        self._model, self._plainly = model, plainly and not model.device.is_gpu
        self._run = model.interpret if interpreted else model

    def run(self, known: dict[str, Any]) -> None:
        """Add what it makes to what is known."""
        values = [known[n] for n in self.reads]
        with self.named():
            if session := self.session:
                known.update(zip(self.makes, session.call(values), strict=True))
            else:
                known.update(self._run(dict(zip(self.reads, values, strict=True))))

    @contextlib.contextmanager
    def named(self) -> Generator[None]:
        """Say in errors which part it is."""
        try:
            yield
        except InputError as e:
            raise e if e.loc else InputError(f"{self.label}: {e.message}") from None

    @property
    def session(self) -> Session | None:
        """What runs it plainly; linked when it is first needed."""
        return cast("Session", self._model.session) if self._plainly else None


class _Graph:
    """A graph of the program, its constants at hand."""

    def __init__(self, graph: HostGraph, parts: Sequence[_Part], weights: Sequence[Array]) -> None:
        self.graph, self.inputs, self.outputs = graph, graph.inputs, graph.outputs
        self.constants = {name: _constant(value, weights) for name, value in graph.constants.items()}
        self.steps = [parts[s.part] if isinstance(s, HostPart) else _Node(s, parts, weights) for s in graph.steps]
        made = {name for step in self.steps for name in step.makes}
        read = {name for step in self.steps for name in step.reads} | set(self.outputs)
        self.free = tuple(read - made - {*self.inputs, *self.constants})
        """What it reads of graphs around it."""

    def within(self, known: Mapping[str, Any]) -> Callable[[Sequence[Any]], list[Any]]:
        """From the values of its inputs to its outputs, for what is known around it."""
        around = {**{n: known[n] for n in self.free}, **self.constants}
        return lambda values: self.run({**around, **dict(zip(self.inputs, values, strict=True))})

    def run(self, known: dict[str, Any], times: list[StepTime] | None = None) -> list[Any]:
        """The outputs. All that it reads is known."""
        for step in self.steps:
            start = time.perf_counter_ns() if times is not None else 0
            step.run(known)
            if times is not None:
                times.append(StepTime(step.kind, step.label, 1, time.perf_counter_ns() - start))
        return [known[o] for o in self.outputs]

    def repeat(self, known: Mapping[str, Any], wires: Wires, most: int) -> Repeated | None:
        """Turn after turn in native code, where one part is all there is to do and what is fed back keeps its shape."""
        part = self.steps[0] if len(self.steps) == 1 else None
        if not isinstance(part, _Part) or (session := part.session) is None:
            return None
        at, made = ({name: i for i, name in enumerate(names)} for names in (part.reads, part.makes))
        same = {o: i for i, o in wires.fed.items() if self.outputs[o] == self.inputs[i]}
        fed = [(at.get(self.inputs[i]), made.get(self.outputs[o])) for i, o in wires.fed.items() if o not in same]
        if len({o for _, o in fed}) < len(fed) or any(
            name not in made for o, name in enumerate(self.outputs) if o not in same
        ):
            return None
        around = {
            **{n: known[n] for n in self.free},
            **self.constants,
            **dict(zip(self.inputs, wires.first, strict=True)),
        }
        wiring = Wiring(
            fed={i: o for i, o in fed if i is not None and o is not None},
            sliced={at[self.inputs[i]]: s for i, s in wires.sliced.items() if self.inputs[i] in at},
            stacked=[made[name] for o, name in enumerate(self.outputs) if o not in (*wires.fed.values(), wires.going)],
            going=None if wires.going is None else made[self.outputs[wires.going]],
        )
        with part.named():
            done = session.repeat([around[n] for n in part.reads], wiring, most)
        if done is None:
            return None
        outputs: list[Any] = []
        for o, name in enumerate(self.outputs):
            if o in same:
                outputs.append(wires.first[same[o]])
                continue
            value = done.outputs[made[name]]
            is_last = o in wires.fed.values() and made[name] in wiring.stacked
            outputs.append(value[-1].copy() if is_last else value)
        return Repeated(done.turns, done.going, outputs)

    def empty(self, output: int) -> Array:
        """What a loop that never ran stacked of an output."""
        elem, dims = self.graph.empties[output]
        return np.empty((0, *dims), object if elem == TEXT else elem_dtype(elem))


WITH_KERNEL = frozenset({("", "NonMaxSuppression")})
"""Operators of Python's that may have a compiled part: their body."""


class _Node:
    """An operator that Python runs, with its attributes and bodies at hand."""

    def __init__(self, node: HostNode, parts: Sequence[_Part], weights: Sequence[Array]) -> None:
        self.node, self.kind, self.label = node, node.op, node.name
        self.attributes = {name: _attribute(value, weights) for name, value in node.attributes.items()}
        self.bodies = [_Graph(b, parts, weights) for b in node.bodies]
        self.makes = tuple(n for n in node.outputs if n)
        self.memory: dict[Any, Any] = {}
        self.reads = {n for n in node.inputs if n}.union(*(b.free for b in self.bodies))
        self.control = None if node.domain else CONTROL.get(node.op)
        self.op = PYTHON_OPS.get((node.domain, node.op))
        key = node.domain, node.op
        known = self.op or key in BY_VALUE or key in ON_STRINGS or is_interpreted(node.op, node.domain)
        if self.control is None and not known:
            raise ArtifactError(f"host: {node.name}: unknown operator {node.domain or 'ai.onnx'}::{node.op}")
        wanted = (1,) if self.control else (0, 1) if key in WITH_KERNEL else (0,)
        wanted = (2,) if not node.domain and node.op == "If" else wanted
        if len(self.bodies) not in wanted:
            raise ArtifactError(f"host: {node.name}: expected {wanted[-1]} graphs, found {len(self.bodies)}")
        self.compiled = None
        if self.bodies and not self.control:
            if free := self.bodies[0].free:
                raise ArtifactError(f"host: {node.name}: its kernel reads {free[0]!r}, which nobody gives it")
            self.compiled = self.bodies[0].within({})

    def run(self, known: dict[str, Any]) -> None:
        """Add what it makes to what is known."""
        node = self.node
        inputs = tuple(known[n] if n else None for n in node.inputs)
        loc = Loc("", node=node.name)
        try:
            if self.control is not None:
                results = self.control(self.bodies, self.attributes, inputs, known)
            else:
                op = self.op or self._by_value(inputs)
                outputs = len(node.outputs)
                found = op(
                    Call(node.op, inputs, outputs, loc, self.attributes, node.domain, self.compiled, self.memory)
                )
                results = cast("tuple[Any, ...]", found) if isinstance(found, tuple) else (found,)
        except (ValueError, TypeError, IndexError, KeyError, OverflowError, AttributeError) as e:
            if isinstance(e, GraphfuseError):
                raise
            # operators leave to numpy what it checks
            raise InputError(f"{node.op}: {str(e).lower()}", loc) from e
        except MemoryError as e:
            raise InputError(f"{node.op}: the result does not fit into memory", loc) from e
        known.update((name, _value(r)) for name, r in zip(node.outputs, results, strict=False) if name)

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
    return _read_only(strings(value.texts, value.shape))


def _attribute(value: Attribute, weights: Sequence[Array]) -> Any:
    if isinstance(value, (Constant, Texts)):
        return _constant(value, weights)
    return list(value) if isinstance(value, tuple) else value
