"""Operators that hand-written kernels implement: they come before handlers, and before function bodies of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import onnx

from graphfuse.frontends.emit import Emitter
from graphfuse.frontends.onnx.node import Node
from graphfuse.frontends.onnx.protos import Name, name_of
from graphfuse.ir.core import Value

if TYPE_CHECKING:
    from graphfuse.frontends.tc_ops import Operator


def by_name(operators: Sequence[Operator]) -> dict[Name, Operator]:
    """Each operator by what nodes call it."""
    return {name_of(onnx.NodeProto(domain=o.header.domain, op_type=o.header.name)): o for o in operators}


def call_kernel(e: Emitter, node: Node, operator: Operator) -> tuple[Value, ...]:
    """The kernel on the node's inputs."""
    made = operator.call(node.values(e), node.attributes, same=e.same)
    return e.block.append(replace(made, loc=node.loc)).results
