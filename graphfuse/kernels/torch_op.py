"""`graphfuse.tc_op("ns::name", "kernel.tc")`: a hand-written kernel as an operator of torch, which only this imports.

The kernel's header says what it takes and gives (docs/triton-c-ops.md). torch sees a functional operator: it runs on
CPU and CUDA tensors, its shapes are known without running it, so that `torch.compile` traces it without a graph
break, and it has a gradient if it is given one.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
# torch may be absent where types are checked

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from graphfuse import usage
from graphfuse.errors import InputError, UsageError, VerifyError
from graphfuse.frontends.fx.lowering import KERNELS, LOWERINGS, Call, name_of
from graphfuse.frontends.tc_ops import Header, Operator, parse_headers
from graphfuse.frontends.tc_ops.binding import Binding
from graphfuse.frontends.tc_ops.expression import DIMS, Arithmetic
from graphfuse.frontends.tc_ops.header import Attribute, Part
from graphfuse.frontends.tc_ops.header import Tensor as Declared
from graphfuse.frontends.tc_ops.names import check
from graphfuse.frontends.tc_ops.operator import refuse_writes
from graphfuse.ir.core import Value
from graphfuse.ir.types import SCALAR_NAMES, Tensor, scalar
from graphfuse.kernels.kernel import Kernel
from graphfuse.kernels.signature import Parameter
from graphfuse.kernels.source import read_source
from graphfuse.runtime.gpu.arrays import torch_dtype
from graphfuse.symbolic import Dim, static

Backward = Callable[..., Sequence[Any]]
"""`backward(inputs, outputs, gradients, **attributes)` gives a gradient, or None, for each input."""
SYMBOLIC = Arithmetic(operator.floordiv, operator.mod, torch.sym_min, torch.sym_max)
"""Sizes that torch traces."""


def tc_op(
    name: str,
    source: str | os.PathLike[str],
    *,
    backward: str | os.PathLike[str] | Backward | None = None,
    threads: int | None = None,
    **fields: str,
) -> Any:
    """Register a kernel as the operator `name`, `namespace::operator`, and return it; call it with tensors.

    Args:
        name: What torch calls it, then also `torch.ops.namespace.operator`.
        source: A path, or text (see `graphfuse.kernel`). Of several headers, the one whose `op` is `name`.
        backward: How gradients are computed: a function (see `Backward`), or another kernel, whose inputs are named
            as this one's inputs and outputs, or `grad_y` for the gradient of the output `y`, and whose outputs are
            `grad_x` for each input `x` that has one.
        threads: How many threads run it on a CPU.
        fields: A header, if the source has none: `inputs="x: T[M, N]", outputs="y: T[M, N]", grid="M", args="x, y, N"`.

    Returns:
        The operator, as `torch.library.custom_op` makes it: tensors on a CPU or CUDA in, new tensors out.

    Raises:
        UsageError: The name is none, or the header does not fit the kernel; the message has file and line.
        SourceError: The source does not compile.
    """
    namespace, colons, op = usage.text("name", name).partition("::")
    if not colons or not namespace.isidentifier() or not op.isidentifier():
        raise UsageError(f"tc_op: expected a name such as 'mine::gelu', found {name!r}")
    forward = _Launcher(_read(name, source, fields), threads)
    made = _registered(name, forward)
    if backward is not None:
        function = backward if callable(backward) else _backward_kernel(name, backward, forward, threads)
        made.register_autograd(_gradients(forward.header, function), setup_context=_save)
    return made


def _registered(name: str, launcher: _Launcher) -> Any:
    """A launcher as an operator. The torch backend makes of a call the kernel's block function, and adds to it."""
    made: Any = torch.library.custom_op(name, launcher.run, mutates_args=(), schema=launcher.schema)
    made.register_fake(launcher.fake)
    LOWERINGS[made._opoverload] = launcher.lower
    KERNELS[made._qualname] = "\n".join((str(launcher.header), *launcher.operator.text_of_all()))
    return made


def _read(name: str, source: str | os.PathLike[str], fields: Mapping[str, str]) -> Operator:
    text, file = read_source(source)
    if fields:
        lines = "".join(f"// {field}: {value}\n" for field, value in fields.items())
        headers = parse_headers(f"// op: {name}\n{lines}", f"{file}: tc_op")
    else:
        headers = parse_headers(text, file)
    named = [h for h in headers if h.op == name] or list(headers)
    if len(named) != 1:
        found = ", ".join(h.op for h in headers) or "none"
        raise UsageError(f"{file}: expected a header that begins with '// op: {name}', found {found}")
    return Operator(check(named[0]), text, file)


