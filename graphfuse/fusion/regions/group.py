"""Groups: the ops of one kernel to be."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from graphfuse.dialects import graph
from graphfuse.ir.core import Op, attr_ints, tensor_of
from graphfuse.symbolic import Dim


@dataclass(eq=False, slots=True)
class Group:
    """Ops of one kernel to be, in order. `domain` is the shape its programs cover; rows are along the dims `axes`."""

    index: int
    kind: str
    ops: tuple[Op, ...]
    domain: tuple[Dim, ...]
    axes: tuple[int, ...] = ()
    inside: Collection[Op] = field(init=False)

    def __post_init__(self) -> None:
        self.inside = frozenset(self.ops)

    def with_(self, *ops: Op) -> Group:
        """The group with more ops. Elementwise work that is reduced becomes a reduction."""
        kind, domain, axes = self.kind, self.domain, self.axes
        if kind == "pointwise" and (reduces := next((op for op in ops if op.kind is graph.reduce), None)) is not None:
            kind, domain, axes = "reduction", domain_of(reduces), axes_of(reduces)
        return replace(self, kind=kind, ops=(*self.ops, *ops), domain=domain, axes=axes)

    @property
    def row(self) -> tuple[Dim, ...]:
        """The shape of a row."""
        return tuple(d for i, d in enumerate(self.domain) if i in self.axes)

    @property
    def rows(self) -> tuple[Dim, ...]:
        """The shape with an element for each row."""
        return tuple(d for i, d in enumerate(self.domain) if i not in self.axes)


def domain_of(op: Op) -> tuple[Dim, ...]:
    """What an op runs over: its operand, if it reduces that, else its first result."""
    return tensor_of(op.operands[0] if op.kind is graph.reduce else op.results[0]).shape


def axes_of(op: Op) -> tuple[int, ...]:
    """The dims that a reduction reduces, in order."""
    return tuple(sorted(attr_ints(op, "axes")))
