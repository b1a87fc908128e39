"""Kernels, layers and models that nobody named, drawn from a seed: `python -m benchmarks.population --kind kernel`.

The seed is the commit's unless `--seed` says otherwise: none is picked. Every case is drawn with its shapes
(log-uniform, with primes), layouts and elements. Each is compiled by `torch.compile` for graphfuse and Inductor, its
results (and gradients) are compared with float64, and both are timed beside eager. A ratio is the best peer's time over
ours.

On a GPU kernels and layers are timed in CUDA graphs on inputs that stay where they are, models as they are called under
mode="reduce-overhead"; training steps of models are under bf16 autocast, with a fused AdamW. Where several GPUs are
visible each has cases of its own; they are timed on cores where nothing is compiled. `bound` is the time that a
kernel's compulsory bytes or its operations take at what this GPU was measured to reach in the same run. On a CPU sides
take turns, as in `torch_cpu`. A case is a process of its own: one that dies is a row. What a slow case waits for is
listed: kernels and operators with their times, and why they are not one.

    python -m benchmarks.population --family convolution,sum      some families
    python -m benchmarks.population --device cpu --threads 1      on a CPU; --avx2 takes AVX-512 away, --lanes 8 times
                                                                  eight cases at once, each on cores of its own
    python -m benchmarks.population --seed 7 --numbers 17,102     some cases again
    python -m benchmarks.population --device cpu --one 17         a case in this process
    python -m benchmarks.population --device cpu --kind model --onnx
                                                                  inference, exported to ONNX, beside ONNX Runtime
    python -m benchmarks.population --kind layer --tune           mode="max-autotune" of both, one case after another
    python -m benchmarks.population --kind model --memory         what each side takes of a GPU's memory
    python -m benchmarks.population --device emulator             small cases on an emulated GPU, not timed
    python -m benchmarks.population --dry                         no GPU: draws, compiles for the CPU and checks
    python -m benchmarks.population --spills                      no GPU: assembles for sm_90a; kernels that spill

The emulator says what kernels touch and execute for each byte and element that has to be moved once: a cliff is seen
without a GPU, a time is not.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import json
import logging
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from itertools import islice
from pathlib import Path
from queue import Empty, Queue
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import record
from benchmarks.gpu_timing import Call, Called, Recorded, Timing, arguments, medians, race
from benchmarks.population_draw import Case, Family, drawn
from benchmarks.population_onnx import SIDES, exported, loaded
from benchmarks.population_waits import Told
from graphfuse.cli.html import is_cliff

TIMING = {"kernel": Timing(0.02, 0.05, 3), "layer": Timing(0.02, 0.05, 3), "model": Timing(0.05, 0.15, 5)}
"""Of models what Python does counts, which is less even than a kernel."""
SECONDS_FOR_A_CASE = {"kernel": 120.0, "layer": 180.0, "model": 400.0}
FOR_TIMES = 0.3
"""Of what is left, for timing one after another what was compiled side by side."""
SLOW = 0.95
"""Below this ratio a case says what it waits for."""
OURS = ("graphfuse", "untuned")
PEERS = ("graphfuse", "inductor")
"""Whose memory is compared."""
MODES = {
    (False, False): None,
    (False, True): "reduce-overhead",
    (True, False): "max-autotune-no-cudagraphs",
    (True, True): "max-autotune",
}
"""By whether kernels are tuned, and whether calls are recorded."""
TURNS = ("imported", "checked")
TIMED_ON = 3
"""Cores for each GPU on which nothing but timed calls runs, while other cases are compiled: for Python, the thread of
the backward pass, and the driver's."""
KINDS = {"kernel": "population_kernels", "layer": "population_layers", "model": "population_models"}
ROUNDS = 9
CALLS_FOR_MEMORY = 3
"""One is recorded, others are replayed."""
NOTED = ("spills", "to torch: ", "not recorded")
"""What is kept of a case's log."""


def families_of(kind: str, names: str = "") -> dict[str, Family]:
    """The families of a kind, or those that are named."""
    known: dict[str, Family] = import_module(f"benchmarks.{KINDS[kind]}").FAMILIES
    return {name: known[name] for name in names.split(",")} if names else known


def seed_of_commit() -> int:
    """A number that nobody chose."""
    commit = record.commit().partition("+")[0]
    if commit == "unknown":
        raise SystemExit("the commit is unknown here: give --seed, or BENCHMARK_COMMIT")
    return int(commit[:10], 16) % (1 << 31)  # the same, however much of it is given


