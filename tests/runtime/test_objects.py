"""Objects with right digests and wrong tables: one error each, before LLVM sees them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from graphfuse.cli import main
from graphfuse.errors import ArtifactError
from graphfuse.llvm import elf
from graphfuse.llvm.elf import check_object
from graphfuse.runtime import gfx
from graphfuse.runtime.native import EXECUTOR
from graphfuse.targets import Target
from tests.machine import HOST
from tests.runtime.sample import executable

pytestmark = pytest.mark.skipif("linux" not in HOST.triple, reason="objects of Linux are looked at")

CODE = next(iter(executable().code.values())).object
SYMTAB, STRTAB, RELA = 2, 3, 4
TEXT = b".text\0"


class Tables:
    """An object's tables as arrays that write into it."""

    def __init__(self):
        self.data = bytearray(CODE)
        self.head = np.frombuffer(self.data, elf._HEADER, 1)
        self.sections = np.frombuffer(self.data, elf._SECTION, int(self.head["count"][0]), int(self.head["at"][0]))
        self.symbols, self.rows = self._of(SYMTAB, elf._SYMBOL), self._of(RELA, elf._RELOCATION)

    def section(self, kind):
        return int(np.flatnonzero(self.sections["type"] == kind)[0])

    def _of(self, kind, dtype):
        section = self.sections[self.section(kind)]
        return np.frombuffer(self.data, dtype, int(section["bytes"]) // dtype.itemsize, int(section["at"]))

    def put(self, where, value):
        """`head.type`, `sections[4].link`, `symbols[-1].name`, ... is now this number."""
        name, at, column = re.fullmatch(r"(\w+)(?:\[(-?\w+)\])?\.(\w+)", where).groups()
        row = 0 if at is None else self.section({"symtab": SYMTAB, "rela": RELA}[at]) if at.isalpha() else int(at)
        getattr(self, name)[column][row] = value


def test_what_is_written_is_taken():
    check_object(CODE, EXECUTOR)
    check_object(b"MZ", ["f"])  # of another system


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        ("head.version", 2, "header: expected a 64-bit little-endian ELF file of version 1"),
        ("head.type", 3, "header: expected a relocatable file"),
        ("head.machine", 8, "header: expected a machine of 62, 183, found 8"),
        ("head.section_bytes", 63, "header: expected sections of 64 bytes, aligned"),
        ("head.at", 1 << 40, r"sections: expected a table inside \d+ bytes, found \d+ entries at 1099511627776"),
        ("head.count", 0, "sections: expected a table"),
        ("head.names", 2, "header: section 2 has no names"),
        ("sections[0].info", 1, "section 0: expected zeros"),
        ("sections[2].type", 14, "sections: unknown type of section 2"),
        ("sections[2].flags", 1 << 10, "sections: unknown flags of section 2"),
        ("sections[2].bytes", 1 << 20, r"sections: expected them inside \d+ bytes, found otherwise section 2"),
        ("sections[2].at", 2**64 - 1, "found otherwise section 2"),
        ("sections[2].align", 3, "sections: wrong alignment of section 2"),
        ("sections[2].align", 0, "sections: wrong alignment of section 2"),
        ("sections[2].address", 64, "sections: wrong address of section 2"),
        ("sections[2].name", 1 << 30, r"section 1: expected places in \d+ bytes, found otherwise entry"),
        ("sections[2].name", 0, r"section 2: expected one of \.text, .*, found ''"),
        ("sections[1].bytes", 20, "section 1: expected texts that end with 0"),
        ("sections[symtab].type", 1, "expected one table of symbols, found 0"),
        ("sections[symtab].entry_bytes", 1, r"section \d+: expected entries of 24 bytes, found 1"),
        ("sections[symtab].link", 2, "symbols: expected a section of their names"),
        ("sections[symtab].info", 1, "symbols: expected local ones first, found otherwise symbol 1"),
        ("symbols[0].value", 1, "symbol 0: expected zeros"),
        ("symbols[-1].info", 0x16, r"symbols: unknown type of symbol \d+"),
        ("symbols[-1].other", 1, r"symbols: unknown type of symbol \d+"),
        ("symbols[-1].section", 999, r"symbols: expected them in sections in memory, found otherwise symbol \d+"),
        ("symbols[-1].value", 1 << 40, r"symbols: one is not inside its section: symbol \d+"),
        ("symbols[-1].bytes", 2**64 - 1, r"symbols: one is not inside its section: symbol \d+"),
        ("symbols[-1].name", 0, "symbols: expected one of each name"),
        ("sections[rela].link", 1, r"section \d+: expected relocations by the symbols of section \d+"),
        ("sections[rela].info", 1, r"relocations: expected them for a section in memory, found section 1"),
        ("rows[3].kind", 99, "relocations: unknown kind of entry 3"),
        ("rows[3].at", 1 << 50, "relocations: one is not inside its section: entry 3"),
        ("rows[3].symbol", 999, "relocations: unknown symbol of entry 3"),
        ("rows[3].symbol", 1, "relocations: wrong symbol of entry 3"),
        ("rows[3].addend", -(1 << 40), "relocations: too far away: entry 3"),
    ],
)
def test_damage(where, value, message):
    damaged = Tables()
    damaged.put(where, value)
    with pytest.raises(ArtifactError, match=message):
        check_object(bytes(damaged.data), EXECUTOR)


