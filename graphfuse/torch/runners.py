"""What runs an executable on tensors of torch: by address, with memory, threads and streams of torch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from graphfuse.artifact import Executable
from graphfuse.devices import driver_of
from graphfuse.runtime.device import Device
from graphfuse.runtime.direct import Direct
from graphfuse.runtime.gpu.direct import GpuDirect
from graphfuse.runtime.gpu.launches import Launches
from graphfuse.runtime.workspace import Shared

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


class OnGpu:
    """Runs an executable on a GPU, in memory of torch's."""

    def __init__(self, executable: Executable, device: torch.device) -> None:
        self.device = device
        self.index = torch.cuda.current_device() if device.index is None else device.index
        self._kept: list[torch.Tensor] = []
        self._direct = GpuDirect(executable, driver_of(Device("cuda", self.index)), self.index, self._zeroed)

    def _zeroed(self, nbytes: int) -> int:
        self._kept.append(torch.zeros(nbytes, dtype=torch.uint8, device=self.device))
        torch.cuda.current_stream(self.index).synchronize()
        return self._kept[-1].data_ptr()

    def run(self, values: tuple[int, ...], addresses: Sequence[int]) -> None:
        """Run at the symbols' values on the addresses of inputs, then outputs."""
        launches = self._direct.bind(values)
        with self._around(launches) as (arena, stream, captures):
            self._direct.run(launches, addresses, arena, stream, captures=captures)

    def run_in_pieces(
        self,
        values: tuple[int, ...],
        inputs: list[torch.Tensor],
        makers: list[Callable[[], torch.Tensor]],
        address: Callable[[torch.Tensor], int],
        results: int,
    ) -> list[torch.Tensor]:
        """As `Direct.run_in_pieces`."""
        launches = self._direct.bind(values)
        with self._around(launches) as (arena, stream, captures):
            return self._direct.run_in_pieces(
                launches, inputs, makers, address, results, arena, stream, captures=captures
            )

    @contextmanager
    def _around(self, launches: Launches) -> Generator[tuple[int, int, bool]]:
        """The memory of intermediate tensors, the stream, and whether it is being captured."""
        nbytes = launches.bound.arena.peak
        # returned to the allocator at once: what takes it next is on this stream, or waits for it
        arena = torch.empty(nbytes, dtype=torch.uint8, device=self.device) if nbytes else None
        captures = bool(launches.scratch_bytes) and torch.cuda.is_current_stream_capturing()
        stream = torch.cuda.current_stream(self.index).cuda_stream
        yield 0 if arena is None else arena.data_ptr(), stream, captures


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
