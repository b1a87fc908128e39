"""The machine this process runs on, as a target."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from pathlib import Path, PurePosixPath

import llvmlite.binding as llvm

from graphfuse.targets import Target
from graphfuse.targets.cpu import cpu_target


@functools.cache
def host_target() -> Target:
    """The host, with every feature it has."""
    triple = llvm.get_process_triple()
    arch = triple.partition("-")[0]
    arch = {"amd64": "x86_64", "arm64": "aarch64"}.get(arch, arch)
    features = str(llvm.get_host_cpu_features().flatten())
    usable = sorted(f for f in features.split(",") if f.startswith("+"))
    if "+amx-tile" in usable and not _may_use_tiles():
        usable = [f for f in usable if not f.startswith("+amx")]
    return cpu_target(arch, llvm.get_host_cpu_name(), ",".join(usable), triple)


SYS_ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XTILEDATA = 158, 0x1023, 18
"""Linux on x86-64 saves the registers of tiles for processes that ask for it (Documentation/arch/x86/xstate.rst)."""


def _may_use_tiles() -> bool:
    """Ask that this process and its threads may use AMX."""
    if not sys.platform.startswith("linux"):
        return False
    syscall = ctypes.CDLL(None).syscall
    syscall.argtypes, syscall.restype = (ctypes.c_long,) * 3, ctypes.c_long
    return syscall(SYS_ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0


def parse_target(text: str) -> Target:
    """As `Target.parse`, and `cpu` is the host."""
    return host_target() if text == "cpu" else Target.parse(text)


def available_cores() -> int:
    """How many cores this process may use, by its affinity and by the quota of its container."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, cgroup_cores(Path("/")) or cores)


@functools.cache
def cgroup_cores(root: Path) -> int | None:
    """The least quota among this process's cgroups (of either version) and those around them; a part is a core.

    None where there is no quota. A container may see its own group as the root, whatever path it is told of.
    """
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    quotas: list[int | None] = []
    for line in groups:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
        inside = PurePosixPath(path.lstrip("/"))
        files = ("cpu.cfs_quota_us", "cpu.cfs_period_us") if controllers else ("cpu.max",)
        quotas += [_quota(top / p, files) for p in (inside, *inside.parents)]
    return min((q for q in quotas if q), default=None)


def _quota(group: Path, files: tuple[str, ...]) -> int | None:
    """Cores of one cgroup: microseconds of processor time in a period of so many, or `max` (`-1`) for all."""
    try:
        quota, period = " ".join((group / f).read_text() for f in files).split()
        return -(-int(quota) // int(period)) if int(quota) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None