class Subject:
    """A case on a device, with the same arrays and weights each time."""

    def __init__(self, case: Case, device: str, dtype: str = "") -> None:
        import torch

        torch.manual_seed(record.SEED)
        self.case, self.device, self.dtype = case, device, dtype or case.dtype
        self.mixed = "cuda" if device == "cuda" else ""
        with torch.device(device):
            self.given = [a.made(case.dtype) for a in case.arrays]
            self.module = None if case.module is None else case.module().to(getattr(torch, case.dtype))
        if dtype:
            self.given = [x.to(getattr(torch, dtype)) if x.is_floating_point() else x for x in self.given]
            self.module = None if self.module is None else self.module.to(getattr(torch, dtype))
        self.trained = [] if self.module is None else list(self.module.parameters())
        if case.training and case.module is None:
            self.given[0].requires_grad_()  # of a kernel, what it is called on
            self.trained = [self.given[0]]
        self.optimiser: Any = None
        self.called = self.module if self.module is not None else (case.exact or case.call if dtype else case.call)

    def sums(self, outs: Sequence[Any]) -> None:
        """Gradients of outputs, for gradients of outputs that are drawn once."""
        import torch

        graded = [o for o in outs if o.requires_grad]
        generator = torch.Generator(self.device).manual_seed(record.SEED + 1)  # others than what it is called on
        normal = [torch.randn(o.shape, generator=generator, device=self.device) for o in graded]
        # they lie as the outputs do, as those of a loss would
        normal = [torch.empty_like(o, dtype=torch.float32).copy_(n) for o, n in zip(graded, normal, strict=True)]
        low = getattr(torch, self.case.dtype)
        self.tangents = [n.to(low).to(o.dtype) if o.dim() else None for n, o in zip(normal, graded, strict=True)]

    def step(self, called: Callable[..., Any]) -> Call:
        """What computes the case once."""
        import torch
        from torch.utils._pytree import tree_leaves

        case = self.case
        mixed = case.trains and self.mixed and self.dtype == "float32"

        def inference() -> Any:
            with torch.no_grad():
                return tree_leaves(called(*self.given))

        def training() -> Any:
            for p in self.trained:
                p.grad = None
            with torch.autocast(self.mixed, torch.bfloat16) if mixed else nullcontext():
                outs = tree_leaves(called(*self.given))
            torch.autograd.backward([o for o in outs if o.requires_grad], self.tangents)
            if self.optimiser is not None:
                self.optimiser.step()
            return outs

        return training if case.training else inference

    def results(self, called: Callable[..., Any]) -> list[Any]:
        """Outputs that can be compared, then gradients, in float64."""
        from torch.utils._pytree import tree_leaves

        kept = self.given
        if self.case.writes:
            self.given = [x.clone() for x in kept]
        elif self.case.training:
            self.sums(tree_leaves(called(*self.given)))
        outs = [o.detach().clone() for o in self.step(called)()]
        self.given = kept
        outs = list(self.case.read(outs, [x.detach() for x in kept])) if self.case.read is not None else outs
        return [o.double() for o in (*outs, *(p.grad for p in self.trained if p.grad is not None))]

    def peak(self, called: Callable[..., Any]) -> int:
        """Bytes that calls after the first, which compiles, take on the GPU besides what was there before that."""
        import torch

        if self.case.training:
            from torch.utils._pytree import tree_leaves

            self.sums(tree_leaves(self.called(*self.given)))
        gc.collect()  # what eager's graph had kept
        before = torch.cuda.memory_allocated()
        step = _stepping(self, called)
        step()
        torch.cuda.reset_peak_memory_stats()
        for _ in range(CALLS_FOR_MEMORY):
            step()
        return torch.cuda.max_memory_allocated() - before


def assembled(case: Case) -> dict[str, Any]:
    """Kernels for an sm_90a of a case that runs nowhere, and those that spill: registers and bytes."""
    import torch
    from torch.utils._pytree import tree_leaves

    from benchmarks.emulated_torch import compiled_only

    told = Told()
    module = case.module and case.module()  # its making may look at numbers
    with compiled_only():
        subject = Subject(replace(case, module=module and (lambda: module)), "cpu")
        subject.mixed = "cpu"
        subject.tangents = [None]  # of a loss
        if case.training and not case.trains:
            subject.sums(tree_leaves(subject.called(*subject.given)))
        subject.step(torch.compile(subject.called, backend=told.backend(), dynamic=False))()
    made = [(k.name, k.launch) for part in told.parts for k in part.executable.kernels if k.launch is not None]
    spilled = [f"{name}: {x.registers} registers, {x.spill_bytes} bytes" for name, x in made if x.spill_bytes > 0]
    return {"kernels": len(made), "spills": spilled} | told.facts()


