"""The kernels of `test_lowering.py` compiled: on the CPU, and for a GPU on the emulator."""

from __future__ import annotations

import pytest

import graphfuse
from tests.frontends.tc import test_lowering

TABLES = ("test_scalars", "test_control_flow", "test_calls", "test_tiles", "test_products_of_transposed_operands")
SINGLE = (
    "test_pointers_that_change_their_array", "test_pointers_by_a_branch", "test_pointer_casts", "test_batched_product",
    "test_shapes_that_are_no_powers_of_two", "test_masks", "test_atomics_and_grids", "test_narrow_parameters",
    "test_product_of_matrices", "test_products_summed_in_the_accumulators_type",
)  # fmt: skip


def rows(name):
    """The parameters of a table, or for a test of flags every combination."""
    marks = [m.args for m in getattr(test_lowering, name).pytestmark]
    if len(marks) == 1:
        return [tuple(row) for row in marks[0][1]]
    return [(a, b) for a in marks[0][1] for b in marks[1][1]]


@pytest.mark.filterwarnings("ignore::graphfuse.SourceWarning")  # some of the sources are about what is warned of
@pytest.mark.parametrize("device", ["cpu", pytest.param("emulator", marks=pytest.mark.full)])
@pytest.mark.parametrize("name", [*TABLES, *SINGLE])
def test_kernels(name, device, monkeypatch):
    def run(source, *args, grid=(1,), defines=None, **numbers):
        kernel = graphfuse.kernel(f"{source}\n", device=device, **(defines or {}))
        arrays = iter(args)
        kernel[tuple(grid)](*(numbers[v.hint] if v.hint in numbers else next(arrays) for v in kernel.func.params))

    monkeypatch.setenv("GRAPHFUSE_CACHE", "0")
    monkeypatch.setattr(test_lowering, "run", run)
    test = getattr(test_lowering, name)
    for row in rows(name) if name in TABLES else [()]:
        test(*row)
