"""PTX text to a `Module`: kernels, variables, instructions with their operands. Knows no instruction's meaning.

Names in a `{ ... }` scope (inline assembly as LLVM prints it) are made unique by a suffix, labels too. Variables of the
`.param` space in a kernel's body, which hold the arguments and results of calls, are registers without a `%`. A
function is read again wherever it is called, as part of the kernel, its names unique and its parameters the caller's.
"""

from __future__ import annotations

import bisect
import functools
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from graphfuse.errors import Loc
from graphfuse.gpu.emulator.errors import EmulatorError
from graphfuse.gpu.emulator.types import TYPES, PtxType
from graphfuse.llvm.lines import NODE_COLUMN

OperandKind = Literal["reg", "special", "int", "float", "bits32", "bits64", "vec", "mem", "sym", "pair", "sink"]


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand. `number` is an integer's value, a bit pattern, or the offset added to a symbol or address."""

    kind: OperandKind
    name: str = ""
    number: int = 0
    real: float = 0.0
    items: tuple[Operand, ...] = ()
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: `@[!]guard name.mods operands;` at a place in the text."""

    name: str
    mods: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: str
    guard_negated: bool
    line: int
    column: int
    text: str
    source: Loc | None = None
    """What it was made of, where `.loc` says so."""

    @property
    def opcode(self) -> str:
        """The name with all its modifiers."""
        return ".".join((self.name, *self.mods))

    @property
    def types(self) -> tuple[PtxType, ...]:
        """The modifiers that are types, in order."""
        return _types(self.mods)


@functools.cache
def _types(mods: tuple[str, ...]) -> tuple[PtxType, ...]:
    return tuple(TYPES[m] for m in mods if m in TYPES)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a state space; `bytes` is 0 for `extern .shared name[]`, the dynamic shared memory."""

    name: str
    space: str
    align: int
    bytes: int
    initial: bytes | None = None


@dataclass(slots=True)
class Kernel:
    """An `.entry`: parameters in order, registers and variables by name, code, and where labels point into it."""

    name: str
    params: list[Variable] = field(default_factory=list[Variable])
    registers: dict[str, PtxType] = field(default_factory=dict[str, PtxType])
    variables: dict[str, Variable] = field(default_factory=dict[str, Variable])
    code: list[Instruction] = field(default_factory=list[Instruction])
    labels: dict[str, int] = field(default_factory=dict[str, int])
    branch_targets: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    limits: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])


@dataclass(slots=True)
class Module:
    """A parsed PTX file."""

    name: str
    version: str = ""
    target: str = ""
    kernels: dict[str, Kernel] = field(default_factory=dict[str, Kernel])
    variables: dict[str, Variable] = field(default_factory=dict[str, Variable])


def _names(text: str) -> list[str]:
    """Of declared parameters."""
    return [p.split()[-1] for p in text.split(",") if p.strip()]


def source_of(file: str, line: int, column: int) -> Loc:
    """What `.loc` says of a file."""
    return Loc("", node=file) if column == NODE_COLUMN else Loc(file, line, column)


_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")


def _unescaped(text: str) -> str:
    raw = _ESCAPE.sub(lambda m: bytes([int(m[1], 8)]) if len(m[1]) == 3 else m[1], text.encode())
    return raw.decode(errors="replace")


