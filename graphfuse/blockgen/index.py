"""Index arithmetic of one kernel: variables with symbolic bounds, and what may be concluded from them.

A loop variable is a symbol whose bounds are dims (`0 <= s <= seq - 1`), so `floordiv(s, seq)` is provably 0
although neither is a number. This module knows no op; `movement.py` maps indices through movement ops.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from graphfuse.symbolic import (
    FUNCTIONS,
    Atom,
    Call,
    Dim,
    Expr,
    Monomial,
    Sym,
    bounds,
    exact_div,
    floordiv,
    mod,
    product,
    substitute,
    sym,
    symbols,
    with_atoms,
)

Index = tuple[Dim, ...]
"""One index expression per dim of a tensor."""


class IndexSpace:
    """The variables in scope, their inclusive symbolic bounds, and the ranges of the kernel's symbols."""

    def __init__(self, ranges: Mapping[str, tuple[int, int]]) -> None:
        self.ranges = dict(ranges)
        self.var_bounds: dict[str, tuple[Dim, Dim]] = {}
        self._rank: dict[str, int] = {}
        self._count = 0
        self._simplified: dict[Dim, Dim] = {}
        self._nonnegative: dict[Expr, bool] = {}
        self._numeric = dict(ranges)
        """Of symbols and of variables, whose own bounds are taken without those of other variables."""
        self.positions: dict[tuple[Index, tuple[Dim, ...]], Dim] = {}
        """By index and shape: the row-major positions that were cut into digits."""
        self._origins: dict[tuple[Index, tuple[Dim, ...]], tuple[Index, tuple[Dim, ...]]] = {}
        """By index and shape: the first index and shape of the same position, which reshapes led away from."""

    def fresh(self, hint: str, lo: Dim, hi: Dim) -> Expr:
        """A new variable with inclusive bounds."""
        while (name := f"{hint}{self._count}") in self.var_bounds or name in self.ranges:
            self._count += 1
        self.var_bounds[name] = (lo, hi)
        self._numeric[name] = (bounds(lo, self.ranges)[0], max(0, bounds(hi, self.ranges)[1]))
        self._rank[name] = len(self._rank)
        return sym(name)

    def rank(self, name: str) -> int:
        """How many variables are older than this one."""
        return self._rank[name]

    def nonnegative(self, dim: Dim) -> bool:
        """Whether `dim >= 0` is proved for every value of the variables and symbols."""
        if isinstance(dim, int):
            return dim >= 0
        if dim not in self._nonnegative:  # of a dim's variables nothing new is ever learned
            self._nonnegative[dim] = self._is_nonnegative(dim)
        return self._nonnegative[dim]

    def _is_nonnegative(self, dim: Dim) -> bool:
        for _ in range(12):
            if isinstance(dim, int):
                return dim >= 0
            step = self._eliminate(dim)
            if step is None:
                if bounds(dim, self._numeric)[0] >= 0:
                    return True
                step = _without_quotient(dim)
            if step is None:
                return False
            dim = step
        return False

    def below(self, a: Dim, b: Dim) -> bool:
        """Whether `a < b` is proved."""
        return self.nonnegative(b - a - 1)

    def _eliminate(self, dim: Expr) -> Dim | None:
        """Replace one variable that occurs linearly by the bound that makes `dim` smallest."""
        # latest first: bounds name earlier variables only, and proofs must not depend on the order of a set
        for name in sorted(symbols(dim) & self.var_bounds.keys(), key=self.rank, reverse=True):
            if (c := coefficient(dim, name)) is None:
                continue
            lo, hi = self.var_bounds[name]
            if bounds(c, self.ranges)[0] >= 0:
                return substitute(dim, {name: lo})
            if bounds(c, self.ranges)[1] <= 0:
                return substitute(dim, {name: hi})
        return None

    def position(self, index: Index, shape: Sequence[Dim]) -> Dim:
        """The row-major position of `index` in `shape`: digits that a position was cut into are that position again.

        A variable over one number, as of a lane along a dim of 1, is that number.
        """
        index, shape = self.origin(index, shape)
        total, i = 0, 0
        while i < len(index):
            runs = (j for j in range(len(index), i, -1) if (index[i:j], shape[i:j]) in self.positions)
            j = next(runs, i + 1)
            total = total + self.positions.get((index[i:j], shape[i:j]), index[i]) * product(shape[j:])
            i = j
        return self._determined(self.simplify(total))

    def origin(self, index: Index, shape: Sequence[Dim]) -> tuple[Index, tuple[Dim, ...]]:
        """What `index` into `shape` was made of by reshapes, however many: itself, if by none."""
        shape = tuple(shape)
        return self._origins.get((index, shape), (index, shape))

    def follows(self, index: Index, shape: Sequence[Dim], of: Index, source: Sequence[Dim]) -> None:
        """Note that `index` into `shape` is the position that `of` is in `source`."""
        first, seen = self.origin(of, source)
        first = tuple(self._determined(i) for i in first)
        # an index of fewer variables is the same position by what is known here, and elsewhere they may not be there
        if frozenset().union(*map(symbols, first)) <= frozenset().union(*map(symbols, index)):
            for key in (index, tuple(self.simplify(i) for i in index)):
                self._origins.setdefault((key, tuple(shape)), (first, seen))

    def _determined(self, dim: Dim) -> Dim:
        """Without variables over one number, as of a lane along a dim of 1."""
        bounds = {name: self.var_bounds[name] for name in symbols(dim) & self.var_bounds.keys()}
        return substitute(dim, {name: low for name, (low, high) in bounds.items() if low == high})

    def simplify(self, dim: Dim) -> Dim:
        """An equal dim with as few floordiv and mod atoms as the bounds allow."""
        if isinstance(dim, int) or not _has_call(dim):
            return dim
        if dim not in self._simplified:
            total = with_atoms(dim, lambda a: self._simplify_call(a) if isinstance(a, Call) else sym(a.name))
            joined = self._rejoin(total)
            # what digits made together may be simpler again
            self._simplified[dim] = joined if joined == total else self.simplify(joined)
        return self._simplified[dim]

    def _simplify_call(self, call: Call) -> Dim:
        a, b = (self.simplify(d) for d in call.args)
        if call.fn in ("min", "max"):
            if self.nonnegative(b - a):
                return a if call.fn == "min" else b
            if self.nonnegative(a - b):
                return b if call.fn == "min" else a
            return FUNCTIONS[call.fn](a, b)
        return self._divided(call.fn, a, b)

    def _divided(self, fn: str, a: Dim, b: Dim) -> Dim:
        """The quotient or the remainder of two dims that are simple."""
        whole, rest = split(a, b)
        if self.nonnegative(rest) and self.below(rest, b):
            return whole if fn == "floordiv" else rest
        for unit in _common_factors(rest, b):
            # what is less than a unit decides nothing: (p*unit + r) // (q*unit) = p // q for 0 <= r < unit
            (high, low), by = split(rest, unit), exact_div(b, unit)
            assert by is not None, "a factor divides"
            if self.nonnegative(low) and self.below(low, unit):
                fewer = self._divided(fn, high, by)
                return whole + fewer if fn == "floordiv" else fewer * unit + low
        return whole + floordiv(rest, b) if fn == "floordiv" else mod(rest, b)

    def _rejoin(self, dim: Dim) -> Dim:
        """Undo divisions whose digits are added back: `b*floordiv(a, b) + mod(a, b) = a`, and so for inner digits."""
        if isinstance(dim, int):
            return dim
        for monomial, c in dim.terms:
            for atom, power in monomial:
                if not (isinstance(atom, Call) and atom.fn == "mod" and power == 1):
                    continue
                a, b = atom.args
                others: Dim = c
                for other, p in monomial:
                    if other != atom:
                        others = others * _term(((other, p),), 1)
                low = others * _term(((atom, 1),), 1)
                for high, joined in self._partners(dim, a, b):
                    rest = dim - low - others * b * high
                    if _terms_left(rest) < _terms_left(dim) - 1:
                        return self._rejoin(rest + others * joined)
        return dim

    def _partners(self, dim: Expr, a: Dim, b: Dim) -> Iterator[tuple[Dim, Dim]]:
        """Pairs (high digit, what it makes with `mod(a, b)`) that may occur in `dim`."""
        divisions = [(a, b), *_of_one_division(a, b)]
        quotients = [floordiv(*division) for division in divisions]
        yield from ((quotient, a) for quotient in quotients)
        quotients += [self._divided("floordiv", *division) for division in divisions]
        yield from ((quotient, a) for quotient in quotients[len(divisions) :])
        for monomial, _ in dim.terms:
            for atom, _ in monomial:
                if isinstance(atom, Call) and atom.fn == "mod" and atom.args[0] in quotients:
                    yield _term(((atom, 1),), 1), mod(a, b * atom.args[1])


