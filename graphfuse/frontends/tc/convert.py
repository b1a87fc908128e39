"""Conversions of typed expressions: elements, shapes, both; constants are converted at once."""

from __future__ import annotations

import math
import struct

from graphfuse.dialects.block import apart
from graphfuse.frontends.tc import typed as t
from graphfuse.frontends.tc.constants import wrap
from graphfuse.frontends.tc.types import (
    BF16,
    BOOL,
    FLOAT,
    Arith,
    ConversionError,
    Element,
    Pointer,
    Tile,
    Type,
    Void,
    broadcasts_to,
    elem_of,
    elements,
    shape_of,
    with_shape,
)


def to_elem(x: t.Expr, elem: Element | Void) -> t.Expr:
    """Convert the elements as C does; the shape stays."""
    old = x.elem
    if old == elem and not (isinstance(x, t.Const) and x.weak):
        return x
    if isinstance(elem, Void) or isinstance(old, Void):
        raise ConversionError(f"expected a value of type {elem}, found {x.type}")
    if isinstance(elem, Pointer):
        return _to_pointer(x, old, elem)
    if isinstance(old, Pointer):
        raise ConversionError(f"expected {elem}, found a pointer: {x.type}")
    if isinstance(x, t.Const):
        return t.Const(x.at, elem, const_as(x.value, elem))
    if isinstance(x, t.Splat):
        return t.Splat(x.at, with_shape(elem, x.shape), to_elem(x.x, elem))
    if elem == BOOL:
        zero = fill(t.Const(x.at, old, 0), x.shape)
        return t.Binary(x.at, with_shape(BOOL, x.shape), "!=", x, zero)
    return t.Convert(x.at, with_shape(elem, x.shape), x)


def _to_pointer(x: t.Expr, old: Element, elem: Pointer) -> t.Expr:
    if not isinstance(old, Pointer):
        raise ConversionError(f"expected a pointer ({elem}), found {x.type}")
    if old.plain == elem.plain:
        # the constant bank and `const` are about what may be done, not about the address
        if _drops_const(old, elem):
            raise ConversionError(f"expected {elem}, found {x.type}: the conversion drops 'const'")
        return x
    if Void() in (old.to, elem.to):
        return t.PointerCast(x.at, with_shape(elem, x.shape), x)
    raise ConversionError(f"expected {elem}, found {x.type}: write the conversion as a cast")


def _drops_const(old: Pointer, new: Pointer) -> bool:
    """Whether more may be stored through, at any level. Tables are never stored to: their pointers may gain `const`."""
    if old.const and not new.const:
        return True
    return isinstance(old.to, Pointer) and isinstance(new.to, Pointer) and _drops_const(old.to, new.to)


def cast_elem(x: t.Expr, elem: Element | Void) -> t.Expr:
    """As `to_elem`, with the conversions that must be asked for: between pointers."""
    old = x.elem
    if isinstance(old, Pointer) and isinstance(elem, Pointer):
        if old == elem:
            return x
        return t.PointerCast(x.at, with_shape(elem, x.shape), x)
    return to_elem(x, elem)


def const_as(value: float, elem: Arith) -> int | float:
    """A number as an element holds it, but for the rounding of floats."""
    match elem.kind:
        case "bool":
            return int(value != 0)
        case "float":
            return float(value)
        case _ if isinstance(value, float):
            return wrap(int(value), elem.bits, signed=elem.signed) if math.isfinite(value) else 0
        case _:
            return wrap(int(value), elem.bits, signed=elem.signed)


def fill(x: t.Expr, shape: tuple[int, ...]) -> t.Expr:
    """A scalar as a tile."""
    return t.Splat(x.at, with_shape(_element(x), shape), x) if shape else x


def broadcast(x: t.Expr, shape: tuple[int, ...]) -> t.Expr:
    """Repeat `x`, whose shape fits, to a shape."""
    old = x.shape
    if old == shape:
        return x
    if not old:
        return fill(x, shape)
    if len(old) < len(shape):
        old = (1,) * (len(shape) - len(old)) + old
        x = reshape(x, old)
    return x if old == shape else t.Broadcast(x.at, Tile(shape, _element(x)), x)


def reshape(x: t.Expr, shape: tuple[int, ...]) -> t.Expr:
    """The same elements under another shape; a tile of a scalar is a splat."""
    if isinstance(x, t.Splat):
        return fill(x.x, shape)
    return x if x.shape == shape else t.Reshape(x.at, with_shape(_element(x), shape), x)


def to_shape(x: t.Expr, shape: tuple[int, ...]) -> t.Expr:
    """The shape of a tile's initialiser, assignment or cast: broadcast, or reshape where the elements are as many."""
    old = x.shape
    if old == shape:
        return x
    if not shape:
        if elements(old) == 1:
            return reshape(x, ())
        raise ConversionError(f"a tile of more than one element has no scalar value: found {x.type}")
    if not old:
        return fill(x, shape)
    if broadcasts_to(old, shape):
        return broadcast(x, shape)
    if elements(old) == elements(shape):
        return _reordered(x, old, shape)
    raise ConversionError(f"expected the shape {list(shape)}, or as many elements, found {list(old)}")


def _reordered(x: t.Expr, old: tuple[int, ...], shape: tuple[int, ...]) -> t.Expr:
    """A reshape that is more than dims of 1: layouts are linear over powers of two only."""
    if apart(old) != apart(shape):
        for side in (old, shape):
            if any(d & (d - 1) for d in side):
                raise ConversionError(f"a reshape: expected dims that are powers of two, found {list(side)}")
    return reshape(x, shape)


def converted(x: t.Expr, to: Type) -> t.Expr:
    """What an initialiser, an assignment or an argument of type `to` makes of `x`."""
    if x.type == to and not (isinstance(x, t.Const) and x.weak):
        return x
    small_first = elements(x.shape) <= elements(shape_of(to))
    if small_first:
        return to_shape(to_elem(x, elem_of(to)), shape_of(to))
    return to_elem(to_shape(x, shape_of(to)), elem_of(to))


def cast(x: t.Expr, to: Type) -> t.Expr:
    """`(to) x`; a scalar type converts each element of a tile."""
    shape = shape_of(to) or x.shape
    if not shape_of(to) and isinstance(x.elem, Pointer) != isinstance(elem_of(to), Pointer):
        raise ConversionError(f"cannot cast {x.type} to {to}")
    return to_shape(cast_elem(x, elem_of(to)), shape)


def bitcast_const(x: t.Const, to: Arith) -> t.Const | None:
    """The bits of a constant as another type, where Python knows both formats."""
    source = x.type
    assert isinstance(source, Arith)
    old, new = _FORMATS.get(source.elem.name), _FORMATS.get("f32" if to == BF16 else to.elem.name)
    if old is None or new is None or (source == FLOAT and x.weak):
        return None
    try:
        data = struct.pack(f"<{old}", x.value)
    except (OverflowError, struct.error):
        return None
    # bf16 is the upper half of a float
    return t.Const(x.at, to, struct.unpack(f"<{new}", b"\0\0" + data if to == BF16 else data)[0])


_FORMATS = {
    "i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q",
    "f16": "e", "f32": "f", "f64": "d",
}  # fmt: skip
"""As Python's `struct` calls them."""


def _element(x: t.Expr) -> Element:
    elem = x.elem
    assert not isinstance(elem, Void)
    return elem
