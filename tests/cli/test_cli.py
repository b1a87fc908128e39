"""The command line: what it prints, and for each kind of bad input one line and the documented exit code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import graphfuse
from graphfuse.cli import main
from graphfuse.cli.common import NO_REASON, file_name, nbytes_text
from graphfuse.cli.explain import APART
from graphfuse.cli.html import is_cliff
from graphfuse.cli.model_options import parse_dims
from graphfuse.cli.program import VERBS
from graphfuse.cli.reference import Reference
from graphfuse.cli.verify import compare, relative_error
from graphfuse.errors import GraphfuseError, UsageError
from graphfuse.kernels.tuned import Record
from graphfuse.knobs import all_knobs, scope
from graphfuse.peaks import Peaks
from graphfuse.runtime import gfx
from tests.runtime.sample import executable, expected, inputs


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("GRAPHFUSE_CACHE", str(folder))
    return folder


@pytest.fixture
def artifact(tmp_path) -> Path:
    path = tmp_path / "m.gfx"
    gfx.save(executable(), path)
    return path


@pytest.fixture
def model(tmp_path) -> Path:
    """relu(x @ w + x), x: f32[batch, 8]."""
    rng = np.random.default_rng(0)
    w = onnx.numpy_helper.from_array(rng.standard_normal((8, 8)).astype(np.float32), "w")
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["m"], name="mm"),
            helper.make_node("Add", ["m", "x"], ["a"], name="add"),
            helper.make_node("Relu", ["a"], ["y"], name="relu"),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 8])],
        [w],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "m.onnx"
    onnx.save(proto, path)
    return path


def fails(capsys, *args: object) -> tuple[int, str]:
    """The exit code and the one line on stderr."""
    code = main([str(a) for a in args])
    out, err = capsys.readouterr()
    assert code != 0 and out == ""
    assert err.count("\n") == 1 and "Traceback" not in err
    return code, err.strip()


def prints(capsys, *args: object) -> str:
    code = main([str(a) for a in args])
    out, err = capsys.readouterr()
    assert code == 0, err
    return out


# tuning


def test_kernels_are_tuned(capsys, model, tmp_path, cache):
    out, choices = tmp_path / "tuned.gfx", tmp_path / "choices.json"
    prints(capsys, "compile", model, "-o", out, "--tune")
    reasons = [d["reason"] for d in gfx.load(out).ledger if d["producer"] == "schedule"]
    assert len(reasons) == 1
    assert " us, of " in reasons[0]
    prints(capsys, "verify", out)
    prints(capsys, "compile", model, "-o", out, "--tune", "--numerics", "fast")
    assert Record(next(cache.rglob("tuned.json"))).export(choices) == 2, "other numerics are tuned for themselves"
    code, line = fails(capsys, "compile", model, "-o", out, "--tune", "--target", "cpu:x86-64-v2")
    assert code == 2
    assert "tuning: expected" in line


# numerics


def test_numerics_from_the_command_line(capsys, model, tmp_path):
    out = tmp_path / "strict.gfx"
    assert prints(capsys, "compile", model, "-o", out, "--numerics", "strict") == ""
    assert "numerics strict, " in prints(capsys, "inspect", out)
    assert json.loads(prints(capsys, "inspect", out, "--json"))["meta"]["numerics"] == "strict"
    for numerics in ("strict", "eager", "fast"):
        prints(capsys, "run", model, "--random", "--numerics", numerics)
        prints(capsys, "verify", model, "--numerics", numerics)
        prints(capsys, "bench", model, "--rounds", 1, "--numerics", numerics)
    prints(capsys, "run", out, "--random", "--numerics", "strict")
    again = tmp_path / "again.gfx"
    prints(capsys, "compile", out, "--recompile", "-o", again)
    assert gfx.load(again).meta["numerics"] == "strict"
    prints(capsys, "compile", out, "--recompile", "-o", again, "--numerics", "fast")
    assert gfx.load(again).meta["numerics"] == "fast"


def test_bad_numerics(capsys, model, tmp_path):
    wrong = "error: unknown numerics 'stirct'; did you mean 'strict'?"
    for args in (("compile", model, "--emit", "graph"), ("run", model), ("bench", model), ("verify", model)):
        assert fails(capsys, *args, "--numerics", "stirct") == (2, wrong)
    out = tmp_path / "fast.gfx"
    prints(capsys, "compile", model, "-o", out, "--numerics", "fast")
    code, line = fails(capsys, "run", out, "--random", "--numerics", "strict")
    assert code == 2 and line.endswith("is an artifact, compiled with 'fast'")
    code, line = fails(capsys, "compile", out, "--recompile", "--emit", "block", "--numerics", "strict")
    assert code == 2 and "was compiled with numerics 'fast': expected that or freer, got 'strict'" in line


# artifacts


def test_inspect(capsys, artifact):
    out = prints(capsys, "inspect", artifact, "--dim", "n=64")
    assert "2 kernels in 4 launches" in out and "1.000 x its lower bound 1.3 kB" in out
    assert "dim    n in 1..64, here 64" in out


def test_inspect_json(capsys, artifact):
    facts = json.loads(prints(capsys, "inspect", artifact, "--json"))
    assert facts["kernels"] == 2 and facts["dims"] == {"n": [1, 64]} and [0, 1] in facts["edges"]


def test_a_profile_has_every_kernel_once_slowest_first(capsys, wide):
    out = prints(capsys, "profile", wide, "--dim", "batch=64", "--rounds", "3", "--top", "1")
    head, row, rest = (out.splitlines()[i] for i in (1, 2, 3))
    assert head.split()[:3] == ["kernel", "from", "median"] and "_0" in row and rest.startswith("and 1 more, ")
    assert "3 runs" in out and " in 2 launches" in out and "Gflop/s and moves" in out
    facts = json.loads(prints(capsys, "profile", wide, "--dim", "batch=64", "--rounds", "3", "--json"))
    medians = [k["median_us"] for k in facts["kernels"]]
    assert medians == sorted(medians, reverse=True)
    assert {launch for k in facts["kernels"] for launch in k["launches"]} == {0, 1}
    by_kind = {k["kind"]: k for k in facts["kernels"]}
    assert by_kind["contraction"]["flops"] == 2 * 64 * 256 * 256
    assert by_kind["reduction"]["nbytes"] == 2 * 64 * 256 * 4
    assert all(k["gbytes"] * k["median_us"] * 1e3 == pytest.approx(k["nbytes"]) for k in facts["kernels"])


def test_numbers_of_threads_are_compared(capsys, wide, tmp_path):
    given = ("profile", wide, "--dim", "batch=64", "--rounds", "3")
    head, *rows = [line for line in prints(capsys, *given, "--threads", "2,1").splitlines()[1:] if line]
    assert re.split(r"  +", head.strip()) == ["kernel", "from", "1 thread", "2 threads", "times as fast"]
    assert [r.split()[0] for r in rows[:3]] == ["contraction_0", "reduction_0", "a"] and rows[2].startswith("a run")
    one, two = json.loads(prints(capsys, *given, "--threads", "1,2", "--json"))["sweep"]
    assert (one["threads"], two["threads"]) == (1, 2)
    for facts in (one, two):
        assert facts["wall_us"] <= facts["wall_p90_us"] <= facts["wall_p99_us"]
        assert all(k["median_us"] <= k["p90_us"] <= k["p99_us"] for k in facts["kernels"])
        assert sorted(k["kernel"] for k in facts["kernels"]) == ["contraction_0", "reduction_0"]
    for text in ("0", "1,", "1,x", "1025", "٣"):
        wrong = f"error: --threads: expected numbers from 1 to 1024, such as 4 or 1,2,4, got {text!r}"
        assert fails(capsys, *given, "--threads", text) == (2, wrong)
    wrong = "error: --threads: expected one number for a trace, got 2"
    assert fails(capsys, *given, "--threads", "1,2", "--trace", tmp_path / "t.json") == (2, wrong)


def test_bench_has_the_kernels_if_asked(capsys, wide):
    given = ("bench", wide, "--dim", "batch=64", "--rounds", "2")
    assert "contraction_0" not in prints(capsys, *given)
    text = prints(capsys, *given, "--profile")
    assert text.index("p99 ms") < text.index("contraction_0") < text.index("a run takes ")
    facts = json.loads(prints(capsys, *given, "--profile", "--json"))
    assert facts["times"]["graphfuse"]["p99_ms"] > 0 and len(facts["profile"]["kernels"]) == 2


def test_what_has_texts_is_measured_on_those_that_are_given(capsys, tmp_path):
    a, b = (helper.make_tensor_value_info(n, TensorProto.STRING, ["n"]) for n in "ab")
    graph = helper.make_graph([helper.make_node("StringConcat", ["a", "a"], ["b"], name="twice")], "g", [a], [b])
    path = tmp_path / "texts.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    wrong = "error: input 'a': texts cannot be made up: expected --input a=FILE.npy of run"
    np.savez(tmp_path / "texts.npz", a=np.array(["x", "yz"]))
    for verb in ("profile", "bench"):
        assert fails(capsys, verb, path) == (2, wrong)
        assert "StringConcat" in prints(
            capsys, verb, path, "--inputs", tmp_path / "texts.npz", *["--profile"] * (verb == "bench")
        )
    assert prints(capsys, "explain", path).split() == [str(path), "kernel", "operators", "python", "twice"]


def test_the_emulator_has_no_times(capsys, model, tmp_path):
    wrong = (2, "error: expected a device to measure, found emulator, which has no times of a GPU")
    for verb in (("profile",), ("inspect", "--profile"), ("bench",)):
        assert fails(capsys, *verb, model, "--device", "emulator") == wrong
    prints(capsys, "inspect", model, "--device", "emulator", "--html", tmp_path / "m.html")
    assert "assembly" in (tmp_path / "m.html").read_text()


def test_what_is_read_is_not_written_over(capsys, model, tmp_path):
    before = model.read_bytes()
    (tmp_path / "link").symlink_to(model)
    for verb, option in (("profile", "--trace"), ("inspect", "--html")):
        for path in (model, tmp_path / "link"):
            code, line = fails(capsys, verb, model, option, path)
            assert code == 2 and line.startswith(f"error: {option}: expected another file than those that are read")
    assert model.read_bytes() == before


def test_launches_of_a_kernel_are_one_row(capsys, artifact):
    facts = json.loads(prints(capsys, "profile", artifact, "--dim", "n=64", "--rounds", "2", "--json"))
    assert sorted(len(k["launches"]) for k in facts["kernels"]) == [1, 3]
    assert facts["rounds"] == 2 and facts["wall_us"] > 0


def test_a_profile_is_a_trace_of_launches_behind_each_other(capsys, artifact, tmp_path):
    prints(capsys, "profile", artifact, "--rounds", "2", "--trace", tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert [e["args"]["launch"] for e in events] == [0, 1, 2, 3] and {e["ph"] for e in events} == {"X"}
    assert all(a["ts"] + a["dur"] == pytest.approx(b["ts"]) for a, b in pairwise(events))


def test_times_stand_beside_the_least_there_could_be(capsys, artifact):
    head = [line for line in prints(capsys, "inspect", artifact, "--profile").splitlines() if line.startswith("#")]
    assert head[0].split()[-4:] == ["median", "p90", "p99", "bound"]
    facts = json.loads(prints(capsys, "inspect", artifact, "--profile", "--json"))
    assert all(0 < step["median_us"] <= step["p90_us"] <= step["p99_us"] for step in facts["steps"])
    assert facts["profile"]["measured_by"] == "clock" and len(facts["profile"]["kernels"]) == 2
    assert all(step["bound_us"] >= 0 for step in facts["steps"])
    assert max(step["bound_us"] for step in facts["steps"]) > 0


def test_what_takes_long_and_far_longer_than_it_must_is_a_cliff():
    assert is_cliff(30.0, 7.0)
    assert not is_cliff(30.0, 8.0)
    assert not is_cliff(19.0, 0.1)
    assert not is_cliff(30.0, 0.0), "of what Python runs nothing is known"


def test_no_kernel_takes_less_than_its_bytes_and_operations():
    peaks = Peaks(bytes_per_us=1e3, cached_per_us=1e4, cached=1 << 20, flops_per_us=1e5)
    assert peaks.bound_us(1 << 19, 0) == (1 << 19) / 1e4
    assert peaks.bound_us(1 << 22, 0) == (1 << 22) / 1e3
    assert peaks.bound_us(1 << 10, 1e7) == 100


def explained(capsys, *args) -> str:
    return prints(capsys, "explain", *args)


def test_what_became_of_operators_and_why_they_are_apart(capsys, tmp_path):
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 8]) for n in "xy")
    w = onnx.numpy_helper.from_array(np.ones((8, 8), np.float32), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="positive"),
        helper.make_node("MatMul", ["b", "w"], ["c"], name="second"),
        helper.make_node("Softmax", ["c"], ["y"], name="weights"),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], [w])
    model = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    lines = [line.split() for line in explained(capsys, model).splitlines()]
    assert ["contraction_0", "first", "+", "positive"] in lines
    kernels = json.loads(explained(capsys, model, "--json"))["kernels"]
    assert [k["operators"] for k in kernels] == [["first", "positive"], ["second"], ["weights"]]
    assert (
        explained(capsys, model, "--why-not", "first", "positive")
        == "first and positive are one kernel, contraction_0\n"
    )
    why = explained(capsys, model, "--why-not", "weights", "second").splitlines()
    assert why[:2] == ["weights is reduction_0", "second is contraction_1"]
    assert why[2].startswith("weights is not in the contraction of second: ")
    assert APART in explained(capsys, model, "--why-not", "first", "weights")
    answer = json.loads(explained(capsys, model, "--why-not", "positive", "weights", "--json"))
    assert answer["operators"] == ["positive", "weights"] and answer["why"][-1] == APART
    code, line = fails(capsys, "explain", model, "--why-not", "fist", "weights")
    assert (code, line) == (2, "error: no operator 'fist': expected one of the model's, such as first")


def test_what_python_runs_is_no_kernel(capsys, tmp_path):
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Exp", ["x"], ["e"], name="exp"),
        helper.make_node("NonZero", ["e"], ["nz"], name="nonzero"),
        helper.make_node("Identity", ["nz"], ["same"], name="same"),
        helper.make_node("Transpose", ["same"], ["y"], name="turned"),
    ]
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, [5, 7])], [value("y", TensorProto.INT64, ["m", 2])]
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    kernels = json.loads(explained(capsys, path, "--json"))["kernels"]
    assert {"kernel": "python", "operators": ["nonzero"]} in kernels
    why = explained(capsys, path, "--why-not", "nonzero", "exp").splitlines()
    assert why == ["nonzero is no kernel: Python runs it", "exp is pointwise_0"]
    why = explained(capsys, path, "--why-not", "same", "exp").splitlines()
    assert why == ["same is no kernel: it is a view, or was folded", "exp is pointwise_0"]
    code, line = fails(capsys, "explain", path, "--why-not", "nonzeros", "exp")
    assert (code, line) == (2, "error: no operator 'nonzeros': expected one of the model's, such as nonzero")
    both = json.loads(explained(capsys, path, "--why-not", "exp", "turned", "--json"))["why"]
    assert both[0] == "exp is pointwise_0" and both[1].startswith("turned is ")


def test_a_cut_that_nobody_gave_a_reason_for(capsys, artifact):
    names = [k["operators"][0] for k in json.loads(explained(capsys, artifact, "--json"))["kernels"]]
    assert NO_REASON in explained(capsys, artifact, "--why-not", names[0], names[1])


def test_run_saves_outputs(capsys, artifact, tmp_path):
    feed = inputs(3)
    for name, array in feed.items():
        np.save(tmp_path / f"{name}.npy", array)
    given = [f"--input={name}={tmp_path / name}.npy" for name in feed]
    out = json.loads(prints(capsys, "run", artifact, *given, "--output-dir", tmp_path / "out", "--json"))
    assert [o["name"] for o in out["outputs"]] == ["y", "total"]
    for name, array in expected(feed).items():
        np.testing.assert_allclose(np.load(tmp_path / "out" / f"{name}.npy"), array, rtol=1e-5, atol=1e-5)
    assert len(list((tmp_path / "out").iterdir())) == 2


def test_run_fills_in_what_is_missing(capsys, artifact, tmp_path):
    np.save(tmp_path / "x.npy", inputs(7)["x"])
    out = json.loads(prints(capsys, "run", artifact, f"--input=x={tmp_path / 'x.npy'}", "--random", "--json"))
    assert out["outputs"][1]["shape"] == [14, 5]
    assert "y" in prints(capsys, "run", artifact, "--random", "--seed", 3, "--dim", "n=2", "--threads", 1)


def test_bench(capsys, artifact):
    out = json.loads(prints(capsys, "bench", artifact, "--rounds", 3, "--json"))
    assert out["times"]["graphfuse"]["rounds"] == 3 and out["speedup"] is None


def test_verify_artifact(capsys, artifact):
    assert "weights" in prints(capsys, "verify", artifact, "--no-regions")
    data = bytearray(artifact.read_bytes())
    at = data.index(np.arange(1, 6, dtype=np.float32).tobytes())
    data[at] ^= 1
    artifact.write_bytes(data)
    code, line = fails(capsys, "verify", artifact)
    assert code == 7 and "section 'weights' is corrupted" in line


def test_cache_verbs(capsys, cache):
    assert prints(capsys, "cache", "info") == f"{cache}: 0 models, 0 B\n"
    cache.mkdir()
    gfx.save(executable(), cache / "ab.gfx")
    assert json.loads(prints(capsys, "cache", "info", "--json"))["entries"] == 1
    assert prints(capsys, "cache", "verify") == "1 models are sound\n"
    (cache / "ab.gfx").write_bytes((cache / "ab.gfx").read_bytes()[:-1])
    assert main(["cache", "verify"]) == 7
    assert "truncated" in capsys.readouterr().out
    assert "0 models are sound" in prints(capsys, "cache", "verify", "--delete")
    assert prints(capsys, "cache", "gc", "--max-size", "1G") == "removed 0 models\n"


def test_tables(capsys):
    assert "GRAPHFUSE_THREADS" in prints(capsys, "knobs")
    assert prints(capsys, "knobs", "--markdown").count("| `GRAPHFUSE_") == len(all_knobs())
    assert "| 7 | `ArtifactError` |" in prints(capsys, "errors", "--markdown")
    assert "InputError" in prints(capsys, "errors")


@pytest.fixture
def wide(tmp_path) -> Path:
    """A product and a softmax, with names as long as real ones."""
    name = "a_name_that_is_as_long_as_those_that_exporters_make_of_modules_within_modules"
    x, y = (helper.make_tensor_value_info(f"{name}_{n}", TensorProto.FLOAT, ["batch", 256]) for n in "xy")
    w = onnx.numpy_helper.from_array(np.ones((256, 256), np.float32), "w")
    nodes = [
        helper.make_node("MatMul", [x.name, "w"], ["m"], name=f"/{name}/MatMul"),
        helper.make_node("Softmax", ["m"], [y.name], name=f"/{name}/Softmax"),
    ]
    proto = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], [w]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    onnx.save(proto, tmp_path / "wide.onnx")
    return tmp_path / "wide.onnx"


def test_tables_keep_their_numbers(capsys, wide, monkeypatch):
    """At 80 columns texts are broken; at 30 a line is longer, and still whole."""
    exact = [("inspect", wide, "--dim", "batch=1000"), ("errors",)]
    timed = [("run", wide, "--random"), ("verify", wide, "--regions"), ("bench", wide, "--rounds", "1")]
    number = re.compile(r"(?:(?<=  )|^)-?[0-9][0-9.,e+-]*(?: [kMG]?B)?(?=  |$)", re.MULTILINE)
    piped = {c[0]: prints(capsys, *c) for c in (*exact, *timed)}
    assert max(map(len, piped["inspect"].splitlines())) > 100
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for columns in (80, 30):
        monkeypatch.setenv("COLUMNS", str(columns))
        for c in (*exact, *timed):
            text = re.sub(r"\x1b\[[0-9;]*m", "", prints(capsys, *c))
            found, wanted = number.findall(text), number.findall(piped[c[0]])
            assert "…" not in text and len(found) >= len(wanted) > 0, c
            assert c not in exact or Counter(found) >= Counter(wanted), c
            rows = [s for s in text.splitlines() if number.search(s)]
            assert columns < 80 or max(map(len, rows)) <= columns, c


# bad input: one line, and the exit code that docs/errors.md states


def npy(tmp_path, array) -> str:
    np.save(tmp_path / "i.npy", array)
    return f"{tmp_path / 'i.npy'}"


LAUNCH = ("--run", "--arg", "x={dir}/y.npy")
KERNEL = """// op: my::Thing
// inputs: x: float[N];   outputs: y: float[N]
// grid: 1
// args: y
#include "k.h"
__global__ void k(float *x) { *x = ONE; }
"""


@pytest.fixture
def inputs_that_may_be_lost(tmp_path, model):
    """Hard and soft links to the model, one with its weights apart, an array, and a kernel with what it includes."""
    os.link(model, tmp_path / "hard.onnx")
    (tmp_path / "soft.onnx").symlink_to("m.onnx")
    proto = onnx.load(model)
    onnx.save(proto, tmp_path / "apart.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    np.save(tmp_path / "y.npy", np.zeros((1, 8), np.float32))
    (tmp_path / "k.tc").write_text(KERNEL)
    (tmp_path / "k.h").write_text("#define ONE 1\n")


GOOD_X = np.zeros((2, 5), np.float32)
BAD_RUNS = [
    (("run", "{gfx}"), 6, "error: missing inputs 'x', 'past': expected --input NAME=FILE.npy, or --random to make up"),
    (("run", "{gfx}", "--input", "w={dir}/y.npy"), 6, "error: unknown input 'w': expected 'x', 'past'"),
    (("run", "{gfx}", "--input", "x"), 2, "error: --input: expected NAME=FILE.npy, got 'x'"),
    (("run", "{gfx}", "--input", "x=/nowhere.npy"), 9, "/nowhere.npy: error: cannot read: no such file or directory"),
    (("run", "{gfx}", "--input", "x={gfx}"), 6, "{gfx}: error: not a .npy file: "),
    (("run", "{gfx}", "--random", "--dim", "n=65"), 6, "error: dim 'n': expected 1..64, found 65"),
    (("run", "{gfx}", "--random", "--dim", "m=1"), 2, "error: unknown dim 'm': expected one of n"),
    (("run", "{gfx}", "--random", "--dim", "n"), 2, "error: --dim: expected NAME=N or NAME=LO..HI, got 'n'"),
    (("run", "{gfx}", "--random", "--dim", "n=3..2"), 2, "error: --dim: expected LO <= HI, got 'n=3..2'"),
    (("run", "{gfx}", "--random", "--threads", "0"), 2, "error: invalid value for '--threads'"),
    (("run", "{gfx}", "--random", "--output-dir", "{gfx}"), 9, "{gfx}: error: cannot write: file exists"),
    (("run", "{gfx}", "--random", "--seed", "-1"), 2, "error: invalid value for '--seed'"),
    (("run", "/nowhere.gfx", "--random"), 9, "/nowhere.gfx: error: cannot read: no such file or directory"),
    (("run", "/nowhere.onnx", "--random"), 9, "/nowhere.onnx: error: cannot read: no such file or directory"),
    (("run",), 2, "error: missing argument 'MODEL'"),
    (("frob",), 2, "error: no such command 'frob'"),
    (("run", "{gfx}", "--frob"), 2, "error: no such option '--frob'"),
    (
        ("bench", "{gfx}", "--against", "onnxruntime"),
        2,
        "error: --against: expected an ONNX model, an artifact runs in graphfuse only",
    ),
    (("compile", "{gfx}"), 2, "error: nothing to do: expected -o OUT.gfx or --emit STAGE"),
    (
        ("compile", "{gfx}", "-o", "{dir}/o.gfx"),
        2,
        "error: {gfx} is an artifact: expected an ONNX model, or --recompile",
    ),
    (
        ("compile", "{gfx}", "--recompile", "--dim", "n=1", "-o", "x"),
        2,
        "error: --recompile: the dims of an artifact are fixed, so --dim cannot be given",
    ),
    (
        ("compile", "{gfx}", "--recompile", "--tune", "-o", "x"),
        2,
        "error: --recompile: an artifact is rebuilt as it is, so --tune cannot be given",
    ),
    (
        ("compile", "{gfx}", "--recompile", "--kernels", "{dir}", "-o", "x"),
        2,
        "error: --recompile: an artifact holds its kernels, so --kernels cannot be given",
    ),
    (
        ("compile", "{onnx}", "--target", "cpu", "--target", "cuda:sm_80", "--emit", "ptx"),
        2,
        "error: --emit: expected one --target",
    ),
    (
        ("kernel", "{dir}/k.tc", "--run", "--arg", "x=zeros(100000, 100000)"),
        2,
        "error: --arg x: expected dims that multiply to at most 2147483648, got (100000, 100000)",
    ),
    (("opt",), 2, "error: expected a FILE, --list or --for TARGET"),
    (("compile", "/nowhere.onnx", "-o", "{dir}/o.gfx"), 9, "/nowhere.onnx: error: no such file"),
    (("compile", "{dir}", "-o", "{dir}/o.gfx"), 9, "{dir}: error: expected a file, found a folder"),
    (("compile", "/dev/zero", "-o", "{dir}/o.gfx"), 9, "/dev/zero: error: expected a file, found a device"),
    (("compile", "{onnx}", "-o", "/dev/full"), 9, "/dev/full: error: cannot write: no space left on device"),
    (("compile", "{onnx}", "-o", "{onnx}"), 2, "error: -o: expected another file than those that are read, found"),
    (("compile", "{onnx}", "-o", "{dir}/hard.onnx"), 2, "found {dir}/hard.onnx ({onnx})"),
    (("compile", "{onnx}", "-o", "{dir}/soft.onnx"), 2, "found {dir}/soft.onnx ({onnx})"),
    (("compile", "{dir}/apart.onnx", "-o", "{dir}/w.bin"), 2, "found {dir}/w.bin ({dir}/w.bin)"),
    (("compile", "{gfx}", "--recompile", "-o", "{gfx}"), 2, "error: -o: expected another file"),
    (("compile", "{onnx}", "--kernels", "{dir}", "-o", "{dir}/k.tc"), 2, "error: -o: expected another file"),
    (("compile", "{onnx}", "--kernels", "{dir}", "-o", "{dir}/k.h"), 2, "error: -o: expected another file"),
    (("profile", "{onnx}", "--trace", "{onnx}"), 2, "error: --trace: expected another file"),
    (("inspect", "{onnx}", "--html", "{onnx}"), 2, "error: --html: expected another file"),
    (("inspect", "{dir}/apart.onnx", "--html", "{dir}/w.bin"), 2, "error: --html: expected another file"),
    (("inspect", "{gfx}", "--html", "{gfx}"), 2, "error: --html: expected another file"),
    (("run", "{onnx}", "--input", "x={dir}/y.npy", "--output-dir", "{dir}"), 2, "--output-dir: y: expected another"),
    (("kernel", "{dir}/k.tc", *LAUNCH, "--save", "x={dir}/k.tc"), 2, "error: --save x: expected another file"),
    (("kernel", "{dir}/k.tc", *LAUNCH, "--save", "x={dir}/k.h"), 2, "error: --save x: expected another file"),
    (("kernel", "{dir}/k.tc", *LAUNCH, "--save", "x={dir}/y.npy"), 2, "error: --save x: expected another file"),
    (("kernel", "{dir}/k.tc", "--check", *LAUNCH[1:], "--grid", "-1"), 6, "error: kernel 'k': grid: expected one to"),
    (("kernel", "{dir}/k.tc", "--tune", *LAUNCH, "--lock", "{dir}/k.tc"), 2, "error: --lock: expected another file"),
    (("compile", "{onnx}", "-o", "{dir}/no/o.gfx"), 9, "{dir}/no/o.gfx: error: cannot write: no such file"),
    (
        ("kernel", "{dir}/k.tc", "--tune", *LAUNCH, "--lock", "{dir}/no/l"),
        9,
        "{dir}/no/l: error: cannot write: no such",
    ),
    (
        ("kernel", "{dir}/k.tc", *LAUNCH, "--save", "x={dir}"),
        9,
        "{dir}: error: cannot write: expected a file, a pipe or a device, found a folder",
    ),
    (
        ("compile", "{onnx}", "--dim", "foo=3", "-o", "{dir}/no/o.gfx"),
        9,
        "{dir}/no/o.gfx: error: cannot write: no such",
    ),
    (("inspect", "{gfx}", "--dim", "foo=3", "--html", "{dir}/no/x.html"), 9, "{dir}/no/x.html: error: cannot write:"),
    (("run", "{gfx}", "--output-dir", "{gfx}"), 9, "{gfx}: error: cannot write: file exists"),
    (("compile", "{onnx}", "--target", "gpu", "-o", "{dir}/o.gfx"), 8, "error: unknown target 'gpu'"),
    (("compile", "{onnx}", "--target", "cpu:znver9", "-o", "x"), 8, "error: unknown processor 'znver9'"),
    (("compile", "{onnx}", "--emit", "sass"), 2, "error: invalid value for '--emit'"),
    (("compile", "{onnx}", "--target", "cpu", "--emit", "ptx"), 2, "error: no stage 'ptx' of cpu:"),
    (("compile", "{onnx}", "--target", "cuda:sm_80", "--emit", "asm"), 2, "error: no stage 'asm' of cuda:sm_80"),
    (("compile", "{onnx}", "--target", "cpu", "--target", "cpu", "-o", "{dir}/a.gfx"), 2, "error: two targets are"),
    (("compile", "{onnx}", "--target", "cuda:sm_9"), 2, "error: nothing to do"),
    (("compile", "{onnx}", "--target", "cuda:sm_9", "--emit", "ptx"), 8, "error: unknown GPU architecture 'sm_9'"),
    (("run", "{onnx}", "--random", "--device", "emulater"), 2, "error: unknown device 'emulater'; did you mean"),
    (("run", "{onnx}", "--random", "--device", "emulator:1"), 2, "error: unknown device 'emulator:1'"),
    (("run", "{gfx}", "--random", "--device", "emulator"), 7, "error: there is code for cpu:host only: compile it"),
    (("compile", "{onnx}", "--dim", "foo=3", "-o", "{dir}/o.gfx"), 2, "foo"),
    (("inspect", "{gfx}", "--html", "{dir}/no/x.html"), 9, "{dir}/no/x.html: error: cannot write: no such file"),
    (("opt", "/nowhere.gf", "-p", "dead-code"), 9, "/nowhere.gf: error: cannot read: no such file or directory"),
    (("opt", "{gfx}", "-p", "dead-code"), 9, "{gfx}: error: expected text in UTF-8, found a byte"),
    (("cache", "gc", "--max-size", "lots"), 2, "error: --max-size: expected a number with k, M, G or T, got 'lots'"),
]


@pytest.mark.parametrize(("args", "code", "message"), BAD_RUNS, ids=[" ".join(a)[:60] for a, _, _ in BAD_RUNS])
@pytest.mark.usefixtures("inputs_that_may_be_lost")
def test_bad_command_lines(capsys, artifact, model, tmp_path, args, code, message):
    names = {"gfx": artifact, "onnx": model, "dir": tmp_path}
    before = {p: p.read_bytes() for p in tmp_path.iterdir()}
    found, line = fails(capsys, *(a.format(**names) for a in args))
    assert found == code, line
    assert message.format(**names) in line
    assert all(p.read_bytes() == content for p, content in before.items())
    left = {p.name for p in tmp_path.rglob("*") if p.suffix in (".gfx", ".html", ".tmp") and "cache" not in p.parts}
    assert left == {"m.gfx"}


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (GOOD_X.astype(np.float64), "error: input 'x': expected float32, found float64"),
        (GOOD_X[0], "error: input 'x': expected rank 2 (n, 5), found rank 1 (5)"),
        (GOOD_X[:, :3], "error: input 'x': dim 1: expected 5, found 3"),
        (
            np.zeros((65, 5), np.float32),
            "error: input 'x': dim 0: expected n in 1..64, found 65; compiled with --dim n=1..65 it fits",
        ),
    ],
)
def test_bad_arrays(capsys, artifact, tmp_path, array, message):
    assert fails(capsys, "run", artifact, "--random", f"--input=x={npy(tmp_path, array)}") == (6, message)


def test_pickled_input_is_refused(capsys, artifact, tmp_path):
    np.save(tmp_path / "evil.npy", np.array([{}], dtype=object), allow_pickle=True)
    code, line = fails(capsys, "run", artifact, "--random", f"--input=x={tmp_path / 'evil.npy'}")
    assert code == 6 and "not a .npy file: object arrays cannot be loaded" in line


def test_unknown_environment(artifact):
    """Kubernetes makes such variables for a service of that name. One line says so, once."""
    environment = {**os.environ, "GRAPHFUSE_SERVICE_HOST": "10.0.0.1", "GRAPHFUSE_THREAD": "2"}
    command = [sys.executable, "-m", "graphfuse", "run", artifact, "--random"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    names = "GRAPHFUSE_SERVICE_HOST, GRAPHFUSE_THREAD (did you mean GRAPHFUSE_THREADS?)"
    assert (done.returncode, done.stderr) == (0, f"warning: unknown environment variables: {names}\n")


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        (b"", 3, "error: not an ONNX model: the file is empty"),
        (b"\x89GFX garbage that is longer than the prefix of a file and its trailer together", 7, "not a graphfuse"),
        (b"not a protobuf at all, just text", 3, "not an ONNX model"),
    ],
)
def test_files_that_are_no_models(capsys, tmp_path, content, code, message):
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    found, line = fails(capsys, "run", path, "--random")
    assert found == code and message in line and str(path) in line


def test_truncated_model(capsys, model):
    model.write_bytes(model.read_bytes()[:-40])
    code, line = fails(capsys, "compile", model, "-o", model.with_suffix(".gfx"))
    assert code in (3, 4) and str(model) in line and not model.with_suffix(".gfx").exists()


# errors that are not the user's


def test_internal_error(capsys, artifact, monkeypatch):
    def broken(*_):
        raise KeyError("a bug\nof two lines")

    monkeypatch.setattr(gfx, "load", broken)
    code, line = fails(capsys, "inspect", artifact)
    assert code == 70
    assert line == "internal error: KeyError: 'a bug\\nof two lines'; rerun with --debug"
    assert main(["inspect", str(artifact), "--debug"]) == 70
    assert "Traceback" in capsys.readouterr().err


def test_interrupt(capsys, artifact, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(gfx, "load", interrupted)
    assert main(["inspect", str(artifact)]) == 130
    assert capsys.readouterr() == ("", "\ninterrupted\n")  # click ends the line of the terminal's ^C


@pytest.mark.parametrize("module", ["click", "graphfuse.cli.inspect", "numpy", "numpy._core.multiarray", "llvmlite"])
def test_interrupt_while_modules_are_imported(artifact, module):
    """Ctrl-C may come at any time; modules in C make other errors of it."""
    lines = (
        "import signal, sys, graphfuse.cli",
        "signal.signal(signal.SIGINT, signal.default_int_handler)",  # which a shell in the background has ignored
        "class Finder:",
        f" def find_spec(name, *_): return name == {module!r} and signal.raise_signal(signal.SIGINT) or None",
        "sys.meta_path.insert(0, Finder)",
        f"sys.argv[1:] = ['inspect', {str(artifact)!r}]",
        "sys.exit(graphfuse.cli.main())",
    )
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_pipe_in_place_of_a_file(tmp_path):
    lines = (
        "import os, sys",
        "os.dup2(os.pipe()[1], 2)",  # Python has seen a file there
        "from graphfuse.cli import main",
        "sys.exit(main(['knobs']))",
    )
    with (tmp_path / "err").open("w") as err:
        command = [sys.executable, "-c", "\n".join(lines)]
        assert subprocess.run(command, stdout=subprocess.DEVNULL, stderr=err, check=False).returncode == 0
    assert (tmp_path / "err").read_text() == ""


def test_debug_shows_the_traceback(capsys):
    assert main(["--debug", "run", "/nowhere.gfx"]) == 9
    assert "Traceback" in capsys.readouterr().err


def test_help_and_version(capsys):
    assert "Verbs:" in prints(capsys, "--help")
    assert main([]) == 2
    assert "Verbs:" in capsys.readouterr().err
    for verb in VERBS:
        assert f"graphfuse {verb}" in prints(capsys, verb, "--help")


def test_as_a_process(artifact):
    """Through the interpreter: exit codes, a clean stdout, and a reader that goes away."""
    command = [sys.executable, "-m", "graphfuse"]
    done = subprocess.run([*command, "run", artifact], capture_output=True, text=True, check=False, timeout=60)
    advice = "expected --input NAME=FILE.npy, or --random to make up values"
    assert (done.returncode, done.stdout, done.stderr) == (6, "", f"error: missing inputs 'x', 'past': {advice}\n")
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*command, "knobs"], stdout=write, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


# models, through the compiler


def test_compile_says_what_a_file_fits(capsys, model, tmp_path):
    """By default this very processor."""
    for targets, said in [((), True), (("cpu",), True), (("cpu", "cpu:x86-64-v2"), False), (("cpu:x86-64-v2",), False)]:
        args = [a for t in targets for a in ("--target", t)]
        assert main(["compile", str(model), *args, "-o", str(tmp_path / "m.gfx")]) == 0
        assert ("and CPUs with all that this one has" in capsys.readouterr().err) is said


def test_compile_run_verify(capsys, model, tmp_path, cache):
    out = tmp_path / "o.gfx"
    assert prints(capsys, "compile", model, "-o", out, "--dim", "batch=1..16") == ""
    assert len(list(cache.glob("*.gfx"))) == 1
    found = json.loads(prints(capsys, "run", out, "--random", "--dim", "batch=3", "--json"))
    assert found["outputs"][0]["shape"] == [3, 8]
    result = json.loads(prints(capsys, "verify", model, "--dim", "batch=5", "--json"))
    assert all(r["ok"] for r in result["regions"]) and result["regions"]
    pytest.importorskip("onnxruntime")
    assert [r["ok"] for r in result["outputs"]] == [True]
    bench = json.loads(prints(capsys, "bench", model, "--against", "onnxruntime", "--rounds", 2, "--json"))
    assert bench["speedup"] > 0


def test_verify_wants_something_to_compare_with(capsys, model, artifact, monkeypatch):
    monkeypatch.setattr("graphfuse.cli.reference.is_installed", lambda: False)
    monkeypatch.setattr("graphfuse.cli.verify.is_installed", lambda: False)
    advice = "error: onnxruntime is not installed: pip install 'graphfuse[onnxruntime]'"
    for more in ((), ("--no-regions",)):
        assert fails(capsys, "verify", model, *more) == (2, f"{advice}; --regions compares without it")
    assert fails(capsys, "bench", model, "--against", "onnxruntime") == (2, advice)
    assert main(["verify", str(model), "--regions"]) == 0
    out, err = capsys.readouterr()
    assert "regions against float64" in out
    assert err == "onnxruntime is not installed, so the whole model was not compared\n"
    prints(capsys, "verify", artifact, "--no-regions")


def test_errors_of_onnxruntime_keep_their_case(tmp_path):
    pytest.importorskip("onnxruntime")
    graph = helper.make_graph([helper.make_node("NoSuchOp", [], ["y"])], "g", [], [])
    onnx.save(helper.make_model(graph, ir_version=8), tmp_path / "m.onnx")
    with pytest.raises(GraphfuseError, match=r"onnxruntime cannot load it: \[ONNXRuntimeError\]"):
        Reference(tmp_path / "m.onnx", 1)


@pytest.fixture
def named(tmp_path) -> Path:
    """relu(x), x: f32[2*n, 4], as torch.onnx.export writes dims, beside a dim that it names after another."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["2*n", 4]) for n in "xy")
    more, z = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["a.b", "2*n + 1"]) for n in ("more", "z"))
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Relu", ["more"], ["z"])]
    proto = helper.make_model(
        helper.make_graph(nodes, "g", [x, more], [y, z]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    onnx.save(proto, tmp_path / "named.onnx")
    return tmp_path / "named.onnx"


def test_dims_under_the_names_of_the_model(capsys, named, tmp_path):
    out = tmp_path / "named.gfx"
    prints(capsys, "compile", named, "-o", out, "--dim", "2*n=2..8")
    prints(capsys, "compile", named, "-o", tmp_path / "fixed.gfx", "--dim", "2*n=4")
    again = tmp_path / "again.gfx"
    prints(capsys, "compile", out, "--recompile", "-o", again)
    for file in (named, out, again):
        found = json.loads(prints(capsys, "run", file, "--random", "--dim", "2*n=4", "--json"))
        assert found["outputs"][0]["shape"] == [4, 4] and found["dims"] == {"a.b": 1, "2*n + 1": 1}
        text = prints(capsys, "inspect", file, "--dim", "2*n=4")
        assert "x: f32[2*n, 4]" in text and "z: f32[a.b, 2*n + 1]" in text and "here 4\n" in text
        assert "a.b in " in text and "here 1 (not given)\n" in text
        session = graphfuse.InferenceSession(file)
        assert [i.shape for i in session.get_inputs()] == [["2*n", 4], ["a.b", "2*n + 1"]]
        assert graphfuse.load(out).inspect({"_2_n": 6})["at"]["2*n"] == 6  # as symbols are called in IR
    assert fails(capsys, "run", out, "--random", "--dim", "2*n=9") == (6, "error: dim '2*n': expected 2..8, found 9")
    wrong = fails(capsys, "run", out, "--random", f"--input=x={npy(tmp_path, np.zeros((9, 4), np.float32))}")
    fits = "compiled with --dim 2*n=2..9 it fits"
    assert wrong == (6, f"error: input 'x': dim 0: expected 2*n in 2..8, found 9; {fits}")
    wanted = "unknown dim 'q': expected one of 2*n, a.b, 2*n + 1"
    assert fails(capsys, "inspect", out, "--dim", "q=1") == (2, f"error: {wanted}")


def test_dims_that_are_formulas_of_others(capsys, tmp_path):
    """x: f32[h2], y: f32[2*h2]: what is said of one of them is known of both."""
    dims = {"x": "h2", "y": "2*h2", "a": "h2", "b": "2*h2"}
    specs = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, [d]) for n, d in dims.items()}
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Relu", ["y"], ["b"])]
    graph = helper.make_graph(nodes, "g", [specs["x"], specs["y"]], [specs["a"], specs["b"]])
    path, out = tmp_path / "m.onnx", tmp_path / "m.gfx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    prints(capsys, "compile", path, "-o", out, "--dim", "2*h2=3..9")
    assert "h2 in 2..4, here 3\n" in prints(capsys, "inspect", out, "--dim", "2*h2=6")
    for file in (path, out):
        found = json.loads(prints(capsys, "run", file, "--random", "--dim", "2*h2=6", "--json"))
        assert ([o["shape"] for o in found["outputs"]], found["dims"]) == ([[3], [6]], {})
    wrong = "error: dim '2*h2': expected 2*h2 for an integer h2, found 7"
    assert fails(capsys, "run", out, "--random", "--dim", "2*h2=7") == (6, wrong)
    wrong = "error: dim 'h2': expected one value, found 3 and 4"
    assert fails(capsys, "run", out, "--random", "--dim", "2*h2=6", "--dim", "h2=4") == (2, wrong)
    wrong = "error: dim '2*h2': expected what an integer makes it, got 7"
    assert fails(capsys, "compile", path, "-o", out, "--dim", "2*h2=7") == (2, wrong)
    wrong = "error: dim 'h2': expected one value, got 4 and 3"
    assert fails(capsys, "compile", path, "-o", out, "--dim", "h2=4", "--dim", "2*h2=6") == (2, wrong)


