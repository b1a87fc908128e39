"""Block functions to what an artifact holds for a GPU: PTX, cubins where there is an assembler, how to launch.

All of it happens at once: Python lowers a kernel while LLVM compiles the one before, processes beside this one take
kernels too (`workers.py`), and assemblers run as soon as there is enough for one, as many as there are cores.
"""

from __future__ import annotations

import operator
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields, replace

from graphfuse.artifact import Code, Launch
from graphfuse.dialects.gpu import WITHOUT_WGMMA
from graphfuse.gpu.assembler import Assembled, Resources, assemble, is_for_ptxas
from graphfuse.gpu.compiled_kernel import CompiledKernel, LoweredKernel
from graphfuse.gpu.workers import workers
from graphfuse.ir.core import Func
from graphfuse.knobs import settings
from graphfuse.llvm.host import available_cores
from graphfuse.targets import Target
from graphfuse.targets.generated import Generated

GROUP_CHARACTERS = 64 << 10
"""PTX for one assembler, at least: `ptxas` takes 0.1 s for it, and 0.01 s to start. Itself, it uses one core."""


Instead = Callable[[str, str], Func | None]
"""Another block function for a kernel, by its name and why it does not use `wgmma`; None where it stays."""
Others = Callable[[str], Iterable[Func]]
"""Other block functions for a kernel that spills registers, the best first."""
Take = Callable[[str, Func], object]
"""Is told that a kernel, by its name, is another function now."""


@dataclass(frozen=True, slots=True)
class Made:
    """A kernel, how it is launched, and the cubin that it is in: empty where none could be made."""

    kernel: CompiledKernel
    launch: Launch
    image: bytes
    warnings: tuple[str, ...]
    """The assembler's, of all that is in the cubin."""


def gpu_code(kernels: Iterable[Func], target: Target) -> Generated:
    """Compile block functions for a GPU."""
    return generated(gpu_kernels(kernels, target), target)


def generated(made: Sequence[Made], target: Target) -> Generated:
    """The code of kernels, each cubin once."""
    images = list(dict.fromkeys(m.image for m in made))
    if not all(images):
        images = []
    code = Code(
        arch=target.cpu,
        os="cuda",
        features=(),
        object=b"".join(images),
        ptx=joined([m.kernel.ptx for m in made]),
        warnings=tuple(dict.fromkeys(w for m in made for w in m.warnings)),
        cubins=tuple(map(len, images)) if len(images) > 1 else (),
    )
    infos = [m.kernel.info for m in made]
    return Generated(
        code,
        {info.name: info.scratch_bytes for info in infos},
        {info.name: m.launch for info, m in zip(infos, made, strict=True)},
        {info.name: m.kernel.text for info, m in zip(infos, made, strict=True)},
    )


def gpu_kernels(
    kernels: Iterable[Func],
    target: Target,
    instead: Instead = lambda _name, _why: None,
    others: Others = lambda _name: (),
    take: Take = lambda _name, _func: None,
) -> list[Made]:
    """Compile block functions for a GPU; where a tile was chosen for `wgmma` in vain, what there is `instead`.

    Of `others`, those that spill less than what was chosen are taken.
    """
    funcs = list(kernels)
    with ThreadPoolExecutor(settings.threads or available_cores()) as assemblers, ThreadPoolExecutor(1) as llvm:
        groups = _Groups(len(funcs), target.cpu, assemblers)
        begun: list[Future[None]] = []

        def done(i: int, kernel: CompiledKernel) -> None:
            why = kernel.without_wgmma
            other = None if why is None else instead(kernel.info.name, why)
            groups.add(i, LoweredKernel.of(other, target).compiled() if other else kernel)

        def here(i: int) -> None:
            lowered = LoweredKernel.of(funcs[i], target)
            # LLVM's calls leave Python to this thread, which makes the next kernel
            begun.append(llvm.submit(lambda: done(i, lowered.compiled())))

        workers.compile(funcs, target, done, here)
        for work in begun:
            work.result()
        groups.improve(others, take, target)
        return groups.finished()


