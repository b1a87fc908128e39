"""Tensor maps in im2col mode (PTX ISA 5.5.4): pixels go on along the rows of a bounding box, from image to image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphfuse.artifact import Im2col
from graphfuse.gpu.emulator.errors import EmulatorError
from graphfuse.gpu.emulator.tensormap import TensorMap
from graphfuse.gpu.emulator.types import Array

OFFSET_BITS = 16
"""Of all corners, and of all offsets, together."""
MOST_STEP = 8
"""Of a tensor map (elementStrides of cuTensorMapEncodeIm2col)."""
_NOTHING = Im2col((), (), ())


@dataclass(frozen=True, eq=False, slots=True)
class Im2colMap(TensorMap):
    """CUtensorMap (im2col): `box` is (channels, pixels); dims are channels, then those of an image, then images."""

    how: Im2col = _NOTHING

    def check_box(self) -> None:
        """Corners and steps fit the dims."""
        rank, how = len(self.dims), self.how
        if not 3 <= rank <= 5 or len(self.box) != 2 or len(self.strides) != rank - 1:
            raise EmulatorError(
                f"tensor map: im2col of {rank} dims, {len(self.box)} box sizes, {len(self.strides)} strides: "
                "expected 3 to 5 dims, 2 box sizes, one stride less"
            )
        if any(len(c) != rank - 2 for c in (how.lower, how.upper, how.steps)):
            raise EmulatorError(f"tensor map: {how.lower}, {how.upper}, {how.steps}: expected {rank - 2} of each")
        most = 1 << OFFSET_BITS // (rank - 2) - 1
        if any(not -most <= c < most for c in (*how.lower, *how.upper)):
            raise EmulatorError(f"tensor map: corners {how.lower}, {how.upper}: expected -{most} to {most - 1}")
        if any(not 1 <= s <= MOST_STEP for s in how.steps):
            raise EmulatorError(f"tensor map: element strides {how.steps}: expected 1 to {MOST_STEP}")
        if any(n < 1 for n in self.counts):
            raise EmulatorError(f"tensor map: corners {how.lower}, {how.upper} of {self.dims} leave nothing")
        if not 1 <= self.box[0] <= 256 or not 1 <= self.box[1] <= 1024:
            raise EmulatorError(f"tensor map: box {self.box}: expected up to 256 channels of up to 1024 pixels")

    @property
    def counts(self) -> tuple[int, ...]:
        """Pixels of the bounding box along each dim of an image."""
        how = self.how
        dims = zip(self.dims[1:-1], how.lower, how.upper, how.steps, strict=True)
        return tuple((n - 1 + upper - lower) // step + 1 for n, lower, upper, step in dims)

    def elements(self, start: list[int], offsets: list[int]) -> tuple[Array, Array]:
        """Where the elements of a box are in bytes, [pixels, channels], and which exist."""
        how, counts = self.how, self.counts
        channel, *inner, image = start
        flat, size = 0, 1
        for at, lower, step, count in zip(inner, how.lower, how.steps, counts, strict=True):
            digit, rest = divmod(at - lower, step)
            if rest or not 0 <= digit < count:
                raise EmulatorError(f"coordinate {at}: expected one of {count} from {lower}, {step} apart")
            flat, size = flat + digit * size, size * count
        most = 1 << OFFSET_BITS // len(inner)
        if any(not 0 <= offset < most for offset in offsets):
            raise EmulatorError(f"im2col offsets {tuple(offsets)}: expected 0 to {most - 1}")
        left = (flat + image * size + np.arange(self.box[1]))[:, None]
        channels = channel + np.arange(self.box[0])
        position, exists = channels * self.elem_bytes, (channels >= 0) & (channels < self.dims[0])
        for i, count in enumerate(counts):
            at = how.lower[i] + left % count * how.steps[i] + offsets[i]
            left = left // count
            position = position + at * self.strides[i]
            exists = exists & (at >= 0) & (at < self.dims[1 + i])
        return position + left * self.strides[-1], exists & (left >= 0) & (left < self.dims[-1])
