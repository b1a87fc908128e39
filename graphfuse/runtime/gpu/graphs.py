"""Graphs of the launches of a plan, one for each set of addresses that comes more than once."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable

from graphfuse.targets.driver import Driver, DriverError

log = logging.getLogger(__name__)

MAX_GRAPHS = 8
"""How many sets of addresses a set of shapes remembers a graph for."""
Addresses = tuple[int, ...]


class Graphs:
    """Those of one set of shapes."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._known: OrderedDict[Addresses, int] = OrderedDict()
        self._seen: OrderedDict[Addresses, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, addresses: Addresses) -> int | None:
        """The graph for these addresses, ready to launch."""
        if (found := self._known.get(addresses)) is not None:
            self._known.move_to_end(addresses)
        return found

    def record(self, addresses: Addresses, launch: Callable[[int], None], last_stream: int) -> int | None:
        """A graph of what `launch` gives to a stream, if an earlier run had the same addresses and the driver can.

        With many already, the oldest is changed: cheaper than a new one. It may have been launched on `last_stream`.
        """
        if not self._recorder.works or not self._is_again(addresses):
            return None
        spare = None
        if len(self._known) >= MAX_GRAPHS:
            _, spare = self._known.popitem(last=False)
        found = self._recorder.record(launch, spare, last_stream)
        if found is not None:
            self._known[addresses] = found
        return found

    def drop(self) -> None:
        """Give every graph back."""
        for executable in self._known.values():
            self._recorder.drop(executable)
        self._known.clear()

    def _is_again(self, addresses: Addresses) -> bool:
        """Allocators hand out the same few addresses in turn, so more than the last run's are remembered."""
        known = addresses in self._seen
        self._seen[addresses] = None
        self._seen.move_to_end(addresses)
        if len(self._seen) > 2 * MAX_GRAPHS:
            self._seen.popitem(last=False)
        return known


class Recorder:
    """Makes graphs on a stream of its own: torch's default stream cannot be recorded."""

    def __init__(self, driver: Driver, *, works: bool) -> None:
        self._driver, self._stream = driver, 0
        self._executables: list[int] = []
        self.works = works
        """False once the driver has refused, and then it is not asked again."""

    def record(self, launch: Callable[[int], None], spare: int | None, last_stream: int) -> int | None:
        """An executable graph, in the place of `spare` if that has the same form; None where the driver cannot."""
        driver = self._driver
        try:
            if not self._stream:
                self._stream = driver.create_stream()
            driver.begin_capture(self._stream)
            try:
                launch(self._stream)
            finally:
                graph = driver.end_capture(self._stream)
            executable = self._instantiated(graph, spare, last_stream)
            driver.destroy_graph(graph)
        except DriverError as e:
            if e.is_sticky:
                raise
            log.warning("launches are not recorded as a graph: %s", e)
            self.works = False
            return None
        return executable

    def _instantiated(self, graph: int, spare: int | None, last_stream: int) -> int:
        if spare is not None:
            self._driver.synchronize(last_stream)
            if self._driver.update(spare, graph):
                return spare
            self.drop(spare)
        executable = self._driver.instantiate(graph)
        self._executables.append(executable)
        return executable

    def drop(self, executable: int) -> None:
        """Give a graph back."""
        self._executables.remove(executable)
        self._driver.destroy_executable(executable)

    def close(self) -> None:
        """Give everything back."""
        while self._executables:
            self._driver.destroy_executable(self._executables.pop())
        if self._stream:
            self._driver.destroy_stream(self._stream)
            self._stream = 0
