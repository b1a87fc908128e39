"""Indices, lengths and divisors that only a run knows: what does not fit is an error, and touches no memory."""

from __future__ import annotations

import dataclasses
from string import ascii_lowercase

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphfuse
from graphfuse.api import recompile
from graphfuse.cli import main
from graphfuse.errors import DivisionByZeroError, GraphfuseError, IndexRangeError, TooLargeError
from graphfuse.inference_session import InferenceSession
from tests.frontends.support import floats
from tests.guarded import guard_runs, guarded

HUGE = (1 << 40, -(1 << 40), (1 << 63) - 1, -(1 << 63))


def i64(*values):
    return np.array(values, np.int64)


def model_of(op, arrays, outputs=1, *, dynamic=False, domain="", opset=24, **attributes):
    """One node, called /it, whose inputs are `a`, `b` and so on; dims of the first, or of all inputs are symbols."""
    names = [chr(ord("a") + i) if x is not None else "" for i, x in enumerate(arrays)]
    infos = [
        helper.make_tensor_value_info(
            n,
            helper.np_dtype_to_tensor_dtype(x.dtype),
            [f"{n}{i}" if dynamic and n in dynamic else d for i, d in enumerate(x.shape)],
        )
        for n, x in zip(names, arrays, strict=True)
        if n
    ]
    made = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, made, name="/it", domain=domain, **attributes)
    graph = helper.make_graph([node], "g", infos, [helper.make_empty_tensor_value_info(n) for n in made])
    opsets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), names


@dataclasses.dataclass
class Case:
    """An operator and inputs that it takes, the one of them that is put to the test, what may be in it and what not."""

    op: str
    arrays: list
    which: int
    what: str
    good: tuple
    bad: tuple
    fields: dict = dataclasses.field(default_factory=dict)
    dynamic: str = ""
    """Inputs all of whose dims are symbols in one more variant."""


