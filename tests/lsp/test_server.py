"""The server as an editor sees it: over standard input and output."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls")

SOURCE = "__global__ void k(float *x) {\n  int o[SIZE] = 0 ... SIZE;\n  *(x+o) = o;\n}\n"


class Editor:
    """Sends requests, reads answers."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "graphfuse", "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.number = 0

    def send(self, method: str, params: Any, *, answered: bool = True) -> Any:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if answered:
            self.number += 1
            message["id"] = self.number
        body = json.dumps(message).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        self.process.stdin.flush()
        return self.until(lambda m: m.get("id") == self.number)["result"] if answered else None

    def until(self, wanted: Any) -> Any:
        """The first message that is wanted."""
        out = self.process.stdout
        assert out is not None
        while True:
            length = 0
            while (line := out.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            assert length, "the server ended"
            message = json.loads(out.read(length))
            if wanted(message):
                return message

    def diagnostics(self) -> Any:
        found = self.until(lambda m: m.get("method") == "textDocument/publishDiagnostics")
        return found["params"]["diagnostics"]


def test_a_session(tmp_path: Path) -> None:
    path = tmp_path / "k.tc"
    uri = path.as_uri()
    editor = Editor()
    try:
        can = editor.send("initialize", {"processId": None, "rootUri": None, "capabilities": {}})["capabilities"]
        assert can["hoverProvider"]
        assert can["definitionProvider"]
        assert can["documentFormattingProvider"]
        editor.send("initialized", {}, answered=False)
        document = {"uri": uri, "languageId": "triton-c", "version": 1, "text": SOURCE}
        editor.send("textDocument/didOpen", {"textDocument": document}, answered=False)
        (first, *_) = editor.diagnostics()
        assert first["range"]["start"]["line"] == 1
        assert "SIZE" in first["message"]
        (tmp_path / ".tritonc.json").write_text('{"defines": {"SIZE": 32}}')
        change = {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": SOURCE}]}
        editor.send("textDocument/didChange", change, answered=False)
        assert editor.diagnostics() == []
        at = {"textDocument": {"uri": uri}, "position": {"line": 2, "character": 6}}
        assert "int[32] o" in editor.send("textDocument/hover", at)["contents"]["value"]
        to = editor.send("textDocument/definition", at)
        assert to["uri"] == uri
        assert to["range"]["start"] == {"line": 1, "character": 6}
        options = {"textDocument": {"uri": uri}, "options": {"tabSize": 2, "insertSpaces": True}}
        assert isinstance(editor.send("textDocument/formatting", options), list | None)
        editor.send("shutdown", None)
        editor.send("exit", None, answered=False)
        assert editor.process.wait(10) == 0
    finally:
        editor.process.kill()
        editor.process.wait()
        for pipe in (editor.process.stdin, editor.process.stdout):
            assert pipe is not None
            pipe.close()
