"""What a `graph.cumulate` says of its lines: their parts, the order of the scan, what a part begins with."""

from __future__ import annotations

from dataclasses import dataclass

from graphfuse.blockgen.evaluate import Evaluator
from graphfuse.blockgen.index import Index
from graphfuse.blockgen.movement import Source, shape_of
from graphfuse.dialects import block, graph
from graphfuse.dialects.elementwise import COMBINE, neutral
from graphfuse.ir.core import Op, OpDef, Value, attr_int, tensor_of
from graphfuse.ir.types import Scalar
from graphfuse.symbolic import Dim, ceildiv, minimum


@dataclass(frozen=True, slots=True)
class Scan:
    """One op. Places count in the order of the scan; `at` is an index of the dims beside the axis."""

    op: Op
    kind: str
    axis: int
    exclusive: bool
    reverse: bool
    size: Dim
    part: Dim
    """Elements of a part: the line's, if it has one part only."""

    @staticmethod
    def of(op: Op) -> Scan:
        """Read from its attributes."""
        axis, kind = attr_int(op, "axis"), str(op.attrs["kind"])
        exclusive, reverse = bool(op.attrs.get("exclusive", False)), bool(op.attrs.get("reverse", False))
        size = shape_of(op.result)[axis]
        return Scan(op, kind, axis, exclusive, reverse, size, attr_int(op, "part") if op.attrs.get("part") else size)

    @property
    def elem(self) -> Scalar:
        """That it is carried in."""
        return graph.running(self.kind, tensor_of(self.op.result).elem)

    @property
    def combine(self) -> OpDef:
        """What it does with two elements."""
        return block.ELEMENTWISE[COMBINE[self.kind]]

    @property
    def outer(self) -> list[Dim]:
        """The dims beside the axis."""
        shape = shape_of(self.op.result)
        return [*shape[: self.axis], *shape[self.axis + 1 :]]

    @property
    def parts(self) -> Dim:
        """Of a line."""
        return 1 if self.part == self.size else ceildiv(self.size, self.part)

    def places(self, part: Dim) -> tuple[Dim, Dim]:
        """The first place of a part, and the one after its last."""
        return (0, self.size) if self.parts == 1 else (part * self.part, minimum(self.size, (part + 1) * self.part))

    def index(self, at: Index, place: Dim) -> Index:
        """Of the element at a place."""
        return (*at[: self.axis], self.size - 1 - place if self.reverse else place, *at[self.axis :])

    def start(self, ev: Evaluator, at: Index, part: Dim) -> Value:
        """What a part begins with, if that is in memory."""
        nothing = neutral(self.kind, self.elem)
        if self.parts == 1:
            return ev.const(nothing, self.elem)
        before, i = self.op.operands[1], part - 1
        source = Source(before, (*at[: self.axis], i, *at[self.axis :]), ((0, i, shape_of(before)[self.axis]),))
        return ev.cast(ev.guarded(source, tensor_of(before).elem, nothing, None), self.elem)
