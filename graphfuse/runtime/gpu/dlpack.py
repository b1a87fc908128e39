"""Arrays of other libraries on a device, in and out through DLPack, without a copy.

The structures are those of dlpack.h: an array is a capsule called `dltensor`, renamed `used_dltensor` by who takes it,
who then must call its deleter.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

KIND_CPU, KIND_CUDA, KIND_PINNED, KIND_MANAGED = 1, 2, 3, 13

_TYPES: dict[str, tuple[int, int]] = {
    "i8": (0, 8), "i16": (0, 16), "i32": (0, 32), "i64": (0, 64),
    "u8": (1, 8), "u16": (1, 16), "u32": (1, 32), "u64": (1, 64),
    "f16": (2, 16), "f32": (2, 32), "f64": (2, 64), "bf16": (4, 16), "bool": (6, 8),
    "f8e4m3": (10, 8), "f8e4m3fnuz": (11, 8), "f8e5m2": (12, 8), "f8e5m2fnuz": (13, 8), "f8e8m0": (14, 8),
}  # fmt: skip
"""Element types by name: DLDataTypeCode and bits. Elements of less than a byte are stored otherwise here."""
_NAMES = {code: name for name, code in _TYPES.items()}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _python(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    # a prototype of its own: `ctypes.pythonapi` is shared by everybody in the process
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_new = _python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_rename = _python("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_is_valid_at = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_pointer_at = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)

# capsules keep these pointers, not the strings' lifetime
_FRESH, _USED = ctypes.c_char_p(b"dltensor"), ctypes.c_char_p(b"used_dltensor")


class Imported:
    """An array another library owns. It lives, and may be read, until this is released or collected."""

    def __init__(self, value: Any, stream: int | None) -> None:
        """Take `value`, whose content is ready for work given to `stream` (None: no stream, it is on the host)."""
        capsule = value.__dlpack__() if stream is None else value.__dlpack__(stream=stream)
        if not _is_valid_at(id(capsule), _FRESH):
            raise ValueError("not a DLPack capsule of version 0")
        self._managed: Any = _Managed.from_address(_pointer(capsule, _FRESH))
        _rename(capsule, _USED)
        t = self._managed.tensor
        self.address = (t.data or 0) + t.byte_offset
        self.device = (int(t.device_type), int(t.device_id))
        self.shape = tuple(int(t.shape[i]) for i in range(t.ndim))
        strides = tuple(int(t.strides[i]) for i in range(t.ndim)) if t.strides else ()
        self.strides = strides or contiguous_strides(self.shape)
        self.elem = _NAMES.get((t.code, t.bits), "") if t.lanes == 1 else ""

    def release(self) -> None:
        """Let the owner have it back."""
        managed, self._managed = self._managed, None
        if managed is not None and managed.deleter:
            _DELETER(managed.deleter)(ctypes.addressof(managed))

    def __del__(self) -> None:
        if getattr(self, "_managed", None) is not None:
            self.release()


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Of an array whose last dim is the fastest, in elements."""
    out: list[int] = []
    step = 1
    for d in reversed(shape):
        out.append(step)
        step *= max(d, 1)
    return tuple(reversed(out))


def is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements follow one another; strides of dims of size 1 mean nothing."""
    if 0 in shape:
        return True
    wanted = contiguous_strides(shape)
    return all(s == w or d == 1 for d, s, w in zip(shape, strides, wanted, strict=True))


@dataclass(slots=True, eq=False)
class _Export:
    """What an exported array needs to stay alive: its structure, shape, and whoever owns the memory."""

    managed: _Managed
    shape: Any
    owner: Any


_exports: dict[int, _Export] = {}


def export(owner: Any, address: int, device: tuple[int, int], elem: str, shape: Sequence[int]) -> Any:
    """A capsule of a contiguous array at `address`; `owner` is kept until the taker is done with it."""
    if elem not in _TYPES:
        raise BufferError(f"DLPack has no element type for {elem}")
    code, bits = _TYPES[elem]
    dims = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    tensor = _Tensor(address, *device, len(shape), code, bits, 1, dims, None, 0)
    managed = _Managed(tensor, None, ctypes.cast(_delete, ctypes.c_void_p))
    at = ctypes.addressof(managed)
    _exports[at] = _Export(managed, dims, owner)
    return _new(at, _FRESH, ctypes.cast(_destroy, ctypes.c_void_p))


@_DELETER
def _delete(at: int) -> None:
    _exports.pop(at, None)


@_DESTRUCTOR
def _destroy(capsule: int) -> None:
    """A capsule that nobody took owns its array still."""
    if _is_valid_at(capsule, _FRESH):
        _exports.pop(_pointer_at(capsule, _FRESH), None)
