"""Files that users and models name: read within limits, written whole or not at all, and never over what was read.

Owns what is done where a name turns out to be a folder, a link, a pipe or a device. Knows no format.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

from graphfuse.errors import FileError, Loc, UsageError

MOST_SOURCE_BYTES = 4 << 20
"""Of a source written by hand. What has no end, as /dev/zero, is larger."""


def reason(error: OSError | ValueError) -> str:
    """What the system says, or Python of a name that no file can have, in the form of graphfuse's errors."""
    return ((error.strerror if isinstance(error, OSError) else None) or str(error)).lower()


@contextlib.contextmanager
def told(what: str, path: object) -> Generator[None]:
    """Raise what the system says of a file as a FileError: that it cannot be read, or written."""
    try:
        yield
    except (OSError, ValueError) as e:
        raise FileError(f"cannot {what}: {reason(e)}", Loc(str(path))) from None


def read_source(path: Path, *, named: bool = False, most: int = MOST_SOURCE_BYTES) -> str:
    """A text in UTF-8; raises FileError. Of pipes and devices only a user who has `named` one knows that it ends."""
    with told("read", path):
        if not (named or is_regular(path)):
            raise FileError(f"cannot read: expected a file, found {kind(path)}", Loc(str(path)))
        with path.open("rb") as file:
            data = file.read(most + 1)
    if len(data) > most:
        raise FileError(f"expected at most {most} bytes of text, found more", Loc(str(path)))
    try:
        return data.decode()
    except UnicodeDecodeError as e:
        found = f"found a byte {e.object[e.start]:#x} at {e.start}"
        raise FileError(f"expected text in UTF-8, {found}", Loc(str(path))) from None


def is_regular(path: Path) -> bool:
    """Whether it is a file with an end, behind links or not; raises OSError where there is nothing."""
    return stat.S_ISREG(path.stat().st_mode)


def exists(path: Path) -> bool:
    """Whether there is something of that name, be it a name that nothing can have."""
    try:
        path.stat()
    except (OSError, ValueError):
        return False
    return True


def kind(path: Path) -> str:
    """What a name stands for, in words."""
    mode = path.stat().st_mode
    kinds = {
        stat.S_IFREG: "a file", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device", stat.S_IFBLK: "a disk",
    }  # fmt: skip
    return kinds.get(stat.S_IFMT(mode), "something else")


@contextlib.contextmanager
def writing(path: Path) -> Generator[BinaryIO]:
    """A binary file to write, to read and to seek in, whose content takes the place of `path` at the end of the block.

    Nothing changes if the block raises. A link stays, and what it names is replaced. A pipe or a terminal gets the
    content; folders, disks and sockets are refused. Raises FileError.
    """
    try:
        if "\0" in str(path):
            raise OSError(errno.EINVAL, "embedded null byte")
        with _spooled(path) if path.exists() and not is_regular(path) else _replacing(path) as file:
            yield file
    except OSError as e:
        raise FileError(f"cannot write: {reason(e)}", Loc(str(path))) from None


@contextlib.contextmanager
def _replacing(path: Path) -> Generator[BinaryIO]:
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    scratch = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        # mode 0o666 and the process's umask, which a file from tempfile would not get
        handle = os.open(scratch, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        with os.fdopen(handle, "w+b") as file:
            yield file
        scratch.replace(target)
    finally:
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)


@contextlib.contextmanager
def _spooled(path: Path) -> Generator[BinaryIO]:
    if not path.is_fifo() and not path.is_char_device():
        raise FileError(f"cannot write: expected a file, a pipe or a device, found {kind(path)}", Loc(str(path)))
    with tempfile.TemporaryFile() as file:
        yield file
        file.seek(0)
        with path.open("wb") as out:
            shutil.copyfileobj(file, out)


def check_outputs(outputs: Mapping[str, Path], inputs: Iterable[Path]) -> None:
    """What would go wrong only after the work is done.

    Raises UsageError if an output, by the option that names it, is one of the files that are read under any name, and
    FileError if it cannot be written.
    """
    read = {key: path for path in inputs if (key := _identity(path)) is not None}
    for option, path in outputs.items():
        if (key := _identity(path)) is not None and (found := read.get(key)) is not None:
            raise UsageError(f"{option}: expected another file than those that are read, found {path} ({found})")
    for path in outputs.values():
        with contextlib.suppress(_UnwrittenError), writing(path):
            raise _UnwrittenError


class _UnwrittenError(Exception):
    """Leaves a file that could be written as it was."""


def writable_by_others(path: Path) -> Path | None:
    """Of a file or folder, whether there or not, and the folders above it: the first that is not the user's alone.

    As ssh has it: the owner is the user or root, and nobody else may write, but for a group of the user alone, and for
    folders above that are sticky, as /tmp is.
    """
    if not hasattr(os, "geteuid"):
        return None
    real = Path(os.path.realpath(path))
    for one in (real, *real.parents):
        try:
            status = one.stat()
        except OSError:
            continue
        if status.st_uid not in (0, os.geteuid()):
            return one
        is_sticky = one != real and status.st_mode & stat.S_ISVTX
        by_group = status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid)
        if not is_sticky and (by_group or status.st_mode & stat.S_IWOTH):
            return one
    return None


def _is_own_group(number: int) -> bool:
    """Whether a group is one that systems give each user: of the user's name, and without other members."""
    # there is no such thing on other systems, and few folders need it
    import grp
    import pwd

    try:
        group, user = grp.getgrgid(number), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of a regular file that there is."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None
