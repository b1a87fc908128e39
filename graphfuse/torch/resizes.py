"""Resizes reach us as they are called: torch would decompose them before it differentiates.

What it makes of them reads by indices, and the gradient of that is a scatter for each of up to 16 neighbours; of the
operator itself it is a sum (`frontends/fx/ops/resize.py`). Sizes that may change are left to torch's decompositions.
"""

from __future__ import annotations

import functools
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx
from torch._C import DispatchKey

from graphfuse.frontends.fx.ops.resize import OPERATORS

_BEFORE_GRADIENTS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)
"""The keys by which torch decomposes an operator there."""


@functools.cache
def _overloads() -> list[Any]:
    packets = [getattr(torch.ops.aten, name) for names in OPERATORS.values() for name in names]
    return [getattr(p, overload) for p in packets for overload in ("default", "vec")]


@contextmanager
def kept_whole(gm: fx.GraphModule) -> Generator[None, None, None]:
    """Trace without these decompositions, if all sizes are known."""
    values = (n.meta.get("example_value") for n in gm.graph.nodes)
    if any(isinstance(v, torch.Tensor) and v._has_symbolic_sizes_strides for v in values):
        yield
        return
    before = {op: dict(op.py_kernels) for op in _overloads()}
    try:
        for op, kernels in before.items():
            _set_kernels(op, {key: fn for key, fn in kernels.items() if key not in _BEFORE_GRADIENTS})
        yield
    finally:
        for op, kernels in before.items():
            _set_kernels(op, kernels)


def _set_kernels(op: Any, kernels: dict[DispatchKey, Any]) -> None:
    op.py_kernels.clear()
    op.py_kernels.update(kernels)
    op._dispatch_cache.clear()