M, X = "com.microsoft", floats(5, 4)
PAGED = [*floats(3, 1, 8), *floats(2, 3, 2, 1, 8), np.int32([0, 1]), np.int32([3])]
"""One token after three, in pages of two steps."""
PAGED_FIELDS = {"domain": M, "outputs": 3, "num_heads": 1, "kv_num_heads": 1}
CASES = {
    "Gather": Case("Gather", [X, i64(1, 0)], 1, "indices from -5 to 4", (-5, 4), (-6, 5), dynamic="ab"),
    "Gather along 1": Case("Gather", [X, i64(1, 0)], 1, "indices from -4 to 3", (-4, 3), (-5, 4), {"axis": 1}, "a"),
    "Gather of i32": Case("Gather", [X, i64(1, 0).astype(np.int32)], 1, "indices from -5 to 4", (-5, 4), (-6, 5)),
    "GatherElements": Case("GatherElements", [X, i64([0, 1, 2, 3])], 1, "indices from -5 to 4", (-5, 4), (-6, 5)),
    "GatherND": Case("GatherND", [X, i64([1], [0])], 1, "indices from -5 to 4", (-5, 4), (-6, 5), dynamic="a"),
    "GatherND, batched": Case(
        "GatherND", [floats(2, 3, 4), i64([1], [0])], 1, "indices from -3 to 2", (-3, 2), (-4, 3), {"batch_dims": 1}
    ),
    "GatherND of two": Case("GatherND", [X, i64([1, 0])], 1, "indices from -[45] to [34]", (-4, 3), (-6, 5)),
    "ScatterElements": Case(
        "ScatterElements", [X, i64([0, 1, 2, 3]), floats(1, 4)], 1, "indices from -5 to 4", (-5, 4), (-6, 5)
    ),
    "ScatterElements, added": Case(
        "ScatterElements", [X, i64([0, 1, 2, 3]), floats(1, 4)], 1, "indices from -5 to 4", (-5, 4), (-6, 5),
        {"reduction": "add"}, "a",
    ),
    "ScatterND": Case(
        "ScatterND", [X, i64([1], [0]), floats(2, 4)], 1, "indices from -5 to 4", (-5, 4), (-6, 5), dynamic="a"
    ),
    "ScatterND, largest": Case(
        "ScatterND", [X, i64([1], [0]), floats(2, 4)], 1, "indices from -5 to 4", (-5, 4), (-6, 5), {"reduction": "max"}
    ),
    "TensorScatter": Case(
        "TensorScatter", [floats(2, 1, 8, 4), floats(2, 1, 2, 4), i64(0, 1)], 2, "positions from 0 to 6", (0, 6),
        (-1, 7),
    ),
    "ReverseSequence": Case(
        "ReverseSequence", [floats(4, 3), i64(2, 4, 1)], 1, "lengths from 0 to 4", (0, 4), (-1, 5),
        {"batch_axis": 1, "time_axis": 0},
    ),
    "MaxUnpool": Case(
        "MaxUnpool", [floats(1, 1, 2, 2), i64(0, 3, 5, 7).reshape(1, 1, 2, 2)], 1, "indices from 0 to 15", (0, 15),
        (-1, 16), {"kernel_shape": [2, 2], "strides": [2, 2]}, "a",
    ),
    "RoiAlign": Case(
        "RoiAlign", [floats(2, 3, 8, 8), np.float32([[0, 0, 4, 4], [1, 1, 5, 5]]), i64(0, 1)], 2, "indices from 0 to 1",
        (0, 1), (-1, 2), {"output_height": 2, "output_width": 2, "sampling_ratio": 1},
    ),
    "MaxRoiPool": Case(
        "MaxRoiPool", [floats(2, 3, 8, 8), np.float32([[0, 0, 0, 4, 4]])], 1, "indices from 0 to 1", (0, 1), (-1, 2),
        {"pooled_shape": [2, 2]},
    ),
    "RotaryEmbedding": Case(
        "RotaryEmbedding", [floats(1, 2, 3, 8), floats(10, 4), floats(10, 4), i64([0, 1, 2])], 3,
        "indices from -10 to 9", (-10, 9), (-11, 10),
    ),
    "Attention": Case(
        "Attention", [floats(2, 2, 3, 8), floats(2, 2, 5, 8), floats(2, 2, 5, 8), None, None, None, i64(3, 5)], 6,
        "lengths from 0 to 5", (0, 5), (-1, 6),
    ),
    "LSTM": Case(
        "LSTM", [floats(4, 2, 3), floats(1, 16, 3), floats(1, 16, 4), None, np.int32([3, 4])], 4, "lengths from 0 to 4",
        (0, 4), (-1, 5), {"hidden_size": 4},
    ),
    "GRU backwards": Case(
        "GRU", [floats(4, 2, 3), floats(1, 12, 3), floats(1, 12, 4), None, np.int32([3, 4])], 4, "lengths from 0 to 4",
        (0, 4), (-1, 5), {"hidden_size": 4, "direction": "reverse"},
    ),
    "ArrayFeatureExtractor": Case(
        "ArrayFeatureExtractor", [X, i64(0, 3)], 1, "indices from 0 to 3", (0, 3), (-1, 4), {"domain": "ai.onnx.ml"}
    ),
    "EmbedLayerNormalization": Case(
        "EmbedLayerNormalization",
        [np.int32([[1, 2]]), np.int32([[0, 1]]), X, floats(6, 4), floats(2, 4), floats(4), floats(4)], 0,
        "indices from 0 to 4", (0, 4), (-1, 5), {"domain": M},
    ),
    "EmbedLayerNormalization, segments": Case(
        "EmbedLayerNormalization",
        [np.int32([[1, 2]]), np.int32([[0, 1]]), X, floats(6, 4), floats(2, 4), floats(4), floats(4)], 1,
        "indices from 0 to 1", (0, 1), (-1, 2), {"domain": M},
    ),
    "Microsoft's RotaryEmbedding": Case(
        "RotaryEmbedding", [floats(1, 3, 8), i64([0, 1, 2]), floats(10, 4), floats(10, 4)], 1, "positions from 0 to 9",
        (0, 9), (-1, 10), {"domain": M},
    ),
    "Microsoft's RotaryEmbedding, first position": Case(
        "RotaryEmbedding", [floats(1, 3, 8), i64(0), floats(10, 4), floats(10, 4)], 1, "positions from 0 to 7", (0, 7),
        (-1, 8), {"domain": M},
    ),
    "GroupQueryAttention": Case(
        "GroupQueryAttention",
        [floats(1, 3, 8), floats(1, 3, 8), floats(1, 3, 8), None, None, np.int32([2]), np.int32([3])], 5,
        "lengths less 1 from 0 to 2", (0, 2), (-1, 3),
        {"domain": M, "outputs": 3, "num_heads": 1, "kv_num_heads": 1},
    ),
    "DecoderMaskedMultiHeadAttention": Case(
        "DecoderMaskedMultiHeadAttention",
        [*floats(3, 2, 1, 8), None, None, *floats(2, 2, 1, 5, 8), np.int32([3])], 7, "past steps from 0 to 4", (0, 4),
        (-1, 5), {"domain": M, "outputs": 3, "num_heads": 1, "past_present_share_buffer": 1},
    ),
    "DecoderMaskedMultiHeadAttention, mask": Case(
        "DecoderMaskedMultiHeadAttention",
        [*floats(3, 2, 1, 8), np.ones((2, 3), np.int32), None, *floats(2, 2, 1, 5, 8), np.int32([2])], 7,
        "past steps from 2 to 2", (2,), (1, 3), {"domain": M, "num_heads": 1, "past_present_share_buffer": 1},
    ),
    "DecoderMaskedMultiHeadAttention, beam_width": Case(
        "DecoderMaskedMultiHeadAttention",
        [*floats(3, 2, 1, 8), None, None, *floats(2, 2, 1, 5, 8), np.int32([4]), np.int32([1])], 8,
        "beams without cache_indirection from 1 to 1", (1,), (0, 2),
        {"domain": M, "num_heads": 1, "past_present_share_buffer": 1},
    ),
    "PagedAttention": Case(
        "PagedAttention", [*PAGED, np.int32([[1, 2]])], 7, "pages from -1 to 2", (-1, 2), (-2, 3), PAGED_FIELDS, "dfh"
    ),
    "PagedAttention, past": Case(
        "PagedAttention", [*PAGED, np.int32([[1, 2]])], 6, "past lengths from 0 to 4", (0, 3), (-1, 5), PAGED_FIELDS
    ),
    "PagedAttention, slots": Case(
        "PagedAttention", [*PAGED, np.int32([[1, 2]]), None, None, np.int32([3])], 10, "slots from -1 to 5", (-1, 5),
        (-2, 6), PAGED_FIELDS,
    ),
}  # fmt: skip
for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
    both = [np.array([7, 100, 9], kind), np.array([2, 1, 3], kind)]
    CASES[f"Div of {kind}"] = Case("Div", both, 1, "integers other than 0", (1,), (0,))
    CASES[f"Mod of {kind}"] = Case("Mod", both, 1, "integers other than 0", (1,), (0,), dynamic="a")