class _Groups:
    """Kernels that are compiled in any order and assembled in groups of neighbours, the same ones each time.

    Groups wait until it is known that some kernel is for `ptxas`, or that none is.
    """

    def __init__(self, count: int, arch: str, assemblers: ThreadPoolExecutor) -> None:
        self._made: list[CompiledKernel | None] = [None] * count
        self._arch, self._assemblers = arch, assemblers
        self._group: list[int] = []
        self._waiting: list[list[int]] = []
        self._by_ptxas = False
        self._next = 0
        self._assembled: list[tuple[list[int], Future[Assembled | None]]] = []
        self._lock = threading.Lock()

    def add(self, i: int, kernel: CompiledKernel) -> None:
        """Kernel `i` is compiled."""
        with self._lock:
            self._made[i] = kernel
            while self._next < len(self._made) and (made := self._made[self._next]) is not None:
                self._group.append(self._next)
                self._next += 1
                self._by_ptxas = self._by_ptxas or is_for_ptxas(made.ptx)
                is_last = self._next == len(self._made)
                if is_last or sum(len(k.ptx) for k in self._kernels(self._group)) >= GROUP_CHARACTERS:
                    self._waiting.append(self._group)
                    self._group = []
                if is_last or self._by_ptxas:
                    self._assemble()

    def _assemble(self) -> None:
        for group in self._waiting:
            text = joined([k.ptx for k in self._kernels(group)])
            work = self._assemblers.submit(assemble, text, self._arch, by_ptxas=self._by_ptxas)
            self._assembled.append((group, work))
        self._waiting = []

    def _kernels(self, group: Iterable[int]) -> list[CompiledKernel]:
        return [k for i in group if (k := self._made[i]) is not None]

    def improve(self, others: Others, take: Take, target: Target) -> None:
        """Take others in the place of kernels that spill: the first that does not, or what spills least."""
        begun, self._assembled = self._assembled, []
        for group, work in begun:
            found, changed = work.result(), False
            for i, kernel in zip(group, self._kernels(group), strict=True):
                least = _spilled(found, kernel.info.name, 0)
                for func in others(kernel.info.name) if least > 0 else ():
                    other = LoweredKernel.of(func, target).compiled()
                    alone = assemble(other.ptx, self._arch, by_ptxas=self._by_ptxas)
                    spilled = _spilled(alone, kernel.info.name, least)
                    in_vain = other.without_wgmma is not None and WITHOUT_WGMMA not in func.attrs
                    if spilled < least and not in_vain:
                        least, self._made[i], changed = spilled, other, True
                        take(kernel.info.name, func)
                    if not least:
                        break
            if changed:
                self._waiting.append(group)
            else:
                self._assembled.append((group, work))
        self._assemble()
        self._assembled.sort(key=operator.itemgetter(0))

    def finished(self) -> list[Made]:
        """All kernels; in no cubins if one could not be assembled here."""
        found = [(group, work.result()) for group, work in self._assembled]
        complete = all(assembled is not None for _, assembled in found)
        made: list[Made] = []
        for group, assembled in found:
            for kernel in self._kernels(group):
                if assembled is None or not complete:
                    made.append(Made(kernel, _launch(kernel, None), b"", ()))
                else:
                    launch = _launch(kernel, assembled.resources.get(kernel.info.name))
                    made.append(Made(kernel, launch, assembled.cubin, assembled.warnings))
        assert len(made) == len(self._made), "every kernel was compiled"
        return made


def _spilled(found: Assembled | None, name: str, unknown: int) -> int:
    """The bytes that a kernel spills, by an assembler that may not be there, or say nothing of it."""
    resources = found.resources.get(name) if found is not None else None
    return unknown if resources is None or resources.spill_bytes < 0 else resources.spill_bytes


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


def _launch(kernel: CompiledKernel, found: Resources | None) -> Launch:
    launch = Launch(**{f.name: getattr(kernel.info, f.name) for f in fields(Launch)})
    launch = replace(launch, overlaps="griddepcontrol.wait" in kernel.ptx)
    if found is None:
        return launch
    took = {"registers": found.registers, "spill_bytes": found.spill_bytes, "static_shared_bytes": found.shared_bytes}
    return replace(launch, **took)
