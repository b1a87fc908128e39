"""Mutated artifacts give GraphfuseErrors, or run; nothing else."""

from __future__ import annotations

import random

import pytest

from graphfuse.errors import GraphfuseError
from graphfuse.runtime import gfx
from graphfuse.runtime.binding import Binder
from graphfuse.runtime.bound import Template
from graphfuse.runtime.session import Session
from tests.fuzzing.support import mutate_bytes, mutate_json
from tests.runtime.sample import executable, inputs

CASES = [pytest.param(200, id="200"), pytest.param(2000, id="2000", marks=pytest.mark.full)]


@pytest.mark.parametrize("count", CASES)
def test_mutated_bytes(tmp_path, count):
    path = tmp_path / "m.gfx"
    gfx.save(executable(), path)
    data = path.read_bytes()
    refused = 0
    for seed in range(count):
        path.unlink()  # a new inode: the old one may still be mapped
        path.write_bytes(mutate_bytes(random.Random(seed), data))
        try:
            loaded = gfx.load(path)
            assert len(loaded.ir) >= 0 and len(loaded.ledger) >= 0
            Session(loaded, 1).run(inputs(2))
            gfx.verify(path)
        except GraphfuseError as e:
            assert "\n" not in str(e)
            refused += 1
    assert refused > count * 0.8


@pytest.mark.parametrize("count", CASES)
def test_mutated_plans_with_good_digests(tmp_path, monkeypatch, count):
    """The digests are right here, so only the rules stand between a plan and native code.

    Bound and not run: a plan inside the rules may still give its kernels wrong numbers, and the
    artifact's code is trusted by whoever runs it.
    """
    part, path = gfx._json_part, tmp_path / "m.gfx"
    source, rng = executable(), random.Random(0)

    def mutated(name, value, pack=False):
        if name != "program":
            return part(name, value, pack)
        return part(name, mutate_json(rng, value), pack)

    monkeypatch.setattr(gfx, "_json_part", mutated)
    refused = bound = 0
    for seed in range(count):
        rng.seed(seed)
        path.unlink(missing_ok=True)
        gfx.save(source, path)
        try:
            loaded = gfx.load(path)
            feed = inputs(3)
            values = Binder(loaded.signature).bind([a.shape for a in Binder(loaded.signature).arrays(feed)])
            Template(loaded).bind(values, [0] * len(loaded.kernels), 2)
            bound += 1
        except GraphfuseError as e:
            assert "\n" not in str(e)
            refused += 1
    assert refused > count * 0.4 and bound > count * 0.02
