"""torch's samples of its operators, with dims and indices that fit and that do not, compiled beside eager torch.

    python -m tests.torch.fitting --seed 0 --count 700        a line of JSON for what differs, and a summary
    python -m tests.torch.fitting --seed SEED --count 1 --here        one again, in this process

A seed is an operator of torch's `op_db`, one of its samples, sizes that may change or not, and what is drawn: a dim is
1, 0, a prime, one off or another's, two dims change places, an index is out of range. Eager torch, in a process of its
own since some of its operators die of it, says what fits. What it refuses must be refused, what it computes must be
computed, forward and backward. Inputs, results and what lies between are between pages that nobody may touch.
"""
# ruff: noqa: E402 - what torch's tests import is stood in for first

from __future__ import annotations

import argparse
import itertools
import json
import logging
import os
import pickle
import random
import sys
import types
import unittest
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase))  # torch imports it for less
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

from benchmarks.opinfo_worker import call_of, copied, differs, run
from graphfuse.frontends.fx.lowering import LOWERINGS
from graphfuse.torch import compiled_part
from graphfuse.torch.compile import LeftToTorch
from graphfuse.torch.cut import Kind
from tests.fuzzing.runner import FOUND, run_case
from tests.fuzzing.support import Patch
from tests.guarded import guard_runs, guarded_empty
from tests.onnx.fitting import in_child
from tests.torch.support import compiled, recorded_graphs

DTYPES = (torch.float32, torch.int64, torch.bool)
"""The first that an operator takes is drawn mostly."""
MOST_SAMPLES = 24
DRAWS = 6
CPU_SECONDS = 60
PRIMES = (2, 3, 5, 7, 11, 13, 17)
RANDOM = ("bernoulli", "multinomial", "normal", "rand", "dropout", "rrelu", "uniform", "exponential", "cauchy")
"""Parts of names of operators whose results no one can compare."""

REACHED = json.loads(Path(__file__).with_suffix(".json").read_text())
"""Samples of `op_db` (operator, variant and number), and lowerings that compiling them comes to."""
UNREACHED = {
    **dict.fromkeys(
        (
            f"aten._scaled_dot_product_{name}_attention{way}.default"
            for name in ("efficient", "flash", "cudnn")
            for way in ("", "_backward")
        ),
        "on a GPU only",
    ),
    **dict.fromkeys(("aten._fused_rms_norm.default", "aten._fused_rms_norm_backward.default"), "on a GPU only"),
    **dict.fromkeys(
        ("prims.view_of.default", "prims.broadcast_in_dim.default"), "torch traces it in decompositions alone"
    ),
    "aten.convolution_backward.default": "on a CPU torch's own is faster",
    "aten.native_batch_norm.default": "on a GPU only: a CPU's says in its name that it is inference",
    "aten.lift_fresh.default": "of constants alone, which torch lifts itself",
}
"""Lowerings that no case comes to, and why."""


def resizes(x):
    """Of every resize and its gradient: images of 4 x 5 x .. to 6 x 7 x .."""
    out = {}
    for rank in (1, 2, 3):
        small, large = [4, 5, 3][:rank], [6, 7, 5][:rank]
        linear = ["", "linear", "bilinear", "trilinear"][rank]
        kinds = [
            (f"upsample_nearest{rank}d", ()),
            (f"_upsample_nearest_exact{rank}d", ()),
            (f"upsample_{linear}{rank}d", (False,)),
            *([("upsample_bicubic2d", (True,))] if rank == 2 else []),
        ]
        for name, how in kinds:
            out[f"aten.{name}.default"] = (x(2, 3, *small), large, *how)
            out[f"aten.{name}_backward.default"] = (x(2, 3, *large), large, [2, 3, *small], *how)
    return out


