"""The installed onnx's backend tests (`onnx.backend.test`) through `graphfuse.onnx_backend`: all, no allow-list.

    python -m benchmarks.onnx_suite [--only FAMILY,...] [--names REGEX] [--every N] [--sample N] [--device CPU] ...

What runs is an artifact each time: every compiled model is saved, and loaded again (`saved_and_loaded`).

Counts by family what passed, what gave other numbers, and what raised, and names each failure. Of what passed, it says
how it ran: `compiled` from the model alone, `by value` where it was compiled for the values of small inputs, `host`
where parts of it ran as host code. Tests run in worker processes; one that dies costs its own test (`crashed`).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import re
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import graphfuse
from benchmarks import record
from graphfuse.compiled_model import CompiledModel

SECONDS = 120
"""A test that takes longer is stopped, and counts as crashed."""

_FAMILIES = {
    "data movement": "AffineGrid CenterCropPad Compress Concat Constant ConstantOfShape DepthToSpace Expand EyeLike "
    "Flatten Gather GatherElements GatherND GridSample OneHot Pad Range Reshape Resize ReverseSequence Scatter "
    "ScatterElements ScatterND Shape Size Slice SpaceToDepth Split Squeeze TensorScatter Tile Transpose Trilu "
    "Unsqueeze Upsample",
    "attention/rope": "Attention FlexAttention LinearAttention RotaryEmbedding",
    "reduction/scan/topk": "ArgMax ArgMin CumProd CumSum TopK ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax "
    "ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare",
    "normalization+softmax": "BatchNormalization GroupNormalization Hardmax InstanceNormalization LRN "
    "LayerNormalization LogSoftmax LpNormalization MeanVarianceNormalization RMSNormalization Softmax",
    "conv/pool/roi": "AveragePool CausalConvWithState Col2Im Conv ConvTranspose DeformConv GlobalAveragePool "
    "GlobalMaxPool LpPool MaxPool MaxUnpool RoiAlign",
    "loss": "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
    "sequence/optional/string/text": "OptionalGetElement OptionalHasElement RegexFullMatch SequenceInsert SequenceMap "
    "SplitToSequence StringConcat StringNormalizer StringSplit TfIdfVectorizer",
    "quantization": "ConvInteger DequantizeLinear DynamicQuantizeLinear MatMulInteger QLinearConv QLinearMatMul "
    "QuantizeLinear",
    "matmul/gemm/einsum/det": "Det Einsum Gemm MatMul",
    "signal/window": "BlackmanWindow DFT HammingWindow HannWindow MelWeightMatrix STFT",
    "random/dropout": "Bernoulli Dropout",
    "RNN": "GRU LSTM RNN",
    "data-dependent shape": "NonMaxSuppression NonZero Unique",
    "control flow": "If Loop Scan",
    "image decode": "ImageDecoder",
    "ai.onnx.ml": "ArrayFeatureExtractor Binarizer LabelEncoder TreeEnsemble",
    "training (preview)": "Adagrad Adam Momentum",
}
FAMILY_OF = {op: family for family, ops in _FAMILIES.items() for op in ops.split()}
KINDS = {
    "RealModel": "[real]",
    "SimpleModel": "[simple]",
    "PyTorchConvertedModel": "[pytorch-converted]",
    "PyTorchOperatorModel": "[pytorch-operator]",
}
OUTCOMES = ("passed", "failed", "raised", "crashed")
HOWS = ("compiled", "by value", "host")


@dataclass
class Result:
    """What became of one test. `how` is how it ran, `what` the first line of what went wrong."""

    name: str
    operator: str
    family: str
    outcome: str
    how: str
    seconds: float
    what: str = ""


def saved_and_loaded(model: CompiledModel) -> CompiledModel:
    """What a file says of a model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gfx"
        model.save(path)
        return graphfuse.load(path, device=str(model.device))


