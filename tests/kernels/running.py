"""Kernels of `models/kernels` with arguments, and what they should leave in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphfuse
from graphfuse.findings import Finding
from graphfuse.kernels.checking import check
from graphfuse.kernels.kernel import Kernel
from graphfuse.kernels.on_gpu import resources
from tests.kernels.places import HOST, Place, placed

FOLDER = Path(__file__).parents[2] / "models" / "kernels"
CTYPES = {"float": np.float32, "half": np.float16, "double": np.float64, "int": np.int32}
OLDER = "cuda:sm_80"
"""The emulator is a sm_90a: what it runs has been assembled for that."""


@dataclass(frozen=True)
class Check:
    """An array after the launch, what it should hold, and how far from that it may be."""

    got: np.ndarray
    want: Any
    error: float = 0.0
    was_set: bool = False
    """Before the launch: the kernel may read it."""


@dataclass(frozen=True)
class Job:
    """A launch: a file, its macros and `num_warps`, `num_stages`, a grid, arguments, what comes of it."""

    file: str
    macros: dict[str, Any]
    grid: tuple[int, ...]
    args: tuple[Any, ...]
    checks: Sequence[Check]
    name: str | None = None

    def kernel(self, device: str = "") -> Kernel:
        """The kernel, for a device."""
        made = graphfuse.kernel(FOLDER / self.file, self.name, device=device, **self.macros)
        assert isinstance(made, Kernel)
        return made

    def run(self, device: str = "", place: Place = HOST) -> Kernel:
        """Launch, and compare."""
        kernel = self.kernel(device)
        args, now = placed(self.args, place)
        kernel[self.grid](*args)
        for i, c in enumerate(self.checks):
            got, want = now(c.got).astype(np.float64), np.asarray(c.want, np.float64)
            np.testing.assert_allclose(got, want, rtol=0, atol=c.error, err_msg=f"{self.file}, array {i}")
        known = [n for n in (resources(m)["spill_bytes"] for m in kernel.compiled if m.launch) if n >= 0]
        assert not any(known), "what an assembler says it spills"
        return kernel

    def findings(self) -> list[Finding]:
        """What the interpreter says of accesses, reads of what nobody wrote, and promises."""
        kernel = self.kernel()
        values = dict(zip((p.name for p in kernel.parameters), self.args, strict=True))
        unset = [c.got for c in self.checks if not c.was_set]
        empty = frozenset(name for name, a in values.items() if any(a is x for x in unset))
        return check(kernel, self.grid, values, empty, emulate=False)

    def assemble(self) -> None:
        """Machine code for an older GPU, for arguments of which only what the source promises is known."""
        made = self.kernel().compile(OLDER, len(self.grid))
        code = made.code[made.target]
        assert code.warnings == ()
        if not code.object:
            pytest.skip("no assembler")
        assert resources(made.kernels[0])["spill_bytes"] == 0


def cdiv(a: int, b: int) -> int:
    """How many b make at least a."""
    return -(-a // b)


def normal(seed: int, *shape: int, ctype: str = "float") -> np.ndarray:
    """Random numbers, the same for the same seed."""
    return np.random.default_rng(seed).standard_normal(shape).astype(CTYPES[ctype])


def eps(ctype: str = "float") -> float:
    """The spacing of an element type at 1."""
    return float(np.finfo(CTYPES[ctype]).eps)


def softmax_of(x: np.ndarray) -> np.ndarray:
    """Along the last axis, in float64."""
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)
