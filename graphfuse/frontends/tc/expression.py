"""Integer expressions outside of a source: grids, shapes and requirements on a command line."""

from __future__ import annotations

from collections.abc import Mapping

from graphfuse.frontends.tc.condition import ConditionError, evaluate_integer
from graphfuse.frontends.tc.driver import tokens
from graphfuse.frontends.tc.tokens import Token


def evaluate(text: str, names: Mapping[str, str]) -> int:
    """The value of a C expression; every name in it must be one of `names`.

    Raises SourceError for text that is no C, ValueError for what has no value.
    """
    found = tokens(text, "<expression>", names)
    if not any(t.kind != "end" for t in found):
        raise ValueError("expected an expression, found nothing")
    for token in found:
        if token.kind == "name":
            raise ValueError(f"{token.text!r} has no value here")
    end = found[-1]
    if end.kind != "end":
        found = [*found, Token("end", "", end.source, end.end, end.end)]
    try:
        return evaluate_integer(found)
    except ConditionError as e:
        raise ValueError(e.message.removeprefix("#if: ")) from None
