"""What type rules of graph ops ask of operands and attributes: each gives what was asked for, or a `VerifyError`."""

from __future__ import annotations

from graphfuse.errors import VerifyError
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


def positive(name: str, values: tuple[int, ...]) -> None:
    """Sizes, or steps."""
    if any(v < 1 for v in values):
        raise VerifyError(f"{name} must be positive, got {values}")
