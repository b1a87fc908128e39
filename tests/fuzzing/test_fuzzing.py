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


def check(of, count, *arguments):
    found = output_of("tests.fuzzing", *arguments, "--seed", "1000000", "--count", str(count))
    assert found.returncode == 0, found.stdout + found.stderr
    for kind in of:
        assert f"{kind}: {count} cases, 0 findings" in found.stdout


def test_nothing_is_found_in_a_few():
    """Of one process: what kinds import and build takes longer than the cases."""
    check(kinds(), 5)


@pytest.mark.full
@pytest.mark.parametrize("kind", kinds())
def test_nothing_is_found(kind):
    check([kind], 300, "--kind", kind)


@pytest.mark.parametrize(
    ("which", "cases"), [("quick", CASES), pytest.param("slow", SLOW, marks=pytest.mark.full)], ids=["quick", "slow"]
)
def test_the_runner_finds(which, cases):
    said = json.loads(output_of("tests.fuzzing.bad", which).stdout)
    assert said == {name: outcome for name, (_, outcome) in cases.items()}
