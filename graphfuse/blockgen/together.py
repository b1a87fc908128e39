"""Emits several kernels as one: each program does what a program does of the kernel that its number falls to.

    n = program_id()
    if n < 64:        what program n of the first kernel does, which has 64
    else if n < 80:   what program n - 64 of the second does, which has 16
    else:             what program n - 80 of the third does

A block has as many warps as the kernel that asks for most.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from graphfuse.blockgen.kernel import Kernel
from graphfuse.dialects import block
from graphfuse.dialects.gpu import ROWS_ACROSS
from graphfuse.ir.core import Attr, Func, Op, Value, attr_dim, attr_int
from graphfuse.ir.remake import Copier
from graphfuse.symbolic import Dim, maximum

ATTRS = frozenset({"grid", "work", "warps", "flops", "resident", "trigger", ROWS_ACROSS})
"""What functions may have that are launched together: others say how all programs of a launch run."""


def emit(kernel: Kernel, parts: Sequence[Func]) -> Func:
    """The kernel of a region with a region for each of the `parts`, which are emitted."""
    ev, grids = kernel.ev, [attr_dim(f, "grid") for f in parts]
    total = sum(grids, 0)
    pid = ev.bind("pid", 0, total - 1, ev.emit(block.program_id))
    given = [_arguments(kernel, op, func) for op, func in zip(kernel.body.ops[:-1], parts, strict=True)]

    def place(i: int, first: Dim) -> None:
        def this() -> None:
            part = _Part(parts[i], given[i], ev.index(maximum(pid - first, 0)))
            part.builder = ev.builder
            for op in parts[i].body.ops[:-1]:
                part.op(op)

        end = first + grids[i]
        if i == len(parts) - 1:
            this()
        else:
            ev.branch(ev.emit(block.lt, ev.index(pid), ev.index(end)), this, lambda _: place(i + 1, end))

    place(0, 0)
    attrs: dict[str, Attr] = {"warps": max(attr_int(f, "warps", 4) for f in parts)}
    if resident := [attr_int(f, "resident") for f in parts if "resident" in f.attrs]:
        attrs["resident"] = min(resident)
    if triggers := {str(f.attrs["trigger"]) for f in parts if "trigger" in f.attrs}:
        attrs["trigger"] = min(triggers)
    if any(f.attrs.get(ROWS_ACROSS, False) for f in parts):
        attrs[ROWS_ACROSS] = True
    if flops := [attr_dim(f, "flops") for f in parts if "flops" in f.attrs]:
        attrs["flops"] = sum(flops, 0)
    return kernel.finish(total, functools.reduce(maximum, (attr_dim(f, "work") for f in parts)), attrs)


def _arguments(kernel: Kernel, op: Op, func: Func) -> list[Value]:
    """What the function of one of the regions takes: pointers to operands and results, and symbols by their names."""
    outer = dict(zip((*kernel.body.params.values, *kernel.outputs), kernel.params.values, strict=False))
    symbols = {v.hint: v for v in kernel.params.values}
    tensors = [outer[v] for v in (*op.operands, *op.results)]
    return [*tensors, *(symbols[v.hint] for v in func.params[len(tensors) :])]


class _Part(Copier):
    def __init__(self, func: Func, arguments: Sequence[Value], number: Value) -> None:
        super().__init__()
        self.values.update(zip(func.params, arguments, strict=True))
        self.number = number

    def op(self, op: Op) -> None:
        """The program's number is another."""
        if op.kind is block.program_id:
            self.values[op.result] = self.number
        else:
            self.copy(op)
