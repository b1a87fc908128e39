"""torch's own operator samples (op_db) through `torch.compile(backend="graphfuse")` on the CPU, beside eager torch.

    python -m benchmarks.torch_opinfo [--dtypes float32,int64] [--samples 2] [--only sum,nn.functional] [--shard 0/4]
    python -m benchmarks.torch_opinfo --core        core ATen operators that have no lowering

Forward, and backward of what is differentiable. Results are as close as torch's tests ask, or as a result that was
computed in f64 allows: an error of at most twice eager's. Outputs are also compared with what torch was promised of
them (`options={"check": True}`). Samples that fail with `backend="aot_eager"` too, or in eager torch, do not count.
An operator that crashes or hangs costs its own case: each worker process answers one case at a time.

Needs torch with its test helpers: `pip install expecttest scipy`.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import select
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import record

DTYPES = ("float32", "int64", "bool", "float16", "bfloat16")
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Case:
    """One operator, as one of its variants, in one element type."""

    number: int
    op: str
    dtype: str


@dataclass
class Answer:
    """What a worker said about a case, or why it said nothing."""

    case: Case
    seconds: float
    result: dict[str, Any] = field(default_factory=dict[str, Any])


def cases(dtypes: list[str], only: list[str], shard: str) -> list[Case]:
    """The cases of this run."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    out: list[Case] = []
    for number, op in enumerate(op_db):
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        if only and not any(name == o or name.startswith(o) for o in only):
            continue
        out += [Case(number, name, d) for d in dtypes if getattr(torch, d) in op.dtypes]
    index, _, parts = shard.partition("/")
    return out[int(index) :: int(parts)]


