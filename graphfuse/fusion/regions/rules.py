"""What a target says of cutting graphs into kernels: one value, which partitioning asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from graphfuse.ir.core import Op
from graphfuse.targets.machine import KernelCosts, Machine


class SavedTogether(Protocol):
    """What products of one operand save as one kernel, in nanoseconds; or why the target makes them one by one.

    `meet` says that elementwise work brings the results together: one kernel for all saves a way through memory.
    """

    def __call__(self, products: Sequence[Op], *, meet: bool) -> float | str:
        """A number above 0, or the first reason."""
        ...


class WhyNotGraft(Protocol):
    """Why no elementwise work may be done inside a called kernel, where it stores a result or loads an operand."""

    def __call__(self, call: Op, index: int, *, before: bool) -> str | None:
        """Of the result of that index, or `before`, the operand; None if it may."""
        ...


def never_together(products: Sequence[Op], *, meet: bool) -> str:
    """For targets that have no schedule for several products."""
    del meet
    return f"no schedule for {len(products)} products"


def always_together(products: Sequence[Op], *, meet: bool) -> float:
    """For a pipeline that knows no target: what it makes is right on all of them."""
    del products, meet
    return 1.0


def never_graft(call: Op, index: int, *, before: bool) -> str:
    """For pipelines that leave calls alone."""
    del index, before
    return f"nothing is known of kernel {call.attrs['name']}"


@dataclass(frozen=True, slots=True)
class Rules:
    """How graphs are cut into kernels for a target. The defaults suit any."""

    fuse: bool = True
    """Else every op that does work is a region of its own."""
    costs: KernelCosts = Machine().kernels
    """By which kernels are weighed."""
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, "tuple[int, int]"])
    """Of the symbols in dims, those of loops with them."""
    reads_padded: bool = False
    """Whether convolutions and windows read through the padding of their input: a GPU loads it masked at no cost.

    Without, windows do where the last dim has none, along which vectors lie.
    """
    most_repeated: int = 0
    """Elementwise work on rows of inputs with at most so many elements is done again by all that read the results."""
    computes_places: bool = False
    """Whether scatters compute indices that they read once: a GPU's threads do, a CPU makes updates one by one."""
    gathers: bool = False
    """Whether kernels shorter than their launch, over one domain, are one whatever they read."""
    joins_at_once: bool = False
    """Whether one kernel joins tensors, asking each position whose it is: a GPU's threads do so while they wait."""
    turns_rows: bool = False
    """Whether reductions write results in another order of their dims: a GPU's threads exchange what they hold."""
    saved_together: SavedTogether = never_together
    why_not_graft: WhyNotGraft = never_graft


ANY = Rules()
"""For whatever target."""
