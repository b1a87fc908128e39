"""Functions of whole tiles against numpy, on every machine: several types, shapes and axes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tc.tiles import array, check

SHAPES = [((32,), 0), ((24,), 0), ((8, 16), 0), ((8, 16), 1), ((5, 12), 0), ((5, 12), 1), ((4, 3, 8), 1)]


@pytest.fixture(autouse=True)
def _without_cache(monkeypatch):
    monkeypatch.setenv("GRAPHFUSE_CACHE", "0")


def numbers(elem, shape, seed=0):
    """Small numbers, which every type holds."""
    rng = np.random.default_rng(seed)
    least = 0 if elem in ("bool", "uint8", "unsigned", "uint64") else -9
    return array(rng.integers(least, 2 if elem == "bool" else 10, shape), elem)


def items(shape, axis, item):
    """A subscript with `item` for one axis."""
    return ", ".join(item if i == axis else ":" for i in range(len(shape)))


# reductions and scans


@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize("elem", ["int", "float", "half"])
def test_products(elem, shape, axis):
    x = array(np.random.default_rng(0).choice([-1, 1, 2], shape, p=[0.45, 0.45, 0.1]), elem)
    check(f"a[{items(shape, axis, '*')}]", [x], [elem], x.astype("f8").prod(axis), elem)


@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize(("kind", "function"), [("&", np.bitwise_and), ("|", np.bitwise_or), ("^", np.bitwise_xor)])
def test_bits(kind, function, shape, axis):
    for elem in ("int", "uint8", "long"):
        x = array(np.random.default_rng(1).integers(0, 100, shape) | 64, elem)
        check(f"a[{items(shape, axis, kind)}]", [x], [elem], function.reduce(x, axis), elem)
    flags = np.random.default_rng(2).random(shape) < 0.8
    logical = {"&": np.logical_and, "|": np.logical_or, "^": np.logical_xor}[kind]
    check(f"a[{items(shape, axis, kind)}]", [flags], ["bool"], logical.reduce(flags, axis), "bool")


@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize(
    ("name", "function"),
    [("cumsum", np.add), ("cumprod", np.multiply), ("cummax", np.maximum), ("cummin", np.minimum)],
)
def test_scans_from_behind(name, function, shape, axis):
    for elem in ("int", "float"):
        x = numbers(elem, shape) if name != "cumprod" else array(np.sign(numbers("int", shape) - 0.5), elem)
        want = np.flip(function.accumulate(np.flip(x, axis), axis), axis)
        check(f"{name}(a, {axis}, reverse)", [x], [elem], want, elem)
