"""Artifacts with a few bytes wrong in them, by the command line; some with digests that are right all the same.

Where digests are right nothing is run: code with right digests is trusted (SECURITY.md).
"""

from __future__ import annotations

import random

from tests.fuzzing.artifacts import SEEDS, with_digests
from tests.fuzzing.support import command, mutate_bytes

LOOKS = (["inspect"], ["inspect", "--json"], ["verify", "--no-regions"], ["run", "--random"])


def case(seed, folder):
    rng = random.Random(seed)
    path = folder / "m.gfx"
    data = mutate_bytes(rng, rng.choice(SEEDS))
    verbs = LOOKS
    if rng.random() < 0.3:
        data, verbs = with_digests(data), LOOKS[:2]
    path.write_bytes(data)
    verb, *options = rng.choice(verbs)
    return command(folder, [verb, str(path), *options])
