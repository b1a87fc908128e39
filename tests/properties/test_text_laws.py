"""Text: what is printed reads back, and no text breaks the parser."""

from __future__ import annotations

from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from tests.properties import laws
from tests.properties.programs import programs
from tests.properties.settings import PROGRAMS

CORPUS = [p.read_text() for p in sorted((Path(__file__).parents[1] / "ir").glob("*.gf"))]
FRAGMENTS = [
    *"(){}[]<>%=,-0n\"\n\\", "999999999999999999999", "1.5", "nan", "true", "f32", "floordiv(n, 2)", "tile<",
    "tensor<4xf32>", "dense<1xi8, [1]>", "yield()", "return()", "//", "%x", "@f", "do () {", "if", "for", "dims",
    "-1..2", "loc", "\x00", "é", "²",
]  # fmt: skip


@given(programs)
@PROGRAMS
def test_text_round_trips(text):
    laws.text_round_trips(text)


@given(programs, st.integers(0, 5))
@PROGRAMS
def test_print_order_is_fixed(text, seed):
    laws.print_order_is_fixed(text, seed)


@given(st.text())
@example("func @f() { return() ")
@example("func @f(%x: tensor<(" + "(" * 3000 + "n" + ")" * 3000 + ")xf32>) { return() }")
@example("func @f() {a = " + "[" * 3000 + "} { return() }")
@example("func @f() { " + "if(%c) do () { " * 3000)
@example("func @f() {a = (" + "9" * 5000 + ")} { return() }")
@example("func @f() {a = " + "9" * 5000 + "} { return() }")
@PROGRAMS
def test_parsing_any_string_is_total(text):
    laws.parsing_is_total(text)


@st.composite
def mutated(draw):
    """A valid file with a few pieces cut, doubled, or replaced."""
    text = draw(st.one_of(st.sampled_from(CORPUS), programs))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        end = min(len(text), at + draw(st.integers(0, 12)))
        text = text[:at] + draw(st.sampled_from(["", text[at:end] * 2, *FRAGMENTS])) + text[end:]
    return text


@given(mutated())
@PROGRAMS
def test_parsing_damaged_programs_is_total(text):
    laws.parsing_is_total(text)


@given(st.sampled_from(CORPUS), st.sampled_from(FRAGMENTS), st.data())
@PROGRAMS
def test_attributes_of_the_wrong_kind_are_refused(text, fragment, data):
    """Swap one attribute's value for something else: the verifier may refuse, but never falls over."""
    places = [i for i, c in enumerate(text) if text[i : i + 3] == " = " and text[i - 1] not in "%)" and c == " "]
    at = data.draw(st.sampled_from(places)) + 3 if places else 0
    end = min((i for i in (text.find(",", at), text.find("}", at), text.find("\n", at)) if i > 0), default=at)
    laws.parsing_is_total(text[:at] + fragment + text[end:])
