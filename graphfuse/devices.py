"""A device as users name it: what to compile for it, by which key to find that again, and what drives it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from graphfuse import usage
from graphfuse.artifact import GPU_PREFIX
from graphfuse.errors import UsageError
from graphfuse.knobs import code_key, settings
from graphfuse.llvm.host import parse_target
from graphfuse.runtime.device import Device
from graphfuse.targets import Target
from graphfuse.targets.target import FAMILIES

if TYPE_CHECKING:
    from graphfuse.targets.driver import Driver

Targets = str | Target | Sequence[str | Target]
EMULATED_ARCH = "sm_90a"
"""What the emulator is when nothing else is asked for."""


PORTABLE = ("cpu:x86-64-v3", "cpu:x86-64-v2", "cpu:x86-64-v4", "cpu:aarch64")
"""What `portable` stands for: three generations of x86-64, and aarch64. The first is what most machines have."""


def targets_of(target: Targets, device: Device) -> list[Target]:
    """What to compile for: as said, else `GRAPHFUSE_TARGET`, else what the device is."""
    if not isinstance(cast("object", target), (str, Target, Sequence)) or isinstance(target, bytes):
        raise usage.wrong("target", "a target or several", target)
    asked = [target] if isinstance(target, (str, Target)) else list(target)
    asked = [t if isinstance(t, Target) else usage.text("target", t) for t in asked if t]
    asked = [each for t in asked for each in (PORTABLE if t == "portable" else (t,))]
    found = [t if isinstance(t, Target) else parse_target(t) for t in asked or [_default_target(device)]]
    if len({str(t) for t in found}) != len(found):
        raise UsageError(f"two targets are the same: {', '.join(map(str, found))}")
    return found


def _default_target(device: Device) -> str:
    if device.kind == "cpu":
        return settings.target or "cpu"
    if settings.target.startswith(GPU_PREFIX):
        return settings.target
    from graphfuse.runtime.gpu.context import context_of

    return GPU_PREFIX + context_of(driver_of(device), device.index).info.best_target


def compiled_key(source: Mapping[str, str], target: Target) -> str:
    """The key in the cache of what is compiled for a target: `source` is what it is made from, and what was chosen."""
    # locks and user folders take 30 ms to import, which loading an artifact need not pay
    from graphfuse.runtime.cache import cache_key

    knobs = repr(sorted(code_key().items()))
    return cache_key({**source, "target": repr(target), "knobs": knobs, "assembler": target.family.tools()})


def begin(device: Device) -> None:
    """Let a GPU's driver do in other threads what takes it long. What is wrong is said by who needs it."""
    if device.is_gpu and (start := getattr(_driver_module(device), "begin", None)) is not None:
        start(device.index)


def driver_of(device: Device, arch: str = EMULATED_ARCH) -> Driver:
    """What drives a GPU, or the emulator in the role of one. A GPU's is one for the process. Raises DeviceError."""
    return _driver_module(device).open_driver(arch)


def _driver_module(device: Device) -> Any:
    (module,) = (f.drivers[device.kind] for f in FAMILIES.values() if device.kind in f.drivers)
    return importlib.import_module(module)
