"""The cache: keys, atomicity, damage, concurrent processes, eviction."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import graphfuse
from graphfuse.devices import compiled_key
from graphfuse.errors import FileError, Loc
from graphfuse.gpu import assembler
from graphfuse.ir.dense import Dense
from graphfuse.knobs import scope
from graphfuse.runtime import cache as runtime_cache
from graphfuse.runtime import gfx
from graphfuse.runtime.cache import (
    Cache,
    cache_key,
    data_files,
    default_cache,
    external_files,
    model_digest,
    trusted_cache,
)
from graphfuse.targets import Target
from models import tinygpt
from tests.runtime.sample import executable


def test_put_get(tmp_path):
    cache = Cache(tmp_path / "c")
    with cache.lock("ab12"):
        assert cache.get("ab12") is None
        cache.put("ab12", executable())
    found = cache.get("ab12")
    assert found is not None and found.plan == executable().plan
    assert cache.info().entries == 1 and cache.info().nbytes > 1000


def test_damaged_entry_is_dropped(tmp_path, caplog):
    cache = Cache(tmp_path)
    cache.put("k", executable())
    path = tmp_path / "k.gfx"
    path.write_bytes(path.read_bytes()[:-7])
    assert [reason.split(":")[0] for _, reason in cache.verify()] == ["truncated"]
    assert cache.get("k") is None and not path.exists()
    assert "cache entry dropped" in caplog.text


def test_gc_removes_the_least_recently_used(tmp_path):
    cache = Cache(tmp_path)
    for age, key in enumerate(["new", "mid", "old"]):
        cache.put(key, executable())
        os.utime(tmp_path / f"{key}.gfx", (1e9 - age, 1e9 - age))
    size = cache.info().nbytes // 3
    assert [p.stem for p in cache.gc(2 * size)] == ["old"]
    assert [p.stem for p in cache.gc(max_age_s=3600, keep="new")] == ["mid"]
    left = tmp_path / ".x.gfx.123.tmp"
    left.write_text("")
    os.utime(left, (1e9, 1e9))
    cache.gc()
    assert not left.exists() and cache.info().entries == 1


def test_entries_are_looked_at_again_once_room_was_written(tmp_path, monkeypatch):
    looked = []
    whole = Cache.gc

    def gc(self, *a, **kw):
        looked.append(kw["keep"])
        return whole(self, *a, **kw)

    monkeypatch.setattr(Cache, "gc", gc)
    cache = Cache(tmp_path)
    cache.put("0", executable())
    size = (tmp_path / "0.gfx").stat().st_size
    monkeypatch.setattr(runtime_cache, "MAX_BYTES", 10 * size)
    monkeypatch.setattr(runtime_cache, "ROOM_BYTES", 3 * size)
    monkeypatch.setitem(runtime_cache._room, tmp_path, 3 * size)
    most = 0
    for i in range(1, 40):
        cache.put(f"{i}", executable())
        os.utime(tmp_path / f"{i}.gfx", (i, i))
        most = max(most, cache.info().nbytes)
    assert looked == ["0", *(f"{i}" for i in range(4, 40, 4))]
    assert most == 10 * size


def test_unusable_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot lock the cache: "), Cache(tmp_path / "file" / "c").lock("aa"):
        raise AssertionError("locked")


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    made = executable()
    assert Cache(tmp_path / "file" / "c").get_or_make("aa", lambda: made) is made
    assert "the cache cannot be used: " in caplog.text


def test_what_fails_while_it_is_made_is_not_the_caches_fault(tmp_path):
    def make():
        raise FileError("cannot read: gone", Loc("model.onnx"))

    with pytest.raises(FileError, match="cannot read: gone"):
        Cache(tmp_path).get_or_make("aa", make)


def test_a_folder_that_others_may_write_is_not_used(tmp_path, caplog):
    """What is in it is machine code, and is run."""
    folder = tmp_path / "c"
    folder.mkdir()
    Cache(folder).put("aa", executable())
    for changed, mode in ((folder, 0o777), (folder, 0o702), (tmp_path, 0o777), (folder / "aa.gfx", 0o666)):
        before = changed.stat().st_mode
        changed.chmod(mode)
        with scope(cache=str(folder)):
            if changed.suffix:
                assert Cache(folder).get("aa") is None
                assert not changed.exists()
                continue
            assert default_cache() is default_cache() is None
            with pytest.raises(FileError, match=f"the cache is not used: .* others may write {changed}$"):
                trusted_cache()
            with pytest.raises(FileError, match="not used"), Cache(folder).lock("aa"):
                pass
            changed.chmod(before)
            assert default_cache() is not None
    assert sum("cache is not used" in r.getMessage() for r in caplog.records if "dropped" not in r.msg) == 1
    tmp_path.chmod(0o1777)  # as /tmp
    folder.chmod(0o755)
    with scope(cache=str(folder)):
        assert default_cache() is not None


def test_a_folder_or_an_entry_of_somebody_else_is_not_used(tmp_path):
    if os.geteuid():
        pytest.skip("only root can give files away")
    cache = Cache(tmp_path)
    cache.put("aa", executable())
    os.chown(tmp_path / "aa.gfx", 12345, 12345)
    assert cache.get("aa") is None
    os.chown(tmp_path, 12345, 12345)
    with scope(cache=str(tmp_path)):
        assert default_cache() is None


def test_entries_are_the_users_alone(tmp_path):
    before = os.umask(0)
    try:
        cache = Cache(tmp_path / "a" / "c")
        cache.get_or_make("aa", executable)
    finally:
        os.umask(before)
    assert (tmp_path / "a" / "c").stat().st_mode & 0o777 == 0o700
    (tmp_path / "a").chmod(0o755)
    assert cache.get("aa") is not None


def test_default_cache_follows_the_knob(tmp_path):
    with scope(cache="0"):
        assert default_cache() is None
    with scope(cache=str(tmp_path)):
        assert default_cache() == Cache(tmp_path)
    with scope(cache=""):
        found = default_cache()
        assert found is not None and found.folder.name == "compiled"


def test_key_depends_on_everything():
    base = {"model": "m", "dims": "d"}
    keys = {cache_key(base), cache_key({**base, "dims": "e"}), cache_key({"model": "md", "dims": ""})}
    assert len(keys) == 3 and cache_key(dict(reversed(base.items()))) == cache_key(base)


def test_a_key_depends_on_the_assembler_where_there_is_one(monkeypatch):
    def keys():
        return [compiled_key({"model": "m"}, Target.parse(t)) for t in ("cpu:skylake", "cuda:sm_90a", "cuda:sm_80")]

    before = keys()
    monkeypatch.setattr(assembler, "assembler_version", lambda: "0.0")
    after = keys()
    assert after[0] == before[0] and len({*before, *after}) == 5
    with scope(target="cpu:skylake"):
        assert not set(keys()) & set(after)


def test_model_digest_follows_external_data(tmp_path):
    onnx = pytest.importorskip("onnx")
    np = pytest.importorskip("numpy")
    tensor = onnx.numpy_helper.from_array(np.arange(600, dtype=np.float32), "w")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["w"], ["y"])],
        "g",
        [],
        [onnx.helper.make_tensor_value_info("y", 1, [600])],
        [tensor],
    )
    path = tmp_path / "m.onnx"
    name = "weights with a rather long name that takes a varint of two bytes to write " * 2 + ".bin"
    onnx.save(onnx.helper.make_model(graph), path, save_as_external_data=True, location=name, size_threshold=0)
    assert external_files(path.read_bytes()) == [name]
    before = model_digest(path)
    data = bytearray((tmp_path / name).read_bytes())
    data[0] ^= 1
    (tmp_path / name).write_bytes(data)
    assert model_digest(path) != before
    (tmp_path / name).unlink()
    assert model_digest(path) != before  # the frontend reports what is missing


def test_model_digest_of_nothing(tmp_path):
    with pytest.raises(FileError, match="cannot read: no such file"):
        model_digest(tmp_path / "none.onnx")


def test_a_compiled_and_cached_model_leaves_no_ir_behind(tmp_path, monkeypatch):
    """Its values hold the weights, which the artifact has mapped: they would be in memory twice."""
    monkeypatch.setenv("GRAPHFUSE_CACHE", str(tmp_path))
    gc.collect()
    before = sum(type(o) is Dense for o in gc.get_objects())
    gc.disable()
    try:
        compiled = graphfuse.compile(tinygpt.FILE, dims=tinygpt.DIMS)
        assert sum(type(o) is Dense for o in gc.get_objects()) == before
    finally:
        gc.enable()
    assert not any(w.array.flags.writeable for w in compiled.executable.weights)  # mapped from the file


def test_concurrent_processes_build_once(tmp_path):
    """Four processes want one entry: each gets it, and one of them made it."""
    script = f"""
        import os, sys, time
        from pathlib import Path
        from graphfuse.runtime.cache import Cache
        from tests.runtime.sample import executable
        made = []
        def make():
            time.sleep(0.3)
            made.append(executable())
            return made[0]
        found = Cache(Path({str(tmp_path)!r})).get_or_make("feed", make)
        assert found.signature.inputs[0].name == "x"
        print(len(made))
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    made = [int(p.communicate(timeout=120)[0]) for p in processes]
    assert sum(made) == 1 and all(p.returncode == 0 for p in processes)
    assert gfx.verify(Path(tmp_path) / "feed.gfx")


def entry(name: str) -> bytes:
    """A tensor's word on where its data is, as protobuf has it."""
    return b"\x0a\x08location\x12" + bytes([len(name.encode())]) + name.encode()


def test_model_digest_reads_no_file_outside_of_the_models_folder(tmp_path, monkeypatch):
    """Nor what has no end, nor what takes hours: what a model names is not trusted before the frontend has seen it."""
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"1")
    (folder / "link").symlink_to("../secret")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")
    with (folder / "holes").open("wb") as file:
        file.truncate(1 << 42)
    (folder / "w.bin").write_bytes(b"1")
    names = ["w.bin", "../secret", str(tmp_path / "secret"), "link", "loop", "pipe", "holes", "/dev/zero", "/proc/kmsg"]
    path = folder / "m.onnx"
    path.write_bytes(b"".join(map(entry, [*names, "n" * 120 + "/" + "e" * 6, "x"])))
    opened = []
    whole = Path.open
    monkeypatch.setattr(Path, "open", lambda self, *a, **k: (opened.append(self.name), whole(self, *a, **k))[1])
    model_digest(path)
    assert opened == ["m.onnx", "w.bin"]
    assert data_files(path) == [folder / "holes", folder / "w.bin"]
