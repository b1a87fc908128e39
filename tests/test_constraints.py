"""What is proved of dims, what is left to check, and what an error says."""

from __future__ import annotations

import pytest

from graphfuse.compiler import signature_of
from graphfuse.constraints import Constraint, decided, is_nonnegative, listening, require
from graphfuse.errors import VerifyError
from graphfuse.ir.parser import parse
from graphfuse.symbolic import parse_dim

RANGES = {"n": (1, 64), "m": (1, 64), "z": (0, 8), "big": (70, 80)}


@pytest.mark.parametrize(
    ("kind", "a", "b", "verdict"),
    [
        ("equal", "n", "n", True),
        ("equal", "n", "m", None),
        ("equal", "n", "big", False),
        ("at_most", "n", "big", True),
        ("at_most", "big", "n", False),
        ("at_most", "n", "m", None),
        ("at_most", "min(n, m) + max(min(m, n) - min(n, m), 0)", "n", True),
        ("at_most", "4*floordiv(n, 4)", "n", True),
        ("divides", "4", "4*n", True),
        ("divides", "4", "n", None),
        ("divides", "4", "6", False),
        ("divides", "n", "n", True),
        ("divides", "z", "z", None),
        ("stretches", "n", "big", None),
        ("stretches", "big", "n", False),
    ],
)
def test_decided(kind, a, b, verdict):
    assert decided(kind, parse_dim(a), parse_dim(b), RANGES) is verdict


@pytest.mark.parametrize(
    ("dim", "proved"),
    [
        ("n - min(n, m)", True),
        ("max(n, m) - m", True),
        ("n - max(min(n, 5), 0) - max(min(n, 9) - max(min(n, 5), 0), 0)", True),
        ("n - 3*floordiv(n + 2, 3) + 2", True),
        ("n - 3*floordiv(n + 2, 3) + 1", False),
        ("n - max(n, m)", False),
    ],
)
def test_proofs_by_cases(dim, proved):
    assert is_nonnegative(parse_dim(dim), RANGES) is proved


@pytest.mark.parametrize(
    ("constraint", "values", "text"),
    [
        (Constraint("equal", parse_dim("2*n"), 6, "k", "node 'p' (MatMul)"), {"n": 4},
         "node 'p' (MatMul): k: expected 2*n = 6, found 8"),
        (Constraint("equal", parse_dim("n"), parse_dim("m")), {"n": 4, "m": 5},
         "expected dims n and m to be equal, found 4 and 5"),
        (Constraint("at_most", 5, parse_dim("n")), {"n": 4}, "expected n to be at least 5, found 4"),
        (Constraint("at_most", parse_dim("n"), 5), {"n": 6}, "expected n to be at most 5, found 6"),
        (Constraint("divides", 4, parse_dim("n")), {"n": 6}, "expected n to be a multiple of 4, found 6"),
        (Constraint("stretches", parse_dim("n"), 8), {"n": 4}, "expected n to be 1 or 8, found 4"),
        (Constraint("equal", parse_dim("floordiv(8, n)"), 2), {"n": 0},
         "expected floordiv(8, n) = 2, found a division by 0"),
    ],
)  # fmt: skip
def test_what_an_error_says(constraint, values, text):
    assert not constraint.holds(values)
    assert constraint.unmet(values) == text


def test_only_what_no_shape_fulfils_is_an_error_without_a_listener():
    n = parse_dim("n")
    require("equal", n, 5)
    require("stretches", n, n + 1)
    with pytest.raises(VerifyError, match="k: expected dims n and n \\+ 1 to be equal"):
        require("equal", n, n + 1, "k")
    with pytest.raises(VerifyError, match="they differ"):
        require("equal", 4, 5, "k", "they differ")
    heard: list[Constraint] = []
    with listening(heard.append):
        require("equal", n, n)
        require("at_most", n, n + 1)
        require("equal", n, 5, "k")
    assert heard == [Constraint("equal", n, 5, "k")]


def test_a_function_of_any_origin_has_the_constraints_of_its_ops():
    func = parse("""
        func @main(%x: tensor<(n)x16xf32>, %y: tensor<(m)xf32>)
          {inputs = ["x", "y"], outputs = ["z"]} dims (m in 4..9, n in 1..64) {
          %r = graph.reshape(%x) {shape = [4, 64]} : tensor<4x64xf32>
          %s = graph.slice(%y) {sizes = [5], starts = [0], steps = [1]} : tensor<5xf32>
          %t = graph.slice(%y) {sizes = [4], starts = [0], steps = [1]} : tensor<4xf32>
          return(%r)
        }
    """)
    n, m = parse_dim("n"), parse_dim("m")
    assert [(c.kind, c.a, c.b) for c in signature_of(func).constraints] == [("equal", 16 * n, 256), ("at_most", 5, m)]
