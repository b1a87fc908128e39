"""Scan of opset 8, whose operands have a batch before their sequence: rewritten as a Scan over the batch of Scans.

onnx's converter takes the batch to be 1 and drops it, from the model's inputs too.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx
from onnx import helper

from graphfuse.errors import UnsupportedError
from graphfuse.frontends.onnx.node import attributes_of

OPSET = 8
"""The only one whose Scan has batches."""
_CHANGED_NEXT = frozenset({"Upsample", "BatchNormalization"})
"""Operators of opset 8, but for Scan, that opset 9 reads in another way."""


def without_batches(model: onnx.ModelProto, nodes: Iterable[onnx.NodeProto]) -> None:
    """Make a model of opset 8 that has a Scan one of opset 9; others are left as they are."""
    nodes = list(nodes)
    scans = [n for n in nodes if n.op_type == "Scan"]
    if not scans:
        return
    if changed := [n.op_type for n in nodes if n.op_type in _CHANGED_NEXT]:
        raise UnsupportedError(f"{changed[0]} beside Scan in a model of opset {OPSET} is not supported")
    for n in scans:
        _rewrite(n)
    for o in model.opset_import:
        if not o.domain:
            o.version = OPSET + 1


def _rewrite(node: onnx.NodeProto) -> None:
    if node.input[0]:
        raise UnsupportedError("Scan: lengths of sequences are not supported")
    attributes = attributes_of(node)
    attributes["scan_input_directions"] = attributes.pop("directions", [0] * attributes["num_scan_inputs"])
    operands = list(node.input)[1:]
    # names of one sample are new to the graph: outputs are defined once, and these are made of one
    stem = next(o for o in node.output if o)
    inputs = [f"{stem}/operand{i}" for i in range(len(operands))]
    outputs = [f"{stem}/result{i}" for i in range(len(node.output))]
    sample = helper.make_node("Scan", inputs, outputs, name=node.name, **attributes)
    taken, given = ([onnx.ValueInfoProto(name=n) for n in names] for names in (inputs, outputs))
    body = helper.make_graph([sample], f"{stem}/sample", taken, given)
    whole = helper.make_node(
        "Scan", operands, list(node.output), name=node.name, num_scan_inputs=len(operands), body=body
    )
    node.CopyFrom(whole)
