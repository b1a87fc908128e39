"""What a caller gives and gets: host arrays, torch tensors, anything with DLPack, and `DeviceArray`.

An input becomes an `Operand`: either host memory to copy in, or an address on the device.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from graphfuse.artifact import ELEMS, Array, Signature, TensorSpec, elem_dtype
from graphfuse.errors import DeviceError, InputError
from graphfuse.runtime.binding import Binder
from graphfuse.runtime.gpu import dlpack
from graphfuse.runtime.gpu.context import Context
from graphfuse.runtime.gpu.dlpack import KIND_CPU, KIND_CUDA, KIND_MANAGED, Imported
from graphfuse.runtime.gpu.memory import Block

ALIGNMENT = 16
"""Bytes; what kernels assume of every tensor."""

Origin = Literal["host", "torch", "device"]
"""Where a call's inputs come from, and so what its outputs are."""

_TORCH_NAMES = {e: elem_dtype(e).name for e in ELEMS if e not in ("i4", "u4", "i2", "u2", "f4e2m1")}
"""As numpy's; what torch has of less than a byte is stored otherwise."""


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """An input: `host` memory, or an `address` on the device that `owner` keeps alive."""

    shape: tuple[int, ...]
    origin: Origin
    host: Array | None = None
    address: int = 0
    owner: Any = None


