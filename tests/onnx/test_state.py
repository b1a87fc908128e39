"""Caches that are a model's state: written in place, by sessions that own them."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphfuse
from graphfuse.cli import main
from graphfuse.errors import FileError, IndexRangeError, InputError, UnsupportedError, UsageError
from tests.frontends.microsoft.paged_cases import by_definition, paged
from tests.onnx.state_models import (
    CAPACITY,
    FLOAT,
    GROUPS,
    HEADS,
    INT,
    SIZE,
    STATE,
    beam_decoder,
    caches,
    calls,
    decoder,
    paged_decoder,
    sliding_decoder,
)


def runtime_session(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


def by_onnxruntime(model, batch, given, bits=0):
    """What it returns, from caches as long as ours."""
    session = runtime_session(model)
    state = caches(batch, bits=bits)
    names = [o.name for o in session.get_outputs()]
    for feed in given:
        found = dict(zip(names, session.run(None, {**feed, **state}), strict=True))
        state = {name: found[name.replace("past", "present")] for name in state}
        yield found["y"], state


@pytest.mark.parametrize("device", ["cpu", "emulator"])
@pytest.mark.parametrize("attributes", [{}, {"local_window_size": 5}], ids=["all", "window"])
def test_a_conversation(device, attributes):
    """A prompt, tokens, and a chunk: every result is ONNX Runtime's, and nothing is copied."""
    model = decoder(**attributes)
    compiled = graphfuse.compile(model, state=STATE, device=device)
    session = graphfuse.Session(compiled, {"batch": 1, "capacity": CAPACITY})
    steps = list(calls([7], 7, 1, 1, 4))
    wanted = by_onnxruntime(model, 1, [feed for feed, _ in steps])
    for (feed, lengths), (y, state) in zip(steps, wanted, strict=True):
        found = session(feed)
        assert list(found) == ["y"]
        np.testing.assert_allclose(np.asarray(found["y"]), y, rtol=1e-4, atol=1e-5)
        for name, array in session.state().items():
            np.testing.assert_allclose(array[0, :, : lengths[0]], state[name][0, :, : lengths[0]], rtol=1e-4, atol=1e-5)
            assert not array[0, :, lengths[0] :].any()


@pytest.mark.parametrize("device", ["cpu", "emulator"])
@pytest.mark.parametrize("bits", [8, 4])
def test_a_quantised_cache(device, bits):
    """What is attended to is what the cache has, of the new tokens too."""
    model = decoder(bits=bits)
    compiled = graphfuse.compile(model, state=STATE, device=device)
    session = graphfuse.Session(compiled, {"batch": 1, "capacity": CAPACITY})
    steps = list(calls([7], 7, 1, 1, 4))
    wanted = by_onnxruntime(model, 1, [feed for feed, _ in steps], bits)
    for (feed, lengths), (y, state) in zip(steps, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(session(feed)["y"]), y, rtol=1e-3, atol=1e-3)
        for name, array in session.state().items():
            assert (array[0, :, : lengths[0]] == state[name][0, :, : lengths[0]]).mean() > 0.98
            assert not array[0, :, lengths[0] :].any()


def test_ragged_sequences():
    model = decoder()
    session = graphfuse.Session(graphfuse.compile(model, state=STATE), {"batch": 3, "capacity": CAPACITY})
    steps = list(calls([9, 4, 1], 1, 1, 1))
    wanted = by_onnxruntime(model, 3, [feed for feed, _ in steps])
    for (feed, _), (y, _) in zip(steps, wanted, strict=True):
        np.testing.assert_allclose(session(feed)["y"], y, rtol=1e-4, atol=1e-5)


def test_the_arrays_stay_where_they_are():
    """And a call that gives them itself gets new ones, unless it says otherwise."""
    compiled = graphfuse.compile(decoder(), state=STATE)
    assert sorted(compiled.executable.shared) == [(1, 2), (2, 3), (3, 4), (4, 5)]
    assert not any(step.kernel == "copy_bytes" for _, step in compiled.executable.plan.walk())
    ((feed, _),) = calls([5], 5)
    state = caches(1)
    fresh = compiled({**feed, **state})
    assert not any(array.any() for array in state.values())
    placed = compiled.session.run({**feed, **state}, over=True)
    for name, array in state.items():
        assert placed[name.replace("past", "present")] is array
        assert (array == fresh[name.replace("past", "present")]).all()
    with pytest.raises(
        InputError, match=r"past.0.key.*expected a contiguous array to write over, found one that is not"
    ):
        compiled.session.run({**feed, **state, "past.0.key": np.asfortranarray(state["past.0.key"])}, over=True)


