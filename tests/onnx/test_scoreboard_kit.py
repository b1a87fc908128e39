"""The pieces for ONNX's backend scoreboard (integrations/onnx-scoreboard) fit each other and what they name."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import unittest
from pathlib import Path

import pytest

KIT = Path(__file__).parents[2] / "integrations" / "onnx-scoreboard"
MODULE = "graphfuse.onnx_backend"


def test_the_entry_and_the_job_name_the_same_places():
    yaml = pytest.importorskip("yaml")
    entry = json.loads((KIT / "config.json").read_text())["stable"]["graphfuse"]
    jobs = yaml.safe_load((KIT / "benchmark-backends.yml").read_text())["jobs"]
    folder = entry["results_dir"].removeprefix("./")
    steps = {s["name"]: s for s in jobs["graphfuse_stable"]["steps"]}
    assert f"-f {entry['dockerfile_link']} ." in steps["Build docker image"]["run"]
    assert f"/{folder}:/root/results" in steps["Run docker container"]["run"]
    uploaded, downloaded = steps["Upload results"]["with"], jobs["collect_and_deploy"]["steps"][0]["with"]
    assert uploaded == downloaded == {"name": "results-graphfuse-stable", "path": f"{folder}/"}
    assert jobs["collect_and_deploy"]["needs"] == ["graphfuse_stable"]
    assert entry["core_packages"] == ["graphfuse"]


def test_the_image_runs_the_module_that_there_is():
    lines = (KIT / "Dockerfile").read_text().replace("\\\n", "").splitlines()
    words = [line.split(" ", 1)[0] for line in lines if line and not line.startswith("#")]
    assert set(words) == {"FROM", "ARG", "COPY", "RUN", "ENV", "WORKDIR", "CMD"}
    (command,) = (json.loads(line.removeprefix("CMD ")) for line in lines if line.startswith("CMD "))
    assert command[:2] == ["sh", "-c"]
    assert "pytest /root/test/test_backend.py --onnx_backend=${ONNX_BACKEND} -k 'not _cuda'" in command[2]
    (named,) = re.findall(r'^ENV ONNX_BACKEND="(.*)"$', "\n".join(lines), re.MULTILINE)
    assert named == MODULE
    assert f'MODULE = "{named}"' in (KIT / "rehearse.py").read_text()
    backend = importlib.import_module(named)
    for name in ("prepare", "run_model", "run_node", "supports_device", "is_compatible"):
        assert callable(getattr(backend, name)), name


def test_a_sample_of_the_stored_tests_passes(monkeypatch):
    """Without those that onnx generates in memory, which takes ten seconds."""
    runner = importlib.import_module("onnx.backend.test.runner")
    load = runner.load_model_tests
    monkeypatch.setattr(runner, "load_model_tests", lambda kind: load(kind=kind) if kind == "simple" else [])
    cases = (
        importlib.import_module("onnx.backend.test").BackendTest(importlib.import_module(MODULE), __name__).test_cases
    )
    names = ("expand_shape_model1", "sequence_model4", "shrink", "strnorm_model_nostopwords_nochangecase")
    simple = cases["OnnxBackendSimpleModelTest"]
    result = unittest.TestResult()
    unittest.TestSuite(simple(f"test_{n}_cpu") for n in names).run(result)
    assert (result.testsRun, result.failures, result.errors, result.skipped) == (len(names), [], [], [])


@pytest.mark.full
def test_a_rehearsal_writes_the_reports(tmp_path):
    for _ in range(2):
        only = "test_add_cpu or test_loop13_seq_cpu or test_gradient_of_add_cpu"
        command = [sys.executable, str(KIT / "rehearse.py"), "--results", str(tmp_path), "-k", only]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["passed"] == [f"OnnxBackendNodeModelTest::test_{n}_cpu" for n in ("add", "loop13_seq")]
    assert report["failed"] == ["OnnxBackendSimpleModelTest::test_gradient_of_add_cpu"]
    trend = json.loads((tmp_path / "trend.json").read_text())
    assert [(t["passed"], t["failed"], t["skipped"]) for t in trend] == [(2, 1, 0)] * len(trend)
    assert {p["name"] for p in trend[0]["versions"]} == {"graphfuse", "onnx"}
