"""PTX to a cubin with nvJitLink, where it is installed; needs no GPU. Says what each kernel takes of the machine.

The library is NVIDIA's (`pip install 'graphfuse[cuda]'`). Without it the driver assembles PTX when it is loaded. It
ignores `setmaxnreg`, without which kernels of warps with roles have too few registers: such modules are for `ptxas`,
which comes with the CUDA toolkit and with a package of its own, or else for the driver.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphfuse.errors import TargetError

OPTIONS = ("-O3", "-verbose")


@dataclass(frozen=True, slots=True)
class Resources:
    """What one kernel takes: registers of a thread, bytes it spills (stores and loads), static shared bytes.

    -1 is what the assembler did not say.
    """

    registers: int
    spill_bytes: int
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class Assembled:
    """Machine code of a module, its kernels' resources, and the assembler's warnings."""

    cubin: bytes
    resources: dict[str, Resources]
    warnings: tuple[str, ...]


def is_for_ptxas(ptx: str) -> bool:
    """Whether nvJitLink would make something else of it than what was meant."""
    return "setmaxnreg" in ptx


def assemble(ptx: str, arch: str, *, by_ptxas: bool = False) -> Assembled | None:
    """Assemble for an architecture such as `sm_90a`; None where there is no assembler that knows it.

    `by_ptxas`: beside it is code that is for `ptxas`, and one assembler makes all of it.

    Raises TargetError when the assembler refuses the text: it was not asked to if its own version is too old.
    """
    if by_ptxas or is_for_ptxas(ptx):
        return _assemble_by_ptxas(ptx, arch)
    library = _library()
    if library is None or not _knows(library, arch):
        return None
    options = [f"-arch={arch}", *OPTIONS]
    handle = library.create(len(options), options)
    try:
        data = ptx.encode()
        try:
            library.add_data(handle, library.InputType.PTX, data, len(data), "kernels.ptx")
            library.complete(handle)
        except library.nvJitLinkError as e:
            message = _log(library, handle, "error") or str(e)
            if "Unsupported .version" in message:
                return None
            raise TargetError(f"the assembler refuses the PTX for {arch}: {_line(message)}") from None
        cubin = bytearray(library.get_linked_cubin_size(handle))
        library.get_linked_cubin(handle, cubin)
        info, errors = _log(library, handle, "info"), _log(library, handle, "error")
    finally:
        library.destroy(handle)
    return Assembled(bytes(cubin), read_resources(info), read_warnings(f"{info}\n{errors}"))


def _assemble_by_ptxas(ptx: str, arch: str) -> Assembled | None:
    program = _ptxas()
    if not program:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "kernels.ptx", Path(folder) / "kernels.cubin"
        source.write_text(ptx, encoding="utf-8")
        command = [program, f"-arch={arch}", "-v", str(source), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        log = done.stdout + done.stderr
        if done.returncode == 0:
            return Assembled(target.read_bytes(), read_resources(log), read_warnings(log))
    if "Unsupported .version" in log or "is not defined for option 'gpu-name'" in log:
        return None
    raise TargetError(f"the assembler refuses the PTX for {arch}: {_line(log)}")


@functools.cache
def _ptxas() -> str:
    """NVIDIA's assembler: on the path, in the toolkit's usual place, or in its Python package; empty if nowhere."""
    try:
        spec = importlib.util.find_spec("nvidia")
    except ValueError:
        spec = None
    folders = [Path(p) for p in (spec.submodule_search_locations or ())] if spec else []
    packaged = [str(p) for f in folders for p in sorted(f.glob("*/bin/ptxas"), reverse=True)]
    places = ("ptxas", "/usr/local/cuda/bin/ptxas", *packaged)
    return next((found for p in places if (found := shutil.which(p))), "")


def assembler_version() -> str:
    """Of nvJitLink; empty where there is none."""
    library = _library()
    return "" if library is None else ".".join(map(str, library.version()))


_lost = threading.Event()
"""Whether this is the child of a process that had loaded nvJitLink, which does not survive a fork."""


@functools.cache
def _library() -> Any:
    """`cuda.bindings.nvjitlink` with a library behind it, or None."""
    if _lost.is_set():
        return None
    try:
        library = importlib.import_module("cuda.bindings.nvjitlink")
        library.version()
    except Exception:  # noqa: BLE001  # each release has its own error for a library that is not there
        return None
    return library


def _after_fork() -> None:
    if _library.cache_info().currsize and _library() is not None:
        _lost.set()
        _library.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@functools.cache
def _knows(library: Any, arch: str) -> bool:
    """Whether this release has the architecture; it says so only by failing."""
    options = [f"-arch={arch}"]
    try:
        library.destroy(library.create(len(options), options))
    except library.nvJitLinkError:
        return False
    return True


def _log(library: Any, handle: Any, kind: str) -> str:
    size = getattr(library, f"get_{kind}_log_size")(handle)
    if size <= 1:
        return ""
    log = bytearray(size)
    getattr(library, f"get_{kind}_log")(handle, log)
    return log.decode(errors="replace").rstrip("\0 \n")


def read_resources(log: str) -> dict[str, Resources]:
    """By kernel, from what `-verbose` prints."""
    out: dict[str, Resources] = {}
    for name, part in re.findall(r"Compiling entry function '(\w+)'(.*?)(?=Compiling entry function|\Z)", log, re.S):
        spills = [int(n) for n in re.findall(r"(\d+) bytes spill", part)]
        registers = re.search(r"Used (\d+) registers", part)
        shared = re.search(r"Used [^\n]*?(\d+) bytes smem", part)
        taken, spilled = int(registers[1]) if registers else -1, sum(spills) if spills else -1
        out[name] = Resources(taken, spilled, int(shared[1]) if shared else 0)
    return out


def read_warnings(log: str) -> tuple[str, ...]:
    """Lines with a warning, and notes on wgmma (serialised) and setmaxnreg (ignored), without their prefix."""
    lines = [s for s in log.splitlines() if re.search("warning|serializ", s, re.I) or "setmaxnreg" in s]
    return tuple(dict.fromkeys(re.sub(r"^.*?(warning|info)\s*:\s*", "", s, count=1, flags=re.I).strip() for s in lines))


def _line(message: str) -> str:
    found = next((s for s in message.splitlines() if "error" in s or "fatal" in s), message)
    return " ".join(found.split())[:300]