class _Launcher:
    """An operator on torch tensors. Kernels are compiled for what they are called with, once."""

    def __init__(self, operator_: Operator, threads: int | None) -> None:
        self.operator, self.header, self.threads = operator_, operator_.header, threads
        self._kernels: dict[tuple[tuple[str, str], ...], Kernel] = {}
        self._plans: dict[object, tuple[Kernel, Binding, tuple[int, ...], list[Any]]] = {}
        self._lock = threading.Lock()

    @property
    def schema(self) -> str:
        """What torch is told of arguments and results."""
        args = [f"Tensor {t.name}" for t in self.header.inputs]
        args += [f"{a.kind} {a.name}" + ("" if a.default is None else f"={a.default}") for a in self.header.attrs]
        results = ", ".join("Tensor" for _ in self.header.outputs)
        return f"({', '.join(args)}) -> {results if len(self.header.outputs) == 1 else f'({results})'}"

    def attributes(self, args: Sequence[Any]) -> dict[str, Any]:
        """The arguments after the tensors, by name."""
        count = len(self.header.inputs)
        given = {a.name: a.default for a in self.header.attrs}
        return given | dict(zip(given, args[count:], strict=False))

    def _tensors(self, args: Sequence[Any]) -> list[Any]:
        return list(args[: len(self.header.inputs)])

    def run(self, *args: Any) -> Any:
        """Launch on the tensors' device, on torch's stream if that is a GPU."""
        tensors = [t.contiguous() for t in self._tensors(args)]
        given = self.attributes(args)
        types = tuple((t.dtype, tuple(t.shape)) for t in tensors)
        kernel, names, grid, passed = self._plan(types, given)
        like = tensors[0].device if tensors else None
        outputs = zip(self.header.outputs, names.results, strict=True)
        results = [_new(d.initial, _sizes(t.shape), dtype=torch_dtype(t.elem.name), device=like) for d, t in outputs]
        arrays = _named((*self.header.inputs, *self.header.outputs), (*tensors, *results))
        if all(r.numel() for r in results):
            kernel.launch(grid, [_aligned(arrays[a], p) if isinstance(a, str) else a
                                 for a, p in zip(passed, kernel.parameters, strict=True)])  # fmt: skip
        return results[0] if len(results) == 1 else tuple(results)

    def fake(self, *args: Any) -> Any:
        """Empty results of the right types; sizes may be symbols of torch's."""
        tensors = self._tensors(args)
        names = self._bound([(t.dtype, tuple(t.shape)) for t in tensors], self.attributes(args), SYMBOLIC)
        results = [tensors[0].new_empty(t.shape, dtype=torch_dtype(t.elem.name)) for t in names.results]
        return results[0] if len(results) == 1 else tuple(results)

    def lower(self, call: Call, /, **given: Any) -> Sequence[Value]:
        """Emit a call of the kernel. What it cannot be part of a graph for is an error, whereupon torch runs it."""
        operands = [given[name_of(t.name)] for t in self.header.inputs]
        attributes = {a.name: given.get(name_of(a.name), a.default) for a in self.header.attrs}
        made = self.operator.call(operands, attributes, same=call.e.same)
        return call.e.block.append(replace(made, loc=call.e.loc)).results

    def _bound(self, types: Sequence[Any], given: Mapping[str, Any], arithmetic: Arithmetic = DIMS) -> Binding:
        operands = [Tensor(shape, _elem(dtype)) for dtype, shape in types]
        try:
            return Binding(self.header, operands, given, arithmetic=arithmetic)
        except VerifyError as e:
            raise InputError(f"{self.header.op}: {e.message}") from None

    def _plan(
        self, types: tuple[Any, ...], given: dict[str, Any]
    ) -> tuple[Kernel, Binding, tuple[int, ...], list[Any]]:
        """The kernel, what names stand for, the grid, and arguments with tensors by name."""
        key = types, tuple(given.items())
        with self._lock:
            if key not in self._plans:
                if len(self._plans) >= MOST_PLANS:
                    self._plans.clear()
                names = self._bound(types, given)
                kernel = self._kernel(names)
                grid = _sizes(names.grid())
                self._plans[key] = kernel, names, grid, self._arguments(kernel, names)
            return self._plans[key]

    def _kernel(self, names: Binding) -> Kernel:
        names.bind_macros()
        key = tuple(names.macros.items())
        if key not in self._kernels:
            found = self.operator.kernel(names)
            refuse_writes(found, self.header)
            self._kernels[key] = Kernel(found.func, names.macros, threads=self.threads, **self.header.options)
        return self._kernels[key]

    def _arguments(self, kernel: Kernel, names: Binding) -> list[Any]:
        known: dict[str, Any] = {t.name: t.name for t in (*self.header.inputs, *self.header.outputs)} | names.floats

        def argument(part: Part, p: Parameter) -> Any:
            if part.text in known:
                return known[part.text]
            return float(part.text) if p.elem.is_float else names.value(part, "args")

        return [argument(*given) for given in zip(self.header.args, kernel.parameters, strict=True)]


