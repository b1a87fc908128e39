"""RegexFullMatch: as Python's engine where that and RE2 agree, as RE2 where they do not, and never exponential."""

from __future__ import annotations

import random
import re
import time

import numpy as np
import pytest
from onnx import TensorProto, helper

from graphfuse.errors import GraphfuseError
from graphfuse.frontends.onnx.python_ops.regex import Pattern, PatternError
from graphfuse.host.model import OnnxModel

LEAVES = [
    "a", "b", ".", r"\w", r"\W", r"\d", r"\D", r"\S", r"\.", "1", " ", "[ab]", "[^a]", "[a-c1]", r"[^\d]", r"[\w-]",
    "[]a]", "[^]a]", "^", r"\b", r"\B", r"\A", r"\Z", "",
]  # fmt: skip
SUFFIXES = ["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{1,}", "*?", "+?", "??"]


def pattern(rng: random.Random, depth: int) -> str:
    """A pattern that means the same to Python and to RE2."""
    inner = [pattern(rng, depth - 1) for _ in range(2)] if depth else []
    match rng.randrange(5) if depth else 0:
        case 0:
            return rng.choice(LEAVES)
        case 1:
            return "".join(inner)
        case 2:
            return f"({'|'.join(inner)})"
        case 3:
            return f"(?:{inner[0]}){rng.choice(SUFFIXES)}"
        case _:
            return f"{rng.choice(['(', '(?i:', '(?s:', '(?m:', '(?P<n>'])}{inner[0]})"


@pytest.mark.parametrize("seed", range(4))
def test_as_python(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        text = pattern(rng, 4)
        try:
            reference = re.compile(text, re.ASCII)
        except re.error:  # a name twice
            continue
        ours = Pattern(text)
        for _ in range(12):
            subject = "".join(rng.choice("aabbAB1 \n.c") for _ in range(rng.randrange(1, 9)))
            assert ours.fullmatch(subject) == bool(reference.fullmatch(subject)), (text, subject)


@pytest.mark.parametrize(
    ("text", "hits", "misses"),
    [
        ("a$", ["a"], ["a\n"]),
        (r"\d+", ["12"], ["\u0661", ""]),
        (r"\w", ["a", "_"], ["\u00e9"]),
        (r"\s", ["\t", "\f"], ["\v", "\u00a0"]),
        ("[[:alpha:]_]+", ["aZ_"], ["a1", ":"]),
        ("[[:digit:][:punct:]]*", ["1-2]"], ["a"]),
        (r"[\[:alpha:]", [":", "["], ["b"]),
        ("(?<year>[0-9]{4})", ["2026"], ["26"]),
        (r"\Aa\z", ["a"], ["a\n"]),
        ("a{,5}", ["a{,5}"], ["aaa"]),
        ("(?i)straSSe", ["STRASSE"], ["strasze"]),
        ("(?i)[^b]", ["a"], ["b", "B"]),
        (".", ["\U0001f600"], ["\n"]),
        (r"(?s).*\B", ["", "a\n"], ["a"]),
        ("(a*)*", ["", "aaa"], ["b"]),
    ],
)
def test_as_re2(text: str, hits: list[str], misses: list[str]) -> None:
    found = Pattern(text)
    assert all(map(found.fullmatch, hits))
    assert not any(map(found.fullmatch, misses))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (r"(a)\1", "groupref is none of RE2's"),
        ("(?=a)", "assert is none of RE2's"),
        ("a++", "possessive_repeat is none of RE2's"),
        (r"\pL", r"bad escape \p at position 0"),
        ("[[:vowel:]]", "there is no class [:vowel:]"),
        ("a{1000000}", "expected a pattern of up to 10000 steps, found more"),
        ("((a{100}){100}){100}", "expected a pattern of up to 10000 steps, found more"),
        ("(" * 5000, "nested too deeply"),
        ("[", "unterminated character set at position 0"),
    ],
)
def test_patterns_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(PatternError, match=re.escape(message)):
        Pattern(text)


@pytest.mark.parametrize("text", ["(a+)+b", "(a|a)*b", "(a*)*b", "(a|b|ab)*c", "(.*)(.*)(.*)(.*)c", "(a?){30}a{30}"])
def test_time_is_linear(text: str) -> None:
    found = Pattern(text)
    began = time.process_time()
    assert not found.fullmatch("a" * 100_000)
    assert time.process_time() - began < 5


def matched(text: str, subjects: list[str]) -> np.ndarray:
    node = helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=text)
    x, y = (helper.make_tensor_value_info(n, t, ["n"]) for n, t in (("x", TensorProto.STRING), ("y", TensorProto.BOOL)))
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=[helper.make_opsetid("", 20)])
    return OnnxModel(model)({"x": np.array(subjects, object)})["y"]


def test_the_operator() -> None:
    np.testing.assert_array_equal(matched("(x+x+)+y", ["x" * 40, "xxy", "\u00e9"]), [False, True, False])
    with pytest.raises(GraphfuseError, match="RegexFullMatch: pattern: groupref is none of RE2's"):
        matched("(x)\\1", ["x"])
