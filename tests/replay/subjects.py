"""What is recorded: every model of `models` and every kernel of its gallery and seeds, for three targets."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import graphfuse
import models
from graphfuse.artifact import Executable
from graphfuse.knobs import Options
from tests.kernels import products, test_gallery, test_seeds
from tests.kernels.products import Case
from tests.kernels.running import Job

TARGETS = ("cpu:x86-64-v3", "cuda:sm_80", "cuda:sm_90a")
"""Named, so that two machines record the same."""
PRECISIONS: dict[str, Options] = {"f32": Options(), "f16": Options(precision="f16")}
KERNELS: dict[str, Mapping[str, Callable[[], Job | Case]]] = {
    "gallery": test_gallery.SMALL,
    "products": products.SMALLEST,
    "seeds": test_seeds.SMALL,
}


@dataclass(frozen=True)
class Subject:
    """Something that is compiled for a target; `make` compiles it, or returns why this machine cannot."""

    name: str
    make: Callable[[], Executable | str]

    def stages(self) -> dict[str, bytes] | str:
        """Each stage, in the order in which they are made: texts, then objects. Or why there are none."""
        made = self.make()
        return made if isinstance(made, str) else dict(_stages(made))


def _stages(executable: Executable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    for i, part in enumerate(executable.parts):
        yield from _stages(part, f"{prefix}part {i}, ")
    for stage, text in executable.ir.items():
        yield prefix + stage, text.encode()
    for code in executable.code.values():
        if code.ptx:  # its cubin is another program's
            yield f"{prefix}ptx", code.ptx.encode()
        else:
            yield f"{prefix}object", code.object


def subjects(*, full_size: bool) -> Iterator[Subject]:
    """All of them, models first."""
    names = [*models.names(), *models.quantised(), *models.with_host_code()]
    for name, target, (precision, options) in itertools.product(names, TARGETS, PRECISIONS.items()):
        if precision == "f32" or target != TARGETS[0]:
            yield Subject(f"{name} {target} {precision}", _model(name, target, options, small=not full_size))
    for (group, jobs), target in itertools.product(KERNELS.items(), TARGETS):
        for name, job in jobs.items():
            yield Subject(f"{group}: {name} {target}", _kernel(job, target))


def _model(name: str, target: str, options: Options, *, small: bool) -> Callable[[], Executable | str]:
    def make() -> Executable | str:
        try:
            path = models.cached(name, small=small)
        except ImportError as e:
            return f"building it needs {e.name}"
        compiled = graphfuse.compile(path, target=target, dims=models.get(name).DIMS, options=options, device="cpu")
        return compiled.executable

    return make


def _kernel(job: Callable[[], Job | Case], target: str) -> Callable[[], Executable]:
    def make() -> Executable:
        made = job()
        return made.kernel().compile(target, len(made.grid))

    return make