class Suite:
    """The tests of the installed onnx, each with its family and a function that runs it."""

    def __init__(self, device: str) -> None:
        from onnx.backend.test import BackendTest
        from onnx.backend.test.loader import load_model_tests

        from graphfuse.onnx_backend import Backend, PreparedModel

        suite = self

        class Watched(Backend):
            """Keeps the model of the test that runs, to ask how it ran."""

            @classmethod
            def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> PreparedModel:
                suite.prepared = super().prepare(model, device, made=saved_and_loaded, **kwargs)
                return suite.prepared

            @classmethod
            def supports_device(cls, device: str) -> bool:
                return device == "CPU"

        self.prepared: PreparedModel | None = None
        self.device = device
        warnings.simplefilter("ignore")  # the suite's generators overflow and divide by zero on purpose
        items = BackendTest(Watched, __name__)._test_items  # there is no public way to one test
        plain = {c.name: c.model.graph.node[0].op_type for c in load_model_tests(kind="node") if c.model}
        self.tests: dict[str, tuple[str, str, Any]] = {}
        """By name: the operator a node test is of, the family, and what runs it."""
        for category, tests in items.items():
            for name, item in tests.items():
                if not name.endswith("_cpu"):
                    continue
                name = name.removesuffix("_cpu")
                op = plain.get(re.sub(r"_expanded.*", "", name), "")
                family = KINDS.get(category) or FAMILY_OF.get(op, "elementwise")
                self.tests[name] = op, family, item.func

    def run(self, name: str) -> Result:
        """Run one test."""
        operator, family, function = self.tests[name]
        self.prepared = None
        start = time.perf_counter()
        outcome, what = "passed", ""
        try:
            # the runner hands the device to `prepare` by position; the tests are the same for every device
            function.__wrapped__(None, self.device)
        except AssertionError as e:
            outcome, what = "failed", _first_line(e)
        except Exception as e:  # noqa: BLE001  (whatever it is, it is what the test says)
            outcome, what = "raised", _first_line(e)
        seconds = time.perf_counter() - start
        model = getattr(self.prepared, "model", None)
        return Result(name, operator, family, outcome, model.how if model is not None else "", seconds, what)


def _first_line(e: Exception) -> str:
    lines = [s.strip() for s in str(e).splitlines() if s.strip()]
    return f"{type(e).__name__}: {'; '.join(lines[:4])}"[:300]


def serve(suite: Suite, connection: Connection) -> None:
    """Run the tests whose names come in."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    while (name := connection.recv()) is not None:
        connection.send(suite.run(name))


class Worker:
    """A forked process with the loaded suite, which runs one test at a time."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.start()

    def start(self) -> None:
        """Fork it, for the first time or because it died."""
        context = multiprocessing.get_context("fork")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=serve, args=(self.suite, other), daemon=True)
        self.process.start()
        other.close()
        self.name, self.since = "", 0.0

    def ask(self, name: str | None) -> None:
        """Have it run a test, or end."""
        self.name, self.since = name or "", time.monotonic()
        self.connection.send(name)

    def answer(self) -> Result:
        """What it sent; that it crashed, if it died."""
        try:
            result = self.connection.recv()
        except (EOFError, OSError):
            return self._crashed(f"the process ended with code {self.process.exitcode}")
        if result.what.startswith("DeviceError"):  # it may have cost the process its context
            self.process.kill()
            self.process.join(10)
            self.start()
        return result

    def stop(self) -> Result:
        """End a test that takes too long."""
        self.process.kill()
        return self._crashed(f"no result after {SECONDS} s")

    def _crashed(self, what: str) -> Result:
        self.process.join(10)
        operator, family, _ = self.suite.tests[self.name]
        result = Result(self.name, operator, family, "crashed", "", time.monotonic() - self.since, what)
        self.start()
        return result


