"""What a compiled function is called with, and where from: layouts, element types, threads, processes, modes."""

import copy
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from graphfuse.errors import InputError  # noqa: E402
from graphfuse.torch import runners  # noqa: E402
from graphfuse.torch.compiled_part import CompiledPart  # noqa: E402
from tests.guarded import guarded_empty  # noqa: E402
from tests.torch.support import compiled, left_to_torch, recorded_graphs  # noqa: E402

F = torch.nn.functional


def mlp():
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Linear(32, 4))


def grads(fn, *inputs):
    leaves = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
    leaves += list(fn.parameters()) if isinstance(fn, torch.nn.Module) else []
    return torch.autograd.grad(fn(*inputs).float().square().sum(), leaves)


BASE = torch.randn(8, 6, 4)
LAYOUTS = {
    "permuted": BASE.permute(2, 0, 1),
    "every second row": BASE[::2],
    "every second column": BASE[:, :, ::2],
    "columns": BASE[:, 1:3],
    "expanded": BASE[:1].expand(5, 6, 4),
    "overlapping": torch.as_strided(BASE, (4, 5, 3), (3, 2, 1)),
    "columns turned": BASE[:, 2:5, ::3].permute(2, 0, 1),
    "last of a row": BASE.chunk(4, -1)[3],
    "rows of columns": BASE[..., 1],
    "one row": BASE[:1, :, 1:],
    "expanded columns": BASE[:, :, 1:2].expand(8, 6, 5),
    "steps that fit no row": torch.as_strided(BASE, (4, 5, 1), (13, 2, 1)),
    "one number": BASE[0, 0, :1].expand(2, 3, 7),
    "at an odd address": BASE.flatten()[1:25].view(4, 6, 1),
    "empty": BASE[:0],
}


@pytest.mark.some(15)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout, dynamic):
    def fn(x):
        return x * 2 + 1, x.sum(-1), x.exp().transpose(0, 1), torch.softmax(x, 0)

    x = LAYOUTS[layout]
    found, want = compiled(fn, dynamic=dynamic)(x), fn(x)
    torch.testing.assert_close(found, want)
    assert [y.stride() for y in found] == [y.stride() for y in want]


COPIED = ("overlapping",)


@pytest.mark.parametrize("layout", [k for k in LAYOUTS if k != "empty"])
def test_what_has_gaps_is_read_where_it_lies(layout):
    x = LAYOUTS[layout]
    with recorded_graphs() as graphs:
        compiled(torch.exp, dynamic=False)(x)
    (part,) = graphs[0].parts
    (array,) = part._arrays([x], ())[:1] if part.gapped else [x]
    assert (array.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()) == (layout in COPIED)


@pytest.mark.parametrize("at", [0, 1, 3])
def test_gaps_that_begin_elsewhere_than_when_it_was_compiled(at):
    """Nothing is read in front of an array's memory, or behind it, and gaps are not counted with."""
    run = compiled(lambda x: (x @ x.mT, x.sum(0), x * 2), dynamic=False)
    for start in (2, at):
        whole = torch.full((33, 64), torch.nan)
        x = whole.flatten()[start:].as_strided((33, 61), (64, 1))
        x.copy_(torch.randn(33, 61))
        torch.testing.assert_close(run(x), (x @ x.mT, x.sum(0), x * 2), rtol=1e-4, atol=1e-4)
    end = torch.from_numpy(guarded_empty((32 * 64 + 61,), np.float32)).as_strided((33, 61), (64, 1))
    end.copy_(x)
    torch.testing.assert_close(run(end), (x @ x.mT, x.sum(0), x * 2), rtol=1e-4, atol=1e-4)


def test_channels_last():
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)).to(
        memory_format=torch.channels_last
    )
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    found = compiled(copy.deepcopy(module))(x)
    assert found.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(found, module(x), rtol=1e-4, atol=1e-5)


def test_overlapping_inputs_that_are_changed():
    def fn(x, y):
        x.add_(1)
        y.mul_(2)
        return x + y

    ours, theirs = torch.arange(8.0), torch.arange(8.0)
    assert torch.equal(compiled(fn)(ours[:6], ours[2:]), fn(theirs[:6], theirs[2:]))
    assert torch.equal(ours, theirs)


def test_the_same_tensor_twice():
    fn, x = compiled(lambda x, y: x * 2 + y), torch.randn(4)
    assert torch.equal(fn(x, x), x * 3) and torch.equal(fn(x, x + 1), x * 2 + (x + 1))


def test_nothing_to_sum_over():
    x, w = torch.randn(3, 0), torch.randn(0, 5)
    found = compiled(lambda x, w: (x @ w + 1, x.sum(-1), x.prod()))(x, w)
    torch.testing.assert_close(found, (torch.ones(3, 5), torch.zeros(3), torch.tensor(1.0)))


