"""What a kernel is compiled for: a processor, or a GPU. Knows nothing of LLVM."""

from __future__ import annotations

import difflib
import functools
import os
import platform
from dataclasses import dataclass

from graphfuse.errors import TargetError

_X86 = "x86_64"
_ARM = "aarch64"
_V2 = "+cx16,+popcnt,+sahf,+sse,+sse2,+sse3,+ssse3,+sse4.1,+sse4.2"
_V3 = f"{_V2},+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe"
_V4 = f"{_V3},+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"
_ICELAKE = f"{_V4},+avx512ifma,+avx512vbmi,+avx512vbmi2,+avx512vnni,+avx512bitalg,+avx512vpopcntdq"
_NEON = "+neon,+fp-armv8"

CPUS: dict[str, tuple[str, str]] = {
    "x86-64": (_X86, "+sse,+sse2"),
    "x86-64-v2": (_X86, _V2),
    "x86-64-v3": (_X86, _V3),
    "x86-64-v4": (_X86, _V4),
    "haswell": (_X86, _V3),
    "skylake": (_X86, _V3),
    "skylake-avx512": (_X86, _V4),
    "cascadelake": (_X86, f"{_V4},+avx512vnni"),
    "icelake-server": (_X86, _ICELAKE),
    "sapphirerapids": (_X86, f"{_ICELAKE},+avx512bf16,+avx512fp16"),
    "znver2": (_X86, _V3),
    "znver3": (_X86, _V3),
    "znver4": (_X86, f"{_ICELAKE},+avx512bf16"),
    "znver5": (_X86, f"{_ICELAKE},+avx512bf16"),
    "aarch64": (_ARM, _NEON),
    "cortex-a72": (_ARM, _NEON),
    "neoverse-n1": (_ARM, f"{_NEON},+fullfp16,+dotprod,+lse"),
    "neoverse-v1": (_ARM, f"{_NEON},+fullfp16,+dotprod,+lse,+bf16"),
    "neoverse-n2": (_ARM, f"{_NEON},+fullfp16,+dotprod,+lse,+bf16"),
    "neoverse-v2": (_ARM, f"{_NEON},+fullfp16,+dotprod,+lse,+bf16"),
    "apple-m1": (_ARM, f"{_NEON},+fullfp16,+dotprod,+lse"),
}
"""Named processors: architecture and the features that code for it may use."""

GENERIC = "aarch64" if platform.machine().lower() in ("aarch64", "arm64") else "x86-64"
"""What `cpu:generic` means: the least that a processor of this machine's architecture has."""

GPUS: dict[str, str] = {
    "sm_80": "ptx70",
    "sm_86": "ptx71",
    "sm_89": "ptx78",
    "sm_90": "ptx78",
    "sm_90a": "ptx80",
    "sm_100a": "ptx86",
    "sm_120a": "ptx87",
}
"""NVIDIA architectures, and the first PTX version that has each. An `a` means: this architecture and no other."""


GPU_SIZES: dict[str, tuple[int, int]] = {
    "sm_80": (108, 163 << 10),
    "sm_86": (84, 99 << 10),
    "sm_89": (142, 99 << 10),
    "sm_90": (132, 227 << 10),
    "sm_90a": (132, 227 << 10),
    "sm_100a": (148, 227 << 10),
    "sm_120a": (170, 99 << 10),
}
"""Multiprocessors of a large part of each architecture, and the bytes of shared memory a block of it may have."""


@dataclass(frozen=True, slots=True)
class GpuInfo:
    """A GPU there is: name, compute capability, bytes of memory, the most shared memory a block may have, size."""

    name: str
    major: int
    minor: int
    memory_bytes: int
    shared_bytes: int
    multiprocessors: int

    @property
    def arch(self) -> str:
        """Such as `sm_90`."""
        return f"sm_{self.major}{self.minor}"

    @property
    def number(self) -> int:
        """Such as 90."""
        return 10 * self.major + self.minor

    @property
    def best_target(self) -> str:
        """The architecture to compile for: its own, else the newest before it."""
        if f"{self.arch}a" in GPUS:
            return f"{self.arch}a"
        known = [a for a in GPUS if a[3:].isdigit() and int(a[3:]) <= self.number]
        return max(known, key=lambda a: int(a[3:]), default="sm_80")

    def why_not(self, arch: str) -> str | None:
        """Why code for `arch` does not run on it; None if it does."""
        digits = arch.removeprefix("sm_")
        number = digits.rstrip("af")
        if not number.isdigit():
            return f"{arch!r} is no architecture"
        if digits.endswith("a") and int(number) != self.number:
            return f"expected {arch}, found {self.arch} ({self.name})"
        if int(number) > self.number:
            return f"expected {arch} or newer, found {self.arch} ({self.name})"
        return None


