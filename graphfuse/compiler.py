"""From graph IR to an executable, one stage per line.

graph_passes       canonical forms, folding, layout           the target's (cpu/, gpu/graph_passes.py)
partition          regions, one kernel each                   fusion/regions/outline.py, by the target's rules
region_passes      what is stored, in f16 or bf16 if asked    pipelines.py
choose             ways to make kernels tried, if asked for   tuner.py
lower_region       region to block function                   the target's, of blockgen/lower.py
rounded            roundings inside a kernel                  the target's, of blockgen/numerics.py
plan               buffers and launches                       fusion/regions/plan.py
code               block functions to an object or a cubin    the target's (cpu/, gpu/backend.py)
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar, cast

import numpy as np

from graphfuse.artifact import COPY, Executable, Json, KernelMeta, Signature, TensorSpec, Weight
from graphfuse.blockgen.confine import check_loops, confine_calls, forget_promises
from graphfuse.blockgen.gpu_mask import MASK
from graphfuse.blockopt.calls import optimize_calls
from graphfuse.constraints import Constraint, Kind, decided, listening
from graphfuse.dialects import graph
from graphfuse.dialects.ranges import ranges_of
from graphfuse.errors import VerifyError
from graphfuse.fusion.regions.dataflow import regions_of
from graphfuse.fusion.regions.outline import kernel_text
from graphfuse.fusion.regions.partition import Decision
from graphfuse.fusion.regions.plan import KernelCall, Planned, over_pairs, plan
from graphfuse.fusion.regions.traffic import bytes_read_by, stored
from graphfuse.ir import snapshots
from graphfuse.ir.core import Func, Op, Value, attr_dim, attr_ints, attr_strs, tensor_of
from graphfuse.ir.dense import Dense
from graphfuse.ir.limit import counted
from graphfuse.ir.passes import check_names, run, timing
from graphfuse.ir.printer import attrs_text, module_text, to_text
from graphfuse.ir.rewrite import dead_code, rebuild
from graphfuse.ir.types import Ptr
from graphfuse.knobs import Options, settings
from graphfuse.pipelines import graph_passes, launch_passes, partition, partitioned, region_passes
from graphfuse.symbolic import Dim, Ranges
from graphfuse.targets import Target
from graphfuse.targets.backend import Backend, Stages, backend_of
from graphfuse.targets.generated import Generated
from graphfuse.targets.machine import Machine
from graphfuse.targets.sharing import Sharing, sharing
from graphfuse.value_checks import ATTR, checks_of

log = logging.getLogger(__name__)

T = TypeVar("T")
Choose = Callable[[Func], tuple[Func, Sequence[Decision]]]
"""Gives regions with the names of schedules that were found to be fastest, and says what was found."""


def stages(func: Func, target: Target, options: Options, choose: Choose | None = None) -> Stages:
    """Graph IR to block functions; `choose` is called with the regions."""
    backend, text = backend_of(target), str(target)
    if not (options.check_indices and backend.checks_values):
        func = without_checks(func)
    with timing() as seconds:
        canonical = run(optimize_calls(func), graph_passes(target, options), "graph")
        ledger = [Decision("target", text, fused=False, reason=backend.note)] if backend.note else []

        def cut(func: Func, *, target: str = "", fuse: bool = True) -> Func:
            regions, found = partitioned(func, target, fuse=fuse)
            ledger.extend(found)
            return regions

        # the pass with a place to put its reasons
        cutting = replace(partition.given(target=text, fuse=options.fuse), apply=cut)
        regions = run(canonical, (cutting, *region_passes(target, options)), "regions")
    if choose is not None:
        regions, found = _timed(seconds, "tuning", lambda: choose(regions))
        ledger += found
    with timing() as more:
        regions = run(regions, launch_passes(target, options), "launches")
    seconds.update(more)
    ledger += _launched_together(regions)
    shared = sharing.get()
    if shared is not None:
        regions = _named(regions, backend, options, shared)
    return _lowered(func, regions, ledger, seconds, backend, options, shared)


def _launched_together(regions: Func) -> list[Decision]:
    """Kernels that became one launch, by what they begin with."""
    joined = [op for op in regions_of(regions.body) if op.attrs["kind"] == graph.TOGETHER]
    parts = [(op, part) for op in joined for part in regions_of(op.body)]
    return [
        Decision(graph.TOGETHER, part.loc.short, fused=True, reason="", begins=op.loc.short)
        for op, part in parts
        if op.loc and part.loc
    ]


def _named(regions: Func, backend: Backend, options: Options, shared: Sharing) -> Func:
    """Regions of kernels that other parts of the program have too, under their names."""
    alike = str(backend.target), repr(options), repr(sorted(ranges_of(regions).items()))

    def visit(op: Op) -> Op | None:
        if op.kind is not graph.region:
            return None
        kind, attrs = str(op.attrs["kind"]), {k: v for k, v in op.attrs.items() if k != "kernel"}
        name = shared.name(kind, (*alike, attrs_text(attrs), kernel_text(kind, op.body)))
        return None if name == op.attrs["kernel"] else replace(op, attrs={**op.attrs, "kernel": name})

    return rebuild(regions, visit)


def _lowered(
    func: Func,
    regions: Func,
    ledger: list[Decision],
    seconds: dict[str, float],
    backend: Backend,
    options: Options,
    shared: Sharing | None = None,
) -> Stages:
    """With the block function of each region."""
    region_ops = {str(op.attrs["kernel"]): op for op in regions_of(regions.body)}
    ranges = ranges_of(regions)
    within: dict[str, Ranges] = dict.fromkeys(region_ops, ranges)
    versions: dict[str, list[tuple[str, Dim]]] = {}
    for name, op in [*region_ops.items()]:
        for version in backend.versions(op, ranges):
            other = f"{name}_{version.suffix}"
            versions.setdefault(name, []).append((other, version.holds))
            region_ops[other], within[other] = version.region, version.ranges

    def lowered(name: str, machine: Machine, schedule: str = "") -> Func:
        op = region_ops[name]
        op = replace(op, attrs={**op.attrs, "schedule": schedule}) if schedule else op
        exact = machine.exact if options.numerics == "strict" else machine
        kernel = backend.lower_region(op, name, within[name], exact)
        if pairs := over_pairs(op):
            overlap = tuple((operand, len(op.operands) + result) for operand, result in pairs)
            kernel = replace(kernel, attrs={**kernel.attrs, "inplace": overlap})
        kernel = snapshots.after(kernel, snapshots.Place("block", name, 0, "lower-region"))
        return backend.rounded(kernel, options.numerics)

    def kept(name: str) -> Func:
        if shared is None:
            return lowered(name, backend.machine)
        if name not in shared.lowered:
            shared.lowered[name] = lowered(name, backend.machine)
        return shared.lowered[name]

    kernels = _timed(seconds, "blockgen", lambda: {name: kept(name) for name in region_ops})
    ledger += [
        Decision("mask", name, fused=False, reason=str(f.attrs[MASK])) for name, f in kernels.items() if MASK in f.attrs
    ]
    return Stages(func, regions, ledger, kernels, region_ops, lowered, seconds, shared, versions)


def without_checks(func: Func) -> Func:
    """`func` without the output that reports on checks of values."""
    if ATTR not in func.attrs:
        return func
    *ops, last = func.body.ops
    returned = replace(last, operands=last.operands[:-1])
    attrs = {name: value for name, value in func.attrs.items() if name != ATTR}
    return dead_code(replace(func, body=replace(func.body, ops=(*ops, returned)), attrs=attrs))


def confined(func: Func) -> Func:
    """A graph that nobody vouches for: all that it does stays inside of its tensors, or it is refused."""
    check_loops(func)
    return confine_calls(optimize_calls(forget_promises(func)))


@contextmanager
def _without_collections() -> Generator[None]:
    """Without Python's cyclic collector: IR has no cycles, and each full collection walks all that the process has.

    With torch loaded that takes longer than many passes.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@_without_collections()
