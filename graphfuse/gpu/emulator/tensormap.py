"""What the host gives the emulator besides numbers: buffers with a state, and TMA descriptors."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from graphfuse.gpu.emulator.errors import EmulatorError
from graphfuse.gpu.emulator.types import Array

SWIZZLES = (0, 32, 64, 128)
"""In bytes; 0 is none."""
MOST_STRIDE = 1 << 40
"""In bytes (globalStrides of cuTensorMapEncodeTiled)."""


@dataclass(frozen=True, eq=False, slots=True)
class Buffer:
    """A device buffer: `array` is changed in place. Not `initialised`: reading before writing is an error.

    The argument is the address `offset` bytes into it. Not `writable`: writing is an error. `constant`: no launch
    writes it, so a kernel may read it before `griddepcontrol.wait`. Messages count elements of `elem_bytes`, by default
    the array's. Where it holds addresses, `reached` are the buffers whose arrays begin there.
    """

    array: Array
    initialised: bool = True
    name: str = ""
    offset: int = 0
    writable: bool = True
    constant: bool = False
    elem_bytes: int = 0
    reached: tuple[Buffer, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class TensorMap:
    """CUtensorMap (tiled): a box to copy out of `array`, innermost dimension first as the driver has it.

    `dims` and `strides` (bytes, without the innermost) default to the array's own. `swizzle` is in bytes (0: none).
    The first element is `offset` bytes into the array. Elements outside read as zero, or as NaN with `fill_nan`, and
    are not written. `constant` is as for a Buffer.
    """

    array: Array
    box: tuple[int, ...]
    swizzle: int = 0
    dims: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    element_strides: tuple[int, ...] = ()
    fill_nan: bool = False
    initialised: bool = True
    name: str = ""
    offset: int = 0
    constant: bool = False
    elem_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        array, put = self.array, object.__setattr__
        if not self.dims:
            put(self, "dims", array.shape[::-1])
            put(self, "strides", array.strides[::-1][1:])
        put(self, "elem_bytes", array.itemsize)
        if not self.element_strides:
            put(self, "element_strides", (1,) * len(self.dims))
        self._check()

    def check_box(self) -> None:
        """Its rank and sizes."""
        rank = len(self.dims)
        if not 1 <= rank <= 5 or len(self.box) != rank or len(self.strides) != rank - 1:
            raise EmulatorError(
                f"tensor map: {rank} dims, {len(self.box)} box sizes, {len(self.strides)} strides: "
                "expected 1 to 5 dims, as many box sizes, one stride less"
            )
        if any(not 1 <= b <= 256 for b in self.box):
            raise EmulatorError(f"tensor map: box {self.box}: expected sizes from 1 to 256")

    def _check(self) -> None:
        elem = self.elem_bytes
        self.check_box()
        if self.swizzle not in SWIZZLES:
            raise EmulatorError(f"tensor map: swizzle {self.swizzle}: expected one of {SWIZZLES}")
        inner = self.box[0] * elem
        if inner % 16:
            raise EmulatorError(f"tensor map: the inner box has {inner} bytes: expected a multiple of 16")
        if self.swizzle and inner > self.swizzle:
            raise EmulatorError(f"tensor map: the inner box has {inner} bytes: a {self.swizzle}B swizzle spans less")
        for stride in self.strides:
            if stride % 16 or not 0 <= stride < MOST_STRIDE:
                raise EmulatorError(f"tensor map: stride {stride}: expected a multiple of 16 bytes, from 0 to 2^40")
        if not self.array.flags.c_contiguous:
            raise EmulatorError("tensor map: the array is not contiguous")

    def elements(self, start: list[int], offsets: list[int]) -> tuple[Array, Array]:
        """Where the elements of a box are in bytes, innermost dimension fastest, and which exist."""
        assert not offsets, "tiles have none"
        rank, strides = len(self.dims), (self.elem_bytes, *self.strides)
        position = np.zeros((1,) * rank, np.int64)
        exists = np.ones((1,) * rank, np.bool_)
        for axis in range(rank):
            shape = [1] * rank
            shape[rank - 1 - axis] = self.box[axis]
            coordinate = (start[axis] + np.arange(self.box[axis]) * self.element_strides[axis]).reshape(shape)
            position = position + coordinate * strides[axis]
            exists = exists & (coordinate >= 0) & (coordinate < self.dims[axis])
        return position, exists

    @property
    def row_bytes(self) -> int:
        """From one row of the box to the next in shared memory: swizzled, its whole span (seen on an H200)."""
        return self.swizzle or self.box[0] * self.elem_bytes

    @property
    def box_bytes(self) -> int:
        """What one copy moves, elements outside the array included."""
        return int(np.prod(self.box)) * self.elem_bytes


def swizzled(address: Array, span: int) -> Array:
    """Byte addresses under a swizzle of `span` bytes: the 16-byte chunk number XORed with the row number."""
    if not span:
        return address
    mask = span // 16 - 1
    return address ^ (((address >> 7) & mask) << 4)
