"""Integer expressions outside of a source: grids, shapes and requirements on a command line."""

from __future__ import annotations

from collections.abc import Mapping

from graphfuse.errors import UsageError
from graphfuse.frontends.tc.condition import ConditionError, evaluate_integer
from graphfuse.frontends.tc.diagnostics import SourceError
from graphfuse.frontends.tc.driver import tokens


def evaluate(text: str, names: Mapping[str, str], what: str) -> int:
    """The value of a C expression; every name in it must be one of `names`.

    Raises UsageError, which begins with `what` and the text, for one that is no C or has no value.
    """
    try:
        found = tokens(text, "<expression>", names)
        unknown = [t.text for t in found if t.kind == "name"]
        if len(found) > 1 and not unknown:
            return evaluate_integer(found)
        why = f"{unknown[0]!r} has no value here" if unknown else "expected an expression, found nothing"
    except (SourceError, ConditionError) as e:
        why = e.message.removeprefix("#if: ")
    raise UsageError(f"{what}{text!r}: {why}")
