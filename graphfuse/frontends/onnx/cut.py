"""Cuts a graph into parts that are compiled and nodes that Python executes.

The level of a node is the largest number of Python's nodes on a path to it. The compiled nodes of a level are one part,
so there are as few as can be; level by level the part runs first. (`torch/cut.py` does the same to FX graphs.)
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

import onnx

from graphfuse.errors import Loc, UnsupportedError
from graphfuse.frontends.onnx.functions import is_supported
from graphfuse.frontends.onnx.load import node_loc
from graphfuse.frontends.onnx.node import attributes_of
from graphfuse.frontends.onnx.protos import domain_of, name_of, names_read, subgraphs
from graphfuse.frontends.onnx.python_ops import PYTHON_OPS

CONTROL = frozenset({"If", "Loop", "Scan", "SequenceMap"})
"""Operators whose bodies are graphs of their own, cut in turn."""

ALSO_COMPILED = frozenset(
    {"OptionalHasElement", "OptionalGetElement", "NonZero", "Compress", "Unique", "Dropout", "OneHotEncoder"}
)
"""Operators that are compiled in a model without host code, but not for every input."""


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes to compile together: what they read from outside, and what others read of theirs."""

    nodes: tuple[onnx.NodeProto, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


Step = Part | onnx.NodeProto


def is_control(node: onnx.NodeProto) -> bool:
    """Whether a node runs graphs."""
    return not domain_of(node) and node.op_type in CONTROL


def is_python(node: onnx.NodeProto, opset: int) -> bool:
    """Whether Python executes a node, whatever its inputs are."""
    if is_control(node):
        return True
    if not domain_of(node) and node.op_type == "Constant":
        return any(name.startswith("value_string") for name in attributes_of(node)) or any(
            a.t.data_type == onnx.TensorProto.STRING for a in node.attribute if a.name == "value"
        )
    if not domain_of(node) and node.op_type == "Cast":
        return attributes_of(node).get("to") == onnx.TensorProto.STRING
    return name_of(node) in PYTHON_OPS and (node.op_type in ALSO_COMPILED or not is_supported(node, opset))


def cut(
    graph: onnx.GraphProto, opset: int, file: str, python: Container[str] = (), compiled: Container[str] = ()
) -> list[Step]:
    """The steps of a graph, in the order they run. Refuses operators that neither way is there for.

    Python also executes the nodes whose names are in `python`, and not those in `compiled`.
    """
    for i, node in enumerate(graph.node):
        if not is_python(node, opset) and not is_supported(node, opset):
            name = f"{node.domain or 'ai.onnx'}::{node.op_type}"
            raise UnsupportedError(f"unsupported operator {name}", node_loc(file, node, i))
    level_of: dict[str, int] = {}
    levels: dict[int, tuple[list[onnx.NodeProto], list[onnx.NodeProto]]] = {}
    for node in graph.node:
        level = max((level_of.get(n, 0) for n in reads(node)), default=0)
        by_python = (is_python(node, opset) and node.name not in compiled) or node.name in python
        levels.setdefault(level, ([], []))[by_python].append(node)
        level_of.update((o, level + by_python) for o in node.output if o)
    wanted = names_read([graph])
    steps: list[Step] = []
    for _, (together, others) in sorted(levels.items()):
        if together:
            steps.append(part_of(together, wanted))
        steps += others
    return steps


def part_of(nodes: Sequence[onnx.NodeProto], wanted: set[str]) -> Part:
    """The part that these nodes are."""
    made = dict.fromkeys(o for n in nodes for o in n.output if o)
    inputs = dict.fromkeys(name for n in nodes for name in reads(n) if name not in made)
    return Part(tuple(nodes), tuple(inputs), tuple(o for o in made if o in wanted))


def reads(node: onnx.NodeProto) -> tuple[str, ...]:
    """What a node reads of its graph, its bodies included."""
    names = [n for n in node.input if n]
    for graph in subgraphs(node):
        own = {i.name for i in graph.input} | {t.name for t in graph.initializer}
        own |= {o for n in graph.node for o in n.output}
        inner = [name for n in graph.node for name in reads(n)] + [o.name for o in graph.output]
        names += [name for name in inner if name not in own]
    return tuple(dict.fromkeys(names))


def location(node: onnx.NodeProto, file: str) -> Loc:
    """Where a node is, without its number."""
    return Loc(file, node=node.name or node.op_type)
