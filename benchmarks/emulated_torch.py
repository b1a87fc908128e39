"""`torch.compile` on CPU tensors for a GPU that is emulated: whether its kernels are right, and what they touch."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from graphfuse.frontends.fx import lowering
from graphfuse.frontends.fx.ops import conv
from graphfuse.gpu import code
from graphfuse.gpu.emulator.driver import EmulatedDriver
from graphfuse.gpu.emulator.report import Report
from graphfuse.runtime.gpu.direct import GpuDirect
from graphfuse.symbolic import evaluate
from graphfuse.targets import Target
from graphfuse.torch import build, compiled_part
from graphfuse.torch.runners import OnGpu

ARCH = "sm_90a"


class OnHost(EmulatedDriver):
    """Its memory is the host's, and an argument is as far from a multiple of 16 as its address is."""

    def _values(self, arguments: Any, maps: Any) -> Any:
        return super()._values([self._from_16(a) if a.base else a for a in arguments], maps)

    def _from_16(self, a: Any) -> Any:
        return replace(a, base=a.base - a.base % 16, nbytes=a.nbytes + a.base % 16)

    def _region(self, base: int, nbytes: int) -> Any:
        return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(base))


class OnEmulator(OnGpu):
    """Runs an executable for a GPU on addresses of the host."""

    def __init__(self, executable: Any, driver: EmulatedDriver) -> None:
        self._kept: list[torch.Tensor] = []
        self._direct = GpuDirect(executable, driver, 0, self._zeroed)

    def _zeroed(self, nbytes: int) -> int:
        self._kept.append(torch.zeros(nbytes + 256, dtype=torch.uint8))
        return -(-self._kept[-1].data_ptr() // 256) * 256

    @contextmanager
    def _around(self, launches: Any) -> Iterator[tuple[int, int, bool]]:
        yield self._zeroed(launches.bound.arena.peak), 0, False


@contextmanager
def emulated(arch: str = ARCH) -> Iterator[list[tuple[str, Report]]]:
    """Parts on CPU tensors are compiled for a GPU, and run on the emulator: the reports of their launches."""
    driver = OnHost(arch)
    target = Target.parse(f"cuda:{arch}")
    with (
        patch.object(build, "target_of", lambda _: target),
        patch.object(lowering, "runs_on_cpu", lambda _: False),
        patch.object(conv, "torch_is_faster", lambda *_, **__: ""),
        patch.object(compiled_part, "OnGpu", lambda executable, _: OnEmulator(executable, driver)),
        patch.dict(os.environ, {"GRAPHFUSE_CACHE": "0"}),
    ):
        yield driver.reports


@contextmanager
def compiled_only(arch: str = ARCH) -> Iterator[None]:
    """Parts on CPU tensors without memory are compiled for a GPU, and not run."""
    target = Target.parse(f"cuda:{arch}")
    with (
        patch.object(build, "target_of", lambda _: target),
        patch.object(lowering, "runs_on_cpu", lambda _: False),
        patch.object(conv, "torch_is_faster", lambda *_, **__: ""),
        patch.object(compiled_part.CompiledPart, "forward", _results),
        patch.object(compiled_part.CompiledPart, "run", lambda part, args: _results(part, *args)),
        patch.object(torch.nn.Module, "_apply", _converted),
        patch.object(code, "is_for_ptxas", lambda _: True),
        patch.dict(os.environ, {"GRAPHFUSE_CACHE": "0"}),
        FakeTensorMode(allow_non_fake_inputs=True),
    ):
        yield


def _converted(self: torch.nn.Module, fn: Callable[[torch.Tensor], torch.Tensor]) -> torch.nn.Module:
    """The module with other parameters and buffers: those without memory cannot be changed."""
    made: dict[int, torch.Tensor] = {}
    for module in self.modules():
        for held in (module._parameters, module._buffers):
            for name, x in held.items():
                if x is not None and id(x) not in made:
                    new = fn(x.detach())
                    made[id(x)] = torch.nn.Parameter(new, x.requires_grad) if held is module._parameters else new
                held[name] = x if x is None else made[id(x)]
    return self


def _results(self: compiled_part.CompiledPart, *args: Any) -> list[torch.Tensor]:
    """What a part would give, without numbers."""
    named = dict(zip(self.symbols, args[self.inputs :], strict=True))
    laid = {i: (size, stride) for i, size, stride in self.spread}
    wanted = self.layouts[: len(self.layouts) - bool(self.watched)]
    dims = [laid.get(i, (x.size, x.stride)) for i, x in enumerate(wanted)]
    sizes = [[[evaluate(d, named) for d in of] for of in both] for both in dims]
    outs = [torch.empty_strided(*both, dtype=x.dtype) for both, x in zip(sizes, wanted, strict=True)]
    for i, number in self.shared:
        outs[i] = args[number]
    return outs


@dataclass(frozen=True)
class Touched:
    """What kernels do for each byte, and each element of 4 bytes, that has to be read or written once."""

    bytes: float
    instructions: float
    """Of lanes; a product's have 64 operations each that count as an element."""
    launches: Sequence[str]


def touched(reports: Sequence[tuple[str, Report]], nbytes: int, flops: int) -> Touched:
    """Of the launches of one call."""
    moved, instructions = (sum(getattr(r, n) for _, r in reports) for n in ("global_bytes", "total_instructions"))
    elements = max(1.0, nbytes / 4 + flops / 64)
    launches = [f"{name}: {r.warps} warps, {r.total_instructions} instructions" for name, r in reports]
    return Touched(moved / max(1, nbytes), 32 * instructions / elements, launches)
