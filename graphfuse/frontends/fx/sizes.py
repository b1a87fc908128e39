"""Sizes: torch's SymInts (sympy expressions) as dims, and how a tensor lies in memory.

A symbol keeps its name: `s77` of a shape environment is the symbol `s77` of the function. A whole number that dims have
no words for, such as `TruncToInt(1.5*ToFloat(s77))`, is a symbol of its own: Python computes it when the graph runs.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import sympy
import torch

from graphfuse.symbolic import Dim, Expr, exact_div, floordiv, maximum, minimum, mod, product, sym, symbols

LARGEST = (1 << 31) - 1
"""A dim without an upper bound: kernels count elements of one dim in 32 bits."""


class UnknownSize(Exception):  # noqa: N818
    """What is no whole number."""


def dim_of(size: Any) -> Dim:
    """An int or SymInt as a dim."""
    if isinstance(size, int):
        return size
    if isinstance(size, torch.SymInt):
        return dim_of_expr(size.node.expr)
    raise UnknownSize(f"{size} is no size")


def dims_of(sizes: Iterable[Any]) -> tuple[Dim, ...]:
    """A shape as dims."""
    return tuple(dim_of(s) for s in sizes)


def dim_of_expr(expr: Any) -> Dim:
    """A sympy expression as a dim."""
    if expr.is_Integer:
        return int(expr)
    if expr.is_Symbol:
        return sym(str(expr))
    if expr.is_Mul:
        return _product(expr.args)
    if expr.is_Pow and expr.args[1].is_Integer and 0 < int(expr.args[1]) <= 16:
        return product([dim_of_expr(expr.args[0])] * int(expr.args[1]))
    make = _MADE.get(type(expr).__name__)
    return _opaque(expr) if make is None else make(*map(dim_of_expr, expr.args))


_MADE: Mapping[str, Callable[..., Dim]] = {
    "Add": lambda *dims: sum(dims, 0),
    "Max": lambda *dims: functools.reduce(maximum, dims),
    "Min": lambda *dims: functools.reduce(minimum, dims),
    "Identity": lambda a: a,
    "ModularIndexing": lambda a, b, c: mod(floordiv(a, b), c),
    **dict.fromkeys(("FloorDiv", "CleanDiv"), floordiv),
    **dict.fromkeys(("Mod", "PythonMod"), mod),
}
"""Dims by the name of the expression's class, of what it is made of."""


def _opaque(expr: Any) -> Dim:
    """A number that dims cannot express as a symbol."""
    if expr.is_integer is False:  # None where sympy does not know, as of bitwise functions
        raise UnknownSize(f"{expr} is not known to be whole")
    return sym(opaque_name(expr))


def opaque_name(expr: Any) -> str:
    """What the symbol of an expression is called: the same everywhere."""
    text = str(expr)
    return f"n_{re.sub(r'[^A-Za-z0-9]+', '_', text)[:32].strip('_')}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def expressions(value: Any) -> dict[str, Any]:
    """The expression that each symbol in the dim of a SymInt stands for."""
    return _expressions(value.node.expr) if isinstance(value, torch.SymInt) else {}


@functools.lru_cache(4096)
def _expressions(expr: Any) -> dict[str, Any]:
    found = {str(s): s for s in expr.free_symbols}
    dim = dim_of_expr(expr)
    used = symbols(dim) if isinstance(dim, Expr) else frozenset[str]()
    if not used <= found.keys():
        parts = sympy.preorder_traversal(expr)
        found.update((opaque_name(p), p) for p in parts if p.is_integer is not False and not p.is_Atom)
    return {name: e for name, e in found.items() if name in used}


def _product(args: Sequence[Any]) -> Dim:
    out: Dim = 1
    divisor = 1
    for a in args:
        if a.is_Rational and not a.is_Integer:
            out, divisor = out * int(a.p), divisor * int(a.q)
        else:
            out = out * dim_of_expr(a)
    if divisor == 1:
        return out
    exact = exact_div(out, divisor)
    return exact if exact is not None else _opaque(sympy.Mul(*args))


def ranges_of(value: Any) -> dict[str, tuple[int, int]]:
    """The bounds of every symbol in a SymInt."""
    out: dict[str, tuple[int, int]] = {}
    for name, expr in expressions(value).items():
        bounds = value.node.shape_env.bound_sympy(expr)
        out[name] = (_clamped(bounds.lower, 0), _clamped(bounds.upper, LARGEST))
    return out


def _clamped(bound: Any, otherwise: int) -> int:
    return max(0, min(int(bound), LARGEST)) if getattr(bound, "is_Integer", False) else otherwise


