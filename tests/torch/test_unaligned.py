"""Tensors that begin anywhere: kernels for a GPU read 16 bytes at once, those for a CPU whole elements.

What is compiled for a GPU runs on the emulator here, on CPU tensors: it refuses accesses that are not aligned.
tests/gpu/device/test_unaligned.py is the same on a GPU.
"""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402, N812

from benchmarks.emulated_torch import emulated  # noqa: E402
from graphfuse.torch.cuda_graphs import Recording, recorded  # noqa: E402
from tests.torch.support import compiled, recorded_graphs  # noqa: E402


@pytest.fixture(name="emulated")
def on_an_emulated_gpu():
    with emulated():
        yield


def shifted(x, by=1):
    """The same numbers, that many elements further on in memory."""
    room = torch.empty(x.numel() + by, dtype=x.dtype)
    out = room[by:].as_strided(x.shape, x.stride())
    return out.copy_(x)


CASES = {
    "pointwise": (lambda x: x * 2 + 1, (40, 64), torch.float32),
    "halves": (torch.tanh, (40, 64), torch.float16),
    "bytes": (lambda x: x + x, (4096,), torch.int8),
    "sum": (lambda x: x.sum(-1), (8, 512), torch.float32),
    "softmax": (lambda x: x.softmax(-1), (8, 256), torch.float16),
    "layer_norm": (lambda x: F.layer_norm(x, x.shape[-1:]), (8, 256), torch.float32),
    "cumsum": (lambda x: x.cumsum(-1), (4, 512), torch.float32),
    "permute": (lambda x: x.permute(1, 0) + 1, (64, 64), torch.float32),
    "product": (lambda x: x @ x, (64, 64), torch.float16),
}


@pytest.mark.parametrize("name", CASES)
def test_on_a_gpu(name, emulated):
    fn, shape, dtype = CASES[name]
    x = (torch.randn(shape) * 3).to(dtype)
    run = compiled(fn)
    torch.testing.assert_close(run(x), fn(x))
    for by in (1, 3):
        torch.testing.assert_close(run(shifted(x, by)), fn(x))


@pytest.mark.parametrize("name", CASES)
def test_gaps_on_a_gpu(name, emulated):
    """What lies between rows is not counted with."""
    fn, (rows, columns), dtype = CASES[name] if name != "bytes" else (CASES[name][0], (8, 512), torch.int8)
    run = compiled(fn, dynamic=False)
    for start in (0, 3):
        whole = torch.full((rows, columns + 8), 127, dtype=dtype)
        whole[:] = 127 if dtype == torch.int8 else torch.nan
        x = whole[:, start : start + columns].copy_((torch.randn(rows, columns) * 3).to(dtype))
        torch.testing.assert_close(run(x), fn(x), rtol=1e-3, atol=1e-3)


def test_what_is_changed_in_place(emulated):
    def fn(x, y):
        x.mul_(2).add_(y)
        return x.sum()

    x, y = shifted(torch.randn(64)), shifted(torch.randn(64), 2)
    expected = x.clone()
    want = fn(expected, y)
    torch.testing.assert_close(compiled(fn)(x, y), want)
    torch.testing.assert_close(x, expected)


def test_training(emulated):
    def fn(x, w):
        return torch.tanh(x * w).sum(-1)

    x, w = (shifted(torch.randn(8, 64)).requires_grad_() for _ in range(2))
    got, want = compiled(fn)(x, w), fn(x, w)
    torch.testing.assert_close(got, want)
    seed = shifted(torch.randn(8))
    torch.testing.assert_close(torch.autograd.grad(got, (x, w), seed), torch.autograd.grad(want, (x, w), seed))


def test_sizes_that_change(emulated):
    fn = compiled(lambda x: x * 2, dynamic=True)
    for n in (40, 64, 129):
        x = shifted(torch.randn(n, 4))
        torch.testing.assert_close(fn(x), x * 2)


def test_a_recording_does_not_change_a_copy(monkeypatch):
    from torch._inductor import cudagraph_trees

    monkeypatch.setattr(cudagraph_trees, "cudagraphify_impl", lambda *_, **__: lambda inputs: "replayed")
    how = Recording(0, static=(0, 1), mutated=(1,), is_backward=False, is_inference=True, outputs=1, numbers=())
    call = recorded(lambda inputs: "run", how, 2)
    x = torch.empty(8)
    assert [call([x, x]), call([x, x]), call([shifted(x), x]), call([x, shifted(x)])] == [
        "run", "replayed", "replayed", "run",
    ]  # fmt: skip


@pytest.mark.parametrize("launches", [1, 64])
def test_elements_that_begin_inside_an_element_on_a_cpu(launches, monkeypatch):
    """No load that is compiled for whole elements sees such an address, in pieces or not."""
    from graphfuse.torch import compiled_part

    monkeypatch.setattr(compiled_part, "LEAST_LAUNCHES", launches)
    x = torch.frombuffer(bytearray(4 * 64 + 1), dtype=torch.float32, offset=1)
    x.copy_(torch.randn(64))
    assert x.data_ptr() % 4
    seen, readable = [], compiled_part.readable
    monkeypatch.setattr(
        compiled_part, "readable", lambda t, mask: (seen.append((made := readable(t, mask)).data_ptr()), made)[1]
    )
    run = compiled(lambda x: x * 2 + 1)
    with recorded_graphs() as graphs:
        for _ in range(3):  # the first call loads, the second may be hastened
            torch.testing.assert_close(run(x), x * 2 + 1)
    assert [p.in_pieces for g in graphs for p in g.parts] == [launches == 1]
    assert len(seen) == 3 and not any(at % 4 for at in seen)
