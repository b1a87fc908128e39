"""The interface that ONNX's own backend tests and scoreboard drive: `onnx.backend.base` over `graphfuse.compile`.

    from graphfuse.onnx_backend import Backend

    outputs = Backend.prepare(model, "CPU").run([x, y])

What a model needs the values of before it can be compiled (the shape of a `Reshape` that is an input) it gets at the
first call, and it is compiled again for other values (docs/onnx.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from onnx.backend import base

from graphfuse.devices import driver_of
from graphfuse.errors import DeviceError, InputError, UsageError
from graphfuse.host.model import OnnxModel
from graphfuse.runtime.device import Device
from graphfuse.runtime.gpu.context import context_of


class PreparedModel(base.BackendRep):
    """A model that is ready to run."""

    def __init__(self, model: OnnxModel) -> None:
        self.model = model

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, in the graph's order and by name, for inputs in the graph's order.

        An input is an array, a numpy scalar, a list for a sequence, or None for an optional that is not there.
        """
        del kwargs  # the interface's own: tolerances of tests
        names = self.model.inputs
        values = list(cast("Sequence[Any]", inputs)) if isinstance(inputs, (list, tuple)) else [inputs]
        if len(values) != len(names):
            raise InputError(f"inputs: expected {len(names)} ({', '.join(names)}), found {len(values)}")
        outputs = self.model(dict(zip(names, map(_value, values), strict=True)))
        return base.namedtupledict("Outputs", list(outputs))(*outputs.values())


class Backend(base.Backend):
    """What `onnx.backend.test.BackendTest` takes."""

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """Compile a `ModelProto` for a device, as far as it can be without values; `made` is as for `OnnxModel`."""
        return PreparedModel(OnnxModel(model, str(device_of(device)), made=kwargs.get("made")))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Compile and run once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: Any,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Compile and run one node; `opset_version` says which opset it is of, the newest by default."""
        del outputs_info  # the node's own types say it
        values = [_value(v) for v in inputs]
        model = OnnxModel.of_node(node, values, kwargs.get("opset_version"), str(device_of(device)))
        return PreparedModel(model).run(values)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether this machine has the device."""
        try:
            found = device_of(device)
            if found.is_gpu:
                context_of(driver_of(found), found.index)
        except (DeviceError, UsageError):
            return False
        return True


def device_of(text: str) -> Device:
    """The device that onnx writes as `CPU`, `CUDA` or `CUDA:1`; `EMULATOR` is one more."""
    return Device.parse(text.lower())


def _value(value: Any) -> Any:
    """Numbers as arrays without dims; anything else as it is."""
    return np.asarray(value) if isinstance(value, (np.generic, bool, int, float)) else value


__all__ = ["Backend", "OnnxModel", "PreparedModel"]

prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
is_compatible = Backend.is_compatible
