"""What must hold of values that only a run knows, such as indices: what a plan reports, and the errors made of that.

A kernel keeps what it reads as an index within its tensor, so no other memory is touched, and an integer divided by 0
is 0; but the result would be wrong, and nobody told. So a plan has one more output than its signature says: for each
check an element that fails it, or `FINE`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from graphfuse.errors import DivisionByZeroError, GraphfuseError, IndexRangeError, Loc
from graphfuse.symbolic import Dim, Expr, evaluate

FINE = -(1 << 63)
"""What the output has for a check that holds."""
REFUSED = "refused"
"""The name of the output."""
ATTR = "checks"
"""The attribute of a function that has the output: it lists the checks."""


@dataclass(frozen=True, slots=True)
class Check:
    """The elements of one tensor are in `low..high`; or, where these are None, none of them is 0.

    `node` and `operand` say who reads it, as what, and `what` what its elements are, such as `indices`.
    """

    node: str
    operand: str
    what: str
    low: Dim | None = None
    high: Dim | None = None

    @property
    def attr(self) -> tuple[str | Dim, ...]:
        """As an entry of the attribute."""
        ends = () if self.low is None or self.high is None else (self.low, self.high)
        return (self.node, self.operand, self.what, *ends)

    def error(self, found: int, values: Mapping[str, int], loc: Loc | None = None) -> GraphfuseError:
        """The error of an element that fails it, at these values of symbols."""
        loc = loc or (Loc("", node=self.node) if self.node else None)
        if self.low is None or self.high is None:
            return DivisionByZeroError(f"{self.operand}: expected {self.what} other than 0 to divide by, found 0", loc)
        low, high = evaluate(self.low, values), evaluate(self.high, values)
        expected = f"{self.what} from {low} to {high}" if low <= high else f"no {self.what}"
        return IndexRangeError(f"{self.operand}: expected {expected}, found {found}", loc)


def checks_of(attr: Any) -> tuple[Check, ...]:
    """The checks that the attribute lists."""
    out: list[Check] = []
    for node, operand, what, *ends in attr:
        assert all(isinstance(e, (int, Expr)) for e in ends), "a check made it"
        out.append(Check(str(node), str(operand), str(what), *ends))
    return tuple(out)


def look(checks: Iterable[Check], found: Iterable[int], values: Mapping[str, int]) -> None:
    """Raise the error of the first check that failed."""
    for check, element in zip(checks, found, strict=True):
        if element != FINE:
            raise check.error(element, values)
