"""Random graph programs for fusion, as text: chains of the ops whose neighbours fusion must judge.

Unlike `programs.py`, most values are read by later ops only, so that regions have something inside.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

Shape = tuple[str, ...]
PARAMS = {
    "a": (("(n)", "4"), "f32"), "b": (("4", "6"), "f32"), "c": (("(n)", "6"), "f32"), "d": (("6",), "f32"),
    "i": (("3",), "i64"),
}  # fmt: skip
UNARY = ("exp", "neg", "tanh", "abs", "sigmoid")
BINARY = ("add", "sub", "mul", "max", "min")


@dataclass
class Graph:
    """A function under construction."""

    draw: st.DrawFn
    lines: list[str] = field(default_factory=list[str])
    values: list[tuple[str, Shape]] = field(default_factory=list[tuple[str, Shape]])
    read: set[str] = field(default_factory=set[str])

    def emit(self, text: str, shape: Shape, *operands: str, elem: str = "f32", attrs: str = "") -> str:
        """One op; f32 results become values."""
        name = f"v{len(self.lines)}"
        self.read.update(operands)
        takes = ", ".join(f"%{o}" for o in operands)
        tail = f" {{{attrs}}}" if attrs else ""
        self.lines.append(f"  %{name} = graph.{text}({takes}){tail} : {type_of(shape, elem)}")
        if elem == "f32":
            self.values.append((name, shape))
        return name

    def one_of(self, *choices: object) -> object:
        return self.draw(st.sampled_from(choices))

    def pick(self) -> tuple[str, Shape]:
        """A value, late ones more often."""
        at = self.draw(st.integers(0, len(self.values) - 1))
        return self.values[max(at, self.draw(st.integers(0, len(self.values) - 1)))]

    def pick_like(self, shape: Shape) -> str:
        return self.draw(st.sampled_from([v for v, s in self.values if s == shape]))


def type_of(shape: Shape, elem: str = "f32") -> str:
    return f"tensor<{''.join(f'{d}x' for d in shape)}{elem}>"


def listed(shape: Shape) -> str:
    return f"[{', '.join(shape)}]"


@st.composite
def fusion_programs(draw: st.DrawFn, least: int = 2, most: int = 12) -> str:
    """A program over n in 1..8, returning what nothing reads and some of the rest."""
    g = Graph(draw)
    g.values = [(name, shape) for name, (shape, elem) in PARAMS.items() if elem == "f32"]
    for _ in range(draw(st.integers(least, most))):
        _step(g)
    inner = [v for v, _ in g.values if v not in PARAMS]
    returned = [v for v in inner if v not in g.read or draw(st.integers(0, 5)) == 0] or ["a"]
    takes = ", ".join(f"%{name}: {type_of(*t)}" for name, t in PARAMS.items())
    outputs = ", ".join(f"%{v}" for v in returned)
    return "\n".join([f"func @main({takes}) dims (n in 1..8) {{", *g.lines, f"  return({outputs})", "}", ""])


def _step(g: Graph) -> None:
    value, shape = g.pick()
    kinds = [_unary, _unary, _binary, _binary, _generated]
    if shape:
        kinds += [_reduce, _reduce, _broadcast, _permute, _reshape, _slice, _flip, _pad, _concat, _cumulate]
    if len(shape) == 2:
        kinds += [_contract, _contract, _softmax, _row_broadcast, _row_broadcast]
    if shape and shape[0] == "4":
        kinds.append(_take)
    g.one_of(*kinds)(g, value, shape)  # type: ignore[operator]


def _unary(g: Graph, v: str, s: Shape) -> None:
    g.emit(str(g.one_of(*UNARY)), s, v)


def _binary(g: Graph, v: str, s: Shape) -> None:
    g.emit(str(g.one_of(*BINARY)), s, v, g.pick_like(s))


def _generated(g: Graph, v: str, s: Shape) -> None:
    if s and g.draw(st.booleans()):
        i = g.emit("iota", s, elem="i64", attrs=f"axis = {len(s) - 1}, elem = i64, shape = {listed(s)}")
        other = g.emit("cast", s, i, attrs="to = f32")
    else:
        other = g.emit("full", s, attrs=f"elem = f32, shape = {listed(s)}, value = 0.5")
    g.emit(str(g.one_of(*BINARY)), s, v, other)


def _reduce(g: Graph, v: str, s: Shape) -> None:
    axes = g.one_of([len(s) - 1], [len(s) - 1], [0], list(range(len(s))))
    keep = g.draw(st.booleans())
    assert isinstance(axes, list)
    shape = tuple("1" if i in axes else d for i, d in enumerate(s) if keep or i not in axes)
    kept = ", keepdims = true" if keep else ""
    g.emit("reduce", shape, v, attrs=f'axes = {axes}{kept}, kind = "{g.one_of("sum", "max", "min")}"')


def _broadcast(g: Graph, v: str, s: Shape) -> None:
    lead = str(g.one_of("2", "(n)"))
    grown = tuple(str(g.one_of("4", "(n)")) if d == "1" else d for d in s)
    if len(s) < 3:
        grown = (lead, *grown)
    g.emit("broadcast", grown, v, attrs=f"shape = {listed(grown)}")


def _permute(g: Graph, v: str, s: Shape) -> None:
    perm = list(g.draw(st.permutations(range(len(s)))))
    g.emit("permute", tuple(s[p] for p in perm), v, attrs=f"perm = {perm}")


def _reshape(g: Graph, v: str, s: Shape) -> None:
    shapes: list[Shape] = [(*s, "1"), ("1", *s)]
    shapes += [(*s[:i], "2", str(int(d) // 2), *s[i + 1 :]) for i, d in enumerate(s) if d in ("4", "6")]
    shapes += [tuple(d for d in s if d != "1")]
    if len(s) == 2 and all(d.isdigit() for d in s):
        shapes.append((str(int(s[0]) * int(s[1])),))
    elif s == ("(n)", "4"):
        shapes.append(("(4*n)",))
    new = g.one_of(*shapes)
    assert isinstance(new, tuple)
    g.emit("reshape", new, v, attrs=f"shape = {listed(new)}")


def _slice(g: Graph, v: str, s: Shape) -> None:
    if not s[-1].isdigit() or int(s[-1]) < 2:
        return
    size = int(s[-1]) // 2
    shape = (*s[:-1], str(size))
    start = g.one_of(0, int(s[-1]) - size)
    rank = len(s)
    starts, steps = [0] * (rank - 1) + [start], [1] * rank
    g.emit("slice", shape, v, attrs=f"sizes = {listed(shape)}, starts = {starts}, steps = {steps}")


def _flip(g: Graph, v: str, s: Shape) -> None:
    g.emit("flip", s, v, attrs=f"axes = [{g.draw(st.integers(0, len(s) - 1))}]")


def _pad(g: Graph, v: str, s: Shape) -> None:
    if not s[-1].isdigit():
        return
    zeros = [0] * (len(s) - 1)
    shape = (*s[:-1], str(int(s[-1]) + 2))
    g.emit("pad", shape, v, attrs=f"high = {[*zeros, 1]}, low = {[*zeros, 1]}, value = 1.5")


def _concat(g: Graph, v: str, s: Shape) -> None:
    if s[-1].isdigit():
        g.emit("concat", (*s[:-1], str(2 * int(s[-1]))), v, g.pick_like(s), attrs=f"axis = {len(s) - 1}")


def _cumulate(g: Graph, v: str, s: Shape) -> None:
    g.emit("cumulate", s, v, attrs=f'axis = {g.draw(st.integers(0, len(s) - 1))}, kind = "max"')


def _take(g: Graph, v: str, s: Shape) -> None:
    g.emit("take", ("3", *s[1:]), v, "i", attrs="axis = 0")


def _contract(g: Graph, v: str, s: Shape) -> None:
    other, t = g.pick()
    if len(t) != 2:
        return
    if t[0] == s[1]:
        g.emit("contract", (s[0], t[1]), v, other, attrs='spec = "mk,kn->mn"')
    elif t[1] == s[1]:
        g.emit("contract", (s[0], t[0]), v, other, attrs='spec = "mk,nk->mn"')
    else:
        g.emit("contract", (s[0], s[0]), v, v, attrs='spec = "mk,nk->mn"')


def _row_broadcast(g: Graph, v: str, s: Shape) -> None:
    """A reduction that comes back: along its rows, or (the trap) along the columns."""
    kept = g.emit("reduce", (s[0], "1"), v, attrs='axes = [1], keepdims = true, kind = "sum"')
    if s[0] == s[1] and g.draw(st.booleans()):
        kept = g.emit("reshape", s[:1], kept, attrs=f"shape = [{s[0]}]")
    back = g.emit("broadcast", s, kept, attrs=f"shape = {listed(s)}")
    g.emit(str(g.one_of(*BINARY)), s, v, back)


def _softmax(g: Graph, v: str, s: Shape) -> None:
    row = (s[0], "1")
    keep = "axes = [1], keepdims = true"
    m = g.emit("reduce", row, v, attrs=f'{keep}, kind = "max"')
    c = g.emit("sub", s, v, g.emit("broadcast", s, m, attrs=f"shape = {listed(s)}"))
    e = g.emit("exp", s, c)
    t = g.emit("reduce", row, e, attrs=f'{keep}, kind = "sum"')
    p = g.emit("div", s, e, g.emit("broadcast", s, t, attrs=f"shape = {listed(s)}"))
    others = [(o, d) for o, d in g.values if len(d) == 2 and d[0] == s[1]]
    if others:
        other, d = g.draw(st.sampled_from(others))
        g.emit("contract", (s[0], d[1]), p, other, attrs='spec = "mk,kn->mn"')
