"""The extension for VS Code: its files load, its words are the language's own, and it starts the server."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from graphfuse.frontends.tc.builtins import BUILTINS
from graphfuse.frontends.tc.parser import ATTRIBUTES
from graphfuse.frontends.tc.pieces import lines_of
from graphfuse.frontends.tc.preprocess import DIRECTIVES, _prelude
from graphfuse.frontends.tc.reader import (
    AGGREGATES,
    KEYWORDS,
    QUALIFIERS,
    STATEMENTS,
    STORAGE,
    TYPE_NAMES,
    TYPE_WORDS,
)
from graphfuse.frontends.tc.source import Source
from graphfuse.frontends.tc.tokens import cut
from tests.frontends.tc.sources import SMALL

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "integrations" / "vscode-graphfuse"
PACKAGE = json.loads((FOLDER / "package.json").read_text())
GRAMMAR = json.loads((FOLDER / "syntaxes" / "triton-c.tmLanguage.json").read_text())
SOURCES = [SMALL, *(f.read_text() for f in sorted((ROOT / "models" / "kernels").rglob("*.tc")))]

TYPES = TYPE_WORDS | TYPE_NAMES | AGGREGATES | {"bool"}
WORDS = {
    "keyword.control": STATEMENTS,
    "storage.type": TYPES,
    "storage.modifier": QUALIFIERS | STORAGE,
    "storage.modifier.promise": {f"__{name}" for name in ATTRIBUTES},
    "keyword.other": KEYWORDS - STATEMENTS - TYPES - QUALIFIERS - STORAGE,
    "variable.language": {"newaxis"},
    "constant.language": set(_prelude()) - {"bool"},
}
"""What each scope of the grammar is for, by the language's own tables."""


def test_the_package():
    (language,) = PACKAGE["contributes"]["languages"]
    (grammar,) = PACKAGE["contributes"]["grammars"]
    assert language["id"] == grammar["language"] == "triton-c"
    assert language["extensions"] == [".tc"]
    assert grammar["scopeName"] == GRAMMAR["scopeName"] == "source.triton-c"
    for file in (PACKAGE["main"], language["configuration"], grammar["path"], "README.md"):
        assert (FOLDER / file).is_file(), file
    assert PACKAGE["contributes"]["configuration"]["properties"]["graphfuse.command"]["default"] == ["graphfuse", "lsp"]
    assert set(PACKAGE["dependencies"]) == {"vscode-languageclient"}
    configuration = json.loads((FOLDER / language["configuration"]).read_text())
    assert configuration["comments"] == {"lineComment": "//", "blockComment": ["/*", "*/"]}
    word = re.compile(configuration["wordPattern"])
    for source in SOURCES:
        names = [source[a:b] for kind, a, b in cut(source) if kind == "name"]
        assert all(word.fullmatch(name) for name in names)
    assert re.match(configuration["indentationRules"]["increaseIndentPattern"], "  for (;;) {")
    assert re.match(configuration["indentationRules"]["decreaseIndentPattern"], "  }")


def alternatives(pattern):
    """The words of a pattern that is nothing but words."""
    return re.search(r"\((?:\?:)?((?:\w+\|)*\w+)\)", pattern)[1].split("|")


def test_the_words_of_the_grammar_are_those_of_the_language():
    rules = {
        r["name"].removesuffix(".triton-c"): alternatives(r["match"])
        for r in GRAMMAR["repository"]["words"]["patterns"]
    }
    assert rules == {scope: sorted(words) for scope, words in WORDS.items()}
    assert alternatives(GRAMMAR["repository"]["functions"]["patterns"][0]["match"]) == sorted(BUILTINS)
    (directive,) = GRAMMAR["repository"]["directives"]["patterns"]
    assert alternatives(directive["begin"].partition("(#)")[2]) == sorted(DIRECTIVES)


def included(patterns):
    for pattern in patterns:
        if "include" in pattern:
            yield from included(GRAMMAR["repository"][pattern["include"][1:]]["patterns"])
        else:
            yield pattern


def scopes(text):
    """What an editor colours: for each character the innermost scope, by the rules of TextMate grammars."""
    out = []
    stack = [{"patterns": GRAMMAR["patterns"]}]
    for line in text.splitlines(keepends=True):
        at, colours = 0, [None] * len(line)
        while at < len(line):
            top = stack[-1]
            found = [(re.compile(top["end"]).search(line, at), top, True)] if "end" in top else []
            rules = included(top.get("patterns", ()))
            found += [(re.compile(rule.get("begin") or rule["match"]).search(line, at), rule, False) for rule in rules]
            found = [(m, rule, ends) for m, rule, ends in found if m is not None]
            if not found:
                colours[at:] = [top.get("name")] * (len(line) - at)
                break
            # the first place wins, then the first rule
            match, rule, ends = min(found, key=lambda f: f[0].start())
            colours[at : match.start()] = [top.get("name")] * (match.start() - at)
            colours[match.start() : match.end()] = [rule.get("name")] * (match.end() - match.start())
            if ends:
                stack.pop()
            elif "begin" in rule:
                stack.append(rule)
            assert match.end() > at or ends or match.start() > at, "no progress"
            at = match.end()
        out += colours
    return [colour and colour.removesuffix(".triton-c") for colour in out]


