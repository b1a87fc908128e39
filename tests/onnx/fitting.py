"""Every operator with dims that fit and dims that do not, beside ONNX Runtime, each in a process of its own.

The dims of a sample's inputs become names of their own, and sizes are drawn: one dim, or all of one size, gets longer,
shorter or 1. Inputs, outputs and intermediate tensors lie between pages that nobody may touch. A model that ONNX
Runtime does not run is judged by its import with those sizes as constants.

`python -m tests.onnx.fitting [--seed 0] [--tests 5] [operator...]` prints what differs, a JSON object per line, and
what was tried.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import pickle
import resource
import signal
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto

import graphfuse
from graphfuse.errors import GraphfuseError
from graphfuse.frontends.onnx import import_model
from graphfuse.interp.graph import run as interpret
from graphfuse.value_checks import FINE
from tests.guarded import guard_runs, guarded
from tests.onnx.fitting_explained import explained
from tests.onnx.fitting_samples import Feed, Sample, samples

Places = list[tuple[str, int]]
"""Dims with a name: of which input, and which."""

TESTS = 6
"""Samples of an operator that a run draws."""
DRAWS = 16


def symbolic(sample: Sample, named: Places) -> ModelProto:
    """The model with a name for each of these dims."""
    model = ModelProto()
    model.CopyFrom(sample.model)
    for info in model.graph.input:
        for axis, d in enumerate(info.type.tensor_type.shape.dim):
            if (info.name, axis) in named:
                d.dim_param = f"{info.name}_{axis}"
    return model


def empty_dims(feed: Feed) -> dict[str, tuple[int, int]]:
    """Ranges for the names of dims that are 0 in a sample."""
    return {f"{n}_{i}": (0, 64) for n, a in feed.items() for i, d in enumerate(a.shape) if d == 0}


def names(sample: Sample) -> Places:
    """As many dims as may have names together: some must be known when a model is compiled."""
    every = [(n, i) for n, a in sample.feed.items() for i in range(a.ndim)]

    def fits(places: Places) -> bool:
        try:
            import_model(symbolic(sample, places), dims=empty_dims(sample.feed))
        except GraphfuseError:
            return False
        return True

    if fits(every) or not fits([]):  # or Python executes it
        return every
    kept: Places = []
    for place in every:
        kept += [place] if fits([*kept, place]) else []
    return kept or every


def draws(feed: Feed, places: Places, count: int, rng: np.random.Generator) -> Iterator[Feed]:
    """The feed itself, then others: one dim of another size, or all that are of one size."""
    yield feed
    for _ in range(count):
        name, axis = places[rng.integers(len(places))]
        old = feed[name].shape[axis]
        new = int(rng.choice([1, 1, old + 1, old - 1, 2 * old, old + 3]))
        if new < 1 or new == old or new > 64:
            continue
        together = rng.integers(3) == 0
        changed = [p for p in places if (together and feed[p[0]].shape[p[1]] == old) or p == (name, axis)]
        yield {
            n: np.resize(a, tuple(new if (n, i) in changed else d for i, d in enumerate(a.shape)))
            for n, a in feed.items()
        }


# runs


def in_child(work: Callable[[], Any], seconds: int = 120) -> Any:
    """What `work` returns, made in a forked process; the name of the signal that killed it."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            with os.fdopen(write, "wb") as pipe:
                pickle.dump(work(), pipe)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return pickle.loads(data) if data else "nothing"


