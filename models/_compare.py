"""A model in graphfuse and in ONNX Runtime at every shape to test.

The tests hold the difference to `BOUND`; `benchmarks/model_accuracy.py` makes a table of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import graphfuse
import models
from models import _health

Run = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]

BOUND = 1e-4
"""Largest difference from ONNX Runtime, in standard deviations of the output (f32)."""


def shapes(model: models.Model) -> list[dict[str, int]]:
    """The shapes to test, then the smallest declared one; a model without symbolic dims has one shape."""
    if not model.DIMS:
        return [{}]
    smallest = {dim: low for dim, (low, _) in model.DIMS.items()}
    return [*model.TEST_DIMS, *([smallest] if smallest not in model.TEST_DIMS else [])]


def onnxruntime_of(path: Path) -> Run:
    """From inputs to outputs, both by name."""
    import onnxruntime

    ort: Any = onnxruntime  # it has no type stubs
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [str(o.name) for o in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(names, dict(feeds)), strict=True))


def distance(want: Mapping[str, np.ndarray], got: Mapping[str, np.ndarray]) -> float:
    """`_health.distance` of outputs that agree in everything a float's value does not say."""
    assert list(got) == list(want)
    for name, array in want.items():
        assert (got[name].dtype, got[name].shape) == (array.dtype, array.shape), name
        assert array.dtype.kind == "f" or np.array_equal(got[name], array), name
    return _health.distance(want, got)


def distances(name: str, *, small: bool) -> Iterator[tuple[dict[str, int], float]]:
    """The largest difference from ONNX Runtime at each shape, in standard deviations of the output; compiled once."""
    path, model = models.cached(name, small=small), models.get(name)
    compiled = graphfuse.compile(path, dims=model.DIMS)
    reference = onnxruntime_of(path)
    for seed, dims in enumerate(shapes(model)):
        feeds = model.inputs(np.random.default_rng(seed), small=small, **dims)
        yield dims, distance(reference(feeds), compiled(feeds))
