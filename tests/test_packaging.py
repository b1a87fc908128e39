"""What an installed graphfuse has beside its code, and that its messages name nothing else."""

from __future__ import annotations

import ast
import email
import importlib.metadata
import importlib.resources
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import graphfuse

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGES, EXTRAS = re.compile(r"[\w./:-]+\.md\b"), re.compile(r"graphfuse\[(\w+)\]")
FILES = re.compile(r"(?<![\w/.])(?:docs|models|tests|benchmarks|tools)/\w")
SITE = "https://github.com/graphfuse/graphfuse"


def test_types_and_version():
    assert (importlib.resources.files("graphfuse") / "py.typed").is_file()
    assert graphfuse.__version__ == importlib.metadata.version("graphfuse")


def test_wheel(tmp_path):
    """Its licence, pages, types, and a README whose links lead somewhere from an index page too."""
    pytest.importorskip("hatchling")
    pytest.importorskip("hatch_fancy_pypi_readme")
    code = "import sys, hatchling.build; print(hatchling.build.build_wheel(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, tmp_path], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    wheel = zipfile.ZipFile(tmp_path / done.stdout.split()[-1])
    info = f"graphfuse-{graphfuse.__version__}.dist-info"
    assert {"graphfuse/py.typed", "graphfuse/__init__.py", f"{info}/licenses/LICENSE"} <= set(wheel.namelist())
    found = email.message_from_bytes(wheel.read(f"{info}/METADATA"))
    assert found["License-Expression"] == "Apache-2.0 WITH LLVM-exception"
    assert found["Version"] == graphfuse.__version__
    assert {u.split(",")[0] for u in found.get_all("Project-URL")} >= {"Homepage", "Issues", "Changelog"}
    prose = re.sub(r"```.*?```", "", found.get_payload(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)]+)\)", prose)
    assert links
    for link in links:
        assert link.startswith(("https://", "#")), link
        if link.startswith(f"{SITE}/blob/main/"):
            assert (ROOT / link.removeprefix(f"{SITE}/blob/main/").partition("#")[0]).exists(), link


def test_licence():
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License\n" in text and "LLVM Exceptions to the Apache 2.0 License" in text


def texts() -> list[tuple[str, str, bool]]:
    """Texts in the package that name pages, files or extras: where, what, and whether it is a docstring."""
    found = []
    for file in sorted((ROOT / "graphfuse").rglob("*.py")):
        source = file.read_text()
        if not re.search(rf"{FILES.pattern}|{PAGES.pattern}|{EXTRAS.pattern}", source):
            continue
        tree = ast.parse(source)
        docs = {n.value for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
        found += [
            (f"{file.relative_to(ROOT)}:{n.lineno}", n.value, n in docs)
            for n in ast.walk(tree)
            if isinstance(n, ast.Constant) and isinstance(n.value, str)
        ]
    return found


def test_messages_name_what_there_is():
    """A docstring may name a page of the repository; a message, read by those who have the wheel alone, its URL."""
    extras = set()
    for where, text, is_doc in texts():
        for page in PAGES.findall(text):
            path = page.removeprefix(f"{SITE}/blob/main/")
            assert is_doc or path != page, f"{where}: a message names {page!r}, which an installation does not have"
            assert (ROOT / path).is_file(), f"{where}: there is no {page!r}"
        if not is_doc:
            assert not FILES.search(text), f"{where}: {text!r}"
        extras.update(EXTRAS.findall(text))
    assert extras <= set(PROJECT["optional-dependencies"])
    assert "onnxruntime" in extras


def test_every_public_name_is_there():
    assert all(getattr(graphfuse, name) is not None for name in graphfuse.__all__)
