"""`aot_compile`: what was compiled is saved as a file, and runs where it is loaded, with nothing compiled again."""

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from graphfuse.torch import aot  # noqa: E402 - it imports torch

ROOT = Path(__file__).resolve().parents[2]


def gelu_of_product(x, w):
    return torch.nn.functional.gelu(x @ w).sum(-1)


def inputs_of(rows):
    torch.manual_seed(0)
    return torch.randn(rows, 8), torch.randn(8, 4, requires_grad=True)


def save(path, *, dynamic):
    kept = torch._functorch.config.patch(enable_autograd_cache=True)
    with torch._dynamo.config.patch(enable_aot_compile=True), kept:
        fn = torch.compile(gelu_of_product, backend="graphfuse", fullgraph=True, dynamic=dynamic)
        fn.aot_compile((inputs_of(3), {})).save_compiled_function(str(path))


def load(path, *, dynamic):
    """Loaded, it gives what eager does, with its gradient, at every size."""
    with path.open("rb") as file:
        fn = torch.compiler.load_compiled_function(file)
    for rows in (3, 5, 17) if dynamic else (3,):
        x, w = inputs_of(rows)
        want, found = gelu_of_product(x, w), fn(x, w)
        torch.testing.assert_close(found, want)
        torch.testing.assert_close(*(torch.autograd.grad(y.square().sum(), w) for y in (found, want)))


@pytest.mark.parametrize("dynamic", [False, True])
def test_it_is_loaded_without_compiling(tmp_path, monkeypatch, dynamic):
    save(tmp_path / "saved", dynamic=dynamic)
    monkeypatch.setattr(aot, "compile_graph", None)
    load(tmp_path / "saved", dynamic=dynamic)


OTHER_PROCESS = """
import sys
from pathlib import Path
from graphfuse import compiler
from graphfuse.torch import aot
from tests.torch import test_aot_compile
step, *paths = sys.argv[1:]
if step == "load":
    compiler.build = aot.compile_graph = None
for dynamic, path in enumerate(paths):
    getattr(test_aot_compile, step)(Path(path), dynamic=bool(dynamic))
"""


@pytest.mark.full
def test_another_process_loads_it(tmp_path):
    for step in ("save", "load"):
        folder = tmp_path / step  # each with caches of its own, so that the file is all they share
        folder.mkdir()
        caches = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "torch"), "GRAPHFUSE_CACHE": str(folder / "graphfuse")}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", OTHER_PROCESS, step, *(str(tmp_path / n) for n in "ab")],
            capture_output=True, text=True, check=False,
            env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "PYTHONPATH": str(ROOT), **caches},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
