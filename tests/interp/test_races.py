"""Programs that touch an element in no order, lanes of one store that do, and loops that wait for ever."""

from __future__ import annotations

import numpy as np
import pytest

import graphfuse
from graphfuse.findings import CheckError, Finding
from graphfuse.interp.block import launch
from graphfuse.ir.parser import parse
from graphfuse.kernels.checking import check
from graphfuse.kernels.kernel import Kernel

HEAD = "__global__ void k(float *x, float *y, int n) {\n  int p = get_program_id(0);\n  int i[64] = 0 ... 64;\n  "


def found(text: str, programs: int, *arrays: np.ndarray, **numbers: int) -> list[str]:
    kernel = graphfuse.kernel(text)
    assert isinstance(kernel, Kernel)
    values = dict(zip((p.name for p in kernel.parameters if p.is_pointer), arrays, strict=True)) | numbers
    return [str(f) for f in check(kernel, (programs,), values, frozenset(), emulate=False)]


def of_body(body: str, programs: int, count: int = 64) -> list[str]:
    return found(f"{HEAD}{body}\n}}\n", programs, np.ones(count, np.float32), np.zeros(count, np.float32), n=count)


RACES = [
    (
        "*(y + i) = *(x + i) + p;",
        4,
        "race: element 0 of y is written here [0] (1.0 before, 2.0 now), and was written by program 0 [0] at ",
    ),
    ("*(y + i) = *(y + i) + *(x + i);", 4, "element 0 of y is read here [0], and was written by program 0 [0] at "),
    ("*y = *y + 1;", 8, "program 1: race: element 0 of y is read here, and was written by program 0 at "),
    ("*(y + i / 2) = *(x + i) * i;", 1, "element 0 of y is written by two lanes of one store: 0.0 by [0], 1.0 by [1]"),
    (
        "*(x + p) = *(y + (p + 1) % 4);\n *(y + p) = p;",
        4,
        "program 1: race: element 1 of y is written here (0.0 before, 1.0 now), and was read by program 0 at ",
    ),
    ("*(y + p) = *(x + 5);\n if (p == 2) *(x + 5) = 7;", 4, "of x is written here (1.0 before, 7.0 now), and was read"),
    ("atomic_add(y + i, *(x + i));\n if (p == 3) *x = *(y + 1);", 4, "is read here, and was written by program 2 [1]"),
    ("*y = 3 * p + 5;\n atomic_add(y, 1);", 2, "element 0 of y is written here (6.0 before, 8.0 now), and was written"),
]


@pytest.mark.parametrize(("body", "programs", "message"), RACES)
def test_races(body: str, programs: int, message: str) -> None:
    (text,) = of_body(body, programs)
    assert message in text


@pytest.mark.parametrize(
    ("body", "programs"),
    [
        ("*(y + i) = *(x + i);", 1),
        ("*(y + p * 16 + i % 16) = p;", 4),
        ("*(y + i) = *(x + i);\n *(x + i) = *(y + 63 - i);", 1),
        ("atomic_add(y + i / 2, *(x + i));", 4),
        ("*(y + p) = *(x + 63 - p) + *(x + 1);", 4),
    ],
)
def test_no_races(body: str, programs: int) -> None:
    assert of_body(body, programs) == []


def test_a_note_of_what_agrees() -> None:
    (text,) = of_body("*(y + i) = *(x + i) + 1;", 4)
    assert "note: element 0 of y is written here [0] (2.0 before, 2.0 now), and was written by program 0 [0]" in text
    assert text.endswith("nothing orders the two programs, which write the same")


STORED = """func @k(%x: ptr<i64>) {{grid = (4)}} {{
  %p = block.program_id() : i64
  %i = block.arange() {{end = 8, start = 0}} : tile<8xi64>
  %v = block.splat(%p) {{shape = [8]}} : tile<8xi64>
  block.store(%x, %i, %v){relaxed}
  return()
}}
"""


def test_relaxed_stores_race_with_what_is_none() -> None:
    def run(relaxed: str) -> list[Finding]:
        notes: list[Finding] = []
        launch(parse(STORED.format(relaxed=relaxed)), [np.zeros(8, np.int64)], {}, races=notes)
        return notes

    assert run(" {relaxed = true}") == []
    with pytest.raises(CheckError, match="race: element 0 of x is written here"):
        run("")


LOCK = """__global__ void k(int *lock, float *total) {
  while (atomic_cas(lock, 0, 1) != 0) {}
  *total = *total + get_program_id(0);
  atomic_xchg(lock, 0);
}
"""


def test_a_lock_orders_what_it_guards() -> None:
    lock, total = np.zeros(1, np.int32), np.zeros(1, np.float32)
    assert found(LOCK, 4, lock, total) == []
    assert total == 6
    own = LOCK.replace("(lock,", "(lock + get_program_id(0),")
    (text,) = found(own, 4, np.zeros(4, np.int32), total)
    assert "race: element 0 of total is read here, and was written by program 0" in text


TURNS = """__global__ void k(int *turn, int *order) {
  int p = get_program_id(0);
  int last = get_num_programs(0) - 1;
  while (atomic_add(turn, 0) != last - p) {}
  *(order + last - p) = p;
  atomic_add(turn, 1);
}
"""


def test_programs_may_wait_for_later_ones() -> None:
    order = np.zeros(5, np.int32)
    assert found(TURNS, 5, np.zeros(1, np.int32), order) == []
    np.testing.assert_array_equal(order, [4, 3, 2, 1, 0])


@pytest.mark.parametrize(
    ("text", "programs", "message"),
    [
        (LOCK, 3, ":2:3: error: deadlock: programs 0, 1, 2 wait in this loop for what no program does"),
        (TURNS, 2, "deadlock: programs 0, 1 wait"),
        ("__global__ void k(int *x, int *y) { while (1) {} }", 1, "deadlock: program 0 waits in this loop"),
        (
            "__global__ void k(int *x, int *y) { while (*x >= 0) { *x = (*x + 1) % 7; } }",
            1,
            "program 0 went round this loop 1000 times, and it has not ended",
        ),
    ],
)
def test_loops_without_an_end(text: str, programs: int, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphfuse.interp.races.MOST_TURNS", 1000)
    taken, other = np.full(1, 9, np.int32), np.zeros(1, np.float32 if text is LOCK else np.int32)
    (error,) = found(text + "\n", programs, taken, other)
    assert message in error


def test_assertions_hold() -> None:
    (text,) = of_body('assert(n < 10, "n is too large");', 1)
    assert ":4:9: error: block.assert: program 0: assertion failed: n is too large" in text


def test_elements_that_are_read_as_others() -> None:
    text = """__global__ void k(int *x) {
      short *s = (short *)x;
      *(s + get_program_id(0)) = 5;
      %s
    }
    """
    assert found(text % "", 2, np.zeros(1, np.int32)) == []
    (error,) = found(text % "*x = 3;", 2, np.zeros(1, np.int32))
    assert "element 0 of x is written here" in error
