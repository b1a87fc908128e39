"""`graphfuse kernel`: -D options, stages, runs, checks, tuning."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from graphfuse.cli import main
from graphfuse.cli.kernel import split_defines

SCALE = """
__global__ void scale(TYPE *x __readonly, TYPE *y __multipleof_y, int n, float a) {
  int o[SIZE] = get_program_id(0) * SIZE + 0 ... SIZE;
  *?(o < n) (y + o) = a * *?(o < n) (x + o);
}
""".replace(" __multipleof_y", "")
RUN = ["--grid", "(n + SIZE - 1) / SIZE", "--arg", "n=100", "--arg", "a=2.5", "--arg", "x=arange(n)"]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GRAPHFUSE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "scale.tc"
    path.write_text(SCALE)
    return str(path)


def test_defines_are_taken_off_the_line() -> None:
    words = ["f.tc", "-DTM=[32,", "64]", "--run", "-D", "TYPE=half", "-DX", "--arg", "n=1"]
    assert split_defines(words) == (
        ["-DTM=[32,", "64]", "-D", "TYPE=half", "-DX"],
        ["f.tc", "--run", "--arg", "n=1"],
    )


def test_what_a_file_has(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", file, "-DTYPE=float", "-DSIZE=32"]) == 0
    assert capsys.readouterr().out == f"{file}: kernel scale(float* x, float* y, int n, float a)\n"


@pytest.mark.parametrize(
    ("stage", "target", "part"),
    [
        ("tokens", "cpu", "get_program_id"),
        ("ast", "cpu", "(unit"),
        ("block", "cpu", "block.store_view"),
        ("llvm", "cpu", "define void @scale"),
        ("asm", "cpu", "scale:"),
        ("ptx", "cuda:sm_80", ".target sm_80"),
        ("sass-info", "cuda:sm_90a", "registers: "),
    ],
)
def test_stages(file: str, stage: str, target: str, part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", file, "-DTYPE=float", "-DSIZE=32", "--emit", stage, "--target", target]) == 0
    assert part in capsys.readouterr().out


@pytest.mark.parametrize("device", ["cpu", "emulator"])
def test_a_run(file: str, device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_once(file, device, tmp_path, capsys)


def run_once(file: str, device: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--run` computes, saves, and says what it has found."""
    out = folder / "y.npy"
    args = [*RUN, "--arg", "y=zeros(n)", "--save", f"y={out}", "--json", "--device", device]
    assert main(["kernel", file, "-DTYPE=float", "-DSIZE=32", "--run", *args]) == 0
    np.testing.assert_array_equal(np.load(out), 2.5 * np.arange(100, dtype=np.float32))
    found = json.loads(capsys.readouterr().out)
    assert found["arrays"][0]["max"] == 247.5


@pytest.mark.parametrize("device", ["cpu", "emulator"])
def test_checks(file: str, device: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["kernel", file, "-DTYPE=float", "-DSIZE=32", "--check", "--device", device, *RUN]
    assert main([*line, "--arg", "y=empty(n)"]) == 0
    assert capsys.readouterr().out == "no findings\n"
    assert main([*line, "--arg", "y=zeros(n - 1)"]) == 1
    assert f"{file}:4:" in (err := capsys.readouterr().err)
    assert "element 99 is outside of y, which has 99" in err
    swapped = [a.replace("x=arange(n)", "x=empty(n)") for a in line]
    assert main([*swapped, "--arg", "y=zeros(n)"]) == 1
    assert "read of uninitialised element 0" in capsys.readouterr().err


def test_tuning(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = tmp_path / "scale.lock"
    line = ["kernel", file, "-DTYPE=float", "-DSIZE=[16,", "64]", "--tune", "--lock", str(lock), *RUN]
    assert main([*line, "--arg", "y=zeros(n)"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sorted(re.findall(r"SIZE=\d+", "".join(lines[:2]))) == ["SIZE=16", "SIZE=64"]
    assert "SIZE=" in lock.read_text()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--arg", "q=1"], "--arg: the kernel has no parameter 'q'"),
        (["--arg", "n=1"], "--arg: no value for 'x' (f32 *x)"),
        (["--arg", "n"], "--arg: expected NAME=VALUE, got 'n'"),
        ([*RUN, "--arg", "y=zeros(m)"], "--arg y: 'm': 'm' has no value here"),
        ([*RUN, "--arg", "y=full(3)"], "--arg y: expected FILE.npy or one of random(...), zeros(...)"),
        ([*RUN, "--arg", "y=none.npy"], "none.npy: error: cannot read"),
        ([*RUN, "--arg", "y=zeros(n)", "--save", "z=z.npy"], "--save: expected NAME=FILE.npy with one of x, y"),
        (["--emit", "ptx"], "--emit ptx: expected a --target such as cuda:sm_90a, got 'cpu'"),
        (["--name", "other"], "there is no kernel 'other': expected one of scale"),
    ],
)
def test_options_that_do_not_fit(file: str, args: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", file, "-DTYPE=float", "-DSIZE=32", "--run", *args]) != 0
    assert message in capsys.readouterr().err


def test_errors_of_a_source(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", file, "-DTYPE=float"]) != 0
    err = capsys.readouterr().err
    assert f"{file}:3:9: error: " in err
    assert "SIZE" in err
    assert main(["kernel", file, "-DTYPE=float", "--json"]) != 0
    assert json.loads(capsys.readouterr().out)[0]["line"] == 3


def test_names_of_variables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "sum.tc"
    source.write_text(
        "__global__ void k(float *x, int n) {\n  float acc[16] = 0;\n"
        "  for (int i = 0; i < n; i += 16) acc += *(x + i + 0 ... 16);\n  *(x + 0 ... 16) = acc;\n}\n"
    )
    assert main(["kernel", str(source), "--emit", "block"]) == 0
    out = capsys.readouterr().out
    assert "%acc = block.const()" in out
    assert re.search(r"%acc_\d+ = for\(", out)


def test_warnings(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["kernel", file, "-DTYPE=float", "-DSIZE=32", "-DOLD=1-DTYPE=float"]
    assert main(line) == 0
    err = capsys.readouterr().err
    assert err.count("[glued-defines]") == err.count("[unused-define]") == 1
    assert main([*line, "-Wno-unused-define"]) == 0
    assert "unused-define" not in capsys.readouterr().err
    assert main([*line, "-Werror=unused-define"]) == 3
    assert "error: -DOLD is never used" in capsys.readouterr().err
    assert main([*line, "-Werror"]) == 3
    assert "error: blank missing between -D options" in capsys.readouterr().err
    assert main([*line, "-Werror=unused-define", "--emit", "tokens"]) == 3
    assert "error: -DOLD is never used" in capsys.readouterr().err
    assert main([*line, "-Wunused"]) != 0
    assert "-Wunused: there is no warning 'unused'" in capsys.readouterr().err


def test_lint(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", file, "-DTYPE=[float,half]", "-DSIZE=[32,64]", "--require", "SIZE < 64", "--lint"]) == 0
    assert capsys.readouterr().out == f"{file}: no errors: 2 points, 0 branches, 2 configurations\n"
    split = tmp_path / "split.tc"
    split.write_text("__global__ void k(int *c) {\n#if TZ > 1\n  *c = *locks;\n#endif\n}\n")
    assert main(["kernel", str(split), "-DTZ=1", "--lint"]) == 3
    assert capsys.readouterr().err.splitlines()[0::3] == [
        f"{split}:3:9: error: 'locks' is not defined [undefined]",
        "note: with -DTZ=2",
    ]
