"""graphfuse compiles tensor graphs into a few fused block kernels and runs them.

Importing this loads nothing heavy: each public name is imported when it is first used. Pages that docstrings name,
such as `docs/onnx.md`, are at https://github.com/graphfuse/graphfuse/tree/main.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphfuse.api import compile, load, quantize
    from graphfuse.compiled_model import CompiledModel
    from graphfuse.errors import GraphfuseError
    from graphfuse.inference_session import InferenceSession
    from graphfuse.kernels.api import kernel
    from graphfuse.kernels.source import SourceWarning
    from graphfuse.kernels.torch_op import tc_op
    from graphfuse.knobs import Options
    from graphfuse.quantization import QuantizedModel
    from graphfuse.stateful import Session
    from graphfuse.targets import Target
    from graphfuse.torch.explain import explain

__version__ = "0.1.0"

__all__ = [
    "CompiledModel", "GraphfuseError", "InferenceSession", "Options", "QuantizedModel", "Session", "SourceWarning",
    "Target", "__version__", "compile", "explain", "kernel", "load", "quantize", "tc_op",
]  # fmt: skip

_HOME = {
    "CompiledModel": "compiled_model", "InferenceSession": "inference_session", "compile": "api", "load": "api",
    "kernel": "kernels.api", "tc_op": "kernels.torch_op", "GraphfuseError": "errors", "Options": "knobs",
    "Session": "stateful", "SourceWarning": "kernels.source", "Target": "targets", "explain": "torch.explain",
    "QuantizedModel": "quantization", "quantize": "api",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'graphfuse' has no attribute {name!r}")
    return getattr(importlib.import_module(f"graphfuse.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
