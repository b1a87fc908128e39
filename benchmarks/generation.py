"""What `graphfuse generate` takes to begin a text and to go on with it, in a process of its own.

    python -m benchmarks.generation [--only 1b] [--device cpu] [--threads 2] [--rounds 5] [--json FILE]
    python -m benchmarks.generation --dry          a tiny one on the CPU and on the emulator, whose tokens are eager's

A folder as ONNX Runtime GenAI's builder writes it, of a decoder of benchmarks/decode.py with random weights (in f32, on
a GPU in bf16), is compiled once. Each round is a new process that loads the artifact, which the system has in memory,
and continues the tokens of a prompt, several times.

`load`: until code and weights are loaded and checked; `first`: from the prompt to its first token; `prefill`: the same
later on; `tokens_s`: tokens a second behind the first; `start`: from where the command's own code begins to the first
token, so with what it imports. Seconds, medians of the rounds. `met`: whether loading takes at most 0.3 s, and then the
first token 1.2 times the prefill.

`parts` are those of loading, and imports, which are not in it: `driver` is imported and started, `device` gets a
context, and while `weights` go there, the `plan` is read and `code` loaded. Of all threads together, and in `weights`:
files are `read`, `checks` made, memory `pinned`.

`first_parts` are those of the first token: the `state` of a sequence; for each of its calls the plan is bound (`bind`),
inputs, outputs and intermediate tensors get places (`outputs`, `place`), tensor maps and arguments are filled in
(`point`), kernels packed and launched (`launch`), and waited for (`wait`, and to `copy` what they made); and the token
is chosen (`choose`).
"""

from __future__ import annotations

import contextlib
import inspect
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import record
from benchmarks.gpu_timing import arguments, asked

if TYPE_CHECKING:
    from benchmarks.decode import Shape

# a round begins with what the command imports, so that what else is needed here is imported elsewhere
PROMPT, TOKENS, CONTEXT = 128, 32, 1024
AGAIN = 3
"""Times that a loaded model reads the prompt again; plans for its shapes are made in the first of them."""
MOST_LOAD_S, MOST_PREFILLS = 0.3, 1.2
FIGURES = ("load", "first", "prefill", "tokens_s", "start")
ARTIFACT = "model.gfx"


def written(folder: Path, shape: Shape, dtype: str) -> Any:
    """Write the folder of a model with random weights, which is returned."""
    import torch

    from benchmarks.decode import decoder
    from benchmarks.genai import save_folder

    with torch.no_grad():
        module = decoder(torch, shape, 1, CONTEXT).to({"f32": torch.float32, "bf16": torch.bfloat16}[dtype])
        save_folder(torch, module, shape, folder)
    return module


def compiled(folder: Path, device: str) -> dict[str, Any]:
    """Write the artifact of a folder into it; how long compiling took, its bytes, and which GPU there is."""
    from graphfuse import generation
    from graphfuse.knobs import scope

    start = time.perf_counter()
    with scope(cache="0"):
        model = generation.load(folder, device=device).decoder.model
    found: dict[str, Any] = {"compile_s": time.perf_counter() - start}
    model.save(folder / ARTIFACT)
    if model.device.is_gpu:
        found["gpu"] = model.session.context.info.name
    return {**found, "bytes": (folder / ARTIFACT).stat().st_size}