@pytest.mark.parametrize("source", SOURCES, ids=range(len(SOURCES)))
def test_colours_are_what_the_language_sees(source):
    source = re.sub(r"[ \t]+$", "", source, flags=re.MULTILINE)
    seen = scopes(source)
    directive_lines = {line.start for line in lines_of(source) if line.directive is not None}
    for line in lines_of(source):
        for i, piece in enumerate(line.pieces):
            colour = seen[piece.start]
            assert len({*seen[piece.start : piece.end]} - {"constant.character.escape"}) == 1 or piece.is_comment, piece
            match piece.kind:
                case "comment":
                    assert colour.startswith("comment."), piece
                case "string":
                    assert colour == "string.quoted.double", piece
                case "number":
                    assert colour == "constant.numeric", piece
                case "name" if line.start in directive_lines and i <= 1:
                    assert colour in ("meta.preprocessor", "keyword.control.directive"), piece
                case "name":
                    assert colour == expected(piece.text, line.pieces[i + 1 : i + 2], colour), piece
                case _:
                    assert colour in ("keyword.operator", "meta.preprocessor", None), piece


def expected(name, behind, colour):
    for scope, words in WORDS.items():
        if name in words:
            return scope
    if behind and behind[0].text == "(":
        return "support.function" if name in BUILTINS else "entity.name.function"
    return colour if colour in ("meta.preprocessor", None) else "no colour"


def test_directives_and_comments_go_on_behind_a_backslash():
    text = "#define A \\\n  3 \\\n  + x\nfloat x; // a \\\n  b\nint y;\n"
    seen = scopes(text)
    assert seen[text.index("+") + 2] == "meta.preprocessor"
    assert seen[text.index("b\n")] == "comment.line.double-slash"
    assert seen[text.index("int")] == "storage.type"
    assert Source("", text).code.count("\n") == 3


STUBS = """
const Module = require("module");
const calls = [];
let settings = ["graphfuse", "lsp"], onChange, fails = false;
class LanguageClient {
  constructor(id, name, server, options) { this.say = (what) => calls.push([what, server, options.documentSelector]); }
  async start() { this.say("start"); if (fails) throw new Error("ENOENT"); this.runs = true; }
  async stop() { this.say("stop"); this.runs = false; }
  isRunning() { return !!this.runs; }
}
const vscode = {
  workspace: {
    getConfiguration: () => ({ get: () => settings }),
    createFileSystemWatcher: (glob) => ({ glob }),
    onDidChangeConfiguration: (f) => { onChange = f; return { dispose() {} }; },
  },
  window: { showErrorMessage: (text) => calls.push(["error", text]) },
  commands: { registerCommand: (name, f) => { calls.push(["command", name]); return { dispose() {} }; } },
};
const load = Module._load;
Module._load = (name, ...rest) =>
  name === "vscode" ? vscode : name === "vscode-languageclient/node" ? { LanguageClient } : load(name, ...rest);
const extension = require(process.argv[1]);
(async () => {
  const context = { subscriptions: [] };
  await extension.activate(context);
  settings = ["/venv/bin/graphfuse", "lsp"];
  await onChange({ affectsConfiguration: (name) => name === "graphfuse.command" });
  await onChange({ affectsConfiguration: () => false });
  fails = true;
  await onChange({ affectsConfiguration: () => true });
  await extension.deactivate();
  console.log(JSON.stringify({ calls, kept: context.subscriptions.length }));
})();
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="no node to run it with")
def test_the_extension_starts_the_server():
    done = subprocess.run(
        ["node", "-e", STUBS, str(FOLDER / "extension.js")], capture_output=True, text=True, check=True, timeout=60
    )
    said = json.loads(done.stdout)
    assert said["kept"] == 2
    first, start, stop, again, last, failed, error = said["calls"]
    assert first == ["command", PACKAGE["contributes"]["commands"][0]["command"]]
    assert start == ["start", {"command": "graphfuse", "args": ["lsp"]}, [{"scheme": "file", "language": "triton-c"}]]
    assert (stop[0], last[0], failed[0]) == ("stop", "stop", "start")
    assert again[1]["command"] == "/venv/bin/graphfuse"
    assert error[0] == "error"
    assert "cannot start /venv/bin/graphfuse: ENOENT" in error[1]
