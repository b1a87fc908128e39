"""Lowerings of ATen operators, one file a family. Importing this registers all of them."""

from __future__ import annotations

from typing import Any

from graphfuse.frontends.fx.lowering import LOWERINGS, Lowering
from graphfuse.frontends.fx.ops import (
    activation,
    adaptive_pool,
    arithmetic,
    attention,
    banded,
    bessel,
    chebyshev,
    compare,
    conv,
    distance,
    erf,
    float_bits,
    gamma,
    index,
    loss,
    matmul,
    movement,
    norm,
    order,
    pool,
    reduce,
    scatter,
    search,
    softmax,
    source,
)

FAMILIES = (
    activation, adaptive_pool, arithmetic, attention, banded, bessel, chebyshev, compare, conv, distance, erf,
    float_bits, gamma, index, loss, matmul, movement, norm, order, pool, reduce, scatter, search, softmax, source,
)  # fmt: skip
"""Modules that fill the table of lowerings."""


def lowering_of(target: Any) -> Lowering | None:
    """The lowering of an overload."""
    return LOWERINGS.get(target)
