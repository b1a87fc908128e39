"""Why factors that are read by address are no boxes that TMA copies: each edit of a kernel gives one reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphfuse.dialects.gpu import WITHOUT_WGMMA
from graphfuse.gpu.transforms.hopper.raise_boxes import raise_boxes
from graphfuse.ir.parser import parse, parse_module
from graphfuse.ir.printer import to_text
from tests.conftest import SEPARATOR

BY_ADDRESS, VIEWS = parse_module((Path(__file__).parent / "raise_boxes.gf").read_text().partition(SEPARATOR)[0])
"""A convolution by a masked gather, as people write it, and a product."""
NO_VIEW = {
    "it is no tile of two dims, with zeros outside": ("{limited = [0], shape", "{limited = [0], other = 1.0, shape"),
    "lines lie 95 elements apart, no multiple of 16 bytes": ("[1, 96]", "[1, 95]"),
    "it begins 4 elements into memory, no multiple of 16 bytes": ("96*k + 64*p", "96*k + 64*p + 4"),
}
NO_WINDOW = {
    "it begins at no place that is known to be in the tensor": ("p7 + p9 - 1", "p7 + p9"),
    "the number of its columns is not known at launch": ("p10 + p8 - 1", "p8 - 1"),
    "rows are no digits of one number": ("mod(row6, 8)", "mod(row6, 4)"),
    "its rows are no positions of an image": ("l5 + 64*pid5", "2*l5 + 64*pid5"),
    "rows do not lie apart by multiples of one number": ("(l10 + 8", "(2*l10 + 8"),
    "it begins 4 elements into memory, no multiple of 16 bytes": ("- 72)", "- 68)"),
    "what it leaves out is not 0": ("block.select(%v29, %v39, %v40)", "block.select(%v29, %v39, %v39)"),
    "rows repeat their elements": ("64*p7 + 8*p8", "64*p7*p7 + 8*p8"),
    "what it leaves out is no padding of an image": ("block.lt(%v19, %v16)", "block.ge(%v6, %v13)"),
    "what it leaves out is decided by no comparison of indices": ("block.lt(%v19, %v16)", "block.eq(%v19, %v16)"),
    "it is computed": ("block.select(%v29, %v39, %v40)", "block.add(%v36, %v36)"),
    "its taps or strides are more than a map of windows takes": ("p7 + p9 - 1", "9*p7 + p9 - 1"),
    "its rows are no whole images": ("block.lt(%v19, %v16)", "block.lt(%v3, %v16)"),
}
CASES = [(func, why, edits[why]) for func, edits in ((VIEWS, NO_VIEW), (BY_ADDRESS, NO_WINDOW)) for why in edits]


@pytest.mark.parametrize(("func", "why", "edit"), CASES, ids=[why for _, why, _ in CASES])
def test_why_it_is_no_box(func, why, edit):
    text = to_text(func)
    assert edit[0] in text
    assert raise_boxes(parse(text.replace(*edit))).attrs[WITHOUT_WGMMA] == f"a factor is no box: {why}"
