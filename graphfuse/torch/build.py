"""The executable of a part's function: from the cache, else compiled and put there."""

from __future__ import annotations

import dataclasses
from functools import partial

import torch

from graphfuse import compiler
from graphfuse.artifact import Executable
from graphfuse.ir.core import Func
from graphfuse.ir.printer import to_text
from graphfuse.knobs import Options, code_key
from graphfuse.llvm.host import parse_target
from graphfuse.runtime.cache import cache_key, default_cache
from graphfuse.target import Target


def build_part(func: Func, device: torch.device, options: Options) -> Executable:
    """Compile for the machine or GPU that tensors on `device` are on."""
    target = target_of(device)
    make = partial(compiler.build, func, target, options)
    cache = default_cache()
    if cache is None:
        return make()
    key = cache_key(
        {
            "part": to_text(func),
            "target": repr(target),
            "options": repr(sorted(dataclasses.asdict(options).items())),
            "knobs": repr(sorted(code_key().items())),
        }
    )
    return cache.get_or_make(key, make)


def target_of(device: torch.device) -> Target:
    """What runs kernels on tensors of a device."""
    if device.type == "cpu":
        return parse_target("cpu")
    major, minor = torch.cuda.get_device_capability(device)
    return parse_target(f"cuda:sm_{major}{minor}" + ("a" if major >= 9 else ""))
