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

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Proxy = Literal["generic", "async"]
Scope = Literal["warp", "block"]


@dataclass(frozen=True, slots=True)
class Access:
    """Warps read or write bytes `begin..end` of shared memory.

    `private`: each thread touches only bytes of its own, the same ones in every private access of that `name`.
    An async access has a `token` that a `Wait` names; `by_issuer` when only the issuing warps can wait for it
    (wgmma and bulk groups), rather than anyone (an mbarrier).
    """

    name: str
    begin: int
    end: int
    writes: bool
    warps: frozenset[int]
    proxy: Proxy = "generic"
    token: str = ""
    private: bool = False
    by_issuer: bool = False

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
    barriers = _barriers(events, i, j, scope)
    if second.proxy == "async" and first.writes:
        fences = [k for k in range(i + 1, j) if isinstance(events[k], Fence)]
        if not fences:
            return Hazard(i, j, "fence", scope)
        barriers = [k for k in barriers if k > fences[0]]
    return None if barriers else Hazard(i, j, "barrier", scope)


def _after_async(events: Sequence[Event], i: int, j: int, first: Access, second: Access) -> Hazard | None:
    """After an async access: somebody waits for it, and a barrier spreads the news to those who did not."""
    waits = [
        (k, e)
        for k, e in enumerate(events[i + 1 : j], i + 1)
        if isinstance(e, Wait) and e.token == first.token and (not first.by_issuer or first.warps <= e.warps)
    ]
    scope = _scope(first.warps, second.warps) if first.by_issuer else "block"
    if not waits:
        return Hazard(i, j, "completion", scope)
    for k, wait in waits:
        if (second.warps <= wait.warps and not first.by_issuer) or _barriers(events, k, j, scope):
            return None
    return Hazard(i, j, "barrier", scope)


def _barriers(events: Sequence[Event], i: int, j: int, scope: Scope) -> list[int]:
    """Positions between i and j of barriers that are wide enough."""
    return [
        k
        for k in range(i + 1, j)
        if isinstance(event := events[k], Barrier) and (event.scope == "block" or scope == "warp")
    ]


def insert(events: Sequence[Event]) -> tuple[Event, ...]:
    """Add the fewest block barriers that order every pair, then the fewest warp barriers, with waits and fences.

    1. A completion that is lacking becomes a wait right before the second access.
    2. Each remaining pair needs a barrier somewhere between its two accesses. Barriers are put as late as possible,
       before the earliest second access that still lacks one: the classic stabbing of intervals, which is optimal.
    3. Fences go right before the barrier that orders the pair.
    """
    return _complete(events, lambda body: body)


def insert_in_loop(body: Sequence[Event]) -> tuple[Event, ...]:
    """The same for the body of a loop: an iteration is ordered after the one before it, too.

    What is added within an iteration often serves between two as well, so nothing is added that the rest makes
    superfluous.
    """
    return _complete(_complete(body, lambda out: out), lambda out: [*out, *out], body)


def _complete(
    events: Sequence[Event], unrolled: Callable[[Sequence[Event]], Sequence[Event]], given: Sequence[Event] = ()
) -> tuple[Event, ...]:
    out = list(events)
    for kind in ("completion", "block", "warp"):
        while (hazard := _first(missing(unrolled(out)), kind)) is not None:
            n = len(out)
            for at, event in _repair(unrolled(out), hazard):
                out.insert(at % n, event)
    for event in [e for e in out if not any(e is g for g in given or events)]:
        rest = [e for e in out if e is not event]
        if not missing(unrolled(rest)):
            out = rest
    return tuple(out)


def _first(hazards: Iterable[Hazard], kind: str) -> Hazard | None:
    """Of the hazards that lack a completion, or a barrier of that scope, the one with the earliest second access."""
    wanted = (h for h in hazards if kind == ("completion" if h.cause == "completion" else h.scope))
    return min((h for h in wanted), key=lambda h: (h.second, h.first), default=None)


def _repair(events: Sequence[Event], hazard: Hazard) -> list[tuple[int, Event]]:
    """What to insert, and before which event; one after the other."""
    first = events[hazard.first]
    at = hazard.second
    second = events[at]
    assert isinstance(first, Access)
    assert isinstance(second, Access)
    match hazard.cause:
        case "completion":
            return [(at, Wait(first.token, first.warps if first.by_issuer else second.warps))]
        case "fence":
            # a barrier that is there already orders the pair once a fence precedes it
            barriers = _barriers(events, hazard.first, at, hazard.scope)
            return [(barriers[-1], Fence())] if barriers else [(at, Barrier(hazard.scope)), (at, Fence())]
        case "barrier":
            return [(at, Barrier(hazard.scope))]