@dataclass(frozen=True, slots=True)
class Target:
    """One processor to compile for. `features` is LLVM's list (`+avx2,+fma`), of those code may use."""

    kind: str
    arch: str
    cpu: str
    features: str
    vector_bytes: int
    triple: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.cpu}"

    @staticmethod
    def parse(text: str) -> Target:
        """Read `cpu:<name>` or `cuda:<arch>`; plain `cpu`, the host, is for `graphfuse.llvm.host.host_target`."""
        kind, _, cpu = text.partition(":")
        if kind == "cuda":
            return gpu_target(cpu)
        if kind != "cpu":
            raise TargetError(f"unknown target {text!r}: expected cpu, cpu:<name> or cuda:<arch>{_suggest(text)}")
        if not cpu:
            raise TargetError("target 'cpu' means the host: ask graphfuse.llvm.host.host_target()")
        if cpu == "generic":
            cpu = GENERIC
        if cpu not in CPUS:
            raise TargetError(f"unknown processor {cpu!r}{_suggest(cpu) or ': one of generic, ' + ', '.join(CPUS)}")
        arch, features = CPUS[cpu]
        return cpu_target(arch, cpu, features)

    @property
    def feature_set(self) -> frozenset[str]:
        """The names of the features that code may use."""
        return _feature_names(self.features)

    @property
    def registers(self) -> int:
        """How many vector registers there are."""
        return 32 if self.vector_bytes == 64 or self.arch == _ARM else 16

    def has(self, feature: str) -> bool:
        """Whether code may use `feature`."""
        return feature in self.feature_set

    def why_not_on(self, host: Target) -> str | None:
        """Why code for this target does not run on `host`; None if it does."""
        if self.kind != host.kind or self.arch != host.arch:
            return f"it is for {self.kind} {self.arch}, the host is {host.kind} {host.arch}"
        missing = sorted(self.feature_set - host.feature_set)
        return f"the host lacks {', '.join(missing)}" if missing else None

    def can_run_on(self, host: Target) -> bool:
        """Whether code for this target runs on `host`."""
        return self.why_not_on(host) is None


@functools.cache
def _feature_names(features: str) -> frozenset[str]:
    return frozenset(f[1:] for f in features.split(",") if f.startswith("+"))


def cpu_target(arch: str, cpu: str, features: str, triple: str = "") -> Target:
    """A cpu target whose vector width follows from its features."""
    names = _feature_names(features)
    width = 16
    if arch == _X86:
        width = 64 if {"avx512f", "avx512vl", "avx512bw", "avx512dq"} <= names else 32 if "avx2" in names else 16
    return Target("cpu", arch, cpu, features, width, triple or f"{arch}-unknown-linux-gnu")


def gpu_target(arch: str) -> Target:
    """An NVIDIA GPU such as `sm_90a`."""
    if arch not in GPUS:
        close = difflib.get_close_matches(arch, GPUS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else f": one of {', '.join(GPUS)}"
        raise TargetError(f"unknown GPU architecture {arch!r}{hint}")
    return Target("cuda", "nvptx64", arch, f"+{GPUS[arch]}", 16, "nvptx64-nvidia-cuda")


def _suggest(text: str) -> str:
    close = difflib.get_close_matches(text, [*CPUS, *(f"cpu:{c}" for c in CPUS)], n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


@functools.cache
def physical_bytes() -> int:
    """How much memory this machine has; a kernel that overcommits hands out more, and then kills."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 1 << 62
