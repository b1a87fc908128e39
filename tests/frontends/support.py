"""Build small ONNX models and compare their import, run by the interpreter, with a reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from graphfuse.frontends.onnx import import_model
from graphfuse.interp.graph import run
from graphfuse.ir.core import Func
from graphfuse.ir.verifier import verify
from graphfuse.value_checks import FINE

Array = np.ndarray[Any, Any]
OPSET = onnx.defs.onnx_opset_version()


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def floats(*shape: int, seed: int = 0) -> Array:
    return rng(seed).standard_normal(shape).astype(np.float32)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[Any, Sequence[int | str | None]]],
    outputs: Sequence[str],
    constants: Mapping[str, Array] | None = None,
    opset: int = OPSET,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """A model; inputs by name as (numpy dtype, shape). Outputs are declared f32 without a shape; see `declare`."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.dtype(t)), s)
            for n, (t, s) in inputs.items()
        ],
        [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(f.domain, 1) for f in functions)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=list(functions))


def one_op(
    op: str,
    arrays: Sequence[Array | None],
    *,
    known: Sequence[int] = (),
    outputs: int = 1,
    symbolic: bool = False,
    opset: int = OPSET,
    domain: str = "",
    **attributes: Any,
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model of one node; inputs at `known` are initialisers, None is a missing one. `symbolic` hides all dims."""
    names = [f"x{i}" if a is not None else "" for i, a in enumerate(arrays)]
    given = {n: a for n, a in zip(names, arrays, strict=True) if a is not None}
    constants = {f"x{i}": given[f"x{i}"] for i in known}
    fed = {n: a for n, a in given.items() if n not in constants}
    node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], domain=domain, **attributes)
    inputs = {n: (a.dtype, [None] * a.ndim if symbolic else list(a.shape)) for n, a in fed.items()}
    return model_of([node], inputs, [f"y{i}" for i in range(outputs)], constants, opset), fed


def reference(model: onnx.ModelProto, fed: Mapping[str, Array]) -> list[Array]:
    return [np.asarray(a) for a in ReferenceEvaluator(model).run(None, dict(fed))]


def onnxruntime_reference(model: onnx.ModelProto, fed: Mapping[str, Array]) -> list[Array]:
    """What ONNX Runtime computes; the model's opset must be one that it knows."""
    session = pytest.importorskip("onnxruntime").InferenceSession(model.SerializeToString())
    return list(session.run(None, dict(fed)))


def declare(model: onnx.ModelProto, want: Sequence[Array]) -> None:
    """Declare the outputs to have the elements of `want`."""
    for info, array in zip(model.graph.output, want, strict=True):
        info.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(array.dtype)


def outputs_of(func: Func, fed: Mapping[str, Array]) -> list[Array]:
    """What a function gives by the interpreter; no check of values may fail."""
    inputs, outputs = func.attrs["inputs"], func.attrs["outputs"]
    assert isinstance(inputs, tuple)
    assert isinstance(outputs, tuple)
    results = run(func, *(fed[str(n)] for n in inputs))
    assert all((report == FINE).all() for report in results[len(outputs) :])
    return list(results[: len(outputs)])


def check(
    model: onnx.ModelProto,
    fed: Mapping[str, Array],
    want: Sequence[Array] | None = None,
    *,
    rtol: float = 1e-5,
    atol: float = 1e-6,
) -> None:
    """Import, verify, run, and compare dtype, shape and numbers."""
    want = reference(model, fed) if want is None else want
    declare(model, want)
    func = import_model(model)
    verify(func)
    got = outputs_of(func, fed)
    for g, w in zip(got, want, strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        if g.dtype.kind == "f":
            np.testing.assert_allclose(g, w, rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(g, w)
