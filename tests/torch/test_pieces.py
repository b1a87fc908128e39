"""Long runs in pieces: inputs that nobody holds are gone, and outputs made, as the run gets there."""

import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch")

from benchmarks.emulated_torch import emulated  # noqa: E402 - they import torch
from graphfuse.runtime import pieces  # noqa: E402
from graphfuse.torch import compiled_part  # noqa: E402
from tests.torch.support import compiled, recorded_graphs  # noqa: E402


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(compiled_part, "LEAST_LAUNCHES", 1)


def layers(count):
    block = [torch.nn.Linear(16, 16), torch.nn.LayerNorm(16), torch.nn.GELU()]
    return torch.nn.Sequential(*block * count)


@pytest.mark.parametrize("dynamic", [False, True])
def test_results_and_gradients(dynamic):
    model = layers(3)
    with recorded_graphs() as graphs:
        fn = compiled(model, dynamic=dynamic)
        for rows in (3, 7) if dynamic else (3,):
            x = torch.randn(rows, 16)
            gradients = [torch.autograd.grad(f(x).square().sum(), list(model.parameters())) for f in (model, fn)]
            torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)
    assert [p.in_pieces for g in graphs for p in g.parts] == [True, True]


def test_an_input_is_freed_once_it_was_read(monkeypatch):
    with recorded_graphs() as graphs:
        compiled(lambda *xs: [x.sum(1, keepdim=True).exp() for x in xs])(*(torch.randn(4, 4 + i) for i in range(6)))
    ((part,),) = [g.parts for g in graphs]
    inputs = [torch.randn(4, 4 + i) for i in range(6)]
    want = [x.sum(1, keepdim=True).exp() for x in inputs]
    gone, alive = [weakref.ref(x) for x in inputs], []
    empty = part._allocations[()][0][0]

    def counted(*how):
        alive.append(sum(ref() is not None for ref in gone))
        return empty(*how)

    monkeypatch.setattr(part, "_allocations", {(): [(counted, *how) for _, *how in part._allocations[()]]})
    torch.testing.assert_close(part.run(inputs), want)
    assert inputs == [] and len(set(alive)) > 1 and alive == sorted(alive, reverse=True)
    assert all(ref() is None for ref in gone)


def test_another_thread_calls_in_the_midst_of_a_call(monkeypatch):
    """Neither waits for the other, and neither writes what the other reads."""
    with recorded_graphs() as graphs:
        compiled(lambda x: (x.exp().sum(1), x.sum(0).exp()))(torch.randn(4, 6))
    ((part,),) = [g.parts for g in graphs]
    empty = part._allocations[()][0][0]
    found, (mine, *theirs) = [], (torch.randn(4, 6) for _ in range(3))

    def called(*how):
        if theirs:  # in the midst of theirs there is a third one
            other = ThreadPoolExecutor(1)  # in a `with`, one that waits for us would wait for ever
            found.append((x := theirs.pop(), other.submit(part.run, [x]).result(20)))
            other.shutdown()
        return empty(*how)

    monkeypatch.setattr(part, "_allocations", {(): [(called, *how) for _, *how in part._allocations[()]]})
    found.append((mine, part.run([mine])))
    assert len(found) == 3
    for x, got in found:
        torch.testing.assert_close(got, [x.exp().sum(1), x.sum(0).exp()])


def test_large_intermediate_tensors_come_and_go(monkeypatch):
    """On a GPU: each is there from its first launch to its last."""
    monkeypatch.setattr(pieces, "APART_BYTES", 64)
    made: list[weakref.ref] = []
    most = 0
    empty = torch.empty

    def counted(*size, **how):
        nonlocal most
        tensor = empty(*size, **how)
        made.append(weakref.ref(tensor))
        most = max(most, sum(ref() is not None for ref in made))
        return tensor

    def fn(x):
        for i in range(12):
            x = x.cumsum(i % 2).exp() / 100
        return x.sum()

    x = torch.rand(5, 7)
    with emulated(), recorded_graphs() as graphs, torch.no_grad():
        found = compiled(fn)(x)
        ((part,),) = [g.parts for g in graphs]
        monkeypatch.setattr(torch, "empty", counted)
        torch.testing.assert_close(part.run([x]), [found])
    torch.testing.assert_close(found, fn(x))
    assert len(made) > 8 and most < 5
