"""The pass manager: options in text, what passes require, dumps that read back, overrides, repros, counts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import graphfuse
import models
from graphfuse import compiler, pipelines
from graphfuse.dialects import graph
from graphfuse.errors import FileError, UsageError, VerifyError
from graphfuse.fusion.precision.lower_precision import lower_precision
from graphfuse.fusion.products.merge_contractions import merge_contractions
from graphfuse.fusion.simplify.canonicalize import canonicalize
from graphfuse.fusion.simplify.layout import layout
from graphfuse.gpu.transforms.coalesce import coalesce
from graphfuse.ir.core import Func
from graphfuse.ir.limit import counted
from graphfuse.ir.parser import parse, parse_module
from graphfuse.ir.passes import PASSES, Pass, parse_pipeline, pipeline_text, run, timing
from graphfuse.ir.printer import to_text
from graphfuse.ir.rewrite import rebuild
from graphfuse.ir.snapshots import Constants
from graphfuse.ir.types import BF16
from graphfuse.ir.verifier import verify
from graphfuse.knobs import scope
from graphfuse.stages import optimize_text
from tests.interp.inputs import assert_same_numbers
from tools.bisect_rewrites import guilty

DIGITS = Path(models.__file__).parent / "digits.onnx"
TARGETS = ("cpu", "cuda:sm_80", "cuda:sm_90a")
DOUBLE_NEGATION = parse("""
func @main(%x: tensor<4xf32>) {inputs = ["x"], outputs = ["y"]} {
  %a = graph.neg(%x) : tensor<4xf32>
  %b = graph.neg(%a) : tensor<4xf32>
  %y = graph.exp(%b) : tensor<4xf32>
  return(%y)
}
""")
BLOCK = parse("""
func @k(%x: ptr<f32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {shape = [64], strides = [1]} : tile<64xf32>
  block.store_view(%x, %zero, %a) {strides = [1]}
  return()
}
""")


# text


def test_options_are_written_as_attributes_are() -> None:
    text = 'dead-code, lower-precision {to = bf16}, split-long-sums {target = "cuda:sm_90a"}, split-f32'
    passes = parse_pipeline(text)
    assert passes[1] == lower_precision.given(to=BF16)
    assert pipeline_text(passes) == text
    assert parse_pipeline(" ") == ()


@pytest.mark.parametrize("target", [*TARGETS, "cpu:x86-64-v3"])
def test_the_pipelines_of_a_target_read_back(target: str) -> None:
    for line in pipelines.listing(target).splitlines():
        if not line.startswith("//"):
            assert pipeline_text(parse_pipeline(line)) == line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("canonicalise", "unknown pass 'canonicalise': did you mean 'canonicalize'?"),
        ("lower-precision {too = f16}", "pass 'lower-precision': unknown option 'too': expected one of to"),
        ("dead-code {n = 1}", "pass 'dead-code': unknown option 'n': expected none"),
        ("lower-precision {to = 1}", "option 'to': expected a value of type scalar, found 1"),
        ("dead-code layout", "expected ',', got 'layout'"),
    ],
)
def test_a_pipeline_that_nobody_can_run(text: str, message: str) -> None:
    with pytest.raises(graphfuse.GraphfuseError, match=re.escape(message)):
        parse_pipeline(text)


def test_every_pass_has_a_sentence_and_options_that_have_text() -> None:
    for pass_ in PASSES.values():
        assert pass_.doc.endswith((".", ";")) or pass_.doc, pass_.name
        assert parse_pipeline(str(pass_.given(**pass_.defaults))) == (pass_.given(**pass_.defaults),)


def test_print_after_refuses_names_of_no_pass() -> None:
    with scope(print_after=("layuot",)), pytest.raises(UsageError, match="PRINT_AFTER: unknown pass 'layuot': did you"):
        graphfuse.compile(DIGITS)


def test_print_after_prints_passes_of_every_level(capfd: pytest.CaptureFixture[str]) -> None:
    with scope(print_after=("layout", "coalesce")):
        graphfuse.compile(DIGITS, target="cuda:sm_80", device="cpu")
    printed = capfd.readouterr().err
    assert "// after graph/main/11-layout" in printed
    assert re.search(r"// after gpu/\w+/\d\d-coalesce\n", printed)


# what is checked


def test_ir_of_another_level_is_refused() -> None:
    with pytest.raises(VerifyError, match=r"pass 'coalesce' of @main: expected a function of the level 'gpu', found"):
        run(DOUBLE_NEGATION, (coalesce,), "test")
    with pytest.raises(VerifyError, match=r"pass 'canonicalize' of @k: expected a function of the level 'graph'"):
        run(BLOCK, (canonicalize,), "test")


def test_what_a_pass_requires_is_looked_for() -> None:
    with pytest.raises(VerifyError, match=r"pass 'coalesce' of @k: expected tiles with layouts, found block.load_view"):
        run(BLOCK, (coalesce,), "test")
    run(BLOCK, (PASSES["assign-layouts"], coalesce), "test")


def test_passes_in_the_wrong_order_are_refused() -> None:
    columns = PASSES["split-columns"]
    assert merge_contractions.name in columns.after
    with pytest.raises(UsageError, match="pass 'split-columns' runs after 'merge-contractions': found it before"):
        run(DOUBLE_NEGATION, (columns, merge_contractions), "test")


def _wrong(func: Func) -> Func:
    """Gives an op a type that is not its rule's."""
    ops = [
        replace(op, types=(BLOCK.params[0].type,)) if op.kind is graph.ELEMENTWISE["exp"] else op
        for op in func.body.ops
    ]
    return replace(func, body=replace(func.body, ops=tuple(ops)))


