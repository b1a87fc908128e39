"""Every rule and every graph pass keeps what drawn programs compute; the laws find rules that do not."""

from __future__ import annotations

import random

import pytest

from graphfuse.dialects import graph
from graphfuse.ir.core import Op, Value
from graphfuse.ir.parser import parse
from graphfuse.ir.passes import PASSES, Pass, parse_pipeline
from graphfuse.ir.rewrite import Rule, rewrite
from tests import mutants, mutants_equivalent
from tests.properties import index_laws, rule_laws
from tests.properties.rule_programs import choices, examples

SAMPLE, ALL = 800, 40_000


@pytest.mark.parametrize(
    "seeds", [range(SAMPLE), pytest.param(range(SAMPLE, ALL), marks=pytest.mark.full)], ids=["sample", "all"]
)
def test_passes_keep_results(seeds: range) -> None:
    assert next(rule_laws.broken(seeds, examples()), None) is None


@pytest.mark.parametrize("count", [1500, pytest.param(None, marks=pytest.mark.full)])
def test_index_rules(count: int | None) -> None:
    for law, *given in index_laws.cases(random.Random(0), count):
        index_laws.check(law, *given)


def test_rules_of_blocks() -> None:
    assert not rule_laws.block_law()


NEGATIONS = tuple(e for e in examples() if any(op.kind is graph.neg for op in e.func.walk()))


def ceil_of_negation(op: Op) -> Value | None:
    """ceil(-x) = -x: wrong."""
    x = op.operands[0]
    return x if x.op is not None and x.op.kind is graph.neg else None


WRONG = Pass("wrong", lambda func: rewrite(func, [Rule("wrong", graph.ELEMENTWISE["ceil"], ceil_of_negation)]), "graph")


def test_the_laws_find_a_planted_rule() -> None:
    """No example has a `ceil`: drawing puts one behind a negation."""
    for seed in range(20_000):
        func, _ = rule_laws.drawn(seed, NEGATIONS)
        if func is None or not any(op.kind is graph.ELEMENTWISE["ceil"] for op in func.walk()):
            continue
        try:
            rule_laws.keeps_results(func, [WRONG], seed)
        except rule_laws.BrokenLawError:
            return
    pytest.fail("ceil(-x) = -x survived")


def test_mutants_are_drawn_from_every_rule() -> None:
    every = mutants.mutants()
    kinds = {kind: [m for m in every if m.kind == kind] for kind in ("guard", "sides", "constant")}
    assert len(kinds["guard"]) >= 222
    assert min(map(len, kinds.values())) >= 60
    assert mutants.drawn(every, 1, 20) == mutants.drawn(every, 1, 20) != mutants.drawn(every, 2, 20)
    assert mutants_equivalent.EQUIVALENT.keys() <= {m.key for m in every}, "the code of these is gone"


def test_a_mutant_is_found_and_leaves_nothing() -> None:
    (mutant,) = (m for m in mutants.mutants() if "add_zero: constant: 0 -> 1" in str(m))
    assert mutants.in_a_process(mutant, 5.0)


def test_values_of_symbols_fit_the_parameters() -> None:
    func = parse("func @f(%x: tensor<(n - 3)xf32>) dims (n in 1..8) {\n  return(%x)\n}\n")
    assert [v["n"] for v in choices(func)] == [3, 4]


def test_examples_near_a_line_come_to_it() -> None:
    *_, m = (m for m in mutants.mutants() if "_by_output: constant: 0 -> 1" in str(m))
    near = rule_laws.near(m.path, range(m.first, m.line + 1))
    assert "scale_product_of_bytes__scale_of_each_channel" in {e.func.name for e in near}
    assert len(near) < 6
    assert rule_laws.near(m.path, ()) == examples()


# what the laws found

ONES = "dilation = [1, 1], input_dilation = [1, 1], strides = [1, 1]"
SPREAD = "dilation = [1, 1], input_dilation = [2, 2], strides = [1, 1]"


def _kept(text: str, passes: str) -> None:
    func = parse(text)
    rule_laws.keeps_results(func, parse_pipeline(passes), 0)


@pytest.mark.parametrize(
    "ops",
    [
        # -x wraps where there is no sign: |-1| is 255
        "graph.neg(%x) : tensor<1x8xu8>\n  %y = graph.abs(%v) : tensor<1x8xu8>",
        # one row of those that repeat, but not the first: a slice of what is repeated has no such row
        (
            "graph.broadcast(%x) {shape = [5, 8]} : tensor<5x8xu8>\n"
            "  %y = graph.slice(%v) {sizes = [1, 5], starts = [3, 2], steps = [1, 1]} : tensor<1x5xu8>"
        ),
    ],
    ids=["abs-of-unsigned", "one-row-of-a-broadcast"],
)
def test_canonicalize_keeps(ops: str) -> None:
    _kept(f"func @f(%x: tensor<1x8xu8>) {{\n  %v = {ops}\n  return(%y)\n}}\n", "canonicalize")