def test_states_that_overlap():
    """With each other, or with what else is read."""
    compiled = graphfuse.compile(decoder(1), state=STATE)
    ((feed, _),) = calls([5], 5)
    state, whole = caches(1, 1), np.zeros(2 * 1 * GROUPS * CAPACITY * SIZE, np.float32)
    shape = state["past.0.key"].shape
    near = dict(
        zip(state, (whole[: np.prod(shape)].reshape(shape), whole[16:][: np.prod(shape)].reshape(shape)), strict=True)
    )
    inside = whole[: np.prod(feed["x"].shape)].reshape(feed["x"].shape)
    for given in ({**feed, **near}, {**feed, **state, "x": inside, "past.0.key": near["past.0.key"]}):
        with pytest.raises(InputError, match="expected a state in memory of its own, found some that overlap"):
            compiled.session.run(given, over=True)


def test_arrays_elsewhere():
    """States of a GPU's session are there: what is on the host cannot be written over."""
    compiled = graphfuse.compile(decoder(1), state=STATE, device="emulator")
    ((feed, _),) = calls([5], 5)
    with pytest.raises(InputError, match="what becomes output 'present.0.key': expected a contiguous array on"):
        compiled.session.run({**feed, **caches(1, 1)}, over=True)


def test_sessions(tmp_path):
    compiled = graphfuse.compile(decoder(), state=STATE)
    session = graphfuse.Session(compiled, {"batch": 1, "capacity": CAPACITY})
    (prompt, _), (first, _), (second, _) = calls([6], 6, 1, 1)
    session(prompt)
    other = session.fork()
    session.save(tmp_path / "state.npz")
    y = session(first)["y"]
    assert (other(first)["y"] == y).all()
    assert (session(second)["y"] == other(second)["y"]).all()
    session.load(tmp_path / "state.npz")
    assert (session(first)["y"] == y).all()
    session.reset()
    assert not any(array.any() for array in session.state().values())
    again = graphfuse.Session(compiled, {"batch": 1, "capacity": CAPACITY})
    assert (session(prompt)["y"] == again(prompt)["y"]).all()


def test_artifacts_keep_it(tmp_path):
    graphfuse.compile(decoder(), state=STATE).save(tmp_path / "d.gfx")
    session = graphfuse.Session(graphfuse.load(tmp_path / "d.gfx"), {"batch": 1, "capacity": CAPACITY})
    assert session(next(calls([3], 3))[0])["y"].shape == (1, 3, HEADS * SIZE)


def test_what_does_not_fit(tmp_path):
    """One error, and the state is what it was."""
    compiled = graphfuse.compile(decoder(), state=STATE)
    session = graphfuse.Session(compiled, {"batch": 1, "capacity": CAPACITY})
    ((prompt, _),) = calls([6], 6)
    session(prompt)
    before = session.state()
    ((long, _),) = calls([CAPACITY + 1], CAPACITY + 1)
    with pytest.raises(InputError, match="steps of the cache"):
        session(long)
    ((two, _),) = calls([5, 4], 2)
    with pytest.raises(InputError, match="batch"):
        session(two)
    with pytest.raises(InputError, match="input 'past.0.key' is the session's own"):
        session({**prompt, "past.0.key": before["past.0.key"]})
    with pytest.raises(InputError, match=r"state 'past.0.key': expected float32 of shape \(1, 2, 24, 16\)"):
        session.restore({**before, "past.0.key": before["past.0.key"][..., :3]})
    with pytest.raises(InputError, match="state: expected arrays for past.0.key, past.0.value, .* found none"):
        session.restore({})
    (tmp_path / "no").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(FileError, match="not a session's state"):
        session.load(tmp_path / "no")
    small = graphfuse.Session(compiled, {"batch": 1, "capacity": CAPACITY - 1})
    small.save(tmp_path / "small.npz")
    with pytest.raises(FileError, match="state 'past.0.key': expected 3072 bytes, found uint8 of shape \\(2944,\\)"):
        session.load(tmp_path / "small.npz")
    for name, array in session.state().items():
        assert (array == before[name]).all()


