"""The executable of `sample.py` for a GPU: the same plan, kernels whose blocks are one program each."""

from __future__ import annotations

import functools
from dataclasses import replace

from graphfuse.artifact import COPY, Code, Executable, KernelMeta, Launch, Pointer, Scalar, Step
from graphfuse.llvm.codegen import assembly
from graphfuse.targets import Target
from tests.runtime import sample

GLOBAL = "ptr addrspace(1)"
# thread 0 does the work: element `ctaid.x` of an addition, or a row of a product that goes through scratch memory
KERNELS = f"""
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()

define ptx_kernel void @add({GLOBAL} %a, {GLOBAL} %b, {GLOBAL} %c, {GLOBAL} %scratch) "nvvm.reqntid"="32" {{
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %first = icmp eq i32 %tid, 0
  br i1 %first, label %work, label %done
work:
  %i = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %at = zext i32 %i to i64
  %a_at = getelementptr float, {GLOBAL} %a, i64 %at
  %b_at = getelementptr float, {GLOBAL} %b, i64 %at
  %c_at = getelementptr float, {GLOBAL} %c, i64 %at
  %x = load float, {GLOBAL} %a_at
  %y = load float, {GLOBAL} %b_at
  %s = fadd float %x, %y
  store float %s, {GLOBAL} %c_at
  br label %done
done:
  ret void
}}

define ptx_kernel void @scale_row(
    {GLOBAL} %x, {GLOBAL} %w, {GLOBAL} %y, i64 %n, {GLOBAL} %scratch
) "nvvm.reqntid"="32" {{
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %first = icmp eq i32 %tid, 0
  %i = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %row = zext i32 %i to i64
  %base = mul i64 %row, %n
  br i1 %first, label %loop, label %done
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %loop ]
  %at = add i64 %base, %k
  %x_at = getelementptr float, {GLOBAL} %x, i64 %at
  %w_at = getelementptr float, {GLOBAL} %w, i64 %k
  %y_at = getelementptr float, {GLOBAL} %y, i64 %at
  %s_at = getelementptr float, {GLOBAL} %scratch, i64 %at
  %a = load float, {GLOBAL} %x_at
  %b = load float, {GLOBAL} %w_at
  %p = fmul float %a, %b
  store volatile float %p, {GLOBAL} %s_at
  %again = load volatile float, {GLOBAL} %s_at
  store float %again, {GLOBAL} %y_at
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


# scale_row stores its products where there is no memory
FAULTY = KERNELS.replace(
    "getelementptr float, ptr addrspace(1) %scratch, i64 %at", "inttoptr i64 16 to ptr addrspace(1)"
)


@functools.cache
def ptx(arch: str = "sm_80", kernels: str = KERNELS) -> str:
    """The kernels for an architecture."""
    target = Target.parse(f"cuda:{arch}")
    return assembly(f'target triple = "{target.triple}"\n{kernels}', target).rstrip("\0")


def executable(arch: str = "sm_80", cubin: bytes = b"", kernels: str = KERNELS) -> Executable:
    """What `sample.executable` computes; total's first row is a copy."""
    source = sample.executable()
    target = f"cuda:{arch}"
    launches = {"add": Launch(32), "scale_row": Launch(32, symbols=("n",))}
    metas = tuple(replace(k, launch=launches[k.name]) for k in source.kernels)
    row = 4 * sample.WIDTH
    copy = Step("copy_bytes", (Pointer(1), Pointer(5), Scalar(row)), 1, 1, "copy")
    steps = (*source.plan.steps[:2], copy, source.plan.steps[3])
    return replace(
        source,
        plan=replace(source.plan, steps=steps),
        kernels=(*metas, KernelMeta("copy_bytes", "rwi", COPY)),
        target=target,
        code={target: Code(arch, "cuda", (), cubin, ptx(arch, kernels))},
    )
