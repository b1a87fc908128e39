"""How far the addresses of a kernel's tensors are aligned: most by 16 bytes, those inside of others maybe less.

The runtime aligns every tensor it hands out or takes in to 16 bytes. A plan may put a tensor at any offset in another
one (parts of a concatenation, rows that a loop goes over), which the attribute `alignments` then says, in bytes, one
number for each pointer. A function written by hand says in `assume` what it relies on, and relies on nothing else.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from graphfuse.artifact import Arg, Plan, Pointer
from graphfuse.dialects import block
from graphfuse.ir.core import Func, attr_ints
from graphfuse.ir.types import Ptr
from graphfuse.symbolic import Dim

POINTER_ALIGNMENT = 16
"""Bytes; the widest access there is."""
ALIGNMENTS = "alignments"


def pointer_alignments(func: Func) -> dict[str, int]:
    """Bytes by parameter name."""
    names = [v.hint for v in func.params if isinstance(v.type, Ptr)]
    if "assume" in func.attrs:
        stated = {name: n & -n for name, n in block.promises(func).items()}
        return {v.hint: max(v.type.elem.bytes, stated.get(v.hint, 1)) for v in func.params if isinstance(v.type, Ptr)}
    found = attr_ints(func, ALIGNMENTS, (POINTER_ALIGNMENT,) * len(names))
    return dict(zip(names, found, strict=True))


def with_alignments(kernels: Mapping[str, Func], plan: Plan) -> dict[str, Func]:
    """The kernels, those with an attribute that a step of the plan gives a tensor inside of another."""
    given = arguments(plan)
    out: dict[str, Func] = {}
    for name, func in kernels.items():
        pointers = sum(isinstance(v.type, Ptr) for v in func.params)
        offsets = ([a.offset for a in given[name, i] if isinstance(a, Pointer)] for i in range(pointers))
        found = tuple(map(divisor, offsets))
        aligned = all(n == POINTER_ALIGNMENT for n in found)
        out[name] = func if aligned else replace(func, attrs={**func.attrs, ALIGNMENTS: found})
    return out


def arguments(plan: Plan) -> defaultdict[tuple[str, int], list[Arg]]:
    """What the steps of a plan give each parameter, by its kernel and number."""
    given = defaultdict[tuple[str, int], list[Arg]](list)
    for _, step in plan.walk():
        for i, arg in enumerate(step.args):
            given[step.kernel, i].append(arg)
    return given


def divisor(offsets: Iterable[Dim]) -> int:
    """The largest power of two, at most 16, that divides all of these for all values of their symbols."""
    out = POINTER_ALIGNMENT
    for offset in offsets:
        factors = [offset] if isinstance(offset, int) else [c for _, c in offset.terms]
        out = math.gcd(out, *factors)
    return out
