"""Dynamo's minifier finds the operator at which the backend fails."""

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import runpy, sys
import torch
from graphfuse.torch import aot
whole = aot.compile_graph
def failing(gm, *rest):
    if any("tanh" in str(n.target) for n in gm.graph.nodes):
        raise RuntimeError("made to fail")
    return whole(gm, *rest)
aot.compile_graph = failing
if launcher := sys.argv[1:]:
    sys.argv = launcher
    runpy.run_path(launcher[0], run_name="__main__")
else:
    torch.compile(lambda x: (x.exp() + 1).tanh().cos(), backend="graphfuse")(torch.randn(4))
"""


@pytest.mark.full
def test_the_minifier_finds_what_fails(tmp_path):
    env = {
        "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "GRAPHFUSE_CACHE": "0",
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "torch"), "TORCH_COMPILE_DEBUG_DIR": str(tmp_path),
        "TORCHDYNAMO_REPRO_AFTER": "dynamo", "TORCHDYNAMO_REPRO_LEVEL": "2",
    }  # fmt: skip

    def run(*args):
        command = [sys.executable, "-W", "ignore", "-c", PROGRAM, *args]
        return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert "made to fail" in run().stderr
    (launcher,) = tmp_path.rglob("minifier_launcher.py")
    for name in ("TORCHDYNAMO_REPRO_AFTER", "TORCHDYNAMO_REPRO_LEVEL"):
        del env[name]
    done = run(str(launcher))
    assert "Wrote minimal repro" in done.stdout + done.stderr, done.stderr
    body = (tmp_path / "repro.py").read_text()
    assert ".tanh()" in body and ".exp()" not in body and ".cos()" not in body