def test_two_calls_at_once():
    compiled = graphfuse.compile(decoder(), state=STATE)
    session = graphfuse.Session(compiled, {"batch": 1, "capacity": CAPACITY})
    ((prompt, _),) = calls([6], 6)
    session(prompt)
    entered, leave, run = threading.Event(), threading.Event(), compiled.session.run

    def waits(*args, **kw):
        entered.set()
        leave.wait(10)
        return run(*args, **kw)

    compiled.session.run = waits
    thread = threading.Thread(target=session, args=(prompt,))
    thread.start()
    entered.wait(10)
    with pytest.raises(UsageError, match="the session is in another call, which reads and writes the same state"):
        session(prompt)
    leave.set()
    thread.join()


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"past.9.key": "present.0.key"}, "state: the model has no input 'past.9.key'"),
        ({"past.0.key": "future"}, "state: the model has no output 'future'"),
        ({"pasta*": "present*"}, "expected patterns with `\\*`, and inputs that fit the first"),
        ({"past.0.key": "y"}, "of past_key and past_value one alone is a state|expected the same"),
        ({"past.*": "present.0.key"}, "expected patterns with `\\*`"),
        (
            {"past.0.key": "present.0.key", "past.0.value": "present.0.key"},
            "state: an output is what two inputs become",
        ),
        ({"past.0.key": 3}, "state: 'past.0.key': expected a name"),
    ],
)
def test_states_that_are_none(state, message):
    with pytest.raises(graphfuse.GraphfuseError, match=message):
        graphfuse.compile(decoder(1), state=state)


def test_a_state_that_is_read_afterwards():
    """Its old elements are wanted, so it cannot be written in place: nothing is copied in silence."""
    extra = [helper.make_node("Add", ["past.0.key", "present.0.key"], ["both"])]
    outputs = [helper.make_tensor_value_info("both", FLOAT, ["batch", GROUPS, "capacity", SIZE])]
    with pytest.raises(UnsupportedError, match=r"state: 'present.0.key' cannot be written over 'past.0.key'"):
        graphfuse.compile(decoder(1, extra, outputs), state=STATE)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"batch": 1}, "dims: 'capacity', a dim of the state, has no number"),
        ({"batch": 1, "capacity": 8, "step": 1}, "unknown dim 'step': expected one of batch, steps, total, capacity"),
        ({"batch": 0, "capacity": 8}, "dim 'batch': expected 1..1048576, found 0"),
    ],
)
def test_dims_of_a_session(dims, message):
    compiled = graphfuse.compile(decoder(1), state=STATE)
    with pytest.raises((InputError, UsageError), match=message):
        graphfuse.Session(compiled, dims)


def test_a_model_without_state():
    with pytest.raises(UsageError, match="the model has no state: expected one compiled with `state`"):
        graphfuse.Session(graphfuse.compile(decoder(1)), {})


def test_the_command_line(tmp_path, capsys):
    onnx.save(decoder(1), tmp_path / "d.onnx")
    model, out = str(tmp_path / "d.onnx"), str(tmp_path / "d.gfx")
    assert main(["compile", model, "--state", "past.*=present.*", "-o", out]) == 0
    assert graphfuse.load(out).executable.shared == ((1, 2), (2, 3))
    for words, message in (
        (["compile", model, "--state", "past.0.key", "-o", out], "--state: expected INPUT=OUTPUT, got 'past.0.key'"),
        (
            ["compile", out, "--recompile", "--state", "a=b", "-o", out],
            "--recompile: an artifact has the states it was",
        ),
    ):
        assert main(words) != 0
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("last", [CAPACITY + 5, 1 << 20, -9])
def test_lengths_that_only_a_run_knows(last):
    """What is out of range is an error, and nothing that was written before is written over."""
    session = graphfuse.Session(graphfuse.compile(decoder(), state=STATE), {"batch": 1, "capacity": CAPACITY})
    (prompt, _), (first, _) = calls([6], 6, 1)
    session(prompt)
    before = session.state()
    mask = first["mask"].copy()
    mask[0, -1] += last - mask.sum()
    with pytest.raises(IndexRangeError, match="input 'seqlens': expected"):
        session({**first, "mask": mask})
    for name, array in session.state().items():
        assert (array[:, :, :6] == before[name][:, :, :6]).all()


