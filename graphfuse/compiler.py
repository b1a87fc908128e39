"""From graph IR to an executable, one stage per line.

graph_passes       canonical forms, folding, layout           pipelines.py
partition          regions, one kernel each                   fusion/regions/outline.py
region_passes      f16 or bf16 in memory, if asked for        pipelines.py
lower_region       region to block function                   blockgen/lower.py
apply_numerics     roundings inside a kernel                  blockgen/numerics.py
generate_code      block functions to one LLVM object         cpu/lower.py
                   or, for a GPU, to PTX and a cubin          gpu/code.py
plan               buffers and launches                       fusion/regions/plan.py
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

import numpy as np

from graphfuse.artifact import COPY, Code, Executable, Json, KernelMeta, Launch, Plan, Signature, TensorSpec, Weight
from graphfuse.blockgen.confine import check_loops, confine_calls, forget_promises
from graphfuse.blockgen.gpu_mask import MASK
from graphfuse.blockgen.kernel import GpuMachine, Machine
from graphfuse.blockgen.lower import lower_region
from graphfuse.blockgen.numerics import apply_numerics
from graphfuse.blockopt.calls import optimize_calls
from graphfuse.constraints import Constraint, Kind, decided, listening
from graphfuse.cpu import lower as cpu
from graphfuse.cpu.executor_ir import executor_ir
from graphfuse.dialects import graph
from graphfuse.errors import VerifyError
from graphfuse.fusion.regions.partition import Decision
from graphfuse.fusion.regions.plan import KernelCall, Planned, plan
from graphfuse.fusion.regions.traffic import bytes_read_by
from graphfuse.gpu.alignment import with_alignments
from graphfuse.gpu.code import GpuCode, gpu_code
from graphfuse.gpu.transforms.overlap_launches import with_constants
from graphfuse.gpu.workers import workers
from graphfuse.ir import snapshots
from graphfuse.ir.core import Func, Op, Value, attr_dim, attr_strs, tensor_of
from graphfuse.ir.dense import Dense
from graphfuse.ir.limit import counted
from graphfuse.ir.passes import check_names, run, timing
from graphfuse.ir.printer import module_text, to_text
from graphfuse.ir.rewrite import dead_code
from graphfuse.ir.types import Ptr, Tensor
from graphfuse.knobs import Options, settings
from graphfuse.llvm import codegen
from graphfuse.pipelines import graph_passes, machine_of, partition, partitioned, ranges_of, region_passes
from graphfuse.symbolic import Dim
from graphfuse.target import Target
from graphfuse.value_checks import ATTR, checks_of

log = logging.getLogger(__name__)


@dataclass
class Stages:
    """Every intermediate form of one compilation, for `--emit`, `verify` and the artifact."""

    graph: Func
    regions: Func
    ledger: list[Decision]
    kernels: dict[str, Func]
    """Block functions by kernel name."""
    region_ops: dict[str, Op]
    """One region per kernel name."""
    lower: Callable[[str, Machine], Func]
    """The block function of a kernel for another machine."""
    seconds: dict[str, float] = field(default_factory=dict[str, float])


def stages(func: Func, target: Target, options: Options) -> Stages:
    """Graph IR to block functions."""
    if target.kind == "cuda" or not options.check_indices:  # for a GPU somebody would have to wait
        func = without_checks(func)
    clock, machine, text = _Clock(), machine_of(target), str(target)
    with timing() as seconds:
        canonical = run(optimize_calls(func), graph_passes(target, options), "graph")
        ledger: list[Decision] = []

        def cut(func: Func, *, target: str = "", fuse: bool = True) -> Func:
            regions, found = partitioned(func, target, fuse=fuse)
            ledger.extend(found)
            return regions

        # the pass with a place to put its reasons
        cutting = replace(partition.given(target=text, fuse=options.fuse), apply=cut)
        regions = run(canonical, (cutting, *region_passes(options)), "regions")
    region_ops = {str(op.attrs["kernel"]): op for op in regions.walk() if op.kind is graph.region}
    ranges = ranges_of(regions)

    def lowered(name: str, machine: Machine) -> Func:
        has_fma = target.arch != "x86_64" or target.has("fma")
        kernel = lower_region(region_ops[name], name, ranges, machine)
        kernel = snapshots.after(kernel, snapshots.Place("block", name, 0, "lower-region"))
        rounded = apply_numerics(kernel, options.numerics, has_fma=has_fma)
        if target.kind == "cuda" and options.numerics == "strict":  # its code generator has approximations
            rounded = replace(rounded, attrs={**rounded.attrs, "numerics": "strict"})
        return rounded

    kernels = clock("blockgen", lambda: {name: lowered(name, machine) for name in region_ops})
    ledger += [
        Decision("mask", name, fused=False, reason=str(f.attrs[MASK])) for name, f in kernels.items() if MASK in f.attrs
    ]
    return Stages(func, regions, ledger, kernels, region_ops, lowered, {**seconds, **clock.seconds})


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


LARGE = 128
"""Ops of a graph whose kernels are too many for one process."""


@_without_collections()
def build(func: Func, target: Target, options: Options) -> Executable:
    """Compile `@main` for a target."""
    with counted():
        return _build(func, target, options)


def _build(func: Func, target: Target, options: Options) -> Executable:
    check_names("GRAPHFUSE_PRINT_AFTER", settings.print_after)
    if target.kind == "cuda" and len(func.body.ops) >= LARGE and not snapshots.wanted():
        workers.start()
    done = stages(func, target, options)
    clock = _Clock()
    kernels = dict(done.kernels)
    planned = clock("plan", lambda: _planned(done))
    code, launches, scratch, texts = clock("code", lambda: _code(done, planned.plan, target))
    if done.kernels != kernels:  # other grids
        planned = clock("plan again", lambda: _planned(done))
    metas = [_meta(name, f, done, scratch[name], launches.get(name)) for name, f in done.kernels.items()]
    metas.append(KernelMeta("copy_bytes", "rwi", COPY, ""))
    for name, seconds in {**done.seconds, **clock.seconds}.items():
        log.info("%s: %.0f ms", name, seconds * 1e3)
    return Executable(
        signature=signature_of(done.graph),
        plan=planned.plan,
        kernels=tuple(metas),
        weights=tuple(_weight(f"w{i}", d) for i, d in enumerate(planned.weights)),
        target=str(target),
        code={str(target): code},
        ir=_texts(done, texts),
        ledger=[_decision(d) for d in done.ledger],
        checks=checks_of(done.graph.attrs.get(ATTR, ())),
        meta={"numerics": options.numerics, "precision": options.precision, "fuse": options.fuse},
    )


def _weight(name: str, dense: Dense) -> Weight:
    packed = None if dense.packed is None else (np.ascontiguousarray(dense.packed[0].array), dense.packed[1])
    return Weight(name, dense.elem.name, np.ascontiguousarray(dense.array), packed)


def _code(done: Stages, placed: Plan, target: Target) -> tuple[Code, dict[str, Launch], dict[str, Dim], dict[str, str]]:
    """Code, how a GPU's kernels are launched, each kernel's scratch bytes, and stages whose text replaces another."""
    if target.kind == "cuda":
        made = code_for_gpu(done, target, lambda kernels: with_constants(with_alignments(kernels, placed), placed))
        return made.code, made.launches, made.scratch, {"block": "\n".join(made.texts.values())}
    made, scratch = generate_code(done.kernels, target)
    return Code.of(target, made), {}, scratch, {}


def code_for_gpu(
    done: Stages, target: Target, placed: Callable[[Mapping[str, Func]], Mapping[str, Func]] = lambda kernels: kernels
) -> GpuCode:
    """Code of all kernels, with what `placed` knows of the tensors they get.

    Where a tile was chosen for `wgmma`, and memory or the epilogue are nothing for that, another tile is chosen: the
    kernels of `done` are those there is code for, and the ledger has the reasons.
    """
    machine = machine_of(target)
    assert isinstance(machine, GpuMachine)
    reasons: dict[str, str] = {}

    def instead(name: str, why: str) -> Func | None:
        reasons[name] = why
        if done.region_ops[name].attrs["kind"] == "call":
            return None  # its tile is the programmer's
        func = done.kernels[name] = done.lower(name, replace(machine, has_wgmma=False))
        return placed({name: func})[name]

    made = gpu_code(placed(done.kernels).values(), target, instead)
    said = {name: reasons[name] for name in done.kernels if name in reasons}
    done.ledger += [Decision("wgmma", name, fused=False, reason=why) for name, why in said.items()]
    return made


def generate_code(kernels: Mapping[str, Func], target: Target) -> tuple[bytes, dict[str, Dim]]:
    """One relocatable object with every kernel and the executor, and each kernel's scratch bytes."""
    lowered = cpu.lower(list(kernels.values()), target)
    support = (COPY_BYTES, executor_ir(target.arch, _os_of(target)))
    return codegen.object_code(lowered.text, target, *support), {k.name: k.scratch_bytes for k in lowered.kernels}


