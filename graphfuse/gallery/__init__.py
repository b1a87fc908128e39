"""The gallery: kernels in Triton-C to read and to begin with, a small model, and inputs for it.

The files are `models/kernels` and two of `models` in the repository; the build puts them into this folder. Knows of
paths alone: what is in a file is for `graphfuse.kernel` and `graphfuse.compile`.
"""

from __future__ import annotations

import difflib
from pathlib import Path

from graphfuse.errors import UsageError

_HERE = Path(__file__).parent
_REPOSITORY = _HERE.parents[1] / "models"
_MODEL = ("digits.npy", "digits.onnx")


def files() -> dict[str, Path]:
    """Every file by its name, such as `softmax.tc` or `seeds/matmul.tc`."""
    packaged = (_HERE / _MODEL[0]).exists()
    kernels, models = (_HERE, _HERE) if packaged else (_REPOSITORY / "kernels", _REPOSITORY)
    found = {str(p.relative_to(kernels).as_posix()): p for p in sorted(kernels.rglob("*.tc"))}
    return {**{name: models / name for name in _MODEL}, **found}


def path(name: str) -> Path:
    """Where a file of the gallery is; raises UsageError."""
    found = files()
    if name not in found:
        close = difflib.get_close_matches(name, found, 1, 0.7)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise UsageError(f"{name!r} is not in the gallery: expected a name that `graphfuse gallery` lists{hint}")
    return found[name]
