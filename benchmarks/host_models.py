"""Time models that Python runs parts of against ONNX Runtime: detection heads, loops, branches, sequences, texts.

    python -m benchmarks.host_models [--models a,b] [--rounds 15] [--json FILE]

Processor time of one thread, each side once in every round; the least of all rounds counts, as these calls take
microseconds. A ratio above 1 means that graphfuse is faster. Outputs are compared before anything is timed: indices,
counts and texts exactly.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import parser

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import graphfuse
import models
from benchmarks import record
from benchmarks.cpu_models import Feeds, Row, Run, Timing, arguments, asked, onnxruntime_runner

HEAD = '<ir_version: 9, opset_import: ["" : 18, "ai.onnx.ml" : 3]>'
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Case:
    """A model, as text or by its name in `models`, and what it is given."""

    text: str
    feeds: Callable[[np.random.Generator], Feeds]

    def model(self) -> Any:
        """The model as onnx has it."""
        text = self.text
        return onnx.load(models.cached(text)) if text.isidentifier() else parser.parse_model(f"{HEAD}\n{text}")


def boxes(rng: np.random.Generator, count: int, classes: int, batch: int = 1) -> Feeds:
    """Boxes of a detector: middles, sizes, scores of which few are high."""
    return {
        "middle": rng.uniform(0, 640, (batch, count, 2)).astype(np.float32),
        "size": rng.uniform(8, 120, (batch, count, 2)).astype(np.float32),
        "scores": (rng.uniform(0, 1, (batch, classes, count)) ** 8).astype(np.float32),
    }


def feed(**dims: tuple[int, ...]) -> Callable[[np.random.Generator], Feeds]:
    """Numbers of a normal distribution."""
    return lambda rng: {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in dims.items()}


NMS = """
head (float[b, n, 2] middle, float[b, n, 2] size, float[b, c, n] scores)
  => (float[k, 4] best, float[k] score, int64[k] class)
