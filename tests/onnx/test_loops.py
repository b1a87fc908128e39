"""Loops that Python counts: what they give, beside onnxruntime, and that turns of a compiled body take no Python."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import graphfuse
from graphfuse.errors import IndexRangeError, InputError, VerifyError
from graphfuse.host import control
from graphfuse.runtime import turns
from graphfuse.runtime.workspace import Workspace

HEAD = '<ir_version: 10, opset_import: ["" : 18]>'
F = np.float32

WHILE = """g (float[n] x, float limit) => (float last, float[n] y, float[k, n] all) <bool yes = {1}, float one = {1},
  float none = {0}> {
  last, y, all = Loop<body = b (int64 i, bool c, float count, float[n] v)
      => (bool on, float next, float[n] w, float[n] s) {
    next = Add(count, one)
    moved = Sin(v)
    w = Add(moved, one)
    s = Mul(w, next)
    on = Less(next, limit)
  }>(, yes, none, x) }"""
COUNTER = """g (int64 m, bool c, float x) => (float y, int64[k] is, bool[k] small, float[k] ys) <int64 four = {4}> {
  y, is, small, ys = Loop<body = b (int64 i, bool c, float v) => (bool less, float w, int64 at, bool less, float w) {
    less = Less(i, four)
    at = Mul(i, i)
    f = Cast<to = 1>(i)
    w = Add(v, f)
  }>(m, c, x) }"""
SWAPPED = """g (int64 m, bool c, int64 a, int64 b) => (int64 y, int64 z, int64[k] all) {
  y, z, all = Loop<body = l (int64 i, bool c, int64 a0, int64 b0) => (bool on, int64 b0, int64 sum, int64 sum) {
    sum = Add(a0, b0)
    on = Less(i, sum)
  }>(m, c, a, b) }"""
KEPT = """g (bool c, float[3] x, float[3] w) => (float[3] a, float[3] b, float[3] d, float[k] sums)
  <int64[1] zero = {0}, float most = {90}, float[2] two = {1, 2}> {
  a, b, d, sums = Loop<body = l (int64 i, bool c, float[3] a0, float[3] b0, float[3] d0)
      => (bool on, float[3] a0, float[3] sum, float[3] late, float total) {
    sum = Add(b0, w)
    late = Sub(b0, a0)
    total = ReduceSum<keepdims = 0>(sum, zero)
    size = Size(two)
    on = Less(total, most)
  }>(, c, x, x, w) }"""
BYTES = """g (int64 m, bool c, uint8[2, 3] x, bool[3] y, float[0, 2] e)
  => (uint8[2, 3] a, bool[3] b, float[0, 2] f, bool[k, 3] s)
  <uint8 three = {3}, int64 most = {5}> {
  a, b, f, s = Loop<body = l (int64 i, bool c, uint8[2, 3] p, bool[3] q, float[0, 2] r)
      => (bool on, uint8[2, 3] p2, bool[3] q2, float[0, 2] r2, bool[3] q3) {
    p2 = Add(p, three)
    q2 = Not(q)
    q3 = Xor(q, q2)
    r2 = Neg(r)
    on = Less(i, most)
  }>(m, c, x, y, e) }"""
GROWS = """g (bool c, float[n] x) => (float[k] y) <int64 most = {6}> {
  y = Loop<body = l (int64 i, bool c, float[m] v) => (bool on, float[j] w) {
    w = Concat<axis = 0>(v, x)
    on = Less(i, most)
  }>(, c, x) }"""
COUNTED = """g (float[N] x) => (float[k] y)
  <int64 many = {100}, bool yes = {1}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] end = {1000}> {
  y = Loop<body = l (int64 i, bool c, float[m] v) => (bool on, float[j] w) {
    BODY
    on = Identity(c)
  }>(many, yes, x) }"""
NESTED = """g (bool c, float x) => (float y, float[k, 3] all) <float one = {1}, float limit = {40}, int64 three = {3}> {
  y, all = Loop<body = o (int64 i, bool c, float v) => (bool on, float w, float[3] row) {
    w, row = Loop<body = l (int64 j, bool d, float p) => (bool on2, float q, float q) {
      f = Cast<to = 1>(j)
      g = Add(f, v)
      q = Add(p, g)
      on2 = Less(f, limit)
    }>(three, c, v)
    sum = Add(w, one)
    on = Less(sum, limit)
  }>(, c, x) }"""
SCANNED = """g (float[2] s, float[4, n] x, float[n, 4] y)
  => (float[2] t, float[4, n] all, float[n] back, float[n, 2] counted)
  <int64[1] zero = {0}> {
  t, all, back, counted = Scan<num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [0, 1],
      scan_output_axes = [1, 0, 0], scan_output_directions = [0, 1, 0],
      body = l (float[2] a, float[4] p, float[4] q) => (float[2] b, float[4] r, float total, float[2] same) {
    r = Sub(p, q)
    total = ReduceSum<keepdims = 0>(r, zero)
    b = Add(a, total)
    same = Identity(b)
    unseen = NonZero(r)
  }>(s, x, y) }"""
YES, NO = np.ones((), bool), np.zeros((), bool)
CASES = {
    "while": (WHILE, [np.linspace(0, 1, 5, dtype=F), F(999.5)]),
    "while, once": (WHILE, [np.ones(1, F), F(0)]),
    "while, of nothing": (WHILE, [np.ones(0, F), F(7)]),
    "counter": (COUNTER, [np.array(3), YES, F(0.5)]),
    "counter, ended by the condition": (COUNTER, [np.array(300), YES, F(0.5)]),
    "counter, never": (COUNTER, [np.array(3), NO, F(0.5)]),
    "counter, of 0": (COUNTER, [np.array(0), YES, F(0.5)]),
    "counter, below 0": (COUNTER, [np.array(-3), YES, F(0.5)]),
    "one becomes the other": (SWAPPED, [np.array(60), YES, np.array(0), np.array(1)]),
    "kept, and never read": (KEPT, [YES, np.arange(3, dtype=F), np.full(3, 0.25, F)]),
    "bytes": (
        BYTES,
        [np.array(9), YES, np.full((2, 3), 250, np.uint8), np.array([True, False, True]), np.ones((0, 2), F)],
    ),
    "grows": (GROWS, [YES, np.ones(2, F)]),
    **{
        f"counted, {what}": (COUNTED.replace("N", rows).replace("BODY", body), [np.arange(count, dtype=F)])
        for what, rows, count, body in (
            ("shrinks", "n", 4, "w = ReduceMean<keepdims = 1>(v, zero)"),
            ("shrinks from 4", "4", 4, "w = ReduceMean<keepdims = 1>(v, zero)"),
            ("grows", "n", 4, "w = Concat<axis = 0>(v, x)"),
            ("loses a row", "n", 120, "w = Slice(v, one, end, zero)"),
        )
    },
    "nested": (NESTED, [YES, F(0.5)]),
    "slices along axes, from both ends": (
        SCANNED,
        [np.ones(2, F), np.arange(12, dtype=F).reshape(4, 3), np.eye(3, 4, dtype=F)],
    ),
}


def model_of(text):
    return parser.parse_model(f"{HEAD}\n{text}")


def loaded(text, tmp_path, threads=1):
    """Saved, and loaded again."""
    dims = {"n": (0, 256)} if "n]" in text.partition("=>")[0] else None
    graphfuse.compile(model_of(text), dims=dims).save(tmp_path / "m.gfx")
    return graphfuse.load(tmp_path / "m.gfx", threads=threads)


def compare(text, model, inputs):
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model_of(text).SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {i.name: np.asarray(v) for i, v in zip(session.get_inputs(), inputs, strict=True)}
    names = [o.name for o in session.get_outputs()]
    got = model(feeds)
    for name, want in zip(names, session.run(names, feeds), strict=True):
        assert got[name].dtype == want.dtype, name
        assert got[name].shape == want.shape, name
        np.testing.assert_allclose(got[name], want, rtol=2e-6, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", CASES)
def test_loops_give_what_onnxruntime_gives(name, tmp_path):
    text, inputs = CASES[name]
    model = loaded(text, tmp_path)
    for _ in range(2):  # what the first call has measured and laid out, the second begins with
        compare(text, model, inputs)


def test_turns_of_a_compiled_body_take_no_python(tmp_path, monkeypatch):
    model, calls = loaded(WHILE, tmp_path), []
    run = Workspace.run
    monkeypatch.setattr(Workspace, "run", lambda *args: (calls.append(args), run(*args)))
    inputs = {"x": np.ones(3, F), "limit": F(999.5)}
    assert model(inputs)["all"].shape == (1000, 3)
    assert len(calls) < 50
    want = {name: value.copy() for name, value in model(inputs).items()}
    for name, value in model.interpret(inputs).items():  # turn by turn
        np.testing.assert_allclose(want[name], value, rtol=2e-6)


def test_turns_of_several_threads(tmp_path):
    text = WHILE.replace("float[n] x", "float[60000] x").replace("float[k, n]", "float[k, 60000]")
    model = loaded(text, tmp_path, threads=2)
    compare(text, model, [np.linspace(0, 1, 60000, dtype=F), F(3.5)])


@pytest.mark.parametrize("room", [1, 3])
def test_turns_in_several_calls(tmp_path, monkeypatch, room):
    monkeypatch.setattr(turns, "MOST_TURNS", room)
    monkeypatch.setattr(turns, "FEWEST_TURNS", 1)
    for name in ("while", "kept, and never read", "counter, ended by the condition"):
        text, inputs = CASES[name]
        compare(text, loaded(text, tmp_path), inputs)


def test_a_value_that_a_turn_refuses(tmp_path):
    text = """g (bool c, float[5] x) => (int64 last, float[k] y)
      <int64 one = {1}, int64 most = {20}, int64 zero = {0}> {
      last, y = Loop<body = b (int64 i, bool c, int64 at) => (bool on, int64 next, float v) {
        v = Gather(x, at)
        next = Add(at, one)
        on = Less(next, most)
      }>(, c, zero) }"""
    model = loaded(text, tmp_path)
    with pytest.raises(IndexRangeError, match="expected indices from -5 to 4, found 5"):
        model({"c": YES, "x": np.zeros(5, F)})


def test_a_loop_that_nothing_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(control, "MOST_LOOPS", 500)
    text, inputs = KEPT, [YES, np.ones(3, F), np.zeros(3, F)]
    model = loaded(text, tmp_path)
    with pytest.raises(InputError, match="Loop: expected its condition to end it, it still holds after 500 iterations"):
        model(dict(zip("cxw", inputs, strict=True)))


def test_a_body_that_gives_a_value_twice(tmp_path):
    feeds = dict(zip("sxy", CASES["slices along axes, from both ends"][1], strict=True))
    again = SCANNED.replace("total, float[2] same", "total, float[2] b")
    once, twice = (loaded(text, tmp_path)(feeds) for text in (SCANNED, again))
    np.testing.assert_array_equal(once["counted"], twice["counted"])


def test_slices_that_are_not_as_many(tmp_path):
    text = SCANNED.replace("float[4, n] x", "float[4, m] x")
    model = loaded(text, tmp_path)
    feeds = {"s": np.ones(2, F), "x": np.ones((4, 3), F), "y": np.ones((2, 4), F)}
    with pytest.raises(InputError, match=r"Scan: expected as many slices of each input, found \[3, 2\]"):
        model(feeds)


@pytest.mark.parametrize("n", ["3", "n"])
def test_a_state_that_changes_its_shape(n):
    """A Scan's may not, as a Loop's may; one of a single row is not repeated."""
    text = f"""g (float[3] s, float[4, {n}] x) => (float[3] t) {{
      t = Scan<num_scan_inputs = 1, body = l (float[a] p, float[b] q) => (float[c] r) {{
        r = ReduceMax<keepdims = 1>(q)
      }}>(s, x) }}"""
    with pytest.raises(VerifyError, match="Scan: dim 0 of next state 0: expected 1 = 3"):
        graphfuse.compile(model_of(text))