def off(
    found: Sequence[Any], exact: Sequence[Any], eager: Sequence[Any], *, whole: bool = False, mixed: bool = False
) -> float:
    """The largest error, in what is allowed: four times eager's, and a few units in the last place of a float.

    With `whole`, of norms: one element on the other side of a kink makes gradients that are right differ. `mixed`: what
    was computed in bf16 may be half its unit off, where eager's one loss happens to be nearer.
    """
    least = 2.0 ** (-9 if mixed else -12 if whole else -20)
    import torch

    worst = 0.0
    for f, x, e in zip(found, exact, eager, strict=True):
        if f.shape != x.shape:
            return math.inf
        if x.numel():
            f, x, e = (torch.nan_to_num(t, nan=1e30) for t in (f, x, e))
            size: Callable[[Any], float] = lambda t: float(t.norm() if whole else t.abs().max())  # noqa: E731
            allowed = 4 * size(e - x) + least * size(x) + 1e-30
            worst = max(worst, size(f - x) / allowed)
    return worst


def measured(case: Case, args: Any) -> dict[str, Any]:
    """Errors and times of one case, in this process."""
    if args.spills:
        return assembled(case)
    if args.memory:
        return taken(case, args)
    if args.device != "emulator":
        return _measured(case, args, [])
    from benchmarks.emulated_torch import emulated

    with emulated() as reports:
        return _measured(case, args, reports)


def taken(case: Case, args: Any) -> dict[str, Any]:
    """Memory of each side, which has a process of its own: what one keeps, another frees."""
    turn(TURNS[0], args)
    if args.memory in PEERS:
        subject = Subject(case, "cuda")
        return {"bytes": subject.peak(_compiled(subject.called, args.memory, Told(), "reduce-overhead"))}
    flags = [f"--{k}={getattr(args, k)}" for k in ("one", "seed", "kind", "family")]
    command = [sys.executable, "-m", "benchmarks.population", *flags]
    sides = {
        side: subprocess.Popen([*command, f"--memory={side}"], stdout=subprocess.PIPE, text=True) for side in PEERS
    }
    said = {side: process.communicate()[0].splitlines() for side, process in sides.items()}
    return {"memory": {side: json.loads(lines[-1])["bytes"] for side, lines in said.items() if lines}}


def _measured(case: Case, args: Any, reports: list[Any]) -> dict[str, Any]:
    """With the emulator's reports, where it is that."""
    import torch
    import torch._inductor.compile_fx
    from torch._functorch import config as functorch_config

    import graphfuse.torch  # noqa: F401 - what takes long is loaded before its turn

    turn(TURNS[0], args)
    device = "cpu" if args.dry or args.device == "emulator" else args.device
    if args.avx2:
        _without_avx512()
    logging.basicConfig()
    logging.getLogger("graphfuse.torch.aot").setLevel(logging.INFO)
    torch.set_num_threads(args.threads if device == "cpu" else torch.get_num_threads())
    if device == "cuda":
        torch.backends.cudnn.benchmark = True
    functorch_config.enable_autograd_cache = False  # its graphs tell nothing
    subject = Subject(case, device)
    wide = Subject(case, device, "float64")
    exact = wide.results(wide.called)
    del wide
    eager = subject.results(subject.called)
    nbytes = sum(x.nbytes for x in (*subject.given, *(x.to(getattr(torch, case.dtype)) for x in exact)))
    row: dict[str, Any] = {"nbytes": nbytes, "off": {}, "first_s": {}, "first_cpu_s": {}, "raised": {}}
    told, steps = Told(), {"eager": _stepping(subject, subject.called)}
    whole, mixed = case.training and case.module is not None, case.trains and bool(subject.mixed)
    sides = ("graphfuse", *([] if args.dry or args.device == "emulator" else ["inductor"]), *["untuned"] * args.tune)
    file = _exported(subject, row) if args.onnx else None
    for side in sides if not args.onnx else SIDES if file else ():
        own = Subject(case, device) if subject.module is not None else subject
        records = device == "cuda" and args.kind == "model"
        mode = MODES[args.tune and side != "untuned", records]
        begun, spent = time.perf_counter(), _processor_seconds()
        try:
            called = (
                loaded(side, file, args.threads, told)
                if file
                else _compiled(own.called, side, Told() if side == "untuned" else told, mode)
            )
            row["off"][side] = off(own.results(called), exact, eager, whole=whole, mixed=mixed)
            steps[side] = _stepping(own, called)
        except Exception as e:  # noqa: BLE001 - the others are worth measuring
            e = getattr(e, "inner_exception", e)  # of a backend
            row["raised"][side] = f"{type(e).__name__}: {str(e).strip().partition(chr(10))[0][:300]}"
        row["first_s"][side] = round(time.perf_counter() - begun, 2)
        row["first_cpu_s"][side] = round(_processor_seconds() - spent, 2)
    if args.device == "emulator" and "graphfuse" in steps:
        reports.clear()
        steps["graphfuse"]()
        from benchmarks.emulated_torch import touched

        row["touched"] = asdict(touched(reports, nbytes, case.flops)) if reports else None
    row |= told.facts()
    row["wrong"] = not row["off"].get("graphfuse", 0.0) <= 1
    if args.dry or args.device == "emulator":
        return row
    del exact, eager
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    turn(TURNS[1], args)
    if args.kept:
        for thread in Path("/proc/self/task").iterdir():
            os.sched_setaffinity(int(thread.name), _processors(args.cores))
    row["us"] = _timed(steps, args, device)
    ours = row["us"].get("graphfuse", 0.0)
    if ours > min(row["us"].values()) / SLOW:
        row["waits"] = told.waits(steps["graphfuse"], device)
    return row


