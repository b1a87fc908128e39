"""Sessions on a GPU: their caches stay there, and what they compute is what they do on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import graphfuse
from tests.onnx.state_models import CAPACITY, STATE, caches, calls, decoder

pytestmark = pytest.mark.gpu


def test_a_conversation():
    dims = {"batch": 2, "capacity": CAPACITY}
    here, there = (
        graphfuse.Session(graphfuse.compile(decoder(), state=STATE, device=device), dims) for device in ("cpu", "cuda")
    )
    for feed, _ in calls([7, 3], 3, 1, 1, 4):
        np.testing.assert_allclose(there(feed)["y"].numpy(), here(feed)["y"], rtol=2e-3, atol=2e-3)
    for name, array in here.state().items():
        np.testing.assert_allclose(there.state()[name], array, rtol=2e-3, atol=2e-3)
    forked = there.fork()
    there.reset()
    assert not any(array.any() for array in there.state().values())
    assert any(array.any() for array in forked.state().values())


def test_tensors_of_torch():
    """What is written over is the tensor that was given, recorded as a graph or not."""
    torch = pytest.importorskip("torch")
    model = graphfuse.compile(decoder(), state=STATE, device="cuda")
    (feed, _) = next(calls([5], 5))
    given = {name: torch.from_numpy(array).cuda() for name, array in feed.items()}
    state = {name: torch.from_numpy(array).cuda() for name, array in caches(1).items()}
    fresh = [model({**given, **state}) for _ in range(3)][-1]
    assert not any(x.any() for x in state.values())
    for _ in range(4):
        placed = model.session.run({**given, **state}, over=True)
        for name, x in state.items():
            assert placed[name.replace("past", "present")] is x
            assert torch.equal(x, fresh[name.replace("past", "present")])
        assert torch.equal(placed["y"], fresh["y"])
