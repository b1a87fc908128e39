"""Why views are no boxes that TMA copies: each edit of a kernel that is raised gives one reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphfuse.dialects.gpu import WITHOUT_WGMMA
from graphfuse.gpu.transforms.hopper.raise_boxes import raise_boxes
from graphfuse.ir.parser import parse, parse_module
from graphfuse.ir.printer import to_text
from tests.conftest import SEPARATOR

VIEWS = parse_module((Path(__file__).parent / "raise_boxes.gf").read_text().partition(SEPARATOR)[0])[1]
WHY = {
    "it is no tile of two dims, with zeros outside": ("{limited = [0], shape", "{limited = [0], other = 1.0, shape"),
    "lines lie 95 elements apart, no multiple of 16 bytes": ("[1, 96]", "[1, 95]"),
    "it begins 4 elements into memory, no multiple of 16 bytes": ("96*k + 64*p", "96*k + 64*p + 4"),
}


@pytest.mark.parametrize("why", WHY)
def test_why_a_view_is_no_box(why):
    text = to_text(VIEWS)
    assert WHY[why][0] in text
    assert raise_boxes(parse(text.replace(*WHY[why]))).attrs[WITHOUT_WGMMA] == f"a factor is no box: {why}"
