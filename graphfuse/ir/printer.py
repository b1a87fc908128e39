"""IR to text. `parse(to_text(f))` is `f` up to identity, and `to_text` is a fixed point of the pair."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Mapping

from graphfuse.ir.core import Attr, Block, Func, Op, Params, Value
from graphfuse.ir.dense import Dense
from graphfuse.ir.layout import LinearLayout
from graphfuse.ir.types import Scalar
from graphfuse.symbolic import Expr


def to_text(func: Func, *, locations: bool = False, hints: bool = True) -> str:
    """Print a function; with `locations`, each op ends in `loc "..."`; without `hints`, values are only numbered.

    Layouts are named: `layout #l0 = 8x4 linear {...}` lines come first.
    """
    table: dict[str, str] = {}

    def name(m: re.Match[str]) -> str:
        return table.setdefault(m[1], f"#l{len(table)}")

    body = re.sub(r"\{(\w+ linear \{[^{}]*\})\}", name, _to_text(func, locations=locations, hints=hints))
    return "".join(f"layout {n} = {text}\n" for text, n in table.items()) + body


def _to_text(func: Func, *, locations: bool, hints: bool) -> str:
    names = _Names() if hints else _Numbers()
    params = names.declare_whole(func.body.params)
    dims = ", ".join(f"{name} in {lo}..{hi}" for name, lo, hi in func.dims)
    head = f"func @{func.name}({params}){attrs_text(func.attrs)}"
    head += f" dims ({dims})" if dims else ""
    return "\n".join([f"{head} {{", *_block(func.body, names, 1, locations), "}", ""])


def module_text(funcs: Iterable[Func]) -> str:
    """Print several functions, one after another."""
    return "\n".join(to_text(f) for f in funcs)


class _Names:
    """Hands out unique %names, keeping a value's hint when it is free."""

    def __init__(self) -> None:
        self._of: dict[Value, str] = {}
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def __getitem__(self, value: Value) -> str:
        return self._of[value]

    def fresh(self, value: Value) -> str:
        hint = hint_base(value.hint)
        return self._unique(value, hint, hint)

    def param(self, value: Value) -> str:
        """The name of a function's parameter: its whole hint, for a kernel's symbols are named by it."""
        whole = re.sub(r"\W", "_", value.hint)
        return self._unique(value, whole, hint_base(whole) if whole in self._taken else whole)

    def _unique(self, value: Value, name: str, hint: str) -> str:
        if not name or name in self._taken:
            for n in itertools.count(self._next.get(hint, 0)):
                name = f"{hint}_{n}" if hint else f"v{n}"
                if name not in self._taken:
                    self._next[hint] = n + 1
                    break
        self._taken.add(name)
        self._of[value] = f"%{name}"
        return self._of[value]

    def declare(self, params: Params) -> str:
        return ", ".join(f"{self.fresh(v)}: {v.type}" for v in params.values)

    def declare_whole(self, params: Params) -> str:
        return ", ".join(f"{self.param(v)}: {v.type}" for v in params.values)


class _Numbers(_Names):
    """Names that say nothing."""

    def _unique(self, value: Value, name: str, hint: str) -> str:
        return super()._unique(value, "", "")


@functools.cache
def hint_base(hint: str) -> str:
    """What of a hint survives printing: word characters, without the number that made it unique."""
    base = re.sub(r"(_\d+)+$", "", re.sub(r"\W", "_", hint))
    return "" if re.fullmatch(r"v\d+", base) else base


def _block(block: Block, names: _Names, depth: int, locations: bool) -> list[str]:
    return [line for op in block.ops for line in _op(op, names, depth, locations)]


def _op(op: Op, names: _Names, depth: int, locations: bool) -> list[str]:
    pad = "  " * depth
    head = f"{op.kind.name}({', '.join(names[v] for v in op.operands)}){attrs_text(op.attrs)}"
    inner: list[str] = []
    for body in op.bodies:
        head_do = f"{head} do" if not inner else f"{pad}}} do"
        inner.append(f"{head_do} ({names.declare(body.params)}) {{")
        inner += _block(body, names, depth + 1, locations)
    results = ", ".join(names.fresh(v) for v in op.results)
    tail = f" : {', '.join(map(str, op.types))}" if op.types else ""
    tail += f" loc {literal(str(op.loc))}" if locations and op.loc else ""
    prefix = f"{pad}{results} = " if results else pad
    if not inner:
        return [f"{prefix}{head}{tail}"]
    inner[0] = prefix + inner[0]
    return [*inner, f"{pad}}}{tail}"]


def attrs_text(attrs: Mapping[str, Attr]) -> str:
    """Attributes as they stand behind an op, with a space before; nothing where there are none."""
    if not attrs:
        return ""
    return " {" + ", ".join(f"{k} = {literal(v)}" for k, v in sorted(attrs.items())) + "}"


def literal(value: Attr) -> str:
    """One attribute value as text."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        case tuple():
            return f"[{', '.join(map(literal, value))}]"
        case Expr():
            return f"({value})"
        case Scalar() | Dense():
            return str(value)
        case LinearLayout():
            return f"{{{value.text}}}"
        case _:
            return repr(value)
