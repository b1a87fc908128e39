"""Text to IR: a regex lexer and a recursive-descent parser, with located errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from graphfuse.errors import GraphfuseError, Loc, ParseError, meant
from graphfuse.ir.core import REGISTRY, Attr, Block, Func, Op, OpDef, Params, Value
from graphfuse.ir.dense import Dense, parse_values
from graphfuse.ir.layout import LinearLayout
from graphfuse.ir.layout_families import parse_linear
from graphfuse.ir.printer import hint_base
from graphfuse.ir.types import SCALAR_NAMES, Buffer, Ptr, Scalar, Tensor, Tile, Type, scalar
from graphfuse.symbolic import Dim, parse_dim

_TOKEN = re.compile(
    r"""(?P<skip>(?:\s+|//[^\n]*)+)
      | (?P<shaped>(?:tensor|tile|ptr|shared|dense)<[^<>]*>)
      | (?P<range>-?\d+\.\.-?\d+)
      | (?P<number>-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|inf\b|\d+))
      | (?P<value>%[\w$]+) | (?P<symbol>@\w+) | (?P<string>"(?:[^"\\]|\\.)*") | (?P<word>[A-Za-z_$][\w$.]*)
      | (?P<layout>\#\w+)
      | (?P<punct>[-{}()\[\]<>=:,+*])""",
    re.VERBOSE,
)
_TOO_LONG = re.compile(r"\d{400}")
T = TypeVar("T")
MAX_DEPTH = 200
"""Bodies and list literals nested deeper than this are refused rather than overflowing the stack."""


class _Token(NamedTuple):
    kind: str
    text: str
    pos: int
    loc: Loc


def parse(source: str, file: str = "<string>", constants: Mapping[str, Dense] | None = None) -> Func:
    """Parse one function. `constants` maps the digests of large constants to their data."""
    funcs = parse_module(source, file, constants)
    if len(funcs) != 1:
        raise ParseError(f"expected one function, got {len(funcs)}", Loc(file, 1, 1))
    return funcs[0]


def parse_module(source: str, file: str = "<string>", constants: Mapping[str, Dense] | None = None) -> tuple[Func, ...]:
    """Parse all functions of a file."""
    parser = _Parser(source, _lex(source, file), constants or {})
    funcs: list[Func] = []
    while not parser.at_end:
        funcs.append(parser.func())
    return tuple(funcs)


def parse_calls(source: str) -> list[tuple[str, dict[str, Attr]]]:
    """Names with attributes: `a-b, c {n = 1}` is `[("a-b", {}), ("c", {"n": 1})]`."""
    parser = _Parser(source, _lex(source, "<string>"), {})
    calls: list[tuple[str, dict[str, Attr]]] = []
    while not parser.at_end:
        calls.append(parser.call())
    return calls


def _lex(source: str, file: str) -> list[_Token]:
    if m := _TOO_LONG.search(source):
        raise ParseError("a number has 400 digits or more", Loc(file, source.count("\n", 0, m.start()) + 1, 1))
    tokens: list[_Token] = []
    pos = line = 0
    bol = 0
    while pos < len(source):
        loc = Loc(file, line + 1, pos - bol + 1)
        if (m := _TOKEN.match(source, pos)) is None:
            raise ParseError(f"unexpected character {source[pos]!r}", loc)
        assert m.lastgroup is not None
        if m.lastgroup != "skip":
            tokens.append(_Token(m.lastgroup, m.group(), pos, loc))
        if newlines := m.group().count("\n"):
            line, bol = line + newlines, pos + m.group().rindex("\n") + 1
        pos = m.end()
    tokens.append(_Token("end", "end of input", len(source), Loc(file, line + 1, pos - bol + 1)))
    return tokens


class _Parser:
    def __init__(self, source: str, tokens: list[_Token], constants: Mapping[str, Dense]) -> None:
        self._source = source
        self._tokens = tokens
        self._constants = constants
        self._at = 0
        self._depth = 0
        self._env: dict[str, Value] = {}
        self._layouts: dict[str, LinearLayout] = {}

    # tokens

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    @property
    def at_end(self) -> bool:
        return self._next.kind == "end"

    def _take(self) -> _Token:
        token = self._tokens[self._at]
        if token.kind != "end":
            self._at += 1
        return token

    def _accept(self, text: str) -> bool:
        if self._next.text != text:
            return False
        self._at += 1
        return True

    def _expect(self, text: str) -> _Token:
        if self._next.text != text:
            raise ParseError(f"expected {text!r}, got {self._next.text!r}", self._next.loc)
        return self._take()

    def _expect_kind(self, kind: str) -> _Token:
        if self._next.kind != kind:
            raise ParseError(f"expected {kind}, got {self._next.text!r}", self._next.loc)
        return self._take()

    def _listed(self, end: str, read: Callable[[], T]) -> list[T]:
        """What is read up to a mark, with commas between."""
        items: list[T] = []
        while not self._accept(end):
            items.append(read())
            if self._next.text != end:
                self._expect(",")
        return items

    # grammar, top down

    def func(self) -> Func:
        """`func @name(params) {attrs} dims (n in 1..8) { op* }`, after the layouts it names."""
        self._layouts = {}
        while self._accept("layout"):
            self._layout()
        self._expect("func")
        name = self._expect_kind("symbol").text[1:]
        self._env = {}
        params = self._params(keep_names=True)
        attrs = self._attrs() if self._is_attrs() else {}
        dims: list[tuple[str, int, int]] = []
        if self._accept("dims"):
            self._expect("(")
            dims = self._listed(")", self._dim_range)
        return Func(name, self._ops(params), attrs, tuple(dims))

    def call(self) -> tuple[str, dict[str, Attr]]:
        """`name-of-parts {attrs}`, with a comma behind it unless it is the last."""
        words = [self._expect_kind("word").text]
        while self._accept("-"):
            words.append(self._expect_kind("word").text)
        attrs = self._attrs() if self._next.text == "{" else {}
        if not self.at_end:
            self._expect(",")
        return "-".join(words), attrs

    def _layout(self) -> None:
        """`layout #name = 8x4 linear {...}`."""
        token = self._expect_kind("layout")
        self._expect("=")
        start = self._next
        while self._next.text != "}" and not self.at_end:
            self._take()
        end = self._expect("}")
        text = self._source[start.pos : end.pos + 1]
        if token.text in self._layouts:
            raise ParseError(f"layout {token.text} is defined twice", token.loc)
        try:
            self._layouts[token.text] = parse_linear(text)
        except GraphfuseError as e:
            raise ParseError(e.message, start.loc) from None

    def _use_layout(self, token: _Token, name: str) -> LinearLayout:
        if name not in self._layouts:
            raise ParseError(f"layout {name} is not defined", token.loc)
        return self._layouts[name]

    def _is_attrs(self) -> bool:
        """Whether the next `{` opens attributes (`{word = ...`) rather than a block."""
        at = self._at
        if self._tokens[at].text != "{" or at + 2 >= len(self._tokens):
            return False
        return self._tokens[at + 1].kind == "word" and self._tokens[at + 2].text == "="

    def _dim_range(self) -> tuple[str, int, int]:
        name = self._expect_kind("word").text
        self._expect("in")
        lo, hi = self._expect_kind("range").text.split("..")
        return name, int(lo), int(hi)

    def _block(self) -> Block:
        outer = dict(self._env)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ParseError(f"bodies are nested deeper than {MAX_DEPTH}", self._next.loc)
        block = self._ops(self._params())
        self._depth -= 1
        self._env = outer
        return block

    def _ops(self, params: Params) -> Block:
        self._expect("{")
        ops: list[Op] = []
        while not self._accept("}"):
            ops.append(self._op())
        return Block(params, tuple(ops))

    def _params(self, *, keep_names: bool = False) -> Params:
        """Parameters; those of a function keep their names whole, for a kernel's symbols are named by them."""
        self._expect("(")
        given = self._listed(")", self._param)
        hints = tuple(t.text[1:] if keep_names else _hint(t) for t, _ in given)
        params = Params(tuple(type_ for _, type_ in given), hints)
        for (token, _), value in zip(given, params.values, strict=True):
            self._define(token, value)
        return params

    def _param(self) -> tuple[_Token, Type]:
        token = self._expect_kind("value")
        self._expect(":")
        return token, self._type()

    def _op(self) -> Op:
        results: list[_Token] = []
        if self._next.kind == "value":
            results.append(self._take())
            while not self._accept("="):
                self._expect(",")
                results.append(self._expect_kind("value"))
        word = self._expect_kind("word")
        kind = _opdef(word)
        self._expect("(")
        operands = self._listed(")", lambda: self._use(self._expect_kind("value")))
        attrs = self._attrs() if self._next.text == "{" else {}
        bodies: list[Block] = []
        while self._accept("do"):
            bodies.append(self._block())
        types: list[Type] = []
        if self._accept(":"):
            types.append(self._type())
            while self._accept(","):
                types.append(self._type())
        loc = word.loc
        if self._accept("loc"):
            loc = _loc_from_text(_unquote(self._expect_kind("string").text))
        hints = tuple(_hint(t) for t in results)
        op = Op(kind, tuple(operands), attrs, tuple(types), tuple(bodies), hints, loc)
        if len(results) != len(types):
            raise ParseError(f"{kind}: {len(results)} names for {len(types)} results", word.loc)
        for token, value in zip(results, op.results, strict=True):
            self._define(token, value)
        return op

    def _attrs(self) -> dict[str, Attr]:
        self._expect("{")
        attrs: dict[str, Attr] = {}

        def attr() -> None:
            key = self._expect_kind("word").text
            if key in attrs:
                raise ParseError(f"attribute {key!r} is given twice", self._next.loc)
            self._expect("=")
            attrs[key] = self._literal(0)

        self._listed("}", attr)
        return attrs

    def _literal(self, depth: int) -> Attr:
        if depth > MAX_DEPTH:
            raise ParseError(f"lists are nested deeper than {MAX_DEPTH}", self._next.loc)
        if self._next.text == "(":
            return self._expression()
        if self._accept("["):
            return tuple(self._listed("]", lambda: self._literal(depth + 1)))
        token = self._take()
        match token.kind:
            case "number":
                return int(token.text) if re.fullmatch(r"-?\d+", token.text) else float(token.text)
            case "string":
                return _unquote(token.text)
            case "word" if token.text in ("true", "false"):
                return token.text == "true"
            case "word" if token.text in ("inf", "nan"):
                return float(token.text)
            case "word" if token.text in SCALAR_NAMES:
                return scalar(token.text)
            case "shaped" if token.text.startswith("dense"):
                return self._dense(token)
            case "layout":
                return self._use_layout(token, token.text)
            case _:
                raise ParseError(f"expected a literal, got {token.text!r}", token.loc)

    def _expression(self) -> Dim:
        """A parenthesised dim; its text is handed to the dim parser."""
        start = self._take()
        depth, at = 1, self._at
        while depth:
            token = self._tokens[at]
            if token.kind == "end":
                raise ParseError("'(' is never closed", start.loc)
            depth += (token.text == "(") - (token.text == ")")
            at += 1
        text = self._source[start.pos + 1 : self._tokens[at - 1].pos]
        self._at = at
        return _dim(text, start.loc)

    def _type(self) -> Type:
        token = self._take()
        if token.text in SCALAR_NAMES:
            return scalar(token.text)
        if token.kind != "shaped" or token.text.startswith("dense"):
            raise ParseError(f"unknown type {token.text!r}", token.loc)
        head, _, inner = token.text[:-1].partition("<")
        name = ""
        if head == "shared":
            return _buffer(token, inner)
        if m := re.fullmatch(r"(.*), (#\w+)", inner):
            inner, name = m[1], m[2]
            if head != "tile":
                raise ParseError(f"only a tile has a layout, got {token.text}", token.loc)
        shape, elem = _shape(inner, token.loc)
        if head == "ptr":
            if shape:
                raise ParseError(f"a pointer has no shape, got {token.text}", token.loc)
            return Ptr(elem)
        return Tensor(shape, elem) if head == "tensor" else self._tile(token, shape, elem, name)

    def _tile(self, token: _Token, shape: tuple[Dim, ...], elem: Scalar, name: str) -> Tile:
        """Of a shape, in the layout of that name, if any."""
        static = tuple(d for d in shape if isinstance(d, int))
        if len(static) < len(shape):
            raise ParseError(f"a tile has a static shape, got {token.text}", token.loc)
        layout = self._use_layout(token, name) if name else None
        tile = Tile(static, elem, layout)
        if layout and layout.shape != tile.padded_shape:
            raise ParseError(f"layout {name} is for the shape {list(layout.shape)}, the tile is {static}", token.loc)
        return tile

    def _dense(self, token: _Token) -> Dense:
        head, _, data = token.text[6:-1].partition(", ")
        shape, elem = _shape(head, token.loc)
        if not all(isinstance(d, int) for d in shape):
            raise ParseError(f"a constant has a static shape, got {token.text}", token.loc)
        static = tuple(d for d in shape if isinstance(d, int))
        if data.startswith("sha256:"):
            if data[7:] not in self._constants:
                raise ParseError(f"the data of constant {data} is not at hand", token.loc)
            dense = self._constants[data[7:]].seen_as(static, elem)
            if dense is None:
                raise ParseError(f"the data of constant {data} is of another size than {head}", token.loc)
            return dense
        try:
            return parse_values(data.strip("[]"), static, elem)
        except (ValueError, OverflowError) as e:
            raise ParseError(f"bad constant {token.text}: {e}", token.loc) from None

    # names

    def _define(self, token: _Token, value: Value) -> None:
        if token.text in self._env:
            raise ParseError(f"{token.text} is defined twice", token.loc)
        self._env[token.text] = value

    def _use(self, token: _Token) -> Value:
        if token.text not in self._env:
            raise ParseError(f"{token.text} is not defined", token.loc)
        return self._env[token.text]


def _buffer(token: _Token, inner: str) -> Buffer:
    """`shared<4x64xf16, swizzle 128>`."""
    inner, _, swizzle = inner.partition(", swizzle ")
    shape, elem = _shape(inner, token.loc)
    sizes = tuple(d for d in shape if isinstance(d, int))
    if len(sizes) < len(shape) or swizzle not in ("", "32", "64", "128"):
        raise ParseError(f"expected static dims and a swizzle of 32, 64 or 128, got {token.text}", token.loc)
    return Buffer(sizes, elem, int(swizzle or 0))


def _shape(text: str, loc: Loc) -> tuple[tuple[Dim, ...], Scalar]:
    """`4x(n + 1)xf32`: dims, then the element."""
    dims: list[Dim] = []
    rest = text
    while m := re.match(r"(\d+)x|\(", rest):
        if m[1]:
            dims.append(int(m[1]))
            rest = rest[m.end() :]
            continue
        depth, at = 1, 1
        while depth and at < len(rest):
            depth += (rest[at] == "(") - (rest[at] == ")")
            at += 1
        if depth or rest[at : at + 1] != "x":
            raise ParseError(f"bad shape {text!r}", loc)
        dims.append(_dim(rest[1 : at - 1], loc))
        rest = rest[at + 1 :]
    if rest not in SCALAR_NAMES:
        raise ParseError(f"unknown element type {rest!r}", loc)
    return tuple(dims), scalar(rest)


def _dim(text: str, loc: Loc) -> Dim:
    try:
        return parse_dim(text)
    except GraphfuseError as e:
        raise ParseError(e.message, loc) from None


def _opdef(token: _Token) -> OpDef:
    if token.text in REGISTRY:
        return REGISTRY[token.text]
    raise ParseError(f"unknown op {token.text!r}{meant(token.text, REGISTRY)}", token.loc)


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], text[1:-1])


def _loc_from_text(text: str) -> Loc:
    if m := re.fullmatch(r"(.*):(\d+):(\d+)", text):
        return Loc(m[1], int(m[2]), int(m[3]))
    file, _, node = text.partition(":")
    return Loc(file, node=node)


def _hint(token: _Token) -> str:
    """The hint a name carries: printer-made names (`%v0`, `%x_1`) carry none or their base."""
    return hint_base(token.text[1:])
