"""Branches and loops whose bodies run one after the other: what Python does of ONNX's control flow.

Owns how often and with what a body runs, not what a body is made of (`on_demand.py`, `session.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast

import numpy as np

from graphfuse.artifact import Array
from graphfuse.errors import InputError

Values: TypeAlias = Mapping[str, Any]

MOST_LOOPS = 1 << 24
"""Iterations after which a loop is taken to be endless."""


Slices: TypeAlias = Callable[[int, int], Array]
"""From two turns to what is given to the first and those up to before the second, stacked."""


@dataclass(frozen=True, slots=True)
class Wires:
    """How a body is repeated, by the numbers of its inputs and outputs.

    `first` are the inputs of the first turn, `fed` the outputs by the input that has them in the next, `sliced` the
    inputs that each turn has another of, `going` the output that says whether another turn follows.
    """

    first: Sequence[Any]
    fed: Mapping[int, int]
    sliced: Mapping[int, Slices]
    going: int | None


@dataclass(frozen=True, slots=True)
class Repeated:
    """How many turns there were, whether more should follow, and the outputs.

    Those that are fed back are the last turn's, others are stacked.
    """

    turns: int
    going: bool
    outputs: list[Any]


BRANCHES = ("then_branch", "else_branch")


class Body(Protocol):
    """A graph that control flow runs."""

    @property
    def inputs(self) -> Sequence[str]:
        """Their names."""
        ...

    @property
    def outputs(self) -> Sequence[str]:
        """Their names."""
        ...

    def within(self, known: Values) -> Callable[[Sequence[Any]], list[Any]]:
        """From the values of its inputs to its outputs, for what is known around it."""
        ...

    def repeat(self, known: Values, wires: Wires, most: int) -> Repeated | None:
        """Turn after turn, `most` times at most, where that takes no Python."""
        ...

    def empty(self, output: int) -> Array:
        """What a loop that never ran stacked of an output: nothing, of its element and dims."""
        ...


Control: TypeAlias = Callable[[Sequence[Body], Mapping[str, Any], tuple[Any, ...], Values], list[Any]]
"""From a node's bodies, attributes and inputs, and what is known around it, to its outputs."""


def _if(bodies: Sequence[Body], attributes: Mapping[str, Any], inputs: tuple[Any, ...], known: Values) -> list[Any]:
    """The branch that the condition says."""
    names = [n for n in attributes if n in BRANCHES]
    taken = "then_branch" if bool(np.asarray(inputs[0]).reshape(-1)[0]) else "else_branch"
    return bodies[names.index(taken)].within(known)(())


def _loop(bodies: Sequence[Body], _: Mapping[str, Any], inputs: tuple[Any, ...], known: Values) -> list[Any]:
    """Up to a count and while a condition holds."""
    (body,) = bodies
    wanted = MOST_LOOPS if inputs[0] is None else int(inputs[0].reshape(-1)[0])
    count = min(wanted, MOST_LOOPS)  # what is exported from a `while` counts to 2**63 - 1
    begins = inputs[1] is None or bool(inputs[1].reshape(-1)[0])
    fed = {i: i - 1 for i in range(2, len(inputs))}
    first = [np.zeros((), np.int64), np.ones((), np.bool_), *inputs[2:]]
    made = _turns(body, known, Wires(first, fed, {0: np.arange}, 0), count if begins else 0)
    if begins and made.going and (inputs[0] is None or wanted > count):
        raise InputError(f"Loop: expected its condition to end it, it still holds after {MOST_LOOPS} iterations")
    return made.outputs[1:]


def _scan(bodies: Sequence[Body], attributes: Mapping[str, Any], inputs: tuple[Any, ...], known: Values) -> list[Any]:
    """Over slices of its inputs."""
    (body,) = bodies
    scanned = int(attributes["num_scan_inputs"])
    states = len(inputs) - scanned
    outs = len(body.outputs) - states
    xs = [np.moveaxis(x, a, 0) for x, a in zip(inputs[states:], _each(attributes, "input_axes", scanned), strict=True)]
    xs = [x[::-1] if d else x for x, d in zip(xs, _each(attributes, "input_directions", scanned), strict=True)]
    if len({len(x) for x in xs}) > 1:
        raise InputError(f"Scan: expected as many slices of each input, found {[len(x) for x in xs]}")
    sliced = {i: _slices(x) for i, x in enumerate(xs, states)}
    first = [*inputs[:states], *(x[:1].reshape(x.shape[1:]) if len(x) else None for x in xs)]
    made = _turns(body, known, Wires(first, {i: i for i in range(states)}, sliced, None), len(xs[0])).outputs
    stacked = zip(made[states:], _each(attributes, "output_directions", outs), strict=True)
    joined = zip((s[::-1] if d else s for s, d in stacked), _each(attributes, "output_axes", outs), strict=True)
    return [*made[:states], *(np.ascontiguousarray(np.moveaxis(x, 0, a)) for x, a in joined)]


def _each(attributes: Mapping[str, Any], name: str, count: int) -> Sequence[int]:
    return attributes.get(f"scan_{name}", [0] * count)


def _slices(x: Array) -> Slices:
    return lambda begin, end: x[begin:end]


def _turns(body: Body, known: Values, wires: Wires, most: int) -> Repeated:
    """A body turn after turn, `most` times at most."""
    if most > 0 and (made := body.repeat(known, wires, most)):
        return made
    step, values = body.within(known), list(wires.first)
    back = {o: i for i, o in wires.fed.items()}
    stacked: list[list[Any]] = [[] for _ in body.outputs]
    turns, going = 0, True
    while going and turns < most:
        for i, slices in wires.sliced.items():
            values[i] = np.ascontiguousarray(slices(turns, turns + 1)).reshape(np.shape(wires.first[i]))
        made = step(values)
        for o, value in enumerate(made):
            if o in back:
                values[back[o]] = value
            elif o != wires.going:
                stacked[o].append(value)
        going = wires.going is None or bool(made[wires.going].reshape(-1)[0])
        turns += 1
    pile = (values[back[o]] if o in back else np.stack(s) if s else body.empty(o) for o, s in enumerate(stacked))
    return Repeated(turns, going, list(pile))


def _sequence_map(bodies: Sequence[Body], _: Mapping[str, Any], inputs: tuple[Any, ...], known: Values) -> list[Any]:
    """The body for each element of the first sequence, and of others; tensors are the same for all."""
    (body,) = bodies
    step = body.within(known)
    out: list[list[Any]] = [[] for _ in body.outputs]
    for i in range(len(inputs[0])):
        values = [cast("list[Any]", x)[i] if isinstance(x, list) else x for x in inputs]
        for found, value in zip(out, step(values), strict=True):
            found.append(value)
    return list(out)


CONTROL: dict[str, Control] = {"If": _if, "Loop": _loop, "Scan": _scan, "SequenceMap": _sequence_map}
