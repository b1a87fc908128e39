"""Integers divided by a tensor that has a 0: an error where eager torch has one, never a result."""

import pickle

import pytest

torch = pytest.importorskip("torch")

from graphfuse.errors import DivisionByZeroError, GraphfuseError  # noqa: E402
from tests.torch.support import compiled, left_to_torch, recorded_graphs  # noqa: E402

OPERATORS = {
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "number //": lambda a, b: (7 // b) + 0 * a,
    "number %": lambda a, b: (7 % b) + 0 * a,
    "fmod": torch.fmod,
    "remainder": torch.remainder,
    "div, truncated": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "div, floored": lambda a, b: torch.div(a, b, rounding_mode="floor"),
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8], ids=str)
def test_what_eager_divides_by_is_divided_by_and_what_it_refuses_refused(dtype):
    def fn(a, b):
        return [op(a, b) for op in OPERATORS.values()]

    a, b = torch.tensor([[5, 9, 100], [0, 3, 7]], dtype=dtype), torch.tensor([2, 7, 1], dtype=dtype)
    with recorded_graphs() as graphs:
        ours = compiled(fn)
        torch.testing.assert_close(ours(a, b), fn(a, b))
        each = {name: compiled(lambda a, b, op=op: op(a, b)) for name, op in OPERATORS.items()}
        for name, op in OPERATORS.items():
            zero = b * torch.tensor([1, 0, 1], dtype=dtype)
            with pytest.raises(RuntimeError):
                op(a, zero)
            with pytest.raises(RuntimeError, match="expected integers other than 0 to divide by"):
                each[name](a, zero)
            torch.testing.assert_close(each[name](a, b), op(a, b))
    assert left_to_torch(graphs) == {}


def test_the_error_names_operator_and_line():
    def fn(a, b):
        return (a + 1) // (b * 2)

    with pytest.raises(DivisionByZeroError, match=r"test_divisors.py:\d+:.*aten.*: expected integers"):
        compiled(fn)(torch.tensor([1, 2]), torch.tensor([3, 0]))
    assert issubclass(DivisionByZeroError, (ZeroDivisionError, GraphfuseError))
    with pytest.raises(ZeroDivisionError):
        raise pickle.loads(pickle.dumps(DivisionByZeroError("x")))


def test_a_divisor_of_nothing_and_of_floats():
    zeros = torch.zeros(1, dtype=torch.int64)
    for a in (torch.empty(0, dtype=torch.int64), torch.ones(3)):
        torch.testing.assert_close(
            compiled(lambda a, b: (a // b, a % b))(a, zeros), (a // zeros, a % zeros), equal_nan=True
        )


def test_sizes_that_depend_on_data():
    def fn(a, b):
        return a[a > 0] // b

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        ours = compiled(fn)
        zeros = torch.zeros(1, dtype=torch.int64)
        assert ours(torch.tensor([-1, -2]), zeros).shape == (0,)
        with pytest.raises(DivisionByZeroError):
            ours(torch.tensor([-1, 2]), zeros)


def test_what_is_known_to_be_no_zero_is_not_looked_at():
    def fn(a, b):
        return a // b.clamp(min=1), a % 7, a // (torch.arange(3) + 1), a % b.clamp(max=-1)

    with recorded_graphs() as graphs:
        a, b = torch.tensor([5, 6, 7]), torch.tensor([0, 2, -3])
        torch.testing.assert_close(compiled(fn)(a, b), fn(a, b))
    assert [p.watched for g in graphs for p in g.parts] == [()]
