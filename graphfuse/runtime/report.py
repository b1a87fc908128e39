"""What a compiled model is made of, as plain data: for `graphfuse inspect` and for anyone's own tools.

Owns the facts and no presentation.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias, cast

from graphfuse import usage
from graphfuse.artifact import COPY, Executable, Pointer, Signature, Step, TensorSpec
from graphfuse.errors import InputError, ParseError, UnsupportedError, UsageError
from graphfuse.host.program import HostGraph, HostNode, HostPart
from graphfuse.llvm.host import host_target
from graphfuse.runtime.session import available_cores, memory
from graphfuse.symbolic import Dim, evaluate, parse_dim, solved, symbols

_ORIGIN, _COSTS = ("step", "kernel", "kind", "label", "grid"), ("flops", "bytes_read", "bytes_written")
"""What the row of a step has: where it comes from, and what it takes."""
_FORMULA = 40
"""Letters of what is said in dims; what is longer is said as the number that it is there."""


def given_dims(signature: Signature, dims: Mapping[str, int] | None) -> dict[str, int]:
    """Values by symbol. Callers may say symbols, the model's own names, or what it makes of one, such as `2*n`."""
    given: dict[str, int] = {}
    for name, dim in usage.mapping("dims", dims or {}).items():
        value, symbol = usage.integer(f"dim {name!r}", dim), signature.symbol(name)
        if symbol not in signature.ranges:
            with contextlib.suppress(ParseError, UnsupportedError):
                symbol, value, high = solved(parse_dim(name), value, value) or (symbol, value, value)
                if value != high:
                    raise InputError(f"dim {name!r}: expected {name} for an integer {symbol}, found {dim}")
        if symbol not in signature.ranges:
            known = ", ".join(map(signature.shown, signature.ranges)) or "none"
            raise UsageError(f"unknown dim {name!r}: expected one of {known}")
        lo, hi = signature.ranges[symbol]
        if not lo <= value <= hi:
            raise InputError(f"dim {signature.shown(symbol)!r}: expected {lo}..{hi}, found {value}")
        if given.setdefault(symbol, value) != value:
            raise UsageError(f"dim {signature.shown(symbol)!r}: expected one value, found {given[symbol]} and {value}")
    return given


def choose_dims(executable: Executable, dims: Mapping[str, int] | None = None) -> dict[str, int]:
    """A value for every symbol: the given ones (see `given_dims`), else 1 or the nearest in range."""
    given, ranges = given_dims(executable.signature, dims), executable.signature.ranges
    return {name: given.get(name, min(max(lo, 1), hi)) for name, (lo, hi) in ranges.items()}


