"""CONTRIBUTING's promise that every raise has a test of its message is kept for most."""

from __future__ import annotations

from pathlib import Path

from tools.untested_messages import messages, untested

LEAST = 0.9
"""The fraction that is tested. It goes up."""


def test_messages_are_tested() -> None:
    missing, count = untested()
    found = "\n".join(f"{m.place}: {' ... '.join(m.words)}" for m in missing)
    assert 1 - len(missing) / count >= LEAST, f"add a test that expects the message you added; untested are\n{found}"


def test_a_message_is_its_literal_words(tmp_path: Path) -> None:
    (tmp_path / "graphfuse").mkdir()
    (tmp_path / "tests").mkdir()
    lines = ('f"width {n}: expected more, found {m}"', '"short"', '"nobody looks"', "text")
    (tmp_path / "graphfuse" / "a.py").write_text("\n".join(f"raise E({line})" for line in lines))
    (tmp_path / "tests" / "test_a.py").write_text(r'match=r"width 3: expected more\, found"')
    assert list(messages(tmp_path)) == [
        ("graphfuse/a.py:1", ("expected more, found",)),
        ("graphfuse/a.py:3", ("nobody looks",)),
    ]
    missing, count = untested(tmp_path)
    assert ([m.place for m in missing], count) == (["graphfuse/a.py:3"], 2)
