"""Runs torch's own samples of an operator compiled and eagerly: what benchmarks/torch_opinfo.py starts for its cases.

A line `<number in op_db> <dtype>` on standard input is one case; its answer is one line of JSON on standard output.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from benchmarks import record
from graphfuse.torch import aot, backend

LOW, HIGH = (torch.float16, torch.bfloat16), (torch.float32, torch.float64)
SLACK = 4
"""How many units in the last place, of the largest number, an error may have beside twice that of eager."""

UNWRITTEN = frozenset({"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"})
ANY_OF_EQUAL = frozenset({"topk", "kthvalue", "mode", "median", "nanmedian"})


@dataclass
class Judged:
    """What became of the samples of a case."""

    passed: int = 0
    excluded: int = 0
    """Samples that eager torch refuses, or that fail with `aot_eager` too."""
    failures: list[dict[str, Any]] = field(default_factory=list)
    nodes: dict[str, int] = field(default_factory=dict)
    """ATen nodes compiled and left to torch."""
    externs: list[tuple[str, str]] = field(default_factory=list)


def judge(op: Any, dtype: torch.dtype, count: int, dynamic: bool) -> Judged:
    """Compare `count` samples with eager torch; of differentiable operators, forward and backward."""
    out = Judged(nodes={"compiled": 0, "extern": 0})
    trains = dtype in op.dtypes and op.supports_autograd and dtype.is_floating_point
    torch.manual_seed(record.SEED)
    for i, sample in enumerate(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=trains), count)):
        call = call_of(op, sample)
        leaves = [sample.input, sample.args, sample.kwargs]
        try:
            want = run(call, leaves, trains)
        except Exception:  # noqa: BLE001 (anything an operator may raise)
            out.excluded += 1
            continue
        graphs: list[Any] = []
        try:
            message = differs(op, _compiled(call, leaves, trains, dynamic, graphs), want, call, leaves, trains)
        except Exception as e:  # noqa: BLE001
            message = _brief(e)
        _note(out, graphs)
        if message is None:
            out.passed += 1
        elif _passes_elsewhere(op, call, leaves, trains, want):
            shapes = pytree.tree_map(lambda x: list(x.shape) if isinstance(x, torch.Tensor) else x, leaves)
            out.failures.append({"sample": i, "inputs": str(shapes)[:300], "message": message})
        else:
            out.excluded += 1
    return out


def call_of(op: Any, sample: Any) -> Callable[..., Any]:
    """A function of a sample's input, arguments and named arguments, or of others instead."""

    def call(x: Any, args: Any, kwargs: Any) -> Any:
        return sample.output_process_fn_grad(op.op(x, *args, **kwargs))

    return call


def copied(x: Any) -> Any:
    """What an operator may write to, where it is a tensor."""
    if not isinstance(x, torch.Tensor):
        return x
    return x.detach().clone().requires_grad_(x.requires_grad)


def run(call: Callable[..., Any], leaves: list[Any], trains: bool, copied: Callable[[Any], Any] = copied) -> list[Any]:
    """Outputs, then gradients of all inputs that want them; of copies of the inputs."""
    flat, spec = pytree.tree_flatten(leaves)
    flat = [copied(x) for x in flat]
    torch.manual_seed(record.SEED + 1)
    with torch.set_grad_enabled(trains):
        outs = pytree.tree_leaves(call(*pytree.tree_unflatten(flat, spec)))
    outs = [o for o in outs if isinstance(o, (torch.Tensor, int, float, complex, bool))]
    roots = [o for o in outs if isinstance(o, torch.Tensor) and o.requires_grad]
    wanted = [x for x in flat if isinstance(x, torch.Tensor) and x.requires_grad]
    grads: Sequence[Any] = ()
    if trains and roots and wanted:
        grads = torch.autograd.grad(roots, wanted, [_seed(r) for r in roots], allow_unused=True)
    # what was written in place counts too
    results = [*outs, *grads, *(x for x in flat if isinstance(x, torch.Tensor) and not x.requires_grad)]
    return [x.detach().clone() if isinstance(x, torch.Tensor) else x for x in results]


def _seed(out: torch.Tensor) -> torch.Tensor:
    numbers = torch.linspace(-1, 1, max(out.numel(), 1), dtype=torch.float64)[: out.numel()]
    return numbers.sin().mul(1.5).add(0.1).reshape(out.shape).to(out.dtype)


def _compiled(call: Any, leaves: list[Any], trains: bool, dynamic: bool, graphs: list[Any]) -> list[Any]:
    torch._dynamo.reset()
    whole = aot.compile_graph

    def recording(*args: Any, **named: Any) -> Any:
        graphs.append(whole(*args, **named))
        return graphs[-1]

    aot.compile_graph = recording
    try:
        return run(torch.compile(call, backend=backend, dynamic=dynamic, options={"check": True}), leaves, trains)
    finally:
        aot.compile_graph = whole


