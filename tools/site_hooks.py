"""What MkDocs does not know of this repository: pages that lie in its root, and how docs name files and one another.

Pages are written to be read in the repository, too: a link may lead to any file of it, and text names a page by its
path, `docs/onnx.md`, or a decision by its number, `ADR 0015`. On the site both are links.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
AT_ROOT = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""Pages of the site that do not lie in docs/."""
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)")
_MENTION = re.compile(r"\b(?:docs/([\w/-]+\.md)|ADR (\d{4}))")
_TAG = re.compile(r"(<[^>]*>)")
_NO_LINKS = ("a", "code", "pre", "h1", "script", "style")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the root."""
    for name in AT_ROOT:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(text: str, page: Any, config: Any, files: Any) -> str:
    """Links to what is not in docs/ lead to its page on the site, or into the repository."""
    folder = "" if page.file.src_uri in AT_ROOT else posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def elsewhere(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, found[1]))
        if not (ROOT / path).exists() or (path.startswith("docs/") and folder):
            return found[1]
        uri = path.removeprefix("docs/")
        if path in AT_ROOT or (path.startswith("docs/") and files.get_file_from_path(uri)):
            return posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or ".")
        return f"{config.extra['repository']}/blob/main/{path}"

    return _LINK.sub(elsewhere, text)


def on_page_context(context: Any, page: Any, config: Any, nav: Any) -> Any:
    """Make links of the pages and decisions that text names."""
    pages = {p.file.src_uri: p for p in nav.pages}
    decisions = {Path(uri).name[:4]: p for uri, p in pages.items() if uri.startswith("adr/")}

    def linked(found: re.Match[str]) -> str:
        target = pages.get(found[1]) if found[1] else decisions.get(found[2])
        if target is None or target is page:
            return found[0]
        href = posixpath.relpath(target.url, posixpath.dirname(page.url) or ".")
        return f'<a href="{href}">{target.title if found[1] else found[0]}</a>'

    parts, inside = _TAG.split(page.content or ""), []
    for i, part in enumerate(parts):
        if tag := re.match(r"<(/?)(\w+)", part):
            if tag[2] in _NO_LINKS:
                inside = inside[:-1] if tag[1] else [*inside, tag[2]]
        elif not inside:
            parts[i] = _MENTION.sub(linked, part)
    page.content = "".join(parts)
    return context
