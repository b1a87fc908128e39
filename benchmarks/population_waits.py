"""What a compiled step waits for: its kernels and the operators left to torch, each with its own time, and why."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import patch

LONGEST = 8


@dataclass
class Told:
    """Graphs that were compiled, as the backend tells of them."""

    graphs: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])

    def backend(self, mode: str | None = None) -> Callable[..., Any]:
        """What `torch.compile` is given."""
        from graphfuse.torch.aot import compile_dynamo_graph
        from graphfuse.torch.options import options_of

        return partial(compile_dynamo_graph, options=options_of(mode, None), record=lambda *g: self.graphs.append(g))

    @property
    def parts(self) -> list[Any]:
        """All parts, in order."""
        return [part for _, graph in self.graphs for part in graph.parts]

    def facts(self) -> dict[str, Any]:
        """Launches, externs with their reasons, and why kernels were not made one."""
        externs = Counter(f"{n.target}: {why}" for _, g in self.graphs for n, why in g.cut.reasons.items())
        cuts = Counter(str(d["reason"]) for p in self.parts for d in p.executable.ledger if not d["fused"])
        launches = sum(1 for p in self.parts for _ in p.executable.plan.walk())
        return {
            "launches": launches,
            "externs": dict(externs.most_common(LONGEST)),
            "cuts": dict(cuts.most_common(LONGEST)),
        }

    def waits(self, step: Callable[[], Any], device: str, calls: int = 5) -> list[str]:
        """The longest of a step, in microseconds of one call."""
        import torch
        from torch.profiler import ProfilerActivity, profile

        from graphfuse.runtime.workspace import Workspace

        spent: Counter[str] = Counter()
        times: Counter[str] = Counter()
        names = self._names() if device == "cpu" else {}

        def profiled(workspace: Workspace, records: int, count: int, scratch_bytes: int) -> None:
            ns = workspace.profile(records, count, scratch_bytes)
            functions = (ctypes.c_int64 * (4 * count)).from_address(records)[::4]
            for function, taken in zip(functions, ns, strict=True):
                spent[names.get(function, "?")] += taken / 1e3
                times[names.get(function, "?")] += 1

        kinds = [ProfilerActivity.CPU if device == "cpu" else ProfilerActivity.CUDA]
        with patch.object(Workspace, "run", profiled), profile(activities=kinds) as found:
            for _ in range(calls):
                step()
            if device != "cpu":
                torch.cuda.synchronize()
        for event in found.key_averages():
            if device == "cpu" and "::" not in event.key:
                continue  # not an operator
            us = event.self_cpu_time_total if device == "cpu" else event.self_device_time_total
            spent[event.key] += us
            times[event.key] += event.count
        return [
            f"{us / calls:.1f} us x{times[key] / calls:.3g} {key[:100]}" for key, us in spent.most_common(LONGEST) if us
        ]

    def _names(self) -> Mapping[int, str]:
        """Each kernel's, by its address."""
        out: dict[int, str] = {}
        for part in self.parts:
            labels = {k.name: k.label.rpartition("/")[2] for k in part.executable.kernels}  # no path of this machine
            native = getattr(part._home, "_native", None)  # on a GPU the profiler knows names
            out |= {at: f"{name} ({labels[name]})" for name, at in native.kernels.items()} if native else {}
        return out
