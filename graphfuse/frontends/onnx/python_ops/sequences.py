"""Sequences as lists, optionals as a value or None."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphfuse.frontends.onnx.python_ops.call import Call, python_op

MOST_JOINED = 1 << 31
"""Bytes of a tensor that a sequence is joined to."""


@python_op("SequenceEmpty")
def sequence_empty(_: Call) -> list[Any]:
    """Nothing yet."""
    return []


@python_op("SequenceConstruct")
def sequence_construct(c: Call) -> list[Any]:
    """The inputs, in order."""
    return list(c.inputs)


def _position(c: Call, i: int, length: int, most: int) -> int:
    """A possibly negative position in a sequence."""
    at = int(c.number(i))
    if not -length <= at <= most:
        raise c.error(f"position: expected {-length}..{most}, found {at}")
    return at + length if at < 0 else at


@python_op("SequenceInsert")
def sequence_insert(c: Call) -> list[Any]:
    """A copy with a tensor before a position, at the end by default."""
    out = list(c.sequence(0))
    out.insert(_position(c, 2, len(out), len(out)) if c.has(2) else len(out), c.inputs[1])
    return out


@python_op("SequenceErase")
def sequence_erase(c: Call) -> list[Any]:
    """A copy without the tensor at a position, the last by default."""
    out = list(c.sequence(0))
    if not out:
        raise c.error("the sequence is empty")
    del out[_position(c, 1, len(out), len(out) - 1) if c.has(1) else -1]
    return out


@python_op("SequenceAt")
def sequence_at(c: Call) -> Any:
    """The tensor at a position."""
    xs = c.sequence(0)
    return xs[_position(c, 1, len(xs), len(xs) - 1)]


@python_op("SequenceLength")
def sequence_length(c: Call) -> Any:
    """How many tensors there are."""
    return np.array(len(c.sequence(0)), dtype=np.int64)


@python_op("SplitToSequence")
def split_to_sequence(c: Call) -> list[Any]:
    """Pieces along an axis: of one size, of sizes given, or single slices (whose axis `keepdims` may drop)."""
    x = c.array(0)
    axis = c.axis(int(c.get("axis", 0)), x.ndim)
    size = x.shape[axis]
    if not c.has(1):
        pieces = np.split(x, size, axis) if size else []
        return pieces if c.get("keepdims", 1) else [np.squeeze(p, axis) for p in pieces]
    split = c.array(1)
    if split.ndim == 0:
        step = int(split)
        if step < 1:
            raise c.error(f"split: expected a positive size, found {step}")
        return np.split(x, range(step, size, step), axis)
    if int(split.sum()) != size or (split < 0).any():
        raise c.error(f"split: expected sizes that add up to {size}, found {split.tolist()}")
    return np.split(x, np.cumsum(split)[:-1], axis)


@python_op("ConcatFromSequence")
def concat_from_sequence(c: Call) -> Any:
    """The tensors joined along an axis, a new one on request."""
    xs, axis = c.sequence(0), int(c.get("axis", 0))
    if not xs:
        raise c.error("the sequence is empty")
    if (nbytes := sum(x.nbytes for x in xs)) > MOST_JOINED:
        raise c.error(f"expected up to {MOST_JOINED} bytes, found {nbytes}")
    return np.stack(xs, axis) if c.get("new_axis", 0) else np.concatenate(xs, axis)


@python_op("Optional")
def optional(c: Call) -> Any:
    """The value, or that there is none."""
    return c.inputs[0] if c.inputs else None


@python_op("OptionalHasElement")
def optional_has_element(c: Call) -> Any:
    """Whether there is a value."""
    return np.array(c.has(0))


@python_op("OptionalGetElement")
def optional_get_element(c: Call) -> Any:
    """The value, which must be there."""
    if not c.has(0):
        raise c.error("the optional is empty")
    return c.inputs[0]
