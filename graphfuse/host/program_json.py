"""The exact JSON of a host program. What is read may be hostile; `check_program` says whether it holds together."""

from __future__ import annotations

from typing import Any, cast

from graphfuse.artifact import ELEMS, TEXT, Json
from graphfuse.artifact_json import TEXT as TEXT_FORM
from graphfuse.artifact_json import Form, Node, either, integer, listed, nested, one_of, record, row
from graphfuse.host.program import MOST_NESTED, Attribute, Constant, HostGraph, HostNode, HostPart, Texts

_TEXTS, _DIMS = listed(TEXT_FORM), listed(integer(), 0, 64)
_CONSTANT = either("weight", Constant, record(Constant, weight=integer()), record(Texts, texts=_TEXTS, shape=_DIMS))


def _write_attribute(value: Attribute) -> Json:
    match value:
        case Constant() | Texts():
            return _CONSTANT.write(value)
        case tuple():
            return list(value)
        case _:
            return value


def _read_attribute(node: Node) -> Attribute:
    value = node.value
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        return value
    if isinstance(value, list):
        values = cast("list[object]", value)
        if not all(isinstance(v, (int, float, str)) for v in values):
            node.fail("a list of numbers or of texts")
        return tuple(cast("list[int | float | str]", values))
    return _CONSTANT.read(node)


def _named(form: Form[Any]) -> Form[dict[str, Any]]:
    """An object with any keys."""
    return Form(
        lambda values: {name: form.write(value) for name, value in values.items()},
        lambda node: {name: form.read(node[name]) for name in node.object()},
    )


def _read_constant(node: Node) -> Constant | Texts:
    if not isinstance(node.value, dict):
        node.fail("a constant")
    return _CONSTANT.read(node)


PROGRAM: Form[HostGraph] = nested(lambda: _GRAPH, "graphs", "bodies", MOST_NESTED)

_NODE = record(
    HostNode,
    op=TEXT_FORM,
    domain=TEXT_FORM,
    name=TEXT_FORM,
    inputs=_TEXTS,
    outputs=_TEXTS,
    attributes=_named(Form(_write_attribute, _read_attribute)),
    bodies=listed(PROGRAM),
)

_GRAPH = record(
    HostGraph,
    inputs=_TEXTS,
    outputs=_TEXTS,
    constants=_named(Form[Any](_CONSTANT.write, _read_constant)),
    steps=listed(either("part", HostPart, record(HostPart, part=integer()), _NODE)),
    empties=listed(row(one_of((*ELEMS, TEXT)), _DIMS)),
)