def test_names():
    with pytest.raises(ArtifactError, match="the object exports no function 'gf_walk'"):
        check_object(CODE, ["gf_walk"])
    with pytest.raises(ArtifactError, match="the object exports no function 'memset'"):
        check_object(CODE, ["memset"])
    unknown = CODE.replace(b"\0sched_yield\0", b"\0sched_field\0")
    with pytest.raises(ArtifactError, match="symbols: this process has no function 'sched_field'"):
        check_object(unknown, [])


def test_relocations_of_a_section_stand_together():
    twice = Tables()
    at, rela = twice.section(SYMTAB), twice.section(RELA)
    # the section without content becomes a second table of the same relocations
    empty = next(i for i in range(1, len(twice.sections)) if i not in (at, rela) and twice.sections["bytes"][i] == 0)
    name = twice.sections["name"][empty]
    twice.sections[empty] = twice.sections[rela]
    twice.sections["name"][empty] = name
    with pytest.raises(ArtifactError, match="expected one table of relocations for a section, found several"):
        check_object(bytes(twice.data), [])


@pytest.mark.parametrize("size", [*range(64, len(CODE), 500), len(CODE) - 1])
def test_cut_off(size):
    with pytest.raises(ArtifactError, match="the object is malformed: "):
        check_object(CODE[:size], EXECUTOR)
    with pytest.raises(ArtifactError, match="expected 64 to 536870912 bytes, found 10"):
        check_object(CODE[:10], EXECUTOR)


@pytest.mark.parametrize("body", ["zeros", "garbage"])
def test_an_artifact_of_it_is_one_error(tmp_path, capfd, body):
    source = executable()
    rest = len(CODE) - 64
    made = CODE[:64] + (bytes(rest) if body == "zeros" else np.random.default_rng(0).bytes(rest))
    code = {target: replace(code, object=made) for target, code in source.code.items()}
    gfx.save(replace(source, code=code), tmp_path / "m.gfx")
    assert main(["run", str(tmp_path / "m.gfx"), "--random"]) == ArtifactError.exit_code
    said = capfd.readouterr()
    assert re.fullmatch(r"\S*error: the object is malformed: .*\n", said.err)
    assert not said.out


def test_objects_of_the_other_architecture():
    """What compiling for it gives has the form, too: functions that this process lacks aside."""
    other = Target.parse("cpu:aarch64" if HOST.arch == "x86_64" else "cpu:x86-64-v3")
    from graphfuse.llvm.codegen import object_code
    from graphfuse.llvm.executor_ir import executor_ir

    check_object(object_code(executor_ir(other.arch, "linux"), other), EXECUTOR)
