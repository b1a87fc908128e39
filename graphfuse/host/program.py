"""A model whose parts Python runs in turn, as data: which part, or which operator with what, comes after which.

Owns the data classes and what such a program must keep (`check_program`). Where it is written is `program_json.py`;
what runs it is `session.py`. Why there are such models: docs/adr/0013-host-code-between-parts.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from graphfuse.errors import ArtifactError

MOST_NESTED = 16
"""Graphs in graphs; real models have three."""


@dataclass(frozen=True, slots=True)
class Constant:
    """One of the executable's weights."""

    weight: int


@dataclass(frozen=True, slots=True)
class Texts:
    """A tensor of strings."""

    texts: tuple[str, ...]
    shape: tuple[int, ...]


Attribute: TypeAlias = "int | float | str | tuple[int | float | str, ...] | Constant | Texts"


@dataclass(frozen=True, slots=True)
class HostPart:
    """Run a compiled part: its signature says what it reads and makes, by name."""

    part: int


@dataclass(frozen=True, slots=True)
class HostNode:
    """Run an operator in Python. An input or output without a name is left out.

    An attribute that is a graph is the number of one of `bodies`.
    """

    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    bodies: tuple[HostGraph, ...] = ()


@dataclass(frozen=True, slots=True)
class HostGraph:
    """Steps in order. They read the inputs, the constants, what steps before made, and all that graphs around have.

    `empties` are the element and the dims of each output (0 where a dim is not known), for loops that never run.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, Constant | Texts]
    steps: tuple[HostPart | HostNode, ...]
    empties: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def nodes(self) -> Iterable[HostNode]:
        """Every operator that Python runs, those of bodies too."""
        for step in self.steps:
            if isinstance(step, HostNode):
                yield step
                for body in step.bodies:
                    yield from body.nodes()


Names: TypeAlias = tuple[Sequence[str], Sequence[str]]
"""The inputs and outputs of a part."""


def check_program(program: HostGraph, parts: Sequence[Names], weights: int) -> None:
    """Raise ArtifactError unless every name is known before it is read, and every part and constant is there."""
    _check_graph(program, "host", parts, weights, frozenset(), 0)


def _check_graph(
    graph: HostGraph, where: str, parts: Sequence[Names], weights: int, around: frozenset[str], depth: int
) -> None:
    if depth > MOST_NESTED:
        raise ArtifactError(f"{where}: expected graphs nested at most {MOST_NESTED} deep")
    if graph.empties and len(graph.empties) != len(graph.outputs):
        raise ArtifactError(f"{where}: expected the types of {len(graph.outputs)} outputs, found {len(graph.empties)}")
    for value in graph.constants.values():
        _check_constant(value, where, weights)
    known = set(around | {*graph.inputs, *graph.constants})
    for i, step in enumerate(graph.steps):
        at = f"{where}: step {i}"
        if isinstance(step, HostPart):
            if not 0 <= step.part < len(parts):
                raise ArtifactError(f"{at}: expected one of {len(parts)} parts, found {step.part}")
            reads, makes = parts[step.part]
        else:
            reads, makes = [n for n in step.inputs if n], [n for n in step.outputs if n]
            for attribute in step.attributes.values():
                _check_constant(attribute, at, weights)
        if missing := [n for n in reads if n not in known]:
            raise ArtifactError(f"{at}: reads {missing[0]!r}, which nothing before it makes")
        if isinstance(step, HostNode):
            for body in step.bodies:
                _check_graph(body, at, parts, weights, frozenset(known), depth + 1)
        known.update(makes)
    if missing := [n for n in graph.outputs if n not in known]:
        raise ArtifactError(f"{where}: nothing makes the output {missing[0]!r}")


def _check_constant(value: object, where: str, weights: int) -> None:
    if isinstance(value, Constant) and not 0 <= value.weight < weights:
        raise ArtifactError(f"{where}: expected one of {weights} weights, found {value.weight}")
    if isinstance(value, Texts) and (count := math.prod(value.shape)) != len(value.texts):
        raise ArtifactError(f"{where}: expected {count} texts, found {len(value.texts)}")