def _exported(subject: Subject, row: dict[str, Any]) -> Path | None:
    folder, begun = tempfile.mkdtemp(), time.perf_counter()
    atexit.register(shutil.rmtree, folder)
    try:
        return exported(subject.module, subject.given, folder)
    except Exception as e:  # noqa: BLE001 - torch's exporter raises what it likes
        row["raised"]["export"] = f"{type(e).__name__}: {str(e).strip().partition(chr(10))[0][:300]}"
    finally:
        row["first_s"]["export"] = round(time.perf_counter() - begun, 2)
    return None


def _recorded(step: Call) -> Any:
    """In a CUDA graph, or called behind a kernel that sleeps where it cannot be recorded."""
    try:
        return Recorded(step)
    except RuntimeError:  # torch's counts copy a size from the CPU
        return Called(step, asleep=True)


def _processor_seconds() -> float:
    """Of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def _timed(steps: Mapping[str, Call], args: Any, device: str) -> dict[str, float]:
    """Microseconds of each side."""
    if device == "cpu":
        from benchmarks.torch_cpu import CLOCKS, in_turns

        return {side: 1e6 * s for side, s in medians(in_turns(steps, args.rounds, CLOCKS[args.clock])).items()}
    how: Callable[[Call], Any] = _recorded if args.kind != "model" else lambda step: Called(step, asleep=False)
    return {
        side: 1e3 * ms
        for side, ms in medians(race({s: how(step) for s, step in steps.items()}, TIMING[args.kind])).items()
    }


def _stepping(subject: Subject, called: Callable[..., Any]) -> Call:
    import torch

    if subject.case.trains and subject.optimiser is None:
        subject.optimiser = torch.optim.AdamW(subject.trained, lr=1e-6, fused=True)
    step = subject.step(called)

    def marked() -> Any:
        torch.compiler.cudagraph_mark_step_begin()
        return step()

    return marked if subject.case.trains and subject.device == "cuda" else step


def _compiled(called: Callable[..., Any], side: str, told: Told, mode: str | None) -> Callable[..., Any]:
    """By a side, in a mode of torch.compile's."""
    import torch

    how: dict[str, Any] = {"backend": "inductor", "mode": mode}
    return torch.compile(
        _copied(called), dynamic=False, **(how if side == "inductor" else {"backend": told.backend(mode)})
    )


def _copied(fn: Any) -> Any:
    from benchmarks.torch_cpu import copied

    return copied(fn) if hasattr(fn, "__code__") else fn


def _without_avx512() -> None:
    """Of graphfuse, for torch; what its variables say is torch's own."""
    import torch

    from graphfuse.llvm.host import parse_target
    from graphfuse.torch import aot, build

    def target_of(_: torch.device) -> Any:
        return parse_target(os.environ.get("GRAPHFUSE_TARGET", "cpu:x86-64-v3"))

    build.target_of = aot.target_of = target_of


