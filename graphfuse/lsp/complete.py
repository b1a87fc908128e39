"""What may be typed at a position: names in scope and words of the language; the arguments of the call around it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from graphfuse.frontends.tc.preprocess import DIRECTIVES
from graphfuse.frontends.tc.source import Source
from graphfuse.frontends.tc.tokens import cut
from graphfuse.lsp.index import Declared, Defined, Index
from graphfuse.lsp.words import FUNCTIONS, WORDS

_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(?P<word>\w*)")
_ENOUGH = 20_000
"""Characters in front of a position that are looked at for the call around it."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What may be typed. `kind` is that of a name or a word; `detail` its type or form, `text` what it does."""

    label: str
    kind: str
    detail: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A call that is being written: the form of its function, its arguments there, and which is written."""

    form: str
    params: tuple[str, ...]
    active: int
    text: str = ""


def choices(found: Index, before: str, line: int, column: int) -> list[Choice]:
    """All that may stand at a position; `before` is the text in front of it. Nothing in comments and strings."""
    row = before[before.rfind("\n") + 1 :]
    directive = _DIRECTIVE.fullmatch(row)
    if directive is not None:
        return [Choice(name, "keyword", f"#{name}") for name in DIRECTIVES]
    if _inside(before) != "code":
        return []
    out: dict[str, Choice] = {w: Choice(w, word.kind, word.form, word.text) for w, word in WORDS.items()}
    out |= {f: Choice(f, "function", word.form, word.text) for f, word in FUNCTIONS.items()}
    out |= {m.name: _macro(m) for m in found.macros.values()}
    # the innermost declaration comes last
    out |= {name.name: Choice(name.name, name.kind, name.text) for name in _known(found.declared, line, column)}
    return list(out.values())


def _macro(macro: Defined) -> Choice:
    word = WORDS.get(macro.name)
    return Choice(macro.name, word.kind if word else "macro", macro.text, word.text if word else "")


def _known(declared: tuple[Declared, ...], line: int, column: int) -> Iterator[Declared]:
    """What is declared around a position, from the outside inwards."""
    for name in declared:
        if name.scope is None:
            yield name
    inner = [name for name in declared if name.scope is not None and name.is_known_at(line, column)]
    yield from sorted(inner, key=lambda name: (name.scope.start if name.scope else (0, 0), name.place.start))


def _inside(before: str) -> str:
    """Whether a text ends in code, in a comment or in a string."""
    last, end = "code", 0
    for kind, start, end in cut(Source("", before).code):
        last = kind if end > start else "code"
    if last in ("comment", "open_comment"):
        return "code" if before.endswith("*/") else "comment"
    return "string" if last == "open_string" or (last == "other" and before.endswith("'")) else "code"


def call_around(found: Index, before: str, line: int, column: int) -> Call | None:
    """The innermost call around a position whose function is known."""
    code = Source("", before[-_ENOUGH:]).code
    tokens = [code[a:b] for kind, a, b in cut(code) if kind not in ("space", "newline", "comment", "open_comment")]
    depth = commas = 0
    for i in range(len(tokens) - 1, 0, -1):
        text = tokens[i]
        if text in (")", "]"):
            depth += 1
        elif text == "[" and depth:
            depth -= 1
        elif text == "[" or text in ("{", "}", ";"):
            # a subscript, or another statement: commas in it are no arguments
            if text != "[":
                return None
            commas = 0
        elif text == "," and not depth:
            commas += 1
        elif text == "(" and depth:
            depth -= 1
        elif text == "(":
            known = _called(found, tokens[i - 1], line, column)
            if known is not None:
                form, params, told = known
                variadic = bool(params) and params[-1].endswith("...")
                active = min(commas, len(params) - 1) if variadic else commas
                return Call(form, params, active, told)
            commas = 0
    return None


def _called(found: Index, name: str, line: int, column: int) -> tuple[str, tuple[str, ...], str] | None:
    functions = [d for d in found.declared if d.name == name and d.is_known_at(line, column)]
    if functions and functions[-1].kind == "function":
        function = functions[-1]
        return f"{name}({', '.join(function.params)})", function.params, ""
    if functions:
        return None
    macro = found.macros.get(name)
    if macro is not None:
        params = macro.params
        return None if params is None else (f"{name}({', '.join(params)})", params, macro.text)
    word = FUNCTIONS.get(name)
    return None if word is None else (word.form, word.params, word.text)
