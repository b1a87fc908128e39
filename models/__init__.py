"""Models that graphfuse must compile: one file each, written or exported on demand.

Owns the registry and the build cache. A model file defines `NAME`, `DIMS` (ranges of its symbolic
dims), `TEST_DIMS`, `build(path, small=, seed=)` and `inputs(rng, small=, **dims)`; those that need
more than numpy and onnx say so in `REQUIRES`. Quantised forms of a `SOURCE` are a list of their own: they define
`TOLERANCE`, how far ONNX Runtime is from itself where something is rounded otherwise. So are models with parts
that Python runs, which define `HOST`.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, cast

import numpy as np

__all__ = ["Model", "cached", "get", "names", "quantised", "requires", "with_host_code"]

_HERE = Path(__file__).resolve().parent
_CACHE = _HERE.parent / "build" / "models"
_DIGEST_DIGITS = 10
_SHARED = ("builder", "layers", "llama", "torch_export", "vit", "whisper")


class Model(Protocol):
    """What a model file offers."""

    NAME: str
    DIMS: dict[str, tuple[int, int]]
    TEST_DIMS: Sequence[dict[str, int]]

    def build(self, path: Path, *, small: bool = False, seed: int = 0) -> None:
        """Write the ONNX file."""
        ...

    def inputs(self, rng: np.random.Generator, *, small: bool = False, **dims: int) -> dict[str, np.ndarray]:
        """Random inputs by name, at the given symbolic dims."""
        ...


def names() -> list[str]:
    """Every model's name, sorted."""
    plain = _defining("NAME") - _defining("TOLERANCE") - _defining("HOST")  # the other files are scripts
    light = importlib.import_module("models.onnx_light")
    return sorted(plain | {f"light_{graph}" for graph in light.GRAPHS})


def quantised() -> list[str]:
    """Every quantised form's name, sorted."""
    return sorted(_defining("TOLERANCE"))


def with_host_code() -> list[str]:
    """Every model whose loops data ends, or whose shapes data decides, by name, sorted."""
    return sorted(_defining("HOST"))


@functools.cache
def _defining(constant: str) -> frozenset[str]:
    """The files that define a constant."""
    files = {path.stem: path.read_text(encoding="utf-8") for path in _HERE.glob("*.py")}
    return frozenset(name for name, text in files.items() if f"\n{constant} = " in text)


def get(name: str) -> Model:
    """Import the model called `name`."""
    known = [*names(), *quantised(), *with_host_code()]
    if name not in known:
        raise KeyError(f"unknown model '{name}'; known: {', '.join(known)}")
    if name.startswith("light_"):
        light = importlib.import_module("models.onnx_light")
        return cast("Model", light.light_model(name.removeprefix("light_")))
    return cast("Model", importlib.import_module(f"models.{name}"))


def requires(name: str) -> tuple[str, ...]:
    """Packages beyond numpy and onnx that building this model needs."""
    return tuple(getattr(get(name), "REQUIRES", ()))


def lacking(name: str) -> str:
    """Those of them that are not installed, as a list for people; not imported, which some are only after others."""
    return ", ".join(p for p in requires(name) if importlib.util.find_spec(p) is None)


def cached(name: str, *, small: bool = False, directory: Path | None = None) -> Path:
    """Build the model once into `directory` (default `build/models/`) and return its path.

    The file name carries a digest of the sources, so an edited model is rebuilt. Concurrent
    callers may both build; each replaces the file atomically, with equal contents.
    """
    model = get(name)
    small = small and not name.startswith("light_")  # of these there is one size
    folder = directory or _CACHE
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name}-small" if small else name
    path = folder / f"{stem}-{_source_digest(model)}.onnx"
    if path.exists():
        return path
    handle, scratch = tempfile.mkstemp(dir=folder, prefix=f".{name}-", suffix=".onnx")
    os.close(handle)
    try:
        model.build(Path(scratch), small=small)
        Path(scratch).replace(path)
    finally:
        Path(scratch).unlink(missing_ok=True)
    for outdated in folder.glob(f"{stem}-{'?' * _DIGEST_DIGITS}.onnx"):
        if outdated != path:
            outdated.unlink(missing_ok=True)
    return path


def _source_digest(model: Model) -> str:
    """Digest the model's file and the files that builders share."""
    own = Path(str(getattr(model, "__file__", _HERE / "onnx_light.py")))
    digest = hashlib.sha256()
    made_of = getattr(model, "SOURCE", None)
    further = [] if made_of is None else [Path(made_of.__file__), _HERE / "_quantize.py"]
    for source in [own, *further, *(_HERE / f"_{shared}.py" for shared in _SHARED)]:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:_DIGEST_DIGITS]