class Worker:
    """A process that answers cases; started anew after one that it does not survive."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.process: subprocess.Popen[str] | None = None

    def ask(self, case: Case) -> Answer:
        """The answer to a case, within its time."""
        process = self.process or self._start()
        start = time.monotonic()
        assert process.stdin is not None
        try:
            process.stdin.write(f"{case.number} {case.dtype}\n")
            process.stdin.flush()
            line = self._line(self.args.limit)
        except BrokenPipeError:
            line = ""
        seconds = time.monotonic() - start
        if line:
            return Answer(case, seconds, json.loads(line))
        late = process.poll() is None and line is None
        self.stop()
        return Answer(case, seconds, {"error": f"no answer in {self.args.limit} s" if late else "the process died"})

    def _start(self) -> subprocess.Popen[str]:
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        env = {**os.environ, "GRAPHFUSE_CACHE": "0", "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
        command = [sys.executable, "-m", "benchmarks.opinfo_worker", str(self.args.samples)]
        command.append("dynamic" if self.args.dynamic else "static")
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        if not (self._line(300) or "").startswith("ready"):
            raise RuntimeError(f"a worker does not start: {' '.join(command)}")
        return self.process

    def _line(self, seconds: float) -> str | None:
        """The next line of output: empty when the process is gone, None when it takes too long."""
        assert self.process is not None
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            return None
        return self.process.stdout.readline()

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def sweep(todo: list[Case], args: argparse.Namespace) -> list[Answer]:
    """The answers to all cases."""
    waiting: queue.SimpleQueue[Case] = queue.SimpleQueue()
    for case in todo:
        waiting.put(case)
    answers: list[Answer] = []
    start = time.monotonic()

    def work() -> None:
        worker = Worker(args)
        while True:
            try:
                case = waiting.get_nowait()
            except queue.Empty:
                return worker.stop()
            answers.append(answer := worker.ask(case))
            _show(answer, len(answers), len(todo), time.monotonic() - start)

    with ThreadPoolExecutor(args.jobs) as pool:
        for done in [pool.submit(work) for _ in range(args.jobs)]:
            done.result()
    return answers


def _show(answer: Answer, done: int, of: int, seconds: float) -> None:
    case, result = answer.case, answer.result
    for failure in failures(answer):
        print(f"FAILED {case.op} {case.dtype} sample {failure['sample']}: {failure['message'][:300]}", flush=True)
    if done % 25 == 0 or done == of or "error" in result:
        print(f"[{done}/{of}] {seconds:.0f} s, {case.op} {case.dtype}", flush=True)


def failures(answer: Answer) -> list[dict[str, Any]]:
    """What failed in a case."""
    if "error" in answer.result:
        return [{"sample": None, "message": answer.result["error"]}]
    return answer.result["failures"]


def summary(answers: list[Answer]) -> dict[str, Any]:
    """Counts by element type; every failure; what was left to torch, and how often."""
    by_dtype: dict[str, dict[str, Any]] = {}
    externs: Counter[tuple[str, str]] = Counter()
    failed: list[dict[str, Any]] = []
    with_externs: dict[str, list[str]] = {}
    for answer in sorted(answers, key=lambda a: (a.case.number, a.case.dtype)):
        case, result = answer.case, answer.result
        count = by_dtype.setdefault(
            case.dtype,
            dict.fromkeys(("ops", "samples_passed", "samples_failed", "samples_excluded", "ops_failed",
                           "ops_with_externs", "nodes_compiled", "nodes_extern"), 0),
        )  # fmt: skip
        found = failures(answer)
        failed += [{"op": case.op, "dtype": case.dtype, **f} for f in found]
        count["ops"] += 1
        count["samples_failed"] += len(found)
        count["ops_failed"] += bool(found)
        count["samples_passed"] += result.get("passed", 0)
        count["samples_excluded"] += result.get("excluded", 0)
        count["nodes_compiled"] += result.get("nodes", {}).get("compiled", 0)
        count["nodes_extern"] += result.get("nodes", {}).get("extern", 0)
        count["ops_with_externs"] += bool(result.get("externs"))
        externs.update(tuple(e) for e in result.get("externs", []))
        if result.get("externs"):
            left = with_externs.setdefault(case.op, [])
            left += [op for op, _ in result["externs"] if op not in left]
    ops = {a.case.op for a in answers}
    return {
        "dtypes": by_dtype,
        "ops": len(ops),
        "ops_with_externs": len(with_externs),
        "left_to_torch": with_externs,
        "failures": failed,
        "externs": [{"op": op, "reason": why, "count": n} for (op, why), n in externs.most_common()],
        "seconds": {f"{a.case.op} {a.case.dtype}": round(a.seconds, 1) for a in answers if a.seconds > 10},
    }


def core() -> list[str]:
    """Core ATen overloads that neither have a lowering nor are decomposed."""
    import torch

    from graphfuse.frontends.fx import lowering_of
    from graphfuse.torch.decompositions import decompositions

    out: list[str] = []
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads() if isinstance(packet, torch._ops.OpOverloadPacket) else ():
            op = getattr(packet, overload)
            if torch.Tag.core in op.tags and lowering_of(op) is None and op not in decompositions():
                out.append(str(op))
    return sorted(out)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--only", default="", help="names of operators, or their beginnings")
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes")
    parser.add_argument("--limit", type=float, default=90, help="seconds for one case")
    parser.add_argument("--dynamic", action="store_true", help="compile for sizes that are not known")
    parser.add_argument("--core", action="store_true", help="list core operators without a lowering, and end")
    parser.add_argument("--json", default="")
    args = parser.parse_args()
    if args.core:
        print("\n".join(core()))
        return
    start = time.monotonic()
    answers = sweep(cases(args.dtypes.split(","), [o for o in args.only.split(",") if o], args.shard), args)
    found = {**record.environment(), "total_seconds": round(time.monotonic() - start), **summary(answers)}
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1) + "\n")
    for dtype, count in found["dtypes"].items():
        print(dtype, ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in count.items()))
    print(f"{found['ops_with_externs']} of {found['ops']} operators have an ATen operator that torch runs:")
    for e in found["externs"][:40]:
        print(f"  {e['count']:5} {e['op']}: {e['reason']}")


if __name__ == "__main__":
    main()
