"""What eager torch refuses that its fake tensors let pass, such as a mix of types: torch itself is asked.

A lowering, or a decomposition, computes what operands mean, and fake tensors check little of types and sizes. So before
an operator is lowered or decomposed, torch runs it once for each combination of types and sizes, on zeros. Of many
elements it is asked on a few, and believed if it takes as few of one type. What it refuses is left to it: the program
then ends as it does without compiling.

Not of gradients, and on a CPU only: on a GPU an index that fits nothing would end the process' context.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from graphfuse.frontends.fx.lowering import name_of

MOST_ELEMENTS = 1 << 20
"""Of operands and results together; of more, torch is asked about their types alone, on few of them."""
FEW = 8
"""The size of a dim of few elements."""
MOST_USUAL = 1 << 12
"""The same where all are of one type of `_USUAL`, and there is a lowering, which knows what fits."""
_MOST_ANSWERS = 1 << 14
"""That are remembered, more than a program asks; then all are forgotten."""
_USUAL = (torch.float32, torch.float64)
_answers: dict[object, str] = {}


def why_refused(target: Any, fakes: Mapping[str, Any], result: Any, most_usual: int = MOST_ELEMENTS) -> str:
    """Why torch refuses an operator's arguments, by name; nothing where it takes them, or cannot be asked."""
    flat, spec = pytree.tree_flatten({"from" if name == name_of("from") else name: x for name, x in fakes.items()})
    tensors = [x for x in flat if isinstance(x, torch.Tensor)]
    if not tensors or not _may_be_asked(target, tensors):
        return ""
    key = (target, str(spec), *(_kind(x) for x in flat))
    if key not in _answers:
        sizes = [_hint(x.numel()) for x in (*tensors, *pytree.tree_leaves(result)) if isinstance(x, torch.Tensor)]
        is_usual = len({x.dtype for x in tensors}) == 1 and tensors[0].dtype in _USUAL
        most = most_usual if is_usual else MOST_ELEMENTS
        is_large = sum(filter(None, sizes)) > most
        if any(n is None for n in sizes) or 0 in sizes[: len(tensors)] or (is_large and is_usual):
            return ""
        if len(_answers) >= _MOST_ANSWERS:
            _answers.clear()
        # where a number is at fault and no type, 0 or 1 will do; 1 may be out of range, which some do not look at
        numbers = (0,) if "_unsafe" in target._schema.name else (0, 1)
        said = [_said_of_few(target, flat, spec) if is_large else _said(target, flat, spec, n) for n in numbers]
        _answers[key] = said[0] if all(said) else ""
    return _answers[key]


def _may_be_asked(target: Any, tensors: list[Any]) -> bool:
    # gradients are of types that the forward gave, and torch calls them otherwise than it traces them
    plain = target.namespace in ("aten", "prims") and not target.is_view and "backward" not in target._schema.name
    return plain and all(t.device.type == "cpu" for t in tensors)


def _kind(x: Any) -> object:
    if isinstance(x, torch.Tensor):
        return x.dtype, *map(_hint, x.shape)
    return str(x) if isinstance(x, (bool, str, torch.dtype, int)) else type(x)


def _hint(size: Any) -> int:
    """What a size is in the example, 0 where nobody knows."""
    return size if isinstance(size, int) else size.node.hint or 0


def _said_of_few(target: Any, flat: list[Any], spec: Any) -> str:
    """What torch says of the types of many elements, if it takes as few of one type in the same places."""
    shapes = [tuple(_hint(s) for s in x.shape) for x in flat if isinstance(x, torch.Tensor)]
    few = {1: 1}
    for shape in shapes:
        for i, j in itertools.combinations(range(len(shape) + 1), 2):
            few.setdefault(math.prod(shape[i:j]), math.prod(min(d, FEW) for d in shape[i:j]))

    def smaller(x: Any, types: Mapping[Any, Any]) -> Any:
        if isinstance(x, torch.Tensor):
            size = [min(_hint(s), FEW) for s in x.shape]
            return torch.empty(size, dtype=types.get(x.dtype, x.dtype), device="meta")
        x = _hint(x) if isinstance(x, torch.SymInt) else x
        return few.get(x, x) if type(x) is int else x

    with _disable_current_modes():
        given = [smaller(x, {}) for x in flat]
        floats = {x.dtype: torch.float32 for x in given if isinstance(x, torch.Tensor) and x.dtype.is_floating_point}
        alike = [smaller(x, floats | {torch.int32: torch.int64}) for x in flat]
    said = _said(target, given, spec, 0)
    return "" if said and _said(target, alike, spec, 0) else said


def _said(target: Any, flat: list[Any], spec: Any, number: int) -> str:
    """What torch says when it runs on tensors of one number."""
    with _disable_current_modes(), torch.no_grad(), torch._C._DisableAutocast():
        given = [_real(x, number) for x in flat]
        try:
            target(**pytree.tree_unflatten(given, spec))
        except Exception as e:  # noqa: BLE001 - whatever an operator may raise
            return (str(e) or type(e).__name__).splitlines()[0]
    return ""


def _real(x: Any, number: int) -> Any:
    if isinstance(x, torch.Tensor):
        return torch.full([_hint(s) for s in x.shape], number, dtype=x.dtype)
    return _hint(x) if isinstance(x, torch.SymInt) else x
