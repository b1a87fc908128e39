"""What runs an executable on tensors of torch: by address, with memory, threads and streams of torch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from graphfuse.artifact import Executable
from graphfuse.devices import driver_of
from graphfuse.runtime.device import Device
from graphfuse.runtime.direct import Direct
from graphfuse.runtime.gpu.direct import GpuDirect
from graphfuse.runtime.workspace import Shared

Runner = Callable[[tuple[int, ...], Sequence[int]], None]
"""Takes the symbols' values, and the addresses of inputs, then outputs."""
Allocator = Callable[[Sequence[int], Sequence[int], torch.dtype], torch.Tensor]
"""Takes sizes, strides, and the element type."""
Allocation = tuple[Allocator, tuple[int, ...], tuple[int, ...], torch.dtype]
"""What makes a tensor, and what it is given."""


def direct(executable: Executable) -> Direct:
    """What runs an executable on the CPU, in workspaces of all that runs on as many threads as torch now uses."""
    threads = torch.get_num_threads()
    with _lock:
        if (shared := _shared.get(threads)) is None:
            shared = _shared[threads] = Shared(threads)
    return Direct(executable, shared)


_shared: dict[int, Shared] = {}
_lock = threading.Lock()


def on_gpu(executable: Executable, device: torch.device) -> Runner:
    """What runs an executable on a GPU."""
    index = torch.cuda.current_device() if device.index is None else device.index
    kept: list[torch.Tensor] = []

    def zeroed(nbytes: int) -> int:
        kept.append(torch.zeros(nbytes, dtype=torch.uint8, device=device))
        torch.cuda.current_stream(index).synchronize()
        return kept[-1].data_ptr()

    direct = GpuDirect(executable, driver_of(Device("cuda", index)), index, zeroed)

    def run(values: tuple[int, ...], addresses: Sequence[int]) -> None:
        launches = direct.bind(values)
        nbytes = launches.bound.arena.peak
        # returned to the allocator at once: what takes it next is on this stream, or waits for it
        arena = torch.empty(nbytes, dtype=torch.uint8, device=device) if nbytes else None
        stream = torch.cuda.current_stream(index).cuda_stream
        captures = bool(launches.scratch_bytes) and torch.cuda.is_current_stream_capturing()
        direct.run(launches, addresses, 0 if arena is None else arena.data_ptr(), stream, captures=captures)

    return run


def allocator(device: torch.device) -> Allocator:
    """What makes tensors of any contents on a device."""
    # torch has allocations with nothing to parse; that for a GPU takes the current one
    core: Any = torch._C
    quick = getattr(core._dynamo.guards, "_empty_strided_cpu", None) if device.type == "cpu" else None
    if quick is not None:
        return quick

    def empty(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty_strided(size, stride, dtype=dtype, device=device)

    return empty
