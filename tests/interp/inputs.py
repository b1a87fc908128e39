"""Inputs for any function, and runs of it: what the text tests and the laws feed the interpreters."""

from __future__ import annotations

import numpy as np

from graphfuse.errors import InputError
from graphfuse.interp import block as block_interp
from graphfuse.interp import elementwise as ew
from graphfuse.interp import graph as graph_interp
from graphfuse.ir.core import walk
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.types import Ptr, Scalar, Tensor, Tile
from graphfuse.symbolic import Expr, evaluate, symbols

HALF = 2.0**-8
"""What results in f16 may be off by, as a part of the largest."""
MEMORY = 4096
"""Elements behind each pointer of a block function."""


def symbol_names(func):
    """Every symbol of a function's parameters, attributes and types, except those that a loop binds."""
    names, bound = set(), set()

    def visit(attr):
        if isinstance(attr, tuple):
            for a in attr:
                visit(a)
        elif isinstance(attr, Expr):
            names.update(symbols(attr))

    for v in func.params:
        visit(getattr(v.type, "shape", ()))
    for attr in func.attrs.values():
        visit(attr)
    for op in walk(func.body):
        bound.update([op.attrs["symbol"]] if "symbol" in op.attrs else op.attrs.get("names", ()))
        bound.update(op.attrs.get("symbols", ()))
        for attr in op.attrs.values():
            visit(attr)
        for t in op.types:
            visit(t.shape if isinstance(t, Tensor | Tile) else ())
    names.update(v.hint for v in func.params if isinstance(v.type, Scalar))
    return names - bound


def symbol_choices(func):
    """A few values for every symbol, inside the declared ranges."""
    names = sorted(symbol_names(func) | set(func.ranges))
    for base in (1, 2, 5):
        ranges = func.ranges
        yield {n: min(max(base + i, ranges.get(n, (1, 64))[0]), ranges.get(n, (1, 64))[1]) for i, n in enumerate(names)}


def random_array(rng, shape, elem):
    """Data that is neither all alike nor all positive; integers are small enough to serve as indices."""
    if elem.is_float:
        return rng.uniform(-2, 2, shape).astype(numpy_dtype(elem))
    if elem.name == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    low = -1 if elem.is_signed else 0
    return ew.cast(np.asarray(rng.integers(low, 2, shape), np.int64), elem)


def observe(func, values, seed=0, *, wide=False):
    """Everything a run shows: results, and for a block function memory after each of its programs too."""
    rng = np.random.default_rng(seed)
    if all(isinstance(v.type, Tensor) for v in func.params) and "grid" not in func.attrs and not _is_block(func):
        shapes = [tuple(evaluate(d, values) for d in v.type.shape) for v in func.params]
        arrays = [random_array(rng, s, v.type.elem) for s, v in zip(shapes, func.params, strict=True)]
        return list(graph_interp.run(func, *arrays, wide=wide, symbols=values))
    memory = [random_array(rng, MEMORY, v.type.elem) for v in func.params if isinstance(v.type, Ptr)]
    results = block_interp.launch(func, memory, values)
    return [x for of_program in results for x in of_program if not isinstance(x, block_interp.Pointer)] + memory


def _is_block(func):
    return any(op.kind.name.startswith("block.") for op in func.body.ops)


def observations(func, *, wide=False):
    """What every choice of symbols shows; choices that do not fit the function (a slice too long) show nothing."""
    out, why = [], None
    for values in symbol_choices(func):
        try:
            out.append((values, observe(func, values, wide=wide)))
        except InputError as e:
            why = e
    assert out, f"@{func.name}: no choice of symbols fits: {why}"
    return out


def assert_same_numbers(before, after, *, exact=False, folded=False, halves=False):
    """The two functions compute the same, in their own precision and, more closely, in f64.

    Not in f64 where the second has `folded` what the first computes of constants: folding rounds to the element.
    Where the second has `halves`, f32 results are as close as those.
    """
    for wide in (False,) if folded or halves else (False, True):
        want, got = observations(before, wide=wide), observations(after, wide=wide)
        assert [v for v, _ in want] == [v for v, _ in got]
        for (_, a), (_, b) in zip(want, got, strict=True):
            assert len(a) == len(b)
            for x, y in zip(a, b, strict=True):
                assert_close(x, y, exact=exact, wide=wide, steps=HALF if halves else 0)


def assert_close(x, y, *, exact=False, wide=False, steps=0):
    """Equal for integers; for floats within some rounding steps of the largest value, or equal in every bit."""
    assert (x.shape, x.dtype) == (y.shape, y.dtype)
    if exact:
        assert x.tobytes() == y.tobytes()
        return
    elem = ew.elem_of(x.dtype)
    a, b = x.astype(np.float64), y.astype(np.float64)
    if not elem.is_float:
        np.testing.assert_array_equal(a, b)
        return
    steps = steps or {"f64": 2.0**-40, "f32": 2.0**-19, "f16": HALF, "bf16": 2.0**-5}.get(elem.name, 0.5)
    top = np.max(np.abs(a[np.isfinite(a)]), initial=1e-30)
    np.testing.assert_allclose(a, b, rtol=steps, atol=(2.0**-40 if wide else steps) * top)