EMPTY = {
    "softmax": lambda x: torch.softmax(x, -1) * 2,
    "amax of another dim": lambda x: x.amax(0),
    "moments": lambda x: (x.mean(), x.var(0), x.std(1)),
    "running, ordered": lambda x: (x.cumsum(1), x.sort(1)[0], x.flip(1), x.topk(0, 1)[1]),
    "joined": lambda x: (torch.cat([x, torch.ones(3, 2)], 1), torch.stack([x, x]), F.pad(x, (1, 2))),
    "norm": lambda x: F.layer_norm(x.t(), (3,)) + 1,
    "read and written": lambda x: (
        x[:, torch.empty(0, dtype=torch.int64)],
        torch.zeros(3, 2).index_add(1, x[0].long(), x),
    ),
    "products": lambda x: (x @ x.t(), x.t() @ x, F.linear(x.t(), torch.ones(4, 3))),
    "convolution": lambda x: F.conv2d(x.reshape(0, 3, 4, 4), torch.ones(2, 3, 3, 3)) + 1,
    "attention": lambda x: F.scaled_dot_product_attention(x.t()[None], x.t()[None], x.t()[None]) * 2,
}


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("name", EMPTY)
def test_empty(name):
    fn, ours, theirs = EMPTY[name], *(torch.empty(3, 0, requires_grad=True) for _ in range(2))
    found, want = compiled(fn)(ours), fn(theirs)
    torch.testing.assert_close(found, want, equal_nan=True)
    for x, results in ((ours, found), (theirs, want)):
        sum(y.sum() for y in (results if isinstance(results, tuple) else [results]) if y.requires_grad).backward()
        assert x.grad.shape == (3, 0)


def written(x):
    x.add_(1)
    return x * 2


REFUSED = {
    "the largest of nothing": (lambda x: x.max() + 1, torch.empty(0), "dim"),
    "the largest along a dim of nothing": (lambda x: x.amin(1) + 1, torch.empty(2, 0), "dim"),
    "the place of the largest of nothing": (lambda x: x.argmax(1) + 1, torch.empty(2, 0), "argmax"),
    "division by the number 0": (lambda x: x // 0 + 1, torch.ones(3, dtype=torch.int64), "ZeroDivision"),
    "remainder of the number 0": (lambda x: x % 0 + 1, torch.ones(3, dtype=torch.int64), "ZeroDivision"),
    "a parameter that is written to": (written, torch.ones(3, requires_grad=True), "leaf"),
    "overlapping elements that are written to": (written, torch.ones(1).expand(3), "single memory location"),
    "several devices": (lambda x: x + torch.ones(3, device="meta"), torch.ones(3), "device"),
    "sizes that differ": (lambda x: x + torch.ones(4), torch.ones(3), "broadcast|must match"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_eager_refuses_is_an_error(name):
    fn, x, message = REFUSED[name]
    with pytest.raises((RuntimeError, IndexError)):
        fn(x.detach().requires_grad_() if x.requires_grad else x)
    with pytest.raises((RuntimeError, IndexError), match=message):
        compiled(fn)(x)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_layouts_and_elements_that_only_torch_has():
    def fn(sparse, quantised, eighth, short, imaginary):
        return (
            sparse @ eighth.float()[:, None] * 2,
            quantised.dequantize() + 1,
            short.to(torch.int32) * 2,
            imaginary * 2,
        )

    inputs = (
        torch.eye(3).to_sparse(), torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8),
        torch.arange(3.0).to(torch.float8_e4m3fn), torch.arange(4).to(torch.uint16),
        torch.ones(3, dtype=torch.complex64).mul(1j).conj().imag,
    )  # fmt: skip
    assert inputs[-1].is_neg()
    torch.testing.assert_close(compiled(fn)(*inputs), fn(*inputs))


def test_what_python_decides():
    def fn(x, how):
        if x.sum() > 0:
            return x.sin() if how == "sin" else x * 3
        return x.cos() * 2

    ours = compiled(fn)
    for x in (torch.ones(3), -torch.ones(3)):
        for how in ("sin", "triple"):
            torch.testing.assert_close(ours(x, how), fn(x, how))


def test_gradients_wanted_after_compiling_without():
    fn, x = compiled(lambda x: (x * 2).sin()), torch.randn(4, requires_grad=True)
    with torch.no_grad():
        assert not fn(x).requires_grad
    torch.testing.assert_close(torch.autograd.grad(fn(x).sum(), x)[0], 2 * (2 * x.detach()).cos())


def test_numbers():
    fn, x = compiled(lambda x, a: x + a), torch.randn(3)
    for a in (np.float32(2), torch.tensor(2.0), True, 3):
        torch.testing.assert_close(fn(x, a), x + a)


@pytest.mark.some(1)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_modules_of_halves(dtype):
    module, x = mlp().to(dtype), torch.randn(3, 16, dtype=dtype)
    for ours, theirs in zip(grads(compiled(module), x), grads(module, x), strict=True):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours, theirs, rtol=5e-2, atol=5e-2)


def test_autocast():
    module, x = mlp(), torch.randn(3, 16)
    with torch.autocast("cpu", torch.bfloat16):
        found, want = compiled(module)(x), module(x)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, want, rtol=5e-2, atol=5e-2)


