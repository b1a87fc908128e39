"""Cross-entropy on an emulated GPU: two launches, one of which reads the rows, whatever they are."""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402, N812

from benchmarks.emulated_torch import emulated  # noqa: E402

SLACK = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}


def case(rows, classes, dtype):
    """Logits, and places of which some are left out."""
    torch.manual_seed(0)
    x, y = torch.randn(rows, classes).mul(3).to(dtype), torch.randint(classes, (rows,))
    y[::4] = -100
    return x, y


@pytest.mark.parametrize("dtype", SLACK)
@pytest.mark.parametrize("classes", [61, 1000, 40001])
def test_two_launches(dtype, classes):
    x, y = case(7, classes, dtype)
    with emulated() as reports:
        loss = torch.compile(F.cross_entropy, backend="graphfuse")(x, y)
        rows, _ = (report for _, report in reports)
    torch.testing.assert_close(loss, F.cross_entropy(x, y), rtol=SLACK[dtype], atol=0)
    assert rows.global_bytes < 2 * x.nbytes + 2000, "rows are read once; they begin anywhere"


@pytest.mark.parametrize("how", [{"label_smoothing": 0.1}, {"reduction": "sum"}, {"weight": torch.arange(40001) / 4e4}])
def test_other_losses(how):
    x, y = case(5, 40001, torch.float32)
    with emulated():
        loss = torch.compile(lambda x, y: F.cross_entropy(x, y, **how), backend="graphfuse")(x, y)
    torch.testing.assert_close(loss, F.cross_entropy(x, y, **how), rtol=1e-5, atol=0)


@pytest.mark.parametrize("special", [float("inf"), float("-inf"), float("nan")])
def test_special_logits(special):
    x, y = case(4, 40001, torch.float32)
    x[1], x[2, 17] = special, special
    with emulated():
        losses = torch.compile(lambda x, y: F.cross_entropy(x, y, reduction="none"), backend="graphfuse")(x, y)
    torch.testing.assert_close(losses, F.cross_entropy(x, y, reduction="none"), equal_nan=True)


@pytest.mark.parametrize("classes", [61, 40001])
def test_gradients(classes):
    x, y = case(7, classes, torch.bfloat16)
    of_eager, ours = (x.clone().requires_grad_() for _ in range(2))
    F.cross_entropy(of_eager.float(), y).backward()
    with emulated():
        torch.compile(lambda x, y: F.cross_entropy(x.float(), y), backend="graphfuse")(ours, y).backward()
    torch.testing.assert_close(ours.grad, of_eager.grad, rtol=2e-2, atol=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_backward_reads_logits_again(smoothing):
    """Twice the halves, and their gradients: nothing in f32 is kept."""
    x, y = case(4, 40000, torch.float16)
    x.requires_grad_()
    with emulated() as reports:
        call = torch.compile(lambda x, y: F.cross_entropy(x.float(), y, label_smoothing=smoothing), backend="graphfuse")
        call(x, y).backward()
    assert sum(report.global_bytes for _, report in reports) < (3.5 + 15 * smoothing) * x.nbytes