def parse(text: str, name: str = "<ptx>") -> Module:
    """Read a PTX file."""
    return _Parser(text, name).module()


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"', re.M)
_LOC = re.compile(r"\s+(\d+)\s+(\d+)\s+(\d+)")
_FUNCTION = re.compile(r"\.func\s*(?:\(([^)]*)\))?\s*([\w$]+)\s*\(([^)]*)\)[^;{]*\{")
_TO_LINE_END = re.compile(r"\.(version|target|address_size|loc|file)\b([^\n]*)")
_LABEL = re.compile(r"([A-Za-z_$%][\w$]*)\s*:(?!:)\s*")
_WORD = re.compile(r"[A-Za-z_$%][\w$]*(\.[A-Za-z]\w*)?")
_HEAD = re.compile(r"(?:@(!?)\s*([\w$%]+)\s+)?([A-Za-z_]\w*(?:\.[\w:]+)*)\s*(.*)", re.S)
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(.*)", re.S)
_ARGUMENT = re.compile(r"\.param\s+\.(b32|b64)\s+([\w$]+)")
_VARIABLE = re.compile(
    r"(?:\.(?:extern|visible|weak|common|managed)\s+)*\.(param|shared|global|const|local)\s+(?:\.align\s+(\d+)\s+)?"
    r"(?:\.(v2|v4)\s+)?\.(\w+)\s+(?:\.ptr\s*(?:\.(?:global|shared|const|local)\s*)?(?:\.align\s+\d+\s*)?)?"
    r"([\w$]+)\s*((?:\[\s*\d*\s*\])*)\s*(?:=\s*(.*))?",
    re.S,
)
_SPECIAL = re.compile(
    r"%(n?tid|n?ctaid|n?clusterid|cluster_n?ctaid|laneid|n?warpid|n?smid|gridid|cluster_n?ctarank|lanemask_(eq|le|lt|ge|gt)"
    r"|clock(64|_hi)?|globaltimer(_lo|_hi)?|(dynamic|total|aggr)_smem_size|is_explicit_cluster)(\.[xyz])?"
)


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        blank = _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
        self.text, self.name, self.position = blank, name, 0
        self.registers: dict[str, PtxType] = {}
        self.functions = {m[2]: (_names(m[1] or ""), _names(m[3]), m.end()) for m in _FUNCTION.finditer(blank)}
        """What functions with a body return and take, and where the body begins."""
        self.calls: list[str] = []
        """The functions that are being read, each called by the one before."""
        self.scopes = 0
        self.files = {int(number): _unescaped(name) for number, name in _FILE.findall(text)}
        self.source: Loc | None = None
        """That of what comes."""
        self.line_starts = [0, *(i + 1 for i, c in enumerate(blank) if c == "\n")]

    def error(self, message: str, position: int | None = None) -> EmulatorError:
        line, column = self.place(self.position if position is None else position)
        return EmulatorError(message, Loc(self.name, line, column))

    def place(self, position: int) -> tuple[int, int]:
        line = bisect.bisect_right(self.line_starts, position)
        return line, position - self.line_starts[line - 1] + 1

    def located(self, text: str) -> Loc | None:
        """What `.loc` says: the number of a file, a line and a column; a line of 0 is none."""
        match = _LOC.match(text)
        file, line, column = map(int, match.groups()) if match else (0, 0, 0)
        return source_of(self.files[file], line, column) if line and file in self.files else None

    def skip_space(self) -> bool:
        """To the next character that is none; False at the end."""
        while self.position < len(self.text) and self.text[self.position].isspace():
            self.position += 1
        return self.position < len(self.text)

    # the module

    def module(self) -> Module:
        module = Module(self.name)
        while self.skip_space():
            if match := _TO_LINE_END.match(self.text, self.position):
                if match[1] == "version":
                    module.version = match[2].strip()
                elif match[1] == "target":
                    module.target = match[2].split(",")[0].strip()
                self.position = match.end()
            elif self.text.startswith(".section", self.position):
                self.skip_braces()
            else:
                self.declaration(module)
        return module

    def declaration(self, module: Module) -> None:
        start = self.position
        head = re.compile(r"[^;({=]*").match(self.text, start)
        assert head
        words = head.group().split()
        if ".entry" in words:
            kernel = self.kernel()
            module.kernels[kernel.name] = kernel
        elif ".func" in words:
            self.function()
        else:
            variable = self.variable(self.statement(), start)
            module.variables[variable.name] = variable

    def function(self) -> None:
        """Read where it is called."""
        end = re.compile(r"[;{]").search(self.text, self.position)
        if not end:
            raise self.error("malformed .func")
        if end.group() == "{":
            self.skip_braces()
        else:
            self.position = end.end()

    def skip_braces(self) -> None:
        self.position = self.text.index("{", self.position)
        end = self.closing(self.position + 1)
        if end == len(self.text):
            raise self.error("unbalanced braces")
        self.position = end + 1

    def closing(self, start: int) -> int:
        """Where the `}` for a `{` just before `start` is; the text's end if there is none."""
        depth = 1
        for match in _BRACE.finditer(self.text, start):
            depth += 1 if match.group() == "{" else -1
            if depth == 0:
                return match.start()
        return len(self.text)

    def statement(self) -> str:
        """Up to the next `;`, which is skipped."""
        end = self.text.find(";", self.position)
        if end < 0:
            raise self.error("the text ends inside a statement: expected ';'")
        found = self.text[self.position : end].strip()
        self.position = end + 1
        return found

    def variable(self, text: str, position: int) -> Variable:
        match = _VARIABLE.fullmatch(text)
        if not match or match[4] not in TYPES:
            raise self.error(f"unknown directive {text.split('(', maxsplit=1)[0][:60].strip()!r}", position)
        space, align, vector, kind, name, extents, initial = match.groups()
        elem = TYPES[kind].bytes * int(vector[1] if vector else 1)
        count = 1
        for extent in re.findall(r"\[\s*(\d*)\s*\]", extents):
            count *= int(extent or 0)
        size = elem * count
        values = self.initialiser(initial, TYPES[kind], size, position) if initial else None
        return Variable(name, space, int(align or elem), size, values)

    def initialiser(self, text: str, kind: PtxType, size: int, position: int) -> bytes:
        raw = b""
        for item in text.replace("{", " ").replace("}", " ").split(","):
            value = self.operand(item.strip(), {}, position)
            match value.kind:
                case "int":
                    raw += (value.number & ((1 << kind.bits) - 1)).to_bytes(kind.bytes, "little")
                case "bits32" | "bits64":
                    raw += value.number.to_bytes(kind.bytes, "little")
                case "float":
                    raw += struct.pack("<f" if kind.bits == 32 else "<d", value.real)
                case _:
                    raise self.error(f"initialiser {item.strip()!r}: expected a number", position)
        return raw.ljust(size, b"\0")

    # kernels

    def kernel(self) -> Kernel:
        match = re.compile(r"[^{;(]*?\.entry\s+([\w$]+)\s*(\(([^)]*)\))?([^{;]*)").match(self.text, self.position)
        if not match:
            raise self.error("malformed .entry")
        kernel = Kernel(match[1])
        self.registers = kernel.registers
        for param in filter(None, (p.strip() for p in (match[3] or "").split(","))):
            kernel.params.append(self.variable(param, self.position))
        for limit, numbers in re.findall(r"\.(\w+)((?:\s+\d+\s*,?)*)", match[4]):
            kernel.limits[limit] = tuple(int(n) for n in re.findall(r"\d+", numbers))
        self.position = match.end()
        if not self.text.startswith("{", self.position):
            raise self.error(f"kernel {kernel.name!r} has no body")
        self.position += 1
        self.body(kernel, {})
        self.check_labels(kernel)
        return kernel

    def body(self, kernel: Kernel, outer: dict[str, str]) -> None:
        scopes = [outer]
        while True:
            if not self.skip_space():
                raise self.error(f"kernel {kernel.name!r}: the text ends before its '}}'")
            start = self.position
            char = self.text[start]
            if char == "{":
                self.position += 1
                scopes.append(self.scope(scopes[-1]))
            elif char == "}":
                self.position += 1
                scopes.pop()
                if not scopes:
                    return
            elif match := _TO_LINE_END.match(self.text, start):
                if match[1] == "loc":
                    self.source = self.located(match[2])
                self.position = match.end()
            elif match := _LABEL.match(self.text, start):
                self.position = match.end()
                self.label(kernel, scopes[-1].get(match[1], match[1]), scopes[-1], start)
            elif char == ".":
                self.directive(kernel, self.statement(), scopes[-1], start)
            elif char == ";":
                self.position += 1
            else:
                self.execute(kernel, self.instruction(self.statement(), scopes[-1], start), start)

    def execute(self, kernel: Kernel, i: Instruction, position: int) -> None:
        """Add an instruction; of a call all that the function does, which a `ret` goes to the end of."""
        called = next((o.name for o in i.operands if o.kind == "sym"), "") if i.name == "call" else ""
        if self.calls and i.name == "ret":
            i = replace(i, name="bra", mods=(), operands=(Operand("sym", f"{self.calls[-1]}'s end"),))
        if called not in self.functions:
            kernel.code.append(i)
            return
        returns, takes, start = self.functions[called]
        given = [o for list_ in i.operands if list_.kind == "vec" for o in list_.items]
        if len(given) != len(returns) + len(takes) or any(o.kind != "reg" for o in given):
            raise self.error(
                f"call of {called!r}: expected {len(takes)} arguments, each a .param of 32 or 64 bits", position
            )
        if any(c.partition("#")[0] == called for c in self.calls):
            raise self.error(f"call of {called!r} by itself: a function that calls itself is not emulated", position)
        after, source = self.position, self.source
        self.position = start
        scope = self.scope({}) | dict(zip((*returns, *takes), (o.name for o in given), strict=True))
        self.calls.append(f"{called}#{self.scopes}")
        end = f"{self.calls[-1]}'s end"
        if i.guard:
            skip = replace(i, name="bra", mods=(), operands=(Operand("sym", end),), guard_negated=not i.guard_negated)
            kernel.code.append(skip)
        self.body(kernel, scope)
        kernel.labels[end] = len(kernel.code)
        self.calls.pop()
        self.position, self.source = after, source

    def scope(self, outer: dict[str, str]) -> dict[str, str]:
        """What a `{` that was just read declares: its labels and registers, by their unique names."""
        self.scopes += 1
        suffix = f"#{self.scopes}"
        inside = self.text[self.position : self.closing(self.position)]
        labels = re.findall(r"(?:^|[;{}\n])\s*([A-Za-z_$%][\w$]*)\s*:(?!:)", inside)
        registers = [name for text in re.findall(r"\.reg\s+\.\w+\s+([^;]*);", inside) for name in _declared(text)]
        arguments = [match[2] for match in _ARGUMENT.finditer(inside)]
        return outer | {name: name + suffix for name in (*labels, *registers, *arguments)}

    def label(self, kernel: Kernel, name: str, scope: dict[str, str], position: int) -> None:
        self.skip_space()
        if self.text.startswith(".branchtargets", self.position):
            targets = self.statement().removeprefix(".branchtargets")
            kernel.branch_targets[name] = tuple(scope.get(t.strip(), t.strip()) for t in targets.split(","))
            return
        if name in kernel.labels:
            raise self.error(f"label {name.split('#', maxsplit=1)[0]!r} is defined twice", position)
        kernel.labels[name] = len(kernel.code)

    def directive(self, kernel: Kernel, text: str, scope: dict[str, str], position: int) -> None:
        if text.startswith(".pragma"):
            return
        if match := _REGISTERS.fullmatch(text):
            kind = TYPES.get(match[1])
            if kind is None:
                raise self.error(f"unknown register type '.{match[1]}'", position)
            kernel.registers.update((scope.get(name, name), kind) for name in _declared(match[2]))
            return
        if match := _ARGUMENT.fullmatch(text):
            kernel.registers[scope.get(match[2], match[2])] = TYPES[match[1]]
            return
        variable = self.variable(text, position)
        kernel.variables[variable.name] = variable

    def instruction(self, text: str, scope: dict[str, str], position: int) -> Instruction:
        match = _HEAD.fullmatch(text)
        line, column = self.place(position)
        if not match:
            raise self.error(f"not an instruction: {text[:60]!r}", position)
        negated, guard, opcode, rest = match.groups()
        parts = opcode.split(".")
        return Instruction(
            parts[0],
            tuple(parts[1:]),
            tuple(self.operand(o, scope, position) for o in split(rest)),
            scope.get(guard, guard) if guard else "",
            negated == "!",
            line,
            column,
            " ".join(text.split()),
            self.source,
        )

    def check_labels(self, kernel: Kernel) -> None:
        for instruction in kernel.code:
            for operand in instruction.operands if instruction.name in ("bra", "brx") else ():
                if operand.kind == "sym" and operand.name not in (kernel.labels | kernel.branch_targets):
                    loc = Loc(self.name, instruction.line, instruction.column)
                    raise EmulatorError(f"{instruction.opcode}: unknown label {operand.name!r}", loc)

    # operands

    def operand(self, text: str, scope: dict[str, str], position: int) -> Operand:
        if (name := scope.get(text, text)) in self.registers:  # nearly all are
            return Operand("reg", name)
        if text == "_":
            return Operand("sink")
        if text.startswith(("{", "(")):
            inner = text[1:-1].strip()
            return Operand("vec", items=tuple(self.operand(t, scope, position) for t in split(inner)))
        if text.startswith("["):
            return self.memory_operand(text, scope, position)
        if "|" in text:
            if text.count("|") > 1:
                raise self.error(f"operand {text!r}: expected two registers", position)
            return Operand("pair", items=tuple(self.operand(t.strip(), scope, position) for t in text.split("|")))
        if text.startswith("!"):
            inner = self.operand(text[1:].strip(), scope, position)
            return Operand(inner.kind, inner.name, negated=True)
        if (number := _number(text)) is not None:
            return number
        return self.name_operand(text, scope, position)

    def name_operand(self, text: str, scope: dict[str, str], position: int) -> Operand:
        if match := re.fullmatch(r"([\w$%]+)\s*([+-])\s*(\d+)", text):
            return Operand("sym", match[1], int(match[3]) * (1 if match[2] == "+" else -1))
        if not _WORD.fullmatch(text):
            raise self.error(f"operand {text!r}: expected a register, a number, an address or a name", position)
        if _SPECIAL.fullmatch(text):
            return Operand("special", text)
        if text == "WARP_SZ":
            return Operand("int", number=32)
        if text.startswith("%"):
            raise self.error(f"unknown register {text!r}", position)
        return Operand("sym", scope.get(text, text))

    def memory_operand(self, text: str, scope: dict[str, str], position: int) -> Operand:
        """`[base + offset]`, or `[base, {coordinates}]`; a literal address has base kind `int`."""
        parts = split(text.strip()[1:-1].strip())
        match = re.fullmatch(r"([^+]+?)\s*(?:\+\s*(-?\w+)|(-\s*\d+))?", parts[0], re.S)
        if not match:
            raise self.error(f"address {text!r}: expected [base], [base+offset]", position)
        base = self.operand(match[1].strip(), scope, position)
        offset = int((match[2] or match[3] or "0").replace(" ", ""), 0)
        return Operand("mem", number=offset, items=(base, *(self.operand(p, scope, position) for p in parts[1:])))


