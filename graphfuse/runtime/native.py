"""Native code of an artifact in this process: picks the object for this CPU, links it, calls the executor.

It reaches llvmlite through `graphfuse.llvm`, as only `cuda/batch.py` does beside it, and it generates no
code: the object holds the kernels and the executor (`gf_*`, see `llvm/executor_ir.py`).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from graphfuse.artifact import Array, Code, Executable
from graphfuse.errors import ArtifactError
from graphfuse.llvm.host import host_target
from graphfuse.llvm.loader import load_object
from graphfuse.targets import Target

_P, _I = ctypes.c_void_p, ctypes.c_int64
EXECUTOR: Final[dict[str, tuple[Any, ...]]] = {
    "gf_pool_create": (_P, _I),
    "gf_pool_destroy": (None, _P),
    "gf_pool_scratch": (None, _P, _P, _I),
    "gf_run": (_I, _P, _P, _I),
    "gf_run_profiled": (_I, _P, _P, _I, _P),
}
"""The executor's functions: result type, then argument types. Calling one releases the GIL."""

# object file format by platform: first bytes, and for ELF the machine at byte 18
_MAGIC = {"linux": b"\x7fELF", "darwin": b"\xcf\xfa\xed\xfe", "win32": b""}
_ELF_MACHINE = {"x86_64": 62, "aarch64": 183, "riscv64": 243}


class NativeCode:
    """The linked object of an executable: the executor's functions and the kernels' addresses."""

    def __init__(self, executable: Executable) -> None:
        self.target = choose_target(executable, host_target())
        kernels = [k.name for k in executable.kernels]
        self._library = load_object(executable.code[self.target].object, [*EXECUTOR, *kernels])
        self.kernels = {name: self._library.address(name) for name in kernels}

        def function(name: str) -> Callable[..., Any]:
            result, *arguments = EXECUTOR[name]
            return ctypes.CFUNCTYPE(result, *arguments)(self._library.address(name))

        self.pool_create = function("gf_pool_create")
        self.pool_destroy = function("gf_pool_destroy")
        self.pool_scratch = function("gf_pool_scratch")
        self.run = function("gf_run")
        self.run_profiled = function("gf_run_profiled")


def choose_cpu(executable: Executable) -> Executable:
    """The best of its variants that this CPU runs: the one with code that uses most of what the CPU has."""
    host = host_target()
    variants = [v for v in executable.variants if not v.is_gpu]
    if not variants:
        have = ", ".join(v.target for v in executable.variants)
        raise ArtifactError(
            f"there is code for {have} only: run it with device 'cuda' or 'emulator', or rebuild it for the cpu "
            "with 'graphfuse compile --recompile --target cpu'"
        )
    fitting = [v for v in variants if all(_fitting(e, host) for e in _pieces(v))]
    return max(fitting, key=lambda v: _most_used(v, host)) if fitting else variants[0]


def _pieces(executable: Executable) -> tuple[Executable, ...]:
    return (executable,) if executable.host is None else executable.parts


def _fitting(executable: Executable, host: Target) -> list[Code]:
    return [c for c in executable.code.values() if why_not_here(c, host) is None]


def _most_used(executable: Executable, host: Target) -> int:
    """How many features of this CPU the code uses: of what runs, more are better."""
    return max((len(c.features) for e in _pieces(executable) for c in _fitting(e, host)), default=0)


def choose_target(executable: Executable, host: Target) -> str:
    """The text of the target whose code runs on `host` and uses most of it; the executable's own before its equals."""
    names = [executable.target, *(t for t in executable.code if t != executable.target)]
    reasons = {name: why_not_here(executable.code[name], host) for name in names}
    fitting = [name for name in names if reasons[name] is None]
    if fitting:
        return max(fitting, key=lambda name: len(executable.code[name].features))
    why = "; ".join(f"code for {name}: {reason}" for name, reason in reasons.items())
    raise ArtifactError(f"{why}; rebuild it here with 'graphfuse compile --recompile'")


def why_not_here(code: Code, host: Target) -> str | None:
    """Why this code cannot run in this process; None if it can."""
    if (code.arch, code.os) != (host.arch, sys.platform):
        return f"expected a {host.arch} {sys.platform} object, found {code.arch} {code.os}"
    if missing := sorted(set(code.features) - host.feature_set):
        return f"it needs {', '.join(missing)}, which this cpu ({host.cpu}) lacks"
    # the linker trusts its input, so a section that holds something else must not reach it
    magic = _MAGIC.get(code.os, b"")
    if code.object[: len(magic)] != magic or len(code.object) < 64:
        return f"expected an object file, found {code.object[:4]!r}"
    if code.os == "linux" and code.arch in _ELF_MACHINE:
        machine = int.from_bytes(code.object[18:20], "little")
        if machine != _ELF_MACHINE[code.arch]:
            return f"expected machine {_ELF_MACHINE[code.arch]} in the object, found {machine}"
    return None


ALIGN = 64
"""Tensors and weights begin at multiples of this: a line, and a vector of AVX-512."""
_DATA: Final = object.__basicsize__
"""Where an array has the address of its data: behind the head of all objects, as numpy promises to C."""


def address_of(array: np.ndarray[Any, Any]) -> int:
    """Where an array's data starts: what a call asks of all its arrays, and numpy takes eight times as long to tell."""
    return ctypes.c_size_t.from_address(id(array) + _DATA).value


def aligned_bytes(nbytes: int) -> Array:
    """New memory of any contents that begins at a multiple of `ALIGN`."""
    raw = np.empty(nbytes + ALIGN, np.uint8)
    start = -address_of(raw) % ALIGN
    return raw[start : start + nbytes]
