"""What callers pass: arrays of numpy, torch, CuPy or any library with DLPack, and numbers."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from graphfuse.artifact import Array, elem_dtype
from graphfuse.errors import InputError
from graphfuse.kernels.signature import Parameter
from graphfuse.runtime.apart import overlaps_itself
from graphfuse.runtime.gpu.arrays import current_stream, torch_dtype, torch_module
from graphfuse.runtime.gpu.dlpack import KIND_CPU, KIND_CUDA, KIND_MANAGED, KIND_PINNED, Imported

HOST_KINDS = (KIND_CPU, KIND_PINNED)
NOWHERE = 4096
"""The address of an array without elements whose library gives it none: such an array is not a null pointer."""


@dataclass(slots=True)
class Memory:
    """Where an array begins and how many bytes from there on are its own; `gpu` is -1 on the host."""

    address: int
    nbytes: int
    gpu: int
    owner: Any
    is_dense: bool
    """Whether all of these bytes are its own."""
    entries: tuple[Memory | None, ...] = ()
    """Of a list of arrays, whose addresses are what this memory of our own holds: these."""

    def overlaps(self, other: Memory) -> bool:
        """Whether they certainly share bytes; arrays with gaps may lie in one another's."""
        apart = self.address + self.nbytes <= other.address or other.address + other.nbytes <= self.address
        return self.is_dense and other.is_dense and self.gpu == other.gpu and not apart


@dataclass(frozen=True, slots=True)
class Bound:
    """The arguments of a launch: 8 bytes for each parameter, and the memory behind those that are pointers."""

    slots: tuple[int, ...]
    memory: tuple[Memory | None, ...]
    gpu: int | None
    """The GPU that arrays are on, -1 for the host, None if there are none."""
    is_torch: bool

    @property
    def stream(self) -> int:
        """The stream that such a launch is given to."""
        return current_stream(self.gpu) if self.is_torch and self.gpu is not None and self.gpu >= 0 else 0


def bind(kernel: str, wanted: Sequence[Parameter], args: Sequence[Any], named: Mapping[str, Any] | None) -> Bound:
    """Match arguments with parameters; raises InputError naming the one that does not fit."""
    values = in_order(kernel, wanted, args, named)
    slots: list[int] = []
    memory: list[Memory | None] = []
    for p, value in zip(wanted, values, strict=True):
        what = f"kernel {kernel!r}: argument {p.name!r}"
        if p.is_pointer:
            found = None if value is None else memory_of(what, p, value)
            memory.append(found)
            slots.append(found.address if found else 0)
        else:
            memory.append(None)
            slots.append(slot_of(what, p, value))
    arrays = list(arrays_of(wanted, memory))
    places = {m.gpu for _, m in arrays}
    if len(places) > 1:
        names = [f"{p.name} on {_place(m.gpu)}" for p, m in arrays]
        raise InputError(f"kernel {kernel!r}: expected all arrays on one device, found {', '.join(names)}")
    torch = torch_module()
    is_torch = torch is not None and any(isinstance(m.owner, torch.Tensor) for _, m in arrays)
    return Bound(tuple(slots), tuple(memory), places.pop() if places else None, is_torch)


def arrays_of(wanted: Sequence[Parameter], memory: Sequence[Memory | None]) -> Iterator[tuple[Parameter, Memory]]:
    """The arrays of a launch, each of a list by itself as `x[3]`."""
    for p, m in zip(wanted, memory, strict=True):
        if m is not None and p.entry is not None and m.entries:
            yield from ((_entry(p, i, p.entry), e) for i, e in enumerate(m.entries) if e is not None)
        elif m is not None:
            yield p, m


def _entry(p: Parameter, i: int, entry: Parameter) -> Parameter:
    return replace(entry, name=f"{p.name}[{i}]")


def packed(slots: Sequence[int]) -> Array:
    """Slots in memory: 8 bytes each, numbers of either sign and addresses."""
    return np.array([s - (1 << 64) if s >= 1 << 63 else s for s in slots], np.int64)


def _place(gpu: int) -> str:
    return "the host" if gpu < 0 else f"cuda:{gpu}"


