"""A model with host code to an executable: its parts compiled for all shapes, and the program that runs them.

1. cut        parts and Python's operators, level by level        frontends/onnx/cut.py
2. sink       shape arithmetic into the parts that need it        frontends/onnx/sink_shapes.py
3. draft      types step by step; parts become graph IR           here, frontends/onnx/host_types.py
4. compile    each part                                           compiler.py
5. write      the steps as data                                   program.py

A part that turns out to need a value that another one computes, or a dim, leaves the node that needs it to Python
(`python_ops/sizes.py`, `python_ops/interpreted.py`), and is cut again. A loop is drafted until the types of what it
carries stay the same; dims that change from one iteration to the next become symbols.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import numpy as np

from graphfuse import tuner
from graphfuse.artifact import MAP, OPTIONAL, SEQUENCE, TEXT, Array, Executable, Plan, Signature, TensorSpec, Weight
from graphfuse.errors import GraphfuseError, Loc, UnsupportedError, VerifyError
from graphfuse.frontends.onnx import import_model, suppression
from graphfuse.frontends.onnx.cut import Part, cut, domain_of, is_control, location, part_of, reads
from graphfuse.frontends.onnx.host_types import (
    COUNTED,
    Mapped,
    Maybe,
    Sequenced,
    Strings,
    ValueType,
    declared,
    joined,
    part_model,
    plain_attributes,
    renewed,
    types_made,
)
from graphfuse.frontends.onnx.importer import input_types
from graphfuse.frontends.onnx.load import Loaded, default_opset, load, tensor_array
from graphfuse.frontends.onnx.node import UnknownValueError
from graphfuse.frontends.onnx.protos import subgraphs
from graphfuse.frontends.onnx.python_ops import ON_STRINGS
from graphfuse.frontends.onnx.python_ops.call import texts_of
from graphfuse.frontends.onnx.sink_shapes import lift_constants, name_nodes, sink_shapes
from graphfuse.frontends.onnx.specialise import array_of_strings
from graphfuse.host.program import Attribute, Constant, HostGraph, HostNode, HostPart, Texts
from graphfuse.ir import snapshots
from graphfuse.ir.core import Func, tensor_of
from graphfuse.ir.dense import scalar_of
from graphfuse.ir.types import BOOL, I64, Tensor
from graphfuse.knobs import Options
from graphfuse.symbolic import Dim, bounds, sym, symbols
from graphfuse.targets import Target

Dims = Mapping[str, "int | tuple[int, int]"]
Types: TypeAlias = "Mapping[str, ValueType | None]"
Row: TypeAlias = "Sequence[ValueType | None]"

MOST_DRAFTS = 16
"""Times that a loop's body is typed: each time another dim of what it carries has turned out to change."""


def host_executable(
    source: Any, target: Target, dims: Dims, options: Options, outputs: Sequence[str] = ()
) -> Executable:
    """Compile a model whose parts Python runs in turn. `source`, `dims` and `outputs` are as for `import_model`.

    Raises UnsupportedError for operators that nothing can run, and for outputs whose rank only a run knows.
    """
    loaded = load(source, outputs=outputs)
    graph = loaded.model.graph
    name_nodes(graph)
    lift_constants(graph)
    types, ranges, names = input_types(loaded, dims)
    drafts = _Drafts(loaded, ranges, target)
    draft = drafts.draft(graph, dict(types), loaded.weights)
    made = (t or declared(o.type, drafts.fresh) for o, t in zip(graph.output, draft.types, strict=True))
    draft = replace(draft, types=tuple(made))
    signature = _signature(types, draft, drafts.ranges, loaded.file)
    used = {name for name, _, _ in signature.dims}
    signature = replace(signature, names=tuple(n for n in names if n[0] in used))
    writer = _Writer(loaded.file)
    program = writer.graph(replace(draft, constants={**loaded.weights, **draft.constants}), loaded.inputs)
    return Executable(
        signature=signature,
        plan=Plan((), ()),
        kernels=(),
        weights=tuple(writer.weights),
        target=str(target),
        code={},
        meta={"numerics": options.numerics, "precision": options.precision, "fuse": options.fuse},
        host=program,
        parts=tuple(_part(i, f, target, options) for i, f in enumerate(writer.funcs)),
    )