def test_dims_that_were_not_given_are_shown(capsys, model):
    note = "dims that were not given: batch = 1 (--dim NAME=N)\n"
    for verb in (("run", "--random"), ("bench", "--rounds", "1"), ("verify", "--regions")):
        assert note in prints(capsys, *verb, model)
        assert note not in prints(capsys, *verb, model, "--dim", "batch=3")


def test_run_and_profiles_have_warm_times(capsys, model, artifact, caplog):
    said = " ".join(prints(capsys, "run", model, "--random").split())
    assert re.search(r"first run [0-9.]+ ms, then [0-9.]+ ms", said)
    found = json.loads(prints(capsys, "run", artifact, "--random", "--json"))
    assert found["warm_milliseconds"] > 0 and found["milliseconds"] > 0
    compiled = graphfuse.load(artifact)
    assert all(s.ns > 0 and s.warm_ns > 0 for s in compiled.profile(inputs(3)).steps)
    with scope(debug=1):
        compiled(inputs(3))
    assert re.search(r"us, then [0-9.]+ us  ", caplog.text)


@pytest.mark.parametrize("stage", ["graph", "regions", "block", "llvm", "asm"])
def test_emit(capsys, model, stage):
    text = prints(capsys, "compile", model, "--emit", stage)
    mark = {"graph": "graph.", "regions": "graph.region", "block": "block.", "llvm": "define ", "asm": ".text"}
    assert mark[stage] in text


