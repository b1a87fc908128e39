"""Elements as signed integers that order like them, to be sorted.

Any NaN is the largest. Places are low bits of the integers, or a second one, so that equal elements keep their order.
"""

from __future__ import annotations

from typing import Protocol

from graphfuse.dialects import block, moves
from graphfuse.frontends.tc.tokens import Token
from graphfuse.ir.core import Attr, Op, OpDef, Value, tile_of
from graphfuse.ir.types import F32, I32, I64, Scalar

PLACE_BITS = 20
"""Of a place in a tile: the largest has as many elements."""


class Emitter(Protocol):
    """What places ops."""

    def emit_op(self, kind: OpDef, /, *operands: Value, at: Token, **attrs: Attr) -> Op:
        """Place an op."""
        ...


class SortKeys:
    """The elements of a tile as integers, and those as elements again."""

    def __init__(self, emitter: Emitter, x: Value, at: Token, *, descending: bool) -> None:
        self.emitter, self.x, self.at, self.descending = emitter, x, at, descending
        self.elem = tile_of(x).elem
        self.held = F32 if self.elem.is_float and self.elem.bits < 32 else self.elem
        """What floats are compared as."""
        self.key = I64 if self.held.bits > 32 else I32

    def emit(self, kind: OpDef | str, *operands: Value | int, **attrs: Attr) -> Value:
        """Place an op; a number stands for a tile of it."""
        first = next(x for x in operands if isinstance(x, Value))
        values = [x if isinstance(x, Value) else self._like(first, x) for x in operands]
        kind = block.ELEMENTWISE[kind] if isinstance(kind, str) else kind
        return self.emitter.emit_op(kind, *values, at=self.at, **attrs).result

    def of(self, *, equal_zeros: bool) -> Value:
        """The integers; zeros of either sign may be one."""
        key = self._ordered(equal_zeros=equal_zeros)
        return self.emit("not", key) if self.descending else key

    def elements(self, key: Value) -> Value:
        """The elements of integers."""
        key = self.emit("not", key) if self.descending else key
        if self.held.is_float:
            bits = self.emit(block.bitcast, self._turned(key), to=self.held)
            return bits if self.held == self.elem else self.emit(block.cast, bits, to=self.elem)
        if self._is_moved:
            return self.emit(block.bitcast, self.emit("xor", key, self.key.limits[0]), to=self.elem)
        return key if self.elem == self.key else self.emit(block.cast, key, to=self.elem)

    @property
    def _is_moved(self) -> bool:
        """Whether integers without a sign take all bits of a key."""
        return self.elem.bits == self.key.bits and not self.elem.is_signed

    def _ordered(self, *, equal_zeros: bool) -> Value:
        x = self.x
        if not self.held.is_float:
            if self._is_moved:
                return self.emit("xor", self.emit(block.bitcast, x, to=self.key), self.key.limits[0])
            return x if self.elem == self.key else self.emit(block.cast, x, to=self.key)
        x = x if self.held == self.elem else self.emit(block.cast, x, to=self.held)
        number = self.emit("add", x, 0) if equal_zeros else x
        turned = self._turned(self.emit(block.bitcast, number, to=self.key))
        return self.emit(block.select, self.emit("isnan", x), self._like(turned, self.key.limits[1]), turned)

    def _turned(self, bits: Value) -> Value:
        """Bits of floats in the order of integers, and back: those of negative ones the other way round."""
        all_or_none = self.emit("shr", bits, self.key.bits - 1)
        return self.emit("xor", bits, self.emit("and", all_or_none, self.key.limits[1]))

    def _like(self, x: Value, number: int) -> Value:
        t = tile_of(x)
        value = float(number) if t.elem.is_float else number
        return self.emitter.emit_op(block.const, at=self.at, value=value, elem=t.elem, shape=t.shape).result

    def places(self, axis: int, elem: Scalar) -> Value:
        """The place of each element along an axis."""
        shape = tile_of(self.x).shape
        place = self.emitter.emit_op(block.arange, at=self.at, start=0, end=shape[axis], elem=elem).result
        only = tuple(n if d == axis else 1 for d, n in enumerate(shape))
        return self.emit(block.broadcast, self.emit(block.reshape, place, shape=only), shape=shape)


def sort_elements(keys: SortKeys, axis: int, count: int) -> Value:
    """The first of the elements, in order."""
    found = keys.emit(moves.sort, keys.of(equal_zeros=False), axis=axis, count=count)
    return keys.elements(found)


def sort_places(keys: SortKeys, axis: int, count: int) -> Value:
    """Where the first of the elements are, as i32; of equal ones the first comes first."""
    key = keys.of(equal_zeros=True)
    if keys.key == I64:
        both = (key, keys.places(axis, I32))
        return keys.emitter.emit_op(moves.sort, *both, at=keys.at, axis=axis, count=count).results[1]
    wide = keys.emit("shl", keys.emit(block.cast, key, to=I64), PLACE_BITS)
    found = keys.emit(moves.sort, keys.emit("or", wide, keys.places(axis, I64)), axis=axis, count=count)
    return keys.emit(block.cast, keys.emit("and", found, (1 << PLACE_BITS) - 1), to=I32)
