"""The comparison of blocks with the graph fails on a planted bug in each schedule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphfuse.blockgen import attention, contraction, evaluate, evaluate_ops, loops, products, scans
from graphfuse.blockgen.evaluate import Evaluator, neutral
from graphfuse.blockgen.index import IndexSpace
from graphfuse.errors import GraphfuseError
from tests.blockgen.cases import ALL
from tests.blockgen.support import AVX2, check_blocks, lowered


def compare(name: str) -> None:
    case = ALL[name]
    for values in case.sizes:
        check_blocks(lowered(case, AVX2), case.arrays(values), AVX2)


def bites(name: str) -> None:
    with pytest.raises((AssertionError, GraphfuseError)):
        compare(name)


def test_a_bound_that_is_taken_for_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    """`below` lying: padding is read from outside memory, which the checked interpreter refuses."""
    monkeypatch.setattr(IndexSpace, "below", lambda self, a, b: True)
    bites("movement-pad_constant")
    bites("movement-concat_columns")


def test_a_tail_without_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes past the end of a row that are written would overwrite the next row."""
    monkeypatch.setattr(Evaluator, "_stays_inside", lambda self, leaf, index, lane: True)
    bites("reduction-layer_norm")
    bites("pointwise-along_rows")


def test_columns_without_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (attention, contraction):
        endless = lambda kernel, columns, width, start: evaluate.lane_over(kernel.space, width, start)  # noqa: E731
        monkeypatch.setattr(module, "column_lane", endless)
    bites("contraction-matmul_9_7_(n)_f32")
    bites("attention-static")


def test_missing_lanes_in_a_reduction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Evaluator, "live_lanes", lambda self: None)
    bites("reduction-several_kinds")


@pytest.mark.parametrize(("kind", "name"), [("min", "several_kinds"), ("max", "max_of_nan"), ("all", "any_and_all")])
def test_a_wrong_neutral_element(kind: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = lambda k, elem: neutral({"min": "max", "max": "min", "all": "any"}[k] if k == kind else k, elem)  # noqa: E731
    monkeypatch.setattr(loops, "neutral", wrong)
    bites(f"reduction-{name}")


def test_a_last_tile_of_rows_one_too_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "minimum", lambda a, b: evaluate.substitute(b, {}) - 1 if not isinstance(a, int) else a)
    bites("contraction-matmul_(n)_50_13_f32")


def test_operands_that_are_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The swap that puts lanes on the right-hand side must swap the index functions too."""
    real = products.Product.swapped
    swapped = lambda self: replace(self, lhs=self.rhs, rhs=self.lhs)  # noqa: E731
    monkeypatch.setattr(products.Product, "swapped", swapped)
    bites("contraction-result_transposed")
    monkeypatch.setattr(products.Product, "swapped", real)
    compare("contraction-result_transposed")


def test_a_scan_that_forgets_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scans.COMBINE, "sum", "max")
    bites("scan-exclusive_0")


def test_indices_that_do_not_count_from_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def clamped(ev: Evaluator, indices: object, at: object, size: object) -> object:
        return 0

    monkeypatch.setattr(evaluate_ops, "_looked_up", clamped)
    bites("gather-take_0")
