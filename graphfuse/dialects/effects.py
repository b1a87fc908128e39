"""Ops of the block dialect that others may notice: atomics, barriers, printing, assertions.

`block.print` and `block.assert` do something in functions with the attribute `debug = true` only.
"""

from __future__ import annotations

import re

from graphfuse.dialects.block import check_places, elem_of, pointer_of, with_elem
from graphfuse.errors import VerifyError
from graphfuse.ir.core import opdef
from graphfuse.ir.types import BOOL, F32, F64, I64, Scalar, Tile, Type

ATOMIC_KINDS = ("add", "sub", "mul", "min", "max", "and", "or", "xor", "exchange")
ORDERS = ("relaxed", "acquire", "release", "acq_rel")
SCOPES = ("cta", "gpu", "sys")
IDS = 3
"""Numbers in front of a printed line that say which program it is of."""


def _access(pointer: Type, offsets: Type, mask: Type | None, order: str, scope: str) -> Scalar:
    """The element that an atomic changes."""
    elem = pointer_of(pointer).elem
    check_places(offsets, mask)
    if order not in ORDERS:
        raise VerifyError(f"order must be one of {', '.join(ORDERS)}, got {order}")
    if scope not in SCOPES:
        raise VerifyError(f"scope must be one of {', '.join(SCOPES)}, got {scope}")
    if order != "relaxed" and isinstance(offsets, Tile):
        raise VerifyError(f"atomics on tiles are relaxed, got {order}")
    if elem.bits < 16:
        raise VerifyError(f"atomics change elements of 16, 32 or 64 bits, got {elem}")
    return elem


@opdef("block.atomic")
def atomic(
    pointer: Type,
    offsets: Type,
    value: Type,
    mask: Type | None = None,
    *,
    kind: str,
    order: str = "relaxed",
    scope: str = "gpu",
) -> Type:
    """`pointer[offsets] = kind(pointer[offsets], value)`, each element at once; gives what was there before.

    Elements that the mask leaves out are not touched, and their result is 0. Elements of a tile are in no order. With
    `acquire`, what a scalar's program does after its access sees what programs did before theirs to the same address,
    if that was a `release`: all that a program did before is seen by those that acquire later. `acq_rel` is both. Those
    of the scope `cta` are at once for this program alone, and order nothing between programs; `sys` is the host, too.
    `max` and `min` are those of `block.max`: NaN if either is.
    """
    elem = _access(pointer, offsets, mask, order, scope)
    if value != with_elem(offsets, elem):
        raise VerifyError(f"value must be {with_elem(offsets, elem)}, got {value}")
    if kind not in ATOMIC_KINDS:
        raise VerifyError(f"kind must be one of {', '.join(ATOMIC_KINDS)}, got {kind}")
    if kind in ("and", "or", "xor") and not elem.is_integer:
        raise VerifyError(f"kind {kind} does not combine {elem}")
    return value


@opdef("block.atomic_cas")
def atomic_cas(
    pointer: Type,
    offsets: Type,
    compare: Type,
    value: Type,
    mask: Type | None = None,
    *,
    order: str = "relaxed",
    scope: str = "gpu",
) -> Type:
    """Where `pointer[offsets]` has the bits of `compare`, it becomes `value`; gives what was there before.

    Masks, orders and scopes as `block.atomic`.
    """
    elem = _access(pointer, offsets, mask, order, scope)
    if not value == compare == with_elem(offsets, elem):
        raise VerifyError(f"values must be {with_elem(offsets, elem)}, got {compare} and {value}")
    return value


@opdef("block.barrier")
def barrier() -> tuple[Type, ...]:
    """What this program stored before, it loads after."""
    return ()


CONVERSION = re.compile(r"%([-+ #0]*)(\d*)((?:\.\d+)?)(?:hh|h|ll|l|j|z|t)?([diuxXofFeEgG%])")
"""A conversion of a print format, as C's printf has them; how long an integer is comes from its type."""


def conversions(text: str) -> list[str]:
    """The letters of a format's conversions, in order."""
    if "%" in CONVERSION.sub("", text):
        raise VerifyError(f"the format {text!r} has a conversion that is not one of d, i, u, x, X, o, f, e, g")
    return [letter for *_, letter in CONVERSION.findall(text) if letter != "%"]


@opdef("block.print")
def print_(*values: Type, text: str, ids: int = 0) -> tuple[Type, ...]:
    """Print a line: the program's ids, then `text` with one conversion for each value, as C's printf.

    With tiles, of one shape, a line for each element; integers are widened to 64 bits, floats to f64. The first `ids`
    operands are printed as the ids, where the grid is not the one that the program was written for.
    """
    if ids not in (0, IDS) or values[:ids] != (I64,) * ids:
        raise VerifyError(f"ids must be 0, or {IDS} with as many i64 in front, got {ids}")
    values = values[ids:]
    letters = conversions(text)
    if len(letters) != len(values):
        raise VerifyError(f"the format has {len(letters)} conversions for {len(values)} values")
    if len({t.shape for t in values if isinstance(t, Tile)}) > 1:
        raise VerifyError(f"tiles must have one shape, got {', '.join(map(str, values))}")
    for letter, t in zip(letters, values, strict=True):
        elem = elem_of(t)
        if elem.is_float != (letter in "fFeEgG") or (elem.is_float and elem not in (F32, F64) and elem.bits != 16):
            raise VerifyError(f"%{letter} does not print {t}")
    return ()


@opdef("block.assert")
def assert_(condition: Type, *, message: str = "") -> tuple[Type, ...]:
    """Stop the kernel with a message and the op's location unless every element holds."""
    if elem_of(condition) != BOOL:
        raise VerifyError(f"condition must be bool, got {condition}")
    return ()