class Equal:
    """Dims that torch's guards promise to be equal, such as `s0*s1` and `s2*s3`: each is written as one of them."""

    def __init__(self, sizes: Iterable[Any]) -> None:
        """Of the shape environment of these SymInts, as far as their symbols tell."""
        known, self.rules = set[str](), dict[Dim, Dim]()
        env = None
        for size in sizes:
            env = size.node.shape_env
            known |= expressions(size).keys()
        if env is None:
            return
        for guard in env.guards:
            # where one of them is a symbol, torch has replaced it everywhere
            if isinstance(guard.expr, sympy.Eq) and isinstance(expr := env.replace(guard.expr), sympy.Eq):
                self._add(expr.lhs, expr.rhs, known)

    def _add(self, lhs: Any, rhs: Any, known: Set[str]) -> None:
        try:
            pair = sorted((self(dim_of_expr(lhs)), self(dim_of_expr(rhs))), key=lambda d: (len(str(d)), str(d)))
        except UnknownSize:
            return
        for to, of in (pair, reversed(pair)):
            if isinstance(of, Expr) and of != to and not (isinstance(to, Expr) and not symbols(to) <= known):
                self.rules[of] = to
                return

    def __call__(self, dim: Dim) -> Dim:
        """The dim as it is written."""
        for of, to in self.rules.items():
            if isinstance(dim, Expr):
                dim = _replaced(dim, of, to)
        return dim


def _replaced(dim: Expr, of: Dim, to: Dim) -> Dim:
    if (times := exact_div(dim, of)) is not None:
        return times * to
    out: Dim = 0
    for monomial, c in dim.terms:
        term: Dim = Expr(((monomial, c),)) if monomial else c
        times = exact_div(term, of)
        out = out + (term if times is None else times * to)
    return out


def dense_order(sizes: Sequence[Dim], strides: Sequence[Dim]) -> tuple[int, ...] | None:
    """The axes from slowest to fastest of a tensor that fills its memory without gaps; None if it does not.

    Axes of size 1 have no stride of their own and stay where they are.
    """
    axes = [i for i, d in enumerate(sizes) if d != 1]
    if any(d == 0 for d in sizes):
        return tuple(range(len(sizes)))
    pending, ordered, expected = list(axes), [], 1
    while pending:
        found = next((i for i in reversed(pending) if _is(strides[i], expected)), None)
        if found is None:
            return None
        pending.remove(found)
        ordered.append(found)
        expected = expected * sizes[found]
    ordered.reverse()
    if ordered == axes:
        return tuple(range(len(sizes)))
    ones = [i for i, d in enumerate(sizes) if d == 1]
    return (*ones, *ordered)


@dataclass(frozen=True)
class Stored:
    """How a tensor lies in memory: as a part of a dense array."""

    shape: tuple[Dim, ...]
    """Of the array."""
    axes: tuple[int, ...]
    """The tensor's axis along each of the array's. Others have size 1, or are repeated."""
    starts: tuple[int, ...]
    """Where the tensor begins along each of the array's axes."""
    step: int = 1
    """From one element to the next along the last axis."""
    lead: int = 0
    """Elements of the array before the tensor's first."""


def stored_as(sizes: Sequence[Dim], strides: Sequence[Dim], offset: int = 0) -> Stored | None:
    """How a tensor lies that begins `offset` elements behind the first of its memory.

    None if elements overlap, strides with gaps are no numbers, or rows begin at odd places.
    """
    if (order := dense_order(sizes, strides)) is not None:
        return Stored(tuple(sizes[i] for i in order), order, (0,) * len(order))
    axes = [i for i, d in enumerate(sizes) if d != 1 and strides[i] != 0]
    numbers = {i: s for i in axes if isinstance(s := strides[i], int) and s > 0}
    if len(numbers) < len(axes):
        return None
    axes.sort(key=lambda i: -numbers[i])
    if not axes:
        return Stored((), (), ())
    first, *others = axes
    units, step = [*(numbers[i] for i in axes[:-1]), 1], numbers[axes[-1]]
    shape: list[Dim] = [sizes[first] if others else (sizes[first] - 1) * step + 1]
    starts, lead, place = [0], 0, offset
    for axis, (whole, unit) in zip(others, pairwise(units), strict=True):
        size, by = sizes[axis], step if unit == 1 else 1
        count, rest = divmod(whole, unit)
        if not isinstance(size, int) or rest or (extent := (size - 1) * by + 1) > count:
            return None
        place %= whole
        shape.append(count)
        starts.append(place // unit if place // unit + extent <= count else 0)
        lead += starts[-1] * unit
    return Stored(tuple(shape), tuple(axes), tuple(starts), step, lead)


def _is(stride: Dim, expected: Dim) -> bool:
    """Whether a stride is the product of the faster dims; torch writes `max(1, s)` for a dim that may be 0."""
    if stride == expected:
        return True
    if not isinstance(stride, Expr):
        return False
    return str(stride).startswith("max(1, ") and stride == maximum(1, expected)
