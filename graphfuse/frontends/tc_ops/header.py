"""The comment in front of a kernel that makes it an operator.

    // op: my.domain::ScaledGelu
    // inputs: x: T[M, N], bias: T[N];   outputs: y: T[M, N];   attrs: alpha: float = 1.0
    // macros: TYPE = T, TM = 32, TN = 64;   grid: (M + TM - 1) / TM, (N + TN - 1) / TN
    // args: x, bias, y, M, N, alpha

A header is a run of `//` lines of which the first begins with `op:`. Fields are `name: value`, each on lines of its
own or separated by `;`; a line that begins with no field's name continues the field before it. docs/triton-c-ops.md
explains each. This module knows text only: `operator.py` gives it meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphfuse.dialects.block import SCHEDULES
from graphfuse.errors import Loc, ParseError
from graphfuse.frontends.tc.defines import split_at_commas
from graphfuse.frontends.tc.kernel import LAUNCH, MOST
from graphfuse.frontends.tc.types import NAMED, Arith

FIELDS = ("op", "inputs", "outputs", "attrs", "types", "macros", "grid", "args", "kernel", *LAUNCH)
REQUIRED = ("op", "outputs", "grid", "args")
ATTR_TYPES = {"float": float, "int": int}
_COMMENT = re.compile(r"[ \t]*//[/!]?(?P<text>.*)")
_FIELD = re.compile(r"(?P<after>\A|[;\n])[^\S\n]*(?P<name>[A-Za-z_]\w*)[^\S\n]*:(?!:)")
_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_OP = re.compile(r"(?:(?P<domain>[\w.]+)::)?(?P<name>[A-Za-z_]\w*)\Z")
_TENSOR = re.compile(r"(?P<name>\w+)\s*:\s*(?P<elem>[\w ]+?)\s*\[(?P<dims>[^\[\]]*)\]\s*(?:=\s*(?P<initial>\S+))?\Z")


@dataclass(frozen=True, slots=True)
class Tensor:
    """`x: T[M, N]`: a type or a variable for one, and dims as expressions. `run`: the first stands for several.

    `initial` is what an output holds before the kernel runs, if it is written `y: T[M] = 0`.
    """

    name: str
    elem: str
    dims: tuple[str, ...]
    loc: Loc
    run: bool = False
    initial: float | None = None

    def __str__(self) -> str:
        dims = [f"{d}..." if self.run and i == 0 else d for i, d in enumerate(self.dims)]
        initial = "" if self.initial is None else f" = {self.initial:g}"
        return f"{self.name}: {self.elem}[{', '.join(dims)}]{initial}"


@dataclass(frozen=True, slots=True)
class Attribute:
    """`alpha: float = 1.0`: what a node says of itself; without a default it must."""

    name: str
    kind: str
    default: float | int | None
    loc: Loc


@dataclass(frozen=True, slots=True)
class Part:
    """One entry of a list, and where it is."""

    text: str
    loc: Loc


@dataclass(frozen=True, slots=True)
class Header:
    """What a header says; `names.check` tells whether its names mean something."""

    domain: str
    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attrs: tuple[Attribute, ...]
    types: dict[str, tuple[str, ...]]
    """What each variable for a type may be, by the language's names."""
    macros: dict[str, Part]
    grid: tuple[Part, ...]
    args: tuple[Part, ...]
    kernel: Part | None
    options: dict[str, Any]
    """How a GPU runs it, where the header says so: those of LAUNCH."""
    loc: Loc

    @property
    def op(self) -> str:
        """`my.domain::ScaledGelu`."""
        return f"{self.domain}::{self.name}"


def parse_headers(text: str, file: str) -> tuple[Header, ...]:
    """The headers of a source, in order, with their syntax checked; raises ParseError at the first mistake."""
    return tuple(_Parser(lines, file).header() for lines in _comments(text))


