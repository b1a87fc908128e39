"""Every op of every dialect is in some text test, so its text is known to round-trip."""

from __future__ import annotations

from pathlib import Path

import graphfuse.dialects.gpu
from graphfuse.ir.core import REGISTRY
from graphfuse.ir.parser import parse_module

assert graphfuse.dialects.gpu, "importing it registers its ops; a `.gf` by itself imports graph and block only"
FILES = [p for p in sorted(Path(__file__).parent.glob("*.gf")) if "// RUN:" in p.read_text()]


def test_every_op_is_in_a_text_test():
    seen = {op.kind.name for p in FILES for f in parse_module(p.read_text().split("// -----\n")[0]) for op in f.walk()}
    assert set(REGISTRY) - seen == set()
