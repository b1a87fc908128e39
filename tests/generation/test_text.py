"""Text from tokens that are parts of characters, and stop strings that are parts of tokens or span several."""

from __future__ import annotations

import json
import sys
from itertools import pairwise

import numpy as np
import pytest

from graphfuse.errors import FileError, ParseError, UsageError
from graphfuse.generation import FileTokenizer
from graphfuse.generation.text import TextStream


class Pieces:
    """A token is one of some bytes strings."""

    def __init__(self, *pieces):
        self.pieces = pieces

    def encode(self, text):
        return [self.pieces.index(text.encode())]

    def decode(self, ids):
        return b"".join(self.pieces[i] for i in ids).decode(errors="replace")


def streamed(pieces, stops=()):
    """What each token gives, and what is left; nothing behind a stop."""
    stream, out = TextStream(Pieces(*pieces), stops), []
    for token in range(len(pieces)):
        text, stopped = stream.push(token)
        out.append(text)
        if stopped:
            return out, None
    return out, stream.flush()


def test_characters_of_several_tokens():
    text = "a€𝄞ü"
    whole = text.encode()
    assert streamed([whole[i : i + 1] for i in range(len(whole))]) == (
        ["a", "", "", "€", "", "", "", "𝄞", "", "ü"],
        "",
    )
    assert streamed([b"a", b"\xe2\x82"]) == (["a", ""], "\ufffd")


def test_a_stop_string_that_spans_tokens():
    assert streamed([b"one ", b"EN", b"D", b" two"], ["END"]) == (["one ", "", ""], None)
    assert streamed([b"one E", b"N", b"ough"], ["END"]) == (["one ", "", "ENough"], "")
    assert streamed([b"one E", b"N"], ["END"]) == (["one ", ""], "EN")
    assert streamed([b"x END y END"], ["END"]) == (["x "], None)


def test_the_first_stop_string_to_be_complete_ends_it():
    """However the text is cut: one that began earlier is not waited for."""
    for pieces in ([b"zabcd"], [b"za", b"b", b"c", b"d"], [b"zab", b"cd"]):
        out, left = streamed(pieces, ["abcd", "bc"])
        assert ("".join(out), left) == ("za", None)
    assert "".join(streamed([b"zabc"], ["bc", "abc"])[0]) == "z"


def test_stop_strings_of_random_texts():
    rng = np.random.default_rng(0)
    for _ in range(300):
        text = "".join(rng.choice(list("ab"), 12))
        stops = ["".join(rng.choice(list("ab"), rng.integers(2, 5))) for _ in range(2)]
        cuts = [0, *sorted(rng.integers(0, 13, 3)), 12]
        pieces = [text[a:b].encode() for a, b in pairwise(cuts)]
        ends = sorted((text.find(s) + len(s), text.find(s)) for s in stops if s in text)
        out, left = streamed(pieces, stops)
        assert "".join(out) + (left or "") == (text[: ends[0][1]] if ends else text)
        assert (left is None) == bool(ends)


def test_without_a_tokenizer():
    stream = TextStream(None)
    assert (stream.push(3), stream.flush()) == (("", False), "")


def test_a_file(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {"[BOS]": 0, "▁one": 1, "▁two": 2, "[UNK]": 3}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    made.decoder = tokenizers.decoders.Metaspace()
    made.add_special_tokens(["[BOS]"])
    made.post_processor = tokenizers.processors.TemplateProcessing(single="[BOS] $A", special_tokens=[("[BOS]", 0)])
    made.save(str(tmp_path / "tokenizer.json"))
    tokenizer = FileTokenizer(tmp_path / "tokenizer.json")
    assert tokenizer.encode("one two") == [0, 1, 2]
    assert tokenizer.decode([0, 1, 2]) == "one two"
    stream = TextStream(tokenizer)
    assert [stream.push(t)[0] for t in (0, 1, 2, 2)] == ["", "one", " two", " two"]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (None, FileError, "tokenizer.json: error: cannot read: no such file or directory"),
        ("{", ParseError, "tokenizer.json: error: not a tokenizer: "),
        (json.dumps({"model": 3}), ParseError, "tokenizer.json: error: not a tokenizer: "),
    ],
)
def test_files_that_are_none(tmp_path, text, error, message):
    pytest.importorskip("tokenizers")
    if text is not None:
        (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(error, match=message):
        FileTokenizer(tmp_path / "tokenizer.json")


def test_without_tokenizers(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UsageError, match=r"tokenizers is not installed: pip install 'graphfuse\[text\]'"):
        FileTokenizer(tmp_path / "tokenizer.json")
