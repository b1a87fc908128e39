"""An ONNX model that is compiled when enough is known: at once, or when the values that decide shapes are there."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphfuse.api import compile
from graphfuse.artifact import Array
from graphfuse.compiled_model import CompiledModel
from graphfuse.errors import InputError, TooLargeError, UnsupportedError
from graphfuse.frontends.onnx.limits import check_depth
from graphfuse.frontends.onnx.node import UnknownValueError
from graphfuse.frontends.onnx.specialise import free_inputs, model_of_node, open_shapes, specialised

if TYPE_CHECKING:
    from graphfuse.host.on_demand import HostedModel

log = logging.getLogger(__name__)

MOST_VARIANTS = 64
"""Compiled variants that one model keeps; the one used longest ago goes first."""

DECIDING_ELEMENTS, DECIDING_FLOATS = 1024, 64
"""Up to this size an input may be a constant of a variant: shapes, axes, scales and counts are small."""


class OnnxModel:
    """A model as its file declares it: call it with inputs by name, get outputs by name.

    `wants` are the inputs whose values it is compiled for, and `variants` what it was compiled to. What cannot be
    compiled runs as host code between compiled parts, unless `host` forbids it.
    """

    def __init__(self, model: Any, device: str = "", *, host: bool = True) -> None:
        check_depth(model, "<model>")
        self.model, self.device = model, device
        self.inputs = free_inputs(model)
        self.wants: tuple[str, ...] = ()
        self.variants: OrderedDict[object, CompiledModel] = OrderedDict()
        self.hosted: HostedModel | None = None
        self._open, self._host = open_shapes(model), host
        self._whole: CompiledModel | None = None
        try:
            self._whole = compile(model, device=device, host=False)
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
        return "host" if self.hosted is not None else "by value" if self.wants else "compiled"

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run it, compiled for these inputs' shapes and deciding values if it has to be."""
        if self._whole is not None:
            return self._whole(inputs)
        if missing := [n for n in self.inputs if n not in inputs]:
            raise InputError(f"missing inputs {', '.join(map(repr, missing))}")
        if self.hosted is None:
            try:
                return self._run_variant({name: _tensor(name, value) for name, value in inputs.items()})
            except TooLargeError:
                raise
            except UnsupportedError as e:
                self._fall_back(e)
        assert self.hosted is not None, "there was nothing else to fall back to"
        return self.hosted(inputs)

    def _fall_back(self, why: UnsupportedError) -> None:
        if not self._host:
            raise why
        log.info("host code: %s", why)
        # few models need it
        from graphfuse.host.on_demand import HostedModel

        try:
            self.hosted = HostedModel(self.model, self.device)
        except UnsupportedError:
            raise why from None

    def _run_variant(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
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
        return compile(specialised(self.model, shapes, values), device=self.device, host=False)


def _tensor(name: str, value: Any) -> Array:
    if value is None or isinstance(value, (list, dict)):
        found = "nothing" if value is None else "a map" if isinstance(value, dict) else "a sequence"
        raise UnsupportedError(f"input {name!r}: expected a tensor, found {found}")
    return np.asarray(value)
