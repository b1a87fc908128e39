"""A compiled part of a graph as a module that torch's FX code calls: tensors and sizes in, a list of tensors out."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from graphfuse.artifact import Executable
from graphfuse.frontends.fx.importer import Part, order_of
from graphfuse.frontends.fx.sizes import dims_of
from graphfuse.ir.core import Func
from graphfuse.runtime.direct import Direct, Workspace
from graphfuse.symbolic import Dim, evaluate


@dataclass(frozen=True)
class Layout:
    """How a result is allocated: sizes and strides over the part's symbols."""

    size: tuple[Dim, ...]
    stride: tuple[Dim, ...]
    dtype: torch.dtype
    device: torch.device

    @property
    def is_static(self) -> bool:
        """Whether no symbol is needed."""
        return all(isinstance(d, int) for d in (*self.size, *self.stride))


def layout_of(fake: Any) -> Layout:
    """The layout that torch has promised for a result, or the dense one where that has gaps."""
    size = dims_of(fake.shape)
    if order_of(fake) is not None:
        return Layout(size, dims_of(fake.stride()), fake.dtype, fake.device)
    stride: list[Dim] = []
    step: Dim = 1
    for d in reversed(size):
        stride.insert(0, step)
        step = step * d
    return Layout(size, tuple(stride), fake.dtype, fake.device)


class CompiledPart(torch.nn.Module):
    """Runs an executable on tensors. Arguments: tensors in the order of the part's inputs, then the symbols' values."""

    def __init__(self, part: Part, func: Func, executable: Executable) -> None:
        super().__init__()
        self.func, self.executable = func, executable
        self.symbols = tuple(name for name, _, _ in func.dims)
        self.layouts = tuple(layout_of(n.meta["val"]) for n in part.outputs)
        self.inputs = len(part.inputs)
        self.compacted = tuple(i for i, n in enumerate(part.inputs) if order_of(n.meta["val"]) is None)
        """Inputs with gaps or overlaps: they are copied."""
        self._static = (
            [(s.size, s.stride, s.dtype, s.device) for s in self.layouts]
            if all(s.is_static for s in self.layouts)
            else None
        )
        self._direct: Direct | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without what belongs to this process, and without IR, which only people read."""
        return {**super().__getstate__(), "_direct": None, "func": None}

    def forward(self, *args: Any) -> list[torch.Tensor]:
        """Compute the part."""
        direct = self._direct or self._load()
        tensors, values = args[: self.inputs], args[self.inputs :]
        if self.compacted:
            tensors = self._compact(tensors)
        outs = self._allocate(values)
        direct.run(values, [t.data_ptr() for t in (*tensors, *outs)])
        return outs

    def _allocate(self, values: Sequence[int]) -> list[torch.Tensor]:
        if self._static is not None:
            return [torch.empty_strided(s, t, dtype=d, device=w) for s, t, d, w in self._static]
        named = dict(zip(self.symbols, values, strict=True))
        return [
            torch.empty_strided(
                [evaluate(d, named) for d in s.size],
                [evaluate(d, named) for d in s.stride],
                dtype=s.dtype,
                device=s.device,
            )
            for s in self.layouts
        ]

    def _compact(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        out = list(tensors)
        for i in self.compacted:
            out[i] = out[i].contiguous()
        return out

    def _load(self) -> Direct:
        self._direct = Direct(self.executable, workspace())
        return self._direct


_workspaces: dict[int, Workspace] = {}
_lock = threading.Lock()


def workspace() -> Workspace:
    """Shared by all parts that run on as many threads as torch now uses."""
    threads = torch.get_num_threads()
    with _lock:
        if (found := _workspaces.get(threads)) is None:
            found = _workspaces[threads] = Workspace(threads)
        return found
