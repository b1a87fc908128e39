"""A recurrent encoder and a greedy decoder that writes tokens until one that ends the text (opset 18).

The encoder is a `Scan`, the decoder a `Loop` that its condition ends. `If` chooses how the encoder's states are
summarised, by their number, and in each step of the decoder whether its state is updated, by its own value.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models import _cli
from models._builder import INT64, Builder, Value
from models._graphs import Nested

NAME = "greedy_decoder"
HOST = True
DIMS: dict[str, tuple[int, int]] = {"source": (1, 256)}
TEST_DIMS: list[dict[str, int]] = [{"source": 5}, {"source": 12}, {"source": 31}]


@dataclass(frozen=True)
class _Config:
    hidden: int
    vocab: int
    ends: int
    """Tokens below this end the text."""


_FULL = _Config(hidden=256, vocab=4000, ends=200)
_SMALL = _Config(hidden=16, vocab=40, ends=4)

LONG = 8
"""From this many states on, their mean is what the decoder begins with; else it is the last."""


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    config = _SMALL if small else _FULL
    width = config.hidden
    g = Builder(NAME, opset=18, seed=seed)
    ids = g.input("source_ids", ["source"], INT64)
    table = g.normal([config.vocab, width], 1.0, "embedding.weight")
    states = _encoded(g, g.Gather(table, ids, axis=0), width)
    state = _summary(g, states)
    tokens, scores, last = _decoded(g, table, states, state, g.dim(ids, 0), config)
    g.output(tokens, "tokens", ["written"], INT64)
    g.output(scores, "scores", ["written"])
    g.output(last, "state", [width])
    g.save(path)


def inputs(rng: np.random.Generator, *, small: bool = False, source: int = 32) -> dict[str, np.ndarray]:
    """Random tokens."""
    return {"source_ids": rng.integers(0, (_SMALL if small else _FULL).vocab, source)}


def _encoded(g: Builder, x: Value, width: int) -> Value:
    """[S, width] -> [S, width]: h = tanh(x W + h U + b), token by token."""
    body = Nested(g, "cell")
    h, row = body.input("cell.h", [width]), body.input("cell.x", [width])
    with g.scope("encoder"):
        w, u = (g.weight(width, width, fan_in=width, stem=s) for s in ("W", "U"))
        b = g.bias(width)
    projected = x @ w  # for all tokens at once, as exporters hoist it
    after = body.Tanh(row + body.inside(b) + h @ body.inside(u))
    row_of_it = body.Identity(after)
    body.output(after, "cell.after", [width])
    body.output(row_of_it, "cell.row", [width])
    zeros = g.const(np.zeros(width, np.float32))
    _, states = g.ops("Scan", zeros, projected, outputs=2, body=body.graph(), num_scan_inputs=1)
    return states


def _summary(g: Builder, states: Value) -> Value:
    """[S, width] -> [width]: the mean of many states, the last of few."""
    many, few = Nested(g, "many"), Nested(g, "few")
    many.output(many.ReduceMean(many.inside(states), [0], keepdims=0), "mean", [None])
    few.output(few.Gather(few.inside(states), few.const(-1), axis=0), "last", [None])
    is_long = g.GreaterOrEqual(g.dim(states, 0), LONG)
    return g.If(is_long, then_branch=many.graph(), else_branch=few.graph())


def _decoded(
    g: Builder, table: Value, states: Value, state: Value, length: Value, config: _Config
) -> tuple[Value, Value, Value]:
    """Tokens, their log-probabilities, and the last state; at most twice as many as there are states."""
    width = config.hidden
    with g.scope("decoder"):
        w, u, query = (g.weight(width, width, fan_in=width, stem=s) for s in ("W", "U", "Q"))
        head = g.weight(width, config.vocab, fan_in=width, gain=2.0, stem="head")
        fades = g.weight(width, config.vocab, fan_in=width, stem="bias_of_state")
    body = Nested(g, "step")
    body.input("step.i", [], INT64)
    body.input("step.going", [], np.bool_)
    token, h = body.input("step.token", [], INT64), body.input("step.h", [width])
    x = body.Gather(body.inside(table), token, axis=0)
    memory = body.inside(states)
    weights = body.Softmax(memory @ (h @ body.inside(query)), axis=-1)
    context = weights @ memory
    mixed = body.Tanh((x + context) @ body.inside(w) + h @ body.inside(u))
    after = _updated(body, h, mixed)
    logits = (after + context) @ body.inside(head) + x @ body.inside(fades)
    log_probs = body.LogSoftmax(logits, axis=-1)
    best = body.ArgMax(log_probs, axis=-1, keepdims=0)
    goes_on, written = body.GreaterOrEqual(best, config.ends), body.Identity(best)
    score = body.ReduceMax(log_probs, [0], keepdims=0)
    body.output(goes_on, "step.goes_on", [], np.bool_)
    body.output(best, "step.best", [], INT64)
    body.output(after, "step.after", [width])
    body.output(written, "step.written", [], INT64)
    body.output(score, "step.score", [])
    first = g.const(np.array(config.vocab - 1))
    _, last, tokens, scores = g.ops(
        "Loop", length * 2, np.ones((), np.bool_), first, state, outputs=4, body=body.graph()
    )
    return tokens, scores, last


def _updated(body: Nested, h: Value, mixed: Value) -> Value:
    """The mixed state, or where it has moved far the mean of both."""
    near, far = Nested(body, "near"), Nested(body, "far")
    near.output(near.Identity(near.inside(mixed)), "moved", [None])
    far.output((far.inside(h) + far.inside(mixed)) * 0.5, "damped", [None])
    moved = body.ReduceMean(body.Abs(mixed - h), [0], keepdims=0)
    return body.If(body.Less(moved, 0.8), then_branch=near.graph(), else_branch=far.graph())


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
