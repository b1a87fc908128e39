"""The C preprocessor: directives, conditions, includes, `-D` macros. Text in, tokens for the parser out."""

from __future__ import annotations

import contextlib
import difflib
import functools
import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from graphfuse.errors import FileError
from graphfuse.files import read_source
from graphfuse.frontends.tc.condition import ConditionError, evaluate_integer
from graphfuse.frontends.tc.constants import parse_number, unescape
from graphfuse.frontends.tc.diagnostics import FixIt, Note, Reporter, StopError
from graphfuse.frontends.tc.macros import Expander, Macro, command_line_macro, dynamic_macros
from graphfuse.frontends.tc.source import Source
from graphfuse.frontends.tc.tokens import Token, detokenize, tokenize

Include = Callable[[str, Source], Source]
"""Finds what `#include "name"` in a file names; raises FileError."""


class Watch(Protocol):
    """Is told of each condition that is evaluated: its directive, its tokens, their end, what it gives."""

    def __call__(self, pre: Preprocessor, name: Token, rest: list[Token], end: Token, *, taken: bool) -> None:
        """One condition."""
        ...


MAX_INCLUDE_DEPTH = 20
"""Files that include one another in turn: one that includes itself is not read for ever."""
MAX_INCLUDES = 500
"""In all: files that include others twice would be read 2^20 times."""
DIRECTIVES = (
    "define", "elif", "else", "endif", "error", "if", "ifdef", "ifndef", "include", "line", "pragma", "undef",
    "warning",
)  # fmt: skip

_PRELUDE = """\
#define bool _Bool
#define true 1
#define false 0
#define F32_INFINITY bitcast<float>(0x7F800000)
#define F16_INFINITY bitcast<half>((int16)0x7C00)
#define INFINITY F32_INFINITY
#define NULL 0
#define __STDC__ 1
#define __STDC_VERSION__ 201112L
#define __GRAPHFUSE__ 1
#define __DATE__ "??? ?? ????"
#define __TIME__ "??:??:??"
"""
"""What is defined before the first line; no time of day, so that the same source gives the same code."""


@dataclass(slots=True)
class _Condition:
    """An open `#if`: whether its current branch is read, whether a branch was, whether all around it is."""

    at: Token
    live: bool
    taken: bool
    outer_live: bool
    seen_else: bool = False


def read_include(name: str, of: Source) -> Source:
    """The file `name` beside the file that includes it."""
    path = Path(of.name).parent / name
    try:
        if not path.exists():
            raise FileError(f"there is no file {name!r}")
        return Source(str(path), read_source(path))
    except (OSError, ValueError):  # too long, a NUL
        raise FileError(f"{name!r} is no path") from None


INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<](?P<name>[^">]*)[">]', re.M)


def texts_read(text: str, filename: str) -> dict[str, str]:
    """A source and what it includes, whatever the conditions around it, by the name of the file."""
    done: dict[str, str] = {}
    todo = [Source(filename, text)]
    while todo:
        source = todo.pop()
        if source.name not in done and len(done) < MAX_INCLUDES:
            done[source.name] = source.text
            for m in INCLUDE.finditer(source.text):
                with contextlib.suppress(FileError):  # which the preprocessor reports
                    todo.append(read_include(m["name"], source))
    return done


def includes_within(*folders: Path) -> Include:
    """Reads nothing outside of these folders: for sources that are looked at before anybody trusts them."""

    def read(name: str, of: Source) -> Source:
        path = (Path(of.name).parent / name).resolve()
        if not any(path.is_relative_to(f.resolve()) for f in folders):
            raise FileError(f"{name!r} is outside of {' and '.join(map(str, folders))}")
        return read_include(name, of)

    return read


def preprocess(
    source: Source, defines: Mapping[str, str], report: Reporter, include: Include, watch: Watch | None = None
) -> list[Token]:
    """The tokens of a file after its directives were obeyed and its macros replaced; the last one is `end`."""
    return Preprocessor(report, include, watch).run(source, defines)


class Preprocessor:
    """One run over a file and what it includes."""

    def __init__(self, report: Reporter, include: Include, watch: Watch | None = None) -> None:
        self.report = report
        self._watch = watch
        self._defaults: dict[str, str] = {}
        self.overridable: set[str] = set()
        """With a watch: the macros that the source defines unless they are given (`#ifndef`)."""
        self.expander = Expander(report)
        self._include = include
        self._includes = 0
        self._mentioned: set[str] = set()
        self._defines: dict[str, str] = {}

    def run(self, source: Source, defines: Mapping[str, str]) -> list[Token]:
        """Preprocess `source` with `-D` definitions."""
        out: list[Token] = []
        self.expander.macros.update(_prelude())
        for name, value in defines.items():
            macro = command_line_macro(name, value, self.report)
            self.expander.macros[name] = macro
            self._mentioned.update(t.text for t in macro.body if t.kind == "name")
        self._defines = dict(defines)
        tokens = tokenize(source, self.report)
        self.file(tokens, out, 0)
        out.append(tokens[-1])
        self._unused(source)
        return out

    def _unused(self, source: Source) -> None:
        for name in self._defines:
            if name not in self._mentioned:
                near = difflib.get_close_matches(name, [n for n in self._mentioned if n.isupper()], 1)
                hint = f"; did you mean -D{near[0]}?" if near and near[0] not in self.expander.macros else ""
                self.report.warning("unused-define", f"-D{name} is never used in {source.name}{hint}", None)

    def default_of(self, name: str) -> str | None:
        """What a `#define` of the source, taken or not, would make of a macro."""
        return self._defaults.get(name)

    def file(self, tokens: list[Token], out: list[Token], depth: int) -> None:
        """Obey the directives of a file and expand the rest."""
        self._mentioned.update(t.text for t in tokens if t.kind == "name")
        if self._watch is not None:
            self._defaults.update(_defaults(tokens))
            self.overridable.update(t.text for w, t in itertools.pairwise(tokens) if w.text == "ifndef")
        conditions: list[_Condition] = []
        macros = self.expander.macros
        last = len(tokens) - 1
        live = True
        i = 0
        while i < last:
            token = tokens[i]
            text = token.text
            if token.bol and text == "#":
                start = i
                i += 1
                while not tokens[i].bol:
                    i += 1
                self._directive(tokens[start], tokens[start + 1 : i], conditions, out, depth)
                live = not conditions or conditions[-1].live
            elif not live:
                i += 1
            elif text in macros and token.kind == "name":
                i = self.expander.expand_at(tokens, i, out)
            else:
                out.append(token)
                i += 1
        for condition in conditions:
            self.report.error("directive", f"#{condition.at.text} has no #endif", condition.at)

    def _directive(
        self, hash_: Token, line: list[Token], conditions: list[_Condition], out: list[Token], depth: int
    ) -> None:
        if not line:
            return
        name, rest = line[0], line[1:]
        end = Token("end", "end of the line", name.source, line[-1].end, line[-1].end)
        live = not conditions or conditions[-1].live
        if name.text in ("if", "ifdef", "ifndef"):
            taken = live and self._watched(name, rest, end)
            conditions.append(_Condition(name, taken, taken, live))
        elif name.text in ("elif", "else", "endif"):
            self._branch(name, rest, end, conditions)
        elif live:
            self._plain(hash_, name, rest, end, out, depth)

    def _branch(self, name: Token, rest: list[Token], end: Token, conditions: list[_Condition]) -> None:
        if not conditions:
            self.report.error("directive", f"#{name.text} without #if", name)
            return
        condition = conditions[-1]
        if name.text == "endif":
            conditions.pop()
            return
        if condition.seen_else:
            note = Note("the #if is here", condition.at.span)
            self.report.error("directive", f"#{name.text} after #else", name, [note])
        if name.text == "else":
            condition.seen_else = True
            condition.live = condition.outer_live and not condition.taken
        else:
            untaken = condition.outer_live and not condition.taken
            condition.live = untaken and self._watched(name, rest, end)
        condition.taken |= condition.live

    def _watched(self, name: Token, rest: list[Token], end: Token) -> bool:
        taken = self.condition(name, rest, end)
        if self._watch is not None:
            self._watch(self, name, rest, end, taken=taken)
        return taken

    def condition(self, name: Token, rest: list[Token], end: Token) -> bool:
        """What `#if`, `#elif`, `#ifdef` or `#ifndef`, which is `name`, with its tokens gives here."""
        if name.text in ("ifdef", "ifndef"):
            if not rest or rest[0].kind != "name":
                found = repr(rest[0].text) if rest else "the end of the line"
                message = f"#{name.text}: expected a macro name, found {found}"
                self.report.error("directive", message, (rest or [end])[0])
                return False
            return self._defined(rest[0]) == (name.text == "ifdef")
        try:
            return evaluate_integer([*self.expander.expand(self._without_defined(rest, end)), end]) != 0
        except ConditionError as e:
            self.report.error("condition", e.message.replace("#if", f"#{name.text}", 1), e.at)
            return False

    def _defined(self, name: Token) -> bool:
        self.expander.used.add(name.text)
        return name.text in self.expander.macros

    def _without_defined(self, tokens: list[Token], end: Token) -> list[Token]:
        """`defined X` and `defined(X)` replaced by 1 or 0."""
        out: list[Token] = []
        i = 0
        while i < len(tokens):
            token = tokens[i]
            i += 1
            if token.text != "defined":
                out.append(token)
                continue
            bracket = i < len(tokens) and tokens[i].text == "("
            i += bracket
            if i == len(tokens) or tokens[i].kind != "name":
                raise ConditionError("#if: defined: expected a macro name", tokens[i] if i < len(tokens) else end)
            value = "1" if self._defined(tokens[i]) else "0"
            out.append(Token("number", value, token.source, token.pos, token.end))
            i += 1
            if bracket:
                if i == len(tokens) or tokens[i].text != ")":
                    raise ConditionError("#if: defined: expected ')'", tokens[i] if i < len(tokens) else end)
                i += 1
        return out

    def _plain(self, hash_: Token, name: Token, rest: list[Token], end: Token, out: list[Token], depth: int) -> None:
        match name.text:
            case "define":
                self._define(rest, end)
            case "undef":
                if not rest or rest[0].kind != "name":
                    self.report.error("directive", "#undef: expected a macro name", (rest or [end])[0])
                else:
                    self.expander.macros.pop(rest[0].text, None)
            case "include":
                self._do_include(name, rest, out, depth)
            case "line":
                self._line(name, rest)
            case "error":
                self.report.error("directive", f"#error: {detokenize(rest)}", hash_)
            case "warning":
                self.report.warning("directive", f"#warning: {detokenize(rest)}", hash_)
            case "pragma":
                pass
            case _ if name.kind == "number" and len(rest) <= 3:
                pass  # a line marker that another preprocessor left
            case _:
                near = difflib.get_close_matches(name.text, DIRECTIVES, 1)
                fix = [FixIt(name.span, near[0])] if near else []
                hint = f"; did you mean #{near[0]}?" if near else ""
                self.report.error("directive", f"unknown directive #{name.text}{hint}", name, (), fix)

    # definitions

    def _define(self, rest: list[Token], end: Token) -> None:
        if not rest or rest[0].kind != "name":
            found = repr(rest[0].text) if rest else "the end of the line"
            self.report.error("directive", f"#define: expected a macro name, found {found}", (rest or [end])[0])
            return
        name, body = rest[0], rest[1:]
        if name.text == "defined":
            self.report.error("directive", "#define: 'defined' cannot be a macro", name)
            return
        params: tuple[str, ...] | None = None
        variadic = False
        if body and body[0].text == "(" and not body[0].space:
            head = self._params(body, end)
            if head is None:
                return
            params, variadic, body = head
        if body and (body[0].text == "##" or body[-1].text == "##"):
            at = body[0] if body[0].text == "##" else body[-1]
            self.report.error("paste", "##: expected a token on both sides", at)
            return
        macro = Macro(name.text, params, variadic, tuple(body), name, f"macro {name.text!r}")
        old = self.expander.macros.get(name.text)
        if old is not None and old.at is not None and not old.same_as(macro):
            note = Note(f"the definition before, {old.described}", old.at.span)
            self.report.warning("macro-redefined", f"macro {name.text!r} is defined again, differently", name, [note])
        self.expander.macros[name.text] = macro

    def _params(self, body: list[Token], end: Token) -> tuple[tuple[str, ...], bool, list[Token]] | None:
        """The parameters of `#define f(a, b, ...)`, whether the last takes the rest, and the body."""
        params: list[str] = []
        variadic = False
        i = 1
        expect_name = True
        while True:
            token = body[i] if i < len(body) else end
            i += 1
            if token.text == ")" and (not expect_name or not params):
                return tuple(params), variadic, body[i:]
            if expect_name and not variadic and (token.text == "..." or token.kind == "name"):
                variadic = token.text == "..."
                name = "__VA_ARGS__" if variadic else token.text
                if name in params:
                    self.report.error("directive", f"#define: parameter {name!r} is named twice", token)
                    return None
                params.append(name)
                expect_name = False
            elif not expect_name and token.text == "..." and not variadic:
                variadic = True  # the GNU `args...`
            elif not expect_name and not variadic and token.text == ",":
                expect_name = True
            else:
                expected = "a parameter" if expect_name else "')'" if variadic else "',' or ')'"
                shown = token.text if token.kind == "end" else repr(token.text)
                self.report.error("directive", f"#define: expected {expected}, found {shown}", token)
                return None

    # files

    def _do_include(self, name: Token, rest: list[Token], out: list[Token], depth: int) -> None:
        if rest and rest[0].kind == "name":
            rest = self.expander.expand(rest)
        if rest and rest[0].kind == "string":
            target = unescape(rest[0].text[1:-1])
        elif len(rest) > 2 and rest[0].text == "<" and any(t.text == ">" for t in rest):
            target = "".join(t.text for t in rest[1 : [t.text for t in rest].index(">")])
        else:
            self.report.error("include", '#include: expected "file" or <file>', rest[0] if rest else name)
            return
        self._includes += 1
        if depth >= MAX_INCLUDE_DEPTH or self._includes > MAX_INCLUDES:
            limit = f"{MAX_INCLUDE_DEPTH} deep" if depth >= MAX_INCLUDE_DEPTH else f"{MAX_INCLUDES} in all"
            self.report.error("include", f"#include: too many files, {limit}: does {target!r} include itself?", rest[0])
            raise StopError
        try:
            source = self._include(target, name.source)
        except FileError as e:
            where = f"{e.loc}: " if e.loc else ""
            self.report.error("include", f"#include: {where}{e.message}", rest[0])
            return
        tokens = tokenize(source, self.report)
        self.expander.count(len(tokens), name)
        self.file(tokens, out, depth + 1)

    def _line(self, name: Token, rest: list[Token]) -> None:
        tokens = self.expander.expand(rest)
        number = parse_number(tokens[0].text) if tokens and tokens[0].text.isdigit() else None
        file = tokens[1] if len(tokens) > 1 else None
        if number is None or isinstance(number, str) or (file is not None and file.kind != "string"):
            at = file if number is not None and file is not None else (tokens or [name])[0]
            self.report.error("directive", '#line: expected a number and maybe a "file"', at)
            return
        source = name.source
        line = source.position(name.pos)[0]
        shown = unescape(file.text[1:-1]) if file is not None else source.presumed(line)[0]
        source.renumber_line(line + 1, int(number.value), shown)


def _defaults(tokens: list[Token]) -> dict[str, str]:
    """The object-like macros that the directives of a file define, and their text."""
    out: dict[str, str] = {}
    for i, token in enumerate(tokens[:-3]):
        if token.bol and token.text == "#" and tokens[i + 1].text == "define":
            body = list(itertools.takewhile(lambda t: not t.bol, tokens[i + 3 : -1]))
            if body and (body[0].space or body[0].text != "("):
                out.setdefault(tokens[i + 2].text, detokenize(body))
    return out


@functools.cache
def _prelude() -> Mapping[str, Macro]:
    quiet = Reporter()
    run = Preprocessor(quiet, read_include)
    run.file(tokenize(Source("<built in>", _PRELUDE), quiet), [], 0)
    # without a place, so that a kernel may define them again
    return {name: replace(m, at=None) for name, m in run.expander.macros.items()} | dynamic_macros()
