"""Executables: exact round trips through files, and rules that damaged plans break."""

from __future__ import annotations

import copy
import gc
import json
import os
import pickle
import struct
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphfuse
from graphfuse.artifact import (
    Buffer,
    KernelMeta,
    Launch,
    Loop,
    Panels,
    Pointer,
    Scalar,
    Signature,
    Step,
    TensorSpec,
    Weight,
)
from graphfuse.artifact_json import PLAN, Node, program_to_json, read_dim
from graphfuse.artifact_rules import check
from graphfuse.constraints import Constraint
from graphfuse.errors import ArtifactError, FileError, InputError
from graphfuse.knobs import scope
from graphfuse.llvm.host import host_target
from graphfuse.runtime import gfx, native, weights
from graphfuse.runtime.binding import Binder
from graphfuse.runtime.session import Session
from graphfuse.stages import graph_func
from graphfuse.symbolic import ceildiv, maximum, minimum, mod, sym
from graphfuse.targets import Target
from graphfuse.value_checks import Check
from tests.runtime.sample import executable, inputs, with_plan


def saved(tmp_path: Path, source=None) -> Path:
    path = tmp_path / "m.gfx"
    gfx.save(source or executable(), path)
    return path


def test_round_trip_is_exact(tmp_path):
    source = executable()
    loaded = gfx.load(saved(tmp_path, source))
    for key in ("signature", "plan", "kernels", "target", "code"):
        assert getattr(loaded, key) == getattr(source, key), key
    assert dict(loaded.ir) == source.ir and list(loaded.ledger) == source.ledger
    assert loaded.meta == source.meta
    for a, b in zip(loaded.weights, source.weights, strict=True):
        assert (a.name, a.elem, a.shape) == (b.name, b.elem, b.shape)
        np.testing.assert_array_equal(a.array, b.array)


def test_every_kind_of_dim_round_trips():
    n, m = sym("n"), sym("m")
    dims = [0, 7, n, n * 2 - 3, n * m + m * m, ceildiv(n, 16) * 64, mod(n, m), minimum(n, m) + maximum(n, 4)]
    steps = tuple(Step("k", (Scalar(d), Scalar(-5)), d, d, "é") for d in dims)
    plan = replace(executable().plan, steps=(*steps, Loop("i", n, (Loop("j", m, steps),))))
    text = json.dumps(PLAN.write(plan))
    assert plan_from(text) == plan


def plan_from(text: str):
    return PLAN.read(Node(json.loads(text)))


@pytest.mark.parametrize("elem", sorted({"bool", "i4", "u8", "i64", "f16", "bf16", "f32", "f64", "f8e4m3", "f4e2m1"}))
@pytest.mark.parametrize("shape", [(), (0, 3), (5, 7)])
@pytest.mark.parametrize("mode", ["checked", "mapped"])
def test_weights_of_every_type_are_aligned(tmp_path, elem, shape, mode):
    from graphfuse.artifact import elem_dtype

    array = np.arange(int(np.prod(shape))).reshape(shape).astype(np.float32).astype(elem_dtype(elem))
    source = replace(executable(), weights=(*executable().weights, Weight("extra", elem, array)))
    weight = gfx.load(saved(tmp_path, source), mode).weights[-1]
    assert weight.array.dtype == array.dtype and weight.shape == shape
    assert weight.array.tobytes() == array.tobytes()
    assert weight.array.__array_interface__["data"][0] % 64 == 0 or not weight.nbytes
    assert not weight.array.flags.owndata and not weight.array.flags.writeable


