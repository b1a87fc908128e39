"""The executable of a part's function: that of an equal part, from the cache, else compiled and put there."""

from __future__ import annotations

import logging
from dataclasses import replace
from weakref import WeakValueDictionary

import torch

from graphfuse.artifact import Executable
from graphfuse.devices import compiled_key, targets_of
from graphfuse.ir.core import Func
from graphfuse.ir.printer import to_text
from graphfuse.knobs import Options, Tuning, are_passes_watched
from graphfuse.llvm.host import parse_target
from graphfuse.runtime.cache import default_cache
from graphfuse.runtime.device import Device
from graphfuse.runtime.report import code_warnings
from graphfuse.targets import Target
from graphfuse.value_checks import ATTR, checks_of

log = logging.getLogger(__name__)


_in_use: WeakValueDictionary[str, Executable] = WeakValueDictionary()
"""Executables of parts that are there, by key: layers of a model are the same part over and over."""


def build_part(func: Func, device: torch.device, options: Options) -> Executable:
    """Compile for the machine or GPU that tensors on `device` are on. What equal functions share has one's names."""
    target = target_of(device)
    key = compiled_key({"part": _text(func), "options": repr(options)}, target)
    made = None if are_passes_watched() else _in_use.get(key)
    if made is None:
        made = _in_use[key] = _built(func, target, options, key)
    checks = checks_of(func.attrs.get(ATTR, ()))
    return made if made.checks == checks or not made.checks else replace(made, checks=checks)


def _built(func: Func, target: Target, options: Options, key: str) -> Executable:
    def make() -> Executable:
        # they take long to import, and are only needed where the cache has nothing
        if options.tuning is None:
            from graphfuse import compiler

            return compiler.build(func, target, options)
        from graphfuse import tuner

        return tuner.build(func, target, options)

    cache = default_cache()
    made = make() if cache is None else cache.get_or_make(key, make)
    for warning in code_warnings(made):
        log.warning("%s", warning)
    return made


def _text(func: Func) -> str:
    """All that the function computes; no names of nodes, which differ between equal layers."""
    unnamed = {k: v for k, v in func.attrs.items() if k not in ("inputs", "outputs", ATTR)}
    checked = [(c.what, c.low, c.high) for c in checks_of(func.attrs.get(ATTR, ()))]
    return f"{to_text(replace(func, attrs=unnamed), hints=False)}{checked}"


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
