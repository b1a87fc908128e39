"""ONNX Runtime as the thing to compare with. The only module that imports onnxruntime."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from graphfuse.artifact import Array
from graphfuse.errors import GraphfuseError, Loc, UsageError


def is_installed() -> bool:
    """Whether there is an ONNX Runtime to compare with."""
    return importlib.util.find_spec("onnxruntime") is not None


def require_onnxruntime(instead: str = "") -> None:
    """Say how to get it, and what there is instead."""
    if not is_installed():
        raise UsageError(f"onnxruntime is not installed: pip install 'graphfuse[onnxruntime]'{instead}")


def preload() -> None:
    """Import it, if it is there: for a process whose children want it."""
    if is_installed():
        importlib.import_module("onnxruntime")


class Reference:
    """An ONNX model in ONNX Runtime, on the CPU with as many threads as asked for."""

    def __init__(self, path: Path, threads: int) -> None:
        require_onnxruntime()
        ort: Any = importlib.import_module("onnxruntime")
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        with _told("load", Loc(str(path))):
            self._session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._names = [o.name for o in self._session.get_outputs()]
        self._inputs = {i.name for i in self._session.get_inputs()}

    def __call__(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name; inputs the model does not have are left out."""
        feed = {k: v for k, v in feed.items() if k in self._inputs}
        with _told("run"):
            outputs = self._session.run(None, feed)
        return dict(zip(self._names, (np.asarray(o) for o in outputs), strict=True))


@contextlib.contextmanager
def _told(what: str, loc: Loc | None = None) -> Generator[None]:
    try:
        yield
    except Exception as e:  # noqa: BLE001  # its exceptions share no base class
        raise GraphfuseError(f"onnxruntime cannot {what} it: {' '.join(str(e).split())[:200]}", loc) from None
