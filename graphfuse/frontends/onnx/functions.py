"""Operators that the ONNX standard defines by a function body: the fallback for those without a handler.

Owns finding and instantiating bodies. Does not import their nodes (`importer.py` does).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, NodeProto, helper

from graphfuse.frontends.onnx.node import HANDLERS, Node, elem_to_onnx
from graphfuse.frontends.onnx.protos import domain_of, name_of, opset_of, set_items
from graphfuse.ir.types import Tensor


@dataclass(frozen=True, slots=True)
class Body:
    """A function body whose attribute references are resolved."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[NodeProto, ...]
    opset: int


def is_supported(node: NodeProto, opset: int) -> bool:
    """Whether the operator has a handler, or a body of operators that have one."""
    domain, op = name_of(node)
    return _is_supported(domain, op, opset if not domain else 1)


@functools.lru_cache(maxsize=1024)
def _is_supported(domain: str, op: str, opset: int) -> bool:
    if (domain, op) in HANDLERS or (not domain and op in ("If", "Loop", "Scan")):
        return True
    if (schema := _schema(domain, op, opset)) is None:
        return False
    if schema.has_function:
        return all(_is_supported(n.domain, n.op_type, opset) for n in schema.function_body.node)
    # the body depends on types that are not known yet
    return bool(schema.has_context_dependent_function) and op not in ("SequenceMap", "Bernoulli")


def _schema(domain: str, op: str, opset: int) -> Any:
    """The OpSchema (onnx's stubs leave out most of it), or None."""
    try:
        return onnx.defs.get_schema(op, opset, domain)
    except onnx.defs.SchemaError:
        return None


def function_body(node: Node, opset: int) -> Body:
    """The standard's body of `node`, for its input types and attributes."""
    domain = domain_of(node.proto)
    schema = _schema(domain, node.op, opset if not domain else 1)
    if schema is None:
        raise node.unsupported("the operator is unknown")
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= opset] or list(schema.function_opset_versions)
        data = schema.get_function_with_opset_version(max(versions))
    elif schema.has_context_dependent_function:
        versions = list(schema.context_dependent_function_opset_versions)
        fit = [v for v in versions if v <= opset] or versions
        types = [_type_proto(x.type).SerializeToString() if x is not None else b"" for x in node.inputs]
        data = schema.get_context_dependent_function_with_opset_version(max(fit), node.proto.SerializeToString(), types)
    else:
        raise node.unsupported("the operator is not supported")
    function = FunctionProto.FromString(data)
    given = {a.name: a for a in node.proto.attribute}
    defaults = {a.name: a for a in function.attribute_proto}
    declared = {name: a.default_value for name, a in schema.attributes.items()}
    defaults |= {name: a for name, a in declared.items() if a.type != AttributeProto.UNDEFINED}
    nodes = tuple(_resolve(n, defaults | given) for n in function.node)
    imported = opset_of(function.opset_import, opset)
    return Body(tuple(function.input), tuple(function.output), nodes, imported)


def _type_proto(t: object) -> onnx.TypeProto:
    assert isinstance(t, Tensor)
    shape = [d if isinstance(d, int) else None for d in t.shape]
    return helper.make_tensor_type_proto(elem_to_onnx(t.elem), shape)


def _resolve(node: NodeProto, attributes: dict[str, AttributeProto]) -> NodeProto:
    """A copy with references to the function's attributes replaced by their values, left out where not given."""
    out = NodeProto()
    out.CopyFrom(node)
    del out.attribute[:]
    for a in node.attribute:
        if a.ref_attr_name and a.ref_attr_name not in attributes:
            continue
        new = out.attribute.add()
        new.CopyFrom(attributes[a.ref_attr_name] if a.ref_attr_name else a)
        new.name = a.name
        if a.type == AttributeProto.GRAPH and not a.ref_attr_name:
            set_items(new.g.node, [_resolve(n, attributes) for n in a.g.node])
    return out
