"""Text from tokens, as they come: characters of several tokens, and stop strings, wait until they are whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from graphfuse.errors import Loc, ParseError, UsageError
from graphfuse.files import read_source


class Tokenizer(Protocol):
    """What generation needs of one."""

    def encode(self, text: str) -> list[int]:
        """Token ids of a prompt, with those that a prompt begins with."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens; special ones have none, and parts of a character are U+FFFD."""
        ...


class FileTokenizer:
    """A `tokenizer.json`, read by the package `tokenizers`."""

    MOST_BYTES = 1 << 28

    def __init__(self, path: Path) -> None:
        """Read it.

        Raises:
            UsageError: There is no `tokenizers`.
            FileError: The file cannot be read.
            ParseError: It is no tokenizer.
        """
        try:
            import tokenizers
        except ImportError:
            raise UsageError("tokenizers is not installed: pip install 'graphfuse[text]'") from None
        text = read_source(path, most=self.MOST_BYTES)
        try:
            self._tokenizer: Any = tokenizers.Tokenizer.from_str(text)
        except Exception as e:  # noqa: BLE001  # it raises nothing more special
            raise ParseError(f"not a tokenizer: {str(e)[:200]}", Loc(str(path))) from None

    def encode(self, text: str) -> list[int]:
        """Token ids of a prompt, with those that the file's post-processor adds."""
        return list(self._tokenizer.encode(text).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens, without special ones."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=True)


class TextStream:
    """The text of one sequence: `push` gives what a token makes certain, `flush` what was still held back."""

    def __init__(self, tokenizer: Tokenizer | None, stop_strings: Sequence[str] = ()) -> None:
        self._tokenizer, self._stops = tokenizer, stop_strings
        self._ids: list[int] = []
        self._read = 0
        """So many of `_ids` are text already; they stay, as what a token means may depend on those before it."""
        self._held = ""

    def push(self, token: int) -> tuple[str, bool]:
        """Take a token: the text that is certain now, and whether a stop string ended it."""
        if self._tokenizer is None:
            return "", False
        self._ids.append(token)
        new = self._decoded()
        if not new or new.endswith("\ufffd"):
            return "", False
        self._ids, self._read = self._ids[self._read :], len(self._ids) - self._read
        text = self._held + new
        # of what is complete, what was complete first, however the text was cut into tokens
        found = [(at + len(s), at) for s in self._stops if (at := text.find(s)) >= 0]
        if found:
            self._held = ""
            return text[: min(found)[1]], True
        held = max((n for s in self._stops for n in range(1, len(s)) if text.endswith(s[:n])), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held], False

    def flush(self) -> str:
        """What is left at the end of a sequence that no stop string ended."""
        text, self._held = self._held + (self._decoded() if self._tokenizer else ""), ""
        self._ids, self._read = [], 0
        return text

    def _decoded(self) -> str:
        """The text of the tokens behind those that were read."""
        assert self._tokenizer is not None
        return self._tokenizer.decode(self._ids)[len(self._tokenizer.decode(self._ids[: self._read])) :]
