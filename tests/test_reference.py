"""The reference says all that there is: public names in docs/api, verbs and options in docs/cli.md.

A public name is one of `__all__`, or a class or function that a module without one defines; `ENTRIES` are the lines
`::: NAME` of the pages, which the site (`make docs`) fills with the signature and the docstring.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import click
import pytest

from graphfuse.cli.program import VERBS, cli
from graphfuse.errors import GraphfuseError

pytest.importorskip("torch")  # some of the names are of its backend

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "api").glob("*.md"))
MODULES = (
    "graphfuse", "graphfuse.errors", "graphfuse.generation", "graphfuse.gpu.emulator", "graphfuse.onnx_backend",
    "graphfuse.profiling", "graphfuse.torch",
)  # fmt: skip
OTHERS = ("graphfuse.errors.printable", "graphfuse.errors.meant")
"""What modules without `__all__` define for graphfuse's own use."""


def entries() -> dict[str, list[str]]:
    """Names with an entry, each with the members that it is to show; none means all."""
    found: dict[str, list[str]] = {}
    for page in PAGES:
        for match in re.finditer(r"^::: (\S+)\n((?:    .*\n)*)", page.read_text(encoding="utf-8"), re.MULTILINE):
            members = re.search(r"members: \[(.*)\]", match[2])
            assert match[1] not in found, f"{page.name}: {match[1]} has two entries"
            found[match[1]] = members[1].split(", ") if members else []
    return found


ENTRIES = entries()


def resolved(name: str) -> Any:
    """A module, or what is found in one."""
    module, rest = name, list[str]()
    while True:
        try:
            found: Any = importlib.import_module(module)
            break
        except ModuleNotFoundError:
            module, _, last = module.rpartition(".")
            rest.insert(0, last)
    for attribute in rest:
        found = getattr(found, attribute)
    return found


def public(module: str) -> list[str]:
    """Names that a user would import from it."""
    loaded = importlib.import_module(module)
    if hasattr(loaded, "__all__"):
        return [f"{module}.{name}" for name in loaded.__all__ if not name.startswith("__")]
    own = [n for n, v in vars(loaded).items() if getattr(v, "__module__", "") == module and not n.startswith("_")]
    return [f"{module}.{name}" for name in own if callable(getattr(loaded, name)) and f"{module}.{name}" not in OTHERS]


def members_of(name: str) -> list[str]:
    """Names of what an entry shows beside the object itself: of a module or a class what is public, or what it says."""
    found, given = resolved(name), ENTRIES[name]
    if inspect.ismodule(found):
        return [f"{name}.{member}" for member in given] or public(name)
    if not inspect.isclass(found):
        return []
    own = given or [n for n, v in vars(found).items() if not n.startswith("_") and is_documented(v)]
    return [f"{name}.{member}" for member in own]


def is_documented(member: object) -> bool:
    """Whether it is of a kind that has docstrings: fields of a dataclass are said by the class."""
    return inspect.isroutine(member) or isinstance(member, (property, classmethod, staticmethod))


SHOWN = sorted({m for name in ENTRIES for m in [name, *members_of(name)] if not inspect.ismodule(resolved(m))})


@pytest.mark.parametrize("module", MODULES)
def test_public_names_have_entries(module):
    shown = {id(resolved(name)) for name in SHOWN}
    assert not [name for name in public(module) if id(resolved(name)) not in shown], "add them to a page of docs/api"


def test_every_error_has_an_entry():
    kinds = [e for e in everything_below(GraphfuseError) if e.__module__ == "graphfuse.errors"]
    assert len(kinds) > 10
    assert {f"graphfuse.errors.{e.__name__}" for e in kinds} <= ENTRIES.keys()


def everything_below(error: type) -> list[type]:
    return [e for below in error.__subclasses__() for e in (below, *everything_below(below))]


def test_the_index_names_what_graphfuse_exports():
    text = (ROOT / "docs" / "api" / "index.md").read_text(encoding="utf-8")
    for name in public("graphfuse"):
        short = name.removeprefix("graphfuse.")
        assert f"`{short}`" in text or issubclass(resolved(name), Warning), short


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_shown_has_a_docstring(name):
    found = resolved(name)
    doc = inspect.getdoc(found.func if hasattr(found, "func") else found) or ""
    assert len(doc.split()) > 2, name
    assert doc != inspect.getdoc(object.__init__), name


FUNCTIONS = [name for name in SHOWN if inspect.isfunction(resolved(name))]
WITH_ARGS = [n for n in SHOWN if callable(resolved(n)) and "Args:" in (inspect.getdoc(resolved(n)) or "")]


@pytest.mark.parametrize("name", WITH_ARGS)
def test_arguments_are_those_of_the_signature(name):
    doc = inspect.getdoc(resolved(name)) or ""
    section = doc.partition("Args:\n")[2].partition("\n\n")[0]
    documented = re.findall(r"^    (\w+):", section, re.MULTILINE)
    parameters = [p for p in inspect.signature(resolved(name)).parameters if p not in ("self", "cls")]
    assert documented == parameters, name


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n in ENTRIES])
def test_functions_say_what_their_arguments_are(name):
    if len(inspect.signature(resolved(name)).parameters) > 2:
        assert "Args:" in (inspect.getdoc(resolved(name)) or ""), name


# the command line


def commands(command: click.Command, path: str):
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from commands(command.get_command(click.Context(command), name), f"{path} {name}")


COMMANDS = dict(commands(cli, "graphfuse"))


def test_verbs_and_options_are_on_the_page():
    """Besides `test_docs`, by which the page is what `make docs` renders: that this leaves none out."""
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert {f"graphfuse {verb}" for verb in VERBS} < COMMANDS.keys()
    for path, command in COMMANDS.items():
        section = text.partition(f"# {path}\n")[2].partition("\n#")[0] if path != "graphfuse" else text
        assert section, path
        for option in (p for p in command.params if isinstance(p, click.Option)):
            assert f"`{option.opts[0]}" in section or f" {option.opts[-1]}" in section, f"{path} {option.opts}"


@pytest.mark.parametrize("path", COMMANDS)
def test_options_say_what_they_do(path):
    command = COMMANDS[path]
    assert command.help
    assert not [p.opts for p in command.params if isinstance(p, click.Option) and not p.help]