def report(executable: Executable, dims: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Signature, kernels, steps, traffic and memory at the given symbol values (see `choose_dims`)."""
    values = choose_dims(executable, dims)
    shown = executable.signature.shown
    kernels = {k.name: k for k in executable.kernels}
    leaves = [leaf for _, leaf in executable.plan.walk()]
    rows: list[dict[str, Any]] = []
    for i, leaf in enumerate(leaves):
        kernel = kernels[leaf.kernel]
        # kernels for other shapes have no programs here
        programs = evaluate(leaf.grid, values) if symbols(leaf.grid) <= values.keys() else None
        formula = shown(leaf.grid)
        if programs == 0 or (programs is not None and len(formula) > _FORMULA):
            formula = str(programs)
        origin = (i, kernel.name, kernel.kind, leaf.label or kernel.label, formula)
        costs = {key: 0 if programs == 0 else _value(getattr(kernel, key), values) for key in _COSTS}
        rows.append(dict(zip(_ORIGIN, origin, strict=True)) | costs)
    if executable.host is not None:
        rows = _host_rows(executable, executable.host)
    needed = asdict(memory(executable, values, available_cores()))
    needed["weights"] += sum(w.nbytes for p in executable.parts for w in p.weights)
    pieces = {f"{v.target} part {i}": p for v in executable.variants for i, p in enumerate(v.parts)}
    pieces |= {name: v for v in executable.variants for name in v.code}
    return {
        "target": executable.target,
        "targets": [v.target for v in executable.variants],
        "code": {
            name: {
                "arch": c.arch,
                "os": c.os,
                "features": list(c.features),
                "bytes": len(c.object),
                "ptx_bytes": len(c.ptx),
                "warnings": list(c.warnings),
            }
            for name, v in pieces.items()
            for c in v.code.values()
        },
        "gpu_kernels": {
            v.target: [k for p in (v, *v.parts) for k in _gpu_kernels(p)] for v in executable.variants if v.is_gpu
        },
        "warnings": code_warnings(executable),
        "inputs": [_spec(s, executable.signature) for s in executable.signature.inputs],
        "outputs": [_spec(s, executable.signature) for s in executable.signature.outputs],
        "dims": {shown(name): [lo, hi] for name, lo, hi in executable.signature.dims},
        "constraints": [v.signature.shown(c) for v in (executable, *executable.parts) for c in v.signature.constraints],
        "at": {shown(name): value for name, value in values.items()},
        "kernels": kernel_count(executable),
        "host": host_operators(executable),
        "steps": rows,
        "kinds": dict(Counter(row["kind"] for row in rows).most_common()),
        "totals": {key: sum(r[key] for r in rows) for key in _COSTS},
        "memory": needed,
        "ledger": len(executable.ledger),
        "not_fused": not_fused(executable),
        "stages": list(executable.ir),
        "meta": dict(executable.meta),
    }


def kernel_count(executable: Executable) -> int:
    """How many kernels it has, those of its parts too."""
    return len(executable.kernels) + sum(len(p.kernels) for p in executable.parts)


def fits_this_host_only(executable: Executable) -> bool:
    """Whether there is code for this very processor, with all that it has, and no other."""
    return [v.target for v in executable.variants] == [str(host_target())]


def host_operators(executable: Executable) -> dict[str, int]:
    """The operators that Python runs, and how many nodes there are of each; none in a model without host code."""
    return dict(Counter(n.op for n in executable.host.nodes())) if executable.host is not None else {}


def _host_rows(executable: Executable, program: HostGraph) -> list[dict[str, Any]]:
    """The steps of a host program: parts by their number of kernels, and operators that Python runs."""
    rows: list[dict[str, Any]] = []
    for i, step in enumerate(program.steps):
        if isinstance(step, HostPart):
            part = executable.parts[step.part]
            labels = list(dict.fromkeys(leaf.label for _, leaf in part.plan.walk() if leaf.label))
            label = f"{labels[0]}{f' and {len(labels) - 1} more' if len(labels) > 1 else ''}" if labels else ""
            origin = (i, f"part {step.part}", "part", label, len(part.kernels))
        else:
            origin = (i, step.op, PYTHON, step.name, 1)
        rows.append(dict(zip(_ORIGIN, origin, strict=True)) | dict.fromkeys(_COSTS, 0))
    return rows


def _gpu_kernels(executable: Executable) -> list[dict[str, Any]]:
    """What each kernel takes of the machine; -1 where no assembler was asked."""
    return [
        {
            "kernel": k.name,
            "threads": k.launch.threads,
            "shared_bytes": k.launch.shared_bytes + max(k.launch.static_shared_bytes, 0),
            "registers": k.launch.registers,
            "spill_bytes": k.launch.spill_bytes,
            "cluster": k.launch.cluster,
            "tensor_maps": len(k.launch.tensor_maps),
        }
        for k in executable.kernels
        if k.launch is not None
    ]


def code_warnings(executable: Executable) -> list[str]:
    """What the assembler had to say, and kernels that spill registers, for every GPU there is code for."""
    out: list[str] = []
    for v in (p for whole in executable.variants for p in (whole, *whole.parts)):
        for name, code in v.code.items():
            out += [f"{name}: {w}" for w in code.warnings]
        for k in v.kernels:
            if k.launch is not None and k.launch.spill_bytes > 0:
                out.append(f"{v.target}: kernel {k.name!r} spills {k.launch.spill_bytes} bytes of registers")
    return out


def target_notes(executable: Executable) -> list[str]:
    """What is not as good on a target as it may be, by what its profile says."""
    parts = (p for whole in executable.variants for p in (whole, *whole.parts))
    decisions = (cast("Mapping[str, str]", d) for p in parts for d in p.ledger)
    return list(dict.fromkeys(f"{d['consumer']}: {d['reason']}" for d in decisions if d["producer"] == "target"))


def _spec(spec: TensorSpec, signature: Signature) -> dict[str, Any]:
    shape = [d if isinstance(d, int) else signature.shown(d) for d in spec.shape]
    return {"name": spec.name, "elem": spec.elem, "shape": shape}


def _value(dim: Dim, values: Mapping[str, int]) -> int:
    return evaluate(dim, values) if symbols(dim) <= values.keys() else 0


def not_fused(executable: Executable) -> list[dict[str, str]]:
    """Which operators are not in a region that they read from, and why; each reason once.

    Elementwise work and reductions could be, and the ledger says why they are not; anything else begins a region.
    """
    shown, rows = executable.signature.shown, dict[tuple[str, ...], None]()
    for decision in (d for v in (executable, *executable.parts) for d in v.ledger):
        if isinstance(decision, Mapping) and decision.get("begins") and not decision.get("fused"):
            kind = str(decision["producer"]).partition(" ")[0]
            rows[str(decision["consumer"]), f"{kind} of {decision['begins']}", shown(decision["reason"])] = None
    kinds = {k.name: k.kind for k in executable.kernels}
    steps = [(step.label, kinds[step.kernel]) for _, step in executable.plan.walk()]
    told = {operator for operator, _, _ in rows}
    between = edges(executable) if executable.host is None else ()
    for a, b in between:
        if isinstance(a, int) and isinstance(b, int) and steps[b][0] not in told:
            (before, kind), (label, own) = steps[a], steps[b]
            if own not in ("pointwise", "reduction", COPY):
                rows[label, f"{kind} of {before}", f"a region of kind {own} begins with it, and reads memory"] = None
    return [dict(zip(("operator", "region", "reason"), row, strict=True)) for row in rows]


def reasons_of(rows: Sequence[Mapping[str, str]], kind: str, labels: Collection[str]) -> list[Mapping[str, str]]:
    """Of the rows of `not_fused`, why a kernel from such operators is in no region before it, and none behind in it."""
    behind = {f"{kind} of {label}" for label in labels}
    return [r for r in rows if r["operator"] in labels or r["region"] in behind]


@dataclass
class KernelCosts:
    """What the launches of a kernel have in common, and add up to; `bound_us` is 0 where that is not known."""

    kernel: str
    kind: str
    steps: list[int] = field(default_factory=list[int])
    labels: dict[str, None] = field(default_factory=dict[str, None])
    flops: int = 0
    read: int = 0
    written: int = 0
    bound_us: float = 0.0


def launched(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of the rows of steps those that have programs: others are kernels for other shapes."""
    return [r for r in rows if r.get("grid") != "0"]


def kernel_costs(rows: Sequence[Mapping[str, Any]]) -> list[KernelCosts]:
    """Of the rows of steps: the kernels, those that move most first."""
    found: dict[str, KernelCosts] = {}
    for r in rows:
        k = found.setdefault(r["kernel"], KernelCosts(r["kernel"], r["kind"]))
        k.steps.append(r["step"])
        k.labels[r["label"] or r["kind"]] = None
        k.flops, k.read, k.written = k.flops + r["flops"], k.read + r["bytes_read"], k.written + r["bytes_written"]
        k.bound_us += r.get("bound_us", 0.0)
    return sorted(found.values(), key=lambda k: -k.read - k.written)


TOGETHER = "together"
"""The kind of launches that are several kernels' (`dialects.graph`)."""
PYTHON = "python"
"""What runs the operators of a host program, beside kernels, and the kind of their steps."""


def kernel_operators(executable: Executable) -> list[tuple[str, list[str]]]:
    """Launches in their order: the kernel, and the operators that became it, the one it begins with first.

    Behind them are the operators that Python runs.
    """
    out: list[tuple[str, list[str]]] = []
    for part in (executable, *executable.parts):
        groups: dict[str, dict[str, None]] = {}
        for d in (d for d in part.ledger if isinstance(d, Mapping) and d.get("fused") and d.get("begins")):
            group = groups.setdefault(str(d.get("producer")), {str(d["begins"]): None})
            group[str(d.get("consumer"))] = None
        # an operator may be several kernels, such as a copy and a product: of these, its group is one
        fused = {(name.partition(" ")[0], operator): list(g) for name, g in groups.items() for operator in g}
        own = {operator: ops for (kind, operator), ops in fused.items() if kind != TOGETHER}
        for (kind, operator), members in fused.items():
            if kind == TOGETHER:
                fused[kind, operator] = list(dict.fromkeys(o for m in members for o in own.get(m, [m])))
        kinds = {k.name: k.kind for k in part.kernels}
        steps = [step for _, step in part.plan.walk()]
        out += [(s.kernel, fused.get((kinds[s.kernel], s.label), [s.label or kinds[s.kernel]])) for s in steps]
    host = executable.host.nodes() if executable.host is not None else ()
    return [*out, *((PYTHON, [n.name or n.op]) for n in host)]


Edge: TypeAlias = "tuple[int | str, int | str]"
"""Who makes and who reads: steps by number, inputs and outputs as `input NAME`, `output NAME`."""


def edges(executable: Executable) -> list[Edge]:
    """Who reads what from whom.

    A step that reads a buffer depends on all that wrote parts of it since it was last rewritten.
    """
    return list(edge_results(executable))


def edge_results(executable: Executable) -> dict[Edge, list[int]]:
    """The edges, and which of the results of the step that they begin at each of them is; none of an input."""
    if executable.host is not None:
        return _host_edges(executable, executable.host)
    buffers = executable.plan.buffers
    params = {k.name: k.params for k in executable.kernels}
    writers: dict[int, dict[int, int]] = {}
    found: dict[Edge, dict[int, None]] = {}
    for i, (_, step) in enumerate(executable.plan.walk()):
        pointers = _pointers(step, params[step.kernel])
        for buffer, param in pointers:
            if param != "w":
                if buffers[buffer].kind == "input":
                    found[f"input {executable.signature.inputs[buffers[buffer].index].name}", i] = {}
                for writer, number in writers.get(buffer, {}).items():
                    if writer != i:
                        found.setdefault((writer, i), {})[number] = None
        for number, (buffer, param) in enumerate(p for p in pointers if p[1] in "wx"):
            if param == "x":
                writers[buffer] = {}
            writers.setdefault(buffer, {}).setdefault(i, number)
    for b, buffer in enumerate(buffers):
        if buffer.kind == "output":
            name = f"output {executable.results[buffer.index].name}"
            for writer, number in writers.get(b, {}).items():
                found.setdefault((writer, name), {})[number] = None
    return {edge: list(numbers) for edge, numbers in found.items()}


def _host_edges(executable: Executable, program: HostGraph) -> dict[Edge, list[int]]:
    """Of the steps of a host program, which say by name what they read and make; what their bodies read is theirs."""
    made: dict[str, tuple[int | str, int]] = {n: (f"input {n}", 0) for n in program.inputs}
    found: dict[Edge, dict[int, None]] = {}

    def read(name: str, reader: int | str) -> None:
        if name in made:
            writer, number = made[name]
            found.setdefault((writer, reader), {}).update({number: None} if isinstance(writer, int) else {})

    for i, step in enumerate(program.steps):
        reads, makes = _names(executable, step)
        for name in reads:
            read(name, i)
        made |= {name: (i, number) for number, name in enumerate(makes)}
    for result, spec in zip(program.outputs, executable.signature.outputs, strict=True):
        read(result, f"output {spec.name}")
    return {edge: list(numbers) for edge, numbers in found.items()}


def _names(executable: Executable, step: HostPart | HostNode) -> tuple[Sequence[str], Sequence[str]]:
    """What a step of a host program reads and makes, those of the graphs in it, too."""
    if isinstance(step, HostPart):
        signature = executable.parts[step.part].signature
        return [s.name for s in signature.inputs], [s.name for s in signature.outputs]
    inner = [name for body in step.bodies for s in body.steps for name in _names(executable, s)[0]]
    return [*step.inputs, *inner, *(name for body in step.bodies for name in body.outputs)], step.outputs


def _pointers(step: Step, params: str) -> list[tuple[int, str]]:
    return [(a.buffer, p) for a, p in zip(step.args, params, strict=True) if isinstance(a, Pointer)]
