"""Tensor copies in im2col mode against convolutions' own arithmetic."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from graphfuse.artifact import Im2col
from graphfuse.gpu.emulator import EmulatorError, Im2colMap, TensorMap
from graphfuse.gpu.emulator.tensormap import swizzled
from tests.gpu.emulator.ptx import launch
from tests.gpu.emulator.test_asynchronous import tensor_kernel

RNG = np.random.default_rng(0)


def kernel(rank, nbytes, at, taps, dump=0):
    """One box in im2col mode, and its bytes as they lie in shared memory."""
    offsets = ", ".join(map(str, taps))
    text = tensor_kernel(rank, nbytes, at, dump=dump).replace("@!%q1 bra END;", "bra END;")
    return text.replace("global.tile.mbarrier", "global.im2col.mbarrier").replace(
        "[%r2];\nW", f"[%r2], {{{offsets}}};\nW"
    )


def box_of(x, counts, start, lower, steps, taps, channel, size):
    """[pixels, channels] by the definition; x is [images, ..., channels], dims of images outermost first."""
    channels, pixels = size
    every = list(itertools.product(range(x.shape[0] + 2), *(range(n) for n in counts)))
    first = every.index(start)
    out = np.zeros((pixels, channels), x.dtype)
    for i, (image, *where) in enumerate(every[first : first + pixels]):
        at = [lo + w * s + t for lo, w, s, t in zip(lower, where, steps, taps, strict=True)]
        if image < x.shape[0] and all(0 <= a < n for a, n in zip(at, x.shape[1:-1], strict=True)):
            found = x[(image, *at)][channel : channel + channels]
            out[i, : len(found)] = found
    return out


CASES = {
    # shape, padding, filter, stride, dilation, first pixel (outermost first), taps, channel, (channels, pixels)
    "3x3": ((2, 5, 7, 16), 1, 3, 1, 1, (0, 2, 3), (2, 0), 0, (16, 24)),
    "past the last image": ((2, 5, 7, 16), 1, 3, 1, 1, (1, 4, 5), (1, 2), 0, (16, 24)),
    "stride 2": ((3, 9, 11, 16), 1, 3, 2, 1, (0, 1, 2), (0, 2), 0, (16, 40)),
    "stride 2 of an even size": ((2, 8, 8, 16), 1, 3, 2, 1, (0, 0, 0), (2, 2), 0, (16, 32)),
    "stride 3, no padding": ((2, 11, 10, 8), 0, 2, 3, 1, (0, 1, 0), (1, 1), 0, (8, 16)),
    "dilation": ((2, 7, 9, 8), 2, 3, 1, 2, (0, 3, 4), (4, 0), 0, (8, 40)),
    "channels past the end": ((1, 4, 4, 24), 1, 3, 1, 1, (0, 0, 0), (0, 1), 16, (16, 16)),
    "one dim": ((3, 13, 16), 2, 5, 2, 1, (1, 2), (3,), 0, (16, 24)),
    "three dims": ((2, 3, 4, 5, 8), 1, 3, 1, 1, (0, 1, 2, 1), (0, 1, 2), 0, (8, 64)),
}


@pytest.mark.parametrize("swizzle", [0, 32])
@pytest.mark.parametrize("name", CASES)
def test_boxes(name, swizzle):
    shape, padding, size, stride, dilation, first, taps, channel, box = CASES[name]
    rank = len(shape)
    x = RNG.integers(1, 100, shape).astype(np.float16)
    spatial = shape[1:-1]
    upper = padding - (size - 1) * dilation
    how = Im2col((-padding,) * (rank - 2), (upper,) * (rank - 2), (stride,) * (rank - 2))
    counts = [(n + 2 * padding - (size - 1) * dilation - 1) // stride + 1 for n in spatial]
    tensor = Im2colMap(x, box, swizzle, how=how)
    assert tensor.counts == tuple(counts[::-1])
    at = (channel, *(f * stride - padding for f in reversed(first[1:])), first[0])
    nbytes, pitch = box[0] * box[1] * 2, swizzle or box[0] * 2
    raw = np.zeros(box[1] * pitch, np.uint8)
    text = kernel(rank, nbytes, at, taps[::-1], dump=len(raw))
    launch(text, [tensor, TensorMap(np.zeros((8, 8), np.float32), (8, 8)), raw])
    want = box_of(x, counts, first, [-padding] * (rank - 2), [stride] * (rank - 2), taps, channel, box)
    row, column = np.divmod(np.arange(want.size), box[0])
    place = swizzled(row * pitch + column * 2, swizzle)
    got = raw[place[:, None] + np.arange(2)].view(np.float16).reshape(want.shape)
    np.testing.assert_array_equal(got, want)


X = np.zeros((2, 5, 7, 16), np.float16)
HOW = Im2col((-1, -1), (-1, -1), (1, 1))
BAD_MAPS = [
    ({"box": (16, 8, 1)}, "im2col of 4 dims, 3 box sizes, 3 strides: expected 3 to 5 dims, 2 box sizes"),
    ({"how": Im2col((-1,), (-1,), (1,))}, "tensor map: (-1,), (-1,), (1,): expected 2 of each"),
    ({"how": replace(HOW, lower=(-129, -1))}, "corners (-129, -1), (-1, -1): expected -128 to 127"),
    ({"how": replace(HOW, upper=(-9, -1))}, "corners (-1, -1), (-9, -1) of (16, 7, 5, 2) leave nothing"),
    ({"how": replace(HOW, steps=(9, 1))}, "element strides (9, 1): expected 1 to 8"),
    ({"box": (16, 2000)}, "box (16, 2000): expected up to 256 channels of up to 1024 pixels"),
]


@pytest.mark.parametrize(("changes", "message"), BAD_MAPS, ids=[m for _, m in BAD_MAPS])
def test_bad_maps(changes, message):
    with pytest.raises(EmulatorError) as e:
        Im2colMap(X, **{"box": (16, 8), "how": HOW} | changes)
    assert message in e.value.message


BAD_COPIES = [
    (lambda t: t.replace("{0, -1, -1, 0}", "{0, 7, -1, 0}"), "coordinate 7: expected one of 7 from -1, 1 apart"),
    (lambda t: t.replace(", {0, 0};\nW", ", {0, 256};\nW"), "im2col offsets (0, 256): expected 0 to 255"),
    (lambda t: t.replace(", {0, 0};\nW", ", {0};\nW"), "1 im2col offsets: expected 2"),
    (lambda t: t.replace(", {0, 0};\nW", ";\nW").replace("global.im2col", "global.tile"), "a tensor map of tiles"),
    (lambda t: t.replace("[%d1, {", "[%d2, {"), "expected a tensor map for im2col"),
    (lambda t: t.replace("{0, -1, -1, 0}", "{4, -1, -1, 0}"), "innermost coordinate 4 is 8 bytes"),
]


@pytest.mark.parametrize(("change", "message"), BAD_COPIES, ids=[m for _, m in BAD_COPIES])
def test_bad_copies(change, message):
    text = kernel(4, 256, (0, -1, -1, 0), (0, 0))
    changed = change(text)
    assert changed != text
    with pytest.raises(EmulatorError) as e:
        launch(changed, [Im2colMap(X, (16, 8), how=HOW), TensorMap(X, (16, 7, 1, 1)), np.zeros(256, np.uint8)])
    assert message in e.value.message