def _without_quotient(dim: Expr) -> Dim | None:
    """A dim that is at least 0 just where this one is, without a floordiv(a, b): that is at least n where a >= n b."""
    for monomial, c in dim.terms:
        if len(monomial) == 1 and abs(c) == 1 and isinstance(atom := monomial[0][0], Call) and atom.fn == "floordiv":
            (a, b), rest = atom.args, dim - _term(monomial, c)
            if isinstance(b, int) and b > 0 and monomial[0][1] == 1:
                return a + rest * b if c == 1 else (rest + 1) * b - a - 1
    return None


def _common_factors(a: Dim, b: Dim) -> list[Dim]:
    """What divides `b` and some term of `a`, largest of each term: neither 1 nor `b`."""
    out: dict[Dim, None] = {}
    divisor: list[tuple[dict[Atom, int], int]] = (
        [(dict(m), c) for m, c in b.terms] if isinstance(b, Expr) else [({}, b)]
    )
    for monomial, c in a.terms if isinstance(a, Expr) else ():
        powers = ((atom, min(p, *(m.get(atom, 0) for m, _ in divisor))) for atom, p in monomial)
        common = _term(tuple((atom, p) for atom, p in powers if p), math.gcd(c, *(k for _, k in divisor)))
        if common not in (1, b):
            out[common] = None
    return list(out)