def turn(name: str, args: Any) -> None:
    """Wait until it is this process's turn, if it takes turns."""
    if args.turns:
        print(name, flush=True)
        sys.stdin.readline()


def reached() -> dict[str, float]:
    """Bytes and operations of a microsecond: a large copy, a large product of halves."""
    import torch

    x = torch.empty(1 << 29, dtype=torch.uint8, device="cuda")
    a = torch.randn(8192, 8192, device="cuda").half()
    copied, multiply = Recorded(x.clone), Recorded(lambda: a @ a)
    long = Timing(0.3, 0.5, 3)
    ms = medians(race({"copy": copied, "product": multiply}, long))
    return {"bytes_per_us": 2 * x.numel() / ms["copy"] / 1e3, "flops_per_us": 2 * 8192**3 / ms["product"] / 1e3}


class Worker:
    """A case in a process of its own, which goes on when it is told to."""

    def __init__(self, number: int, args: Any, families: Mapping[str, Family], env: Mapping[str, str]) -> None:
        name, case = drawn(families, args.seed, number, args.device, inference=args.onnx)
        self.row = {"kind": args.kind, "family": name, "number": number, "case": str(case), "flops": case.flops}
        self.until, self.last, self.over = math.inf, "", False
        passed = {"one": number, "seed": args.seed, "kind": args.kind, "device": args.device, "threads": args.threads}
        passed |= {name: getattr(args, name) for name in ("clock", "rounds", "family", "cores", "kept")}
        command = [sys.executable, "-m", "benchmarks.population", *(f"--{k}={v}" for k, v in passed.items())]
        flags = ("dry", "spills", "avx2", "tune", "onnx", "memory")
        command += ["--turns", *(f"--{flag}" for flag in flags if getattr(args, flag))]
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - read when the process has ended
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=env
        )
        self.said: Queue[str] = Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith((*TURNS, "{")):
                self.said.put(line)
        self.said.put("")

    def go(self, seconds: float = 0.0) -> None:
        """To its next turn; with `seconds`, what it may take from now on."""
        assert self.process.stdin is not None
        if seconds:
            self.until = time.monotonic() + seconds
        with suppress(BrokenPipeError):
            self.process.stdin.write("\n")
            self.process.stdin.flush()

    def waited_for(self) -> bool:
        """Whether it is at its next turn; it is not when it has ended."""
        if not self.over:
            try:
                said = self.said.get(timeout=min(threading.TIMEOUT_MAX, max(0.1, self.until - time.monotonic())))
            except Empty:
                self.row["ended"] = "it took too long"
                self.process.kill()
                said = ""
            self.over, self.last = said.strip() not in TURNS, said
        return not self.over

    def ended(self) -> dict[str, Any]:
        """Its row, or how it ended."""
        while self.waited_for():
            self.go()
        said = self.last
        self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().splitlines()
        if not said.startswith("{"):
            return {"ended": f"exit {self.process.returncode}: {lines[-1:]}"} | self.row
        noted = [line.replace(f"{record.ROOT}/", "") for line in lines if any(word in line for word in NOTED)]
        return self.row | json.loads(said) | ({"noted": noted} if noted else {})


def rows_of(
    args: Any, families: Mapping[str, Family], env: Mapping[str, str], numbers: Iterator[int]
) -> Iterator[dict[str, Any]]:
    """Rows of numbered cases: some are compiled and checked side by side, then each is timed alone.

    The next are compiled meanwhile, but where they would share the cores of what is timed.
    """
    until, seconds = time.monotonic() + args.budget, SECONDS_FOR_A_CASE[args.kind]
    since, longest = time.monotonic(), seconds / 4

    def begin(some: Iterable[int]) -> list[Worker]:
        return [Worker(n, args, families, env) for n in some]

    begun = begin(islice(numbers, args.jobs))
    while begun:
        left = min((until - time.monotonic()) * (1 - FOR_TIMES), seconds)
        for worker in begun:
            if worker.waited_for():
                worker.go(left)
        ready = [worker for worker in begun if worker.waited_for()]
        now = time.monotonic()
        longest, since = max(longest, now - since), now
        more = islice(numbers, args.jobs) if now < until - longest / (1 - FOR_TIMES) else ()
        following = [] if args.device == "cpu" else begin(more)
        for worker in begun:
            if worker in ready:
                worker.go(seconds)
            yield worker.ended()
        begun = begin(more) if args.device == "cpu" else following


