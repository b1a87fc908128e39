"""Random numbers as block ops.

Philox-4x32-10 of J. Salmon, M. Moraes, R. Dror and D. Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011:
four words of a counter become four random ones, by a key of two words. A seed is a key, an offset the lower half of a
counter, a subsequence the upper half, as in cuRAND and torch. Uniform and normal numbers are made of words
as Triton makes them of words of 32 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from graphfuse.dialects import block
from graphfuse.ir.core import Attr, Value
from graphfuse.ir.types import F32, I32, U32, U64, Scalar, Tile

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
"""The fractions of the golden ratio and of sqrt(3): what the words of a key grow by from round to round."""
_ROUNDS = 10
_SCALE = 2.0**-31 * (1 - 2.0**-24)
"""The largest float that takes 2^31 - 1, as a float 2^31, to less than 1."""
_LEAST_UNIFORM = 1e-7
"""Normal numbers are made of uniform ones of this or more, and so are below 5.7."""


@dataclass(frozen=True)
class Random:
    """Emits random numbers of a shape; `emit` places an op."""

    emit: Callable[..., Value]
    shape: tuple[int, ...]

    def words(self, seed: Value, offset: Value, subsequence: Value | None) -> list[Value]:
        """The four random words of a counter; a seed may be a scalar."""
        upper = (self._const(0), self._const(0)) if subsequence is None else self._halves(subsequence)
        c0, c1, c2, c3 = *self._halves(offset), *upper
        key = list(self._halves(seed))
        m0, m1 = (self._const(m) for m in _MULTIPLIERS)
        for i in range(_ROUNDS):
            k0, k1 = (self._spread(k) for k in key)
            high0, low0 = self._do("mulhi", m0, c0), self._do("mul", m0, c0)
            high1, low1 = self._do("mulhi", m1, c2), self._do("mul", m1, c2)
            c0, c1 = self._do("xor", self._do("xor", high1, c1), k0), low1
            c2, c3 = self._do("xor", self._do("xor", high0, c3), k1), low0
            if i < _ROUNDS - 1:
                key = [self._do("add", k, self._like(k, step)) for k, step in zip(key, _KEY_STEPS, strict=True)]
        return [c0, c1, c2, c3]

    def uniform(self, word: Value) -> Value:
        """A number in [0, 1): the word as a signed integer, turned to a positive one by its sign, scaled."""
        signed = self.emit(block.cast, word, to=I32)
        turned = self._do("xor", signed, self._do("shr", signed, self._const(31, I32)))
        return self._do("mul", self.emit(block.cast, turned, to=F32), self._const(_SCALE, F32))

    def normal(self, first: Value, second: Value) -> Value:
        """A number of the standard normal distribution (G. Box and M. Muller, 1958)."""
        size = self._do("max", self.uniform(first), self._const(_LEAST_UNIFORM, F32))
        radius = self._do("sqrt", self._do("mul", self._do("log", size), self._const(-2.0, F32)))
        angle = self._do("mul", self.uniform(second), self._const(2 * math.pi, F32))
        return self._do("mul", radius, self._do("cos", angle))

    def _halves(self, x: Value) -> tuple[Value, Value]:
        """The lower and the upper word of an integer; what has 32 bits has no upper one."""
        if block.elem_of(x.type).bits <= U32.bits:
            return self._cast(x, U32), self._like(x, 0)
        x = self._cast(x, U64)
        return self._cast(x, U32), self._cast(self._do("shr", x, self._like(x, 32, U64)), U32)

    def _do(self, name: str, *operands: Value) -> Value:
        return self.emit(block.ELEMENTWISE[name], *operands)

    def _cast(self, x: Value, to: Scalar) -> Value:
        return x if block.elem_of(x.type) == to else self.emit(block.cast, x, to=to)

    def _spread(self, x: Value) -> Value:
        is_scalar = isinstance(x.type, Scalar)
        return self.emit(block.splat, x, shape=self.shape) if is_scalar and self.shape else x

    def _like(self, x: Value, number: int, elem: Scalar = U32) -> Value:
        return self._const(number, elem, x.type.shape if isinstance(x.type, Tile) else ())

    def _const(self, number: float, elem: Scalar = U32, shape: tuple[int, ...] | None = None) -> Value:
        shape = self.shape if shape is None else shape
        sized: dict[str, Attr] = {"shape": shape} if shape else {}
        return self.emit(block.const, value=number, elem=elem, **sized)
