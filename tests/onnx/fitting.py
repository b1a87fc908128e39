"""Every operator with dims that fit and dims that do not, beside ONNX Runtime, each in a process of its own.

ONNX's node tests give valid inputs for each operator. Their dims become names of their own, and sizes are drawn: one
dim, or all of one size, gets longer, shorter or 1. Inputs, outputs and intermediate tensors lie between pages that
nobody may touch. `python -m tests.onnx.fitting [operator...]` prints what differs, a JSON object per line.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import mmap
import os
import pickle
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper

Array = np.ndarray[Any, Any]
Feed = dict[str, Array]
Places = list[tuple[str, int]]
"""Dims with a name: of which input, and which."""

DRAWS = 10
BY_VALUE = frozenset({"Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND", "Scatter", "OneHot"})
"""Operators whose small integers are data; those of others decide shapes, and are constants here."""
RANDOM = frozenset({"Dropout", "Bernoulli", "RandomNormalLike", "RandomUniformLike", "Multinomial"})
STANDARD = {
    "Squeeze": "without axes it drops the dims that are 1: another rank for other sizes",
}
"""Where the two differ and the standard decides, or the rank of the result would."""


# memory between pages that nobody may touch

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def guarded_bytes(nbytes: int, align: int = 1) -> Array:
    """New memory that ends, up to its alignment, where a forbidden page begins, and has one before it."""
    page = mmap.PAGESIZE
    room = -(-max(nbytes, 1) // page) * page
    at = _libc.mmap(None, room + 2 * page, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    assert _libc.mprotect(at, page, 0) == _libc.mprotect(at + page + room, page, 0) == 0
    start = (at + page + room - nbytes) // align * align
    if nbytes == 0:
        return np.empty(0, np.uint8)
    return np.frombuffer((ctypes.c_char * nbytes).from_address(start), np.uint8)


def guarded(array: Array) -> Array:
    """A copy of an array between such pages."""
    out = guarded_bytes(array.nbytes, array.itemsize).view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


def guard_the_runtime() -> None:
    """Let outputs and intermediate tensors of this process lie between such pages."""
    from graphfuse.runtime import session, workspace

    def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        nbytes = int(np.prod(shape)) * dtype.itemsize
        return guarded_bytes(nbytes, dtype.itemsize).view(dtype).reshape(shape)

    session._aligned_empty = empty
    workspace.aligned_bytes = lambda nbytes: guarded_bytes(nbytes, workspace.ALIGN)


# models


def node_cases(modules: Sequence[str] | None = None) -> list[Any]:
    """ONNX's node tests of one node each, of these modules or of all."""
    package = "onnx.backend.test.case.node"
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if modules is None:
            from onnx.backend.test.case.node import collect_testcases
            from onnx.backend.test.loader import load_model_tests  # noqa: F401 - imports what the package needs

            found = collect_testcases(None)
        else:
            for m in modules:
                importlib.import_module(f"{package}.{m}")
            found = importlib.import_module(package)._NodeTestCases
    return [c for c in found if len(c.model.graph.node) == 1 and not c.name.endswith("_expanded") and c.data_sets]


def symbolic(case: Any, which: Callable[[int, int], bool]) -> tuple[ModelProto, Feed, Places] | None:
    """A test's model with a name for each dim of `which` (input, axis), what to feed it, and where the names are.

    None if inputs are no tensors of numbers.
    """
    model, (inputs, _) = ModelProto(), next(iter(case.data_sets))
    model.CopyFrom(case.model)
    graph, (node,) = model.graph, case.model.graph.node
    feed: Feed = {}
    places: Places = []
    for i, (info, value) in enumerate(zip(list(graph.input), inputs, strict=False)):
        array = numpy_helper.to_array(value) if isinstance(value, TensorProto) else value
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
            return None
        few = array.ndim <= 1 and array.size <= 16
        decides = few and i > 0 and array.dtype.kind in "iu" and node.op_type not in BY_VALUE
        if decides or (i > 0 and node.op_type in ("Resize", "Upsample")):
            graph.initializer.append(numpy_helper.from_array(array, info.name))
            graph.input.remove(info)
            continue
        feed[info.name] = array
        for axis, d in enumerate(info.type.tensor_type.shape.dim):
            if which(i, axis):
                d.dim_param = f"{info.name}_{axis}"
                places.append((info.name, axis))
    for out in graph.output:
        if out.type.HasField("tensor_type"):
            out.type.tensor_type.ClearField("shape")
    return (model, feed, places) if places else None


