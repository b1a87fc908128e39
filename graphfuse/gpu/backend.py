"""Makes code for an NVIDIA GPU: PTX, and cubins where there is an assembler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from graphfuse.artifact import Plan
from graphfuse.blockgen.gpu_several_products import saved_together
from graphfuse.blockgen.graft import why_not_graft
from graphfuse.blockgen.lower import GPU_EMITTERS, lower_region, others_of, schedules_of
from graphfuse.blockgen.numerics import apply_numerics
from graphfuse.dialects.gpu import WITHOUT_WGMMA
from graphfuse.dialects.ranges import ranges_of
from graphfuse.fusion.regions.compute_again import compute_again
from graphfuse.fusion.regions.few_rows import Version, versions
from graphfuse.fusion.regions.partition import Decision
from graphfuse.fusion.regions.plan import written_inputs
from graphfuse.fusion.regions.rules import Rules
from graphfuse.fusion.regions.write_over import write_over
from graphfuse.gpu import lower as gpu
from graphfuse.gpu.alignment import with_alignments
from graphfuse.gpu.code import Made, generated, gpu_code, gpu_kernels
from graphfuse.gpu.compiled_kernel import ptx_of
from graphfuse.gpu.graph_passes import graph_passes, launch_together, vectors_again
from graphfuse.gpu.pipeline import gpu_passes, transformed
from graphfuse.gpu.transforms.overlap_launches import with_constants
from graphfuse.gpu.workers import workers
from graphfuse.ir import snapshots
from graphfuse.ir.core import Func, Op
from graphfuse.ir.passes import Pass
from graphfuse.knobs import Numerics, Options
from graphfuse.targets.backend import Ranges, Stages
from graphfuse.targets.generated import Generated
from graphfuse.targets.machine import Machine
from graphfuse.targets.profiles.nvidia import GPUS
from graphfuse.targets.target import Target

LARGE = 128
"""Ops of a graph whose kernels are too many for one process."""
OF_A_WORKER = 64
"""Ops whose kernels take as long to compile as a process takes to start."""
MOST_TRIED = 6
"""Others that are compiled for a kernel that spills: later ones take much longer by the model of the time."""
OTHER_SPILLS = "what is faster by the model of the time spills registers"


@dataclass(frozen=True, slots=True)
class _Known:
    """A kernel that was made."""

    placed: Func
    """The block function, with what the plan knows of its arguments."""
    func: Func
    """What it is now."""
    made: Made
    reason: str | None
    """Why it does not use `wgmma`."""
    is_other: bool
    """Whether what was chosen first spills."""


def _known(done: Stages, placed: Mapping[str, Func]) -> dict[str, _Known]:
    """Kernels that other parts have too; none if this plan knows something else of the arguments of one."""
    if done.shared is None:
        return {}
    found: dict[str, _Known] = {n: done.shared.made[n] for n in placed if n in done.shared.made}
    if any(k.placed.body is not placed[n].body or k.placed.attrs != placed[n].attrs for n, k in found.items()):
        done.shared = None  # cubins of others have kernels of the same names
        return {}
    return found


class Backend:
    """See `graphfuse.targets.backend.Backend`."""

    level = "gpu"
    checks_values = False  # somebody would have to wait
    code_stages = ("llvm", "ptx")

    def __init__(self, target: Target) -> None:
        self.target = target
        self.machine, self.note = GPUS[target.cpu].machine, GPUS[target.cpu].note
        costs = self.machine.kernels
        again = compute_again.given(launch_bytes=int(costs.launch / costs.byte))
        self.region_passes: tuple[Pass, ...] = (again, vectors_again.given(target=str(target)), write_over)
        self.launch_passes: tuple[Pass, ...] = (launch_together.given(target=str(target)),)

    def graph_passes(self, options: Options) -> tuple[Pass, ...]:
        """Halves, masks and rows as tensor cores take them."""
        return graph_passes(self.target, options)

    def rules(self, ranges: Ranges, loops: Ranges) -> Rules:
        """Several products a kernel where they have a schedule; each that reads a short row computes it again."""
        machine = self.machine
        return Rules(
            costs=machine.kernels,
            ranges=loops,
            reads_padded=True,
            most_repeated=machine.gpu.memory.most_repeated,
            computes_places=True,
            gathers=True,
            joins_at_once=True,
            turns_rows=True,
            saved_together=saved_together(machine, ranges),
            why_not_graft=why_not_graft(loops, copies_tiles=machine.has_wgmma),
        )

    def versions(self, region: Op, ranges: Ranges) -> Sequence[Version]:
        """Of products for few rows."""
        return versions(region, ranges)

    def lower_region(self, region: Op, name: str, ranges: Ranges, machine: Machine) -> Func:
        """By the emitters for GPUs."""
        return lower_region(region, name, ranges, machine, GPU_EMITTERS)

    def schedules(self, region: Op, ranges: Ranges) -> tuple[str, ...]:
        """Tiles."""
        return schedules_of(region, ranges, self.machine, GPU_EMITTERS)

    def rounded(self, func: Func, numerics: Numerics) -> Func:
        """Of sums of products, with fma or without."""
        return apply_numerics(func, numerics, has_fma=self.target.instructions.fma)

    def kernel_passes(self, func: Func) -> tuple[Pass, ...]:
        """Layouts, and what moves and computes tiles."""
        return gpu_passes(func, self.target)

    def begin(self, ops: int) -> None:
        """Start processes that compile kernels beside this one."""
        if ops >= LARGE and not snapshots.wanted():
            workers.start(ops // OF_A_WORKER)

    def code(self, done: Stages, plan: Plan | None = None) -> Generated:
        """Where a tile was chosen for `wgmma`, and memory or the epilogue are nothing for that, another is chosen.

        So it is where a kernel spills registers, and nobody asked for its schedule.
        """
        reasons: dict[str, str] = {}
        machines: dict[str, Machine] = {}
        ranges, written = ranges_of(done.regions), written_inputs(done.regions)

        def placed(kernels: Mapping[str, Func]) -> Mapping[str, Func]:
            return kernels if plan is None else with_constants(with_alignments(kernels, plan), plan, written)

        def instead(name: str, why: str) -> Func | None:
            reasons[name] = why
            if done.region_ops[name].attrs["kind"] == "call" or WITHOUT_WGMMA in done.kernels[name].attrs:
                return None  # its tile is the programmer's, or was chosen for other instructions
            machines[name] = replace(self.machine, has_wgmma=False)
            func = done.kernels[name] = done.lower(name, machines[name])
            return placed({name: func})[name]

        def others(name: str) -> Iterator[Func]:
            region, machine = done.region_ops[name], machines.get(name, self.machine)
            if "schedule" not in region.attrs and region.attrs["kind"] != "call":
                ways = others_of(region, ranges, machine, GPU_EMITTERS)
                yield from (placed({name: done.lower(name, machine, way)})[name] for way in ways[:MOST_TRIED])

        here = placed(done.kernels)
        known = _known(done, here)
        new = {name: func for name, func in here.items() if name not in known}
        taken: dict[str, Func] = {}
        made = gpu_kernels(new.values(), self.target, instead, others, taken.__setitem__)
        done.kernels.update(taken)
        for (name, func), kernel in zip(new.items(), made, strict=True):
            known[name] = _Known(func, done.kernels[name], kernel, reasons.get(name), is_other=name in taken)
        if done.shared is not None:
            done.shared.made |= {n: k for n, k in known.items() if n not in done.shared.made}
        done.kernels |= {name: k.func for name, k in known.items()}
        ledger = [(name, known[name]) for name in here]
        done.ledger += [Decision("schedule", n, fused=False, reason=OTHER_SPILLS) for n, k in ledger if k.is_other]
        done.ledger += [Decision("wgmma", n, fused=False, reason=k.reason) for n, k in ledger if k.reason is not None]
        return generated([k.made for _, k in ledger], self.target)

    def kernel_code(self, func: Func) -> Generated:
        """A cubin with the kernel alone."""
        return gpu_code([func], self.target)

    def code_text(self, funcs: Sequence[Func], stage: str, *, lowered: bool = False) -> str:
        """LLVM IR, or PTX."""
        made = gpu.lower(list(funcs) if lowered else [transformed(f, self.target) for f in funcs], self.target)
        return made.text if stage == "llvm" else ptx_of(made)
