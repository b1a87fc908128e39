"""A graph compiled for any sizes raises where eager torch does, and computes what it does, also for sizes of 1."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from dataclasses import fields

import pytest
import torch

from graphfuse.frontends.fx import ops
from graphfuse.frontends.fx.lowering import LOWERINGS, groups_of, name_of
from tests.fuzzing.runner import FOUND
from tests.torch.fitting import REACHED, UNREACHED, overloads

CASES = {
    "add": (lambda x, y: x + y, [(4, 5), (4, 5)], [[(4, 1), (4, 5)], [(1, 5), (4, 5)], [(3, 5), (4, 5)]]),
    "matmul": (torch.matmul, [(2, 4, 5), (2, 5, 3)], [[(1, 4, 5), (2, 5, 3)], [(2, 4, 6), (2, 5, 3)]]),
    "cat": (lambda x, y: torch.cat([x, y]), [(4, 5), (3, 5)], [[(1, 5), (3, 5)], [(4, 1), (3, 5)]]),
    "view": (lambda x: x.view(-1, 4) + 1, [(8, 3)], [[(4, 1)], [(7, 3)]]),
    "conv1d": (torch.conv1d, [(2, 3, 9), (4, 3, 3)], [[(2, 2, 9), (4, 3, 3)], [(2, 3, 2), (4, 3, 3)]]),
    "where": (lambda c, x, y: torch.where(c > 0, x, y), [(5,), (5,), (5,)], [[(1,), (5,), (5,)], [(5,), (4,), (5,)]]),
    "layer_norm": (
        lambda x, w: torch.nn.functional.layer_norm(x, (5,), w), [(4, 5), (5,)], [[(4, 6), (5,)], [(1, 5), (5,)]],
    ),
    "topk": (lambda x: x.topk(3)[0], [(8,)], [[(3,)], [(2,)]]),
    "expand": (lambda x: x.expand(4, 6) * 2, [(1, 6)], [[(4, 6)], [(3, 6)]]),
    "glu": (torch.nn.functional.glu, [(4, 6)], [[(4, 7)], [(1, 2)]]),
    "reflection": (lambda x: torch.nn.functional.pad(x, (3, 3), mode="reflect"), [(2, 9)], [[(2, 3)], [(2, 4)]]),
    "max_pool1d": (lambda x: torch.nn.functional.max_pool1d(x, 5), [(2, 9)], [[(2, 4)], [(2, 5)]]),
    "einsum": (lambda x, y: torch.einsum("bij,bjk->bik", x, y), [(2, 4, 5), (2, 5, 3)],
               [[(1, 4, 5), (2, 5, 3)], [(2, 4, 5), (2, 4, 3)]]),
    "attention": (torch.nn.functional.scaled_dot_product_attention, [(1, 2, 6, 8), (1, 2, 7, 8), (1, 2, 7, 8)],
                  [[(1, 2, 6, 8), (1, 2, 7, 8), (1, 2, 5, 8)], [(1, 2, 1, 8), (1, 2, 1, 8), (1, 2, 1, 8)]]),
}  # fmt: skip
QUICK = ("add", "cat")


def same_as_eager(name):
    fn, fits, others = CASES[name]
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend="graphfuse", dynamic=True)
    for shapes in (fits, *others):
        args = [torch.randn(s, generator=torch.Generator().manual_seed(i)) for i, s in enumerate(shapes)]
        try:
            want = fn(*args)
        except (RuntimeError, IndexError):
            with pytest.raises((RuntimeError, IndexError)):  # dynamo's errors are RuntimeErrors
                compiled(*args)
        else:
            torch.testing.assert_close(compiled(*args), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", QUICK)
def test_sample(name):
    same_as_eager(name)


@pytest.mark.full
@pytest.mark.parametrize("name", [n for n in CASES if n not in QUICK])
def test_every_family(name):
    same_as_eager(name)


def fitting(*arguments):
    """The summary of `python -m tests.torch.fitting`, which finds nothing."""
    # a process of its own: what this one has imported and started would be in each child
    command = [sys.executable, "-m", "tests.torch.fitting", *arguments]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    findings = [line for line in found.stdout.splitlines() if f'"{FOUND}' in line]
    assert found.returncode == 0, "\n".join(findings)[:6000] + found.stderr[-2000:]
    return json.loads(found.stdout.splitlines()[-1])


def test_lowerings_take_the_arguments_of_their_operators():
    assert ops
    for overload, lowering in LOWERINGS.items():
        fn = inspect.unwrap(lowering)
        names = {name_of(a.name) for a in overload._schema.arguments}
        for group, kind in groups_of(fn).items():
            names = names - {f.name for f in fields(kind)} | {group}
        if "axis" in fn.__annotations__:
            names = names - {"dim"} | {"axis"}
        inspect.signature(fn).bind_partial(None, **dict.fromkeys(names))


def test_every_lowering_has_a_case():
    own = {str(o) for o, fn in LOWERINGS.items() if inspect.unwrap(fn).__module__.startswith(ops.__name__)}
    missing = own - {name for names in REACHED.values() for name in names} - overloads().keys() - UNREACHED.keys()
    assert len(own) > 100
    assert not missing, "say what comes to it: a sample in fitting.json, or arguments in `overloads` of fitting.py"


def test_some_operators():
    found = fitting("--count", "1", "--only", "index_")
    assert found["outcomes"] == {"fits": 1}
    assert found["counts"]["refused"] >= 1


@pytest.mark.full
def test_every_lowering():
    found = fitting("--count", "lowerings", "--draws", "4")
    assert not found["missing"]
    assert found["counts"]["refused"] > 100
