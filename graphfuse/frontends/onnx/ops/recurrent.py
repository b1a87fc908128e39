"""LSTM, GRU and RNN: one matrix product for all steps' inputs, then a loop over the recurrent part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, shape_of
from graphfuse.frontends.onnx.node import Node, onnx_op
from graphfuse.frontends.onnx.ops.activation import FUNCTIONS
from graphfuse.frontends.onnx.ops.control import loop_of
from graphfuse.frontends.onnx.ops.index import reverse_by_length
from graphfuse.ir.core import Value
from graphfuse.ir.types import I64
from graphfuse.symbolic import Dim

Activation = Callable[[Emitter, Value], Value]


@dataclass(frozen=True, slots=True)
class Cell:
    """What all directions share; `states` are the inputs that they start with."""

    gates: int
    hidden: int
    states: tuple[int, ...]
    batch_first: bool
    clip: float
    couple: bool
    linear_before_reset: bool

    @property
    def rows(self) -> int:
        """The rows of weights, those of all gates."""
        return self.gates * self.hidden

    def gate(self, e: Emitter, v: Value, i: int) -> Value:
        """The part of gate `i` in the last dim."""
        return e.slice(v, -1, i * self.hidden, self.hidden)

    def clipped(self, e: Emitter, v: Value) -> Value:
        """Inside -clip..clip, when there is one."""
        return e.map(graph.min_, e.map(graph.max_, v, -self.clip), self.clip) if self.clip else v


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction's weights: w [gates*H, I], r [gates*H, H], biases or None, and starting states."""

    w: Value
    r: Value
    wb: Value | None
    rb: Value | None
    states: tuple[Value, ...]
    peepholes: tuple[Value, ...]
    activations: tuple[Activation, ...]
    reverse: bool

    @staticmethod
    def of(e: Emitter, node: Node, cell: Cell, batch: Dim, d: int, activations: tuple[Activation, ...]) -> Direction:
        """Direction `d` of a node."""

        def pick(v: Value) -> Value:
            return e.squeeze(e.slice(v, 0, d, 1), 0)

        w, r = pick(node.value(e, 1)), pick(node.value(e, 2))
        bias = node.optional(e, 3)
        wb, rb = (None, None) if bias is None else e.split(pick(bias), (cell.rows, cell.rows), 0)
        starts: list[Value] = []
        for i in cell.states:
            if (start := node.optional(e, i)) is None:
                starts.append(e.full((batch, cell.hidden), node.type(0).elem, 0.0))
            else:
                starts.append(pick(e.permute(start, (1, 0, 2)) if cell.batch_first else start))
        peephole = node.optional(e, 7)
        peepholes = () if peephole is None else e.split(pick(peephole), (cell.hidden,) * 3, 0)
        is_reverse = d == 1 or node.attr_str("direction", "forward") == "reverse"
        return Direction(w, r, wb, rb, tuple(starts), peepholes, activations, is_reverse)


Step = Callable[[Emitter, Cell, Direction, Value, tuple[Value, ...]], tuple[Value, ...]]
"""From the projected input [B, gates*H] and the states to the next states; the first one is the output."""


@onnx_op("LSTM")
def lstm(e: Emitter, node: Node) -> tuple[Value, ...]:
    """Gates i, o, f, c; states h and c."""
    return _recurrent(e, node, _lstm_step, gates=4, defaults=("Sigmoid", "Tanh", "Tanh"), states=(5, 6))


@onnx_op("GRU")
def gru(e: Emitter, node: Node) -> tuple[Value, ...]:
    """Gates z, r, h; state h."""
    return _recurrent(e, node, _gru_step, gates=3, defaults=("Sigmoid", "Tanh"), states=(5,))


@onnx_op("RNN")
def rnn(e: Emitter, node: Node) -> tuple[Value, ...]:
    """One gate; state h."""
    return _recurrent(e, node, _rnn_step, gates=1, defaults=("Tanh",), states=(5,))


