"""Compiled models on disk by what they were made of. Safe under concurrent processes.

Owns keys, files and locks. Does not know how a model is compiled.

An entry is `KEY.gfx`, put in place by one rename, so a reader sees all of it or nothing. A lock per key
keeps two processes from compiling the same model at once; there are 256 lock files, never deleted,
because deleting a lock that somebody waits for would let two holders in.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import logging
import os
import re
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import filelock
import platformdirs

from graphfuse.artifact import Executable
from graphfuse.errors import FileError, GraphfuseError, Loc, ParseError, UsageError
from graphfuse.files import is_regular, kind, told, writable_by_others
from graphfuse.knobs import are_passes_watched, settings
from graphfuse.runtime import gfx

log = logging.getLogger(__name__)

MAX_BYTES = 8 << 30
"""`Cache.put` removes the entries least recently used, so that a cache does not grow beyond this."""
ROOM_BYTES = MAX_BYTES >> 3
"""What `Cache.put` makes room for: a process looks at all entries again once it has written so much."""

_room: dict[Path, int] = {}
"""By folder: how many bytes this process may write there until then."""

MOST_HASHED_BYTES = 64 << 30
"""A larger file of weights is known by its size and time, not by its content."""

# how any protobuf writer puts down StringStringEntryProto { key: "location" value: <path> }
_LOCATION = re.compile(rb"\x0a\x08location\x12([\x01-\x7f]|[\x80-\xff][\x01-\x1f])")


@dataclass(frozen=True, slots=True)
class Info:
    """What a cache holds."""

    folder: Path
    entries: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder of compiled models."""

    folder: Path

    def get(self, key: str) -> Executable | None:
        """The entry, mapped; None if there is none that can be read. A damaged one is removed."""
        path = self._path(key)
        if not path.exists():
            return None
        try:
            self.check(path)
            executable = gfx.load(path, "mapped")  # entries are replaced, never changed
        except GraphfuseError as e:
            log.warning("cache entry dropped: %s", e)
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # `gc` removes the least recently used first
        return executable

    def put(self, key: str, executable: Executable) -> None:
        """Write an entry, then make room if the cache may have grown too large."""
        path = self._path(key)
        gfx.save(executable, path)
        room = _room.get(self.folder, -1)
        with contextlib.suppress(OSError):
            status = path.stat()
            path.chmod(status.st_mode & 0o755)  # whatever the umask is
            room -= status.st_size
        if room < 0:
            self.gc(MAX_BYTES - ROOM_BYTES, keep=key)
            room = ROOM_BYTES
        _room[self.folder] = room

    def get_or_make(
        self, key: str, make: Callable[[], Executable], progress: Callable[[str], None] | None = None
    ) -> Executable:
        """The entry; if there is none, what `make` makes, which is put there.

        Of several processes that want it one makes it. Where the cache cannot be written it is made all the same.
        """
        if (found := self.get(key)) is not None:
            log.info("from the cache: %s", key)
            return found
        try:
            with self.lock(key):
                # another process may have made it while this one waited
                if (found := self.get(key)) is None:
                    made = make()
                    if progress is not None:
                        progress("writing the cache")
                    self.put(key, made)
                    if not made.weights:
                        return made
                    # mapped from the file, the weights need not stay in this process's own memory
                    found = self.get(key) or made
                    del made
                    gc.collect()  # ops and values refer to each other, and hold the weights too
                return found
        except FileError as e:
            if e.loc is None or not e.loc.file.startswith(str(self.folder)):
                raise
            log.warning("the cache cannot be used: %s", e)
            return make()

    @contextlib.contextmanager
    def lock(self, key: str) -> Generator[None]:
        """Hold the right to make this entry; another process waits."""
        try:
            for folder in (*reversed(self.folder.parents), self.folder):
                folder.mkdir(mode=0o700, exist_ok=True)  # `parents` would go by the umask
            self.check(self.folder)
            lock = filelock.FileLock(self.folder / f"{key[:2]}.lock")
            lock.acquire()
        except (OSError, NotImplementedError) as e:
            raise FileError(f"cannot lock the cache: {e}", Loc(str(self.folder))) from None
        try:
            yield
        finally:
            lock.release()

    def check(self, path: Path) -> None:
        """Raise FileError if others may change what is there: it holds machine code that is run as it is."""
        if (found := writable_by_others(path)) is not None:
            what = f"expected what only the user may write, found that others may write {found}"
            raise FileError(f"the cache is not used: {what}", Loc(str(self.folder)))

    def entries(self) -> list[Path]:
        """Every entry, the most recently used first."""
        return [Path(path) for _, path, _ in self._files(".gfx")]

    def _files(self, ending: str) -> list[tuple[float, str, int]]:
        """Files by when they were last used, the last first: that time, the path, and how many bytes."""
        found: list[tuple[float, str, int]] = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self.folder) as files:
            for file in files:
                if file.name.endswith(ending):
                    with contextlib.suppress(OSError):  # another process may be removing it
                        found.append(((status := file.stat()).st_mtime, file.path, status.st_size))
        return sorted(found, reverse=True)

    def info(self) -> Info:
        """How much there is."""
        sizes = [nbytes for _, _, nbytes in self._files(".gfx")]
        return Info(self.folder, len(sizes), sum(sizes))

    def gc(self, max_bytes: int = MAX_BYTES, max_age_s: float | None = None, keep: str = "") -> list[Path]:
        """Remove entries not used for `max_age_s`, and the least recently used beyond `max_bytes`.

        A process that has a removed entry mapped goes on using it: the system keeps its bytes.
        """
        removed: list[Path] = []
        total, now, kept = 0, time.time(), str(self._path(keep))
        for used, path, nbytes in self._files(".gfx"):
            old = max_age_s is not None and now - used > max_age_s
            if path == kept or not (old or total + nbytes > max_bytes):
                total += nbytes
            else:
                with contextlib.suppress(OSError):
                    Path(path).unlink()
                    removed.append(Path(path))
        for used, path, _ in self._files(".tmp"):  # of a process that was killed while it wrote
            if now - used > 3600:
                with contextlib.suppress(OSError):
                    Path(path).unlink()
        return removed

    def verify(self) -> list[tuple[Path, str]]:
        """Check every digest of every entry; those that fail, with the reason."""
        failed: list[tuple[Path, str]] = []
        for path in self.entries():
            try:
                gfx.verify(path)
            except GraphfuseError as e:
                failed.append((path, e.message))
        return failed

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.gfx"


