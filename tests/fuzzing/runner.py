"""Runs cases made of seeds, each in a forked child of a parent that has imported all, and pools what came of them.

A kind is a module of `tests/fuzzing/kinds/`, named as itself:

    def case(seed: int, folder: Path):    # makes a hostile thing of the seed, and lets graphfuse have it

Importing the module imports what cases need and builds what they mutate: children begin with that. `folder` is empty,
and gone afterwards. A case that returns has run (what it returns is the word it is counted under: "ran" for None); one
that raises a GraphfuseError was refused. Anything else is a finding: another exception (an AssertionError, too: `case`
may assert), a signal, the end of the process, more than `CPU_SECONDS`, more memory than `ROOM_BYTES`, endless sleep.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from graphfuse.errors import GraphfuseError

CPU_SECONDS = 10
WALL_SECONDS = 120
"""A case that takes as long sleeps; processors may be busy with other work."""
ROOM_BYTES = 4 << 30
"""Address space of a child beyond its parent's."""
FOUND = "!"
"""What the outcome of a finding begins with."""


@dataclass
class Pool:
    """What came of some seeds of a kind: how often each outcome, and seed, outcome and last words of each finding."""

    kind: str
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[tuple[int, str, str]] = field(default_factory=list)
    most_seconds: float = 0

    @property
    def cases(self) -> int:
        return self.counts.total()

    def __str__(self):
        outcomes = ", ".join(f"{n} {outcome}" for outcome, n in self.counts.most_common())
        found = f"{self.cases} cases, {len(self.findings)} findings"
        return f"{self.kind}: {found}, most {self.most_seconds:.1f} s of CPU: {outcomes}"


def kinds() -> list[str]:
    """The names of all kinds."""
    folder = Path(__file__).parent / "kinds"
    return sorted(m.name for m in pkgutil.iter_modules([str(folder)]))


def kind_module(kind: str):
    """The module of a kind, with all that its cases need."""
    return importlib.import_module(f"tests.fuzzing.kinds.{kind}")


def run(kind: str, seeds: range, say=None) -> Pool:
    """Run the cases of `seeds`; `say` is given each finding as a line."""
    case = kind_module(kind).case
    pool = Pool(kind)
    for seed in seeds:
        outcome, words, seconds = run_case(case, seed)
        pool.counts[outcome] += 1
        pool.most_seconds = max(pool.most_seconds, seconds)
        if outcome.startswith(FOUND):
            pool.findings.append((seed, outcome, words))
            if say:
                say(f"{kind} {seed} {outcome}: {words.strip()[-600:]}")
    return pool


def run_case(case, seed: int, cpu_seconds: int = CPU_SECONDS) -> tuple[str, str, float]:
    """One case in a child of its own: its outcome, what it said, and its seconds of CPU."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        with tempfile.TemporaryFile() as said:
            sys.stdout.flush()
            reader, writer = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(reader)
                _child(case, seed, folder, writer, said.fileno(), cpu_seconds)
            os.close(writer)
            outcome, status, usage = _wait(pid, reader)
            said.seek(max(0, said.seek(0, os.SEEK_END) - 4000))
            words = said.read().decode("utf8", "replace")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    seconds = usage.ru_utime + usage.ru_stime
    if outcome == "hangs":
        outcome = f"{FOUND}sleeps for {WALL_SECONDS} s"
    elif os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        slow = number == signal.SIGXCPU or (number == signal.SIGKILL and seconds >= cpu_seconds)
        outcome = f"{FOUND}over {cpu_seconds} s of CPU" if slow else f"{FOUND}died: {signal.Signals(number).name}"
    elif os.WEXITSTATUS(status) or not outcome:
        outcome = f"{FOUND}left with status {os.WEXITSTATUS(status)}"
    return outcome, words, seconds


def _child(case, seed: int, folder: Path, writer: int, said: int, cpu_seconds: int) -> None:
    status = 1
    try:
        os.dup2(said, 1)
        os.dup2(said, 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        room = pages * resource.getpagesize() + ROOM_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
        try:
            outcome = str(case(seed, folder) or "ran")
        except GraphfuseError as e:
            outcome = f"refused: {type(e).__name__}"
            if "\n" in str(e):
                outcome = f"{FOUND}an error of several lines"
            os.write(2, str(e).encode("utf8", "replace"))
        except BaseException as e:  # noqa: BLE001 - whatever it is, it is what is looked for
            outcome = f"{FOUND}escaped: {type(e).__name__}"
            os.write(2, "".join(traceback.format_exception(e)).encode("utf8", "replace"))
        os.write(writer, outcome.encode("utf8", "replace")[:1000])
        status = 0
    finally:
        os._exit(status)


def _wait(pid: int, reader: int) -> tuple[str, int, resource.struct_rusage]:
    """The outcome (`hangs` where there was none in time), the status, and what it took."""
    end, said = time.monotonic() + WALL_SECONDS, b""
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            os.kill(pid, signal.SIGKILL)
            said = b"hangs"
            break
        if not (more := os.read(reader, 4096)):
            break
        said += more
    os.close(reader)
    _, status, usage = os.wait4(pid, 0)
    return said.decode("utf8", "replace"), status, usage
