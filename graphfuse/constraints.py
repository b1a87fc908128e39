"""What must hold of dims for an op to run, where their ranges do not prove it: checked once per set of shapes.

A type rule says what it needs with `require`. Outside of an import only what no shape fulfils is an error; an importer
listens (`listening`) and keeps the rest as `Constraint`s of the signature. This module owns no tensor and no IR.
Why: docs/adr/0014-unproved-dims-are-constraints.md.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from graphfuse.errors import VerifyError
from graphfuse.symbolic import (
    Call,
    Dim,
    Expr,
    Ranges,
    bounds,
    evaluate,
    exact_div,
    of_atom,
    substitute,
    symbols,
    with_atoms,
)

Kind: TypeAlias = Literal["equal", "at_most", "divides", "stretches"]
KINDS: tuple[Kind, ...] = ("equal", "at_most", "divides", "stretches")
"""a = b; a <= b; a divides b; a broadcasts to b (it is b, or 1)."""

_HOLDS: Mapping[Kind, Callable[[int, int], bool]] = {
    "equal": lambda a, b: a == b,
    "at_most": lambda a, b: a <= b,
    "divides": lambda a, b: a > 0 and b % a == 0,
    "stretches": lambda a, b: a in (b, 1),
}


@dataclass(frozen=True, slots=True)
class Constraint:
    """`a` and `b` are related as `kind` says. `what` they are is for errors, and so is the `node` that needs it."""

    kind: Kind
    a: Dim
    b: Dim
    what: str = ""
    node: str = ""

    @property
    def symbols(self) -> frozenset[str]:
        """The names it depends on."""
        return symbols(self.a) | symbols(self.b)

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether it is so when every symbol has its value."""
        try:
            return _HOLDS[self.kind](evaluate(self.a, values), evaluate(self.b, values))
        except ZeroDivisionError:
            return False

    def substituted(self, values: Mapping[str, Dim]) -> Constraint:
        """With symbols replaced by dims."""
        return replace(self, a=substitute(self.a, values), b=substitute(self.b, values))

    def unmet(self, values: Mapping[str, int]) -> str:
        """What was expected and what was found, where it does not hold: one line."""
        return f"{self._who}{self._wanted}, found {_found(self.a, self.b, values)}"

    def __str__(self) -> str:
        return f"{self._who}{self._wanted}"

    @property
    def _who(self) -> str:
        return "".join(f"{part}: " for part in (self.node, self.what) if part)

    @property
    def _wanted(self) -> str:
        a, b = self.a, self.b
        match self.kind:
            case "equal" if isinstance(b, int):
                return f"expected {a} = {b}"
            case "equal":
                return f"expected dims {a} and {b} to be equal"
            case "at_most" if isinstance(a, int):
                return f"expected {b} to be at least {a}"
            case "at_most":
                return f"expected {a} to be at most {b}"
            case "divides":
                return f"expected {b} to be a multiple of {a}"
            case "stretches":
                return f"expected {a} to be 1 or {b}"


def _found(a: Dim, b: Dim, values: Mapping[str, int]) -> str:
    return " and ".join(_number(d, values) for d in (a, b) if isinstance(d, Expr))


def _number(dim: Dim, values: Mapping[str, int]) -> str:
    try:
        return str(evaluate(dim, values))
    except ZeroDivisionError:
        return "a division by 0"


# proofs


def decided(kind: Kind, a: Dim, b: Dim, ranges: Ranges) -> bool | None:
    """Whether it holds for all values within the ranges (True), for none (False), or that is not known."""
    if isinstance(a, int) and isinstance(b, int):
        return _HOLDS[kind](a, b)
    if a == b:
        return kind != "divides" or bounds(a, ranges)[0] > 0 or None
    low, high = bounds(b - a, ranges)
    match kind:
        case "equal":
            return True if low == high == 0 else False if low > 0 or high < 0 else None
        case "at_most":
            return True if low >= 0 or is_nonnegative(b - a, ranges) else False if high < 0 else None
        case "divides":
            return True if bounds(a, ranges)[0] > 0 and exact_div(b, a) is not None else None
        case "stretches":
            least, most = bounds(a, ranges)
            if low == high == 0 or least == most == 1:
                return True
            return False if (low > 0 or high < 0) and (most < 1 or least > 1) else None


_DEPTH = 6
"""Extremes and quotients in one dim that a proof looks into."""


def is_nonnegative(dim: Dim, ranges: Ranges, known: Sequence[Dim] = (), depth: int = _DEPTH) -> bool:
    """Whether `dim >= 0` is proved, by cases of its `min` and `max`; each of `known` is at least 0."""
    if bounds(dim, ranges)[0] >= 0 or any(bounds(dim - k, ranges)[0] >= 0 for k in known):
        return True
    if isinstance(dim, int) or depth == 0:
        return False
    for monomial, c in dim.terms:
        atom = next((a for a, _ in monomial if isinstance(a, Call)), None)
        if atom is None or atom.fn == "mod":
            continue
        x, y = atom.args
        if atom.fn in ("min", "max"):
            sign = 1 if atom.fn == "min" else -1
            cases = ((x, (y - x) * sign), (y, (x - y) * sign))
            return all(
                is_nonnegative(
                    with_atom(dim, atom, value), ranges, (*(with_atom(k, atom, value) for k in known), fact), depth - 1
                )
                for value, fact in cases
            )
        if isinstance(y, int) and monomial == ((atom, 1),) and c % y == 0:  # y*floor(x / y) is in x - y + 1 .. x
            rest = dim - Expr(((monomial, c),)) + c // y * (x if c < 0 else x - y + 1)
            return is_nonnegative(rest, ranges, known, depth - 1)
    return False


def with_atom(dim: Dim, atom: Call, value: Dim) -> Dim:
    """`dim` with every power of one of its own atoms replaced."""
    return with_atoms(dim, lambda a: value if a == atom else of_atom(a))


# what is needed


Listener: TypeAlias = Callable[[Constraint], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(to: Listener) -> Generator[None]:
    """Inside, `to` hears of every constraint that is not plainly fulfilled, and raises where none of them can be."""
    token = _listener.set(to)
    try:
        yield
    finally:
        _listener.reset(token)


def require(kind: Kind, a: Dim, b: Dim, what: str = "", otherwise: str = "") -> None:
    """Say that `a` and `b` have to be related as `kind` says, or raise `VerifyError` if they plainly are not.

    `otherwise` is the message of that error, if the constraint's own would be less clear.
    """
    gap = b - a
    if kind == "stretches" and isinstance(a, int) and a != 1:
        kind = "equal"
    if isinstance(gap, int) and kind in ("equal", "at_most"):
        verdict = _HOLDS[kind](0, gap)
    else:
        verdict = _HOLDS[kind](a, b) if isinstance(a, int) and isinstance(b, int) else None
    if verdict is None and (listener := _listener.get()) is not None:
        if kind == "equal" and (isinstance(a, int) or (isinstance(b, Expr) and _text(b) < _text(a))):
            a, b = b, a  # one form, so that it is kept once
        listener(Constraint(kind, a, b, what))
    elif verdict is False:
        raise VerifyError(otherwise or str(Constraint(kind, a, b, what)))


def _text(dim: Dim) -> tuple[int, str]:
    return len(str(dim)), str(dim)
