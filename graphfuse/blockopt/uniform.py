"""What of a tile is one number: the same in every element."""

from __future__ import annotations

from graphfuse.dialects import block
from graphfuse.ir.core import Builder, Trait, Value
from graphfuse.ir.types import Tile

MOVES = (block.broadcast, block.reshape, block.trans)


def is_uniform(value: Value) -> bool:
    """Whether every element of a tile is one number, as far as its ops show."""
    op = value.op
    if not isinstance(value.type, Tile):
        return True
    if op is None:
        return False
    if op.kind in (block.splat, block.const):
        return True
    if op.kind in MOVES or op.has(Trait.ELEMENTWISE):
        return all(is_uniform(v) for v in op.operands)
    return False


def number_of(value: Value, builder: Builder) -> Value:
    """The number that a uniform tile consists of."""
    op = value.op
    if not isinstance(value.type, Tile):
        return value
    assert op is not None, "uniform"
    if op.kind is block.const:
        return builder(block.const, value=op.attrs["value"], elem=value.type.elem)
    if op.kind is block.splat:
        return op.operands[0]
    if op.kind in MOVES:
        return number_of(op.operands[0], builder)
    return builder.append(op.kind.build([number_of(v, builder) for v in op.operands], op.attrs, loc=op.loc)).result
