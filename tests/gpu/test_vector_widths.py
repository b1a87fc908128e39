"""How wide the accesses of hand-written programs over a line of elements are, as a programmer would count on.

A program of one warp has elements `program * SIZE + (0 .. SIZE)`. 32 floats are one a thread, 128 floats are vectors of
four, 256 halves vectors of eight: 128 bits. A mask keeps the width that it is constant over.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from graphfuse.ir.parser import parse
from graphfuse.ir.verifier import verify
from tests.gpu.launching import SM_80, SM_90A, check, compiled, numbers

PROGRAMS = 3


def program(size: int, elem: str, op: str, mask: str = "", warps: int = 1) -> str:
    """Add or copy; `mask` is the text of the bound that positions are below, in terms of `n`."""
    tile, at, flags = (f"tile<{size}x{t}>" for t in (elem, "i64", "bool"))
    params = ["%x: ptr<ELEM>", *["%y: ptr<ELEM>"] * (op == "add"), "%out: ptr<ELEM>", *["%n: i64"] * bool(mask)]
    masked = ", %m" if mask else ""
    dims = " dims (n in 0..100000)" if mask else ""
    lines = [
        f"func @k({', '.join(params)}) {{grid = {PROGRAMS}, warps = {warps}}}{dims} {{",
        "%p = block.program_id() : i64",
        f'%first = block.index(%p) {{expr = ({size}*p), names = ["p"]}} : i64',
        f"%lane = block.arange() {{elem = i64, end = {size}, start = 0}} : {at}",
        f"%start = block.splat(%first) {{shape = [{size}]}} : {at}",
        f"%off = block.add(%start, %lane) : {at}",
    ]
    if mask:
        lines += [
            f'%bound = block.index(%n) {{expr = {mask}, names = ["n"]}} : i64',
            f"%bounds = block.splat(%bound) {{shape = [{size}]}} : {at}",
            f"%m = block.lt(%off, %bounds) : {flags}",
        ]
    lines.append(f"%a = block.load(%x, %off{masked}) : {tile}")
    if op == "add":
        lines += [f"%b = block.load(%y, %off{masked}) : {tile}", f"%c = block.add(%a, %b) : {tile}"]
    lines += [f"block.store(%out, %off, %{'c' if op == 'add' else 'a'}{masked})", "return()"]
    return "\n  ".join(lines).replace("ELEM", elem) + "\n}\n"


def accesses(ptx: str) -> set[str]:
    """The kinds of global loads and stores, with how wide they are: `ld.v4.b32`, `@st.b32`."""
    found = re.findall(r"(@\S+\s+)?\b(ld|st)\.global(?:\.(?:nc|relaxed))*((?:\.v\d)?\.[a-z]+\d+)", ptx)
    return {("@" if guard else "") + kind + width for guard, kind, width in found}


WIDTHS = [
    (32, "f32", "b32"),  # one a thread
    (64, "f32", "v2.b32"),
    (128, "f32", "v4.b32"),
    (256, "f32", "v4.b32"),
    (64, "f16", "b32"),
    (128, "f16", "v2.b32"),
    (256, "f16", "v4.b32"),
    (512, "i8", "v4.b32"),
    (32, "f64", "b64"),
    (64, "f64", "v2.b64"),
]
"""Elements of a program, and what each thread of one warp moves at once."""


@pytest.mark.parametrize("op", ["add", "copy"])
@pytest.mark.parametrize(("size", "elem", "width"), WIDTHS)
@pytest.mark.parametrize("target", [SM_80, SM_90A], ids=lambda t: t.cpu)
def test_widths(target, size, elem, width, op):
    text = program(size, elem, op)
    verify(parse(text))
    ptx, _ = compiled(text, target)
    assert accesses(ptx) == {f"ld.{width}", f"st.{width}"}


@pytest.mark.parametrize("op", ["add", "copy"])
@pytest.mark.parametrize(("size", "elem"), [(32, "f32"), (128, "f32"), (256, "f16")])
def test_results(size, elem, op):
    rng = np.random.default_rng(0)
    inputs = [numbers(rng, (size * PROGRAMS,), elem) for _ in range(2 if op == "add" else 1)]
    check(program(size, elem, op), inputs, [((size * PROGRAMS,), elem)])


def test_threads_without_an_element_do_not_store():
    """32 floats on 4 warps: every warp has them all, one stores; 128 are one a thread; 32 halves are 16 words."""
    ptx, _ = compiled(program(32, "f16", "copy"))
    assert accesses(ptx) == {"ld.b32", "@st.b32"}
    ptx, _ = compiled(program(32, "f32", "copy", warps=4))
    assert accesses(ptx) == {"ld.b32", "@st.b32"}
    ptx, _ = compiled(program(128, "f32", "copy", warps=4))
    assert accesses(ptx) == {"ld.b32", "st.b32"}


@pytest.mark.parametrize("op", ["add", "copy"])
@pytest.mark.parametrize(
    ("size", "elem", "bound", "width"),
    [
        (32, "f32", "(n)", "b32"),
        (128, "f32", "(n)", "b32"),  # where it ends may be inside of a vector
        (128, "f32", "(2*n)", "v2.b32"),
        (128, "f32", "(4*n)", "v4.b32"),
        (128, "f32", "(64*n)", "v4.b32"),
        (256, "f16", "(n)", "b16"),
        (256, "f16", "(2*n)", "b32"),
        (256, "f16", "(4*n)", "v2.b32"),
        (256, "f16", "(8*n)", "v4.b32"),
        (256, "f16", "(4*n + 1)", "b16"),
    ],
)
def test_a_mask_limits_the_width(size, elem, bound, width, op):
    text = program(size, elem, op, bound)
    ptx, _ = compiled(text)
    assert accesses(ptx) == {f"@ld.{width}", f"@st.{width}"}


@pytest.mark.parametrize(("size", "elem", "bound", "n"), [(128, "f32", "(n)", 131), (256, "f16", "(8*n)", 67)])
def test_masked_elements_are_left_alone(size, elem, bound, n):
    """Neither read nor written: the arrays end where the mask does."""
    last = n * (8 if "8" in bound else 1)
    inputs = [numbers(np.random.default_rng(0), (last,), elem) for _ in "xy"]
    check(program(size, elem, "add", bound), inputs, [((last,), elem)], symbols={"n": n})
