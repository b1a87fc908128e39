"""The executable of a part's function: from the cache, else compiled and put there."""

from __future__ import annotations

import logging

import torch

from graphfuse.artifact import Executable
from graphfuse.devices import compiled_key, targets_of
from graphfuse.ir.core import Func
from graphfuse.ir.printer import to_text
from graphfuse.knobs import Options, Tuning
from graphfuse.llvm.host import parse_target
from graphfuse.runtime.cache import default_cache
from graphfuse.runtime.device import Device
from graphfuse.runtime.report import code_warnings
from graphfuse.targets import Target

log = logging.getLogger(__name__)


def build_part(func: Func, device: torch.device, options: Options) -> Executable:
    """Compile for the machine or GPU that tensors on `device` are on."""
    target = target_of(device)

    def make() -> Executable:
        # takes long to import, and is only needed where the cache has nothing
        from graphfuse import tuner

        return tuner.build(func, target, options)

    cache = default_cache()
    if cache is None:
        made = make()
    else:
        key = compiled_key({"part": to_text(func), "options": repr(options)}, target)
        made = cache.get_or_make(key, make)
    for warning in code_warnings(made):
        log.warning("%s", warning)
    return made


def tuning_on(device: torch.device) -> Tuning:
    """Where kernels that run on tensors of a device are timed."""
    if device.type == "cpu":
        return Tuning("cpu", torch.get_num_threads())
    return Tuning(f"cuda:{torch.cuda.current_device() if device.index is None else device.index}")


def target_of(device: torch.device) -> Target:
    """What runs kernels on tensors of a device."""
    if device.type == "cpu":
        return parse_target("cpu")  # whatever `GRAPHFUSE_TARGET` says: it may name a GPU
    index = torch.cuda.current_device() if device.index is None else device.index
    (target,) = targets_of("", Device("cuda", index))
    return target