def judged(model: ModelProto, feeds: Sequence[Feed]) -> Any:
    """What ONNX Runtime makes of each feed: arrays, or None where it refuses. A text if it does not know the model."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    except Exception as e:  # noqa: BLE001 - whatever it is, it is no judge
        return str(e)[:200]
    out: list[Any] = []
    for feed in feeds:
        out.append(None)
        with contextlib.suppress(Exception):
            out[-1] = session.run(None, dict(feed))
    return out


def by_definition(sample: Sample, feeds: Sequence[Feed]) -> Any:
    """What the import for exactly these dims makes of each feed, interpreted: arrays, or None where it refuses."""
    out: list[Any] = []
    for feed in feeds:
        model = symbolic(sample, [])
        for info in model.graph.input:
            for d, size in zip(info.type.tensor_type.shape.dim, feed[info.name].shape, strict=True):
                d.dim_value = size
        out.append(None)
        with contextlib.suppress(GraphfuseError):
            func = import_model(model)
            results = interpret(func, *(feed[str(n)] for n in func.attrs["inputs"]))
            count = len(func.attrs["outputs"])
            if all((report == FINE).all() for report in results[count:]):
                out[-1] = results[:count]
    return out


def compiled(model: ModelProto, feeds: Sequence[Feed]) -> Any:
    """What graphfuse makes of each feed: arrays, or the text of its error. A text if it does not compile the model."""
    guard_runs(pytest.MonkeyPatch())
    try:
        run = graphfuse.compile(model, dims=empty_dims(feeds[0]))
    except GraphfuseError as e:
        return f"{type(e).__name__}: {e.message}"
    out: list[Any] = []
    for feed in feeds:
        try:
            out.append(list(run({n: guarded(a) for n, a in feed.items()}).values()))
        except GraphfuseError as e:
            out.append(f"{type(e).__name__}: {e.message}")
        except Exception as e:  # noqa: BLE001 - it is what we look for
            out.append(f"BUG {type(e).__name__}: {e}")
    return out


def verdicts(sample: Sample, model: ModelProto, feeds: Sequence[Feed]) -> Any:
    """By ONNX Runtime, a feed it dies of being one it refuses; by definition if it does not run the sample."""
    want = in_child(lambda: judged(model, feeds))
    if isinstance(want, str) and want.startswith("SIG"):
        each = [in_child(lambda f=feed: judged(model, [f])) for feed in feeds]
        want = [None if isinstance(w, str) else w[0] for w in each]
    if isinstance(want, str) or want[0] is None:
        return in_child(lambda: by_definition(sample, feeds))
    return want


def differences(sample: Sample, count: int = DRAWS, seed: int = 0) -> Iterator[dict[str, Any]]:
    """What differs for one sample; its first entry says how many feeds there were."""
    rng = np.random.default_rng([seed, zlib.crc32(sample.name.encode())])
    what = {"test": sample.name, "op": sample.op}
    places = in_child(lambda: names(sample))
    if not isinstance(places, list):
        yield what | {"what": "died", "found": places}
        return
    if not places:
        yield what | {"what": "no names"}
        return
    model, feeds = symbolic(sample, places), list(draws(sample.feed, places, count, rng))
    found = in_child(lambda: compiled(model, feeds))
    if isinstance(found, str):
        died = found.startswith("SIG") or found == "nothing"
        yield what | {"what": "died" if died else "not compiled", "found": found}
        return
    want = verdicts(sample, model, feeds)
    if not isinstance(want, list) or want[0] is None:
        yield what | {"what": "not judged", "found": str(want)}
        return
    valid = sum(w is not None for w in want)
    refused = sum(w is None and isinstance(f, str) for w, f in zip(want, found, strict=True))
    yield what | {"what": "tried", "feeds": len(feeds), "valid": valid, "refused": refused, "named": len(places)}
    for feed, w, f in zip(feeds, want, found, strict=True):
        if difference := _difference(w, f):
            shapes = {n: list(a.shape) for n, a in feed.items()}
            why = explained(sample, feed, difference)
            yield what | {"what": difference, "shapes": shapes, "found": f if isinstance(f, str) else "", "why": why}


def _difference(want: Any, found: Any) -> str:
    if isinstance(found, str):
        return "bug" if found.startswith("BUG") else "refused" if want is not None else ""
    if want is None:
        return "numbers"
    for w, f in zip(_tensors(want), _tensors(found), strict=True):
        if w.shape != f.shape:
            return "shape"
        if w.dtype == np.uint8 and f.dtype.itemsize == 1:  # ONNX Runtime returns the bits of floats of a byte
            w = w.view(f.dtype)
        step = 1.0 if w.dtype in (np.int8, np.uint8) else 1e-2  # a sum may be rounded to the next byte
        if w.dtype.kind in "fiubV" and not np.allclose(
            w.astype(np.float64), f.astype(np.float64), rtol=2e-2, atol=step, equal_nan=True
        ):
            return "values"
    return ""


def _tensors(outputs: Sequence[Any]) -> list[Any]:
    """The tensors of outputs that may be sequences."""
    return [np.asarray(t) for o in outputs if o is not None for t in (o if isinstance(o, list) else [o])]


# sweeps


def drawn(wanted: Sequence[str], tests: int, seed: int) -> list[Sample]:
    """So many samples of each operator, of these or of all."""
    by_op: dict[str, list[Sample]] = {}
    for s in samples():
        if not wanted or s.op in wanted:
            by_op.setdefault(s.op, []).append(s)
    rng = np.random.default_rng(seed)
    return [group[i] for group in by_op.values() for i in sorted(rng.permutation(len(group))[:tests])]


def warm() -> None:
    """Load what compiling needs, so that each forked process has it."""
    import onnxruntime  # noqa: F401

    for op in ("MatMul", "Softmax", "ScatterND"):
        graphfuse.compile(next(s for s in samples(long=False) if s.op == op).model)


def sweep(chosen: Sequence[Sample], count: int = DRAWS, seed: int = 0) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What was tried, and what differs and is not explained."""
    warm()
    totals: collections.Counter[str] = collections.Counter()
    operators: set[str] = set()
    reasons: dict[str, collections.Counter[str]] = {}
    others: dict[str, list[str]] = {"not compiled": [], "not judged": [], "no names": []}
    found: list[dict[str, Any]] = []
    for sample in chosen:
        for row in differences(sample, count, seed):
            if row["what"] == "tried":
                operators.add(row["op"])
                totals.update(samples=1, feeds=row["feeds"], valid=row["valid"], refused=row["refused"])
            elif row["what"] in others:
                others[row["what"]].append(f"{row['test']} {row.get('found', '')}")
            elif row.get("why"):
                reasons.setdefault(row["op"], collections.Counter())[row["what"]] += 1
            else:
                found.append(row)
                print(json.dumps(row), file=sys.stderr, flush=True)  # noqa: T201
    return {"operators": len(operators), **totals, "explained": reasons, **others}, found


def main() -> None:
    """Print what differs for the operators named on the command line, or for all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tests", type=int, default=TESTS, help="samples of an operator")
    parser.add_argument("--draws", type=int, default=DRAWS, help="feeds of a sample")
    args = parser.parse_args()
    begun = time.monotonic()
    tried, found = sweep(drawn(args.operators, args.tests, args.seed), args.draws, args.seed)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = round(sum(u.ru_utime + u.ru_stime for u in used))
    tried |= {"differences": len(found), "seconds": round(time.monotonic() - begun), "cpu_seconds": cpu}
    print(json.dumps(tried, indent=1))  # noqa: T201


if __name__ == "__main__":
    main()
