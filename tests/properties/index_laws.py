"""Index rules by exhaustion: every formula of two operators over a few leaves, at every value of its symbols."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from typing import Any

from graphfuse import symbolic
from graphfuse.symbolic import Dim
from tests.blockgen import test_index_laws as index
from tests.properties import laws

LEAVES: tuple[Any, ...] = ("n", "m", 0, 1, 2, -1, 3, 6)
DIVISORS: tuple[Any, ...] = (1, 2, 3, "n", 4, ("*", "n", "m"), ("*", 2, "m"))
VALUES = tuple({"n": n, "m": m} for n in (1, 2, 3, 5) for m in (1, 2, 4))
RANGES = {"n": (1, 5), "m": (1, 4)}


def formulas(depth: int) -> Iterator[Any]:
    """All formulas with that many operators on a path."""
    if not depth:
        yield from LEAVES
        return
    for op in laws.OPERATORS:
        divides = op in ("floordiv", "mod", "ceildiv")
        for a in formulas(depth - 1):
            for b in DIVISORS if divides else LEAVES:
                yield op, a, b
            if not divides and depth > 1:
                for b in (("*", "n", 2), ("floordiv", "n", 2), ("mod", "m", 3), ("min", "n", 3), ("+", "n", "m")):
                    yield op, a, b


def formula_laws(formula: Any) -> None:
    """All laws of one formula."""
    for values in VALUES:
        laws.dims_mean_numbers(formula, values)
        laws.bounds_hold(formula, RANGES, values)
        laws.bounds_hold(formula, {"n": (1, 5)}, values)
        laws.substitution_commutes(formula, {"n": ("+", "m", 1), "m": ("*", "n", 2)}, values)
    laws.dim_text_round_trips(formula)
    laws.ring_laws(formula, "n", ("+", "m", 1))
    for other in ("n", 2, ("*", "n", 3), ("+", "n", "m"), ("*", "n", "m")):
        laws.exact_division_is_exact(formula, other)
        laws.exact_division_is_exact(other, formula)


def solved_is_exact(factor: int, rest: int, low: int, high: int) -> None:
    """The symbol's bounds are those between which the dim has its own."""
    dim = symbolic.sym("n") * factor + rest
    found = symbolic.solved(dim, low, high)
    if factor < 1:
        assert found is None
        return
    assert found is not None
    name, least, most = found
    want = [n for n in range(-40, 41) if low <= factor * n + rest <= high]
    assert name == "n"
    assert list(range(least, most + 1)) == want
    assert symbolic.solved(dim * symbolic.sym("n"), low, high) is None
    assert symbolic.solved(dim + symbolic.sym("m"), low, high) is None
    assert symbolic.solved(symbolic.floordiv(symbolic.sym("n"), 2) + rest, low, high) is None


def claims_hold(x: Any, y: Any) -> None:
    """What is said to be at most something is so everywhere; of numbers and shifted dims it is known."""
    a, b = laws.dim_of(x), laws.dim_of(y)
    if symbolic.is_at_most(a, b, RANGES):
        for values in VALUES:
            assert laws.number_of(x, values) <= laws.number_of(y, values)
    assert symbolic.is_at_most(a, a + 1, RANGES)
    assert not symbolic.is_at_most(a + 1, a, RANGES)


def space_dims(space: index.Space) -> Iterator[Dim]:
    """Sums, quotients and remainders of a space's variables."""
    terms: list[Dim] = [*space.atoms, 2, 3]
    flat = [a * b + c for a, b, c in itertools.product(space.atoms, (1, 3, index.N, index.M), (*space.atoms, 0, 1))]
    for a, c, d, by in itertools.product(space.atoms, (*space.atoms, 1, 5), (2, index.M), (2, 3, index.N)):
        twice = symbolic.floordiv(a, d) + c
        yield symbolic.floordiv(twice, by)
        yield symbolic.floordiv(twice, by) * by + symbolic.mod(twice, by)
    for a, by in itertools.product([*terms, *flat], (2, 3, 4, 6, index.N, index.M, index.N * index.M)):
        yield symbolic.floordiv(a, by)
        yield symbolic.mod(a, by)
        yield symbolic.floordiv(a, by) * by + symbolic.mod(a, by)
        yield symbolic.minimum(a, by)
        yield symbolic.maximum(a, by)


def cases(rng: random.Random | None, count: int | None) -> Iterator[tuple[Any, ...]]:
    """(law, arguments): all, or a sample."""
    space = index.Space()
    index.test_what_must_be_provable()
    index.test_whole_tiles_have_no_limit()
    index.test_dims_a_reshape_leaves_alone_map_to_themselves()
    index.test_dense_arrays_merge_to_one_dim()
    index.test_what_an_index_was_made_of_has_its_variables_alone()
    every: list[tuple[Any, ...]] = [(formula_laws, f) for d in (1, 2) for f in formulas(d)]
    every += [
        (solved_is_exact, *case) for case in itertools.product((0, 1, 2, 3), (-2, 0, 1, 5), (0, 1, 4), (4, 7, 20))
    ]
    every += [(claims_hold, f, g) for f in formulas(1) for g in ("n", 3, ("*", "n", 2), ("+", "m", 1))]
    dims = list(space_dims(space))
    every += [(index.simplified_is_equal, space, d) for d in dims]
    every += [(index.proofs_hold, space, d, e) for d in dims[::3] for e in (index.N, index.N * index.M, 4, space.i)]
    factors = (2, 3, index.N, index.M, 4)
    shapes = [s for k in (1, 2, 3) for s in itertools.product(factors, repeat=k)]
    for s in shapes:
        for cut in range(1, len(s) + 1):
            merged = (symbolic.product(s[:cut]), *s[cut:])
            tail = (*s[: cut - 1], symbolic.product(s[cut - 1 :]))
            for a, b in ((s, merged), (merged, s), (tail, s), (s, (1, *tail)), ((*s, 1), tail), (merged, (*tail, 1))):
                every += [(index.reshape_is_numpys, a, b, v) for v in ({"n": 2, "m": 3}, {"n": 1, "m": 4})]
    for extent, vector, vectors in itertools.product(range(70), (4, 8), (1, 2, 4)):
        every += [(index.pieces_cover, extent, vector * vectors, vector)]
    if rng is not None:
        rng.shuffle(every)
    yield from every[:count]


def check(law: Any, *given: Any) -> None:
    """One case."""
    if law is index.pieces_cover:
        for symbolic_ in (True, False):
            law(*given, symbolic=symbolic_)
    else:
        law(*given)


def first_broken(rng: random.Random, *, end: float) -> str:
    """The first case that fails until a time of this process, or ""."""
    at: Any = "set up"
    try:
        for case in cases(rng, None):
            at = case
            check(*case)
            if time.process_time() > end:
                break
    except Exception as e:  # noqa: BLE001 whatever a wrong rule does
        return f"{type(e).__name__}: {e} at {at}"
    return ""
