"""Arrays between pages that cannot be touched: whoever reads or writes beyond one of their ends dies."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

_LIBC = ctypes.CDLL(None)
_NONE = 0  # mmap.PROT_NONE, which Python has from 3.13 on


def guarded_empty(shape, dtype, *, low=False, align=1):
    """Memory that ends where the page behind it begins, up to `align`; or begins where the page before ends (`low`)."""
    dtype, page = np.dtype(dtype), mmap.PAGESIZE
    nbytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
    inner = max(-(-nbytes // page), 1) * page
    try:
        whole = mmap.mmap(-1, inner + 2 * page)
    except (OSError, OverflowError) as e:
        raise MemoryError from e
    start = ctypes.addressof(ctypes.c_char.from_buffer(whole))
    for at in (start, start + page + inner):
        assert _LIBC.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(page), _NONE) == 0
    offset = page if low else (page + inner - nbytes) // align * align
    return np.frombuffer(whole, np.uint8, nbytes, offset).view(dtype).reshape(shape)


def guarded(array, *, low=False):
    """A copy of an array."""
    made = guarded_empty(array.shape, array.dtype, low=low)
    made[...] = array
    return made


def guard_runs(patch, *, low=False):
    """Put the outputs of sessions, and their memory for what lies between, between such pages; `patch` is pytest's."""
    from graphfuse.runtime import session, workspace

    patch.setattr(session, "aligned_empty", lambda shape, dtype: guarded_empty(shape, dtype, low=low))
    patch.setattr(workspace, "aligned_bytes", lambda n: guarded_empty((n,), np.uint8, low=low, align=workspace.ALIGN))
