"""Branches and loops whose bodies run one after the other: what Python does of ONNX's control flow.

Owns how often and with what a body runs, not what a body is made of (`on_demand.py`, `session.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast

import numpy as np

from graphfuse.artifact import Array
from graphfuse.errors import InputError

Values: TypeAlias = Mapping[str, Any]

MOST_LOOPS = 1 << 24
"""Iterations after which a loop is taken to be endless."""


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

    def run(self, values: Values) -> list[Any]:
        """The outputs, for the values of its inputs and of what it reads of graphs around it."""
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
    return bodies[names.index(taken)].run(known)


def _loop(bodies: Sequence[Body], _: Mapping[str, Any], inputs: tuple[Any, ...], known: Values) -> list[Any]:
    """Up to a count and while a condition holds."""
    (body,) = bodies
    wanted = MOST_LOOPS if inputs[0] is None else int(inputs[0].reshape(-1)[0])
    count = min(wanted, MOST_LOOPS)  # what is exported from a `while` counts to 2**63 - 1
    going = inputs[1] is None or bool(inputs[1].reshape(-1)[0])
    carried = list(inputs[2:])
    stacked: list[list[Any]] = [[] for _ in body.outputs[1 + len(carried) :]]
    at = 0
    while going and at < count:
        values = (np.array(at, dtype=np.int64), np.array(going), *carried)
        condition, *rest = body.run({**known, **dict(zip(body.inputs, values, strict=True))})
        going, carried = bool(condition.reshape(-1)[0]), rest[: len(carried)]
        for out, value in zip(stacked, rest[len(carried) :], strict=True):
            out.append(value)
        at += 1
    if going and (inputs[0] is None or wanted > count):
        raise InputError(f"Loop: expected its condition to end it, it still holds after {MOST_LOOPS} iterations")
    first = 1 + len(carried)
    return [*carried, *(np.stack(s) if s else body.empty(i) for i, s in enumerate(stacked, first))]


def _scan(bodies: Sequence[Body], attributes: Mapping[str, Any], inputs: tuple[Any, ...], known: Values) -> list[Any]:
    """Over slices of its inputs."""
    (body,) = bodies
    scanned = int(attributes["num_scan_inputs"])
    states, xs = list(inputs[: len(inputs) - scanned]), inputs[len(inputs) - scanned :]
    outs = len(body.outputs) - len(states)
    xs = [np.moveaxis(x, a, 0) for x, a in zip(xs, attributes.get("scan_input_axes", [0] * scanned), strict=True)]
    xs = [x[::-1] if d else x for x, d in zip(xs, attributes.get("scan_input_directions", [0] * scanned), strict=True)]
    stacked: list[list[Any]] = [[] for _ in range(outs)]
    for slices in zip(*xs, strict=True):
        values = (*states, *map(np.ascontiguousarray, slices))
        rest = body.run({**known, **dict(zip(body.inputs, values, strict=True))})
        states = rest[: len(states)]
        for out, value in zip(stacked, rest[len(states) :], strict=True):
            out.append(value)
    axes, directions = (
        attributes.get("scan_output_axes", [0] * outs),
        attributes.get("scan_output_directions", [0] * outs),
    )
    joined = [
        np.stack(s[::-1] if d else s) if s else body.empty(i)
        for i, (s, d) in enumerate(zip(stacked, directions, strict=True), len(states))
    ]
    return [*states, *(np.ascontiguousarray(np.moveaxis(x, 0, a)) for x, a in zip(joined, axes, strict=True))]


def _sequence_map(bodies: Sequence[Body], _: Mapping[str, Any], inputs: tuple[Any, ...], known: Values) -> list[Any]:
    """The body for each element of the first sequence, and of others; tensors are the same for all."""
    (body,) = bodies
    out: list[list[Any]] = [[] for _ in body.outputs]
    for i in range(len(inputs[0])):
        values = [cast("list[Any]", x)[i] if isinstance(x, list) else x for x in inputs]
        for found, value in zip(out, body.run({**known, **dict(zip(body.inputs, values, strict=True))}), strict=True):
            found.append(value)
    return list(out)


CONTROL: dict[str, Control] = {"If": _if, "Loop": _loop, "Scan": _scan, "SequenceMap": _sequence_map}
