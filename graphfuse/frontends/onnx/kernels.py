"""Operators that hand-written kernels implement: they come before handlers, and before function bodies of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import onnx

from graphfuse.frontends.emit import Emitter
from graphfuse.frontends.onnx.node import Node
from graphfuse.ir.core import Value

if TYPE_CHECKING:
    from graphfuse.frontends.tc_ops import Operator

Name = tuple[str, str]
"""Domain and operator; the default domain is empty."""


def name_of(proto: onnx.NodeProto) -> Name:
    """What a node calls."""
    return _name(proto.domain, proto.op_type)


def _name(domain: str, op: str) -> Name:
    return "" if domain == "ai.onnx" else domain, op


def by_name(operators: Sequence[Operator]) -> dict[Name, Operator]:
    """Each operator by what nodes call it."""
    return {_name(o.header.domain, o.header.name): o for o in operators}


def call_kernel(e: Emitter, node: Node, operator: Operator) -> tuple[Value, ...]:
    """The kernel on the node's inputs."""
    made = operator.call(node.values(e), node.attributes, same=e.same)
    return e.block.append(replace(made, loc=node.loc)).results
