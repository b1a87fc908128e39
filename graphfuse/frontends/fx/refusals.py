"""What eager torch refuses that its fake tensors let pass, such as a mix of types: torch itself is asked.

A lowering, or a decomposition, computes what operands mean, and fake tensors check little of types and ranks. So before
an operator is lowered or decomposed, torch runs it once for each combination of types and ranks, on zeros of the sizes
it was traced with. What it refuses is left to it: the program then ends as it does without compiling.

Not of gradients, and on a CPU only: on a GPU an index that fits nothing would end the process' context.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from graphfuse.frontends.fx.lowering import name_of

MOST_ELEMENTS = 1 << 20
"""Of operands and results together; torch is not asked of more."""
MOST_USUAL = 1 << 12
"""The same where all are of one type of `_USUAL`, and there is a lowering, which knows what fits."""
_MOST_ANSWERS = 1 << 14
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
        if any(n is None for n in sizes) or 0 in sizes[: len(tensors)] or sum(filter(None, sizes)) > most:
            return ""
        if len(_answers) >= _MOST_ANSWERS:
            _answers.clear()
        # where a number is at fault and no type, 0 or 1 will do; 1 may be out of range, which some do not look at
        numbers = (0,) if "_unsafe" in target._schema.name else (0, 1)
        said = [_said(target, flat, spec, n) for n in numbers]
        _answers[key] = said[0] if all(said) else ""
    return _answers[key]


def _may_be_asked(target: Any, tensors: list[Any]) -> bool:
    # gradients are of types that the forward gave, and torch calls them otherwise than it traces them
    plain = target.namespace in ("aten", "prims") and not target.is_view and "backward" not in target._schema.name
    return plain and all(t.device.type == "cpu" for t in tensors)


def _kind(x: Any) -> object:
    if isinstance(x, torch.Tensor):
        return x.dtype, x.dim()
    return str(x) if isinstance(x, (bool, str, torch.dtype, int)) else type(x)


def _hint(size: Any) -> int | None:
    return size if isinstance(size, int) else size.node.hint


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