def test_weights_section_is_a_safetensors_file(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    path = saved(tmp_path)
    file = gfx._opened(path, "checked")
    tensors = safetensors.load(file.view("weights").read())
    np.testing.assert_array_equal(tensors["w"], executable().weights[0].array)


def test_equal_executables_are_equal_files(tmp_path):
    gfx.save(executable(), tmp_path / "a.gfx")
    gfx.save(executable(), tmp_path / "b.gfx")
    assert (tmp_path / "a.gfx").read_bytes() == (tmp_path / "b.gfx").read_bytes()


def flipped(path: Path) -> Path:
    """One bit of a weight."""
    data = bytearray(path.read_bytes())
    at = data.index(np.arange(1, 6, dtype=np.float32).tobytes())
    data[at] ^= 1
    path.write_bytes(data)
    return path


def test_weights_are_checked_when_they_are_first_used(tmp_path):
    path = flipped(saved(tmp_path))
    message = r"m\.gfx: error: weights are corrupted: expected a checksum \w{8} of 20 bytes"
    for mode in (None, "checked", "mapped"):
        loaded = gfx.load(path, mode)
        with pytest.raises(ArtifactError, match=message):
            Session(loaded, 1).run(inputs(2))
    with scope(weights="unchecked"):
        Session(gfx.load(path), 1).run(inputs(2))
    with pytest.raises(ArtifactError, match=r"section 'weights' is corrupted: expected SHA-256"):
        gfx.verify(path)


def test_checksums_of_pieces():
    """One bit of each place in a word, words, rows and pieces that change places, bytes of the last piece."""
    data = np.random.default_rng(0).integers(0, 256, 2 * weights.PIECE + 100, np.uint8)
    words = data[: 2 * weights.PIECE].view(np.uint64).reshape(2, -1, weights.ROW)
    seen = {weights.checksum_of(data)}
    for bit in range(64):
        words[1, 7, 3 * bit] ^= np.uint64(1 << bit)
        seen.add(weights.checksum_of(data))
    for part in (words[1, :, 9], data[-3:]):
        part.sort()
        seen.add(weights.checksum_of(data))
    for part in (words, words[0]):
        part[[0, 1]] = part[[1, 0]]
        seen.add(weights.checksum_of(data))
    assert len(seen) == 1 + 64 + 2 + 2


@pytest.mark.parametrize("mode", ["checked", "mapped"])
def test_weights_are_read_by_threads(tmp_path, monkeypatch, mode):
    """Each is in its place, or an error is raised."""
    monkeypatch.setattr(weights, "AT_ONCE", 0)
    monkeypatch.setattr(weights, "available_cores", lambda: 3)
    more = (Weight(f"w{n}", "f32", np.arange(n, dtype=np.float32)) for n in (5, 4, 9, 1, 7, 3))
    source = replace(executable(), weights=(*executable().weights, *more))
    path = saved(tmp_path, source)
    for found, wanted in zip(weights.read_all(gfx.load(path, mode).weights), source.weights, strict=True):
        np.testing.assert_array_equal(found, wanted.array)
    damaged = gfx.load(flipped(path), mode).weights
    with pytest.raises(ArtifactError, match="corrupted"):
        weights.read_all(damaged)


def test_a_file_that_changes_later_changes_no_model(tmp_path):
    """Truncated before the weights were read it is an error; afterwards nothing. Nothing kills the process."""
    path = saved(tmp_path)
    early, late = gfx.load(path), gfx.load(path)
    session = Session(late, 1)
    wanted = session.run(inputs(2))["y"]
    os.truncate(path, 100)
    np.testing.assert_array_equal(session.run(inputs(2))["y"], wanted)
    with pytest.raises(ArtifactError, match=r"m\.gfx: error: truncated: expected \d+ bytes, found \d+"):
        Session(early, 1)
    with pytest.raises(ArtifactError, match="truncated"):
        len(late.ir)


def test_a_file_that_is_replaced_changes_no_model(tmp_path):
    path = saved(tmp_path)
    loaded = gfx.load(path)
    gfx.save(
        replace(executable(), weights=tuple(Weight(w.name, w.elem, w.array * 2) for w in executable().weights)), path
    )
    np.testing.assert_array_equal(loaded.weights[0].array, executable().weights[0].array)


def matmul(k: int = 48, n: int = 80) -> onnx.ModelProto:
    """y = x @ w, and where it is not 0, again times w: two parts with Python between them."""
    w = numpy_helper.from_array(np.arange(k * n, dtype=np.float32).reshape(k, n), "w")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["m", k])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m", n])
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [w])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_weights_that_differ_by_their_panels_are_stored_once(tmp_path):
    """Vectors of 16, 32 and 64 bytes read panels of other widths."""
    targets = ("cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:x86-64-v4")
    made = graphfuse.compile(matmul(), target=targets)
    assert len({v.weights[0].shape for v in made.executable.variants}) > 1
    made.save(tmp_path / "m.gfx")
    loaded = gfx.load(tmp_path / "m.gfx")
    for a, b in zip(loaded.variants, made.executable.variants, strict=True):
        np.testing.assert_array_equal(a.weights[0].array, b.weights[0].array)
    weights = gfx.verify(tmp_path / "m.gfx")["weights"]
    assert weights < 1.5 * 48 * 80 * 4
    gfx.save(loaded, tmp_path / "again.gfx")
    assert (tmp_path / "again.gfx").read_bytes() == (tmp_path / "m.gfx").read_bytes()


