"""What every test of the backend begins with."""

import gc

import pytest


@pytest.fixture(scope="session")
def torch():
    """Torch, with all that compiling imports and keeps: no collection of garbage need look at it again."""
    torch = pytest.importorskip("torch")
    # it empties the processor's caches to measure what it only logs: a tenth of the time of a small graph
    pytest.importorskip("torch._dynamo.guards").profile_guard_manager = lambda *_: 0.0
    torch.compile(lambda x: x + 1, backend="graphfuse")(torch.ones(3))
    gc.collect()
    gc.freeze()
    return torch


@pytest.fixture(autouse=True)
def fresh(torch):
    """Nothing is compiled yet, and torch's cache has nothing: a test looks at what is compiled."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch._functorch.config.patch(enable_autograd_cache=False):
        yield
