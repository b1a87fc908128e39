"""The executable of a part's function: from the cache, else compiled and put there."""

from __future__ import annotations

import torch

from graphfuse import compiler
from graphfuse.artifact import Executable
from graphfuse.ir.core import Func
from graphfuse.knobs import Options
from graphfuse.llvm.host import parse_target
from graphfuse.target import Target


def build_part(func: Func, device: torch.device, options: Options) -> Executable:
    """Compile for the machine or GPU that tensors on `device` are on."""
    return compiler.build(func, target_of(device), options)


def target_of(device: torch.device) -> Target:
    """What runs kernels on tensors of a device."""
    if device.type == "cpu":
        return parse_target("cpu")
    major, minor = torch.cuda.get_device_capability(device)
    return parse_target(f"cuda:sm_{major}{minor}" + ("a" if major >= 9 else ""))