def rows_of_lanes(
    args: Any, families: Mapping[str, Family], lanes: Sequence[Lane], numbers: Iterator[int]
) -> Iterator[dict[str, Any]]:
    """`rows_of` in each lane, side by side: each takes the next cases when it is done."""
    rows = Queue[dict[str, Any] | None]()

    def put(lane: Lane) -> None:
        try:
            for row in rows_of(argparse.Namespace(**(vars(args) | lane.args)), families, lane.env, numbers):
                rows.put(row)
        finally:
            rows.put(None)

    for lane in lanes:
        threading.Thread(target=put, args=(lane,), daemon=True).start()
    for _ in lanes:
        yield from iter(rows.get, None)


@dataclass(frozen=True)
class Lane:
    """A GPU, or cores, that cases are timed on one after another."""

    env: Mapping[str, str]
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])


def lanes_of(args: Any, env: Mapping[str, str], gpus: Sequence[str]) -> list[Lane]:
    """A lane for each GPU; on a CPU as many as are asked for, each with cores that share none of their parts."""
    cores = whole_cores()

    def own(lanes: int, of_each: int) -> list[str]:
        return [_listed(c[0] for c in cores[i * of_each : (i + 1) * of_each]) for i in range(lanes)]

    if gpus:
        envs = [{**env, "CUDA_VISIBLE_DEVICES": gpu} for gpu in gpus]
        kept = cores[: TIMED_ON * len(gpus)]
        if 2 * len(kept) > len(cores):
            return [Lane(e) for e in envs]
        every = _listed(cpu for core in kept for cpu in core)
        return [Lane(e, {"cores": c, "kept": every}) for e, c in zip(envs, own(len(gpus), TIMED_ON), strict=True)]
    if args.lanes == 1:
        return [Lane(env)]
    if args.lanes * args.threads > len(cores):
        raise SystemExit(f"--lanes={args.lanes}: {args.threads} threads each, of {len(cores)} cores")
    return [Lane(env, {"cores": c}) for c in own(args.lanes, args.threads)]


def whole_cores() -> list[list[int]]:
    """The processors of each core that this process may use: hardware threads of a core share its units."""
    found: dict[str, list[int]] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        found.setdefault(siblings.read_text() if siblings.exists() else str(cpu), []).append(cpu)
    return list(found.values())


def _listed(processors: Iterable[int]) -> str:
    return ",".join(map(str, processors))


def _processors(listed: str) -> set[int]:
    return set(map(int, listed.split(",")))


def judged(row: dict[str, Any], peak: Mapping[str, float]) -> dict[str, Any]:
    """With its ratio to the best peer, and a kernel's bound on a GPU."""
    us = row.get("us", {})
    if "graphfuse" not in us:
        return row
    ours = us["graphfuse"]
    peers = [t for side, t in us.items() if side not in OURS]
    row |= {"ratio": us.get("onnxruntime", min(peers)) / ours, "cliff": False}
    if peak and row["kind"] == "kernel":
        bound = max(row["nbytes"] / peak["bytes_per_us"], row["flops"] / peak["flops_per_us"])
        row |= {"bound_us": bound, "to_bound": ours / bound, "cliff": is_cliff(ours, bound)}
    return row


