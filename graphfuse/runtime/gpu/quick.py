"""The short way through a run, for torch tensors at addresses whose launches are a graph already.

Nothing is copied, bound, ordered or recorded then, so nothing but addresses has to be looked at: some microseconds
instead of tens. Whatever is not as plain as that (another library's array, a stride, a shape or an address not seen
before, another stream, an error to explain) is left to the session, which goes the whole way and says what is wrong.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphfuse.artifact import Signature
from graphfuse.runtime.gpu.arrays import ALIGNMENT, torch_dtype, torch_module


class Quick:
    """What is the same for all runs of a session on one GPU; made when torch is there."""

    def __init__(self, torch: Any, signature: Signature, ordinal: int) -> None:
        self._kind, self._empty, self._ordinal = torch.Tensor, torch.empty, ordinal
        self._device = torch.device("cuda", ordinal)
        self._stream: Callable[[int], int] = torch._C._cuda_getCurrentRawStream
        """What torch's own compiler asks: it makes no object."""
        self._inputs = tuple((s.name, torch_dtype(s.elem)) for s in signature.inputs)
        self._outputs = tuple((s.name, torch_dtype(s.elem)) for s in signature.outputs)
        self._pid = os.getpid()

    @staticmethod
    def of(signature: Signature, ordinal: int) -> Quick | None:
        """None as long as torch is not there, or where it lacks one of the element types."""
        torch = torch_module()
        if torch is None or not hasattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream"):
            return None
        specs = (*signature.inputs, *signature.outputs)
        return Quick(torch, signature, ordinal) if all(torch_dtype(s.elem) for s in specs) else None

    def stream(self) -> int:
        """torch's current one."""
        return self._stream(self._ordinal)

    def is_forked(self) -> bool:
        """Whether this is a child of the process that the session was made in."""
        return self._pid != os.getpid()

    def read(self, inputs: Mapping[str, Any], addresses: list[int]) -> tuple[tuple[int, ...], ...] | None:
        """The shapes of inputs that can be used where they are, whose addresses are added; None if one cannot."""
        if len(inputs) != len(self._inputs):
            return None
        shapes: list[tuple[int, ...]] = []
        for name, dtype in self._inputs:
            value: Any = inputs.get(name)
            if type(value) is not self._kind or not self._is_usable(value, dtype):
                return None
            address: int = value.data_ptr()
            if address % ALIGNMENT:
                return None
            addresses.append(address)
            shapes.append(value.shape)
        return tuple(shapes)

    def outputs(
        self, shapes: Sequence[tuple[int, ...]], given: Mapping[str, Any], addresses: list[int]
    ) -> dict[str, Any] | None:
        """Tensors to write, those that were given or new ones; None if one that was given cannot be used."""
        out: dict[str, Any] = {}
        for (name, dtype), shape in zip(self._outputs, shapes, strict=True):
            value = given.get(name)
            if value is None:
                value = self._empty(shape, dtype=dtype, device=self._device)
            elif type(value) is not self._kind or not self._is_usable(value, dtype) or value.shape != shape:
                return None
            address: int = value.data_ptr()
            if address % ALIGNMENT:
                return None
            addresses.append(address)
            out[name] = value
        return None if given and any(name not in out for name in given) else out

    def _is_usable(self, value: Any, dtype: Any) -> bool:
        is_plain = value.is_contiguous() and not value.is_neg()
        return is_plain and value.dtype is dtype and value.get_device() == self._ordinal
