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


# PTX of any compiler

REFERENCE = """import numpy as np
def reference(x, y, *_):
    y[:] = 2.5 * x
"""


def test_check_of_ptx(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Right, out of bounds, other numbers than the reference's; as text and as data."""
    line = ["kernel", file, "-DTYPE=float", "-DSIZE=32", "--target", "cuda:sm_80", "--num-warps", "1"]
    assert main([*line, "-g", "--emit", "ptx"]) == 0
    ptx, reference, out = tmp_path / "scale.ptx", tmp_path / "reference.py", tmp_path / "y.npy"
    ptx.write_text(capsys.readouterr().out)
    reference.write_text(REFERENCE)
    count = len(set(re.findall(r"scale_param_\d+", ptx.read_text())))
    values = ["f32:random(100)", "f32:empty(100)", "100", "2.5", *["0"] * (count - 4)]
    check = ["check", str(ptx), "--grid", "4", "--reference", str(reference)]
    args = [w for v in values for w in ("--arg", v)]
    assert main([*check, *args, "--save", f"scale_param_1={out}"]) == 0
    assert capsys.readouterr().out.endswith("no findings\n")
    assert np.load(out).shape == (100,)
    short = [w.replace("empty(100)", "empty(99)") for w in args]
    assert main([*check, *short, "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert (found["kind"], found["element"], found["at"]["file"], found["at"]["line"]) == ("out-of-bounds", 99, file, 4)
    reference.write_text(REFERENCE.replace("2.5", "2.75"))
    assert main([*check, *args]) == 1
    assert "error: element 0 of scale_param_1: found " in (err := capsys.readouterr().err)
    assert "100 of 100 are off by more than 0.0001" in err
    for text, message in (
        ("1 / 0", "error: the file raised ZeroDivisionError: division by zero"),
        ("x = 1", "error: expected a function `reference(...)` of all arguments"),
        ("def reference(): pass", "the reference raised TypeError: reference() takes 0 positional arguments"),
    ):
        reference.write_text(text)
        assert main([*check, *args]) == 2
        assert message in capsys.readouterr().err
    short = [w.replace("f32:random(100)", str(out)) for w in args]
    assert main([*check[:-2], *short]) == 0
    assert main(["kernel", file, "-g", "--tune", "-DTYPE=float", "-DSIZE=32", *RUN, "--arg", "y=zeros(n)"]) == 2
    assert "-g: expected one configuration and no --tune" in capsys.readouterr().err


def test_check_of_ptx_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ptx = tmp_path / "k.ptx"
    ptx.write_text(".version 8.0\n.target sm_80\n.visible .entry k(.param .u64 k_param_0) {\n\tret;\n}\n")
    for args, message in (
        ([], "--block: expected the threads of a block: the file requires none"),
        (["--block", "32"], "--arg: no value for 'k_param_0' of k_param_0"),
        (["--block", "32", "--arg", "1", "--arg", "2"], "--arg 2: expected one for each of k_param_0"),
        (["--block", "32", "--arg", "q=1"], "--arg q=1: expected one for each of k_param_0"),
        (["--block", "32", "--arg", "f32"], "expected a number, FILE.npy or one of ELEM:random(...)"),
        (["--block", "32", "--arg", "f32:zeros(4"], "expected FILE.npy or one of random(...)"),
        (["--block", "32", "--grid", "-3", "--arg", "0"], "grid (-3, 1, 1), block (32, 1, 1): expected positive sizes"),
        (["--block", "32", "--shared", "300000", "--arg", "0"], "300000 bytes of shared memory: a block has at most"),
        (["--kernel", "q", "--block", "32"], "--kernel: expected one of k, found q"),
        (
            ["--block", "32", "--arg", "0", "--reference", "nothing.py"],
            "expected a file of Python with a function `reference`",
        ),
        (
            ["--block", "32", "--arg", "0", "--save", "k_param_0=x.npy"],
            "--save: expected NAME=FILE.npy with one of none",
        ),
    ):
        assert main(["check", str(ptx), *args]) in (1, 2, 9), args
        assert message in capsys.readouterr().err
    assert main(["check", str(ptx), "--block", "32", "--arg", "0"]) == 0
    ptx.write_text("nothing")
    assert main(["check", str(ptx), "--block", "32"]) == 8


def test_what_is_emitted_for_a_launch_knows_its_arguments(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Addresses and sizes that are multiples of 16 bytes let loads be vectors; for any launch they may not be."""

    def ptx(*args: str) -> str:
        given = ["kernel", file, "-DTYPE=float", "-DSIZE=1024", "--target", "cuda:sm_80", "--emit", "ptx"]
        assert main([*given, *args]) == 0
        return capsys.readouterr().out

    args = ("--arg", "x=random(4096)", "--arg", "y=empty(4096)", "--arg", "a=2.5", "--grid", "4")
    assert "v4.b32" not in ptx() and "v4.b32" in ptx(*args, "--arg", "n=4096")
    assert main(["kernel", file, "-DTYPE=float", "-DSIZE=32", "--emit", "block", *args]) == 2
    assert "n" in capsys.readouterr().err
