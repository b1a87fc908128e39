"""What a kernel takes, as its block function says."""

from __future__ import annotations

from dataclasses import dataclass

from graphfuse.blockopt.grid import AXES
from graphfuse.dialects import block
from graphfuse.dialects.pointers import WRITES, accesses, entries
from graphfuse.errors import UsageError
from graphfuse.ir.core import Func, attr_strs, symbols_of
from graphfuse.ir.rewrite import dead_code
from graphfuse.ir.types import Ptr, Scalar


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: a pointer to elements, or a number."""

    name: str
    elem: Scalar
    is_pointer: bool
    mode: str = "i"
    """As in `KernelMeta.params`: `r`, `w` and `x` for pointers that are read, written, both."""
    divisor: int = 1
    """What the source promises it, or an address in bytes, to be a multiple of."""
    is_alone: bool = False
    """Whether the source promises that nothing which is written overlaps it."""
    entry: Parameter | None = None
    """Of a table of pointers, `float **x`, whose elements are addresses: what each of these points at."""

    def __str__(self) -> str:
        if self.entry is not None:
            return f"{self.entry.elem} **{self.name}"
        return f"{self.elem}{' *' if self.is_pointer else ' '}{self.name}"


def parameters(func: Func) -> tuple[Parameter, ...]:
    """The parameters in order; raises UsageError for one that is called as the grid's sizes are."""
    if taken := sorted({v.hint for v in func.params}.intersection(() if "grid" in func.attrs else AXES)):
        what = f"expected parameters that are not called {', '.join(AXES)}, as the sizes of the grid are"
        raise UsageError(f"kernel {func.name!r}: {what}, found {taken[0]!r}")
    read = _read(func)
    written = frozenset[str]().union(*(names for op, names in accesses(func) if op.kind in WRITES))
    promised = {name: number for name, number in block.promises(func).items() if name in read}
    out: list[Parameter] = []
    writeonly, noalias = (attr_strs(func, name) if name in func.attrs else () for name in ("writeonly", "noalias"))
    tables = block.tables(func)
    for v in func.params:
        divisor = promised.get(v.hint, 1)
        if isinstance(v.type, Ptr):
            mode, alone = "w" if v.hint in writeonly else "x" if v.hint in written else "r", v.hint in noalias
            entry = None
            if v.hint in tables:
                changes = "x" if entries(v.hint) in written else "r"
                entry = Parameter(v.hint, tables[v.hint], is_pointer=True, mode=changes)
            out.append(
                Parameter(v.hint, v.type.elem, is_pointer=True, mode=mode, divisor=divisor, is_alone=alone, entry=entry)
            )
        else:
            assert isinstance(v.type, Scalar), "a kernel takes pointers and numbers"
            out.append(Parameter(v.hint, v.type, is_pointer=False, divisor=divisor))
    return tuple(out)


def _read(func: Func) -> set[str]:
    """The parameters that ops read, as operands or as symbols: what is promised of others is nobody's business."""
    func = dead_code(func)
    params = set(func.params)
    names = {v.hint for op in func.walk() for v in op.operands if v in params}
    return names.union(*(symbols_of(a) for op in func.walk() for a in op.attrs.values()))
