"""Hazards: where threads that meet in shared memory must wait for one another, and the fewest waits that do.

A sequence of events is what all warps of a block do, in program order: accesses to byte ranges of shared memory,
and the waits between them. Two accesses that overlap, of which one writes, must be ordered unless each thread only
meets itself. There are two proxies (PTX ISA, "Proxies"): ordinary loads and stores are generic; TMA and wgmma are
async, complete some time after they were issued, and need three things:

- their completion, by `Wait` on their token, before anyone overwrites what they read or touches what they wrote;
- a `Fence` by the threads whose generic writes they read (or overwrite), before the barrier that orders the two;
- a barrier, as ever, when the issuing warp is not the one that accessed or waited.

`missing` lists unordered pairs; `insert` adds waits, fences and barriers until there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Proxy = Literal["generic", "async"]
Scope = Literal["warp", "block"]


@dataclass(frozen=True, slots=True)
class Access:
    """Warps read or write bytes `begin..end` of shared memory.

    `private`: each thread touches only bytes of its own, the same ones in every private access of that `name`.
    An async access has a `token` that a `Wait` names.
    """

    name: str
    begin: int
    end: int
    writes: bool
    warps: frozenset[int]
    proxy: Proxy = "generic"
    token: str = ""
    private: bool = False

    def __post_init__(self) -> None:
        assert (self.proxy == "async") == bool(self.token), f"{self.name}: an async access, and no other, has a token"


@dataclass(frozen=True, slots=True)
class Wait:
    """These warps wait for the async accesses of a token that were issued before."""

    token: str
    warps: frozenset[int]


@dataclass(frozen=True, slots=True)
class Fence:
    """Generic accesses before it, by threads that run it, come before async ones after it (`fence.proxy.async`)."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """All threads of the block, or the threads of each warp, wait for one another."""

    scope: Scope


Event: TypeAlias = Access | Wait | Fence | Barrier
Cause = Literal["completion", "fence", "barrier"]


@dataclass(frozen=True, slots=True)
class Hazard:
    """Events `first` and `second` (positions) must be ordered, and `cause` is lacking between them."""

    first: int
    second: int
    cause: Cause
    scope: Scope


def _conflict(a: Access, b: Access) -> bool:
    """Whether the order of two accesses can be told by their results."""
    if not (a.writes or b.writes) or a.begin >= b.end or b.begin >= a.end:
        return False
    return not (a.private and b.private and a.name == b.name and a.proxy == b.proxy == "generic")


def _scope(a: frozenset[int], b: frozenset[int]) -> Scope:
    return "warp" if a == b and len(a) == 1 else "block"


def missing(events: Sequence[Event]) -> tuple[Hazard, ...]:
    """Every pair of accesses that nothing orders, with the first thing it lacks."""
    out: list[Hazard] = []
    for j, second in enumerate(events):
        if isinstance(second, Access):
            for i in range(j):
                first = events[i]
                if isinstance(first, Access) and _conflict(first, second) and (h := _lacks(events, i, j)):
                    out.append(h)
    return tuple(out)


def _lacks(events: Sequence[Event], i: int, j: int) -> Hazard | None:
    first, second = events[i], events[j]
    assert isinstance(first, Access)
    assert isinstance(second, Access)
    if first.proxy == "async":
        return _after_async(events, i, j, first, second)
    scope = _scope(first.warps, second.warps)
    # one thread both wrote and issues: program order serves, but for the proxies
    barriers = _barriers(events, i, j, scope)
    if second.proxy == "async" and first.writes:
        fences = [k for k in range(i + 1, j) if isinstance(events[k], Fence)]
        if not fences:
            return Hazard(i, j, "fence", scope)
        barriers = [k for k in barriers if k > fences[0]]
    return None if barriers else Hazard(i, j, "barrier", scope)


def _after_async(events: Sequence[Event], i: int, j: int, first: Access, second: Access) -> Hazard | None:
    """After an async access: somebody waits for it, and a barrier spreads the news unless the waiter goes on."""
    if second.proxy == "async" and second.token == first.token and not first.writes:
        return None  # reads of one group, then writes of it, cannot meet: the group is what is waited for
    waits = [(k, e) for k, e in enumerate(events[i + 1 : j], i + 1) if isinstance(e, Wait) and e.token == first.token]
    if not waits:
        return Hazard(i, j, "completion", "block")
    for k, wait in waits:
        if second.warps <= wait.warps or _barriers(events, k, j, "block"):
            return None
    return Hazard(i, j, "barrier", "block")


def _barriers(events: Sequence[Event], i: int, j: int, scope: Scope) -> list[int]:
    """Positions between i and j of barriers that are wide enough."""
    return [
        k
        for k in range(i + 1, j)
        if isinstance(event := events[k], Barrier) and (event.scope == "block" or scope == "warp")
    ]


def insert(events: Sequence[Event]) -> tuple[Event, ...]:
    """Add the fewest block barriers that order every pair, then the fewest warp barriers, with waits and fences.

    1. A completion that is lacking becomes a wait by the warps of the second access, right before it.
    2. Each remaining pair needs a barrier somewhere between its two accesses. Barriers are put as late as possible,
       before the earliest second access that still lacks one: the classic stabbing of intervals, which is optimal.
    3. Fences go right before the barrier that orders the pair.
    """
    out = list(events)
    for cause in ("completion", "block", "warp"):
        while (hazard := _first(missing(out), cause)) is not None:
            out = _repair(out, hazard)
    return tuple(out)


def _first(hazards: Iterable[Hazard], kind: str) -> Hazard | None:
    """The earliest second access that lacks a completion, or a barrier of that scope."""
    wanted = [
        h for h in hazards if (h.cause == kind if kind == "completion" else h.cause != "completion" and h.scope == kind)
    ]
    return min(wanted, key=lambda h: (h.second, h.first), default=None)


def _repair(events: list[Event], hazard: Hazard) -> list[Event]:
    first, second = events[hazard.first], events[hazard.second]
    assert isinstance(first, Access)
    assert isinstance(second, Access)
    at = hazard.second
    if hazard.cause == "completion":
        return [*events[:at], Wait(first.token, second.warps), *events[at:]]
    if hazard.cause == "fence":
        # a barrier that is there already orders the pair once a fence precedes it
        barriers = _barriers(events, hazard.first, at, hazard.scope)
        if barriers:
            return [*events[: barriers[-1]], Fence(), *events[barriers[-1] :]]
        return [*events[:at], Fence(), Barrier(hazard.scope), *events[at:]]
    return [*events[:at], Barrier(hazard.scope), *events[at:]]


def insert_in_loop(body: Sequence[Event]) -> tuple[Event, ...]:
    """Waits for a loop body, so that its iterations too are ordered: two copies in a row have no hazard left.

    A wait placed at the end of the body is one at its start, one iteration later.
    """
    out = insert(body)
    while hazards := missing([*out, *out]):
        n = len(out)
        hazard = min(hazards, key=lambda h: (h.second, h.first))
        assert hazard.first < n <= hazard.second, f"{hazard} is within one iteration"
        grown = _repair([*out, *out], hazard)
        out = tuple(grown[n:]) if hazard.second >= n and tuple(grown[:n]) == out else tuple(grown[: len(grown) - n])
    return out
