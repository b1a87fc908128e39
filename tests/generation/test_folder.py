"""Folders as ONNX Runtime GenAI's builder writes them, and `graphfuse generate` on them and on files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

import graphfuse
from graphfuse import generation
from graphfuse.cli import generate, main
from graphfuse.errors import ArtifactError, FileError, GraphfuseError, ParseError, UnsupportedError, UsageError
from graphfuse.generation import Folder, GenerationConfig, Interface
from graphfuse.knobs import scope
from graphfuse.runtime import gfx
from models import _genai
from tests.generation.decoders import CONFIG, SMALLER, STATE, greedy, growing, save, shared

tokenizers = pytest.importorskip("tokenizers")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz .,!?'"


def write_tokenizer(path):
    """A token for each character; the first one begins a prompt."""
    vocabulary = {"<s>": 0, **{letter: i + 1 for i, letter in enumerate(LETTERS)}}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<s>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex("."), "isolated")
    made.decoder = tokenizers.decoders.Fuse()
    made.add_special_tokens(["<s>"])
    made.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    made.save(str(path))
    return path


def said(tokens):
    return "".join(LETTERS[t - 1] for t in tokens if t)


def config(**search):
    """As the builder writes it, what is of no use here too."""
    made = _genai.settings(CONFIG, 80)
    made["model"]["eos_token_id"] = [0, 57]
    return {**made, "search": {**made["search"], **search}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("genai")
    save(shared(), made / "model.onnx")
    (made / "genai_config.json").write_text(json.dumps(config()))
    write_tokenizer(made / "tokenizer.json")
    return made


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("GRAPHFUSE_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def test_a_folder(folder):
    read = Folder.read(folder)
    assert (read.model, read.tokenizer, read.context_length) == (folder / "model.onnx", folder / "tokenizer.json", 80)
    assert read.config == GenerationConfig(eos_token_ids=(0, 57))
    generator = generation.load(folder)
    assert generator.decoder.is_shared
    (found,) = generator.generate("Once", max_new_tokens=20)
    prompt = [0, *(LETTERS.index(c) + 1 for c in "Once")]
    wanted = greedy("shared", prompt, 20)
    ends = [i for i, t in enumerate(wanted) if t in (0, 57)]
    assert list(found.tokens) == wanted[: ends[0] + 1 if ends else 20]
    with pytest.raises(GraphfuseError, match="expected up to 80 tokens, of a prompt and max_new_tokens together"):
        generator.stream("Once", max_new_tokens=76)


def test_what_the_search_says(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"")
    given = config(do_sample=True, repetition_penalty=1.1)
    given["model"]["eos_token_id"] = 3
    given["model"]["decoder"]["inputs"] = {"input_ids": "ids", "past_key_names": "k%d"}
    given["model"]["decoder"]["outputs"] = {"present_key_names": "new_k%d"}
    (tmp_path / "genai_config.json").write_text(json.dumps(given))
    read = Folder.read(tmp_path)
    wanted = GenerationConfig(temperature=0.6, top_k=1, top_p=0.9, repetition_penalty=1.1, eos_token_ids=(3,))
    assert (read.config, read.tokenizer) == (wanted, None)
    caches = ("k%d", "new_k%d"), ("past_key_values.%d.value", "present.%d.value")
    assert read.interface == Interface("ids", caches=caches)


def test_files(tmp_path, folder):
    """An ONNX model whose caches grow; artifacts, with what lies beside them, of both kinds."""
    save(growing(), tmp_path / "grows.onnx")
    write_tokenizer(tmp_path / "tokenizer.json")
    generator = generation.load(tmp_path / "grows.onnx")
    assert not generator.decoder.is_shared
    (found,) = generator.generate("Hi", max_new_tokens=12)
    assert list(found.tokens) == greedy("growing", [0, 8, 35], 12)
    graphfuse.compile(tmp_path / "grows.onnx").save(tmp_path / "grows.gfx")
    assert generation.load(tmp_path / "grows.gfx").generate("Hi", max_new_tokens=12) == [found]
    with pytest.raises(UsageError, match="precision: .*grows.gfx is an artifact: expected a model to compile"):
        generation.load(tmp_path / "grows.gfx", precision="f16")
    graphfuse.compile(folder / "model.onnx", state=STATE).save(tmp_path / "shared.gfx")
    generator = generation.load(tmp_path / "shared.gfx", tokenizer=folder / "tokenizer.json", context_length=30)
    assert (generator.decoder.is_shared, generator.decoder.context_length) == (True, 30)
    assert list(generator.generate([5, 4], max_new_tokens=8)[0].tokens) == greedy("shared", [5, 4], 8)


@pytest.mark.parametrize("mode", [None, "mapped"])
def test_weights_are_checked_when_they_are_loaded(mode, tmp_path, folder):
    path = tmp_path / "shared.gfx"
    graphfuse.compile(folder / "model.onnx", state=STATE).save(path)
    weights = gfx._opened(path, "checked").view("weights")
    data = bytearray(path.read_bytes())
    data[weights.begin + weights.length - 1] ^= 1
    path.write_bytes(data)
    with scope(weights=mode), pytest.raises(ArtifactError, match=r"shared\.gfx: error: weights are corrupted"):
        generation.load(path)


def change(text, path, value):
    """The config with another value at a path; without it for None."""
    made = json.loads(text)
    *way, last = path.split(".")
    node = made
    for name in way:
        node = node[name]
    if value is None:
        del node[last]
    else:
        node[last] = value
    return json.dumps(made)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        (lambda t: None, FileError, "genai_config.json: error: cannot read: no such file or directory"),
        (lambda t: "{\n3", ParseError, "genai_config.json:2:1: error: not JSON: expecting property name"),
        (lambda t: "[" * 100_000, ParseError, "genai_config.json: error: not JSON that can be read: it is too deep"),
        (lambda t: "[]", ParseError, "genai_config.json: error: expected an object, found list"),
        (lambda t: change(t, "model", 3), ParseError, "genai_config.json: error: model: expected an object, found int"),
        (
            lambda t: change(t, "model.decoder.filename", None), ParseError,
            "genai_config.json: error: model.decoder.filename: expected a value, found none",
        ),
        (
            lambda t: change(t, "model.decoder.filename", 3), ParseError,
            "genai_config.json: error: model.decoder.filename: expected a text, found 3",
        ),
        (lambda t: change(t, "model.decoder.filename", "no.onnx"), FileError, "no.onnx: error: no such file"),
        (
            lambda t: change(t, "model.decoder.inputs.input_ids", "ids"), UsageError,
            "not a decoder: expected an input 'ids', found input_ids, attention_mask",
        ),
        (
            lambda t: change(t, "model.eos_token_id", ["a"]), ParseError,
            "genai_config.json: error: eos_token_ids: expected an integer, found 'a'",
        ),
        (
            lambda t: change(t, "model.context_length", 1.5), ParseError,
            "genai_config.json: error: model.context_length: expected an integer, found 1.5",
        ),
        (
            lambda t: change(t, "search.repetition_penalty", "1"), ParseError,
            "genai_config.json: error: repetition_penalty: expected a number, found '1'",
        ),
        (
            lambda t: change(t, "search.repetition_penalty", 0), ParseError,
            "genai_config.json: error: repetition_penalty: expected a number above 0, found 0",
        ),
        (
            lambda t: change(t, "search.num_beams", 4), UnsupportedError,
            "genai_config.json: error: search.num_beams: expected 1, found 4",
        ),
    ],
)  # fmt: skip
def test_folders_that_are_none(tmp_path, folder, changed, error, message):
    (tmp_path / "model.onnx").symlink_to(folder / "model.onnx")
    if (text := changed((folder / "genai_config.json").read_text())) is not None:
        (tmp_path / "genai_config.json").write_text(text)
    with pytest.raises(error) as e:
        generation.load(tmp_path)
    assert message in str(e.value)


def test_nothing_there(tmp_path):
    with pytest.raises(FileError, match="nowhere: error: cannot read: no such file or directory"):
        generation.load(tmp_path / "nowhere")
    (tmp_path / "m.onnx").write_bytes(b"no model")
    with pytest.raises(ParseError, match="m.onnx: error: not an ONNX model"):
        generation.load(tmp_path / "m.onnx")
    with pytest.raises(UsageError, match="context_length: expected a number of at least 1, found 0"):
        generation.load(tmp_path / "m.onnx", context_length=0)


# the command line


def run(capsys, *args):
    code = main(["generate", *map(str, args)])
    out, err = capsys.readouterr()
    return code, out, err


FIGURES = re.compile(r"\d+ prompt tokens, first token after \d+\.\d{3} s; \d+ tokens, [\d.]+ tokens/s")


def test_a_prompt(capsys, folder):
    code, out, err = run(capsys, folder, "--prompt", "Once", "--max-new-tokens", 10)
    text = generation.load(folder).generate("Once", max_new_tokens=10)[0].text
    assert (code, out) == (0, f"{text}\n")
    assert FIGURES.fullmatch(err.strip())
    assert run(capsys, folder, "--prompt", "Once", "--max-new-tokens", 10, "--quiet") == (0, out, "")


def test_several_prompts(capsys, folder):
    """Each on its own lines, in their order; as JSON with the tokens."""
    args = [folder, "--prompt", "Once", "--prompt", "A", "--temperature", 1.5, "--seed", 7, "--max-new-tokens", 9]
    args += ["--top-k", 30, "--top-p", 0.95, "--repetition-penalty", 1.1, "--eos-token-id", 99]
    code, out, _ = run(capsys, *args)
    found = json.loads(run(capsys, *args, "--json")[1])
    assert code == 0
    assert out == "".join(f"{row['text']}\n" for row in found)
    assert [row["prompt"] for row in found] == ["Once", "A"]
    assert [row["text"] for row in found] == [said(row["tokens"]) for row in found]
    options = {"temperature": 1.5, "seed": 7, "max_new_tokens": 9, "top_k": 30, "top_p": 0.95}
    rows = generation.load(folder).generate(["Once", "A"], repetition_penalty=1.1, eos_token_ids=(99,), **options)
    assert [row["tokens"] for row in found] == [list(row.tokens) for row in rows]
    assert [row["finish_reason"] for row in found] == [row.finish_reason for row in rows]


def test_stops_and_drafts(capsys, folder, tmp_path):
    save(shared(SMALLER, 3), tmp_path / "draft.onnx")
    plain = run(capsys, folder, "--prompt", "Once", "--max-new-tokens", 24, "--eos-token-id", 99)[1]
    drafted = [
        folder,
        "--prompt",
        "Once",
        "--max-new-tokens",
        24,
        "--draft",
        tmp_path / "draft.onnx",
        "--draft-tokens",
        3,
    ]
    code, out, err = run(capsys, *drafted, "--eos-token-id", 99)
    assert (code, out) == (0, plain)
    assert re.search(r"; \d+ of \d+ draft tokens accepted\n", err)
    stop = plain[6:9]
    code, out, _ = run(capsys, *drafted, "--eos-token-id", 99, "--stop", stop)
    assert (code, out) == (0, plain[: plain.find(stop)] + "\n")


def test_a_file_and_its_tokenizer(capsys, folder, tmp_path):
    save(growing(), tmp_path / "grows.onnx")
    args = ["--prompt", "Hi", "--max-new-tokens", 5, "--device", "cpu", "--context-length", 40, "--quiet"]
    assert run(capsys, tmp_path / "grows.onnx", *args) == (
        2, "", "error: prompt 0 is a text, and there is no tokenizer: expected token ids\n",
    )  # fmt: skip
    code, out, _ = run(capsys, tmp_path / "grows.onnx", "--tokenizer", folder / "tokenizer.json", *args)
    assert (code, out) == (0, said(greedy("growing", [0, 8, 35], 5)) + "\n")


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        ([], 2, "error: missing option '--prompt'"),
        (["--prompt", "A", "--top-k", 3], 2,
         "error: --top-k: the likeliest token is taken: expected a --temperature above 0"),
        (["--prompt", "A", "--top-p", 0.5, "--temperature", 0], 2,
         "error: --top-p: the likeliest token is taken: expected a --temperature above 0"),
        (["--prompt", "A", "--top-p", 2, "--temperature", 1], 2,
         "error: top_p: expected a number above 0 and at most 1, found 2.0"),
        (["--prompt", "A" * 60, "--max-new-tokens", 30], 6,
         "error: expected up to 80 tokens, of a prompt and max_new_tokens together, found 61 and 30"),
        (["--prompt", "A", "--tokenizer", "nowhere.json"], 9,
         "nowhere.json: error: cannot read: no such file or directory"),
        (["--prompt", "A", "--draft", "nowhere"], 9, "nowhere: error: cannot read: no such file or directory"),
        (["--prompt", "A", "--device", "tpu"], 2, "error: unknown device 'tpu'"),
        (["--prompt", "A", "--target", "z80"], 8, "error: unknown target 'z80'"),
    ],
)  # fmt: skip
def test_lines_that_are_wrong(capsys, folder, args, code, message):
    found, out, err = run(capsys, folder, *args)
    assert (found, out, err.count("\n")) == (code, "", 1)
    assert err.startswith(message)


def test_a_reader_that_goes_away(folder):
    command = [sys.executable, "-m", "graphfuse", "generate", str(folder), "--prompt", "A", "--max-new-tokens", "9"]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False, timeout=120)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_interrupt(capsys, folder, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(generation.Stream, "__next__", interrupted)
    code, out, err = run(capsys, folder, "--prompt", "A", "--max-new-tokens", 9)
    assert (code, out, err.strip()) == (130, "", "interrupted")


def test_a_terminal(capsys, folder, monkeypatch):
    """A line that changes on stderr, if the text goes elsewhere; what would move a cursor is shown instead."""
    monkeypatch.setattr(generate, "SECONDS", 0.0)
    args = [folder, "--prompt", "Once", "--max-new-tokens", 10, "--eos-token-id", 99]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert re.search(r"\r3 tokens, [\d.]+ tokens/s\r4 tokens", run(capsys, *args)[2])
    assert "\r3 tokens" not in run(capsys, *args, "--quiet")[2]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "\r3 tokens" not in run(capsys, *args)[2]
    generate._write("\x1b[2J\n")
    assert capsys.readouterr().out == "\\x1b[2J\n"