def _part(index: int, func: Func, target: Target, options: Options) -> Executable:
    with snapshots.part(f"part-{index}"):
        return tuner.build(func, target, options)


def _signature(
    inputs: Mapping[str, ValueType], draft: _Draft, ranges: Mapping[str, tuple[int, int]], file: str
) -> Signature:
    outputs = [_spec(name, t, file) for name, t in zip(draft.outputs, draft.types, strict=True)]
    specs = tuple(_spec(name, t, file) for name, t in inputs.items())
    used = {s for spec in (*specs, *outputs) for d in spec.shape for s in symbols(d)}
    return Signature(specs, tuple(outputs), tuple((s, *ranges[s]) for s in ranges if s in used))


def _spec(name: str, t: ValueType | None, file: str) -> TensorSpec:
    match t:
        case Tensor():
            return TensorSpec(name, t.elem.name, t.shape)
        case Strings():
            return TensorSpec(name, TEXT, t.shape)
        case None:
            raise UnsupportedError(f"output {name!r}: expected a value whose type is known", Loc(file))
        case _:
            return TensorSpec(name, _HELD[type(t)][0], ())


_HELD: dict[type, tuple[str, str]] = {
    Strings: (TEXT, "texts"), Sequenced: (SEQUENCE, "a sequence"), Maybe: (OPTIONAL, "an optional"),
    Mapped: (MAP, "a map"),
}  # fmt: skip
"""What is no tensor of numbers, in signatures and in words."""


# drafts: the steps of a graph with the types of all values


@dataclass(frozen=True, slots=True)
class _DraftedPart:
    part: Part
    func: Func


@dataclass(frozen=True, slots=True)
class _DraftedNode:
    node: Any
    bodies: tuple[_Draft, ...]


@dataclass(frozen=True, slots=True)
class _Draft:
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: tuple[ValueType | None, ...]
    constants: Mapping[str, Array]
    steps: tuple[_DraftedPart | _DraftedNode, ...]


class _CutAgainError(Exception):
    """More nodes are Python's than was known when the graph was cut."""


