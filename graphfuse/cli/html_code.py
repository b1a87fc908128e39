"""For the page of `graphfuse inspect --html`: what goes along the edges, and the code of kernels, read back from IR."""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Collection, Mapping, Sequence

from graphfuse.artifact import Executable, Signature
from graphfuse.errors import GraphfuseError
from graphfuse.llvm.host import host_target, parse_target
from graphfuse.runtime.report import Edge, choose_dims, edge_results
from graphfuse.symbolic import Dim, evaluate, symbols

MOST_ASSEMBLED, MOST_LINES = 12, 240
"""The slowest kernels have their assembly, the first lines of it."""
MOST_LETTERS = 16
"""Of a dim as a formula."""

_REGION = re.compile(r'^( *).*graph\.region\(.*[ {]kernel = "([^"]+)"')
_ENTRY = re.compile(r"^\.visible \.entry (\w+)\(", re.MULTILINE)
_DIRECTIVE = re.compile(r"\s*(\.cfi_|\.p2align|\.file|\.loc|\.type|\.size|\.globl|\.text|\.section|#|//).*|\s*")


def edge_types(executable: Executable, dims: Mapping[str, int] | None = None) -> dict[Edge, str]:
    """The edges, and the types that go along them, such as `f32[batch, 8]`; empty where the IR does not say.

    Dims that are long formulas are what they are at the given ones (see `choose_dims`).
    """
    edges = edge_results(executable)
    inputs = {f"input {s.name}": executable.signature.text(s) for s in executable.signature.inputs}
    results: dict[int, list[str]] = {}
    with contextlib.suppress(GraphfuseError):  # of IR that is none
        results = _results(executable, choose_dims(executable, dims))

    def text(a: int | str, numbers: Sequence[int]) -> str:
        if isinstance(a, str):
            return inputs[a].partition(": ")[2]
        made = results.get(a, [])
        return ", ".join(made[n] for n in numbers) if all(n < len(made) for n in numbers) else ""

    return {(a, b): text(a, numbers) for (a, b), numbers in edges.items()}


def _results(executable: Executable, values: Mapping[str, int]) -> dict[int, list[str]]:
    """The types that launches make, by their number: those of the regions of their kernel, in the same order."""
    if executable.host is not None or "regions" not in executable.ir:
        return {}
    importlib.import_module("graphfuse.dialects")  # registers what types may name
    lines = executable.ir["regions"].splitlines()
    made: dict[str, list[str]] = {}
    for at, line in enumerate(lines):
        if m := _REGION.match(line):
            end = next((lines[i] for i in range(at, len(lines)) if lines[i].startswith(f"{m[1]}}} : ")), "")
            made.setdefault(m[2], []).append(end.partition("} : ")[2])
    return {
        i: _types(mine.pop(0), executable.signature, values)
        for i, (_, step) in enumerate(executable.plan.walk())
        if (mine := made.get(step.kernel))
    }


def _types(text: str, signature: Signature, values: Mapping[str, int]) -> list[str]:
    """`tensor<(n)x8xf32>, tensor<i64>` to `f32[n, 8]` and `i64[]`."""
    from graphfuse.ir.parser import parse
    from graphfuse.ir.types import Tensor

    params = ", ".join(f"%p{i}: {t}" for i, t in enumerate(re.split(r", (?=tensor<)", text)) if t)
    types = (v.type for v in parse(f"func @types({params}) {{ return() }}").params)

    def shown(dim: Dim) -> str:
        text = signature.shown(dim)
        return text if len(text) <= MOST_LETTERS or not symbols(dim) <= values.keys() else str(evaluate(dim, values))

    return [f"{t.elem}[{', '.join(map(shown, t.shape))}]" for t in types if isinstance(t, Tensor)]


def assembly(executable: Executable, kernels: Collection[str], *, is_own: bool = True) -> dict[str, str]:
    """Of kernels by name the code for the target that is described, without directives; of a GPU its PTX.

    Where the artifact has no text it is made anew from the block functions, but from those of others only if they may
    be run, too; what cannot be made is left out.
    """
    if executable.host is not None or "block" not in executable.ir:
        return {}
    code = executable.code.get(executable.target)
    if code is not None and code.ptx:
        begins = [(m[1], m.start()) for m in _ENTRY.finditer(code.ptx)]
        ends = [*(at for _, at in begins[1:]), len(code.ptx)]
        return {n: _plain(code.ptx[at:end]) for (n, at), end in zip(begins, ends, strict=True) if n in kernels}
    return _assembled(executable, kernels) if is_own else {}


def _assembled(executable: Executable, kernels: Collection[str]) -> dict[str, str]:
    importlib.import_module("graphfuse.dialects")  # registers the ops the text names
    from graphfuse.ir.parser import parse_module
    from graphfuse.targets.backend import backend_of

    host = host_target()
    out: dict[str, str] = {}
    try:
        backend = backend_of(host if str(host) == executable.target else parse_target(executable.target))
    except GraphfuseError:
        return out
    for text in executable.ir["block"].split("func @")[1:]:
        if (name := text.split("(", 1)[0]) in kernels:
            with contextlib.suppress(GraphfuseError):
                funcs = list(parse_module(f"func @{text}", "<artifact>"))
                out[name] = _plain(backend.code_text(funcs, backend.code_stages[-1], lowered=True))
    return out


def _plain(text: str) -> str:
    """The first lines that are instructions or labels."""
    lines = [line for line in text.expandtabs(8).splitlines() if not _DIRECTIVE.fullmatch(line)]
    more = [f"... {len(lines) - MOST_LINES} more lines"] if len(lines) > MOST_LINES else []
    return "\n".join([*lines[:MOST_LINES], *more])
