"""Artifacts whose program (signature, plan, kernels, tables, host code) is another one, with right digests: looked at
and bound, not run, as code with right digests is trusted."""

from __future__ import annotations

import random

from graphfuse.runtime import gfx
from graphfuse.runtime.bound import Template
from tests.fuzzing.artifacts import SEEDS, rewritten
from tests.fuzzing.support import command, mutate_json

LOOKS = (["inspect"], ["inspect", "--json"], ["inspect", "--html", "made"])


def case(seed, folder):
    rng = random.Random(seed)
    path = folder / "m.gfx"
    path.write_bytes(rewritten(rng.choice(SEEDS), {"program": lambda tree: mutate_json(rng, tree)}))
    if rng.random() < 0.5:
        return bound(rng, path)
    verb, *options = rng.choice(LOOKS)
    return command(folder, [verb, str(path), *(str(folder / o) if o == "made" else o for o in options)])


def bound(rng, path):
    """Every number of a plan, at some sizes."""
    loaded = gfx.load(path)
    for executable in (loaded, *loaded.parts):
        if executable.host is not None:
            continue
        size = rng.choice([0, 1, 2, 7, 1 << 20, 1 << 31])
        values = {name: min(max(low, size), high) for name, low, high in executable.signature.dims}
        Template(executable, [0] * len(executable.weights)).bind(values, [0] * len(executable.kernels), 2)
    return "bound"
