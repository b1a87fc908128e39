"""What a kernel is compiled for: facts about arguments that make better code, at most a handful for each parameter.

Addresses and integers are told apart by the power of two that divides them, up to 16, and integers by whether they are
positive. So a kernel is compiled once for all sizes that are multiples of 16. Pointers are null or not, which decides
tests of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphfuse.blockopt.divisors import guard_divisors, open_divisors
from graphfuse.blockopt.grid import flat_grid
from graphfuse.blockopt.nulls import decide_nulls, reached
from graphfuse.blockopt.parameters import symbolic_parameters
from graphfuse.blockopt.pipeline import optimized
from graphfuse.errors import InputError
from graphfuse.ir.core import Func
from graphfuse.kernels.arguments import Bound, arrays_of
from graphfuse.kernels.signature import Parameter
from graphfuse.symbolic import Dim

MOST = 16
"""The largest power of two that code is told apart by: an access has 16 bytes at most."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The number of axes of the grid, and (divisor, is positive) of each parameter; the divisor of null is 0."""

    axes: int
    of: tuple[tuple[int, bool], ...]
    divides: bool = False
    """What is divided by is positive in every program (`blockopt.divisors`)."""


def facts(wanted: Sequence[Parameter], slots: Sequence[int], axes: int) -> Facts:
    """What is true of arguments."""
    return Facts(axes, tuple(_fact(p, slot) for p, slot in zip(wanted, slots, strict=True)))


def has_facts(p: Parameter) -> bool:
    """Whether code is told apart by the argument: by the power of two that divides it, and whether it is positive."""
    return p.is_pointer or (p.elem.is_integer and p.elem.bits >= 16)


def general(wanted: Sequence[Parameter], axes: int) -> Facts:
    """Nothing but what the source promises, and that sizes are positive: for compiling ahead of any call."""
    return Facts(axes, tuple((_power_of_two(p.divisor), p.elem.is_integer and not p.is_pointer) for p in wanted))


def _fact(p: Parameter, slot: int) -> tuple[int, bool]:
    if p.is_pointer:
        return _power_of_two(slot) if slot else 0, slot != 0
    if not has_facts(p):
        return 1, False
    return _power_of_two(slot), slot > 0


def _power_of_two(n: int) -> int:
    return min(n & -n, MOST) if n else MOST


def check_promises(kernel: str, wanted: Sequence[Parameter], bound: Bound) -> None:
    """Whether arguments are what the source says they are."""
    for p, slot in zip(wanted, bound.slots, strict=True):
        if slot % p.divisor:
            what = "an address" if p.is_pointer else "a number"
            wanted_text = f"expected {what} that is a multiple of {p.divisor}"
            raise InputError(f"kernel {kernel!r}: argument {p.name!r}: {wanted_text}, found {slot}")
    for p, a in zip(wanted, bound.memory, strict=True):
        if a is None or not p.is_alone:
            continue
        for q, b in arrays_of(wanted, bound.memory):
            if b is not a and not p.mode == q.mode == "r" and a.overlaps(b):
                what = f"expected an array that lies apart, as __noalias promises, found one that overlaps {q.name!r}"
                raise InputError(f"kernel {kernel!r}: argument {p.name!r}: {what}")


def specialised(func: Func, wanted: Sequence[Parameter], known: Facts) -> Func:
    """The function with its grid and what is known of its arguments, ready for a machine."""
    ranged = _ranged(func, wanted, known)
    return optimized(guard_divisors(ranged) if known.divides else ranged)


def asked_of(func: Func, wanted: Sequence[Parameter], known: Facts) -> tuple[Dim, ...]:
    """The divisors that a launch's numbers may tell to be positive."""
    return open_divisors(_ranged(func, wanted, known))


def _ranged(func: Func, wanted: Sequence[Parameter], known: Facts) -> Func:
    pairs = [(p, d, some) for p, (d, some) in zip(wanted, known.of, strict=True)]
    null = {p.name: d == 0 for p, d, some in pairs if p.is_pointer and (some or d == 0)}
    func = decide_nulls(func, null)
    if found := reached(func, frozenset(name for name, is_null in null.items() if is_null)):
        what = "expected an array, as the kernel reads or writes through it without a test such as `if (p)`, found None"
        raise InputError(f"kernel {func.name!r}: argument {found[0]!r}: {what}", found[1].loc)
    assume = tuple((p.name, max(d or MOST, p.divisor)) for p, d, _ in pairs)
    func = symbolic_parameters(flat_grid(replace(func, attrs={**func.attrs, "assume": assume}), known.axes))
    ranges = func.ranges
    for p, _, some in pairs:
        if some and not p.is_pointer:
            low, high = ranges.get(p.name, (0, (1 << 62)))
            ranges[p.name] = (max(low, 1), high)
    return replace(func, dims=tuple((n, lo, hi) for n, (lo, hi) in ranges.items()))
