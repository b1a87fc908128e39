"""Knobs: values, scopes, and what is said of what is no knob."""

from __future__ import annotations

import pytest

from graphfuse import knobs
from graphfuse.errors import UsageError
from graphfuse.knobs import check_environment, scope, settings


def test_defaults_and_environment(monkeypatch):
    monkeypatch.delenv("GRAPHFUSE_DEBUG", raising=False)
    assert settings.debug == 0
    monkeypatch.setenv("GRAPHFUSE_DEBUG", "3")
    monkeypatch.setenv("GRAPHFUSE_VERIFY", "off")
    monkeypatch.setenv("GRAPHFUSE_PRINT_AFTER", "fuse, outline")
    monkeypatch.setenv("GRAPHFUSE_THREADS", "auto")
    assert (settings.debug, settings.verify, settings.print_after) == (3, False, ("fuse", "outline"))
    assert settings.threads is None


def test_scope_wins_and_ends():
    with scope(debug=2):
        assert settings.debug == 2
        with scope(threads=1):
            assert (settings.debug, settings.threads) == (2, 1)
    assert settings.debug == 0


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("GRAPHFUSE_DEBUG", "9", "GRAPHFUSE_DEBUG: expected 0..4, got '9'"),
        ("GRAPHFUSE_VERIFY", "maybe", "GRAPHFUSE_VERIFY: expected 0 or 1, got 'maybe'"),
        ("GRAPHFUSE_THREADS", "0", "GRAPHFUSE_THREADS: expected 1..1024, got '0'"),
    ],
)
def test_bad_environment(variable, value, message):
    with pytest.raises(UsageError) as e:
        check_environment({variable: value, "PATH": "x"})
    assert e.value.message == message


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("GRAPHFUSE_THREAD", "unknown environment variables: GRAPHFUSE_THREAD (did you mean GRAPHFUSE_THREADS?)"),
        ("GRAPHFUSE_PORT_80_TCP", "unknown environment variables: GRAPHFUSE_PORT_80_TCP"),
    ],
)
def test_foreign_environment(variable, message):
    with pytest.warns(UserWarning, match="unknown environment") as found:
        check_environment({variable: "tcp://10.0.0.1:80", "GRAPHFUSE_DEBUG": "1", "PATH": "x"})
    assert [str(w.message) for w in found] == [message]


def test_unknown_scope():
    with pytest.raises(UsageError, match="unknown knob 'debgu'; did you mean 'debug'"), scope(debgu=1):
        raise AssertionError("entered")


def test_table_has_every_knob():
    assert knobs.table().count("| `GRAPHFUSE_") == len(knobs.all_knobs()) <= 15
    assert set(knobs.code_key()) == {"target"}
