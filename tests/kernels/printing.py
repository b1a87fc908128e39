"""What a kernel prints, beside what the interpreter does, and an assertion that fails."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from graphfuse.interp.block import launch
from graphfuse.ir.parser import parse
from graphfuse.kernels.kernel import Kernel
from tests.gpu.test_debug import CHECK, SHOW

GRIDS = [(3,), (1, 2), (2, 3), (2, 1, 2)]


def check_lines(device: str, grid: tuple[int, ...], capfd: pytest.CaptureFixture[str]) -> None:
    """Lines come in any order, each with the ids of its program in the grid that was asked for."""
    func = parse(SHOW)
    func = replace(func, attrs={name: value for name, value in func.attrs.items() if name != "grid"})
    x = np.linspace(-2, 2, 15).astype(np.float16)
    want: list[str] = []
    launch(func, [x], {"v": -7}, grid=grid, out=want.append)
    capfd.readouterr()
    Kernel(func, device=device)[grid](x, -7)
    ctypes.CDLL(None).fflush(None)  # a GPU's driver prints by C's stdio
    assert sorted(capfd.readouterr().out.splitlines()) == sorted(want)


def checked(device: str) -> Kernel:
    """A kernel that asserts that 100 is at most its argument."""
    func = parse(CHECK.replace("ATTRSgrid = 1", "debug = true"))
    return Kernel(func, device=device)
