"""Lowerings of ATen operators, one file a family. Importing this registers all of them."""

from graphfuse.frontends.fx.ops import (
    activation,
    arithmetic,
    compare,
    index,
    matmul,
    movement,
    reduce,
    softmax,
    source,
)

__all__ = ["activation", "arithmetic", "compare", "index", "matmul", "movement", "reduce", "softmax", "source"]
