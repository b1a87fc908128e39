"""`check`: findings as data, in words of the source, of the interpreter and of the emulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphfuse
from graphfuse.errors import GraphfuseError, Loc
from graphfuse.findings import KINDS, FoundError, finding_of
from graphfuse.kernels.checking import check
from graphfuse.kernels.kernel import Kernel

COPY = """__global__ void copy(float *y, const float *x, int n) {
  int i[64] = get_program_id(0) * 64 + (0 ... 64);
  float v[64] = (i < n) ? *(x + i) : 0.f;
  if (n > 0) {
    v = v * 2;
    *(y + i) = v;
  }
}
"""


def kernel(tmp_path: Path, text: str, **options: Any) -> Kernel:
    path = tmp_path / "k.tc"
    path.write_text(text)
    found = graphfuse.kernel(path, **options)
    assert isinstance(found, Kernel)
    return found


def emulated(made: Kernel, grid: tuple[int, ...], *args: Any) -> FoundError:
    with pytest.raises(GraphfuseError) as e:
        made.launch(grid, args)
    assert isinstance(e.value, FoundError)
    assert e.value.about.kind in KINDS
    return e.value


def test_the_interpreter_says_who_met_whom(tmp_path: Path) -> None:
    text = "__global__ void k(float *y) {\n  *(y + 3) = *(y + 3) + get_program_id(0) + 1;\n}\n"
    made = kernel(tmp_path, text)
    (found,) = check(made, (2, 3), {"y": np.zeros(4, np.float32)}, frozenset(), emulate=False)
    data, path = found.to_json(), str(tmp_path / "k.tc")
    assert data.pop("message").startswith("block.load: program 1: race: element 3 of y is read here")
    at, other_at = data.pop("at"), data.pop("other_at")
    assert (at["file"], at["line"], other_at["file"], other_at["line"]) == (path, 2, path, 2)
    assert data == {
        "kind": "race",
        "severity": "error",
        "parameter": "y",
        "element": 3,
        "by": {"program": (1, 0)},
        "other": {"program": (0, 0)},
    }


def test_the_interpreter_says_which_element_of_what(tmp_path: Path) -> None:
    values = {"y": np.zeros(100, np.float32), "x": np.zeros(128, np.float32), "n": 128}
    (found,) = check(kernel(tmp_path, COPY), (2,), values, frozenset(), emulate=False)
    assert found.loc
    assert found.loc.line == 6
    about = found.about
    assert (about.kind, about.parameter, about.element) == ("out-of-bounds", "y", 100)
    assert about.by
    assert about.by.program == (1,)


@pytest.mark.parametrize("warps", [1, 4])
def test_the_emulator_names_lines_of_the_source(tmp_path: Path, warps: int) -> None:
    made = kernel(tmp_path, COPY, device="emulator", num_warps=warps)
    x, y = np.ones(128, np.float32), np.zeros(100, np.float32)
    error = emulated(made, (2,), y, x, 128)
    assert error.loc
    assert (error.loc.file, error.loc.line) == (str(tmp_path / "k.tc"), 6)
    assert error.code
    assert error.code.file == "kernels.ptx"
    about = error.about
    assert (about.kind, about.parameter, about.element) == ("out-of-bounds", "y", 100)
    assert about.by
    assert (about.by.program, about.by.warp) == ((1, 0, 0), 0 if warps == 1 else 1)
    assert str(error).startswith(f"{tmp_path / 'k.tc'}:6:")
    assert f"({error.code})" in str(error)
    found = finding_of(error)
    assert (found.loc, found.code) == (error.loc, error.code)


def test_the_emulator_names_both_sides_of_a_race(tmp_path: Path) -> None:
    text = """__global__ void k(float *y, const float *x) {
  int i[64] = 0 ... 64;
  *(y + i) = *(x + i);
  __debug_barrier();
  *(y + 63 - i) = get_program_id(0);
}
"""
    made = kernel(tmp_path, text, device="emulator", num_warps=2)
    error = emulated(made, (2,), np.zeros(64, np.float32), np.ones(64, np.float32))
    about = error.about
    assert (about.kind, about.parameter) == ("race", "y")
    assert about.other
    assert about.by
    assert about.other.program != about.by.program
    assert about.other_loc
    assert about.other_loc.line in (3, 5)


def test_what_is_not_asked_for_lines_has_none(tmp_path: Path) -> None:
    assert ".loc" not in kernel(tmp_path, COPY).compile("cuda:sm_90a").code["cuda:sm_90a"].ptx


def test_findings_as_text() -> None:
    error = FoundError("it is wrong", Loc("k.tc", 3, 1), code=Loc("k.ptx", 9, 2))
    assert str(error) == "k.tc:3:1: error: it is wrong (k.ptx:9:2)"
    assert str(finding_of(error)) == str(error)
    assert str(FoundError("it is wrong", code=Loc("k.ptx", 9, 2))) == "k.ptx:9:2: error: it is wrong"