def _of_one_division(a: Dim, b: Dim) -> Iterator[tuple[Dim, Dim]]:
    """`floordiv(a, b)` for `a = floordiv(x, d) + rest`: `floordiv(x + d*rest, d*b)`."""
    for monomial, c in a.terms if isinstance(a, Expr) else ():
        if c == 1 and len(monomial) == 1 and monomial[0][1] == 1:
            (atom, _) = monomial[0]
            if isinstance(atom, Call) and atom.fn == "floordiv":
                x, d = atom.args
                yield x + (a - _term(monomial, 1)) * d, b * d
                return


def _terms_left(dim: Dim) -> int:
    if isinstance(dim, int):
        return 1 if dim else 0
    return len(dim.terms)


def split(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    """`(q, r)` with `a = q*b + r`, where q takes every term of a that b divides."""
    if isinstance(a, int):
        return (a // b, a % b) if isinstance(b, int) else (0, a)
    whole: Dim = 0
    rest: Dim = 0
    for monomial, c in a.terms:
        term = _term(monomial, c)
        q = exact_div(term, b)
        if q is None and isinstance(b, int) and not monomial:
            whole, rest = whole + c // b, rest + c % b
        elif q is None:
            rest = rest + term
        else:
            whole = whole + q
    return whole, rest


def _term(monomial: Monomial, c: int) -> Dim:
    return Expr(((monomial, c),)) if monomial else c


def _has_call(dim: Expr) -> bool:
    return any(isinstance(atom, Call) for monomial, _ in dim.terms for atom, _ in monomial)


def coefficient(dim: Dim, name: str) -> Dim | None:
    """c such that `dim = c * name + (terms without name)`, or None when `dim` is not linear in it."""
    if isinstance(dim, int) or name not in symbols(dim):
        return 0
    total: Dim = 0
    for monomial, c in dim.terms:
        power = 0
        others: Dim = c
        for atom, p in monomial:
            if isinstance(atom, Sym) and atom.name == name:
                power = p
            elif name in symbols(_term(((atom, 1),), 1)):
                return None
            else:
                others = others * _term(((atom, p),), 1)
        if power > 1:
            return None
        if power == 1:
            total = total + others
    return total


def strides_of(shape: Sequence[Dim]) -> Index:
    """Row-major strides in elements."""
    return tuple(product(shape[i + 1 :]) for i in range(len(shape)))


def linear(index: Sequence[Dim], strides: Sequence[Dim]) -> Dim:
    """The offset of an index: its dot product with the strides."""
    total: Dim = 0
    for i, s in zip(index, strides, strict=True):
        total = total + i * s
    return total


def unravel(flat: Dim, shape: Sequence[Dim], space: IndexSpace) -> Index:
    """The index whose row-major position in `shape` is `flat`."""
    out: list[Dim] = []
    for i, stride in enumerate(strides_of(shape)):
        if shape[i] == 1:
            out.append(0)
            continue
        digit = space.simplify(floordiv(flat, stride))
        if any(d != 1 for d in shape[:i]):
            digit = space.simplify(mod(digit, shape[i]))
        out.append(digit)
    space.positions[tuple(out), tuple(shape)] = flat
    return tuple(out)


def reshape_index(index: Index, shape: Sequence[Dim], source: Sequence[Dim], space: IndexSpace) -> Index:
    """The index into `source` of the element at `index` of the same data seen as `shape`.

    Both shapes are cut into the shortest runs of dims with equal products, so that dims the reshape leaves
    alone map to themselves. The way back is the index that one came from.
    """
    first, seen = space.origin(index, shape)
    if seen == tuple(source):
        return first
    out: list[Dim] = []
    i = j = 0
    while j < len(source):
        i_end, j_end = _run(shape, source, i, j)
        run_shape, run_source = shape[i:i_end], source[j:j_end]
        if len(run_shape) == 1 and len(run_source) == 1:
            out.append(index[i])
        else:
            out += unravel(space.position(index[i:i_end], run_shape), run_source, space)
        i, j = i_end, j_end
    space.follows(tuple(out), source, index, shape)
    return tuple(out)


def _run(shape: Sequence[Dim], source: Sequence[Dim], i: int, j: int) -> tuple[int, int]:
    """The ends of the shortest runs from (i, j), of `source` not empty, whose products are equal."""
    a: Dim = 1
    b, i_end, j_end = source[j], i, j + 1
    # products that cannot be compared: one run of everything left
    while a != b and (i_end < len(shape) or j_end < len(source)):
        if j_end == len(source) or (i_end < len(shape) and _grows_first(a, b)):
            a, i_end = a * shape[i_end], i_end + 1
        else:
            b, j_end = b * source[j_end], j_end + 1
    return i_end, j_end


def _grows_first(a: Dim, b: Dim) -> bool:
    """Whether the side with product `a` should take the next dim: it divides the other, or is smaller."""
    if isinstance(a, int) and isinstance(b, int):
        return a < b
    if exact_div(b, a) is not None:
        return True
    return exact_div(a, b) is None and bounds(a, {})[0] <= bounds(b, {})[0]