@pytest.mark.parametrize("weights", ["checked", "mapped"])
def test_copies_do_not_need_the_file(tmp_path, weights):
    """torch's cache keeps executables pickled: the number of an open file is another file's in the next process."""
    graphfuse.compile(matmul(), target="cpu:x86-64-v3").save(tmp_path / "m.gfx")
    loaded = gfx.load(tmp_path / "m.gfx", weights)
    file = loaded.weights[0].data._blob.extent.file
    kept, copied = pickle.dumps(loaded.weights), copy.deepcopy(loaded.weights)
    with pytest.raises(TypeError, match=r"cannot copy or pickle the open file .*m\.gfx"):
        pickle.dumps(file)
    want = loaded.weights[0].array.copy()
    del loaded, file
    gc.collect()
    for (weight,) in (pickle.loads(kept), copied):
        np.testing.assert_array_equal(weight.array, want)
        np.testing.assert_array_equal(np.asarray(weight.packed[0]).reshape(-1), np.arange(48 * 80))


def test_one_target_has_its_panels_in_the_file(tmp_path):
    """And what they are of is known, for a file that they are put into with others."""
    graphfuse.compile(matmul(), target="cpu:x86-64-v3").save(tmp_path / "m.gfx")
    (weight,) = gfx.load(tmp_path / "m.gfx").weights
    assert json.loads(gfx._opened(tmp_path / "m.gfx", "checked").content("program"))["weights"][0]["panels_of"]
    assert weight.packed is not None and weight.packed[0].shape == (48, 80)
    np.testing.assert_array_equal(weight.packed[0].fresh().reshape(-1), np.arange(48 * 80))


@pytest.mark.parametrize(
    ("panels", "message"),
    [
        ([2, 16, None], "an axis, up to 4096 columns"),
        ([1, 8192, None], "an axis, up to 4096 columns"),
        ([1, 0, None], "expected an integer in 1"),
        ([1, 16, 1], "an axis, up to 4096 columns"),
        ([0, 16, 1], "an axis, up to 4096 columns"),
        ([1, 16], "expected 3 elements"),
    ],
)
def test_malformed_panels(tmp_path, monkeypatch, panels, message):
    part = gfx._json_part

    def changed(name, value, pack=False):
        if name == "program":
            value["weights"][0] |= {"shape": [1, 5], "panels": panels}
        return part(name, value, pack)

    monkeypatch.setattr(gfx, "_json_part", changed)
    path = tmp_path / "m.gfx"
    gfx.save(executable(), path)
    with pytest.raises(ArtifactError, match=message):
        gfx.load(path)


