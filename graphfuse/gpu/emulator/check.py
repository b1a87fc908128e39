"""Anyone's PTX on the emulator: a launch with every access checked, and its results beside a reference in numpy."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from graphfuse.artifact import Array
from graphfuse.errors import FileError, GraphfuseError, Loc, UsageError
from graphfuse.findings import About, Finding, finding_of
from graphfuse.gpu.emulator.emulator import Emulator
from graphfuse.gpu.emulator.parse import Kernel
from graphfuse.gpu.emulator.report import Report
from graphfuse.gpu.emulator.tensormap import Buffer

Reference = Callable[..., object]
"""Called with copies of all arguments in order; what it leaves in the arrays is what the kernel has to."""
TOLERANCES = {8: 1e-9, 4: 1e-4, 2: 2e-2, 1: 0.2}
"""By the bytes of a float: errors allowed, as a part of the element or of the array's standard deviation."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A launch of a kernel: sizes of the grid, a block and a cluster, and what it is given.

    `arguments` has arrays and numbers by the names of parameters; elements of arrays in `empty` were written by nobody.
    """

    kernel: str
    grid: Sequence[int]
    block: Sequence[int]
    arguments: Mapping[str, Any]
    empty: frozenset[str] = frozenset()
    cluster: Sequence[int] = ()
    shared_bytes: int = 0


@dataclass(frozen=True)
class Checked:
    """What was found, what a run did, and the arrays as it left them."""

    findings: list[Finding]
    report: Report | None
    arguments: Mapping[str, Any]

    @property
    def is_wrong(self) -> bool:
        """Whether there is more than notes."""
        return not all(f.is_note for f in self.findings)


def kernel_of(emulator: Emulator, name: str) -> Kernel:
    """The kernel of this name, or the only one. Raises UsageError."""
    kernels = emulator.module.kernels
    if name in kernels or (not name and len(kernels) == 1):
        return kernels[name or next(iter(kernels))]
    raise UsageError(f"--kernel: expected one of {', '.join(kernels) or 'none'}, found {name or 'nothing'}")


def check_ptx(
    emulator: Emulator, launch: Launch, reference: Reference | None = None, tolerance: float | None = None
) -> Checked:
    """Run it once. Without a `tolerance` that of `TOLERANCES` holds; integers have to be equal."""
    given = {n: _copy(v) for n, v in launch.arguments.items()}
    values = [Buffer(v, n not in launch.empty, n) if _is_array(v) else v for n, v in given.items()]
    try:
        report = emulator.launch(
            launch.kernel, launch.grid, launch.block, values, shared_bytes=launch.shared_bytes, cluster=launch.cluster
        )
    except GraphfuseError as e:
        return Checked([finding_of(e)], None, given)
    found = list(report.notes)
    if reference is not None:
        wanted = {n: _copy(v) for n, v in launch.arguments.items()}
        try:
            reference(*wanted.values())
        except Exception as e:
            raise UsageError(f"the reference raised {type(e).__name__}: {e}") from e
        for name, got in given.items():
            found += compared(name, got, wanted[name], tolerance) if _is_array(got) else []
    return Checked(found, report, given)


def _copy(value: Any) -> Any:
    return value.copy() if _is_array(value) else value


def _is_array(value: Any) -> TypeGuard[Array]:
    return isinstance(value, np.ndarray)


def compared(name: str, got: Array, want: Array, tolerance: float | None = None) -> list[Finding]:
    """The first element that is too far off, and how many are."""
    if got.dtype.kind in "iub":
        wrong, how = got != want, "differ"
    else:
        part = TOLERANCES[got.dtype.itemsize] if tolerance is None else tolerance
        found, exact = got.astype(np.float64), want.astype(np.float64)
        finite = exact[np.isfinite(exact)]
        room = part * np.maximum(np.abs(exact), float(finite.std()) if finite.size else 0.0)
        with np.errstate(invalid="ignore"):
            near = (np.abs(found - exact) <= room) | (found == exact) | (np.isnan(found) & np.isnan(exact))
        wrong, how = ~near, f"are off by more than {part:g}"
    if not wrong.any():
        return []
    at, count = int(np.argmax(wrong.reshape(-1))), int(wrong.sum())
    numbers = f"found {got.reshape(-1)[at]}, expected {want.reshape(-1)[at]}"
    what = f"element {at} of {name}: {numbers}; {count} of {got.size} {how}"
    return [Finding(what, About("result", name, at))]


def read_reference(path: Path) -> Reference:
    """The function `reference` of a Python file, which is run. Raises FileError, UsageError."""
    spec = importlib.util.spec_from_file_location("graphfuse_reference", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileError("expected a file of Python with a function `reference`", Loc(str(path)))
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as e:
        raise UsageError(f"the file raised {type(e).__name__}: {e}", Loc(str(path))) from e
    found = getattr(module, "reference", None)
    if not callable(found):
        raise UsageError("expected a function `reference(...)` of all arguments", Loc(str(path)))
    return found
