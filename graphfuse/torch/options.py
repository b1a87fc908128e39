"""`mode=` and `options=` of torch.compile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from graphfuse.errors import UsageError, meant
from graphfuse.knobs import Numerics, numerics_of

MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {"cuda_graphs": True},
    "max-autotune": {"cuda_graphs": True, "tune": True},
    "max-autotune-no-cudagraphs": {"tune": True},
}


@dataclass(frozen=True)
class TorchOptions:
    """What `options=` of `torch.compile` may have (docs/torch.md). Others, and other types, are a UsageError."""

    numerics: Numerics = "eager"
    """What rounding is kept (docs/numerics.md)."""
    cuda_graphs: bool = False
    """Record what runs on a GPU as a CUDA graph, and replay that."""
    strict: bool = False
    """An operator that is not compiled is an error."""
    check: bool = False
    """Compare what is returned with what torch was promised: sizes, strides, types, aliases."""
    check_indices: bool = True
    """Indices out of range, and integers divided by 0, are errors on a CPU."""
    tune: bool = False
    """Try the ways to make each kernel where it will run, and take the fastest (docs/tuning.md)."""


def options_of(mode: str | None, options: Mapping[str, Any] | None) -> TorchOptions:
    """The options of a call. Raises `UsageError` for what is unknown."""
    chosen = TorchOptions()
    if mode is not None:
        if mode not in MODES:
            raise UsageError(f"mode: expected one of {', '.join(MODES)}, found {mode!r}")
        chosen = replace(chosen, **MODES[mode])
    known = [f.name for f in fields(TorchOptions)]
    for name, value in (options or {}).items():
        if name not in known:
            hint = meant(str(name), known)
            raise UsageError(f"options: expected one of {', '.join(known)}, found {name!r}{hint}")
        if name == "numerics":
            value = numerics_of(value)
        elif not isinstance(value, bool):
            raise UsageError(f"options: {name}: expected True or False, found {value!r}")
        chosen = replace(chosen, **{name: value})
    return chosen
