"""Programs for rewrite rules, drawn from the rules' own examples (`// RULES`) and the other text tests of passes.

An example is changed where a rule looks: elements, dims, attributes, numbers, kinds, operands, readers; an op may be
put before any operand and after any result, and one example may read another. What the type rules refuse stays.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from graphfuse.constraints import Constraint, listening
from graphfuse.dialects import control, graph
from graphfuse.errors import GraphfuseError
from graphfuse.interp.elementwise import integer_range
from graphfuse.ir.core import Attr, Block, Func, Op, OpDef, Params, Trait, Value
from graphfuse.ir.dense import Dense, numpy_dtype
from graphfuse.ir.parser import parse_module
from graphfuse.ir.types import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, Scalar, Tensor
from graphfuse.ir.verifier import verify
from graphfuse.symbolic import Dim, Expr, evaluate, product, sym, symbols
from tests.fusion.test_rules import BUILT

TESTS = Path(__file__).parents[1]
SEPARATOR = "// -----\n"
MOST_ELEMENTS = 1 << 14
"""Of one value of a program: what is larger is slow to interpret, and shows no more."""

FLOATS = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -0.5, 3.0, -3.0, 8.0, 1e-3, math.inf, -math.inf, math.nan, 2.0**-126, 1e-45)
ELEMENTS = (F32, F64, F16, BF16, I32, I8, U8, I64, BOOL)
_ELEMENTWISE = (*graph.ELEMENTWISE.values(), graph.select, graph.cast)
_UNARY = tuple(k for k in graph.ELEMENTWISE.values() if k.takes.most == 1)
_BINARY = tuple(k for k in graph.ELEMENTWISE.values() if k.takes.most == 2)
_WORDS: dict[str, tuple[str, ...]] = {
    "kind": ("sum", "prod", "max", "min", "any", "all"), "mode": ("constant", "edge", "reflect", "wrap"),
    "layout": ("nchw", "nhwc"),
}  # fmt: skip
_SHAPES = ("shape", "sizes")
"""Attributes that repeat dims of operands."""


@dataclass(frozen=True)
class Example:
    """A function of a text test, and the pipeline of its file."""

    path: Path
    func: Func
    pipeline: str
    shows: str
    """The rule that it is an example of, or ""."""


@cache
def of_file(path: Path) -> tuple[Example, ...]:
    """The functions of a text test; none where the file is no such."""
    text = path.read_text()
    found = re.search(r"^// RUN:(.+)$", text, re.MULTILINE)
    if not found:
        return ()
    shows = bool(re.search(r"^// RULES$", text, re.MULTILINE))
    funcs = parse_module(text.partition(SEPARATOR)[0], path.name)
    return tuple(Example(path, f, found[1].strip(), f.name.partition("__")[0] if shows else "") for f in funcs)


@cache
def examples() -> tuple[Example, ...]:
    """The functions of all text tests of graph passes."""
    out = [e for path in sorted((TESTS / "fusion").glob("*.gf")) for e in of_file(path)]
    for name, (build, pass_) in BUILT.items():
        out.append(Example(TESTS / "fusion/test_rules.py", build(), pass_.name, name.partition("__")[0]))
    return tuple(out)


def varied(example: Func, others: tuple[Example, ...], rng: random.Random) -> Func | None:
    """The example with a few changes, verified; None where nothing is left of it, or too much."""
    draw = _Drawing(rng, dict(example.ranges))
    draw.choose_maps(example)
    outputs = draw.inline(example, (), changes=rng.choice((0, 1, 1, 2, 3)))
    if rng.random() < 0.25:
        outputs = draw.inline(rng.choice(others).func, outputs, changes=rng.choice((0, 1))) + outputs
    for _ in range(rng.choice((0, 0, 1, 2))):
        outputs += draw.after(rng.choice(outputs or draw.values or [draw.param(Tensor((3,), F32))]))
    if rng.random() < 0.3 and draw.values:
        outputs.append(rng.choice(draw.values))
    return draw.finished(outputs)


class _Drawing:
    """A function under construction."""

    def __init__(self, rng: random.Random, ranges: dict[str, tuple[int, int]]) -> None:
        self.rng = rng
        self.ranges = {name: (lo, min(hi, 64)) for name, (lo, hi) in ranges.items()}
        self.types: list[Tensor] = []
        self.params = Params(())
        self.stand_ins: list[Value] = []
        self.ops: list[Op] = []
        self.values: list[Value] = []
        self.elems: dict[Scalar, Scalar] = {}
        self.dims: dict[Dim, Dim] = {}

    def choose_maps(self, func: Func) -> None:
        """Draw which elements and which dims of an example to replace everywhere."""
        rng = self.rng
        types = [v.type for v in func.params if isinstance(v.type, Tensor)]
        if rng.random() < 0.4 and types:
            self.elems[rng.choice(types).elem] = rng.choice(ELEMENTS)
        sizes: list[Dim] = [d for t in types for d in t.shape]
        for size in rng.sample(sizes, min(len(sizes), rng.choice((0, 0, 1, 1, 2)))):
            self.dims[size] = rng.choice((0, 1, 1, 2, 3, 4, sym("n"), sym("q"), sym("n") * 2))
        if rng.random() < 0.15:  # all alike, so that nothing but its meaning tells one axis from another
            self.dims |= dict.fromkeys((d for d in sizes if d != 1), rng.choice((2, 3, 4)))

    def dim(self, d: Dim) -> Dim:
        d = self.dims.get(d, d)
        if isinstance(d, Expr):
            for name in symbols(d):
                self.ranges.setdefault(name, (1, 8))
        return d

    def type(self, t: Tensor) -> Tensor:
        return Tensor(tuple(self.dim(d) for d in t.shape), self.elems.get(t.elem, t.elem))

    def param(self, t: Tensor) -> Value:
        """A new parameter; an op without a place stands for it until all are known."""
        stand_in = Op(graph.iota, (), {}, (t,)).result
        self.stand_ins.append(stand_in)
        self.types.append(t)
        self.values.append(stand_in)
        return stand_in

    def place(self, op: Op) -> Op:
        self.ops.append(op)
        self.values += op.results
        return op

    def inline(self, func: Func, reads: list[Value] | tuple[Value, ...], changes: int) -> list[Value]:
        """Copy an example's ops; its parameters are those of `reads` that fit, or new ones."""
        rng = self.rng
        for name, (lo, hi) in func.ranges.items():
            self.ranges.setdefault(name, (lo, min(hi, 64)))
        now: dict[Value, Value] = {}
        for v in func.params:
            assert isinstance(v.type, Tensor)
            t = self.type(v.type)
            fitting = [r for r in reads if r.type == t]
            now[v] = rng.choice(fitting) if fitting else self.param(t)
        body = func.body.ops[:-1]
        changed = {rng.randrange(len(body)) for _ in range(changes)} if body else set[int]()
        for i, op in enumerate(body):
            operands = [now[v] for v in op.operands]
            new = self.changed(op, operands) if i in changed else None
            new = new or self.built(op.kind, operands, self.attrs(op), op)
            if new is None:  # what came before has changed too much
                now.update({v: self.param(self.type(v.type)) for v in op.results if isinstance(v.type, Tensor)})
            else:
                self.place(new)
                now.update(zip(op.results, new.results, strict=True))
        return [now[v] for v in func.outputs]

    def built(self, kind: OpDef, operands: list[Value], attrs: dict[str, Attr], old: Op | None = None) -> Op | None:
        try:
            op = kind.build(operands, attrs, bodies=old.bodies if old else ())
        except (GraphfuseError, AssertionError, TypeError, ValueError, ZeroDivisionError, KeyError, IndexError):
            return None
        return op if all(self.is_small(t) for t in op.types) else None

    def is_small(self, t: object) -> bool:
        if not isinstance(t, Tensor):
            return True
        count = product(t.shape)
        return (count if isinstance(count, int) else evaluate(count, dict.fromkeys(symbols(count), 5))) <= MOST_ELEMENTS

    def attrs(self, op: Op) -> dict[str, Attr]:
        """Attributes under the chosen elements and dims."""
        out = dict(op.attrs)
        for name, value in op.attrs.items():
            if isinstance(value, Scalar):
                out[name] = self.elems.get(value, value) if name != "to" or self.rng.random() < 0.7 else value
            elif isinstance(value, Dense):
                out[name] = self.dense(value)
            elif name in _SHAPES and isinstance(value, tuple):
                out[name] = tuple(self.dim(d) if isinstance(d, int | Expr) else d for d in value)
        if op.kind is graph.full and not isinstance(out["value"], Expr):
            out["value"] = number_of(out["value"], out["elem"])
        elif op.kind is graph.pad and "value" in out:
            t = op.operands[0].type
            assert isinstance(t, Tensor)
            out["value"] = number_of(out["value"], self.elems.get(t.elem, t.elem))
        return out

    def dense(self, value: Dense) -> Dense:
        elem = self.elems.get(value.elem, value.elem)
        shape = [d if isinstance(d := self.dim(n), int) else n for n in value.shape]
        array = np.asarray(value.array)
        if tuple(shape) != array.shape:
            array = np.resize(array if array.size else np.ones(1, array.dtype), shape)
        with np.errstate(all="ignore"):
            return Dense(np.ascontiguousarray(array.astype(numpy_dtype(elem)))) if elem.bits >= 8 else value

    # changes of one op

    def changed(self, op: Op, operands: list[Value]) -> Op | None:
        how: list[Callable[[Op, list[Value]], Op | None]] = [
            self.other_attr, self.other_attr, self.other_kind, self.other_operand, self.put_before, self.put_before,
            self.turned,
        ]  # fmt: skip
        for _ in range(4):
            if (new := self.rng.choice(how)(op, operands)) is not None:
                return new
        return None

    def other_kind(self, op: Op, operands: list[Value]) -> Op | None:
        if Trait.ELEMENTWISE not in op.kind.traits:
            return None
        alike = [k for k in _ELEMENTWISE if k.takes.most == op.kind.takes.most and k.takes.attrs == op.kind.takes.attrs]
        return self.built(self.rng.choice(alike), operands, self.attrs(op)) if alike else None

    def turned(self, op: Op, operands: list[Value]) -> Op | None:
        return self.built(op.kind, [*operands[1:], *operands[:1]], self.attrs(op)) if len(operands) > 1 else None

    def other_operand(self, op: Op, operands: list[Value]) -> Op | None:
        if not operands:
            return None
        at = self.rng.randrange(len(operands))
        like = [v for v in self.values if v.type == operands[at].type]
        with_other = list(operands)
        t = operands[at].type
        unknown = not like or self.rng.random() < 0.3
        with_other[at] = self.param(t) if unknown and isinstance(t, Tensor) else self.rng.choice(like)
        return self.built(op.kind, with_other, self.attrs(op), op)

    def put_before(self, op: Op, operands: list[Value]) -> Op | None:
        """An op between an operand and this reader."""
        if not operands:
            return None
        at = self.rng.randrange(len(operands))
        got = self.after(operands[at])
        changed = list(operands)
        changed[at] = got[0] if got else operands[at]
        return self.built(op.kind, changed, self.attrs(op), op)

    def other_attr(self, op: Op, operands: list[Value]) -> Op | None:
        names = sorted(op.kind.takes.attrs)
        if not names:
            return None
        attrs = self.attrs(op)
        for _ in range(self.rng.choice((1, 1, 2))):
            name = self.rng.choice(names)
            attrs[name] = self.other_value(name, attrs.get(name), op, operands)
        return self.built(op.kind, operands, {k: v for k, v in attrs.items() if v is not None}, op)

    def other_value(self, name: str, value: Attr | None, op: Op, operands: list[Value]) -> Attr | None:
        rng = self.rng
        annotation = op.kind.takes.attrs[name][0]
        if name == "value" and op.kind in (graph.full, graph.pad):
            t = op.attrs.get("elem") or getattr(operands[0].type if operands else None, "elem", F32)
            return self.number(self.elems.get(t, t))  # type: ignore[arg-type]
        if isinstance(value, Dense):
            return self.other_constant(value)
        if annotation == "bool":
            return not value
        if name in _WORDS:
            return rng.choice(_WORDS[name])
        if name == "spec" and isinstance(value, str):
            return self.spec(value)
        if "Scalar" in annotation:
            return rng.choice(ELEMENTS)
        if isinstance(value, int):
            return max(0, value + rng.choice((-1, 1)))
        if isinstance(value, tuple) and value:
            return self.entries(value)
        return value

    def entries(self, value: tuple[Attr, ...]) -> Attr:
        rng = self.rng
        out = list(value)
        if rng.random() < 0.4:
            rng.shuffle(out)
            return tuple(out)
        if rng.random() < 0.15:
            return tuple(out[:-1])
        at = rng.randrange(len(out))
        d = out[at]
        out[at] = d + rng.choice((-2, -1, 1, 1, 2)) if isinstance(d, int | Expr) else d
        return tuple(out)

    def spec(self, value: str) -> str:
        lhs, rhs, out = graph.parse_spec(value)
        kind = self.rng.randrange(4)
        if kind == 0:
            return f"{rhs},{lhs}->{out}"
        letters = list(out)
        if kind == 1 and letters:
            letters.pop(self.rng.randrange(len(letters)))
        elif kind == 2 and (summed := [c for c in lhs + rhs if c not in out]):
            letters.append(self.rng.choice(summed))
        else:
            self.rng.shuffle(letters)
        return f"{lhs},{rhs}->{''.join(letters)}"

    def other_constant(self, value: Dense) -> Dense:
        array = np.array(value.array)
        if not array.size:
            return value
        flat = array.reshape(-1)
        if self.rng.random() < 0.2:
            array = np.ascontiguousarray(array.transpose(self.rng.sample(range(array.ndim), array.ndim)))
        elif self.rng.random() < 0.4:
            flat[:] = flat[0]
        elif self.rng.random() < 0.5 and value.elem.is_float:
            flat[self.rng.randrange(len(flat))] = self.rng.choice(FLOATS)
        else:
            flat[:] = np.roll(flat, 1)
        return Dense(array)

    def number(self, elem: Scalar) -> bool | float:
        if elem == BOOL:
            return self.rng.random() < 0.5
        if elem.is_float:
            return float(np.asarray(self.rng.choice(FLOATS)).astype(numpy_dtype(elem)))
        low, high = integer_range(elem)
        return min(max(self.rng.choice((0, 1, 2, 3, 4, -1, low, high, low + 1, high - 1)), low), high)

    # ops that readers or results get

    def after(self, v: Value) -> list[Value]:
        """An op on a value: unary, binary, movement or reduction."""
        rng, t = self.rng, v.type
        if not isinstance(t, Tensor):
            return []
        kinds = (self._map, self._map, self._zip, self._move, self._move, self._reduced)
        for _ in range(3):
            if (op := rng.choice(kinds)(v, t)) is not None:
                return list(self.place(op).results)
        return []

    def _map(self, v: Value, t: Tensor) -> Op | None:
        if self.rng.random() < 0.25:
            return self.built(graph.cast, [v], {"to": self.rng.choice(ELEMENTS)})
        if self.rng.random() < 0.3:
            return self.built(self.rng.choice((graph.neg, graph.abs_, graph.not_, graph.exp, graph.sqrt)), [v], {})
        return self.built(self.rng.choice(_UNARY), [v], {})

    def _zip(self, v: Value, t: Tensor) -> Op | None:
        rng = self.rng
        like = [u for u in self.values if u.type == t and u != v]
        if rng.random() < 0.5 or not like:
            attrs: dict[str, Attr] = {"shape": t.shape, "elem": t.elem, "value": self.number(t.elem)}
            other = self.place(graph.full.build((), attrs)).result
        else:
            other = rng.choice(like)
        pair = [v, other] if rng.random() < 0.7 else [other, v]
        return self.built(rng.choice(_BINARY), pair, {})

    def _move(self, v: Value, t: Tensor) -> Op | None:
        rng, rank = self.rng, t.rank
        zeros, ones = (0,) * rank, (1,) * rank
        at = rng.randrange(rank) if rank else 0
        some = rng.randrange(8)
        if some == 0:
            return self.built(graph.reshape, [v], {"shape": (*t.shape[:at], 1, *t.shape[at:])})
        if some == 1 and rank > 1:
            merged = (*t.shape[: max(at - 1, 0)], t.shape[max(at - 1, 0)] * t.shape[max(at - 1, 0) + 1])
            return self.built(graph.reshape, [v], {"shape": (*merged, *t.shape[max(at - 1, 0) + 2 :])})
        if some == 2:
            wide = tuple(rng.choice((2, 3)) if d == 1 and rng.random() < 0.6 else d for d in t.shape)
            lead = rng.choice(((), (), (2,), (sym("n"),)))
            return self.built(graph.broadcast, [v], {"shape": (*(self.dim(d) for d in lead), *wide)})
        if not rank:
            return None
        if some == 3:
            return self.built(graph.permute, [v], {"perm": tuple(rng.sample(range(rank), rank))})
        if some == 4:
            return self.built(graph.flip, [v], {"axes": (at,)})
        if some == 5:
            size = t.shape[at]
            if not isinstance(size, int) or size < 2:
                return None
            start, step = rng.randrange(size), rng.choice((1, 1, 2))
            count = rng.randint(1, (size - 1 - start) // step + 1)
            return self.built(graph.slice_, [v], {
                "starts": (*zeros[:at], start, *zeros[at + 1 :]), "steps": (*ones[:at], step, *ones[at + 1 :]),
                "sizes": (*t.shape[:at], count, *t.shape[at + 1 :]),
            })  # fmt: skip
        if some == 6:
            low, high = (tuple(rng.choice((0, 0, 1)) for _ in t.shape) for _ in range(2))
            return self.built(graph.pad, [v], {"low": low, "high": high, "value": self.number(t.elem)})
        return self.built(graph.concat, [v, rng.choice([u for u in self.values if u.type == t] or [v])], {"axis": at})

    def _reduced(self, v: Value, t: Tensor) -> Op | None:
        rng = self.rng
        if not t.rank:
            return None
        kind = rng.choice(("any", "all") if t.elem == BOOL else ("sum", "max", "min", "prod"))
        if rng.random() < 0.2:
            at, which = rng.randrange(t.rank), rng.choice(("max", "min"))
            return self.built(graph.arg_reduce, [v], {"axis": at, "kind": which})
        if rng.random() < 0.2:
            return self.built(graph.cumulate, [v], {"axis": rng.randrange(t.rank), "kind": kind})
        axes = tuple(sorted(rng.sample(range(t.rank), rng.randint(1, t.rank))))
        return self.built(graph.reduce, [v], {"axes": axes, "kind": kind, "keepdims": rng.random() < 0.5})

    def finished(self, outputs: list[Value]) -> Func | None:
        """The function, or None where it is refused."""
        params = Params(tuple(self.types), tuple(f"p{i}" for i in range(len(self.types))))
        now: dict[Value, Value] = dict(zip(self.stand_ins, params.values, strict=True))
        ops: list[Op] = []
        for op in self.ops:
            new = Op(op.kind, tuple(now[v] for v in op.operands), op.attrs, op.types, op.bodies)
            now.update(zip(op.results, new.results, strict=True))
            ops.append(new)
        ops.append(control.return_(*(now[v] for v in dict.fromkeys(outputs))))
        used = {name for t in self.types for d in t.shape for name in symbols(d)}
        mentioned = used | {n for op in ops for t in op.types for n in symbols_of(t)}
        dims = tuple((n, *self.ranges.get(n, (1, 8))) for n in sorted(mentioned))
        func = Func("f", Block(params, tuple(ops)), {}, dims)
        try:
            verify(func)
        except GraphfuseError:
            return None
        return func


def symbols_of(t: object) -> set[str]:
    """The symbols of a type's dims."""
    return {name for d in t.shape for name in symbols(d)} if isinstance(t, Tensor) else set[str]()


def number_of(value: Attr, elem: Attr) -> Attr:
    """A number as an attribute of another element."""
    if not isinstance(elem, Scalar) or not isinstance(value, bool | int | float):
        return value
    if elem.is_float:
        return float(value)
    if elem == BOOL:
        return bool(value)
    low, high = integer_range(elem)
    return min(max(int(value) if math.isfinite(value) else 0, low), high)


# what they are run on


def inputs(func: Func, values: dict[str, int], rng: np.random.Generator, *, awkward: bool) -> list[np.ndarray]:
    """An array per parameter: numbers of every kind, or those whose functions are well conditioned."""
    out: list[np.ndarray] = []
    for v in func.params:
        t = v.type
        assert isinstance(t, Tensor)
        shape = tuple(evaluate(d, values) for d in t.shape)
        dtype = numpy_dtype(t.elem)
        if t.elem == BOOL:
            array = rng.integers(0, 2, shape)
        elif t.elem.is_float:
            array = rng.uniform(-2, 2, shape)
            if awkward:
                info = np.finfo(np.float32 if dtype.itemsize == 4 else np.float16 if t.elem == F16 else np.float32)
                extremes = [*FLOATS, float(info.max), -float(info.max), float(info.tiny), 2.5, 1.5]
                array = np.where(rng.random(shape) < 0.6, rng.choice(extremes, shape), array)
        else:
            low, high = integer_range(t.elem)
            array = rng.integers(max(low, -2), min(high, 3), shape)
            if awkward and t.elem.bits >= 8:
                extremes = [low, low + 1, high, high - 1, high // 2, 5, 7]
                array = np.where(rng.random(shape) < 0.4, rng.choice(np.array(extremes, np.int64), shape), array)
        with np.errstate(all="ignore"):
            out.append(np.asarray(array).astype(dtype))
    return out


def choices(func: Func) -> Iterator[dict[str, int]]:
    """Two choices of values for every symbol, where there are as many, under which every op's dims fit."""
    names = sorted({n for v in func.params for n in symbols_of(v.type)} | set(func.ranges))
    needed: list[Constraint] = []
    with listening(needed.append):
        verify(func)
    count = 0
    for apart, base in itertools.product((1, 0), (1, 3, 2, 4, 5, 8, 12)) if names else ((0, 0),):
        ranges = {n: func.ranges.get(n, (1, 64)) for n in names}
        values = {n: min(max(base + i * apart, ranges[n][0]), ranges[n][1]) for i, n in enumerate(names)}
        sizes = (evaluate(d, values) for v in func.params if isinstance(v.type, Tensor) for d in v.type.shape)
        if all(c.holds(values) for c in needed) and min(sizes, default=0) >= 0:
            yield values
            count += 1
        if count == 2:
            return