CASES["Mod with the dividend's sign"] = Case("Mod", both, 1, "integers other than 0", (5,), (0,), {"fmod": 1})
VARIANTS = [(name, dynamic) for name, c in CASES.items() for dynamic in dict.fromkeys(("", c.dynamic))]


def feeds(c, values, *, low=False):
    """The inputs, with each of the values as the first and as the last element of the one that is put to the test."""
    kind = c.arrays[c.which].dtype
    for v in values:
        if kind.kind in "iu" and not np.iinfo(kind).min <= v <= np.iinfo(kind).max:
            continue
        for at in (0, -1):
            arrays = list(c.arrays)
            arrays[c.which] = arrays[c.which].copy()
            arrays[c.which].reshape(-1)[0 if kind.kind == "f" else at] = v
            yield v, [None if x is None else guarded(x, low=low) for x in arrays]


def compiled(c, dynamic="", **how):
    model, names = model_of(c.op, c.arrays, dynamic=dynamic, **c.fields)
    if c.op == "GroupQueryAttention":  # its total must follow from shapes
        model.graph.input.pop()
        model.graph.initializer.append(helper.make_tensor("g", TensorProto.INT32, [1], [3]))
        names = names[:-1]
    known = graphfuse.compile(model, threads=1, **how)
    return lambda arrays: known({n: x for n, x in zip(names, arrays, strict=False) if n})