def _passes_elsewhere(op: Any, call: Any, leaves: list[Any], trains: bool, want: list[Any]) -> bool:
    torch._dynamo.reset()
    try:
        got = run(torch.compile(call, backend="aot_eager"), leaves, trains)
        return differs(op, got, want, call, leaves, trains) is None
    except Exception:  # noqa: BLE001
        return False


def differs(op: Any, got: list[Any], want: list[Any], call: Any, leaves: list[Any], trains: bool) -> str | None:
    """What is wrong with results; None if nothing is."""
    if len(got) != len(want):
        return f"expected {len(want)} results, found {len(got)}"
    exact: list[Any] | None = None
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        if _is_open(op, i, g, w, leaves):
            continue
        if not isinstance(w, torch.Tensor):
            if g != w and not (g != g and w != w):
                return f"result {i}: expected {w}, found {g}"
            continue
        try:
            torch.testing.assert_close(g, w, equal_nan=True)
            continue
        except AssertionError as e:
            message = f"result {i}: {' '.join(str(e).split())}"
        except Exception as e:  # noqa: BLE001 (sparse and quantised tensors have their own ways to differ)
            return f"result {i}: {_brief(e)}"
        if not isinstance(g, torch.Tensor) or g.dtype != w.dtype or g.shape != w.shape or g.dtype not in (*LOW, *HIGH):
            return message
        if exact is None:
            with suppress(Exception):
                exact = run(call, pytree.tree_map(_doubled, leaves), trains)
        if exact is None or len(exact) != len(want) or not _close_to(exact[i], g, w):
            return message
    return None


def _is_open(op: Any, result: int, got: Any, want: Any, leaves: list[Any]) -> bool:
    """Whether torch leaves open what a result holds: memory nobody wrote, which one of equal elements is chosen."""
    if not isinstance(want, torch.Tensor) or got.shape != want.shape or got.dtype != want.dtype:
        return False
    if op.name not in ANY_OF_EQUAL or result == 0:
        return op.name.removeprefix("aten.").partition(".")[0] in UNWRITTEN
    # the gradient goes to the one that is chosen
    return result == 1 or any(len(x.unique()) < x.numel() for x in leaves if isinstance(x, torch.Tensor))


def _doubled(x: Any) -> Any:
    if isinstance(x, torch.Tensor) and x.dtype in (*LOW, torch.float32):
        return x.detach().double().requires_grad_(x.requires_grad)
    return x


def _close_to(exact: Any, got: torch.Tensor, want: torch.Tensor) -> bool:
    """Whether an error is at most twice that of eager, and a few units in the last place.

    Where eager overflows on the way to a number, the error is that of the number.
    """
    if not isinstance(exact, torch.Tensor) or exact.shape != want.shape:
        return False
    overflows = ~want.isfinite() & got.isfinite() & exact.isfinite()
    odd = (~want.isfinite() | ~got.isfinite()) & ~overflows
    same = torch.equal(torch.nan_to_num(got[odd]), torch.nan_to_num(want[odd]))
    if not same or got.isnan().ne(want.isnan())[odd].any():
        return False
    g, w, x = (t.double()[~odd] for t in (got, want, exact))
    if not g.numel():
        return True
    w = torch.where(overflows[~odd], x, w)
    allowed = 2 * (w - x).abs().max() + SLACK * torch.finfo(want.dtype).eps * x.abs().max()
    return bool((g - x).abs().max() <= allowed)


def _note(out: Judged, graphs: list[Any]) -> None:
    for graph in graphs:
        for node, kind in graph.cut.kinds.items():
            if isinstance(node.target, torch._ops.OpOverload):
                is_extern = kind.name == "EXTERN"
                out.nodes["extern" if is_extern else "compiled"] += 1
                if is_extern:
                    out.externs.append((str(node.target), graph.cut.reasons.get(node, "")))


def _brief(e: Exception) -> str:
    inner: BaseException = e
    while isinstance(getattr(inner, "inner_exception", None), BaseException):
        inner = inner.inner_exception  # type: ignore[attr-defined]
    where = [f for f in traceback.extract_tb(inner.__traceback__) if "graphfuse" in f.filename]
    place = f" at {Path(where[-1].filename).name}:{where[-1].lineno}" if where else ""
    text = " ".join(str(inner).split("\n\nfrom user code")[0].split())
    return f"{type(inner).__name__}: {text[:400]}{place}"


def main() -> None:
    """Answer cases until standard input ends."""
    count, dynamic = int(sys.argv[1]), sys.argv[2] == "dynamic"
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what operators print is not an answer
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch._functorch.config.enable_autograd_cache = False
    torch._dynamo.config.recompile_limit = 64
    answers.write("ready\n")
    for line in sys.stdin:
        number, name = line.split()
        try:
            found = judge(op_db[int(number)], getattr(torch, name), count, dynamic)
            answers.write(json.dumps(found.__dict__) + "\n")
        except Exception as e:  # noqa: BLE001
            answers.write(json.dumps({"error": _brief(e)}) + "\n")


if __name__ == "__main__":
    main()
