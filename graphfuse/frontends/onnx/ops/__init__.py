"""Operator handlers, one module per family; importing the package registers them all."""

from graphfuse.frontends.onnx.ops import (
    activation,
    attention,
    contract,
    control,
    conv,
    elementwise,
    index,
    microsoft,
    ml,
    movement,
    normalize,
    packed_weights,
    pool,
    quantize,
    recurrent,
    reduce,
    regions,
    resize,
    sample,
    signal,
    source,
    training,
    trees,
)

__all__ = [
    "activation", "attention", "contract", "control", "conv", "elementwise", "index", "microsoft", "ml", "movement",
    "normalize", "packed_weights", "pool", "quantize", "recurrent", "reduce", "regions", "resize", "sample", "signal",
    "source", "training", "trees",
]  # fmt: skip
