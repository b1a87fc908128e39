"""An ONNX model that is compiled when enough is known: at once, or when the values that decide shapes are there."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from graphfuse.api import compile
from graphfuse.artifact import Array
from graphfuse.compiled_model import CompiledModel
from graphfuse.errors import InputError, TooLargeError, UnsupportedError
from graphfuse.frontends.onnx.limits import check_depth
from graphfuse.frontends.onnx.node import UnknownValueError
from graphfuse.frontends.onnx.specialise import free_inputs, model_of_node, open_shapes, specialised
from graphfuse.symbolic import symbols

log = logging.getLogger(__name__)

MOST_VARIANTS = 64
"""Compiled variants that one model keeps; the one used longest ago goes first."""

DECIDING_ELEMENTS, DECIDING_FLOATS = 1024, 64
"""Up to this size an input may be a constant of a variant: shapes, axes, scales and counts are small."""


class OnnxModel:
    """A model as its file declares it: call it with inputs by name, get outputs by name.

    `wants` are the inputs whose values it is compiled for, and `variants` what it was compiled to. What cannot be
    compiled as a whole is compiled with host code between its parts, unless that cannot run it either. `made` gets each
    compiled model, and returns what is called instead.
    """

    def __init__(
        self, model: Any, device: str = "", *, made: Callable[[CompiledModel], CompiledModel] | None = None
    ) -> None:
        check_depth(model, "<model>")
        self.model, self.device, self._made = model, device, made
        self.inputs = free_inputs(model)
        self.wants: tuple[str, ...] = ()
        self.variants: OrderedDict[object, CompiledModel] = OrderedDict()
        self.whole: CompiledModel | None = None
        self._open = open_shapes(model)
        self._why: UnsupportedError | None = None
        self._takes_none = False
        """Whether dims of 0 were declared."""
        try:
            self.whole = self._compiled(model)
        except UnknownValueError as e:
            self.wants = e.inputs
        except TooLargeError:
            raise
        except UnsupportedError as e:
            if not self._open:  # else the shapes that a call has may be what is missing
                self._fall_back(e)

    @staticmethod
    def of_node(node: Any, inputs: Sequence[Any], opset: int | None = None, device: str = "") -> OnnxModel:
        """A model of one node, for inputs such as these."""
        return OnnxModel(model_of_node(node, inputs, opset), device)

    @property
    def how(self) -> str:
        """How it runs: `compiled` from the model alone, or `by value` of the inputs it wants, or with `host` code."""
        return "host" if self._why is not None else "by value" if self.wants else "compiled"

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run it, compiled for these inputs' shapes and deciding values if it has to be."""
        if self.whole is None:
            if missing := [n for n in self.inputs if n not in inputs]:
                raise InputError(f"missing inputs {', '.join(map(repr, missing))}")
            values: dict[str, Any] = {
                n: v if v is None or isinstance(v, (list, dict)) else np.asarray(v) for n, v in inputs.items()
            }
            if self._why is None:
                try:
                    return self._run_variant(values)
                except TooLargeError:
                    raise
                except UnsupportedError as e:
                    self._fall_back(e)
            if self.whole is None:
                return self._run_variant(values)
        if not self._takes_none and any(0 in np.shape(v) for v in inputs.values() if not isinstance(v, (list, dict))):
            # a model's dims begin at 1 unless somebody says otherwise, and here is who does
            signature = self.whole.signature
            named = frozenset[str]().union(*(symbols(d) for spec in signature.inputs for d in spec.shape))
            dims = {signature.shown(n): (0, high) for n, _, high in signature.dims if n in named}
            self.whole, self._takes_none = self._compiled(self.model, dims), True
        return self.whole(inputs)

    def _fall_back(self, why: UnsupportedError) -> None:
        """Take host code: for all shapes if that can be, else for those of each call."""
        log.info("host code: %s", why)
        self._why, self.wants = why, ()
        self.variants.clear()
        try:
            self.whole = self._compiled(self.model)
        except TooLargeError:
            raise
        except UnsupportedError:
            if not self._open:
                raise

    def _compiled(self, model: Any, dims: Mapping[str, tuple[int, int]] | None = None) -> CompiledModel:
        compiled = compile(model, device=self.device, dims=dims, host=self._why is not None)
        return compiled if self._made is None else self._made(compiled)

    def _run_variant(self, values: Mapping[str, Any]) -> dict[str, Any]:
        while True:
            key = self._key(values)
            if (variant := self.variants.get(key)) is None:
                try:
                    variant = self._variant(values)
                except UnknownValueError as e:
                    if not set(e.inputs) - set(self.wants):
                        raise
                    self.wants = (*self.wants, *(n for n in e.inputs if n not in self.wants))
                    continue
                self.variants[key] = variant
                if len(self.variants) > MOST_VARIANTS:
                    self.variants.popitem(last=False)
            self.variants.move_to_end(key)
            return variant({n: a for n, a in values.items() if n not in self.wants})

    def _key(self, values: Mapping[str, Any]) -> object:
        deciding = values if self._open else self.wants
        tensors = [n for n in deciding if isinstance(values[n], np.ndarray)]
        return tuple((n, values[n].shape, values[n].tobytes() if n in self.wants else b"") for n in tensors)

    def _variant(self, values: Mapping[str, Any]) -> CompiledModel:
        tensors = {n: cast("Array", v) for n, v in values.items() if isinstance(v, np.ndarray)}
        wanted = {n: tensors[n] for n in self.wants}
        for name, array in wanted.items():
            most = DECIDING_ELEMENTS if array.dtype.kind in "iub" else DECIDING_FLOATS
            if array.size > most:
                raise UnsupportedError(
                    f"input {name!r} must be known to compile the model: expected up to {most} elements, "
                    f"found {array.size}"
                )
        shapes = {n: a.shape for n, a in tensors.items()} if self._open else {}
        return self._compiled(specialised(self.model, shapes, wanted))