def run(suite: Suite, names: list[str], jobs: int) -> Iterator[Result]:
    """Run tests in worker processes; results as they come."""
    left = iter(names)
    workers = [Worker(suite) for _ in range(max(1, min(jobs, len(names))))]
    busy: list[Worker] = []

    def next_for(worker: Worker) -> None:
        if (name := next(left, None)) is not None:
            worker.ask(name)
            busy.append(worker)

    for worker in workers:
        next_for(worker)
    while busy:
        ready = wait([w.connection for w in busy], timeout=1)
        for worker in list(busy):
            late = time.monotonic() - worker.since > SECONDS
            if worker.connection in ready or late:
                busy.remove(worker)
                yield worker.answer() if worker.connection in ready else worker.stop()
                next_for(worker)
    for worker in workers:
        worker.ask(None)


def sample(suite: Suite, names: list[str], count: int, seed: int) -> list[str]:
    """`count` tests of each family, or all where it has fewer, chosen at random."""
    families: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        families[suite.tests[name][1]].append(name)
    choose = random.Random(seed)
    return [n for _, found in sorted(families.items()) for n in choose.sample(found, min(count, len(found)))]


def gpu_name(device: str) -> str:
    """The driver's name of the GPU that a device means; empty for others."""
    if not device.startswith("CUDA"):
        return ""
    from graphfuse.devices import driver_of
    from graphfuse.onnx_backend import device_of

    found = device_of(device)
    return driver_of(found).device_info(found.index).name


def by_family(results: list[Result]) -> list[dict[str, Any]]:
    """Counts, and how what passed ran, by family: the largest first, and all of them last."""
    families: dict[str, list[Result]] = defaultdict(list)
    for r in results:
        families[r.family].append(r)
    rows: list[dict[str, Any]] = []
    for family, found in (*sorted(families.items(), key=lambda kv: -len(kv[1])), ("total", results)):
        outcomes = Counter(r.outcome for r in found)
        hows = Counter(r.how for r in found if r.outcome == "passed")
        counts = {"tests": len(found), **{o: outcomes[o] for o in OUTCOMES}, **{h: hows[h] for h in HOWS}}
        rows.append({"family": family, **counts, "seconds": round(sum(r.seconds for r in found), 1)})
    return rows


def table(results: list[Result]) -> str:
    """The counts as text."""
    columns = {"family": -32, "tests": 6, **dict.fromkeys(OUTCOMES, 8), "compiled": 10, "by value": 10, "host": 6}
    rows = ["".join(f"{c:{'<' if w < 0 else '>'}{abs(w)}}" for c, w in columns.items()) + "  seconds"]
    for row in by_family(results):
        cells = "".join(f"{row[c]:{'<' if w < 0 else '>'}{abs(w)}}" for c, w in columns.items())
        rows.append(f"{cells}{row['seconds']:9.1f}")
    return "\n".join(rows)


