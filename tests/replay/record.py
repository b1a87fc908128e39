"""Records of what is compiled, and how two of them differ.

A record is a folder: `index.json` has the digest of each stage of each subject, `texts/DIGEST.xz` what has that digest.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import lzma
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from tests.replay.subjects import subjects

INDEX = "index.json"
LEFT_OUT = "left out"
"""In the place of a stage, with the reason in that of its digest."""

Index = Mapping[str, Mapping[str, str]]


def record(folder: Path, wanted: str, *, full_size: bool, jobs: int) -> Index:
    """Compile each subject whose name has `wanted` in it; `jobs` processes share the work."""
    (folder / "texts").mkdir(parents=True, exist_ok=True)
    names = [s.name for s in subjects(full_size=full_size) if wanted in s.name]
    # what a process has compiled before, and how it orders sets, must not matter
    with get_context("spawn").Pool(jobs, maxtasksperchild=16) as pool:
        made = pool.imap(partial(_one, folder=folder, full_size=full_size), names)
        index = dict(zip(names, made, strict=True))
    (folder / INDEX).write_text(json.dumps(index, indent=1))
    return index


def _one(name: str, folder: Path, full_size: bool) -> dict[str, str]:
    os.environ["GRAPHFUSE_CACHE"] = "0"
    subject = next(s for s in subjects(full_size=full_size) if s.name == name)
    found = subject.stages()
    if isinstance(found, str):
        return {LEFT_OUT: found}
    return {stage: keep(data, folder / "texts") for stage, data in found.items()}


def keep(data: bytes, folder: Path) -> str:
    """Write data under its digest, which is returned."""
    digest = hashlib.sha256(data).hexdigest()[:32]
    path = folder / f"{digest}.xz"
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(lzma.compress(data, preset=1))
        part.replace(path)
    return digest


@dataclass(frozen=True)
class Change:
    """A subject that is not as it was: the first stage that differs, and where."""

    subject: str
    stage: str
    where: str
    lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join((f"{self.subject}: {self.stage} {self.where}", *(f"    {line}" for line in self.lines)))


def changes(before: Path, after: Path, context: int = 2, ignored: str = "") -> Iterator[Change]:
    """What differs between two records, by subject; only of subjects that both were asked for.

    How variables of index arithmetic are numbered makes no difference, nor does what the pattern `ignored` matches.
    """
    old, new = (json.loads((f / INDEX).read_text()) for f in (before, after))
    for subject in old.keys() & new.keys():
        for stage in dict.fromkeys((*old[subject], *new[subject])):
            digests = old[subject].get(stage), new[subject].get(stage)
            if digests[0] != digests[1] and (
                found := _change(subject, stage, *digests, before, after, context, ignored)
            ):
                yield found
                break


def _change(
    subject: str, stage: str, old: str | None, new: str | None, before: Path, after: Path, context: int, ignored: str
) -> Change | None:
    """Of one stage; None where nothing differs that matters."""
    if stage == LEFT_OUT or old is None or new is None:
        return Change(subject, stage, f"only {'before' if new is None else 'after'}: {old or new}")
    a, b = (lzma.decompress((f / "texts" / f"{d}.xz").read_bytes()) for f, d in ((before, old), (after, new)))
    if stage.endswith("object"):
        at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        return Change(subject, stage, f"differs from byte {at} of {len(a)} and {len(b)} on, of the same block IR")
    lines, others = (_lines(text.decode(), ignored) for text in (a, b))
    if lines == others:
        return None
    shorter = min(len(lines), len(others))
    at = next((i for i, (x, y) in enumerate(zip(lines, others, strict=False)) if x != y), shorter)
    return Change(subject, stage, f"differs from line {at + 1} on", tuple(_hunk(lines, others, at, context)))


def _lines(text: str, ignored: str) -> list[str]:
    text = renumbered(text)
    return (re.sub(ignored, "", text) if ignored else text).splitlines()


_NAMES = re.compile(r"names = \[([^]]*)\]")


def renumbered(text: str) -> str:
    """A text in which the variables of `block.index` are numbered by function, in the order of their appearance."""
    functions = re.split(r"(?m)^(?=func )", text)
    return "".join(map(_renumbered, functions))


def _renumbered(function: str) -> str:
    found = dict.fromkeys(name for names in _NAMES.findall(function) for name in re.findall(r"\w+", names))
    if not found:
        return function
    numbered = {name: f"{name.rstrip('0123456789')}.{i}" for i, name in enumerate(found)}
    any_of_them = re.compile(r"(?<![#@\w])(?:" + "|".join(map(re.escape, found)) + r")\b")
    return any_of_them.sub(lambda m: numbered[m[0]], function)


def _hunk(a: list[str], b: list[str], at: int, context: int) -> Iterable[str]:
    """The first difference with a few lines around it; what follows in the text may be long and all alike."""
    part = slice(max(at - context, 0), at + context + 1)
    return list(difflib.ndiff(a[part], b[part]))
