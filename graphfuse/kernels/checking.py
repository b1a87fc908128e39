"""`--check`: a kernel run by the interpreter, with every address and promise checked, then by the emulator.

The interpreter names the line of the source: accesses outside of an array, reads of elements that nobody wrote,
promises (`__multipleof`, `__aligned`) that arguments break, elements that programs touch in no order. The emulator runs
the GPU's own code and finds races of its warps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from graphfuse.artifact import Array
from graphfuse.errors import GraphfuseError
from graphfuse.findings import About, Finding, finding_of
from graphfuse.interp.block import Reached, launch
from graphfuse.kernels.arguments import bind
from graphfuse.kernels.kernel import Grid, Kernel
from graphfuse.kernels.specialise import check_promises
from graphfuse.runtime.device import Device


def check(
    kernel: Kernel,
    grid: Grid,
    values: Mapping[str, Any],
    empty: frozenset[str],
    *,
    emulate: bool,
    out: Callable[[str], object] = print,
) -> list[Finding]:
    """What is wrong, and notes of what is odd; empty if nothing is. Arrays are left as the run leaves them.

    `empty` are arrays whose elements nobody wrote; `out` takes the lines that are printed.
    """
    bound, axes = bind(kernel.name, kernel.parameters, (), dict(values)), kernel.axes(grid)
    try:
        check_promises(kernel.name, kernel.parameters, bound)
    except GraphfuseError as e:
        return [replace(finding_of(e), about=About("promise"))]
    names = [p.name for p in kernel.parameters if p.is_pointer]
    before = {n: _copy(values[n]) for n in names}
    # of lists the addresses, which `bound` holds
    tables = {p.name: m for p, m in zip(kernel.parameters, bound.memory, strict=True) if m is not None and m.entries}
    arrays: list[Array] = [tables[n].owner if n in tables else values[n].reshape(-1) for n in names]
    written = [_unwritten(n, x, empty) for n, x in zip(names, arrays, strict=True)]
    listed = [(f"{n}[{i}]", e.owner.reshape(-1)) for n, m in tables.items() for i, e in enumerate(m.entries) if e]
    reached = [Reached(n, x, _unwritten(n, x, empty)) for n, x in listed]
    found: list[Finding] = []
    scalars = {p.name: values[p.name] for p in kernel.parameters if not p.is_pointer}
    checked = replace(kernel.func, attrs={**kernel.func.attrs, "debug": True})  # assertions hold, too
    try:
        launch(checked, arrays, scalars, grid=axes, written=written, races=found, out=out, reached=reached)
    except GraphfuseError as e:
        found.append(finding_of(e))
    if emulate and all(f.is_note for f in found):
        again: dict[str, Any] = {**values, **before}
        emulated = Kernel(kernel.func, dict(kernel.macros), device="emulator")
        driver: Any = emulated.context(Device("emulator")).driver
        try:
            emulated.launch(grid, (), again)
        except GraphfuseError as e:
            found.append(finding_of(e))
        found += [note for _, report in driver.reports for note in report.notes]
    return found


def _copy(value: Any) -> Any:
    """An array, or a list of arrays, as it is now."""
    if isinstance(value, list | tuple):
        return [None if x is None else x.copy() for x in cast("Sequence[Any]", value)]
    return value.copy()


def _unwritten(name: str, array: Array, empty: frozenset[str]) -> Array | None:
    """Which elements may be read, if nobody wrote them before."""
    return np.zeros(array.size, np.bool_) if name in empty else None
