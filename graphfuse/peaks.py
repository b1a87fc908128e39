"""What a machine reaches now, by copies and a product: no kernel takes less time than its bytes and operations do.

Both are compiled here, as any graph is, so that one way serves processors with some threads and GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphfuse import compiler
from graphfuse.artifact import Array, TensorSpec, elem_dtype
from graphfuse.compiled_model import CompiledModel
from graphfuse.devices import targets_of
from graphfuse.dialects import control, graph
from graphfuse.ir.core import Builder, Func, Params
from graphfuse.ir.types import F16, F32, Scalar, Tensor
from graphfuse.knobs import Options
from graphfuse.runtime.device import Device
from graphfuse.symbolic import evaluate

LARGE = 1 << 27
"""Bytes that a copy reads: caches do not hold them."""
CACHED = {False: 1 << 19, True: 1 << 24}
"""Bytes that caches near the units hold, of a processor and of a GPU."""
ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Peaks:
    """Bytes moved and operations done in a microsecond."""

    bytes_per_us: float
    cached_per_us: float
    """Of bytes that a kernel before has left in a cache: up to `cached`."""
    cached: int
    flops_per_us: float

    def bound_us(self, nbytes: float, flops: float) -> float:
        """The least that so much takes."""
        fastest = max(self.bytes_per_us, self.cached_per_us if nbytes <= self.cached else 0.0)
        return max(nbytes / fastest, flops / self.flops_per_us)


def peaks_of(device: Device, threads: int | None = None) -> Peaks:
    """Measured on a device, in about a second: f32 on so many threads of a processor, products of halves on a GPU."""
    side, elem, cached = (8192, F16, CACHED[True]) if device.is_gpu else (1024, F32, CACHED[False])
    large, small = (2 * nbytes / _us(_copy(nbytes), device, threads) for nbytes in (LARGE, cached // 2))
    return Peaks(large, small, cached, 2 * side**3 / _us(_product(side, elem), device, threads))


def _copy(nbytes: int) -> Func:
    params = Params((Tensor((nbytes // 4,), F32),), ("x",))
    b = Builder()
    b.append(control.return_(b(graph.neg, params.values[0])))
    return Func("main", b.block(params), {"inputs": ("x",), "outputs": ("y",)}, ())


def _product(side: int, elem: Scalar) -> Func:
    params = Params((Tensor((side, side), elem),) * 2, ("x", "w"))
    b = Builder()
    b.append(control.return_(b(graph.contract, *params.values, spec="mk,kn->mn")))
    return Func("main", b.block(params), {"inputs": ("x", "w"), "outputs": ("y",)}, ())


def _us(func: Func, device: Device, threads: int | None) -> float:
    (target,) = targets_of("", device)
    model = CompiledModel(compiler.build(func, target, Options()), threads, device)
    inputs = {s.name: _numbers(s) for s in model.signature.inputs}
    return min(sum(s.warm_ns or s.ns for s in model.profile(inputs).steps) for _ in range(ROUNDS)) / 1e3


def _numbers(spec: TensorSpec) -> Array:
    """Random ones: zeros take less power, and so less time."""
    shape = [evaluate(d, {}) for d in spec.shape]
    return np.resize(np.random.default_rng(0).standard_normal(1 << 16).astype(elem_dtype(spec.elem)), shape)