def _recurrent(
    e: Emitter, node: Node, step: Step, *, gates: int, defaults: tuple[str, ...], states: tuple[int, ...]
) -> tuple[Value, ...]:
    x, r = node.value(e, 0), node.value(e, 2)
    batch_first = bool(node.attr_int("layout", 0))
    if batch_first:
        x = e.permute(x, (1, 0, 2))
    steps = shape_of(x)[0]
    hidden = shape_of(r)[2]
    if not isinstance(hidden, int):
        raise node.unknown_dim("the hidden size must be static")
    kind = node.attr_choice("direction", "forward", "reverse", "bidirectional")
    cell = Cell(
        gates, hidden, states, batch_first, node.attr_float("clip", 0.0), bool(node.attr_int("input_forget", 0)),
        bool(node.attr_int("linear_before_reset", 0)),
    )  # fmt: skip
    count = 2 if kind == "bidirectional" else 1
    rows, batch = cell.rows, shape_of(x)[1]
    start = "the first state", (batch, count, hidden) if batch_first else (count, batch, hidden)
    node = node.fitted(e, {
        1: ("the weights", (count, rows, shape_of(x)[2])),
        2: ("the recurrent weights", (count, rows, hidden)),
        3: ("the bias", (count, 2 * rows)),
        7: ("the peepholes", (count, 3 * hidden)),
        **dict.fromkeys(states, start),
    })  # fmt: skip
    functions = _activations(node, defaults, count)
    lengths = _lengths(e, node, steps, shape_of(x)[1])
    outs: list[Value] = []
    lasts: list[tuple[Value, ...]] = []
    for d in range(count):
        direction = Direction.of(e, node, cell, batch, d, functions[d])
        stacked, last = _run(e, cell, direction, step, x, lengths)
        outs.append(e.unsqueeze(stacked, 1))
        lasts.append(tuple(e.unsqueeze(v, 0) for v in last))
    y = e.concat(outs, 1)  # [S, D, B, H]
    finals = [e.concat([last[i] for last in lasts], 0) for i in range(len(states))]  # [D, B, H]
    if batch_first:
        y = e.permute(y, (2, 0, 1, 3))
        finals = [e.permute(v, (1, 0, 2)) for v in finals]
    return (y, *finals)


def _lengths(e: Emitter, node: Node, steps: Dim, batch: Dim) -> Value | None:
    """The sequence lengths, or None when every sequence takes all steps."""
    if not node.has(4):
        return None
    e.require("equal", node.type(4).elements, batch, "number of lengths")
    known = node.known(4)
    if known is not None and all(v == steps for v in known.reshape(-1)):
        return None
    return e.cast(node.within(e, 4, 0, steps, "lengths"), I64)


def _run(
    e: Emitter, cell: Cell, d: Direction, step: Step, x: Value, lengths: Value | None
) -> tuple[Value, tuple[Value, ...]]:
    """All outputs [S, B, H] in the order of time, and the last states."""
    steps = shape_of(x)[0]
    if d.reverse and lengths is not None:
        x = reverse_by_length(e, x, lengths, time_axis=0, batch_axis=1)
    projected = e.contract(x, d.w, "sbi,gi->sbg")
    if d.wb is not None:
        projected = e.map(graph.add, projected, d.wb)
    backwards = d.reverse and lengths is None

    def body(at: Dim, states: tuple[Value, ...]) -> list[Value]:
        now = e.squeeze(e.slice(projected, 0, steps - 1 - at if backwards else at, 1), 0)
        new = step(e, cell, d, now, states)
        if lengths is None:
            return [*new, new[0]]
        alive = e.unsqueeze(e.map(graph.gt, lengths, e.full((), I64, at)), 1)
        kept = [e.select(alive, n, old) for n, old in zip(new, states, strict=True)]
        return [*kept, e.select(alive, new[0], 0.0)]

    *last, stacked = loop_of(e, steps, list(d.states), body)
    if backwards:
        stacked = e(graph.flip, stacked, axes=(0,))
    elif d.reverse and lengths is not None:
        stacked = reverse_by_length(e, stacked, lengths, time_axis=0, batch_axis=1)
    return stacked, tuple(last)