WRONG = Pass("wrong", _wrong, "graph")


def test_what_a_pass_leaves_is_verified_and_a_failure_leaves_a_repro(tmp_path: Path) -> None:
    with scope(dump=str(tmp_path)), pytest.raises(VerifyError) as failed:
        run(DOUBLE_NEGATION, (canonicalize, WRONG), "test")
    path = tmp_path / "repro-main-wrong.gf"
    assert failed.value.__notes__ == [f"in pass wrong of @main; replay: graphfuse opt {path}"]
    text = path.read_text()
    assert text.startswith("// RUN: wrong\n")
    assert "graph.neg" not in text, "what the failing pass got"
    with scope(verify=False):
        run(DOUBLE_NEGATION, (WRONG,), "test")


def test_opt_runs_what_a_file_says(tmp_path: Path) -> None:
    text = f"// RUN: canonicalize\n{to_text(DOUBLE_NEGATION)}"
    assert "graph.neg" not in optimize_text(text, "")
    assert "graph.neg" in optimize_text(text, "dead-code")


def test_passes_are_timed_by_name() -> None:
    with timing() as outer, timing() as inner:
        run(DOUBLE_NEGATION, (canonicalize, layout, canonicalize), "test")
    assert inner.keys() == {"canonicalize", "layout"}
    assert outer == inner
    assert all(seconds > 0 for seconds in inner.values())


# dumps


def dumped(name: str, target: str, folder: Path) -> list[Path]:
    """Compile a model, and every file that is written meanwhile."""
    path = models.cached(name, small=True)
    with scope(dump=str(folder)):
        graphfuse.compile(path, target=target, dims=models.get(name).DIMS, device="cpu")
    return sorted(folder.rglob("*.gf"))


def reads_back(path: Path) -> None:
    text = path.read_text()
    funcs = parse_module(text, str(path), Constants.beside(path))
    for func in funcs:
        verify(func)
    without_locations = re.sub(r' loc "(?:[^"\\]|\\.)*"$', "", text, flags=re.MULTILINE)
    assert "\n".join(map(to_text, funcs)).strip() == without_locations.strip(), path


@pytest.mark.some(2)
@pytest.mark.parametrize("target", TARGETS)
def test_dumps_read_back(target: str, tmp_path: Path) -> None:
    paths = dumped("digits", target, tmp_path)
    stages = {p.relative_to(tmp_path).parts[0] for p in paths}
    assert stages > {"graph", "regions", "block", "cpu" if target == "cpu" else "gpu"}
    for path in paths:
        reads_back(path)


