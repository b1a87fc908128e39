"""The site of docs/ (`make docs`): its navigation has every page, and what pages link to is there, anchors too.

Only the last test needs what builds the site, the extra `docs`.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
CODE = re.compile(r"^( *)(```+|~~~+).*?^\1\2$|`+[^`]+`+", re.MULTILINE | re.DOTALL)


def at_root() -> list[str]:
    """Pages of the site that lie beside docs/: what `tools/site_hooks.py` says, which needs mkdocs to be imported."""
    text = (ROOT / "tools" / "site_hooks.py").read_text(encoding="utf-8")
    (names,) = re.findall(r"^AT_ROOT = \((.*)\)$", text, re.MULTILINE)
    return re.findall(r'"(.*?)"', names)


def leaves(nav: Any) -> Iterator[str]:
    """The pages of a navigation, in order."""
    if isinstance(nav, str):
        yield nav
    for entry in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from leaves(entry)


def test_every_page_is_in_the_navigation_once():
    found = Counter(leaves(CONFIG["nav"]))
    expected = {str(page.relative_to(DOCS)) for page in PAGES[1:]} | set(at_root())
    assert found.keys() == expected, "see `nav` of mkdocs.yml"
    assert not [page for page, count in found.items() if count > 1]


def test_the_navigation_begins_with_what_a_newcomer_wants():
    sections = [name for section in CONFIG["nav"] for name in section]
    assert sections == ["Start", "Guides", "Triton-C", "Reference", "Inside the compiler", "ADRs"]
    assert next(leaves(CONFIG["nav"])) == "index.md"


def slugs(heading: str) -> set[str]:
    """The anchors that GitHub and Python-Markdown give a heading."""
    plain = re.sub(r"`|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip()
    github = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
    ascii_only = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()
    site = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_only).strip().lower())
    return {github, site}


def test_slugs():
    assert slugs("ONNX Runtime's own operators") == {"onnx-runtimes-own-operators"}
    assert slugs("`a - b`, twice") == {"a---b-twice", "a-b-twice"}


@functools.cache
def anchors(page: Path) -> set[str]:
    """What may stand behind `#`: headings that are the same anchor in the repository and on the site, and entries."""
    text = CODE.sub(
        lambda m: m[0] if m[0].startswith("`") and "\n" not in m[0] else "", page.read_text(encoding="utf-8")
    )
    headings = [slugs(h) for h in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return {s.pop() for s in headings if len(s) == 1} | set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))


def links(page: Path) -> list[tuple[str, str]]:
    """Files and anchors that a page links to."""
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    found = re.findall(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)", text)
    return [(target, anchor) for target, anchor in found if "://" not in target]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_and_anchors_lead_somewhere(page):
    for target, anchor in links(page):
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(file), f"{page.name}: {target}#{anchor}"


def test_there_are_links_to_look_at():
    found = [link for page in PAGES for link in links(page)]
    assert len(found) > 120
    assert sum(bool(anchor) for _, anchor in found) > 5


def test_every_page_is_linked_from_the_first():
    """From README, in three steps; decisions are what pages name by their number."""
    seen, new = set[Path](), {ROOT / "README.md"}
    for _ in range(4):
        seen |= new
        new = {(p.parent / t).resolve() for p in new for t, _ in links(p) if t.endswith(".md")} - seen
    assert not [str(p.relative_to(ROOT)) for p in PAGES if p not in seen and p.parent.name != "adr"]


# the site itself

LOADED = re.compile(r"""<(?:script|img|iframe)[^>]*\ssrc="?https?://|<link[^>]*href="?https?://[^>]*stylesheet"""
                    r"""|<link[^>]*stylesheet[^>]*href="?https?://|url\(["']?https?://""")  # fmt: skip
"""What a browser would ask the network for when it shows a page."""


def test_what_would_be_loaded():
    for text in ('<script src="https://a/b.js">', '<link rel="stylesheet" href=https://a/b.css>', "url(https://a)"):
        assert LOADED.search(text), text
    assert not LOADED.search('<a href="https://a"><script src="b.js"></script><link rel="canonical" href="https://a">')


def test_the_site_builds_and_needs_no_network(tmp_path):
    for package in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(package)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    files = [f for f in tmp_path.rglob("*") if f.suffix in (".html", ".css")]
    assert len([f for f in files if f.suffix == ".html"]) > len(PAGES) - 1
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert not (found := LOADED.search(text)), f"{file.relative_to(tmp_path)}: {found[0]}"
        assert 'data-md-component="source"' not in text, "a script asks the repository's host for stars"
    assert "Compile a model, or take it from the cache" in (tmp_path / "api" / "models.html").read_text(
        encoding="utf-8"
    )
