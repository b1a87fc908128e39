"""Makes a GPU's context while what will use it is imported and read: by the standard library alone."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading


@functools.cache
def begin_context(ordinal: int) -> None:
    """Make a GPU's context, in another thread. What is wrong is said by who uses it."""
    threading.Thread(target=_retain, args=(ordinal,), daemon=True).start()


def _retain(ordinal: int) -> None:
    """As `BindingsDriver.retain`, but for the module, which takes as long to import as this does."""
    with contextlib.suppress(OSError, AttributeError):
        cuda, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
        if not cuda.cuInit(0) and not cuda.cuDeviceGet(ctypes.byref(device), ordinal):
            cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
