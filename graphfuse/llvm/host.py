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


@functools.cache
def physical_bytes() -> int:
    """How much memory this machine has; a kernel that overcommits hands out more, and then kills."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 1 << 62


def available_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