def build(func: Func, target: Target, options: Options, choose: Choose | None = None) -> Executable:
    """Compile `@main` for a target."""
    with counted():
        check_names("GRAPHFUSE_PRINT_AFTER", settings.print_after)
        backend_of(target).begin(len(func.body.ops))
        return _made(stages(func, target, options, choose), target, options)


def build_regions(regions: Func, target: Target, options: Options) -> Executable:
    """Compile a graph that has been cut into regions."""
    return _made(_lowered(regions, regions, [], {}, backend_of(target), options), target, options)


def _made(done: Stages, target: Target, options: Options) -> Executable:
    backend = backend_of(target)
    kernels = dict(done.kernels)
    planned = _timed(done.seconds, "plan", lambda: _planned(done))
    made = _timed(done.seconds, "code", lambda: backend.code(done, planned.plan))
    if done.kernels != kernels:  # other grids
        planned = _timed(done.seconds, "plan again", lambda: _planned(done))
    metas = [_meta(name, f, done, made) for name, f in done.kernels.items()]
    metas.append(KernelMeta("copy_bytes", "rwi", COPY, ""))
    for name, seconds in done.seconds.items():
        log.info("%s: %.0f ms", name, seconds * 1e3)
    return Executable(
        signature=signature_of(done.graph),
        plan=planned.plan,
        kernels=tuple(metas),
        weights=tuple(_weight(f"w{i}", d) for i, d in enumerate(planned.weights)),
        target=str(target),
        code={str(target): made.code},
        ir=_texts(done, made),
        ledger=[_decision(d) for d in done.ledger],
        checks=checks_of(done.graph.attrs.get(ATTR, ())),
        shared=planned.shared,
        over=planned.over,
        meta={"numerics": options.numerics, "precision": options.precision, "fuse": options.fuse},
    )