<int64 most = {100}, float overlap = {0.5}, float least = {0.3}, float half = {0.5}, int64[1] zero = {0},
 int64[1] one = {1}, int64[2] ends = {0, 2}>
{
  halves = Mul(size, half)
  low = Sub(middle, halves)
  high = Add(middle, halves)
  corners = Concat<axis = 2>(low, high)
  chosen = NonMaxSuppression(corners, scores, most, overlap, least)
  place = Gather<axis = 1>(chosen, ends)
  best = GatherND(corners, place)
  score = GatherND(scores, chosen)
  kind = Gather<axis = 1>(chosen, one)
  class = Squeeze(kind, one)
}"""

FILTER = """
head (float[b, n, 2] middle, float[b, n, 2] size, float[b, c, n] scores) => (float[k, 4] best, float[k] top)
<float least = {0.9}, int64[1] one = {1}>
{
  both = Concat<axis = 2>(middle, size)
  highest = ReduceMax<keepdims = 0>(scores, one)
  good = Greater(highest, least)
  found = NonZero(good)
  at = Transpose<perm = [1, 0]>(found)
  best = GatherND(both, at)
  top = GatherND(highest, at)
}"""

WHILE = """
g (float[n] x) => (float[n] y, float[k, n] all)
<bool yes = {1}, float limit = {999.5}, float one = {1}, float none = {0}, float most = {3}>
{
  last, y, all = Loop<body = step (int64 i, bool going, float count, float[n] v)
      => (bool on, float next, float[n] w, float[n] copy) {
    next = Add(count, one)
    moved = Sin(v)
    w = Add(moved, one)
    copy = Min(w, most)
    on = Less(next, limit)
  }>(, yes, none, x)
}"""

COUNTED = """
g (float[n] x, int64 times) => (float[n] y, float[k] sums)
<bool yes = {1}, float one = {1}, int64[1] zero = {0}>
{
  y, sums = Loop<body = step (int64 i, bool going, float[n] v) => (bool on, float[n] w, float sum) {
    moved = Sin(v)
    w = Add(moved, one)
    sum = ReduceSum<keepdims = 0>(w, zero)
    on = Identity(going)
  }>(times, yes, x)
}"""

NESTED = """
g (float[n] x) => (float[n] y)
<bool yes = {1}, float limit = {30}, float one = {1}, float none = {0}>
{
  last, y = Loop<body = outer (int64 i, bool going, float count, float[n] v) => (bool on, float next, float[n] w) {
    next = Add(count, one)
    left, w = Loop<body = inner (int64 j, bool g2, float c2, float[n] v2) => (bool on2, float n2, float[n] w2) {
      n2 = Add(c2, one)
      s2 = Sin(v2)
      w2 = Add(s2, next)
      on2 = Less(n2, limit)
    }>(, yes, none, v)
    on = Less(next, limit)
  }>(, yes, none, x)
}"""

GROWING = """
g (float[n] x) => (float[k] y)
<bool yes = {1}, float limit = {199.5}, float one = {1}, float none = {0}>
{
  last, y = Loop<body = step (int64 i, bool going, float count, float[m] v) => (bool on, float next, float[j] w) {
    next = Add(count, one)
    moved = Sin(x)
    w = Concat<axis = 0>(v, moved)
    on = Less(next, limit)
  }>(, yes, none, x)
}"""

SCAN = """
g (float[h] start, float[t, h] xs, float[h] weight) => (float[h] last, int64[t] counts)
<float[1] none = {0}, int64[1] second = {1}>
{
  last, counts = Scan<num_scan_inputs = 1, body = step (float[h] state, float[h] x) => (float[h] after, int64 count) {
    faded = Mul(state, weight)
    sum = Add(faded, x)
    after = Tanh(sum)
    good = Greater(after, none)
    where = NonZero(good)
    count = Size(where)
  }>(start, xs)
}"""

BRANCHES = """
g (float[n] x) => (float[m] y)
<int64[1] zero = {0}, float none = {0}, float two = {2}>
{
  sum = ReduceSum<keepdims = 0>(x, zero)
  positive = Greater(sum, none)
  y = If<then_branch = some () => (float[m] y1) {
    big = Greater(sum, two)
    y1 = If<then_branch = most () => (float[m] y2) {
      high = Greater(x, none)
      y2 = Compress<axis = 0>(x, high)
    }, else_branch = all () => (float[m] y3) { y3 = Sin(x) }>(big)
  }, else_branch = none () => (float[m] y4) { y4 = Neg(x) }>(positive)
}"""

SEQUENCES = """
g (float[n, 8] x) => (float[m] y, int64 count)
<bool yes = {1}>
{
  rows = SplitToSequence<axis = 0, keepdims = 0>(x)
  count = SequenceLength(rows)
  empty = SequenceEmpty<dtype = 1>()
  made = Loop<body = step (int64 i, bool going, seq(float[8]) s) => (bool on, seq(float[8]) t) {
      row = SequenceAt(rows, i)
      wave = Sin(row)
      t = SequenceInsert(s, wave)
      on = Identity(going)
  }>(count, yes, empty)
  all = ConcatFromSequence<axis = 0>(made)
  y = Neg(all)
}"""

TEXTS = """
g (string[n] words) => (float[3] counts, int64[m] labels, string[m] kept)
{
  kept = StringNormalizer<case_change_action = "LOWER", is_case_sensitive = 1, locale = "C",
    stopwords = ["the", "a"]>(words)
  counts = TfIdfVectorizer<mode = "TF", min_gram_length = 1, max_gram_length = 2, max_skip_count = 0,
    ngram_counts = [0, 2], ngram_indexes = [0, 1, 2], pool_strings = ["red", "blue", "red", "fox"]>(kept)
  labels = ai.onnx.ml.LabelEncoder<keys_strings = ["red", "blue", "fox"], values_int64s = [1, 2, 3],
    default_int64 = -1>(kept)
}"""

RAGGED = """
g (float[1, c, h, w] image, int64[2] size) => (float[1, c, p, q] y)
<int64[1] zero = {0}, int64[1] two = {2}, int64[1] four = {4}, int64 unit = {32}, int64[6] nothing = {0, 0, 0, 0, 0, 0},
 int64[2] left = {0, 2}>
{
  shape = Shape(image)
  front = Slice(shape, zero, two)
  wanted = Concat<axis = 0>(front, size)
  resized = Resize<mode = "linear">(image, , , wanted)
  rest = Mod(size, unit)
  more = Sub(unit, rest)
  pads = Concat<axis = 0>(nothing, more)
  padded = Pad(resized, pads)
  y = Relu(padded)
}"""

WORDS = ("The", "red", "fox", "a", "blue", "Red", "BLUE", "dog")


def words(rng: np.random.Generator) -> Feeds:
    """Texts of which some are stop words."""
    return {"words": np.array([WORDS[i] for i in rng.integers(0, len(WORDS), 1000)], object)}


def image(rng: np.random.Generator) -> Feeds:
    """A picture and the size that it is to have."""
    return {"image": rng.standard_normal((1, 3, 75, 110), dtype=np.float32), "size": np.array([96, 141])}


CASES: dict[str, Case] = {
    "detection_head": Case("detection_head", models.get("detection_head").inputs),
    "nms": Case(NMS, lambda rng: boxes(rng, 4000, 4)),
    "nms_80_classes": Case(NMS, lambda rng: boxes(rng, 1000, 80)),
    "filter": Case(FILTER, lambda rng: boxes(rng, 8400, 8, 2)),
    "greedy_decoder": Case("greedy_decoder", models.get("greedy_decoder").inputs),
    "while_1": Case(WHILE, feed(x=(1,))),
    "while_64": Case(WHILE, feed(x=(64,))),
    "counted": Case(COUNTED, lambda rng: {**feed(x=(64,))(rng), "times": np.array(1000)}),
    "nested": Case(NESTED, feed(x=(8,))),
    "growing": Case(GROWING, feed(x=(16,))),
    "scan": Case(SCAN, feed(start=(32,), xs=(500, 32), weight=(32,))),
    "branches": Case(BRANCHES, lambda rng: {"x": 1 + feed(x=(64,))(rng)["x"]}),
    "sequences": Case(SEQUENCES, feed(x=(200, 8))),
    "texts": Case(TEXTS, words),
    "ragged": Case(RAGGED, image),
}


def measure(name: str, rounds: int, seed: int) -> Row:
    """Compile, compare and time one model."""
    model, feeds = CASES[name].model(), CASES[name].feeds(np.random.default_rng(seed))
    started = time.perf_counter()
    compiled = graphfuse.compile(model, threads=1, dims=_dims(CASES[name].text))
    seconds = time.perf_counter() - started
    theirs = onnxruntime_runner(model.SerializeToString(), 1)
    deviation = distance(theirs(feeds), compiled(feeds))
    samples: dict[Run, list[float]] = {compiled: [], theirs: []}
    for _ in range(rounds):
        for side, took in samples.items():
            side(feeds)  # its own caches
            before = time.process_time()
            side(feeds)
            took.append(time.process_time() - before)
    ours, others = map(Timing.of, samples.values())
    return Row(name, 1, ours, others, seconds, deviation)


def _dims(text: str) -> dict[str, tuple[int, int]] | None:
    return models.get(text).DIMS if text.isidentifier() else None


def ratio(row: Row) -> float:
    """Their least time over ours: of calls that take microseconds, what nothing has disturbed."""
    return row.theirs.fastest / row.ours.fastest


def distance(want: Mapping[str, Any], got: Mapping[str, Any]) -> float:
    """The largest difference of floats, relative to their size; infinite where anything else differs."""
    worst = 0.0
    for name, w in want.items():
        g = got[name]
        if g.shape != w.shape or (w.dtype.kind != "f" and g.tolist() != w.tolist()):
            return float("inf")
        if w.dtype.kind == "f" and w.size:
            worst = max(worst, float(np.max(np.abs(g - w) / (1 + np.abs(w)))))
    return worst


def main() -> int:
    """Measure, print the table and write the JSON; 1 if an output was wrong."""
    asked_for = arguments(__doc__, CASES)
    args = asked_for.parse_args()
    chosen, _ = asked(asked_for, args, CASES)
    print(f"{'model':16} {'ours us':>10} {'median':>10} {'ORT us':>10} {'median':>10}  ratio compile s")
    rows: list[Row] = []
    for name in chosen:
        row = measure(name, args.rounds, args.seed)
        rows.append(row)
        wrong = "" if row.deviation <= TOLERANCE else f"  WRONG: {row.deviation:.1e}"
        times = " ".join(f"{1e3 * ms:10.1f}" for t in (row.ours, row.theirs) for ms in (t.fastest, t.median))
        print(f"{name:16} {times} {ratio(row):6.2f} {row.compile_seconds:9.1f}{wrong}", flush=True)
    if args.json:
        record.write(args.json, [{**asdict(row), "ratio": ratio(row)} for row in rows], args.seed)
    return int(any(row.deviation > TOLERANCE for row in rows))


if __name__ == "__main__":
    sys.exit(main())
