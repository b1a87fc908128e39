"""LLVM IR as text: registers, functions with scoped placement of pure code, modules. Knows no dialect and no target.

Text is several times faster to make than llvmlite's IR objects, and LLVM parses it in about a
microsecond per instruction. `FunctionText.pure` places an instruction as far out as its operands
allow and never twice, so that index arithmetic leaves loops without any LLVM pass.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

Lines: TypeAlias = "list[str | Lines]"


class Reg(NamedTuple):
    """A typed LLVM value: its text, its type, and how many scopes enclose its definition."""

    text: str
    type: str
    depth: int = 0

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


class _Scope(NamedTuple):
    """`before` is where code goes that belongs to the enclosing scope, just ahead of this one."""

    before: Lines
    known: dict[str, Reg]


class ModuleText:
    """One LLVM module under construction."""

    def __init__(self, triple: str) -> None:
        self._triple = triple
        self._entities: dict[str, str] = {}
        self._functions: list[str] = []
        self._metadata: dict[str, int] = {}
        self._named: dict[str, list[str]] = {}

    def entity(self, text: str) -> None:
        """A declaration (one for each symbol) or a definition; equal texts are one."""
        key = text
        if text.startswith("declare "):
            at = text.index("@")
            key = text[at : text.index("(", at)]
        self._entities[key] = text

    def function(self, text: str) -> None:
        """A function defined here, after every entity."""
        self._functions.append(text)

    def metadata(self, text: str) -> str:
        """The name of a metadata node; equal texts are one unless marked distinct with `!self`."""
        if text not in self._metadata:
            self._metadata[text] = len(self._metadata)
        return f"!{self._metadata[text]}"

    def distinct(self, text: str, name: str) -> str:
        """A metadata node that equals no other; `name` tells it apart here, `!self` is the node itself."""
        key = f"distinct {text} ; {name}"
        if key not in self._metadata:
            self._metadata[key] = len(self._metadata)
        return f"!{self._metadata[key]}"

    def named(self, name: str, node: str) -> None:
        """A node of a list of such that has a name; equal ones are one."""
        nodes = self._named.setdefault(name, [])
        nodes += [] if node in nodes else [node]

    def text(self) -> str:
        """The whole module."""
        nodes = [f"!{n} = {text.replace('!self', f'!{n}')}" for text, n in self._metadata.items()]
        nodes += [f"!{name} = !{{{', '.join(some)}}}" for name, some in self._named.items()]
        head = f'target triple = "{self._triple}"'
        return "\n".join([head, *self._entities.values(), *self._functions, *nodes, ""])


class FunctionText:
    """The body of one function under construction."""

    def __init__(self, module: ModuleText) -> None:
        self.module = module
        self._numbers = 0
        self._lines: Lines = []
        self._out = self._lines
        self._scopes = [_Scope(self._lines, {})]
        self.label = "entry"
        """The basic block that code is going into."""
        self.mark = ""
        """What every instruction ends with."""

    @property
    def depth(self) -> int:
        """How many scopes are open."""
        return len(self._scopes) - 1

    def fresh(self, hint: str = "v") -> str:
        """A name used nowhere else in this function."""
        self._numbers += 1
        return f"{hint}{self._numbers}"

    def line(self, text: str) -> None:
        """An instruction without a result."""
        self._out.append(f"  {text}{self.mark}")

    def emit(self, type_: str, text: str) -> Reg:
        """An instruction with a result, placed here."""
        self._numbers += 1
        name = f"%v{self._numbers}"
        self._out.append(f"  {name} = {text}{self.mark}")
        return Reg(name, type_, self.depth)

    def pure(self, type_: str, text: str, *operands: Reg) -> Reg:
        """An instruction without effects: placed in the outermost scope that has its operands, and only once."""
        depth = max((r.depth for r in operands), default=0)
        known = self._scopes[depth].known
        if text in known:
            return known[text]
        self._numbers += 1
        name = f"%v{self._numbers}"
        out = self._out if depth == self.depth else self._scopes[depth + 1].before
        out.append(f"  {name} = {text}{self.mark}")
        known[text] = Reg(name, type_, depth)
        return known[text]

    def phi(self, type_: str, name: str) -> Reg:
        """The name of a phi at the head of the innermost scope, written later by its owner."""
        return Reg(name, type_, self.depth)

    def reserve(self) -> Lines:
        """A place here whose lines are written later."""
        place: Lines = []
        self._out.append(place)
        return place

    def start(self, label: str) -> None:
        """Begin a basic block."""
        self._out.append(f"{label}:")
        self.label = label

    @contextmanager
    def scope(self, before: Lines) -> Generator[None]:
        """Code that may run any number of times, or not at all; `before` is a reserved place ahead of its entry."""
        outer = self._out
        inner: Lines = []
        outer.append(inner)
        self._out = inner
        self._scopes.append(_Scope(before, {}))
        yield
        self._scopes.pop()
        self._out = outer

    @contextmanager
    def at(self, place: Lines) -> Generator[None]:
        """Code goes to a place reserved in the outermost scope, and shares nothing with what comes after it."""
        assert self.depth == 0, "places are filled from the outermost scope"
        out, scopes = self._out, self._scopes
        self._out, self._scopes = place, [_Scope(place, {})]
        yield
        self._out, self._scopes = out, scopes

    def text(self, head: str) -> str:
        """The definition, `head` being everything before the brace."""
        out: list[str] = []
        _flatten(self._lines, out)
        return "\n".join([f"{head} {{", "entry:", *out, "}", ""])


def _flatten(lines: Lines, out: list[str]) -> None:
    for line in lines:
        if isinstance(line, str):
            out.append(line)
        else:
            _flatten(line, out)
