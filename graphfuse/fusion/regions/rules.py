"""What a target says of cutting graphs into kernels: one value, which partitioning asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from graphfuse.ir.core import Op


class WhyApart(Protocol):
    """Why the target had better make products of one operand one by one; None if it has a good schedule for all.

    `meet` says that elementwise work brings the results together: one kernel for all saves a way through memory.
    """

    def __call__(self, products: Sequence[Op], *, meet: bool) -> str | None:
        """The first reason, or None."""
        ...


class WhyNotGraft(Protocol):
    """Why no elementwise work may be done inside a called kernel, where it stores a result or loads an operand."""

    def __call__(self, call: Op, index: int, *, before: bool) -> str | None:
        """Of the result of that index, or `before`, the operand; None if it may."""
        ...


def always_apart(products: Sequence[Op], *, meet: bool) -> str:
    """For targets that have no schedule for several products."""
    del meet
    return f"no schedule for {len(products)} products"


def never_apart(products: Sequence[Op], *, meet: bool) -> None:
    """For a pipeline that knows no target: what it makes is right on all of them."""
    del products, meet


def never_graft(call: Op, index: int, *, before: bool) -> str:
    """For pipelines that leave calls alone."""
    del index, before
    return f"nothing is known of kernel {call.attrs['name']}"


@dataclass(frozen=True, slots=True)
class Rules:
    """How graphs are cut into kernels for a target. The defaults suit any."""

    fuse: bool = True
    """Else every op that does work is a region of its own."""
    reads_padded: bool = False
    """Whether convolutions and windows read through the padding of their input: a GPU loads it masked at no cost."""
    most_repeated: int = 0
    """Elementwise work on rows of inputs with at most so many elements is done again by all that read the results."""
    why_apart: WhyApart = always_apart
    why_not_graft: WhyNotGraft = never_graft


ANY = Rules()
"""For whatever target."""
