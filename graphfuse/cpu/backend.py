"""Makes code for a processor: kernels, and the executor that calls them, as one object."""

from __future__ import annotations

from collections.abc import Sequence

from graphfuse.artifact import Code, Plan
from graphfuse.blockgen.graft import why_not_graft
from graphfuse.blockgen.lower import EMITTERS, lower_region, schedules_of
from graphfuse.blockgen.numerics import apply_numerics
from graphfuse.cpu import lower as cpu
from graphfuse.cpu.graph_passes import graph_passes
from graphfuse.cpu.lower import cpu_passes
from graphfuse.fusion.regions.few_rows import Version
from graphfuse.fusion.regions.plan import COPIED_BYTES
from graphfuse.fusion.regions.rules import Rules
from graphfuse.ir.core import Func, Op
from graphfuse.ir.passes import Pass
from graphfuse.knobs import Numerics, Options
from graphfuse.llvm import codegen
from graphfuse.llvm.executor_ir import executor_ir
from graphfuse.llvm.fields import with_fields
from graphfuse.targets.backend import Ranges, Stages
from graphfuse.targets.cpu import machine_of
from graphfuse.targets.generated import Generated
from graphfuse.targets.machine import Machine
from graphfuse.targets.target import Target


class Backend:
    """See `graphfuse.targets.backend.Backend`."""

    level = "cpu"
    checks_values = True
    region_passes: tuple[Pass, ...] = ()
    launch_passes: tuple[Pass, ...] = ()
    code_stages = ("llvm", "asm")
    note = ""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.machine = machine_of(target)

    def graph_passes(self, options: Options) -> tuple[Pass, ...]:
        """Bytes and weights as this processor multiplies them."""
        return graph_passes(self.target, options)

    def rules(self, ranges: Ranges, loops: Ranges) -> Rules:
        """One product a kernel; a called kernel may take elementwise work into its loads and stores."""
        del ranges
        return Rules(costs=self.machine.kernels, ranges=loops, why_not_graft=why_not_graft(loops))

    def lower_region(self, region: Op, name: str, ranges: Ranges, machine: Machine) -> Func:
        """By the emitters for CPUs."""
        return lower_region(region, name, ranges, machine, EMITTERS)

    def versions(self, region: Op, ranges: Ranges) -> Sequence[Version]:
        """None: tiles are as good for any number of rows."""
        del region, ranges
        return ()

    def schedules(self, region: Op, ranges: Ranges) -> tuple[str, ...]:
        """Tiles."""
        return schedules_of(region, ranges, self.machine, EMITTERS)

    def rounded(self, func: Func, numerics: Numerics) -> Func:
        """Of sums of products, with fma or without."""
        return apply_numerics(func, numerics, has_fma=self.target.instructions.fma)

    def kernel_passes(self, func: Func) -> tuple[Pass, ...]:
        """The same for every function."""
        del func
        return cpu_passes(self.target)

    def begin(self, ops: int) -> None:
        """Nothing runs ahead: kernels are one module for LLVM."""

    def code(self, done: Stages, plan: Plan | None = None) -> Generated:
        """One relocatable object with every kernel and the executor."""
        del plan
        lowered = cpu.lower(list(done.kernels.values()), self.target)
        system = "darwin" if "darwin" in self.target.triple else "linux"
        made = codegen.object_code(lowered.text, self.target, COPY_BYTES, executor_ir(self.target.arch, system))
        return self._generated(made, lowered)

    def kernel_code(self, func: Func) -> Generated:
        """An object with the kernel alone."""
        lowered = cpu.lower([func], self.target)
        return self._generated(cpu.compile_object(lowered), lowered)

    def _generated(self, made: bytes, lowered: cpu.Lowered) -> Generated:
        return Generated(Code.of(self.target, made), {k.name: k.scratch_bytes for k in lowered.kernels})

    def code_text(self, funcs: Sequence[Func], stage: str, *, lowered: bool = False) -> str:
        """LLVM IR, or assembly."""
        del lowered
        made = cpu.lower(funcs, self.target)
        return made.text if stage == "llvm" else cpu.emit_assembly(made)


COPY_BYTES = with_fields(f"""
define void @copy_bytes(ptr %args, i64 %begin, i64 %end, ptr %scratch) {{
  %from = load ptr, ptr %args
  %to = load ptr, ptr %args[ptr 1]
  %all = load i64, ptr %args[i64 2]
  %first = mul i64 %begin, {COPIED_BYTES}
  %bound = mul i64 %end, {COPIED_BYTES}
  %last = call i64 @llvm.umin.i64(i64 %bound, i64 %all)
  %count = sub i64 %last, %first
  %source = getelementptr i8, ptr %from, i64 %first
  %target = getelementptr i8, ptr %to, i64 %first
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %count, i1 false)
  ret void
}}
declare i64 @llvm.umin.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
""")
