"""Words of CUDA, which a programmer may bring along, and what stands for them where programs are single-threaded."""

from __future__ import annotations

from typing import Final

_TILE = "a program is one thread, and its variables may be tiles: expected a range such as 0 ... 128"
_OWN = "where a tile lies is the compiler's choice: expected a tile, T x[SHAPE]"
_SYNC = "a program is one thread: expected nothing, or __debug_barrier()"

CUDA_WORDS: Final = {
    "threadIdx": _TILE,
    "blockDim": _TILE,
    "blockIdx": "expected get_program_id(axis)",
    "gridDim": "expected get_num_programs(axis)",
    "__shared__": _OWN,
    "__syncthreads": _SYNC,
    "__syncwarp": _SYNC,
}
