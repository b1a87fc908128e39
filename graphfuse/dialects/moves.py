"""The block dialect's ops that move, order or count the elements of a tile along an axis."""

from __future__ import annotations

from graphfuse.dialects.block import elem_of
from graphfuse.dialects.operands import axis_of
from graphfuse.errors import VerifyError
from graphfuse.ir.core import Trait, opdef
from graphfuse.ir.layout import LinearLayout
from graphfuse.ir.types import I32, I64, Tile, Type


def _tile(t: Type) -> Tile:
    if not isinstance(t, Tile):
        raise VerifyError(f"operand must be a tile, got {t}")
    return t


def with_dim(t: Tile, axis: int, size: int) -> Tile:
    """The type of a tile with another dim."""
    axis_of(axis, len(t.shape))
    return Tile((*t.shape[:axis], size, *t.shape[axis + 1 :]), t.elem)


@opdef("block.take", Trait.PURE)
def take(x: Type, *, axis: int, start: int, count: int, step: int = 1) -> Type:
    """Elements start, start + step, ... along `axis`, `count` of them."""
    t = _tile(x)
    out = with_dim(t, axis, count)
    n, last = t.shape[axis], start + (count - 1) * step
    if count < 1 or not step or not 0 <= start < n or not 0 <= last < n:
        raise VerifyError(f"expected elements in 0..{n - 1}, got {count} from {start} by {step}")
    return out


@opdef("block.cat", Trait.PURE)
def cat(a: Type, b: Type, *, axis: int) -> Type:
    """The elements of `a` along `axis`, then those of `b`."""
    ta, tb = _tile(a), _tile(b)
    if len(ta.shape) != len(tb.shape) or with_dim(ta, axis, 1) != with_dim(tb, axis, 1):
        raise VerifyError(f"operands must be equal but for axis {axis}, got {a} and {b}")
    return with_dim(ta, axis, ta.shape[axis] + tb.shape[axis])


@opdef("block.gather", Trait.PURE)
def gather(x: Type, index: Type, *, axis: int) -> Type:
    """Elements by their places along `axis`: [i, j] is x[index[i, j], j] for axis 0; 0 where there is no such place."""
    t, places = _tile(x), _tile(index)
    if not places.elem.is_integer:
        raise VerifyError(f"places must be integers, got {index}")
    if len(t.shape) != len(places.shape) or with_dim(t, axis, 1).shape != with_dim(places, axis, 1).shape:
        raise VerifyError(f"shapes must be equal but for axis {axis}, got {x} and {index}")
    return with_dim(t, axis, places.shape[axis])


@opdef("block.histogram", Trait.PURE)
def histogram(x: Type, *, bins: int) -> Type:
    """How many elements are 0, 1, ... bins - 1; others are not counted."""
    if not elem_of(_tile(x)).is_integer or bins < 1:
        raise VerifyError(f"expected integers and a positive number of bins, got {x} and {bins}")
    return Tile((bins,), I32)


@opdef("block.sort", Trait.PURE)
def sort(
    *keys: Type, axis: int, count: int, falling: bool = False, layout: LinearLayout | None = None
) -> tuple[Type, ...]:
    """The `count` least along `axis` in order, `falling` the largest of them first.

    Keys are signed integers, of which later ones decide where those before are equal.
    """
    tiles = [t for t in keys if isinstance(t, Tile) and t.elem in (I32, I64)]
    if not tiles or len(tiles) < len(keys) or len({t.shape for t in tiles}) > 1:
        raise VerifyError(f"operands must be tiles of i32 or i64 of one shape, got {', '.join(map(str, keys))}")
    shape = tiles[0].shape
    axis_of(axis, len(shape))
    if not 0 < count <= shape[axis]:
        raise VerifyError(f"count must be 1 to {shape[axis]}, got {count}")
    if falling and (count & count - 1 or shape[axis] & shape[axis] - 1):
        raise VerifyError(f"falling, sizes must be powers of two, got {count} of {shape[axis]}")
    return tuple(Tile((*shape[:axis], count, *shape[axis + 1 :]), t.elem, layout) for t in tiles)
