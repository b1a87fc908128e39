"""Tell whether a model can expose a wrong compiler: break one layer slightly and look.

Owns the perturbation and the two measures (spread, sensitivity). Running models is the caller's
business, so that any runtime can be judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
from onnx import numpy_helper

_WEIGHTED = {"Conv", "ConvTranspose", "GRU", "Gemm", "LSTM", "MatMul"}


def weights(model: onnx.ModelProto) -> list[str]:
    """Initialisers that a contraction consumes, directly or through a Transpose, in graph order."""
    floats = {
        init.name: init.name
        for init in model.graph.initializer
        if init.data_type == onnx.TensorProto.FLOAT and len(init.dims) >= 2
    }
    found: dict[str, None] = {}
    for node in model.graph.node:
        if node.op_type == "Transpose" and node.input[0] in floats:
            floats[node.output[0]] = floats[node.input[0]]
        elif node.op_type in _WEIGHTED:
            found.update({floats[edge]: None for edge in node.input if edge in floats})
    return list(found)


def perturb(model: onnx.ModelProto, *, factor: float = 1.01, name: str | None = None) -> tuple[onnx.ModelProto, str]:
    """Return a copy with one weight scaled, and its name; by default the middle weight."""
    if name is None:
        candidates = weights(model)
        name = candidates[len(candidates) // 2]
    broken = onnx.ModelProto()
    broken.CopyFrom(model)
    for init in broken.graph.initializer:
        if init.name == name:
            scaled = (numpy_helper.to_array(init) * np.float32(factor)).astype(np.float32)
            init.CopyFrom(numpy_helper.from_array(scaled, name))
            return broken, name
    raise KeyError(f"no initialiser '{name}'")


def spread(outputs: Mapping[str, np.ndarray]) -> float:
    """The smallest standard deviation of a floating-point output; 0 if none has two elements."""
    deviations = [float(value.std()) for value in _floats(outputs).values() if value.size > 1]
    return min(deviations, default=0.0)


def distance(expected: Mapping[str, np.ndarray], actual: Mapping[str, np.ndarray]) -> float:
    """The largest difference over all outputs, each in units of its expected spread.

    This is the figure a comparison must hold below 1e-4 between runtimes, and that a perturbed
    model must exceed. NaN where only one side has it counts as infinite.
    """
    return max(_distances(expected, actual))


def _distances(expected: Mapping[str, np.ndarray], actual: Mapping[str, np.ndarray]) -> Iterator[float]:
    for name, want in _floats(expected).items():
        got = actual[name]
        if want.shape != got.shape or not np.array_equal(np.isnan(want), np.isnan(got)):
            yield float("inf")
            continue
        scale = float(np.nanstd(want)) if want.size > 1 else float(np.abs(want).max())
        yield float(np.nanmax(np.abs(want - got), initial=0.0)) / max(scale, 1e-30)


def _floats(outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: value for name, value in outputs.items() if value.dtype.kind == "f"}