class _Drafts:
    """Drafts graphs. `ranges` are those of all symbols.

    `python` are the names of nodes that are left to Python; `compiled` says of loops whether they can be compiled.
    """

    def __init__(self, loaded: Loaded, ranges: dict[str, tuple[int, int]], target: Target) -> None:
        self.loaded, self.ranges, self.target = loaded, ranges, target
        self.opset = default_opset(loaded.model)
        self.python: set[str] = set()
        self.compiled: dict[str, bool] = {}

    def fresh(self) -> Dim:
        """A symbol for a dim that only a run knows."""
        name = f"n{len(self.ranges)}"
        while name in self.ranges:
            name += "_"
        self.ranges[name] = COUNTED
        return sym(name)

    def draft(self, graph: Any, types: Types, constants: Mapping[str, Array]) -> _Draft:
        """A graph for inputs, and names of graphs around it, of these types."""
        own = {t.name: _array(t, self.loaded) for t in graph.initializer}
        constants = {**constants, **own}
        known = {**types, **{n: _type_of(a) for n, a in constants.items()}}
        while True:
            try:
                return self._drafted(graph, dict(known), constants, own)
            except UnknownValueError as e:
                if not self._leave_to_python(graph, e.loc):
                    raise
            except _CutAgainError:
                pass

    def _leave_to_python(self, graph: Any, loc: Loc | None) -> bool:
        for node in graph.node:
            if loc is not None and node.name == loc.node and node.name not in self.python:
                can = not is_control(node)
                if can:
                    self.python.add(node.name)
                return can
        return False

    def _drafted(
        self, graph: Any, known: dict[str, ValueType | None], constants: Mapping[str, Array], own: Mapping[str, Array]
    ) -> _Draft:
        steps: list[_DraftedPart | _DraftedNode] = []
        compiled = {name for name, can in self.compiled.items() if can}
        cuts = cut(graph, self.opset, self.loaded.file, self.python, compiled)
        for step in sink_shapes(cuts, graph, constants):
            if isinstance(step, Part):
                steps.append(self._part(step, known, constants))
            else:
                self._try_to_compile(step, known, constants)
                steps.append(self._node(step, known, constants))
        outputs = tuple(o.name for o in graph.output)
        inputs = tuple(i.name for i in graph.input)
        return _Draft(inputs, outputs, tuple(known[o] for o in outputs), own, tuple(steps))

    def _part(self, part: Part, known: dict[str, ValueType | None], constants: Mapping[str, Array]) -> _DraftedPart:
        types: dict[str, Tensor] = {}
        for name in part.inputs:
            if isinstance(t := known[name], Tensor):
                types[name] = t
            else:
                self._read_by_python(part, name, t)
        fixed = {n: constants[n] for n in part.inputs if n in constants}
        free = {n: t for n, t in types.items() if n not in fixed}
        model = part_model(self.loaded.model, part, free, fixed, lambda d: bounds(d, self.ranges))
        try:
            func = import_model(model.model, dims=model.dims)
        except GraphfuseError as e:
            if e.loc is None or (isinstance(e, UnknownValueError) and e.loc.node in {n.name for n in part.nodes}):
                raise
            raise type(e)(e.message, Loc(self.loaded.file, node=e.loc.node)) from None
        for name, value in zip(part.outputs, func.outputs, strict=False):  # and what is reported of checks
            t = tensor_of(value)
            known[name] = Tensor(model.outside(t.shape), t.elem)
        return _DraftedPart(part, func)

    def _try_to_compile(self, node: Any, known: Types, constants: Mapping[str, Array]) -> None:
        """Cut again if a loop needs no Python: its length is a dim or a constant, and so is all that its body does."""
        if node.op_type not in ("Scan", "Loop") or not is_control(node) or node.name in self.compiled:
            return
        part = part_of([node], set(node.output))
        if any(not isinstance(known[n], Tensor) for n in part.inputs):
            return
        try:
            self._part(part, dict(known), constants)
        except UnsupportedError:
            self.compiled[node.name] = False
            return
        self.compiled[node.name] = True
        raise _CutAgainError

    def _read_by_python(self, part: Part, name: str, t: ValueType | None) -> None:
        """Leave the nodes that read a value that is no tensor of numbers, or of no known rank, to Python. Cut again."""
        for node in part.nodes:
            if name not in reads(node):
                continue
            if t is not None and (domain_of(node), node.op_type) not in ON_STRINGS:
                message = f"{node.op_type}: input {name!r}: expected a tensor of numbers, found {_HELD[type(t)][1]}"
                raise UnsupportedError(message, location(node, self.loaded.file))
            self.python.add(node.name)
        raise _CutAgainError

    def _node(self, node: Any, known: dict[str, ValueType | None], constants: Mapping[str, Array]) -> _DraftedNode:
        bodies: tuple[_Draft, ...] = ()
        loc = location(node, self.loaded.file)
        try:
            if is_control(node):
                made, bodies = _CONTROL[node.op_type](_Flow(self, node, known, constants, dict(self.ranges)))
            else:
                made = types_made(node, known, constants, self.loaded.model.opset_import, self.fresh)
                bodies = self._kernel(node)
        except (IndexError, KeyError, ValueError, TypeError, ZeroDivisionError) as e:
            if isinstance(e, GraphfuseError):
                raise
            # as in the importer, what trips over attributes and counts is the model
            raise VerifyError(f"{node.op_type}: malformed node: {type(e).__name__}: {e}", loc) from e
        if len(made) < len(node.output):
            raise VerifyError(f"{node.op_type}: expected up to {len(made)} outputs, found {len(node.output)}", loc)
        known.update((o, t) for o, t in zip(node.output, made, strict=False) if o)
        return _DraftedNode(node, bodies)

    def _kernel(self, node: Any) -> tuple[_Draft, ...]:
        """The compiled part of an operator that Python runs, as its body."""
        if domain_of(node) or node.op_type != "NonMaxSuppression" or self.target.is_gpu:
            return ()
        part = Part((suppression.NODE,), suppression.INPUTS, suppression.OUTPUTS)
        types = suppression.types_of(self.fresh(), self.fresh())
        model = part_model(self.loaded.model, part, types, {}, lambda d: bounds(d, self.ranges))
        func = import_model(model.model, dims=model.dims, kernels=[suppression.OPERATOR])
        made = tuple(tensor_of(v) for v in func.outputs)
        return (_Draft(part.inputs, part.outputs, made, {}, (_DraftedPart(part, func),)),)


