"""What tuning found, kept from run to run: by device, source and sizes; readable, and exportable as a lock file.

Choices are listed by kernel: what each is for, the configuration as `TM=128 num_warps=8 num_stages=4`, microseconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import filelock

from graphfuse.errors import FileError, Loc
from graphfuse.files import writing
from graphfuse.kernels.configs import DEFAULT_CTAS, DEFAULT_SCHEDULES, Config
from graphfuse.runtime.cache import default_cache

VERSION = 1
"""Of the file: another is not read."""


@dataclass(frozen=True, slots=True)
class Key:
    """What a choice is for."""

    kernel: str
    source: str
    """A digest of the text and the space of configurations."""
    device: str
    sizes: tuple[tuple[str, int], ...]

    def entry(self) -> dict[str, Any]:
        """The parts that tell entries of a kernel apart."""
        return {"source": self.source, "device": self.device, "key": dict(self.sizes)}


class Record:
    """A file of choices. Writers take turns, and readers see whole files only."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, key: Key) -> str | None:
        """The choice for a key, if one was made."""
        for entry in self._read().get(key.kernel, ()):
            if {k: entry.get(k) for k in ("source", "device", "key")} == key.entry():
                return str(entry["config"])
        return None

    def put(self, key: Key, config: str, us: float) -> None:
        """Keep a choice in place of an earlier one."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with filelock.FileLock(f"{self.path}.lock"):
                kernels = self._read()
                entries = [e for e in kernels.get(key.kernel, []) if {k: e.get(k) for k in key.entry()} != key.entry()]
                entries.append({**key.entry(), "config": config, "us": round(us, 2)})
                kernels[key.kernel] = entries
                self._write(kernels)
        except OSError as e:
            raise FileError(f"cannot write: {(e.strerror or str(e)).lower()}", Loc(str(self.path))) from None

    def export(self, path: Path) -> int:
        """Copy all choices to a file of the same form; how many there are."""
        kernels = self._read()
        Record(path)._write(kernels)
        return sum(map(len, kernels.values()))

    def _read(self) -> dict[str, list[dict[str, Any]]]:
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as e:
            raise FileError(f"cannot read: {str(e).lower()}", Loc(str(self.path))) from None
        try:
            found = json.loads(text)
            if found["version"] != VERSION:
                raise FileError(f"expected version {VERSION}, found {found['version']!r}", Loc(str(self.path)))
            return {str(name): list(kernel["entries"]) for name, kernel in found["kernels"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            what = f"{type(e).__name__.lower()} {e}"
            raise FileError(f"not a file of tuned kernels: {what}", Loc(str(self.path))) from None

    def _write(self, kernels: Mapping[str, list[dict[str, Any]]]) -> None:
        ordered = {
            name: {"entries": sorted(entries, key=lambda e: json.dumps(e, sort_keys=True))}
            for name, entries in sorted(kernels.items())
        }
        text = json.dumps({"version": VERSION, "kernels": ordered}, indent=1) + "\n"
        with writing(self.path) as file:
            file.write(text.encode())


_SETTING = re.compile(r"(?:\A| )([^\W\d]\w*)=(.*?)(?= [^\W\d]\w*=|\Z)", re.DOTALL)


def parse_config(text: str) -> Config:
    """Read what `str(config)` wrote. A value may have blanks: it goes on to the next `NAME=`."""
    values = dict(_SETTING.findall(text))
    schedule = values.pop("schedule", DEFAULT_SCHEDULES[0])
    try:
        warps, stages = int(values.pop("num_warps")), int(values.pop("num_stages"))
        return Config(values, warps, stages, int(values.pop("num_ctas", DEFAULT_CTAS[0])), schedule)
    except (KeyError, ValueError):
        raise FileError(f"not a configuration: {text!r}") from None


def default_record() -> Record | None:
    """In the cache's folder; None where nothing is kept."""
    cache = default_cache()
    return Record(cache.folder / "tuned.json") if cache else None
