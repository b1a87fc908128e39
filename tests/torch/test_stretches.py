"""Graphs that cannot be recorded as a whole are cut into stretches; on a CPU nothing is recorded, but all else runs."""

import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from graphfuse.torch import saved as saving  # noqa: E402
from graphfuse.torch import stretches  # noqa: E402
from graphfuse.torch.compile import compile_graph  # noqa: E402
from graphfuse.torch.options import TorchOptions  # noqa: E402


def mask_between(x, w):
    y = torch.softmax(x @ w, -1)
    return y, y[y > 0.1], (y * 2).sum(0)


def two_of_one(x, w):
    values, places = torch.topk((x @ w).exp(), 2)
    found = values.nonzero()
    return values.tanh(), places + 1, found, (w.t() @ values[:, :1].expand(-1, 3).t()[:, :4].t().relu()).sum()


def writes(x, w):
    y = (x @ w).relu()
    x.copy_(y[:, : x.shape[1]] * 2)
    return y.sum(-1), y.nonzero()


def chooses(x, w):
    y = torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
    return (y @ w).tanh(), torch.cond(y.sum() > 0, torch.cos, torch.sin, (y,))


def all_of_it(x, w):
    return (torch.softmax(x @ w, -1),)


CASES = {  # function, inputs that never move, how many stretches, numbers of the inputs that they read and write
    "a mask between": (mask_between, (1,), 1),
    "several results": (two_of_one, (1,), 2),
    "an input is changed": (writes, (1,), 1),
    "an input that never moves is changed": (writes, (0, 1), 2),
    "a choice": (chooses, (1,), 2),
    "nothing is in the way": (all_of_it, (), 1),
}


@pytest.fixture
def recordings(monkeypatch):
    """What is recorded, each with what it is called with; all of it runs as it is."""
    out = []

    def recorded(run, recording, count):
        def call(inputs):
            assert len(inputs) == count
            out.append((recording, list(inputs)))
            return run(inputs)

        return call

    monkeypatch.setattr(saving, "recorded", recorded)
    monkeypatch.setattr(stretches, "LEAST_LAUNCHES", 1)
    return out


@pytest.mark.some(6)
@pytest.mark.parametrize("mode", ["real", "symbolic"])
@pytest.mark.parametrize("name", CASES)
def test_stretches_compute_what_the_graph_does(name, mode, recordings):
    fn, static, count = CASES[name]
    torch.manual_seed(0)
    given = [torch.randn(5, 4), torch.randn(4, 6)]
    gm = make_fx(torch.func.functionalize(fn, remove="mutations_and_views"), tracing_mode=mode)(*given)
    want = fn(*(mine := [t.clone() for t in given]))
    module, how = stretches.in_stretches(
        compile_graph(gm, TorchOptions()).module, "inference", static, torch.device("cpu")
    )
    run = saving.saved(module, stretches=how)
    for _ in range(2):
        here = [t.clone() for t in given]
        recordings.clear()
        got = run(list(here))
        torch.testing.assert_close(tuple(got), want)
        torch.testing.assert_close(here, mine)
        assert len(recordings) == count
    for recording, inputs in recordings:
        assert all(any(inputs[i] is here[j] for j in static) for i in recording.static)
        assert set(recording.mutated) <= set(recording.static)
        assert all(isinstance(v, torch.Tensor) != (i in recording.numbers) for i, v in enumerate(inputs))


def test_few_launches_are_not_recorded(recordings, monkeypatch):
    monkeypatch.setattr(stretches, "LEAST_LAUNCHES", 50)
    gm = make_fx(all_of_it)(torch.randn(5, 4), torch.randn(4, 6))
    _, how = stretches.in_stretches(compile_graph(gm, TorchOptions()).module, "inference", (), torch.device("cpu"))
    assert not how