@contextlib.contextmanager
def timed_parts(places: Mapping[str, tuple[Any, str]], found: dict[str, float]) -> Iterator[None]:
    """Put down how long the parts take: functions, or what is done in their contexts."""

    def timed(part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def inner(*args: Any, **named: Any) -> Any:
            with watch(part):
                return call(*args, **named)

        @contextlib.contextmanager
        def around(*args: Any, **named: Any) -> Iterator[Any]:
            with watch(part), call(*args, **named) as value:
                yield value

        return around if inspect.isgeneratorfunction(inspect.unwrap(call)) else inner

    @contextlib.contextmanager
    def watch(part: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            spent.setdefault(part, []).append(time.perf_counter() - start)

    spent: dict[str, list[float]] = {}
    with contextlib.ExitStack() as stack:
        for part, (owner, name) in places.items():
            stack.enter_context(patch.object(owner, name, timed(part, getattr(owner, name))))
        yield
    found |= {part: sum(seconds) for part, seconds in spent.items()}


def places_of(device: str) -> dict[str, tuple[Any, str]]:
    """What the parts of loading are: functions of modules."""
    from graphfuse import compiled_model
    from graphfuse.generation import folder
    from graphfuse.runtime import bound, gfx, session, weights

    both = {"file": (gfx, "load"), "tokenizer": (folder, "FileTokenizer"), "checks": (weights.Sums, "put")}
    if device == "cpu":
        return {**both, "code": (session, "NativeCode"), "weights": (bound, "read_all")}
    from graphfuse.runtime.gpu import context, memory
    from graphfuse.runtime.gpu import session as gpu

    return {
        **both,
        "driver": (compiled_model, "driver_of"),
        "device": (gpu, "context_of"),
        "weights": (gpu, "uploading"),
        "plan": (gpu, "Template"),
        "code": (context.Context, "functions"),
        "read": (weights.OpenFile, "fill"),
        "pinned": (memory.Pinned, "room"),
    }


def places_of_first(device: str) -> dict[str, tuple[Any, str]]:
    """The same of the first token."""
    from graphfuse.generation import decoder, generator

    both = {"state": (decoder, "Session"), "choose": (generator, "choose")}
    if device == "cpu":
        return both
    from graphfuse.runtime.gpu import arrays, launches
    from graphfuse.runtime.gpu import session as gpu

    return {
        **both,
        "bind": (gpu.GpuSession, "_bind"),
        "place": (gpu.GpuSession, "_place"),
        "outputs": (gpu, "make_outputs"),
        "point": (launches.Launches, "point"),
        "launch": (launches.Launches, "run_all"),
        "wait": (gpu.GpuSession, "_finish"),
        "copy": (arrays.DeviceArray, "numpy"),
    }


def run(artifact: Path, device: str, threads: int, prompt: int = PROMPT, tokens: int = TOKENS) -> dict[str, Any]:
    """A round: a row's figures, and the tokens."""
    start = time.perf_counter()
    if device == "cuda":
        from graphfuse.runtime.cuda.early import begin_context

        begin_context(0)
    import numpy as np

    from graphfuse import generation
    from graphfuse.knobs import scope

    parts, of_first = dict[str, float](), dict[str, float]()
    with timed_parts(places_of(device), parts), scope(weights="mapped"):  # as the command does
        parts["import"] = (begin := time.perf_counter()) - start
        generator = generation.load(artifact, device=device, threads=threads or None)
        row: dict[str, Any] = {"load": time.perf_counter() - begin, "parts": parts, "first_parts": of_first}
    ids = np.random.default_rng(record.SEED).integers(0, generator.decoder.vocabulary, prompt).tolist()
    times, made, places = list[list[float]](), list[int](), places_of_first(device)
    for _ in range(1 + AGAIN):
        made.clear()
        with timed_parts({} if times else places, of_first):
            times.append([time.perf_counter()])
            pieces = generator.stream([ids], max_new_tokens=tokens)
            made.append(next(pieces).token)
            times[-1].append(time.perf_counter())
        row.setdefault("start", times[-1][1] - start)
        for piece in pieces:
            times[-1].append(time.perf_counter())
            made.append(piece.token)
    firsts, rates = [t[1] - t[0] for t in times], [(len(t) - 2) / (t[-1] - t[1]) for t in times]
    row |= {"first": firsts[0], "prefill": statistics.median(firsts[2:]), "tokens_s": statistics.median(rates[2:])}
    return {**row, "prompt": ids, "tokens": made}


def measure(name: str, device: str, dtype: str, threads: int, rounds: int, budget: float) -> dict[str, Any]:
    """A row: medians of rounds, which are processes."""
    from benchmarks.torch_gpu import in_a_process

    row: dict[str, Any] = {"model": name, "device": device, "dtype": dtype, "threads": threads, "notes": []}
    deadline = time.perf_counter() + budget
    with tempfile.TemporaryDirectory() as folder:

        def worker(what: str) -> dict[str, Any]:
            given = ["--device", device, "--dtype", dtype, "--threads", str(threads), "--only", name]
            left = deadline - time.perf_counter()
            return in_a_process(["benchmarks.generation", "--worker", what, folder, *given], {}, max(left, 1))

        for what in ("write", "compile"):
            row |= (found := worker(what))
            if found.get("notes"):
                return row
        file = Path(folder, ARTIFACT)
        with file.open("rb") as opened:  # then it is in memory
            while opened.read(1 << 24):
                pass
        found = [worker("run") for _ in range(rounds)]
    row["notes"] = [note for one in found for note in one.get("notes", ())]
    return row | summary([one for one in found if "load" in one])


def work(what: str, folder: Path, names: list[str], device: str, dtype: str, threads: int) -> dict[str, Any]:
    """What a process of its own does."""
    if what == "run":
        return run(folder / ARTIFACT, device, threads)
    if what == "compile":
        return compiled(folder, device)
    from benchmarks.decode import SHAPES

    written(folder, SHAPES[names[0]], dtype)
    return {}


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians, and what of them is fast enough."""
    if not found:
        return {}
    row: dict[str, Any] = {key: statistics.median(f[key] for f in found) for key in FIGURES}
    for parts in ("parts", "first_parts"):
        row[parts] = {part: statistics.median(f[parts][part] for f in found) for part in found[0][parts]}
    met = {"load": row["load"] <= MOST_LOAD_S, "first": row["first"] <= MOST_PREFILLS * row["prefill"]}
    return {**row, "met": met, "rounds": len(found)}


def report(row: Mapping[str, Any]) -> str:
    """One line, and what went wrong."""
    text = f"{row['model']} {row['dtype']} on {row['device']}:"
    for part in FIGURES:
        text += f" {part} {row[part]:.3f}" * (part in row)
    text += " missed " + (", ".join(bar for bar, met in row.get("met", {}).items() if not met) or "nothing")
    for parts in ("parts", "first_parts"):
        shown = (f"{part} {seconds:.4f}" for part, seconds in row.get(parts, {}).items())
        text += f"\n    {parts.replace('_', ' ')}: {', '.join(shown)}"
    return text + "".join(f"\n    {note}" for note in row["notes"])


def is_eager(device: str) -> bool:
    """Whether the tokens of a tiny one are eager's."""
    import torch

    from benchmarks.decode import SMALL

    shape = replace(SMALL, layers=1, tied=False)  # a tied one says one word
    with tempfile.TemporaryDirectory() as folder:
        module = written(Path(folder), shape, "f32")
        row = {"model": "small", "dtype": "f32", "device": device, "notes": [], **compiled(Path(folder), device)}
        found = run(Path(folder, ARTIFACT), device, 1, prompt=5, tokens=4)
    print(report(row | summary([found])))
    tokens, prompt = found["tokens"], found["prompt"]
    logits = [module(torch.tensor([[word]]), torch.tensor([at])) for at, word in enumerate([*prompt, *tokens[:-1]])]
    return len(set(tokens)) > 1 and tokens == [int(x.argmax()) for x in logits[len(prompt) - 1 :]]


def main() -> int:
    """Every row."""
    parser = arguments(__doc__, budget=900, dry=True)
    parser.add_argument("--device", default="cpu", help="cpu, cuda or emulator")
    parser.add_argument("--dtype", default="", choices=("", "f32", "bf16"), help="of weights")
    parser.add_argument("--threads", type=int, default=0, help="of the CPU; all cores")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--worker", nargs=2, metavar=("WHAT", "FOLDER"))
    args = parser.parse_args()
    if args.dry:
        return 0 if is_eager("cpu") and is_eager("emulator") else 1
    dtype = args.dtype or ("f32" if args.device == "cpu" else "bf16")
    if args.worker:
        print(json.dumps(work(args.worker[0], Path(args.worker[1]), args.only, args.device, dtype, args.threads)))
        return 0
    from benchmarks.decode import SHAPES

    names = [name for name in SHAPES if asked(name, args.only or ["1b"])]
    made = (measure(name, args.device, dtype, args.threads, args.rounds, args.budget) for name in names)
    record.collect(made, report, args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