@pytest.mark.parametrize(("name", "dynamic"), VARIANTS)
def test_what_does_not_fit_is_an_error(name, dynamic, monkeypatch):
    c = CASES[name]
    guard_runs(monkeypatch)
    run = compiled(c, dynamic)
    for _, arrays in feeds(c, c.good):
        run(arrays)
    error = DivisionByZeroError if 0 in c.bad and c.op in ("Div", "Mod") else IndexRangeError
    for value, arrays in feeds(c, (*c.bad, *(() if error is DivisionByZeroError else HUGE))):
        message = rf"^/it: error: {c.op}: input '{ascii_lowercase[c.which]}': expected {c.what}.*, found "
        with pytest.raises(error, match=message) as raised:
            run(arrays)
        found = int(raised.value.message.rpartition(" ")[2])
        assert found == max(value, 1 - (1 << 63)) or c.arrays[c.which].dtype.kind == "f"


@pytest.mark.some(34)
@pytest.mark.parametrize(("name", "dynamic"), VARIANTS)
def test_where_nobody_looks_no_other_memory_is_touched(name, dynamic, monkeypatch):
    c = CASES[name]
    run = compiled(c, dynamic, check_indices=False)
    for low in (False, True):
        guard_runs(monkeypatch, low=low)
        for _, arrays in feeds(c, (*c.good, *c.bad, *HUGE), low=low):
            run(arrays)


def gather(**dims):
    """x[5, 4] by i[2]."""
    return model_of("Gather", [X, i64(1, 0)], **dims)[0]


BAD = {"a": X, "b": i64(0, 5)}
MESSAGE = r"/it: error: Gather: input 'b': expected indices from -5 to 4, found 5$"


def test_an_artifact_looks_too(tmp_path):
    model = graphfuse.compile(gather(dynamic="ab"))
    model.save(tmp_path / "m.gfx")
    loaded = graphfuse.load(tmp_path / "m.gfx")
    assert [s.name for s in loaded.signature.outputs] == ["y0"]
    again = graphfuse.CompiledModel(recompile(tmp_path / "m.gfx"))
    for m in (model, loaded, again):
        assert [o["name"] for o in m.inspect({"a0": 5, "a1": 4, "b0": 2})["outputs"]] == ["y0"]
        assert list(m({"a": X, "b": i64(0, 4)})) == ["y0"]
        for run in (m, m.profile):
            with pytest.raises(IndexRangeError, match=MESSAGE):
                run(BAD)
    out = np.zeros((2, 4), np.float32)
    with pytest.raises(IndexRangeError, match=MESSAGE):
        model.session.run(BAD, {"y0": out})


def test_nothing_is_looked_at_where_that_is_not_wanted(tmp_path, capsys):
    model = gather()
    wanted = X[[0, 4]]
    runs = [graphfuse.compile(model, check_indices=False), lambda feed: {"y0": session.run(None, feed)[0]}]
    session = InferenceSession(model.SerializeToString(), check_indices=False)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    assert main(["compile", str(tmp_path / "m.onnx"), "--no-check-indices", "-o", str(tmp_path / "m.gfx")]) == 0
    runs.append(graphfuse.load(tmp_path / "m.gfx"))
    for run in runs:
        np.testing.assert_array_equal(run(BAD)["y0"], wanted)
    assert main(["run", str(tmp_path / "m.gfx"), "--random", "--no-check-indices"]) == 2
    assert "--no-check-indices: " in capsys.readouterr().err


def test_a_gpu_does_not_wait_for_it(tmp_path):
    graphfuse.compile(gather(), target=("cpu", "cuda:sm_90a")).save(tmp_path / "m.gfx")
    found = graphfuse.load(tmp_path / "m.gfx").executable.variants
    assert [len(v.checks) for v in found] == [1, 0]
    on_gpu = graphfuse.load(tmp_path / "m.gfx", device="emulator")
    np.testing.assert_array_equal(on_gpu(BAD)["y0"], X[[0, 4]])
    with pytest.raises(IndexRangeError, match=MESSAGE):
        graphfuse.load(tmp_path / "m.gfx")(BAD)


def whole(nodes, inputs, outputs, constants=()):
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_empty_tensor_value_info(n) for n in outputs], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)


def info(name, *shape, elem=TensorProto.INT64):
    return helper.make_tensor_value_info(name, elem, shape)


