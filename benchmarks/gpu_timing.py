"""How every benchmark on a GPU takes time, and the arguments they share.

Sustained timing: every contestant alone, warm, then timed between two CUDA events for a given time, in rounds whose
order rotates; the figure is the median of the rounds. The peer to beat is entered twice (`twice`): what its two entries
differ by is what cannot be told apart. torch is imported when something is timed, not before.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

Call = Callable[[], Any]
"""Queues a contestant's work on torch's current stream."""
AGAIN = " again"
SLEEP_PER_CALL = 150_000
"""Cycles: more than any contestant takes to queue one call."""
GRAPH_MS = 10.0
"""About what one replay of a recorded contestant takes."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds to warm up and to time for, in each of so many rounds."""

    warm: float
    seconds: float
    rounds: int

    def fields(self) -> dict[str, float]:
        """For a worker's job file: `Timing(**fields)`."""
        return asdict(self)


SUSTAINED = Timing(0.35, 0.5, 3)
"""Long enough for clocks and temperature to settle."""
QUICK = Timing(0.06, 0.12, 1)
"""For sweeps, not to be quoted."""


class Contestant(Protocol):
    """What can be timed."""

    def ms(self, warm: float, seconds: float) -> float:
        """Milliseconds of one call, after `warm` seconds of calls that do not count."""
        ...


class Recorded:
    """Launches recorded in a CUDA graph: nothing but the GPU's work counts."""

    def __init__(self, call: Call) -> None:
        import torch

        call()
        torch.cuda.synchronize()
        self.count = max(1, min(500, round(GRAPH_MS / max(elapsed(call, 3), 1e-3))))
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            call()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=side):
            for _ in range(self.count):
                call()
        self.replay_ms = elapsed(self.graph.replay, 2)

    def ms(self, warm: float, seconds: float) -> float:
        """See `Contestant`."""
        for _ in range(max(1, round(warm * 1e3 / self.replay_ms))):
            self.graph.replay()
        return elapsed(self.graph.replay, max(1, round(seconds * 1e3 / self.replay_ms))) / self.count


class Called:
    """Calls as Python makes them; with `asleep`, behind a kernel that sleeps until all are queued."""

    def __init__(self, call: Call, *, asleep: bool, most: int = 200) -> None:
        self.call, self.asleep, self.most = call, asleep, most
        elapsed(call, 3)
        self.one_ms = elapsed(call, 5, asleep=asleep)

    def ms(self, warm: float, seconds: float) -> float:
        """See `Contestant`."""
        elapsed(self.call, self._count(warm), asleep=self.asleep)
        return elapsed(self.call, self._count(seconds), asleep=self.asleep)

    def _count(self, seconds: float) -> int:
        return max(3, min(self.most, round(seconds * 1e3 / max(self.one_ms, 1e-3))))


def elapsed(call: Call, count: int, *, asleep: bool = False) -> float:
    """Milliseconds of one of `count` calls, between two events."""
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    if asleep:
        torch.cuda._sleep(SLEEP_PER_CALL * count)  # torch's own benchmarks use it
    start.record()
    for _ in range(count):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / count


def twice(peers: Mapping[str, Call]) -> dict[str, Call]:
    """Peers, the first of which is entered once more."""
    first = next(iter(peers), None)
    again = {} if first is None else {first + AGAIN: peers[first]}
    return {**peers, **again}


def race(
    contestants: Mapping[str, Contestant], timing: Timing, trying: Callable[[str], None] = lambda _: None
) -> dict[str, list[float]]:
    """Milliseconds of each in every round; `trying` hears whose turn it is."""
    names = list(contestants)
    found: dict[str, list[float]] = {name: [] for name in names}
    for i in range(timing.rounds):
        for name in rotated(names, i, timing.rounds):
            trying(name)
            found[name].append(contestants[name].ms(timing.warm, timing.seconds))
    return found


def rotated(names: Sequence[str], turn: int, turns: int) -> list[str]:
    """The order of a round: over all rounds the first place goes round evenly."""
    shift = turn * max(1, len(names) // turns) % len(names) if names else 0
    return [*names[shift:], *names[:shift]]


def medians(found: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """One figure for each contestant."""
    return {name: statistics.median(times) for name, times in found.items()}


def arguments(doc: str | None, *, budget: float, json: str | None = None, dry: bool = False) -> argparse.ArgumentParser:
    """A parser with what every benchmark on a GPU takes: `only`, `quick`, `budget`, `json` and, if asked, `dry`."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="extend", type=_words, default=[], help="names with one of these, by commas")
    parser.add_argument("--quick", action="store_true", help="short rounds: for sweeps, not to be quoted")
    parser.add_argument("--budget", "--seconds", type=float, default=budget, help="after these nothing more begins")
    parser.add_argument("--json", "--out", type=Path, default=Path(json) if json else None, help="results")
    if dry:
        parser.add_argument("--dry", action="store_true", help="no GPU: compile, and run small ones on the emulator")
    return parser


def _words(text: str) -> list[str]:
    return [w.strip() for w in text.split(",") if w.strip()]


def asked(name: str, words: Sequence[str]) -> bool:
    """Whether `--only` lets it through."""
    return not words or any(w in name for w in words)


def ptxas() -> str:
    """Where NVIDIA's assembler is, if it is there."""
    return shutil.which("ptxas") or shutil.which("/usr/local/cuda/bin/ptxas") or ""
