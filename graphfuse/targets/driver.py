"""What `graphfuse.runtime.gpu` asks of a GPU's driver: handles, addresses and streams are plain integers, 0 is none.

A family of targets names the modules that implement it: for NVIDIA's GPUs `graphfuse.runtime.cuda.bindings`, and
`graphfuse.gpu.emulator.driver`, with numpy. `graphfuse.devices.driver_of` opens one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from graphfuse.artifact import TensorMap
from graphfuse.targets.nvidia import GpuInfo


class DriverError(Exception):
    """A call of the driver failed. `name` is the result's, `detail` what else it said."""

    is_sticky = False
    """The context is lost, and answers every call with the same error: only a new process helps."""
    unusable = ""
    """Why this code will never do on this GPU."""
    too_old = ""
    """The same, for users, where a newer driver would take it."""
    launch = -1
    """Which of a batch of launches it was."""

    def __init__(self, name: str, detail: str = "") -> None:
        super().__init__(f"{name}{': ' + detail if detail else ''}")
        self.name = name


@dataclass(frozen=True, slots=True)
class Argument:
    """One slot of a launch. A pointer has the region of memory it points into; `mode` is as in `KernelMeta.params`.

    A `constant` region is written by no launch. `name` and the elements' type `elem` are for messages. A region that
    holds addresses has `reached` what is there.
    """

    value: int
    mode: str
    base: int = 0
    nbytes: int = 0
    constant: bool = False
    name: str = ""
    elem: str = ""
    reached: tuple[Argument, ...] = ()


class LaunchCall(Protocol):
    """A launch, packed. `params` is the address of an array with the address of each parameter."""

    name: str
    function: int
    grid: int
    threads: int
    shared_bytes: int
    cluster: int
    overlaps: bool
    params: int

    def arguments(self) -> Sequence[Argument]:
        """The slots, for who cannot use `params`."""
        ...

    def tensor_maps(self) -> Sequence[bytes]:
        """The encoded tensor maps that follow the slots."""
        ...


@dataclass(frozen=True, slots=True)
class CopyCall:
    """A copy from device to device: `slots` is the address of its source, its destination and its bytes."""

    slots: int


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """What a GPU says of a launch of a kernel, or of a copy on it, which has no name.

    From when to when it ran, in ns of its clock; a thread's registers and local bytes, a block's shared bytes.
    """

    name: str
    start: int
    end: int
    registers: int = 0
    shared_bytes: int = 0
    local_bytes: int = 0


class Launcher(Protocol):
    """Launches and copies in order. What their arguments point to may change from call to call."""

    def __call__(self, stream: int) -> None:
        """Give all of them to a stream. A DriverError says in `launch` which one failed."""
        ...


class Driver(Protocol):
    """Calls raise DriverError. What follows `pop` needs a context, which `push` makes current.

    `contexts` has what the runtime keeps for each GPU.
    """

    contexts: dict[int, Any]

    @property
    def takes_cubins(self) -> bool:
        """Whether it runs machine code; else PTX only."""
        ...

    @property
    def reads_lines(self) -> bool:
        """Whether it says what is wrong with code by the lines of the source, if that has them (`.loc`)."""
        ...

    def device_count(self) -> int:
        """How many GPUs there are."""
        ...

    def device_info(self, ordinal: int) -> GpuInfo:
        """What a GPU is."""
        ...

    def retain(self, ordinal: int) -> int:
        """The primary context of a GPU: the one other libraries in this process use too."""
        ...

    def push(self, context: int) -> None:
        """Make a context current in this thread."""
        ...

    def pop(self) -> None:
        """Make the context before it current again."""
        ...

    def load_module(self, image: bytes) -> int:
        """A cubin, or PTX text that ends with a zero."""
        ...

    def function(self, module: int, name: str) -> int:
        """A kernel of a module."""
        ...

    def allow_shared(self, function: int, nbytes: int) -> None:
        """Let a kernel have this much dynamic shared memory."""
        ...

    def alloc(self, nbytes: int) -> int:
        """Device memory, aligned to at least 256 bytes. Raises MemoryError."""
        ...

    def free(self, address: int) -> None:
        """Give device memory back; waits for the device."""
        ...

    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes."""
        ...

    def alloc_host(self, nbytes: int) -> int:
        """Pinned host memory. Raises MemoryError."""
        ...

    def free_host(self, address: int) -> None:
        """Give pinned memory back."""
        ...

    def copy_in(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Host to device."""
        ...

    def copy_out(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Device to host."""
        ...

    def copy(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Device to device."""
        ...

    def create_stream(self) -> int:
        """A stream that does not wait for the default one."""
        ...

    def destroy_stream(self, stream: int) -> None:
        """Give a stream back."""
        ...

    def synchronize(self, stream: int) -> None:
        """Wait for all work of a stream; raises what went wrong in it."""
        ...

    def create_event(self) -> int:
        """A point in a stream's work, with its time."""
        ...

    def destroy_event(self, event: int) -> None:
        """Give an event back."""
        ...

    def record(self, event: int, stream: int) -> None:
        """Put an event behind the work of a stream."""
        ...

    def wait(self, stream: int, event: int) -> None:
        """Let later work of a stream begin after an event."""
        ...

    def elapsed_ms(self, start: int, end: int) -> float:
        """Milliseconds between two events that have happened."""
        ...

    def tracing(self) -> AbstractContextManager[Callable[[], list[LaunchRecord]]]:
        """Inside, what is called gives what the GPU has done since it was called before, in the order of their starts.

        All of that must have been waited for. Raises DeviceError where nothing sees it.
        """
        ...

    def encode_tensor_map(self, spec: TensorMap, address: int, dims: Sequence[int], strides: Sequence[int]) -> bytes:
        """A tensor map of 128 bytes; `dims` in elements, `strides` in bytes, both innermost first."""
        ...

    def launch(self, call: LaunchCall, stream: int) -> None:
        """Start a kernel."""
        ...

    def launcher(self, calls: Sequence[LaunchCall | CopyCall]) -> Launcher | None:
        """All of these by one call of native code; None where they have to be given one by one."""
        ...

    def error(self, result: int) -> DriverError:
        """For a result that native code returned."""
        ...

    def replayer(self, context: int) -> Callable[[int, int], int] | None:
        """Launches a graph in a context, current or not, by native code: 0 or a result. None if there is none."""
        ...

    def begin_capture(self, stream: int) -> None:
        """From now on work given to the stream is recorded, not done."""
        ...

    def end_capture(self, stream: int) -> int:
        """The graph of what was recorded."""
        ...

    def instantiate(self, graph: int) -> int:
        """A graph made ready to launch."""
        ...

    def update(self, executable: int, graph: int) -> bool:
        """Put a graph of the same form into an executable one; False if it has another form."""
        ...

    def launch_graph(self, executable: int, stream: int) -> None:
        """Do what a graph says."""
        ...

    def destroy_graph(self, graph: int) -> None:
        """Give a graph back."""
        ...

    def destroy_executable(self, executable: int) -> None:
        """Give an executable graph back."""
        ...
