"""A compiled part of a graph as a module that torch's FX code calls: tensors and sizes in, a list of tensors out."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import fx
from torch._prims_common import make_contiguous_strides_for

from graphfuse.artifact import Executable
from graphfuse.errors import InputError
from graphfuse.frontends.fx.importer import Part, loc_of, order_of, stored
from graphfuse.frontends.fx.sizes import dims_of
from graphfuse.ir.core import Func
from graphfuse.runtime.direct import MAX_BOUND, Direct
from graphfuse.runtime.gpu.arrays import ALIGNMENT
from graphfuse.runtime.pieces import apart, bytes_apart
from graphfuse.symbolic import Dim, evaluate, product
from graphfuse.torch.quick_call import Around, quick_call
from graphfuse.torch.runners import Allocation, OnGpu, allocator, direct
from graphfuse.value_checks import FINE

LEAST_LAUNCHES = 64
"""A part of as many is run in pieces."""
LARGE_BYTES = 16 << 20
"""Of large intermediate tensors of a part on a GPU, which is then run in pieces, too."""


@dataclass(frozen=True)
class Layout:
    """How a result is allocated: sizes and strides over the part's symbols."""

    size: tuple[Dim, ...]
    stride: tuple[Dim, ...]
    dtype: torch.dtype
    spread: tuple[Dim, ...] = ()
    """The strides of what it is copied to, where torch has promised gaps."""


def layout_of(fake: Any, *, is_kept: bool = False) -> Layout:
    """The layout that torch has promised for a result. What is only kept for the backward has no gaps."""
    size, promised = dims_of(fake.shape), dims_of(fake.stride())
    if order_of(fake) is not None:
        return Layout(size, promised, fake.dtype)
    overlaps = any(s == 0 and d != 1 for s, d in zip(promised, size, strict=True))
    stride = dims_of(make_contiguous_strides_for(fake.shape))
    return Layout(size, stride, fake.dtype, () if is_kept or overlaps else promised)


def readable(tensor: torch.Tensor, mask: int) -> torch.Tensor:
    """A dense tensor that kernels can read: in memory, at an address without bits of `mask`. It may be a copy.

    torch has zeros without any memory, memory that was given back, and views that begin anywhere.
    """
    if not tensor.numel():
        return tensor
    if address := tensor.data_ptr():
        return tensor.clone() if address & mask else tensor  # a clone has the strides of what is dense
    if tensor._is_zerotensor():
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device).zero_()
    raise InputError(f"expected a tensor of {tensor.numel()} elements in memory, found one whose memory was freed")


def array_around(tensor: torch.Tensor, lead: int, count: int) -> torch.Tensor:
    """The `count` elements of the array that a tensor is part of: of its memory, if all of them are there."""
    before = tensor.storage_offset() - lead
    if before >= 0 and (before + count) * tensor.itemsize <= tensor.untyped_storage().nbytes():
        return tensor.as_strided((count,), (1,), before)
    made = torch.empty(count, dtype=tensor.dtype, device=tensor.device)
    once = [1 if s == 0 else n for n, s in zip(tensor.shape, tensor.stride(), strict=True)]
    made.as_strided(once, tensor.stride(), lead).copy_(tensor.as_strided(once, tensor.stride()))
    return made


def keeps_graph() -> bool:
    """Whether the backward that runs may run again; so it is where none runs."""
    core: Any = torch._C
    return core._autograd._get_current_graph_task_keep_graph()


