"""Models with less left open: inputs become constants, or get static shapes; a node becomes a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import onnx
from onnx import helper, numpy_helper

from graphfuse.errors import InputError, VerifyError
from graphfuse.frontends.host_values import Array
from graphfuse.frontends.onnx.protos import domain_of, set_items

Shape = tuple[int, ...]


def free_inputs(model: onnx.ModelProto) -> tuple[str, ...]:
    """The inputs that no initialiser backs, in the graph's order."""
    backed = {t.name for t in model.graph.initializer}
    return tuple(i.name for i in model.graph.input if i.name not in backed)


def open_shapes(model: onnx.ModelProto) -> bool:
    """Whether the shape of some input is not static."""
    tensors = [i.type.tensor_type for i in model.graph.input if i.type.HasField("tensor_type")]
    return any(not t.HasField("shape") or any(not d.HasField("dim_value") for d in t.shape.dim) for t in tensors)


def specialised(model: onnx.ModelProto, shapes: Mapping[str, Shape], values: Mapping[str, Array]) -> onnx.ModelProto:
    """A copy whose inputs have these shapes, and those with values are initialisers."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    kept = [i for i in out.graph.input if i.name not in values]
    for i in kept:
        if i.name in shapes:
            info = helper.make_tensor_value_info(i.name, i.type.tensor_type.elem_type, list(shapes[i.name]))
            i.CopyFrom(info)
    set_items(out.graph.input, kept)
    out.graph.initializer.extend(tensor_proto(name, array) for name, array in values.items())
    if out.ir_version < 4:
        out.ir_version = 4  # initialisers need not be inputs
    return out


def tensor_proto(name: str, array: Array) -> onnx.TensorProto:
    """An array as a tensor of a model."""
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def model_of_node(node: onnx.NodeProto, inputs: Sequence[Any], opset: int | None) -> onnx.ModelProto:
    """A model of one node whose inputs have the types of these arrays; None is an input that is left out."""
    given = [(n, v) for n, v in zip(node.input, inputs, strict=False) if n]
    if len(given) != sum(bool(n) for n in node.input):
        raise InputError(f"{node.op_type}: expected {sum(bool(n) for n in node.input)} inputs, found {len(given)}")
    infos: dict[str, onnx.ValueInfoProto] = {}
    for name, value in given:
        if not isinstance(value, np.ndarray):
            raise InputError(f"{node.op_type}: input {name!r}: expected an array, found {type(value).__name__}")
        infos[name] = value_info(name, cast("Array", value))
    outputs = [onnx.ValueInfoProto(name=o) for o in node.output if o]
    graph = helper.make_graph([node], node.op_type, list(infos.values()), outputs)
    version = onnx.defs.onnx_opset_version() if opset is None else opset
    imports = [helper.make_opsetid("", version)]
    if domain_of(node):
        key, named = (node.domain, node.op_type), {a.name for a in node.attribute}
        known = [s for s in onnx.defs.get_all_schemas_with_history() if (s.domain, s.name) == key]
        oldest = min((s.since_version for s in known if named <= s.attributes.keys()), default=1)
        imports.append(helper.make_opsetid(node.domain, oldest))
    return helper.make_model(graph, opset_imports=imports, ir_version=onnx.IR_VERSION)


def value_info(name: str, array: Array) -> onnx.ValueInfoProto:
    """The type of an array as an input declares it."""
    if array.dtype.kind in "OUS":
        return helper.make_tensor_value_info(name, onnx.TensorProto.STRING, list(array.shape))
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), list(array.shape))


def array_of_strings(tensor: onnx.TensorProto) -> Array | None:
    """The elements of a tensor of strings, None for one of numbers."""
    if tensor.data_type != onnx.TensorProto.STRING:
        return None
    try:
        return numpy_helper.to_array(tensor)
    except (ValueError, TypeError) as e:
        found = f"{len(tensor.string_data)} texts"
        raise VerifyError(f"initialiser {tensor.name!r}: expected shape {tuple(tensor.dims)}, found {found}") from e
