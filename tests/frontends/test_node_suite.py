"""onnx's own node tests, in bulk: import, interpret, compare with the suite's expected outputs.

Inputs that must be numbers at compile time (shapes, axes, scales) are bound to the test's values.
"""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from graphfuse.errors import GraphfuseError, UnsupportedError
from graphfuse.frontends.onnx import import_model
from tests.frontends.support import Array, outputs_of

WIDE = {
    TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.BOOL, TensorProto.INT8, TensorProto.INT16, TensorProto.INT32,
    TensorProto.INT64, TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64,
}  # fmt: skip

# passes of all tests of that class; raise when more pass, never lower
FLOORS = {"wide": 1517, "narrow": 233}


def _class(model: onnx.ModelProto) -> str:
    kinds = [v.type for v in (*model.graph.input, *model.graph.output)]
    if any(t.WhichOneof("value") != "tensor_type" for t in kinds):
        return "other"
    elems = {t.tensor_type.elem_type for t in kinds}
    if TensorProto.STRING in elems:
        return "other"
    return "wide" if elems <= WIDE else "narrow"


def _array(x: Any) -> Any:
    return numpy_helper.to_array(x) if isinstance(x, TensorProto) else np.asarray(x)


def _compare(got: list[Array], want: list[Array], rtol: float, atol: float) -> None:
    for g, w in zip(got, want, strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        if w.dtype.kind in "fV":
            rtol = 2**-6 if w.dtype.name == "bfloat16" else rtol
            np.testing.assert_allclose(g.astype(np.float64), w.astype(np.float64), rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(g, w)


def _passes(case: Any) -> bool:
    inputs, outputs = case.data_sets[0]
    fed = {v.name: _array(a) for v, a in zip(case.model.graph.input, inputs, strict=False)}
    small = {n: a for n, a in fed.items() if a.size <= 64}
    vectors = {n: a for i, (n, a) in enumerate(small.items()) if a.ndim <= 1 and (i or a.dtype.kind in "iub")}
    for bind in ({}, vectors, small):
        try:
            func = import_model(case.model, bind=bind)
        except UnsupportedError:
            continue
        _compare(outputs_of(func, fed), [_array(o) for o in outputs], case.rtol or 1e-3, case.atol or 1e-7)
        return True
    return False


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")  # the suite's own generators overflow and divide by zero on purpose
def test_node_suite() -> None:
    from onnx.backend.test.loader import load_model_tests

    passed: collections.Counter[str] = collections.Counter()
    failed: list[str] = []
    for case in load_model_tests(kind="node"):
        kind = _class(case.model)
        if kind == "other":
            continue
        try:
            with np.errstate(all="ignore"):
                ok = _passes(case)
        except (GraphfuseError, AssertionError) as e:
            ok = False
            failed.append(f"{case.name}: {type(e).__name__}")
        passed[kind] += ok
    short = {kind: passed[kind] for kind, floor in FLOORS.items() if passed[kind] < floor}
    assert not short, f"fewer passes than {FLOORS}: {short}; errors: {failed}"
