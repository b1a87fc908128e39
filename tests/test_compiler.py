"""Graph to executable: stages, metadata, and the check of regions that `graphfuse verify` runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphfuse import compiler
from graphfuse.blockgen import evaluate, loops
from graphfuse.blockgen.evaluate import neutral
from graphfuse.checking import verify_regions
from graphfuse.dialects import graph
from graphfuse.interp import graph as interp
from graphfuse.ir.core import Func
from graphfuse.ir.parser import parse, parse_module
from graphfuse.ir.printer import to_text
from graphfuse.knobs import Options
from graphfuse.runtime.report import target_notes
from graphfuse.runtime.session import Session
from graphfuse.targets import Target
from graphfuse.targets.backend import backend_of
from graphfuse.targets.machine import Machine
from tests.machine import HOST

MODEL = """func @main(%x: tensor<(batch)x20xf32>) {inputs = ["x"], outputs = ["y", "most"]} dims (batch in 1..64) {
  %w = graph.constant() {value = dense<20x3xf32, [DATA]>} : tensor<20x3xf32>
  %m = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<(batch)x3xf32>
  %t = graph.tanh(%m) : tensor<(batch)x3xf32>
  %p = graph.abs(%t) : tensor<(batch)x3xf32>
  %e = graph.exp(%p) : tensor<(batch)x3xf32>
  %s = graph.reduce(%e) {axes = [1], kind = "min"} : tensor<(batch)xf32>
  %y = graph.log(%s) : tensor<(batch)xf32>
  return(%y, %t)
}
""".replace("DATA", " ".join(f"{(i % 7 - 3) / 4}" for i in range(60)))


def model() -> Func:
    return parse(MODEL)


def test_stages_hold_every_form() -> None:
    done = compiler.stages(model(), HOST, Options())
    regions = [op for op in done.regions.walk() if op.kind is graph.region]
    assert [op.attrs["kind"] for op in regions] == ["contraction", "reduction"]
    assert set(done.kernels) == set(done.region_ops) == {str(op.attrs["kernel"]) for op in regions}
    assert {"pack-weights", "partition", "blockgen"} <= set(done.seconds)


@pytest.mark.parametrize(("cpu", "machine"), [
    ("cpu:x86-64-v4", Machine(64, 32)), ("cpu:x86-64-v3", Machine(32, 16)), ("cpu:x86-64-v2", Machine(16, 16)),
    ("cpu:neoverse-n1", Machine(16, 32)),
])  # fmt: skip
def test_a_target_says_what_tiling_needs(cpu: str, machine: Machine) -> None:
    assert backend_of(Target.parse(cpu)).machine == machine


@pytest.mark.parametrize(
    ("arch", "said"), [("sm_90a", ""), ("sm_80", "fitted on an H200"), ("sm_100a", "no schedules of its own")]
)
def test_the_ledger_says_what_a_target_takes_from_another(arch: str, said: str) -> None:
    made = compiler.build(model(), Target.parse(f"cuda:{arch}"), Options())
    notes = target_notes(made)
    assert [note.partition(": ")[0] for note in notes] == ([f"cuda:{arch}"] if said else [])
    assert all(said in note for note in notes)


@pytest.fixture(scope="module")
def executable() -> Any:
    return compiler.build(model(), HOST, Options())


def test_an_executable_describes_itself(executable: Any) -> None:
    assert [(s.name, s.elem) for s in executable.signature.inputs] == [("x", "f32")]
    assert [s.name for s in executable.signature.outputs] == ["y", "most"]
    assert executable.signature.ranges == {"batch": (1, 64)}
    product, rows, copy = executable.kernels
    assert (product.kind, rows.kind, copy.name) == ("contraction", "reduction", "copy_bytes")
    assert product.params[:3] == "rrw"
    assert str(product.flops) == "120*batch"
    assert any(d["fused"] and d["consumer"] for d in executable.ledger)


def test_the_texts_of_an_executable_read_back(executable: Any) -> None:
    (constant,) = (op.attrs["value"] for op in model().walk() if op.kind is graph.constant)
    assert to_text(parse(executable.ir["graph"], constants={constant.digest: constant})) == to_text(model())
    assert {f.name for f in parse_module(executable.ir["block"])} == {k.name for k in executable.kernels[:-1]}


@pytest.mark.parametrize("fuse", [True, False])
def test_it_computes_what_the_model_says(fuse: bool) -> None:
    x = np.random.default_rng(0).standard_normal((5, 20), dtype=np.float32)
    with Session(compiler.build(model(), HOST, Options(fuse=fuse)), 2) as session:
        got = session.run({"x": x})
    for name, want in zip(("y", "most"), interp.run(model(), x), strict=True):
        np.testing.assert_allclose(got[name], want, rtol=0, atol=2.0**-18)


def test_two_builds_are_equal_but_for_the_time(executable: Any) -> None:
    again = compiler.build(model(), HOST, Options())
    assert again.code == executable.code
    assert again.ir == executable.ir
    assert again.plan == executable.plan


def inputs() -> list[np.ndarray[Any, Any]]:
    return [np.random.default_rng(1).standard_normal((6, 20), dtype=np.float32)]


def test_verify_trusts_right_kernels_and_reports_each_result() -> None:
    two = MODEL.replace("(%y, %t)", "(%y, %t, %p)").replace('"most"', '"most", "size"')
    checks = verify_regions(parse(two), HOST, inputs())
    assert [(c.kind, c.result) for c in checks] == [("contraction", 0), ("contraction", 1), ("reduction", 0)]
    assert not any(c.is_suspect for c in checks)


def test_verify_names_the_kernel_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minimum that begins at 0 instead of infinity."""
    for module in (loops, evaluate):
        monkeypatch.setattr(module, "neutral", lambda kind, elem: 0.5 if kind == "min" else neutral(kind, elem))
    assert [c.kind for c in verify_regions(model(), HOST, inputs()) if c.is_suspect] == ["reduction"]
