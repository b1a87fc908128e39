"""An ONNX model that is compiled when enough is known: at once, or when the values that decide shapes are there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphfuse.api import compile
from graphfuse.artifact import Array
from graphfuse.compiled_model import CompiledModel
from graphfuse.errors import InputError, UnsupportedError
from graphfuse.frontends.onnx.node import UnknownValueError
from graphfuse.frontends.onnx.specialise import free_inputs, model_of_node, open_shapes, specialised

MOST_VARIANTS = 64
"""Compiled variants that one model keeps; the one used longest ago goes first."""

DECIDING_ELEMENTS, DECIDING_FLOATS = 1024, 64
"""Up to this size an input may be a constant of a variant: shapes, axes, scales and counts are small."""


class OnnxModel:
    """A model as its file declares it: call it with inputs by name, get outputs by name.

    `wants` are the inputs whose values it is compiled for, and `variants` what it was compiled to.
    """

    def __init__(self, model: Any, device: str = "") -> None:
        self.model, self.device = model, device
        self.inputs = free_inputs(model)
        self.outputs = tuple(o.name for o in model.graph.output)
        self.wants: tuple[str, ...] = ()
        self.variants: OrderedDict[object, CompiledModel] = OrderedDict()
        self._open = open_shapes(model)
        self._whole: CompiledModel | None = None
        try:
            self._whole = compile(model, device=device)
        except UnknownValueError as e:
            self.wants = e.inputs
        except UnsupportedError:
            if not self._open:
                raise

    @staticmethod
    def of_node(node: Any, inputs: Sequence[Any], opset: int | None = None, device: str = "") -> OnnxModel:
        """A model of one node, for inputs such as these."""
        return OnnxModel(model_of_node(node, inputs, opset), device)

    @property
    def how(self) -> str:
        """How it runs: `compiled` from the model alone, or `by value` of the inputs it wants."""
        return "by value" if self.wants else "compiled"

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run it, compiled for these inputs' shapes and deciding values if it has to be."""
        if self._whole is not None:
            return self._whole(inputs)
        arrays = {name: np.asarray(value) for name, value in inputs.items()}
        if missing := [n for n in self.inputs if n not in arrays]:
            raise InputError(f"missing inputs {', '.join(map(repr, missing))}")
        while True:
            key = self._key(arrays)
            if (variant := self.variants.get(key)) is None:
                try:
                    variant = self._compiled(arrays)
                except UnknownValueError as e:
                    if not set(e.inputs) - set(self.wants):
                        raise
                    self.wants = (*self.wants, *(n for n in e.inputs if n not in self.wants))
                    continue
                self.variants[key] = variant
                if len(self.variants) > MOST_VARIANTS:
                    self.variants.popitem(last=False)
            self.variants.move_to_end(key)
            return variant({n: a for n, a in arrays.items() if n not in self.wants})

    def _key(self, arrays: Mapping[str, Array]) -> object:
        deciding = arrays if self._open else self.wants
        return tuple((arrays[n].shape, arrays[n].tobytes() if n in self.wants else b"") for n in deciding)

    def _compiled(self, arrays: Mapping[str, Array]) -> CompiledModel:
        values = {n: arrays[n] for n in self.wants}
        for name, array in values.items():
            most = DECIDING_ELEMENTS if array.dtype.kind in "iub" else DECIDING_FLOATS
            if array.size > most:
                raise UnsupportedError(
                    f"input {name!r} must be known to compile the model: expected up to {most} elements, "
                    f"found {array.size}"
                )
        shapes = {n: a.shape for n, a in arrays.items()} if self._open else {}
        return compile(specialised(self.model, shapes, values), device=self.device)