def test_opt(capsys, tmp_path):
    path = tmp_path / "f.gf"
    path.write_text("func @f(%x: tensor<4xf32>) {\n  %d = graph.neg(%x) : tensor<4xf32>\n  return(%x)\n}\n")
    assert "neg" in prints(capsys, "opt", path)
    assert "neg" not in prints(capsys, "opt", path, "-p", "dead-code")
    code, line = fails(capsys, "opt", path, "-p", "frob")
    assert code == 2 and line.startswith("error: unknown pass 'frob': expected one of ")
    path.write_text("func @f( {")
    code, line = fails(capsys, "opt", path)
    assert code == 3 and line.startswith(f"{path}:1:")


# pieces


def test_dims():
    assert parse_dims(["a=3", "b=1..8"]) == {"a": 3, "b": (1, 8)}
    with pytest.raises(UsageError):
        parse_dims(["a=-1"])


def test_small_texts():
    assert [nbytes_text(n) for n in (0, 999, 1500, 2.5e6, 3e12)] == ["0 B", "999 B", "1.5 kB", "2.5 MB", "3000.0 GB"]
    assert [file_name(n) for n in ("/a/b:0", "..", "logits")] == ["a_b_0", "output", "logits"]


def test_comparison_is_strict():
    x = np.linspace(-1, 1, 100, dtype=np.float32)
    assert compare({"x": x}, {"x": x})[0]["ok"]
    assert not compare({"x": x * np.float32(1.01)}, {"x": x})[0]["ok"]
    assert not compare({"x": x[:50]}, {"x": x})[0]["ok"]
    nan = x.copy()
    nan[3] = np.nan
    assert relative_error(nan, x) == relative_error(x, nan) == np.inf and relative_error(nan, nan) == 0
    texts = np.array(["a", "b"], object)
    assert compare({"t": texts}, {"t": texts})[0]["ok"] and not compare({"t": texts[::-1]}, {"t": texts})[0]["ok"]
    ints = np.arange(5)
    assert compare({"i": ints}, {"i": ints})[0]["ok"] and not compare({"i": ints + 1}, {"i": ints})[0]["ok"]


