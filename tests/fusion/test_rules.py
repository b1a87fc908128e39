"""Every rewrite rule and every pass has an example in which it fires: text tests with `// RULES` (see conftest)."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from graphfuse import pipelines
from graphfuse.dialects import control, graph
from graphfuse.fusion.conv.winograd import winograd
from graphfuse.fusion.simplify.simplify_movement import ELEMENTWISE
from graphfuse.interp.graph import run
from graphfuse.ir import rewrite
from graphfuse.ir.core import REGISTRY, Block, Func, Params, Trait
from graphfuse.ir.dense import Dense
from graphfuse.ir.parser import parse_module
from graphfuse.ir.passes import PASSES, Pass, parse_pipeline
from graphfuse.ir.printer import to_text
from graphfuse.ir.rewrite import RULES
from graphfuse.ir.types import F32, Tensor
from tests.conftest import SEPARATOR, Fired, MismatchError, PassItem
from tests.interp.inputs import assert_same_numbers

TESTS = Path(__file__).parents[1]
TEXTS = {p: text for p in sorted(TESTS.rglob("*.gf")) if (text := p.read_text()).startswith("// RUN:")}
EXAMPLES = {p: text for p, text in TEXTS.items() if re.search(r"^// RULES$", text, re.MULTILINE)}
assert pipelines.PASSES is PASSES, "importing it registers them all"


def convolution(height: int = 14, low: int = 0) -> Func:
    """Worth Winograd's form; its weights are too many for text."""
    x = Params((Tensor((1, height, 14, 32), F32),), ("x",))
    padding = {"low": (0, low, 0, 0), "high": (0, 0, low, 0)}
    image = (graph.pad(x.values[0], value=0.0, mode="constant", **padding),) if low else ()
    weights = np.random.default_rng(0).standard_normal((3, 3, 32, 32), dtype=np.float32)
    w = graph.constant(value=Dense(weights))
    attrs = {"low": (0, 0), "high": (0, 0), "dilation": (1, 1), "input_dilation": (1, 1), "strides": (1, 1)}
    y = graph.conv(image[0].result if image else x.values[0], w, layout="nhwc", **attrs)
    return Func("minimal_filtering", Block(x, (*image, w, y, control.return_(y))))


BUILT: dict[str, tuple[Callable[[], Func], Pass]] = {
    "minimal_filtering": (convolution, winograd),
    "minimal_filtering__odd": (lambda: convolution(15), winograd),
    "minimal_filtering__padded": (lambda: convolution(14, 1), winograd),
}
"""Examples that text cannot hold."""


def shown() -> set[str]:
    """The rules that have an example."""
    funcs = (f for text in EXAMPLES.values() for f in parse_module(text.partition(SEPARATOR)[0]))
    return {name.partition("__")[0] for name in (*(f.name for f in funcs), *BUILT)}


def without_example(rules: Iterable[str]) -> set[str]:
    return set(rules) - shown()


def test_every_rule_has_an_example() -> None:
    assert without_example(RULES) == set()
    assert shown() - set(RULES) == set(), "examples of rules that are gone"


def test_a_rule_without_an_example_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite, "RULES", dict(RULES))

    @rewrite.rule(graph.neg)
    def unheard_of(_: object) -> None:
        """Nothing."""

    assert without_example(rewrite.RULES) == {"unheard_of"}


def test_an_example_in_which_the_rule_declines_is_seen(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    path = tmp_path / "declines.gf"
    path.write_text(
        "// RUN: canonicalize\n// RULES\nfunc @add_zero(%x: tensor<4xf32>, %y: tensor<4xf32>) {\n"
        "  %z = graph.add(%x, %y) : tensor<4xf32>\n  return(%z)\n}\n"
    )
    item = PassItem.from_parent(request.node.parent, name="declines", pipeline="canonicalize")
    item.path = path
    with pytest.raises(MismatchError, match="@add_zero: the rule add_zero must fire and change it"):
        item.runtest()


def test_an_update_keeps_the_input(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new example has no expected half: it is written behind the input."""
    path = tmp_path / "new.gf"
    head = "// RUN: canonicalize\n// RULES\nfunc @involution(%x: tensor<4xf32>) {\n"
    negated = "  %y = graph.neg(%x) : tensor<4xf32>\n  %z = graph.neg(%y) : tensor<4xf32>\n  return(%z)\n}\n"
    path.write_text(head + negated)
    item = PassItem.from_parent(request.node.parent, name="new", pipeline="canonicalize")
    item.path = path
    with pytest.raises(MismatchError, match="rerun with --update"):
        item.runtest()
    monkeypatch.setattr(request.config.option, "update", True)
    item.runtest()
    after = "func @involution(%x: tensor<4xf32>) {\n  return(%x)\n}\n"
    assert path.read_text() == head + negated + SEPARATOR + after
    monkeypatch.setattr(request.config.option, "update", False)
    item.runtest()


@pytest.mark.parametrize("name", BUILT)
def test_built_examples(name: str) -> None:
    build, pass_ = BUILT[name]
    before = build()
    with Fired() as fired:
        after = pass_(before)
    assert name.partition("__")[0] in fired
    assert to_text(after) != to_text(before)
    x = np.random.default_rng(1).standard_normal(before.params[0].type.shape, dtype=np.float32)
    (want,), (got,) = run(before, x), run(after, x)
    # both sum 288 products in f32, in different orders
    assert np.abs(want - got).max() < 1e-5 * np.std(want)


LEAST = 3
"""It fires, it declines, it meets the edge case."""


@functools.cache
def examples() -> dict[str, list[tuple[Func, Func]]]:
    """For each pass the functions of text on which it runs, and what it makes of them by itself."""
    out: dict[str, list[tuple[Func, Func]]] = {name: [] for name in PASSES}
    for text in TEXTS.values():
        named = {p.name: p for p in parse_pipeline(text.partition("\n")[0].removeprefix("// RUN:"))}
        funcs = parse_module(text.partition(SEPARATOR)[0]) if named else ()
        for name, pass_ in named.items():
            made = [(func, pass_(func)) for func in funcs]
            if len(named) > 1:  # else the collector has compared them
                for before, after in made:
                    assert_same_numbers(before, after, halves="\n// HALVES\n" in text)
            out[name] += made
    return out


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_has_text_that_it_changes_and_text_that_it_leaves(name: str) -> None:
    changed = [to_text(after) != to_text(before) for before, after in examples()[name]]
    built = sum(used.name == name for _, used in BUILT.values())
    assert len(changed) + built >= LEAST, f"{name}: {len(changed)} functions in text"
    assert built or any(changed), f"no text test in which {name} does something"
    assert not all(changed), f"no text test in which {name} does nothing"


def test_every_rule_says_what_it_relies_on() -> None:
    assert [name for name, apply in RULES.items() if not apply.__doc__] == []


def test_elementwise_rules_know_every_elementwise_op() -> None:
    kinds = {k for name, k in REGISTRY.items() if name.startswith("graph.") and Trait.ELEMENTWISE in k.traits}
    assert set(ELEMENTWISE) == kinds