def test_rows_of_nothing_are_not_flattened() -> None:
    """As many elements, none, whatever the number of rows."""
    _kept(
        """
func @f(%x: tensor<(n)x5x0xf32>, %w: tensor<0x3xf32>, %y: tensor<(n)x5x3xf32>) dims (n in 1..8) {
  %v0 = graph.reshape(%x) {shape = [(5*n + 1), 0]} : tensor<(5*n + 1)x0xf32>
  %v1 = graph.contract(%v0, %w) {spec = "mk,ko->mo"} : tensor<(5*n + 1)x3xf32>
  return(%v1, %y)
}
""",
        "recognise-flattening",
    )


@pytest.mark.parametrize("kind", ["max", "min", "sum"])
def test_windows_of_bools_are_padded(kind: str) -> None:
    pads = "high = [1], low = [1]"
    _kept(
        f"""
func @f(%x: tensor<5xbool>) {{
  %v = graph.reduce_window(%x) {{dilation = [1], {pads}, kind = "{kind}", strides = [1], window = [2]}} : tensor<6xbool>
  return(%v)
}}
""",
        "decompose-conv",
    )


@pytest.mark.parametrize(
    ("passes", "text"),
    [
        (
            "fold-batch-norm",
            f"""
func @f(%x: tensor<1x2x4x4xf32>) {{
  %s = graph.constant() {{value = dense<2x1x1xf32, [3.0 3.0]>}} : tensor<2x1x1xf32>
  %b = graph.broadcast(%s) {{shape = [1, 2, 4, 4]}} : tensor<1x2x4x4xf32>
  %m = graph.mul(%x, %b) : tensor<1x2x4x4xf32>
  %w = graph.constant() {{value = dense<2x2x1x1xf32, [1.0 2.0 3.0 5.0]>}} : tensor<2x2x1x1xf32>
  %c = graph.conv(%m, %w) {{{ONES}, elem = i32, high = [0, 0], low = [0, 0]}} : tensor<1x2x4x4xi32>
  return(%c)
}}
""",
        ),
        (
            "decompose-conv",
            f"""
func @f(%x: tensor<(n)x3x4x2xf32>, %w: tensor<3x3x2x(q)xf32>) dims (n in 1..64, q in 1..8) {{
  %v0 = graph.conv(%x, %w) {{{SPREAD}, high = [2, 2], layout = "nhwc", low = [1, 1]}} : tensor<(n)x6x8x(q)xf32>
  return(%v0)
}}
""",
        ),
        (
            "dequantise-later",
            """
func @f(%x: tensor<4x0xf32>) {
  %w = graph.constant() {value = dense<3x0xu8, []>} : tensor<3x0xu8>
  %v0 = graph.cast(%w) {to = f32} : tensor<3x0xf32>
  %v1 = graph.contract(%x, %v0) {spec = "mk,nk->mn"} : tensor<4x3xf32>
  return(%v1)
}
""",
        ),
        (
            "multiply-bytes",
            f"""
func @f(%x: tensor<0x4x2x2xu8>, %z: tensor<i32>) {{
  %v0 = graph.cast(%x) {{to = i32}} : tensor<0x4x2x2xi32>
  %v1 = graph.broadcast(%z) {{shape = [0, 4, 2, 2]}} : tensor<0x4x2x2xi32>
  %v2 = graph.sub(%v0, %v1) : tensor<0x4x2x2xi32>
  %v3 = graph.constant() {{value = dense<0x4x1x2xi8, []>}} : tensor<0x4x1x2xi8>
  %v4 = graph.cast(%v3) {{to = i32}} : tensor<0x4x1x2xi32>
  %v5 = graph.conv(%v2, %v4) {{{ONES}, high = [0, 1], low = [0, 0]}} : tensor<0x0x2x2xi32>
  return(%v5)
}}
""",
        ),
        (
            "multiply-bytes",
            f"""
func @f(%x: tensor<2x1x2x2xu8>) {{
  %v0 = graph.cast(%x) {{to = i32}} : tensor<2x1x2x2xi32>
  %v1 = graph.full() {{elem = i32, shape = [2, 1, 2, 2], value = 300}} : tensor<2x1x2x2xi32>
  %v2 = graph.sub(%v0, %v1) : tensor<2x1x2x2xi32>
  %v3 = graph.constant() {{value = dense<2x1x1x2xi8, [1 -2 3 4]>}} : tensor<2x1x1x2xi8>
  %v4 = graph.cast(%v3) {{to = i32}} : tensor<2x1x1x2xi32>
  %v5 = graph.conv(%v2, %v4) {{{ONES}, high = [0, 1], low = [0, 0]}} : tensor<2x2x2x2xi32>
  return(%v5)
}}
""",
        ),
        (
            "split-long-sums",
            """
func @f(%x: tensor<4x8192xbool>, %w: tensor<8192x4xbool>) {
  %v0 = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<4x4xbool>
  return(%v0)
}
""",
        ),
    ],
    ids=["scaled-then-cut", "symbolic-channels", "no-columns", "no-channels", "zero-point-of-no-byte", "bools"],
)
def test_passes_decline_what_they_cannot_do(passes: str, text: str) -> None:
    assert {p.name for p in parse_pipeline(passes)} <= PASSES.keys()
    _kept(text, passes)
