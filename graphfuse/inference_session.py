"""ONNX Runtime's interface over a compiled model."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from graphfuse import usage
from graphfuse.api import Dims, compile, load
from graphfuse.artifact import ELEMS, MAP, OPTIONAL, SEQUENCE, TEXT, Array, Signature, TensorSpec, elem_dtype
from graphfuse.compiled_model import CompiledModel
from graphfuse.errors import UsageError
from graphfuse.runtime import gfx


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output as ONNX Runtime describes it: dims are numbers or names, a type is such as `tensor(float)`."""

    name: str
    shape: list[int | str]
    type: str


_ORT_TYPES = {
    **{e: elem_dtype(e).name.replace("_", "") for e in ELEMS if e not in ("i2", "u2", "f8e8m0", "f4e2m1")},
    "f32": "float", "f64": "double", TEXT: "string",
}  # fmt: skip
"""Mostly numpy's names; what it does not have keeps its own."""


class InferenceSession:
    """ONNX Runtime's interface over a compiled model: `run(output_names, input_feed)`.

    Args:
        path_or_bytes: An ONNX file, its bytes, or an artifact's file.
        sess_options: Of ONNX Runtime, or any object like it: `intra_op_num_threads` is honoured when it is positive,
            the rest is not looked at.
        providers: Where it runs is the first that is the CPU or a GPU (`("CUDAExecutionProvider", {"device_id": 1})`).
        provider_options: For each provider its options, if they are not in pairs.
        dims: As for `graphfuse.compile`; not looked at for an artifact, as are the next three.
        numerics: As for `graphfuse.compile`.
        precision: As for `graphfuse.compile`.
        check_indices: As for `graphfuse.compile`.

    Raises:
        GraphfuseError: What `graphfuse.compile` and `graphfuse.load` raise.
    """

    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: Any = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        dims: Dims | None = None,
        numerics: str = "",
        precision: str = "",
        check_indices: bool | None = None,
    ) -> None:
        device = _device_of(providers, provider_options)
        threads = int(getattr(sess_options, "intra_op_num_threads", 0)) or None
        path = cast("str", path_or_bytes) if isinstance(path_or_bytes, (str, os.PathLike)) else ""
        if path and gfx.is_artifact(path):
            self._model, self._compile = load(path, threads, device), None
        else:
            self._compile = functools.partial(
                compile,
                path_or_bytes,
                dims=dims,
                threads=threads,
                numerics=numerics,
                precision=precision,
                device=device,
                check_indices=check_indices,
            )
            self._model = self._compile()
        self._with_others: dict[tuple[str, ...], CompiledModel] = {}

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None
    ) -> list[Array]:
        """The named outputs in that order; all of them for None. `run_options` is not looked at.

        Of a model that is no artifact other values of the graph may be named, too: the first run that does compiles it
        once more, with these as outputs.

        Raises:
            UsageError: There is no such output.
            InputError: An input does not fit: its name, dtype, rank or shape.
        """
        output_names = None if output_names is None else usage.texts("output_names", output_names)
        known = [s.name for s in self._model.signature.outputs]
        model, others = self._model, [name for name in output_names or () if name not in known]
        if others:
            if self._compile is None:
                raise UsageError(f"unknown output {others[0]!r}: expected one of {', '.join(map(repr, known))}")
            wanted = tuple(dict.fromkeys(output_names or ()))
            model = self._with_others.get(wanted) or self._compile(outputs=wanted)
            self._with_others[wanted] = model
        outputs = model(usage.mapping("input_feed", input_feed))  # numpy's, as the inputs are
        return [outputs[name] for name in output_names or known]

    def get_inputs(self) -> list[NodeArg]:
        """Name, shape and type of each input."""
        return [_node_arg(s, self._model.signature) for s in self._model.signature.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """Name, shape and type of each output."""
        return [_node_arg(s, self._model.signature) for s in self._model.signature.outputs]

    def get_providers(self) -> list[str]:
        """Where it runs, the first first."""
        gpu = [_CUDA] if self._model.device.kind == "cuda" else []
        return [*gpu, _CPU]


_CPU, _CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


def _device_of(providers: Sequence[Any] | None, options: Sequence[Mapping[str, Any]] | None) -> str:
    """ONNX Runtime's providers, each a name or a pair of name and options, as a device."""
    listed: list[tuple[str, Mapping[str, Any]]] = []
    for p in _listed("providers", providers or (_CPU,)):
        pair: Any = (p, {}) if isinstance(p, str) else p
        if not isinstance(pair, (tuple, list)) or len(cast("Sequence[Any]", pair)) != 2:
            raise usage.wrong("providers", "names, or pairs of a name and options", p)
        listed.append((usage.text("providers", pair[0]), usage.mapping("providers", pair[1])))
    for (name, own), more in itertools.zip_longest(listed, _listed("provider_options", options or ())[: len(listed)]):
        if name == _CPU:
            return "cpu"
        if name == _CUDA:
            return f"cuda:{ {**own, **(more or {})}.get('device_id', 0) }"
    names = ", ".join(name for name, _ in listed)
    raise UsageError(f"providers: expected {_CPU!r} or {_CUDA!r} among them, got {names}")


def _listed(name: str, value: Any) -> Sequence[Any]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise usage.wrong(name, "a list", cast("object", value))
    return cast("Sequence[Any]", value)


def _node_arg(spec: TensorSpec, signature: Signature) -> NodeArg:
    shape = [d if isinstance(d, int) else signature.shown(d) for d in spec.shape]
    held = {SEQUENCE: "seq", OPTIONAL: "optional", MAP: "map"}
    kind = held.get(spec.elem) or f"tensor({_ORT_TYPES.get(spec.elem, spec.elem)})"
    return NodeArg(spec.name, shape, kind)