def _comments(text: str) -> Iterator[list[tuple[int, int, str]]]:
    """Runs of comment lines that begin with `op:`, as (line, column of the text, text)."""
    run: list[tuple[int, int, str]] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        m = _COMMENT.match(line)
        content = m["text"] if m else ""
        begins = re.match(r"\s*op\s*:(?!:)", content) is not None
        if m is not None and (run or begins):
            if begins and run:
                yield run
                run = []
            run.append((number, m.start("text") + 1, content))
        elif run:
            yield run
            run = []


@dataclass
class _Parser:
    lines: Sequence[tuple[int, int, str]]
    file: str
    fields: dict[str, list[Part]] = field(default_factory=dict[str, list[Part]])
    """Entries, cut at the commas."""
    where: dict[str, Loc] = field(default_factory=dict[str, Loc])

    def header(self) -> Header:
        self._split()
        start = self.where["op"]
        for name in REQUIRED:
            if not self.fields.get(name):
                raise ParseError(f"{name}: expected this field in the header, found {', '.join(self.where)}", start)
        m = self._match(_OP, self._one("op"), "op", "DOMAIN::NAME or NAME")
        inputs, outputs = ([self._tensor(p, n) for p in self.fields.get(n, ())] for n in ("inputs", "outputs"))
        attrs = [self._attr(p) for p in self.fields.get("attrs", ())]
        types = dict(self._types(p) for p in self.fields.get("types", ()))
        return Header(
            m["domain"] or "", m["name"], tuple(inputs), tuple(outputs), tuple(attrs), types,
            dict(self._macro(p) for p in self.fields.get("macros", ())), tuple(self.fields["grid"]),
            tuple(self.fields["args"]), self._one("kernel") if "kernel" in self.fields else None,
            {name: self._option(name) for name in LAUNCH if name in self.fields}, start,
        )  # fmt: skip

    # text to fields

    def _loc(self, offset: int) -> Loc:
        """Where a character of the joined lines is."""
        for number, column, line in self.lines:
            if offset <= len(line):
                return Loc(self.file, number, column + offset)
            offset -= len(line) + 1
        raise AssertionError("behind the last line")

    def _split(self) -> None:
        """Lines to fields, fields to entries."""
        text = "\n".join(line for _, _, line in self.lines)
        found = [m for m in _FIELD.finditer(text) if self._begins(m)]
        for m, end in zip(found, [*(m.start() for m in found[1:]), len(text)], strict=True):
            name, loc = m["name"], self._loc(m.start("name"))
            if name not in FIELDS:
                raise ParseError(f"expected one of the fields {', '.join(FIELDS)}, found {name!r}", loc)
            if name in self.where:
                raise ParseError(f"{name}: expected once, found again", loc)
            self.where[name] = loc
            self.fields[name] = list(self._entries(name, text[:end], m.end()))

    def _begins(self, m: re.Match[str]) -> bool:
        """Whether a field begins: behind a comma, `name:` on the next line is an entry of the field before."""
        before = m.string[: m.start()].rstrip("; \t\n")
        return m["name"] in FIELDS or m["after"] == ";" or not before.endswith(",")

    def _entries(self, name: str, text: str, start: int) -> Iterator[Part]:
        """Cut at the commas outside brackets."""
        depth, quoted, first = 0, False, start
        for i, c in enumerate(text[start:], start):
            if c == '"':
                quoted = not quoted
            elif not quoted:
                depth += (c in "([{") - (c in ")]}")
            if c == "," and depth <= 0 and not quoted:
                if not text[first:i].strip("; \t\n"):
                    raise ParseError(f"{name}: expected an entry before the comma, found none", self._loc(i))
                yield self._part(text[first:i], first)
                first = i + 1
        if text[first:].strip("; \t\n"):
            yield self._part(text[first:], first)
        elif first > start:
            raise ParseError(f"{name}: expected another entry after the comma, found the end", self.where[name])

    def _part(self, text: str, offset: int) -> Part:
        plain = text.translate(dict.fromkeys(map(ord, ";\n"), " "))
        return Part(plain.strip(), self._loc(offset + len(plain) - len(plain.lstrip())))

    # entries

    def _one(self, name: str) -> Part:
        found = self.fields[name]
        if len(found) != 1:
            raise ParseError(f"{name}: expected one entry, found {len(found)}", self.where[name])
        return found[0]

    def _match(self, pattern: re.Pattern[str], part: Part, what: str, form: str) -> re.Match[str]:
        m = pattern.match(part.text)
        if m is None:
            raise ParseError(f"{what}: expected {form}, found {part.text!r}", part.loc)
        return m

    def _tensor(self, part: Part, what: str) -> Tensor:
        m = self._match(_TENSOR, part, what, "NAME: TYPE[DIM, ...]")
        dims = split_at_commas(m["dims"]) if m["dims"].strip() else []
        run = bool(dims) and dims[0].endswith("...")
        if run:
            dims[0] = dims[0].removesuffix("...").strip()
        if any(d.endswith("...") for d in dims):
            raise ParseError(f"{what}: expected NAME... as the first dim only, found {part.text!r}", part.loc)
        if run and not _NAME.match(dims[0]):
            raise ParseError(f"{what}: expected a name before '...', found {dims[0]!r}", part.loc)
        return Tensor(m["name"], m["elem"], tuple(dims), part.loc, run, self._initial(m["initial"], part, what))

    def _initial(self, text: str | None, part: Part, what: str) -> float | None:
        if text is None:
            return None
        if what != "outputs":
            raise ParseError(f"{what}: expected an initial value of outputs only, found {part.text!r}", part.loc)
        try:
            return float(text)
        except ValueError:
            raise ParseError(f"{what}: expected a number as the initial value, found {text!r}", part.loc) from None

    def _attr(self, part: Part) -> Attribute:
        pattern = re.compile(r"(?P<name>\w+)\s*:\s*(?P<kind>\w+)\s*(?:=\s*(?P<default>\S+))?\Z")
        m = self._match(pattern, part, "attrs", "NAME: float or NAME: int, maybe with a default")
        if m["kind"] not in ATTR_TYPES:
            raise ParseError(f"attrs: expected the type float or int, found {m['kind']!r}", part.loc)
        try:
            default = None if m["default"] is None else ATTR_TYPES[m["kind"]](m["default"])
        except ValueError:
            raise ParseError(f"attrs: expected a default of {m['kind']}, found {m['default']!r}", part.loc) from None
        return Attribute(m["name"], m["kind"], default, part.loc)

    def _types(self, part: Part) -> tuple[str, tuple[str, ...]]:
        m = self._match(re.compile(r"(?P<name>\w+)\s*=\s*(?P<all>[\w |]+)\Z"), part, "types", "T = half | float")
        found = tuple(t.strip() for t in m["all"].split("|"))
        for t in found:
            if not is_type(t):
                raise ParseError(f"types: expected types such as half and float, found {t!r}", part.loc)
        return m["name"], found

    def _macro(self, part: Part) -> tuple[str, Part]:
        m = self._match(re.compile(r"(?P<name>\w+)\s*=\s*(?P<value>.+)\Z", re.S), part, "macros", "NAME = VALUE")
        return m["name"], Part(m["value"].strip(), part.loc)

    def _option(self, name: str) -> int | str:
        part = self._one(name)
        if name == "schedule":
            if part.text not in SCHEDULES:
                raise ParseError(f"schedule: expected one of {', '.join(SCHEDULES)}, found {part.text!r}", part.loc)
            return part.text
        if not part.text.isdecimal() or not 1 <= int(part.text) <= MOST[name]:
            raise ParseError(f"{name}: expected a number from 1 to {MOST[name]}, found {part.text!r}", part.loc)
        n = int(part.text)
        if name == "num_warps" and n & (n - 1):
            raise ParseError(f"{name}: expected a power of two, found {n}", part.loc)
        return n


def is_type(text: str) -> bool:
    """Whether the language calls a number so."""
    return isinstance(NAMED.get(text), Arith)
