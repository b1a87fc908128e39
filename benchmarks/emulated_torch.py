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

from graphfuse.gpu.emulator.driver import EmulatedDriver
from graphfuse.gpu.emulator.report import Report
from graphfuse.runtime.gpu.direct import GpuDirect
from graphfuse.targets import Target
from graphfuse.torch import build, compiled_part

ARCH = "sm_90a"


class OnHost(EmulatedDriver):
    """Its memory is the host's, and an argument is as far from a multiple of 16 as its address is."""

    def _values(self, arguments: Any, maps: Any) -> Any:
        return super()._values([self._from_16(a) if a.base else a for a in arguments], maps)

    def _from_16(self, a: Any) -> Any:
        return replace(a, base=a.base - a.base % 16, nbytes=a.nbytes + a.base % 16)

    def _region(self, base: int, nbytes: int) -> Any:
        return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(base))


def on_emulator(executable: Any, driver: EmulatedDriver) -> Callable[[Any, Any], None]:
    """What runs an executable for a GPU on addresses of the host."""
    kept: list[torch.Tensor] = []

    def zeroed(nbytes: int) -> int:
        kept.append(torch.zeros(nbytes + 256, dtype=torch.uint8))
        return -(-kept[-1].data_ptr() // 256) * 256

    direct = GpuDirect(executable, driver, 0, zeroed)

    def run(values: Any, addresses: Any) -> None:
        launches = direct.bind(values)
        direct.run(launches, addresses, zeroed(launches.bound.arena.peak), 0)

    return run


@contextmanager
def emulated(arch: str = ARCH) -> Iterator[list[tuple[str, Report]]]:
    """Parts on CPU tensors are compiled for a GPU, and run on the emulator: the reports of their launches."""
    driver = OnHost(arch)
    target = Target.parse(f"cuda:{arch}")
    with (
        patch.object(build, "target_of", lambda _: target),
        patch.object(compiled_part, "on_gpu", lambda executable, _: on_emulator(executable, driver)),
        patch.dict(os.environ, {"GRAPHFUSE_CACHE": "0"}),
    ):
        yield driver.reports


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
