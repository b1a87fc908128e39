"""What makes code for a target: the protocol, and how it is found."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

from graphfuse.artifact import Plan
from graphfuse.fusion.regions.few_rows import Version
from graphfuse.fusion.regions.partition import Decision
from graphfuse.fusion.regions.rules import Rules
from graphfuse.ir.core import Func, Op
from graphfuse.ir.passes import Pass
from graphfuse.knobs import Numerics, Options
from graphfuse.symbolic import Dim
from graphfuse.targets.generated import Generated
from graphfuse.targets.machine import Machine
from graphfuse.targets.sharing import Sharing
from graphfuse.targets.target import Target

Ranges = Mapping[str, tuple[int, int]]
"""Of symbols, by name: inclusive bounds."""


class Lower(Protocol):
    """Makes a kernel again."""

    def __call__(self, name: str, machine: Machine, schedule: str = "") -> Func:
        """The block function."""
        ...


@dataclass
class Stages:
    """Every intermediate form of one compilation, for `--emit`, `verify` and the artifact."""

    graph: Func
    regions: Func
    ledger: list[Decision]
    kernels: dict[str, Func]
    """Block functions by kernel name."""
    region_ops: dict[str, Op]
    """One region per kernel name."""
    lower: Lower
    """The block function of a kernel for another machine, or by another of its schedules."""
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    shared: Sharing | None = None
    """With kernels of other parts of the program."""
    versions: Mapping[str, Sequence[tuple[str, Dim]]] = field(default_factory=dict[str, "Sequence[tuple[str, Dim]]"])
    """Of a kernel, those that are run for some shapes instead of it, with a dim that is 1 for these, else 0."""


class Backend(Protocol):
    """Makes code for one target."""

    target: Target
    level: str
    """The name of the passes over block functions that are the target's own: `cpu` or `gpu`."""
    checks_values: bool
    """Whether checks of indices are compiled in: their result is at hand when the call ends."""
    region_passes: tuple[Pass, ...]
    """What runs on regions before others do."""
    launch_passes: tuple[Pass, ...]
    """What runs on regions last, once their schedules have been chosen."""
    code_stages: Sequence[str]
    """Texts that `code_text` gives."""

    @property
    def machine(self) -> Machine:
        """What schedules need to know."""
        ...

    @property
    def note(self) -> str:
        """What is not as good on this target as it may be, for the ledger."""
        ...

    def graph_passes(self, options: Options) -> tuple[Pass, ...]:
        """What runs between import and partitioning."""
        ...

    def rules(self, ranges: Ranges, loops: Ranges) -> Rules:
        """How graphs are cut into kernels; `loops` are the ranges with those of loops' own symbols."""
        ...

    def lower_region(self, region: Op, name: str, ranges: Ranges, machine: Machine) -> Func:
        """The block function that computes a region, on this machine or one like it."""
        ...

    def versions(self, region: Op, ranges: Ranges) -> Sequence[Version]:
        """The same region for shapes that have kernels of their own."""
        ...

    def schedules(self, region: Op, ranges: Ranges) -> tuple[str, ...]:
        """Names of the ways to make a region's kernel, the one taken unasked first; none if there is one only."""
        ...

    def rounded(self, func: Func, numerics: Numerics) -> Func:
        """A block function with the roundings that `numerics` asks for."""
        ...

    def kernel_passes(self, func: Func) -> tuple[Pass, ...]:
        """What runs on a block function before it is lowered."""
        ...

    def begin(self, ops: int) -> None:
        """Get ready, while passes run, for a graph of so many ops."""
        ...

    def code(self, done: Stages, plan: Plan | None = None) -> Generated:
        """Code of all kernels, with what a plan knows of the tensors that they get.

        A kernel of `done` may be replaced by another with the same result; the ledger has the reason.
        """
        ...

    def kernel_code(self, func: Func) -> Generated:
        """Code of a kernel by itself."""
        ...

    def code_text(self, funcs: Sequence[Func], stage: str, *, lowered: bool = False) -> str:
        """One of `code_stages` of block functions; `lowered`: the target's own passes have run."""
        ...


@functools.lru_cache(maxsize=64)
def backend_of(target: Target) -> Backend:
    """What makes code for a target."""
    return cast("Backend", importlib.import_module(target.family.backend).Backend(target))
