"""Lowerings of ATen operators, one file a family. Importing this registers all of them."""

from graphfuse.frontends.fx.ops import (
    activation,
    arithmetic,
    attention,
    compare,
    conv,
    index,
    loss,
    matmul,
    movement,
    norm,
    pool,
    reduce,
    scatter,
    softmax,
    source,
)

__all__ = [
    "activation",
    "arithmetic",
    "attention",
    "compare",
    "conv",
    "index",
    "loss",
    "matmul",
    "movement",
    "norm",
    "pool",
    "reduce",
    "scatter",
    "softmax",
    "source",
]
