"""The gallery: what the repository has, what the build packages of it, and copies for users."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from graphfuse import gallery
from graphfuse.cli import main

ROOT = Path(__file__).parents[1]


def test_the_build_packages_every_file_under_its_name():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    packaged = {}
    for source, target in build["force-include"].items():
        path, folder = ROOT / source, Path(target).relative_to("graphfuse/gallery")
        for file in path.rglob("*.tc") if path.is_dir() else [path]:
            packaged[(folder / file.relative_to(path)).as_posix()] = file
    assert packaged == gallery.files()
    assert len(packaged) > 30 and all(p.stat().st_size for p in packaged.values())


def test_files_are_listed_and_copied(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["gallery"]) == 0
    listed = re.findall(r"^(\S+)\n    \S.{20,}$", capsys.readouterr().out, re.MULTILINE)
    assert listed == list(gallery.files())
    for _ in range(2):  # again, and nothing is lost
        assert main(["gallery", "digits.npy", "seeds/matmul.tc"]) == 0
        assert capsys.readouterr().out == "digits.npy\nmatmul.tc\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["digits.npy", "matmul.tc"]
    assert (tmp_path / "matmul.tc").read_bytes() == gallery.path("seeds/matmul.tc").read_bytes()


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["softmax"], "'softmax' is not in the gallery: expected a name that `graphfuse gallery` lists; did you mean"),
        (["../demo.py"], "'../demo.py' is not in the gallery: expected a name that `graphfuse gallery` lists\n"),
        (["topk.tc", "softmax.tc"], "softmax.tc is here already, and is another file"),
        (["seeds/matmul.tc", "ops/matmul.tc"], "'seeds/matmul.tc' and 'ops/matmul.tc' have one name: expected"),
    ],
)
def test_what_it_refuses(tmp_path, monkeypatch, capsys, names, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "softmax.tc").write_text("mine")
    assert main(["gallery", *names]) == 2
    assert says in capsys.readouterr().err
    assert [p.read_text() for p in tmp_path.iterdir()] == ["mine"]
