"""Symbolic dims: integer polynomials over named symbols, in canonical form, with provable bounds.

`Dim = int | Expr`: arithmetic collapses to `int` whenever the result is constant, so a static dim is
always a plain int and two equal polynomials always compare equal. Atoms besides symbols are
`floordiv`, `mod`, `min`, `max` of dims. This module owns no tensor and no IR.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from graphfuse.errors import ParseError, UnsupportedError

MOST_TERMS, MOST_POWER = 1 << 14, 64
"""Of a product: models that square a dim again and again would have more terms than there is memory for."""


class DimSizeError(UnsupportedError):
    """Arithmetic on dims has too large a result."""


@dataclass(frozen=True, slots=True)
class Sym:
    """A named unknown, such as `batch`."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Call:
    """An opaque integer function of dims: `floordiv`, `mod`, `min` or `max`."""

    fn: str
    args: tuple[Dim, ...]

    def __str__(self) -> str:
        return f"{self.fn}({', '.join(map(str, self.args))})"


Atom: TypeAlias = Sym | Call
Monomial: TypeAlias = tuple[tuple[Atom, int], ...]
"""Atoms with their powers, sorted by text. The empty monomial is 1."""


class Expr:
    """A polynomial with at least one symbol. Immutable; build it from `sym` and arithmetic."""

    __slots__ = ("_hash", "_text", "terms")

    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms
        self._hash = hash(terms)
        self._text = ""

    def __reduce__(self) -> tuple[type[Expr], tuple[tuple[tuple[Monomial, int], ...]]]:
        return Expr, (self.terms,)  # another process has other hashes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and self._hash == other._hash and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        if not self._text:
            text = " + ".join(_term_text(m, c) for m, c in self.terms)
            self._text = text.replace("+ -", "- ")
        return self._text

    def __repr__(self) -> str:
        return f"<{self}>"

    def __add__(self, other: Dim) -> Dim:
        if type(other) is int:
            return self._plus(other)
        return _poly(_merge(self.terms, _terms(other), 1))

    __radd__ = __add__

    def __sub__(self, other: Dim) -> Dim:
        if type(other) is int:
            return self._plus(-other)
        return _poly(_merge(self.terms, _terms(other), -1))

    def __rsub__(self, other: Dim) -> Dim:
        return _poly(_merge(_terms(other), self.terms, -1))

    def _plus(self, number: int) -> Expr:
        """With a number added, whose term is the last one."""
        if not number:
            return self
        *others, (last, c) = self.terms
        if last:
            return Expr((*self.terms, ((), number)))
        return Expr((*others, (last, c + number)) if c + number else tuple(others))

    def __neg__(self) -> Dim:
        return self * -1

    def __mul__(self, other: Dim) -> Dim:
        if type(other) is int and other:
            return self if other == 1 else Expr(tuple([(m, c * other) for m, c in self.terms]))
        if len(self.terms) * len(_terms(other)) > MOST_TERMS:
            raise DimSizeError(f"a dim that is a product of {len(self.terms)} by {len(_terms(other))} terms")
        out: dict[Monomial, int] = {}
        for m1, c1 in self.terms:
            for m2, c2 in _terms(other):
                m = _mono_mul(m1, m2)
                out[m] = out.get(m, 0) + c1 * c2
        return _poly(out)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floordiv(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return mod(self, other)

    def __rmod__(self, other: Dim) -> Dim:
        return mod(other, self)


Dim: TypeAlias = int | Expr


def sym(name: str) -> Expr:
    """The dim that stands for `name`."""
    return of_atom(Sym(name))


def of_atom(atom: Atom) -> Expr:
    """The dim that is one symbol, or one call."""
    return Expr(((((atom, 1),), 1),))


def _terms(dim: Dim) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(dim, Expr):
        return dim.terms
    return (((), int(dim)),) if dim else ()


def _merge(a: tuple[tuple[Monomial, int], ...], b: tuple[tuple[Monomial, int], ...], sign: int) -> dict[Monomial, int]:
    out = dict(a)
    for m, c in b:
        out[m] = out.get(m, 0) + sign * c
    return out


def _mono_key(m: Monomial) -> tuple[int, str]:
    """Higher degree first, then text: the order in which terms print."""
    return (-sum(p for _, p in m), "*".join(f"{a}^{p}" for a, p in m))


def _poly(terms: Mapping[Monomial, int]) -> Dim:
    kept = [(m, c) for m, c in terms.items() if c]
    if not kept:
        return 0
    if len(kept) == 1:
        return kept[0][1] if not kept[0][0] else Expr((kept[0],))
    return Expr(tuple(sorted(kept, key=lambda t: _mono_key(t[0]))))


def _mono_mul(a: Monomial, b: Monomial) -> Monomial:
    if not a or not b:
        return a or b
    powers = dict(a)
    for atom, p in b:
        powers[atom] = powers.get(atom, 0) + p
    if max(powers.values()) > MOST_POWER:
        raise DimSizeError(f"a dim to the power of {max(powers.values())}")
    return tuple(sorted(powers.items(), key=lambda t: str(t[0])))


def _mono_div(a: Monomial, b: Monomial) -> Monomial | None:
    powers = dict(a)
    for atom, p in b:
        left = powers.get(atom, 0) - p
        if left < 0:
            return None
        powers[atom] = left
    return tuple((atom, p) for atom, p in sorted(powers.items(), key=lambda t: str(t[0])) if p)


def _term_text(m: Monomial, c: int) -> str:
    factors = [str(a) if p == 1 else "*".join([str(a)] * p) for a, p in m]
    if not factors:
        return str(c)
    if c == 1:
        return "*".join(factors)
    return "*".join([str(c), *factors])


def _call(fn: str, *args: Dim) -> Expr:
    return of_atom(Call(fn, args))


def exact_div(a: Dim, b: Dim) -> Dim | None:
    """`a / b` if that is a polynomial with integer coefficients, else None (multivariate long division)."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    if b == 0:
        return None
    # graded lexicographic: the order of printing is none that products keep
    atoms = sorted({atom for d in (a, b) for m, _ in _terms(d) for atom, _ in m}, key=str)

    def order(term: tuple[Monomial, int]) -> tuple[int, tuple[int, ...]]:
        powers = dict(term[0])
        return sum(powers.values()), tuple(powers.get(atom, 0) for atom in atoms)

    lead_m, lead_c = max(_terms(b), key=order)
    quotient: Dim = 0
    rest = a
    for _ in range(64):
        if isinstance(rest, int) and rest == 0:
            return quotient
        m, c = max(_terms(rest), key=order)
        q = _mono_div(m, lead_m)
        if q is None or c % lead_c:
            return None
        step = _poly({q: c // lead_c})
        quotient = quotient + step
        rest = rest - step * b
    return None


def floordiv(a: Dim, b: Dim) -> Dim:
    """Floor division; `b` is taken to be positive."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if (exact := exact_div(a, b)) is not None:
        return exact
    if isinstance(b, int):
        whole = _poly({m: c // b for m, c in _terms(a) if c % b == 0})
        rest = a - whole * b
        if isinstance(rest, int):
            return whole + rest // b
        if whole != 0:
            return whole + floordiv(rest, b)
        constant = dict(_terms(a)).get((), 0)
        if constant // b:  # floor((x + c) / b) = floor((x + c mod b) / b) + c // b
            return constant // b + floordiv(a - constant // b * b, b)
    return _call("floordiv", a, b)


def mod(a: Dim, b: Dim) -> Dim:
    """The remainder of floor division: in `0..b - 1` for positive `b`."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    if exact_div(a, b) is not None:
        return 0
    if isinstance(b, int):
        a = _poly({m: c % b if m == () else c for m, c in _terms(a) if c % b})
        if isinstance(a, int):
            return a % b
    return _call("mod", a, b)


def ceildiv(a: Dim, b: Dim) -> Dim:
    """The least integer not below a / b."""
    return floordiv(a + b - 1, b)


def minimum(a: Dim, b: Dim) -> Dim:
    """The smaller of two dims."""
    return _extreme("min", a, b)


def maximum(a: Dim, b: Dim) -> Dim:
    """The larger of two dims."""
    return _extreme("max", a, b)


def _extreme(fn: str, a: Dim, b: Dim) -> Dim:
    difference = a - b
    if isinstance(difference, int):
        a_wins = difference <= 0 if fn == "min" else difference >= 0
        return a if a_wins else b
    return _call(fn, *sorted((a, b), key=str))


def product(dims: Iterable[Dim]) -> Dim:
    """The product of all dims; 1 for none."""
    out: Dim = 1
    for d in dims:
        out = out * d
    return out


# evaluation and substitution


def static(dim: Dim) -> int:
    """A dim that is known to be a number."""
    assert isinstance(dim, int), f"{dim} is not static"
    return dim


def divisor(n: int, most: int) -> int:
    """The largest number up to `most` that divides n."""
    return next(d for d in range(min(n, most), 0, -1) if n % d == 0)


def evaluate(dim: Dim, values: Mapping[str, int]) -> int:
    """The number `dim` is when every symbol has its value; KeyError names a symbol without one."""
    return dim if isinstance(dim, int) else evaluate_with(_OF_NUMBERS, dim, values)


Functions: TypeAlias = Mapping[str, Callable[[Any, Any], Any]]
_OF_NUMBERS: dict[str, Any] = {"floordiv": operator.floordiv, "mod": operator.mod, "min": min, "max": max}


def evaluate_with(functions: Functions, dim: Dim, values: Mapping[str, Any]) -> Any:
    """The same of values that `functions` are for, such as arrays."""
    if isinstance(dim, int):
        return dim
    total: Any = 0
    for monomial, c in dim.terms:
        term: Any = c
        for atom, p in monomial:
            if isinstance(atom, Sym):
                value = values[atom.name]
            else:
                value = functions[atom.fn](*[evaluate_with(functions, d, values) for d in atom.args])
            term = term * value**p
        total = total + term
    return total


def substitute(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """Replace symbols by dims; symbols without a value stay."""
    return with_atoms(dim, lambda atom: _substitute_atom(atom, values))


def with_atoms(dim: Dim, new: Callable[[Atom], Dim]) -> Dim:
    """`dim` made again of what stands for each of its own atoms."""
    if isinstance(dim, int):
        return dim
    total: Dim = 0
    for monomial, c in dim.terms:
        term: Dim = c
        for atom, p in monomial:
            value = new(atom)
            for _ in range(p):
                term = term * value
        total = total + term
    return total


def _substitute_atom(atom: Atom, values: Mapping[str, Dim]) -> Dim:
    if isinstance(atom, Sym):
        return values.get(atom.name, sym(atom.name))
    return FUNCTIONS[atom.fn](*(substitute(d, values) for d in atom.args))


FUNCTIONS = {"floordiv": floordiv, "mod": mod, "min": minimum, "max": maximum}


def solved(dim: Dim, low: int, high: int) -> tuple[str, int, int] | None:
    """The symbol that a dim is made of, and its bounds where the dim's are these; None unless it is linear in one."""
    names = symbols(dim)
    if len(names) != 1:
        return None
    (name,) = names
    factor, rest = linear_in(dim, name) or (0, 0)
    if not isinstance(rest, int) or not isinstance(factor, int) or factor < 1:
        return None
    return name, -((rest - low) // factor), (high - rest) // factor


def linear_in(dim: Dim, name: str) -> tuple[Dim, Dim] | None:
    """The factor and the rest of a dim that is linear in a symbol."""
    rest = substitute(dim, {name: 0})
    factor = substitute(dim, {name: 1}) - rest
    return (factor, rest) if factor != 0 and dim == factor * sym(name) + rest else None


def symbols(dim: Dim) -> frozenset[str]:
    """The names `dim` depends on."""
    return frozenset() if isinstance(dim, int) else _expr_symbols(dim)


@functools.lru_cache(maxsize=4096)
def _expr_symbols(expr: Expr) -> frozenset[str]:
    return frozenset(_walk_symbols(expr))


def _walk_symbols(expr: Expr) -> Iterator[str]:
    for monomial, _ in expr.terms:
        for atom, _ in monomial:
            if isinstance(atom, Sym):
                yield atom.name
            else:
                for arg in atom.args:
                    yield from symbols(arg)


# bounds

INF = 1 << 62
"""Stands for "no bound known"; every real bound is far below."""

Ranges: TypeAlias = Mapping[str, tuple[int, int]]


def bounds(dim: Dim, ranges: Ranges) -> tuple[int, int]:
    """Inclusive bounds of `dim` by interval arithmetic; symbols without a range are in 0..INF."""
    if isinstance(dim, int):
        return dim, dim
    low = high = 0
    for monomial, c in dim.terms:
        lo, hi = c, c
        for atom, p in monomial:
            a_lo, a_hi = _atom_bounds(atom, ranges)
            for _ in range(p):
                ends = [_clip(x * y) for x in (lo, hi) for y in (a_lo, a_hi)]
                lo, hi = min(ends), max(ends)
        low, high = _clip(low + lo), _clip(high + hi)
    ends = _without_remainders(dim, ranges)
    if ends is not None:
        low, high = max(low, bounds(ends[0], ranges)[0]), min(high, bounds(ends[1], ranges)[1])
    return low, high


TYPICAL = 2048
"""An extent of which nothing is known."""


def typical(extent: Dim, ranges: Ranges) -> int:
    """What an extent is taken to be: itself if it is known, else `TYPICAL` within its range."""
    low, high = bounds(extent, ranges)
    return extent if isinstance(extent, int) else max(low, min(high, TYPICAL))


def _without_remainders(dim: Expr, ranges: Ranges) -> tuple[Dim, Dim] | None:
    """What `dim` lies between: `n - 1 - mod(x, n)` between 0 and n - 1. None without a divisor that is no number."""
    if not any(_is_remainder(atom) and p == 1 for monomial, _ in dim.terms for atom, p in monomial):
        return None
    low: Dim = 0
    high: Dim = 0
    is_found = False
    for monomial, c in dim.terms:
        term: Dim = _poly({monomial: c})
        least = most = term
        for atom, p in monomial:
            if p == 1 and isinstance(atom, Call) and _is_remainder(atom):
                factor = _poly({tuple(other for other in monomial if other[0] != atom): c})
                lo, hi = bounds(factor, ranges)
                if lo >= 0 or hi <= 0:
                    ends: tuple[Dim, Dim] = (0, factor * (atom.args[1] - 1))
                    least, most = ends if lo >= 0 else ends[::-1]
                    is_found = True
                    break
        low, high = low + least, high + most
    return (low, high) if is_found else None


def _is_remainder(atom: Atom) -> bool:
    """Whether it is a remainder by what is no number."""
    return isinstance(atom, Call) and atom.fn == "mod" and not isinstance(atom.args[1], int)


def _clip(x: int) -> int:
    return x if -INF <= x <= INF else INF if x > 0 else -INF


def _atom_bounds(atom: Atom, ranges: Ranges) -> tuple[int, int]:
    if isinstance(atom, Sym):
        return ranges.get(atom.name, (0, INF))
    (a_lo, a_hi), (b_lo, b_hi) = (bounds(d, ranges) for d in atom.args)
    match atom.fn:
        case "floordiv":
            b_lo = max(b_lo, 1)
            ends = [x // y for x in (a_lo, a_hi) for y in (b_lo, max(b_hi, b_lo))]
            return min(ends), max(ends)
        case "mod":
            if a_lo >= 0 and a_hi < b_lo:
                return a_lo, a_hi
            return 0, max(0, min(b_hi - 1, a_hi if a_lo >= 0 else INF))
        case "min":
            return min(a_lo, b_lo), min(a_hi, b_hi)
        case _:
            return max(a_lo, b_lo), max(a_hi, b_hi)


def is_at_most(a: Dim, b: Dim, ranges: Ranges) -> bool:
    """Whether `a <= b` is proved for every value inside the ranges (False: not proved)."""
    return bounds(b - a, ranges)[0] >= 0


# text


def is_name(text: str) -> bool:
    """Whether a symbol may be called so: as a variable of Python or of C, where `$` is a letter."""
    return text.replace("$", "_").isidentifier()


_TOKEN = re.compile(r"\s*(?:(\d{1,400}(?!\d))|([A-Za-z_$][\w$]*)|([-+*(),]))")
MAX_DEPTH = 100
"""Parentheses nested deeper than this are refused rather than overflowing the stack."""


def parse_dim(text: str) -> Dim:
    """Read what `str(dim)` prints."""
    tokens: list[str] = []
    pos = depth = 0
    text = text.rstrip()
    while pos < len(text):
        if (m := _TOKEN.match(text, pos)) is None:
            raise ParseError(f"dim {text!r}: unexpected character {text[pos:].lstrip()[0]!r}")
        tokens.append(m[0].strip())
        pos = m.end()
        depth += (tokens[-1] == "(") - (tokens[-1] == ")")
        if depth > MAX_DEPTH:
            raise ParseError(f"a dim is nested deeper than {MAX_DEPTH}")
    dim, end = _parse_sum([*tokens, ""], 0, text)
    if end != len(tokens):
        raise ParseError(f"dim {text!r}: unexpected {tokens[end]!r}")
    return dim


def _parse_sum(tokens: list[str], at: int, text: str) -> tuple[Dim, int]:
    total: Dim = 0
    sign = 1
    if tokens[at] == "-":
        sign, at = -1, at + 1
    while True:
        term, at = _parse_product(tokens, at, text)
        total = total + term * sign
        if tokens[at] not in ("+", "-"):
            return total, at
        sign, at = (1 if tokens[at] == "+" else -1), at + 1


def _parse_product(tokens: list[str], at: int, text: str) -> tuple[Dim, int]:
    value, at = _parse_atom(tokens, at, text)
    while tokens[at] == "*":
        factor, at = _parse_atom(tokens, at + 1, text)
        value = value * factor
    return value, at


def _parse_atom(tokens: list[str], at: int, text: str) -> tuple[Dim, int]:
    token = tokens[at]
    if token.isdigit():
        return int(token), at + 1
    if token == "(":
        value, at = _parse_sum(tokens, at + 1, text)
        return value, _expect(tokens, at, ")", text)
    if token in FUNCTIONS and tokens[at + 1] == "(":
        a, at = _parse_sum(tokens, at + 2, text)
        at = _expect(tokens, at, ",", text)
        b, at = _parse_sum(tokens, at, text)
        if token in ("floordiv", "mod") and isinstance(b, int) and b < 1:
            raise ParseError(f"dim {text!r}: expected a positive divisor, got {b}")
        return FUNCTIONS[token](a, b), _expect(tokens, at, ")", text)
    if is_name(token):
        return sym(token), at + 1
    raise ParseError(f"dim {text!r}: expected a number or a name, got {token!r}")


def _expect(tokens: list[str], at: int, want: str, text: str) -> int:
    if tokens[at] != want:
        raise ParseError(f"dim {text!r}: expected {want!r}, got {tokens[at]!r}")
    return at + 1
