"""Symbolic dims by example; the laws are in tests/properties/test_symbolic_laws.py."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest

from graphfuse import symbolic
from graphfuse.errors import ParseError
from graphfuse.symbolic import (
    bounds,
    ceildiv,
    exact_div,
    floordiv,
    maximum,
    minimum,
    mod,
    parse_dim,
    solved,
    substitute,
    sym,
)

N, M = sym("n"), sym("m")

SAME = [
    (N + N, "2*n"),
    ((N + 1) * (N - 1), "n*n - 1"),
    (N - M, "-1*m + n"),
    (floordiv(6 * N + 4, 2), "3*n + 2"),
    (floordiv(4 * N + 7, 4), "n + 1"),
    (floordiv(N + 7, 2), "floordiv(n + 1, 2) + 3"),
    (floordiv(N * M, M), "n"),
    (ceildiv(N, 8), "floordiv(n + 7, 8)"),
    (mod(4 * N + 7, 4), "3"),
    (mod(N * M, N), "0"),
    (mod(5 * N + 9, 4), "mod(5*n + 1, 4)"),
    (minimum(N, N + 1), "n"),
    (maximum(N, N + 1), "n + 1"),
    (maximum(M, N), "max(m, n)"),
    (exact_div(N * N - 1, N + 1), "n - 1"),
    (exact_div(N + 1, 2), "None"),
    (exact_div(M * (N + 2 * M), N + 2 * M), "m"),
    (substitute(N * N, {"n": M + 1}), "m*m + 2*m + 1"),
    (substitute(floordiv(N, 2), {"n": 2 * M}), "m"),
    (substitute(N, {"n": 3}) + 4, "7"),
]


@pytest.mark.parametrize(("dim", "text"), SAME, ids=[t for _, t in SAME])
def test_canonical_form(dim, text):
    assert str(dim) == text


def test_static_means_int():
    assert N - N == 0
    assert isinstance(N - N + 3, int)
    assert isinstance(N * 0, int)
    assert N != 0


BOUNDS = [
    (N + 1, (2, 9)), (2 * N - M, (-8, 14)), (N * M, (2, 80)), (floordiv(N, 3), (0, 2)), (mod(N, 100), (1, 8)),
    (mod(N, 3), (0, 2)), (minimum(N, M), (1, 8)), (maximum(N, M), (2, 10)), (sym("other"), (0, symbolic.INF)),
]  # fmt: skip


@pytest.mark.parametrize(("dim", "want"), BOUNDS, ids=[str(d) for d, _ in BOUNDS])
def test_bounds(dim, want):
    assert bounds(dim, {"n": (1, 8), "m": (2, 10)}) == want


def test_order_is_proved_not_guessed():
    ranges = {"n": (1, 8)}
    assert symbolic.is_at_most(N, 8, ranges)
    assert symbolic.is_at_most(N, 2 * N, ranges)
    assert not symbolic.is_at_most(N, 7, ranges)
    assert not symbolic.is_at_most(N, M, ranges)


BAD = [
    ("", "dim '': expected a number or a name, got ''"),
    ("n +", "dim 'n +': expected a number or a name, got ''"),
    ("n &", "dim 'n &': unexpected character '&'"),
    ("(n", "dim '(n': expected ')', got ''"),
    ("n n", "dim 'n n': unexpected 'n'"),
    ("floordiv(n, 0)", "dim 'floordiv(n, 0)': expected a positive divisor, got 0"),
    ("mod(n, -2)", "dim 'mod(n, -2)': expected a positive divisor, got -2"),
    ("(" * 200, "a dim is nested deeper than 100"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_text_that_is_no_dim(text, message):
    with pytest.raises(ParseError) as e:
        parse_dim(text)
    assert e.value.message == message


def test_a_symbol_may_be_named_like_a_function():
    assert parse_dim(str(sym("min") + 1)) == sym("min") + 1


def test_evaluating_needs_every_symbol():
    with pytest.raises(KeyError, match="m"):
        symbolic.evaluate(N + M, {"n": 1})


def test_bounds_of_what_is_left_of_a_divisor():
    """A remainder is less than its divisor, also where that is a symbol: programs in reverse begin at 0."""
    n, m, x = sym("n"), sym("m"), sym("x")
    left = n - 1 - mod(x, n)
    ranges = {"n": (1, 8), "m": (2, 10), "x": (0, 1000)}
    assert bounds(left, ranges) == (0, 7)
    assert bounds(64 * left + m, ranges) == (2, 64 * 7 + 10)
    assert bounds(mod(x, n) * m - n * m, ranges) == (-80, -2)
    assert bounds(minimum(64 * left, m), ranges) == (0, 10)
    assert bounds(sym("d") * mod(x, n), ranges | {"d": (-3, 4)}) == (-21, 28), "times what may be of either sign"


def test_what_divides_is_a_polynomial():
    assert exact_div(N * M + N, M) is None
    assert exact_div(N, N * N) is None
    assert floordiv(8 * N + M, 4) == 2 * N + floordiv(M, 4)


def test_bounds_of_a_symbol_by_those_of_a_dim():
    assert solved(2 * N + 1, 0, 9) == ("n", 0, 4)
    for dim in (5 - 2 * N, N * N, N + M, floordiv(N, 2)):
        assert solved(dim, 0, 9) is None


def test_what_another_process_made_is_equal_to_what_is_made_here():
    """Texts have other hashes there."""
    code = "import pickle; from graphfuse.symbolic import sym; print(pickle.dumps(2 * sym('n') + 1).hex())"
    made = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        made.append(pickle.loads(bytes.fromhex(said.stdout)))
    assert made[0] == made[1] == 2 * sym("n") + 1
    assert {made[0] - made[1], made[0] - sym("n")} == {0, sym("n") + 1}


def test_dims_have_a_size():
    power = symbolic.product([N] * 64)
    with pytest.raises(symbolic.DimSizeError, match="a dim to the power of 65"):
        power * N
    wide = sum((sym(f"a{i}") for i in range(200)), start=sym("b"))
    with pytest.raises(symbolic.DimSizeError, match="a dim that is a product of 201 by 201 terms"):
        wide * wide