def _weight(name: str, dense: Dense) -> Weight:
    packed = None if dense.packed is None else (np.ascontiguousarray(dense.packed[0].array), dense.packed[1])
    return Weight(name, dense.elem.name, np.ascontiguousarray(dense.array), packed)


def _planned(done: Stages) -> Planned:
    def call(name: str) -> KernelCall:
        func = done.kernels[name]
        pointers = sum(isinstance(v.type, Ptr) for v in func.params)
        symbols = tuple(v.hint for v in func.params[pointers:])
        versions = tuple((other, call(other), holds) for other, holds in done.versions.get(name, ()))
        return KernelCall(symbols, attr_dim(func, "grid"), attr_dim(func, "work"), versions)

    return plan(dead_code(done.regions), {name: call(name) for name in done.kernels})


def _meta(name: str, func: Func, done: Stages, made: Generated) -> KernelMeta:
    region = done.region_ops[name]
    reads = bytes_read_by(region, done.graph.ranges)
    writes = sum((tensor_of(v).nbytes for v in map(stored, region.body.terminator.operands)), 0)
    pointers = len(region.operands), len(region.types)
    scalars = len(func.params) - sum(pointers)
    in_place = len(attr_ints(region, "in_place", ()))
    params = "r" * pointers[0] + "x" * in_place + "w" * (pointers[1] - in_place) + "i" * scalars
    flops = attr_dim(func, "flops") if "flops" in func.attrs else 0
    label = region.loc.short if region.loc else ""
    kind, launch = str(region.attrs["kind"]), made.launches.get(name)
    return KernelMeta(name, params, kind, label, made.scratch[name], flops, reads, writes, launch)


def signature_of(func: Func) -> Signature:
    """What a function takes and gives, and what it needs of dims."""

    def specs(values: Sequence[Value], names: Sequence[str]) -> tuple[TensorSpec, ...]:
        types = [tensor_of(v) for v in values]
        return tuple(TensorSpec(n, t.elem.name, t.shape) for t, n in zip(types, names, strict=True))

    inputs, outputs = attr_strs(func, "inputs"), attr_strs(func, "outputs")
    results = specs(func.outputs[: len(outputs)], outputs)
    names = cast("tuple[tuple[str, str], ...]", func.attrs.get("names", ()))
    return Signature(specs(func.params, inputs), results, func.dims, _constraints(func), names)


def _constraints(func: Func) -> tuple[Constraint, ...]:
    """What the frontend found unproved, and what the ops themselves need: a function may come from anywhere."""
    listed = cast("tuple[tuple[Kind, Dim, Dim, str, str], ...]", func.attrs.get("constraints", ()))
    found = {c[:3]: Constraint(*c) for c in listed}
    if func.attrs.get("promised"):
        return ()
    for op in func.walk():

        def hear(c: Constraint, op: Op = op) -> None:
            # frontends have seen to what depends on the iteration of a loop
            if (c.kind, c.a, c.b) in found or not c.symbols <= func.ranges.keys():
                return
            verdict = decided(c.kind, c.a, c.b, func.ranges)
            if verdict is False:
                raise VerifyError(f"{op.kind}: {c}", op.loc)
            if verdict is None:
                found[c.kind, c.a, c.b] = replace(c, node=op.loc.short if op.loc else str(op.kind))

        with listening(hear):
            op.kind.result_types(op.operands, op.attrs, op.bodies)
    return tuple(found.values())


def _texts(done: Stages, made: Generated) -> dict[str, str]:
    """The stages as text; block functions as the target's own passes left them, where it has any."""
    block = "\n".join(made.texts.values()) if made.texts else module_text(done.kernels.values())
    return {"graph": to_text(done.graph, locations=True), "regions": to_text(done.regions), "block": block}


def _decision(d: Decision) -> Json:
    return {
        "producer": d.producer,
        "consumer": d.consumer,
        "fused": d.fused,
        "reason": d.reason,
        "saved": d.saved_bytes,
        "saved_ns": d.saved_ns,
        "begins": d.begins,
    }


def _timed(seconds: dict[str, float], name: str, work: Callable[[], T]) -> T:
    start = time.perf_counter()
    out = work()
    seconds[name] = time.perf_counter() - start
    return out