def table(rows: Sequence[dict[str, Any]], worst: int = 10) -> str:
    """Each family's geometric mean and least; the worst and what they wait for; what is wrong, and what ended."""
    lines: list[str] = []
    timed = [r for r in rows if "ratio" in r]
    for family in [*dict.fromkeys(r["family"] for r in rows), ""]:
        ratios = [r["ratio"] for r in timed if family in ("", r["family"])]
        if not ratios:
            some = [r for r in rows if family in ("", r["family"])]
            lines.append(f"{family or 'all':17} {len(some):3} cases, not timed{_memory(some)}")
            continue
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        cliffs = sum(r["cliff"] for r in timed if family in ("", r["family"]))
        lines.append(
            f"{family or 'all':17} {len(ratios):3} cases, geomean {mean:.2f}, least {min(ratios):.2f}"
            + (f", {cliffs} cliffs" if cliffs else "")
            + _beside_inductor(r["us"] for r in timed if family in ("", r["family"]))
        )
        both = [r["us"] for r in timed if family in ("", r["family"]) and "untuned" in r["us"]]
        if both:
            gain = math.exp(sum(math.log(us["untuned"] / us["graphfuse"]) for us in both) / len(both))
            lines[-1] += f"; tuned {gain:.3f} times as fast as untuned"
    lines += _touched(rows, worst)
    if made := [r for r in rows if "spills" in r]:
        count, spilled = sum(r["kernels"] for r in made), sum(len(r["spills"]) for r in made)
        lines.append(f"{spilled} of {count} kernels spill, in {sum(bool(r['spills']) for r in made)} cases")
    for r in made:
        lines += [f"  {r['family']} {r['number']}: {r['case']}: {text}" for text in r["spills"]]
    lines.append("worst:")
    for r in sorted(timed, key=lambda r: r["ratio"])[:worst]:
        us = ", ".join(f"{side} {us:.1f}" for side, us in r["us"].items())
        bound = f"; bound {r['bound_us']:.1f}" if "bound_us" in r else ""
        lines.append(
            f"  {r['ratio']:.2f} {r['family']} {r['number']}: {r['case']}: {us}{bound} us; {r['launches']} launches"
        )
        lines += [f"       {wait}" for wait in r.get("waits", ())[:4]]
        lines += [f"       torch runs {n} {why}" for why, n in list(r["externs"].items())[:3]]
        lines += [f"       cut {n}: {why}" for why, n in list(r["cuts"].items())[:2]]
    far = sorted((r for r in timed if r["cliff"]), key=lambda r: -r["to_bound"])
    lines += [
        f"  {r['to_bound']:.1f} x its bound: {r['family']} {r['case']} ({r['us']['graphfuse']:.1f} us)"
        for r in far[:10]
    ]
    for r in rows:
        head = f"{r['family']} {r['number']}: {r['case']}"
        if r.get("wrong"):
            errors = ", ".join(f"{side} {error:.2g}" for side, error in r["off"].items())
            lines.append(f"  WRONG {head}: errors in what is allowed: {errors}")
        lines += [f"  ended {head}: {r['ended']}"] if "ended" in r else []
        lines += [f"  raised {head}: {side}: {text}" for side, text in r.get("raised", {}).items()]
        lines += [f"  noted {head}: {text}" for text in r.get("noted", ())]
    return "\n".join(lines)


def _beside_inductor(sides: Iterable[Mapping[str, float]]) -> str:
    """A ratio is the best peer's: on a CPU that is often eager, whose calls cost less than any guard."""
    found = [us["inductor"] / us["graphfuse"] for us in sides if "inductor" in us]
    return f"; Inductor {math.exp(sum(map(math.log, found)) / len(found)):.2f}, {min(found):.2f}" if found else ""


def _memory(rows: Sequence[dict[str, Any]]) -> str:
    """Ours over Inductor's, where both were measured."""
    found = [m["graphfuse"] / m["inductor"] for r in rows if len(m := r.get("memory", {})) == len(PEERS)]
    return f"; memory {math.exp(sum(map(math.log, found)) / len(found)):.2f}, most {max(found):.2f}" if found else ""


def _touched(rows: Sequence[dict[str, Any]], worst: int) -> list[str]:
    """What emulated kernels do most for the least."""
    found = sorted((r for r in rows if r.get("touched")), key=lambda r: -r["touched"]["instructions"])
    lines: list[str] = []
    for r in found[:worst] if worst < len(found) else found:
        t = r["touched"]
        head = f"{r['family']} {r['number']}: {r['case']}: {len(t['launches'])} launches"
        lines.append(f"  {t['instructions']:.0f} instructions an element, {t['bytes']:.2f} of its bytes, {head}")
        lines += [f"       {launch}" for launch in t["launches"][:4]]
    return lines


