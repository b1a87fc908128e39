"""From a model to an artifact for GPUs on a machine without one, and its kernels in the emulator."""

from __future__ import annotations

import dataclasses
import json
import re
from contextlib import nullcontext

import numpy as np
import onnx
import pytest

import graphfuse
from graphfuse.api import recompile, verify_regions
from graphfuse.artifact import Plan, Pointer, Step
from graphfuse.cli import main
from graphfuse.compiled_model import CompiledModel
from graphfuse.dialects import block
from graphfuse.dialects.boxes import Unboxed
from graphfuse.errors import ArtifactError, DeviceError, TargetError, UsageError
from graphfuse.gpu import assembler
from graphfuse.gpu.alignment import divisor, with_alignments
from graphfuse.gpu.backend import Backend
from graphfuse.gpu.transforms.hopper.affine import Scalars, find_box
from graphfuse.ir.parser import parse
from graphfuse.knobs import scope
from graphfuse.runtime import gfx
from graphfuse.runtime.report import code_warnings, report
from graphfuse.stages import emit
from graphfuse.symbolic import floordiv, sym
from tests.gpu.device.graphs import feed_of, graph, misaligned_parts, node


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch):
    monkeypatch.setenv("GRAPHFUSE_CACHE", "0")


def small():
    """exp(x + y) * x, softmaxed: two regions, a symbolic dim."""
    nodes = [node("Add", "x y", "a"), node("Exp", "a", "b"), node("Softmax", "b", "z", axis=-1)]
    model = graph(nodes, {"x": ("batch", 70), "y": (70,)}, {"z": ("batch", 70)})
    onnx.checker.check_model(model)
    return model


FEED = {
    "x": np.random.default_rng(0).standard_normal((5, 70)).astype(np.float32),
    "y": np.linspace(-1, 1, 70, dtype=np.float32),
}


def wanted(feed):
    e = np.exp(np.exp(feed["x"] + feed["y"]).astype(np.float64))
    return e / e.sum(-1, keepdims=True)


@pytest.fixture(scope="module")
def compiled():
    with scope(cache="0"):
        return graphfuse.compile(small(), target=["cpu", "cuda:sm_90a", "cuda:sm_80"])


def test_one_artifact_for_three_targets(compiled, tmp_path):
    compiled.save(tmp_path / "m.gfx")
    gfx.verify(tmp_path / "m.gfx")
    for device in ("cpu", "emulator"):
        model = graphfuse.load(tmp_path / "m.gfx", device=device)
        for n in (5, 1, 5, 5):
            feed = {**FEED, "x": FEED["x"][:n]}
            np.testing.assert_allclose(model(feed)["z"], wanted(feed), rtol=1e-5)


def test_each_target_in_the_emulator(compiled):
    for variant in compiled.executable.others:
        model = CompiledModel(variant, device="emulator")
        assert model.session.executable.target == variant.target
        np.testing.assert_allclose(model(FEED)["z"], wanted(FEED), rtol=1e-5)


def test_the_emulator_is_compiled_for_by_default():
    model = graphfuse.compile(small(), device="emulator")
    assert model.executable.target == "cuda:sm_90a"
    np.testing.assert_allclose(model(FEED)["z"], wanted(FEED), rtol=1e-5)
    with scope(target="cuda:sm_80"):
        assert graphfuse.compile(small(), device="emulator").executable.target == "cuda:sm_80"


def test_recompile_for_a_gpu(compiled, tmp_path):
    graphfuse.compile(small()).save(tmp_path / "cpu.gfx")
    model = CompiledModel(recompile(tmp_path / "cpu.gfx", target="cuda:sm_80"), device="emulator")
    np.testing.assert_allclose(model(FEED)["z"], wanted(FEED), rtol=1e-5)


def test_stages(compiled):
    executable = compiled.executable.others[0]
    assert "layout #" in emit(executable, "block")
    assert "ptx_kernel void @" in emit(executable, "llvm")
    assert ".target sm_90a" in emit(executable, "ptx")
    assert emit(executable, "ptx").isprintable() or "\0" not in emit(executable, "ptx")
    with pytest.raises(UsageError, match="no stage 'asm' of cuda:sm_90a: one of graph, regions, block, llvm, ptx"):
        emit(executable, "asm")


