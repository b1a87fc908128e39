"""Files by names that users and models give: links, pipes, devices, folders, and what was read."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from graphfuse.errors import FileError, UsageError
from graphfuse.files import MOST_SOURCE_BYTES, check_outputs, read_source, writing


def write(path: Path, content: bytes = b"new") -> None:
    with writing(path) as file:
        file.write(content)
        file.seek(0)
        assert file.read() == content


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write(path, b"old")
    inode = path.stat().st_ino
    with pytest.raises(KeyError), writing(path) as file:
        file.write(b"half")
        raise KeyError
    assert path.read_bytes() == b"old"
    write(path)
    assert path.read_bytes() == b"new"
    assert path.stat().st_ino != inode, "whoever reads the old one goes on reading that"
    assert names(tmp_path) == ["f"]


@pytest.mark.parametrize("before", [b"old", None])
def test_a_link_stays(tmp_path: Path, before: bytes | None) -> None:
    target, link, far = tmp_path / "there" / "f", tmp_path / "link", tmp_path / "far"
    target.parent.mkdir()
    if before is not None:
        target.write_bytes(before)
    link.symlink_to("there/f")
    far.symlink_to(link)
    write(far)
    assert far.is_symlink()
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert names(target.parent) == ["f"]


def test_a_pipe_gets_the_content(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write(pipe)
    reader.join(10)
    assert read == [b"new"]
    assert pipe.is_fifo()


def test_devices_stay() -> None:
    write(Path(os.devnull))
    assert Path(os.devnull).is_char_device()
    with pytest.raises(FileError, match="/dev/full: error: cannot write: no space left on device"):
        write(Path("/dev/full"))


@pytest.mark.parametrize("name", ["folder", "loop", "no/file", "n\0l", "x" * 300])
def test_what_cannot_be_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(FileError, match="cannot write: "):
        write(tmp_path / name)
    assert names(tmp_path) == ["folder", "loop"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pipe", "cannot read: expected a file, found a pipe"),
        ("/dev/zero", "cannot read: expected a file, found a device"),
        ("folder", "cannot read: expected a file, found a folder"),
        ("none", "cannot read: no such file"),
        ("n\0l", "cannot read: embedded null"),
        ("large", f"expected at most {MOST_SOURCE_BYTES} bytes of text, found more"),
        ("binary", "expected text in UTF-8, found a byte 0xff at 1"),
    ],
)
def test_sources_that_cannot_be_read(tmp_path: Path, name: str, message: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary").write_bytes(b"a\xff")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(FileError, match=message):
        read_source(tmp_path / name)


def test_what_a_user_names_may_be_a_device_that_has_no_end() -> None:
    assert read_source(Path(os.devnull), named=True) == ""
    with pytest.raises(FileError, match="expected at most"):
        read_source(Path("/dev/zero"), named=True)


def test_a_file_is_known_by_any_name(tmp_path: Path) -> None:
    read = tmp_path / "m"
    read.write_bytes(b"m")
    (tmp_path / "other").write_bytes(b"m")
    os.link(read, tmp_path / "hard")
    (tmp_path / "soft").symlink_to("hard")
    for name in ("m", "hard", "soft", "../" + tmp_path.name + "/m"):
        with pytest.raises(UsageError, match=r"-o: expected another file than those that are read, found .*"):
            check_outputs({"-o": tmp_path / name}, [tmp_path / "gone", read])
    check_outputs({"-o": tmp_path / "other", "-p": Path(os.devnull)}, [read, Path(os.devnull)])


def test_what_cannot_be_written_is_known_before_the_work(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "m").write_bytes(b"m")
    before = sorted(tmp_path.iterdir())
    check_outputs({"-o": tmp_path / "new", "-p": tmp_path / "m", "-q": tmp_path / "pipe"}, [])
    for name in ("no/o", "m/o", ".", "n\0", "n" * 300):
        with pytest.raises(FileError, match="cannot write: "):
            check_outputs({"-o": tmp_path / name}, [])
    assert sorted(tmp_path.iterdir()) == before and (tmp_path / "m").read_bytes() == b"m"
