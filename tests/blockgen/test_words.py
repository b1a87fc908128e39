"""Products of bf16 as words: layouts, depths and windows, run by the block interpreter."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.blockgen.support import AVX512, Case, check_blocks, graph_func, lowered

AMX = replace(AVX512, word_elems=frozenset({"bf16"}))
PRODUCTS = {
    "rows of words": ("a: 70x36xbf16, b: 36x40xbf16", "mk,kn->mn"),
    "eight rows": ("a: 8x36xbf16, b: 36x40xbf16", "mk,kn->mn"),
    "an odd depth": ("a: 70x37xbf16, b: 37x40xbf16", "mk,kn->mn"),
    "both dense along k": ("a: 70x70xbf16, b: 19x70xbf16", "mk,nk->mn"),
    "an odd depth of both": ("a: 57x35xbf16, b: 33x35xbf16", "mk,nk->mn"),
    "dense along rows": ("a: 51x66xbf16, b: 51x70xbf16", "km,kn->mn"),
    "each of a batch": ("a: 2x60x34xbf16, b: 2x34x9xbf16", "bmk,bkn->bmn"),
    "a panel for a batch": ("a: 5x21x34xbf16, b: 34x20xbf16", "bmk,kn->bmn"),
    "two dims of k": ("a: 60x3x18xbf16, b: 33x3x18xbf16", "mak,nak->mn"),
    "slabs": ("a: 60x1101xbf16, b: 1101x20xbf16", "mk,kn->mn"),
    "slabs of rows": ("a: 1101x60xbf16, b: 1101x33xbf16", "km,kn->mn"),
}
REFUSED = {
    "few rows": ("a: 7x36xbf16, b: 36x40xbf16", "mk,kn->mn"),
    "halves of another kind": ("a: 70x36xf16, b: 36x40xf16", "mk,kn->mn"),
}
EPILOGUE = "e = tanh(p); y = add(e, p); return(y)"
CONV = 'low = [0, 0], high = [0, 0], dilation = [1, 1], input_dilation = [1, 1], groups = 1, layout = "nhwc", strides'


def case_of(params: str, spec: str) -> Case:
    body = f'p = contract(a, b) {{spec = "{spec}"}}; {EPILOGUE}'
    return Case("product", ("contraction",), graph_func(params, body))


def check(case: Case) -> bool:
    """Whether words are multiplied; compares what that gives with what the graph means."""
    func = lowered(case, AMX)
    kernels = check_blocks(func, case.arrays({}), AMX)
    return any(op.kind.name == "block.dot_words" for kernel in kernels for op in kernel.walk())


@pytest.mark.parametrize("name", PRODUCTS)
def test_words_of_any_layout(name: str) -> None:
    assert check(case_of(*PRODUCTS[name]))


@pytest.mark.parametrize(
    ("a", "b", "spec"), [("5x19x36", "3x33x36", "tmk,tnk->tmn"), ("5x19x36", "3x36x40", "tmk,tkn->tmn")]
)
@pytest.mark.parametrize("looked_up", ["a", "b"])
def test_matrices_that_are_looked_up(a: str, b: str, spec: str, looked_up: str) -> None:
    """Words of the memory where each lies, of either factor."""
    if looked_up == "a":
        a, b = f"3{a[1:]}", f"5{b[1:]}"
    factors = "t, b" if looked_up == "a" else "a, t"
    body = f't = take({looked_up}, i) {{axis = 0}}; p = contract({factors}) {{spec = "{spec}"}}; {EPILOGUE}'
    assert check(Case("product", ("contraction",), graph_func(f"a: {a}xbf16, b: {b}xbf16, i: 5xi32", body)))


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_multiplied_by_words(name: str) -> None:
    assert not check(case_of(*REFUSED[name]))


@pytest.mark.parametrize("step", [1, 2])
def test_windows(step: int) -> None:
    func = graph_func(
        "a: 2x13x17x6xbf16, b: 3x3x6x20xbf16", f"p = conv(a, b) {{{CONV} = [{step}, {step}]}}; y = abs(p); return(y)"
    )
    assert check(Case("windows", ("contraction",), func))


def test_weights_as_they_lie() -> None:
    func = graph_func(
        "a: 3x17x19x6xbf16, b: 20x6x3x3xbf16",
        f"w = permute(b) {{perm = [2, 3, 1, 0]}}; p = conv(a, w) {{{CONV} = [1, 1]}}; y = abs(p); return(y)",
    )
    assert check(Case("windows", ("contraction",), func))


def test_a_panel_that_is_not_full_leaves_the_columns_behind_it_alone() -> None:
    """Of 24 columns a group: rows that are stored before the last ones end inside of the result."""
    func = graph_func(
        "a: 1x15x112xbf16, b: 1x56x48xbf16",
        "p = conv(a, b) {low = [0], high = [0], dilation = [1], input_dilation = [1], strides = [1], groups = 2, "
        'layout = "nhwc"}; r = reshape(p) {shape = [720]}; y = abs(r); return(y)',
    )
    assert check(Case("groups", ("contraction",), func))