def overloads():
    """Arguments of overloads that no operator of `op_db` comes to."""
    g = torch.Generator().manual_seed(0)

    def x(*shape):
        return torch.randn(shape or (4, 5), generator=g)

    def n(*shape, high=4):
        return torch.randint(0, high, shape or (4, 5), generator=g)

    out = {
        "aten.div.Scalar_mode": (x(), 2.5, {"rounding_mode": "floor"}),
        "aten.floor_divide.Scalar": (x(), 2), "aten.remainder.Scalar_Tensor": (7, x()), "prims.div.default": (x(), x()),
        "prims.pow.default": (x().abs(), x()), "prims.fma.default": (x(), x(), x()),
        "aten.clamp_max.default": (x(), 0.5), "aten.copysign.Scalar": (x(), -1.0),
        "aten.special_zeta.default": (x().abs() + 2, x().abs() + 1),
        "aten.replication_pad3d_backward.default": (x(2, 3, 6, 6, 6), x(2, 3, 4, 4, 4), [1, 1, 1, 1, 1, 1]),
        "prims.convert_element_type.default": (x(), torch.int64),
        "aten._int_mm.default": (n(17, 40).to(torch.int8), n(40, 8).to(torch.int8)),
        "aten._grouped_mm.default": (x(3, 5, 16).bfloat16(), x(3, 16, 8).bfloat16()),
        "aten._safe_softmax.default": (x(), -1),
        "aten.convolution.default": (x(2, 3, 8, 8), x(4, 3, 3, 3), x(4), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
        "aten.view.dtype": (x(), torch.int32), "aten.squeeze_copy.dims": (x(4, 1, 5), [1]),
        "aten._reshape_alias.default": (x(), [5, 4], [4, 1]),
        "aten.slice_copy.Tensor": (x(), 0, 1, 3),
        "aten.select_copy.int": (x(), 0, 2), "aten.split_copy.Tensor": (x(), 2, 0),
        "prims.cat.default": ([x(), x()], 0), "prims.rev.default": (x(), [1]), "prims.sum.default": (x(), [1]),
        "aten._native_batch_norm_legit_functional.default":
            (x(4, 5, 3), x(5), x(5), x(5), x(5).abs() + 1, True, 0.1, 1e-5),
        "aten._batch_norm_with_update_functional.default": (x(4, 5, 3), x(5), x(5), x(5), x(5).abs() + 1, 0.1, 1e-5),
        "aten._native_batch_norm_legit.no_stats": (x(4, 5, 3), x(5), x(5), True, 0.1, 1e-5),
        "aten._native_batch_norm_legit_no_training.default":
            (x(4, 5, 3), x(5), x(5), x(5), x(5).abs() + 1, 0.1, 1e-5),
        "aten.scatter.reduce": (x(), 0, n(), x(), {"reduce": "add"}),
        "aten.scatter.value_reduce": (x(), 0, n(), 2.0, {"reduce": "multiply"}),
        "aten.bucketize.Scalar": (0.5, x(7).sort()[0]), "aten.searchsorted.Scalar": (x(7).sort()[0], 0.5),
        "aten.fill.Tensor": (x(), x(1)[0]), "aten.eye.m": (4, 7), "aten.tril_indices.default": (4, 7, 1),
        "aten.triu_indices.default": (4, 7, -1), "aten.empty_permuted.default": ([4, 0, 5], [2, 0, 1]),
        "aten.empty_strided.default": ([4, 0], [1, 4]),
        "prims.iota.default": (7, {"start": 1, "step": 2, "dtype": torch.int64, "device": torch.device("cpu"),
                                   "requires_grad": False}),
        "aten.logcumsumexp.default": (x(), 1), **resizes(x),
        "graphfuse.attention.default": (x(2, 3, 5, 4), x(2, 3, 7, 4), x(2, 3, 7, 6), None, False, None),
        "aten._scaled_dot_product_flash_attention_for_cpu.default": (x(2, 3, 5, 4), x(2, 3, 7, 4), x(2, 3, 7, 4)),
        "aten._scaled_dot_product_flash_attention_for_cpu_backward.default": (
            *(x(2, 3, 5, 4) for _ in range(5)), x(2, 3, 5), 0.0, False),
    }  # fmt: skip
    for name in ("and", "or", "xor"):
        out[f"aten.bitwise_{name}.Scalar_Tensor"] = (6, n())
        if name != "and":
            out[f"aten.bitwise_{name}.Scalar"] = (n(), 6)
    for side, short in (("left", "lshift"), ("right", "rshift")):
        out[f"aten.bitwise_{side}_shift.Tensor_Scalar"] = out[f"aten.__{short}__.Scalar"] = (n(high=99), 2)
        out[f"aten.bitwise_{side}_shift.Scalar_Tensor"] = (99, n())
        out[f"aten.__{short}__.Tensor"] = (n(high=99), n())
    for kind in (f"{how}chebyshev_polynomial_{k}" for how in ("", "shifted_") for k in "tuvw"):
        out[f"aten.special_{kind}.x_scalar"] = (0.4, n().float())
        out[f"aten.special_{kind}.n_scalar"] = (x(), 3)
    return {k: (v[:-1], v[-1]) if isinstance(v[-1], dict) else (v, {}) for k, v in out.items()}


# what is drawn


@dataclass(frozen=True)
class Case:
    """An operator, which of its samples, and the lowerings that are there for others to be reached by it."""

    op: Any
    number: int | None = None
    lowerings: tuple[str, ...] = ()

    def __str__(self):
        return f"{named(self.op)}#{'any' if self.number is None else self.number}"


@dataclass(frozen=True)
class Overload:
    """An operator of ATen that no operator of `op_db` comes to, as one of those, with one sample."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    variant_test_name = ""
    dtypes = (torch.float32,)
    supports_autograd = False

    def op(self, *args, **kwargs):
        found = torch.ops
        for part in self.name.split("."):
            found = getattr(found, part)
        return found(*args, **kwargs)

    def sample_inputs(self, *_, **__):
        first, *rest = self.args
        yield types.SimpleNamespace(
            input=first, args=tuple(rest), kwargs=self.kwargs, output_process_fn_grad=lambda x: x
        )


def named(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def every_case():
    """Cases that reach every lowering, then all other operators."""
    ops = {named(op): op for op in op_db if not any(word in op.name for word in RANDOM)}
    first = [Case(ops[k.partition("#")[0]], int(k.partition("#")[2]), tuple(v)) for k, v in REACHED.items()]
    first += [Case(Overload(k, *v), 0, (k,)) for k, v in overloads().items()]
    return [*first, *(Case(op) for name, op in ops.items() if not any(f"{name}#" in k for k in REACHED))]


def draws(leaves, rng, count):
    """Descriptions and arguments: those given, then others with one thing changed."""
    yield "as it is", leaves
    flat, spec = pytree.tree_flatten(leaves)
    places = [i for i, x in enumerate(flat) if isinstance(x, torch.Tensor) and x.dim() and not x.is_nested]
    numbers = [i for i, x in enumerate(flat) if type(x) is int and abs(x) < 64]
    for _ in range(count):
        changed = list(flat)
        if numbers and (not places or rng.random() < 0.2):
            i = rng.choice(numbers)
            changed[i] = rng.choice([flat[i] - 1, flat[i] + 1, 0, -1, 2 * flat[i], 7])
            yield f"argument {i}: {changed[i]}", pytree.tree_unflatten(changed, spec)
        elif places:
            what = _change(changed, places, rng)
            yield what, pytree.tree_unflatten(changed, spec)


def _change(flat, places, rng):
    """Change one thing about the tensors at `places`, and say what."""
    i = rng.choice(places)
    x = flat[i]
    axis = rng.randrange(x.dim())
    old = x.shape[axis]
    if x.dtype in (torch.int64, torch.int32) and x.numel() and rng.random() < 0.5:
        index = rng.choice([-1, -2, int(x.max()) + 1, int(x.max()) + 7, -int(x.max()) - 2, 10**6])
        flat[i] = x.clone()
        flat[i].view(-1)[rng.randrange(x.numel())] = index
        return f"argument {i}: an index {index}"
    if x.dim() > 1 and rng.random() < 0.2:
        other = rng.randrange(x.dim())
        flat[i] = _like(x, x.detach().transpose(axis, other).contiguous())
        return f"argument {i}: dims {axis} and {other} swapped"
    sizes = [1, 0, old - 1, old + 1, 2 * old, rng.choice(PRIMES), *(d for j in places for d in flat[j].shape)]
    new = min(max(0, rng.choice(sizes)), 128)
    together = rng.random() < 0.3
    for j in places if together else [i]:
        for a in range(flat[j].dim()):
            if (j, a) == (i, axis) or (together and flat[j].shape[a] == old):
                flat[j] = _resized(flat[j], a, new)
    return f"{'all of' if together else f'argument {i} dim {axis} of'} {old} become {new}"


def _resized(x, axis, size):
    y = x.detach()
    if x.shape[axis]:
        # what is sorted stays so
        return _like(x, y.index_select(axis, torch.arange(size) * x.shape[axis] // max(size, 1)))
    return _like(x, y.new_zeros([size if a == axis else d for a, d in enumerate(x.shape)]))


def _like(x, y):
    return y.requires_grad_(x.requires_grad)


# runs


def _between(x, low):
    """A copy of a tensor, with its strides, between pages that nobody may touch."""
    if not isinstance(x, torch.Tensor) or x.layout is not torch.strided or x.dtype not in DTYPES or not x.numel():
        return copied(x)
    room = 1 + sum((d - 1) * s for d, s in zip(x.shape, x.stride(), strict=True))
    memory = torch.from_numpy(guarded_empty((room,), np.dtype(str(x.dtype).split(".")[1]), low=low))
    if any(s == 0 and d > 1 for d, s in zip(x.shape, x.stride(), strict=True)):
        memory.copy_(x.detach().as_strided((room,), (1,)))
        return _like(x, memory.as_strided(x.shape, x.stride()))
    return _like(x, memory.as_strided(x.shape, x.stride()).copy_(x.detach()))


def _guard(low):
    """Put results of parts, and what lies between, between such pages in this process."""
    guard_runs(Patch(), low=low)
    torch_has = compiled_part.allocator(torch.device("cpu"))

    def make(size, stride, dtype):
        made = torch_has(size, stride, dtype)
        return _between(made, low)

    compiled_part.allocator = lambda _: make


def _attempt(call, leaves, trains, place=copied):
    """("ran", results) or ("refused", what was raised)."""
    try:
        return "ran", run(call, leaves, trains, place)
    except Exception as e:  # noqa: BLE001 (whatever an operator may raise)
        return "refused", f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"


def _eager(call, drawn, trains, low):
    """What eager torch makes of each, in processes of its own; ("died", how) where it ends one."""

    def place(x):
        return _between(x, low)

    made = in_child(lambda: pickle.dumps([_attempt(call, x, trains, place) for x in drawn]), CPU_SECONDS)
    if isinstance(made, bytes):
        return pickle.loads(made)
    if len(drawn) == 1:
        return [("died", made)]
    return [e for leaves in drawn for e in _eager(call, [leaves], trains, low)]


def tried(case, seed, most=DRAWS, dynamic=None):
    """Compare one sample and what is drawn of it; print what came of it, and assert that nothing differs."""
    rng, op = random.Random(seed), case.op
    dtypes = [d for d in DTYPES if d in op.dtypes]
    if not dtypes:
        return "another element"
    dtype = dtypes[0] if case.number is not None or rng.random() < 0.8 else rng.choice(dtypes)
    trains = op.supports_autograd and dtype.is_floating_point
    samples = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=trains), MOST_SAMPLES))
    if not samples:
        return "no samples"
    return compare(
        op, samples[rng.randrange(len(samples)) if case.number is None else case.number], trains, rng, most, dynamic
    )


def compare(op, sample, trains, rng, most=DRAWS, dynamic=None):
    """Compare what is drawn of a sample."""
    call = call_of(op, sample)
    drawn_dynamic, low = rng.random() < 0.7, rng.random() < 0.3
    dynamic = drawn_dynamic if dynamic is None else dynamic
    drawn = list(draws([sample.input, sample.args, sample.kwargs], rng, most))
    todo = [(*d, e) for d, e in zip(drawn, _eager(call, [leaves for _, leaves in drawn], trains, low), strict=True)]
    _guard(low)
    found, counts = [], Counter(wanted for _, _, (wanted, _) in todo)
    assert todo[0][2][0] != "refused", f"torch refuses its own sample: {todo[0][2][1]}"
    # numbers are mostly constants of a program; otherwise Dynamo makes sizes of them that may change
    torch._dynamo.config.specialize_int = rng.random() < 0.8
    fn = compiled(call, dynamic=dynamic)
    with warnings.catch_warnings(record=True) as said, recorded_graphs() as graphs:
        warnings.simplefilter("always")
        for k, (what, leaves, (wanted, results)) in enumerate(todo):
            if wanted == "died":
                continue
            print(f"{op.name}: {what}", flush=True)  # what was tried last, if this process dies  # noqa: T201
            got, made = _attempt(fn, leaves, trains, lambda x: _between(x, low))
            if got == wanted == "refused":
                continue
            message = "numbers" if got != wanted else differs(op, made, results, call, leaves, trains)
            if wanted == "ran" and got == "refused":
                message = f"refused: {made}"
            if message is None:
                continue
            if _torchs_own(call, [t for t in todo[: k + 1] if t[2][0] != "died"], op, trains, dynamic):
                counts["torch's own"] += 1
                continue
            shapes = pytree.tree_map(lambda x: list(x.shape) if isinstance(x, torch.Tensor) else x, leaves)
            eager = results if wanted == "refused" else ""
            found.append({"what": what, "shapes": str(shapes)[:400], "message": message[:700], "eager": eager})
    counts["left"] = sum(issubclass(w.category, LeftToTorch) for w in said)
    lowered = sorted({str(n.target) for g in graphs for n, k in g.cut.kinds.items() if k in (Kind.COMPUTE, Kind.VIEW)})
    whole = {"op": named(op), "dynamic": dynamic, "counts": counts, "found": found}
    left = sorted({str(w.message)[:300] for w in said if issubclass(w.category, LeftToTorch)})
    print("\n" + json.dumps(whole | {"left": left, "lowered": lowered}), flush=True)  # noqa: T201
    assert not found
    return "fits"


def _torchs_own(call, todo, op, trains, dynamic):
    """Whether `aot_eager` differs from eager torch as well."""
    torch._dynamo.reset()
    fn = torch.compile(call, backend="aot_eager", dynamic=dynamic)
    for _, leaves, _ in todo[:-1]:
        _attempt(fn, leaves, trains)
    _, leaves, (wanted, results) = todo[-1]
    got, made = _attempt(fn, leaves, trains)
    torch._dynamo.reset()
    return got != wanted or (got == "ran" and differs(op, made, results, call, leaves, trains) is not None)


def prepare():
    """Let this process compile anew, on one thread, and say nothing of what it refuses."""
    os.environ.update({"GRAPHFUSE_CACHE": "0", "GRAPHFUSE_THREADS": "1"})
    torch.set_num_threads(1)
    torch._functorch.config.enable_autograd_cache = False
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 1000
    for name in ("torch._dynamo", "torch._subclasses.fake_tensor", "torch.fx.experimental"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # what compiling anything imports and builds, children have; no gradients, whose threads a child would lack
    compiled(torch.sin, dynamic=True)(torch.ones(2))
    torch._dynamo.reset()


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.torch.fitting", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--count", default="100", help="`lowerings`: all cases that reach one")
    parser.add_argument("--draws", type=int, default=DRAWS, help="of a case")
    parser.add_argument("--here", action="store_true", help="run the cases in this process")
    parser.add_argument("--only", default="", help="cases with this in their name")
    chosen = parser.parse_args()
    prepare()
    chosen_cases = [c for c in every_case() if chosen.only in str(c)]
    every = chosen.count == "lowerings"
    count = sum(bool(c.lowerings) for c in chosen_cases) if every else int(chosen.count)
    seeds = range(chosen.seed, chosen.seed + count)
    if chosen.here:
        for seed in seeds:
            tried(chosen_cases[seed % len(chosen_cases)], seed, chosen.draws)
        return 0
    found = pooled(chosen_cases, seeds, chosen.draws, print)
    missing = sorted(set(map(str, LOWERINGS)) - found["lowered"] - UNREACHED.keys()) if every else []
    numbers = {"lowered": len(found["lowered"]), "missing": missing, "findings": len(found["findings"])}
    print(json.dumps(found | numbers))  # noqa: T201
    return 1 if found["findings"] else 0


def pooled(of, seeds, most=DRAWS, said=None):
    """What came of some seeds: of the cases, of the draws, the lowerings that were reached, and what was found."""
    outcomes, counts, lowered, findings = Counter(), Counter(), set(), []
    for seed in seeds:
        case = of[seed % len(of)]
        outcome, words, seconds = run_case(lambda s, _, case=case: tried(case, s, most), seed, CPU_SECONDS)
        outcomes[outcome] += 1
        last = next((line for line in reversed(words.split("\n")) if line.startswith('{"op"')), "{}")
        came = json.loads(last)
        counts.update(came.get("counts", {}))
        lowered.update(came.get("lowered", ()))
        if set(case.lowerings) - lowered:  # some want sizes that are known
            words = run_case(lambda s, _, case=case: tried(case, s, 0, dynamic=False), seed, CPU_SECONDS)[1]
            again = next((line for line in reversed(words.split("\n")) if line.startswith('{"op"')), "{}")
            lowered.update(json.loads(again).get("lowered", ()))
        row = {"seed": seed, "case": str(case), "outcome": outcome, "seconds": round(seconds, 1)}
        if outcome.startswith(FOUND):
            row |= {"said": came or words[-600:]}
            findings.append(row)
        if said:
            said(json.dumps(row | {k: came.get(k) for k in ("dynamic", "counts", "left", "lowered")}), flush=True)
    return {"outcomes": outcomes, "counts": counts, "lowered": lowered, "findings": findings}


if __name__ == "__main__":
    sys.exit(main())
