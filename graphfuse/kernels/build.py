"""A specialised block function as an executable of one kernel, from the cache if it was made before."""

from __future__ import annotations

from graphfuse.artifact import Executable, KernelMeta, Plan, Signature
from graphfuse.devices import compiled_key
from graphfuse.ir.core import Func
from graphfuse.ir.printer import to_text
from graphfuse.kernels.signature import parameters
from graphfuse.runtime.cache import default_cache
from graphfuse.targets import Target
from graphfuse.targets.backend import backend_of


def build(func: Func, target: Target) -> Executable:
    """Compile, or find what was compiled from the same text for the same target."""
    cache = default_cache()
    if cache is None:
        return compiled(func, target)
    key = compiled_key({"kernel": to_text(func)}, target)
    return cache.get_or_make(key, lambda: compiled(func, target))


def compiled(func: Func, target: Target) -> Executable:
    """Code for a target, how it is launched, and the block function that it was made from."""
    name, made = func.name, backend_of(target).kernel_code(func)
    modes = "".join(p.mode for p in parameters(func))
    meta = KernelMeta(name, modes, "kernel", name, made.scratch[name], launch=made.launches.get(name))
    # sizes are not negative, whatever numbers a kernel takes besides
    signature = Signature((), (), tuple((name, max(low, 0), max(high, 0)) for name, low, high in func.dims))
    text = made.texts.get(name) or to_text(func)
    return Executable(signature, Plan((), ()), (meta,), (), str(target), {str(target): made.code}, {"block": text})