WHICH: tuple[Callable[[int, int], bool], ...] = (
    lambda _i, _axis: True,
    lambda i, _: i == 0,
    lambda i, axis: axis == 0 or (i, axis) == (0, 1),
    lambda _, axis: axis == 0,
)
"""Which dims get names: some operators need others to be known when they are compiled."""


def draws(feed: Feed, places: Places, count: int, seed: int) -> Iterator[Feed]:
    """The feed itself, then others: one dim of another size, or all that are of one size."""
    yield feed
    rng = np.random.default_rng(seed)
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


def compiled(model: ModelProto, feeds: Sequence[Feed]) -> Any:
    """What graphfuse makes of each feed: arrays, or the text of its error. A text if it does not compile the model."""
    import graphfuse

    guard_the_runtime()
    try:
        empty = {f"{n}_{i}": (0, 64) for n, a in feeds[0].items() for i, d in enumerate(a.shape) if d == 0}
        run = graphfuse.compile(model, dims=empty)
    except graphfuse.errors.GraphfuseError as e:
        return f"{type(e).__name__}: {e.message}"
    out: list[Any] = []
    for feed in feeds:
        try:
            out.append(list(run({n: guarded(a) for n, a in feed.items()}).values()))
        except graphfuse.errors.GraphfuseError as e:
            out.append(f"{type(e).__name__}: {e.message}")
        except Exception as e:  # noqa: BLE001 - it is what we look for
            out.append(f"BUG {type(e).__name__}: {e}")
    return out


def differences(case: Any, count: int = DRAWS, seed: int = 0) -> Iterator[dict[str, Any]]:
    """What differs for one node test; its first entry says how many feeds there were."""
    op = case.model.graph.node[0].op_type
    feeds: list[Feed] = []
    want: Any = None
    found: Any = None
    for which in WHICH:
        made = symbolic(case, which)
        if made is None or op in RANDOM:
            return
        model, feed, places = made
        feeds = list(draws(feed, places, count, seed))
        found = in_child(lambda model=model, feeds=feeds: compiled(model, feeds))
        if isinstance(found, list) or found.startswith("SIG"):
            want = in_child(lambda model=model, feeds=feeds: judged(model, feeds))
            break
    if not isinstance(found, str) and (not isinstance(want, list) or want[0] is None):
        return
    if isinstance(found, str):
        if found.startswith("SIG") or found == "nothing":
            yield {"test": case.name, "op": op, "what": "died", "found": found}
        else:
            yield {"test": case.name, "op": op, "what": "not compiled", "found": found}
        return
    yield {"test": case.name, "op": op, "what": "tried", "feeds": len(feeds), "valid": sum(w is not None for w in want)}
    for feed, w, f in zip(feeds, want, found, strict=True):
        shapes = {n: list(a.shape) for n, a in feed.items()}
        if (what := _difference(w, f)) and op not in STANDARD:
            yield {
                "test": case.name,
                "op": op,
                "what": what,
                "shapes": shapes,
                "found": f if isinstance(f, str) else "",
            }


def _difference(want: Any, found: Any) -> str:
    if isinstance(found, str):
        return "bug" if found.startswith("BUG") else "refused" if want is not None else ""
    if want is None:
        return "numbers"
    for w, f in zip(want, found, strict=False):
        w, f = np.asarray(w), np.asarray(f)
        if w.shape != f.shape:
            return f"shape {f.shape} for {w.shape}"
        if w.dtype.kind in "fiub" and not np.allclose(
            w.astype(np.float64), f.astype(np.float64), rtol=2e-2, atol=1e-2, equal_nan=True
        ):
            return "values"
    return ""


def main() -> None:
    """Print what differs for the operators named on the command line, or for all."""
    wanted = set(sys.argv[1:])
    per_op = int(os.environ.get("PER_OP", "3"))
    seen: dict[str, int] = {}
    for case in node_cases():
        op = case.model.graph.node[0].op_type
        seen[op] = seen.get(op, 0) + 1
        if (wanted and op not in wanted) or seen[op] > per_op:
            continue
        for row in differences(case):
            print(json.dumps(row), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
