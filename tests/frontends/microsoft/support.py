"""Build nodes of ONNX Runtime's own operators, and compare their import, run by the interpreter, with its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from graphfuse.frontends.onnx import import_model
from graphfuse.frontends.onnx.node import MICROSOFT
from graphfuse.ir.verifier import verify
from tests.frontends.support import Array, declare, one_op, onnxruntime_reference, outputs_of, rng

F16, F32, F64 = np.float16, np.float32, np.float64
I8, U8, I32, I64 = np.int8, np.uint8, np.int32, np.int64
OPSET = 21


@dataclass(frozen=True)
class Case:
    """One node: its inputs (None where left out), which of them are initialisers, and how far results may be apart.

    An error of a whole number is for integers: so many steps, for at most one element in twenty.
    """

    op: str
    arrays: tuple[Array | None, ...]
    known: tuple[int, ...] = ()
    outputs: int = 1
    error: float = 1e-5
    domain: str = MICROSOFT
    attributes: dict[str, Any] = field(default_factory=dict)

    def model(self) -> tuple[onnx.ModelProto, dict[str, Array]]:
        """A model of the node, and what it is fed. Its outputs have no type: ONNX Runtime infers them."""
        model, fed = one_op(
            self.op, self.arrays, known=self.known, outputs=self.outputs, opset=OPSET, domain=self.domain
        )
        model.graph.node[0].attribute.extend(helper.make_attribute(k, v) for k, v in self.attributes.items())
        model.opset_import.add(domain=MICROSOFT, version=1)
        for info in model.graph.output[:3]:
            info.ClearField("type")
        return model, fed

    def __str__(self) -> str:
        """Its name as a test."""
        return "-".join([self.op, *(f"{k}={v}" for k, v in self.attributes.items())])


def case(
    op: str,
    *arrays: Array | None,
    known: tuple[int, ...] = (),
    outputs: int = 1,
    error: float = 1e-5,
    domain: str = MICROSOFT,
    **attributes: Any,
) -> Case:
    return Case(op, arrays, known, outputs, error, domain, attributes)


def interpreted(c: Case, want: Sequence[Array] | None = None) -> list[Array]:
    """The import's results, whose types are those of `want` where they are given."""
    model, fed = c.model()
    if want is not None:
        declare(model, want)
    func = import_model(model)
    verify(func)
    return outputs_of(func, fed)


def compare(c: Case, got: Sequence[Array], want: Sequence[Array]) -> None:
    for g, w in zip(got, want, strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        if w.dtype.kind == "f":
            np.testing.assert_allclose(g.astype(F64), w.astype(F64), rtol=c.error, atol=c.error)
            continue
        apart = np.abs(g.astype(I64) - w.astype(I64))
        assert apart.max(initial=0) <= int(c.error)
        assert np.count_nonzero(apart) <= apart.size / 20


def check_by_runtime(c: Case) -> None:
    want = onnxruntime_reference(*c.model())
    compare(c, interpreted(c, want), want)


def half(x: Array) -> Array:
    return x.astype(F16)


def integers(low: int, high: int, *shape: int, dtype: Any = I32, seed: int = 0) -> Array:
    return rng(seed).integers(low, high, shape).astype(dtype)


def unsigned(*shape: int, seed: int = 0) -> Array:
    return integers(0, 256, *shape, dtype=U8, seed=seed)


def signed(*shape: int, seed: int = 0) -> Array:
    return integers(-128, 128, *shape, dtype=I8, seed=seed)


def weights(*shape: int, seed: int = 0) -> Array:
    """Of seven bits: without an instruction for bytes ONNX Runtime adds two products in 16 bits, and saturates."""
    return integers(-64, 64, *shape, dtype=I8, seed=seed)


def f32(x: float) -> Array:
    return np.array(x, F32)


def u8(x: int) -> Array:
    return np.array(x, U8)


def i8(x: int) -> Array:
    return np.array(x, I8)
