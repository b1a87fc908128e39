"""Groups: the ops of one kernel to be."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from graphfuse.dialects import graph
from graphfuse.ir.core import Op, dims_of, tensor_of
from graphfuse.symbolic import Dim


@dataclass(eq=False, slots=True)
class Group:
    """Ops of one kernel to be, in order. `domain` is the shape its programs cover; rows begin at dim `split`."""

    index: int
    kind: str
    ops: tuple[Op, ...]
    domain: tuple[Dim, ...]
    split: int = 0
    inside: Collection[Op] = field(init=False)

    def __post_init__(self) -> None:
        self.inside = frozenset(self.ops)

    def with_(self, *ops: Op) -> Group:
        """The group with more ops. Elementwise work that is reduced becomes a reduction."""
        kind, split = self.kind, self.split
        if kind == "pointwise" and (reduces := next((op for op in ops if op.kind is graph.reduce), None)) is not None:
            kind, split = "reduction", row_of(reduces)
        return replace(self, kind=kind, ops=(*self.ops, *ops), split=split)


def domain_of(op: Op) -> tuple[Dim, ...]:
    """What an op runs over: its operand, if it reduces that, else its first result."""
    return tensor_of(op.operands[0] if op.kind is graph.reduce else op.results[0]).shape


def row_of(op: Op) -> int:
    """Where the rows begin that an op reduces."""
    return len(domain_of(op)) - len(dims_of(op.attrs["axes"]))