@pytest.mark.parametrize("fours", [None, 0, 1])
def test_panels_have_the_shape_that_they_say(fours):
    for shape, axis in (((8, 37), 1), ((8, 16), 0), ((4, 8, 5), 2)):
        if fours == axis or (fours is not None and shape[fours] % 4):
            continue
        panels, array = Panels(axis, 16, fours), np.arange(np.prod(shape)).reshape(shape)
        found = panels.of(array)
        assert found.shape == panels.shape(shape)
        np.testing.assert_array_equal(np.sort(found[found > 0]), np.arange(1, array.size))
        np.testing.assert_array_equal(panels.back(found, shape), array)


def test_a_weight_of_two_parts_is_stored_once(tmp_path):
    """Parts of a model with host code are files in the file, their weights are not."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("NonZero", ["a"], ["z"]),
        helper.make_node("Transpose", ["z"], ["t"]),
        helper.make_node("GatherND", ["a", "t"], ["g"]),
        helper.make_node("Reshape", ["g", "to"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["y"]),
    ]
    weights = [
        numpy_helper.from_array(np.arange(192 * 192, dtype=np.float32).reshape(192, 192) % 7, "w"),
        numpy_helper.from_array(np.array([-1, 192]), "to"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["m", 192])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["k", 192])
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    made = graphfuse.compile(proto)
    assert sum(p.weights != () for p in made.executable.parts) == 2
    made.save(tmp_path / "m.gfx")
    sections = gfx.verify(tmp_path / "m.gfx")
    assert sections["weights"] < 1.5 * 192 * 192 * 4
    assert all(n < 192 * 192 * 4 for name, n in sections.items() if name.startswith("part."))
    x = np.ones((2, 192), np.float32)
    np.testing.assert_array_equal(graphfuse.load(tmp_path / "m.gfx")(x=x)["y"], made(x=x)["y"])


def test_portable_is_three_generations_and_another_architecture():
    made = graphfuse.compile(matmul(8, 8), target="portable").executable
    assert {v.target for v in made.variants} == {"cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:x86-64-v4", "cpu:aarch64"}
    assert {c.arch for v in made.variants for c in v.code.values()} == {"x86_64", "aarch64"}


def test_generic_is_this_architecture(tmp_path):
    graphfuse.compile(matmul(8, 8), target="cpu:generic").save(tmp_path / "m.gfx")
    model = graphfuse.load(tmp_path / "m.gfx")
    assert {c.arch for c in model.executable.code.values()} == {host_target().arch}
    assert model(x=np.ones((2, 8), np.float32))["y"].shape == (2, 8)


def test_the_best_variant_that_runs_is_taken(monkeypatch):
    made = graphfuse.compile(matmul(8, 8), target="portable").executable
    for cpu, best in [("x86-64-v2", "x86-64-v2"), ("haswell", "x86-64-v3"), ("icelake-server", "x86-64-v4")]:
        monkeypatch.setattr(native, "host_target", lambda cpu=cpu: Target.parse(f"cpu:{cpu}"))
        assert native.choose_cpu(made).target == f"cpu:{best}"
        found = native.choose_target(native.choose_cpu(made), Target.parse(f"cpu:{cpu}"))
        assert found == f"cpu:{best}"


def test_mode_follows_the_umask(tmp_path):
    old = os.umask(0o027)
    try:
        path = saved(tmp_path)
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o640


# damaged files


def error_of(path: Path) -> str:
    with pytest.raises(ArtifactError) as e:
        gfx.load(path)
    assert str(e.value).startswith(f"{path}: error: ")
    return e.value.message


def test_not_an_artifact(tmp_path):
    path = tmp_path / "m.gfx"
    path.write_bytes(b"")
    assert error_of(path) == "not a graphfuse artifact: 0 bytes"
    path.write_bytes(b"x" * 100)
    assert error_of(path).startswith("not a graphfuse artifact: expected b'\\x89GFX\\r\\n\\x1a\\n' at 0")


def test_truncated(tmp_path):
    path = saved(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    assert error_of(path) == f"truncated: expected {len(data)} bytes, found {len(data) - 1}"
    path.write_bytes(data + b"x")
    assert error_of(path) == f"too long: expected {len(data)} bytes, found {len(data) + 1}"


def test_other_version(tmp_path):
    path = saved(tmp_path)
    data = bytearray(path.read_bytes())
    data[8:12] = struct.pack("<I", 99)
    path.write_bytes(data)
    assert error_of(path) == f"artifact format: expected version {gfx.VERSION}, found 99; compile the model again"


@pytest.mark.parametrize("section", ["program", "code.0", "ir", "ledger"])
def test_damaged_section(tmp_path, section):
    path = saved(tmp_path)
    at = gfx._opened(path, "checked").section(section).offset
    data = bytearray(path.read_bytes())
    data[at + 3] ^= 0x10
    path.write_bytes(data)
    with pytest.raises(ArtifactError, match=rf"section '{section}' is corrupted"):
        loaded = gfx.load(path)
        len(loaded.ir), len(loaded.ledger)  # those two are read when asked for


def test_damaged_header(tmp_path):
    path = saved(tmp_path)
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    assert error_of(path).startswith("header is corrupted: expected SHA-256")


def test_unreadable(tmp_path):
    for path, reason in [(tmp_path / "none.gfx", "no such file"), (tmp_path, "not a regular file")]:
        with pytest.raises(FileError, match=f"cannot read: {reason}"):
            gfx.load(path)


def test_unwritable_output_leaves_nothing(tmp_path):
    for path in (tmp_path / "no" / "m.gfx", tmp_path):
        with pytest.raises(FileError, match="cannot write: "):
            gfx.save(executable(), path)
    assert list(tmp_path.iterdir()) == []


def test_failure_while_writing_keeps_the_old_file(tmp_path, monkeypatch):
    path = saved(tmp_path)
    before = path.read_bytes()

    def fail(executable, file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(gfx, "_write", fail)
    with pytest.raises(FileError, match=r"m\.gfx: error: cannot write: no space left on device"):
        gfx.save(executable(), path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


# rules of plans

N = sym("n")
GOOD = executable()
ADD = GOOD.plan.steps[1]
assert isinstance(ADD, Step)


def changed_step(i: int, step: Step | Loop):
    steps = list(GOOD.plan.steps)
    steps[i] = step
    return with_plan(GOOD, steps=tuple(steps))


def changed_buffer(i: int, **changes):
    buffers = list(GOOD.plan.buffers)
    buffers[i] = replace(buffers[i], **changes)
    return with_plan(GOOD, buffers=tuple(buffers))


BROKEN = [
    (changed_step(1, replace(ADD, kernel="sub")), "step 1: no kernel is called 'sub'"),
    (changed_step(1, replace(ADD, args=ADD.args[:2])), "step 1: kernel 'add' takes 3 arguments, found 2"),
    (changed_step(1, replace(ADD, grid=-1)), "step 1: grid: expected at least 0, found -1"),
    (changed_step(1, replace(ADD, grid=sym("m"))), "step 1: grid: m names the undeclared symbol 'm'"),
    (
        changed_step(1, replace(ADD, args=(Scalar(0), *ADD.args[1:]))),
        "step 1: argument 0: expected a pointer, found an integer",
    ),
    (
        changed_step(1, replace(ADD, args=(Pointer(99), *ADD.args[1:]))),
        "step 1: argument 0: expected one of 7 buffers, found 99",
    ),
    (
        changed_step(1, replace(ADD, args=(Pointer(0, N * 20 + 1), *ADD.args[1:]))),
        "step 1: argument 0: offset: expected at most 20*n, found 20*n + 1",
    ),
    (
        changed_step(1, replace(ADD, args=(Pointer(0, -4), *ADD.args[1:]))),
        "step 1: argument 0: offset: expected at least 0, found -4",
    ),
    (
        changed_step(1, replace(ADD, args=(*ADD.args[:2], Pointer(2)))),
        "step 1: argument 2: writes weight 0, which is read-only",
    ),
    (
        changed_step(2, replace(ADD, args=(Pointer(3), *ADD.args[1:]))),
        "step 2: argument 0: uses buffer 3 outside of its lifetime 0..1",
    ),
    (
        changed_step(1, Loop("n", 2, ())),
        "step 1: loop symbol 'n' is already taken or not a name",
    ),
    (changed_step(1, Loop("i", -2, ())), "step 1: count: expected at least 0, found -2"),
    (changed_buffer(0, nbytes=N * 24), "buffer 0: expected the 20*n bytes of input 0, found 24*n"),
    (changed_buffer(1, index=2), "buffer 1: expected one of 2 inputs, found 2"),
    (changed_buffer(3, last=9), "buffer 3: expected a lifetime inside 0..3, found 0..9"),
    (changed_buffer(4, index=1, nbytes=N * 40), "expected one buffer for each of 2 outputs"),
    (
        replace(GOOD, checks=(Check("/take", "i", "indices", 0, sym("k")),)),
        "a check names the undeclared symbol 'k'",
    ),
    (replace(GOOD, shared=((0, 9),)), "output 0 shares memory with input 9: expected numbers of both"),
    (replace(GOOD, over=((0, 0),)), "buffer 0 in the place of input 0: expected one of the arena, of its size"),
    (replace(GOOD, shared=((0, 1),)), "output 0 shares memory with input 1, which is of another size"),
    (replace(GOOD, target="gpu"), "expected code for 'gpu', found cpu:host"),
    (replace(GOOD, kernels=GOOD.kernels * 2), "two kernels are called 'add'"),
    (replace(GOOD, weights=GOOD.weights * 2), "two weights are called 'w'"),
    (
        replace(GOOD, kernels=(KernelMeta("a b", ""),)),
        "kernel name 'a b': expected an identifier",
    ),
    (
        replace(GOOD, kernels=(KernelMeta("add", "rrq"),)),
        "kernel 'add': expected parameters out of 'rwxi', found 'rrq'",
    ),
    (
        replace(GOOD, signature=replace(GOOD.signature, dims=(("n", 5, 4),))),
        "dim 'n': expected a range lo..hi, found 5..4",
    ),
    (
        replace(GOOD, signature=replace(GOOD.signature, inputs=GOOD.signature.inputs * 2)),
        "two inputs are called 'x'",
    ),
    (
        replace(GOOD, signature=replace(GOOD.signature, names=(("k", "2*k"),))),
        "the undeclared symbol 'k' has a name",
    ),
    (
        replace(GOOD, signature=replace(GOOD.signature, names=(("n", "2*k"), ("n", "2*k")))),
        "two dims are called '2*k'",
    ),
    (
        replace(GOOD, signature=replace(GOOD.signature, constraints=(Constraint("equal", N, sym("k")),))),
        "constraint: expected dims n and k to be equal names the undeclared symbol 'k'",
    ),
    (
        replace(GOOD, signature=Signature((TensorSpec("x", "f32", (1,) * 65),), ())),
        "tensor 'x': expected at most 64 dims, found 65",
    ),
]


@pytest.mark.parametrize(("broken", "message"), BROKEN, ids=[m[:40] for _, m in BROKEN])
def test_rules(broken, message, tmp_path):
    with pytest.raises(ArtifactError) as e:
        check(broken)
    assert e.value.message == message
    with pytest.raises(ArtifactError):  # and such a plan is not written either
        gfx.save(broken, tmp_path / "m.gfx")


@pytest.mark.parametrize("text", ["", "n n", "n +", "floordiv(n, 0)", "mod(3, 0)", "(" * 5000, "9" * 5000, "n" * 3000])
def test_hostile_dims(text):
    with pytest.raises(ArtifactError, match="malformed dim"):
        read_dim(text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"plan": 3}, "plan: expected an object with the key 'buffers', found 3"),
        ({"kernels": {}}, "kernels: expected a list, found {}"),
        ({"target": 5}, "target: expected text, found 5"),
        ({"meta": []}, "meta: expected an object, found []"),
        ({"weights": [{"name": "w", "elem": "f99"}]}, "weights[0].elem: expected an element type, found 'f99'"),
        (
            {"weights": [{"name": "w", "elem": "f32", "shape": [9], "offset": 2**40, "checksum": 0}]},
            (
                "weights[0]: expected a tensor at a multiple of 64 inside 276 bytes of weights, found "
                "{'name': 'w', 'elem': 'f32', 'shape': [9], 'offset': 1099..."
            ),
        ),
        ({"signature": {"dims": [["n", 1]]}}, "signature.dims[0]: expected 3 elements, found ['n', 1]"),
    ],
)
def test_malformed_program(tmp_path, monkeypatch, change, message):
    monkeypatch.setattr(gfx, "program_to_json", program_to_json)
    part = gfx._json_part
    monkeypatch.setattr(
        gfx,
        "_json_part",
        lambda name, value, pack=False: part(name, value | change if name == "program" else value, pack),
    )
    path = tmp_path / "m.gfx"
    gfx.save(executable(), path)
    assert error_of(path) == message


def test_bfloat_is_not_float():
    assert np.dtype(ml_dtypes.bfloat16) != np.float16
    assert Buffer("arena", 4) == Buffer("arena", 4, 0, 0, 0)


@pytest.mark.parametrize(
    ("launch", "programs", "blocks"),
    [
        (Launch(32), 500, 500),
        (Launch(32, persistent=1), 500, 10),
        (Launch(32, persistent=2), 7, 7),
        (Launch(32, persistent=1, cluster=4, split=4), 500, 8),
        (Launch(32, persistent=1, cluster=4, split=4), 1, 4),
        (Launch(32, persistent=1, cluster=16, split=16), 3, 16),
        (Launch(32, persistent=1), 0, 0),
    ],
)
def test_blocks_of_persistent_kernels(launch, programs, blocks):
    assert launch.blocks(programs, multiprocessors=10) == blocks


# the IR that an artifact carries

IR = [
    ("func @f(%x: tile<4xf32>) {\n  return()\n}", "IR: expected tensors as parameters, found tile<4xf32>"),
    (
        'func @f(%x: tensor<4xf32>) {checks = [["a", "b", "c"]], inputs = ["x"], outputs = []} {\n  return()\n}',
        "IR: expected checks of values, and an output that reports on each",
    ),
    (
        'func @f() {constraints = [["no", 1, 1, "", ""]], inputs = [], outputs = []} {\n  return()\n}',
        "IR: expected constraints of dims: kind, two dims, what they are and who needs it",
    ),
]


@pytest.mark.parametrize(("text", "message"), IR, ids=[m[:30] for _, m in IR])
def test_ir_that_is_no_model(text: str, message: str) -> None:
    with pytest.raises(ArtifactError) as e:
        graph_func(replace(GOOD, ir={"regions": text}, weights=()))
    assert e.value.message == message


def test_an_artifact_without_ir() -> None:
    with pytest.raises(ArtifactError, match="the artifact carries no IR to rebuild from"):
        graph_func(replace(GOOD, ir={}))


def test_inputs_that_say_no_sizes() -> None:
    x = TensorSpec("x", "f32", (sym("n") * sym("m"),))
    with pytest.raises(ArtifactError, match="signature: the shapes of the inputs do not determine m, n"):
        Binder(Signature((x,), (), (("n", 1, 9), ("m", 1, 9))))


def test_inputs_are_a_mapping() -> None:
    with pytest.raises(InputError, match="inputs: expected a mapping by name, found list"):
        Session(executable()).run([np.zeros(3)])
