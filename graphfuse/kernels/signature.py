"""What a kernel takes, as its block function says."""

from __future__ import annotations

from dataclasses import dataclass

from graphfuse.dialects import block
from graphfuse.ir.core import Func, attr_strs
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

    def __str__(self) -> str:
        return f"{self.elem}{' *' if self.is_pointer else ' '}{self.name}"


def parameters(func: Func) -> tuple[Parameter, ...]:
    """The parameters in order."""
    promised = block.promises(func)
    out: list[Parameter] = []
    for v in func.params:
        if isinstance(v.type, Ptr):
            mode = "r" if _listed(func, "readonly", v.hint) else "w" if _listed(func, "writeonly", v.hint) else "x"
            out.append(Parameter(v.hint, v.type.elem, is_pointer=True, mode=mode, divisor=promised.get(v.hint, 1)))
        else:
            assert isinstance(v.type, Scalar), "a kernel takes pointers and numbers"
            out.append(Parameter(v.hint, v.type, is_pointer=False, divisor=promised.get(v.hint, 1)))
    return tuple(out)


def _listed(func: Func, attr: str, name: str) -> bool:
    return attr in func.attrs and name in attr_strs(func, attr)
