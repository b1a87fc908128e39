"""`make demo`, with small models."""

from __future__ import annotations

import functools
import sys

import pytest

from models import demo


def test_nothing_is_cut_at_80_columns(tmp_path, monkeypatch, capsys):
    pytest.importorskip("sklearn")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("GRAPHFUSE_CACHE", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["demo", "--small", "--threads=1"])
    monkeypatch.setattr(demo, "median_times", functools.partial(demo.median_times, seconds=0.1))
    demo.main()
    out = capsys.readouterr().out
    assert "…" not in out and max(map(len, out.splitlines())) <= 80
    lines = [line.split() for line in out.splitlines()]
    assert ["kernel", "from", "programs", "writes"] in lines
    for model in ("resnet50", "bert_base"):  # seconds, kernels, ms, ms, ratio, kB, error
        (row,) = (line for line in lines if line[:1] == [model])
        assert len(row) == 13 and float(row[12]) < 1e-4