def _declared(text: str) -> Iterator[str]:
    """The registers of a list: `%r<3>` are %r0, %r1 and %r2."""
    for name in text.split(","):
        base, _, count = name.strip().partition("<")
        yield from (f"{base}{i}" for i in range(int(count.rstrip("> ") or 0))) if count else (base,)


_BRACKET = re.compile(r"[\[{(]")
_BRACE = re.compile(r"[{}]")
_FIRST_OF_NUMBER = tuple("-0123456789")


def split(text: str) -> list[str]:
    """Operands: commas outside brackets and braces."""
    if not text.strip():
        return []
    return list(_split(text)) if _BRACKET.search(text) else [t.strip() for t in text.split(",")]


def _split(text: str) -> Iterator[str]:
    depth = start = 0
    for i, char in enumerate(text):
        if char in "[{(":
            depth += 1
        elif char in "]})":
            depth -= 1
        elif char == "," and depth == 0:
            yield text[start:i].strip()
            start = i + 1
    yield text[start:].strip()


def _number(text: str) -> Operand | None:
    if not text.startswith(_FIRST_OF_NUMBER):
        return None
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", text):
        return Operand("bits32", number=int(text[2:], 16))
    if re.fullmatch(r"0[dD][0-9a-fA-F]{16}", text):
        return Operand("bits64", number=int(text[2:], 16))
    if match := re.fullmatch(r"(-?)\s*(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?", text):
        digits = match[2]
        octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
        value = int(digits, 8) if octal else int(digits, 0)
        return Operand("int", number=-value if match[1] else value)
    if re.fullmatch(r"-?\d+\.\d*([eE][+-]?\d+)?", text):
        return Operand("float", real=float(text))
    return None
