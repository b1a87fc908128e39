"""One region to one block function: the dispatch from region kind to emitter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from graphfuse.blockgen import (
    attention,
    contraction,
    gpu_attention,
    gpu_contraction,
    gpu_packed_product,
    gpu_pointwise,
    gpu_reduction,
    gpu_scan,
    gpu_scatter,
    gpu_topk,
    graft,
    pointwise,
    reduction,
    scan,
    scatter,
    together,
    topk,
)
from graphfuse.blockgen.kernel import Kernel
from graphfuse.dialects import graph
from graphfuse.ir.core import Func, Op, symbols_of, tensor_of, walk
from graphfuse.ir.rewrite import common_subexpressions, dead_code
from graphfuse.ir.types import Tensor
from graphfuse.ir.verifier import verify
from graphfuse.symbolic import typical
from graphfuse.targets.machine import Machine

Emitters = Mapping[str, Callable[[Kernel], Func]]

EMITTERS: Emitters = {
    "pointwise": pointwise.emit,
    "reduction": reduction.emit,
    "contraction": contraction.emit,
    "attention": attention.emit,
    "scan": scan.emit,
    "scatter": scatter.emit,
    "topk": topk.emit,
    "call": graft.emit,
}
"""By kind of region, for CPUs."""


def _gpu_contraction(kernel: Kernel) -> Func:
    packed = next((op for op in kernel.body.ops if op.kind is graph.contract_packed), None)
    return gpu_contraction.emit(kernel) if packed is None else gpu_packed_product.emit(kernel, packed)


GPU_EMITTERS: Emitters = {
    "pointwise": gpu_pointwise.emit,
    "reduction": gpu_reduction.emit,
    "contraction": _gpu_contraction,
    "attention": gpu_attention.emit,
    "scan": gpu_scan.emit,
    "scatter": gpu_scatter.emit,
    "topk": gpu_topk.emit,
    "call": graft.emit,
}
"""By kind of region, for GPUs."""


def lower_region(
    region: Op, name: str, ranges: Mapping[str, tuple[int, int]], machine: Machine, emitters: Emitters = EMITTERS
) -> Func:
    """The block function that computes `region`; parameters: inputs, outputs, then the symbols of `ranges`."""
    func = dead_code(common_subexpressions(_emitted(region, name, ranges, machine, emitters).func))
    verify(func)
    return func


def schedules_of(
    region: Op, ranges: Mapping[str, tuple[int, int]], machine: Machine, emitters: Emitters = EMITTERS
) -> tuple[str, ...]:
    """Names of the ways to make a region's kernel, the one that is taken unasked first; none if there is one only."""
    return _emitted(region, "k", ranges, machine, emitters).schedules


def others_of(
    region: Op, ranges: Mapping[str, tuple[int, int]], machine: Machine, emitters: Emitters = EMITTERS
) -> tuple[str, ...]:
    """Names of what to make where the kernel that is made unasked spills registers, the best first."""
    return _emitted(region, "k", ranges, machine, emitters).others


class _Emitted(NamedTuple):
    func: Func
    schedules: tuple[str, ...]
    others: tuple[str, ...]


def _emitted(
    region: Op, name: str, ranges: Mapping[str, tuple[int, int]], machine: Machine, emitters: Emitters
) -> _Emitted:
    mentioned = region_symbols(region)
    kernel = Kernel(region, name, {n: r for n, r in ranges.items() if n in mentioned}, machine)
    if region.attrs["kind"] == graph.TOGETHER:
        asked = {"schedule": region.attrs["schedule"]} if "schedule" in region.attrs else {}
        inside = [replace(op, attrs={**asked, **op.attrs}) for op in region.body.ops[:-1]]
        shares = _shares(inside, ranges, machine)
        parts = [_emitted(op, name, ranges, m, emitters) for op, m in zip(inside, shares, strict=True)]
        # each takes what it has under such a name
        others = dict.fromkeys(name for p in parts for name in p.others)
        return _Emitted(together.emit(kernel, [p.func for p in parts]), (), tuple(others))
    is_empty = all(isinstance(t, Tensor) and t.elements == 0 for t in region.types)
    func = kernel.finish(0, 1) if is_empty else emitters[str(region.attrs["kind"])](kernel)
    return _Emitted(func, kernel.schedules, kernel.others)


def _shares(regions: Sequence[Op], ranges: Mapping[str, tuple[int, int]], machine: Machine) -> list[Machine]:
    """The machine for each of regions that run at once: a product has its part, by what all of them read."""
    nbytes = [sum(typical(tensor_of(v).nbytes, ranges) for v in op.operands) for op in regions]
    total = sum(n for n, op in zip(nbytes, regions, strict=True) if op.attrs["kind"] == "contraction")

    def share(op: Op, n: int) -> Machine:
        part = max(1, n * machine.multiprocessors // max(1, total))
        return replace(machine, multiprocessors=part) if op.attrs["kind"] == "contraction" else machine

    return [share(op, n) for op, n in zip(regions, nbytes, strict=True)]


def is_walk(region: Op, ranges: Mapping[str, tuple[int, int]], machine: Machine) -> bool:
    """Whether a region's products are by one vector, which each block of a GPU reads as a whole."""
    mentioned = region_symbols(region)
    kernel = Kernel(region, "k", {n: r for n, r in ranges.items() if n in mentioned}, machine)
    found = gpu_contraction.kernel_of(kernel)
    return found is not None and found.walk() is not None


def region_symbols(region: Op) -> frozenset[str]:
    """The symbols that occur in a region's shapes or attributes."""
    ops = (region, *walk(region.body))
    types = {t for op in ops for t in (*op.types, *(v.type for v in op.operands))}
    shapes = (t.shape for t in types if isinstance(t, Tensor))
    return frozenset[str]().union(*map(symbols_of, shapes), *(symbols_of(a) for op in ops for a in op.attrs.values()))