class DeviceArray:
    """A result on a GPU: contiguous, complete, and shared with other libraries through DLPack without a copy.

    `numpy()` copies it to the host. Its memory goes back to the pool when the last user of it is gone.
    """

    def __init__(self, context: Context, block: Block, elem: str, shape: tuple[int, ...]) -> None:
        self._context, self._block, self._elem = context, block, elem
        self.shape, self.dtype = shape, elem_dtype(elem)
        self._streams: set[int] = set()
        self._finalizer = weakref.finalize(self, _give, context, block, self._streams)

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    @property
    def address(self) -> int:
        """Where it is in device memory."""
        return self._block.address

    def numpy(self) -> Array:
        """A copy in host memory."""
        return self._copy(0, self.shape)

    def __getitem__(self, index: int | tuple[int, ...]) -> Array:
        """A copy in host memory of what is at an index of the first dims, from 0 on."""
        at = index if isinstance(index, tuple) else (index,)
        try:
            number = np.ravel_multi_index(at, self.shape[: len(at)])
        except (TypeError, ValueError):
            raise IndexError(f"expected an index in {self.shape}, found {at}") from None
        return self._copy(int(number), self.shape[len(at) :])

    def _copy(self, number: int, shape: tuple[int, ...]) -> Array:
        """Of the parts of this shape one."""
        out = np.empty(shape, self.dtype)
        with self._context.current():
            driver = self._context.driver
            driver.copy_out(out.ctypes.data, self.address + number * out.nbytes, out.nbytes, 0)
            driver.synchronize(0)
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("a device array can only be copied to the host")
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (KIND_CUDA, self._context.ordinal)

    def __dlpack__(
        self, *, stream: int | None = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        if (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()) or copy:
            raise BufferError("a device array is exported where it is, without a copy")
        # 1 is the legacy default stream, -1 says that the taker synchronises by itself
        self._streams.add(stream if stream is not None and stream > 2 else 0)
        return dlpack.export(self, self.address, self.__dlpack_device__(), self._elem, self.shape)

    def __repr__(self) -> str:
        return f"DeviceArray({self._elem}[{', '.join(map(str, self.shape))}] on {self._context.where})"


def _give(context: Context, block: Block, streams: set[int]) -> None:
    """Back into the pool, after what its users' streams have been given; nothing where the GPU is gone."""
    try:
        with context.current():
            context.pool.give(block, tuple(streams))
    except DeviceError:
        return


def torch_module() -> Any:
    """torch if this process has imported it, else None; it is never imported from here."""
    return sys.modules.get("torch")


def torch_dtype(elem: str) -> Any:
    """torch's name for an element type, or None where it has none."""
    return getattr(torch_module(), _TORCH_NAMES.get(elem, ""), None)


def is_cuda_tensor(value: Any) -> bool:
    """Whether it is a torch tensor on a GPU."""
    torch = torch_module()
    return torch is not None and isinstance(value, torch.Tensor) and value.device.type == "cuda"


def current_stream(ordinal: int) -> int:
    """torch's stream for a GPU."""
    return int(torch_module().cuda.current_stream(ordinal).cuda_stream)


class Reader:
    """Checks the inputs of a call against a signature; the result is in the signature's order."""

    def __init__(self, signature: Signature, binder: Binder, context: Context) -> None:
        self._signature, self._binder, self._context = signature, binder, context

    def operands(self, inputs: Mapping[str, Any], stream: int) -> list[Operand]:
        """The inputs. What another library has on the GPU is made ready for work given to `stream`."""
        self._binder.check_names(inputs)
        return [self._operand(i, s, inputs[s.name], stream) for i, s in enumerate(self._signature.inputs)]

    def _operand(self, index: int, spec: TensorSpec, value: Any, stream: int) -> Operand:
        if isinstance(value, DeviceArray):
            self._check_device(spec, value.__dlpack_device__()[1])
            if value.dtype != elem_dtype(spec.elem):
                raise InputError(f"input {spec.name!r}: expected {elem_dtype(spec.elem)}, found {value.dtype}")
            return Operand(value.shape, "device", address=value.address, owner=value)
        torch = torch_module()
        if torch is not None and isinstance(value, torch.Tensor):
            return self._torch(index, spec, value)
        kind = _device_of(value)
        if kind[0] in (KIND_CUDA, KIND_MANAGED):
            return self._imported(spec, value, kind, stream)
        array = self._binder.array(index, value)
        return Operand(array.shape, "host", host=array)

    def _torch(self, index: int, spec: TensorSpec, value: Any) -> Operand:
        value = value.resolve_neg() if hasattr(value, "resolve_neg") else value
        if value.device.type != "cuda":
            array = self._binder.array(index, value)
            return Operand(array.shape, "host", host=array)
        self._check_device(spec, value.device.index)
        if value.dtype != torch_dtype(spec.elem):
            raise InputError(f"input {spec.name!r}: expected {elem_dtype(spec.elem)}, found {value.dtype}")
        value = value.detach()
        if not value.is_contiguous():
            value = value.contiguous()
        if value.data_ptr() % ALIGNMENT:
            value = value.clone()
        return Operand(tuple(value.shape), "torch", address=int(value.data_ptr()), owner=value)

    def _imported(self, spec: TensorSpec, value: Any, device: tuple[int, int], stream: int) -> Operand:
        self._check_device(spec, device[1])
        try:
            array = Imported(value, stream or 1)
        except (BufferError, RuntimeError, TypeError, ValueError) as e:
            raise InputError(f"input {spec.name!r}: cannot be read through DLPack: {str(e).lower()}") from None
        if array.elem != spec.elem:
            found = array.elem or "an element type of its own"
            raise InputError(f"input {spec.name!r}: expected {spec.elem}, found {found}")
        if not dlpack.is_contiguous(array.shape, array.strides) or array.address % ALIGNMENT:
            return Operand(array.shape, "device", host=self._gathered(spec, array))
        return Operand(array.shape, "device", address=array.address, owner=array)

    def _gathered(self, spec: TensorSpec, array: Imported) -> Array:
        """A dense copy, by way of the host: right for any strides, and slow."""
        dtype = elem_dtype(spec.elem)
        if 0 in array.shape:
            return np.empty(array.shape, dtype)
        reach = [(d - 1) * s for d, s in zip(array.shape, array.strides, strict=True)]
        low, high = sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach)
        span = np.empty(high - low + 1, dtype)
        driver = self._context.driver
        driver.copy_out(span.ctypes.data, array.address + low * dtype.itemsize, span.nbytes, 0)
        driver.synchronize(0)
        strides = tuple(s * dtype.itemsize for s in array.strides)
        view = np.lib.stride_tricks.as_strided(span[-low:], array.shape, strides)
        return np.array(view, order="C")

    def _check_device(self, spec: TensorSpec, ordinal: int) -> None:
        if ordinal != self._context.ordinal:
            raise InputError(
                f"input {spec.name!r}: expected an array on cuda:{self._context.ordinal} or on the host, "
                f"found one on cuda:{ordinal}"
            )


def _device_of(value: Any) -> tuple[int, int]:
    if isinstance(value, (np.ndarray, np.generic)) or not hasattr(value, "__dlpack_device__"):
        return (KIND_CPU, 0)
    try:
        kind, index = value.__dlpack_device__()
    except (BufferError, RuntimeError, TypeError, ValueError):
        return (KIND_CPU, 0)  # which the binder then finds to be no array
    return (int(kind), int(index))