def scattered(mode="linear"):
    """One TensorScatter, whose cache is a state."""
    node = helper.make_node("TensorScatter", ["past", "x", "at"], ["present"], axis=2, mode=mode)
    cache = ["batch", 2, "capacity", 5]
    infos = [
        ("x", TensorProto.FLOAT16, ["batch", 2, "steps", 5]),
        ("at", INT, ["batch"]),
        ("past", TensorProto.FLOAT16, cache),
    ]
    made = [helper.make_tensor_value_info("present", TensorProto.FLOAT16, cache)]
    graph = helper.make_graph([node], "scattered", [helper.make_tensor_value_info(*i) for i in infos], made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)


@pytest.mark.parametrize("device", ["cpu", "emulator"])
@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_steps_at_positions(mode, device):
    compiled = graphfuse.compile(scattered(mode), state={"past": "present"}, device=device)
    session = graphfuse.Session(compiled, {"batch": 3, "capacity": 7})
    rng, want = np.random.default_rng(0), np.zeros((3, 2, 7, 5), np.float16)
    for at in ([0, 4, 3], [3, 1, 2], [6, 5, 6] if mode == "circular" else [4, 0, 1]):
        x = rng.standard_normal((3, 2, 3, 5)).astype(np.float16)
        session(x=x, at=np.array(at))
        for row, step in np.ndindex(3, 3):
            want[row, :, (at[row] + step) % 7] = x[row, :, step]
    assert (session.state()["past"] == want).all()


@pytest.mark.parametrize("at", [-1, 5, 1 << 40, -(1 << 60)])
@pytest.mark.parametrize("device", ["cpu", "emulator"])
def test_steps_that_do_not_fit_are_not_written(device, at):
    """Nor is a part of them; on a CPU that is an error."""
    compiled = graphfuse.compile(scattered(), state={"past": "present"}, device=device)
    session = graphfuse.Session(compiled, {"batch": 2, "capacity": 7})
    before = np.arange(140).reshape(2, 2, 7, 5).astype(np.float16)
    session.restore({"past": before})
    raises = pytest.raises(IndexRangeError, match="positions from 0 to 4") if device == "cpu" else nullcontext()
    with raises:
        session(x=np.ones((2, 2, 3, 5), np.float16), at=np.array([at, at]))
    assert (session.state()["past"] == before).all()


@pytest.mark.parametrize("device", ["cpu", "emulator"])
@pytest.mark.parametrize(("heads", "groups", "size"), [(6, 3, 32), (5, 1, 48)])
def test_packed_queries_give_what_they_do_without_a_state(device, heads, groups, size):
    """Rotated in pairs side by side, scores capped, sequences of two lengths in a cache of 37."""
    attributes = {"num_heads": heads, "kv_num_heads": groups, "do_rotary": 1, "rotary_interleaved": 1, "softcap": 8.0}
    angles = np.arange(37)[:, None] / 100 ** np.linspace(0, 1, size // 2)
    tables = [
        numpy_helper.from_array(f(angles).astype(np.float32), name) for f, name in ((np.cos, "cos"), (np.sin, "sin"))
    ]
    names = ["x", "", "", "pk", "pv", "seqlens", "total", "cos", "sin"]
    nodes = [
        helper.make_node("Shape", ["mask"], ["total_i64"], start=1, end=2),
        helper.make_node("Cast", ["total_i64"], ["total"], to=TensorProto.INT32),
        helper.make_node("GroupQueryAttention", names, ["y", "nk", "nv"], domain="com.microsoft", **attributes),
    ]
    cache, width = ["batch", groups, "capacity", size], (heads + 2 * groups) * size
    infos = [
        ("x", FLOAT, ["batch", "steps", width]),
        ("mask", INT, ["batch", "all"]),
        ("seqlens", TensorProto.INT32, ["batch"]),
    ]
    infos += [("pk", FLOAT, cache), ("pv", FLOAT, cache)]
    made = [helper.make_tensor_value_info(n, FLOAT, [None] * rank) for n, rank in (("y", 3), ("nk", 4), ("nv", 4))]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(*i) for i in infos], made, tables)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    plain = graphfuse.compile(model)
    compiled = graphfuse.compile(model, state={"pk": "nk", "pv": "nv"}, device=device)
    session = graphfuse.Session(compiled, {"batch": 2, "capacity": 37})
    rng, lengths, kept = np.random.default_rng(2), np.array([0, -2]), np.zeros((2, groups, 37, size), np.float32)
    state = {"pk": kept, "pv": kept}
    for steps in (5, 1, 11, 1):
        lengths = lengths + steps
        feed = {"x": rng.standard_normal((2, steps, width), np.float32), "mask": np.ones((2, lengths[0]), np.int64)}
        feed["seqlens"] = (lengths - 1).astype(np.int32)
        want = plain({**feed, **state})
        state = {"pk": want["nk"], "pv": want["nv"]}
        np.testing.assert_allclose(np.asarray(session(feed)["y"]), want["y"], rtol=1e-4, atol=1e-5)


