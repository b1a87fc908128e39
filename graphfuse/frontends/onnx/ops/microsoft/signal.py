"""Fourier transforms of real signals along the last dim."""

from __future__ import annotations

from graphfuse.frontends.emit import Emitter, shape_of, tensor
from graphfuse.frontends.onnx.node import MICROSOFT, Node, onnx_op
from graphfuse.frontends.onnx.ops.fourier import dft_of
from graphfuse.frontends.onnx.ops.signal import checked_length
from graphfuse.ir.core import Value

_ONLY = {"onesided": 1, "normalized": 0, "signal_ndim": 1}


def _check(node: Node) -> None:
    found = {name: node.attr_int(name, default) for name, default in _ONLY.items()}
    if found != _ONLY:
        raise node.unsupported(f"attributes must be {_ONLY}, got {found}")


@onnx_op("Rfft", domain=MICROSOFT)
def rfft(e: Emitter, node: Node, x: Value) -> Value:
    """The non-negative frequencies of real [.., n], as [.., n / 2 + 1, 2]."""
    _check(node)
    length = checked_length(node, shape_of(x)[-1])
    return dft_of(e, e.unsqueeze(x, -1), length, inverse=False, onesided=True)


@onnx_op("Irfft", domain=MICROSOFT)
def irfft(e: Emitter, node: Node, x: Value) -> Value:
    """The real signal [.., 2 (k - 1)] of frequencies [.., k, 2]."""
    _check(node)
    if tensor(x).rank < 2 or shape_of(x)[-1] != 2:
        raise node.error(f"the last dim must hold two parts, got {x.type}")
    bins = shape_of(x)[-2]
    length = checked_length(node, 2 * (bins - 1))
    return e.squeeze(dft_of(e, x, length, inverse=True, onesided=True), -1)
