"""Operators that are compiled where values and dims are known, when only a run knows them: imported and interpreted."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any, cast

import numpy as np
import onnx
from onnx import helper, numpy_helper

from graphfuse.errors import GraphfuseError, InputError
from graphfuse.frontends.host_values import Array
from graphfuse.frontends.onnx.functions import is_supported
from graphfuse.frontends.onnx.importer import import_model
from graphfuse.frontends.onnx.node import UnknownValueError
from graphfuse.frontends.onnx.python_ops.call import Call
from graphfuse.frontends.onnx.specialise import model_of_node
from graphfuse.interp.graph import run
from graphfuse.ir.core import Func, strs_of
from graphfuse.ir.types import Tensor
from graphfuse.symbolic import static
from graphfuse.targets.memory import physical_bytes
from graphfuse.value_checks import ATTR, checks_of, look

MOST_KNOWN = 16
"""Functions that a node keeps."""


def is_interpreted(op: str, domain: str) -> bool:
    """Whether `interpreted` knows an operator."""
    return is_supported(onnx.NodeProto(op_type=op, domain=domain), onnx.defs.onnx_opset_version())


def interpreted(c: Call) -> tuple[Array, ...]:
    """The results, by the graph IR that the operator is for these inputs; InputError for those that it refuses."""
    fed = {f"x{i}": cast("Array", x) for i, x in enumerate(c.inputs) if x is not None}
    try:
        func = _known(c, fed)
        found = run(func, *(fed[name] for name in strs_of(func.attrs["inputs"]) or ()))
        if ATTR in func.attrs:
            look(checks_of(func.attrs[ATTR]), found[-1].tolist(), {})
    except GraphfuseError as e:
        raise (type(e) if isinstance(e, InputError) else InputError)(e.message, c.loc) from e
    return found[: c.outputs]


def _known(c: Call, fed: dict[str, Array]) -> Func:
    """The function for inputs of these types, and for the values that decide shapes: perhaps that of a call before."""
    wanted = c.memory.setdefault("wanted", set[str]())

    def key() -> object:
        return tuple((n, x.shape, x.dtype, x.tobytes() if n in wanted else b"") for n, x in fed.items())

    funcs = c.memory.setdefault("funcs", OrderedDict[object, Func]())
    if (func := funcs.get(key())) is None:
        func = _imported(model_of_node(_node(c), c.inputs, None), fed, wanted)
        _check_memory(func)
        funcs[key()] = func
        if len(funcs) > MOST_KNOWN:
            funcs.popitem(last=False)
    return func


def _node(c: Call) -> onnx.NodeProto:
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(c.inputs)]
    made = [f"y{i}" for i in range(c.outputs)]
    attributes = {name: _attribute(value) for name, value in c.attributes.items()}
    return helper.make_node(c.op, names, made, name=c.op, domain=c.domain, **attributes)


def _imported(model: onnx.ModelProto, fed: dict[str, Array], wanted: set[str]) -> Func:
    """Its function, with those inputs as constants whose values it wants."""
    while True:
        try:
            return import_model(model, bind={name: fed[name] for name in tuple(wanted)})  # another call may add to it
        except UnknownValueError as e:
            if not set(e.inputs) - wanted:
                raise
            wanted |= set(e.inputs)


def _check_memory(func: Func) -> None:
    for op in func.walk():
        for t in op.types:
            if isinstance(t, Tensor) and math.prod(map(static, t.shape)) * t.elem.bits > 8 * physical_bytes():
                raise MemoryError


def _attribute(value: Any) -> Any:
    return numpy_helper.from_array(cast("Array", value)) if isinstance(value, np.ndarray) else value