def _recur(e: Emitter, d: Direction, h: Value, start: int = 0, rows: int | None = None) -> Value:
    """The recurrent part of all gates, or of those that have some rows of the weights."""
    size = shape_of(d.r)[0] if rows is None else rows
    out = e.contract(h, e.slice(d.r, 0, start, size), "bh,gh->bg")
    return out if d.rb is None else e.map(graph.add, out, e.slice(d.rb, 0, start, size))


def _rnn_step(e: Emitter, cell: Cell, d: Direction, x: Value, states: tuple[Value, ...]) -> tuple[Value, ...]:
    total = e.map(graph.add, x, _recur(e, d, states[0]))
    return (d.activations[0](e, cell.clipped(e, total)),)


def _gru_step(e: Emitter, cell: Cell, d: Direction, x: Value, states: tuple[Value, ...]) -> tuple[Value, ...]:
    (h,) = states
    f, g = d.activations
    n = cell.hidden
    recurrent = _recur(e, d, h, 0, None if cell.linear_before_reset else 2 * n)
    zr_part = e.slice(recurrent, 1, 0, 2 * n)
    zr = f(e, cell.clipped(e, e.map(graph.add, e.slice(x, 1, 0, 2 * n), zr_part)))
    z, r = cell.gate(e, zr, 0), cell.gate(e, zr, 1)
    if cell.linear_before_reset:
        inner = e.map(graph.mul, r, cell.gate(e, recurrent, 2))
    else:
        inner = _recur(e, d, e.map(graph.mul, r, h), 2 * n, n)
    candidate = g(e, cell.clipped(e, e.map(graph.add, cell.gate(e, x, 2), inner)))
    # candidate + z (h - candidate), which is (1 - z) candidate + z h
    return (e.map(graph.add, candidate, e.map(graph.mul, z, e.map(graph.sub, h, candidate))),)


def _lstm_step(e: Emitter, cell: Cell, d: Direction, x: Value, states: tuple[Value, ...]) -> tuple[Value, ...]:
    h, c = states
    f, g, out = d.activations
    total = e.map(graph.add, x, _recur(e, d, h))

    def gate(i: int, peephole: int | None, of: Value) -> Value:
        v = cell.gate(e, total, i)
        if peephole is not None and d.peepholes:
            v = e.map(graph.add, v, e.map(graph.mul, of, d.peepholes[peephole]))
        return cell.clipped(e, v)

    i = f(e, gate(0, 0, c))
    forget = e.map(graph.neg, e.map(graph.sub, i, 1.0)) if cell.couple else f(e, gate(2, 2, c))
    candidate = g(e, gate(3, None, c))
    new = e.map(graph.add, e.map(graph.mul, forget, c), e.map(graph.mul, i, candidate))
    o = f(e, gate(1, 1, new))
    return e.map(graph.mul, o, out(e, new)), new


# activations by name


def _activations(node: Node, defaults: tuple[str, ...], directions: int) -> list[tuple[Activation, ...]]:
    raw = node.attributes.get("activations") or [name.encode() for name in defaults * directions]
    names = [n.decode("utf-8", "replace") for n in raw]
    if len(names) == len(defaults) and directions == 2:
        names = names * 2
    if len(names) != len(defaults) * directions:
        raise node.error(f"expected {len(defaults) * directions} activations, got {len(names)}")
    alphas = iter([float(v) for v in node.attributes.get("activation_alpha", ())])
    betas = iter([float(v) for v in node.attributes.get("activation_beta", ())])
    functions = [_activation(node, name, alphas, betas) for name in names]
    width = len(defaults)
    return [tuple(functions[i * width : (i + 1) * width]) for i in range(directions)]


def _activation(node: Node, name: str, alphas: Iterator[float], betas: Iterator[float]) -> Activation:
    if name.lower() not in FUNCTIONS:
        raise node.error(f"unknown activation {name!r}")
    function, defaults = FUNCTIONS[name.lower()]
    numbers = [next(given, default) for given, default in zip((alphas, betas), defaults, strict=False)]
    return lambda e, x: function(e, x, *numbers)
