"""Dims that bodies declare, made nodes: ONNX Runtime refuses to run a Scan or an If whose body gets or gives others.

Of a Scan's body all dims of its inputs must be as declared. What a Scan's body and a branch give is stored in a tensor
of the dims that they declare, unless these are known to be others. A Loop's are no more than hints.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx
from onnx import TensorProto, helper

from graphfuse.frontends.onnx.protos import name_of, set_items, subgraphs

OWN, BODY = "graphfuse", "Body"
"""The operator that gives its input, whose `dims` must be those that are not -1; `hint`: unless they are numbers."""


def check_bodies(model: onnx.ModelProto, nodes: Iterable[onnx.NodeProto]) -> None:
    """Insert the operator into the bodies of nodes."""
    constants = {t.name for t in model.graph.initializer}
    is_used = False
    for n in list(nodes):
        constants.update(o for o in n.output if n.op_type == "Constant")
        if name_of(n) in (("", "Scan"), ("", "If")) and n.input[0] not in constants:
            for g in subgraphs(n):
                is_used |= _check(g, n)
    if is_used:
        model.opset_import.append(helper.make_opsetid(OWN, 1))


def _check(graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    """Insert it into one graph. A part of a model has it already."""
    if any((n.domain, n.op_type) == (OWN, BODY) for n in graph.node):
        return False
    where = f"of the body of {node.op_type} {node.name!r}" if node.name else f"of the body of {node.op_type}"
    made: list[onnx.NodeProto] = []
    for info in graph.input:
        if (dims := _dims(info)) is not None:
            inner, info.name = info.name, f"{info.name}/declared"
            made.append(_node(info.name, inner, dims, f"input {inner!r} {where}", hint=False))
    set_items(graph.node, [*made, *graph.node])
    seen: list[str] = []
    for info in graph.output:
        if (dims := _dims(info)) is not None and max(dims, default=-1) >= 0:
            inner, info.name = info.name, f"{info.name}/declared" + "'" * seen.count(info.name)
            seen.append(inner)  # a body may give one value twice
            made.append(_node(inner, info.name, dims, f"output {inner!r} {where}", hint=True))
            graph.node.append(made[-1])
    return bool(made)


def _dims(info: onnx.ValueInfoProto) -> list[int] | None:
    """The dims that a tensor of numbers declares, -1 for one that is left open."""
    t = info.type.tensor_type
    if not info.type.HasField("tensor_type") or not t.HasField("shape") or t.elem_type == TensorProto.STRING:
        return None
    return [d.dim_value if d.HasField("dim_value") else -1 for d in t.shape.dim]


def _node(inside: str, outside: str, dims: list[int], what: str, *, hint: bool) -> onnx.NodeProto:
    node = helper.make_node(BODY, [inside], [outside], domain=OWN, what=what, hint=int(hint))
    node.attribute.append(helper.make_attribute("dims", dims, attr_type=onnx.AttributeProto.INTS))
    return node
