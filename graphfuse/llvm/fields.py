"""Fields of structs by name, elements of arrays, and operations as operands, in LLVM IR that is written by hand.

`ptr %pool->work`, `ptr %ends[i64 %i]` and `i64 (add i64 %i, 1)` are operands.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

_STRUCT = re.compile(r"(%[\w.]+) = type \{([^}]*)\}")
_FIELD = re.compile(r"%(\w+)->(\w+)")
_ELEMENT = re.compile(r"%(\w+)\[(\w+) ([^\]\s]+)\]")
_OPERATION = re.compile(r"\((?:add|sub|mul|udiv|and|or|shl|lshr|icmp|select|load|call|zext|ptrtoint|getelementptr) ")


def with_fields(text: str) -> str:
    """LLVM IR of IR whose structs name their fields, `%point = type { x: i64, y: i64 }`.

    `%p->y` in an instruction is the address of that field; no two structs of a text have one of the same name.
    `%p[i8 3]` is that of an element, counted by an i64. An operation in parentheses is done before, from left to right.
    A block without an end goes on to the next.
    """
    numbers = itertools.count()
    text = "\n".join(part for line in _ended(text.splitlines()) for part in _unfolded(line, numbers))
    places: dict[str, tuple[str, int]] = {}

    def declared(struct: re.Match[str]) -> str:
        types: list[str] = []
        for i, part in enumerate(re.sub(r";.*", "", struct[2]).split(",")):
            name, _, type_ = part.strip().rpartition(": ")
            assert name not in places, f"two fields are called {name}"
            if name:
                places[name] = struct[1], i
            types.append(type_)
        return f"{struct[1]} = type {{ {', '.join(types)} }}"

    out: list[str] = []
    # an address is made where it is used: LLVM folds it into the access, and the text needs no names
    for number, line in enumerate(_STRUCT.sub(declared, text).splitlines()):
        for field in _FIELD.finditer(line):
            struct, index = places[field[2]]
            out.append(f"  %{field[2]}.{number} = getelementptr {struct}, ptr %{field[1]}, i64 0, i32 {index}")
        for array, type_, index in _ELEMENT.findall(line):
            out.append(f"  %{array}.{number} = getelementptr {type_}, ptr %{array}, i64 {index}")
        out.append(_ELEMENT.sub(rf"%\1.{number}", _FIELD.sub(rf"%\2.{number}", line)))
    return "\n".join(out)


def _ended(lines: Iterable[str]) -> Iterator[str]:
    """Blocks with a branch to the next where they have none."""
    last = ""
    for line in lines:
        if (label := re.match(r"(\w+):", line)) and not last.startswith(("define ", "  br ", "  ret ", "  ]")):
            yield f"  br label %{label[1]}"
        last = last if re.match(r"\s*(;|$)", line) else line
        yield line


def _unfolded(line: str, numbers: Iterator[int]) -> Iterator[str]:
    """An instruction behind those that stand in it, each under a number."""
    while (place := _first_operation(line)) is not None:
        begin, end = place
        name = f"%.{next(numbers)}"
        yield f"  {name} = {line[begin + 1 : end]}"
        line = line[:begin] + name + line[end + 1 :]
    yield line


def _first_operation(line: str) -> tuple[int, int] | None:
    """The parentheses of the operation that ends first."""
    opened: list[int] = []
    for i, c in enumerate(line.partition(";")[0]):
        if c == "(":
            opened.append(i)
        elif c == ")" and _OPERATION.match(line, opened[-1]):
            return opened[-1], i
        elif c == ")":
            opened.pop()
    return None
