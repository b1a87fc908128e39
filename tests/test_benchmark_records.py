"""What a record of `benchmarks/results/` says of itself: the commit that was measured, the seed of what was drawn."""

from __future__ import annotations

import ast
import json
import pkgutil
import subprocess
from pathlib import Path

import pytest

from benchmarks import record

SINCE = "2026-11-23T06"
"""When records began to have both."""
DRAWS = {"default_rng", "manual_seed", "RandomState", "Random", "seed"}


def git(tree: Path, *arguments: str) -> str:
    command = ["git", "-C", str(tree), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_commit_and_whether_what_is_measured_has_changed(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "code.py").write_text("")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    commit = git(tmp_path, "rev-parse", "--short=10", "HEAD")
    assert record.commit(tmp_path) == commit
    (tmp_path / "benchmarks/results").mkdir(parents=True)
    (tmp_path / "benchmarks/results/a.json").write_text("{}")
    (tmp_path / "README.md").write_text("figures")
    assert record.commit(tmp_path) == commit, "figures are no change of what is measured"
    (tmp_path / "code.py").write_text("changed")
    assert record.commit(tmp_path) == commit + "+changes"


def test_a_copy_without_git_is_told_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BENCHMARK_COMMIT", raising=False)
    assert record.commit(tmp_path) == "unknown"
    monkeypatch.setenv("BENCHMARK_COMMIT", "0123456789")
    assert record.commit(tmp_path) == "0123456789"
    (tmp_path / ".git").mkdir()
    assert record.commit(tmp_path) == "0123456789", "a copy's own git knows another"


@pytest.mark.parametrize("seed", [record.SEED, 7, None])
def test_what_is_written(tmp_path: Path, seed: int | None) -> None:
    record.write(tmp_path / "a.json", [{"us": 1.0}], seed)
    written = json.loads((tmp_path / "a.json").read_text())
    assert written["commit"] == record.commit()
    assert written.get("seed") == seed
    assert ("seed" in written) == (seed is not None)


@pytest.mark.parametrize("path", sorted((record.ROOT / "benchmarks").glob("*.py")), ids=lambda p: p.stem)
def test_benchmarks_draw_from_the_seed_they_write(path: Path) -> None:
    """No number is a seed of its own; who takes `--seed` writes that."""
    text = path.read_text(encoding="utf-8")
    calls = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call)]
    for call in calls:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name in DRAWS:
            assert call.args, f"line {call.lineno}: drawn without a seed"
            assert not isinstance(call.args[0], ast.Constant), f"line {call.lineno}: use record.SEED"
        if ast.unparse(call.func) in ("record.write", "record.environment") and "args.seed" in text:
            assert "args.seed" in map(ast.unparse, call.args), f"line {call.lineno}: write the seed that was asked for"


@pytest.mark.parametrize("path", sorted((record.ROOT / "benchmarks").glob("*.py")), ids=lambda p: p.stem)
def test_what_benchmarks_replace_is_there(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    modules = {a.asname or a.name: f"{n.module}.{a.name}" for n in imports for a in n.names}
    for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
        how = ast.unparse(call.func).rpartition("patch.")[2]
        module = modules.get(ast.unparse(call.args[0]), "") if how in ("object", "multiple") else ""
        if module.startswith("graphfuse"):
            names = [ast.literal_eval(a) for a in call.args[1:2]] or [k.arg for k in call.keywords]
            missing = set(names) - vars(pkgutil.resolve_name(module)).keys()
            assert not missing, f"line {call.lineno}: {module} has no {missing}"


@pytest.mark.parametrize("path", sorted((record.ROOT / "benchmarks/results").glob("*.json")), ids=lambda p: p.stem)
def test_records_have_a_commit(path: Path) -> None:
    found = json.loads(path.read_text(encoding="utf-8"))
    assert "commit" in found or found["date"] < SINCE
