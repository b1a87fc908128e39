"""The exact JSON of a host program. What is read may be hostile."""

from __future__ import annotations

from typing import cast

from graphfuse.artifact import ELEMS, TEXT, Json
from graphfuse.artifact_json import Node
from graphfuse.host.program import MOST_NESTED, Attribute, Constant, HostGraph, HostNode, HostPart, Texts


def host_to_json(graph: HostGraph) -> dict[str, Json]:
    """The JSON of a program, or of a body."""
    return {
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "constants": {name: _attribute_to_json(value) for name, value in graph.constants.items()},
        "steps": [_step_to_json(s) for s in graph.steps],
        "empties": [[elem, list(dims)] for elem, dims in graph.empties],
    }


def _step_to_json(step: HostPart | HostNode) -> Json:
    if isinstance(step, HostPart):
        return {"part": step.part}
    return {
        "op": step.op,
        "domain": step.domain,
        "name": step.name,
        "inputs": list(step.inputs),
        "outputs": list(step.outputs),
        "attributes": {name: _attribute_to_json(value) for name, value in step.attributes.items()},
        "bodies": [host_to_json(b) for b in step.bodies],
    }


def _attribute_to_json(value: Attribute) -> Json:
    match value:
        case Constant(weight):
            return {"weight": weight}
        case Texts(texts, shape):
            return {"texts": list(texts), "shape": list(shape)}
        case tuple():
            return list(value)
        case _:
            return value


def host_from_json(root: Node, depth: int = 0) -> HostGraph:
    """Read what `host_to_json` wrote; `check_program` then says whether it holds together."""
    if depth > MOST_NESTED:
        root.fail(f"graphs nested at most {MOST_NESTED} deep")
    constants: dict[str, Constant | Texts] = {}
    for name in root["constants"].object():
        value = _attribute_from_json(root["constants"][name])
        if not isinstance(value, (Constant, Texts)):
            root["constants"][name].fail("a constant")
        constants[name] = value
    empties: list[tuple[str, tuple[int, ...]]] = []
    for row in root["empties"].items():
        elem, dims = row.items(2, 2)
        empties.append((elem.one_of((*ELEMS, TEXT)), tuple(d.integer() for d in dims.items(0, 64))))
    steps = tuple(_step_from_json(s, depth) for s in root["steps"].items())
    return HostGraph(_texts(root["inputs"]), _texts(root["outputs"]), constants, steps, tuple(empties))


def _step_from_json(node: Node, depth: int) -> HostPart | HostNode:
    if "part" in node.object():
        return HostPart(node["part"].integer())
    op, domain, name = (node[key].text() for key in ("op", "domain", "name"))
    attributes = {key: _attribute_from_json(node["attributes"][key]) for key in node["attributes"].object()}
    bodies = tuple(host_from_json(b, depth + 1) for b in node["bodies"].items())
    return HostNode(op, domain, name, _texts(node["inputs"]), _texts(node["outputs"]), attributes, bodies)


def _attribute_from_json(node: Node) -> Attribute:
    value = node.value
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        return value
    if isinstance(value, list):
        values = cast("list[object]", value)
        if not all(isinstance(v, (int, float, str)) for v in values):
            node.fail("a list of numbers or of texts")
        return tuple(cast("list[int | float | str]", values))
    if "weight" in node.object():
        return Constant(node["weight"].integer())
    return Texts(_texts(node["texts"]), tuple(d.integer() for d in node["shape"].items(0, 64)))


def _texts(node: Node) -> tuple[str, ...]:
    return tuple(t.text() for t in node.items())
