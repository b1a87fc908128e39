"""What the forward kept is written over by the backward, unless that may run again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from benchmarks.emulated_torch import emulated
from benchmarks.population_waits import Told
from graphfuse.fusion.regions import write_over
from graphfuse.runtime import pieces
from graphfuse.torch import compiled_part


class Counted:
    """Counts the tensors that are taken for others."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return tensor


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    """Small tensors are worth it, on the emulator."""
    counted = Counted()
    monkeypatch.setattr(compiled_part, "LEAST_LAUNCHES", 1)
    monkeypatch.setattr(pieces, "APART_BYTES", 64)
    monkeypatch.setattr(write_over, "LEAST_BYTES", 64)
    monkeypatch.setattr(compiled_part, "_itself", counted)
    with emulated():
        yield counted


def loss(h: torch.Tensor, w: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(h @ w, target)


def gradients(of: torch.Tensor, *leaves: torch.Tensor, again: bool) -> tuple[torch.Tensor, ...]:
    return torch.autograd.grad(of, leaves, retain_graph=again)


def test_logits_become_their_gradient(taken: Counted) -> None:
    told = Told()
    h, w = torch.randn(48, 32, requires_grad=True), torch.randn(32, 77, requires_grad=True)
    target = torch.randint(0, 77, (48,))
    compiled = torch.compile(loss, backend=told.backend(), dynamic=False)
    want = gradients(loss(h, w, target), h, w, again=False)
    total = compiled(h, w, target)
    for again, count in ((True, 0), (True, 0), (False, 1)):
        found = gradients(total, h, w, again=again)
        assert taken.count == count, "only what runs once writes over what it reads"
        torch.testing.assert_close(found, want)
    assert [p.overwrites for p in told.parts] == [False, True]


@pytest.mark.parametrize("large", [False, True])
def test_few_launches_with_large_tensors_between(taken: Counted, monkeypatch: pytest.MonkeyPatch, large: bool) -> None:
    monkeypatch.setattr(compiled_part, "LEAST_LAUNCHES", 64)
    monkeypatch.setattr(compiled_part, "LARGE_BYTES", 4 * 48 * 77 if large else 1 << 30)
    told = Told()
    h, w = torch.randn(48, 32, requires_grad=True), torch.randn(32, 77, requires_grad=True)
    target = torch.randint(0, 77, (48,))
    compiled = torch.compile(loss, backend=told.backend(), dynamic=False)
    found = gradients(compiled(h, w, target), h, w, again=False)
    torch.testing.assert_close(found, gradients(loss(h, w, target), h, w, again=False))
    assert taken.count == large
    assert [p.in_pieces for p in told.parts] == [False, large]


def test_what_is_returned_is_not_written_over(taken: Counted) -> None:
    told = Told()
    h, w = torch.randn(16, 32, requires_grad=True), torch.randn(32, 40, requires_grad=True)

    def both(h: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = h @ w
        return y, y.softmax(1)

    y, p = torch.compile(both, backend=told.backend(), dynamic=False)(h, w)
    before = y.clone(), p.clone()
    found = gradients((y * p).sum(), h, w, again=False)
    eager = both(h, w)
    torch.testing.assert_close(found, gradients((eager[0] * eager[1]).sum(), h, w, again=False))
    torch.testing.assert_close((y, p), before, rtol=0, atol=0)