def _array(tensor: Any, loaded: Loaded) -> Array:
    texts = array_of_strings(tensor)
    return tensor_array(tensor, loaded.file, loaded.folder) if texts is None else texts


def _type_of(array: Array) -> ValueType:
    elem = scalar_of(array.dtype)
    return Strings(array.shape) if elem is None else Tensor(array.shape, elem)


# control flow: the types of what it gives, and its bodies

_Control: TypeAlias = "tuple[list[ValueType | None], tuple[_Draft, ...]]"


@dataclass(frozen=True, slots=True)
class _Flow:
    """A node of control flow, and what is known around it. Symbols that are not in `outer` are those of its bodies."""

    d: _Drafts
    node: Any
    known: Types
    constants: Mapping[str, Array]
    outer: Mapping[str, tuple[int, int]]

    @property
    def inputs(self) -> list[ValueType | None]:
        """The types of its inputs."""
        return [self.known[n] if n else None for n in self.node.input]

    def unsupported(self, message: str) -> UnsupportedError:
        """The error of what it cannot be run with."""
        return UnsupportedError(f"{self.node.op_type}: {message}", location(self.node, self.d.loaded.file))

    def body(self, graph: Any, inputs: Row = ()) -> _Draft:
        """A body whose inputs have these types."""
        names = [i.name for i in graph.input]
        outer = {n: a for n, a in self.constants.items() if n not in names}
        return self.d.draft(graph, {**self.known, **dict(zip(names, inputs, strict=True))}, outer)

    def steady(
        self, carried: Row, before: Row = (), after: Row = (), skip: int = 0
    ) -> tuple[list[ValueType | None], _Draft]:
        """What a loop carries, for all iterations: its body gives what it takes, from output `skip` on."""
        (graph,) = subgraphs(self.node)
        state, changing = list(carried), set[Dim]()

        def changed() -> Dim:
            changing.add(out := self.d.fresh())
            return out

        for _ in range(MOST_DRAFTS):
            draft = self.body(graph, [*before, *state, *after])
            found = draft.types[skip : skip + len(state)]
            now = [joined(a, b, changed, changing) for a, b in zip(state, found, strict=True)]
            if now == state:
                return state, draft
            state = now
        raise UnsupportedError(
            f"the shapes of what a loop carries keep changing after {MOST_DRAFTS} iterations", Loc(self.d.loaded.file)
        )

    def seen(self, types: Row) -> list[ValueType | None]:
        """Types of a body, from outside of it."""
        return [renewed(t, self.outer, self.d.fresh) for t in types]

    def left_behind(self, state: Row, stacked: Row, length: Dim, axes: Sequence[int]) -> list[ValueType | None]:
        """What a loop gives: what it carried, and what it stacked along axes."""
        out = self.seen(state)
        for i, t in enumerate(stacked):
            if not isinstance(t, Tensor):
                raise self.unsupported("what it stacks: expected tensors of numbers whose rank is known")
            (seen,) = self.seen([t])
            assert isinstance(seen, Tensor), "it was one"
            at = int(axes[i % len(axes)]) % (t.rank + 1)
            out.append(Tensor((*seen.shape[:at], length, *seen.shape[at:]), t.elem))
        return out


def _if(f: _Flow) -> _Control:
    drafts = tuple(f.body(g) for g in subgraphs(f.node))
    first, second = (f.seen(draft.types) for draft in drafts)
    return [joined(a, b, f.d.fresh) for a, b in zip(first, second, strict=True)], drafts


