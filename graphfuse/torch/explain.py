"""`graphfuse.explain(model, *inputs)`: what `torch.compile(model, backend="graphfuse")` makes of a call, and why.

The model runs twice on the inputs: once as Dynamo cuts it into graphs, once compiled.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import torch
from torch import fx
from torch._functorch import config as functorch_config

from graphfuse.frontends.fx.importer import loc_of
from graphfuse.frontends.fx.sizes import dim_of
from graphfuse.symbolic import evaluate, parse_dim, symbols
from graphfuse.torch.aot import compile_dynamo_graph
from graphfuse.torch.compile import CompiledGraph
from graphfuse.torch.compiled_part import CompiledPart
from graphfuse.torch.cut import Kind, Region
from graphfuse.torch.options import options_of
from graphfuse.torch.rewrite import sizes_of, symbol_of
from graphfuse.usage import wrong


@dataclass(frozen=True)
class Kernel:
    """One launch: `kind` is what its schedule is made for, `label` the lines it comes from."""

    name: str
    kind: str
    label: str


@dataclass(frozen=True)
class PartReport:
    """Operators that became kernels together."""

    device: str
    operators: int
    kernels: tuple[Kernel, ...]
    bytes_saved: int
    """What kernels would write and read besides, were each operator one; at the sizes of this call."""


@dataclass(frozen=True)
class Extern:
    """An operator that torch runs: why, how often, and from which lines."""

    operator: str
    reason: str
    count: int
    where: tuple[str, ...]


@dataclass(frozen=True)
class GraphReport:
    """One graph: `forward` or `backward` of a training step, or `inference`; `body` is called by an operator."""

    kind: str
    nodes: int
    operators: int
    """How many are inside of kernels."""
    parts: tuple[PartReport, ...]
    externs: tuple[Extern, ...]
    seconds: float
    bodies: tuple[GraphReport, ...] = ()

    @property
    def kernels(self) -> int:
        """How many launches a call is."""
        return sum(len(p.kernels) for p in self.parts)

    @property
    def bytes_saved(self) -> int:
        """Memory traffic that fusion saves a call."""
        return sum(p.bytes_saved for p in self.parts)


@dataclass(frozen=True)
class GraphBreak:
    """Where Dynamo ended a graph: Python runs what is between it and the next."""

    reason: str
    where: str


@dataclass
class Explanation:
    """All graphs of a call, and what lies between them. `str` of it is for reading, `data` for programs."""

    graphs: list[GraphReport] = field(default_factory=list[GraphReport])
    breaks: list[GraphBreak] = field(default_factory=list[GraphBreak])

    def data(self) -> dict[str, Any]:
        """Dicts, lists, texts and numbers."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def explain(
    model: Callable[..., Any],
    *inputs: Any,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    dynamic: bool | None = None,
    **keywords: Any,
) -> Explanation:
    """What becomes of `model(*inputs, **keywords)`.

    Args:
        model: A module or function. It is called twice, so buffers that a call changes are changed twice.
        inputs: What it is called with.
        mode: As for `torch.compile`.
        options: As for `torch.compile`.
        dynamic: As for `torch.compile`.
        keywords: Further arguments of the call.

    Returns:
        Graphs with their kernels, and what torch runs and why; `print` shows it, `data()` is for programs.

    Raises:
        UsageError: `model` cannot be called, or there is no such mode or option.
    """
    if not callable(model):
        raise wrong("model", "a module or a function", model)
    chosen = options_of(mode, options)
    found = Explanation()
    torch._dynamo.reset()
    broken = torch._dynamo.explain(model)(*inputs, **keywords)
    found.breaks = [GraphBreak(_first_line(b.reason), _frame(b.user_stack)) for b in broken.break_reasons]
    torch._dynamo.reset()
    record = partial(_record, found.graphs)
    backend = partial(compile_dynamo_graph, options=chosen, record=record)
    compiled = torch.compile(model, backend=backend, dynamic=dynamic)
    # graphs from torch's cache have nothing to tell
    with functorch_config.patch(enable_autograd_cache=False):
        compiled(*inputs, **keywords)
    torch._dynamo.reset()
    return found


_KINDS = {"fw": "forward", "bw": "backward", "inference": "inference"}


