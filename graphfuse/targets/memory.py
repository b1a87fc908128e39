"""The memory of the machine that this process runs on."""

from __future__ import annotations

import functools
import os


@functools.cache
def physical_bytes() -> int:
    """How much there is; a kernel that overcommits hands out more, and then kills."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 1 << 62
