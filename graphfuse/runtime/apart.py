"""Whether arrays that a call writes lie apart: their elements, and they themselves.

Owns the question. What is written, and what else it may not overlap, its askers know.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace

import numpy as np
from numpy.lib.array_utils import byte_bounds

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
    spans = sorted((*byte_bounds(array), number) for number, array in enumerate(written.values()))
    names, arrays = list(written), list(written.values())
    for i, (_, end, number) in enumerate(spans):
        for begin, _, other in itertools.islice(spans, i + 1, None):
            if begin >= end:
                break
            if np.shares_memory(arrays[number], arrays[other]):
                a, b = sorted((number, other))
                raise InputError(
                    f"outputs {names[a]!r} and {names[b]!r}: expected arrays that lie apart, found some that overlap"
                )


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
