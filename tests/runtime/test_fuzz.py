"""Mutated artifacts give GraphfuseErrors, or run; nothing else."""

from __future__ import annotations

import copy
import random

import pytest

from graphfuse.errors import GraphfuseError
from graphfuse.runtime import gfx
from graphfuse.runtime.binding import Binder
from graphfuse.runtime.bound import Template
from graphfuse.runtime.session import Session
from tests.runtime.sample import executable, inputs

CASES = [pytest.param(200, id="200"), pytest.param(2000, id="2000", marks=pytest.mark.full)]


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flip, overwrite, cut, insert or repeat a few bytes anywhere."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 3, 10])):
        at = rng.randrange(len(out)) if out else 0
        match rng.randrange(5):
            case 0 if out:
                out[at] ^= 1 << rng.randrange(8)
            case 1 if out:
                out[at] = rng.randrange(256)
            case 2:
                del out[at : at + rng.choice([1, 7, 64, 4096])]
            case 3:
                out[at:at] = rng.randbytes(rng.choice([1, 8, 64]))
            case _:
                out[at : at + 8] = rng.choice([b"\xff" * 8, bytes(8), rng.randbytes(8)])
    return bytes(out)


@pytest.mark.parametrize("count", CASES)
def test_mutated_bytes(tmp_path, count):
    path = tmp_path / "m.gfx"
    gfx.save(executable(), path)
    data = path.read_bytes()
    refused = 0
    for seed in range(count):
        path.unlink()  # a new inode: the old one may still be mapped
        path.write_bytes(mutate_bytes(data, random.Random(seed)))
        try:
            loaded = gfx.load(path)
            assert len(loaded.ir) >= 0 and len(loaded.ledger) >= 0
            Session(loaded, 1).run(inputs(2))
            gfx.verify(path)
        except GraphfuseError as e:
            assert "\n" not in str(e)
            refused += 1
    assert refused > count * 0.8


VALUES = [
    -1, 0, 1, 2, 63, 64, 2**31, 2**62, 2**63, 10**30, 1.5, True, None, "", "n", "m", "i", "n - 5", "3*n",
    "floordiv(n, 0)", "floordiv(n, n - 3)", "mod(n, n - 3)", "n*n*n*n*n*n*n*n*n*n*n*n*n*n*n*n*n*n*n*n*n",
    "((((", "add", "scale_row", "input", "arena", "output", "f32", "i4", [], {}, [0, 0], ["n"], "é" * 3000,
]  # fmt: skip


def mutate_json(tree, rng: random.Random):
    """Replace, drop, repeat or swap a value somewhere."""
    tree = copy.deepcopy(tree)
    places = []
    stack = [tree]
    while stack:
        node = stack.pop()
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], (dict, list)):
                stack.append(node[key])
    for _ in range(rng.choice([1, 1, 2, 4])):
        node, key = rng.choice(places)
        try:
            match rng.randrange(5):
                case 0:
                    del node[key]
                case 1 if isinstance(node, list):
                    node.insert(key, copy.deepcopy(node[key]))
                case 2:
                    other, where = rng.choice(places)
                    node[key], other[where] = other[where], node[key]
                case _:
                    node[key] = copy.deepcopy(rng.choice(VALUES))
        except (KeyError, IndexError):
            continue
    return tree


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
        while True:
            try:
                return part(name, mutate_json(value, rng), pack)
            except (ValueError, RecursionError):  # a tree that contains itself is no JSON
                continue

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
