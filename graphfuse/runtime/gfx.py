"""The `.gfx` file: how an executable is laid out in bytes, and how it is read back safely.

Owns the format only; what the parts mean is `graphfuse/artifact.py`.

    prefix    magic (8 bytes), version (u32), header length (u32), file length (u64)
    header    JSON: the sections, each with offset, length, length when unpacked, encoding, SHA-256
    sections  each at a multiple of 64:
                program   JSON: signature, plan, kernels, table of code, table of weights; the same of other targets.
                          Of a model with host code also the program that runs its parts
                part.N    a compiled part of such a model: a file of this format in a file, but for weights
                code.N    a relocatable object, or a cubin
                ptx.N     zlib, text, for code of GPUs
                weights   a safetensors file of its own, each tensor at a multiple of 64 of this file: those of all
                          targets and parts. What only differs by its layout in panels is there once, as it was before
                ir        zlib, JSON: stage to text; `ir.1` and so on for other targets
                ledger    zlib, JSON; likewise
    trailer   SHA-256 of prefix and header

The trailer vouches for the header and the header for each section. `load` checks the digests of the
program and of the code before either is used, and those of `ir` and `ledger` when they are first
read. Weights are read when first used (`weights.py`), and have a checksum each, which is checked then: a SHA-256 of
440 MB would take longer than all of the rest of a reload. They are data, never addresses, and their extents are checked
against the file; a full check is `verify` (`graphfuse verify OUT.gfx`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import itertools
import json
import math
import os
import struct
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from graphfuse import __version__
from graphfuse.artifact import FOUR, Array, Code, Executable, Json, Panels, Stored, Weight, elem_dtype, fresh
from graphfuse.artifact_json import (
    FLAG,
    TEXT,
    Form,
    Node,
    given,
    in_order,
    integer,
    listed,
    one_of,
    optional,
    program_from_json,
    program_to_json,
    written,
)
from graphfuse.artifact_rules import check, check_variants
from graphfuse.errors import ArtifactError, FileError, Loc
from graphfuse.files import is_regular, kind, told, writing
from graphfuse.host.program_json import PROGRAM
from graphfuse.knobs import WeightMode, settings
from graphfuse.runtime.lazy import LazyLedger, LazyTexts
from graphfuse.runtime.weights import PIECE, Blob, Extent, Held, OpenFile, StoredArray, UnpackedArray, checksum_of

MAGIC = b"\x89GFX\r\n\x1a\n"
"""As in PNG: a transfer that strips bit 7 or rewrites line ends shows at once."""
VERSION = 5
"""Raised with what an older reader would misread."""
ALIGN = 64
"""Of sections and of weights in them: vectors are loaded from where a file is mapped."""
_PREFIX = struct.Struct("<8sIIQ")
_TRAILER_BYTES = 32
"""A SHA-256."""
_MAX_HEADER = 1 << 20
"""Of JSON that says where sections are."""
_MAX_UNPACKED = 1 << 30
"""Of a compressed section: a few bytes of zlib can stand for any number."""
MAX_TARGETS = 64
"""More than one model is ever compiled for."""
MAX_PANEL = 1 << 12
"""Columns: more than any machine's registers hold."""
MAX_PARTS = 1 << 16
"""More than a model with host code is ever cut into."""

