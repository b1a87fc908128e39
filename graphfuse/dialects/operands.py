"""What type rules of graph ops ask of operands and attributes: each gives what was asked for, or a `VerifyError`."""

from __future__ import annotations

from graphfuse.errors import VerifyError
from graphfuse.ir.core import Block
from graphfuse.ir.types import Tensor, Type


def tensor(t: Type, what: str = "operand") -> Tensor:
    """An operand's type, which is a tensor."""
    if not isinstance(t, Tensor):
        raise VerifyError(f"{what} must be a tensor, got {t}")
    return t


def axis_of(axis: int, rank: int) -> int:
    """An axis of a tensor of that rank."""
    if not 0 <= axis < rank:
        raise VerifyError(f"axis must be in 0..{rank - 1}, got {axis}")
    return axis


def per_dim(name: str, values: tuple[object, ...], count: int) -> None:
    """As many values as dims."""
    if len(values) != count:
        raise VerifyError(f"{name} must have {count} entries, got {len(values)}")


def one_body(bodies: tuple[Block, ...]) -> Block:
    """The only body."""
    if len(bodies) != 1:
        raise VerifyError(f"expected one body, got {len(bodies)}")
    return bodies[0]


def yielded_by(body: Block) -> tuple[Type, ...]:
    """The types that a body hands out."""
    return tuple(v.type for v in body.terminator.operands)


def window_of(rank: int, low: tuple[int, ...], high: tuple[int, ...], **sizes: tuple[int, ...]) -> None:
    """A sliding window: as many of each as dims, all but the padding positive."""
    for name, values in sizes.items():
        per_dim(name, values, rank)
        positive(name, values)
    per_dim("low", low, rank)
    per_dim("high", high, rank)


def positive(name: str, values: tuple[int, ...]) -> None:
    """Sizes, or steps."""
    if any(v < 1 for v in values):
        raise VerifyError(f"{name} must be positive, got {values}")
