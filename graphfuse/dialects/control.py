"""Terminators and structured control flow: no prefix in text, used by both dialects."""

from __future__ import annotations

from graphfuse.dialects.operands import one_body, yielded_by
from graphfuse.errors import VerifyError
from graphfuse.ir.core import Block, Trait, opdef
from graphfuse.ir.types import BOOL, I64, Type, listed


@opdef("yield", Trait.TERMINATOR)
def yield_(*values: Type) -> tuple[Type, ...]:
    """Hand values out of a body."""
    return ()


@opdef("return", Trait.TERMINATOR)
def return_(*values: Type) -> tuple[Type, ...]:
    """End the function."""
    return ()


@opdef("for")
def for_(lower: Type, upper: Type, *carried: Type, step: int = 1, bodies: tuple[Block, ...]) -> tuple[Type, ...]:
    """Run the body for i = lower, lower + step, ... below upper, carrying values; results are the last yielded."""
    if not lower == upper == I64:
        raise VerifyError(f"bounds must be i64, got {lower} and {upper}")
    if step < 1:
        raise VerifyError(f"step must be positive, got {step}")
    if (takes := one_body(bodies).params.types) != (I64, *carried):
        raise VerifyError(f"the body must take {listed((I64, *carried))}, it takes {listed(takes)}")
    yielded = yielded_by(bodies[0])
    if yielded != carried:
        raise VerifyError(f"carried types change: {listed(carried)} to {listed(yielded)}")
    return carried


@opdef("while")
def while_(*carried: Type, bodies: tuple[Block, ...]) -> tuple[Type, ...]:
    """Run the first body; while the bool that it yields first holds, run the second on the rest and start again.

    The first takes what is carried and yields a bool and values of the same types; these are the results when the bool
    is false, else what the second takes. The second yields what the first takes next.
    """
    if len(bodies) != 2:
        raise VerifyError(f"expected a condition and a body, got {len(bodies)}")
    for name, body, before in (("condition", bodies[0], (BOOL,)), ("body", bodies[1], ())):
        if body.params.types != carried:
            raise VerifyError(f"the {name} must take {listed(carried)}, it takes {listed(body.params.types)}")
        yielded = yielded_by(body)
        if yielded != (*before, *carried):
            raise VerifyError(f"the {name} must yield {listed((*before, *carried))}, it yields {listed(yielded)}")
    return carried


@opdef("if")
def if_(condition: Type, *, bodies: tuple[Block, ...]) -> tuple[Type, ...]:
    """Run the first body if the condition holds, else the second (which may be left out when nothing is yielded)."""
    if condition != BOOL:
        raise VerifyError(f"condition must be bool, got {condition}")
    if len(bodies) not in (1, 2) or any(b.params.types for b in bodies):
        raise VerifyError("expected one or two bodies without parameters")
    yielded = [yielded_by(b) for b in bodies]
    if len(bodies) == 1:
        yielded.append(())
    if yielded[0] != yielded[1]:
        raise VerifyError(f"branches yield different types: {listed(yielded[0])} and {listed(yielded[1])}")
    return yielded[0]
