"""What the server says of words is of the words that the language has, and their arguments are those it takes."""

from __future__ import annotations

import re

import pytest

from graphfuse.frontends.tc import Reporter, SourceError, check
from graphfuse.frontends.tc.builtins import _HANDLERS, BUILTINS
from graphfuse.frontends.tc.parser import ATTRIBUTES
from graphfuse.frontends.tc.reader import KEYWORDS, TYPE_NAMES
from graphfuse.frontends.tc.types import NAMED
from graphfuse.lsp.words import FUNCTIONS, TYPES, WORDS


def test_every_word_is_described():
    assert set(FUNCTIONS) == BUILTINS
    assert set(WORDS) == KEYWORDS | TYPE_NAMES | {f"__{name}" for name in ATTRIBUTES} | {"newaxis", "bool"}
    assert {name for name in NAMED if " " not in name} <= set(TYPES)
    assert all(word.text and word.form for word in (*FUNCTIONS.values(), *WORDS.values()))


@pytest.mark.parametrize("name", sorted(_HANDLERS))
def test_arguments_are_as_many_as_the_language_takes(name):
    _, low, high = _HANDLERS[name]
    form = FUNCTIONS[name].form
    assert len(FUNCTIONS[name].params) == high, form
    assert len(FUNCTIONS[name].params) - form.count("[") == low, form


@pytest.mark.parametrize("name", sorted(BUILTINS - set(_HANDLERS) - {"printf"}))
def test_arguments_of_functions_of_tiles(name):
    """With one more than all of them the language says how many it takes."""
    params = FUNCTIONS[name].params
    report = Reporter()
    args = ", ".join(["x"] * (len(params) + 1))
    with pytest.raises(SourceError):
        check(f"__global__ void k(float *p) {{ float x[4] = *p; {name}({args}); }}", "k.tc", report=report)
    said = [d.message for d in report.found if d.severity == "error"]
    assert any(re.match(rf"{name}: expected .* arguments?, found {len(params) + 1}|argument 3 of dot", m) for m in said)


@pytest.mark.parametrize("name", sorted(TYPES.keys() - {"void", "_Complex"}))
def test_types_are_as_wide_as_said(name):
    bits = re.search(r"of (\d+) bits", TYPES[name].text)
    if bits is not None:
        bytes_ = int(bits[1]) // 8
        check(f'_Static_assert(sizeof({name}) == {bytes_}, "size"); __global__ void k() {{ }}', "k.tc")
    if "without a sign" in TYPES[name].text:
        check(f'_Static_assert(({name})-1 > 0, "sign"); __global__ void k() {{ }}', "k.tc")
