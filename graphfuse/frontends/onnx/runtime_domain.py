"""Operators that ONNX Runtime writes into ONNX's domain although they are its own. Owns their names only."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from graphfuse.frontends.onnx.node import MICROSOFT
from graphfuse.frontends.onnx.protos import all_nodes, domain_of, opset_of

IN_STANDARD_SINCE = {"LayerNormalization": 17, "SimplifiedLayerNormalization": None}
"""From which opset on they are the standard's, if ever."""


def name_runtime_ops(model: onnx.ModelProto) -> None:
    """Put them into ONNX Runtime's domain, in place."""
    for nodes, imports in (
        (model.graph.node, model.opset_import),
        *((f.node, f.opset_import) for f in model.functions),
    ):
        if _renamed(all_nodes(nodes), opset_of(imports)) and all(o.domain != MICROSOFT for o in imports):
            imports.add(domain=MICROSOFT, version=1)


def _renamed(nodes: Iterable[onnx.NodeProto], opset: int) -> bool:
    """Whether any of the nodes had to be renamed."""
    found = False
    for n in nodes:
        since = IN_STANDARD_SINCE.get(n.op_type, 0)
        if not domain_of(n) and (since is None or opset < since):
            n.domain, found = MICROSOFT, True
    return found
