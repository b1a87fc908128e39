"""No hostile thing of any kind ends the process, escapes as another exception, or takes for ever (`runner.py`)."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.fuzzing.bad import CASES, SLOW
from tests.fuzzing.runner import kinds


def output_of(*arguments):
    # a process of its own: what this one has imported and started would be in each child
    return subprocess.run([sys.executable, "-m", *arguments], check=False, capture_output=True, text=True)


@pytest.mark.parametrize("count", [pytest.param(5, id="5"), pytest.param(300, id="300", marks=pytest.mark.full)])
@pytest.mark.parametrize("kind", kinds())
def test_nothing_is_found(kind, count):
    found = output_of("tests.fuzzing", "--kind", kind, "--seed", "1000000", "--count", str(count))
    assert found.returncode == 0, found.stdout + found.stderr
    assert f"{kind}: {count} cases, 0 findings" in found.stdout


@pytest.mark.parametrize(
    ("which", "cases"), [("quick", CASES), pytest.param("slow", SLOW, marks=pytest.mark.full)], ids=["quick", "slow"]
)
def test_the_runner_finds(which, cases):
    said = json.loads(output_of("tests.fuzzing.bad", which).stdout)
    assert said == {name: outcome for name, (_, outcome) in cases.items()}
