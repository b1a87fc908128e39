"""The gpu dialect: what a block program does once its tiles have layouts."""

from __future__ import annotations

from graphfuse.errors import VerifyError
from graphfuse.ir.core import Trait, opdef
from graphfuse.ir.layout import LinearLayout
from graphfuse.ir.types import Tile, Type


@opdef("gpu.convert_layout", Trait.PURE)
def convert_layout(x: Type, *, layout: LinearLayout) -> Type:
    """The same tile held by other threads."""
    if not isinstance(x, Tile) or x.layout is None:
        raise VerifyError(f"operand must be a tile with a layout, got {x}")
    if layout.shape != x.padded_shape:
        raise VerifyError(f"the layout is for the shape {list(layout.shape)}, the tile is {list(x.shape)}")
    return Tile(x.shape, x.elem, layout)