def test_report(compiled):
    facts = report(compiled.executable)
    assert facts["targets"][1:] == ["cuda:sm_90a", "cuda:sm_80"]
    kernels = facts["gpu_kernels"]["cuda:sm_90a"]
    assert {k["kernel"] for k in kernels} == {k.name for k in compiled.executable.others[0].kernels if k.launch}
    assert all(k["threads"] % 32 == 0 for k in kernels)
    if assembler.assembler_version():
        assert all(k["registers"] > 8 and k["spill_bytes"] >= 0 for k in kernels)
        assert compiled.executable.others[0].code["cuda:sm_90a"].object.startswith(b"\x7fELF")


def test_spills_and_warnings_are_shown(compiled, tmp_path, capsys):
    source = compiled.executable.others[0]
    code = {k: dataclasses.replace(c, warnings=("wgmma serialized",)) for k, c in source.code.items()}
    kernels = [
        dataclasses.replace(k, launch=k.launch and dataclasses.replace(k.launch, spill_bytes=8)) for k in source.kernels
    ]
    worse = dataclasses.replace(source, code=code, kernels=tuple(kernels))
    first = next(k.name for k in kernels if k.launch)
    assert code_warnings(worse)[:2] == [
        "cuda:sm_90a: wgmma serialized",
        f"cuda:sm_90a: kernel {first!r} spills 8 bytes of registers",
    ]
    gfx.save(worse, tmp_path / "m.gfx")
    assert main(["inspect", str(tmp_path / "m.gfx")]) == 0
    shown = capsys.readouterr().out
    assert "warning: cuda:sm_90a: wgmma serialized" in shown
    assert "registers" in shown


# the assembler's own words, from its releases 12.9 and 13

LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'one' for 'sm_90a'
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to a call in 'one'
ptxas info    : Function properties for one
ptxas         .     16 bytes stack frame, 20 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 168 registers, used 5 barriers, 16 bytes cumulative stack size, 33792 bytes smem
ptxas info    : Compiling entry function 'two' for 'sm_90a'
ptxas info    : Function properties for two
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers
ptxas warning : Value of threads per SM for entry two is out of range.
"""


def test_what_the_assembler_says():
    assert assembler.read_resources(LOG) == {
        "one": assembler.Resources(168, 44, 33792),
        "two": assembler.Resources(32, 0, 0),
    }
    silent = "\n".join(line for line in LOG.splitlines() if "spill" not in line and "registers" not in line)
    assert {(r.registers, r.spill_bytes) for r in assembler.read_resources(silent).values()} == {(-1, -1)}
    assert assembler.read_warnings(LOG) == (
        "(C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to a call in 'one'",
        "Value of threads per SM for entry two is out of range.",
    )


@pytest.mark.skipif(not assembler.assembler_version(), reason="nvJitLink is not installed")
def test_the_assembler_refuses_what_is_wrong():
    with pytest.raises(TargetError, match="the assembler refuses the PTX for sm_80: .*line 4"):
        assembler.assemble(".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k() { frob; }\n", "sm_80")
    assert assembler.assemble("", "sm_9999") is None


def test_without_an_assembler(monkeypatch, tmp_path):
    monkeypatch.setattr(assembler, "_library", lambda: None)
    model = graphfuse.compile(small(), target="cuda:sm_90a")
    code = model.executable.code["cuda:sm_90a"]
    assert (code.object, code.warnings) == (b"", ())
    assert {k.launch.registers for k in model.executable.kernels if k.launch} == {-1}
    model.save(tmp_path / "m.gfx")
    np.testing.assert_allclose(
        graphfuse.load(tmp_path / "m.gfx", device="emulator")(FEED)["z"], wanted(FEED), rtol=1e-5
    )


# alignment


def test_offsets_inside_of_tensors():
    n = sym("n")
    assert [divisor([d]) for d in (0, 16, 20, n * 32, n * 20 + 8, floordiv(n, 2) * 16, n)] == [16, 16, 4, 16, 4, 16, 1]
    func = parse("func @k(%a: ptr<f32>, %b: ptr<f32>) {grid = 1} {\n  return()\n}")
    steps = (Step("k", (Pointer(0), Pointer(1, 24)), 1), Step("k", (Pointer(0, 32), Pointer(1, 48)), 1))
    assert with_alignments({"k": func}, Plan((), steps))["k"].attrs["alignments"] == (16, 8)
    aligned = with_alignments({"k": func}, Plan((), steps[:0]))["k"]
    assert "alignments" not in aligned.attrs


@pytest.mark.parametrize(
    ("attrs", "found"), [("", True), ("alignments = [16, 4], ", True), ("alignments = [8], ", False)]
)
def test_boxes_need_whole_alignment(attrs, found):
    text = f"""func @k(%a: ptr<f16>{", %b: ptr<f16>" if "4]" in attrs else ""}) {{{attrs}grid = 4}} {{
      %p = block.program_id() : i64
      %i = block.index(%p) {{expr = (4096*p), names = ["p"]}} : i64
      %v = block.load_view(%a, %i) {{shape = [64, 64], strides = [64, 1]}} : tile<64x64xf16>
      block.store_view(%a, %i, %v) {{strides = [64, 1]}}
      return()
    }}"""
    func = parse(text)
    load = next(op for op in func.walk() if op.kind is block.load_view)
    with nullcontext() if found else pytest.raises(Unboxed, match="a begins at no multiple of 16 bytes"):
        find_box(load, Scalars(func))


def test_parts_at_odd_offsets():
    """The emulator refuses an access that is not aligned."""
    model = misaligned_parts(3, 5, 37)
    feed = feed_of(model)
    found = graphfuse.compile(model, device="emulator")(feed)
    parts = [np.exp(feed[k].astype(np.float64)) for k in "xy"]
    c = np.concatenate([p / p.sum(1, keepdims=True) for p in parts])
    np.testing.assert_allclose(found["c"], c, rtol=1e-5)
    np.testing.assert_allclose(found["z"], c * c, rtol=1e-5)


# verify


def test_regions_in_the_emulator(tmp_path, capsys):
    path = tmp_path / "m.onnx"
    onnx.save(small(), path)
    rows = verify_regions(path, [FEED["x"], FEED["y"]], device="emulator")
    assert rows
    assert all(r["ok"] for r in rows)
    assert main(["verify", str(path), "--device", "emulator", "--dim", "batch=3", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [r["kernel"] for r in shown["regions"]] == [r["kernel"] for r in rows]
    assert main(["run", str(path), "--device", "emulator", "--random"]) == 0


@pytest.mark.parametrize(("old", "new"), [(r"add(\.rn)?\.f32", "sub.f32"), (r"(@\S+\s+)?st\.global[^;]*;", "")])
def test_a_wrong_kernel_is_found(tmp_path, monkeypatch, old, new):
    """A sum that became a difference is seen; so are results that nobody writes."""

    whole = Backend.code

    def broken(*args):
        made = whole(*args)
        text, count = re.subn(old, new, made.code.ptx)
        assert count
        return dataclasses.replace(made, code=dataclasses.replace(made.code, ptx=text, object=b""))

    monkeypatch.setattr(Backend, "code", broken)
    path = tmp_path / "m.onnx"
    onnx.save(small(), path)
    rows = verify_regions(path, [FEED["x"], FEED["y"]], device="emulator")
    assert not all(r["ok"] for r in rows)


# choices


def test_providers():
    path = small().SerializeToString()
    session = graphfuse.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]
    np.testing.assert_allclose(session.run(None, FEED)[0], wanted(FEED), rtol=1e-5)
    with pytest.raises(
        UsageError, match="expected 'CPUExecutionProvider' or 'CUDAExecutionProvider' among them, got X"
    ):
        graphfuse.InferenceSession(path, providers=["X"])
    if not _gpu():
        with pytest.raises(DeviceError):
            graphfuse.InferenceSession(path, providers=[("CUDAExecutionProvider", {"device_id": 1})])


def _gpu():
    from graphfuse.runtime.cuda.bindings import open_driver

    try:
        return open_driver().device_count()
    except DeviceError:
        return 0


def test_no_code_for_the_device(compiled):
    with pytest.raises(ArtifactError, match="there is code for cpu:.* only: compile it for a GPU"):
        CompiledModel(dataclasses.replace(compiled.executable, others=()), device="emulator")(FEED)
    with pytest.raises(UsageError, match="two targets are the same"):
        graphfuse.compile(small(), target=["cuda:sm_80", "cuda:sm_80"])
