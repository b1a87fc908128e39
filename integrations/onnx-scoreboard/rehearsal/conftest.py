"""The scoreboard's option and reports: which backend, `report.json` of one run, `trend.json` of all."""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path
from typing import Any

import pytest

OUTCOMES = ("passed", "failed", "skipped")
CORE = ("onnx", "graphfuse")
"""Packages whose versions a trend names."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The module to test, which is imported when the tests are collected."""
    parser.addoption("--onnx_backend", help="the dotted name of a module with ONNX's backend interface")


def pytest_configure(config: pytest.Config) -> None:
    """Hand its name on."""
    os.environ["ONNX_BACKEND_MODULE"] = str(config.getoption("onnx_backend"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Write both reports."""
    folder = Path(os.environ.get("RESULTS_DIR", "."))
    date = datetime.datetime.now(tz=datetime.UTC).strftime("%m/%d/%Y %H:%M:%S")
    report: dict[str, Any] = {"date": date}
    for outcome in OUTCOMES:
        ids = [r.nodeid for r in terminalreporter.stats.get(outcome, ()) if hasattr(r, "nodeid")]
        report[outcome] = sorted(i.partition(".py::")[2] or i for i in ids)
    _write(folder / "report.json", report)
    summary = {"date": date, "versions": _versions(folder)} | {o: len(report[o]) for o in OUTCOMES}
    trend = _read(folder / "trend.json")
    same = len(trend) > 1 and {**trend[-1], "date": date} == summary
    _write(folder / "trend.json", [*(trend[:-1] if same else trend), summary])


def _versions(folder: Path) -> list[Any]:
    return [p for p in _read(folder / "pip-list.json") if p.get("name") in CORE]


def _read(path: Path) -> list[Any]:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return []


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, sort_keys=True, indent=4))
