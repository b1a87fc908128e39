"""Runs executables on a GPU on bare addresses, for callers that know shapes and own all memory.

As `graphfuse.runtime.direct` on a CPU. Nothing is recorded here: launches go to the stream they are given, so that a
caller's capture into a graph sees them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar

from graphfuse.artifact import Executable
from graphfuse.runtime.bound import Template
from graphfuse.runtime.direct import MAX_BOUND
from graphfuse.runtime.gpu.context import choose_variant, context_of
from graphfuse.runtime.gpu.launches import Launches, described
from graphfuse.runtime.gpu.transfer import upload
from graphfuse.runtime.pieces import Piece, run_in_pieces
from graphfuse.runtime.planner import Ints
from graphfuse.targets.driver import Driver

T = TypeVar("T")
Zeroed = Callable[[int], int]
"""Memory on the device that is 0, by its bytes; it must stay as long as the executable."""


class GpuDirect:
    """An executable on a GPU. Symbol values are given in the order of the signature's dims."""

    def __init__(self, executable: Executable, driver: Driver, ordinal: int, zeroed: Zeroed) -> None:
        self.context = context_of(driver, ordinal)
        self.executable = choose_variant(executable, self.context.info)
        self.symbols = tuple(name for name, _, _ in executable.signature.dims)
        self._driver, self._zeroed = driver, zeroed
        self._lock = threading.Lock()
        self._ready: OrderedDict[tuple[int, ...], Launches] = OrderedDict()
        self._scratch: dict[int, tuple[int, int]] = {}
        """Bytes and address by stream: launches of two streams may run at the same time."""
        with self.context.current():
            self._functions = self.context.functions(self.executable)
            self._template = Template(self.executable, upload(self.context, self.executable.weights, zeroed))

    def bind(self, values: tuple[int, ...]) -> Launches:
        """The plan at these values."""
        with self._lock:
            if (found := self._ready.get(values)) is not None:
                return found
            named = dict(zip(self.symbols, values, strict=True))
            bound = self._template.bind(named, range(len(self.executable.kernels)), 1)
            made = Launches(self.executable, bound, self._functions, self.context.info.multiprocessors)
            self._ready[values] = made
            if len(self._ready) > MAX_BOUND:
                self._ready.popitem(last=False)
            return made

    def run(
        self, launches: Launches, addresses: Sequence[int], arena: int, stream: int, *, captures: bool = False
    ) -> None:
        """Launch all of a plan, on the addresses of dense inputs, then outputs; intermediate tensors are at `arena`.

        A stream that `captures` what it is given, for a graph, takes the scratch memory that there is.
        """
        with self._lock, self.context.current():
            scratch = self._scratch_of(stream, launches.scratch_bytes, captures=captures)

            def work() -> None:
                launches.point(self._driver, addresses, arena, scratch)
                launches.run_all(self._driver, stream)

            self._guarded(launches, work)

    def run_in_pieces(
        self,
        launches: Launches,
        inputs: list[T],
        makers: list[Callable[[], T]],
        address: Callable[[T], int],
        results: int,
        arena: int,
        stream: int,
        *,
        captures: bool = False,
    ) -> list[T]:
        """As `run`, and `run_in_pieces` of `graphfuse.runtime.pieces`: memory is only given back in order."""
        with self._lock, self.context.current():
            launches.point_inside(arena, self._scratch_of(stream, launches.scratch_bytes, captures=captures))

            def run(piece: Piece, addresses: Ints) -> None:
                end = piece.first + piece.count
                launches.point_maps(self._driver, addresses, arena, launches.items[piece.first : end])
                self._guarded(launches, lambda: launches.run_some(self._driver, stream, piece.first, end))

            return run_in_pieces(launches.bound, launches.pieces, inputs, makers, address, run, results)

    def _guarded(self, launches: Launches, work: Callable[[], None]) -> None:
        self.context.guarded(lambda: described(launches.items[launches.at], self._template.leaves), work)

    def _scratch_of(self, stream: int, nbytes: int, *, captures: bool) -> int:
        if not nbytes:
            return 0
        found = max(self._scratch.values(), default=(0, 0)) if captures else self._scratch.get(stream, (0, 0))
        if found[0] < nbytes:
            found = self._scratch[stream] = nbytes, self._zeroed(nbytes)
        return found[1]
