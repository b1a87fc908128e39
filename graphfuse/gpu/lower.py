"""Block functions with layouts to one LLVM module for NVIDIA GPUs, and its PTX.

Every function becomes a kernel `@name(parameters..., scratch)`: one block of threads is one program. Pointers are
global addresses, aligned as `alignment.py` says; a bool is a byte, and every scalar as large as its type. The families
of ops are in `lower_*.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from graphfuse.artifact import Launch
from graphfuse.codegen import arith, control, index, pointers
from graphfuse.codegen.kernel import PointerValue, memory_type
from graphfuse.codegen.lowered import LoweredModule
from graphfuse.dialects import block
from graphfuse.errors import VerifyError
from graphfuse.families import import_families
from graphfuse.gpu import math
from graphfuse.gpu.alignment import pointer_alignments
from graphfuse.gpu.analysis.axis_info import axis_info
from graphfuse.gpu.kernel import GLOBAL, WARP_SIZE, Kernel
from graphfuse.ir.core import Func, attr_int, attr_strs
from graphfuse.ir.types import BOOL, I64, Ptr, Scalar
from graphfuse.llvm import codegen
from graphfuse.llvm.lines import LineTable
from graphfuse.llvm.module import FunctionText, ModuleText, Reg
from graphfuse.symbolic import Dim, product
from graphfuse.targets import Target

SHARED_FAMILIES = (arith, control, index, math, pointers)
"""Modules that fill the tables of lowerings, as do the `lower_*.py` beside this one."""
import_families("graphfuse.gpu", [str(Path(__file__).parent)], prefix="lower_")
SCRATCH = "scratch"
"""The name of the last parameter: global memory for programs, or null when `scratch_bytes` is 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelInfo(Launch):
    """How to launch a kernel."""

    name: str
    params: tuple[str, ...]
    """Argument slots in order: tensors, symbols, `scratch`; then one 128-byte slot per tensor map."""
    grid: Dim
    """Programs; 1 where the grid is given at launch."""
    scratch_bytes: Dim
    """Global memory of one program; where there are flags, of one block."""
    axes: tuple[Dim, ...] | None = None
    """The grid, axis 0 first; None if it is given at launch."""
    types: tuple[str, ...] = ()
    """The type of each parameter but `scratch`, as IR text has it."""


Lowered: TypeAlias = LoweredModule[KernelInfo]


def lower(funcs: Sequence[Func], target: Target) -> Lowered:
    """LLVM IR for block functions that `assign_layouts` has been over."""
    module = ModuleText(target.triple)
    infos = tuple(_lower_function(f, target, module) for f in funcs)
    return LoweredModule(module.text(), target, infos)


def emit_ptx(lowered: Lowered) -> str:
    """The PTX of every kernel."""
    return codegen.assembly(lowered.text, lowered.target)


def _lower_function(func: Func, target: Target, module: ModuleText) -> KernelInfo:
    text = FunctionText(module)
    warps = attr_int(func, "warps", 4)
    kernel = Kernel(func, target, text, warps, axis_info(func, pointer_alignments(func)))
    if any(func.attrs.get(name) is True for name in ("lines", "debug")):
        kernel.lines = LineTable(module, func.name)
    params = _bind_params(kernel)
    kernel.program = kernel.widen_index(kernel.special("ctaid.x"))
    entry = text.reserve()
    kernel.lower_ops(func.body.ops[:-1])
    text.line("ret void")
    with text.at(entry):
        _place_memory(kernel)
    threads = warps * WARP_SIZE
    attrs = f'"nvvm.reqntid"="{threads}"'
    persistent = attr_int(func, "persistent", 0)
    resident = max(persistent, attr_int(func, "resident", 0))
    if resident:  # registers can only be given from role to role where their number is known
        attrs += f' "nvvm.minctasm"="{resident}"'
    cluster, split = attr_int(func, "cluster", 1), attr_int(func, "split", 1)
    if cluster > 1:
        attrs += f' "nvvm.cluster_dim"="{cluster},1,1"'
    params += [f'ptr byval([128 x i8]) align 64 "nvvm.grid_constant" %map{i}' for i in range(len(kernel.maps))]
    attrs += kernel.lines.of_function if kernel.lines else ""
    module.function(text.text(f"define ptx_kernel void @{func.name}({', '.join(params)}) {attrs}"))
    names = (*(v.hint or f"arg{i}" for i, v in enumerate(func.params)), SCRATCH)
    axes = block.grid_axes(func)
    return KernelInfo(
        name=func.name,
        params=names,
        grid=product(axes or (1,)),
        threads=threads,
        shared_bytes=kernel.shared_bytes + kernel.staging_bytes,
        scratch_bytes=kernel.scratch_bytes,
        symbols=tuple(v.hint for v in func.params if not isinstance(v.type, Ptr)),
        tensor_maps=tuple(kernel.maps),
        axes=axes,
        types=tuple(map(str, func.body.params.types)),
        cluster=cluster,
        split=split if cluster > 1 or kernel.flags else 1,
        persistent=persistent,
        flags=kernel.flags,
    )