# names that nobody has looked at

ODD = "n\n\x1b]0;t\x07\x1b[2Jé\u202e\x9b<i>"
SHOWN = r"n\n\x1b]0;t\x07\x1b[2Jé\u202e\x9b<i>"


@pytest.fixture
def odd(tmp_path) -> Path:
    """A model, and its file, whose every name is one for a terminal to choke on."""
    nodes = [
        helper.make_node("Relu", [f"x{ODD}"], [f"m{ODD}"], name=f"relu{ODD}"),
        helper.make_node("Softmax", [f"m{ODD}"], [f"y{ODD}"], name=f"softmax{ODD}"),
    ]
    x, y = (helper.make_tensor_value_info(f"{n}{ODD}", TensorProto.FLOAT, [f"d{ODD}", 8]) for n in "xy")
    proto = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    path = tmp_path / f"m{ODD}.onnx"
    onnx.save(proto, path)
    return path


def test_names_move_no_cursor(capsys, odd, tmp_path):
    wrong = helper.make_model(
        helper.make_graph([helper.make_node(f"No{ODD}", ["x"], ["y"], name=ODD, domain=ODD)], "g", [], []), ir_version=8
    )
    onnx.save(wrong, tmp_path / "wrong.onnx")
    (tmp_path / "k.tc").write_text(f'#error {ODD[2:]}\n__global__ void k(float *x{ODD[2:]}) {{ printf("{ODD[2:]}"); }}')
    out = tmp_path / f"o{ODD}.gfx"
    commands = [
        ("inspect", odd), ("inspect", odd, "--json"), ("run", odd, "--random"), ("verify", odd), ("run", odd),
        ("run", odd, "--input", f"{ODD}=1"), ("run", odd, "--dim", f"{ODD}=1"), ("compile", odd, "-o", out),
        ("compile", odd, "-o", odd), ("bench", odd, "--rounds", 1), ("inspect", out), ("run", out), (ODD,),
        ("run", tmp_path / "wrong.onnx"), ("kernel", tmp_path / "k.tc"), ("kernel", ODD), ("opt", ODD),
        ("run", odd, "--numerics", ODD), ("run", odd, "--device", ODD), ("compile", odd, "--target", ODD, "-o", out),
    ]  # fmt: skip
    lines = 0
    for command in commands:
        main([str(a) for a in command])
        text = "".join(capsys.readouterr())
        assert all(c.isprintable() or c == "\n" for c in text), command
        assert "Traceback" not in text and "internal error" not in text, command
        lines += SHOWN in text
    assert lines > 10
    main(["inspect", str(odd), "--html", str(tmp_path / "page.html")])
    page = (tmp_path / "page.html").read_text()
    assert all(c.isprintable() or c == "\n" for c in page)
    assert SHOWN not in page and SHOWN.replace("<i>", "&lt;i&gt;") in page


