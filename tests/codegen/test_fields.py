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


def test_operations_are_operands_done_from_left_to_right() -> None:
    line = "  %z = add i64 (mul i64 (load i64, ptr %p), 3), (call i64 @f(i64 (zext i1 %x to i64), i64 2)) ; (add 1)"
    assert with_fields(line).splitlines() == [
        "  %.0 = load i64, ptr %p",
        "  %.1 = mul i64 %.0, 3",
        "  %.2 = zext i1 %x to i64",
        "  %.3 = call i64 @f(i64 %.2, i64 2)",
        "  %z = add i64 %.1, %.3 ; (add 1)",
    ]


def test_an_operation_may_read_fields() -> None:
    made = with_fields("%t = type { a: i64 }\n  ret i64 (load i64, ptr %p->a)\n  ret i64 (load i64, ptr %p[i64 1])")
    assert made.splitlines()[1:] == [
        "  %a.1 = getelementptr %t, ptr %p, i64 0, i32 0",
        "  %.0 = load i64, ptr %a.1",
        "  ret i64 %.0",
        "  %p.3 = getelementptr i64, ptr %p, i64 1",
        "  %.1 = load i64, ptr %p.3",
        "  ret i64 %.1",
    ]


def test_blocks_go_on_to_the_next() -> None:
    text = "define void @f() {\nentry:\n  store i8 0, ptr %p\n; why\nnext:\n  br label %last\nlast:\n  ret void\n}"
    branches = [line for line in with_fields(text).splitlines() if "label" in line]
    assert branches == ["  br label %next", "  br label %last"]


def test_a_name_belongs_to_one_struct() -> None:
    with pytest.raises(AssertionError, match="two fields are called x"):
        with_fields("%a = type { x: i64 }\n%b = type { x: i32 }")