def _place_memory(kernel: Kernel) -> None:
    """Where staging and scratch memory begin, known only when everything that wants some has been lowered."""
    text = kernel.text
    if kernel.staging_bytes:
        text.line(f"%staging = getelementptr i8, {kernel.shared_memory(0)}, i32 {kernel.shared_bytes}")
    if kernel.scratch_bytes != 0:
        start = kernel.operate("mul", _number(kernel), index.emit_dim(kernel, kernel.scratch_bytes))
        text.line(f"{kernel.scratch.text} = getelementptr i8, {GLOBAL} %{SCRATCH}, {start}")


def _number(kernel: Kernel) -> Reg:
    """The program's number among all of the grid."""
    axes = block.grid_axes(kernel.func)
    out = kernel.position(0)
    if axes is not None and len(axes) == 1:
        return out
    above = kernel.operate("mul", kernel.position(2), kernel.count(1))
    above = kernel.operate("add", above, kernel.position(1))
    return kernel.operate("add", kernel.operate("mul", above, kernel.count(0)), out)


def _bind_params(kernel: Kernel) -> list[str]:
    func = kernel.func
    roots = _roots(func)
    out: list[str] = []
    for i, (param, type_) in enumerate(zip(func.params, func.body.params.types, strict=True)):
        name = f"%a{i}"
        if isinstance(type_, Ptr):
            listed = [n for n in ("noalias", "readonly", "writeonly") if param.hint in attr_strs(func, n, ())]
            # no `align`: from it LLVM would derive that of single elements, and load past the end to fill up a vector
            out.append(" ".join([GLOBAL, "noundef", *listed, name]))
            kernel.values[param] = PointerValue(Reg(name, GLOBAL), roots[i])
            continue
        if not isinstance(type_, Scalar):
            raise VerifyError(f"a kernel takes pointers and scalars, parameter {i} of @{func.name} is {type_}")
        moved = Reg(name, memory_type(type_))
        out.append(f"{moved.type} noundef {name}")
        flag = kernel.compare("icmp ne", moved, 0) if type_ == BOOL else moved
        kernel.values[param] = kernel.make(type_, [flag])
        if type_ != I64:
            continue
        kernel.symbols[param.hint] = Reg(name, "i64")
        if param.hint in kernel.ranges:
            kernel.bounds[param] = kernel.ranges[param.hint]
    return [*out, f"{GLOBAL} noundef %{SCRATCH}"]


def _roots(func: Func) -> dict[int, str]:
    """Which memory each pointer parameter points into; those paired by `inplace` share one."""
    roots = {i: f"p{i}" for i, p in enumerate(func.params) if isinstance(p.type, Ptr)}
    pairs = func.attrs.get("inplace", ())
    assert isinstance(pairs, tuple), "pairs of parameter numbers"
    for pair in pairs:
        assert isinstance(pair, tuple), "a pair of parameter numbers"
        names = {roots[i] for i in pair if isinstance(i, int)}
        roots = {i: min(names) if r in names else r for i, r in roots.items()}
    return roots
