"""Which ATen operators are decomposed before we see them: those of the core set that have no lowering here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table

from graphfuse.frontends.fx import lowering_of
from graphfuse.frontends.fx.refusals import why_refused


@functools.cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """By overload.

    Attention stays whole: torch decomposes its forward alone, and then the gradients are wrong.
    """
    table: dict[Any, Callable[..., Any]] = dict(core_aten_decompositions())
    table |= {op: decomposition_table[op] for op in MORE}
    return {
        op: _asking(op, fn)
        for op, fn in table.items()
        if "scaled_dot_product" not in str(op) and lowering_of(op) is None and op not in KEPT
    }


def _asking(op: Any, fn: Callable[..., Any]) -> Callable[..., Any]:
    """A decomposition that declines what torch refuses, which would be lost with the operator."""
    names = [a.name for a in op._schema.arguments]

    @functools.wraps(fn)
    def decomposed(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(names, args, strict=False)) | kwargs
        return NotImplemented if why_refused(op, given, ()) else fn(*args, **kwargs)

    return decomposed


KEPT: frozenset[Any] = frozenset({torch.ops.aten.native_dropout.default})
"""Operators that torch runs better than what they are decomposed into."""
MORE: tuple[Any, ...] = (
    torch.ops.aten.dist.default, torch.ops.aten.ldexp.Tensor, torch.ops.aten.grid_sampler_2d.default,
    torch.ops.aten._softmax.default, torch.ops.aten._log_softmax.default,
)  # fmt: skip
"""Operators that torch can decompose, but does not for the core set."""
