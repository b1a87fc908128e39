"""Renaming: where a name stands, and why it may not have another."""

from __future__ import annotations

import re
from collections.abc import Iterable

from graphfuse.errors import UsageError
from graphfuse.frontends.tc.builtins import BUILTINS
from graphfuse.lsp.index import Declared, Index
from graphfuse.lsp.texts import Place
from graphfuse.lsp.words import WORDS

_NAME = re.compile(r"[A-Za-z_$\x80-\U0010ffff][\w$\x80-\U0010ffff]*")


def renamable(found: Index, line: int, column: int) -> tuple[Declared, Place]:
    """The name at a position that may be renamed, and its place. Raises UsageError that says why it may not."""
    mention = found.at(line, column)
    if mention is None:
        word = next((w for w in found.words if w.place.touches(line, column)), None)
        if word is None:
            raise UsageError("rename: expected a name, found none here")
        kind = "a word of the language" if word.text in WORDS or word.text in BUILTINS else "not declared in this file"
        raise UsageError(f"rename: expected a name that this file declares, found {word.text!r}, which is {kind}")
    name = mention.of
    if not isinstance(name, Declared):
        raise UsageError(f"rename: expected a variable, a function or a type, found the macro {name.name!r}")
    if name.is_made:
        raise UsageError(f"rename: expected a name that stands in this file, found {name.name!r}, which a macro makes")
    elsewhere = next((p for p in name.uses if p.file != found.file), None)
    if elsewhere is not None:
        raise UsageError(f"rename: {name.name!r} is also named in {elsewhere.file}:{elsewhere.line + 1}")
    return name, mention.place


def renamed(found: Index, line: int, column: int, to: str) -> tuple[Place, ...]:
    """All places at which a name is to be replaced. Raises UsageError where it may not be called `to`."""
    name, _ = renamable(found, line, column)
    if not _NAME.fullmatch(to):
        raise UsageError(f"rename: expected a name of letters, digits and underscores, found {to!r}")
    if to == name.name:
        return ()
    if to in WORDS or to in BUILTINS or to in ("printf", "defined"):
        raise UsageError(f"rename: expected a name that is free, found {to!r}, a word of the language")
    if to in found.macros:
        raise UsageError(f"rename: expected a name that is free, found {to!r}, a macro")
    directive = next((w for w in found.words if w.text == to and w.directive), None)
    if directive is not None:
        line = directive.place.line + 1
        raise UsageError(f"rename: expected a name that is free, found {to!r} in the directive in line {line}")
    shared = next((p for p in name.uses for d in found.declared if d is not name and p in d.uses), None)
    if shared is not None:
        raise UsageError(f"rename: {name.name!r} in a macro is also another one, in line {shared.line + 1}")
    places = dict.fromkeys((*name.uses, *_unread(found, name)))
    for other in found.declared:
        if other.name == to and _meet(name, other, places):
            raise UsageError(
                f"rename: expected a name that is free, found {to!r}, declared in line {other.place.line + 1}"
            )
    taken = next((w for w in found.words if w.text == to and _is_in(name, w.place)), None)
    if taken is not None:
        raise UsageError(f"rename: expected a name that is free, found {to!r} in line {taken.place.line + 1}")
    return tuple(places)


def _unread(found: Index, name: Declared) -> Iterable[Place]:
    """Places of the name in code that an `#if` leaves out, and in macros, where nothing else can be meant."""
    known = {p for other in found.declared for p in other.uses}
    rivals = [other for other in found.declared if other.name == name.name and other is not name]
    for word in found.words:
        if word.text != name.name or word.place in known:
            continue
        if word.directive == "define" and not _is_in(name, word.place):
            raise UsageError(f"rename: {name.name!r} also stands in a macro, in line {word.place.line + 1}")
        if _is_in(name, word.place):
            if any(_is_in(other, word.place) for other in rivals):
                message = f"rename: which {name.name!r} is meant in line {word.place.line + 1} cannot be told"
                raise UsageError(f"{message}: an #if leaves it out")
            yield word.place


def _is_in(name: Declared, place: Place) -> bool:
    return name.scope is None or name.scope.contains(place)


def _meet(name: Declared, other: Declared, places: Iterable[Place]) -> bool:
    """Whether a declaration of the new name would take uses of the old one, or the other way round."""
    if other.scope is None or name.scope is None:
        return True
    return name.scope.contains(other.place) or any(other.scope.contains(p) for p in places)
