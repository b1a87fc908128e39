"""Graphs inside graphs: the bodies of loops and the branches of choices."""

from __future__ import annotations

import onnx
from onnx import helper

from models._builder import Builder, Value


class Nested(Builder):
    """A graph for an attribute of a node of `outer`: its names, parameters and constants are those of `outer`."""

    def __init__(self, outer: Builder, name: str) -> None:
        super().__init__(name, opset=outer.opset, seed=0)
        self.rng, self.initializers = outer.rng, outer.initializers
        self._used, self._constants, self._scope = outer._used, outer._constants, outer._scope

    def inside(self, value: Value) -> Value:
        """A value of a graph around this one."""
        return Value(self, value.name)

    def graph(self) -> onnx.GraphProto:
        """The graph so far; it reads what the graphs around it computed by name."""
        return helper.make_graph(self.nodes, self.name, self._inputs, self._outputs)
