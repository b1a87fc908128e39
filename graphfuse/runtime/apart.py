"""Whether arrays that a call writes lie apart: their elements, and they themselves.

Owns the question. What is written, and what else it may not overlap, its askers know.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterable, Mapping, Sequence
from types import SimpleNamespace

import numpy as np

from graphfuse.artifact import Array
from graphfuse.errors import InputError


def check_apart(written: Mapping[str, Array]) -> None:
    """Raise InputError for outputs, by name, that share memory with one another or of which two elements do."""
    for name, array in written.items():
        if not array.flags.c_contiguous and overlaps_itself(array.shape, array.strides, array.itemsize):
            raise InputError(
                f"output {name!r}: expected an array whose elements lie apart, "
                f"found one of shape {array.shape} with strides of {array.strides} bytes"
            )
    for a, b in itertools.combinations(written, 2):
        if np.may_share_memory(written[a], written[b]) and np.shares_memory(written[a], written[b]):
            raise InputError(f"outputs {a!r} and {b!r}: expected arrays that lie apart, found some that overlap")


def check_states(inputs: Iterable[tuple[int, int, str]], states: Container[str]) -> None:
    """Raise InputError for a state that shares memory with another input. Each is (address, bytes, name), and dense."""
    end, last = 0, ""
    for begin, nbytes, name in sorted(inputs):
        if begin < end and nbytes and (name in states or last in states):
            raise InputError(
                f"inputs {last!r} and {name!r}: expected a state in memory of its own, found some that overlap"
            )
        if begin + nbytes > end:
            end, last = begin + nbytes, name


def overlaps_itself(shape: Sequence[int], strides: Sequence[int], item: int) -> bool:
    """Whether two elements of `item` bytes share one. Strides are in bytes."""
    if 0 in shape:
        return False
    axes = sorted((abs(s), d) for s, d in zip(strides, shape, strict=True) if d > 1)
    reach, is_nested = item, True
    for stride, size in axes:
        is_nested = is_nested and stride >= reach
        reach += stride * (size - 1)
    if is_nested:
        return False
    if reach < item * math.prod(shape):
        return True
    starts = np.zeros(1, np.int64)
    for stride, size in axes:
        starts = np.add.outer(starts, stride * np.arange(size)).reshape(-1)
    return bool((np.diff(np.sort(starts)) < item).any())


def seen_as_array(address: int, shape: Sequence[int], strides: Sequence[int], item: int) -> Array:
    """Memory of a device by its strides in bytes, to ask where it is; nobody may read it."""
    where = {"data": (address, False), "shape": tuple(shape), "strides": tuple(strides)}
    return np.asarray(SimpleNamespace(__array_interface__={"version": 3, "typestr": f"|V{item}", **where}))
