"""The machine this process runs on, as a target."""

from __future__ import annotations

import functools
import os

import llvmlite.binding as llvm

from graphfuse.target import Target, cpu_target


@functools.cache
def host_target() -> Target:
    """The host, with every feature it has."""
    triple = llvm.get_process_triple()
    arch = triple.partition("-")[0]
    arch = {"amd64": "x86_64", "arm64": "aarch64"}.get(arch, arch)
    features = str(llvm.get_host_cpu_features().flatten())
    usable = sorted(f for f in features.split(",") if f.startswith("+"))
    return cpu_target(arch, llvm.get_host_cpu_name(), ",".join(usable), triple)


def parse_target(text: str) -> Target:
    """As `Target.parse`, and `cpu` is the host."""
    return host_target() if text == "cpu" else Target.parse(text)


def available_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
