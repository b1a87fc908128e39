"""What atomics, printing and assertions of the block dialect mean, in numpy."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# numpy's stubs leave most results partly unknown

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from graphfuse.dialects.effects import CONVERSION, IDS, conversions
from graphfuse.errors import InputError
from graphfuse.findings import About, CheckError
from graphfuse.interp import elementwise as ew
from graphfuse.interp.elementwise import Array
from graphfuse.interp.memory import Context, Pointer, read, write
from graphfuse.interp.races import Where
from graphfuse.ir.core import Op, attr_number
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.types import scalar


def atomic(context: Context, op: Op, pointer: Pointer, offsets: Array, value: Array, mask: Any = True) -> Array:
    """One element after another, in row-major order."""
    kind = str(op.attrs["kind"])

    def change(old: Array, at: tuple[int, ...]) -> Array:
        return value[at] if kind == "exchange" else ew.apply(kind, old, value[at])

    return _one_by_one(context, op, pointer, offsets, mask, change)


def atomic_cas(
    context: Context, op: Op, pointer: Pointer, offsets: Array, compare: Array, value: Array, mask: Any = True
) -> Array:
    """One element after another, in row-major order."""
    whole = scalar(f"u{8 * pointer.array.dtype.itemsize}")

    def change(old: Array, at: tuple[int, ...]) -> Array:
        return value[at] if ew.bitcast(old, whole) == ew.bitcast(np.asarray(compare[at]), whole) else old

    return _one_by_one(context, op, pointer, offsets, mask, change)


def _one_by_one(context: Context, op: Op, pointer: Pointer, offsets: Array, mask: Array, change: Any) -> Array:
    out, shadow, bare = np.zeros(offsets.shape, pointer.array.dtype), pointer.shadow, replace(pointer, shadow=None)
    order, apart = str(op.attrs.get("order", "relaxed")), op.attrs.get("scope") == "cta"
    yes, mask = np.ones((), np.bool_), np.broadcast_to(mask, offsets.shape)
    for lane, at in enumerate(np.ndindex(offsets.shape)):
        if not mask[at]:
            continue
        where = np.asarray(offsets[at])
        old = out[at] = read(context, bare, where, yes, 0)
        new = np.asarray(change(old, at))
        write(context, bare, where, yes, new)
        if shadow is not None:
            place = Where(where.reshape(1) + pointer.offset, np.asarray([lane]), offsets.shape)
            shadow.change(place, old.reshape(1), new.reshape(1), order=order, apart=apart)
    return out


def format_line(text: str, values: tuple[Any, ...]) -> str:
    """A format of `block.print` with its values."""
    python = CONVERSION.sub(lambda m: f"%{m[1]}{m[2]}{m[3]}{m[4]}", text)
    pairs = zip(conversions(text), values, strict=True)
    return python % tuple(int(v) if c not in "fFeEgG" else float(v) for c, v in pairs)


def print_(context: Context, op: Op, *values: Array) -> None:
    """A line for each element of the tiles, in row-major order, behind where it is."""
    if not context.debug:
        return
    text, ids = str(op.attrs["text"]), int(attr_number(op, "ids"))
    who = f"({', '.join(str(int(v)) for v in values[:ids] or map(context.position, range(IDS)))})"
    values = values[ids:]
    shape = next((v.shape for v in values if v.shape), ())
    for at in np.ndindex(shape):
        where = f" [{', '.join(map(str, at))}]" if shape else ""
        line = format_line(text, tuple(_unsigned(v[at] if v.shape else v, text, i) for i, v in enumerate(values)))
        context.out(f"{who}{where} {line}")


def _unsigned(value: Any, text: str, i: int) -> Any:
    """What C prints of a negative number with %u or %x: that of 64 bits with the same bits."""
    return int(value) & (1 << 64) - 1 if conversions(text)[i] in "uxXo" else value


def assert_(context: Context, op: Op, condition: Array) -> None:
    """An error at the op."""
    if context.debug and not np.all(condition):
        at = f" at {np.argwhere(~condition)[0].tolist()}" if condition.shape else ""
        message = f": {op.attrs['message']}" if op.attrs.get("message") else ""
        raise CheckError(f"assertion failed{at}{message}", about=About("assertion"))


def pointer_cast(_: Context, op: Op, pointer: Pointer) -> Pointer:
    """A view of the same bytes."""
    to: Any = op.attrs["to"]
    dtype = numpy_dtype(to)
    have, want = pointer.array.dtype.itemsize, dtype.itemsize
    written = pointer.written
    if pointer.offset * have % want:
        raise InputError(f"no {to} begins {pointer.offset * have} bytes from the start of an array of its own")
    if written is not None and want % have:
        raise InputError(f"elements of {8 * have} bits of the program's own memory are not parted to {to}")
    raw = pointer.array.view(np.uint8)
    count = raw.size // want
    if written is not None:  # all elements that one is made of
        written = written[: count * want // have].reshape(count, want // have)
    cast, offset = raw[: count * want].view(dtype), pointer.offset * have // want
    return replace(pointer, array=cast, offset=offset, written=written)


def pointer_at(context: Context, op: Op, address: Array) -> Pointer:
    """Into the array of the launch that the address is in; past the end of one if it is in none. It is used, or not."""
    to: Any = op.attrs["to"]
    at, dtype = int(address), numpy_dtype(to)
    ends = [(p, at - p.address, p.array.nbytes) for p in context.reached]
    found = [
        *((p, by) for p, by, _ in ends if by == 0),
        *((p, by) for p, by, nbytes in ends if 0 < by < nbytes),
        *((p, by) for p, by, nbytes in ends if by == nbytes),
    ]
    if not found:
        nowhere = f"the address {at:#x}, which is in no array of the launch" if at else "a null pointer"
        return Pointer(np.zeros(0, dtype), at // dtype.itemsize, nowhere=nowhere)
    base, by = found[0]
    if by % dtype.itemsize:
        nowhere = f"the address {at:#x}, where no {to} of {base.name} begins"
        return Pointer(np.zeros(0, dtype), at // dtype.itemsize, nowhere=nowhere)
    return replace(pointer_cast(context, op, base), offset=by // dtype.itemsize)


def pointer_diff(_: Context, _op: Op, a: Pointer, b: Pointer) -> Array:
    """In elements."""
    if a.array.ctypes.data != b.array.ctypes.data:
        raise InputError("the pointers point into different arrays")
    return np.asarray(a.offset - b.offset, np.int64)


def assume(context: Context, op: Op, x: Array) -> Array:
    """x; a promise that is not kept is an error with checks."""
    number: Any = op.attrs["multiple_of"]
    if context.checks and (wrong := x[x % number != 0]).size:
        raise CheckError(f"{wrong.reshape(-1)[0]} is no multiple of {number}", about=About("promise"))
    return x