def body(name, nodes, inputs, outputs):
    return helper.make_graph(nodes, name, inputs, [helper.make_empty_tensor_value_info(n) for n in outputs])


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, name=f"/{outputs[0]}", **attributes)


def test_only_the_branch_that_is_taken_counts():
    branches = {
        f"{side}_branch": body(side, [node("Gather", ["x", name], [f"{side}_y"])], [], [f"{side}_y"])
        for side, name in (("then", "i"), ("else", "j"))
    }
    model = whole(
        [node("If", ["c"], ["y"], **branches)],
        [info("c", elem=TensorProto.BOOL), info("x", 5, 4, elem=TensorProto.FLOAT), info("i", 2), info("j", 2)], ["y"],
    )  # fmt: skip
    run = graphfuse.compile(model)
    good, bad = i64(1, 2), i64(7, 9)
    for c, i, j in ((True, good, bad), (False, bad, good)):
        np.testing.assert_array_equal(run(c=np.array(c), x=X, i=i, j=j)["y"], X[good])
        with pytest.raises(IndexRangeError, match=f"/{'then' if c else 'else'}_y: error: Gather: .*found 9"):
            run(c=np.array(c), x=X, i=bad if c else good, j=good if c else bad)


@pytest.mark.parametrize("count", [3, 100])  # unrolled, and not
def test_loops_and_scans_report_what_is_wrong_in_any_iteration(count):
    step = body(
        "b", [node("Gather", ["x", "at"], ["row"]), node("Identity", ["at"], ["next"])], [info("at"), info("one")],
        ["next", "row"],
    )  # fmt: skip
    step.node[0].input[1] = "one"
    model = whole(
        [node("Scan", ["start", "i"], ["last", "y"], body=step, num_scan_inputs=1)],
        [info("start"), info("i", count), info("x", 5, 4, elem=TensorProto.FLOAT)], ["last", "y"],
    )  # fmt: skip
    run = graphfuse.compile(model)
    at = np.arange(count) % 5
    np.testing.assert_array_equal(run(start=i64(0).reshape(()), i=at, x=X)["y"], X[at])
    at[-1] = 77
    with pytest.raises(IndexRangeError, match=r"/row: error: Gather: input 'one': expected .*, found 77"):
        run(start=i64(0).reshape(()), i=at, x=X)


def test_a_loop_that_never_runs_finds_nothing():
    inner = body(
        "b",
        [node("Gather", ["x", "i"], ["row"], axis=0), node("Add", ["s", "row"], ["t"]), node("Identity", ["c"], ["d"])],
        [info("k"), info("c", elem=TensorProto.BOOL), info("s", 4, elem=TensorProto.FLOAT)], ["d", "t"],
    )  # fmt: skip
    model = whole(
        [
            node("Shape", ["rows"], ["n"]), node("Squeeze", ["n"], ["m"]),
            node("Loop", ["m", "", "start"], ["y"], body=inner),
        ],
        [
            info("rows", "n"), info("x", 5, 4, elem=TensorProto.FLOAT), info("i"),
            info("start", 4, elem=TensorProto.FLOAT),
        ],
        ["y"],
    )  # fmt: skip
    run = graphfuse.compile(model, dims={"n": (0, 100)})
    feed = {"x": X, "start": np.zeros(4, np.float32), "i": np.array(9)}
    np.testing.assert_array_equal(run(feed, rows=np.zeros(0, np.int64))["y"], 0)
    for rows in (1, 100):
        with pytest.raises(IndexRangeError, match="found 9"):
            run(feed, rows=np.zeros(rows, np.int64))


def test_parts_that_python_runs_in_turn_look_too():
    model = whole(
        [node("Gather", ["x", "i"], ["g"]), node("NonZero", ["g"], ["z"]), node("Gather", ["x", "j"], ["h"])],
        [info("x", 5, 4, elem=TensorProto.FLOAT), info("i", 2), info("j", 2)], ["z", "h"],
    )  # fmt: skip
    run = graphfuse.compile(model)
    assert run.executable.host is not None
    run(x=X, i=i64(0, 1), j=i64(0, 1))
    for i, j, name in ((9, 0, "g"), (0, 9, "h")):
        with pytest.raises(IndexRangeError, match=f"^/{name}: error: Gather: .* found 9"):
            run(x=X, i=i64(0, i), j=i64(j, 0))