def test_complex_numbers_are_torchs():
    def fn(x, turns):
        z = torch.view_as_complex(x.sin().reshape(2, 3, 4, 2))
        return torch.view_as_real(z * turns).flatten(-2) * 2

    x, turns = torch.randn(2, 3, 8, requires_grad=True), torch.polar(torch.ones(3, 4), torch.randn(3, 4))
    with recorded_graphs() as graphs:
        torch.testing.assert_close(grads(compiled(fn), x, turns), grads(fn, x, turns))
    assert {"view_as_complex", "mul"} <= set(left_to_torch(graphs)) and all(g.parts for g in graphs)


def test_other_devices_are_torchs():
    with recorded_graphs() as graphs:
        ours, theirs = compiled(lambda x, y: (x + 1, torch.empty_like(y)))(
            torch.zeros(3), torch.empty(4, device="meta")
        )
    assert torch.equal(ours, torch.ones(3)) and theirs.device.type == "meta"
    assert left_to_torch(graphs) == {"empty_like": "no kernels for the device meta"}


def test_shared_parameters():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.out = torch.nn.Embedding(20, 8), torch.nn.Linear(8, 20, bias=False)
            self.out.weight = self.words.weight

        def forward(self, ids):
            return self.out(F.gelu(self.words(ids)))

    model, ids = Tied(), torch.randint(0, 20, (3, 4))
    torch.testing.assert_close(grads(compiled(model), ids), grads(model, ids))


def test_modes_of_autograd():
    fn, x = compiled(lambda x: (x * 2).sin()), torch.randn(4, requires_grad=True)
    with torch.no_grad():
        assert not fn(x).requires_grad
    with torch.inference_mode():
        assert fn(x).is_inference()
        made = torch.randn(4)
    with torch.no_grad():
        torch.testing.assert_close(fn(made), (made * 2).sin())
    y = fn(x).sum()
    y.backward(retain_graph=True)
    once = x.grad.clone()
    y.backward()
    torch.testing.assert_close(x.grad, 2 * once)


def test_subclasses():
    from torch.testing._internal.two_tensor import TwoTensor

    x = TwoTensor(torch.randn(4), torch.randn(4))
    found = compiled(lambda x: (x * 2).sin() + 1)(x)
    torch.testing.assert_close((found.a, found.b), ((x.a * 2).sin() + 1, (x.b * 2).sin() + 1))


def test_an_optimizer():
    ours, x = mlp(), torch.randn(3, 16)
    theirs = copy.deepcopy(ours)
    ours_by, theirs_by = (torch.optim.AdamW(m.parameters(), 1e-2) for m in (ours, theirs))
    step = compiled(ours_by.step)
    for _ in range(3):
        for module, optimizer, update in ((ours, ours_by, step), (theirs, theirs_by, theirs_by.step)):
            module(x).square().sum().backward()
            update()
            optimizer.zero_grad()
    torch.testing.assert_close(list(ours.parameters()), list(theirs.parameters()))


