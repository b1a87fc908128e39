"""What docs/editors.md tells users to write into files of their editors."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from graphfuse.lsp.settings import NAME, defines_for

ROOT = Path(__file__).parents[2]
LISTINGS = re.findall(r"^```(\w+)\n(.*?)^```", (ROOT / "docs" / "editors.md").read_text(), re.MULTILINE | re.DOTALL)


def listings(language):
    return [text for name, text in LISTINGS if name == language]


def test_settings_of_a_folder(tmp_path):
    (text, _) = listings("json")
    (tmp_path / NAME).write_text(text)
    assert defines_for(tmp_path / "softmax.tc") == {"TYPE": "float", "BLOCK": "1024"}
    assert defines_for(tmp_path / "other.tc") == {"TYPE": "half"}


def test_settings_of_vscode():
    package = json.loads((ROOT / "integrations" / "vscode-graphfuse" / "package.json").read_text())
    settings = json.loads(listings("json")[1])
    assert set(settings) <= {"[triton-c]", *package["contributes"]["configuration"]["properties"]}
    (commands,) = [text for text in listings("text") if "vsce" in text]
    assert f"{package['name']}-{package['version']}.vsix" in commands


def test_languages_of_helix():
    (text,) = listings("toml")
    settings = tomllib.loads(text)
    (language,) = settings["language"]
    (server,) = language["language-servers"]
    assert settings["language-server"][server] == {"command": "graphfuse", "args": ["lsp"]}
    assert language["file-types"] == ["tc"]


@pytest.mark.parametrize(
    ("language", "words"), [("lua", ["cmd", "filetypes", "tc"]), ("elisp", ["eglot", r"\\.tc\\'"])]
)
def test_scripts(language, words):
    """They are balanced, and name the command."""
    (text,) = listings(language)
    assert re.search(r'"graphfuse",? "lsp"', text)
    assert all(word in text for word in words)
    for opening, closing in ("()", "{}", "[]"):
        assert text.count(opening) == text.count(closing)