@pytest.mark.parametrize("second", ["clipped", "remainder", "position", "largest"])
def test_what_is_in_range_by_how_it_is_made_is_not_looked_at(second):
    made = {
        "clipped": [node("Clip", ["i", "zero", "four"], ["at"])],
        "remainder": [node("Mod", ["i", "four"], ["at"])],
        "position": [node("Shape", ["x"], ["s"]), node("Range", ["zero", "four", "one"], ["at"])],
        "largest": [node("ArgMax", ["x"], ["at"], axis=0, keepdims=0)],
    }[second]
    constants = [helper.make_tensor(n, TensorProto.INT64, [], [v]) for n, v in (("zero", 0), ("one", 1), ("four", 4))]
    model = whole(
        [*made, node("Gather", ["x", "at"], ["y"])], [info("x", 5, 4, elem=TensorProto.FLOAT), info("i", 4)], ["y"],
        constants,
    )  # fmt: skip
    assert graphfuse.compile(model).executable.checks == ()


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64"])
def test_the_least_integer_by_minus_one_is_itself(kind):
    """It wraps; the remainder is 0. A processor's own instruction would trap."""
    least = np.iinfo(kind).min
    for op, fields, want in (("Div", {}, least), ("Mod", {}, 0), ("Mod", {"fmod": 1}, 0)):
        model, _ = model_of(op, [np.full(37, least, kind), np.full(37, -1, kind)], **fields)
        got = graphfuse.compile(model, threads=1)(a=np.full(37, least, kind), b=np.full(37, -1, kind))["y0"]
        np.testing.assert_array_equal(got, np.full(37, want, kind))


NOTHING = {
    "Gather": ([(0, 4), (3,)], {}),
    "GatherElements": ([(0, 4), (3, 4)], {}),
    "GatherND": ([(0, 4), (3, 1)], {}),
    "ScatterElements": ([(0, 4), (3, 4), (3, 4)], {}),
    "ScatterElements, added": ([(0, 4), (3, 4), (3, 4)], {"reduction": "add"}),
    "ScatterND": ([(0, 4), (3, 1), (3, 4)], {}),
    "ScatterND, added": ([(0, 4), (3, 1), (3, 4)], {"reduction": "add"}),
}


@pytest.mark.parametrize("name", NOTHING)
def test_nothing_can_be_chosen_from_nothing(name, monkeypatch):
    """Not even the nearest: a dim without elements has none."""
    shapes, fields = NOTHING[name]
    op = name.partition(",")[0]
    arrays = [np.zeros(s, np.int64 if i == 1 else np.float32) for i, s in enumerate(shapes)]
    model, _ = model_of(op, arrays, dynamic="a", **fields)
    guard_runs(monkeypatch)
    checked, unchecked = (
        graphfuse.compile(model, threads=1, dims={"a0": (0, 9)}, check_indices=check) for check in (True, False)
    )
    for index in (0, -1, 5):
        arrays[1][...] = index
        feed = dict(zip("abc", map(guarded, arrays), strict=False))
        with pytest.raises(IndexRangeError, match=f"expected no indices, found {index}"):
            checked(feed)
        unchecked(feed)


@pytest.mark.parametrize("device", ["cpu", "emulator"])
@pytest.mark.parametrize("name", ["ScatterElements", "ScatterND", "ScatterElements, added"])
def test_what_is_written_out_of_range_is_dropped_where_nobody_looks(name, device):
    c = CASES[name]
    along = c.op == "ScatterElements"
    run = compiled(c, check_indices=False, device=device)
    for bad in (-6, 5, 1 << 40, -(1 << 63)):
        at = i64([0, bad, 2, -1]) if along else i64([bad], [1])
        (got,) = run([X, at, c.arrays[2]]).values()
        want = X.copy()
        for k, i in enumerate(at.reshape(-1)):
            if -5 <= i < 5:
                place, new = (int(i), k) if along else int(i), c.arrays[2][0 if along else k][k if along else ...]
                want[place] = new + (want[place] if name.endswith("added") else 0)
        np.testing.assert_array_equal(got, want)


