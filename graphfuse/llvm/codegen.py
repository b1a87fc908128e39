"""LLVM IR text to machine code: target machines and the pass pipeline. Knows no dialect."""

from __future__ import annotations

import functools

import llvmlite.binding as llvm

from graphfuse.errors import TargetError
from graphfuse.targets import Target


@functools.cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@functools.lru_cache(maxsize=8)
def _machine(target: Target) -> llvm.TargetMachine:
    _initialize()
    try:
        found = llvm.Target.from_triple(target.triple)
    except RuntimeError as e:
        raise TargetError(f"LLVM has no target {target.triple!r}: {e}") from None
    cpu = "generic" if target.cpu == target.arch else target.cpu
    return found.create_target_machine(cpu=cpu, features=target.features, opt=2, reloc="pic", codemodel="small")


def optimize(text: str, target: Target) -> llvm.ModuleRef:
    """Parse and run the IR passes.

    The text is vector code already, so nothing may unroll or vectorise; what is left is inlining, clean-up and
    the hoisting of loads.
    """
    machine = _machine(target)
    module = llvm.parse_assembly(text)
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_unrolling = options.loop_vectorization = False
    options.slp_vectorization = options.loop_interleaving = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module


@functools.lru_cache(maxsize=8)
def _optimized(text: str, target: Target) -> bytes:
    """The bitcode of what `optimize` gives, for modules that every object has in it."""
    return optimize(text, target).as_bitcode()


def object_code(text: str, target: Target, *others: str) -> bytes:
    """A relocatable object of a module, with other modules linked in. Those are optimised once per process."""
    module = optimize(text, target)
    for other in others:
        module.link_in(llvm.parse_bitcode(_optimized(other, target)))
    return _machine(target).emit_object(module)


def assembly(text: str, target: Target) -> str:
    """The assembly of what `object_code` gives."""
    return _machine(target).emit_assembly(optimize(text, target))
