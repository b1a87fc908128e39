"""Processors as targets: `cpu:znver4`."""

from __future__ import annotations

import platform
from collections.abc import Collection, Mapping

from graphfuse.errors import TargetError
from graphfuse.targets.machine import Machine
from graphfuse.targets.profiles.cpus import ARM, CPUS, X86
from graphfuse.targets.target import FAMILIES, Instructions, Target, feature_names, suggestion

GENERIC = "aarch64" if platform.machine().lower() in ("aarch64", "arm64") else "x86-64"
"""What `cpu:generic` means: the least that a processor of this machine's architecture has."""


def cpu_target(arch: str, cpu: str, features: str, triple: str = "") -> Target:
    """A processor, whose vector width follows from its features."""
    names = feature_names(features)
    width = 16
    if arch == X86:
        width = 64 if {"avx512f", "avx512vl", "avx512bw", "avx512dq"} <= names else 32 if "avx2" in names else 16
    registers = 32 if width == 64 or arch == ARM else 16
    return Target("cpu", arch, cpu, features, width, registers, triple or f"{arch}-unknown-linux-gnu")


def machine_of(target: Target) -> Machine:
    """What schedules need to know of a processor."""
    return Machine(
        vector_bytes=target.vector_bytes,
        registers=target.registers,
        multiplies_pairs=multiplies_pairs(target),
        word_elems=frozenset(e for e in WORD_FEATURES if multiplies_words(target, e)),
        mixes_bytes=target.has("avx512vnni") or target.has("avxvnni"),
    )


WORD_FEATURES = {"bf16": "amx-bf16", "f16": "amx-fp16"}
"""Of Intel's AMX: what multiplies tiles of words, by the name of their elements."""


def multiplies_words(target: Target, elem: str) -> bool:
    """Whether there are instructions for `block.dot_words` of such elements."""
    return target.has("amx-tile") and elem in WORD_FEATURES and target.has(WORD_FEATURES[elem])


def multiplies_pairs(target: Target) -> bool:
    """Whether two products of bf16 and their sum take the time of one of f32.

    On Intel's processors since Sapphire Rapids, which are those with `avx512fp16`, they take longer than two of f32:
    1,713 us where widened factors take 1,202 (`benchmarks.population --device cpu --threads 2 --seed 482731070
    --numbers 48`).
    """
    return target.has("avx512bf16") and not target.has("avx512fp16")


class Cpu:
    """The family."""

    is_gpu = False
    backend = "graphfuse.cpu.backend"
    drivers: Mapping[str, str] = {}

    def parse(self, name: str) -> Target:
        """One that has a name; `generic` is this machine's architecture."""
        if not name:
            raise TargetError("target 'cpu' means the host: ask graphfuse.llvm.host.host_target()")
        name = GENERIC if name == "generic" else name
        if name not in CPUS:
            raise TargetError(f"unknown processor {name!r}{suggestion(name) or ': one of generic, ' + ', '.join(CPUS)}")
        arch, features = CPUS[name]
        return cpu_target(arch, name, features)

    def names(self) -> Collection[str]:
        """Those that have one."""
        return CPUS.keys()

    def instructions(self, target: Target) -> Instructions:
        """What x86 lacks without an extension, or altogether, as maximum and minimum that propagate NaN."""
        if target.arch != X86:
            return Instructions()
        return Instructions(halves=target.has("f16c"), extremes=False, fma=target.has("fma"))

    def tools(self) -> str:
        """LLVM, whose version is graphfuse's."""
        return ""


FAMILIES["cpu"] = Cpu()