SIZES = {
    "Reshape": ([X, i64(-6, 4)], r"/?it: .*Reshape: shape: expected at most one -1 and nothing below, found \[-6, 4\]"),
    "Pad": ([X, i64(0, -5, 0, 0)], "Pad: pads: expected to cut off up to 4 of 4 elements, found 5"),
    "ConstantOfShape": ([i64(1 << 40, 2)], "ConstantOfShape: the result does not fit into memory"),
    "Tile": ([X, i64(1 << 50, 1)], "Tile: "),
    "Expand": ([X, i64(1 << 40, 5, 4)], "Expand: the result does not fit into memory"),
    "Range": ([np.array(v) for v in (0, 1 << 62, 1)], "Range: "),
    "TopK": ([X, i64(6)], r"TopK: k: expected 0\.\.4, found 6"),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_mean_nothing_or_too_much_are_one_error(name):
    arrays, message = SIZES[name]
    model, names = model_of(name, arrays, outputs=2 if name == "TopK" else 1)
    run = graphfuse.compile(model)
    with pytest.raises(GraphfuseError, match=message) as raised:
        run(dict(zip(names, arrays, strict=True)))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("k", [3, -5, -6, 1 << 62, (1 << 63) - 1, -(1 << 63)])
def test_any_diagonal_is_one(k, known):
    for upper, fn in ((0, np.tril), (1, np.triu)):
        model, _ = model_of("Trilu", [X, np.array(k)], upper=upper)
        if known:
            model.graph.input.pop()
            model.graph.initializer.append(helper.make_tensor("b", TensorProto.INT64, [], [k]))
        got = graphfuse.compile(model)({"a": X} if known else {"a": X, "b": np.array(k)})["y0"]
        np.testing.assert_array_equal(got, fn(X, min(max(k, -10), 10)))


def test_a_range_of_integers_that_floats_cannot_count():
    start, limit, delta = 0, (1 << 62) + 1, 1 << 60
    model, _ = model_of("Range", [np.array(v) for v in (start, limit, delta)])
    got = graphfuse.compile(model)(a=np.array(start), b=np.array(limit), c=np.array(delta))["y0"]
    assert got.tolist() == list(range(start, limit, delta))


FAR = (1 << 63) - 1


@pytest.mark.parametrize("step", [FAR, -FAR, 1 << 62, 7])
def test_a_step_out_of_any_dim_leaves_one_element(step, monkeypatch):
    """Kernels compute in 64 bits, in which what is added to such a step has no room."""
    guard_runs(monkeypatch)
    model, _ = model_of(
        "Slice", [X, i64(-1 if step < 0 else 0), i64(-FAR if step < 0 else FAR), i64(0), i64(step)], dynamic="a"
    )
    for name, value in (("b", -1 if step < 0 else 0), ("c", -FAR if step < 0 else FAR), ("d", 0), ("e", step)):
        model.graph.input.remove(next(i for i in model.graph.input if i.name == name))
        model.graph.initializer.append(helper.make_tensor(name, TensorProto.INT64, [1], [value]))
    got = graphfuse.compile(model)(a=guarded(X))["y0"]
    np.testing.assert_array_equal(got, X[::step])


def test_frames_that_lie_further_apart_than_any_signal_is_long_are_one(monkeypatch):
    guard_runs(monkeypatch)
    signal, window = floats(1, 16, 1), np.ones(8, np.float32)
    model, _ = model_of("STFT", [signal, np.array(FAR), window], dynamic="a")
    for name, array in (("b", np.array(FAR)), ("c", window)):
        model.graph.input.remove(next(i for i in model.graph.input if i.name == name))
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    got = graphfuse.compile(model)(a=guarded(signal))["y0"]
    want = np.fft.rfft(signal[0, :8, 0])
    np.testing.assert_allclose(got[0, 0, :, 0] + 1j * got[0, 0, :, 1], want, atol=1e-5)


def test_strides_that_no_64_bits_hold_are_refused():
    model, _ = model_of("MaxPool", [floats(1, 1, 5, 5)], dynamic="a", kernel_shape=[2, 2], strides=[FAR, 1])
    with pytest.raises(TooLargeError, match="/it: error: MaxPool: expected dims made of numbers up to"):
        graphfuse.compile(model)
