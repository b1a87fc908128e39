"""Triton-C that was changed a little, and compiled: for this CPU, or to PTX. Nothing is launched."""

from __future__ import annotations

import random
from pathlib import Path

from graphfuse.frontends.tc import SourceError, compile_text
from graphfuse.kernels.kernel import Kernel
from graphfuse.kernels.specialise import Facts, specialised
from graphfuse.llvm.host import parse_target
from tests.fuzzing.kinds.tc import mutated

TARGETS = [parse_target(t) for t in ("cpu", "cpu", "cpu", "cuda:sm_80", "cuda:sm_90a")]
SIZES = ("16", "32", "64", "3", "1", "8")


def case(seed: int, folder: Path) -> str:
    rng = random.Random(seed)
    kernels: list[Kernel] = []
    for _ in range(20):  # most of them mean nothing
        text, defines = mutated(rng, most=2)
        defines = {k: rng.choice(SIZES) if v.isdigit() and rng.random() < 0.2 else v for k, v in defines.items()}
        try:
            found = compile_text(text, str(folder / "k.tc"), defines)
        except SourceError:
            continue
        kernels = [Kernel(f.func, defines) for f in found]
        break
    if not kernels:
        return "refused"
    kernel, target = rng.choice(kernels), rng.choice(TARGETS)
    facts = tuple((rng.choice([1, 4, 16]) if not p.is_pointer else 16, rng.random() < 0.5) for p in kernel.parameters)
    axes = rng.randint(1, 3)
    specialised(kernel.func, kernel.parameters, Facts(axes, facts))
    kernel.stage_text("asm" if target.kind == "cpu" else "ptx", target, axes)
    return target.kind
