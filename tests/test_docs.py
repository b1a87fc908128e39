"""What a reader would type: every command in a code block of README.md and docs/*.md is run, in a folder of a user's.

A page is run from top to bottom in an empty folder, with an empty home and an empty cache, and what one block makes
the next ones may use. Its blocks, fenced or indented, are shell commands (`sh`), Python (`python`, also as a session
with `>>>`), or listings; one without a language is what it looks like. What a page says decides what is left out:

- `# needs a GPU` behind a command, or in a Python block, leaves it to `make test-gpu`;
- `not run by the tests: REASON`, behind a command or at the top of a page, leaves it, or all of the page, out;
- `make TARGET` is left to CI, `pip install` to a user; that there are such targets and extras is looked at.
"""

from __future__ import annotations

import ast
import doctest
import os
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from graphfuse.cli import main
from tools import render_readme

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAMS = {"graphfuse", "python", "python3", "pip", "make", "docker", "git", "cd", "export"}
LEFT_OUT = re.compile(r"not run by the tests: (\S+ \S.{8,})", re.IGNORECASE)
NEEDS_GPU = re.compile(r"#.*\bneeds a GPU\b")


@dataclass(frozen=True)
class Block:
    """A code block: its page, the line its text begins at, and `sh`, `python`, or another language for a listing."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """The code blocks of a page, in order."""
    found: list[Block] = []
    lines = ["", *page.read_text(encoding="utf-8").splitlines(), "the end"]
    at = 1
    while at < len(lines):
        begin, fence = at + 1, re.match(r" *(```+|~~~+) *([\w-]*)", lines[at])
        if fence:
            end = next(i for i in range(begin, len(lines)) if lines[i].strip() == fence[1])
        elif lines[at].startswith("    ") and not lines[at - 1].strip():
            begin = at
            end = next(i for i in range(at, len(lines)) if lines[i].strip() and not lines[i].startswith("    "))
        else:
            at += 1
            continue
        text = textwrap.dedent("\n".join(lines[begin:end])).rstrip("\n") + "\n"
        found.append(Block(page, begin, (fence[2] if fence else "") or looks_like(text), text))
        at = end + 1 if fence else end
    return found


def introduction(page: Path) -> str:
    """The words of a page before its first section."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for block in blocks(page):
        count = block.text.count("\n")
        lines[block.line - 1 : block.line - 1 + count] = [""] * count
    end = next((i for i, line in enumerate(lines) if line.startswith("## ")), len(lines))
    return " ".join(" ".join(lines[:end]).split())


def looks_like(text: str) -> str:
    """The language of a block that does not name one."""
    first = text.split(maxsplit=1)[:1]
    if first and first[0] in PROGRAMS:
        return "sh"
    if text.startswith(">>> "):
        return "python"
    try:
        ast.parse(text)
    except SyntaxError:
        return "listing"
    return "python"


PAGE = """# A page
Nothing here is not run.

    graphfuse one \\
      --and this
    # a comment
    make two

- a list
    with a continuation

```python
three = 3
```

    >>> four

```
func @listing() {}

five = 5  # not Python
```

~~~sh
python six.py   # needs a GPU
rm seven        # not run by the tests: it would hurt somebody
rm eight        # not run by the tests: no
~~~
"""


def test_what_counts_as_a_command(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    found = [(c.line, c.text.split()[1], c.needs_gpu, c.reason) for c in commands(page)]
    assert found == [
        (4, "one", False, ""),
        (7, "two", False, ""),
        (13, "=", False, ""),
        (16, "four", False, ""),
        (25, "six.py", True, ""),
        (26, "seven", False, "it would hurt somebody"),
        (27, "eight", False, ""),
    ]


@dataclass(frozen=True)
class Command:
    """What is run at once: a line for the shell, or a block of Python."""

    block: Block
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.block.page.name}:{self.line}: {self.text.strip()}"

    @property
    def needs_gpu(self) -> bool:
        return bool(NEEDS_GPU.search(self.text))

    @property
    def reason(self) -> str:
        """Why the tests do not run it."""
        found = LEFT_OUT.search(self.text) or LEFT_OUT.search(introduction(self.block.page))
        return found[1] if found else ""


def commands(page: Path) -> list[Command]:
    """What a reader would type, in order."""
    found: list[Command] = []
    for block in blocks(page):
        if block.language == "python":
            found.append(Command(block, block.line, block.text))
        elif block.language == "sh":
            rows = re.finditer(r"(?:.*\\\n)*.*\S.*", block.text)
            found += [Command(block, block.line + block.text[: m.start()].count("\n"), m[0]) for m in rows]
    return [c for c in found if not c.text.lstrip().startswith("#") or c.block.language == "python"]


def run_python(command: Command, names: dict[str, object]) -> None:
    if command.text.startswith(">>> "):
        test = doctest.DocTestParser().get_doctest(command.text, names, str(command.block), None, command.line)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        said: list[str] = []
        if runner.run(test, out=said.append, clear_globs=False).failed:
            pytest.fail("".join(said), pytrace=False)
        names |= test.globs
        return
    # so that a traceback shows the line of the page
    text = "\n" * (command.line - 1) + command.text
    exec(compile(text, str(command.block.page), "exec"), names)


def run_shell(command: Command) -> None:
    words = shlex.split(command.text, comments=True)
    if words[0] == "graphfuse" and not re.search(r"[|<>&;$`\\]", command.text.split(" #")[0]):
        assert main(words[1:]) == 0, command
        return
    assert words[0] not in ("make", "pip"), command
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-euc", command.text], check=True, env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    )


