"""Hostile models end in one of graphfuse's errors, in little memory, whichever way they come in."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from filelock import FileLock

from graphfuse import errors
from tests.onnx.hostile_models import MODELS


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Of one run, which whatever workers there are share."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    with FileLock(shared / "hostile_models.lock"):
        if not (found := shared / "hostile_models.json").exists():
            command = [sys.executable, "-m", "tests.onnx.hostile_models"]
            quiet = {**os.environ, "GRAPHFUSE_CACHE": str(tmp_path_factory.mktemp("cache")), "GRAPHFUSE_THREADS": "1"}
            lines = subprocess.run(command, check=True, capture_output=True, text=True, env=quiet).stdout
            found.write_text(lines)
    return {r["name"]: r for r in map(json.loads, found.read_text().splitlines())}


@pytest.mark.parametrize("name", MODELS)
def test_is_refused(results, name):
    _, kind, words = MODELS[name]
    assert results[name]["status"] == 0, "the process died"
    ways = {way: (error, message) for way, error, message in results[name]["found"]}
    assert "escaped" not in ways, ways["escaped"]
    error, message = ways["backend"]
    assert re.fullmatch(kind, error), message
    assert re.search(words, message)
    for error, message in (ways["compile"], ways["backend"]):
        assert len(message) < 20_000
        assert "\n" not in message
        assert not error or issubclass(getattr(errors, error, errors.UnsupportedError), errors.GraphfuseError)
    if "command" in ways:
        code, text = ways["command"]
        assert int(code) in range(11)
        assert "Traceback" not in text


def test_what_is_only_large_is_compiled(results):
    """The same limits let through a loop in a loop, and functions that call one another 200 deep."""
    del results
    from graphfuse.onnx_backend import Backend
    from tests.onnx.hostile_models import chain_of_functions, deep_if, inputs_of, loops

    for model, want in ((loops(2, 8), 2.0**64), (chain_of_functions(200, ("a", "b")), -1), (deep_if(20), -1)):
        (y,) = Backend.run_model(model, list(inputs_of(model)))
        assert (y == want).all()
