"""Runs executables on bare addresses, for callers that know shapes and own all inputs and outputs.

`Session` serves one model. Here many small executables, such as the parts of one program, share workspaces: threads
and the memory of intermediate tensors, one for each caller at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar
from weakref import WeakKeyDictionary

from graphfuse.artifact import Executable
from graphfuse.runtime.bound import Template
from graphfuse.runtime.native import NativeCode
from graphfuse.runtime.pieces import Piece, run_in_pieces
from graphfuse.runtime.planner import Ints
from graphfuse.runtime.ready import Ready
from graphfuse.runtime.workspace import Shared, Workspace

T = TypeVar("T")
MAX_BOUND = 256
"""How many sets of symbol values an executable remembers."""


class Direct:
    """An executable in shared workspaces. Symbol values are given in the order of the signature's dims."""

    def __init__(self, executable: Executable, shared: Shared) -> None:
        self.executable = executable
        self.symbols = tuple(name for name, _, _ in executable.signature.dims)
        self.shared = shared
        self._native = NativeCode(executable)
        self._template = Template(executable)
        self._kernels = [self._native.kernels[k.name] for k in executable.kernels]
        self._ready: WeakKeyDictionary[Workspace, OrderedDict[tuple[int, ...], Ready]] = WeakKeyDictionary()
        """Plans at values of the symbols, whose arguments the holder of a workspace writes."""
        self._at_home = self._of(shared.home)

    def run(self, values: tuple[int, ...], addresses: Sequence[int]) -> None:
        """Run on the addresses of dense inputs, then outputs."""
        workspace = self.shared.take()
        try:
            ready = self._bound(workspace, values)
            ready.place(addresses, workspace.arena(ready.peak) if ready.peak else 0)
            workspace.run(ready.records, ready.count, ready.scratch_bytes)
        finally:
            self.shared.give(workspace)

    def run_in_pieces(
        self,
        values: tuple[int, ...],
        inputs: list[T],
        makers: list[Callable[[], T]],
        address: Callable[[T], int],
        results: int,
    ) -> list[T]:
        """As `run_in_pieces` of `graphfuse.runtime.pieces`."""
        workspace = self.shared.take()
        try:
            ready = self._bound(workspace, values)
            ready.place_arena(workspace.arena(ready.peak) if ready.peak else 0)

            def run(piece: Piece, _: Ints) -> None:
                workspace.run(piece.records, piece.count, ready.scratch_bytes)

            return run_in_pieces(ready.bound, ready.pieces, inputs, makers, address, run, results)
        finally:
            self.shared.give(workspace)

    def at_home(self, values: tuple[int, ...]) -> Ready:
        """The plan at these values that the holder of `shared.home` writes."""
        with self.shared.home.lock:
            return self._bound(self.shared.home, values)

    def _bound(self, workspace: Workspace, values: tuple[int, ...]) -> Ready:
        known = self._at_home if workspace is self.shared.home else self._ready.get(workspace) or self._of(workspace)
        if (ready := known.get(values)) is not None:
            return ready
        named = dict(zip(self.symbols, values, strict=True))
        made = known[values] = Ready(self._template.bind(named, self._kernels, workspace.threads))
        if len(known) > MAX_BOUND:
            known.popitem(last=False)
        return made

    def _of(self, workspace: Workspace) -> OrderedDict[tuple[int, ...], Ready]:
        workspace.adopt(self._native)
        made = self._ready[workspace] = OrderedDict()
        return made
