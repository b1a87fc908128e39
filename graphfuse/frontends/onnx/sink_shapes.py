"""Shape arithmetic of a cut model: each part computes by itself what it needs of it.

A size that another part computed is data to a part, and no shape can depend on it; computed in the part from the shape
of one of its inputs, it is a symbol. `Constant` nodes become initialisers for the same reason.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import onnx
from onnx import TensorProto

from graphfuse.frontends.onnx.cut import Part, Step, part_of, reads
from graphfuse.frontends.onnx.node import attributes_of
from graphfuse.frontends.onnx.protos import domain_of, set_items, subgraphs
from graphfuse.frontends.onnx.specialise import tensor_proto

OF_SHAPES = frozenset({"Shape", "Size"})
ARITHMETIC = frozenset(
    {
        "Gather", "Unsqueeze", "Squeeze", "Concat", "Slice", "Reshape", "Identity", "Cast", "Add", "Sub", "Mul", "Div",
        "Mod", "Neg", "Abs", "Min", "Max", "Floor", "Ceil", "ReduceProd", "Equal", "Where", "ConstantOfShape",
    }
)  # fmt: skip
"""What exporters compute shapes with."""


def name_nodes(graph: onnx.GraphProto, taken: set[str] | None = None) -> None:
    """Give every node a name of its own; bodies too."""
    taken = set() if taken is None else taken
    for node in graph.node:
        if not node.name or node.name in taken:
            node.name = f"{node.name or node.op_type}#{len(taken)}"
        taken.add(node.name)
        for body in subgraphs(node):
            name_nodes(body, taken)


def lift_constants(graph: onnx.GraphProto) -> None:
    """Make initialisers of the numbers that `Constant` nodes hold, in bodies too."""
    kept: list[onnx.NodeProto] = []
    for node in graph.node:
        if not domain_of(node) and node.op_type == "Constant" and (tensor := _tensor(node)) is not None:
            graph.initializer.append(tensor)
            continue
        for body in subgraphs(node):
            lift_constants(body)
        kept.append(node)
    if len(kept) < len(graph.node):
        set_items(graph.node, kept)


def _tensor(node: onnx.NodeProto) -> TensorProto | None:
    if len(node.attribute) != 1:  # of a function's that its caller left out
        return None
    ((kind, value),) = attributes_of(node).items()
    if isinstance(value, TensorProto) and value.data_type != TensorProto.STRING:
        out = TensorProto()
        out.CopyFrom(value)
        out.name = node.output[0]
        return out
    if kind in ("value_int", "value_ints"):
        return tensor_proto(node.output[0], np.asarray(value, np.int64))
    if kind in ("value_float", "value_floats"):
        return tensor_proto(node.output[0], np.asarray(value, np.float32))
    return None


def sink_shapes(steps: Sequence[Step], graph: onnx.GraphProto, constants: Collection[str]) -> list[Step]:
    """The steps with shape arithmetic in every part that reads it; parts of nothing else that nobody reads go."""
    compiled = [n for s in steps if isinstance(s, Part) for n in s.nodes]
    shapes = _shape_arithmetic(graph, {n.name for n in compiled}, constants)
    position = {o: i for i, n in enumerate(graph.node) for o in n.output if o}
    outside = {o.name for o in graph.output}
    outside |= {name for s in steps if not isinstance(s, Part) for name in reads(s)}
    nodes = [_with_shapes(s, shapes, outside) if isinstance(s, Part) else [s] for s in steps]
    out: list[Step] = []
    for i, (step, own) in enumerate(zip(steps, nodes, strict=True)):
        if not isinstance(step, Part):
            out.append(step)
            continue
        there = {o for n in step.nodes for o in n.output}
        elsewhere = {name for j, others in enumerate(nodes) if j != i for n in others for name in reads(n)}
        made = {o for n in own for o in n.output if o}
        if wanted := {o for o in made if o in outside & there or (o in elsewhere and o not in shapes)}:
            own.sort(key=lambda n: min(position[o] for o in n.output if o))
            out.append(part_of(own, wanted))
    return out


def _shape_arithmetic(
    graph: onnx.GraphProto, compiled: Collection[str], constants: Collection[str]
) -> dict[str, onnx.NodeProto]:
    """The nodes that compute with nothing but shapes and constants, by what they make."""
    found: dict[str, onnx.NodeProto] = {}
    for node in graph.node:
        if node.name not in compiled or domain_of(node):
            continue
        if node.op_type in OF_SHAPES or (
            node.op_type in ARITHMETIC and all(n in found or n in constants for n in reads(node))
        ):
            found.update((o, node) for o in node.output if o)
    return found


def _with_shapes(part: Part, shapes: dict[str, onnx.NodeProto], outside: Collection[str]) -> list[onnx.NodeProto]:
    """The part's nodes that are more than shape arithmetic, or are read outside of parts, and the shapes they need."""
    kept = [n for n in part.nodes if any(o not in shapes or o in outside for o in n.output if o)]
    found = {n.name: n for n in kept}
    while kept:
        for name in reads(kept.pop()):
            if name in shapes and shapes[name].name not in found:
                found[shapes[name].name] = shapes[name]
                kept.append(shapes[name])
    return list(found.values())