@pytest.mark.full
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [*models.names(), *models.quantised(), *models.with_host_code()])
def test_dumps_of_every_model_read_back(name: str, target: str, tmp_path: Path) -> None:
    if packages := models.lacking(name):
        pytest.skip(f"building {name} needs {packages}")
    for path in dumped(name, target, tmp_path):
        reads_back(path)


def test_an_edited_file_replaces_what_a_pass_made(tmp_path: Path) -> None:
    path = tmp_path / "test" / "main" / "00-canonicalize.gf"
    with scope(dump=str(tmp_path)):
        run(DOUBLE_NEGATION, (canonicalize, layout), "test")
    path.write_text(path.read_text().replace("graph.exp", "graph.log"))
    with scope(override=str(tmp_path)):
        assert any(op.kind is graph.ELEMENTWISE["log"] for op in run(DOUBLE_NEGATION, (canonicalize,), "test").walk())
    path.write_text(path.read_text().replace("graph.log", "graph.lgo"))
    with (
        scope(override=str(tmp_path)),
        pytest.raises(graphfuse.GraphfuseError, match=r"00-canonicalize.gf:\d+:\d+: error"),
    ):
        run(DOUBLE_NEGATION, (canonicalize,), "test")


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda folder: None, "GRAPHFUSE_OVERRIDE: expected a folder"),
        (lambda folder: folder.write_text(""), "GRAPHFUSE_OVERRIDE: expected a folder"),
        (lambda folder: (folder / "test/main/00-canonicalize.gf").mkdir(parents=True), "found a folder"),
    ],
    ids=["nothing", "a file", "a folder of that name"],
)
def test_edited_files_that_cannot_be_read(made: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    made(tmp_path / "edited")
    with scope(override=str(tmp_path / "edited")), pytest.raises(FileError, match=message):
        run(DOUBLE_NEGATION, (canonicalize,), "test")


def test_halves_are_halves() -> None:
    with pytest.raises(UsageError, match="to: expected f16 or bf16, found f64"):
        run(DOUBLE_NEGATION, parse_pipeline("lower-precision {to = f64}"), "test")


# counted rewrites


def test_rewrites_are_counted_and_the_rest_are_left_out() -> None:
    passes = parse_pipeline("canonicalize, dead-code")
    with counted(1000) as all_of_them:
        run(DOUBLE_NEGATION, passes, "test")
    assert all_of_them is not None
    assert "test @main: canonicalize" in all_of_them.made
    for most in range(len(all_of_them.made) + 1):
        with counted(most) as some:
            after = run(DOUBLE_NEGATION, passes, "test")
        assert some is not None
        assert some.made == all_of_them.made[:most]
        assert_same_numbers(DOUBLE_NEGATION, after)
    assert to_text(after) == to_text(run(DOUBLE_NEGATION, passes, "test"))


@pytest.mark.parametrize("most", [0, 7, 30])
def test_a_model_runs_with_few_rewrites(most: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, 1, 8, 8), dtype=np.float32)
    want = graphfuse.compile(DIGITS)({"image": x})["logits"]
    with scope(stop_after=most):
        got = graphfuse.compile(DIGITS)({"image": x})["logits"]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_bisect_names_the_rewrite_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(func: Func) -> Func:
        """The first maximum is a minimum."""
        largest = next(op for op in func.walk() if op.kind is graph.ELEMENTWISE["max"])
        return rebuild(func, lambda op: graph.ELEMENTWISE["min"](*op.operands) if op.kind is largest.kind else None)

    right = pipelines.graph_passes
    planted = Pass("plant", wrong, "graph")
    monkeypatch.setattr(compiler, "graph_passes", lambda *args: (*right(*args)[:4], planted, *right(*args)[4:]))
    assert re.match("graph @main: plant, rewrite [0-9]+ of ", guilty(DIGITS, "cpu", {"batch": 2}, 0, 1e-3) or "")
    monkeypatch.setattr(compiler, "graph_passes", right)
    assert guilty(DIGITS, "cpu", {"batch": 2}, 0, 1e-3) is None