def test_threads():
    module = mlp().eval()
    fn, right, first = compiled(module), [], torch.randn(2, 16)
    # with `dynamic=True` calls of several threads would leave torch 2.11's settings dynamic for whatever comes next
    torch._dynamo.mark_dynamic(first, 0)
    with torch.no_grad():
        fn(first)  # by one thread: while torch traces, modules that others call are traced, too

    def work(rows):
        x = torch.randn(rows, 16)
        with torch.no_grad():
            want = module(x)
            right.extend(rows for _ in range(50) if torch.allclose(fn(x), want, atol=1e-5))

    threads = [threading.Thread(target=work, args=(rows,)) for rows in (3, 4, 5, 6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(right) == [rows for rows in (3, 4, 5, 6) for _ in range(50)]


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_call_while_another_thread_has_the_first_workspace(dynamic):
    module = mlp().eval()
    fn = compiled(module, dynamic=dynamic)
    with torch.no_grad():
        for x in torch.randn(4, 3, 16):
            torch.testing.assert_close(fn(x), module(x))
            with runners._shared[torch.get_num_threads()].home.lock:
                torch.testing.assert_close(fn(x + 1), module(x + 1))


class Computed(torch.utils.data.Dataset):
    def __init__(self, fn):
        self.fn = fn

    def __len__(self):
        return 8

    def __getitem__(self, i):
        with torch.no_grad():
            return self.fn(torch.full((16,), float(i)))


@pytest.mark.skipif(torch.cuda.is_available(), reason="Dynamo asks for CUDA's state, which a forked process cannot")
@pytest.mark.filterwarnings("ignore:This process")
def test_workers_that_are_forked_after_compiling():
    module = mlp().eval()
    fn = compiled(module)
    with torch.no_grad():
        fn(torch.randn(16))
        loader = torch.utils.data.DataLoader(Computed(fn), 4, num_workers=2, multiprocessing_context="fork", timeout=60)
        found = torch.cat(list(loader))
        torch.testing.assert_close(found, module(torch.arange(8.0)[:, None].expand(8, 16)))
        torch.testing.assert_close(fn(torch.ones(16)), module(torch.ones(16)))


ZEROS = {"dense": (3, 4), "a scalar": (), "empty": (0, 4)}


@pytest.mark.some(2)
@pytest.mark.parametrize("size", ZEROS.values(), ids=ZEROS)
def test_zeros_that_torch_has_no_memory_for(size):
    zeros = torch._efficientzerotensor(size)
    assert zeros._is_zerotensor() and zeros.data_ptr() == 0
    for fn in (lambda x, y: torch.relu(x + 1) * y, lambda x, y: (x.t() if x.dim() else x).exp().sum() + y.sum()):
        ours, other = compiled(fn), torch.randn(size)
        for given in ((other, other), (zeros, other), (other, zeros), (other, other)):
            torch.testing.assert_close(ours(*given), fn(*given))


def test_memory_that_was_given_back():
    ours = compiled(lambda x: x + 1)
    x = torch.ones(4)
    torch.testing.assert_close(ours(x), x + 1)
    x.untyped_storage().resize_(0)
    for _ in range(2):
        with pytest.raises(InputError, match="expected a tensor of 4 elements in memory"):
            ours(x)


def test_many_small_parts_of_all_kinds_are_called_twice():
    def fn(x, y, i):
        parts = [x + 1, torch.sort(x, -1).values * y, (x @ y.t()).softmax(-1) @ y, y[i], x.flatten()[1:] * 2]
        return [p * 2 for p in parts], torch.zeros(3), y[:0] + 1

    ours = compiled(fn)
    for _ in range(3):
        given = torch.randn(3, 80), torch.randn(5, 80)[:3], torch.tensor([2, 0])
        torch.testing.assert_close(ours(*given), fn(*given))


def test_a_small_part_has_a_function_of_its_own_from_the_second_call_on(monkeypatch):
    ours, calls, forward = compiled(lambda x, y: (x * y).sum(-1)), [], CompiledPart.forward
    monkeypatch.setattr(CompiledPart, "forward", lambda *args: [calls.append(1), forward(*args)][1])
    for _ in range(3):
        x, y = torch.randn(4, 8), torch.randn(4, 8)
        torch.testing.assert_close(ours(x, y), (x * y).sum(-1))
    assert len(calls) == 1


def test_quick_calls_of_parts_of_arrays():
    """As the third call of a part is; where the array ends before its last row does, it is copied."""
    fn = lambda x: x * 2 + 1  # noqa: E731
    ran = compiled(fn, dynamic=False)
    whole = torch.randn(4, 11)
    ends = torch.randn(3 * 11 + 8 + 2).as_strided((4, 8), (11, 1), 2)
    for x in (whole[:, :8], whole[:, :8], whole[:, :8], ends, whole[:, :8]):
        torch.testing.assert_close(ran(x), fn(x))


def test_quick_calls_say_which_index_is_out_of_range():
    ran = compiled(lambda x, i: x[i] + 1, dynamic=False)
    x, i = torch.randn(5, 3), torch.tensor([0, 4])
    for _ in range(3):
        torch.testing.assert_close(ran(x, i), x[i] + 1)
    with pytest.raises(InputError, match="expected indices from -5 to 4, found 5"):
        ran(x, i + 1)
    torch.testing.assert_close(ran(x, i), x[i] + 1)


def test_quick_calls_of_inputs_that_are_written():
    def fn(x, y, i):
        x.index_copy_(0, i, y)
        return x

    ran = compiled(fn, dynamic=False)
    x, y = torch.randn(5, 3), torch.randn(2, 3)
    want = x.clone()
    for i in (torch.tensor([0, 4]), torch.tensor([1, 2]), torch.tensor([3, 3])):
        torch.testing.assert_close(ran(x, y, i), fn(want, y, i))
        torch.testing.assert_close(x, want)