MOST_PLANS = 4096
"""Sets of shapes and attributes that are remembered."""


def _named(declared: Sequence[Declared | Attribute], values: Sequence[Any]) -> dict[str, Any]:
    return dict(zip((t.name for t in declared), values, strict=True))


def _sizes(dims: Sequence[Dim]) -> tuple[int, ...]:
    return tuple(static(d) for d in dims)


def _new(initial: float | None, shape: tuple[int, ...], **options: Any) -> Any:
    """Memory for a result, which may have to hold something before the kernel runs."""
    return torch.empty(shape, **options) if initial is None else torch.full(shape, initial, **options)


def _aligned(tensor: Any, parameter: Parameter) -> Any:
    """A tensor at an address that the kernel says it relies on: torch's views begin anywhere."""
    return tensor.clone() if tensor.data_ptr() % max(parameter.divisor, parameter.elem.bytes) else tensor


def _elem(dtype: Any) -> Any:
    for name in SCALAR_NAMES:
        if torch_dtype(name) == dtype:
            return scalar(name)
    raise InputError(f"expected tensors of a type that kernels have, found {dtype}")


# gradients


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Keep tensors and attributes of a call."""
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    results = output if isinstance(output, tuple) else (output,)
    ctx.given = inputs[len(tensors) :]
    ctx.save_for_backward(*tensors, *results)


def _gradients(header: Header, function: Backward) -> Callable[..., tuple[Any, ...]]:
    """What gives torch a gradient for each argument of a call."""
    count = len(header.inputs)

    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        saved, given = ctx.saved_tensors, _named(header.attrs, ctx.given)
        found = tuple(function(saved[:count], saved[count:], grads, **given))
        if len(found) != count:
            raise InputError(f"{header.op}: backward: expected {count} gradients, found {len(found)}")
        return (*found, *(None for _ in header.attrs))

    return backward


def _backward_kernel(name: str, source: str | os.PathLike[str], forward: _Launcher, threads: int | None) -> Backward:
    """A kernel as a backward function, an operator of its own."""
    launcher = _Launcher(_read(f"{name}_backward", source, {}), threads)
    made = _registered(f"{name}_backward", launcher)
    wanted, ours = launcher.header, forward.header
    _check_backward(wanted, ours)

    def backward(inputs: Sequence[Any], outputs: Sequence[Any], grads: Sequence[Any], **given: Any) -> list[Any]:
        known = _named(ours.inputs, inputs) | _named(ours.outputs, outputs)
        known |= {f"grad_{name}": g for name, g in _named(ours.outputs, grads).items()}
        attributes = [given.get(a.name, a.default) for a in wanted.attrs]
        found = made(*(known[t.name] for t in wanted.inputs), *attributes)
        results = _named(wanted.outputs, found if isinstance(found, tuple) else (found,))
        return [results.get(f"grad_{t.name}") for t in ours.inputs]

    return backward


def _check_backward(wanted: Header, ours: Header) -> None:
    names = [t.name for t in (*ours.inputs, *ours.outputs)] + [f"grad_{t.name}" for t in ours.outputs]
    _want_among("inputs", wanted.inputs, names)
    _want_among("outputs", wanted.outputs, [f"grad_{t.name}" for t in ours.inputs])
    _want_among("attributes", [a for a in wanted.attrs if a.default is None], [a.name for a in ours.attrs])


def _want_among(what: str, found: Sequence[Declared | Attribute], names: Sequence[str]) -> None:
    for x in found:
        if x.name not in names:
            raise UsageError(f"{x.loc}: backward: expected {what} among {', '.join(names)}, found {x.name!r}")