def _loop(f: _Flow) -> _Control:
    state, draft = f.steady(f.inputs[2:], before=(Tensor((), I64), Tensor((), BOOL)), skip=1)
    return f.left_behind(state, draft.types[1 + len(state) :], f.d.fresh(), (0,)), (draft,)


def _scan(f: _Flow) -> _Control:
    attributes = plain_attributes(f.node, location(f.node, f.d.loaded.file))
    scanned, types = int(attributes["num_scan_inputs"]), f.inputs
    states, xs = types[: len(types) - scanned], types[len(types) - scanned :]
    slices: list[ValueType | None] = []
    length: Dim = 0
    for x, axis in zip(xs, attributes.get("scan_input_axes", [0] * scanned), strict=True):
        if not isinstance(x, Tensor):
            raise f.unsupported("expected tensors of numbers")
        at = int(axis) % x.rank
        length = x.shape[at]
        slices.append(Tensor(x.shape[:at] + x.shape[at + 1 :], x.elem))
    state, draft = f.steady(states, after=slices)
    stacked = draft.types[len(state) :]
    return f.left_behind(state, stacked, length, attributes.get("scan_output_axes", [0] * len(stacked))), (draft,)


def _sequence_map(f: _Flow) -> _Control:
    (graph,) = subgraphs(f.node)
    draft = f.body(graph, [t.element if isinstance(t, Sequenced) else t for t in f.inputs])
    return [Sequenced(t) for t in f.seen(draft.types)], (draft,)


_CONTROL = {"If": _if, "Loop": _loop, "Scan": _scan, "SequenceMap": _sequence_map}


# the program as data


class _Writer:
    """Writes drafts down; collects the parts and the constants that they refer to."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.funcs: list[Func] = []
        self.weights: list[Weight] = []

    def graph(self, draft: _Draft, inputs: Sequence[str] | None = None) -> HostGraph:
        """A graph; `inputs` are those of its that no initialiser backs."""
        read = _constants_read(draft)
        steps = tuple(self._step(s) for s in draft.steps)
        constants = {name: self._constant(array) for name, array in draft.constants.items() if name in read}
        empties = tuple(_empty_of(t) for t in draft.types)
        names = draft.inputs if inputs is None else tuple(inputs)
        return HostGraph(names, draft.outputs, constants, steps, empties)

    def _step(self, step: _DraftedPart | _DraftedNode) -> HostPart | HostNode:
        if isinstance(step, _DraftedPart):
            self.funcs.append(step.func)
            return HostPart(len(self.funcs) - 1)
        node = step.node
        attributes = {
            name: self._attribute(value) for name, value in plain_attributes(node, location(node, self.file)).items()
        }
        bodies = tuple(self.graph(b) for b in step.bodies)
        return HostNode(
            node.op_type, domain_of(node), node.name, tuple(node.input), tuple(node.output), attributes, bodies
        )

    def _attribute(self, value: Any) -> Attribute:
        if isinstance(value, np.ndarray):
            return self._constant(cast("Array", value))
        return tuple(cast("list[Any]", value)) if isinstance(value, list) else value

    def _constant(self, array: Array) -> Constant | Texts:
        elem = scalar_of(array.dtype)
        if elem is None:
            return Texts(tuple(texts_of(array)), tuple(array.shape))
        dense = np.ascontiguousarray(array).reshape(array.shape)  # which makes a 0-d array 1-d
        self.weights.append(Weight(f"c{len(self.weights)}", elem.name, dense))
        return Constant(len(self.weights) - 1)


def _constants_read(draft: _Draft) -> set[str]:
    """What Python's nodes and the outputs read, those of bodies too."""
    out = set(draft.outputs)
    for step in draft.steps:
        if isinstance(step, _DraftedNode):
            out |= set(step.node.input)
            for body in step.bodies:
                out |= _constants_read(body)
    return out


def _empty_of(t: ValueType | None) -> tuple[str, tuple[int, ...]]:
    """An element and dims: 0 for one that is not known. What is no tensor is never stacked."""
    if isinstance(t, Tensor):
        return t.elem.name, tuple(d if isinstance(d, int) else 0 for d in t.shape)
    return TEXT, ()