PASTS = {"past_k": "present_k", "past_v": "present_v"}


def beam_steps(count):
    """Steps of two searches of two beams, whose tokens come from either."""
    rng = np.random.default_rng(3)
    for past in range(count):
        feed = {name: rng.standard_normal((4, 1, 24), np.float32) for name in "qkv"}
        yield feed | {
            "past": np.array([past], np.int32),
            "width": np.array([2], np.int32),
            "beams": rng.integers(0, 2, (2, 2, 9)).astype(np.int32),
        }


@pytest.mark.parametrize("device", ["cpu", "emulator"])
def test_beams_read_one_another_s_steps(device):
    """Until the buffers are full; the results and the buffers are ONNX Runtime's."""
    model = beam_decoder()
    session = graphfuse.Session(graphfuse.compile(model, state=PASTS, device=device), {"batch": 4, "capacity": 9})
    state, runtime = session.state(), runtime_session(model)
    for feed in beam_steps(9):
        y, *new = runtime.run(None, feed | state)
        state = dict(zip(PASTS, new, strict=True))
        np.testing.assert_allclose(np.asarray(session(feed)["y"]), y, rtol=1e-4, atol=1e-5)
        for name, array in session.state().items():
            assert (array == state[name]).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"past": 9}, "'past': expected past steps from 0 to 8, found 9"),
        ({"past": -1}, "'past': expected past steps from 0 to 8, found -1"),
        ({"width": 4}, "'width': expected beams from 2 to 2, found 4"),
        ({"beams": 2}, "'beams': expected beams from 0 to 1, found 2"),
    ],
)
def test_steps_of_beams_that_do_not_fit(wrong, message):
    """A step behind the buffer's end is not written."""
    session = graphfuse.Session(graphfuse.compile(beam_decoder(), state=PASTS), {"batch": 4, "capacity": 9})
    (*_, before, last) = beam_steps(9)
    session(before)
    state = session.state()
    with pytest.raises(IndexRangeError, match=message):
        session(last | {name: np.full_like(last[name], value) for name, value in wrong.items()})
    for name, array in session.state().items():
        assert (array[:, :, :8] == state[name][:, :, :8]).all()


def page_steps():
    """Prompts of three sequences, tokens after them, and a chunk of one: inputs, as the definition names them."""
    rng, past = np.random.default_rng(4), np.zeros(3, np.int32)
    table = np.array([[3, 1, -1], [7, 8, 9], [0, 6, 5]], np.int32)
    for new in ((4, 0, 2), (1, 1, 1), (0, 6, 1)):
        x = rng.standard_normal((sum(new), 160), np.float32)
        ends = np.cumsum([0, *new]).astype(np.int32)
        yield {"query": x, "cumulative_sequence_length": ends, "past_seqlens": past, "block_table": table}
        past = past + np.array(new, np.int32)


def fed(step):
    return dict(zip(("x", "ends", "past", "table"), step.values(), strict=True))


