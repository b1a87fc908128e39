"""Runs executables on bare addresses, for callers that know shapes and own all inputs and outputs.

`Session` serves one model. Here many small executables, such as the parts of one program, share threads, the memory
of intermediate tensors, and one lock: they run one after the other.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from graphfuse.artifact import Executable
from graphfuse.runtime.bound import Template
from graphfuse.runtime.native import NativeCode
from graphfuse.runtime.ready import Ready
from graphfuse.runtime.workspace import Workspace

T = TypeVar("T")
MAX_BOUND = 256
"""How many sets of symbol values an executable remembers."""


class Direct:
    """An executable in a workspace. Symbol values are given in the order of the signature's dims."""

    def __init__(self, executable: Executable, workspace: Workspace) -> None:
        self.executable = executable
        self.symbols = tuple(name for name, _, _ in executable.signature.dims)
        self.workspace = workspace
        self._native = NativeCode(executable)
        workspace.adopt(self._native)
        self._template = Template(executable)
        self._kernels = [self._native.kernels[k.name] for k in executable.kernels]
        self._ready: OrderedDict[tuple[int, ...], Ready] = OrderedDict()

    def run(self, values: tuple[int, ...], addresses: Sequence[int]) -> None:
        """Run on the addresses of dense inputs, then outputs."""
        workspace = self.workspace
        with workspace.lock:
            ready = self._ready.get(values) or self._bind(values)
            ready.place(addresses, workspace.arena(ready.peak) if ready.peak else 0)
            workspace.run(ready.records, ready.count, ready.scratch_bytes)

    def run_in_pieces(
        self, values: tuple[int, ...], inputs: list[T], makers: Sequence[Callable[[], T]], address: Callable[[T], int]
    ) -> list[T]:
        """Run, making each output when it is first touched and forgetting each input after it was last read.

        `inputs` is cleared; nobody else should hold what it had.
        """
        workspace = self.workspace
        first = len(inputs)
        addresses = np.array([*map(address, inputs), *[0] * len(makers)], np.int64)
        tensors: dict[int, T] = dict(enumerate(inputs))
        inputs.clear()
        with workspace.lock:
            ready = self._ready.get(values) or self._bind(values)
            ready.place_arena(workspace.arena(ready.peak) if ready.peak else 0)
            for number in set(range(first)).difference(ready.bound.io_index.tolist()):
                del tensors[number]
            for piece in ready.pieces:
                for number in piece.begins:
                    if number >= first:
                        tensors[number] = made = makers[number - first]()
                        addresses[number] = address(made)
                ready.bound.args[piece.slots] = addresses[piece.index] + piece.offsets
                workspace.run(piece.records, piece.count, ready.scratch_bytes)
                for number in piece.ends:
                    if number < first:
                        del tensors[number]
        # one that no launch touches has no elements
        return [tensors[n] if n in tensors else make() for n, make in enumerate(makers, first)]

    def ready(self, values: tuple[int, ...]) -> Ready:
        """The plan at these values. Writing to it needs the workspace's lock."""
        with self.workspace.lock:
            return self._ready.get(values) or self._bind(values)

    def _bind(self, values: tuple[int, ...]) -> Ready:
        named = dict(zip(self.symbols, values, strict=True))
        made = self._ready[values] = Ready(self._template.bind(named, self._kernels, self.workspace.threads))
        if len(self._ready) > MAX_BOUND:
            self._ready.popitem(last=False)
        return made
