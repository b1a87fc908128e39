"""A specialised block function as an executable of one kernel, from the cache if it was made before."""

from __future__ import annotations

from graphfuse.artifact import Code, Executable, KernelMeta, Plan, Signature
from graphfuse.cpu import lower as cpu
from graphfuse.devices import compiled_key
from graphfuse.gpu.code import gpu_code
from graphfuse.ir.core import Func
from graphfuse.ir.printer import to_text
from graphfuse.kernels.signature import parameters
from graphfuse.runtime.cache import default_cache
from graphfuse.target import Target


def build(func: Func, target: Target) -> Executable:
    """Compile, or find what was compiled from the same text for the same target."""
    cache = default_cache()
    if cache is None:
        return compiled(func, target)
    key = compiled_key({"kernel": to_text(func)}, target)
    return cache.get_or_make(key, lambda: compiled(func, target))


def compiled(func: Func, target: Target) -> Executable:
    """Code for a target, how it is launched, and the block function that it was made from."""
    modes = "".join(p.mode for p in parameters(func))
    if target.kind == "cuda":
        made = gpu_code([func], target)
        code, launch, scratch = made.code, made.launches[func.name], made.scratch[func.name]
        text = made.texts[func.name]
    else:
        lowered = cpu.lower([func], target)
        code, launch, scratch = Code.of(target, cpu.compile_object(lowered)), None, lowered.kernels[0].scratch_bytes
        text = to_text(func)
    meta = KernelMeta(func.name, modes, "kernel", func.name, scratch, launch=launch)
    # sizes are not negative, whatever numbers a kernel takes besides
    signature = Signature((), (), tuple((name, max(low, 0), max(high, 0)) for name, low, high in func.dims))
    return Executable(signature, Plan((), ()), (meta,), (), str(target), {str(target): code}, {"block": text})
