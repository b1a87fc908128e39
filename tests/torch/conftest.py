"""What every test of the backend begins with."""

import pytest


@pytest.fixture(autouse=True)
def fresh():
    """Nothing is compiled yet, and torch's cache has nothing: a test looks at what is compiled."""
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch._functorch.config.patch(enable_autograd_cache=False):
        yield
