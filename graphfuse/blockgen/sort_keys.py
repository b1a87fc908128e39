"""Elements and their places as signed integers to sort: the first in order is the least, and no two are equal."""

from __future__ import annotations

from graphfuse.blockgen.evaluate import Evaluator
from graphfuse.dialects import block
from graphfuse.ir.core import Value, tile_of
from graphfuse.ir.types import F32, I32, I64, Scalar

Keys = tuple[Value, ...]
"""Tiles of one integer for each element, or of two, the first of which decides."""


class SortKeys:
    """How elements of a type, with places below a number, become integers and are found in them again.

    NaN is larger than all numbers. Zeros are equal, so a further bit behind the place says which are negative.
    """

    def __init__(self, ev: Evaluator, elem: Scalar, places: int, *, falling: bool) -> None:
        self.ev, self.elem, self.falling = ev, elem, falling
        self.held = F32 if elem.is_float and elem.bits < 16 else elem
        self.low = max(1, (places - 1).bit_length()) + self.held.is_float
        """Bits of the place, and of what says that a zero is negative."""
        total = self.held.bits + self.low
        self.types = (I32,) if total <= 32 else (I64,) if total <= 64 else (I64, I64)

    @property
    def bytes(self) -> int:
        """Of an element's integers."""
        return sum(t.bytes for t in self.types)

    def of(self, x: Value, places: Value) -> Keys:
        """The integers of elements, given their places as i64: tiles of one shape."""
        key, wide = self._ordered(x), self.types[-1]
        key = self._do("not", key) if self.falling else key
        low = self.ev.cast(places, wide)
        if self.held.is_float:
            low = self._do("or", self._do("shl", low, 1), self.ev.cast(self._is_negative_zero(x), wide))
        return (key, low) if len(self.types) == 2 else (self._do("or", self._do("shl", key, self.low), low),)

    def last(self, shape: tuple[int, ...]) -> Keys:
        """What comes after all elements."""
        return tuple(self.ev.const(t.limits[1], t, shape) for t in self.types)

    def places(self, keys: Keys) -> Value:
        """Where elements were, as i64."""
        low = self._low(keys)
        return self.ev.cast(self._do("shr", low, 1) if self.held.is_float else low, I64)

    def elements(self, keys: Keys) -> Value:
        """The elements themselves; NaN is one of many."""
        key = keys[0] if len(keys) == 2 else self._do("shr", keys[0], self.low)
        key = self._do("not", key) if self.falling else key
        ev, held = self.ev, self.held
        if not held.is_float:
            if held.is_signed:
                return ev.cast(key, held)
            turned = self._do("xor" if held.bits == 64 else "add", key, self._middle)
            return ev.emit(block.bitcast, turned, to=held) if held.bits == 64 else ev.cast(turned, held)
        bits = ev.emit(block.select, self._do("lt", key, 0), self._do("xor", key, -self._middle - 1), key)
        is_negative = self._do("ne", self._do("and", self._low(keys), 1), 0)
        bits = ev.emit(block.select, is_negative, self._like(key, self._middle), bits)
        return ev.cast(ev.emit(block.bitcast, ev.cast(bits, self._bits), to=held), self.elem)

    def before(self, a: Keys, b: Keys) -> Value:
        """Which of `a` come before, or are, those of `b`."""
        out = self._do("le", a[-1], b[-1])
        for x, y in [*zip(a, b, strict=True)][-2::-1]:
            same = self._do("and", self._do("eq", x, y), out)
            out = self._do("or", self._do("lt", x, y), same)
        return out

    def select(self, condition: Value, a: Keys, b: Keys) -> Keys:
        """One or the other."""
        return tuple(self.ev.emit(block.select, condition, x, y) for x, y in zip(a, b, strict=True))

    # integers

    @property
    def _bits(self) -> Scalar:
        return Scalar(f"i{self.held.bits}")

    @property
    def _middle(self) -> int:
        """The least signed integer of an element's bits: those of a negative zero."""
        return -(1 << self.held.bits - 1)

    def _ordered(self, x: Value) -> Value:
        ev, held, wide = self.ev, self.held, self.types[0]
        if not held.is_float:
            if held.is_signed:
                return ev.cast(x, wide)
            if held.bits == 64:
                return self._do("xor", ev.emit(block.bitcast, x, to=I64), self._middle)
            return self._do("add", ev.cast(x, wide), self._middle)
        bits = self._bits_of(x)
        turned = ev.emit(block.select, self._do("lt", bits, 0), self._do("xor", bits, -self._middle - 1), bits)
        turned = ev.emit(block.select, self._is_negative_zero(x), self._like(bits, 0), turned)
        is_nan = ev.emit(block.ELEMENTWISE["isnan"], ev.cast(x, held))
        return ev.emit(block.select, is_nan, self._like(bits, -self._middle - 1), turned)

    def _bits_of(self, x: Value) -> Value:
        return self.ev.cast(self.ev.emit(block.bitcast, self.ev.cast(x, self.held), to=self._bits), self.types[0])

    def _is_negative_zero(self, x: Value) -> Value:
        return self._do("eq", self._bits_of(x), self._middle)

    def _low(self, keys: Keys) -> Value:
        return keys[1] if len(keys) == 2 else self._do("and", keys[0], (1 << self.low) - 1)

    def _like(self, x: Value, number: int) -> Value:
        return self.ev.const(number, block.elem_of(x.type), tile_of(x).shape)

    def _do(self, name: str, x: Value, y: Value | int | None = None) -> Value:
        operands = [] if y is None else [self._like(x, y) if isinstance(y, int) else y]
        return self.ev.emit(block.ELEMENTWISE[name], x, *operands)