def is_elsewhere(command: Command) -> bool:
    """Whether CI or the test of a wheel runs it; then that it could."""
    words = shlex.split(command.text, comments=True) if command.block.language == "sh" else [""]
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE), command
    elif words[:2] == ["pip", "install"]:
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        for word in words[2:]:
            what = re.fullmatch(r"(?:\.|graphfuse)(?:\[([\w,]+)\])?", word)
            assert what, f"{command}: expected `.` or `graphfuse` with extras"
            assert not what[1] or set(what[1].split(",")) <= set(extras), command
    else:
        return False
    return True


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A user's: empty, as their home is."""
    for name in [n for n in os.environ if n.startswith(("GRAPHFUSE_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GRAPHFUSE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "home").mkdir()
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


SLOW = ("passes", "tuning")  # of commands that tests/cli has, too


def cases():
    """Every page that has commands; once more for a GPU if one of them needs it."""
    for page in PAGES:
        if found := [c for c in commands(page) if not c.reason]:
            yield pytest.param(found, False, id=page.stem, marks=pytest.mark.full if page.stem in SLOW else ())
            if any(c.needs_gpu for c in found):
                yield pytest.param(found, True, id=f"{page.stem} on a GPU", marks=pytest.mark.gpu)


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")  # torch's exporter to ONNX, of torch itself
@pytest.mark.parametrize(("found", "gpu"), [*cases()])
def test_a_page(found, gpu, folder):
    names: dict[str, object] = {"__name__": "__main__"}
    for command in found:
        if is_elsewhere(command) or (command.needs_gpu and not gpu):
            continue
        if command.block.language == "python":
            run_python(command, names)
        else:
            run_shell(command)


@pytest.mark.full
def test_the_first_page_from_a_wheel(folder, tmp_path):
    """Without the repository: in processes of their own, by a shell, from what the build packages."""
    pytest.importorskip("hatchling")
    pytest.importorskip("hatch_fancy_pypi_readme")
    code = "import sys, hatchling.build; hatchling.build.build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, tmp_path], cwd=ROOT, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "PYTHON": sys.executable}
    begin, python = 'graphfuse() { "$PYTHON" -m graphfuse "$@"; }\n', ""
    for command in commands(PAGES[0]):
        if command.block.language == "python":
            python += command.text
        elif not (is_elsewhere(command) or command.needs_gpu):
            subprocess.run(["bash", "-euc", begin + command.text], env=env, check=True)
    python += f"assert graphfuse.__file__.startswith({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-"], input=python, text=True, env=env, check=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_listings_have_no_commands(page):
    """So that nothing is left out by calling it something else."""
    for block in blocks(page):
        if block.language not in ("sh", "python"):
            odd = [
                s
                for s in block.text.splitlines()
                if s.startswith((">>> ", "$ ")) or s.split()[:1] in ([p] for p in PROGRAMS)
            ]
            assert not odd, f"{block}: {odd[0]}"


LEFT = [c for page in PAGES for c in commands(page) if c.reason]


def test_what_is_left_out_exists():
    """Measurements, which take minutes or a GPU: the program and the results it names are there."""
    assert len(LEFT) > 30
    for command in LEFT:
        words = shlex.split(command.text, comments=True)
        assert words[:2] == ["python", "-m"], f"{command}: expected a benchmark"
        assert (ROOT / f"{words[2].replace('.', '/')}.py").is_file(), command
        for word in words[3:]:
            assert not word.startswith("benchmarks/") or (ROOT / word).is_file(), command


@pytest.mark.full
@pytest.mark.parametrize("module", sorted({shlex.split(c.text)[2] for c in LEFT}))
def test_what_is_left_out_takes_its_options(module):
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    for command in LEFT:
        words = shlex.split(command.text, comments=True)
        for word in words[3:] if words[2] == module else ():
            assert not word.startswith("--") or re.search(rf"{word.split('=')[0]}\b", done.stdout), command


def test_figures_are_those_of_the_results():
    """`make docs` was run after the last measurement."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert render_readme.rendered(text) == text
    assert text.count("\n") <= 100


@pytest.mark.parametrize(
    ("command", "page"),
    re.findall(r"\$\(BIN\)/python (.*) > docs/(.*)\.md", (ROOT / "Makefile").read_text()),
)
def test_pages_are_as_rendered(command, page):
    words = shlex.split(command)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *words], capture_output=True, check=True, cwd=ROOT, env=env)
    assert (ROOT / "docs" / f"{page}.md").read_bytes() == done.stdout, "run `make docs`"


@pytest.mark.parametrize(
    "page", [*PAGES, *(ROOT / f"{name}.md" for name in ("CONTRIBUTING", "SECURITY"))], ids=lambda p: p.stem
)
def test_links_lead_somewhere(page):
    """Links, and files that the text names."""
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\[[^\][]+\]\(([^)#\s]+)(?:#[\w-]+)?\)", re.sub(r"(`+).*?\1", "", text, flags=re.DOTALL)):
        assert "://" in target or (page.parent / target).exists(), f"{page.name}: {target}"
    for name in re.findall(r"\b(?:docs|tests|models|benchmarks|tools)/[\w/.-]+\.(?:md|py|json)\b", text):
        assert (ROOT / name).exists(), f"{page.name}: {name}"