def default_cache() -> Cache | None:
    """The user's cache, or that of `GRAPHFUSE_CACHE`; None when that is 0, or others may write there."""
    if (cache := _asked_for()) is None:
        return None
    try:
        cache.check(cache.folder)
    except FileError as e:
        if cache.folder not in _WARNED:
            _WARNED.add(cache.folder)
            log.warning("%s", e)
        return None
    return cache


def trusted_cache() -> Cache:
    """The same, with an error that says why there is none."""
    if (cache := _asked_for()) is None:
        raise UsageError("the cache is off: GRAPHFUSE_CACHE is 0")
    cache.check(cache.folder)
    return cache


def _asked_for() -> Cache | None:
    text = "0" if are_passes_watched() else settings.cache
    if text == "0":
        return None
    return Cache(Path(text) if text else Path(platformdirs.user_cache_dir("graphfuse")) / "compiled")


_WARNED: set[Path] = set()
"""Folders of which it was said that they are not used."""


def cache_key(parts: Mapping[str, str]) -> str:
    """The digest of everything a compiled model depends on: `parts`, and what compiles it."""
    digest = hashlib.sha256()
    for name, text in sorted({**parts, **_toolchain()}.items()):
        for field in (name, text):
            data = field.encode()
            digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


@functools.cache
def _toolchain() -> dict[str, str]:
    """The versions that shape code, and the sources of graphfuse themselves, edited or not."""
    versions = {name: _version(name) for name in ("llvmlite", "onnx", "numpy", "networkx")}
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return {**versions, "graphfuse": digest.hexdigest(), "format": str(gfx.VERSION)}


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def model_digest(model: Path | bytes) -> str:
    """SHA-256 of a model and of every file its tensors say they lie in."""
    if isinstance(model, bytes):
        return hashlib.sha256(model).hexdigest()
    digest = hashlib.sha256()
    with told("read", model):
        if not is_regular(model):
            raise FileError(f"expected a file, found {kind(model)}", Loc(str(model)))
        data = model.read_bytes()
        if not data:
            raise ParseError("not an ONNX model: the file is empty", Loc(str(model)))
        digest.update(data)
        for name in external_files(data):
            digest.update(name.encode(errors="surrogateescape") + b"\0")
            # what is missing, outside or no file is not read: the frontend says so
            if (path := _inside(model.parent, name)) is not None:
                with contextlib.suppress(OSError):
                    digest.update(_file_digest(path))
    return digest.hexdigest()


def data_files(model: Path) -> list[Path]:
    """The files that a model's tensors say they lie in, as far as they are there and may be read."""
    try:
        names = external_files(model.read_bytes())
    except OSError:
        return []
    return [path for name in names if (path := _inside(model.parent, name)) is not None]


def _inside(folder: Path, name: str) -> Path | None:
    """A regular file in a model's folder, links followed; None where there is none, or no name can be that."""
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        root = folder.resolve()
        path = (root / name).resolve()
        return path if path.is_relative_to(root) and path.is_file() else None
    return None


def _file_digest(path: Path) -> bytes:
    status = path.stat()
    if status.st_size > MOST_HASHED_BYTES:  # it may have holes, and take no room but hours
        return repr((status.st_size, status.st_mtime_ns, status.st_ino)).encode()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def external_files(data: bytes) -> list[str]:
    """The external data files a serialised model names, without parsing it (that would take onnx).

    May name a file too many, when other bytes look like such an entry: then the key depends on more
    than it must, which is safe.
    """
    names: set[bytes] = set()
    for m in _LOCATION.finditer(data):
        length = m[1][0] if len(m[1]) == 1 else (m[1][0] & 0x7F) | m[1][1] << 7
        names.add(data[m.end() : m.end() + length])
    return sorted(n.decode(errors="surrogateescape") for n in names if b"\0" not in n)