def page(results: list[Result], seconds: float, args: argparse.Namespace) -> str:
    """What came of the suite, and how each operator is run, as a page of the documentation."""
    import onnx

    from graphfuse.frontends.onnx.node import HANDLERS, MICROSOFT
    from graphfuse.frontends.onnx.ops.control import CONTROL
    from graphfuse.frontends.onnx.python_ops import PYTHON_OPS

    def way(domain: str, op: str) -> str:
        ways = ["compiled"] if (domain, op) in HANDLERS else []
        ways += ["compiled, or Python over compiled bodies"] if not domain and op in CONTROL else []
        ways += ["Python"] if (domain, op) in PYTHON_OPS else []
        if domain == MICROSOFT:
            return ", or ".join(ways)
        schema: Any = onnx.defs.get_schema(op, domain=domain)  # onnx's stubs leave out most of it
        if schema.deprecated:
            return "converted to its successor"
        if not ways and op == "SequenceMap":
            ways = ["Python over compiled bodies"]
        if not ways and (schema.has_function or schema.has_context_dependent_function):
            ways = ["its standard body"]
        return ", or ".join(ways) or "refused"

    counts = {op: Counter(r.outcome for r in results if r.operator == op) for op in {r.operator for r in results}}
    names: dict[tuple[str, str], set[int]] = defaultdict(set)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain in ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"):
            names[schema.domain, schema.name].add(schema.since_version)
    for domain, op in (*HANDLERS, *PYTHON_OPS):  # onnx has no schemas of these, all of which are of version 1
        if domain == MICROSOFT:
            names[domain, op].add(1)
    rows = ["| operator | versions | how it runs | tests passed |", "|---|---|---|---|"]
    for (domain, op), versions in sorted(names.items()):
        found = Counter[str]() if domain == MICROSOFT else counts.get(op, Counter())
        passed = f"{found['passed']} of {found.total()}" if found else ""
        since = ", ".join(map(str, sorted(versions)))
        rows.append(f"| {domain + '.' if domain else ''}{op} | {since} | {way(domain, op)} | {passed} |")
    rest = [
        f"- `{r.name}` {r.outcome}: {r.what}" for r in sorted(results, key=lambda r: r.name) if r.outcome != "passed"
    ]
    command = f"python -m benchmarks.onnx_suite --device {args.device} --markdown docs/onnx-operators.md"
    return "\n".join(
        [
            f"# ONNX operators\n\nWritten by `{command}`, with onnx {onnx.__version__}.",
            f"{seconds:.0f} s on {args.jobs} processes of a shared machine.\n",
            f"```\n{table(results)}\n```\n\nNot passed:\n",
            *rest,
            "",
            *rows,
            "",
        ]
    )


def main() -> int:
    """Run the suite and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="families, by a part of their names")
    parser.add_argument("--names", default="", help="tests, by a regular expression")
    parser.add_argument("--every", type=int, default=1, help="every so many of these tests: a sample of all families")
    parser.add_argument("--sample", type=int, default=0, help="so many of these tests of each family, at random")
    parser.add_argument("--seed", type=int, default=record.SEED, help="of the sample")
    parser.add_argument("--json", type=Path, help="write the counts, and what did not pass, here")
    parser.add_argument("--markdown", type=Path, help="write the tables of docs/onnx-operators.md here")
    parser.add_argument("--device", default="CPU", help="CPU, CUDA, CUDA:i or EMULATOR")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--slow", type=int, default=0, help="name this many of the slowest tests")
    args = parser.parse_args()
    os.environ.setdefault("GRAPHFUSE_THREADS", "1")  # the tests are tiny, and run side by side
    start = time.perf_counter()
    suite = Suite(args.device)
    loaded = time.perf_counter()
    only = [o for o in args.only.split(",") if o]
    names = [
        name
        for name, (_, family, _) in suite.tests.items()
        if (not only or any(o in family for o in only)) and re.search(args.names, name)
    ][:: args.every]
    if args.sample:
        names = sample(suite, names, args.sample, args.seed)
    results = list(run(suite, names, args.jobs))
    seconds = time.perf_counter() - loaded
    for r in sorted(results, key=lambda r: (r.family, r.name)):
        if r.outcome != "passed":
            print(f"{r.outcome:8}{r.family:24}{r.name}: {r.what}")
    for r in sorted(results, key=lambda r: -r.seconds)[: args.slow]:
        print(f"{r.seconds:8.2f} s  {r.name} ({r.how})")
    print(table(results))
    print(f"{seconds:.0f} s for the tests, {loaded - start:.0f} s to load them, {args.jobs} processes")
    if args.markdown:
        args.markdown.write_text(page(results, seconds, args))
    if args.json:
        where = {"backend": args.device, "jobs": args.jobs, "seconds": round(seconds, 1)}
        rest = [asdict(r) for r in sorted(results, key=lambda r: r.name) if r.outcome != "passed"]
        rows = [{"gpu": gpu_name(args.device), **row} for row in by_family(results)]
        data = {**record.environment(args.seed), **where, "rows": rows, "not_passed": rest}
        args.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
