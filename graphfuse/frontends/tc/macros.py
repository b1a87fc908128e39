"""Macros and their expansion: Prosser's algorithm with hide sets, bounded in tokens and nesting."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from graphfuse.frontends.tc.diagnostics import Reporter, StopError
from graphfuse.frontends.tc.source import Source
from graphfuse.frontends.tc.tokens import Expansion, Token, tokenize

MAX_TOKENS = 100_000
"""Tokens that macros and includes may produce."""
MAX_NESTING = 60
"""Macro calls inside the arguments of macro calls."""


@dataclass(frozen=True, slots=True, eq=False)
class Macro:
    """A definition. `params` is None for an object-like macro; the last one takes the rest if `variadic`."""

    name: str
    params: tuple[str, ...] | None
    variadic: bool
    body: tuple[Token, ...]
    at: Token | None
    described: str = ""

    def same_as(self, other: Macro) -> bool:
        """Whether a second definition changes nothing."""
        mine, others = ([(t.text, t.space and i > 0) for i, t in enumerate(m.body)] for m in (self, other))
        return self.params == other.params and mine == others


class _Stream:
    """Tokens yet to be looked at: those that macros gave, then those of the file from `index` on."""

    def __init__(self, tokens: list[Token], index: int) -> None:
        self.pending: list[Token] = []
        self.tokens = tokens
        self.index = index

    def peek(self) -> Token:
        return self.pending[-1] if self.pending else self.tokens[self.index]

    def take(self) -> Token:
        if self.pending:
            return self.pending.pop()
        token = self.tokens[self.index]
        self.index += token.kind != "end"
        return token


class Expander:
    """Replaces macros. `used` collects the names of those that were."""

    def __init__(self, report: Reporter) -> None:
        self.report = report
        self.macros: dict[str, Macro] = {}
        self.used: set[str] = set()
        self._produced = 0
        self._nesting = 0

    def count(self, tokens: int, at: Token) -> None:
        """Account for tokens produced; too many end the run."""
        self._produced += tokens
        if self._produced > MAX_TOKENS:
            message = f"macros and includes give more than {MAX_TOKENS} tokens"
            self.report.error("expansion-limit", message, at.span)
            raise StopError

    def expand(self, tokens: list[Token]) -> list[Token]:
        """All of `tokens`, expanded."""
        out: list[Token] = []
        if not tokens:
            return out
        end = tokens[-1]
        stream = _Stream([*tokens, Token("end", "end of arguments", end.source, end.end, end.end)], 0)
        while stream.peek().kind != "end":
            self._step(stream, out)
        return out

    def expand_at(self, tokens: list[Token], index: int, out: list[Token]) -> int:
        """Expand the macro at `index` of a file into `out`; returns the index after what it took."""
        stream = _Stream(tokens, index)
        self._step(stream, out)
        while stream.pending:
            self._step(stream, out)
        return stream.index

    def _step(self, stream: _Stream, out: list[Token]) -> None:
        token = stream.take()
        macro = self.macros.get(token.text) if token.kind == "name" else None
        if macro is None or (token.hidden is not None and macro.name in token.hidden):
            out.append(token)
            return
        hidden = token.hidden or frozenset()
        args: list[list[Token]] = []
        if macro.params is not None:
            follower = stream.peek()
            # a directive is no argument, and a name without arguments is not replaced
            if follower.text != "(" or follower.kind != "punct":
                out.append(token)
                return
            closing: Token | None
            args, closing = self._arguments(macro, token, stream)
            if closing is None:
                return
            hidden &= closing.hidden or frozenset()
        self.used.add(macro.name)
        origin = Expansion(macro, token)
        hidden |= {macro.name}
        if macro.name in _DYNAMIC:
            result = [self._dynamic(token, origin)]
        else:
            result = self._substitute(macro, args, origin, hidden)
        self.count(len(result) + 1, token)
        if result:
            first = result[0]
            first.bol, first.space = token.bol, token.space
        stream.pending += reversed(result)

    def _dynamic(self, token: Token, origin: Expansion) -> Token:
        name, line = token.outermost.source.presumed(token.outermost.source.position(token.outermost.pos)[0])
        escaped = name.replace("\\", "\\\\").replace('"', '\\"')
        text = str(line) if token.text == "__LINE__" else f'"{escaped}"'
        kind = "number" if token.text == "__LINE__" else "string"
        return Token(kind, text, token.source, token.pos, token.end, origin=origin)

    def _arguments(self, macro: Macro, name: Token, stream: _Stream) -> tuple[list[list[Token]], Token | None]:
        assert macro.params is not None
        opening = stream.take()
        args: list[list[Token]] = [[]]
        depth = 1
        while True:
            token = stream.peek()
            if token.kind == "end" or (token.bol and token.text == "#" and token.origin is None):
                before = "end of the file" if token.kind == "end" else "directive"
                message = f"{name.text}: arguments are never closed: expected ')' before the {before}"
                self.report.error("macro-arguments", message, opening)
                return args, None
            stream.take()
            depth += (token.text in "([{") - (token.text in ")]}") if token.kind == "punct" else 0
            if depth == 0:
                break
            taking_rest = macro.variadic and len(args) == len(macro.params)
            if depth == 1 and token.text == "," and token.kind == "punct" and not taking_rest:
                args.append([])
            else:
                args[-1].append(token)
        want, got = len(macro.params), len(args)
        if macro.variadic and got == want - 1:
            args.append([])
        elif want == 0 and args == [[]]:
            args = []
        elif got != want:
            kind = f"at least {want - 1}" if macro.variadic else str(want)
            message = f"{name.text}: expected {kind} argument{'s' * (want != 1)}, found {got}"
            self.report.error("macro-arguments", message, name)
            args = (args + [[] for _ in range(want)])[:want]
        return args, token

    def _substitute(
        self, macro: Macro, args: list[list[Token]], origin: Expansion, hidden: frozenset[str]
    ) -> list[Token]:
        raw = dict(zip(macro.params or (), args, strict=True))
        expanded: dict[str, list[Token]] = {}
        out: list[Token | None] = []
        body = macro.body
        i = 0
        while i < len(body):
            token = body[i]
            following = body[i + 1].text if i + 1 < len(body) else ""
            if token.text == "#" and following in raw:
                out.append(_string(raw[following], token, origin))
                i += 2
                continue
            if token.text in raw and token.kind == "name":
                before = body[i - 1].text if i else ""
                if before == "##" or following == "##":
                    # an empty argument next to ## is a place marker
                    out += _readied([*raw[token.text]], hidden, token) or [None]
                else:
                    if token.text not in expanded:
                        expanded[token.text] = self._expand_argument(raw[token.text], origin.call)
                    out += _readied([*expanded[token.text]], hidden, token)
            else:
                out.append(token.copy(origin=origin, hidden=(token.hidden or frozenset()) | hidden, space=token.space))
            i += 1
        if any(t.text == "##" for t in body):
            return _paste_all(self, out, origin)
        return [t for t in out if t is not None]

    def _expand_argument(self, tokens: list[Token], call: Token) -> list[Token]:
        if not any(t.text in self.macros for t in tokens):
            return tokens
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            self.report.error("expansion-limit", f"macro calls are nested deeper than {MAX_NESTING}", call.span)
            raise StopError
        out = self.expand(tokens)
        self._nesting -= 1
        return out


_DYNAMIC = frozenset(("__LINE__", "__FILE__"))


def dynamic_macros() -> dict[str, Macro]:
    """The macros whose value depends on where they stand."""
    return {name: Macro(name, None, variadic=False, body=(), at=None, described=f"macro {name!r}") for name in _DYNAMIC}


def _readied(tokens: list[Token | None], hidden: frozenset[str], param: Token) -> list[Token | None]:
    out: list[Token | None] = [
        t and t.copy(origin=t.origin, hidden=(t.hidden and t.hidden | hidden) or hidden, space=t.space or t.bol)
        for t in tokens
    ]
    if out and out[0]:
        out[0].space = param.space
    return out


def _string(tokens: list[Token], at: Token, origin: Expansion) -> Token:
    """`#x`: what the argument spells, with quotes and backslashes of its strings escaped."""
    spelled = [re.sub(r'([\\"])', r"\\\1", t.text) if t.kind in ("string", "char") else t.text for t in tokens]
    text = "".join((" " if t.space and i else "") + s for i, (t, s) in enumerate(zip(tokens, spelled, strict=True)))
    return Token("string", f'"{text}"', at.source, at.pos, at.end, space=at.space, origin=origin)


def _paste_all(expander: Expander, tokens: list[Token | None], origin: Expansion) -> list[Token]:
    """Resolve `a ## b` from left to right; None is nothing."""
    out: list[Token | None] = []
    items = list(tokens)
    i = 0
    while i < len(items):
        token = items[i]
        if token is None or token.text != "##" or not out or i + 1 == len(items):
            out.append(token)
            i += 1
            continue
        left, right = out.pop(), items[i + 1]
        if left is None or right is None:
            # the GNU `, ## __VA_ARGS__`: without arguments the comma goes too
            out.append(None if left is not None and left.text == "," else left or right)
        elif left.text == "," and right.origin is not origin:
            out += [left, right]
        else:
            out.append(_paste(expander, left, right, origin))
        i += 2
    return [t for t in out if t is not None]


def _paste(expander: Expander, left: Token, right: Token, origin: Expansion) -> Token:
    text = left.text + right.text
    quiet = Reporter()
    made = tokenize(Source("<paste>", text), quiet)
    if len(made) != 2 or quiet.errors or made[0].text != text:
        message = f"##: {left.text!r} and {right.text!r} make {text!r}, which is not one token"
        expander.report.error("paste", message, origin.call)
        return left
    return replace(left, kind=made[0].kind, text=text, bol=False, origin=origin)


def command_line_macro(name: str, value: str, report: Reporter) -> Macro:
    """The macro that `-Dname=value` defines."""
    source = Source(f"-D{name}", value)
    tokens = tokenize(source, report)[:-1]
    for token in tokens:
        token.bol = False
    text = f"-D{name}={value}" if len(value) <= 40 else f"-D{name}"
    at = Token("name", name, source, 0, 0)
    return Macro(name, None, variadic=False, body=tuple(tokens), at=at, described=text)
