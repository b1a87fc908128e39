"""What the arguments of a call on the host are, found without Python where they are arrays of numpy and numbers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphfuse.artifact import elem_dtype
from graphfuse.blockopt.grid import AXES
from graphfuse.kernels import call_ir
from graphfuse.kernels.arguments import integer_range, memory_of, slot_of
from graphfuse.kernels.call_ir import Seen
from graphfuse.kernels.signature import Parameter
from graphfuse.kernels.specialise import has_facts
from graphfuse.runtime.gpu.arrays import torch_dtype, torch_module
from graphfuse.runtime.gpu.dlpack import Imported

Ask = Callable[[Any], tuple[int, int] | None]


class HostArguments:
    """Reads the arguments of a kernel. Threads may do so at the same time."""

    def __init__(self, kernel: str, parameters: Sequence[Parameter]) -> None:
        self._count, self._parameters = len(parameters), parameters
        self._asks = [self._ask(f"kernel {kernel!r}: argument {p.name!r}", p) for p in parameters]
        self._apart = [
            (i, j) for i, p in enumerate(parameters) for j, q in enumerate(parameters)
            if p.is_alone and q.is_pointer and i != j and not p.mode == q.mode == "r"
        ]  # fmt: skip
        numbers = "".join("q" if p.elem.is_signed and not p.is_pointer else "Q" for p in parameters)
        self._layout = struct.Struct(f"q{numbers}{len(AXES)}q")
        self._kind_at = self._layout.size + 8 * self._count
        self._link()

    def _link(self) -> None:
        """With what torch has, if the process has torch."""
        torch = self._torch = torch_module()
        types = (0, 0) if torch is None else (id(torch.Tensor), id(torch.strided))
        head = [self._count, *types, len(self._apart)]
        asks = zip(self._parameters, self._asks, strict=True)
        records = [number for p, ask in asks for number in _record(p, ask)]
        table = np.array([*head, *records, *(i for pair in self._apart for i in pair)], np.int64)
        self._read = call_ir.reader(table.tobytes())

    def read(self, grid: Any, args: Sequence[Any]) -> Any:
        """What a launch's grid and arguments are, as `Seen`. Raises InputError for arguments that do not fit.

        None if `arguments.bind` has to say it: where memory is on a GPU or lent for a call (by a list of arrays, too),
        and where a promise may be broken. False if they are of another form: see `call_ir`.
        """
        return self._read(grid, args)

    def kind(self, seen: Seen) -> bytes:
        """What code is told apart by."""
        return seen[self._kind_at :]

    def axes(self, seen: Seen) -> tuple[int, ...]:
        """The grid without ones at its end."""
        return self._layout.unpack_from(seen)[1 + self._count :][: seen[self._kind_at]]

    def slots(self, seen: Seen) -> tuple[int, ...]:
        """As `Bound.slots`."""
        return self._layout.unpack_from(seen)[1 : 1 + self._count]

    def _ask(self, what: str, p: Parameter) -> Ask:
        """The slot and the end of the memory of what was not found to be the parameter's."""

        def ask(value: Any) -> tuple[int, int] | None:
            if self._torch is not torch_module():
                self._link()
            if not p.is_pointer:
                slot, end = slot_of(what, p, value), 0
            elif value is None:
                slot, end = 0, 0
            elif p.entry is not None and isinstance(value, list | tuple):
                return None
            else:
                memory = memory_of(what, p, value)
                if memory.gpu >= 0 or isinstance(memory.owner, Imported):
                    return None
                slot, end = memory.address, memory.address + memory.nbytes
            return None if slot % p.divisor else (slot, end)

        return ask


def _record(p: Parameter, ask: Ask) -> list[int]:
    """What is accepted without asking, as `call_ir` has it."""
    written = p.is_pointer and p.mode != "r"
    kind, wanted, letter, item, flags, low, high = -1, float, 0, 0, 0, 0, 0
    if p.is_pointer:
        dtype = elem_dtype(p.elem.name)
        kind, wanted, item = call_ir.ARRAY, np.ndarray, dtype.itemsize
        letter = ord(dtype.kind) if dtype.kind in "biuf" else -1  # types of other libraries share theirs
        flags = call_ir.NOT_SWAPPED | (call_ir.WRITEABLE if written else 0)
    elif p.elem.name in ("f32", "f64"):
        kind = call_ir.F32 if p.elem.name == "f32" else call_ir.F64
    elif not p.elem.is_float:
        kind, wanted = call_ir.INTEGER, bool if p.elem.name == "bool" else int
        low, high = integer_range(p)
    facts = 0 if not has_facts(p) else 1 if p.elem.is_signed and not p.is_pointer else 2
    high = min(high, (1 << 63) - 1)  # above it is asked about
    torch = id(torch_dtype(p.elem.name))
    return [id(wanted), id(ask), kind, letter, item, flags, low, high, p.divisor, facts, torch, written]
