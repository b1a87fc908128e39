"""What is asked of an object file before LLVM gets it: that it has the form of those that graphfuse writes.

LLVM's linker trusts its input: it aborts the process, reads out of bounds or prints where a table does not hold what it
should. So all that it reads is looked at here: the header, sections, symbols and relocations. What the machine code in
it does is not (SECURITY.md). The layouts are those of the ELF-64 object file format and of the processors' supplements.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection
from typing import Any, NoReturn

import numpy as np

from graphfuse.errors import ArtifactError

Table = np.ndarray[Any, Any]

_HEADER = np.dtype([
    ("magic", "S4"), ("ident", "u1", 12), ("type", "<u2"), ("machine", "<u2"), ("version", "<u4"), ("entry", "<u8"),
    ("segments", "<u8"), ("at", "<u8"), ("flags", "<u4"), ("bytes", "<u2"), ("segment_bytes", "<u2"),
    ("segment_count", "<u2"), ("section_bytes", "<u2"), ("count", "<u2"), ("names", "<u2"),
])  # fmt: skip
_SECTION = np.dtype([
    ("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("address", "<u8"), ("at", "<u8"), ("bytes", "<u8"),
    ("link", "<u4"), ("info", "<u4"), ("align", "<u8"), ("entry_bytes", "<u8"),
])  # fmt: skip
_SYMBOL = np.dtype([
    ("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("bytes", "<u8"),
])  # fmt: skip
_RELOCATION = np.dtype([("at", "<u8"), ("kind", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])

_NULL, _PROGBITS, _SYMTAB, _STRTAB, _RELA, _NOBITS = 0, 1, 2, 3, 4, 8
_ALLOC, _FLAGS = 2, 0x77
"""Sections that are in memory, and what else is known: write, execute, merge, strings, info is a section."""
_IDENT = bytes([2, 1, 1, 0]) + bytes(8)
"""64 bits, little endian, version 1, no particular system."""
_NAMES = (".text", ".rodata", ".data", ".bss", ".rela.", ".strtab", ".symtab", ".note.GNU-stack", ".comment")
_MOST_BYTES, _MOST_ALIGN, _FAR = 1 << 29, 4096, 1 << 30
_LOCAL, _GLOBAL, _FILE = 0, 1, 4
_UNDEFINED, _ABSOLUTE = 0, 0xFFF1

_MACHINES: dict[int, dict[int, tuple[int, int]]] = {
    62: {1: (0, 8), 2: (0, 4), 4: (0, 4), 9: (0, 4), 24: (0, 8), 41: (2, 4), 42: (3, 4)},
    183: {n: (0, 8 if n in (257, 260) else 4)
          for n in (257, 258, 260, 261, 275, 277, 278, 282, 283, 284, 285, 286, 299, 311, 312)},
}  # fmt: skip
"""By machine and kind of relocation: how many bytes before its place, and from there on, a linker looks at."""


def check_object(code: bytes, names: Collection[str]) -> None:
    """Raise ArtifactError for an ELF object that is malformed or lacks one of the functions `names`.

    Objects of other formats are not looked at.
    """
    if code[:4] == b"\x7fELF":
        _Object(code).check(names)


def _refuse(what: str) -> NoReturn:
    raise ArtifactError(f"the object is malformed: {what}")


class _Object:
    """The tables of an object, each checked when it is read."""

    def __init__(self, code: bytes) -> None:
        self.code = code
        if not _HEADER.itemsize <= len(code) <= _MOST_BYTES:
            _refuse(f"expected {_HEADER.itemsize} to {_MOST_BYTES} bytes, found {len(code)}")
        (head,) = np.frombuffer(code, _HEADER, 1)
        if code[4:16] != _IDENT or head["version"] != 1:
            _refuse(f"header: expected a 64-bit little-endian ELF file of version 1, found {code[4:16].hex()}")
        if head["type"] != 1 or head["segment_count"]:
            _refuse("header: expected a relocatable file")
        if int(head["machine"]) not in _MACHINES:
            _refuse(f"header: expected a machine of {', '.join(map(str, _MACHINES))}, found {head['machine']}")
        self.kinds = _MACHINES[int(head["machine"])]
        if head["section_bytes"] != _SECTION.itemsize or head["bytes"] != _HEADER.itemsize or head["at"] % 8:
            _refuse("header: expected sections of 64 bytes, aligned")
        self.sections = self._table("sections", int(head["at"]), int(head["count"]), _SECTION)
        self._check_sections(int(head["names"]))

    def _table(self, what: str, at: int, count: int, of: np.dtype[Any]) -> Table:
        if not 0 < count * of.itemsize <= len(self.code) - at:
            _refuse(f"{what}: expected a table inside {len(self.code)} bytes, found {count} entries at {at}")
        return np.frombuffer(self.code, of, count, at)

    def _entries(self, i: int, of: np.dtype[Any]) -> Table:
        section = self.sections[i]
        if section["entry_bytes"] != of.itemsize or section["bytes"] % of.itemsize or section["at"] % 8:
            _refuse(f"section {i}: expected entries of {of.itemsize} bytes, found {section['entry_bytes']}")
        return np.frombuffer(self.code, of, int(section["bytes"]) // of.itemsize, int(section["at"]))

    def _check_sections(self, names: int) -> None:
        s, size = self.sections, len(self.code)
        if bytes(s[:1]).strip(b"\0"):
            _refuse("section 0: expected zeros")
        known = np.isin(s["type"][1:], (_PROGBITS, _SYMTAB, _STRTAB, _RELA, _NOBITS))
        self._all("sections: unknown type of section", known, 1)
        self._all("sections: unknown flags of section", (s["flags"] & ~np.uint64(_FLAGS)) == 0)
        stored = np.where(s["type"] == _NOBITS, 0, s["bytes"])
        inside = (s["at"] <= size) & (s["bytes"] <= _MOST_BYTES) & (stored <= size - np.minimum(s["at"], size))
        self._all(f"sections: expected them inside {size} bytes, found otherwise section", inside)
        align = s["align"][1:]
        is_power = (align > 0) & ((align & (align - np.uint64(1))) == 0)  # numpy.isin of many takes 30 ms to import
        self._all("sections: wrong alignment of section", is_power & (align <= _MOST_ALIGN), 1)
        self._all("sections: wrong address of section", s["address"] == 0)
        if not 0 < names < len(s) or s["type"][names] != _STRTAB:
            _refuse(f"header: section {names} has no names")
        for i, text in enumerate(self._texts(names, s["name"][1:]), 1):
            if not text.startswith(_NAMES):
                _refuse(f"section {i}: expected one of {', '.join(_NAMES)}, found {text!r}")

    def _all(self, what: str, holds: Table, first: int = 0) -> None:
        if not holds.all():
            _refuse(f"{what} {first + int(np.argmin(holds))}")

    def _texts(self, section: int, places: Table) -> list[str]:
        """The texts that begin at these places of a section of texts."""
        at, n = (int(self.sections[name][section]) for name in ("at", "bytes"))
        texts = self.code[at : at + n]
        if not texts.endswith(b"\0") or not texts.isascii():
            _refuse(f"section {section}: expected texts that end with 0")
        self._all(f"section {section}: expected places in {n} bytes, found otherwise entry", places < n)
        return [texts[p : texts.index(b"\0", p)].decode() for p in places.tolist()]

    def check(self, names: Collection[str]) -> None:
        """Symbols and relocations, too."""
        tables = np.flatnonzero(self.sections["type"] == _SYMTAB).tolist()
        if len(tables) != 1:
            _refuse(f"expected one table of symbols, found {len(tables)}")
        (table,) = tables
        symbols = self._entries(table, _SYMBOL)
        self._check_symbols(symbols, self.sections[table], names)
        targets: list[int] = []
        for i in np.flatnonzero(self.sections["type"] == _RELA).tolist():
            if self.sections["link"][i] != table:
                _refuse(f"section {i}: expected relocations by the symbols of section {table}")
            targets.append(int(self.sections["info"][i]))
            self._check_relocations(i, targets[-1], symbols)
        if len(set(targets)) != len(targets):
            _refuse("expected one table of relocations for a section, found several")

    def _in_memory(self, sections: Table) -> Table:
        """Which numbers of sections are those of sections that are in memory."""
        s = self.sections
        whole = np.isin(s["type"], (_PROGBITS, _NOBITS)) & ((s["flags"] & _ALLOC) != 0) & (s["bytes"] > 0)
        return (sections < len(s)) & whole[np.minimum(sections, len(s) - 1)]

    def _check_symbols(self, symbols: Table, table: Any, names: Collection[str]) -> None:
        s, link = self.sections, int(table["link"])
        if not 0 < link < len(s) or s["type"][link] != _STRTAB:
            _refuse("symbols: expected a section of their names")
        if not len(symbols) or bytes(symbols[:1]).strip(b"\0"):
            _refuse("symbol 0: expected zeros")
        kind, bind, section = symbols["info"] & 15, symbols["info"] >> 4, symbols["section"]
        known = (kind <= _FILE) & (bind <= _GLOBAL) & np.isin(symbols["other"], (0, 2))
        self._all("symbols: unknown type of symbol", known)
        is_local = np.arange(len(symbols)) < table["info"]
        self._all("symbols: expected local ones first, found otherwise symbol", is_local == (bind == _LOCAL))
        outside = (section == _UNDEFINED) & (is_local == (np.arange(len(symbols)) == 0)) & (kind == 0)
        file = (section == _ABSOLUTE) & (kind == _FILE) & is_local
        self._all(
            "symbols: expected them in sections in memory, found otherwise symbol",
            outside | file | (self._in_memory(section) & (kind != _FILE)),
        )
        room = np.where(outside | file, 0, s["bytes"][np.minimum(section, len(s) - 1)])
        within = (symbols["value"] <= room) & (symbols["bytes"] <= room - np.minimum(symbols["value"], room))
        self._all("symbols: one is not inside its section: symbol", within)
        texts = self._texts(link, symbols["name"])
        seen = {t: n for t, b, n in zip(texts, bind.tolist(), section.tolist(), strict=True) if b}
        own = {t for t, b in zip(texts, bind.tolist(), strict=True) if not b}
        if len(seen) != np.count_nonzero(bind) or "" in seen or own & seen.keys():
            _refuse("symbols: expected one of each name")
        if missing := sorted(name for name in names if seen.get(name, _UNDEFINED) == _UNDEFINED):
            raise ArtifactError(f"the object exports no function {missing[0]!r}")
        process = ctypes.CDLL(None)
        for text, is_outside in zip(texts[1:], outside.tolist()[1:], strict=True):
            if is_outside and not (text.isidentifier() and hasattr(process, text)):
                _refuse(f"symbols: this process has no function {text!r}")

    def _check_relocations(self, i: int, target: int, symbols: Table) -> None:
        rows, what = self._entries(i, _RELOCATION), f"section {i}: relocations:"
        if not self._in_memory(np.array([target])).all() or self.sections["type"][target] != _PROGBITS:
            _refuse(f"{what} expected them for a section in memory, found section {target}")
        size = int(self.sections["bytes"][target])
        reach = np.array([self.kinds.get(kind, (0, _FAR)) for kind in rows["kind"].tolist()], np.int64).reshape(-1, 2)
        self._all(f"{what} unknown kind of entry", reach[:, 1] < _FAR)
        at = np.minimum(rows["at"], _FAR).astype(np.int64)
        self._all(f"{what} one is not inside its section: entry", (at >= reach[:, 0]) & (at + reach[:, 1] <= size))
        self._all(f"{what} unknown symbol of entry", (rows["symbol"] > 0) & (rows["symbol"] < len(symbols)))
        found = symbols[rows["symbol"]]
        self._all(f"{what} wrong symbol of entry", found["section"] != _ABSOLUTE)
        near = np.where(found["section"] == _UNDEFINED, 16, _FAR)
        self._all(f"{what} too far away: entry", np.abs(rows["addend"]) <= near)
