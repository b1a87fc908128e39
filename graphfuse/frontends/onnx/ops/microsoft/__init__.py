"""ONNX Runtime's own operators, domain `com.microsoft`; importing the package registers them all."""

from graphfuse.frontends.onnx.ops.microsoft import (
    activation,
    attention,
    contract,
    conv,
    embedding,
    experts,
    group_query,
    linear_attention,
    normalize,
    position_bias,
    quantize,
    same,
    signal,
)

__all__ = [
    "activation", "attention", "contract", "conv", "embedding", "experts", "group_query", "linear_attention",
    "normalize", "position_bias", "quantize", "same", "signal",
]  # fmt: skip
