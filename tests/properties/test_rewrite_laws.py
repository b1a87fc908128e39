"""Rewriting: every pass keeps validity, numbers and locations, and is idempotent."""

from __future__ import annotations

import pytest
from hypothesis import given

from graphfuse.ir.rewrite import common_subexpressions, dead_code
from tests.properties import laws
from tests.properties.programs import programs
from tests.properties.settings import PROGRAMS


@pytest.mark.parametrize(
    "pass_", [dead_code, common_subexpressions, laws.rebuild_all], ids=["dead-code", "common-subexpressions", "rebuild"]
)
@given(text=programs)
@PROGRAMS
def test_pass_is_sound(pass_, text):
    laws.pass_is_sound(pass_, text)


@given(programs)
@PROGRAMS
def test_dead_code_is_sound_on_dead_programs(text):
    laws.pass_is_sound(dead_code, laws.returns_nothing(text))