def in_order(
    kernel: str, wanted: Sequence[Parameter], args: Sequence[Any], named: Mapping[str, Any] | None
) -> tuple[Any, ...]:
    """One argument for each parameter; raises InputError naming what is missing or too much."""
    named = named or {}
    left = [p.name for p in wanted[len(args) :]]
    if len(args) + len(named) == len(wanted) and all(name in named for name in left):
        return (*args, *(named[name] for name in left))
    listing = ", ".join(map(str, wanted))
    if len(args) > len(wanted):
        raise InputError(f"kernel {kernel!r}: expected {len(wanted)} arguments ({listing}), found {len(args)}")
    for name in left:
        if name not in named:
            raise InputError(f"kernel {kernel!r}: no argument for {name!r} ({listing})")
    unknown = min(set(named).difference(left))
    what = "two values for" if any(p.name == unknown for p in wanted) else "no parameter"
    raise InputError(f"kernel {kernel!r}: {what} {unknown!r} ({listing})")


# arrays


def memory_of(what: str, p: Parameter, value: Any) -> Memory:
    """Where an array is; raises InputError for one that is not the parameter's."""
    torch = torch_module()
    if p.entry is not None:
        if isinstance(value, list | tuple):
            return _of_list(what, p, p.entry, cast("Sequence[Any]", value))
        if not _is_addresses(value):
            found = getattr(value, "dtype", type(value).__name__)
            expected = f"expected a list of arrays of {p.entry.elem}, or an array of addresses (i64)"
            raise InputError(f"{what}: {expected}, found {f'one of {found}' if hasattr(value, 'dtype') else found}")
    if isinstance(value, np.ndarray):
        return _of_numpy(what, p, cast("Array", value))
    if torch is not None and isinstance(value, torch.Tensor):
        return _of_torch(what, p, value)
    if hasattr(value, "__dlpack__"):
        return _of_dlpack(what, p, value)
    raise InputError(f"{what}: expected an array of {p.elem}, found {type(value).__name__}")


def _of_list(what: str, p: Parameter, entry: Parameter, values: Sequence[Any]) -> Memory:
    """The addresses of arrays, in memory that is kept with them; that of None is 0."""
    if not values:
        raise InputError(f"{what}: expected a list of arrays of {entry.elem}, found an empty list")
    found = [
        None if value is None else memory_of(f"{what}, entry {i}", _entry(p, i, entry), value)
        for i, value in enumerate(values)
    ]
    table = packed([m.address if m else 0 for m in found])
    address = int(table.__array_interface__["data"][0])
    return Memory(address, table.nbytes, -1, table, is_dense=True, entries=tuple(found))


def _is_addresses(value: Any) -> bool:
    """Whether it may be an array of integers of 64 bits: what DLPack brings is looked at later."""
    name = str(getattr(value, "dtype", "")).removeprefix("torch.")
    is_array = hasattr(value, "__dlpack__") or isinstance(value, np.ndarray)
    return is_array and (name in ("int64", "uint64") or not name)


def _of_numpy(what: str, p: Parameter, value: Array) -> Memory:
    if value.dtype != elem_dtype(p.elem.name) and not _is_bits_of(p, value.dtype):
        raise InputError(f"{what}: expected an array of {p.elem}, found one of {value.dtype}")
    if p.mode != "r" and not value.flags.writeable:
        raise InputError(f"{what}: expected an array that can be written, found one that is read-only")
    address = int(value.__array_interface__["data"][0])
    if value.flags.c_contiguous:
        return Memory(address, value.nbytes, -1, value, is_dense=True)
    return _strided(what, p, address, value.shape, value.strides, -1, value)


def _strided(
    what: str, p: Parameter, address: int, shape: Sequence[int], strides: Sequence[int], gpu: int, owner: Any
) -> Memory:
    """An array by its strides in bytes. A kernel gets an address and goes forward from there."""
    if 0 in shape:
        return Memory(address or NOWHERE, 0, gpu, owner, is_dense=True)
    if any(s < 0 and d > 1 for d, s in zip(shape, strides, strict=True)):
        expected = "expected an array whose first element comes first in memory"
        raise InputError(f"{what}: {expected}, found strides of {tuple(strides)} bytes")
    item = p.elem.bytes
    if p.mode != "r" and overlaps_itself(shape, strides, item):
        found = f"found one of shape {tuple(shape)} with strides of {tuple(strides)} bytes"
        raise InputError(f"{what}: expected an array whose elements lie apart, as it is written, {found}")
    span = item + sum((d - 1) * s for d, s in zip(shape, strides, strict=True))
    return Memory(address, span, gpu, owner, is_dense=span <= item * math.prod(shape))


def _is_bits_of(p: Parameter, dtype: np.dtype[Any]) -> bool:
    """Whether elements are kept as others: bytes where numpy has no type of its own, addresses without a sign."""
    if p.entry is not None:
        return dtype == np.uint64
    return p.elem.is_float and p.elem.bits == 8 and dtype == np.uint8


