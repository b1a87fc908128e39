"""Artifacts whose IR or program is another one, with right digests: rebuilt, and what was rebuilt is run."""

from __future__ import annotations

import random

from tests.fuzzing.artifacts import SEEDS, mutate_json, mutate_text, rewritten
from tests.fuzzing.support import command


def case(seed, folder):
    rng = random.Random(seed)
    path, made = folder / "m.gfx", folder / "made.gfx"

    def texts(tree):
        return {name: mutate_text(rng, text) if name == "regions" else text for name, text in tree.items()}

    changes = {"ir": texts}
    if rng.random() < 0.2:
        changes = {"program": lambda tree: mutate_json(rng, tree)}
    path.write_bytes(rewritten(rng.choice(SEEDS), changes))
    outcome = command(folder, ["compile", "--recompile", str(path), "-o", str(made)], made)
    if outcome != "exit 0":
        return outcome
    return "rebuilt, " + command(folder, ["run", "--random", str(made)])
