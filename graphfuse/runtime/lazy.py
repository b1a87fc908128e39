"""What of an artifact few callers look at: read when it is first asked for. `read` gives a section's JSON, checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, overload

from graphfuse.artifact import Json
from graphfuse.artifact_json import Node


class LazyTexts(Mapping[str, str]):
    """The IR texts of a file, checked and unpacked when first asked for."""

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read

    @cached_property
    def _texts(self) -> dict[str, str]:
        root = Node(self._read(), "ir")
        return {name: root[name].text() for name in root.object()}

    def __getitem__(self, stage: str) -> str:
        return self._texts[stage]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


class LazyLedger(Sequence[Json]):
    """The ledger of a file, checked and unpacked when first asked for."""

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read

    @cached_property
    def _rows(self) -> list[Json]:
        return [n.value for n in Node(self._read(), "ledger").items()]

    @overload
    def __getitem__(self, index: int) -> Json: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Json]: ...
    def __getitem__(self, index: int | slice) -> Json | Sequence[Json]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)
