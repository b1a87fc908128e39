"""Instructions by family: each file registers the builders of its own."""

from graphfuse.gpu.emulator.instructions import (
    asynchronous,
    barrier,
    calls,
    cluster,
    control,
    convert,
    floating,
    integer,
    memory,
    mma,
    shuffle,
    tma,
    wgmma,
)

__all__ = [
    "asynchronous", "barrier", "calls", "cluster", "control", "convert", "floating", "integer", "memory", "mma",
    "shuffle", "tma", "wgmma",
]  # fmt: skip