def test_names_in_logs_move_no_cursor(odd):
    environment = {**os.environ, "GRAPHFUSE_DEBUG": "2", "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "graphfuse", "run", str(odd), "--random"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert all(c.isprintable() or c == "\n" for c in done.stdout + done.stderr)
    assert r"relun\n\x1b]0;t" in done.stderr


@pytest.mark.parametrize(
    ("verb", "stream", "code"),
    [
        ("errors", "> /dev/full", 9),
        ("inspect {} --json", "> /dev/full", 9),
        ("inspect {}", ">&-", 0),
        ("inspect {}", "<&-", 0),
        ("run {}", "2>&-", 6),
        ("run {}", "2> /dev/full", 6),
        ("opt - -p dead-code", "<&-", 0),
    ],
)
def test_streams_that_are_full_or_closed(artifact, verb, stream, code):
    command = f"exec {sys.executable} -m graphfuse {verb.format(artifact)} {stream}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    full = "error: cannot write to standard output: no space left on device\n"
    assert (done.returncode, done.stderr) == (code, full if code == 9 else "")


def test_inputs_that_no_machine_has_room_for(capsys, tmp_path):
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", "m", 64]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    model = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    for verb in ("run --random", "bench", "verify"):
        line = fails(capsys, *verb.split(), model, "--dim", "n=1048576", "--dim", "m=1048576")
        assert line == (6, "error: inputs of 281475.0 GB (n = 1048576, m = 1048576) do not fit into memory")


def test_files_without_an_end_and_names_that_nothing_has(capsys, model, tmp_path):
    assert fails(capsys, "opt", "/dev/zero")[1].startswith("/dev/zero: error: expected at most ")
    assert fails(capsys, "run", f"{model}\0")[1].startswith("error: expected words without a NUL, found ")
    long = "x" * 300
    for command in (
        ("compile", long, "-o", "o"), ("compile", model, "-o", tmp_path / long), ("inspect", long), ("kernel", long),
        ("opt", long), ("compile", model, "-o", tmp_path / "o", "--kernels", long),
    ):  # fmt: skip
        assert fails(capsys, *command)[0] == 9