@pytest.mark.parametrize("device", ["cpu", "emulator"])
def test_pages_are_written_in_place(device):
    compiled = graphfuse.compile(paged_decoder(), state=PASTS, device=device)
    session = graphfuse.Session(compiled, {"pages": 10})
    kept = list(session.state().values())
    for step in page_steps():
        pages = dict(zip(("key_cache", "value_cache"), kept, strict=True))
        y, *kept = by_definition(paged(step | pages))
        np.testing.assert_allclose(np.asarray(session(fed(step))["y"]), y, rtol=1e-4, atol=1e-5)
        for array, want in zip(session.state().values(), kept, strict=True):
            assert (array == want).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"table": np.array([[3, 1, -1], [7, 8, 10], [0, 6, 5]])}, "'table': expected pages from -1 to 9, found 10"),
        ({"table": np.array([[3, -2, -1], [7, 8, 9], [0, 6, 5]])}, "'table': expected pages from -1 to 9, found -2"),
        ({"past": np.array([5, 10, 3])}, "'past': expected past lengths from 0 to 9, found 10"),
        ({"past": np.array([5, 4, 3])}, "'past': expected lengths from 0 to 9, found 10"),
        ({"ends": np.array([0, 0, 6, 8])}, "'ends': expected cumulative lengths from 0 to 7, found 8"),
        ({"ends": np.array([0, 6, 0, 7])}, "'ends': expected tokens of a sequence from 0 to 7, found -6"),
        ({"ends": np.array([1, 1, 6, 7])}, "'ends': expected a first cumulative length from 0 to 0, found 1"),
    ],
)
def test_pages_and_lengths_that_do_not_fit(wrong, message):
    """Of a sequence that does not fit nothing is written."""
    session = graphfuse.Session(graphfuse.compile(paged_decoder(), state=PASTS), {"pages": 10})
    *before, last = page_steps()
    for step in before:
        session(fed(step))
    state = session.state()
    with pytest.raises(IndexRangeError, match=message):
        session(fed(last) | {name: array.astype(np.int32) for name, array in wrong.items()})
    behind = {7: 1, 8: 0, 3: 3, 1: 2, 0: 3, 6: 0}  # steps that are used
    for name, array in session.state().items():
        for page, used in behind.items():
            assert (array[page, :used] == state[name][page, :used]).all()
        assert (array[[2, 4]] == state[name][[2, 4]]).all()


@pytest.mark.parametrize("device", ["cpu", "emulator"])
@pytest.mark.parametrize(("batch", "capacity"), [(1, 5), (1, 8), (2, 6)])
def test_a_cache_that_slides(device, batch, capacity):
    """One artifact, whatever its total: what a cache has of the last tokens is ONNX Runtime's."""
    model, rng, length = sliding_decoder(), np.random.default_rng(5), 0
    runtime = runtime_session(model)
    session = graphfuse.Session(
        graphfuse.compile(model, state=PASTS, device=device), {"batch": batch, "capacity": capacity}
    )
    state = session.state()
    for steps in (3, 1, 1, 1, 4, 1, 13, 1) if batch == 1 else (7, *(1,) * 8):
        length += steps
        feed = {"x": rng.standard_normal((batch, steps, (HEADS + 2 * GROUPS) * SIZE), np.float32)}
        feed |= {"last": np.full(batch, length - 1, np.int32), "total": np.array([length], np.int32)}
        y, *new = runtime.run(None, feed | state)
        state = dict(zip(PASTS, new, strict=True))
        np.testing.assert_allclose(np.asarray(session(feed)["y"]), y, rtol=1e-4, atol=1e-5)
        for name, array in session.state().items():
            assert (array[:, :, : min(length, 5)] == state[name][:, :, : min(length, 5)]).all()


def test_a_window_that_does_not_fit():
    """Too few rows for the window, and lengths that are none: the cache is what it was."""
    compiled = graphfuse.compile(sliding_decoder(), state=PASTS)
    feed = {"x": np.ones((1, 1, (HEADS + 2 * GROUPS) * SIZE), np.float32), "total": np.array([9], np.int32)}
    with pytest.raises(InputError, match="tokens of a window: expected capacity to be at least 5, found 4"):
        graphfuse.Session(compiled, {"batch": 1, "capacity": 4})(feed | {"last": np.array([3], np.int32)})
    session = graphfuse.Session(compiled, {"batch": 1, "capacity": 6})
    session(feed | {"last": np.array([8], np.int32)})
    before = session.state()
    for last in (-1, -(1 << 31)):
        with pytest.raises(
            IndexRangeError, match=f"'last': expected lengths less 1 from 0 to 2147483646, found {last}"
        ):
            session(feed | {"last": np.array([last], np.int32)})
        for name, array in session.state().items():
            assert (array == before[name]).all()
