"""Export torch modules to ONNX with healthy weights; owns both exporters' calls.

Imported only by model files that say `REQUIRES = ("torch", ...)`, and only when they build.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
import types
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import onnx
import torch
from torch import nn


def heal(module: nn.Module, seed: int) -> nn.Module:
    """Replace every parameter: weights fan-in scaled, norms away from 0 and 1, biases small.

    Reproducible for one seed whatever the library's own initialisation drew before.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for owner in module.modules():
            for name, parameter in owner.named_parameters(recurse=False):
                parameter.copy_(_healthy(owner, name, parameter, generator))
        for owner in module.modules():
            # a weight-normed layer keeps direction (original1) and length (original0) apart
            if hasattr(owner, "original0") and hasattr(owner, "original1"):
                weight_normed = cast("dict[str, torch.Tensor]", dict(owner.named_parameters()))
                length, direction = weight_normed["original0"], weight_normed["original1"]
                summed = [axis for axis in range(length.dim()) if length.size(axis) == 1]
                length.copy_(cast("torch.Tensor", direction.norm(dim=summed, keepdim=True)))
    return module.eval()


def _healthy(owner: nn.Module, name: str, parameter: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    shape = parameter.shape
    if parameter.dim() == 0:
        return parameter
    if parameter.dim() == 1 and name == "weight":
        return torch.rand(shape, generator=generator) + 0.5
    normal = torch.randn(shape, generator=generator)
    if isinstance(owner, nn.Embedding):
        return normal
    if isinstance(owner, nn.BatchNorm2d):
        return 0.7 + 0.2 * normal  # mostly positive, see Builder.batch_norm
    if parameter.dim() == 1:
        return normal * (0.1 if "bias" in name else 1.0)
    return normal / math.sqrt(parameter[0].numel())


def calibrate(module: nn.Module, images: torch.Tensor) -> None:
    """Set every batch norm's running statistics to those of one forward pass."""
    norms = [m for m in module.modules() if isinstance(m, nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = 1.0
    module.train()
    with torch.no_grad():
        module(images)
    module.eval()


def export(
    module: nn.Module,
    args: Mapping[str, torch.Tensor],
    path: Path,
    *,
    outputs: Sequence[str],
    dims: Mapping[str, tuple[int, int]],
    axes: Mapping[str, Sequence[str | None]],
    opset: int = 20,
) -> None:
    """Export through torch.export; `axes` names each input's symbolic dims, None being static."""
    symbols = {name: torch.export.Dim(name, min=low, max=high) for name, (low, high) in dims.items()}
    shapes = {name: {i: symbols[axis] for i, axis in enumerate(axes[name]) if axis} for name in args}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            module.eval(),
            kwargs=dict(args),
            input_names=list(args),
            output_names=list(outputs),
            dynamic_shapes=shapes,
            opset_version=opset,
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    program.save(str(path), include_initializers=True, external_data=False)
    _rename_dims(path, axes)


def export_torchscript(module: nn.Module, image: torch.Tensor, path: Path, *, opset: int) -> None:
    """Export by tracing, unfolded: Constant nodes, shape arithmetic, unfused batch norms."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module.eval(),
            (image,),
            str(path),
            input_names=["image"],
            output_names=["logits"],
            dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}},
            opset_version=opset,
            dynamo=False,
            do_constant_folding=False,
            training=torch.onnx.TrainingMode.PRESERVE,
        )


def import_torchvision() -> types.ModuleType:
    """Import torchvision, also where its C++ operators are missing."""
    try:
        return importlib.import_module("torchvision")
    except RuntimeError:  # operator torchvision::nms does not exist
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _KEPT_ALIVE.append(library)
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        return importlib.import_module("torchvision")


def import_transformers() -> types.ModuleType:
    """Import transformers, which imports torchvision if it is there."""
    if importlib.util.find_spec("torchvision") is not None:
        import_torchvision()
    return importlib.import_module("transformers")


_KEPT_ALIVE: list[torch.library.Library] = []  # schemas live as long as their library object


def _rename_dims(path: Path, axes: Mapping[str, Sequence[str | None]]) -> None:
    """Give the graph inputs the declared names where the exporter chose its own."""
    model = onnx.load(path)
    renamed: dict[str, str] = {}
    for info in model.graph.input:
        for dim, axis in zip(info.type.tensor_type.shape.dim, axes[info.name], strict=True):
            if axis and dim.dim_param and dim.dim_param != axis:
                renamed[dim.dim_param] = axis
    if renamed:
        for info in _infos(model):
            for dim in info.type.tensor_type.shape.dim:
                dim.dim_param = renamed.get(dim.dim_param, dim.dim_param)
        onnx.save(model, path)


def _infos(model: onnx.ModelProto) -> Iterable[onnx.ValueInfoProto]:
    yield from model.graph.input
    yield from model.graph.output
    yield from model.graph.value_info


def as_torch(feeds: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """Numpy inputs as torch tensors."""
    return {name: torch.from_numpy(value) for name, value in feeds.items()}
