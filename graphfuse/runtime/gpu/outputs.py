"""Where the outputs of a run go: fresh arrays of the inputs' kind, or those that the caller gave."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphfuse.artifact import Array, Signature, TensorSpec, elem_dtype
from graphfuse.errors import InputError
from graphfuse.runtime.apart import check_apart, seen_as_array
from graphfuse.runtime.gpu.arrays import ALIGNMENT, DeviceArray, Operand, is_cuda_tensor, torch_dtype, torch_module
from graphfuse.runtime.gpu.context import Context


@dataclass(slots=True, eq=False)
class Output:
    """An output: `value` is what kernels write, at `address`; `given` is the caller's array if there is one.

    One on the host is written in the session's memory first, and gets its value at the end.
    """

    spec: TensorSpec
    shape: tuple[int, ...]
    address: int = 0
    value: Any = None
    given: Any = None
    on_host: bool = False

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * elem_dtype(self.spec.elem).itemsize

    def finished(self) -> Any:
        """What the caller gets, once `value` has its content."""
        if self.given is None or self.value is self.given:
            return self.value
        if is_cuda_tensor(self.given):
            self.given.copy_(self.value)
        else:
            self.given[...] = self.value
        return self.given


def make_outputs(
    context: Context,
    signature: Signature,
    shapes: Sequence[tuple[int, ...]],
    operands: Sequence[Operand],
    given: Mapping[str, Any],
    states: Mapping[str, tuple[Any, Operand]],
    stream: int,
) -> list[Output]:
    """One for each of the signature, in order; `states` are inputs that are written over, by the name of the output.

    They are torch tensors if an input is one on the GPU, `DeviceArray` if another library has one there, else numpy's.
    """
    origins = {o.origin for o in operands}
    read = [span_of(o.address, s, o.shape) for o, s in zip(operands, signature.inputs, strict=True) if o.host is None]
    out: list[Output] = []
    for spec, shape in zip(signature.outputs, shapes, strict=True):
        output = Output(spec, shape, given=given.get(spec.name))
        if spec.name in states:
            output.value, operand = states[spec.name]
            own = int(output.value.data_ptr()) if is_cuda_tensor(output.value) else operand.address
            if operand.host is not None or own != operand.address:
                raise InputError(f"what becomes output {spec.name!r}: expected a contiguous array on {context.where}")
            output.address = own
        elif output.given is not None:
            _use_given(output, context, read)
        elif "torch" in origins and torch_dtype(spec.elem) is not None:
            device = f"cuda:{context.ordinal}"
            output.value = torch_module().empty(shape, dtype=torch_dtype(spec.elem), device=device)
            output.address = int(output.value.data_ptr())
        elif origins & {"torch", "device"}:
            block = context.pool.take(output.nbytes, f"output {spec.name!r}", stream)
            output.value = DeviceArray(context, block, spec.elem, shape)
            output.address = block.address
        else:
            output.on_host = True
        out.append(output)
    for on_gpu in (False, True):  # their addresses are not of one kind
        check_apart({n: _as_array(a) if on_gpu else a for n, a in given.items() if is_cuda_tensor(a) is on_gpu})
    return out


def _as_array(tensor: Any) -> Array:
    item = tensor.element_size()
    return seen_as_array(int(tensor.data_ptr()), tensor.shape, [s * item for s in tensor.stride()], item)


def span_of(address: int, spec: TensorSpec, shape: tuple[int, ...]) -> range:
    """The addresses of a dense tensor."""
    return range(address, address + math.prod(shape) * elem_dtype(spec.elem).itemsize)


def _use_given(output: Output, context: Context, read: Sequence[range]) -> None:
    """Let kernels write into the caller's array where they can; else it is copied to at the end.

    They cannot where it overlaps what they or later ones may still read.
    """
    array: Any = output.given
    on_gpu = is_cuda_tensor(array)
    wanted: Any = torch_dtype(output.spec.elem) if on_gpu else elem_dtype(output.spec.elem)
    fits = getattr(array, "dtype", None) == wanted
    if on_gpu:
        fits = fits and array.device.index == context.ordinal
    else:
        fits = fits and isinstance(output.given, np.ndarray) and output.given.flags.writeable
    if not fits or tuple(array.shape) != output.shape:
        found = getattr(array, "dtype", type(array).__name__)
        raise InputError(
            f"output {output.spec.name!r}: expected a writable {wanted} array of shape {output.shape}, "
            f"found {found} of shape {tuple(getattr(array, 'shape', ()))}"
        )
    if not on_gpu:
        output.on_host = True
        return
    span = span_of(int(array.data_ptr()), output.spec, output.shape)
    is_apart = not any(max(span.start, r.start) < min(span.stop, r.stop) for r in read)
    is_usable = is_apart and array.is_contiguous() and array.data_ptr() % ALIGNMENT == 0
    output.value = array if is_usable else torch_module().empty_like(array).contiguous()
    output.address = int(output.value.data_ptr())