def _itself(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


class CompiledPart(torch.nn.Module):
    """Runs an executable on tensors. Arguments: tensors in the order of the part's inputs, then the symbols' values."""

    def __init__(self, part: Part, func: Func, executable: Executable, kept: Collection[fx.Node] = ()) -> None:
        super().__init__()
        self.func, self.executable = func, executable
        self.symbols = tuple(name for name, _, _ in func.dims)
        self.largest = tuple(high for _, _, high in func.dims)
        self.layouts = tuple(layout_of(part.fake(n), is_kept=n in kept) for n in part.outputs)
        self.spread = tuple((i, s.size, s.spread) for i, s in enumerate(self.layouts) if s.spread)
        """Results with gaps, their sizes and strides."""
        self.inputs = len(part.inputs)
        fakes = [n.meta["val"] for n in part.inputs]
        lie = [(i, stored(f)) for i, f in enumerate(fakes) if order_of(f) is None]
        self.gapped = tuple((i, how and (how.lead, product(how.shape))) for i, how in lie)
        """Inputs with gaps or overlaps. Where they are parts of arrays, what these have before them, and in all."""
        self.promised = tuple(
            (n.name, fake.dtype, product(dims_of(fake.shape))) for n, fake in zip(part.inputs, fakes, strict=True)
        )
        """Name, element and number of elements of each input: operators of torch's may return something else."""
        aligned = [ALIGNMENT if executable.is_gpu else dtype.itemsize for _, dtype, _ in self.promised]
        self.masks = tuple(n - 1 for n in aligned)
        """The bits that the address of each input must not have: kernels for a GPU read 16 bytes at once."""
        locs = {n.name: loc_of(n) for n in part.nodes}
        self.watched = tuple((check, locs[check.node]) for check in executable.checks)
        if self.watched:
            self.layouts = (*self.layouts, Layout((len(self.watched),), (1,), torch.int64))
        self.shared = executable.shared
        """Results that lie where arguments do, by number: what is copied from the one to the other is there."""
        for i, _ in self.shared:
            self.layouts = (*self.layouts[:i], Layout((0,), (1,), self.layouts[i].dtype), *self.layouts[i + 1 :])
        self.device = part.outputs[0].meta["val"].device
        self._allocations: dict[tuple[int, ...], list[Allocation]] = {}
        self.launches = sum(1 for _ in executable.plan.walk())
        is_large = executable.is_gpu and bytes_apart(executable) >= LARGE_BYTES
        self.in_pieces = is_large or self.launches >= LEAST_LAUNCHES
        """Whether inputs that nobody else holds are freed on the way: then `run` is what to call."""
        self._temporary: tuple[tuple[int, int | None], ...] = ()
        """Of large intermediate tensors, which are outputs of what runs in pieces on a GPU: see `apart`."""
        self.overwrites = self.in_pieces and bool(executable.over)
        """Whether inputs that were donated are written over, unless the backward may run again."""
        self.hastened: Callable[[Callable[..., Any]], None] | None = None
        """Is given, once it is known, a quicker function of the same arguments than `forward` is."""
        self._home: Direct | OnGpu | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without what belongs to this process, and without IR, which only people read."""
        bare = replace(self.executable, ir={}, ledger=[])
        fresh = {"_home": None, "_allocations": {}, "hastened": None}
        return {**super().__getstate__(), **fresh, "func": None, "executable": bare}

    def forward(self, *args: Any) -> list[torch.Tensor]:
        """Compute the part."""
        if self.in_pieces:
            return self.run(list(args))
        home = self._home or self._load()
        tensors, values = args[: self.inputs], args[self.inputs :]
        allocations = self._allocations.get(values) or self._sized(values, tensors)
        if self.gapped:
            tensors = self._arrays(tensors, values)
        outs = [make(size, stride, dtype) for make, size, stride, dtype in allocations]
        for i, number in self.shared:
            outs[i] = tensors[number]
        addresses = [t.data_ptr() for t in (*tensors, *outs)]
        if 0 in addresses or any(map(operator.and_, addresses, self.masks)):
            tensors = list(map(readable, tensors, self.masks))
            for i, number in self.shared:
                outs[i] = tensors[number]
            addresses = [t.data_ptr() for t in (*tensors, *outs)]
        home.run(values, addresses)
        return self._finished(outs, values)

    def run(self, args: list[Any]) -> list[torch.Tensor]:
        """Compute the part from a list of arguments, which is cleared, in pieces."""
        values = tuple(args[self.inputs :])
        tensors: list[torch.Tensor] = args[: self.inputs]
        args.clear()
        allocations = self._allocations.get(values) or self._sized(values, tensors)
        if self.gapped:
            tensors = self._arrays(tensors, values)
        addresses = [t.data_ptr() for t in tensors]
        if 0 in addresses or any(map(operator.and_, addresses, self.masks)):
            tensors = list(map(readable, tensors, self.masks))
        makers: list[Callable[[], torch.Tensor]] = [partial(make, *how) for make, *how in allocations]
        for i, number in self.shared:
            makers[i] = partial(_itself, tensors[number])
        home = self._home or self._load()
        once = self.overwrites and not keeps_graph()
        for nbytes, number in self._temporary:
            fresh = partial(torch.empty, nbytes, dtype=torch.uint8, device=self.device)
            makers.append(fresh if number is None or not once else partial(_itself, tensors[number]))
        outs = home.run_in_pieces(values, tensors, makers, torch.Tensor.data_ptr, len(allocations))
        return self._finished(outs, values)

    def _finished(self, outs: list[torch.Tensor], values: tuple[int, ...]) -> list[torch.Tensor]:
        if self.watched:
            self._look(outs.pop(), values)
        for i, size, stride in self.spread:
            named = dict(zip(self.symbols, values, strict=True))
            spread = [tuple(evaluate(d, named) for d in dims) for dims in (size, stride)]
            outs[i] = torch.empty_strided(*spread, dtype=outs[i].dtype, device=outs[i].device).copy_(outs[i])
        return outs

    def _look(self, found: torch.Tensor, values: tuple[int, ...]) -> None:
        """Raise if an index was out of range, or a divisor 0; the results are those of indices within it."""
        for (check, loc), element in zip(self.watched, found.tolist(), strict=True):
            if element != FINE:
                raise check.error(element, dict(zip(self.symbols, values, strict=True)), loc)

    def _sized(self, values: tuple[int, ...], tensors: Sequence[torch.Tensor]) -> list[Allocation]:
        """What is allocated at these values of the symbols, which are new: what is given is looked at, too."""
        named = dict(zip(self.symbols, values, strict=True))
        for name, value, most in zip(self.symbols, values, self.largest, strict=True):
            if value > most:
                raise InputError(f"size {name}: expected at most {most}, found {value}")
        for (name, dtype, elements), given in zip(self.promised, tensors, strict=True):
            if (given.dtype, given.numel()) != (dtype, wanted := evaluate(elements, named)):
                raise InputError(
                    f"{name}: torch traced {wanted} elements of {dtype}, found {given.numel()} of {given.dtype}"
                )
        if len(self._allocations) >= MAX_BOUND:
            self._allocations.clear()
        make = allocator(self.device)
        made = self._allocations[values] = [
            (make, tuple(evaluate(d, named) for d in s.size), tuple(evaluate(d, named) for d in s.stride), s.dtype)
            for s in self.layouts
        ]
        gapped = {i for i, _ in self.gapped}
        needs_more = self.symbols or self.spread or any(number in gapped for _, number in self.shared)
        home = self._home or self._load()
        if self.hastened and isinstance(home, Direct) and not needs_more:
            arrays = [(i, array and (array[0], evaluate(array[1], named))) for i, array in self.gapped]
            around = Around(arrays, self.shared, partial(self._look, values=()) if self.watched else None)
            dtypes = [dtype for _, dtype, _ in self.promised]
            self.hastened(quick_call(home, made, dtypes, self.masks, self.forward, around))
        return made

    def _arrays(self, tensors: Sequence[torch.Tensor], values: tuple[int, ...]) -> list[torch.Tensor]:
        """The tensors; in the place of one with gaps the array that it is part of."""
        out = list(tensors)
        named = dict(zip(self.symbols, values, strict=True))
        for i, array in self.gapped:
            out[i] = array_around(out[i], array[0], evaluate(array[1], named)) if array else out[i].contiguous()
        return out

    def _load(self) -> Direct | OnGpu:
        """What runs it where its tensors are."""
        executable = self.executable
        if not executable.is_gpu:
            self._home = direct(executable)
            return self._home
        if self.in_pieces:
            executable, self._temporary = apart(executable)
        self._home = OnGpu(executable, self.device)
        return self._home
