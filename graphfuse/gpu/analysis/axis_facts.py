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
        """A known number everywhere."""
        return AxisInfo.uniform(power_of_two(value), shape, value)

    def divisible_at(self, dim: int, step: int) -> int:
        """What the elements at multiples of `step` along `dim` are divisible by."""
        run = self.contiguity[dim]
        if step % run == 0:
            return self.divisibility[dim]
        return math.gcd(self.divisibility[dim], power_of_two(math.gcd(run, step)))

    def spread(self, shape: Sequence[int]) -> AxisInfo:
        """A scalar's facts as those of a tile that is full of it."""
        return AxisInfo.uniform(self.divisibility[0], shape, self.value) if shape else self


def power_of_two(n: int) -> int:
    """The largest power of two that divides n."""
    return min(n & -n, MAX_DIVISIBILITY) if n else MAX_DIVISIBILITY


def wrap(n: int) -> int:
    """The 64-bit signed number that n wraps to."""
    return (n + (1 << 63)) % (1 << 64) - (1 << 63)


def sharpen(info: AxisInfo, shape: Sequence[int]) -> AxisInfo:
    """What follows from the facts taken together."""
    sizes = tuple(shape) or (1,)
    value = info.value
    if value is not None:
        return AxisInfo.constant(value, shape)
    # a dim whose runs are single elements speaks of all elements, so of the first ones of other dims' runs too
    every = max((d for c, d in zip(info.contiguity, info.divisibility, strict=True) if c == 1), default=1)
    contiguity = tuple(math.gcd(c, n) if n else 1 for c, n in zip(info.contiguity, sizes, strict=True))
    constancy = tuple(math.gcd(k, n) if n else 1 for k, n in zip(info.constancy, sizes, strict=True))
    divisibility = tuple(max(d, every) for d in info.divisibility)
    return AxisInfo(contiguity, divisibility, constancy)


def zip_gcd(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """Greatest common divisors, dim by dim."""
    return tuple(map(math.gcd, a, b))


def runs(contiguity: Sequence[int], *infos: AxisInfo) -> tuple[int, ...]:
    """What all of `infos` are divisible by where runs of these lengths begin."""
    return tuple(math.gcd(*(i.divisible_at(d, c) for i in infos)) for d, c in enumerate(contiguity))


def meet(a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """What holds of a value that is either."""
    contiguity = zip_gcd(a.contiguity, b.contiguity)
    value = a.value if a.value == b.value else None
    return AxisInfo(contiguity, runs(contiguity, a, b), zip_gcd(a.constancy, b.constancy), value)


def constancy_only(*infos: AxisInfo) -> AxisInfo:
    """A function of these values, of which nothing else is known."""
    ones = (1,) * len(infos[0].constancy)
    constancy = infos[0].constancy
    for info in infos[1:]:
        constancy = zip_gcd(constancy, info.constancy)
    return AxisInfo(ones, ones, constancy)


# arithmetic


def known(info: AxisInfo, value: int) -> AxisInfo:
    """A tile of the same shape as a uniform one, full of `value`."""
    value = wrap(value)
    return replace(info, value=value, divisibility=(power_of_two(value),) * len(info.divisibility))


def add(a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """a + b."""
    if a.value is not None and b.value is not None:
        return known(a, a.value + b.value)
    contiguity = tuple(map(max, zip_gcd(a.contiguity, b.constancy), zip_gcd(a.constancy, b.contiguity)))
    return AxisInfo(contiguity, runs(contiguity, a, b), zip_gcd(a.constancy, b.constancy))


def sub(a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """a - b."""
    if a.value is not None and b.value is not None:
        return known(a, a.value - b.value)
    contiguity = zip_gcd(a.contiguity, b.constancy)
    return AxisInfo(contiguity, runs(contiguity, a, b), zip_gcd(a.constancy, b.constancy))


def mul(a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """a * b."""
    for x, y in ((a, b), (b, a)):
        if x.value == 1:
            return y
        if x.value == 0:
            return x
    if a.value is not None and b.value is not None:
        return known(a, a.value * b.value)
    ones = (1,) * len(a.contiguity)
    divisibility = tuple(min(a.divisible_at(d, 1) * b.divisible_at(d, 1), MAX_DIVISIBILITY) for d in range(len(ones)))
    return AxisInfo(ones, divisibility, zip_gcd(a.constancy, b.constancy))


def aligned_runs(a: AxisInfo, b: AxisInfo) -> tuple[int, ...]:
    """g per dim: along aligned runs of g, a counts up from a multiple of g and b is one multiple of g."""
    return tuple(
        power_of_two(math.gcd(c, k, da, b.divisible_at(d, 1)))
        for d, (c, k, da) in enumerate(zip(a.contiguity, b.constancy, a.divisibility, strict=True))
    )


def floordiv(a: AxisInfo, b: AxisInfo, *, positive: bool) -> AxisInfo:
    """floor(a / b); `positive` says that b is."""
    out = constancy_only(a, b)
    if not positive:
        return out
    if b.value == 1:
        return a
    if a.value is not None and b.value is not None:
        return known(out, a.value // b.value)
    constancy = tuple(map(max, out.constancy, aligned_runs(a, b)))
    divisibility = out.divisibility
    if b.value is not None and b.value == power_of_two(b.value):
        divisibility = tuple(max(1, a.divisible_at(d, 1) // b.value) for d in range(len(divisibility)))
    return AxisInfo(out.contiguity, divisibility, constancy)


def mod(a: AxisInfo, b: AxisInfo, *, positive: bool) -> AxisInfo:
    """a - floor(a / b) * b; `positive` says that b is."""
    constancy = zip_gcd(a.constancy, b.constancy)
    if not positive:
        return constancy_only(a, b)
    if a.value is not None and b.value is not None:
        return known(a, a.value % b.value)
    contiguity = aligned_runs(a, b)
    return AxisInfo(contiguity, runs(contiguity, a, b), constancy)


def either(a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """Minimum and maximum: one of the two, element by element."""
    ones = (1,) * len(a.contiguity)
    return AxisInfo(ones, runs(ones, a, b), zip_gcd(a.constancy, b.constancy))