# sub-byte and rarer formats travel as bytes: safetensors has no one-byte-per-element name for them
_SAFETENSORS = {
    "bool": "BOOL", "i8": "I8", "i16": "I16", "i32": "I32", "i64": "I64",
    "u8": "U8", "u16": "U16", "u32": "U32", "u64": "U64",
    "f16": "F16", "bf16": "BF16", "f32": "F32", "f64": "F64",
    "f8e4m3": "F8_E4M3", "f8e5m2": "F8_E5M2",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    offset: int
    length: int
    unpacked: int
    encoding: str
    sha256: str


def _read_offset(node: Node) -> int:
    try:
        return int(node.text(), 16)
    except ValueError:
        node.fail("a hexadecimal offset")


_OFFSET = Form[int](lambda at: f"{at:016x}", _read_offset)
_SECTION = in_order(_Section, TEXT, _OFFSET, integer(), integer(), one_of(("raw", "zlib")), TEXT)


# writing


def save(executable: Executable, path: str | os.PathLike[str]) -> None:
    """Write the file whole or not at all."""
    check(executable)
    with writing(Path(path)) as file:
        _write(executable, file)


@dataclass(frozen=True, slots=True)
class _Part:
    """A section to be written: its bytes in pieces, so that weights are never gathered in memory."""

    name: str
    unpacked: int
    encoding: str
    chunks: Sequence[bytes | Array]

    @property
    def length(self) -> int:
        return sum(len(c) if isinstance(c, bytes) else c.nbytes for c in self.chunks)


def _parts(executable: Executable, rows: Iterator[Json]) -> Iterator[_Part]:
    """All but the weights, of which `rows` are the next ones in the table."""
    variants = executable.variants
    codes = [code for v in variants for code in v.code.values()]
    programs: list[dict[str, Json]] = []
    for v in variants:
        program = program_to_json(v)
        program["code"] = [{"target": target, **written(code, _CODE)} for target, code in v.code.items()]
        program["weights"] = list(itertools.islice(rows, len(v.weights)))
        if v.host is not None:
            program |= {"host": PROGRAM.write(v.host), "parts": len(v.parts)}
        programs.append(program)
    head, *others = programs
    head["others"] = others
    yield _json_part("program", head)
    for i, code in enumerate(codes):
        yield _part(f"code.{i}", code.object)
        if code.ptx:
            yield _part(f"ptx.{i}", code.ptx.encode(), pack=True)
    for i, part in enumerate(p for v in variants for p in v.parts):
        file = io.BytesIO()
        _write_parts(list(_parts(part, rows)), file)
        yield _part(f"part.{i}", file.getvalue())
    for i, v in enumerate(variants):
        yield _json_part(_numbered("ir", i), dict(v.ir), pack=True)
        yield _json_part(_numbered("ledger", i), list(v.ledger), pack=True)


def _all_weights(executable: Executable) -> Iterator[Weight]:
    """Those of the targets, then those of their parts."""
    for v in executable.variants:
        yield from v.weights
    for part in (p for v in executable.variants for p in v.parts):
        yield from _all_weights(part)


_CODE: dict[str, Form[Any]] = {
    "arch": TEXT, "os": TEXT, "features": listed(TEXT), "cubins": optional(listed(integer(1))), "ptx": FLAG,
    "warnings": listed(TEXT),
}  # fmt: skip
"""What the program says of code; the objects, and PTX where there is any, are sections."""


def _numbered(name: str, variant: int) -> str:
    return f"{name}.{variant}" if variant else name


def _part(name: str, content: bytes, *, pack: bool = False) -> _Part:
    stored = zlib.compress(content) if pack else content
    return _Part(name, len(content), "zlib" if pack else "raw", [stored])


def _json_part(name: str, value: Json, pack: bool = False) -> _Part:
    return _part(name, _json_bytes(value), pack=pack)


def _json_bytes(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _write(executable: Executable, file: BinaryIO) -> None:
    rows, weights = _weight_table(list(_all_weights(executable)))
    _write_parts([*_parts(executable, iter(rows)), weights], file)


def _write_parts(parts: Sequence[_Part], file: BinaryIO) -> None:
    # offsets and digests have a fixed width, so the header is as long before they are known
    header_bytes = len(_header(parts, [0] * len(parts), ["0" * 64] * len(parts)))
    offsets: list[int] = []
    digests: list[str] = []
    end = _PREFIX.size + header_bytes
    for part in parts:
        offsets.append(_aligned(end))
        file.seek(offsets[-1])
        digest = hashlib.sha256()
        for chunk in part.chunks:
            view = _bytes_of(chunk)
            digest.update(view)
            file.write(view)
        digests.append(digest.hexdigest())
        end = offsets[-1] + part.length
    head = _PREFIX.pack(MAGIC, VERSION, header_bytes, end + _TRAILER_BYTES)
    head += _header(parts, offsets, digests)
    assert len(head) == _PREFIX.size + header_bytes, "the header does not fit the room kept for it"
    file.seek(end)
    file.write(hashlib.sha256(head).digest())
    file.seek(0)
    file.write(head)


def _header(parts: Sequence[_Part], offsets: Sequence[int], digests: Sequence[str]) -> bytes:
    rows: list[Json] = [
        _SECTION.write(_Section(p.name, offset, p.length, p.unpacked, p.encoding, sha))
        for p, offset, sha in zip(parts, offsets, digests, strict=True)
    ]
    return _json_bytes({"graphfuse": __version__, "sections": rows})


def _bytes_of(part: bytes | Array) -> memoryview:
    if isinstance(part, bytes):
        return memoryview(part)
    return np.ascontiguousarray(part).reshape(-1).view(np.uint8).data


def _aligned(offset: int) -> int:
    return -(-offset // ALIGN) * ALIGN


def _panels_row(panels: Panels) -> list[Json]:
    return [panels.axis, panels.width, panels.fours]


_Key = tuple[str, tuple[int, ...], str]


def _key(elem: str, array: Array) -> _Key:
    """The same for equal constants."""
    return elem, array.shape, hashlib.sha256(_bytes_of(array)).hexdigest()


def _weight_table(weights: Sequence[Weight]) -> tuple[list[Json], _Part]:
    """The table of weights, and a safetensors file of them, in which equal ones are one.

    safetensors allows no holes between tensors, so the bytes that align the next one are a tensor too.
    """
    rows: list[dict[str, Json]] = []
    tensors: dict[str, Json] = {}
    known: dict[_Key, dict[str, Json]] = {}
    chunks: list[bytes | Array] = []
    at = 0
    # only weights of several targets or parts, whose names repeat, can be equal, or of one constant
    is_shared = len({w.name for w in weights}) != len(weights)
    layouts: dict[_Key, set[Panels | None]] = {}
    keys: dict[int, _Key] = {}
    if is_shared:
        for w in weights:
            for data in (w.data, *(() if w.packed is None else w.packed[:1])):
                keys[id(data)] = keys.get(id(data)) or _key(w.elem, fresh(data))
            source, panels = w.packed or (w.data, None)
            layouts.setdefault(keys[id(source)], set()).add(panels)
    for i, w in enumerate(weights):
        data, panels = w.data, None
        if is_shared and w.packed is not None and len(layouts[keys[id(w.packed[0])]]) > 1:
            data, panels = w.packed
        array = fresh(data)
        shape: tuple[int, ...] = array.shape
        key = keys.get(id(data)) or (w.elem, shape, str(i))
        if key not in known:
            if pad := -at % ALIGN:
                tensors[f"__pad__.{i}"] = {"dtype": "U8", "shape": [pad], "data_offsets": [at, at + pad]}
                chunks.append(bytes(pad))
                at += pad
            stored = w.name if w.name not in tensors else f"{w.name}.{i}"
            dtype, end = _SAFETENSORS.get(w.elem, "U8"), at + array.nbytes
            tensors[stored] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, end]}
            known[key] = {
                "stored": stored,
                "offset": at,
                "checksum": checksum_of(np.frombuffer(_bytes_of(array), np.uint8)),
            }
            chunks.append(array)
            at = end
        row = {"name": w.name, "elem": w.elem, "shape": list(shape), **known[key]}
        if panels is not None:
            row["panels"] = _panels_row(panels)
        elif w.packed is not None:
            row["panels_of"] = [list(w.packed[0].shape), *_panels_row(w.packed[1])]
        rows.append(row)
    text = _json_bytes(tensors)
    text += b" " * (-(len(text) + 8) % ALIGN)  # so that the data starts aligned
    head = struct.pack("<Q", len(text)) + text
    table: list[Json] = [{**row, "offset": len(head) + cast("int", row["offset"])} for row in rows]
    return table, _Part("weights", len(head) + at, "raw", [head, *chunks])


# reading


def load(path: str | os.PathLike[str], weights: WeightMode | None = None) -> Executable:
    """Read a file; nothing in it is used before it was found to be what it claims.

    `weights` says how those are read; by default as the knob does.
    """
    with _located(path):
        return _read(_opened(path, weights or settings.weights or "checked"))


def dumps(executable: Executable) -> bytes:
    """What `save` would write."""
    check(executable)
    file = io.BytesIO()
    _write(executable, file)
    return file.getvalue()


def loads(data: bytes) -> Executable:
    """The executable that `dumps` had."""
    return _read(_File(Extent(Held(data), 0, len(data)), "checked"))


def _read(file: _File, is_part: bool = False) -> Executable:
    root = Node(file.json("program"))
    codes, parts = itertools.count(), itertools.count()
    programs = [root, *root["others"].items(0, MAX_TARGETS)]
    first, *others = [_variant(r, file, i, codes, () if is_part else parts) for i, r in enumerate(programs)]
    executable = dataclasses.replace(first, others=tuple(others))
    check_variants(executable)
    return executable


def _variant(root: Node, file: _File, number: int, codes: Iterator[int], parts: Iterable[int]) -> Executable:
    weights, code = _read_weights(root["weights"], file), _read_code(root["code"], file, codes)
    if "host" not in root:
        return program_from_json(root, weights, code, **_lazy(file, number))
    count = root["parts"].integer(0, MAX_PARTS)
    found = tuple(_read_part(file, i) for i in itertools.islice(parts, count))
    return program_from_json(root, weights, code, host=PROGRAM.read(root["host"]), parts=found, **_lazy(file, number))


def _read_part(file: _File, number: int) -> Executable:
    name = f"part.{number}"
    try:
        return _read(file.inner(name), is_part=True)
    except ArtifactError as e:
        raise ArtifactError(f"{name}: {e.message}") from None


def verify(path: str | os.PathLike[str]) -> dict[str, int]:
    """Check everything `load` checks and every digest, the weights' too; bytes by section."""
    load(path)
    with _located(path):
        file = _opened(path, "checked")
        _verify(file)
    return {s.name: s.length for s in file.sections.values()}


def _verify(file: _File) -> None:
    for section in file.sections.values():
        file.check(section)
        if section.name.startswith("part."):
            _verify(file.inner(section.name))
    root = Node(file.json("program"))
    for program in (root, *root["others"].items()):
        _check_safetensors(program["weights"], file)


def is_artifact(path: str | os.PathLike[str]) -> bool:
    """Whether the file is, or was meant to be, a `.gfx`: by its first bytes or else by its name."""
    with told("read", path):
        if not is_regular(Path(path)):
            raise FileError(f"expected a file, found {kind(Path(path))}", Loc(str(path)))
        with Path(path).open("rb") as file:
            return file.read(4) == MAGIC[:4] or Path(path).suffix == ".gfx"


@contextlib.contextmanager
def _located(path: str | os.PathLike[str]) -> Generator[None]:
    try:
        yield
    except ArtifactError as e:
        raise e if e.loc else ArtifactError(e.message, Loc(str(path))) from None


def _opened(path: str | os.PathLike[str], weights: WeightMode) -> _File:
    file = OpenFile(Path(path))
    return _File(Extent(file, 0, file.nbytes), weights)


class _File:
    """The bytes of a file whose prefix, header and trailer have been found in order."""

    def __init__(self, data: Extent, mode: WeightMode, around: _File | None = None) -> None:
        if len(data) < _PREFIX.size + _TRAILER_BYTES:
            raise ArtifactError(f"not a graphfuse artifact: {len(data)} bytes")
        self._data = data
        self.mode: WeightMode = mode
        magic, version, header_bytes, file_bytes = _PREFIX.unpack(data.read(0, _PREFIX.size))
        if magic != MAGIC:
            raise ArtifactError(f"not a graphfuse artifact: expected {MAGIC!r} at 0, found {magic!r}")
        if version != VERSION:
            raise ArtifactError(
                f"artifact format: expected version {VERSION}, found {version}; compile the model again"
            )
        if file_bytes != len(data):
            what = "truncated" if file_bytes > len(data) else "too long"
            raise ArtifactError(f"{what}: expected {file_bytes} bytes, found {len(data)}")
        end = _PREFIX.size + header_bytes
        if header_bytes > _MAX_HEADER or end > len(data) - _TRAILER_BYTES:
            raise ArtifactError(f"header: expected at most {_MAX_HEADER} bytes, found {header_bytes}")
        head = data.read(0, end)
        _check_digest("header", hashlib.sha256(head).hexdigest(), data.read(len(data) - _TRAILER_BYTES).hex())
        self.sections = {s.name: s for s in self._read_sections(Node(_json("header", head[24:])), end)}
        self.weights: Extent = self.view("weights") if around is None else around.weights
        self.blobs: dict[tuple[int, int, int], Blob] = {} if around is None else around.blobs
        """By place, length and checksum."""

    def inner(self, name: str) -> _File:
        """A part, which is a file in the file, and has its weights here."""
        return _File(self.view(name), self.mode, self)

    def blob(self, offset: int, length: int, check: int) -> Blob:
        """Bytes of the weights; one object for all who have the same."""
        if (found := self.blobs.get((offset, length, check))) is None:
            found = self.blobs[offset, length, check] = Blob(self.weights.part(offset, length), check, self.mode)
        return found

    def _read_sections(self, root: Node, start: int) -> Iterator[_Section]:
        for row in root["sections"].items():
            section, end = _SECTION.read(row), len(self._data) - _TRAILER_BYTES
            at = section.offset
            if not start <= at <= at + section.length <= end or at % ALIGN:
                row.fail(f"a section inside {start}..{end}")
            yield section

    def section(self, name: str) -> _Section:
        """Where a section is."""
        if name not in self.sections:
            raise ArtifactError(f"expected a section {name!r}, found {', '.join(self.sections)}")
        return self.sections[name]

    def view(self, name: str) -> Extent:
        """Where a section's bytes are, not checked."""
        section = self.section(name)
        return self._data.part(section.offset, section.length)

    def check(self, section: _Section) -> None:
        """Whether a section has its digest, read piece by piece."""
        view, digest = self.view(section.name), hashlib.sha256()
        for at in range(0, len(view), PIECE):
            digest.update(view.read(at, min(PIECE, len(view) - at)))
        _check_digest(f"section {section.name!r}", digest.hexdigest(), section.sha256)

    def content(self, name: str) -> bytes:
        """A section's bytes, checked against its digest and unpacked."""
        section = self.section(name)
        data = self.view(name).read()
        _check_digest(f"section {name!r}", hashlib.sha256(data).hexdigest(), section.sha256)
        if section.encoding == "raw":
            return data
        if section.unpacked > _MAX_UNPACKED:
            raise ArtifactError(f"section {name!r}: expected at most {_MAX_UNPACKED} bytes when unpacked")
        unpacker = zlib.decompressobj()
        try:
            content = unpacker.decompress(data, section.unpacked + 1)
        except zlib.error as e:
            raise ArtifactError(f"section {name!r}: {str(e).lower()}") from None
        if len(content) != section.unpacked:
            raise ArtifactError(f"section {name!r}: expected {section.unpacked} bytes when unpacked")
        return content

    def json(self, name: str) -> Any:
        """A section's JSON."""
        return _json(f"section {name!r}", self.content(name))


def _json(what: str, text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as e:
        raise ArtifactError(f"{what}: malformed JSON: {e}") from None


def _check_digest(what: str, found: str, expected: str) -> None:
    if found != expected:
        raise ArtifactError(f"{what} is corrupted: expected SHA-256 {expected[:16]}..., found {found[:16]}...")


def _read_weights(root: Node, file: _File) -> tuple[Weight, ...]:
    weights: list[Weight] = []
    for row in root.items():
        elem = row["elem"].text()
        try:
            dtype = elem_dtype(elem)
        except KeyError:
            row["elem"].fail("an element type")
        shape = _read_shape(row["shape"])
        offset = row["offset"].integer()
        nbytes = dtype.itemsize * math.prod(shape)
        if offset % ALIGN or offset + nbytes > len(file.weights):
            row.fail(f"a tensor at a multiple of {ALIGN} inside {len(file.weights)} bytes of weights")
        data = StoredArray(blob := file.blob(offset, nbytes, row["checksum"].integer()), dtype, shape)
        packed: tuple[Stored, Panels] | None = None
        if "panels" in row:  # made when it is read
            packed = data, _read_panels(row["panels"].items(3, 3), shape)
            data = StoredArray(blob, dtype, shape, packed[1])
        elif "panels_of" in row:
            of, *layout = row["panels_of"].items(4, 4)
            whole, panels = _read_shape(of), _read_panels(layout, _read_shape(of))
            if panels.shape(whole) != shape:
                of.fail(f"a constant whose panels are {shape}")
            packed = UnpackedArray(data, panels, whole), panels
        weights.append(Weight(row["name"].text(), elem, data, packed))
    if len({w.name for w in weights}) != len(weights):
        root.fail("weights with different names")
    return tuple(weights)


def _read_shape(root: Node) -> tuple[int, ...]:
    shape = tuple(d.integer() for d in root.items(0, 32))
    if math.prod(d or 1 for d in shape) >= 1 << 60:  # a 0 beside dims whose product no array can have
        root.fail("a shape")
    return shape


def _read_panels(row: Sequence[Node], shape: Sequence[int]) -> Panels:
    axis, width, fours = row
    panels = Panels(axis.integer(), width.integer(1), None if fours.value is None else fours.integer())
    along = (panels.axis, *(() if panels.fours is None else (panels.fours,)))
    by_fours = panels.fours is None or (panels.fours < len(shape) and shape[panels.fours] % FOUR == 0)
    if max(along) >= len(shape) or len(set(along)) != len(along) or not by_fours or panels.width > MAX_PANEL:
        axis.fail(f"an axis, up to {MAX_PANEL} columns, and an axis that goes by fours, of a constant {shape}")
    return panels


def _read_code(root: Node, file: _File, numbers: Iterator[int]) -> dict[str, Code]:
    code: dict[str, Code] = {}
    for row, i in zip(root.items(), numbers, strict=False):
        known = given(row, _CODE)
        ptx = file.content(f"ptx.{i}").decode(errors="replace") if known.pop("ptx") else ""
        made = Code(**known, object=file.content(f"code.{i}"), ptx=ptx)
        if made.cubins and sum(made.cubins) != len(made.object):
            row["cubins"].fail(f"lengths that make {len(made.object)} bytes")
        code[row["target"].text()] = made
    return code


def _check_safetensors(table: Node, file: _File) -> None:
    """Whether the safetensors header, which `load` has no use for, agrees with the table."""
    view = file.weights
    (length,) = struct.unpack("<Q", view.read(0, 8)) if len(view) >= 8 else (0,)
    if length > len(view) - 8:
        raise ArtifactError(f"weights: expected a header inside {len(view)} bytes, found {length}")
    head = Node(_json("weights", view.read(8, length)), "weights")
    for row in table.items():
        begin = head[row["stored"].text()]["data_offsets"].items(2, 2)[0].integer()
        if begin + 8 + length != row["offset"].integer():
            row.fail(f"a tensor at {begin + 8 + length}")


def _lazy(file: _File, variant: int) -> dict[str, Any]:
    ir, ledger = (_numbered(name, variant) for name in ("ir", "ledger"))
    for name in (ir, ledger):
        file.section(name)
    return {"ir": LazyTexts(lambda: file.json(ir)), "ledger": LazyLedger(lambda: file.json(ledger))}
