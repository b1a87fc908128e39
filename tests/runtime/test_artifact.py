"""Executables: exact round trips through files, and rules that damaged plans break."""

from __future__ import annotations

import json
import os
import struct
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from graphfuse.artifact import (
    Buffer,
    KernelMeta,
    Launch,
    Loop,
    Pointer,
    Scalar,
    Signature,
    Step,
    TensorSpec,
    Weight,
    check,
)
from graphfuse.artifact_json import plan_to_json, program_to_json, read_dim
from graphfuse.constraints import Constraint
from graphfuse.errors import ArtifactError, FileError
from graphfuse.runtime import gfx
from graphfuse.symbolic import ceildiv, maximum, minimum, mod, sym
from tests.runtime.sample import executable, with_plan


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
    text = json.dumps(plan_to_json(plan))
    assert plan_from(text) == plan


def plan_from(text: str):
    from graphfuse.artifact_json import Node, plan_from_json

    return plan_from_json(Node(json.loads(text)))


@pytest.mark.parametrize("elem", sorted({"bool", "i4", "u8", "i64", "f16", "bf16", "f32", "f64", "f8e4m3", "f4e2m1"}))
@pytest.mark.parametrize("shape", [(), (0, 3), (5, 7)])
def test_weights_of_every_type_are_mapped_and_aligned(tmp_path, elem, shape):
    from graphfuse.artifact import elem_dtype

    array = np.arange(int(np.prod(shape))).reshape(shape).astype(np.float32).astype(elem_dtype(elem))
    source = replace(executable(), weights=(*executable().weights, Weight("extra", elem, array)))
    weight = gfx.load(saved(tmp_path, source)).weights[-1]
    assert weight.array.dtype == array.dtype and weight.shape == shape
    assert weight.array.tobytes() == array.tobytes()
    assert weight.array.__array_interface__["data"][0] % 64 == 0
    assert not weight.array.flags.owndata and not weight.array.flags.writeable


def test_weights_section_is_a_safetensors_file(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    path = saved(tmp_path)
    file = gfx._File(gfx._mapped(path))
    tensors = safetensors.load(file.view("weights").tobytes())
    np.testing.assert_array_equal(tensors["w"], executable().weights[0].array)


def test_equal_executables_are_equal_files(tmp_path):
    gfx.save(executable(), tmp_path / "a.gfx")
    gfx.save(executable(), tmp_path / "b.gfx")
    assert (tmp_path / "a.gfx").read_bytes() == (tmp_path / "b.gfx").read_bytes()


def test_load_reads_no_weights_and_verify_reads_all(tmp_path):
    path = saved(tmp_path)
    data = bytearray(path.read_bytes())
    at = data.index(np.arange(1, 6, dtype=np.float32).tobytes())
    data[at] ^= 1
    path.write_bytes(data)
    gfx.load(path)
    with pytest.raises(ArtifactError, match=r"section 'weights' is corrupted: expected SHA-256"):
        gfx.verify(path)


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
    at = gfx._File(gfx._mapped(path)).section(section).offset
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
            {"weights": [{"name": "w", "elem": "f32", "shape": [9], "offset": 2**40}]},
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
