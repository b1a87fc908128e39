"""Tiles made again in layouts that are asked for, where no data may move between threads but to reduce rows.

Starting from a value that is wanted, ops are made anew on values that are known already: what a loop carries, the
scores of a block. Memory is read by the threads that need it. Powers of two are those of a softmax: next to the largest
of a row, which is 1, those below 2^-126 are nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphfuse.dialects import block, gpu
from graphfuse.dialects.softmax import LOG2_E
from graphfuse.gpu.transforms.assign_layouts import project
from graphfuse.gpu.transforms.hopper.epilogue import Clones, Declined
from graphfuse.ir.core import Attr, Op, Trait, Value, attr_int, remade, tile_of
from graphfuse.ir.layout import REGISTER, LinearLayout
from graphfuse.ir.types import F32, Tile

EXP, EXP2 = block.ELEMENTWISE["exp"], block.ELEMENTWISE["exp2"]


class Remake:
    """Values made by `clones`' builder. `rows` is the layout of tiles that are reduced along their rows."""

    def __init__(
        self, clones: Clones, known: Mapping[Value, Value], rows: LinearLayout, *, strict: bool = False
    ) -> None:
        self.clones, self.rows, self.strict = clones, rows, strict
        self._known = dict(known)
        self._made: dict[tuple[Value, LinearLayout], Value] = {}

    def add(self, value: Value, new: Value) -> None:
        """From here on `new` is known for `value`."""
        self._known[value] = new

    def __call__(self, value: Value, layout: LinearLayout) -> Value:
        """A tile in a layout."""
        key = (value, layout)
        if key not in self._made:
            new = self._known[value] if value in self._known else self._make(value, layout)
            if not isinstance(new.type, Tile) or new.type.layout != layout:
                raise Declined(f"a tile of {value.type} would have to change its layout")
            self._made[key] = new
        return self._made[key]

    def read_ahead(self, value: Value, layout: LinearLayout, most: int) -> None:
        """Make the loads of at most so many registers of a thread that making `value` will take."""
        op = value.op
        if value in self._known or (value, layout) in self._made or op is None or op.kind is block.dot:
            return
        if op.kind is block.load_view:
            if layout.distinct_registers().size(REGISTER) <= most:
                self(value, layout)
            return
        for operand in op.operands:
            if isinstance(operand.type, Tile) and (wanted := self._wanted(op, operand, layout)) is not None:
                self.read_ahead(operand, wanted, most)

    def _wanted(self, op: Op, operand: Value, layout: LinearLayout) -> LinearLayout | None:
        """In which layout an op takes an operand, if its result shall have `layout`; None if there is no way."""
        if op.has(Trait.ELEMENTWISE) or op.kind in (block.index, block.load):
            return layout
        if op.kind is block.broadcast:
            return project(layout, tile_of(operand).padded_shape)
        if op.kind is block.reshape:
            return layout.reshape(tile_of(operand).padded_shape)
        reduces = op.kind is block.reduce and attr_int(op, "axis") == 1
        return self.rows if reduces and tile_of(operand).padded_shape == self.rows.shape else None

    def _make(self, value: Value, layout: LinearLayout) -> Value:
        op = value.op
        if op is None:
            raise Declined("a tile comes from outside of the loop")
        if op.kind in (block.const, block.splat, block.load_view, block.arange):
            return self._add(op, [self.clones(v) for v in op.operands], layout=layout)
        if op.kind in (EXP, EXP2) and not self.strict and block.elem_of(value.type) == F32:
            b, x = self.clones.builder, self(op.operands[0], layout)
            if op.kind is EXP:
                x = b(block.mul, x, b(block.const, value=LOG2_E, elem=F32, shape=tile_of(x).shape, layout=layout))
            return b(gpu.short, x, function="exp2")
        operands: list[Value] = []
        for v in op.operands:
            wanted = self._wanted(op, v, layout) if isinstance(v.type, Tile) else None
            if wanted is None and isinstance(v.type, Tile):
                raise Declined(f"{op.kind.name} between the products")
            operands.append(self.clones(v) if wanted is None else self(v, wanted))
        return self._add(op, operands, **({"layout": layout} if op.kind is block.broadcast else {}))

    def _add(self, op: Op, operands: list[Value], **changes: Attr) -> Value:
        return self.clones.builder.append(remade(op, *operands, **changes)).result
