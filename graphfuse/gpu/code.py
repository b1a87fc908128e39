"""Block functions to what an artifact holds for a GPU: PTX, a cubin where there is an assembler, how to launch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from graphfuse.artifact import Code, Launch
from graphfuse.gpu.assembler import Assembled, assemble
from graphfuse.gpu.lower import KernelInfo, Lowered, emit_ptx
from graphfuse.gpu.pipeline import fitted
from graphfuse.ir.core import Func
from graphfuse.ir.types import Ptr
from graphfuse.symbolic import Dim
from graphfuse.target import Target


@dataclass(frozen=True, slots=True)
class GpuCode:
    """The kernels of a module by name; `funcs` are the block functions with layouts."""

    code: Code
    launches: dict[str, Launch]
    scratch: dict[str, Dim]
    funcs: tuple[Func, ...]


def gpu_code(kernels: Iterable[Func], target: Target) -> GpuCode:
    """Compile block functions for a GPU."""
    funcs: list[Func] = []
    infos: list[KernelInfo] = []
    with ThreadPoolExecutor(1) as llvm:  # LLVM's calls leave Python to the main thread, which makes the next kernel
        texts: list[Future[str]] = []
        for kernel in kernels:
            made, lowered = fitted((kernel,), target)
            funcs += made
            infos += lowered.kernels
            texts.append(llvm.submit(ptx_of, lowered))
    ptx = joined([t.result() for t in texts])
    assembled = assemble(ptx, target.cpu) if infos else None
    code = Code(
        arch=target.cpu,
        os="cuda",
        features=(),
        object=assembled.cubin if assembled else b"",
        ptx=ptx,
        warnings=assembled.warnings if assembled else (),
    )
    launches = {k.name: _launch(k, f, ptx, assembled) for k, f in zip(infos, funcs, strict=True)}
    return GpuCode(code, launches, {k.name: k.scratch_bytes for k in infos}, tuple(funcs))


def ptx_of(lowered: Lowered) -> str:
    """The PTX, without the zeros that LLVM ends it with."""
    return emit_ptx(lowered).rstrip("\0\n") + "\n"


_HEAD = re.compile(r"[^.]*\.version .*\n\.target .*\n\.address_size .*\n")
_ENTRY = re.compile(r"^\.visible \.entry ", re.MULTILINE)


def joined(modules: Sequence[str]) -> str:
    """One module of several for the same architecture: declarations and constants that are alike stand there once."""
    if len(modules) < 2:
        return "".join(modules)
    head = ""
    shared: dict[str, None] = {}
    entries: list[str] = []
    for text in modules:
        found = _HEAD.match(text)
        assert found, "LLVM begins a module with version, target and address size"
        head = head or found[0]
        rest = text[found.end() :]
        first = _ENTRY.search(rest)
        assert first, "a module has a kernel"
        shared.update(dict.fromkeys(_statements(rest[: first.start()])))
        entries.append(rest[first.start() :])
    return "".join([head, *shared, "\n", *entries])


def _statements(text: str) -> list[str]:
    """What stands before a module's kernels: declarations, constants, functions."""
    out: list[str] = []
    begun: list[str] = []
    depth = 0
    for line in text.splitlines(keepends=True):
        code = line.partition("//")[0].strip()
        if not begun and not code:
            continue
        begun.append(line)
        depth += code.count("{") - code.count("}")
        if not depth and code.endswith((";", "}")):
            out.append("".join(begun))
            begun = []
    assert not begun, "a declaration ends"
    return out


def _launch(kernel: KernelInfo, func: Func, ptx: str, assembled: Assembled | None) -> Launch:
    found = assembled.resources.get(kernel.name) if assembled else None
    return Launch(
        threads=kernel.threads,
        shared_bytes=kernel.shared_bytes,
        cluster=kernel.cluster,
        split=kernel.split,
        persistent=kernel.persistent,
        flags=kernel.flags,
        overlaps="griddepcontrol.wait" in _body(ptx, kernel.name),
        symbols=tuple(v.hint for v in func.params if not isinstance(v.type, Ptr)),
        tensor_maps=kernel.tensor_maps,
        registers=found.registers if found else -1,
        spill_bytes=found.spill_bytes if found else -1,
        static_shared_bytes=found.shared_bytes if found else -1,
    )


def _body(ptx: str, name: str) -> str:
    """The text from one entry to the next."""
    found = re.search(rf"\.entry {re.escape(name)}\b(.*?)(?=\.entry |\Z)", ptx, re.S)
    return found[1] if found else ""