def _of_torch(what: str, p: Parameter, value: Any) -> Memory:
    if value.device.type not in ("cpu", "cuda"):
        raise InputError(f"{what}: expected a tensor on a CPU or a CUDA device, found one on {value.device}")
    if value.dtype not in (torch_dtype(p.elem.name), torch_dtype("u64") if p.entry is not None else None):
        found = str(value.dtype).removeprefix("torch.")
        raise InputError(f"{what}: expected a tensor of {p.elem}, found one of {found}")
    if value.layout != torch_module().strided or value.is_neg():
        found = "one that is negated when it is read" if value.is_neg() else f"one that is {value.layout}"
        raise InputError(f"{what}: expected a tensor whose memory holds its elements, found {found}")
    size = value.element_size()
    gpu = (value.device.index or 0) if value.device.type == "cuda" else -1
    address = _address_of_torch(what, value)
    if value.is_contiguous():
        return Memory(address or NOWHERE, value.numel() * size, gpu, value, is_dense=True)
    strides = [s * size for s in value.stride()]
    return _strided(what, p, address, value.shape, strides, gpu, value)


def _address_of_torch(what: str, value: Any) -> int:
    """0 only for a tensor without elements. What torch traces with, and tensors made of tensors, have no memory."""
    try:
        address = int(value.data_ptr())
    except (RuntimeError, Warning):  # a fake tensor says 0 and warns, which may be an error
        address = 0
    if not address and value.numel():
        found = f"found a {type(value).__name__} without memory"
        raise InputError(f"{what}: expected a tensor whose memory holds its elements, {found}")
    return address


def _of_dlpack(what: str, p: Parameter, value: Any) -> Memory:
    kind, index = value.__dlpack_device__()
    on_gpu = int(kind) in (KIND_CUDA, KIND_MANAGED)
    if not on_gpu and int(kind) not in HOST_KINDS:
        raise InputError(f"{what}: expected an array on a CPU or a CUDA device, found DLPack device type {int(kind)}")
    try:
        array = Imported(value, 1 if on_gpu else None)
    except (BufferError, RuntimeError, TypeError, ValueError) as e:
        raise InputError(f"{what}: cannot be read through DLPack: {str(e).lower()}") from None
    if array.elem != p.elem.name and not (p.entry is not None and array.elem == "u64"):
        found = array.elem or "an element type of its own"
        raise InputError(f"{what}: expected an array of {p.elem}, found one of {found}")
    size = p.elem.bytes
    strides = [s * size for s in array.strides]
    return _strided(what, p, array.address, array.shape, strides, int(index) if on_gpu else -1, array)


# numbers

_STRUCT = {"f32": "<f", "f64": "<d", "f16": "<e"}


def slot_of(what: str, p: Parameter, value: Any) -> int:
    """A number, of which a float's bits; raises InputError for one that is not the parameter's."""
    if isinstance(value, bool) and p.elem.name == "bool":
        return int(value)
    if p.elem.is_float:
        return _float_bits(what, p, value)
    try:
        number = value.__index__()
    except (AttributeError, TypeError):
        raise InputError(f"{what}: expected an integer, found {_shown(value)}") from None
    low, high = integer_range(p)
    if not low <= number <= high:
        raise InputError(f"{what}: expected {p.elem} ({low} to {high}), found {_shown(number)}")
    return number


def integer_range(p: Parameter) -> tuple[int, int]:
    """The least and the greatest number of a parameter that takes integers or bool."""
    bits = 1 if p.elem.name == "bool" else p.elem.bits
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if p.elem.is_signed else (0, (1 << bits) - 1)


def _float_bits(what: str, p: Parameter, value: Any) -> int:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what}: expected a number, found {_shown(value)}") from None
    if p.elem.name in _STRUCT:
        try:
            return int.from_bytes(struct.pack(_STRUCT[p.elem.name], number), "little")
        except OverflowError:
            number = float("inf") if number > 0 else float("-inf")
    with np.errstate(over="ignore"):  # what is too large is infinite, or what the type has instead
        return int.from_bytes(np.array(number).astype(elem_dtype(p.elem.name)).tobytes(), "little")


def _shown(value: Any) -> str:
    if isinstance(value, int) and value.bit_length() > 256:
        return f"one of {value.bit_length()} bits"
    return repr(value) if isinstance(value, int | float | str) else type(value).__name__
