"""Compiling is repeatable, and the replay finds what changed: which subject, in which stage first, and where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.replay.record import INDEX, LEFT_OUT, Index, changes, keep, record
from tests.replay.subjects import subjects


def recorded(folder: Path, wanted: str, jobs: int = 1) -> Index:
    index = record(folder, wanted, full_size=False, jobs=jobs)
    assert index == json.loads((folder / INDEX).read_text())
    return index


def test_two_processes_compile_the_same(tmp_path: Path) -> None:
    index = recorded(tmp_path / "a", "digits cuda:sm_90a f16")
    assert list(index) == ["digits cuda:sm_90a f16"]
    assert [*index["digits cuda:sm_90a f16"]] == ["graph", "regions", "block", "ptx"]
    recorded(tmp_path / "b", "digits cuda:sm_90a f16")
    assert list(changes(tmp_path / "a", tmp_path / "b")) == []


def test_a_change_is_shown_where_it_begins(tmp_path: Path) -> None:
    for name, line in (("a", "add"), ("b", "sub")):
        (tmp_path / name).mkdir()
        text = f"one\ntwo\n{line}\nlast\n".encode()
        stages = {"regions": b"alike", "block": text, "object": line.encode()}
        write(tmp_path / name, {"model": stages, "alike": {"regions": b"alike"}, f"only {name}": stages})
    (change,) = changes(tmp_path / "a", tmp_path / "b", context=1)
    assert str(change).splitlines() == [
        "model: block differs from line 3 on", "      two", "    - add", "    + sub", "      last",
    ]  # fmt: skip


def test_what_variables_are_called_makes_no_difference(tmp_path: Path) -> None:
    body = 'layout #l3\nfunc @k() {%s} {\n  %%%s = block.index(%%v0) {expr = (2*%s), names = ["%s"]} : tile<#l3>\n}\n'
    for name, args in (("a", ("work = 1", *["l3"] * 3)), ("b", ("work = 2", *["l7"] * 3))):
        (tmp_path / name).mkdir()
        write(tmp_path / name, {"m": {"block": (body % args).encode()}})
    assert [str(c).splitlines()[0] for c in changes(tmp_path / "a", tmp_path / "b")] == [
        "m: block differs from line 2 on"
    ]
    assert list(changes(tmp_path / "a", tmp_path / "b", ignored=r"work = \d")) == []


def test_code_that_differs_by_itself_and_what_is_not_compiled_any_more(tmp_path: Path) -> None:
    for name, code, other in (("a", b"ab\x01", {"ptx": b"x"}), ("b", b"ab\x02", {})):
        (tmp_path / name).mkdir()
        write(tmp_path / name, {"m": {"block": b"alike", "object": code}, "n": other})
    found = {str(c) for c in changes(tmp_path / "a", tmp_path / "b")}
    assert "m: object differs from byte 2 of 3 and 3 on, of the same block IR" in found
    assert any(text.startswith("n: ptx only before: ") for text in found)


def write(folder: Path, made: dict[str, dict[str, bytes]]) -> None:
    (folder / "texts").mkdir()
    index = {
        name: {stage: keep(data, folder / "texts") for stage, data in stages.items()} for name, stages in made.items()
    }
    (folder / INDEX).write_text(json.dumps(index))


@pytest.mark.full
def test_everything_is_compiled_alike_by_two_processes(tmp_path: Path) -> None:
    index = recorded(tmp_path / "a", "", jobs=2)
    recorded(tmp_path / "b", "", jobs=2)
    assert list(map(str, changes(tmp_path / "a", tmp_path / "b"))) == []
    assert index.keys() == {s.name for s in subjects(full_size=False)}
    assert [name for name, stages in index.items() if LEFT_OUT in stages] == []
