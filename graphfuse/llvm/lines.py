"""Where a function's instructions come from: debug info of which LLVM makes `.loc` lines of PTX, and nothing else.

`emissionKind: DebugDirectivesOnly` is LLVM's for NVPTX (llvm/IR/DebugInfoMetadata.h). What a model's node was made to
has that node for a file, and `NODE_COLUMN` for a column.
"""

from __future__ import annotations

from graphfuse.errors import Loc
from graphfuse.llvm.module import ModuleText

NODE_COLUMN = 0xFFFF
"""The largest that LLVM keeps."""


class LineTable:
    """The lines of one function of a module."""

    def __init__(self, module: ModuleText, name: str) -> None:
        self._module, self._marks = module, dict[Loc, str]()
        file = self._file(name)
        unit = module.distinct(
            f"!DICompileUnit(language: DW_LANG_C11, file: {file}, producer: {_quoted('graphfuse')},"
            " emissionKind: DebugDirectivesOnly)",
            "unit",
        )
        module.named("llvm.dbg.cu", unit)
        version = _quoted("Debug Info Version")
        module.named("llvm.module.flags", module.metadata(f"!{{i32 2, !{version}, i32 3}}"))
        nothing = module.metadata("!DISubroutineType(types: !{})")
        self._function = module.distinct(
            f"!DISubprogram(name: {_quoted(name)}, scope: {file}, file: {file}, line: 1, type: {nothing},"
            f" unit: {unit}, spFlags: DISPFlagDefinition)",
            name,
        )

    @property
    def of_function(self) -> str:
        """What follows the head of its definition."""
        return f" !dbg {self._function}"

    def mark(self, loc: Loc) -> str:
        """What follows an instruction; nothing where it is not known where that comes from."""
        if loc not in self._marks:
            self._marks[loc] = self._new(loc)
        return self._marks[loc]

    def _new(self, loc: Loc) -> str:
        name, line, column = (str(loc), 1, NODE_COLUMN) if loc.node else (loc.file, loc.line, loc.col)
        if not name or not line:
            return ""
        file = self._file(name)
        scope = self._module.distinct(
            f"!DILexicalBlockFile(scope: {self._function}, file: {file}, discriminator: 0)",
            f"{self._function} {file}",
        )
        column = min(column, NODE_COLUMN)
        return f", !dbg {self._module.metadata(f'!DILocation(line: {line}, column: {column}, scope: {scope})')}"

    def _file(self, name: str) -> str:
        return self._module.metadata(f"!DIFile(filename: {_quoted(name)}, directory: {_quoted('')})")


def _quoted(text: str) -> str:
    raw = text.encode(errors="replace")
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in raw) + '"'
