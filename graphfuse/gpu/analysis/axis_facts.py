"""The facts of axis info and their arithmetic: what holds of a sum, a quotient, a choice of two values.

Facts are about integers modulo 2^bits, so divisibility is a power of two, which wrapping keeps. No op is known here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

MAX_DIVISIBILITY = 1 << 62
"""What 0 is divisible by."""


@dataclass(frozen=True, slots=True)
class AxisInfo:
    """Facts about an integer tile, one entry per dim; a scalar has none but `divisibility[-1]`, hence one entry.

    Along dim d, cut into aligned runs of `contiguity[d]` elements, each run counts up by one, and its first element
    is a multiple of `divisibility[d]`; cut into aligned runs of `constancy[d]`, each run is one value. `value` is
    the value of every element when that is known. For a pointer, `divisibility` is of its address in bytes.
    """

    contiguity: tuple[int, ...]
    divisibility: tuple[int, ...]
    constancy: tuple[int, ...]
    value: int | None = None

    @staticmethod
    def unknown(shape: Sequence[int] = ()) -> AxisInfo:
        """No facts."""
        ones = (1,) * max(1, len(shape))
        return AxisInfo(ones, ones, ones)

    @staticmethod
    def uniform(divisibility: int, shape: Sequence[int] = (), value: int | None = None) -> AxisInfo:
        """One number everywhere."""
        sizes = tuple(shape) or (1,)
        return AxisInfo((1,) * len(sizes), (divisibility,) * len(sizes), sizes, value)

    @staticmethod
    def constant(value: int, shape: Sequence[int] = ()) -> AxisInfo:
        """A known number everywhere, as 64 bits hold it."""
        value = _wrap(value)
        return AxisInfo.uniform(power_of_two(value), shape, value)

    @property
    def everywhere(self) -> int:
        """What all elements are divisible by: a dim whose runs are single elements speaks of all of them."""
        return max((d for c, d in zip(self.contiguity, self.divisibility, strict=True) if c == 1), default=1)

    def divisible_at(self, dim: int, step: int) -> int:
        """What the elements at multiples of `step` along `dim` are divisible by."""
        run = self.contiguity[dim]
        if step % run == 0:
            return self.divisibility[dim]
        return math.gcd(self.divisibility[dim], power_of_two(math.gcd(run, step)))

    def spread(self, shape: Sequence[int]) -> AxisInfo:
        """A scalar's facts as those of a tile that is full of it."""
        return AxisInfo.uniform(self.divisibility[0], shape, self.value) if shape else self

    def full_of(self, value: int) -> AxisInfo:
        """A tile of the same shape as this uniform one, full of `value`."""
        value = _wrap(value)
        return replace(self, value=value, divisibility=(power_of_two(value),) * len(self.divisibility))

    def along(self, dims: Sequence[int | None], divisibility: int = 1) -> AxisInfo:
        """With these dims; None stands for one of size 1, whose elements are divisible so."""

        def facts(own: Sequence[int], other: int) -> tuple[int, ...]:
            return tuple(other if d is None else own[d] for d in dims)

        return AxisInfo(
            facts(self.contiguity, 1), facts(self.divisibility, divisibility), facts(self.constancy, 1), self.value
        )

    def sharpened(self, shape: Sequence[int]) -> AxisInfo:
        """What follows from the facts taken together."""
        if self.value is not None:
            return AxisInfo.constant(self.value, shape)
        sizes = tuple(shape) or (1,)
        # what holds of all elements holds of the first ones of other dims' runs too
        divisibility = tuple(max(d, self.everywhere) for d in self.divisibility)
        return AxisInfo(_within(self.contiguity, sizes), divisibility, _within(self.constancy, sizes))

    # arithmetic

    def meet(self, other: AxisInfo) -> AxisInfo:
        """What holds of a value that is either."""
        contiguity = zip_gcd(self.contiguity, other.contiguity)
        value = self.value if self.value == other.value else None
        return AxisInfo(contiguity, runs(contiguity, self, other), zip_gcd(self.constancy, other.constancy), value)

    def __add__(self, other: AxisInfo) -> AxisInfo:
        if self.value is not None and other.value is not None:
            return self.full_of(self.value + other.value)
        a, b = zip_gcd(self.contiguity, other.constancy), zip_gcd(self.constancy, other.contiguity)
        contiguity = tuple(map(max, a, b))
        return AxisInfo(contiguity, runs(contiguity, self, other), zip_gcd(self.constancy, other.constancy))

    def __sub__(self, other: AxisInfo) -> AxisInfo:
        if self.value is not None and other.value is not None:
            return self.full_of(self.value - other.value)
        contiguity = zip_gcd(self.contiguity, other.constancy)
        return AxisInfo(contiguity, runs(contiguity, self, other), zip_gcd(self.constancy, other.constancy))

    def __mul__(self, other: AxisInfo) -> AxisInfo:
        for x, y in ((self, other), (other, self)):
            if x.value == 1:
                return y
            if x.value == 0:
                return x
        if self.value is not None and other.value is not None:
            return self.full_of(self.value * other.value)
        ones = (1,) * len(self.contiguity)
        factors = ((self.divisible_at(d, 1), other.divisible_at(d, 1)) for d in range(len(ones)))
        divisibility = tuple(min(a * b, MAX_DIVISIBILITY) for a, b in factors)
        return AxisInfo(ones, divisibility, zip_gcd(self.constancy, other.constancy))

    def floordiv(self, by: AxisInfo, *, positive: bool) -> AxisInfo:
        """floor(self / by); `positive` says that `by` is."""
        out = constancy_only(self, by)
        if not positive:
            return out
        if by.value == 1:
            return self
        if self.value is not None and by.value is not None:
            return out.full_of(self.value // by.value)
        constancy = tuple(map(max, out.constancy, aligned_runs(self, by)))
        divisibility = out.divisibility
        if by.value is not None and by.value == power_of_two(by.value):
            divisibility = tuple(max(1, self.divisible_at(d, 1) // by.value) for d in range(len(divisibility)))
        return AxisInfo(out.contiguity, divisibility, constancy)

    def mod(self, by: AxisInfo, *, positive: bool) -> AxisInfo:
        """self - floor(self / by) * by; `positive` says that `by` is."""
        if not positive:
            return constancy_only(self, by)
        if self.value is not None and by.value is not None:
            return self.full_of(self.value % by.value)
        contiguity = aligned_runs(self, by)
        return AxisInfo(contiguity, runs(contiguity, self, by), zip_gcd(self.constancy, by.constancy))

    def either(self, other: AxisInfo) -> AxisInfo:
        """Minimum and maximum: one of the two, element by element."""
        ones = (1,) * len(self.contiguity)
        return AxisInfo(ones, runs(ones, self, other), zip_gcd(self.constancy, other.constancy))


def power_of_two(n: int) -> int:
    """The largest power of two that divides n."""
    return min(n & -n, MAX_DIVISIBILITY) if n else MAX_DIVISIBILITY


def _wrap(n: int) -> int:
    """The 64-bit signed number that n wraps to."""
    return (n + (1 << 63)) % (1 << 64) - (1 << 63)


def _within(lengths: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.gcd(length, n) if n else 1 for length, n in zip(lengths, sizes, strict=True))


def zip_gcd(*lists: Sequence[int]) -> tuple[int, ...]:
    """Greatest common divisors, dim by dim."""
    return tuple(map(math.gcd, *lists))


def runs(contiguity: Sequence[int], *infos: AxisInfo) -> tuple[int, ...]:
    """What all of `infos` are divisible by where runs of these lengths begin."""
    return tuple(math.gcd(*(i.divisible_at(d, c) for i in infos)) for d, c in enumerate(contiguity))


def constancy_only(*infos: AxisInfo) -> AxisInfo:
    """A function of these values, of which nothing else is known."""
    ones = (1,) * len(infos[0].constancy)
    return AxisInfo(ones, ones, zip_gcd(*(info.constancy for info in infos)))


def aligned_runs(a: AxisInfo, b: AxisInfo) -> tuple[int, ...]:
    """g per dim: along aligned runs of g, a counts up from a multiple of g and b is one multiple of g."""
    return tuple(
        power_of_two(math.gcd(c, k, da, b.divisible_at(d, 1)))
        for d, (c, k, da) in enumerate(zip(a.contiguity, b.constancy, a.divisibility, strict=True))
    )
