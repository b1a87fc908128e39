"""Fields of structs by name and elements of arrays, in LLVM IR that is written by hand.

`ptr %pool->work` and `ptr %ends[i64 %i]` are operands.
"""

from __future__ import annotations

import re

_STRUCT = re.compile(r"(%[\w.]+) = type \{([^}]*)\}")
_FIELD = re.compile(r"%(\w+)->(\w+)")
_ELEMENT = re.compile(r"%(\w+)\[(\w+) ([^\]\s]+)\]")


def with_fields(text: str) -> str:
    """LLVM IR of IR whose structs name their fields, `%point = type { x: i64, y: i64 }`.

    `%p->y` in an instruction is the address of that field; no two structs of a text have one of the same name.
    `%p[i8 3]` is that of an element, counted by an i64.
    """
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
