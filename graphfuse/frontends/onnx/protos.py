"""What is asked of ONNX's messages everywhere: the graphs inside nodes, what these are called, lists anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import onnx

Name = tuple[str, str]
"""Domain and operator; the default domain is empty."""


def domain_of(named: onnx.NodeProto | onnx.OperatorSetIdProto) -> str:
    """The domain of a node, or of an import, the default one as nothing."""
    return "" if named.domain == "ai.onnx" else named.domain


def name_of(node: onnx.NodeProto) -> Name:
    """What a node calls."""
    return domain_of(node), node.op_type


def opset_of(imports: Iterable[onnx.OperatorSetIdProto], default: int = 0) -> int:
    """The version of the default domain, if it is among the imports."""
    return next((o.version for o in imports if not domain_of(o)), default)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs in a node's attributes."""
    for a in node.attribute:
        if a.type == onnx.AttributeProto.GRAPH:
            yield a.g
        elif a.type == onnx.AttributeProto.GRAPHS:
            yield from a.graphs


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Every node, those of nested graphs included."""
    for n in nodes:
        yield n
        for g in subgraphs(n):
            yield from all_nodes(g.node)


def names_read(graphs: Iterable[onnx.GraphProto]) -> set[str]:
    """Every name that a node or a graph output reads, nested graphs included."""
    out: set[str] = set()
    for graph in graphs:
        out |= {o.name for o in graph.output}
        for n in graph.node:
            out.update(n.input)
            out |= names_read(subgraphs(n))
    return out


def set_items(field: Any, items: Iterable[Any]) -> None:
    """Make these the messages of a repeated field, of which they may be."""
    copies: list[Any] = [type(item).FromString(item.SerializeToString()) for item in items]
    del field[:]
    field.extend(copies)
