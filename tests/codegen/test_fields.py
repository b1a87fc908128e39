"""LLVM IR whose structs name their fields."""

from __future__ import annotations

import pytest

from graphfuse.llvm.fields import with_fields

TEXT = """\
; with padding, which has no name
%point = type {
  x: i64, [8 x i8], ; its place
  y: i64
}
define i64 @f(ptr %p) {
  %y = load i64, ptr %p->y
  store i64 %y, ptr %p->x
  ret i64 %y
}"""


def test_names_become_numbers() -> None:
    assert with_fields(TEXT).splitlines() == [
        "; with padding, which has no name",
        "%point = type { i64, [8 x i8], i64 }",
        "define i64 @f(ptr %p) {",
        "  %y.3 = getelementptr %point, ptr %p, i64 0, i32 2",
        "  %y = load i64, ptr %y.3",
        "  %x.4 = getelementptr %point, ptr %p, i64 0, i32 0",
        "  store i64 %y, ptr %x.4",
        "  ret i64 %y",
        "}",
    ]


def test_elements_have_places() -> None:
    assert with_fields("  store i8 %x, ptr %bytes[i8 %i], align 1\n  %y = load i64, ptr %p[i64 3]").splitlines() == [
        "  %bytes.0 = getelementptr i8, ptr %bytes, i64 %i",
        "  store i8 %x, ptr %bytes.0, align 1",
        "  %p.1 = getelementptr i64, ptr %p, i64 3",
        "  %y = load i64, ptr %p.1",
    ]


def test_a_name_belongs_to_one_struct() -> None:
    with pytest.raises(AssertionError, match="two fields are called x"):
        with_fields("%a = type { x: i64 }\n%b = type { x: i32 }")
