"""Quantised forms of our own f32 models, by ONNX Runtime's quantiser.

Owns how a model is prepared, calibrated and quantised; what is quantised is in one file per model.
Calibration data are the model's own random inputs, so that ranges are those of a forward pass.
"""

from __future__ import annotations

import importlib
import logging
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

_CALIBRATION_RUNS = 4


class Source(Protocol):
    """What is asked of an f32 model."""

    def build(self, path: Path, *, small: bool = False, seed: int = 0) -> None:
        """Write the ONNX file."""
        ...

    def inputs(self, rng: np.random.Generator, *, small: bool = False) -> dict[str, np.ndarray]:
        """Random inputs by name."""
        ...


def static(model: Source, path: Path, *, form: str, small: bool, seed: int) -> None:
    """Write `model` with unsigned 8-bit activations and signed 8-bit weights, one scale each.

    `form` is `QDQ` (f32 operators between QuantizeLinear and DequantizeLinear) or `QOperator`
    (QLinearConv and the like).
    """
    q = _module("onnxruntime.quantization")
    rng = np.random.default_rng(seed)
    feeds = iter([model.inputs(rng, small=small) for _ in range(_CALIBRATION_RUNS)])

    class Reader(q.CalibrationDataReader):
        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(feeds, None)

    with _prepared(model, small=small, seed=seed) as source:
        q.quantize_static(
            source,
            path,
            Reader(),
            quant_format=q.QuantFormat[form],
            activation_type=q.QuantType.QUInt8,
            weight_type=q.QuantType.QInt8,
        )


def dynamic(model: Source, path: Path, *, small: bool, seed: int) -> None:
    """Write `model` with signed 8-bit weights, and activations quantised where they are read."""
    q = _module("onnxruntime.quantization")
    with _prepared(model, small=small, seed=seed) as source:
        q.quantize_dynamic(source, path, weight_type=q.QuantType.QInt8)


@contextmanager
def _prepared(model: Source, *, small: bool, seed: int) -> Generator[Path]:
    """The f32 model with batch norms folded and shapes inferred, as the quantiser wants it."""
    with tempfile.TemporaryDirectory() as folder, _quiet():
        plain, ready = Path(folder) / "plain.onnx", Path(folder) / "ready.onnx"
        model.build(plain, small=small, seed=seed)
        prepare: Callable[..., None] = _module("onnxruntime.quantization.shape_inference").quant_pre_process
        prepare(plain, ready, skip_symbolic_shape=True)
        yield ready


@contextmanager
def _quiet() -> Generator[None]:
    """Without the quantiser's advice to prepare what has been prepared."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(disabled)


def _module(name: str) -> Any:
    return importlib.import_module(name)