def main() -> None:
    """See the module."""
    parser = arguments(__doc__, budget=600, dry=True)
    parser.add_argument("--seed", type=int, help="the commit's, if there is none")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--numbers", default="", help="of cases, by commas, instead of the first of them")
    parser.add_argument("--kind", choices=KINDS, default="kernel")
    parser.add_argument("--device", choices=("cuda", "cpu", "emulator"), default="cuda")
    parser.add_argument("--family", default="", help="some of the kind's, by commas")
    parser.add_argument(
        "--jobs", type=int, help="cases compiled side by side (12 a GPU; on a CPU 1); each is timed alone"
    )
    parser.add_argument("--threads", type=int, default=1, help="of a CPU")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="of a CPU, as in torch_cpu")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of a CPU")
    parser.add_argument("--avx2", action="store_true", help="of a CPU: without AVX-512")
    parser.add_argument("--onnx", action="store_true", help="models on a CPU, exported to ONNX, beside ONNX Runtime")
    parser.add_argument("--tune", action="store_true", help="mode=max-autotune of both sides, beside ours untuned")
    parser.add_argument("--spills", action="store_true", help="compile and assemble for an sm_90a, without any GPU")
    parser.add_argument("--memory", nargs="?", const="all", default="", help="of models on a GPU, instead of times")
    parser.add_argument("--lanes", type=int, default=1, help="of a CPU: cases timed at once, each on cores of its own")
    parser.add_argument("--cores", default="", help="processors that the case of --one may use, by commas")
    parser.add_argument("--kept", default="", help="processors that it uses for nothing but its times, on --cores")
    parser.add_argument("--one", type=int, help="a case in this process")
    parser.add_argument("--turns", action="store_true", help="say on stdout what is done, and wait for a line on stdin")
    args = parser.parse_args()
    if args.seed is None:
        args.seed = seed_of_commit()
    if args.device == "emulator" and args.kind != "kernel":
        parser.error("the emulator is for kernels: layers and models would take hours")
    if args.onnx and (args.device, args.kind) != ("cpu", "model"):
        parser.error("ONNX Runtime stands beside models on a CPU: --onnx --kind model --device cpu")
    families = families_of(args.kind, args.family)
    if args.kept:
        os.sched_setaffinity(0, os.sched_getaffinity(0) - _processors(args.kept))
    elif args.cores:
        os.sched_setaffinity(0, _processors(args.cores))
    if args.one is not None:
        _, case = drawn(families, args.seed, args.one, args.device, inference=args.onnx)
        print(json.dumps(measured(case, args)))
        return
    is_cpu = args.dry or args.spills or args.device != "cuda"
    args.jobs = args.jobs or (1 if is_cpu or args.tune else 12)
    peak = {} if is_cpu else reached()
    gpus = [] if is_cpu else visible_gpus()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        env = _environment(args, folder, len(gpus))
        chosen = [int(n) for n in args.numbers.split(",")] if args.numbers else range(args.count)
        if args.memory:  # training steps alone: an inference's is its largest tensors'
            chosen = [n for n in chosen if drawn(families, args.seed, n, args.device)[1].trains]
        lanes = lanes_of(args, env, gpus)
        for row in rows_of_lanes(args, families, lanes, iter(chosen)):
            rows.append(judged(row, peak))
            if args.json:
                head = {"gpu": "" if is_cpu else _gpu(), "lanes": len(lanes), "threads": args.threads, **peak}
                record.write(args.json, [head, *rows], args.seed)
    missing = getattr(sys.modules.get("benchmarks.population_models"), "MISSING", ())
    print(table(rows) + f"\nnot installed: {', '.join(missing)}" * bool(missing))


def _environment(args: Any, folder: str, gpus: int) -> dict[str, str]:
    """Of a case's process, where so many GPUs have cases of their own."""
    from benchmarks.torch_cpu import ALLOCATOR

    cpu = args.device == "cpu"
    env = {**os.environ, **(ALLOCATOR if cpu else {}), "OMP_NUM_THREADS": str(args.threads if cpu else 1)}
    # 1: in the process, as cases are compiled side by side, and it is counted; tuned, it makes hundreds of kernels
    env |= {"GRAPHFUSE_CACHE": "0"} if args.onnx else {}  # the first call compiles
    env["TORCHINDUCTOR_COMPILE_THREADS"] = str((os.cpu_count() or 1) // max(1, gpus) if args.tune else 1)
    if args.avx2:
        from tools.without_avx512 import onnxruntime_without_avx512, without_avx512

        if args.onnx:
            onnxruntime_without_avx512(Path(folder))
            env["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, env.get("PYTHONPATH"))))
        compiler = Path(folder, "c++")  # Inductor's has -march=native
        compiler.write_text('#!/bin/sh\nexec c++ "$@" -march=x86-64-v3\n')
        compiler.chmod(0o755)
        env |= without_avx512() | {
            "CXX": str(compiler),
            "ONEDNN_MAX_CPU_ISA": "AVX2",
            "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        }
    return env


def visible_gpus() -> list[str]:
    """As CUDA_VISIBLE_DEVICES names them."""
    import torch

    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",") if named else [str(i) for i in range(torch.cuda.device_count())]


def _gpu() -> str:
    import torch

    return str(torch.cuda.get_device_name())


if __name__ == "__main__":
    main()
