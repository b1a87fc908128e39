"""An editor: starts the server as editors do, speaks the protocol to it, and keeps what it was told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from queue import Empty, Queue
from typing import Any

PATIENCE = 60.0
"""Seconds after which a server that says nothing is dead."""


class RefusedError(Exception):
    """The server's error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code = error["code"]


class Editor:
    """One server process and its documents."""

    def __init__(self, folder: Path | None = None, **capabilities: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "graphfuse", "lsp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._messages: Queue[dict[str, Any] | None] = Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._number = 0
        self._versions: dict[str, int] = {}
        folders = [{"uri": folder.as_uri(), "name": folder.name}] if folder is not None else None
        can = {"textDocument": {"rename": {"prepareSupport": True}}, **capabilities}
        params = {"processId": None, "rootUri": None, "workspaceFolders": folders, "capabilities": can}
        self.capabilities = self.ask("initialize", params)["capabilities"]
        self.tell("initialized", {})

    def _read(self) -> None:
        out = self.process.stdout
        assert out is not None
        while True:
            length = 0
            while (line := out.readline()).strip():
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            if not length:
                self._messages.put(None)
                return
            self._messages.put(json.loads(out.read(length)))

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        self.process.stdin.flush()

    def tell(self, method: str, params: Any) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    def ask(self, method: str, params: Any) -> Any:
        """Send a request; its result, or RefusedError."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        answer = self.until(lambda m: m.get("id") == self._number and "method" not in m)
        if "error" in answer:
            raise RefusedError(answer["error"])
        return answer["result"]

    def until(self, wanted: Any) -> Any:
        """The next message that is wanted."""
        while True:
            try:
                message = self._messages.get(timeout=PATIENCE)
            except Empty:
                raise AssertionError("the server does not answer") from None
            assert message is not None, "the server ended"
            if wanted(message):
                return message

    # documents

    def open(self, path: Path, text: str) -> list[Any]:
        """Show a text; what is found in it."""
        self._versions[path.as_uri()] = 1
        document = {"uri": path.as_uri(), "languageId": "triton-c", "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": document})
        return self.diagnostics(path)

    def change(self, path: Path, text: str) -> None:
        """Type: what is found in it is published later."""
        uri = path.as_uri()
        self._versions[uri] += 1
        document = {"uri": uri, "version": self._versions[uri]}
        self.tell("textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]})

    def diagnostics(self, path: Path) -> list[Any]:
        """What is published next for a document."""

        def is_that(message: dict[str, Any]) -> bool:
            published = message.get("method") == "textDocument/publishDiagnostics"
            return published and message["params"]["uri"] == path.as_uri()

        return self.until(is_that)["params"]["diagnostics"]

    def at(self, method: str, path: Path, line: int, character: int, **more: Any) -> Any:
        """Ask about a position."""
        where = {"textDocument": {"uri": path.as_uri()}, "position": {"line": line, "character": character}}
        return self.ask(f"textDocument/{method}", {**where, **more})

    def about(self, method: str, path: Path, **more: Any) -> Any:
        """Ask about a document."""
        return self.ask(f"textDocument/{method}", {"textDocument": {"uri": path.as_uri()}, **more})

    def seconds(self) -> float:
        """The time that the server has had, which other programs have no part in; where that is not told, the clock."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return time.perf_counter()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> int:
        """End the server as the protocol wants it; its exit status."""
        self.ask("shutdown", None)
        self.tell("exit", None)
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """End it in any case."""
        self.process.kill()
        self.process.wait()
        self._reader.join(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


def units(text: str) -> int:
    """The UTF-16 units of a text."""
    return len(text.encode("utf-16-le")) // 2


def where(text: str, word: str, nth: int = 0) -> tuple[int, int]:
    """The line and the UTF-16 column of the nth place of a word."""
    at = -1
    for _ in range(nth + 1):
        at = text.index(word, at + 1)
    before = text[:at].replace("\r\n", "\n")
    line = before.count("\n")
    return line, units(before[before.rfind("\n") + 1 :])


def applied(text: str, edits: list[Any]) -> str:
    """A text after the edits of the server."""
    rows = text.replace("\r\n", "\n").split("\n")
    starts = [0]
    for row in rows:
        starts.append(starts[-1] + units(row) + 1)
    data = "\n".join(rows).encode("utf-16-le")

    def offset(position: Any) -> int:
        return 2 * (starts[position["line"]] + position["character"])

    for edit in sorted(edits, key=lambda e: offset(e["range"]["start"]), reverse=True):
        start, end = (offset(edit["range"][key]) for key in ("start", "end"))
        data = data[:start] + edit["newText"].replace("\r\n", "\n").encode("utf-16-le") + data[end:]
    done = data.decode("utf-16-le")
    return done.replace("\n", "\r\n") if "\r\n" in text else done
