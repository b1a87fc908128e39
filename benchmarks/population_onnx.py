"""A case's module exported to ONNX, as graphfuse and ONNX Runtime run it side by side."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.population_waits import Told

SIDES = ("graphfuse", "onnxruntime")


def exported(module: Any, given: list[Any], folder: str) -> Path:
    """The module's file, at the shapes that are given."""
    import torch

    path = Path(folder, "case.onnx")
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        names = [f"in_{i}" for i, _ in enumerate(given)]
        how: dict[str, Any] = {"dynamo": True, "external_data": False, "verbose": False}
        torch.onnx.export(module.eval(), tuple(given), str(path), input_names=names, **how)
    return path


def loaded(side: str, path: Path, threads: int, told: Told) -> Callable[..., list[Any]]:
    """A function of the inputs' tensors."""
    import torch

    import graphfuse
    from benchmarks.cpu_models import onnxruntime_runner

    if side == "graphfuse":
        model = graphfuse.compile(path, threads=threads)
        parts = [model.session] if model.executable.host is None else []
        parts = [SimpleNamespace(executable=p.executable, _home=p) for p in parts]
        told.graphs.append(("onnx", SimpleNamespace(parts=parts, cut=SimpleNamespace(reasons={}))))
        run: Callable[..., Any] = model
    else:
        run = onnxruntime_runner(path, threads)

    def called(*given: Any) -> list[Any]:
        feeds = {f"in_{i}": x.numpy() for i, x in enumerate(given)}
        return [torch.from_numpy(v) for v in run(feeds).values()]

    return called
