"""Runs executables on a GPU on bare addresses, for callers that know shapes and own all memory.

As `graphfuse.runtime.direct` on a CPU. Nothing is recorded here: launches go to the stream they are given, so that a
caller's capture into a CUDA graph sees them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np

from graphfuse.artifact import Executable
from graphfuse.errors import DeviceError, GraphfuseError
from graphfuse.gpu_driver import Driver, DriverError
from graphfuse.runtime.bound import Template
from graphfuse.runtime.cuda.context import choose_variant, context_of
from graphfuse.runtime.cuda.launches import KernelLaunch, Launches
from graphfuse.runtime.cuda.transfer import offsets
from graphfuse.runtime.direct import MAX_BOUND

Zeroed = Callable[[int], int]
"""Memory on the device that is 0, by its bytes; it must stay as long as the executable."""


class CudaDirect:
    """An executable on a GPU. Symbol values are given in the order of the signature's dims."""

    def __init__(self, executable: Executable, driver: Driver, ordinal: int, zeroed: Zeroed) -> None:
        self.context = context_of(driver, ordinal)
        self.executable = choose_variant(executable, self.context.info)
        self.symbols = tuple(name for name, _, _ in executable.signature.dims)
        self._driver, self._zeroed = driver, zeroed
        self._lock = threading.Lock()
        self._ready: OrderedDict[tuple[int, ...], Launches] = OrderedDict()
        self._scratch, self._scratch_bytes = 0, 0
        code = self.executable.code[self.executable.target]
        with self.context.current():
            self._functions = {
                k.name: self.context.function(code, k.name, k.launch)
                for k in self.executable.kernels
                if k.launch is not None
            }
            self._template = Template(self.executable, self._upload())

    def _upload(self) -> list[int]:
        """Copy the weights to the device; where each is."""
        weights = self.executable.weights
        places, total = offsets([w.array.nbytes for w in weights])
        base = self._zeroed(total) if total else 0
        for w, offset in zip(weights, places, strict=True):
            array = np.ascontiguousarray(w.array)
            if array.nbytes:
                self._driver.copy_in(base + offset, array.ctypes.data, array.nbytes, 0)
        self._driver.synchronize(0)
        return [base + offset for offset in places]

    def arena_bytes(self, values: tuple[int, ...]) -> int:
        """What intermediate tensors take at these values."""
        with self._lock:
            return self._bound(values).bound.arena.peak

    def run(self, values: tuple[int, ...], addresses: Sequence[int], arena: int, stream: int) -> None:
        """Launch everything, on the addresses of dense inputs, then outputs, with `arena_bytes` at `arena`."""
        with self._lock, self.context.current():
            launches = self._bound(values)
            if launches.scratch_bytes > self._scratch_bytes:
                self._scratch, self._scratch_bytes = self._zeroed(launches.scratch_bytes), launches.scratch_bytes
            try:
                launches.point(self._driver, addresses, arena, launches.scratch_bytes and self._scratch)
                launches.run_all(self._driver, stream)
            except DriverError as e:
                raise self.context.failure(e, self._describe(launches)) from None
            except DeviceError:
                raise
            except GraphfuseError as e:
                where = f"{self.context.where}: {self._describe(launches)}"
                raise DeviceError(f"{where}: {e.message}", e.loc) from None

    def _bound(self, values: tuple[int, ...]) -> Launches:
        if (found := self._ready.get(values)) is not None:
            return found
        named = dict(zip(self.symbols, values, strict=True))
        bound = self._template.bind(named, range(len(self.executable.kernels)), 1)
        made = Launches(self.executable, bound, self._functions, self.context.info.multiprocessors)
        self._ready[values] = made
        if len(self._ready) > MAX_BOUND:
            self._ready.popitem(last=False)
        return made

    def _describe(self, launches: Launches) -> str:
        """The kernel that was being launched and the node it is from."""
        item = launches.items[launches.at]
        leaf = self._template.leaves[item.step]
        label = leaf.label or (item.meta.label if isinstance(item, KernelLaunch) else "")
        return f"kernel {item.name!r}" + (f" (node {label!r})" if label else "")
