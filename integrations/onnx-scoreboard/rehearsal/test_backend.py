"""ONNX's backend tests of the module that `--onnx_backend` names, as classes for pytest; opt-outs are skips."""

from __future__ import annotations

import functools
import importlib
import os
import unittest
from typing import Any

import onnx.backend.test
from onnx.backend.test import runner

backend: Any = importlib.import_module(os.environ["ONNX_BACKEND_MODULE"])
assert hasattr(backend, "run_model"), f"{backend.__name__} is no backend"

suite: Any = runner.Runner
_add_test = suite._add_test


def _with_skips(self: Any, category: str, name: str, function: Any, *args: Any, **kwargs: Any) -> None:
    """Count what a backend declines as skipped, where onnx's runner lets it pass."""

    @functools.wraps(function)
    def run(*inner: Any, **named: Any) -> None:
        try:
            function(*inner, **named)
        except runner.BackendIsNotSupposedToImplementIt as e:
            raise unittest.SkipTest(str(e)) from e

    _add_test(self, category, name, run, *args, **kwargs)


suite._add_test = _with_skips

pytest_plugins = "onnx.backend.test.report"

globals().update(onnx.backend.test.BackendTest(backend, __name__).enable_report().test_cases)
