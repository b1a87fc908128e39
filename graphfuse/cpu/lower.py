"""Block functions to one LLVM module and its object code.

Every function becomes `void @name(ptr args, i64 begin, i64 end, ptr scratch)`, which runs the programs
`begin..end` (docs/ARCHITECTURE.md). Arguments are slots of 8 bytes, in the order of the parameters; where the grid is
given at launch and programs ask for it, its three sizes follow. The families of ops are in `lower_*.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from graphfuse.codegen import arith, control, debug, index, pointers
from graphfuse.codegen.expand import expand, expand_words, quiet
from graphfuse.codegen.expand_moves import expand_moves
from graphfuse.codegen.kernel import PointerValue, memory_type
from graphfuse.codegen.lowered import LoweredModule
from graphfuse.cpu import (
    lower_dot,
    lower_dot_bytes,
    lower_dot_words,
    lower_effects,
    lower_memory,
    lower_moves,
    lower_scan,
    lower_shape,
    lower_sort,
)
from graphfuse.cpu.kernel import Kernel
from graphfuse.cpu.windows.loops import loop_over_windows
from graphfuse.dialects import block
from graphfuse.errors import VerifyError
from graphfuse.ir.core import Func
from graphfuse.ir.passes import Pass, run
from graphfuse.ir.types import I64, Ptr, Scalar
from graphfuse.llvm import codegen
from graphfuse.llvm.module import FunctionText, ModuleText, Reg
from graphfuse.symbolic import Dim
from graphfuse.targets import Target
from graphfuse.targets.cpu import WORD_FEATURES, multiplies_words

FAMILIES = (
    arith, control, index, lower_dot, lower_dot_bytes, lower_dot_words, lower_effects, lower_memory, lower_moves,
    lower_scan, lower_shape, lower_sort, pointers,
)  # fmt: skip
"""Modules that fill the tables of lowerings."""


GRID = ("grid.x", "grid.y", "grid.z")
"""The names of the slots with the grid."""


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """What a caller must know: the argument slots in order, and how much scratch memory one thread needs."""

    name: str
    params: tuple[str, ...]
    scratch_bytes: Dim


Lowered: TypeAlias = LoweredModule[KernelInfo]


def lower(funcs: Sequence[Func], target: Target) -> Lowered:
    """LLVM IR for block functions."""
    module = ModuleText(target.triple)
    passes = cpu_passes(target)
    infos = tuple(_lower_function(run(f, passes, "cpu"), target, module) for f in funcs)
    module.entity(_attributes(target))
    return LoweredModule(module.text(), target, infos)


def cpu_passes(target: Target) -> tuple[Pass, ...]:
    """What runs on every block function before it is lowered."""
    windows = loop_over_windows.given(vector_bytes=target.vector_bytes, registers=target.registers)
    words = expand_words.given(but=",".join(e for e in WORD_FEATURES if multiplies_words(target, e)))
    return quiet, expand_moves.given(but="take,cat"), words, windows, expand


def compile_object(lowered: Lowered) -> bytes:
    """A relocatable object that exports every kernel."""
    return codegen.object_code(lowered.text, lowered.target)


def emit_assembly(lowered: Lowered) -> str:
    """What `compile_object` gives, as text."""
    return codegen.assembly(lowered.text, lowered.target)


def _attributes(target: Target) -> str:
    bits = 8 * target.vector_bytes
    width = f'"prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}" ' if bits > 128 else ""
    return f'attributes #0 = {{ nounwind {width}"no-builtins" }}'


def _lower_function(func: Func, target: Target, module: ModuleText) -> KernelInfo:
    text = FunctionText(module)
    # lanes of a full vector: f32 fills a register, wider elements take several
    kernel = Kernel(func, target, text, target.vector_bytes // 4)
    kernel.deferred = lower_dot.deferrable(func)
    _bind_params(kernel)
    lower_dot_words.begin(kernel)
    kernel.scratch = Reg("%scratch", "ptr")
    before = text.reserve()
    text.line("br label %programs")
    with text.scope(before):
        text.start("programs")
        heads = text.reserve()
        kernel.program = text.phi("i64", "%program")
        kernel.lower_ops(func.body.ops[:-1])
        text.line("%next = add nsw i64 %program, 1")
        text.line("%more = icmp slt i64 %next, %end")
        latch = text.label
        text.line(f"br i1 %more, label %programs, label %exit, !llvm.loop {control.loop_metadata(kernel)}")
        heads.append(f"  %program = phi i64 [ %begin, %run ], [ %next, %{latch} ]")
    text.start("exit")
    if kernel.streams and target.arch == "x86_64":
        # streaming stores are not ordered by the executor's release
        module.entity("declare void @llvm.x86.sse.sfence()")
        text.line("call void @llvm.x86.sse.sfence()")
    if kernel.uses_tiles:
        lower_dot_words.release(kernel)
    text.line("ret void")
    params = "ptr noalias readonly %args, i64 %begin, i64 %end, ptr noalias align 64 %scratch"
    module.function(text.text(f"define void @{func.name}({params}) #0"))
    if debug.enabled(kernel):
        module.entity(f"@{debug.failed(func.name)} = global ptr null, align 8")
    names = tuple(v.hint or f"arg{i}" for i, v in enumerate(func.params))
    names += GRID if kernel.grid else ()
    return KernelInfo(func.name, names, kernel.scratch_bytes)


def _bind_params(kernel: Kernel) -> None:
    """Load every argument, ahead of the loop and only if there is a program."""
    text, func = kernel.text, kernel.func
    text.line("%some = icmp slt i64 %begin, %end")
    text.line("br i1 %some, label %run, label %exit")
    text.start("run")
    for i, (param, type_) in enumerate(zip(func.params, func.body.params.types, strict=True)):
        at = text.emit("ptr", f"getelementptr i64, ptr %args, i64 {i}")
        if isinstance(type_, Ptr):
            kernel.values[param] = PointerValue(text.emit("ptr", f"load ptr, {at}"), f"p{i}")
            kernel.groups[f"p{i}"] = f"p{i}"
            continue
        if not isinstance(type_, Scalar):
            raise VerifyError(f"a kernel takes pointers and scalars, parameter {i} of @{func.name} is {type_}")
        loaded = text.emit(memory_type(type_), f"load {memory_type(type_)}, {at}")
        reg = lower_memory.from_memory(kernel, loaded, type_)
        kernel.values[param] = kernel.make(type_, [reg])
        if type_ != I64:
            continue
        kernel.symbols[param.hint] = reg
        if param.hint in kernel.ranges:
            kernel.bounds[param] = kernel.ranges[param.hint]
    if block.needs_grid(func):
        slots = [text.emit("ptr", f"getelementptr i64, ptr %args, i64 {len(func.params) + a}") for a in range(3)]
        kernel.grid = tuple(text.emit("i64", f"load i64, {at}") for at in slots)
    _bind_groups(kernel)


def _bind_groups(kernel: Kernel) -> None:
    """Which memories may overlap: parameters paired by `inplace`, and those that nothing is promised of."""
    alone = block.alone(kernel.func)
    own = {f"p{i}" for i, v in enumerate(kernel.func.params) if v.hint in alone}
    kernel.groups = {root: root if root in own else "any" for root in kernel.groups}
    inplace = kernel.func.attrs.get("inplace", ())
    assert isinstance(inplace, tuple), "pairs of parameter numbers"
    for pair in inplace:
        assert isinstance(pair, tuple), "a pair of parameter numbers"
        names = {kernel.groups[f"p{i}"] for i in pair}
        joined = min(names)
        for root, name in kernel.groups.items():
            if name in names:
                kernel.groups[root] = joined
    for op in kernel.func.walk():
        if op.kind is block.alloc:
            root = f"s{len(kernel.allocation_roots)}"
            kernel.allocation_roots[op.result] = root
            kernel.groups[root] = root
