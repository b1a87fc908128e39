"""What cases of the population are made of: numbers drawn from a seed, arrays, and what is called on them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PRIMES = (3, 5, 7, 11, 13, 17, 31, 37, 61, 67, 97, 127, 131, 193, 251, 257, 509, 521, 769, 1021, 2039, 4099, 8191)


@dataclass(frozen=True)
class Limits:
    """What a case may take on a device."""

    elements: int
    flops: int
    least: int


LIMITS = {
    "cuda": Limits(1 << 27, 1 << 39, 1 << 14), "cpu": Limits(1 << 22, 1 << 31, 1 << 16),
    "emulator": Limits(1 << 17, 1 << 26, 1 << 12),
}  # fmt: skip
"""On two cores of a CPU: from a tenth of a millisecond to 50. Of kernels alone on the emulator: seconds."""


@dataclass(frozen=True)
class Array:
    """Normally distributed, times `scale`; with `below`, whole numbers from 0 on, `distinct` or not; or booleans."""

    shape: tuple[int, ...]
    scale: float = 1.0
    below: int = 0
    distinct: bool = False
    mask: bool = False
    dtype: str = ""
    """The case's, if it is not named."""
    layout: str = ""
    """`last`: channels are; `gap`: rows have a gap; `step`: every second element; `turned`: the last dims are."""

    @property
    def elements(self) -> int:
        """How many it has."""
        return math.prod(self.shape)

    def made(self, dtype: str) -> Any:
        """The array, on torch's default device."""
        import torch

        if self.distinct:
            return torch.randperm(self.below)[: self.elements]
        if self.below:
            return torch.randint(0, self.below, self.shape)
        if self.mask:
            return torch.rand(self.shape) < 0.7
        kind = getattr(torch, self.dtype or dtype)
        shape = list(self.shape)
        if self.layout == "gap":
            shape[-1] += 3
        elif self.layout == "step":
            shape[-1] *= 2
        elif self.layout == "turned":
            shape[-2:] = shape[:-3:-1]
        if kind in (torch.int8, torch.uint8):
            out = torch.randint(0 if kind == torch.uint8 else -128, 128, shape, dtype=kind)
        else:
            out = (torch.randn(shape) * self.scale).to(kind)
        if self.layout == "last":
            return out.contiguous(memory_format=torch.channels_last)
        return {"gap": lambda: out[..., :-3], "step": lambda: out[..., ::2], "turned": lambda: out.mT}.get(
            self.layout, lambda: out
        )()


Outputs = Sequence[Any]


@dataclass(frozen=True)
class Case:
    """`call`, or the module that `module` makes, of arrays."""

    text: str
    arrays: Sequence[Array]
    dtype: str
    call: Callable[..., Any] | None = None
    module: Callable[[], Any] | None = None
    flops: int = 0
    """Multiplications and additions of products."""
    work: int = 0
    """Elements that it touches or takes as long as, where it is more than its arrays have."""
    training: bool = False
    """The gradients of arrays and parameters, too."""
    trains: bool = False
    """A model's step, with its optimiser."""
    exact: Callable[..., Any] | None = None
    """What is right, of arrays in float64; `call`, if there is none."""
    read: Callable[[Outputs, Sequence[Any]], Outputs] | None = None
    """What is compared, of outputs and arrays: not the place of one of several that are equal."""
    writes: bool = False
    """An array is written in place."""

    def fits(self, device: str) -> bool:
        """Whether it is neither too large nor too small."""
        limits = LIMITS[device]
        elements = max(self.work, sum(a.elements for a in self.arrays))
        least = elements >= limits.least or self.flops >= 64 * limits.least
        return least and self.flops <= limits.flops and elements <= limits.elements

    def __str__(self) -> str:
        laid = sorted({a.layout for a in self.arrays if a.layout})
        steps = "training step" if self.trains else "forward and backward" if self.training else ""
        return ", ".join(filter(None, (f"{self.text} {self.dtype}", *laid, steps)))


class Draw:
    """Numbers of one case."""

    def __init__(self, seed: int, device: str) -> None:
        self.random, self.device = random.Random(seed), device

    def size(self, low: int, high: int) -> int:
        """Log-uniform; one in five is a prime, two in five are multiples of 8."""
        n = round(math.exp(self.random.uniform(math.log(low), math.log(high))))
        kind = self.random.random()
        if kind < 0.2:
            return min((p for p in PRIMES if low <= p <= high), key=lambda p: abs(math.log(p / n)), default=n)
        return min(high, max(low, -(-n // 8) * 8)) if kind < 0.6 and high >= 8 else n

    def sizes(self, rank: int, most: int = 0, least: int = 1) -> tuple[int, ...]:
        """A shape of so many dims whose product fits the device; any dim may be the long one."""
        limits = LIMITS[self.device]
        most = min(most or limits.elements, limits.elements)
        total = math.exp(self.random.uniform(math.log(limits.least * 2), math.log(most)))
        cuts = [self.random.random() + 0.15 for _ in range(rank)]
        shape = tuple(max(least, self.size(1, max(2, round(total ** (c / sum(cuts)) * 2)))) for c in cuts)
        fits = limits.least <= math.prod(shape) <= most
        return shape if fits else self.sizes(rank, most, least)

    def one(self, *values: Any) -> Any:
        """One of them."""
        return self.random.choice(values)

    def chance(self, of: float) -> bool:
        """True so often."""
        return self.random.random() < of

    def even(self) -> bool:
        """As likely as not."""
        return self.chance(0.5)

    def dtype(self) -> str:
        """Floats of any kind: on a CPU most are f32."""
        return self.one("float32", "bfloat16", "float16", *["float32"] * (3 if self.device == "cpu" else 0))

    def half(self) -> str:
        """What products are made of: halves on a GPU."""
        return self.dtype() if self.device == "cpu" else self.one("float16", "bfloat16")

    def layout(self) -> str:
        """One in three does not lie densely."""
        return self.one("", "", "", "", "gap", "turned", "step")

    def axes(self, rank: int) -> tuple[int, ...]:
        """Some of them, one at least."""
        return tuple(i for i in range(rank) if self.even()) or (self.one(*range(rank)),)


Family = Callable[[Draw], Case]


def drawn(
    families: Mapping[str, Family], seed: int, number: int, device: str, *, inference: bool = False
) -> tuple[str, Case]:
    """The family and the case of that number; with `inference`, none that trains."""
    names = list(families)
    name = names[number % len(names)]
    draw = Draw(seed * 1_000_003 + number, device)
    return name, next(c for c in _cases(families[name], draw) if c.fits(device) and not (inference and c.training))


def _cases(family: Family, draw: Draw) -> Iterator[Case]:
    while True:
        yield family(draw)
