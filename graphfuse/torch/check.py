"""Whether what a graph returns is what torch was promised: nothing in torch looks.

`Promises.of(gm, externs)` reads sizes, strides, types, devices and shared memory off the traced graph, before it is
rewritten; `Promises.check` compares them with real inputs and outputs. What torch itself computes is not ours to check:
its fake results are not always like its real ones (`embedding_bag` of bfloat16).
`options={"check": True}`, or `GRAPHFUSE_TORCH_CHECK=1`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from graphfuse.errors import VerifyError
from graphfuse.frontends.fx.sizes import UnknownSize, dim_of, dims_of
from graphfuse.symbolic import Dim, Expr, evaluate, symbols
from graphfuse.torch.cut import VIEWS


@dataclass(frozen=True)
class Promise:
    """What one input or output is: a tensor, or a number that is a dim; None for anything else."""

    size: tuple[Dim, ...] = ()
    stride: tuple[Dim, ...] = ()
    dtype: torch.dtype | None = None
    device: torch.device | None = None
    number: Dim | None = None
    storage: int | None = 0
    """Equal for tensors that share memory. None where torch does not say: results of operators that call graphs."""


@dataclass(frozen=True)
class Promises:
    """The inputs and outputs of a graph."""

    inputs: tuple[Promise | None, ...]
    outputs: tuple[Promise | None, ...]
    names: tuple[str, ...]

    @staticmethod
    def of(gm: fx.GraphModule, externs: Collection[fx.Node] = ()) -> Promises:
        """Those of a traced graph, of which torch runs `externs`."""
        places = [n for n in gm.graph.nodes if n.op == "placeholder"]
        (outputs,) = next(n for n in gm.graph.nodes if n.op == "output").args
        ids: dict[int, int] = {}
        return Promises(
            tuple(_promise(n.meta.get("val"), ids) for n in places),
            tuple(_promise_of(o, ids, externs) for o in outputs),
            tuple(str(o) for o in outputs),
        )

    def check(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Raise `VerifyError` for the first output that is not as promised."""
        values = self._values(inputs)
        if len(outputs) != len(self.outputs):
            raise VerifyError(f"torch backend: expected {len(self.outputs)} outputs, found {len(outputs)}")
        for name, promise, found in zip(self.names, self.outputs, outputs, strict=True):
            if promise is None or not isinstance(found, torch.Tensor):
                continue
            _check_tensor(name, promise, found, values)
        self._check_sharing(inputs, outputs)

    def _values(self, inputs: Sequence[Any]) -> dict[str, int]:
        """Symbols whose value an input is, or has as a size."""
        values: dict[str, int] = {}
        for promise, given in zip(self.inputs, inputs, strict=True):
            if promise is None:
                continue
            if isinstance(promise.number, Expr):
                if not isinstance(given, int):
                    continue  # a length of nested tensors
                values.setdefault(str(promise.number), int(given))
            elif isinstance(given, torch.Tensor):
                for dim, size in zip(promise.size, given.shape, strict=True):
                    if isinstance(dim, Expr):
                        values.setdefault(str(dim), int(size))
        return values

    def _check_sharing(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Tensors share memory if, and only if, the traced ones do."""
        pairs = zip((*self.inputs, *self.outputs), (*inputs, *outputs), strict=True)
        seen: dict[int, tuple[int, int]] = {}
        first = len(inputs)
        for i, (promise, found) in enumerate(pairs):
            if promise is None or promise.storage is None or not isinstance(found, torch.Tensor):
                continue
            if not found.numel() or found._is_zerotensor() or not (at := found.untyped_storage().data_ptr()):
                continue
            before = seen.setdefault(promise.storage, (at, i))
            if before[0] != at and i >= first:
                raise VerifyError(f"torch backend: output {self.names[i - first]}: its memory was to be shared")
        owners: dict[int, int] = {}
        for storage, (at, i) in seen.items():
            if owners.setdefault(at, storage) != storage and i >= first:
                raise VerifyError(f"torch backend: output {self.names[i - first]}: its memory is shared")


def _promise_of(output: Any, ids: dict[int, int], externs: Collection[fx.Node]) -> Promise | None:
    if not isinstance(output, fx.Node):
        return _promise(output, ids)
    promise, base = _promise(output.meta.get("val"), ids), output
    while base.target is operator.getitem or base.target in VIEWS:
        base = base.all_input_nodes[0]
    if base in externs:
        return None
    calls = isinstance(base.target, torch._ops.HigherOrderOperator)
    return replace(promise, storage=None) if promise is not None and calls else promise


def _promise(value: Any, ids: dict[int, int]) -> Promise | None:
    try:
        if isinstance(value, torch.Tensor):
            storage = ids.setdefault(value.untyped_storage()._cdata, len(ids))
            return Promise(dims_of(value.shape), dims_of(value.stride()), value.dtype, value.device, None, storage)
        if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):
            return Promise(number=dim_of(value))
    except UnknownSize:
        pass
    return None


def _check_tensor(name: str, promise: Promise, found: torch.Tensor, values: Mapping[str, int]) -> None:
    if found.dtype != promise.dtype or found.device.type != getattr(promise.device, "type", ""):
        wanted = f"{promise.dtype} on {promise.device}"
        raise VerifyError(f"torch backend: output {name}: expected {wanted}, found {found.dtype} on {found.device}")
    if any(not symbols(d) <= values.keys() for d in (*promise.size, *promise.stride) if isinstance(d, Expr)):
        return  # a size that depends on data
    size = tuple(evaluate(d, values) for d in promise.size)
    stride = tuple(evaluate(d, values) for d in promise.stride)
    if tuple(found.shape) != size:
        raise VerifyError(f"torch backend: output {name}: expected size {size}, found {tuple(found.shape)}")
    differs = [i for i, n in enumerate(size) if n > 1 and found.stride(i) != stride[i]]
    if differs and found.numel():
        raise VerifyError(f"torch backend: output {name}: expected strides {stride}, found {found.stride()}")


def checked(promises: Promises, run: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """A boxed function whose outputs are compared with the promises."""

    def call(args: list[Any]) -> Any:
        inputs = list(args)
        outputs = run(args)
        promises.check(inputs, outputs)
        return outputs

    return call
