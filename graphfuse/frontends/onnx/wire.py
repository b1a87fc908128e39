"""Reads a model file without copying its weights: big `raw_data` fields stay in the mapped file.

Owns just enough of the protobuf wire format to leave those fields out; the rest goes through protobuf. Validates
nothing: on anything odd it gives up, and the caller parses the whole file.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from graphfuse.frontends.host_values import Array

GRAPH_IN_MODEL, INITIALIZER_IN_GRAPH = 7, 5
NAME_IN_TENSOR, RAW_DATA_IN_TENSOR = 8, 9
_FIXED_BYTES = {1: 8, 5: 4}
_BYTES = 2
"""The wire type of a field with a length: bytes, texts and messages."""


class _OddError(Exception):
    """The bytes are not what a serialised model looks like."""


def read_without_weights(path: Path, smallest: int) -> tuple[bytes, dict[str, Array]]:
    """The file's bytes less the raw data of initialisers of `smallest` bytes and more, and that data by name."""
    with path.open("rb") as f:
        if path.stat().st_size == 0:
            return b"", {}
        mapped = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        return _strip_model(memoryview(mapped), smallest)
    except _OddError:
        return bytes(mapped), {}


def _strip_model(data: memoryview, smallest: int) -> tuple[bytes, dict[str, Array]]:
    weights: dict[str, Array] = {}
    out: list[bytes | memoryview] = []
    for field, begin, start, end in _fields(data, 0, len(data)):
        if field == GRAPH_IN_MODEL:
            out += _field(field, _strip_graph(data, start, end, smallest, weights))
        else:
            out.append(data[begin:end])
    return b"".join(out), weights


def _strip_graph(data: memoryview, start: int, end: int, smallest: int, weights: dict[str, Array]) -> bytes:
    out: list[bytes | memoryview] = []
    kept_to = start
    for field, begin, inner, stop in _fields(data, start, end):
        if field == INITIALIZER_IN_GRAPH and stop - inner >= smallest:
            out.append(data[kept_to:begin])
            out += _field(field, _strip_tensor(data, inner, stop, smallest, weights))
            kept_to = stop
    return b"".join((*out, data[kept_to:end]))


def _strip_tensor(data: memoryview, start: int, end: int, smallest: int, weights: dict[str, Array]) -> bytes:
    name, raw = b"", None
    rest: list[memoryview] = []
    for field, begin, inner, stop in _fields(data, start, end):
        if field == RAW_DATA_IN_TENSOR and raw is None and stop - inner >= smallest:
            raw = data[inner:stop]
            continue
        if field == NAME_IN_TENSOR:
            name = bytes(data[inner:stop])
        rest.append(data[begin:stop])
    if raw is None:
        return bytes(data[start:end])
    try:
        key = name.decode()
    except UnicodeDecodeError as e:
        raise _OddError from e
    if not key or key in weights:
        raise _OddError
    weights[key] = np.frombuffer(raw, dtype=np.uint8)
    return b"".join(rest)


def _field(number: int, content: bytes) -> list[bytes | memoryview]:
    return [_varint((number << 3) | _BYTES), _varint(len(content)), content]


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _fields(data: memoryview, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Per field: its number, where it begins, where its content begins and ends."""
    while at < end:
        begin = at
        tag = data[at]
        if tag & 7 == _BYTES and tag < 0x80 and at + 1 < end and data[at + 1] < 0x80:  # most are: nodes, their names
            start = at + 2
            at = start + data[start - 1]
            if at > end:
                raise _OddError
            yield tag >> 3, begin, start, at
            continue
        tag, at = _read_varint(data, at, end)
        kind = tag & 7
        if kind == 0:
            start = at
            _, at = _read_varint(data, at, end)
        elif kind == _BYTES:
            length, start = _read_varint(data, at, end)
            at = start + length
        elif kind in _FIXED_BYTES:
            start, at = at, at + _FIXED_BYTES[kind]
        else:
            raise _OddError
        if at > end:
            raise _OddError
        yield tag >> 3, begin, start, at


def _read_varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise _OddError