COPY_BYTES = """
define void @copy_bytes(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
  %src = load ptr, ptr %args
  %to_at = getelementptr i8, ptr %args, i64 8
  %dst = load ptr, ptr %to_at
  %n_at = getelementptr i8, ptr %args, i64 16
  %n = load i64, ptr %n_at
  call void @llvm.memcpy.p0.p0.i64(ptr %dst, ptr %src, i64 %n, i1 false)
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


def _os_of(target: Target) -> str:
    return "darwin" if "darwin" in target.triple else "linux"


def _planned(done: Stages) -> Planned:
    return plan(dead_code(done.regions), {name: _call(f) for name, f in done.kernels.items()})


def _call(func: Func) -> KernelCall:
    pointers = sum(isinstance(v.type, Ptr) for v in func.params)
    symbols = tuple(v.hint for v in func.params[pointers:])
    return KernelCall(symbols, attr_dim(func, "grid"), attr_dim(func, "work"))


def _meta(name: str, func: Func, done: Stages, scratch: Dim, launch: Launch | None) -> KernelMeta:
    region = done.region_ops[name]
    reads = bytes_read_by(region, done.graph.ranges)
    writes = sum((t.nbytes for t in region.types if isinstance(t, Tensor)), 0)
    pointers = len(region.operands), len(region.types)
    scalars = len(func.params) - sum(pointers)
    params = "r" * pointers[0] + "w" * pointers[1] + "i" * scalars
    flops = attr_dim(func, "flops") if "flops" in func.attrs else 0
    label = region.loc.short if region.loc else ""
    return KernelMeta(name, params, str(region.attrs["kind"]), label, scratch, flops, reads, writes, launch)


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


def _texts(done: Stages, instead: Mapping[str, str]) -> dict[str, str]:
    """The stages as text, but where there is another text instead."""
    made = {"graph": to_text(done.graph, locations=True), "regions": to_text(done.regions), **instead}
    return made if "block" in made else {**made, "block": module_text(done.kernels.values())}


def _decision(d: Decision) -> Json:
    return {
        "producer": d.producer,
        "consumer": d.consumer,
        "fused": d.fused,
        "reason": d.reason,
        "saved": d.saved_bytes,
        "begins": d.begins,
    }


T = TypeVar("T")


class _Clock:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, name: str, work: Callable[[], T]) -> T:
        start = time.perf_counter()
        out = work()
        self.seconds[name] = time.perf_counter() - start
        return out