def _record(into: list[GraphReport], kind: str, compiled: CompiledGraph) -> None:
    into.append(_graph(_KINDS[kind], compiled))


def _graph(kind: str, compiled: CompiledGraph) -> GraphReport:
    cut = compiled.cut
    left: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for node, reason in cut.reasons.items():
        loc = loc_of(node)
        left[str(node.target), reason].append("" if loc is None else f"{loc.file}:{loc.line}")
    most_first = sorted(left.items(), key=lambda found: -len(found[1]))
    hints = _hints(cut.kinds)
    operators = sum(k in (Kind.COMPUTE, Kind.VIEW) and n.op == "call_function" for n, k in cut.kinds.items())
    return GraphReport(
        kind,
        len(cut.kinds),
        operators,
        tuple(_part(p, r, hints) for p, r in zip(compiled.parts, cut.regions, strict=True)),
        tuple(Extern(op, why, len(at), tuple(dict.fromkeys(filter(None, at)))) for (op, why), at in most_first),
        compiled.seconds,
        tuple(_graph("body", g) for g in {id(g): g for g in compiled.bodies.values()}.values()),
    )


def _part(part: CompiledPart, region: Region, hints: Mapping[str, int]) -> PartReport:
    kinds = {k.name: k for k in part.executable.kernels}
    steps = [s for _, s in part.executable.plan.walk()]
    kernels = tuple(Kernel(s.kernel, kinds[s.kernel].kind, s.label or kinds[s.kernel].label) for s in steps)
    return PartReport(str(part.device), len(region.part.nodes), kernels, _bytes_saved(part, hints))


def _bytes_saved(part: CompiledPart, hints: Mapping[str, int]) -> int:
    total = 0
    for decision in part.executable.ledger:
        assert isinstance(decision, Mapping)
        saved = parse_dim(str(decision["saved"])) if decision["fused"] else 0
        total += evaluate(saved, hints) if symbols(saved) <= hints.keys() else 0
    return total


def _hints(nodes: Iterable[fx.Node]) -> dict[str, int]:
    """What symbols are in this call."""
    out: dict[str, int] = {}
    for size in sizes_of(nodes):
        if isinstance(size, torch.SymInt) and (name := symbol_of(dim_of(size))) and size.node.hint is not None:
            out[name] = int(size.node.hint)
    return out


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else "unknown"


def _frame(stack: list[Any]) -> str:
    return f"{stack[-1].filename}:{stack[-1].lineno}" if stack else ""


# text


def _lines(found: Explanation) -> Iterator[str]:
    yield f"{_count(len(found.graphs), 'graph')}, {_count(len(found.breaks), 'graph break')}"
    for b in found.breaks:
        yield f"  break at {b.where or 'an unknown line'}: {b.reason}"
    for i, graph in enumerate(found.graphs):
        yield from _graph_lines(graph, f"graph {i}, ", "")


def _graph_lines(graph: GraphReport, name: str, indent: str) -> Iterator[str]:
    inside = f"{_count(graph.operators, 'operator')} in {_count(len(graph.parts), 'part')}"
    left = f"{sum(e.count for e in graph.externs)} left to torch"
    cost = f"fusion saves {_size(graph.bytes_saved)}; compiled in {graph.seconds:.2f} s"
    yield f"{indent}{name}{graph.kind}: {inside}, {_count(graph.kernels, 'kernel')}; {left}; {cost}"
    for part in graph.parts:
        kinds = Counter(k.kind for k in part.kernels)
        listed = ", ".join(f"{n} {kind}" for kind, n in kinds.most_common())
        yield f"{indent}  part of {_count(part.operators, 'operator')} on {part.device}: {listed}"
    for e in graph.externs:
        lines = ", ".join(e.where[:3]) + (f" and {len(e.where) - 3} more" if len(e.where) > 3 else "")
        yield f"{indent}  torch runs {e.operator} x{e.count}: {e.reason}{f' ({lines})' if lines else ''}"
    for body in graph.bodies:
        yield from _graph_lines(body, "", indent + "  ")


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def _size(nbytes: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if nbytes < 1024:
            return f"{nbytes:.4g} {unit}"
        nbytes /= 1024
    return f"{nbytes:.4g} GiB"
