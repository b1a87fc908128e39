"""What code is made for, as users and artifacts name it: a processor, or a GPU. Loads nothing that makes code."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from graphfuse.errors import TargetError, meant


@dataclass(frozen=True, slots=True)
class Instructions:
    """What generic lowering to LLVM IR asks of the instructions that there are."""

    halves: bool = True
    """Conversions between f16 and f32."""
    bfloats: bool = False
    """Conversions between bf16 and f32, rounded to nearest."""
    halves_of_integers: bool = False
    """Conversions from integers to f16, rounded once."""
    extremes: bool = True
    """Maximum and minimum that propagate NaN."""
    fma: bool = True
    long_integers: bool = True
    """Arithmetic on i64 by one instruction; else it is made of several, divisions are calls, and i32 is much faster."""
    whole_counts: bool = True
    """Shifts look at the whole of their count; else it is cut to 32 bits."""
    most_programs: int | None = None
    """Of one launch."""


class Family(Protocol):
    """Targets of one kind: what is known of them before anything that makes code is loaded."""

    is_gpu: bool
    backend: str
    """The module whose `Backend` makes code."""
    drivers: Mapping[str, str]
    """By the kinds of devices that code is launched on, modules whose `open_driver(arch)` gives a `driver.Driver`."""

    def parse(self, name: str) -> Target:
        """The target of that name. Raises TargetError."""
        ...

    def names(self) -> Collection[str]:
        """All there are, for suggestions."""
        ...

    def instructions(self, target: Target) -> Instructions:
        """What there is."""
        ...

    def tools(self) -> str:
        """What else decides which code is made, such as an assembler and its version: part of a cache's keys."""
        ...


FAMILIES: dict[str, Family] = {}
"""By kind. A module that defines one adds it here, and `graphfuse.targets` imports the module."""


@dataclass(frozen=True, slots=True)
class Target:
    """One processor to compile for. `features` is LLVM's list (`+avx2,+fma`), of those code may use."""

    kind: str
    arch: str
    cpu: str
    features: str
    vector_bytes: int
    registers: int
    """Of vectors."""
    triple: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.cpu}"

    @staticmethod
    def parse(text: str) -> Target:
        """Read `cpu:<name>` or `cuda:<arch>`; plain `cpu`, the host, is for `graphfuse.llvm.host.host_target`."""
        kind, _, name = text.partition(":")
        if kind not in FAMILIES:
            raise TargetError(f"unknown target {text!r}: expected cpu, cpu:<name> or cuda:<arch>{suggestion(text)}")
        return FAMILIES[kind].parse(name)

    @property
    def family(self) -> Family:
        """The targets of its kind."""
        return FAMILIES[self.kind]

    @property
    def is_gpu(self) -> bool:
        """Whether what runs is launched, on memory of its own."""
        return self.family.is_gpu

    @property
    def instructions(self) -> Instructions:
        """What generic lowering asks."""
        return self.family.instructions(self)

    @property
    def feature_set(self) -> frozenset[str]:
        """The names of the features that code may use."""
        return feature_names(self.features)

    def has(self, feature: str) -> bool:
        """Whether code may use `feature`."""
        return feature in self.feature_set


@functools.cache
def feature_names(features: str) -> frozenset[str]:
    """Those of LLVM's list that are there."""
    return frozenset(f[1:] for f in features.split(",") if f.startswith("+"))


def suggestion(text: str) -> str:
    """What may have been meant."""
    known = [name for kind, family in FAMILIES.items() for n in family.names() for name in (n, f"{kind}:{n}")]
    return meant(text, known)
